//! Internal keys: the sort keys of memtables and tables. On-disk format: do not change.
//!
//! ```text
//! user key ......... | 8 bytes little-endian: sequence << 8 | kind
//! 'k'                | 01 07 00 00 00 00 00 00      put of "k" at sequence 7
//! ```
//!
//! Order: user key ascending, then sequence descending, then kind descending, so that a seek to
//! `(key, snapshot, Value)` finds the newest version that is visible to the snapshot. Defined by
//! LevelDB's `db/dbformat.h`.

use std::any::Any;
use std::cmp::Ordering;
use std::sync::Arc;

use crate::base::{BytewiseComparator, Comparator, Error, Result};
use crate::format::coding::get_fixed64;

/// The sequence number of an operation, counted since the database was created. 56 bits.
pub type SeqNo = u64;

/// Largest sequence number.
pub const MAX_SEQ_NO: SeqNo = (1 << 56) - 1;

/// Maximum length of a key or a value, in bytes: 3 GiB - 1. Lengths and offsets in a block have 32
/// bits, so this leaves 1 GiB for the rest of the block.
pub(crate) const MAX_KEY_OR_VALUE_BYTES: usize = u32::MAX as usize - (1 << 30);

/// Length of the trailer after the user key in an internal key, in bytes.
pub(crate) const TRAILER_BYTES: usize = 8;

/// The kind of an internal key: a put or a deletion. The numbers are stored on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[repr(u8)]
pub enum KeyKind {
    /// A tombstone: the key was deleted.
    #[cfg_attr(feature = "serde", serde(rename = "delete"))]
    Deletion = 0,
    /// A put: the key has a value.
    #[cfg_attr(feature = "serde", serde(rename = "put"))]
    Value = 1,
}

/// The kind used in seek keys. It is the largest kind, so that no entry with the user key and the
/// sequence number of a seek key sorts before the seek key.
pub const KIND_FOR_SEEK: KeyKind = KeyKind::Value;

impl KeyKind {
    /// Returns the kind with this number on disk, or `None` for an unknown number.
    #[inline]
    pub(crate) fn from_u8(byte: u8) -> Option<KeyKind> {
        match byte {
            0 => Some(KeyKind::Deletion),
            1 => Some(KeyKind::Value),
            _ => None,
        }
    }
}

/// Returns the trailer of an internal key as a number: `sequence << 8 | kind`.
#[inline]
pub(crate) fn pack_trailer(seq: SeqNo, kind: KeyKind) -> u64 {
    debug_assert!(seq <= MAX_SEQ_NO);
    seq << 8 | kind as u64
}

/// Appends the internal key of `user_key` to `dst`.
#[inline]
pub(crate) fn append_internal_key(dst: &mut Vec<u8>, user_key: &[u8], seq: SeqNo, kind: KeyKind) {
    dst.extend_from_slice(user_key);
    dst.extend_from_slice(&pack_trailer(seq, kind).to_le_bytes());
}

/// Returns the internal key of `user_key`.
pub fn internal_key(user_key: &[u8], seq: SeqNo, kind: KeyKind) -> Vec<u8> {
    let mut key = Vec::with_capacity(user_key.len() + TRAILER_BYTES);
    append_internal_key(&mut key, user_key, seq, kind);
    key
}

/// Returns the user key of an internal key; empty if `internal_key` is shorter than a trailer.
#[inline]
pub fn user_key(internal_key: &[u8]) -> &[u8] {
    &internal_key[..internal_key.len().saturating_sub(TRAILER_BYTES)]
}

/// Returns the trailer of an internal key as a number; 0 if the key is shorter than a trailer.
#[inline]
pub(crate) fn trailer(internal_key: &[u8]) -> u64 {
    get_fixed64(internal_key, internal_key.len().wrapping_sub(TRAILER_BYTES)).unwrap_or(0)
}

/// An internal key, parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsedKey<'a> {
    /// The user key.
    pub user_key: &'a [u8],
    /// The sequence number of the write.
    pub seq: SeqNo,
    /// Whether the write was a put or a deletion.
    pub kind: KeyKind,
}

