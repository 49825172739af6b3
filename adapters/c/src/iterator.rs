//! Iterators.

use std::ffi::c_char;

use minikv::{Cursor, Error, Result};

use crate::border::{ErrPtr, In, Kept, Out, export, pointer};
use crate::db::leveldb_t;
use crate::options::leveldb_readoptions_t;

/// A cursor, and the first error of the cursor. The error is kept until the iterator is destroyed,
/// as in LevelDB.
pub struct leveldb_iterator_t {
    cursor: Option<Cursor>,
    error: Option<Error>,
    /// A copy of the key of the last seek, because the caller may pass a key that belongs to the
    /// iterator.
    target: Vec<u8>,
}

impl leveldb_iterator_t {
    /// Returns an iterator that moves `cursor`, or has its error.
    pub fn new(cursor: Result<Cursor>) -> leveldb_iterator_t {
        let (cursor, error) = match cursor {
            Ok(cursor) => (Some(cursor), None),
            Err(error) => (None, Some(error)),
        };
        leveldb_iterator_t { cursor, error, target: Vec::new() }
    }

    /// Moves the cursor with `step`, which is passed the target of a seek, and keeps its error.
    pub fn step(&mut self, step: impl FnOnce(&mut Cursor, &[u8]) -> Result<bool>) {
        if let Some(cursor) = &mut self.cursor
            && let Err(error) = step(cursor, &self.target)
        {
            self.error.get_or_insert(error);
        }
    }

    /// Moves to the first entry at or after `key`, which may belong to the iterator.
    pub fn seek(&mut self, key: &[u8]) {
        self.target.clear();
        self.target.extend_from_slice(key);
        self.step(|cursor, target| cursor.seek(target));
    }

    /// Returns the cursor if it is at an entry.
    pub fn valid(&self) -> Option<&Cursor> {
        self.cursor.as_ref().filter(|cursor| cursor.valid())
    }
}

/// Returns a pointer to `bytes` and stores their length; returns null and stores 0 if `bytes` is
/// `None`.
fn lend(bytes: Option<&[u8]>, len: Out<usize>) -> *const c_char {
    len.set(bytes.map_or(0, <[u8]>::len));
    bytes.map_or(std::ptr::null(), pointer)
}

export! {
    fn leveldb_create_iterator(
        db: &leveldb_t,
        options: &leveldb_readoptions_t,
    ) -> Kept<leveldb_iterator_t> {
        Kept::new(leveldb_iterator_t::new(db.cursor(options)))
    }

    fn leveldb_iter_destroy(iterator: Kept<leveldb_iterator_t>) {
        drop(iterator.take());
    }

    fn leveldb_iter_valid(iterator: &leveldb_iterator_t) -> u8 {
        u8::from(iterator.valid().is_some())
    }

    fn leveldb_iter_seek_to_first(iterator: &mut leveldb_iterator_t) {
        iterator.step(|cursor, _| cursor.seek_to_first());
    }

    fn leveldb_iter_seek_to_last(iterator: &mut leveldb_iterator_t) {
        iterator.step(|cursor, _| cursor.seek_to_last());
    }

    fn leveldb_iter_seek(iterator: &mut leveldb_iterator_t, key: In, key_len: usize) {
        iterator.seek(key.bytes(key_len));
    }

    fn leveldb_iter_next(iterator: &mut leveldb_iterator_t) {
        iterator.step(|cursor, _| cursor.next());
    }

    fn leveldb_iter_prev(iterator: &mut leveldb_iterator_t) {
        iterator.step(|cursor, _| cursor.prev());
    }

    fn leveldb_iter_key(iterator: &leveldb_iterator_t, len: Out<usize>) -> *const c_char {
        lend(iterator.valid().map(Cursor::key), len)
    }

    fn leveldb_iter_value(iterator: &leveldb_iterator_t, len: Out<usize>) -> *const c_char {
        lend(iterator.valid().map(Cursor::value), len)
    }

    fn leveldb_iter_get_error(iterator: &leveldb_iterator_t, errptr: ErrPtr) {
        errptr.report(iterator.error.clone().map_or(Ok(()), Err));
    }
}
