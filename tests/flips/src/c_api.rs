//! LevelDB and RocksDB by their C API, which is the same but for the first word of each name and a
//! few options. A library is loaded while the program runs, so it need not be installed.
//!
//! Objects are made by the library, are never null, and live as long as the [`CDb`] that has them.
//! Slices are passed as pointer and length, and the library copies them before it returns.
#![allow(unsafe_code, reason = "calls C")]

use std::ffi::{CStr, CString, c_char, c_double, c_int, c_uchar, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{null, null_mut};

use crate::engine::Engine;
use crate::put_again;

/// An object of the library.
type Object = *mut c_void;

/// The place for a message of the library, which the caller frees.
type Message = *mut *mut c_char;

/// `snappy` in both.
const SNAPPY: c_int = 1;

/// Bits of a filter for each key.
const BITS: c_int = 10;

/// A library that is never unloaded, and the functions that phases call.
#[derive(Clone, Copy)]
pub(crate) struct Library {
    library: &'static libloading::Library,
    name: &'static str,
    put: unsafe extern "C" fn(Object, Object, *const u8, usize, *const u8, usize, Message),
    get: unsafe extern "C" fn(Object, Object, *const u8, usize, *mut usize, Message) -> *mut u8,
    free: unsafe extern "C" fn(*mut c_void),
}

impl Library {
    /// Loads the library, if it is installed.
    pub(crate) fn load(name: &'static str) -> Option<Library> {
        // SAFETY: what these libraries do when they are loaded is to fill their own tables.
        let library = unsafe { libloading::Library::new(format!("lib{name}.so")) }.ok()?;
        let library: &'static libloading::Library = Box::leak(Box::new(library));
        // SAFETY: the types are those of the header.
        unsafe {
            Some(Library {
                library,
                name,
                put: function(library, name, "put"),
                get: function(library, name, "get"),
                free: function(library, name, "free"),
            })
        }
    }

    /// Returns a function.
    ///
    /// # Safety
    /// The type must be the one that the header has.
    unsafe fn function<T: Copy>(self, name: &str) -> T {
        // SAFETY: the same is asked of the caller.
        unsafe { function(self.library, self.name, name) }
    }

    /// Calls a function without arguments that makes an object.
    fn make(self, what: &str) -> Object {
        // SAFETY: every `*_create` but those of filters and caches has this type.
        unsafe { self.function::<unsafe extern "C" fn() -> Object>(what)() }
    }

    /// Calls a function and returns what it gave, or the message that it left.
    fn checked<T>(self, call: impl FnOnce(Message) -> T) -> Result<T, String> {
        let mut message = null_mut();
        let given = call(&mut message);
        if message.is_null() {
            return Ok(given);
        }
        // SAFETY: the library leaves a text that ends with a zero, and gives it away.
        unsafe {
            let text = CStr::from_ptr(message).to_string_lossy().into_owned();
            (self.free)(message.cast());
            Err(text)
        }
    }

    /// Returns options as [`crate::Kind::open`] says.
    fn options(self, paranoid: bool) -> Object {
        let options = self.make("options_create");
        // SAFETY: the types are those of the headers, which differ for filters.
        unsafe {
            let set = |name: &str, on: bool| {
                self.function::<unsafe extern "C" fn(Object, c_uchar)>(name)(options, on.into());
            };
            set("options_set_create_if_missing", true);
            if paranoid {
                set("options_set_paranoid_checks", true);
            }
            let compression: unsafe extern "C" fn(Object, c_int) =
                self.function("options_set_compression");
            compression(options, SNAPPY);
            let give = |name: &str, to: Object, what: Object| {
                self.function::<unsafe extern "C" fn(Object, Object)>(name)(to, what);
            };
            if self.name == "leveldb" {
                let bloom: unsafe extern "C" fn(c_int) -> Object =
                    self.function("filterpolicy_create_bloom");
                give("options_set_filter_policy", options, bloom(BITS));
            } else {
                let bloom: unsafe extern "C" fn(c_double) -> Object =
                    self.function("filterpolicy_create_bloom");
                let tables = self.make("block_based_options_create");
                give("block_based_options_set_filter_policy", tables, bloom(BITS.into()));
                give("options_set_block_based_table_factory", options, tables);
            }
        }
        options
    }
}

/// Returns a function of a library.
///
/// # Safety
/// The type must be the one that the header has.
unsafe fn function<T: Copy>(library: &libloading::Library, prefix: &str, name: &str) -> T {
    // SAFETY: the same is asked of the caller.
    unsafe { *library.get::<T>(format!("{prefix}_{name}")).expect("a function of the C API") }
}

/// A database of one of the libraries. Its options are never freed: a process has one database.
pub(crate) struct CDb {
    library: Library,
    db: Object,
    read: Object,
    write: Object,
}

impl CDb {
    pub(crate) fn open(library: Library, dir: &Path, paranoid: bool) -> Result<CDb, String> {
        let name = CString::new(dir.as_os_str().as_bytes()).expect("a path without zeros");
        let options = library.options(paranoid);
        // SAFETY: the types are those of the header.
        unsafe {
            let open: unsafe extern "C" fn(Object, *const c_char, Message) -> Object =
                library.function("open");
            let db = library.checked(|message| open(options, name.as_ptr(), message))?;
            let read = library.make("readoptions_create");
            if paranoid {
                let verify: unsafe extern "C" fn(Object, c_uchar) =
                    library.function("readoptions_set_verify_checksums");
                verify(read, 1);
            }
            Ok(CDb { library, db, read, write: library.make("writeoptions_create") })
        }
    }

    fn flush_memory(&self) -> Result<(), String> {
        let options = self.library.make("flushoptions_create");
        // SAFETY: the type is that of RocksDB's header, which alone has the function.
        unsafe {
            let flush: unsafe extern "C" fn(Object, Object, Message) =
                self.library.function("flush");
            self.library.checked(|message| flush(self.db, options, message))
        }
    }
}

impl Engine for CDb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let (key, len) = (key.as_ptr(), key.len());
        self.library.checked(|message| {
            // SAFETY: both slices live until the call returns.
            unsafe {
                let (value, value_len) = (value.as_ptr(), value.len());
                (self.library.put)(self.db, self.write, key, len, value, value_len, message);
            }
        })
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let mut len = 0;
        let value = self.library.checked(|message| {
            // SAFETY: the key lives until the call returns.
            unsafe {
                (self.library.get)(self.db, self.read, key.as_ptr(), key.len(), &mut len, message)
            }
        })?;
        if value.is_null() {
            return Ok(None);
        }
        // SAFETY: the library gives `len` bytes away.
        unsafe {
            let copied = std::slice::from_raw_parts(value, len).to_vec();
            (self.library.free)(value.cast());
            Ok(Some(copied))
        }
    }

    fn flush(&self) -> Result<(), String> {
        if self.library.name == "leveldb" { self.compact() } else { self.flush_memory() }
    }

    fn compact(&self) -> Result<(), String> {
        // SAFETY: null stands for no limit.
        unsafe {
            let compact: unsafe extern "C" fn(Object, *const u8, usize, *const u8, usize) =
                self.library.function("compact_range");
            compact(self.db, null(), 0, null(), 0);
        }
        // The call tells nothing.
        put_again(self)
    }

    fn settle(&self) -> Result<(), String> {
        // LevelDB makes a table of its log when it is opened.
        if self.library.name == "leveldb" { Ok(()) } else { self.flush_memory() }
    }

    fn each(&self, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), String> {
        // SAFETY: the types are those of the header; a key and a value are valid until the next
        // move, and the iterator is destroyed once.
        unsafe {
            let make: unsafe extern "C" fn(Object, Object) -> Object =
                self.library.function("create_iterator");
            let valid: unsafe extern "C" fn(Object) -> c_uchar =
                self.library.function("iter_valid");
            let step = |name: &str| self.library.function::<unsafe extern "C" fn(Object)>(name);
            let part = |name: &str| {
                let part: unsafe extern "C" fn(Object, *mut usize) -> *const u8 =
                    self.library.function(name);
                part
            };
            let (key, value, next) = (part("iter_key"), part("iter_value"), step("iter_next"));
            let error: unsafe extern "C" fn(Object, Message) =
                self.library.function("iter_get_error");
            let iter = make(self.db, self.read);
            step("iter_seek_to_first")(iter);
            let of = |part: unsafe extern "C" fn(Object, *mut usize) -> *const u8| {
                let mut len = 0;
                let bytes = part(iter, &mut len);
                if len == 0 { &[] } else { std::slice::from_raw_parts(bytes, len) }
            };
            while valid(iter) != 0 && each(of(key), of(value)) {
                next(iter);
            }
            let told = self.library.checked(|message| error(iter, message));
            step("iter_destroy")(iter);
            told
        }
    }

    fn close(self: Box<Self>) -> Result<(), String> {
        drop(self);
        Ok(())
    }
}

impl Drop for CDb {
    fn drop(&mut self) {
        // SAFETY: nothing else has the database.
        unsafe { self.library.function::<unsafe extern "C" fn(Object)>("close")(self.db) }
    }
}
