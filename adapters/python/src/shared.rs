//! State that the Python objects of one database share, and its release in the right order.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::{io, mem};

use minikv::{Bytes, Comparator, Cursor, Db, Error, ReadOnlyDb, ReadOptions, Result, Snapshot};
use pyo3::prelude::*;
use rustix::fs::Access;

use crate::call;
use crate::error::Fault;
use crate::options::Open;

/// Text of the error of a call on a closed database.
pub const CLOSED: &str = "Database is closed";

/// A database that is open for writing or for reading only.
pub enum Handle {
    Writer(Db),
    Reader(ReadOnlyDb),
}

/// Calls a method that both kinds of database have.
macro_rules! either {
    ($handle:expr, $db:ident => $call:expr) => {
        match $handle {
            $crate::shared::Handle::Writer($db) => $call,
            $crate::shared::Handle::Reader($db) => $call,
        }
    };
}
pub(crate) use either;

impl Handle {
    /// Returns the database if it is open for writing.
    ///
    /// # Errors
    /// Invalid argument, if the database is open for reading only.
    pub fn writer(&self) -> Result<&Db, Fault> {
        match self {
            Handle::Writer(db) => Ok(db),
            Handle::Reader(_) => {
                let what = "the database is open for reading only".to_owned();
                Err(Error::InvalidArgument { what }.into())
            }
        }
    }

    /// Returns the value of `key`.
    pub fn get(&self, options: &ReadOptions, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        Ok(either!(self, db => db.get_with(options, key))?)
    }

    /// Returns a new cursor.
    pub fn cursor(&self, options: &ReadOptions) -> Result<Cursor> {
        either!(self, db => db.cursor_with(options))
    }

    /// Returns a new snapshot.
    pub fn snapshot(&self) -> Snapshot {
        either!(self, db => db.snapshot())
    }
}

/// An iterator or a snapshot, which is released when its database is closed.
pub trait Held: Send + Sync {
    /// Releases what keeps the database open, after waiting for a running call of the object.
    fn give_up(&self);
}

/// Iterators and snapshots by number, and the unused numbers.
#[derive(Default)]
struct HeldObjects {
    objects: Vec<Option<Weak<dyn Held>>>,
    free: Vec<usize>,
}

/// A database, shared by its Python objects. It is released when it is closed, or when the last of
/// these objects is destroyed.
pub struct Shared {
    /// Calls hold this for reading, so that `close` waits for them.
    handle: RwLock<Option<Handle>>,
    is_closed: AtomicBool,
    /// Open iterators and snapshots. No other lock is taken under this one.
    held: Mutex<HeldObjects>,
    /// The order of keys, for the ends of the ranges of iterators.
    pub order: Arc<dyn Comparator>,
    /// The process that opened the database.
    generation: u32,
}

/// A Python object's reference to its database. It may be the last reference.
pub struct Owner(Option<Arc<Shared>>);

impl Owner {
    /// Returns a reference. If it is the last one, dropping it releases the database.
    pub fn new(shared: Arc<Shared>) -> Owner {
        Owner(Some(shared))
    }
}

impl Deref for Owner {
    type Target = Arc<Shared>;

    fn deref(&self) -> &Arc<Shared> {
        self.0.as_ref().expect("a database is there until the end of its object")
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Some(shared) = self.0.take()
            && !shared.is_closed()
        {
            call::at_end(move || drop(shared));
        }
    }
}

/// Databases that are open, so that they can be closed before the interpreter ends.
static OPEN: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// Locks `mutex`, even if an earlier holder has panicked.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns an error if the parent of `path` is missing. minikv would create it; LevelDB does not.
fn check_parent(path: &Path) -> Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() && !parent.exists() => Err(Error::Io {
            op: "open",
            path: path.to_owned(),
            source: Arc::new(io::ErrorKind::NotFound.into()),
        }),
        _ => Ok(()),
    }
}

/// Returns the error of a missing database. If the directory exists but is not writable, returns
/// the error of creating the lock file instead: LevelDB fails at that point, because it creates the
/// lock file first.
fn missing(path: PathBuf) -> Error {
    match rustix::fs::access(&path, Access::WRITE_OK) {
        Err(error) if path.is_dir() => {
            Error::Io { op: "create", path: path.join("LOCK"), source: Arc::new(error.into()) }
        }
        _ => Error::DatabaseMissing { path },
    }
}

