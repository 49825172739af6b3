//! Write batches.

use std::sync::{Arc, Mutex};

use minikv::WriteOptions;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView};

use crate::call::blocking;
use crate::expiry::expires_of;
use crate::options::write;
use crate::shared::CLOSED;
use crate::shared::{Owner, Shared, either, lock};
use crate::space::{SpaceName, Spaces, Target};

/// A value to be written, from any object that supports the buffer protocol.
pub enum Value<'py> {
    Bytes(Bound<'py, PyBytes>),
    Copied(Vec<u8>),
}

impl<'py> Value<'py> {
    /// Returns the bytes of `object`.
    ///
    /// # Errors
    /// A `TypeError` if `object` does not support the buffer protocol.
    pub fn of(object: &Bound<'py, PyAny>) -> PyResult<Value<'py>> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Value::Bytes(bytes.clone()));
        }
        if let Ok(array) = object.cast::<PyByteArray>() {
            return Ok(Value::Copied(array.to_vec()));
        }
        // The stable ABI gives direct access to buffers only since Python 3.11.
        let bytes = PyMemoryView::from(object)?.call_method0("tobytes")?;
        Ok(Value::Bytes(bytes.cast_into()?))
    }

    pub fn as_slice(&self) -> &[u8] {
        match self {
            Value::Bytes(bytes) => bytes.as_bytes(),
            Value::Copied(bytes) => bytes,
        }
    }
}

/// A batch of puts and deletes that is written atomically.
///
/// If the batch is used as a context manager, it is written at the end of the with block, even
/// after an exception. With transaction=True, it is not written after an exception.
///
/// Created by the method write_batch of DB, PrefixedDB and Keyspace.
#[pyclass(frozen, module = "minikv")]
pub struct WriteBatch {
    database: Owner,
    prefix: Vec<u8>,
    /// The keyspace of the operations, if they have one.
    space: Option<SpaceName>,
    is_transaction: bool,
    options: WriteOptions,
    /// The lock is held only while memory is copied, so a thread that holds the GIL may wait for
    /// the lock.
    batch: Mutex<minikv::WriteBatch>,
}

impl WriteBatch {
    pub fn new(
        database: &Arc<Shared>,
        prefix: &[u8],
        transaction: Option<bool>,
        sync: Option<bool>,
    ) -> PyResult<WriteBatch> {
        let batch = WriteBatch {
            database: Owner::new(database.clone()),
            prefix: prefix.to_vec(),
            space: None,
            is_transaction: transaction.unwrap_or(false),
            options: write(sync),
            batch: Mutex::default(),
        };
        batch.check_open().map(|()| batch)
    }

    /// Returns a batch of operations in the keyspace `space`.
    pub fn in_space(
        database: &Arc<Shared>,
        space: &SpaceName,
        transaction: Option<bool>,
        sync: Option<bool>,
    ) -> PyResult<WriteBatch> {
        let batch = WriteBatch::new(database, &[], transaction, sync)?;
        Ok(WriteBatch { space: Some(space.clone()), ..batch })
    }

    fn check_open(&self) -> PyResult<()> {
        if self.database.is_closed() { Err(PyRuntimeError::new_err(CLOSED)) } else { Ok(()) }
    }

    fn with_prefix<T>(&self, key: &[u8], work: impl FnOnce(&[u8]) -> T) -> T {
        if self.prefix.is_empty() { work(key) } else { work(&[&self.prefix, key].concat()) }
    }
}

#[pymethods]
impl WriteBatch {
    /// Adds a put. In an expiring keyspace, ttl and expires are those of Keyspace.put.
    #[pyo3(signature = (key, value, *, ttl=None, expires=None))]
    fn put(
        &self,
        key: &[u8],
        value: &Bound<'_, PyAny>,
        ttl: Option<&Bound<'_, PyAny>>,
        expires: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.check_open()?;
        let is_expiring = self.space.as_ref().is_some_and(|space| space.is_expiring);
        let expires = expires_of(is_expiring, ttl, expires)?;
        let (py, value) = (value.py(), Value::of(value)?);
        let value = value.as_slice();
        let Some(space) = &self.space else {
            self.with_prefix(key, |key| lock(&self.batch).put(key, value));
            return Ok(());
        };
        blocking(py, || {
            self.database.with(CLOSED, |db| {
                either!(db, db => {
                    lock(&self.batch).put_at(&db.space(space)?, key, value, expires)?;
                });
                Ok(())
            })
        })
    }

    /// Adds a delete.
    fn delete(&self, py: Python<'_>, key: &[u8]) -> PyResult<()> {
        self.check_open()?;
        if let Some(space) = &self.space {
            return blocking(py, || {
                self.database.with(CLOSED, |db| {
                    either!(db, db => lock(&self.batch).delete_in(&db.space(space)?, key));
                    Ok(())
                })
            });
        }
        self.with_prefix(key, |key| lock(&self.batch).delete(key));
        Ok(())
    }

    /// Removes all operations.
    fn clear(&self) -> PyResult<()> {
        self.check_open()?;
        lock(&self.batch).clear();
        Ok(())
    }

    /// Writes all operations to the database. The operations stay in the batch.
    fn write(&self, py: Python<'_>) -> PyResult<()> {
        self.check_open()?;
        blocking(py, || {
            let batch = lock(&self.batch).clone();
            self.database.with(CLOSED, |db| Ok(db.writer()?.writing(self.options).write(batch)?))
        })
    }

    /// Returns the size, in bytes, that the batch takes in the log.
    fn approximate_size(&self) -> PyResult<usize> {
        self.check_open()?;
        Ok(lock(&self.batch).approximate_bytes())
    }

    /// Adds the operations of another batch. The keys of these operations keep the prefix or the
    /// keyspace of the other batch.
    fn append(&self, source: &WriteBatch) -> PyResult<()> {
        self.check_open()?;
        let operations = lock(&source.batch).clone();
        lock(&self.batch).append(&operations);
        Ok(())
    }

    fn __enter__(this: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        this.get().check_open()?;
        Ok(this)
    }

    #[pyo3(signature = (exc_type, exc_value, traceback, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: Bound<'_, PyAny>,
        exc_value: Bound<'_, PyAny>,
        traceback: Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let _ = (exc_value, traceback);
        if !self.is_transaction || exc_type.is_none() {
            self.write(py)?;
        }
        self.clear()
    }
}
