//! The parts of LevelDB's C API (`leveldb/c.h`) that are called by the tests with LevelDB and by
//! the benchmark `peers`. Each wraps the functions in safe types.
#![allow(unsafe_code, reason = "declarations of C functions")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::slice;

macro_rules! opaque {
    ($($name:ident),*) => {$(
        #[repr(C)]
        pub struct $name {
            _private: [u8; 0],
        }
    )*};
}

opaque!(
    CDb,
    COptions,
    CReadOptions,
    CWriteOptions,
    CIterator,
    CBatch,
    CFilter,
    CCache,
    CComparator
);

pub type Compare = extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_int;

unsafe extern "C" {
    pub fn leveldb_open(o: *const COptions, name: *const c_char, err: *mut *mut c_char)
    -> *mut CDb;
    pub fn leveldb_close(db: *mut CDb);
    pub fn leveldb_put(
        db: *mut CDb,
        o: *const CWriteOptions,
        key: *const u8,
        key_len: usize,
        value: *const u8,
        value_len: usize,
        err: *mut *mut c_char,
    );
    pub fn leveldb_delete(
        db: *mut CDb,
        o: *const CWriteOptions,
        key: *const u8,
        key_len: usize,
        err: *mut *mut c_char,
    );
    pub fn leveldb_write(
        db: *mut CDb,
        o: *const CWriteOptions,
        batch: *mut CBatch,
        err: *mut *mut c_char,
    );
    pub fn leveldb_get(
        db: *mut CDb,
        o: *const CReadOptions,
        key: *const u8,
        key_len: usize,
        value_len: *mut usize,
        err: *mut *mut c_char,
    ) -> *mut u8;
    pub fn leveldb_property_value(db: *mut CDb, name: *const c_char) -> *mut c_char;
    pub fn leveldb_compact_range(
        db: *mut CDb,
        start: *const u8,
        start_len: usize,
        limit: *const u8,
        limit_len: usize,
    );
    pub fn leveldb_repair_db(o: *const COptions, name: *const c_char, err: *mut *mut c_char);

    pub fn leveldb_create_iterator(db: *mut CDb, o: *const CReadOptions) -> *mut CIterator;
    pub fn leveldb_iter_destroy(iter: *mut CIterator);
    pub fn leveldb_iter_valid(iter: *const CIterator) -> u8;
    pub fn leveldb_iter_seek_to_first(iter: *mut CIterator);
    pub fn leveldb_iter_seek_to_last(iter: *mut CIterator);
    pub fn leveldb_iter_seek(iter: *mut CIterator, key: *const u8, key_len: usize);
    pub fn leveldb_iter_next(iter: *mut CIterator);
    pub fn leveldb_iter_prev(iter: *mut CIterator);
    pub fn leveldb_iter_key(iter: *const CIterator, len: *mut usize) -> *const u8;
    pub fn leveldb_iter_value(iter: *const CIterator, len: *mut usize) -> *const u8;
    pub fn leveldb_iter_get_error(iter: *const CIterator, err: *mut *mut c_char);

    pub fn leveldb_writebatch_create() -> *mut CBatch;
    pub fn leveldb_writebatch_destroy(batch: *mut CBatch);
    pub fn leveldb_writebatch_put(
        batch: *mut CBatch,
        key: *const u8,
        key_len: usize,
        value: *const u8,
        value_len: usize,
    );
    pub fn leveldb_writebatch_delete(batch: *mut CBatch, key: *const u8, key_len: usize);

    pub fn leveldb_options_create() -> *mut COptions;
    pub fn leveldb_options_destroy(o: *mut COptions);
    pub fn leveldb_options_set_comparator(o: *mut COptions, comparator: *mut CComparator);
    pub fn leveldb_options_set_filter_policy(o: *mut COptions, filter: *mut CFilter);
    pub fn leveldb_options_set_create_if_missing(o: *mut COptions, on: u8);
    pub fn leveldb_options_set_paranoid_checks(o: *mut COptions, on: u8);
    pub fn leveldb_options_set_write_buffer_size(o: *mut COptions, bytes: usize);
    pub fn leveldb_options_set_cache(o: *mut COptions, cache: *mut CCache);
    pub fn leveldb_options_set_max_open_files(o: *mut COptions, files: c_int);
    pub fn leveldb_options_set_block_size(o: *mut COptions, bytes: usize);
    pub fn leveldb_options_set_block_restart_interval(o: *mut COptions, keys: c_int);
    pub fn leveldb_options_set_max_file_size(o: *mut COptions, bytes: usize);
    pub fn leveldb_options_set_compression(o: *mut COptions, kind: c_int);

    pub fn leveldb_comparator_create(
        state: *mut c_void,
        destructor: extern "C" fn(*mut c_void),
        compare: Compare,
        name: extern "C" fn(*mut c_void) -> *const c_char,
    ) -> *mut CComparator;
    pub fn leveldb_comparator_destroy(comparator: *mut CComparator);
    pub fn leveldb_filterpolicy_create_bloom(bits_per_key: c_int) -> *mut CFilter;
    pub fn leveldb_filterpolicy_destroy(filter: *mut CFilter);
    pub fn leveldb_cache_create_lru(bytes: usize) -> *mut CCache;
    pub fn leveldb_cache_destroy(cache: *mut CCache);

    pub fn leveldb_readoptions_create() -> *mut CReadOptions;
    pub fn leveldb_readoptions_destroy(o: *mut CReadOptions);
    pub fn leveldb_readoptions_set_verify_checksums(o: *mut CReadOptions, on: u8);
    pub fn leveldb_writeoptions_create() -> *mut CWriteOptions;
    pub fn leveldb_writeoptions_destroy(o: *mut CWriteOptions);
    pub fn leveldb_writeoptions_set_sync(o: *mut CWriteOptions, on: u8);

    pub fn leveldb_free(pointer: *mut c_void);
    pub fn leveldb_major_version() -> c_int;
    pub fn leveldb_minor_version() -> c_int;
}

/// Returns a slice passed by C.
///
/// # Safety
/// `len` bytes at `pointer` are readable and unchanged for `'a`, or `len` is 0.
pub unsafe fn bytes<'a>(pointer: *const u8, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: guaranteed by the caller.
    unsafe { slice::from_raw_parts(pointer, len) }
}

/// Passes a location for an error to `call`, and returns the error if one was stored.
pub fn checked<T>(call: impl FnOnce(*mut *mut c_char) -> T) -> Result<T, String> {
    let mut error: *mut c_char = null_mut();
    let value = call(&mut error);
    if error.is_null() {
        return Ok(value);
    }
    // SAFETY: an error set by the library is a C string allocated by the library; it is freed once.
    unsafe {
        let text = CStr::from_ptr(error).to_string_lossy().into_owned();
        leveldb_free(error.cast());
        Err(text)
    }
}
