//! The directory of a node.
//!
//! ```text
//! NODE/LIVE                     the layout, and the name of the directory with the state (JSON)
//! NODE/state-000001/            the database with the state, and in the layout `One` also the log
//! NODE/log/                     the database with the log, in the layout `Two`
//! NODE/snapshots/<id>/          a complete snapshot: a database in `db`, and the file `SNAPSHOT`
//! NODE/incoming/                the snapshot that is being received
//! ```
//!
//! A name is made durable after the file or directory that it refers to. So a crash leaves at most
//! a file or directory that nothing refers to, which the next open removes, or a snapshot that is
//! newer than the state, which the next open installs.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use minikv::fs::{DiskFs, Fs};
use minikv::{Db, Keyspace, Options, WriteOptions};
use openraft::LogId;
use serde::{Deserialize, Serialize};

use crate::store::error::{Error, Result};
use crate::store::snapshot::SnapshotDir;
use crate::store::transfer::Incoming;
use crate::store::writer::Writer;
use crate::store::{files, install, keys, snapshot};

const LIVE: &str = "LIVE";
/// The file with the number of the node that owns the directory.
const OWNER: &str = "NODE";
/// The file that exists while a new node's directory is being created.
const NEW: &str = "NEW";
const FORMAT: u32 = 1;
const SMALL_FILE_BYTES: u64 = 1 << 20;

/// Whether the log and the state share a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Both are in one database, so that a sync of the log also covers the state.
    One,
    /// Each has its own database, so that a flush or compaction of one does not affect the other.
    #[default]
    Two,
}

/// The options of a store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Options of the databases. `create_if_missing` is set as needed.
    pub database: Options,
    /// The layout of a new store. An existing store keeps its layout; opening it with a different
    /// one is an error.
    pub layout: Option<Layout>,
    /// The filesystem. Default: the operating system's.
    pub fs: Arc<dyn Fs>,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions { database: Options::default(), layout: None, fs: Arc::new(DiskFs) }
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct LiveFile {
    format: u32,
    layout: Layout,
    state: String,
}

/// The database with the state. Once another state has replaced this one, dropping the last
/// reference to it removes its directory.
pub struct State {
    fs: Arc<dyn Fs>,
    pub(crate) dir: PathBuf,
    pub(crate) number: u64,
    obsolete: AtomicBool,
    /// `None` only while the state is being dropped.
    spaces: Option<Spaces>,
}

pub(crate) struct Spaces {
    pub(crate) db: Db,
    pub(crate) state: Keyspace,
    pub(crate) data: Keyspace,
    pub(crate) sessions: Keyspace,
}

impl State {
    fn open(home: &Home, number: u64, create: bool) -> Result<State> {
        let dir = home.dir.join(state_name(number));
        let db = Db::open(&dir, home.options.clone().create_if_missing(create))?;
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

    /// Returns the database.
    pub fn db(&self) -> &Db {
        &self.spaces().db
    }

    /// Returns the user's entries.
    pub fn data(&self) -> &Keyspace {
        &self.spaces().data
    }

    /// Returns the state machine's records of its clients.
    pub fn sessions(&self) -> &Keyspace {
        &self.spaces().sessions
    }

    /// Returns the id of the last entry that was applied.
    ///
    /// # Errors
    /// Errors of the database; [`Error::Format`] if the stored id is damaged.
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
            // If this fails, the next open removes the rest.
            let _ = files::remove_tree(&*self.fs, &self.dir);
        }
    }
}

/// The keyspaces of the log.
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

/// The parts of a store that never change.
#[derive(Debug)]
pub(crate) struct Home {
    pub(crate) fs: Arc<dyn Fs>,
    pub(crate) dir: PathBuf,
    pub(crate) options: Options,
    pub(crate) layout: Layout,
}

/// The current state and log.
pub(crate) struct Current {
    pub(crate) state: Arc<State>,
    pub(crate) log: Log,
}

/// A node's log and state on disk. Shared by the [`LogStore`](crate::store::LogStore) and the
/// [`StateMachine`](crate::store::StateMachine).
pub struct Store {
    pub(crate) home: Home,
    /// Read-locked during a write to the log or the state, write-locked while a snapshot replaces
    /// the state. Comes after `snapshot` in lock order.
    current: Arc<RwLock<Current>>,
    /// Writes entries and votes.
    pub(crate) writer: Writer,
    /// The current snapshot; locked while a snapshot is being made or installed.
    snapshot: Mutex<Option<SnapshotDir>>,
    /// The transfer of a snapshot that is being received. Comes before `snapshot` in lock order.
    pub(crate) incoming: Mutex<Option<Incoming>>,
}

