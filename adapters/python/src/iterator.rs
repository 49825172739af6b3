//! The iterator classes that Python code uses.

use std::sync::Arc;

use minikv::{Cursor, ReadOptions, Transaction};
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple, PyType};

use crate::call::blocking;
use crate::convert::generic_alias;
use crate::error::Fault;
use crate::range::Range;
use crate::shared::{Handle, Shared};
use crate::slot::{Owned, Slot, Source};
use crate::space::SpaceName;
use crate::walk::{Entries, Path, Step, Walk};

const CLOSED: &str = "Database or iterator is closed";

/// Iterator over a range of a database or a snapshot, in both directions.
///
/// Its position is between two entries. next() returns the entry after the position and moves past
/// that entry. prev() does the same backwards, so a prev() after a next() returns the same entry
/// again. The iterator shows the database as it was when the iterator was created.
///
/// Created by the method iterator of DB, PrefixedDB, Keyspace, Snapshot and Transaction.
#[pyclass(frozen, weakref, module = "minikv")]
pub struct Iterator {
    walk: Owned<Walk>,
    db_prefix: Vec<u8>,
    is_reverse: bool,
    include_key: bool,
    include_value: bool,
}

impl Iterator {
    pub fn open(
        py: Python<'_>,
        source: Source<'_>,
        range: &Range<'_>,
        options: &ReadOptions,
    ) -> PyResult<Iterator> {
        Iterator::begin(py, source.database(), range, |handle| {
            Ok(Entries::Cursor(Box::new(source.cursor(handle, options)?)))
        })
    }

    /// Returns an iterator over a transaction, or over one keyspace in it.
    pub fn of_transaction(
        py: Python<'_>,
        slot: &Arc<Slot<Transaction>>,
        space: Option<&SpaceName>,
        range: &Range<'_>,
    ) -> PyResult<Iterator> {
        Iterator::begin(py, &slot.database, range, |_| {
            Ok(Entries::Transaction(slot.clone(), space.cloned()))
        })
    }

    fn begin(
        py: Python<'_>,
        database: &Arc<Shared>,
        range: &Range<'_>,
        entries: impl FnOnce(&Handle) -> Result<Entries, Fault> + Send,
    ) -> PyResult<Iterator> {
        let (start, stop) = range.ends()?;
        let path = Path::new(database.order.clone(), start, stop, range.include_value);
        let open = || {
            database.with(CLOSED, |handle| {
                let mut walk = Walk::new(entries(handle)?, path);
                if range.reverse {
                    walk.seek_to_stop();
                }
                Ok(Owned::new(database.clone(), walk, CLOSED))
            })
        };
        Ok(Iterator {
            walk: blocking(py, open)?,
            db_prefix: range.db_prefix.unwrap_or(&[]).to_vec(),
            is_reverse: range.reverse,
            include_key: range.include_key,
            include_value: range.include_value,
        })
    }

    fn step<'py>(&self, py: Python<'py>, back: bool) -> PyResult<Option<Bound<'py, PyAny>>> {
        let step = if back == self.is_reverse { Step::Forward } else { Step::Back };
        loop {
            if let Some(entry) = self.step_read(py, step) {
                return Ok(Some(match entry {
                    (Some(key), Some(value)) => PyTuple::new(py, [key, value])?.into_any(),
                    (Some(one), None) | (None, Some(one)) => one.into_any(),
                    (None, None) => py.None().into_bound(py),
                }));
            }
            if !self.walk.with(py, |walk| walk.read(step))? {
                return Ok(None);
            }
        }
    }

    /// Moves past an entry that was read ahead, and returns the requested parts of it. Does not
    /// release the GIL. While `walk` is locked, creates only `bytes` objects, because creating them
    /// never starts the garbage collector.
    fn step_read<'py>(&self, py: Python<'py>, step: Step) -> Option<Wanted<'py>> {
        let mut open = self.walk.slot().try_lock()?;
        let (key, value) = open.as_mut()?.step(step)?;
        let key = key.get(self.db_prefix.len()..).unwrap_or_default();
        Some((
            self.include_key.then(|| PyBytes::new(py, key)),
            self.include_value.then(|| PyBytes::new(py, value)),
        ))
    }
}

/// A key and a value, each `None` if it was not requested.
type Wanted<'py> = (Option<Bound<'py, PyBytes>>, Option<Bound<'py, PyBytes>>);

#[pymethods]
impl Iterator {
    /// Returns the type of iterators whose items have the type item, for annotations.
    #[classmethod]
    fn __class_getitem__<'py>(
        cls: &Bound<'py, PyType>,
        item: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        generic_alias(cls, item)
    }

    fn __iter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.step(py, false)
    }

    /// Moves back past one entry and returns that entry; raises StopIteration if there is no entry
    /// before the position.
    fn prev<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.step(py, true)?.ok_or_else(|| PyStopIteration::new_err(()))
    }

    /// Moves to the position before the first key of the range.
    fn seek_to_start(&self, py: Python<'_>) -> PyResult<()> {
        self.walk.with(py, |walk| {
            walk.seek_to_start();
            Ok(())
        })
    }

    /// Moves to the position after the last key of the range.
    fn seek_to_stop(&self, py: Python<'_>) -> PyResult<()> {
        self.walk.with(py, |walk| {
            walk.seek_to_stop();
            Ok(())
        })
    }

    /// Moves to the position before the first key of the range that is not less than target.
    fn seek(&self, py: Python<'_>, target: &[u8]) -> PyResult<()> {
        let target = [&self.db_prefix, target].concat();
        self.walk.with(py, |walk| walk.seek(&target))
    }

    /// Closes the iterator. Does nothing if the iterator is already closed.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.walk.close(py)
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    #[pyo3(signature = (exc_type, exc_value, traceback, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: Bound<'_, PyAny>,
        exc_value: Bound<'_, PyAny>,
        traceback: Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let _ = (exc_type, exc_value, traceback);
        self.close(py).map(|()| false)
    }
}

