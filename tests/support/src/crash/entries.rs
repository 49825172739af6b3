//! The entries of the workloads: prefixes of keys, expiry, and what compactions leave of an entry.

use std::borrow::Cow;

use minikv::CompactionDecision;

/// The prefix of keys in expiring keyspaces.
pub const EXPIRING_TAG: &[u8; 4] = b"\xff\xfekt";

/// The expiry of entries that do not expire.
pub const NEVER: u64 = u64::MAX;

/// The prefix of values that the compaction filter removes.
pub const DOOMED: &[u8] = b"doomed";

/// The prefix of values that the compaction filter changes: it replaces the prefix with `SMOOTH`.
pub const ROUGH: &[u8] = b"rough";
const SMOOTH: &[u8] = b"smooth";

/// A time after all steps of a workload, in milliseconds since the Unix epoch.
pub const END: u64 = 1_000_000;

/// The compaction filter of these workloads.
pub fn filter(_key: &[u8], value: &[u8]) -> CompactionDecision {
    if value.starts_with(DOOMED) {
        return CompactionDecision::Remove;
    }
    match value.strip_prefix(ROUGH) {
        Some(rest) => CompactionDecision::Change([SMOOTH, rest].concat()),
        None => CompactionDecision::Keep,
    }
}

/// Returns the value of an entry after compactions have removed what has expired by [`END`] and
/// applied the compaction filter; `None` if they removed the entry.
pub fn settled<'v>(key: &[u8], value: &'v [u8]) -> Option<Cow<'v, [u8]>> {
    if key.starts_with(EXPIRING_TAG) && expiry_of(value) <= END {
        return None;
    }
    match filter(key, value) {
        CompactionDecision::Change(value) => Some(value.into()),
        CompactionDecision::Remove => None,
        _ => Some(value.into()),
    }
}

/// Returns the prefix of the keys in a keyspace.
pub fn keyspace_prefix(name: &str) -> Vec<u8> {
    prefix_of(b"\xff\xfeks", name)
}

/// Returns the prefix of the keys in an expiring keyspace.
pub fn expiring_prefix(name: &str) -> Vec<u8> {
    prefix_of(EXPIRING_TAG, name)
}

fn prefix_of(tag: &[u8; 4], name: &str) -> Vec<u8> {
    [tag, &[name.len() as u8][..], name.as_bytes()].concat()
}

/// Returns the expiry that is part of a value stored by an expiring keyspace.
pub fn expiry_of(stored: &[u8]) -> u64 {
    u64::from_le_bytes(*stored.last_chunk().expect("a value with an expiry"))
}
