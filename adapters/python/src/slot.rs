//! Iterators and snapshots. Each of them is released when its Python object is destroyed or when
//! its database is closed.

use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use minikv::{Cursor, ReadOptions, Readable, Snapshot};
use pyo3::prelude::*;

use crate::call::{at_end, blocking};
use crate::error::Fault;
use crate::shared::{Handle, Held, Shared, either, lock};
use crate::space::{SpaceName, within};

/// An object that reads from a database. The object can be used until it is closed or the database
/// is closed.
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

    /// Runs `work` with the object, which ends it. Whoever closes the database waits for that.
    pub fn end<R>(&self, work: impl FnOnce(T) -> Result<R, Fault>) -> Result<R, Fault> {
        self.database.check_process()?;
        let mut open = lock(&self.open);
        work(open.take().ok_or(Fault::Closed(self.closed))?)
    }

    /// Locks the object, or returns `None` if another thread is using it, and in a forked process;
    /// then [`Slot::with`] waits, or says so. Does not wait, so the caller may hold the GIL.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, Option<T>>> {
        self.database.check_process().ok()?;
        match self.open.try_lock() {
            Ok(open) => Some(open),
            Err(TryLockError::Poisoned(open)) => Some(open.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// A slot that belongs to a Python object. The slot is closed when the Python object is destroyed.
pub struct Owned<T: Send + 'static> {
    slot: Option<Arc<Slot<T>>>,
    number: usize,
}

impl<T: Send + 'static> Owned<T> {
    /// Returns a slot that contains `open`. Must be called inside [`Shared::with`]. After the slot
    /// is closed, calls return an error with the text `closed`.
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

    /// Closes the object if it is open. Does nothing in a forked process.
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
            // After a fork, a lock of the database may still be marked as held by a thread that
            // exists only in the parent process.
            std::mem::forget(slot);
            return;
        }
        at_end(move || {
            slot.give_up();
            slot.database.let_go(number);
        });
    }
}

/// The source of a read: the current state of a database, or a snapshot.
#[derive(Clone, Copy)]
pub enum Moment<'a> {
    Now(&'a Arc<Shared>),
    At(&'a Arc<Slot<Snapshot>>),
}

/// The source of an iterator: the whole database, or one keyspace, at some moment.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    pub moment: Moment<'a>,
    pub space: Option<&'a SpaceName>,
}

impl Source<'_> {
    /// Returns the database that the source belongs to.
    pub fn database(&self) -> &Arc<Shared> {
        match self.moment {
            Moment::Now(database) => database,
            Moment::At(slot) => &slot.database,
        }
    }

    /// Returns a cursor over the source. `handle` is the open database of the source.
    pub fn cursor(&self, handle: &Handle, options: &ReadOptions) -> Result<Cursor, Fault> {
        Ok(match self.moment {
            Moment::Now(_) => either!(handle, db => {
                within!(db, self.space, from => from.reading(*options).cursor()?)
            }),
            Moment::At(slot) => {
                let snapshot = slot.with(|snapshot| Ok(snapshot.clone()))?;
                within!(&snapshot, self.space, from => from.reading(*options).cursor()?)
            }
        })
    }
}
