//! Views of the keys that begin with a prefix.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::batch::WriteBatch;
use crate::convert::value_or;
use crate::db::DB;
use crate::iterator::Iterator;
use crate::options::read;
use crate::range::Range;
use crate::slot::{Moment, Source};
use crate::snapshot::Snapshot;

/// A view of the keys of a database that begin with a prefix. The view adds the prefix to keys that
/// are passed to it, and removes the prefix from keys that it returns.
///
/// Created by DB.prefixed_db.
#[pyclass(frozen, module = "minikv")]
pub struct PrefixedDB {
    /// The whole database, without the prefix.
    #[pyo3(get)]
    db: Py<DB>,
    prefix: Vec<u8>,
}

impl PrefixedDB {
    pub fn new(db: Py<DB>, prefix: &[u8]) -> PrefixedDB {
        PrefixedDB { db, prefix: prefix.to_vec() }
    }

    fn key(&self, key: &[u8]) -> Vec<u8> {
        [&self.prefix, key].concat()
    }

    fn source(&self) -> Source<'_> {
        Source { moment: Moment::Now(&self.db.get().shared), space: None }
    }
}

#[pymethods]
impl PrefixedDB {
    #[new]
    #[pyo3(signature = (*, db, prefix))]
    fn create(db: Py<DB>, prefix: &[u8]) -> PrefixedDB {
        PrefixedDB::new(db, prefix)
    }

    /// The prefix.
    #[getter]
    fn prefix<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.prefix)
    }

    fn __repr__(this: &Bound<'_, Self>) -> PyResult<String> {
        let prefix = this.get().prefix(this.py()).repr()?.to_string();
        Ok(format!("<minikv.PrefixedDB with prefix {prefix} at {:p}>", this.as_ptr()))
    }

    /// Returns the value of key, or default if key has no value.
    #[pyo3(signature = (key, default=None, *, verify_checksums=true, fill_cache=true))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        default: Option<Bound<'py, PyAny>>,
        verify_checksums: Option<bool>,
        fill_cache: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let key = self.key(key);
        let value = self.db.get().get_value(py, &key, verify_checksums, fill_cache)?;
        Ok(value_or(py, value, default))
    }

    fn __contains__(&self, py: Python<'_>, key: &[u8]) -> PyResult<bool> {
        self.db.get().contains(py, &self.key(key))
    }

    /// Sets the value of key. With sync=True, returns only after the write is durable.
    #[pyo3(signature = (key, value, *, sync=false))]
    fn put(
        &self,
        py: Python<'_>,
        key: &[u8],
        value: &Bound<'_, PyAny>,
        sync: Option<bool>,
    ) -> PyResult<()> {
        self.db.get().put_value(py, &self.key(key), value, sync)
    }

    /// Deletes key, whether or not it has a value. With sync=True, returns only after the write is
    /// durable.
    #[pyo3(signature = (key, *, sync=false))]
    fn delete(&self, py: Python<'_>, key: &[u8], sync: Option<bool>) -> PyResult<()> {
        self.db.get().delete_key(py, &self.key(key), sync)
    }

    /// Returns a new batch of writes. With transaction=True, an exception in the with block of the
    /// batch discards the batch.
    #[pyo3(signature = (*, transaction=false, sync=false))]
    fn write_batch(&self, transaction: Option<bool>, sync: Option<bool>) -> PyResult<WriteBatch> {
        WriteBatch::new(&self.db.get().shared, &self.prefix, transaction, sync)
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Iterator> {
        let range = Range { db_prefix: Some(&self.prefix), ..Range::default() };
        Iterator::open(py, self.source(), &range, &read(None, Some(true)))
    }

    /// Returns an iterator. The arguments are the same as those of DB.iterator.
    #[pyo3(signature = (*, reverse=false, start=None, stop=None, include_start=true,
        include_stop=false, prefix=None, include_key=true, include_value=true,
        verify_checksums=true, fill_cache=true))]
    #[expect(clippy::too_many_arguments, reason = "they are plyvel's")]
    fn iterator(
        &self,
        py: Python<'_>,
        reverse: Option<bool>,
        start: Option<&[u8]>,
        stop: Option<&[u8]>,
        include_start: Option<bool>,
        include_stop: Option<bool>,
        prefix: Option<&[u8]>,
        include_key: Option<bool>,
        include_value: Option<bool>,
        verify_checksums: Option<bool>,
        fill_cache: Option<bool>,
    ) -> PyResult<Iterator> {
        let range = Range {
            db_prefix: Some(&self.prefix),
            reverse: reverse.unwrap_or(false),
            start,
            stop,
            include_start: include_start.unwrap_or(false),
            include_stop: include_stop.unwrap_or(false),
            prefix,
            include_key: include_key.unwrap_or(false),
            include_value: include_value.unwrap_or(false),
        };
        Iterator::open(py, self.source(), &range, &read(verify_checksums, fill_cache))
    }

    /// Returns a snapshot of this view as it is now.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        Snapshot::open(py, &self.db.get().shared, Some(&self.prefix), None)
    }

    /// Returns a view of the keys that begin with the prefix of this view, followed by prefix.
    fn prefixed_db(&self, py: Python<'_>, prefix: &[u8]) -> PrefixedDB {
        PrefixedDB::new(self.db.clone_ref(py), &self.key(prefix))
    }
}
