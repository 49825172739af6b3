//! Keys of Chromium's IndexedDB, and their order, `idb_cmp1`. On-disk format: do not change.
//!
//! ```text
//! key      lengths | database id | store id | index id | rest
//!          1 byte    1 to 8 B      1 to 8 B   1 to 4 B   by kind
//!
//! lengths  7 6 5   4 3 2   1 0     the lengths of the three ids, each less one;
//!          dddd    ssss    ii      the ids are little-endian
//!
//! kind (the first line whose id matches)           rest
//! database 0                   global metadata     type, then:
//!                                0 to 6              nothing (schema version, largest database id,
//!                                                    data version, journals of blobs, times)
//!                                50                  bytes (changes that are not complete)
//!                                100                 database id (of a free id)
//!                                201                 origin, name (of a database)
//! store 0                      database metadata   type, then:
//!                                0 to 5              nothing (origin, name, versions, numbers)
//!                                50                  store id, type (of a store)
//!                                100                 store id, index id, type (of an index)
//!                                150                 store id (of a free id)
//!                                151                 store id, index id (of a free id)
//!                                200                 name (of a store)
//!                                201                 store id, name (of an index)
//! index 1                      data of a store     value
//! index 2                      existence           value
//! index 3                      blobs               value
//! index 30 and up              data of an index    value [sequence number [primary value]]
//!
//! type     1 byte              number   varint, 64 bits
//! name     number of UTF-16 units, then the units, big-endian
//! value    5                               less than all other values
//!          3 | double, little-endian       a number
//!          2 | double, little-endian       a date, in milliseconds since 1970
//!          1 | name                        a string
//!          6 | number of bytes, bytes      a binary
//!          4 | number of values, values    an array
//!          0                               greater than all other values
//! ```
//!
//! Values are listed in ascending order: 5 < 3 < 2 < 1 < 6 < 4 < 0. Within a type, numbers are
//! ordered as numbers, strings and binaries by bytes, arrays value by value. The ids are compared
//! first: the database id, then the store id, then the index id. In the data of an index, keys with
//! the same value are ordered by the primary value and then by the sequence number.
//!
//! Keys with different bytes may be equal: an id may be stored in more bytes than it needs, 0 and
//! -0 are the same number, and bytes after a complete key are ignored, as is a sequence number
//! without a primary value.

mod order;
mod text;

use crate::base::comparator::Comparator;

pub use text::describe;

/// The order of Chromium's IndexedDB: `idb_cmp1`.
///
/// The folders `IndexedDB/*.indexeddb.leveldb` in a profile of Chromium, or of a program built on
/// Chromium, such as an Electron application, can be opened with this comparator.
///
/// Complete keys have Chromium's order. Damaged keys, for which Chromium defines no order, are
/// ordered by their bytes from the damage on, so that the comparator defines a total order of all
/// byte strings. Equal keys may differ in their bytes, so filters have no effect.
///
/// ```no_run
/// use minikv::{Db, IndexedDbComparator, Options, Readable};
/// use std::sync::Arc;
///
/// let options = Options::default().comparator(IndexedDbComparator);
/// let dir = "Default/IndexedDB/https_example.org_0.indexeddb.leveldb";
/// let db = Db::open_read_only(dir, options)?;
/// println!("{} entries", db.iter().count());
/// # Ok::<(), minikv::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct IndexedDbComparator;

impl IndexedDbComparator {
    /// Returns a complete key as one line of text, such as `db 1 store 2 data: "apple"`. Returns
    /// `None` if the key is damaged or of an unknown kind.
    pub fn describe(key: &[u8]) -> Option<String> {
        describe(key)
    }
}

impl Comparator for IndexedDbComparator {
    fn name(&self) -> &str {
        "idb_cmp1"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        order::compare(a, b)
    }
}

/// The ids in the first bytes of a key, in the order in which they are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Prefix {
    database: i64,
    store: i64,
    index: i64,
}