/// An iterator like LevelDB's. It is either at an entry, whose key and value can be read, or at no
/// entry. A new iterator is at no entry.
///
/// Created by DB.raw_iterator and Snapshot.raw_iterator.
#[pyclass(frozen, weakref, module = "minikv")]
pub struct RawIterator {
    cursor: Owned<Cursor>,
}

impl RawIterator {
    pub fn open(
        py: Python<'_>,
        source: Source<'_>,
        options: &ReadOptions,
    ) -> PyResult<RawIterator> {
        let database = source.database();
        let open = || {
            database.with(CLOSED, |handle| {
                let cursor = source.cursor(handle, options)?;
                Ok(Owned::new(database.clone(), cursor, CLOSED))
            })
        };
        Ok(RawIterator { cursor: blocking(py, open)? })
    }

    /// Moves the cursor with `step`; returns an error if the cursor is at no entry.
    fn step(
        &self,
        py: Python<'_>,
        step: impl FnOnce(&mut Cursor) -> minikv::Result<bool> + Send,
    ) -> PyResult<()> {
        self.cursor.with(py, |cursor| {
            if !cursor.valid() {
                return Err(Fault::NoEntry);
            }
            step(cursor)?;
            Ok(())
        })
    }

    /// Calls `read` with the cursor, and returns the result; returns an error if the cursor is at
    /// no entry.
    fn at_entry<T: Send>(
        &self,
        py: Python<'_>,
        read: impl FnOnce(&Cursor) -> T + Send,
    ) -> PyResult<T> {
        if let Some(open) = self.cursor.slot().try_lock()
            && let Some(cursor) = open.as_ref().filter(|cursor| cursor.valid())
        {
            return Ok(read(cursor));
        }
        self.cursor.with(py, |cursor| match cursor.valid() {
            true => Ok(read(cursor)),
            false => Err(Fault::NoEntry),
        })
    }
}

#[pymethods]
impl RawIterator {
    /// Returns whether the iterator is at an entry.
    fn valid(&self, py: Python<'_>) -> PyResult<bool> {
        self.cursor.with(py, |cursor| Ok(cursor.valid()))
    }

    /// Moves to the first key, if there is one.
    fn seek_to_first(&self, py: Python<'_>) -> PyResult<()> {
        self.cursor.with(py, |cursor| {
            cursor.seek_to_first()?;
            Ok(())
        })
    }

    /// Moves to the last key, if there is one.
    fn seek_to_last(&self, py: Python<'_>) -> PyResult<()> {
        self.cursor.with(py, |cursor| {
            cursor.seek_to_last()?;
            Ok(())
        })
    }

    /// Moves to the first key that is not less than target, if there is one.
    fn seek(&self, py: Python<'_>, target: &[u8]) -> PyResult<()> {
        self.cursor.with(py, |cursor| {
            cursor.seek(target)?;
            Ok(())
        })
    }

    /// Moves one step forward; raises IteratorInvalidError if the iterator is at no entry.
    fn next(&self, py: Python<'_>) -> PyResult<()> {
        self.step(py, |cursor| cursor.next())
    }

    /// Moves one step back; raises IteratorInvalidError if the iterator is at no entry.
    fn prev(&self, py: Python<'_>) -> PyResult<()> {
        self.step(py, |cursor| cursor.prev())
    }

    /// Returns the key; raises IteratorInvalidError if the iterator is at no entry.
    fn key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let key = self.at_entry(py, |cursor| cursor.key().to_vec())?;
        Ok(PyBytes::new(py, &key))
    }

    /// Returns the value; raises IteratorInvalidError if the iterator is at no entry.
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let value = self.at_entry(py, |cursor| cursor.value().to_vec())?;
        Ok(PyBytes::new(py, &value))
    }

    /// Returns the key and the value; raises IteratorInvalidError if the iterator is at no entry.
    fn item<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let entry = |cursor: &Cursor| (cursor.key().to_vec(), cursor.value().to_vec());
        let (key, value) = self.at_entry(py, entry)?;
        PyTuple::new(py, [PyBytes::new(py, &key), PyBytes::new(py, &value)])
    }

    /// Closes the iterator. Does nothing if the iterator is already closed.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.cursor.close(py)
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    #[pyo3(signature = (exc_type, exc_value, traceback, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: Bound<'_, PyAny>,
        exc_value: Bound<'_, PyAny>,
        traceback: Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let _ = (exc_type, exc_value, traceback);
        self.close(py).map(|()| false)
    }
}
