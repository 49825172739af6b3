//! Iterators and snapshots, which are released when their Python object is destroyed or their
//! database is closed.

use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use minikv::{Cursor, ReadOptions, Snapshot};
use pyo3::prelude::*;

use crate::call::{at_end, blocking};
use crate::error::Fault;
use crate::shared::{Handle, Held, Shared, lock};

/// An object that reads from a database, until the object or the database is closed.
pub struct Slot<T> {
    open: Mutex<Option<T>>,
    pub database: Arc<Shared>,
    closed: &'static str,
}

impl<T: Send> Held for Slot<T> {
    fn give_up(&self) {
        drop(lock(&self.open).take());
    }
}

impl<T: Send + 'static> Slot<T> {
    /// Runs `work` with the open object.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> Result<R, Fault>) -> Result<R, Fault> {
        self.database.check_process()?;
        work(lock(&self.open).as_mut().ok_or(Fault::Closed(self.closed))?)
    }

    /// Locks the object, unless it is in use. Does not wait, so the caller may hold the GIL.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, Option<T>>> {
        match self.open.try_lock() {
            Ok(open) => Some(open),
            Err(TryLockError::Poisoned(open)) => Some(open.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// A slot that a Python object owns. It is closed when the Python object is destroyed.
pub struct Owned<T: Send + 'static> {
    slot: Option<Arc<Slot<T>>>,
    number: usize,
}

impl<T: Send + 'static> Owned<T> {
    /// Returns a slot that contains `open`. Must be called inside [`Shared::with`]. `closed` is the
    /// text of the error that calls get after the slot is closed.
    pub fn new(database: Arc<Shared>, open: T, closed: &'static str) -> Owned<T> {
        let slot = Arc::new(Slot { open: Mutex::new(Some(open)), database, closed });
        let held: Arc<dyn Held> = slot.clone();
        let number = slot.database.hold(Arc::downgrade(&held));
        Owned { slot: Some(slot), number }
    }

    /// Returns the slot.
    pub fn slot(&self) -> &Arc<Slot<T>> {
        self.slot.as_ref().expect("a slot is there until the end of its object")
    }

    /// Runs `work` with the open object, without the GIL.
    pub fn with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut T) -> Result<R, Fault> + Send,
    ) -> PyResult<R> {
        blocking(py, || self.slot().with(work))
    }

    /// Closes the object, if it is open. In a forked process, does nothing.
    pub fn close(&self, py: Python<'_>) -> PyResult<()> {
        blocking(py, || {
            if self.slot().database.check_process().is_ok() {
                self.slot().give_up();
            }
            Ok(())
        })
    }
}

impl<T: Send + 'static> Drop for Owned<T> {
    fn drop(&mut self) {
        let Some(slot) = self.slot.take() else { return };
        let number = self.number;
        if slot.database.check_process().is_err() {
            // After a fork, a lock of the database may be held by a thread that exists only in the
            // parent process.
            std::mem::forget(slot);
            return;
        }
        at_end(move || {
            slot.give_up();
            slot.database.let_go(number);
        });
    }
}

/// The source of a read: a database as it is now, or a snapshot.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    Now(&'a Arc<Shared>),
    At(&'a Arc<Slot<Snapshot>>),
}

impl Source<'_> {
    /// Returns the database of the source.
    pub fn database(&self) -> &Arc<Shared> {
        match self {
            Source::Now(database) => database,
            Source::At(slot) => &slot.database,
        }
    }

    /// Returns a cursor over the source in the database `handle`.
    pub fn cursor(&self, handle: &Handle, options: &ReadOptions) -> Result<Cursor, Fault> {
        Ok(match self {
            Source::Now(_) => handle.cursor(options)?,
            Source::At(slot) => {
                let snapshot = slot.with(|snapshot| Ok(snapshot.clone()))?;
                snapshot.cursor_with(options)?
            }
        })
    }
}
