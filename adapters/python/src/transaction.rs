//! Transactions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use minikv::{Bytes, Readable};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::batch::Value;
use crate::call::blocking;
use crate::convert::value_or;
use crate::expiry::expires_of;
use crate::iterator::Iterator;
use crate::keyspace::Keyspace;
use crate::options::write;
use crate::range::Range;
use crate::shared::{CLOSED, Shared};
use crate::slot::Owned;
use crate::space::{SpaceName, Spaces, Target};

const ENDED: &str = "Database or transaction is closed";

/// Longest pause before a transaction is run again after a conflict, in seconds.
const MAX_PAUSE_SECONDS: f64 = 0.01;

/// A transaction. Its reads show the database as it was at the beginning, and the transaction's own
/// writes; its writes take effect together at the commit.
///
/// At the end of its with block, the transaction is committed; after an exception, it is closed,
/// and its writes are discarded. The argument keyspace of a method names the keyspace that the call
/// concerns.
///
/// Created by DB.transaction and DB.transact. Commit or close a transaction soon: until then, the
/// database keeps the entries that the transaction shows.
#[pyclass(frozen, weakref, module = "minikv")]
pub struct Transaction {
    transaction: Owned<minikv::Transaction>,
    is_sync: bool,
    /// Whether the program has committed or closed the transaction.
    is_ended: AtomicBool,
    /// Whether the commit failed because of another write.
    has_conflict: AtomicBool,
}

impl Transaction {
    /// Begins a transaction.
    pub fn begin(
        py: Python<'_>,
        database: &Arc<Shared>,
        sync: Option<bool>,
    ) -> PyResult<Transaction> {
        let begin = || {
            database.with(CLOSED, |handle| {
                let transaction = handle.writer()?.transaction();
                Ok(Owned::new(database.clone(), transaction, ENDED))
            })
        };
        Ok(Transaction {
            transaction: blocking(py, begin)?,
            is_sync: sync.unwrap_or(false),
            is_ended: AtomicBool::new(false),
            has_conflict: AtomicBool::new(false),
        })
    }

    /// Returns the keyspace of a call.
    ///
    /// # Errors
    /// A `ValueError` if the keyspace belongs to another database.
    fn space<'a>(
        &self,
        keyspace: Option<&'a Bound<'_, Keyspace>>,
    ) -> PyResult<Option<&'a SpaceName>> {
        let Some(keyspace) = keyspace.map(Bound::get) else { return Ok(None) };
        if !Arc::ptr_eq(&keyspace.shared, &self.transaction.slot().database) {
            let text = "'keyspace' must be a keyspace of the transaction's database";
            return Err(PyValueError::new_err(text));
        }
        Ok(Some(&keyspace.space))
    }

    fn value(
        &self,
        py: Python<'_>,
        key: &[u8],
        space: Option<&SpaceName>,
    ) -> PyResult<Option<Bytes>> {
        self.transaction.with(py, |transaction| match space {
            Some(space) => {
                let space = transaction.snapshot().space(space)?;
                Ok(transaction.keyspace(&space).get(key)?)
            }
            None => Ok(transaction.get(key)?),
        })
    }
}

/// Runs `body` in a transaction and commits it, and does so again after a conflict. Returns the
/// result of `body`.
pub fn transact<'py>(
    database: &Arc<Shared>,
    body: &Bound<'py, PyAny>,
    sync: Option<bool>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = body.py();
    loop {
        let transaction = Bound::new(py, Transaction::begin(py, database, sync)?)?;
        let result = body.call1((&transaction,)).and_then(|result| {
            transaction.get().commit(py)?;
            Ok(result)
        });
        let Err(error) = result else { return result };
        transaction.get().close(py)?;
        if !transaction.get().has_conflict.load(Relaxed) {
            return Err(error);
        }
        py.check_signals()?;
        let share: f64 = py.import("random")?.call_method0("random")?.extract()?;
        py.detach(|| std::thread::sleep(Duration::from_secs_f64(share * MAX_PAUSE_SECONDS)));
    }
}

