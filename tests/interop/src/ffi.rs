//! LevelDB's C API behind safe types.
//!
//! Every `leveldb_*` object is created and destroyed by the type that holds it, so pointers are
//! never null and never used after the object is destroyed. Slices are passed as pointer and
//! length, and the library copies them before it returns.
#![allow(unsafe_code, reason = "calls C")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{null, null_mut};

use leveldb_c_api::*;
use minikv::{Comparator, IndexedDbComparator};

unsafe extern "C" {
    fn interop_set_reuse_logs(o: *mut COptions, on: u8);
}

/// LevelDB's options, and whether to use a comparator other than byte order.
#[derive(Clone, Debug)]
pub struct Settings {
    pub create_if_missing: bool,
    pub paranoid_checks: bool,
    pub write_buffer_bytes: usize,
    /// Size of a block in bytes. LevelDB uses at least 1 KiB.
    pub block_bytes: usize,
    pub block_restart_interval: usize,
    /// Maximum size of a table in bytes. LevelDB uses at least 1 MiB.
    pub max_file_bytes: usize,
    pub cache_bytes: usize,
    pub snappy: bool,
    pub bloom_bits: Option<u32>,
    pub reuse_logs: bool,
    /// Whether to use reverse byte order, under the name `interop.Reverse`.
    pub reverse: bool,
    /// Whether to use the order of Chromium's IndexedDB, `idb_cmp1`, as minikv defines it.
    pub indexed_db: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            create_if_missing: false,
            paranoid_checks: true,
            write_buffer_bytes: 4 << 20,
            block_bytes: 4 << 10,
            block_restart_interval: 16,
            max_file_bytes: 2 << 20,
            cache_bytes: 8 << 20,
            snappy: true,
            bloom_bits: None,
            reuse_logs: false,
            reverse: false,
            indexed_db: false,
        }
    }
}

/// LevelDB's options, and the objects they point to.
struct Options {
    options: *mut COptions,
    cache: *mut CCache,
    filter: Option<*mut CFilter>,
    comparator: Option<*mut CComparator>,
}

impl Options {
    fn new(settings: &Settings) -> Options {
        // SAFETY: the setters are passed the newly created options. In `drop`, the options are
        // destroyed before the objects to which they point.
        unsafe {
            let options = leveldb_options_create();
            leveldb_options_set_create_if_missing(options, settings.create_if_missing.into());
            leveldb_options_set_paranoid_checks(options, settings.paranoid_checks.into());
            leveldb_options_set_write_buffer_size(options, settings.write_buffer_bytes);
            leveldb_options_set_block_size(options, settings.block_bytes);
            let keys = settings.block_restart_interval as c_int;
            leveldb_options_set_block_restart_interval(options, keys);
            leveldb_options_set_max_file_size(options, settings.max_file_bytes);
            leveldb_options_set_compression(options, settings.snappy.into());
            interop_set_reuse_logs(options, settings.reuse_logs.into());
            let cache = leveldb_cache_create_lru(settings.cache_bytes);
            leveldb_options_set_cache(options, cache);
            let filter = settings.bloom_bits.map(|bits| {
                let filter = leveldb_filterpolicy_create_bloom(bits as c_int);
                leveldb_options_set_filter_policy(options, filter);
                filter
            });
            let order: Option<(Compare, Name)> = match settings {
                Settings { reverse: true, .. } => Some((reverse_compare, reverse_name)),
                Settings { indexed_db: true, .. } => Some((indexed_db_compare, indexed_db_name)),
                _ => None,
            };
            let comparator = order.map(|(compare, name)| {
                let comparator = leveldb_comparator_create(null_mut(), no_destroy, compare, name);
                leveldb_options_set_comparator(options, comparator);
                comparator
            });
            Options { options, cache, filter, comparator }
        }
    }
}

