//! Keys of keyspaces. On-disk format: do not change.
//!
//! ```text
//! ff fe 6b 73 | length of the name: 1 byte, not 0 | name | key within the keyspace
//!
//! key "ann" of the keyspace "users":
//! ff fe 6b 73 | 05 | 75 73 65 72 73 | 61 6e 6e
//! ```
//!
//! The length comes before the name, so that the prefix of one keyspace is never the start of
//! another's prefix. The keys of one keyspace are therefore neighbours in byte order, sorted by
//! their last part. The first two bytes are not valid UTF-8 and sort after all UTF-8 text, so all
//! keys that are text come before the keys of keyspaces. A key that starts with the tag but is cut
//! short belongs to no keyspace.
//!
//! Expiring keyspaces have the tag `ff fe 6b 74`, so that a key shows whether its entry can expire.
//! The values in them end with an expiry ([`expiry`](crate::format::expiry)).

use std::borrow::Cow;
use std::ops::Bound;

use bytes::Bytes;

use crate::base::prefix::prefix_end;
use crate::base::{Error, Result};
use crate::format::expiry::{EXPIRY_BYTES, NEVER, has_expired, split_expiry, with_expiry};

/// Prefix of all keys in ordinary keyspaces.
pub(crate) const TAG: &[u8; 4] = b"\xff\xfeks";

/// Prefix of all keys in expiring keyspaces.
pub(crate) const EXPIRING_TAG: &[u8; 4] = b"\xff\xfekt";

/// The kind of a keyspace: whether its entries may expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyspaceKind {
    /// The entries do not expire.
    Ordinary,
    /// The entries may have a time to live.
    Expiring,
}

/// Maximum length of a keyspace's name, in bytes. The length must fit in one byte.
const MAX_NAME_BYTES: usize = 255;

/// Number of bytes before the name in a key.
const HEADER_BYTES: usize = TAG.len() + 1;

/// The keys of one keyspace, or all keys of the database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Space {
    /// Prefix of the keyspace's keys in the database; empty if the space is the whole database.
    prefix: Bytes,
}

/// The space that is the whole database.
pub(crate) static WHOLE: Space = Space { prefix: Bytes::new() };

impl Space {
    /// Returns the keyspace of this kind and name.
    ///
    /// # Errors
    /// Invalid argument, if the name has 0 or more than 255 bytes.
    pub(crate) fn new(kind: KeyspaceKind, name: &[u8]) -> Result<Space> {
        match kind {
            KeyspaceKind::Ordinary => Space::named(name),
            KeyspaceKind::Expiring => Space::expiring(name),
        }
    }

    /// Returns the ordinary keyspace with this name.
    ///
    /// # Errors
    /// The same as for [`Space::new`].
    pub(crate) fn named(name: &[u8]) -> Result<Space> {
        Space::tagged(TAG, name)
    }

    /// Returns the expiring keyspace with this name.
    ///
    /// # Errors
    /// The same as for [`Space::new`].
    pub(crate) fn expiring(name: &[u8]) -> Result<Space> {
        Space::tagged(EXPIRING_TAG, name)
    }

    fn tagged(tag: &[u8; 4], name: &[u8]) -> Result<Space> {
        let len = match u8::try_from(name.len()) {
            Ok(len) if len > 0 => len,
            _ => {
                return Err(Error::invalid(format!(
                    "the name of a keyspace has 1 to {MAX_NAME_BYTES} bytes, not {}",
                    name.len()
                )));
            }
        };
        Ok(Space { prefix: [&tag[..], &[len], name].concat().into() })
    }

    /// Returns the name of the keyspace; empty if the space is the whole database.
    pub(crate) fn name(&self) -> &[u8] {
        self.prefix.get(HEADER_BYTES..).unwrap_or_default()
    }

    /// Returns whether this is an expiring keyspace.
    #[inline]
    pub(crate) fn expires(&self) -> bool {
        self.prefix.starts_with(EXPIRING_TAG)
    }

    /// Returns whether the space is the whole database.
    #[inline]
    pub(crate) fn is_whole(&self) -> bool {
        self.prefix.is_empty()
    }

    /// Returns the number of bytes that come before each key within the keyspace.
    pub(crate) fn prefix_bytes(&self) -> usize {
        self.prefix.len()
    }

    /// Returns the number of bytes that come after each value.
    pub(crate) fn expiry_bytes(&self) -> usize {
        if self.expires() { EXPIRY_BYTES } else { 0 }
    }