pub(crate) fn state_name(number: u64) -> String {
    format!("state-{number:06}")
}

impl Home {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(crate) fn snapshots(&self) -> PathBuf {
        self.dir.join("snapshots")
    }

    pub(crate) fn incoming(&self) -> PathBuf {
        self.dir.join("incoming")
    }

    /// Makes the state with this number the one that the next open uses.
    pub(crate) fn set_live(&self, number: u64) -> Result<()> {
        let live = LiveFile { format: FORMAT, layout: self.layout, state: state_name(number) };
        let content = serde_json::to_vec(&live).map_err(|e| Error::format(LIVE, e.to_string()))?;
        files::replace(&*self.fs, &self.dir, LIVE, &content)
    }
}

impl Store {
    /// Opens the store in the directory `dir`, or makes a new one if the directory is empty or
    /// missing.
    ///
    /// # Errors
    /// [`Error::Refused`] if the directory holds anything but a store, or a store with another
    /// layout; errors of the databases and of files.
    pub fn open(dir: impl AsRef<Path>, options: StoreOptions) -> Result<Arc<Store>> {
        let StoreOptions { database, layout, fs } = options;
        let dir = fs.absolute(dir.as_ref()).map_err(Error::file("resolve", dir.as_ref()))?;
        let database = database.fs(fs.clone());
        let mut home = Home { fs, dir, options: database, layout: layout.unwrap_or_default() };
        files::create_dir(&*home.fs, &home.dir)?;
        let number = match read_live(&home)? {
            None => create(&home)?,
            Some(live) => {
                if layout.is_some_and(|wanted| wanted != live.layout) {
                    return Err(Error::Refused(format!(
                        "{}: the layout is {:?}, not {:?}",
                        home.dir.display(),
                        live.layout,
                        home.layout
                    )));
                }
                home.layout = live.layout;
                let number = live.state.strip_prefix("state-").and_then(|n| n.parse().ok());
                number.ok_or_else(|| {
                    Error::format(LIVE, format!("`{}` is not the name of a state", live.state))
                })?
            }
        };
        remove_leftovers(&home, number)?;
        let state = Arc::new(State::open(&home, number, false)?);
        let log = match home.layout {
            Layout::One => Log::of(state.db())?,
            Layout::Two => Log::of(&Db::open(home.path("log"), home.options.clone())?)?,
        };
        let newest = snapshot::clean(&home)?;
        let current = Arc::new(RwLock::new(Current { state, log }));
        let store = Store {
            home,
            writer: Writer::start(current.clone())?,
            current,
            snapshot: Mutex::new(newest.clone()),
            incoming: Mutex::new(None),
        };
        if let Some(newest) = newest {
            let applied = store.state().applied()?;
            if snapshot::read_last_log_id(&newest)? > applied {
                install::replace_state(&store, &newest)?;
            }
        }
        store.finish_purge()?;
        Ok(Arc::new(store))
    }

    /// Returns whether [`Store::open`] would make a new store in `dir`.
    pub(crate) fn is_new(fs: &dyn Fs, dir: &Path) -> Result<bool> {
        let path = dir.join(LIVE);
        Ok(!fs.exists(&path).map_err(Error::file("query", &path))?)
    }

    /// Permanently assigns the store to the node `id`. If a node with another number opened the
    /// store, it could vote again in a term in which the first node has already voted.
    ///
    /// # Errors
    /// [`Error::Refused`] if the store belongs to another node; errors of the file.
    pub(crate) fn claim(&self, id: u64) -> Result<()> {
        let (fs, path) = (&*self.home.fs, self.home.path(OWNER));
        if !fs.exists(&path).map_err(Error::file("query", &path))? {
            return files::replace(fs, &self.home.dir, OWNER, format!("{id}\n").as_bytes());
        }
        let content = files::read(fs, &path, SMALL_FILE_BYTES)?;
        let owner = String::from_utf8_lossy(&content);
        match owner.trim() == id.to_string() {
            true => Ok(()),
            false => Err(Error::Refused(format!(
                "{}: this is the directory of node {}, not of node {id}",
                path.display(),
                owner.trim()
            ))),
        }
    }

    /// Returns the directory.
    pub fn dir(&self) -> &Path {
        &self.home.dir
    }

