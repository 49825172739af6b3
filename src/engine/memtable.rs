//! The memtable: what was written and is not in a table yet, sorted.
//!
//! A `Memtable` is crossbeam's lock-free skip list: one commit leader inserts while any number of
//! readers search. Nothing is ever removed from it; the whole of it is dropped once it is a table
//! and no reader holds it.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use bytes::{Bytes, BytesMut};
use crossbeam_skiplist::SkipMap;

use crate::base::{Comparator, Result};
use crate::format::batch::{BatchOp, decode_ops};
use crate::format::key::{
    KIND_FOR_SEEK, KeyKind, SeqNo, TRAILER_BYTES, UserComparator, append_internal_key,
    pack_trailer, trailer, user_key,
};

/// Keys up to this long live in the skip list's node: comparing them costs no second cache miss.
const INLINE_KEY_BYTES: usize = 30;

/// What an entry takes beside the bytes of its value and of a key that is not inline: the node's
/// key and value handles, its links (two on average) and the allocator's header.
const ENTRY_OVERHEAD_BYTES: usize = size_of::<MemKey>() + size_of::<Bytes>() + 32;

/// Values and long keys are cut from chunks of this size; larger ones are allocated alone.
const ARENA_CHUNK_BYTES: usize = 64 << 10;

/// The versions of keys written since the memtable before this one was frozen.
#[derive(Debug)]
pub struct Memtable {
    map: SkipMap<MemKey, Bytes>,
    order: Option<Arc<dyn Comparator>>,
    /// Memory taken, in bytes.
    bytes: AtomicUsize,
    /// The highest sequence number inserted; 0 while empty.
    last_seq: AtomicU64,
}

/// Where the bytes of a memtable's values and long keys are. One for each memtable, held by
/// whoever may insert.
#[derive(Debug, Default)]
pub struct Arena {
    chunk: BytesMut,
}

