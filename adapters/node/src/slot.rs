//! Open databases, which JavaScript objects share with their running calls, and the code that
//! closes these databases.
//!
//! Usually JavaScript closes a database after all calls have ended. Otherwise, the database is
//! closed when its Node.js environment ends (after the running calls have ended) or when the
//! garbage collector frees the JavaScript object (on a separate thread).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::{fs, thread};

use minikv::{Db, Options, ReadOnlyDb, ReadSample, Readable, Reader, Snapshot};

use crate::error::Fault;

/// A database that is open for writing or for reading only.
pub enum Handle {
    Writer(Db),
    Reader(ReadOnlyDb),
}

/// Calls a method of the database, which may be open for writing or for reading only.
macro_rules! either {
    ($handle:expr, $db:ident => $call:expr) => {
        match $handle {
            $crate::slot::Handle::Writer($db) => $call,
            $crate::slot::Handle::Reader($db) => $call,
        }
    };
}
pub(crate) use either;

impl Readable for Handle {
    fn reader(&self) -> Reader<'_> {
        either!(self, db => db.reader())
    }
}

impl Handle {
    /// Returns the database if it is open for writing.
    ///
    /// # Errors
    /// [`Fault::ReadOnly`] if the database is open for reading only.
    pub fn writer(&self) -> Result<&Db, Fault> {
        match self {
            Handle::Writer(db) => Ok(db),
            Handle::Reader(_) => Err(Fault::ReadOnly),
        }
    }

    /// Returns a new snapshot.
    pub fn snapshot(&self) -> Snapshot {
        either!(self, db => db.snapshot())
    }

    fn close(self) -> Result<(), Fault> {
        match self {
            Handle::Writer(db) => Ok(db.close()?),
            Handle::Reader(_) => Ok(()),
        }
    }
}

/// The parameters for opening a database.
pub struct Opening {
    pub path: PathBuf,
    pub options: Options,
    pub is_read_only: bool,
    /// Whether threads may share the database, if it is open for writing.
    pub is_shared: bool,
}

/// The databases shared by threads of this process, by directory. All are open for writing: only
/// they need the one lock, and a thread must get what it has asked for.
static SHARED: Mutex<Option<HashMap<PathBuf, Weak<Handle>>>> = Mutex::new(None);

/// Locks `mutex`, even if a thread panicked while it held the lock.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Opening {
    fn shares(&self) -> bool {
        self.is_shared && !self.is_read_only
    }

    fn open(self) -> Result<Arc<Handle>, Fault> {
        if !self.shares() {
            return self.open_alone();
        }
        let mut shared = lock(&SHARED);
        let shared = shared.get_or_insert_default();
        let path = self.path.clone();
        if let Some(handle) = shared.get(&one_name(&path)).and_then(Weak::upgrade) {
            return Ok(handle);
        }
        let handle = self.open_alone()?;
        // The path can be canonicalized only now, because the directory may not have existed until
        // the database was opened.
        shared.insert(one_name(&path), Arc::downgrade(&handle));
        Ok(handle)
    }

    fn open_alone(self) -> Result<Arc<Handle>, Fault> {
        // `filterAdvice` replays the reads of this database.
        let options = self.options.sample_reads(&ReadSample::new());
        Ok(Arc::new(match self.is_read_only {
            true => Handle::Reader(Db::open_read_only(self.path, options)?),
            false => Handle::Writer(Db::open(self.path, options)?),
        }))
    }
}

/// Returns the canonical path of a directory, or `path` itself if the directory does not exist.
fn one_name(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// An open database.
struct Opened {
    handle: Arc<Handle>,
    is_shared: bool,
}

impl Opened {
    /// Closes the database, unless other threads still use it.
    fn close(self) -> Result<(), Fault> {
        // A thread that opens the same shared database waits for this lock until the database is
        // closed.
        let mut shared = self.is_shared.then(|| lock(&SHARED));
        let Some(handle) = Arc::into_inner(self.handle) else { return Ok(()) };
        if let Some(shared) = shared.as_mut().and_then(|shared| shared.as_mut()) {
            shared.retain(|_, handle| handle.strong_count() > 0);
        }
        handle.close()
    }
}

/// Holds a database while the database is open. Empty otherwise.
#[derive(Default)]
pub struct Slot {
    /// The open database. The lock is held only briefly, so the event loop may wait for it.
    opened: Mutex<Option<Opened>>,
}

impl Slot {
    /// Opens a database.
    pub fn open(&self, opening: Opening) -> Result<(), Fault> {
        let is_shared = opening.shares();
        let handle = opening.open()?;
        *lock(&self.opened) = Some(Opened { handle, is_shared });
        Ok(())
    }

    /// Returns the open database.
    ///
    /// # Errors
    /// [`Fault::NotOpen`] if the database is not open.
    pub fn get(&self) -> Result<Arc<Handle>, Fault> {
        lock(&self.opened).as_ref().map(|opened| opened.handle.clone()).ok_or(Fault::NotOpen)
    }

    /// Closes the database if it is open. All calls must have ended.
    pub fn close(&self) -> Result<(), Fault> {
        let opened = lock(&self.opened).take();
        opened.map_or(Ok(()), Opened::close)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(opened) = lock(&self.opened).take() {
            // Closing a database waits for background work, so it must not run in the garbage
            // collector.
            thread::spawn(move || drop(opened.close()));
        }
    }
}
