//! Expiries of entries in expiring keyspaces. On-disk format: do not change.
//!
//! ```text
//! value stored in an expiring keyspace
//! value | expiry: fixed64
//!
//! "on" until 1970-01-01 00:00:01:
//! 6f 6e | e8 03 00 00 00 00 00 00
//!
//! meta block of a table with such entries
//! last: fixed64 | entries: fixed64
//! ```
//!
//! An expiry is a number of milliseconds since the Unix epoch. The entry has expired once the clock
//! has reached that time. [`NEVER`] means that the entry does not expire.
//!
//! The meta block has the name [`EXPIRY_NAME`] in the metaindex. `last` is the time at which all
//! entries of the table except tombstones have expired, or [`NEVER`]; `entries` is the number of
//! entries with an expiry. LevelDB does not look up the name. The keys of entries with an expiry
//! have the tag of expiring keyspaces ([`keyspace`](crate::format::keyspace)), which exist only in
//! databases with byte order.

use crate::base::{Error, Result};
use crate::format::coding::get_fixed64;

/// Name, in the metaindex, of the meta block that holds a table's `TableExpiry`.
pub(crate) const EXPIRY_NAME: &str = "minikv.expiry.v1";

/// The expiry of entries that do not expire.
pub(crate) const NEVER: u64 = u64::MAX;

/// Length of an expiry, in bytes.
pub(crate) const EXPIRY_BYTES: usize = 8;

/// Returns the form in which `value` is stored with `expiry`.
pub(crate) fn with_expiry(value: &[u8], expiry: u64) -> Vec<u8> {
    [value, &expiry.to_le_bytes()].concat()
}

/// Returns the value and the expiry of a stored value; `None` if `stored` is too short for an
/// expiry.
#[inline]
pub(crate) fn split_expiry(stored: &[u8]) -> Option<(&[u8], u64)> {
    let (value, expiry) = stored.split_last_chunk::<EXPIRY_BYTES>()?;
    Some((value, u64::from_le_bytes(*expiry)))
}

/// Returns whether an entry with this expiry has expired at the time `now`.
#[inline]
pub(crate) fn has_expired(expiry: u64, now: u64) -> bool {
    expiry != NEVER && expiry <= now
}

/// Summary of the expiries of a table's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableExpiry {
    /// Time at which all entries except tombstones have expired; [`NEVER`] if any of them never
    /// expires.
    pub last: u64,
    /// Number of entries with an expiry. At least 1.
    pub entries: u64,
}

impl TableExpiry {
    /// Returns the contents of the meta block with this summary.
    pub(crate) fn encode(self) -> Vec<u8> {
        [self.last.to_le_bytes(), self.entries.to_le_bytes()].concat()
    }

    /// Decodes the contents of a meta block.
    ///
    /// # Errors
    /// Corruption, if the contents are malformed.
    pub(crate) fn decode(contents: &[u8]) -> Result<TableExpiry> {
        match (get_fixed64(contents, 0), get_fixed64(contents, 8), contents.len()) {
            (Some(last), Some(entries), 16) if entries > 0 => Ok(TableExpiry { last, entries }),
            _ => Err(Error::corruption("the block of expiries is malformed")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_values_have_the_documented_bytes() {
        assert_eq!(with_expiry(b"on", 1000), b"on\xe8\x03\0\0\0\0\0\0");
        assert_eq!(split_expiry(b"on\xe8\x03\0\0\0\0\0\0"), Some((&b"on"[..], 1000)));
        assert_eq!(split_expiry(&[0xff; 8]), Some((&b""[..], NEVER)));
        assert_eq!(split_expiry(&[0; 7]), None);
    }

    #[test]
    fn an_entry_has_expired_once_the_clock_shows_its_time() {
        assert!(!has_expired(1000, 999) && has_expired(1000, 1000) && has_expired(0, 0));
        assert!(!has_expired(NEVER, NEVER));
    }

    #[test]
    fn the_block_of_a_table_comes_back_whole() {
        let expiry = TableExpiry { last: 1000, entries: 3 };
        assert_eq!(expiry.encode(), b"\xe8\x03\0\0\0\0\0\0\x03\0\0\0\0\0\0\0");
        assert_eq!(TableExpiry::decode(&expiry.encode()).unwrap(), expiry);
        for bad in [&[0; 16][..], &[1; 15], &[1; 17], b""] {
            assert!(TableExpiry::decode(bad).unwrap_err().is_corruption());
        }
    }
}
