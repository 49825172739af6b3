//! The memtable: the writes that are not in a table yet.
//!
//! | file | content |
//! | --- | --- |
//! | `entries` | the versions in insertion order |
//! | `hash_index` | leads from a key to its newest version, for point lookups |
//! | `sort` | sorts versions by key, for flushes and for `ordered` |
//! | `ordered`, `cursor` | the versions in key order, for scans |
//!
//! Thread safety: one thread at a time inserts (the commit leader), while any number of readers
//! search. No entry is removed before the whole memtable is dropped. An insert appends an entry and
//! links it into the hash index. This takes two cache misses; inserting into a skip list of half a
//! million entries takes twenty. The key order is established only when it is needed.

use std::sync::Arc;

use bytes::Bytes;
pub use cursor::MemCursor;
pub use entries::Arena;

use crate::base::entry_sum::{EntrySum, entry_hash};
use crate::base::hash::key_hash;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::sync::atomic::{AtomicU64, AtomicUsize};
use crate::base::sync::lock_free::AtomicBool;
use crate::base::{Comparator, Error, Result};
use crate::engine::memtable::entries::{ENTRY_BYTES, Entries, MemEntry};
use crate::engine::memtable::hash_index::{HashIndex, MAX_INDEXED};
use crate::engine::memtable::ordered::{ORDERED_ENTRY_BYTES, Ordered};
use crate::engine::span::Span;
use crate::format::batch::{BatchOp, MAX_OPERATIONS, decode_ops};
use crate::format::key::{KIND_FOR_SEEK, KeyKind, SeqNo, UserComparator, pack_trailer};

mod cursor;
mod entries;
mod hash_index;
mod ordered;
mod sort;

/// Assumed memory per entry, in bytes, when the hash index is sized for a write buffer. With a
/// larger value, the first array is smaller, so that the index grows sooner if entries are small.
const EXPECTED_ENTRY_BYTES: usize = 160;

/// Largest number of entries for which the index of a new memtable is sized. A higher limit takes
/// more memory for a large write buffer, and makes the index grow less often.
const MAX_EXPECTED_ENTRIES: usize = 1 << 20;

/// Number of entries that a flush loads into the CPU's caches before it uses them. If the number is
/// too high, the first entries are evicted again before they are used.
const GROUP_ENTRIES: usize = 32;

/// Maximum number of entries that [`Memtable::approximate_size`] looks at. With a higher number,
/// the estimate is more exact and takes longer.
const MAX_SAMPLED_ENTRIES: u32 = 1024;

// A replay inserts two logs into one memtable, and each has up to `MAX_OPERATIONS` entries.
const _: () = assert!(2 * MAX_OPERATIONS <= MAX_INDEXED);

/// The versions of keys written since the previous memtable was frozen.
#[derive(Debug)]
pub struct Memtable {
    entries: Entries,
    by_hash: HashIndex,
    ordered: Ordered,
    order: Option<Arc<dyn Comparator>>,
    /// Whether lookups must use the key order instead of the hash index, because keys with
    /// different bytes may be equal, or because versions were not inserted in the order of their
    /// sequence numbers.
    by_order_only: AtomicBool,
    /// Memory used, in bytes.
    bytes: AtomicUsize,
    /// The highest sequence number inserted; 0 while the memtable is empty.
    last_seq: AtomicU64,
    /// Sum of the hashes of the entries, with their values as they were in the batches.
    hashes: AtomicU64,
}

/// A version found in a memtable.
pub struct MemFound {
    /// Sequence number of the version.
    pub seq: SeqNo,
    /// Whether the version is a put or a deletion.
    pub kind: KeyKind,
    /// Value of the version, sharing the memtable's memory.
    pub value: Bytes,
}

impl MemFound {
    fn of(entry: &MemEntry) -> MemFound {
        MemFound { seq: entry.seq(), kind: entry.kind(), value: entry.value_bytes() }
    }
}

