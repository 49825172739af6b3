//! The versions of keys in a memtable, in insertion order.

use bytes::{Bytes, BytesMut};

use crate::base::sync::lock_free::{AtomicU32, OnceLock, Ordering};
use crate::format::key::{KeyKind, SeqNo, TRAILER_BYTES};

/// A version of a key.
#[derive(Debug)]
pub struct MemEntry {
    /// The internal key (user key and trailer), followed by the value.
    data: Bytes,
    /// The key's trailer: `sequence << 8 | kind`.
    trailer: u64,
    user_key_bytes: u32,
    /// The upper half of the user key's hash, which is not used to choose the bucket.
    pub hash: u32,
    /// Position of the next entry in this entry's chain in the hash index: the number of that entry
    /// plus one, or a link. Never changes once this entry is appended.
    pub next: u32,
    /// Number of the next older entry with the same hash, plus one; 0 if there is none. Only the
    /// hash index sets this field, and only once.
    pub older: AtomicU32,
}

impl MemEntry {
    /// Returns the user key.
    #[inline]
    pub fn user_key(&self) -> &[u8] {
        &self.data[..self.user_key_bytes as usize]
    }

    /// Returns the user key, sharing the memtable's memory.
    pub fn user_key_bytes(&self) -> Bytes {
        self.data.slice(..self.user_key_bytes as usize)
    }

    /// Returns the internal key.
    #[inline]
    pub fn internal_key(&self) -> &[u8] {
        &self.data[..self.user_key_bytes as usize + TRAILER_BYTES]
    }

    /// Returns the value; empty for a deletion.
    #[inline]
    pub fn value(&self) -> &[u8] {
        &self.data[self.user_key_bytes as usize + TRAILER_BYTES..]
    }

    /// Returns the value, sharing the memtable's memory.
    #[inline]
    pub fn value_bytes(&self) -> Bytes {
        self.data.slice(self.user_key_bytes as usize + TRAILER_BYTES..)
    }

    /// Loads the first cache lines of the entry's data into the CPU's caches. Returns a value
    /// computed from the data, so that the compiler cannot remove the loads.
    #[inline]
    pub fn touch(&self) -> u8 {
        self.data.iter().take(256).step_by(64).fold(0, |sum, byte| sum ^ byte)
    }

    /// Returns `sequence << 8 | kind`.
    #[inline]
    pub fn trailer(&self) -> u64 {
        self.trailer
    }

    /// Returns the entry's sequence number.
    #[inline]
    pub fn seq(&self) -> SeqNo {
        self.trailer >> 8
    }

    /// Returns the kind of the entry: a put or a deletion.
    #[inline]
    pub fn kind(&self) -> KeyKind {
        if self.trailer as u8 == KeyKind::Value as u8 { KeyKind::Value } else { KeyKind::Deletion }
    }
}

/// Size in bytes of the chunks from which memory for keys and values is allocated. An entry larger
/// than a quarter of a chunk gets its own allocation. Larger chunks need fewer allocations, but
/// leave more memory unused at the ends of the chunks.
const ARENA_CHUNK_BYTES: usize = 64 << 10;

/// The allocator of a memtable's keys and values. Each memtable has one arena, owned by the thread
/// that may insert entries.
#[derive(Debug, Default)]
pub struct Arena {
    chunk: BytesMut,
}

impl Arena {
    /// Stores the bytes of a version and returns its entry. The hash index later sets the fields
    /// `hash`, `next` and `older`.
    #[inline]
    pub fn store(&mut self, user_key: &[u8], trailer: u64, value: &[u8]) -> MemEntry {
        let bytes = user_key.len() + TRAILER_BYTES + value.len();
        let mut alone;
        let chunk = if bytes > ARENA_CHUNK_BYTES / 4 {
            alone = BytesMut::with_capacity(bytes);
            &mut alone
        } else {
            if self.chunk.capacity() < bytes {
                self.chunk = BytesMut::with_capacity(ARENA_CHUNK_BYTES);
            }
            &mut self.chunk
        };
        chunk.extend_from_slice(user_key);
        chunk.extend_from_slice(&trailer.to_le_bytes());
        chunk.extend_from_slice(value);
        let data = chunk.split().freeze();
        let (user_key_bytes, older) = (user_key.len() as u32, AtomicU32::new(0));
        MemEntry { data, trailer, user_key_bytes, hash: 0, next: 0, older }
    }
}

/// Binary logarithm of the elements in a chunk. Models with loom need several chunks of a few.
const CHUNK_LG: u32 = if cfg!(minikv_loom) { 1 } else { 9 };
const CHUNK_SLOTS: usize = 1 << CHUNK_LG;

/// Number of chunks in the first directory. Each further directory has twice as many chunks as the
/// previous one. A higher number uses more memory while the memtable is small.
const FIRST_DIRECTORY: u32 = if cfg!(minikv_loom) { 1 } else { 16 };

/// Number of directories, which is enough for any `u32` index.
const DIRECTORIES: usize = if cfg!(minikv_loom) { 4 } else { 20 };

type Chunk<T> = Box<[OnceLock<T>]>;
type Directory<T> = OnceLock<Box<[OnceLock<Chunk<T>>]>>;

/// The versions of a memtable.
pub(super) type Entries = Appended<MemEntry>;