impl Arena {
    fn store(&mut self, bytes: &[u8]) -> Bytes {
        if bytes.is_empty() {
            return Bytes::new();
        }
        if self.chunk.capacity() < bytes.len() {
            if bytes.len() > ARENA_CHUNK_BYTES / 4 {
                return Bytes::copy_from_slice(bytes);
            }
            self.chunk = BytesMut::with_capacity(ARENA_CHUNK_BYTES);
        }
        self.chunk.extend_from_slice(bytes);
        self.chunk.split().freeze()
    }
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

impl Memtable {
    /// An empty memtable.
    pub fn new(order: &UserComparator) -> Memtable {
        Memtable {
            map: SkipMap::new(),
            order: order.custom().cloned(),
            bytes: AtomicUsize::new(0),
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
        for op in decode_ops(contents) {
            let (key, kind, value) = match op? {
                BatchOp::Put { key, value } => (key, KeyKind::Value, value),
                BatchOp::Delete { key } => (key, KeyKind::Deletion, &b""[..]),
            };
            let mem_key = MemKey::new(key, pack_trailer(seq, kind), self.order.clone(), arena);
            added += ENTRY_OVERHEAD_BYTES + mem_key.heap_bytes() + value.len();
            self.map.insert(mem_key, arena.store(value));
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
        self.last_seq.load(Relaxed) == 0
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
        self.map.len()
    }

    /// The newest version of `key` that a reader at `seq` sees.
    pub fn get(&self, key: &[u8], seq: SeqNo) -> Option<MemFound> {
        let target = MemKey::lookup(key, pack_trailer(seq, KIND_FOR_SEEK), self.order.clone());
        let entry = self.map.lower_bound(Bound::Included(&target))?;
        let found = entry.key();
        if !found.same_user_key(&target) {
            return None;
        }
        Some(MemFound { seq: found.trailer >> 8, kind: found.kind(), value: entry.value().clone() })
    }

    /// A cursor over the versions, at none of them yet.
    pub fn cursor(self: &Arc<Self>) -> MemCursor {
        MemCursor::new(self.clone())
    }
}

/// An internal key in a node of the skip list. It carries its order, so that `Ord` can be a
/// comparator chosen at run time.
#[derive(Debug)]
struct MemKey {
    /// The first eight bytes of the user key, big-endian, padded with zeros: decides most
    /// comparisons in byte order.
    prefix: u64,
    /// `sequence << 8 | kind`.
    trailer: u64,
    key: KeyBytes,
    /// `None`: byte order.
    order: Option<Arc<dyn Comparator>>,
}

#[derive(Debug)]
enum KeyBytes {
    Inline { len: u8, bytes: [u8; INLINE_KEY_BYTES] },
    Shared(Bytes),
}

impl MemKey {
    fn new(
        key: &[u8],
        trailer: u64,
        order: Option<Arc<dyn Comparator>>,
        arena: &mut Arena,
    ) -> MemKey {
        let bytes = KeyBytes::inline(key).unwrap_or_else(|| KeyBytes::Shared(arena.store(key)));
        MemKey { prefix: prefix(key), trailer, key: bytes, order }
    }

    fn lookup(key: &[u8], trailer: u64, order: Option<Arc<dyn Comparator>>) -> MemKey {
        let bytes =
            KeyBytes::inline(key).unwrap_or_else(|| KeyBytes::Shared(Bytes::copy_from_slice(key)));
        MemKey { prefix: prefix(key), trailer, key: bytes, order }
    }

    #[inline]
    fn user_key(&self) -> &[u8] {
        match &self.key {
            KeyBytes::Inline { len, bytes } => &bytes[..usize::from(*len)],
            KeyBytes::Shared(bytes) => bytes,
        }
    }

    fn heap_bytes(&self) -> usize {
        match &self.key {
            KeyBytes::Inline { .. } => 0,
            KeyBytes::Shared(bytes) => bytes.len(),
        }
    }

    fn kind(&self) -> KeyKind {
        if self.trailer as u8 == KeyKind::Value as u8 { KeyKind::Value } else { KeyKind::Deletion }
    }

    #[inline]
    fn cmp_user_key(&self, other: &MemKey) -> Ordering {
        match &self.order {
            None => {
                self.prefix.cmp(&other.prefix).then_with(|| self.user_key().cmp(other.user_key()))
            }
            Some(order) => order.compare(self.user_key(), other.user_key()),
        }
    }

    fn same_user_key(&self, other: &MemKey) -> bool {
        self.cmp_user_key(other) == Ordering::Equal
    }
}

impl KeyBytes {
    #[inline]
    fn inline(key: &[u8]) -> Option<KeyBytes> {
        if key.len() > INLINE_KEY_BYTES {
            return None;
        }
        let mut bytes = [0; INLINE_KEY_BYTES];
        bytes[..key.len()].copy_from_slice(key);
        Some(KeyBytes::Inline { len: key.len() as u8, bytes })
    }
}

#[inline]
fn prefix(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(head) => u64::from_be_bytes(*head),
        None => {
            let mut head = [0; 8];
            head[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(head)
        }
    }
}

impl Ord for MemKey {
    #[inline]
    fn cmp(&self, other: &MemKey) -> Ordering {
        self.cmp_user_key(other).then_with(|| other.trailer.cmp(&self.trailer))
    }
}

impl PartialOrd for MemKey {
    #[inline]
    fn partial_cmp(&self, other: &MemKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for MemKey {
    fn eq(&self, other: &MemKey) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for MemKey {}

/// Chunks of a scan grow from the first of these sizes to the second, in entries.
const CHUNK_ENTRIES: (usize, usize) = (8, 256);

/// A cursor that owns its memtable and lends internal keys.
///
/// It copies a chunk of entries at a time: a borrow of the skip list would tie its lifetime to
/// the memtable, and a search for each step costs more than the copy. Entries inserted meanwhile
/// may or may not appear; they are newer than any sequence the cursor's reader sees.
#[derive(Debug)]
pub struct MemCursor {
    mem: Arc<Memtable>,
    /// The internal keys of the chunk, one after the other, ascending.
    keys: Vec<u8>,
    entries: Vec<ChunkEntry>,
    /// The entry the cursor is at; `entries.len()` if at none.
    at: usize,
    chunk_entries: usize,
}

#[derive(Debug)]
struct ChunkEntry {
    key_start: usize,
    key_end: usize,
    value: Bytes,
}

impl MemCursor {
    fn new(mem: Arc<Memtable>) -> MemCursor {
        MemCursor {
            mem,
            keys: Vec::new(),
            entries: Vec::new(),
            at: 0,
            chunk_entries: CHUNK_ENTRIES.0,
        }
    }

    /// Whether the cursor is at an entry.
    pub fn valid(&self) -> bool {
        self.at < self.entries.len()
    }

    /// The internal key of the entry.
    pub fn key(&self) -> &[u8] {
        let entry = &self.entries[self.at];
        &self.keys[entry.key_start..entry.key_end]
    }

    /// The value of the entry.
    pub fn value(&self) -> &Bytes {
        &self.entries[self.at].value
    }

    /// Moves to the first entry.
    pub fn seek_to_first(&mut self) -> bool {
        self.chunk_entries = CHUNK_ENTRIES.0;
        self.fill_forward(Bound::Unbounded)
    }

    /// Moves to the last entry.
    pub fn seek_to_last(&mut self) -> bool {
        self.chunk_entries = CHUNK_ENTRIES.0;
        self.fill_backward(Bound::Unbounded)
    }

    /// Moves to the first entry at or after an internal key.
    pub fn seek(&mut self, target: &[u8]) -> bool {
        self.chunk_entries = CHUNK_ENTRIES.0;
        let target = self.mem_key(target);
        self.fill_forward(Bound::Included(&target))
    }

    /// Moves to the next entry.
    #[expect(clippy::should_implement_trait, reason = "what it moves to is lent, not given")]
    pub fn next(&mut self) -> bool {
        if self.at + 1 < self.entries.len() {
            self.at += 1;
            return true;
        }
        let last = self.mem_key(self.key());
        self.fill_forward(Bound::Excluded(&last))
    }

    /// Moves to the previous entry.
    pub fn prev(&mut self) -> bool {
        if self.at > 0 {
            self.at -= 1;
            return true;
        }
        let first = self.mem_key(self.key());
        self.fill_backward(Bound::Excluded(&first))
    }

    fn mem_key(&self, internal_key: &[u8]) -> MemKey {
        MemKey::lookup(user_key(internal_key), trailer(internal_key), self.mem.order.clone())
    }

    fn fill_forward(&mut self, from: Bound<&MemKey>) -> bool {
        self.clear();
        let mem = self.mem.clone();
        let mut next = mem.map.lower_bound(from);
        while let Some(entry) = next {
            self.push(entry.key(), entry.value());
            if self.entries.len() == self.chunk_entries {
                break;
            }
            next = entry.next();
        }
        self.grow();
        self.at = 0;
        self.valid()
    }

    fn fill_backward(&mut self, to: Bound<&MemKey>) -> bool {
        self.clear();
        let mem = self.mem.clone();
        let mut next = mem.map.upper_bound(to);
        while let Some(entry) = next {
            self.push(entry.key(), entry.value());
            if self.entries.len() == self.chunk_entries {
                break;
            }
            next = entry.prev();
        }
        self.grow();
        self.entries.reverse();
        self.at = self.entries.len().saturating_sub(1);
        self.valid()
    }

    fn clear(&mut self) {
        self.keys.clear();
        self.entries.clear();
    }

    fn grow(&mut self) {
        self.chunk_entries = (self.chunk_entries * 2).min(CHUNK_ENTRIES.1);
    }

    fn push(&mut self, key: &MemKey, value: &Bytes) {
        let key_start = self.keys.len();
        append_internal_key(&mut self.keys, key.user_key(), key.trailer >> 8, key.kind());
        debug_assert!(self.keys.len() - key_start >= TRAILER_BYTES);
        self.entries.push(ChunkEntry { key_start, key_end: self.keys.len(), value: value.clone() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::BytewiseComparator;
    use crate::format::batch::WriteBatch;
    use crate::format::key::{MAX_SEQ_NO, internal_key};

    fn memtable(ops: &[(&str, Option<&str>)]) -> Arc<Memtable> {
        let mem = Memtable::new(&UserComparator::new(Arc::new(BytewiseComparator)));
        let mut arena = Arena::default();
        let mut batch = WriteBatch::new();
        for (key, value) in ops {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            }
        }
        mem.insert_batch(batch.contents(), 1, &mut arena).unwrap();
        Arc::new(mem)
    }

    fn value_at(mem: &Memtable, key: &str, seq: SeqNo) -> Option<Option<Bytes>> {
        let found = mem.get(key.as_bytes(), seq)?;
        Some((found.kind == KeyKind::Value).then_some(found.value))
    }

    #[test]
    fn readers_see_the_newest_version_at_their_sequence() {
        let mem = memtable(&[("a", Some("1")), ("a", Some("2")), ("a", None), ("b", Some("3"))]);
        assert_eq!(value_at(&mem, "a", 1), Some(Some(Bytes::from("1"))));
        assert_eq!(value_at(&mem, "a", 2), Some(Some(Bytes::from("2"))));
        assert_eq!(value_at(&mem, "a", MAX_SEQ_NO), Some(None));
        assert_eq!(value_at(&mem, "b", 3), None);
        assert_eq!(value_at(&mem, "b", 4), Some(Some(Bytes::from("3"))));
        assert_eq!(value_at(&mem, "", MAX_SEQ_NO), None);
        assert_eq!((mem.last_seq(), mem.len()), (4, 4));
    }

    #[test]
    fn keys_that_share_a_padded_prefix_stay_apart() {
        let long = "k".repeat(INLINE_KEY_BYTES + 5);
        let mem = memtable(&[("a", Some("1")), ("a\0", Some("2")), (&long, Some("3"))]);
        assert_eq!(value_at(&mem, "a", MAX_SEQ_NO), Some(Some(Bytes::from("1"))));
        assert_eq!(value_at(&mem, "a\0", MAX_SEQ_NO), Some(Some(Bytes::from("2"))));
        assert_eq!(value_at(&mem, "a\0\0", MAX_SEQ_NO), None);
        assert_eq!(value_at(&mem, &long, MAX_SEQ_NO), Some(Some(Bytes::from("3"))));
    }

    #[test]
    fn a_cursor_walks_both_ways_over_many_chunks() {
        let keys: Vec<String> = (0..1000).map(|i| format!("{i:05}")).collect();
        let ops: Vec<_> = keys.iter().map(|key| (key.as_str(), Some("v"))).collect();
        let mem = memtable(&ops);
        let mut cursor = mem.cursor();
        let mut seen = Vec::new();
        let mut valid = cursor.seek_to_first();
        while valid {
            seen.push(String::from_utf8(user_key(cursor.key()).to_vec()).unwrap());
            valid = cursor.next();
        }
        assert_eq!(seen, keys);
        valid = cursor.seek_to_last();
        while valid {
            assert_eq!(Some(user_key(cursor.key())), seen.pop().as_ref().map(|key| key.as_bytes()));
            valid = cursor.prev();
        }
        assert!(seen.is_empty());
        assert!(cursor.seek(&internal_key(b"00500", MAX_SEQ_NO, KIND_FOR_SEEK)));
        for _ in 0..20 {
            assert!(cursor.next());
        }
        for _ in 0..40 {
            assert!(cursor.prev());
        }
        assert_eq!(user_key(cursor.key()), b"00480");
        assert!(!cursor.seek(&internal_key(b"1", MAX_SEQ_NO, KIND_FOR_SEEK)));
    }
}