impl Shared {
    /// Opens a database for writing.
    pub fn open(with: Open) -> Result<Arc<Shared>, Fault> {
        check_parent(&with.path)?;
        let db = Db::open(with.path, with.options).map_err(|error| match error {
            Error::DatabaseMissing { path } => missing(path),
            error => error,
        })?;
        Ok(Shared::new(Handle::Writer(db), with.order))
    }

    /// Opens a database for reading only.
    pub fn open_read_only(with: Open) -> Result<Arc<Shared>, Fault> {
        let db = Db::open_read_only(with.path, with.options)?;
        Ok(Shared::new(Handle::Reader(db), with.order))
    }

    fn new(handle: Handle, order: Arc<dyn Comparator>) -> Arc<Shared> {
        let shared = Arc::new(Shared {
            handle: RwLock::new(Some(handle)),
            is_closed: AtomicBool::new(false),
            held: Mutex::default(),
            order,
            generation: call::generation(),
        });
        let mut open = lock(&OPEN);
        open.retain(|other| other.strong_count() > 0);
        open.push(Arc::downgrade(&shared));
        shared
    }

    /// Returns whether the database is closed, or about to be.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Relaxed)
    }

    /// Checks that this process is the one that opened the database.
    ///
    /// # Errors
    /// [`Fault::Forked`] if this process was forked from the one that opened the database. In this
    /// process, the work of the other threads stays half done, and both processes would write to
    /// the same files.
    pub fn check_process(&self) -> Result<(), Fault> {
        if self.generation == call::generation() { Ok(()) } else { Err(Fault::Forked) }
    }

    /// Runs `work` with the open database. `close` waits until `work` has ended.
    ///
    /// # Errors
    /// Errors of `work`; [`Fault::Closed`] with the text `closed` if the database is closed.
    pub fn with<T>(
        &self,
        closed: &'static str,
        work: impl FnOnce(&Handle) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.check_process()?;
        let handle = self.handle.read().unwrap_or_else(PoisonError::into_inner);
        work(handle.as_ref().ok_or(Fault::Closed(closed))?)
    }

    /// Registers an object that is to be released when the database is closed, and returns its
    /// number. Must be called inside [`Shared::with`].
    pub fn hold(&self, object: Weak<dyn Held>) -> usize {
        let mut held = lock(&self.held);
        match held.free.pop() {
            Some(number) => {
                held.objects[number] = Some(object);
                number
            }
            None => {
                held.objects.push(Some(object));
                held.objects.len() - 1
            }
        }
    }

    /// Removes an object that was released. Must be called only once for an object, because another
    /// object may get its number.
    pub fn let_go(&self, number: usize) {
        let mut held = lock(&self.held);
        if held.objects.get_mut(number).and_then(Option::take).is_some() {
            held.free.push(number);
        }
    }

    /// Waits for running calls, and then closes the database, its iterators and its snapshots. In a
    /// forked process, only marks the database as closed, because the threads to wait for do not
    /// exist there.
    pub fn close(&self) {
        if self.check_process().is_err() {
            self.is_closed.store(true, Relaxed);
            return;
        }
        let mut handle = self.handle.write().unwrap_or_else(PoisonError::into_inner);
        self.is_closed.store(true, Relaxed);
        let held = mem::take(&mut *lock(&self.held)).objects;
        held.into_iter()
            .flatten()
            .filter_map(|object| object.upgrade())
            .for_each(|object| object.give_up());
        drop(handle.take());
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.check_process().is_err() {
            let handle = self.handle.get_mut().unwrap_or_else(PoisonError::into_inner);
            mem::forget(handle.take());
        }
    }
}

/// Closes all databases. Background threads that call comparators must end before the interpreter
/// ends.
#[pyfunction]
#[pyo3(name = "_close_all")]
pub fn close_all(py: Python<'_>) -> PyResult<()> {
    call::blocking(py, || {
        let open = mem::take(&mut *lock(&OPEN));
        open.iter().filter_map(Weak::upgrade).for_each(|shared| shared.close());
        Ok(())
    })
}
