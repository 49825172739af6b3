//! The databases that contain the log and the state.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use minikv::fs::Fs;
use minikv::{Db, Keyspace, Readable};
use openraft::LogId;

use crate::store::error::{Error, Result};
use crate::store::home::{Home, Layout, state_name};
use crate::store::{damage, files, keys};

/// The database that contains the state. After another state has replaced this one, dropping the
/// last reference removes the directory of this one.
pub struct State {
    fs: Arc<dyn Fs>,
    pub(crate) dir: PathBuf,
    pub(crate) number: u64,
    obsolete: AtomicBool,
    /// The keyspaces. `None` only while the state is being dropped.
    spaces: Option<Spaces>,
}

pub(crate) struct Spaces {
    pub(crate) db: Db,
    pub(crate) state: Keyspace,
    pub(crate) data: Keyspace,
    pub(crate) sessions: Keyspace,
}

impl State {
    pub(crate) fn open(home: &Home, number: u64, create: bool) -> Result<State> {
        let dir = home.dir.join(state_name(number));
        let options = home.options.clone().create_if_missing(create);
        let db = match home.layout {
            // The log is in there.
            Layout::One if !create => {
                damage::open_strictly(&*home.fs, &dir, &options, home.layout)?
            }
            _ => Db::open(&dir, options).map_err(Error::damage)?,
        };
        let spaces = Spaces {
            state: db.keyspace(keys::STATE)?,
            data: db.keyspace(keys::DATA)?,
            sessions: db.keyspace(keys::SESSIONS)?,
            db,
        };
        let (fs, obsolete) = (home.fs.clone(), AtomicBool::new(false));
        Ok(State { fs, dir, number, obsolete, spaces: Some(spaces) })
    }

    pub(crate) fn spaces(&self) -> &Spaces {
        self.spaces.as_ref().expect("a state has its database until it is dropped")
    }

    /// Returns the database that contains the state.
    pub fn db(&self) -> &Db {
        &self.spaces().db
    }

    /// Returns the keyspace that contains the user's entries.
    pub fn data(&self) -> &Keyspace {
        &self.spaces().data
    }

    /// Returns the keyspace that contains the state machine's records of its clients.
    pub fn sessions(&self) -> &Keyspace {
        &self.spaces().sessions
    }

    /// Returns the id of the last entry that was applied.
    ///
    /// # Errors
    /// Errors of the database; [`Error::Format`](crate::store::Error::Format) if the stored id is
    /// damaged.
    pub fn applied(&self) -> Result<Option<LogId<u64>>> {
        let id = self.spaces().state.get(keys::APPLIED)?;
        id.map(|bytes| keys::decode_log_id(keys::APPLIED, &bytes)).transpose()
    }

    pub(crate) fn make_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("State").field(&self.dir).finish()
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.spaces = None;
        if self.obsolete.load(Ordering::Acquire) {
            // If the removal fails, the next open removes the remaining files.
            let _ = files::remove_tree(&*self.fs, &self.dir);
        }
    }
}

/// The keyspaces that contain the log.
#[derive(Clone)]
pub(crate) struct Log {
    pub(crate) db: Db,
    pub(crate) entries: Keyspace,
    pub(crate) meta: Keyspace,
}

impl Log {
    pub(crate) fn of(db: &Db) -> Result<Log> {
        let (entries, meta) = (db.keyspace(keys::LOG)?, db.keyspace(keys::META)?);
        Ok(Log { db: db.clone(), entries, meta })
    }

    pub(crate) fn id(&self, name: &str) -> Result<Option<LogId<u64>>> {
        let id = self.meta.get(name)?;
        id.map(|bytes| keys::decode_log_id(name, &bytes)).transpose()
    }
}

/// The current state and log.
pub(crate) struct Current {
    pub(crate) state: Arc<State>,
    pub(crate) log: Log,
}
