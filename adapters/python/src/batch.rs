//! Write batches.

use std::sync::{Arc, Mutex};

use minikv::WriteOptions;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView};

use crate::call::blocking;
use crate::shared::CLOSED;
use crate::shared::{Owner, Shared, lock};

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
/// Created by DB.write_batch and PrefixedDB.write_batch.
#[pyclass(frozen, module = "minikv")]
pub struct WriteBatch {
    database: Owner,
    prefix: Vec<u8>,
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
            is_transaction: transaction.unwrap_or(false),
            options: WriteOptions::default().sync(sync.unwrap_or(false)),
            batch: Mutex::default(),
        };
        batch.check_open().map(|()| batch)
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
    /// Adds a put.
    fn put(&self, key: &[u8], value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.check_open()?;
        let value = Value::of(value)?;
        self.with_prefix(key, |key| lock(&self.batch).put(key, value.as_slice()));
        Ok(())
    }

    /// Adds a delete.
    fn delete(&self, key: &[u8]) -> PyResult<()> {
        self.check_open()?;
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
            self.database.with(CLOSED, |db| Ok(db.writer()?.write_with(&self.options, batch)?))
        })
    }

    /// Returns the size, in bytes, that the batch takes in the log.
    fn approximate_size(&self) -> PyResult<usize> {
        self.check_open()?;
        Ok(lock(&self.batch).approximate_bytes())
    }

    /// Adds the operations of another batch. The keys of these operations keep the prefix of the
    /// other batch.
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
