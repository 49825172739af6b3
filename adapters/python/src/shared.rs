//! State shared by the Python objects of one database, and the code that releases this state: first
//! the iterators and snapshots, and then the database.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::{io, mem};

use minikv::{
    Bytes, Comparator, Db, Error, Options, ReadOnlyDb, ReadOptions, ReadSample, Readable, Reader,
    Result, Snapshot,
};
use pyo3::prelude::*;
#[cfg(unix)]
use rustix::fs::Access;

use crate::call;
use crate::error::Fault;
use crate::options::Open;

/// Message of the error that a call on a closed database returns.
pub const CLOSED: &str = "Database is closed";

/// A database that is open for writing or for reading only.
pub enum Handle {
    Writer(Db),
    Reader(ReadOnlyDb),
}

/// Calls a method of the database, which may be open for writing or for reading only.
macro_rules! either {
    ($handle:expr, $db:ident => $call:expr) => {
        match $handle {
            $crate::shared::Handle::Writer($db) => $call,
            $crate::shared::Handle::Reader($db) => $call,
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
        Ok(self.reading(*options).get(key)?)
    }

    /// Returns whether `key` has a value.
    pub fn contains_key(&self, key: &[u8]) -> Result<bool, Fault> {
        Ok(either!(self, db => db.contains_key(key))?)
    }

    /// Returns a new snapshot.
    pub fn snapshot(&self) -> Snapshot {
        either!(self, db => db.snapshot())
    }
}

/// An iterator or a snapshot, which is released when its database is closed.
pub trait Held: Send + Sync {
    /// Waits until a running call of the object has ended, and then releases the library's object,
    /// which keeps the database open.
    fn give_up(&self);
}

/// Iterators and snapshots by their numbers, and the numbers that are free.
#[derive(Default)]
struct HeldObjects {
    objects: Vec<Option<Weak<dyn Held>>>,
    free: Vec<usize>,
}

/// A database that several Python objects share. The database is released when it is closed, or
/// when the last of these objects is destroyed.
pub struct Shared {
    /// The database, or `None` after it is closed. Calls hold the read lock, so that `close` waits
    /// for them.
    handle: RwLock<Option<Handle>>,
    is_closed: AtomicBool,
    /// Open iterators and snapshots. No other lock is taken while this one is held.
    held: Mutex<HeldObjects>,
    /// The order of keys, which also decides whether a key is in the range of an iterator.
    pub order: Arc<dyn Comparator>,
    /// The generation of the process that opened the database (see [`call::generation`]).
    generation: u32,
}

/// A Python object's reference to its database. The reference may be the last one.
pub struct Owner(Option<Arc<Shared>>);

impl Owner {
    /// Returns a reference to `shared`. Dropping the last reference releases the database.
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

/// Open databases. They must be closed before the interpreter ends.
static OPEN: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// Locks `mutex`, even if a thread panicked while it held the lock.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns an error if the parent directory of `path` is missing. minikv would create this
/// directory; LevelDB does not.
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

/// Returns the error for a missing database. If the directory exists but is not writable, returns
/// the error of creating the lock file instead. LevelDB returns that error, too, because it creates
/// the lock file first.
fn missing(path: PathBuf) -> Error {
    // Windows has no such question: only a write tells.
    #[cfg(unix)]
    if let Err(error) = rustix::fs::access(&path, Access::WRITE_OK)
        && path.is_dir()
    {
        return Error::Io { op: "create", path: path.join("LOCK"), source: Arc::new(error.into()) };
    }
    Error::DatabaseMissing { path }
}

/// Returns `options` with a sample of reads, which `DB.filter_advice` replays.
fn sampled(options: Options) -> Options {
    options.sample_reads(&ReadSample::new())
}

impl Shared {
    /// Opens a database for writing.
    pub fn open(with: Open) -> Result<Arc<Shared>, Fault> {
        check_parent(&with.path)?;
        let db = Db::open(with.path, sampled(with.options)).map_err(|error| match error {
            Error::DatabaseMissing { path } => missing(path),
            error => error,
        })?;
        Ok(Shared::new(Handle::Writer(db), with.order))
    }

    /// Opens a database for reading only.
    pub fn open_read_only(with: Open) -> Result<Arc<Shared>, Fault> {
        let db = Db::open_read_only(with.path, sampled(with.options))?;
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

    /// Returns whether the database is closed, or is about to be closed.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Relaxed)
    }

    /// Checks that this process is the one that opened the database.
    ///
    /// # Errors
    /// [`Fault::Forked`] if this process was forked from the one that opened the database. A forked
    /// process lacks the other threads, whose work is left half done, and both processes would
    /// write to the same files.
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

    /// Registers an object that must be released when the database is closed, and returns the
    /// number of the object. Must be called inside [`Shared::with`].
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

    /// Removes an object that was released. Must be called only once for each object, because its
    /// number may be given to another object.
    pub fn let_go(&self, number: usize) {
        let mut held = lock(&self.held);
        if held.objects.get_mut(number).and_then(Option::take).is_some() {
            held.free.push(number);
        }
    }

    /// Waits for running calls, and then closes the database, its iterators and its snapshots. In a
    /// forked process, only marks the database as closed, because the threads that make these calls
    /// do not exist in that process.
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

/// Closes all databases. Called before the interpreter ends, because background threads that call
/// comparators must end first.
#[pyfunction]
#[pyo3(name = "_close_all")]
pub fn close_all(py: Python<'_>) -> PyResult<()> {
    call::blocking(py, || {
        let open = mem::take(&mut *lock(&OPEN));
        open.iter().filter_map(Weak::upgrade).for_each(|shared| shared.close());
        Ok(())
    })
}
