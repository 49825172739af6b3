//! The class `DB`.

use std::ops::Bound as Limit;

use minikv::{Bytes, Readable};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::backup;
use crate::batch::{Value, WriteBatch};
use crate::call::blocking;
use crate::changes::{Changes, name_of};
use crate::convert::{report, value_or};
use crate::error::Fault;
use crate::iterator::{Iterator, RawIterator};
use crate::keyspace::Keyspace;
use crate::options::{parse, path_of, read, write};
use crate::prefixed::PrefixedDB;
use crate::range::Range;
use crate::shared::CLOSED;
use crate::shared::{Handle, Owner, Shared, either};
use crate::slot::{Moment, Source};
use crate::snapshot::Snapshot;
use crate::space::{SpaceName, Spaces, names_of};
use crate::transaction::{Transaction, transact};

/// A database: an ordered map from bytes to bytes in a directory.
///
/// Options have plyvel's names and LevelDB's defaults. Sizes are in bytes. create_if_missing
/// creates a missing database, and error_if_exists refuses an existing one. comparator is a
/// function of two keys that returns a negative number, 0 or a positive number; its results must
/// never change, and comparator_name is stored in the files. bloom_filter_bits is the number of
/// filter bits per key, where 0 means no filters. filter_layout is the layout of the filters:
/// 'block', which LevelDB also uses, 'table' or 'both'. For DB.changes, the database keeps logs of
/// keep_logs_bytes bytes, or those of the last keep_logs_for seconds.
///
/// Several threads may use a DB. The database is closed by close() or at the end of a with block.
/// Otherwise it is closed when the last object that uses it is destroyed.
#[pyclass(frozen, weakref, module = "minikv")]
pub struct DB {
    pub shared: Owner,
    /// The name of the database, as passed by the caller.
    #[pyo3(get)]
    name: Py<PyAny>,
    /// Whether the database is open for reading only.
    #[pyo3(get)]
    read_only: bool,
}

impl DB {
    /// Opens the database `name` for reading only.
    pub fn open_read_only(
        name: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<DB> {
        let with = parse(name, options)?;
        let shared = blocking(name.py(), || Shared::open_read_only(with))?;
        Ok(DB { shared: Owner::new(shared), name: name.clone().unbind(), read_only: true })
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Handle) -> Result<T, Fault> + Send,
    ) -> PyResult<T> {
        blocking(py, || self.shared.with(CLOSED, work))
    }

    fn check_open(&self) -> PyResult<()> {
        if self.shared.is_closed() { Err(PyRuntimeError::new_err(CLOSED)) } else { Ok(()) }
    }

    pub fn get_value(
        &self,
        py: Python<'_>,
        key: &[u8],
        verify_checksums: Option<bool>,
        fill_cache: Option<bool>,
    ) -> PyResult<Option<Bytes>> {
        let options = read(verify_checksums, fill_cache);
        self.with(py, |db| db.get(&options, key))
    }

    pub fn contains(&self, py: Python<'_>, key: &[u8]) -> PyResult<bool> {
        self.with(py, |db| db.contains_key(key))
    }

    fn source(&self) -> Source<'_> {
        Source { moment: Moment::Now(&self.shared), space: None }
    }

    pub fn put_value(
        &self,
        py: Python<'_>,
        key: &[u8],
        value: &Bound<'_, PyAny>,
        sync: Option<bool>,
    ) -> PyResult<()> {
        let value = Value::of(value)?;
        let (value, options) = (value.as_slice(), write(sync));
        self.with(py, |db| Ok(db.writer()?.writing(options).put(key, value)?))
    }

    pub fn delete_key(&self, py: Python<'_>, key: &[u8], sync: Option<bool>) -> PyResult<()> {
        let options = write(sync);
        self.with(py, |db| Ok(db.writer()?.writing(options).delete(key)?))
    }
}

/// Returns an inclusive bound at `key`, or no bound if `key` is `None`.
fn bound(key: Option<&[u8]>) -> Limit<&[u8]> {
    key.map_or(Limit::Unbounded, Limit::Included)
}

