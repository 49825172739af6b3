//! Keys of keyspaces. On-disk format: do not change.
//!
//! ```text
//! ff fe 6b 73 | length of the name: 1 byte, not 0 | name | key within the keyspace
//!
//! key "ann" of the keyspace "users":
//! ff fe 6b 73 | 05 | 75 73 65 72 73 | 61 6e 6e
//! ```
//!
//! The length comes before the name, so that no keyspace's prefix begins another's: the keys of one
//! keyspace are neighbours in byte order, and are in the order of their last part. The first two
//! bytes are no UTF-8, so all keys that are text come before these. A key that begins with the tag
//! and is not complete belongs to no keyspace.

use std::ops::Bound;

use bytes::Bytes;

use crate::base::prefix::prefix_end;
use crate::base::{Error, Result};

/// The bytes that all keys of keyspaces begin with.
pub(crate) const TAG: &[u8; 4] = b"\xff\xfeks";

/// Longest name of a keyspace, in bytes. Its length must fit in one byte.
const MAX_NAME_BYTES: usize = 255;

/// Number of bytes before the name.
const HEADER_BYTES: usize = TAG.len() + 1;

/// The keys of one keyspace, or all keys of the database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Space {
    /// What the keys begin with in the database; empty for all keys.
    prefix: Bytes,
}

impl Space {
    /// Returns the keyspace with this name.
    ///
    /// # Errors
    /// Invalid argument, if the name has 0 or more than 255 bytes.
    pub(crate) fn named(name: &[u8]) -> Result<Space> {
        let len = match u8::try_from(name.len()) {
            Ok(len) if len > 0 => len,
            _ => {
                return Err(Error::invalid(format!(
                    "the name of a keyspace has 1 to {MAX_NAME_BYTES} bytes, not {}",
                    name.len()
                )));
            }
        };
        Ok(Space { prefix: [&TAG[..], &[len], name].concat().into() })
    }

    /// Returns the name; empty for all keys.
    pub(crate) fn name(&self) -> &[u8] {
        self.prefix.get(HEADER_BYTES..).unwrap_or_default()
    }

    /// Returns the database's key for `key`.
    pub(crate) fn key(&self, key: &[u8]) -> Vec<u8> {
        [&self.prefix, key].concat()
    }

    /// Writes the database's key for `key` to `into`.
    pub(crate) fn write_key(&self, key: &[u8], into: &mut Vec<u8>) {
        into.clear();
        into.extend_from_slice(&self.prefix);
        into.extend_from_slice(key);
    }

    /// Returns the key within the keyspace for a key of the database, or `None` if it belongs
    /// elsewhere.
    #[inline]
    pub(crate) fn strip<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        key.strip_prefix(&self.prefix[..])
    }

    /// Returns the lower bound of the database's keys for a lower bound.
    pub(crate) fn lower(&self, bound: Bound<&[u8]>) -> Bound<Vec<u8>> {
        match bound {
            Bound::Unbounded if self.prefix.is_empty() => Bound::Unbounded,
            Bound::Unbounded => Bound::Included(self.prefix.to_vec()),
            bound => bound.map(|key| self.key(key)),
        }
    }

    /// Returns the upper bound of the database's keys for an upper bound.
    pub(crate) fn upper(&self, bound: Bound<&[u8]>) -> Bound<Vec<u8>> {
        match bound {
            Bound::Unbounded => prefix_end(&self.prefix).map_or(Bound::Unbounded, Bound::Excluded),
            bound => bound.map(|key| self.key(key)),
        }
    }
}

/// Returns the name of the keyspace that a key of the database belongs to, and the key within it.
/// Returns `None` if it belongs to none.
pub(crate) fn split(key: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&len, rest) = key.strip_prefix(TAG)?.split_first()?;
    if len == 0 { None } else { rest.split_at_checked(usize::from(len)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_documented_bytes() {
        let users = Space::named(b"users").unwrap();
        assert_eq!(users.key(b"ann"), b"\xff\xfe\x6b\x73\x05\x75\x73\x65\x72\x73\x61\x6e\x6e");
        assert_eq!(users.name(), b"users");
        assert_eq!(users.strip(&users.key(b"ann")), Some(&b"ann"[..]));
        assert_eq!(users.strip(b"ann"), None);
        assert_eq!(split(&users.key(b"ann")), Some((&b"users"[..], &b"ann"[..])));
    }

    #[test]
    fn names_have_1_to_255_bytes() {
        for (len, fits) in [(0, false), (1, true), (255, true), (256, false), (70_000, false)] {
            let space = Space::named(&vec![0xff; len]);
            assert_eq!(space.is_ok(), fits, "{len}");
            match space {
                Ok(space) => assert_eq!((space.name().len(), space.key(b"").len()), (len, len + 5)),
                Err(error) => assert!(error.to_string().ends_with(&format!(", not {len}"))),
            }
        }
    }

    #[test]
    fn no_keyspace_has_keys_of_another() {
        let names = [&b"a"[..], b"ab", b"b", b"\0", b"\0\0", b"\xff", b"\xff\xff", &[0xff; 255]];
        let spaces = names.map(|name| Space::named(name).unwrap());
        let keys = [&b""[..], b"\0", b"b", b"\xff", b"\xff\xff"];
        for (i, a) in spaces.iter().enumerate() {
            for key in keys {
                let key = a.key(key);
                for (j, b) in spaces.iter().enumerate() {
                    assert_eq!(b.strip(&key).is_some(), i == j);
                    let Bound::Included(from) = b.lower(Bound::Unbounded) else { panic!() };
                    let Bound::Excluded(to) = b.upper(Bound::Unbounded) else { panic!() };
                    assert_eq!((from..to).contains(&key), i == j, "{key:?} in {b:?}");
                }
            }
        }
    }

    #[test]
    fn incomplete_keys_belong_to_no_keyspace() {
        for key in [&b""[..], b"\xff\xfek", b"\xff\xfeks", b"\xff\xfeks\0", b"\xff\xfeks\x02a"] {
            assert_eq!(split(key), None, "{key:?}");
        }
        assert_eq!(split(b"\xff\xfeks\0a"), None);
        assert_eq!(split(b"\xff\xfeks\x01a"), Some((&b"a"[..], &b""[..])));
    }
}