    /// Converts `key`, a key within the keyspace, to the key in the database.
    pub(crate) fn key<'k>(&self, key: &'k [u8]) -> Cow<'k, [u8]> {
        match self.is_whole() {
            true => Cow::Borrowed(key),
            false => Cow::Owned([&self.prefix, key].concat()),
        }
    }

    /// Returns the key within the keyspace for a key of the database, or `None` if the key does not
    /// belong to this keyspace.
    #[inline]
    pub(crate) fn strip<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        key.strip_prefix(&self.prefix[..])
    }

    /// Returns `value` as it is stored: in an expiring keyspace, followed by `expiry`, in
    /// milliseconds since the Unix epoch.
    pub(crate) fn stored<'v>(&self, value: &'v [u8], expiry: u64) -> Cow<'v, [u8]> {
        match self.expires() {
            true => Cow::Owned(with_expiry(value, expiry)),
            false => Cow::Borrowed(value),
        }
    }

    /// Returns the value and the expiry of a stored value; `None` if the value has expired at the
    /// time that `now` returns. `now` is called only in expiring keyspaces.
    ///
    /// # Errors
    /// Corruption, which names `key`, if the stored value is too short for an expiry.
    #[inline]
    pub(crate) fn live<'v>(
        &self,
        key: &[u8],
        stored: &'v [u8],
        now: impl FnOnce() -> u64,
    ) -> Result<Option<(&'v [u8], u64)>> {
        if !self.expires() {
            return Ok(Some((stored, NEVER)));
        }
        let (value, expiry) = split_expiry(stored).ok_or_else(|| self.too_short(key, stored))?;
        Ok((!has_expired(expiry, now())).then_some((value, expiry)))
    }

    /// Returns the value of `stored`, which was read under `key`, without its expiry; `None` if the
    /// value has expired or `stored` is `None`.
    ///
    /// # Errors
    /// The same as for [`live`](Self::live).
    pub(crate) fn live_value(
        &self,
        key: &[u8],
        stored: Option<Bytes>,
        now: impl FnOnce() -> u64,
    ) -> Result<Option<Bytes>> {
        let Some(mut stored) = stored else { return Ok(None) };
        let Some((value, _)) = self.live(key, &stored, now)? else { return Ok(None) };
        let len = value.len();
        stored.truncate(len);
        Ok(Some(stored))
    }

    /// Returns an entry of the database in the form in which an iterator over the keyspace returns
    /// it: the key within the keyspace, and the value without its expiry. Returns `None` if the
    /// value has expired. `bytes` returns `stored` as [`Bytes`].
    ///
    /// # Errors
    /// The errors of [`live`](Self::live); corruption, if the key is outside the keyspace, which
    /// only damage can cause.
    #[inline]
    pub(crate) fn entry(
        &self,
        key: &[u8],
        stored: &[u8],
        bytes: impl FnOnce() -> Bytes,
        now: impl FnOnce() -> u64,
    ) -> Result<Option<(Bytes, Bytes)>> {
        let Some(key_within) = self.strip(key) else { return Err(self.out_of_order()) };
        let Some((value, _)) = self.live(key, stored, now)? else { return Ok(None) };
        let mut bytes = bytes();
        bytes.truncate(value.len());
        Ok(Some((Bytes::copy_from_slice(key_within), bytes)))
    }

    /// Returns the key within the keyspace for a key of the database; `None` if its entry has
    /// expired.
    ///
    /// # Errors
    /// The same as for [`entry`](Self::entry).
    #[inline]
    pub(crate) fn live_key(
        &self,
        key: &[u8],
        stored: &[u8],
        now: impl FnOnce() -> u64,
    ) -> Result<Option<Bytes>> {
        let Some(key_within) = self.strip(key) else { return Err(self.out_of_order()) };
        let live = self.live(key, stored, now)?;
        Ok(live.map(|_| Bytes::copy_from_slice(key_within)))
    }

    #[cold]
    fn out_of_order(&self) -> Error {
        let name = self.name().escape_ascii();
        Error::corruption(format!("entries out of order in keyspace \"{name}\""))
    }

    #[cold]
    fn too_short(&self, key: &[u8], stored: &[u8]) -> Error {
        let (key, name) = (self.strip(key).unwrap_or(key).escape_ascii(), self.name());
        Error::mismatch(
            format!(
                "stored value of \"{key}\" in expiring keyspace \"{}\", in bytes",
                name.escape_ascii()
            ),
            format_args!("at least {EXPIRY_BYTES}"),
            stored.len(),
        )
    }

    /// Converts a lower bound within the keyspace to a lower bound on keys of the database.
    pub(crate) fn lower(&self, bound: Bound<&[u8]>) -> Bound<Vec<u8>> {
        match bound {
            Bound::Unbounded if self.is_whole() => Bound::Unbounded,
            Bound::Unbounded => Bound::Included(self.prefix.to_vec()),
            bound => bound.map(|key| self.key(key).into_owned()),
        }
    }

    /// Converts an upper bound within the keyspace to an upper bound on keys of the database.
    pub(crate) fn upper(&self, bound: Bound<&[u8]>) -> Bound<Vec<u8>> {
        match bound {
            Bound::Unbounded => prefix_end(&self.prefix).map_or(Bound::Unbounded, Bound::Excluded),
            bound => bound.map(|key| self.key(key).into_owned()),
        }
    }
}

