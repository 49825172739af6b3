//! The functions of LevelDB's API for databases and snapshots.

use std::collections::HashMap;
use std::ffi::c_int;
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minikv::{
    Bytes, Cursor, Db, Error, ReadOnlyDb, Readable, Reader, RepairOptions, Result, Snapshot,
};

use crate::batch::leveldb_writebatch_t;
use crate::border::{Array, ErrPtr, In, Kept, Malloced, Out, export};
use crate::options::{leveldb_options_t, leveldb_readoptions_t, leveldb_writeoptions_t};
use crate::snapshot::leveldb_snapshot_t;

/// Error number for a missing file.
const ENOENT: i32 = 2;

/// A database that is open for writing or for reading only.
pub enum Handle {
    Writer(Db),
    Reader(ReadOnlyDb),
}

pub struct leveldb_t {
    pub handle: Handle,
    /// Snapshots that were not released, by address. Closing the database frees these snapshots.
    /// Otherwise they would keep the directory locked, unlike LevelDB's snapshots.
    snapshots: Mutex<HashMap<usize, Kept<leveldb_snapshot_t>>>,
}

impl Readable for leveldb_t {
    fn reader(&self) -> Reader<'_> {
        match &self.handle {
            Handle::Writer(db) => db.reader(),
            Handle::Reader(db) => db.reader(),
        }
    }
}

impl leveldb_t {
    pub fn new(handle: Handle) -> Kept<leveldb_t> {
        Kept::new(leveldb_t { handle, snapshots: Mutex::default() })
    }

    /// Returns the database if it is open for writing.
    ///
    /// # Errors
    /// Invalid argument, if the database is open for reading only.
    pub fn writer(&self) -> Result<&Db> {
        match &self.handle {
            Handle::Writer(db) => Ok(db),
            Handle::Reader(_) => {
                let what = "the database is open for reading only".to_owned();
                Err(Error::InvalidArgument { what })
            }
        }
    }

    /// Returns a reader of the snapshot in the options or, if there is none, of the database.
    pub fn at<'a>(&'a self, options: &'a leveldb_readoptions_t) -> Reader<'a> {
        match options.snapshot.get() {
            Some(snapshot) => snapshot.snapshot.reading(options.read),
            None => self.reading(options.read),
        }
    }

    fn get(&self, options: &leveldb_readoptions_t, key: &[u8]) -> Result<Option<Bytes>> {
        self.at(options).get(key)
    }

    pub fn cursor(&self, options: &leveldb_readoptions_t) -> Result<Cursor> {
        self.at(options).cursor()
    }

    fn snapshot(&self) -> Snapshot {
        match &self.handle {
            Handle::Writer(db) => db.snapshot(),
            Handle::Reader(db) => db.snapshot(),
        }
    }

    fn snapshots(&self) -> MutexGuard<'_, HashMap<usize, Kept<leveldb_snapshot_t>>> {
        self.snapshots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the approximate number of bytes that the entries from `start` to `limit` take in the
    /// table files and in memory. Returns 0 after an error, because the C function cannot return
    /// errors.
    fn approximate_size(&self, start: &[u8], limit: &[u8]) -> u64 {
        Readable::approximate_size(self, start..limit).unwrap_or(0)
    }
}

/// Returns an error if the parent directory of `path` is missing. minikv would create this
/// directory; LevelDB does not.
fn check_parent(path: &Path) -> Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() && !parent.exists() => Err(Error::Io {
            op: "open",
            path: path.to_owned(),
            source: Arc::new(io::Error::from_raw_os_error(ENOENT)),
        }),
        _ => Ok(()),
    }
}

fn open(options: &leveldb_options_t, path: &Path) -> Result<Kept<leveldb_t>> {
    check_parent(path)?;
    options.open_with(|all| Db::open(path, all)).map(|db| leveldb_t::new(Handle::Writer(db)))
}

/// Returns an inclusive bound at `key`, or no bound if the pointer is null.
pub fn bound<'a>(key: In, len: usize) -> Bound<&'a [u8]> {
    key.bytes_or_null(len).map_or(Bound::Unbounded, Bound::Included)
}

