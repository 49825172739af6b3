//! LevelDB as a [`Store`], through its C API.
//!
//! Every `leveldb_*` object is created and destroyed by the type that holds it, so pointers are
//! never null, except where noted, and are never used after the object is destroyed. Slices are
//! passed as a pointer and a length, and the library copies them before it returns. Threads may
//! share a database (`leveldb/db.h`).
#![allow(unsafe_code, reason = "calls C")]

use std::ffi::{CStr, CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{null, null_mut};

use leveldb_c_api::*;
use minikv_workloads::{Direction, Entry, Result, Settings, Store};

/// Replaces LevelDB's `crc32c::Extend` (`util/crc32c.h`) with a function that uses the processor's
/// CRC-32C instruction. The linker prefers this function to the one in the static library, which
/// Debian builds without the instruction.
///
/// # Safety
/// `data` must point to `len` readable bytes.
#[unsafe(export_name = "_ZN7leveldb6crc32c6ExtendEjPKcm")]
unsafe extern "C" fn crc32c_extend(crc: u32, data: *const u8, len: usize) -> u32 {
    // SAFETY: the caller promises that `data` points to `len` readable bytes.
    crc32c::crc32c_append(crc, unsafe { bytes(data, len) })
}

/// A database opened by LevelDB.
pub struct LevelDb {
    db: *mut CDb,
    options: *mut COptions,
    cache: *mut CCache,
    /// Null if the database is opened without filters.
    filter: *mut CFilter,
    read: *mut CReadOptions,
    write: *mut CWriteOptions,
    write_synced: *mut CWriteOptions,
}

// SAFETY: any thread may use LevelDB's database, and several threads may use it at once. The
// options are only read after `open`.
unsafe impl Send for LevelDb {}
// SAFETY: as for `Send`.
unsafe impl Sync for LevelDb {}

/// Calls `call` with a pointer to which an error can be written. Returns the error if there is one.
fn checked<T>(call: impl FnOnce(*mut *mut c_char) -> T) -> Result<T> {
    Ok(leveldb_c_api::checked(call)?)
}

impl LevelDb {
    /// Opens or creates the database in `dir`.
    pub fn open(dir: &Path, settings: &Settings) -> Result<LevelDb> {
        LevelDb::open_with(dir, settings, true)
    }

    /// Opens or creates the database in `dir`, with or without filters.
    pub fn open_with(dir: &Path, settings: &Settings, filters: bool) -> Result<LevelDb> {
        let name = CString::new(dir.as_os_str().as_bytes())?;
        // SAFETY: the objects created here are destroyed in `drop`, or at once if the open fails.
        // The setters get the options that were just created. The objects to which the options
        // point outlive the database.
        unsafe {
            let options = leveldb_options_create();
            let cache = leveldb_cache_create_lru(settings.cache_bytes);
            let filter = if filters { leveldb_filterpolicy_create_bloom(10) } else { null_mut() };
            leveldb_options_set_create_if_missing(options, 1);
            leveldb_options_set_write_buffer_size(options, settings.write_buffer_bytes);
            leveldb_options_set_max_open_files(options, 10_000);
            leveldb_options_set_block_size(options, 4 << 10);
            leveldb_options_set_compression(options, 1);
            leveldb_options_set_cache(options, cache);
            leveldb_options_set_filter_policy(options, filter);
            let read = leveldb_readoptions_create();
            leveldb_readoptions_set_verify_checksums(read, 1);
            let (write, write_synced) =
                (leveldb_writeoptions_create(), leveldb_writeoptions_create());
            leveldb_writeoptions_set_sync(write_synced, 1);
            // As long as the database is null, dropping `this` destroys only the other objects.
            let mut this =
                LevelDb { db: null_mut(), options, cache, filter, read, write, write_synced };
            this.db = checked(|error| leveldb_open(options, name.as_ptr(), error))?;
            Ok(this)
        }
    }
}

impl LevelDb {
    /// Returns the text of a property (`leveldb/db.h`), or `None` if there is no such property.
    pub fn property(&self, name: &CStr) -> Option<String> {
        // SAFETY: the database is open. A returned text is a C string allocated by the library, and
        // it is freed once.
        unsafe {
            let text = leveldb_property_value(self.db, name.as_ptr());
            if text.is_null() {
                return None;
            }
            let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
            leveldb_free(text.cast());
            Some(copy)
        }
    }

    /// Writes the entries in one batch.
    fn write(&self, entries: &[Entry<'_>], options: *mut CWriteOptions) -> Result<()> {
        // SAFETY: the batch is created, used and destroyed here; slices are passed as described in
        // the module documentation.
        unsafe {
            let batch = leveldb_writebatch_create();
            for (key, value) in entries {
                let (key, key_len) = (key.as_ptr(), key.len());
                leveldb_writebatch_put(batch, key, key_len, value.as_ptr(), value.len());
            }
            let done = checked(|error| leveldb_write(self.db, options, batch, error));
            leveldb_writebatch_destroy(batch);
            done
        }
    }
}

impl Store for LevelDb {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        let write = if sync { self.write_synced } else { self.write };
        // SAFETY: the database is open; slices are passed as described in the module documentation.
        checked(|error| unsafe {
            let (key, key_len) = (key.as_ptr(), key.len());
            leveldb_put(self.db, write, key, key_len, value.as_ptr(), value.len(), error);
        })
    }

    fn put_batch(&self, entries: &[Entry<'_>]) -> Result<()> {
        self.write(entries, self.write)
    }

    fn sync(&self) -> Result<()> {
        // LevelDB has no sync operation, but a synced batch, even an empty one, also makes all
        // earlier writes durable.
        self.write(&[], self.write_synced)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        // SAFETY: the database is open; slices are passed as described in the module documentation.
        checked(|error| unsafe {
            leveldb_delete(self.db, self.write, key.as_ptr(), key.len(), error);
        })
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let mut len = 0;
        // SAFETY: the database is open. A value found is `len` bytes allocated by the library. The
        // value is lent to `found` for the call, and is freed once.
        unsafe {
            let value = checked(|error| {
                leveldb_get(self.db, self.read, key.as_ptr(), key.len(), &mut len, error)
            })?;
            if value.is_null() {
                return Ok(false);
            }
            found(bytes(value, len));
            leveldb_free(value.cast());
            Ok(true)
        }
    }

    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        // SAFETY: the iterator is created, used and destroyed here. The key and the value are lent
        // only until the iterator moves.
        unsafe {
            let iter = leveldb_create_iterator(self.db, self.read);
            let entry = || {
                let (mut key_len, mut value_len) = (0, 0);
                let key = leveldb_iter_key(iter, &mut key_len);
                let value = leveldb_iter_value(iter, &mut value_len);
                (bytes(key, key_len), bytes(value, value_len))
            };
            match (direction, from) {
                (Direction::Forward, None) => leveldb_iter_seek_to_first(iter),
                (Direction::Backward, None) => leveldb_iter_seek_to_last(iter),
                (_, Some(from)) => leveldb_iter_seek(iter, from.as_ptr(), from.len()),
            }
            if let (Direction::Backward, Some(from)) = (direction, from) {
                match leveldb_iter_valid(iter) != 0 {
                    true if entry().0 > from => leveldb_iter_prev(iter),
                    true => {}
                    false => leveldb_iter_seek_to_last(iter),
                }
            }
            while leveldb_iter_valid(iter) != 0 {
                let (key, value) = entry();
                if !visit(key, value) {
                    break;
                }
                match direction {
                    Direction::Forward => leveldb_iter_next(iter),
                    Direction::Backward => leveldb_iter_prev(iter),
                }
            }
            let end = checked(|error| leveldb_iter_get_error(iter, error));
            leveldb_iter_destroy(iter);
            end
        }
    }

    fn compact(&mut self) -> Result<()> {
        self.compact_beside().map(drop)
    }

    fn compact_beside(&self) -> Result<bool> {
        // SAFETY: the database is open, and LevelDB is thread-safe. Two null keys select the whole
        // key range.
        unsafe { leveldb_compact_range(self.db, null(), 0, null(), 0) };
        Ok(true)
    }

    fn describe(&self) -> String {
        // SAFETY: the functions take no arguments.
        let (major, minor) = unsafe { (leveldb_major_version(), leveldb_minor_version()) };
        format!(
            "LevelDB {major}.{minor}, the system's library: bloom 10 bits, blocks 4 KiB, snappy, \
             checksums verified; CRC-32C in hardware, which is put in its place here"
        )
    }
}

impl Drop for LevelDb {
    fn drop(&mut self) {
        // SAFETY: each object was created in `open_with` and is destroyed once. The database is
        // destroyed first.
        unsafe {
            if !self.db.is_null() {
                leveldb_close(self.db);
            }
            leveldb_writeoptions_destroy(self.write_synced);
            leveldb_writeoptions_destroy(self.write);
            leveldb_readoptions_destroy(self.read);
            leveldb_options_destroy(self.options);
            leveldb_cache_destroy(self.cache);
            if !self.filter.is_null() {
                leveldb_filterpolicy_destroy(self.filter);
            }
        }
    }
}
