//! The memtable: what was written and is not in a table yet.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `entries` | the versions, in the order in which they came |
//! | `hash_index` | from a key to its newest version: point lookups |
//! | `ordered`, `sort`, `cursor` | the versions by key: scans and flushes |
//!
//! One commit leader inserts, any number of readers search; nothing is removed before the whole
//! memtable is. An insert appends an entry and links it into the hash index: two cache misses,
//! where a skip list of half a million entries takes twenty. The order is made when it is needed.

use std::sync::Arc;

use bytes::Bytes;
pub use cursor::MemCursor;
pub use entries::Arena;

use crate::base::hash::key_hash;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use crate::base::{Comparator, Error, Result};
use crate::engine::memtable::entries::{ENTRY_BYTES, Entries, Entry};
use crate::engine::memtable::hash_index::{HashIndex, MAX_INDEXED};
use crate::engine::memtable::ordered::{ORDERED_ENTRY_BYTES, Ordered};
use crate::format::batch::{BatchOp, decode_ops};
use crate::format::key::{KIND_FOR_SEEK, KeyKind, SeqNo, UserComparator, pack_trailer};

mod cursor;
mod entries;
mod hash_index;
mod ordered;
mod sort;

/// An entry of this size makes the hash index neither grow nor lie idle.
const EXPECTED_ENTRY_BYTES: usize = 160;

/// The most buckets that are made ahead.
const MAX_EXPECTED_ENTRIES: usize = 1 << 20;

/// As many entries are brought into the cache before they are looked at.
const GROUP_ENTRIES: usize = 32;

/// The versions of keys written since the memtable before this one was frozen.
#[derive(Debug)]
pub struct Memtable {
    entries: Entries,
    by_hash: HashIndex,
    ordered: Ordered,
    order: Option<Arc<dyn Comparator>>,
    /// Whether lookups must go by the order: keys of other bytes may be equal, or versions came in
    /// another order than their sequence numbers.
    by_order_only: AtomicBool,
    /// Memory taken, in bytes.
    bytes: AtomicUsize,
    /// The highest sequence number inserted; 0 while empty.
    last_seq: AtomicU64,
}

/// A version found in a memtable.
pub struct MemFound {
    /// When it was written.
    pub seq: SeqNo,
    /// Put or deleted.
    pub kind: KeyKind,
    /// Its value, shared with the memtable.
    pub value: Bytes,
}

impl MemFound {
    fn of(entry: &Entry) -> MemFound {
        MemFound { seq: entry.seq(), kind: entry.kind(), value: entry.value_bytes() }
    }
}

impl Memtable {
    /// An empty memtable, to be filled with about `expected_bytes`.
    pub fn new(order: &UserComparator, expected_bytes: usize) -> Memtable {
        let expected = (expected_bytes / EXPECTED_ENTRY_BYTES).min(MAX_EXPECTED_ENTRIES);
        let by_hash = HashIndex::new(expected);
        Memtable {
            bytes: AtomicUsize::new(by_hash.bytes()),
            by_hash,
            entries: Entries::new(),
            ordered: Ordered::new(order.custom().cloned()),
            order: order.custom().cloned(),
            by_order_only: AtomicBool::new(!order.get().equal_means_same_bytes()),
            last_seq: AtomicU64::new(0),
        }
    }

