//! From a key's hash to its newest version: what point lookups ask.
//!
//! A bucket is a chain of entries, the newest first; an entry knows the one before it
//! ([`Entry::next`]). Inserting touches one place of the array, and compares nothing. When there
//! are more entries than buckets a larger array takes what comes from then on; lookups ask the
//! arrays from the newest to the oldest.

use std::sync::OnceLock;

use super::entries::{Entries, Entry};
use crate::base::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Each array has four times the buckets of the one before.
const GROWTH_LG: u32 = 2;
const MAX_ARRAYS: usize = 12;
const MAX_BUCKETS_LG: u32 = 28;

/// The number that ends a chain; entries are one more than their number.
const END: u32 = 0;

/// A hash index over [`Entries`]. Thread-safe; one at a time may insert.
#[derive(Debug)]
pub struct HashIndex {
    arrays: [OnceLock<Box<[AtomicU32]>>; MAX_ARRAYS],
    newest: AtomicUsize,
    first_lg: u32,
    /// How many entries the arrays are enough for.
    enough_for: AtomicUsize,
}

impl HashIndex {
    /// One that is good for about so many entries before it grows.
    pub fn new(entries: usize) -> HashIndex {
        let first_lg = entries.max(64).next_power_of_two().ilog2().min(MAX_BUCKETS_LG);
        let index = HashIndex {
            arrays: [const { OnceLock::new() }; MAX_ARRAYS],
            newest: AtomicUsize::new(0),
            first_lg,
            enough_for: AtomicUsize::new(1 << first_lg),
        };
        index.arrays[0].get_or_init(|| buckets(first_lg));
        index
    }

    /// The memory that it takes, in bytes.
    pub fn bytes(&self) -> usize {
        self.arrays.iter().filter_map(OnceLock::get).map(|array| size_of_val(&**array)).sum()
    }

    /// Appends `entry` to `entries` and makes it the newest of its bucket.
    #[inline]
    pub fn push(&self, entries: &Entries, mut entry: Entry, hash: u64) {
        let number = entries.len();
        if number as usize >= self.enough_for.load(Ordering::Relaxed) {
            self.grow();
        }
        let array = self.arrays[self.newest.load(Ordering::Relaxed)].get();
        let Some(bucket) = array.and_then(|array| array.get(place(hash, array.len()))) else {
            debug_assert!(false, "the newest array is there");
            return;
        };
        entry.hash = tag(hash);
        entry.next = bucket.load(Ordering::Relaxed);
        entries.push(entry);
        bucket.store(number + 1, Ordering::Release);
    }

    #[cold]
    fn grow(&self) {
        let next = self.newest.load(Ordering::Relaxed) + 1;
        let lg = (self.first_lg + GROWTH_LG * next as u32).min(MAX_BUCKETS_LG);
        let Some(array) = self.arrays.get(next) else { return };
        array.get_or_init(|| buckets(lg));
        self.enough_for.fetch_add(1 << lg, Ordering::Relaxed);
        self.newest.store(next, Ordering::Release);
    }

    /// The entries in the key's buckets that have its hash, the newest first.
    #[inline]
    pub fn candidates<'a>(&'a self, entries: &'a Entries, hash: u64) -> Candidates<'a> {
        let array = self.newest.load(Ordering::Acquire);
        let mut candidates = Candidates { index: self, entries, hash, array, at: END, steps: 0 };
        candidates.at = candidates.head();
        candidates
    }
}

/// Walks the chains of one hash.
pub struct Candidates<'a> {
    index: &'a HashIndex,
    entries: &'a Entries,
    hash: u64,
    array: usize,
    at: u32,
    /// Entries walked past.
    pub steps: u32,
}

impl Candidates<'_> {
    #[inline]
    fn head(&self) -> u32 {
        let array = self.index.arrays[self.array].get();
        let bucket = array.and_then(|array| array.get(place(self.hash, array.len())));
        bucket.map_or(END, |bucket| bucket.load(Ordering::Acquire))
    }
}

impl<'a> Iterator for Candidates<'a> {
    type Item = &'a Entry;

    #[inline]
    fn next(&mut self) -> Option<&'a Entry> {
        loop {
            while self.at != END {
                let entry = self.entries.get(self.at - 1)?;
                self.at = entry.next;
                self.steps += 1;
                if entry.hash == tag(self.hash) {
                    return Some(entry);
                }
            }
            self.array = self.array.checked_sub(1)?;
            self.at = self.head();
        }
    }
}

fn buckets(lg: u32) -> Box<[AtomicU32]> {
    (0..1usize << lg).map(|_| AtomicU32::new(END)).collect()
}

#[inline]
fn place(hash: u64, buckets: usize) -> usize {
    hash as usize & (buckets - 1)
}

/// The half of the hash that does not choose the bucket.
#[inline]
fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::super::entries::Arena;
    use super::*;

    #[test]
    fn chains_are_newest_first_through_all_arrays() {
        let (index, entries, mut arena) = (HashIndex::new(1), Entries::new(), Arena::default());
        for seq in 0..20_000u64 {
            let hash = ((seq % 100) << 32) | (seq % 100);
            index.push(&entries, arena.store(b"", seq << 8 | 1, b""), hash);
        }
        assert!(index.newest.load(Ordering::Relaxed) >= 3, "it has grown");
        assert_eq!(index.bytes(), 4 * (64 + 256 + 1024 + 4096 + 16384));
        for key in 0..100u64 {
            let seqs: Vec<_> =
                index.candidates(&entries, (key << 32) | key).map(Entry::seq).collect();
            let expected: Vec<_> = (0..20_000).rev().filter(|seq| seq % 100 == key).collect();
            assert_eq!(seqs, expected);
        }
        assert_eq!(index.candidates(&entries, 100).count(), 0);
        assert_eq!(index.candidates(&entries, 7).count(), 0, "another tag");
    }
}
