//! Keyspaces.

use std::ops::Bound as Limit;

use minikv::{Expiry, Readable, WriteBatch as Batch, WriteOptions};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::batch::{Value, WriteBatch};
use crate::call::blocking;
use crate::convert::{report, value_or};
use crate::error::Fault;
use crate::expiry::{expires_of, seconds_of};
use crate::iterator::Iterator;
use crate::options::{read, write};
use crate::range::Range;
use crate::shared::{CLOSED, Handle, Owner, either};
use crate::slot::{Moment, Source};
use crate::snapshot::Snapshot;
use crate::space::{SpaceName, Spaces, Target};

/// A named part of a database with keys of its own.
///
/// In an expiring keyspace, entries may expire: put takes ttl, the time to live, as a number of
/// seconds or a timedelta; or expires, the time, as seconds since 1970 or a datetime.
///
/// Created by DB.keyspace.
#[pyclass(frozen, module = "minikv")]
pub struct Keyspace {
    pub shared: Owner,
    pub space: SpaceName,
    /// The database that contains the keyspace.
    #[pyo3(get)]
    db: Py<PyAny>,
}

impl Keyspace {
    pub fn new(shared: Owner, space: SpaceName, db: Py<PyAny>) -> Keyspace {
        Keyspace { shared, space, db }
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Handle) -> Result<T, Fault> + Send,
    ) -> PyResult<T> {
        blocking(py, || self.shared.with(CLOSED, work))
    }

    fn source(&self) -> Source<'_> {
        Source { moment: Moment::Now(&self.shared), space: Some(&self.space) }
    }
}

/// Calls a method of the keyspace `$space` of a database.
macro_rules! inside {
    ($handle:expr, $space:expr, $from:ident => $call:expr) => {
        either!($handle, db => {
            let $from = db.space(&$space)?;
            $call
        })
    };
}

#[pymethods]
impl Keyspace {
    /// The name.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.space.name)
    }

    /// Whether entries may expire.
    #[getter]
    fn expiring(&self) -> bool {
        self.space.is_expiring
    }

    fn __repr__(this: &Bound<'_, Self>) -> PyResult<String> {
        let name = this.get().name(this.py()).repr()?.to_string();
        let kind = if this.get().space.is_expiring { " (expiring)" } else { "" };
        Ok(format!("<minikv.Keyspace with name {name}{kind} at {:p}>", this.as_ptr()))
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
        let options = read(verify_checksums, fill_cache);
        let value = self.with(py, |db| {
            Ok(inside!(db, self.space, space => space.reading(options).get(key))?)
        })?;
        Ok(value_or(py, value, default))
    }

    fn __contains__(&self, py: Python<'_>, key: &[u8]) -> PyResult<bool> {
        self.with(py, |db| Ok(inside!(db, self.space, space => space.contains_key(key))?))
    }

    /// Sets the value of key. With sync=True, returns only after the write is durable. In an
    /// expiring keyspace, the entry expires as ttl or expires says; without them, never.
    #[pyo3(signature = (key, value, *, sync=false, ttl=None, expires=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: &[u8],
        value: &Bound<'_, PyAny>,
        sync: Option<bool>,
        ttl: Option<&Bound<'_, PyAny>>,
        expires: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (value, options) = (Value::of(value)?, write(sync));
        let (value, expires) =
            (value.as_slice(), expires_of(self.space.is_expiring, ttl, expires)?);
        self.with(py, |db| {
            let db = db.writer()?;
            let mut batch = Batch::new();
            batch.put_at(&db.space(&self.space)?, key, value, expires)?;
            Ok(db.writing(options).write(batch)?)
        })
    }

    /// Deletes key, whether or not it has a value. With sync=True, returns only after the write is
    /// durable.
    #[pyo3(signature = (key, *, sync=false))]
    fn delete(&self, py: Python<'_>, key: &[u8], sync: Option<bool>) -> PyResult<()> {
        let options = write(sync);
        self.with(py, |db| Ok(db.writer()?.space(&self.space)?.writing(options).delete(key)?))
    }

    /// Atomically deletes the keys from start to stop, excluding stop. None means no bound. The
    /// cost does not depend on the number of keys.
    #[pyo3(signature = (start, stop, *, sync=false))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: Option<&[u8]>,
        stop: Option<&[u8]>,
        sync: Option<bool>,
    ) -> PyResult<()> {
        let options: WriteOptions = write(sync);
        let start = start.map_or(Limit::Unbounded, Limit::Included);
        let stop = stop.map_or(Limit::Unbounded, Limit::Excluded);
        self.with(py, |db| {
            let space = db.writer()?.space(&self.space)?;
            space.writing(options).delete_range((start, stop))?;
            Ok(())
        })
    }

    /// Returns a new batch of writes to this keyspace. With transaction=True, an exception in the
    /// with block of the batch discards the batch.
    #[pyo3(signature = (*, transaction=false, sync=false))]
    fn write_batch(&self, transaction: Option<bool>, sync: Option<bool>) -> PyResult<WriteBatch> {
        WriteBatch::in_space(&self.shared, &self.space, transaction, sync)
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Iterator> {
        Iterator::open(py, self.source(), &Range::default(), &read(None, Some(true)))
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
        Iterator::open(py, self.source(), &range, &read(verify_checksums, fill_cache))
    }

    /// Returns a snapshot of this keyspace as it is now.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        Snapshot::open(py, &self.shared, None, Some(&self.space))
    }

    /// Returns the time at which the entry of key expires, in seconds since 1970 as time.time()
    /// counts them; infinity, if it never does; None, if there is no entry.
    fn expiry(&self, py: Python<'_>, key: &[u8]) -> PyResult<Option<f64>> {
        let expiry: Option<Expiry> =
            self.with(py, |db| Ok(inside!(db, self.space, space => space.expiry(key))?))?;
        Ok(expiry.map(seconds_of))
    }

    /// Returns the steps of a get of key, as DB.explain does.
    fn explain<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        report(py, self.with(py, |db| Ok(inside!(db, self.space, space => space.explain(key))?))?)
    }

    /// Compacts the keys from start to stop; None means no bound.
    #[pyo3(signature = (*, start=None, stop=None))]
    fn compact_range(
        &self,
        py: Python<'_>,
        start: Option<&[u8]>,
        stop: Option<&[u8]>,
    ) -> PyResult<()> {
        let start = start.map_or(Limit::Unbounded, Limit::Included);
        let stop = stop.map_or(Limit::Unbounded, Limit::Included);
        self.with(py, |db| Ok(db.writer()?.space(&self.space)?.compact_range((start, stop))?))
    }

    /// Returns the approximate number of bytes that the entries from start to stop take.
    fn approximate_size(&self, py: Python<'_>, start: &[u8], stop: &[u8]) -> PyResult<u64> {
        self.with(py, |db| {
            Ok(inside!(db, self.space, space => space.approximate_size(start..stop))?)
        })
    }
}