#[pymethods]
impl Transaction {
    /// Returns the value of key, or default if key has no value.
    #[pyo3(signature = (key, default=None, *, keyspace=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        default: Option<Bound<'py, PyAny>>,
        keyspace: Option<&Bound<'py, Keyspace>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let value = self.value(py, key, self.space(keyspace)?)?;
        Ok(value_or(py, value, default))
    }

    fn __contains__(&self, py: Python<'_>, key: &[u8]) -> PyResult<bool> {
        Ok(self.value(py, key, None)?.is_some())
    }

    /// Adds a put. In an expiring keyspace, ttl and expires are those of Keyspace.put.
    #[pyo3(signature = (key, value, *, keyspace=None, ttl=None, expires=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: &[u8],
        value: &Bound<'_, PyAny>,
        keyspace: Option<&Bound<'_, Keyspace>>,
        ttl: Option<&Bound<'_, PyAny>>,
        expires: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let space = self.space(keyspace)?;
        let is_expiring = space.is_some_and(|space| space.is_expiring);
        let (value, expires) = (Value::of(value)?, expires_of(is_expiring, ttl, expires)?);
        let value = value.as_slice();
        self.transaction.with(py, |transaction| {
            match space {
                Some(space) => {
                    let space = transaction.snapshot().space(space)?;
                    transaction.put_at(&space, key, value, expires)?;
                }
                None => transaction.put(key, value),
            }
            Ok(())
        })
    }

    /// Adds a delete.
    #[pyo3(signature = (key, *, keyspace=None))]
    fn delete(
        &self,
        py: Python<'_>,
        key: &[u8],
        keyspace: Option<&Bound<'_, Keyspace>>,
    ) -> PyResult<()> {
        let space = self.space(keyspace)?;
        self.transaction.with(py, |transaction| {
            match space {
                Some(space) => {
                    let space = transaction.snapshot().space(space)?;
                    transaction.delete_in(&space, key);
                }
                None => transaction.delete(key),
            }
            Ok(())
        })
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Iterator> {
        Iterator::of_transaction(py, self.transaction.slot(), None, &Range::default())
    }

    /// Returns an iterator. The arguments are the same as those of DB.iterator. What the iterator
    /// reads ahead, up to 256 entries at once, counts as read when the commit looks for conflicts.
    #[pyo3(signature = (*, keyspace=None, reverse=false, start=None, stop=None,
        include_start=true, include_stop=false, prefix=None, include_key=true,
        include_value=true))]
    #[expect(clippy::too_many_arguments, reason = "they are plyvel's")]
    fn iterator(
        &self,
        py: Python<'_>,
        keyspace: Option<&Bound<'_, Keyspace>>,
        reverse: Option<bool>,
        start: Option<&[u8]>,
        stop: Option<&[u8]>,
        include_start: Option<bool>,
        include_stop: Option<bool>,
        prefix: Option<&[u8]>,
        include_key: Option<bool>,
        include_value: Option<bool>,
    ) -> PyResult<Iterator> {
        let range = Range {
            db_prefix: None,
            reverse: reverse.unwrap_or(false),
            start,
            stop,
            include_start: include_start.unwrap_or(false),
            include_stop: include_stop.unwrap_or(false),
            prefix,
            include_key: include_key.unwrap_or(false),
            include_value: include_value.unwrap_or(false),
        };
        let space = self.space(keyspace)?;
        Iterator::of_transaction(py, self.transaction.slot(), space, &range)
    }

    /// Commits the writes and ends the transaction. Raises ConflictError, and writes nothing, if
    /// another write has changed what the transaction has read: a key, or any key in a range.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let slot = self.transaction.slot();
        blocking(py, || {
            slot.end(|transaction| {
                self.is_ended.store(true, Relaxed);
                let committed = transaction.writing(write(Some(self.is_sync))).commit();
                if committed.as_ref().is_err_and(minikv::Error::is_conflict) {
                    self.has_conflict.store(true, Relaxed);
                }
                Ok(committed?)
            })
        })
    }

    /// Ends the transaction and discards its writes. Does nothing if it has ended.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.transaction.close(py)?;
        self.is_ended.store(true, Relaxed);
        Ok(())
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
        let _ = (exc_value, traceback);
        // A database that was closed has ended the transaction, too, but not by a commit.
        let is_commit = exc_type.is_none() && !self.is_ended.load(Relaxed);
        if is_commit {
            self.commit(py)?
        } else {
            self.close(py)?
        }
        Ok(false)
    }
}