/// Kind of the data stored under a key; the ids in the key determine the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Global,
    Database,
    Data,
    Exists,
    Blobs,
    Index,
    Unknown,
}

impl Prefix {
    fn kind(self) -> Kind {
        match self {
            Prefix { database: 0, .. } => Kind::Global,
            Prefix { store: 0, .. } => Kind::Database,
            Prefix { index: 1, .. } => Kind::Data,
            Prefix { index: 2, .. } => Kind::Exists,
            Prefix { index: 3, .. } => Kind::Blobs,
            Prefix { index: 30.., .. } => Kind::Index,
            _ => Kind::Unknown,
        }
    }
}

/// Number of global metadata types whose keys end with the type byte.
const SIMPLE_GLOBAL: u8 = 7;
/// Number of metadata types of a database whose keys end with the type byte.
const SIMPLE_DATABASE: u8 = 6;

/// Metadata types whose keys continue after the type byte.
mod metadata {
    pub(super) const SCOPES: u8 = 50;
    pub(super) const FREE_DATABASE: u8 = 100;
    pub(super) const DATABASE_NAME: u8 = 201;

    pub(super) const STORE: u8 = 50;
    pub(super) const INDEX: u8 = 100;
    pub(super) const FREE_STORE: u8 = 150;
    pub(super) const FREE_INDEX: u8 = 151;
    pub(super) const STORE_NAME: u8 = 200;
    pub(super) const INDEX_NAME: u8 = 201;
}

/// Value types.
mod value {
    pub(super) const MAX: u8 = 0;
    pub(super) const STRING: u8 = 1;
    pub(super) const DATE: u8 = 2;
    pub(super) const NUMBER: u8 = 3;
    pub(super) const ARRAY: u8 = 4;
    pub(super) const MIN: u8 = 5;
    pub(super) const BINARY: u8 = 6;
}

// Each of the following functions decodes its result from the start of `rest` and advances `rest`
// past the result. If the function returns `None`, `rest` may be left at any position.

fn take_prefix(rest: &mut &[u8]) -> Option<Prefix> {
    let lengths = take_byte(rest)?;
    Some(Prefix {
        database: take_id(rest, lengths >> 5)?,
        store: take_id(rest, lengths >> 2 & 7)?,
        index: take_id(rest, lengths & 3)?,
    })
}

fn take_id(rest: &mut &[u8], length_less_one: u8) -> Option<i64> {
    let bytes = take_bytes(rest, usize::from(length_less_one) + 1)?;
    Some(bytes.iter().rev().fold(0, |id, &byte| id << 8 | i64::from(byte)))
}

fn take_byte(rest: &mut &[u8]) -> Option<u8> {
    let (&byte, after) = rest.split_first()?;
    *rest = after;
    Some(byte)
}

fn take_bytes<'k>(rest: &mut &'k [u8], count: usize) -> Option<&'k [u8]> {
    let (bytes, after) = rest.split_at_checked(count)?;
    *rest = after;
    Some(bytes)
}

/// Decodes a number of up to ten bytes. Only the lowest bit of the tenth byte is used.
fn take_number(rest: &mut &[u8]) -> Option<i64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = take_byte(rest)?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number as i64);
        }
    }
    None
}

/// Decodes a string. Returns its UTF-16 units, big-endian.
fn take_string<'k>(rest: &mut &'k [u8]) -> Option<&'k [u8]> {
    let units = usize::try_from(take_number(rest)?).ok()?;
    take_bytes(rest, units.checked_mul(2)?)
}

fn take_binary<'k>(rest: &mut &'k [u8]) -> Option<&'k [u8]> {
    let count = usize::try_from(take_number(rest)?).ok()?;
    take_bytes(rest, count)
}

fn take_double(rest: &mut &[u8]) -> Option<f64> {
    let bytes = take_bytes(rest, 8)?;
    Some(f64::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests;