    /// Returns the layout.
    pub fn layout(&self) -> Layout {
        self.home.layout
    }

    /// Returns the current state. After a snapshot has replaced this state, it stays readable and
    /// no longer changes.
    pub fn state(&self) -> Arc<State> {
        self.current().state.clone()
    }

    /// Waits until everything that was appended to the log before this call is durable. With
    /// [`LogStore::pipelined`](crate::store::LogStore::pipelined), a follower calls this before it
    /// answers that it has accepted entries.
    ///
    /// # Errors
    /// [`Error::Log`] if the log cannot be written.
    pub async fn log_durable(&self) -> Result<()> {
        self.writer.all_durable().await
    }

    /// Returns `committed` if the log is durable up to that entry. Otherwise returns the id of an
    /// earlier durable entry, or `None` if no such id is known. With
    /// [`LogStore::pipelined`](crate::store::LogStore::pipelined), a leader reports entries as
    /// committed to its followers only up to this id.
    pub fn durable_part(&self, committed: LogId<u64>) -> Option<LogId<u64>> {
        self.writer.durable_part(committed)
    }

    /// Returns the database that holds the log.
    pub fn log_db(&self) -> Db {
        self.current().log.db.clone()
    }

    pub(crate) fn current(&self) -> RwLockReadGuard<'_, Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `change` while neither the log nor the state is being written.
    pub(crate) fn with_current<T>(&self, change: impl FnOnce(&mut Current) -> T) -> T {
        change(&mut self.current.write().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn snapshot(&self) -> MutexGuard<'_, Option<SnapshotDir>> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn open_state(&self, number: u64) -> Result<State> {
        State::open(&self.home, number, false)
    }

    /// Removes purged entries that an interrupted purge may have left.
    pub(crate) fn finish_purge(&self) -> Result<()> {
        let current = self.current();
        if let Some(purged) = current.log.id(keys::PURGED)? {
            let range = ..=purged.index.to_be_bytes();
            current.log.entries.delete_range_with(&WriteOptions::default(), range)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.home.dir).finish()
    }
}

fn read_live(home: &Home) -> Result<Option<LiveFile>> {
    let path = home.path(LIVE);
    if !home.fs.exists(&path).map_err(Error::file("query", &path))? {
        return Ok(None);
    }
    let content = files::read(&*home.fs, &path, SMALL_FILE_BYTES)?;
    let live: LiveFile = serde_json::from_slice(&content)
        .map_err(|e| Error::format(path.display().to_string(), e.to_string()))?;
    if live.format != FORMAT {
        let what = format!("the format is {}, but this build knows {FORMAT}", live.format);
        return Err(Error::format(path.display().to_string(), what));
    }
    Ok(Some(live))
}

/// Creates the databases of a new node. The file `NEW` exists until `LIVE` is written. This
/// function removes other files only if `NEW` exists: a node that has lost `LIVE` must not be
/// created again, because it may have voted.
fn create(home: &Home) -> Result<u64> {
    let fs = &*home.fs;
    let names = files::list(fs, &home.dir)?;
    let is_new = names.iter().any(|name| name == NEW);
    if !is_new && !names.is_empty() {
        return Err(Error::Refused(format!(
            "{}: not empty, and without the file {LIVE}: not a store",
            home.dir.display()
        )));
    }
    files::write(fs, &home.path(NEW), b"")?;
    files::sync_dir(fs, &home.dir)?;
    for name in [state_name(1).as_str(), "log"] {
        files::remove_tree(fs, &home.path(name))?;
    }
    drop(State::open(home, 1, true)?);
    if home.layout == Layout::Two {
        drop(Db::open(home.path("log"), home.options.clone().create_if_missing(true))?);
    }
    files::sync_dir(fs, &home.dir)?;
    home.set_live(1)?;
    Ok(1)
}

/// Removes what an interrupted creation of the store, or an interrupted transfer or installation of
/// a snapshot, has left behind.
fn remove_leftovers(home: &Home, number: u64) -> Result<()> {
    let fs = &*home.fs;
    let live = state_name(number);
    for name in files::list(fs, &home.dir)? {
        let path = home.path(&name);
        if name == NEW || name.ends_with(".new") {
            fs.remove(&path).map_err(Error::file("remove", &path))?;
        } else if name == "incoming" || name.starts_with("state-") && name != live {
            files::remove_tree(fs, &path)?;
        }
    }
    Ok(())
}