/// An array that grows at its end and never moves its elements.
///
/// Thread safety: one thread at a time may append, while any number of threads read without locks.
/// An element never changes its slot. `push` fills the slot before it stores the new length with
/// Release, and `len` loads the length with Acquire, so a thread that has loaded a length finds
/// every element whose number is below that length. A slot is a `OnceLock`, so a thread that got an
/// element's number from elsewhere (from the hash index) also sees the whole element.
#[derive(Debug)]
pub(super) struct Appended<T> {
    directories: [Directory<T>; DIRECTORIES],
    len: AtomicU32,
}

impl<T> Appended<T> {
    /// Creates an empty array.
    pub(super) fn new() -> Appended<T> {
        let directories = std::array::from_fn(|_| OnceLock::new());
        Appended { directories, len: AtomicU32::new(0) }
    }

    /// Returns the number of elements.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len.load(Ordering::Acquire)
    }

    /// Appends an element. The number of the element is the length before the call.
    #[inline]
    pub(super) fn push(&self, element: T) {
        let index = self.len.load(Ordering::Relaxed);
        let (directory, chunk, slot) = slot_of(index);
        let directory_slots = || empty_slots((FIRST_DIRECTORY as usize) << directory);
        let chunks = self.directories[directory].get_or_init(directory_slots);
        let appended = chunks[chunk].get_or_init(|| empty_slots(CHUNK_SLOTS))[slot].set(element);
        debug_assert!(appended.is_ok(), "two threads append at a time");
        debug_assert!(index < u32::MAX, "the length overflows");
        self.len.store(index + 1, Ordering::Release);
    }

    /// Returns the element with the number `index`, or `None` if no such element has been appended.
    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&T> {
        let (directory, chunk, slot) = slot_of(index);
        self.directories[directory].get()?[chunk].get()?[slot].get()
    }
}

/// Returns `n` empty slots.
fn empty_slots<T>(n: usize) -> Box<[OnceLock<T>]> {
    (0..n).map(|_| OnceLock::new()).collect()
}

/// Returns the directory of an element, its chunk in the directory, and its slot in the chunk.
#[inline]
fn slot_of(index: u32) -> (usize, usize, usize) {
    let chunk = index >> CHUNK_LG;
    let directory = (chunk / FIRST_DIRECTORY + 1).ilog2();
    let first = FIRST_DIRECTORY * ((1 << directory) - 1);
    (directory as usize, (chunk - first) as usize, index as usize % CHUNK_SLOTS)
}

/// Memory per entry, in bytes, in addition to the key and the value.
pub(super) const ENTRY_BYTES: usize = size_of::<OnceLock<MemEntry>>();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_filled_to_its_last_byte() {
        let quarter = ARENA_CHUNK_BYTES / 4 - 1 - TRAILER_BYTES;
        let mut arena = Arena::default();
        let mut address = |bytes: usize| {
            let stored = arena.store(b"k", 1, &vec![b'x'; bytes]);
            (stored.data.as_ptr().addr(), arena.chunk.capacity())
        };
        let (first, _) = address(quarter);
        for at in 1..4 {
            let left = (3 - at) * ARENA_CHUNK_BYTES / 4;
            assert_eq!(address(quarter), (first + at * ARENA_CHUNK_BYTES / 4, left));
        }
        address(5);
        let (_, left) = address(quarter + 1);
        assert_eq!(left, ARENA_CHUNK_BYTES - 14, "one byte more is stored alone");
    }

    #[test]
    fn slots_follow_each_other_without_a_gap() {
        let mut expected = (0, 0, 0);
        for index in 0..CHUNK_SLOTS as u32 * FIRST_DIRECTORY * 9 {
            assert_eq!(slot_of(index), expected);
            expected.2 += 1;
            if expected.2 == CHUNK_SLOTS {
                expected = (expected.0, expected.1 + 1, 0);
            }
            if expected.1 == (FIRST_DIRECTORY as usize) << expected.0 {
                expected = (expected.0 + 1, 0, 0);
            }
        }
        assert!(slot_of(u32::MAX).0 < DIRECTORIES);
    }

    #[test]
    fn a_large_value_leaves_the_chunk_to_small_ones() {
        let mut arena = Arena::default();
        let mut address = |value: &[u8]| arena.store(b"k", 1, value).data.as_ptr().addr();
        let first = address(b"small");
        address(&[b'x'; ARENA_CHUNK_BYTES]);
        assert_eq!(address(b"small"), first + 1 + TRAILER_BYTES + 5);
    }

    #[test]
    fn appended_entries_are_read_by_other_threads() {
        const N: u32 = if cfg!(miri) { 600 } else { 50_000 };
        let entries = Entries::new();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut seen = 0;
                while seen < N {
                    let len = entries.len();
                    for index in seen..len {
                        let entry = entries.get(index).unwrap();
                        assert_eq!(entry.user_key(), index.to_le_bytes());
                        assert_eq!((entry.seq(), entry.value()), (u64::from(index), &b"v"[..]));
                    }
                    seen = len;
                }
            });
            let mut arena = Arena::default();
            for index in 0..N {
                entries.push(arena.store(&index.to_le_bytes(), u64::from(index) << 8 | 1, b"v"));
            }
            reader.join().unwrap();
        });
        assert!(entries.get(N).is_none());
    }
}