impl Drop for Options {
    fn drop(&mut self) {
        // SAFETY: each object was made in `new` and is destroyed once; no database uses the options
        // any more, because `LevelDb` closes its database before it drops its options.
        unsafe {
            leveldb_options_destroy(self.options);
            leveldb_cache_destroy(self.cache);
            if let Some(filter) = self.filter {
                leveldb_filterpolicy_destroy(filter);
            }
            if let Some(comparator) = self.comparator {
                leveldb_comparator_destroy(comparator);
            }
        }
    }
}

type Compare = extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_int;
type Name = extern "C" fn(*mut c_void) -> *const c_char;

extern "C" fn no_destroy(_: *mut c_void) {}

extern "C" fn reverse_name(_: *mut c_void) -> *const c_char {
    c"test.Reverse".as_ptr()
}

extern "C" fn reverse_compare(
    _: *mut c_void,
    a: *const c_char,
    a_len: usize,
    b: *const c_char,
    b_len: usize,
) -> c_int {
    // SAFETY: LevelDB passes two keys that live for the length of the call.
    let (a, b) = unsafe { (bytes(a.cast(), a_len), bytes(b.cast(), b_len)) };
    b.cmp(a) as c_int
}

extern "C" fn indexed_db_name(_: *mut c_void) -> *const c_char {
    c"idb_cmp1".as_ptr()
}

extern "C" fn indexed_db_compare(
    _: *mut c_void,
    a: *const c_char,
    a_len: usize,
    b: *const c_char,
    b_len: usize,
) -> c_int {
    // SAFETY: LevelDB passes two keys that live for the length of the call.
    let (a, b) = unsafe { (bytes(a.cast(), a_len), bytes(b.cast(), b_len)) };
    IndexedDbComparator.compare(a, b) as c_int
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("a path has no NUL")
}

/// One operation of a batch.
#[derive(Clone, Debug)]
pub enum Op {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
}

/// A key and its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// A database opened by LevelDB. Every read verifies checksums.
pub struct LevelDb {
    db: *mut CDb,
    read: *mut CReadOptions,
    write: *mut CWriteOptions,
    _options: Options,
}

impl LevelDb {
    /// Opens the database in `path`.
    pub fn open(path: &Path, settings: &Settings) -> Result<LevelDb, String> {
        let options = Options::new(settings);
        let name = c_path(path);
        // SAFETY: the name outlives the call, and the options live as long as `LevelDb`.
        let db = checked(|error| unsafe { leveldb_open(options.options, name.as_ptr(), error) })?;
        // SAFETY: the objects are made here and destroyed in `drop`.
        unsafe {
            let read = leveldb_readoptions_create();
            leveldb_readoptions_set_verify_checksums(read, 1);
            Ok(LevelDb { db, read, write: leveldb_writeoptions_create(), _options: options })
        }
    }

