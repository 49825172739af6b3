//! Calls of a database that the C API has in a form that copies more, or not at all.

use std::ffi::c_char;

use minikv::{Cursor, Db, Readable, Result, WriteBatch};

use crate::border::{ErrPtr, In, Kept, Out, State, export, pointer};
use crate::db::{Handle, leveldb_t};
use crate::iterator::leveldb_iterator_t;
use crate::options::{leveldb_options_t, leveldb_readoptions_t, leveldb_writeoptions_t};

/// Receives a value.
pub(crate) type Take = extern "C" fn(State, *const c_char, usize);

/// The current entry of an iterator, whose bytes belong to the iterator.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Entry {
    key: *const c_char,
    key_len: usize,
    value: *const c_char,
    value_len: usize,
}

fn open(options: &leveldb_options_t, name: In) -> Result<Kept<leveldb_t>> {
    let db = options.open_with(|all| Db::open(name.path(), all))?;
    Ok(leveldb_t::new(Handle::Writer(db)))
}

/// Writes the cursor's entry to `entry`, and returns whether there is one.
pub fn lend(at: Option<(&[u8], &[u8])>, entry: Out<Entry>) -> u8 {
    let Some((key, value)) = at else { return 0 };
    entry.set(Entry {
        key: pointer(key),
        key_len: key.len(),
        value: pointer(value),
        value_len: value.len(),
    });
    1
}

export! {
    /// Opens a database. Unlike `leveldb_open`, does not look for the parent directory, which a
    /// program's own filesystem need not have.
    fn cpp_open(options: &leveldb_options_t, name: In, errptr: ErrPtr) -> Kept<leveldb_t> {
        errptr.report(open(options, name)).unwrap_or_else(Kept::null)
    }

    /// Passes the value of a key to `take`, and returns whether there is one.
    fn cpp_get(
        db: &leveldb_t,
        options: &leveldb_readoptions_t,
        key: In,
        key_len: usize,
        target: State,
        take: Take,
        errptr: ErrPtr,
    ) -> u8 {
        let found = errptr.report(db.at(options).get(key.bytes(key_len))).flatten();
        if let Some(value) = &found {
            take(target, pointer(value), value.len());
        }
        u8::from(found.is_some())
    }

    /// Writes a batch that is stored as in the log.
    fn cpp_write(
        db: &leveldb_t,
        options: &leveldb_writeoptions_t,
        contents: In,
        len: usize,
        errptr: ErrPtr,
    ) {
        let batch = WriteBatch::from_contents(contents.bytes(len));
        let write = |batch| db.writer()?.writing(options.write).write(batch);
        errptr.report(batch.and_then(write));
    }

    /// Moves an iterator, and lends its entry if it is at one. `how` is one of the numbers in
    /// `bridge.h`.
    fn cpp_iterator_move(
        iterator: &mut leveldb_iterator_t,
        how: u8,
        key: In,
        key_len: usize,
        entry: Out<Entry>,
    ) -> u8 {
        match how {
            0 => iterator.step(|cursor, _| cursor.seek_to_first()),
            1 => iterator.step(|cursor, _| cursor.seek_to_last()),
            2 => iterator.seek(key.bytes(key_len)),
            3 => iterator.step(|cursor, _| cursor.next()),
            _ => iterator.step(|cursor, _| cursor.prev()),
        }
        lend(iterator.valid().map(|cursor: &Cursor| (cursor.key(), cursor.value())), entry)
    }
}