impl<'a> ParsedKey<'a> {
    /// Parses an internal key.
    ///
    /// # Errors
    /// Corruption, if `key` is shorter than a trailer or its kind is unknown.
    #[inline]
    pub fn parse(key: &'a [u8]) -> Result<ParsedKey<'a>> {
        if key.len() < TRAILER_BYTES {
            return Err(Error::mismatch("internal key too short", "at least 8 bytes", key.len()));
        }
        let trailer = trailer(key);
        match KeyKind::from_u8(trailer as u8) {
            Some(kind) => Ok(ParsedKey { user_key: user_key(key), seq: trailer >> 8, kind }),
            None => Err(Error::mismatch("unknown kind of key", "0 or 1", trailer as u8)),
        }
    }

    /// Returns the encoded internal key, as stored in tables.
    pub fn encode(&self) -> Vec<u8> {
        internal_key(self.user_key, self.seq, self.kind)
    }
}

/// The order of user keys. Keys in plain byte order are compared directly, without a virtual call.
#[derive(Clone, Debug)]
pub struct UserComparator {
    /// `None` for plain byte order.
    custom: Option<Arc<dyn Comparator>>,
}

impl UserComparator {
    /// Wraps `comparator`.
    pub fn new(comparator: Arc<dyn Comparator>) -> UserComparator {
        let any: &dyn Any = &*comparator;
        let is_bytewise = any.is::<BytewiseComparator>() || any.is::<Arc<BytewiseComparator>>();
        UserComparator { custom: (!is_bytewise).then_some(comparator) }
    }

    /// Returns the wrapped comparator.
    pub fn get(&self) -> &dyn Comparator {
        match &self.custom {
            None => &BytewiseComparator,
            Some(custom) => &**custom,
        }
    }

    /// Returns the wrapped comparator, shared.
    pub(crate) fn shared(&self) -> Arc<dyn Comparator> {
        self.custom.clone().unwrap_or_else(|| Arc::new(BytewiseComparator))
    }

    /// Returns the wrapped comparator, or `None` if the order is plain byte order.
    #[inline]
    pub(crate) fn custom(&self) -> Option<&Arc<dyn Comparator>> {
        self.custom.as_ref()
    }

    /// Compares two user keys.
    #[inline]
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match &self.custom {
            None => a.cmp(b),
            Some(custom) => custom.compare(a, b),
        }
    }
}

/// The order of internal keys, built on an order of user keys.
#[derive(Clone, Debug)]
pub struct InternalComparator {
    user: UserComparator,
}

impl InternalComparator {
    /// Creates an order of internal keys in which user keys are compared by `comparator`.
    pub fn new(comparator: Arc<dyn Comparator>) -> InternalComparator {
        InternalComparator { user: UserComparator::new(comparator) }
    }

    /// Returns the order of user keys.
    #[inline]
    pub fn user(&self) -> &UserComparator {
        &self.user
    }

    /// Compares two internal keys. A key shorter than a trailer counts as an empty user key with
    /// trailer 0, so that damaged keys still compare without a panic.
    #[inline]
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.user.compare(user_key(a), user_key(b)).then_with(|| trailer(b).cmp(&trailer(a)))
    }

    /// Shortens the internal key `start` to a key in `[start, limit)`, like LevelDB's
    /// `InternalKeyComparator::FindShortestSeparator`. Index blocks store the resulting keys.
    pub(crate) fn find_shortest_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        let mut shorter = user_key(start).to_vec();
        self.user.get().find_shortest_separator(&mut shorter, user_key(limit));
        self.take_if_shorter(start, shorter);
    }

    /// Shortens the internal key `key` to a key that is not less than the original.
    pub(crate) fn find_short_successor(&self, key: &mut Vec<u8>) {
        let mut shorter = user_key(key).to_vec();
        self.user.get().find_short_successor(&mut shorter);
        self.take_if_shorter(key, shorter);
    }

    fn take_if_shorter(&self, key: &mut Vec<u8>, mut shorter: Vec<u8>) {
        let old = user_key(key);
        if shorter.len() < old.len() && self.user.compare(old, &shorter) == Ordering::Less {
            let seek = pack_trailer(MAX_SEQ_NO, KIND_FOR_SEEK);
            shorter.extend_from_slice(&seek.to_le_bytes());
            *key = shorter;
        }
    }
}