    /// Writes one entry.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let (db, write) = (self.db, self.write);
        // SAFETY: the database is open; slices are passed as described in the module documentation.
        checked(|error| unsafe {
            let (key, key_len) = (key.as_ptr(), key.len());
            leveldb_put(db, write, key, key_len, value.as_ptr(), value.len(), error);
        })
    }

    /// Writes one entry, and waits until it is durable.
    pub fn put_synced(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        // SAFETY: the options were made in `open`; a put copies them before it returns.
        unsafe { leveldb_writeoptions_set_sync(self.write, 1) };
        let done = self.put(key, value);
        // SAFETY: the options were made in `open`.
        unsafe { leveldb_writeoptions_set_sync(self.write, 0) };
        done
    }

    /// Writes all of `batch` or none of it.
    pub fn write(&self, batch: &[Op]) -> Result<(), String> {
        // SAFETY: the batch is made, used and destroyed here; slices are passed as described in the
        // module documentation.
        unsafe {
            let c_batch = leveldb_writebatch_create();
            for op in batch {
                match op {
                    Op::Put(k, v) => {
                        leveldb_writebatch_put(c_batch, k.as_ptr(), k.len(), v.as_ptr(), v.len());
                    }
                    Op::Delete(k) => leveldb_writebatch_delete(c_batch, k.as_ptr(), k.len()),
                }
            }
            let done = checked(|error| leveldb_write(self.db, self.write, c_batch, error));
            leveldb_writebatch_destroy(c_batch);
            done
        }
    }

    /// Returns the value of `key`.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let mut len = 0;
        // SAFETY: the database is open; a value that is found has `len` bytes, allocated by the
        // library. It is copied, and freed once.
        unsafe {
            let value = checked(|error| {
                leveldb_get(self.db, self.read, key.as_ptr(), key.len(), &mut len, error)
            })?;
            if value.is_null() {
                return Ok(None);
            }
            let copy = bytes(value, len).to_vec();
            leveldb_free(value.cast());
            Ok(Some(copy))
        }
    }

    /// Returns every entry, in the order of keys or in reverse order.
    pub fn entries(&self, backward: bool) -> Result<Vec<Entry>, String> {
        let mut entries = Vec::new();
        // SAFETY: the iterator is made, used and destroyed here; key and value are copied before
        // the iterator moves.
        unsafe {
            let iter = leveldb_create_iterator(self.db, self.read);
            match backward {
                false => leveldb_iter_seek_to_first(iter),
                true => leveldb_iter_seek_to_last(iter),
            }
            while leveldb_iter_valid(iter) != 0 {
                let (mut key_len, mut value_len) = (0, 0);
                let key = leveldb_iter_key(iter, &mut key_len);
                let value = leveldb_iter_value(iter, &mut value_len);
                entries.push((bytes(key, key_len).to_vec(), bytes(value, value_len).to_vec()));
                match backward {
                    false => leveldb_iter_next(iter),
                    true => leveldb_iter_prev(iter),
                }
            }
            let end = checked(|error| leveldb_iter_get_error(iter, error));
            leveldb_iter_destroy(iter);
            end.map(|()| entries)
        }
    }

    /// Compacts the keys from `start` to `limit`. `None` stands for the first or the last key.
    pub fn compact_range(&self, start: Option<&[u8]>, limit: Option<&[u8]>) {
        // An empty slice is a valid key, so its pointer must not be null.
        let parts = |key: Option<&[u8]>| key.map_or((null(), 0), |key| (key.as_ptr(), key.len()));
        let ((start, start_len), (limit, limit_len)) = (parts(start), parts(limit));
        // SAFETY: the database is open; slices are passed as described in the module documentation.
        // A null key means no bound.
        unsafe { leveldb_compact_range(self.db, start, start_len, limit, limit_len) }
    }

    /// Returns a property, such as `leveldb.num-files-at-level0`.
    pub fn property(&self, name: &str) -> Option<String> {
        let name = CString::new(name).expect("a name has no NUL");
        // SAFETY: a value that is found is a C string allocated by the library. It is copied, and
        // freed once.
        unsafe {
            let value = leveldb_property_value(self.db, name.as_ptr());
            if value.is_null() {
                return None;
            }
            let text = CStr::from_ptr(value).to_string_lossy().into_owned();
            leveldb_free(value.cast());
            Some(text)
        }
    }
}

impl Drop for LevelDb {
    fn drop(&mut self) {
        // SAFETY: each object was made in `open` and is destroyed once, the database before its
        // options.
        unsafe {
            leveldb_close(self.db);
            leveldb_readoptions_destroy(self.read);
            leveldb_writeoptions_destroy(self.write);
        }
    }
}

/// Runs LevelDB's repair on the database in `path`.
pub fn repair(path: &Path, settings: &Settings) -> Result<(), String> {
    let options = Options::new(settings);
    let name = c_path(path);
    // SAFETY: the options and the name outlive the call.
    checked(|error| unsafe { leveldb_repair_db(options.options, name.as_ptr(), error) })
}