#[pymethods]
impl DB {
    #[new]
    #[pyo3(
        signature = (name, **options),
        text_signature = "(name, *, create_if_missing=False, error_if_exists=False, \
            paranoid_checks=None, write_buffer_size=None, max_open_files=None, \
            lru_cache_size=None, block_size=None, block_restart_interval=None, \
            max_file_size=None, keep_logs_bytes=None, keep_logs_for=None, \
            compression='snappy', bloom_filter_bits=0, filter_layout='block', \
            comparator=None, comparator_name=None)"
    )]
    fn new(name: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<DB> {
        let with = parse(name, options)?;
        let shared = blocking(name.py(), || Shared::open(with))?;
        Ok(DB { shared: Owner::new(shared), name: name.clone().unbind(), read_only: false })
    }

    /// Waits until the calls of other threads have ended, and then closes the database, its
    /// iterators and its snapshots. Does nothing if the database is already closed.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        blocking(py, || {
            self.shared.close();
            Ok(())
        })
    }

    /// Whether the database is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.shared.is_closed()
    }

    fn __repr__(this: &Bound<'_, Self>) -> PyResult<String> {
        let closed = if this.get().shared.is_closed() { " (closed)" } else { "" };
        let name = this.get().name.bind(this.py()).repr()?;
        Ok(format!("<minikv.DB with name {name}{closed} at {:p}>", this.as_ptr()))
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
        let value = self.get_value(py, key, verify_checksums, fill_cache)?;
        Ok(value_or(py, value, default))
    }

    fn __contains__(&self, py: Python<'_>, key: &[u8]) -> PyResult<bool> {
        self.contains(py, key)
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
        self.put_value(py, key, value, sync)
    }

    /// Deletes key, whether or not it has a value. With sync=True, returns only after the write is
    /// durable.
    #[pyo3(signature = (key, *, sync=false))]
    fn delete(&self, py: Python<'_>, key: &[u8], sync: Option<bool>) -> PyResult<()> {
        self.delete_key(py, key, sync)
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
        let options = write(sync);
        self.with(py, |db| {
            let stop = stop.map_or(Limit::Unbounded, Limit::Excluded);
            db.writer()?.writing(options).delete_range((bound(start), stop))?;
            Ok(())
        })
    }

    /// Returns a new batch of writes. With transaction=True, an exception in the with block of the
    /// batch discards the batch.
    #[pyo3(signature = (*, transaction=false, sync=false))]
    fn write_batch(&self, transaction: Option<bool>, sync: Option<bool>) -> PyResult<WriteBatch> {
        WriteBatch::new(&self.shared, &[], transaction, sync)
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Iterator> {
        Iterator::open(py, self.source(), &Range::default(), &read(None, Some(true)))
    }

    /// Returns an iterator over the keys from start to stop, or over the keys with a prefix. With
    /// reverse=True, the iterator goes backwards. It yields pairs of a key and a value; with
    /// include_key=False, only values; with include_value=False, only keys.
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

    /// Returns a raw iterator.
    #[pyo3(signature = (*, verify_checksums=true, fill_cache=true))]
    fn raw_iterator(
        &self,
        py: Python<'_>,
        verify_checksums: Option<bool>,
        fill_cache: Option<bool>,
    ) -> PyResult<RawIterator> {
        RawIterator::open(py, self.source(), &read(verify_checksums, fill_cache))
    }

    /// Returns a snapshot of the database as it is now.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        Snapshot::open(py, &self.shared, None, None)
    }

    /// Returns the value of the property with this name, such as b'leveldb.stats', or None if there
    /// is no such property.
    fn get_property<'py>(
        &self,
        py: Python<'py>,
        name: &[u8],
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let name = std::str::from_utf8(name).ok();
        let value =
            self.with(py, |db| Ok(name.and_then(|name| either!(db, db => db.property(name)))))?;
        Ok(value.map(|value| PyBytes::new(py, value.as_bytes())))
    }

    /// Compacts the keys from start to stop; None means no bound.
    #[pyo3(signature = (*, start=None, stop=None))]
    fn compact_range(
        &self,
        py: Python<'_>,
        start: Option<&[u8]>,
        stop: Option<&[u8]>,
    ) -> PyResult<()> {
        let (start, stop) = (bound(start), bound(stop));
        self.with(py, |db| Ok(db.writer()?.compact_range((start, stop))?))
    }

    /// Returns the approximate number of bytes that the entries from start to stop take in the
    /// table files and, before they are written there, in memory.
    fn approximate_size(&self, py: Python<'_>, start: &[u8], stop: &[u8]) -> PyResult<u64> {
        self.with(py, |db| Ok(either!(db, db => db.approximate_size(start..stop))?))
    }

    /// Returns a list of the approximate sizes of ranges. Each range is a pair of start and stop.
    #[pyo3(signature = (*ranges))]
    fn approximate_sizes(&self, ranges: &Bound<'_, PyTuple>) -> PyResult<Vec<u64>> {
        self.check_open()?;
        let size = |range: Bound<'_, PyAny>| {
            let [start, stop]: [Bound<'_, PyBytes>; 2] = range
                .extract()
                .map_err(|_| PyTypeError::new_err("Ranges must be pairs of two byte strings"))?;
            self.approximate_size(range.py(), start.as_bytes(), stop.as_bytes())
        };
        ranges.iter().map(size).collect()
    }

    /// Returns a view of the keys that begin with prefix. The keys of the view do not include the
    /// prefix.
    fn prefixed_db(this: Bound<'_, Self>, prefix: &[u8]) -> PrefixedDB {
        PrefixedDB::new(this.unbind(), prefix)
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
    ) -> PyResult<()> {
        let _ = (exc_type, exc_value, traceback);
        self.close(py)
    }

    /// Returns the keyspace with this name, a part of the database with keys of its own: the one
    /// that has entries, otherwise an ordinary one. With expiring=True, returns an expiring one.
    #[pyo3(signature = (name, *, expiring=None))]
    fn keyspace(this: Bound<'_, Self>, name: &[u8], expiring: Option<bool>) -> PyResult<Keyspace> {
        SpaceName::check(name)?;
        let find = |db: &Handle| Ok(either!(db, db => db.find(name, expiring))?);
        let space = this.get().with(this.py(), find)?;
        let shared = Owner::new(this.get().shared.clone());
        Ok(Keyspace::new(shared, space, this.into_any().unbind()))
    }

    /// Returns a list of the names and the kinds of the keyspaces that have entries.
    fn keyspaces<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let mut listed = self.with(py, |db| Ok(either!(db, db => names_of(&db.keyspaces()?))))?;
        listed.sort_by_key(|space| space.is_expiring);
        listed.iter().map(|space| name_of(py, space)).collect()
    }

    /// Begins a transaction. With sync=True, its commit returns only after the writes are durable.
    #[pyo3(signature = (*, sync=false))]
    fn transaction(&self, py: Python<'_>, sync: Option<bool>) -> PyResult<Transaction> {
        Transaction::begin(py, &self.shared, sync)
    }

    /// Calls body with a transaction, commits the transaction, and returns the result of body.
    /// After a conflict, does so again with a new transaction; so body may run several times, and
    /// should have no other effects. An exception in body discards the writes.
    #[pyo3(signature = (body, *, sync=false))]
    fn transact<'py>(
        &self,
        body: &Bound<'py, PyAny>,
        sync: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        transact(&self.shared, body, sync)
    }

    /// The sequence number of the last operation that reads show. Each put and each delete has the
    /// next number.
    #[getter]
    fn sequence(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |db| Ok(either!(db, db => db.sequence())))
    }

    /// Returns the changes after the sequence number since; by default, those after this call.
    #[pyo3(signature = (since=None))]
    fn changes(&self, py: Python<'_>, since: Option<u64>) -> PyResult<Changes> {
        Changes::open(py, &self.shared, since)
    }

    /// Adds a backup of the database to a folder of backups, and returns the backup, as a
    /// dictionary. With keep, then removes all backups there except that many, the latest ones.
    /// Reads and writes go on meanwhile.
    #[pyo3(signature = (folder, *, keep=None))]
    fn backup<'py>(
        &self,
        folder: &Bound<'py, PyAny>,
        keep: Option<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if keep == Some(0) {
            return Err(PyValueError::new_err("'keep' must be at least 1"));
        }
        let (py, folder) = (folder.py(), path_of(folder)?);
        report(py, self.with(py, |db| backup::add(db.writer()?, &folder, keep))?)
    }

    /// Copies the database, as it is now, to path, which must be a new directory. Tables are
    /// hard-linked where possible.
    fn checkpoint(&self, py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<()> {
        let path = path_of(path)?;
        self.with(py, |db| Ok(db.writer()?.checkpoint(&path)?))
    }

    /// Returns the steps of a get of key, as in the report of `minikv explain --json`.
    fn explain<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        report(py, self.with(py, |db| Ok(either!(db, db => db.explain(key))?))?)
    }

    /// Returns counters of reads, writes, flushes and compactions, and statistics of the cache and
    /// of each level.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        report(py, self.with(py, |db| Ok(either!(db, db => db.stats())))?)
    }

    /// Returns the filters that would pay off, judging by the gets of absent keys so far.
    fn filter_advice<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        report(py, self.with(py, |db| Ok(either!(db, db => minikv_instrument::advise(db))?))?)
    }

    /// Updates a read-only database to the current state of its writer. Returns whether anything
    /// changed. A database that is open for writing is always current.
    fn refresh(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |db| match db {
            Handle::Writer(_) => Ok(false),
            Handle::Reader(db) => Ok(db.refresh()?.changed),
        })
    }

    /// Lets the database accept writes again after an error stopped them. The cause of the error
    /// must be gone.
    fn resume(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |db| Ok(db.writer()?.resume()?))
    }

    /// Makes all writes so far durable.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |db| Ok(db.writer()?.sync()?))
    }
}