/// The order of a table's keys. The engine's tables contain internal keys; a table that was written
/// without a database may contain plain user keys.
#[derive(Clone, Debug)]
pub enum KeyOrder {
    /// Internal keys.
    Internal(InternalComparator),
    /// Plain user keys.
    User(UserComparator),
}

impl KeyOrder {
    /// Compares two keys.
    #[inline]
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            KeyOrder::Internal(order) => order.compare(a, b),
            KeyOrder::User(order) => order.compare(a, b),
        }
    }

    /// Returns the order of user keys.
    #[inline]
    pub fn user(&self) -> &UserComparator {
        match self {
            KeyOrder::Internal(order) => order.user(),
            KeyOrder::User(order) => order,
        }
    }

    /// Returns the user key of `key`. Filters are built from user keys. [`KeyOrder::user`] is the
    /// order of user keys.
    #[doc(alias = "InternalFilterPolicy", alias = "iFilter")]
    #[inline]
    pub fn user_key<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        match self {
            KeyOrder::Internal(_) => user_key(key),
            KeyOrder::User(_) => key,
        }
    }

    /// Shortens `start` to a key in `[start, limit)`.
    pub(crate) fn find_shortest_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        match self {
            KeyOrder::Internal(order) => order.find_shortest_separator(start, limit),
            KeyOrder::User(order) => order.get().find_shortest_separator(start, limit),
        }
    }

    /// Shortens `key` to a key that is not less than the original.
    pub(crate) fn find_short_successor(&self, key: &mut Vec<u8>) {
        match self {
            KeyOrder::Internal(order) => order.find_short_successor(key),
            KeyOrder::User(order) => order.get().find_short_successor(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> InternalComparator {
        InternalComparator::new(Arc::new(BytewiseComparator))
    }

    #[test]
    fn the_worked_example() {
        let key = internal_key(b"k", 7, KeyKind::Value);
        assert_eq!(key, [b'k', 1, 7, 0, 0, 0, 0, 0, 0]);
        let parsed = ParsedKey::parse(&key).unwrap();
        assert_eq!(parsed, ParsedKey { user_key: b"k", seq: 7, kind: KeyKind::Value });
    }

    #[test]
    fn newer_comes_first_and_user_keys_decide_before() {
        let newer = internal_key(b"a", 9, KeyKind::Deletion);
        let older = internal_key(b"a", 8, KeyKind::Value);
        let other = internal_key(b"ab", 99, KeyKind::Value);
        assert_eq!(order().compare(&newer, &older), Ordering::Less);
        assert_eq!(order().compare(&older, &other), Ordering::Less);
        assert_eq!(order().compare(&older, &older), Ordering::Equal);
    }

    #[test]
    fn malformed_keys_are_errors_and_still_compare() {
        assert!(ParsedKey::parse(b"1234567").unwrap_err().is_corruption());
        assert!(ParsedKey::parse(&[2, 0, 0, 0, 0, 0, 0, 0]).unwrap_err().is_corruption());
        assert_eq!(order().compare(b"", b"1234567"), Ordering::Equal);
    }

    #[test]
    fn separators_carry_the_seek_trailer() {
        let mut start = internal_key(b"foo", 100, KeyKind::Value);
        order().find_shortest_separator(&mut start, &internal_key(b"hello", 200, KeyKind::Value));
        assert_eq!(start, internal_key(b"g", MAX_SEQ_NO, KIND_FOR_SEEK));
        let mut same = internal_key(b"foo", 100, KeyKind::Value);
        order().find_shortest_separator(&mut same, &internal_key(b"foo", 99, KeyKind::Value));
        assert_eq!(same, internal_key(b"foo", 100, KeyKind::Value));
    }
}