export! {
    fn leveldb_open(options: &leveldb_options_t, name: In, errptr: ErrPtr) -> Kept<leveldb_t> {
        errptr.report(open(options, name.path())).unwrap_or_else(Kept::null)
    }

    fn leveldb_close(db: Kept<leveldb_t>) {
        if let Some(db) = db.take() {
            let snapshots = std::mem::take(&mut *db.snapshots());
            snapshots.into_values().for_each(|snapshot| drop(snapshot.take()));
        }
    }

    fn leveldb_put(
        db: &leveldb_t,
        options: &leveldb_writeoptions_t,
        key: In,
        key_len: usize,
        value: In,
        value_len: usize,
        errptr: ErrPtr,
    ) {
        let (key, value) = (key.bytes(key_len), value.bytes(value_len));
        errptr.report(db.writer().and_then(|db| db.writing(options.write).put(key, value)));
    }

    fn leveldb_delete(
        db: &leveldb_t,
        options: &leveldb_writeoptions_t,
        key: In,
        key_len: usize,
        errptr: ErrPtr,
    ) {
        let key = key.bytes(key_len);
        errptr.report(db.writer().and_then(|db| db.writing(options.write).delete(key)));
    }

    fn leveldb_write(
        db: &leveldb_t,
        options: &leveldb_writeoptions_t,
        batch: &leveldb_writebatch_t,
        errptr: ErrPtr,
    ) {
        let batch = batch.batch.clone();
        errptr.report(db.writer().and_then(|db| db.writing(options.write).write(batch)));
    }

    fn leveldb_get(
        db: &leveldb_t,
        options: &leveldb_readoptions_t,
        key: In,
        key_len: usize,
        value_len: Out<usize>,
        errptr: ErrPtr,
    ) -> Malloced {
        let value = errptr.report(db.get(options, key.bytes(key_len))).flatten();
        Malloced::value(value.as_deref(), value_len)
    }

    fn leveldb_create_snapshot(db: &leveldb_t) -> Kept<leveldb_snapshot_t> {
        let snapshot = Kept::new(leveldb_snapshot_t { snapshot: db.snapshot() });
        db.snapshots().insert(snapshot.address(), snapshot);
        snapshot
    }

    fn leveldb_release_snapshot(db: &leveldb_t, snapshot: Kept<leveldb_snapshot_t>) {
        let held = db.snapshots().remove(&snapshot.address());
        drop(held.and_then(Kept::take));
    }

    fn leveldb_property_value(db: &leveldb_t, name: In) -> Malloced {
        let value = std::str::from_utf8(name.text()).ok().and_then(|name| match &db.handle {
            Handle::Writer(db) => db.property(name),
            Handle::Reader(db) => db.property(name),
        });
        value.map_or_else(Malloced::null, |value| Malloced::copy(value.as_bytes()))
    }

    fn leveldb_approximate_sizes(
        db: &leveldb_t,
        count: c_int,
        starts: Array<In>,
        start_lens: Array<usize>,
        limits: Array<In>,
        limit_lens: Array<usize>,
        sizes: Out<u64>,
    ) {
        for at in 0..usize::try_from(count).unwrap_or(0) {
            let start = starts.at(at).bytes(start_lens.at(at));
            let limit = limits.at(at).bytes(limit_lens.at(at));
            sizes.set_at(at, db.approximate_size(start, limit));
        }
    }

    /// Compacts a range. Errors are ignored, because the C function cannot return them; a failed
    /// compaction loses no data.
    fn leveldb_compact_range(
        db: &leveldb_t,
        start: In,
        start_len: usize,
        limit: In,
        limit_len: usize,
    ) {
        let range = (bound(start, start_len), bound(limit, limit_len));
        let _ = db.writer().and_then(|db| db.compact_range(range));
    }

    fn leveldb_destroy_db(options: &leveldb_options_t, name: In, errptr: ErrPtr) {
        errptr.report(options.checked().and_then(|options| minikv::destroy(name.path(), &options)));
    }

    fn leveldb_repair_db(options: &leveldb_options_t, name: In, errptr: ErrPtr) {
        let repair = |options| minikv::repair(name.path(), &options, RepairOptions::default());
        let repaired = options.checked().and_then(repair);
        errptr.report(repaired.map_err(|error| minikv_status::of_tool(error, "repair")));
    }

    fn leveldb_free(memory: Malloced) {
        memory.free();
    }

    fn leveldb_major_version() -> c_int {
        1
    }

    fn leveldb_minor_version() -> c_int {
        23
    }
}
