//! Snapshots.

use minikv::Readable;
use std::sync::Arc;

use minikv::Snapshot as View;
use pyo3::prelude::*;

use crate::call::blocking;
use crate::convert::{report, value_or};
use crate::db::DB;
use crate::error::Fault;
use crate::iterator::{Iterator, RawIterator};
use crate::options::read;
use crate::range::Range;
use crate::shared::Shared;
use crate::slot::{Moment, Owned, Source};
use crate::space::{SpaceName, Spaces, within};

const CLOSED: &str = "Database or snapshot is closed";

/// A snapshot: the state of a database at the time when the snapshot was created. Later writes do
/// not change the snapshot.
///
/// Created by the method snapshot of DB, PrefixedDB and Keyspace, and by Snapshot.keyspace. Close a
/// snapshot when it is no longer needed: while a snapshot is open, the database keeps the entries
/// that the snapshot shows.
#[pyclass(frozen, module = "minikv")]
pub struct Snapshot {
    view: Arc<Owned<View>>,
    prefix: Option<Vec<u8>>,
    /// The keyspace that the snapshot shows; `None`, if it shows the whole database.
    space: Option<SpaceName>,
}

impl Snapshot {
    pub fn open(
        py: Python<'_>,
        database: &Arc<Shared>,
        prefix: Option<&[u8]>,
        space: Option<&SpaceName>,
    ) -> PyResult<Snapshot> {
        let open = || {
            database.with("Cannot operate on closed LevelDB database", |handle| {
                Ok(Owned::new(database.clone(), handle.snapshot(), CLOSED))
            })
        };
        Ok(Snapshot {
            view: Arc::new(blocking(py, open)?),
            prefix: prefix.map(<[u8]>::to_vec),
            space: space.cloned(),
        })
    }

    fn key(&self, key: &[u8]) -> Vec<u8> {
        [self.prefix.as_deref().unwrap_or_default(), key].concat()
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&View) -> Result<T, Fault> + Send,
    ) -> PyResult<T> {
        let slot = self.view.slot();
        blocking(py, || slot.database.with(CLOSED, |_| work(&slot.with(|view| Ok(view.clone()))?)))
    }

    fn source(&self) -> Source<'_> {
        Source { moment: Moment::At(self.view.slot()), space: self.space.as_ref() }
    }
}

#[pymethods]
impl Snapshot {
    #[new]
    #[pyo3(signature = (*, db, prefix=None))]
    fn new(py: Python<'_>, db: &Bound<'_, DB>, prefix: Option<&[u8]>) -> PyResult<Snapshot> {
        Snapshot::open(py, &db.get().shared, prefix, None)
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
        let (key, options) = (self.key(key), read(verify_checksums, fill_cache));
        let value = self.with(py, |view| {
            Ok(within!(view, &self.space, from => from.reading(options).get(&key))?)
        })?;
        Ok(value_or(py, value, default))
    }

    fn __contains__(&self, py: Python<'_>, key: &[u8]) -> PyResult<bool> {
        let key = self.key(key);
        self.with(py, |view| Ok(within!(view, &self.space, from => from.contains_key(&key))?))
    }

    /// Returns the keyspace with this name at the moment of this snapshot, as a snapshot that is
    /// closed together with this one.
    #[pyo3(signature = (name, *, expiring=None))]
    fn keyspace(&self, py: Python<'_>, name: &[u8], expiring: Option<bool>) -> PyResult<Snapshot> {
        SpaceName::check(name)?;
        let space = self.with(py, |view| Ok(view.find(name, expiring)?))?;
        Ok(Snapshot { view: self.view.clone(), prefix: None, space: Some(space) })
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Iterator> {
        let range = Range { db_prefix: self.prefix.as_deref(), ..Range::default() };
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
            db_prefix: self.prefix.as_deref(),
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

    /// Returns a raw iterator. Its keys include the prefix of the snapshot.
    #[pyo3(signature = (*, verify_checksums=true, fill_cache=true))]
    fn raw_iterator(
        &self,
        py: Python<'_>,
        verify_checksums: Option<bool>,
        fill_cache: Option<bool>,
    ) -> PyResult<RawIterator> {
        RawIterator::open(py, self.source(), &read(verify_checksums, fill_cache))
    }

    /// Returns the steps of a get of key, as DB.explain does.
    fn explain<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let key = self.key(key);
        let explain = |view: &View| Ok(within!(view, &self.space, from => from.explain(&key))?);
        report(py, self.with(py, explain)?)
    }

    /// Closes the snapshot. Does nothing if the snapshot is already closed.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.view.close(py)
    }

    /// Closes the snapshot. LevelDB's name for this operation is release.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.close(py)
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