    /// Inserts the operations of a batch (`contents` as in the log), numbered from its sequence.
    ///
    /// # Errors
    /// Corruption, if the batch is malformed; operations before the damage are inserted.
    pub fn insert_batch(&self, contents: &[u8], first_seq: SeqNo, arena: &mut Arena) -> Result<()> {
        let mut seq = first_seq;
        let mut added = 0;
        let out_of_order = first_seq <= self.last_seq.load(Relaxed) && !self.is_empty();
        if out_of_order {
            self.by_order_only.store(true, Relaxed);
        }
        for op in decode_ops(contents) {
            let (key, kind, value) = match op? {
                BatchOp::Put { key, value } => (key, KeyKind::Value, value),
                BatchOp::Delete { key } => (key, KeyKind::Deletion, &b""[..]),
            };
            if self.entries.len() >= MAX_INDEXED {
                return Err(Error::invalid("a memtable takes no more than 2^29 entries"));
            }
            let entry = arena.store(key, pack_trailer(seq, kind), value);
            added += ENTRY_BYTES + entry.internal_key().len() + value.len();
            self.by_hash.push(&self.entries, entry, key_hash(key));
            seq += 1;
        }
        self.bytes.fetch_add(added, Relaxed);
        if seq > first_seq {
            self.last_seq.fetch_max(seq - 1, Relaxed);
        }
        Ok(())
    }

    /// Whether nothing was inserted.
    pub fn is_empty(&self) -> bool {
        self.entries.len() == 0
    }

    /// The memory it takes, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// The highest sequence number in it; 0 while it is empty.
    pub fn last_seq(&self) -> SeqNo {
        self.last_seq.load(Relaxed)
    }

    /// The entries in it, versions and tombstones counted.
    pub fn len(&self) -> usize {
        self.entries.len() as usize
    }

    /// The newest version of `key` that a reader at `seq` sees.
    pub fn get(&self, key: &[u8], seq: SeqNo) -> Option<MemFound> {
        if self.is_empty() {
            return None;
        }
        if self.by_order_only.load(Relaxed) {
            return self.get_by_order(key, seq);
        }
        let is_it = |entry: &Entry| entry.seq() <= seq && entry.user_key() == key;
        let lookup = self.by_hash.find(&self.entries, key_hash(key), is_it);
        if lookup.gave_up() {
            // One key may have any number of versions. In the order, the one that `seq` sees is
            // found in a logarithm of steps.
            return self.get_by_order(key, seq);
        }
        lookup.found.map(MemFound::of)
    }

    /// [`Memtable::get`], by the order.
    #[cold]
    fn get_by_order(&self, key: &[u8], seq: SeqNo) -> Option<MemFound> {
        self.order_all();
        let from = self.ordered.key(Bytes::copy_from_slice(key), pack_trailer(seq, KIND_FOR_SEEK));
        let place = self.ordered.lower_bound(&self.entries, &from)?;
        let entry = self.entries.get(place.leaf.entry(place.at)?)?;
        let same = match &self.order {
            None => entry.user_key() == key,
            Some(order) => order.compare(entry.user_key(), key).is_eq(),
        };
        same.then(|| MemFound::of(entry))
    }

    /// A cursor over the versions, at none of them yet.
    pub fn cursor(self: &Arc<Self>) -> MemCursor {
        MemCursor::new(self.clone())
    }

    /// Calls `each` with internal key and value of every entry in order, for a flush: nothing is
    /// kept of the order.
    ///
    /// # Errors
    /// Those of `each`, the first of which ends it.
    pub fn for_each(&self, mut each: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        let numbers = sort::sorted(&self.entries, 0..self.entries.len(), self.order.as_deref());
        for group in numbers.chunks(GROUP_ENTRIES) {
            let entries = || group.iter().filter_map(|&number| self.entries.get(number));
            // Each entry, and then its bytes, is a cache miss. Met one after the other they are
            // waited for one by one; met in a row they overlap.
            let trailers = entries().fold(0, |sum, entry| sum ^ entry.trailer());
            let bytes = entries().fold(0, |sum, entry| sum ^ entry.touch());
            std::hint::black_box((trailers, bytes));
            for entry in entries() {
                each(entry.internal_key(), entry.value())?;
            }
        }
        Ok(())
    }

    /// Gives every entry that is there its place in the order.
    fn order_all(&self) {
        let ordered = self.ordered.catch_up(&self.entries) as usize;
        self.bytes.fetch_add(ordered * ORDERED_ENTRY_BYTES, Relaxed);
    }
}

#[cfg(test)]
mod tests;
