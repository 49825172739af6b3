//! The boundary between Rust and C: the only file with `unsafe` code.
//!
//! The types in this file represent C's pointers in the signatures of exported functions. Only C
//! passes values of these types, under the rules of the header: a pointer must be valid for
//! everything that the function does with it, and the caller frees returned memory with `free`. The
//! exported functions themselves are therefore safe code.
#![allow(unsafe_code, reason = "reads and writes through C's pointers")]

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use std::slice;

unsafe extern "C" {
    fn malloc(bytes: usize) -> *mut c_void;
    fn free(memory: *mut c_void);
    fn geteuid() -> u32;
}

/// Exports functions under their C names, with the C calling convention.
macro_rules! export {
    ($(
        $(#[$attribute:meta])*
        fn $name:ident($($arguments:tt)*) $(-> $returned:ty)? $body:block
    )*) => {
        $(
            $(#[$attribute])*
            #[allow(unsafe_code, reason = "the names are those of LevelDB's C API")]
            #[unsafe(no_mangle)]
            pub extern "C" fn $name($($arguments)*) $(-> $returned)? $body
        )*
    };
}
pub(crate) use export;

/// A pointer to bytes whose length is passed as another argument. The pointer may be null if the
/// length is 0, or where the header allows null.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct In(*const u8);

impl In {
    /// Returns the `len` bytes that the pointer refers to.
    pub fn bytes<'a>(self, len: usize) -> &'a [u8] {
        if len == 0 || self.0.is_null() {
            return &[];
        }
        // SAFETY: the caller passes a pointer to `len` bytes, which stay valid until the exported
        // function returns.
        unsafe { slice::from_raw_parts(self.0, len) }
    }

    /// Returns the `len` bytes that the pointer refers to, or `None` if the pointer is null.
    pub fn bytes_or_null<'a>(self, len: usize) -> Option<&'a [u8]> {
        (!self.0.is_null()).then(|| self.bytes(len))
    }

    /// Returns the bytes up to the first NUL.
    pub fn text<'a>(self) -> &'a [u8] {
        if self.0.is_null() {
            return &[];
        }
        // SAFETY: the caller passes a NUL-terminated string, which stays valid until the exported
        // function returns.
        unsafe { CStr::from_ptr(self.0.cast()) }.to_bytes()
    }

    /// Returns the path in a NUL-terminated string.
    pub fn path<'a>(self) -> &'a Path {
        Path::new(OsStr::from_bytes(self.text()))
    }
}

/// An array whose length is passed as another argument.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Array<T>(*const T);

impl<T: Copy> Array<T> {
    /// Returns the item at `index`, which is less than the length of the array.
    pub fn at(self, index: usize) -> T {
        // SAFETY: the caller passes an array with more than `index` items.
        unsafe { *self.0.add(index) }
    }
}

/// A pointer to memory for a result. The memory may be uninitialised. If the pointer is null,
/// nothing is stored.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Out<T>(*mut T);

impl<T: Copy> Out<T> {
    /// Returns a pointer to `place`, to be passed to a callback.
    pub fn of(place: &mut T) -> Out<T> {
        Out(place)
    }

    /// Stores `value` at `index` of an array. A single variable is an array of length 1.
    pub fn set_at(self, index: usize, value: T) {
        if !self.0.is_null() {
            // SAFETY: the caller passes memory with room for a value at `index`.
            unsafe { self.0.add(index).write(value) }
        }
    }

    /// Stores `value`.
    pub fn set(self, value: T) {
        self.set_at(0, value);
    }
}

/// A pointer that is kept until a later call reads through it. The header requires the caller not
/// to free the object before that call.
#[repr(transparent)]
#[derive(Debug)]
pub struct Kept<T>(*const T);

impl<T> Clone for Kept<T> {
    fn clone(&self) -> Kept<T> {
        *self
    }
}

impl<T> Copy for Kept<T> {}

impl<T> Kept<T> {
    /// Returns the null pointer.
    pub fn null() -> Kept<T> {
        Kept(null_mut())
    }

    /// Moves `object` to the heap and hands it over to C.
    pub fn new(object: T) -> Kept<T> {
        Kept(Box::into_raw(Box::new(object)))
    }

    /// Returns the address, which identifies the object.
    pub fn address(self) -> usize {
        self.0 as usize
    }

    /// Returns the object, or `None` for null.
    pub fn get<'a>(self) -> Option<&'a T> {
        // SAFETY: the caller keeps the object until the call that uses the pointer returns.
        unsafe { self.0.as_ref() }
    }

    /// Takes back an object that [`Kept::new`] has moved to C.
    pub fn take(self) -> Option<Box<T>> {
        // SAFETY: the pointer came from `new`, and the caller gives it back once.
        (!self.0.is_null()).then(|| unsafe { Box::from_raw(self.0.cast_mut()) })
    }
}

/// Memory from `malloc` that the caller frees, or null.
#[repr(transparent)]
pub struct Malloced(*mut u8);

impl Malloced {
    /// Returns null.
    pub fn null() -> Malloced {
        Malloced(null_mut())
    }

    /// Returns a copy of `bytes`, followed by a NUL that does not count towards the length. The
    /// pointer is never null.
    pub fn copy(bytes: &[u8]) -> Malloced {
        // SAFETY: the pointer from `malloc` is checked for null, and the memory has room for the
        // bytes and the NUL.
        unsafe {
            let memory = malloc(bytes.len() + 1).cast::<u8>();
            assert!(!memory.is_null(), "out of memory");
            memory.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            memory.add(bytes.len()).write(0);
            Malloced(memory)
        }
    }

    /// Returns a copy of `value` and stores its length; returns null and stores 0 if `value` is
    /// `None`.
    pub fn value(value: Option<&[u8]>, len: Out<usize>) -> Malloced {
        len.set(value.map_or(0, <[u8]>::len));
        value.map_or_else(Malloced::null, Malloced::copy)
    }

    /// Appends the first `len` bytes of this memory to `to`, and frees the memory. The memory must
    /// come from a callback.
    pub fn append_to(self, to: &mut Vec<u8>, len: usize) {
        to.extend_from_slice(In(self.0).bytes(len));
        self.free();
    }

    /// Frees the memory.
    pub fn free(self) {
        // SAFETY: the memory came from `malloc`, and is freed once.
        unsafe { free(self.0.cast()) }
    }
}

/// A pointer to a variable for the error of a call. The variable holds null or a string from
/// `malloc`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct ErrPtr(*mut *mut u8);

impl ErrPtr {
    /// Returns the value of `result`. An error frees the old string in the caller's variable and
    /// stores a new one; a success leaves the old string unchanged.
    pub fn report<T>(self, result: minikv::Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.set(&minikv_status::text(&error));
                None
            }
        }
    }

    fn set(self, text: &str) {
        if self.0.is_null() {
            return;
        }
        let text = Malloced::copy(text.as_bytes());
        // SAFETY: the caller passes a variable that holds null or a string from `malloc`.
        unsafe {
            free((*self.0).cast());
            *self.0 = text.0;
        }
    }
}

/// The program's state, which is the first argument of its callbacks.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct State(pub *mut c_void);

// SAFETY: the header says that several threads may call the callbacks, so the program's state must
// be safe to use from several threads.
unsafe impl Send for State {}
// SAFETY: as above.
unsafe impl Sync for State {}

/// Returns a pointer to the first byte, to be passed to a callback or to be returned as memory that
/// C only borrows. If there are no bytes, returns the address of some byte: Rust's own pointer may
/// be 1, and Go ends a program in which a pointer leads nowhere.
pub fn pointer(bytes: &[u8]) -> *const c_char {
    static NO_BYTES: u8 = 0;
    if bytes.is_empty() { (&raw const NO_BYTES).cast() } else { bytes.as_ptr().cast() }
}

/// Returns the effective user id of the process.
pub fn effective_user() -> u32 {
    // SAFETY: the call has no conditions and cannot fail.
    unsafe { geteuid() }
}