impl Memtable {
    /// Creates an empty memtable, sized for about `expected_bytes` bytes of entries.
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
            hashes: AtomicU64::new(0),
        }
    }

    /// Inserts the operations of a batch (`contents`, encoded as in the log), with sequence numbers
    /// from `first_seq` on. Only one thread at a time may insert, and only with the memtable's own
    /// `arena`.
    ///
    /// # Errors
    /// Corruption, if the batch is malformed; the operations before the damage are inserted.
    /// Invalid argument, if the memtable is full.
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
            let hash = entry_hash(entry.internal_key(), value);
            self.hashes.store(self.hashes.load(Relaxed).wrapping_add(hash), Relaxed);
            self.by_hash.push(&self.entries, entry, key_hash(key));
            seq += 1;
        }
        self.bytes.fetch_add(added, Relaxed);
        if seq > first_seq {
            self.last_seq.fetch_max(seq - 1, Relaxed);
        }
        Ok(())
    }

    /// Returns whether the memtable has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.len() == 0
    }

    /// Returns the memory that the memtable uses, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Returns the highest sequence number in the memtable; 0 while it is empty.
    pub fn last_seq(&self) -> SeqNo {
        self.last_seq.load(Relaxed)
    }

    /// Returns the sum over all entries as they were inserted. No other thread may insert.
    pub(crate) fn sum(&self) -> EntrySum {
        EntrySum::of(self.len() as u64, self.hashes.load(Relaxed))
    }

    /// Returns the number of entries, including old versions and tombstones.
    pub fn len(&self) -> usize {
        self.entries.len() as usize
    }

    /// Returns the newest version of `key` that is visible at `seq`.
    pub fn get(&self, key: &[u8], seq: SeqNo) -> Option<MemFound> {
        if self.is_empty() {
            return None;
        }
        if self.by_order_only.load(Relaxed) {
            return self.get_by_order(key, seq);
        }
        let is_it = |entry: &MemEntry| entry.seq() <= seq && entry.user_key() == key;
        let lookup = self.by_hash.find(&self.entries, key_hash(key), is_it);
        if lookup.gave_up() {
            // One key may have any number of versions. In key order, the visible version is found
            // in a logarithmic number of steps.
            return self.get_by_order(key, seq);
        }
        lookup.found.map(MemFound::of)
    }

    /// Like [`Memtable::get`], but uses the key order.
    #[cold]
    fn get_by_order(&self, key: &[u8], seq: SeqNo) -> Option<MemFound> {
        self.order_all();
        let from = self.ordered.key(Bytes::copy_from_slice(key), pack_trailer(seq, KIND_FOR_SEEK));
        let position = self.ordered.lower_bound(&self.entries, &from)?;
        let entry = self.entries.get(position.leaf.entry(position.at)?)?;
        let same = match &self.order {
            None => entry.user_key() == key,
            Some(order) => order.compare(entry.user_key(), key).is_eq(),
        };
        same.then(|| MemFound::of(entry))
    }

    /// Returns the user keys of the entries with sequence numbers above `after` and up to `last`,
    /// newest first. `after` must be a sequence number that some reader has already reached.
    /// Entries above `after` were inserted in the order of their sequence numbers: only the replay
    /// of a damaged log may insert entries out of order, and logs are replayed before there are
    /// readers.
    pub(crate) fn keys_between(&self, after: SeqNo, last: SeqNo) -> impl Iterator<Item = &[u8]> {
        let entries = (0..self.entries.len()).rev().filter_map(|number| self.entries.get(number));
        let newer = entries.take_while(move |entry| entry.seq() > after);
        newer.skip_while(move |entry| entry.seq() > last).map(MemEntry::user_key)
    }

    /// Returns the approximate number of bytes of the entries in `span`, without sorting the
    /// entries. Looks at no more than [`MAX_SAMPLED_ENTRIES`] entries, so the size of a small part
    /// of a large memtable is a rough estimate.
    pub(crate) fn approximate_size(&self, order: &UserComparator, span: &Span) -> u64 {
        let len = self.entries.len();
        let step = len.div_ceil(MAX_SAMPLED_ENTRIES).max(1);
        let sampled = (0..len).step_by(step as usize).filter_map(|number| self.entries.get(number));
        let within = sampled.filter(|entry| span.contains(order, entry.user_key()));
        let bytes = within.map(|entry| entry.internal_key().len() + entry.value().len());
        bytes.sum::<usize>() as u64 * u64::from(step)
    }

    /// Returns a cursor over the versions, which is not positioned yet.
    pub fn cursor(self: &Arc<Self>) -> MemCursor {
        MemCursor::new(self.clone())
    }

    /// Calls `each` with the internal key and the value of every entry, in key order, for a flush.
    /// The entries are sorted for this call only.
    ///
    /// # Errors
    /// The first error of `each`, after which `each` is not called again.
    pub fn for_each(&self, mut each: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        let numbers = sort::sorted(&self.entries, 0..self.entries.len(), self.order.as_deref());
        for group in numbers.chunks(GROUP_ENTRIES) {
            let entries = || group.iter().filter_map(|&number| self.entries.get(number));
            // Reading an entry is a cache miss, and reading its bytes is another. Loading several
            // entries one after another lets the misses overlap.
            let trailers = entries().fold(0, |sum, entry| sum ^ entry.trailer());
            let bytes = entries().fold(0, |sum, entry| sum ^ entry.touch());
            std::hint::black_box((trailers, bytes));
            for entry in entries() {
                each(entry.internal_key(), entry.value())?;
            }
        }
        Ok(())
    }

    /// Adds all entries inserted so far to the key order.
    fn order_all(&self) {
        let ordered = self.ordered.catch_up(&self.entries) as usize;
        self.bytes.fetch_add(ordered * ORDERED_ENTRY_BYTES, Relaxed);
    }
}

#[cfg(test)]
impl Memtable {
    /// Changes the sum, as if one of the entries had changed since it was inserted.
    pub(crate) fn change_sum(&self) {
        self.hashes.fetch_add(1, Relaxed);
    }

    /// Panics if an invariant of the memtable is broken. No other thread may use the memtable
    /// during the check.
    fn check(&self) {
        let (mut bytes, mut sum) = (self.by_hash.bytes(), EntrySum::default());
        for number in 0..self.entries.len() {
            let entry = self.entries.get(number).expect("an entry below the length");
            assert!(entry.seq() <= self.last_seq(), "an entry newer than the newest");
            bytes += ENTRY_BYTES + entry.internal_key().len() + entry.value().len();
            sum.add(entry.internal_key(), entry.value());
        }
        assert_eq!(self.sum(), sum, "entries as they were inserted");
        // The size of the index in `self.bytes` may be out of date, because the index may have
        // grown.
        assert!(self.bytes() <= bytes + self.len() * ORDERED_ENTRY_BYTES, "bytes counted twice");
        self.by_hash.check(&self.entries, |entry| key_hash(entry.user_key()));
        self.ordered.check(&self.entries);
    }
}

#[cfg(test)]
mod tests;
#[cfg(all(test, minikv_loom))]
mod weak_orders;