/// Splits a key of the database into the name of its keyspace, which may be ordinary or expiring,
/// and the key within that keyspace. Returns `None` if the key belongs to no keyspace.
pub(crate) fn split(key: &[u8]) -> Option<(&[u8], &[u8])> {
    let tagged = key.strip_prefix(TAG).or_else(|| key.strip_prefix(EXPIRING_TAG))?;
    let (&len, rest) = tagged.split_first()?;
    if len == 0 { None } else { rest.split_at_checked(usize::from(len)) }
}

/// Returns whether keys of expiring keyspaces can be between `first` and `last`, in byte order.
pub(crate) fn may_hold_expiring(first: &[u8], last: &[u8]) -> bool {
    last >= &EXPIRING_TAG[..] && (first < &EXPIRING_TAG[..] || first.starts_with(EXPIRING_TAG))
}

/// Returns the expiry of an entry in a database with byte order. Returns [`NEVER`] for keys outside
/// expiring keyspaces, and for stored values that are too short for an expiry.
#[inline]
pub(crate) fn expiry_of(user_key: &[u8], stored: &[u8]) -> u64 {
    // The first byte alone rules out most keys.
    if user_key.first() != Some(&EXPIRING_TAG[0]) {
        return NEVER;
    }
    expiry_in_keyspace(user_key, stored)
}

fn expiry_in_keyspace(user_key: &[u8], stored: &[u8]) -> u64 {
    let expires = user_key.starts_with(EXPIRING_TAG) && split(user_key).is_some();
    let stored = if expires { split_expiry(stored) } else { None };
    stored.map_or(NEVER, |(_, expiry)| expiry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_documented_bytes() {
        let users = Space::named(b"users").unwrap();
        assert_eq!(*users.key(b"ann"), *b"\xff\xfe\x6b\x73\x05\x75\x73\x65\x72\x73\x61\x6e\x6e");
        assert_eq!(users.name(), b"users");
        assert_eq!(users.strip(&users.key(b"ann")), Some(&b"ann"[..]));
        assert_eq!(users.strip(b"ann"), None);
        assert_eq!(split(&users.key(b"ann")), Some((&b"users"[..], &b"ann"[..])));
        let expiring = Space::expiring(b"users").unwrap();
        assert_eq!(*expiring.key(b"a"), *b"\xff\xfe\x6b\x74\x05\x75\x73\x65\x72\x73\x61");
        assert_eq!(split(&expiring.key(b"ann")), Some((&b"users"[..], &b"ann"[..])));
        assert!(expiring.expires() && !users.expires() && !Space::default().expires());
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
        let ordinary = names.iter().map(|name| Space::named(name).unwrap());
        let expiring = names.iter().map(|name| Space::expiring(name).unwrap());
        let spaces: Vec<Space> = ordinary.chain(expiring).collect();
        let keys = [&b""[..], b"\0", b"b", b"\xff", b"\xff\xff"];
        for (i, a) in spaces.iter().enumerate() {
            for key in keys {
                let key = a.key(key).into_owned();
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

    #[test]
    fn only_entries_of_expiring_keyspaces_expire() {
        let (expiring, ordinary) =
            (Space::expiring(b"a").unwrap().key(b"k"), Space::named(b"a").unwrap().key(b"k"));
        assert_eq!(expiry_of(&expiring, &with_expiry(b"v", 5)), 5);
        assert_eq!(expiry_of(&expiring, b"short"), NEVER);
        for key in [&ordinary[..], b"a", b"", b"\xff\xfekt", b"\xff\xfekt\0", b"\xff\xfekt\x02a"] {
            assert_eq!(expiry_of(key, &with_expiry(b"v", 5)), NEVER, "{key:?}");
        }
    }
}
