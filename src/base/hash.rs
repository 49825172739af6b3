//! The hash of a key. Whole-table filters and prefix filters are built from this hash, and the
//! memtable's hash index uses it, too.

use std::cell::Cell;

use xxhash_rust::xxh3::xxh3_64;

/// Returns the hash of a key: the 64-bit XXH3 of its bytes. Filters on disk depend on this hash, so
/// it must not change. A lookup computes the hash once for all tables.
#[inline]
pub fn key_hash(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// A key and its hash. The hash is computed on first use, because not every table needs the hash.
#[derive(Debug)]
pub struct KeyHash<'k> {
    key: &'k [u8],
    hash: Cell<Option<u64>>,
}

impl<'k> KeyHash<'k> {
    /// Wraps `key`.
    pub fn new(key: &'k [u8]) -> KeyHash<'k> {
        KeyHash { key, hash: Cell::new(None) }
    }

    /// Returns the key's [`key_hash`].
    #[inline]
    pub fn get(&self) -> u64 {
        self.hash.get().unwrap_or_else(|| {
            let hash = key_hash(self.key);
            self.hash.set(Some(hash));
            hash
        })
    }
}
