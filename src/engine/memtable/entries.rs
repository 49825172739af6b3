//! The versions of a memtable in the order in which they came: appended by one, read by any.

use std::sync::OnceLock;

use bytes::{Bytes, BytesMut};

use crate::base::sync::atomic::{AtomicU32, Ordering};
use crate::format::key::{KeyKind, SeqNo, TRAILER_BYTES};

/// A version of a key.
#[derive(Debug)]
pub struct Entry {
    /// The internal key as in a table (user key and trailer), and behind it the value.
    data: Bytes,
    /// `sequence << 8 | kind`, as in the key's trailer.
    trailer: u64,
    user_key_bytes: u32,
    /// Part of the user key's hash.
    pub hash: u32,
    /// Where its chain in the hash index goes on.
    pub next: u32,
    /// The version before it with the same hash; set by the hash index, and once only.
    pub older: AtomicU32,
}

impl Entry {
    /// The user key.
    #[inline]
    pub fn user_key(&self) -> &[u8] {
        &self.data[..self.user_key_bytes as usize]
    }

    /// The user key, shared.
    pub fn user_key_bytes(&self) -> Bytes {
        self.data.slice(..self.user_key_bytes as usize)
    }

    /// The internal key.
    #[inline]
    pub fn internal_key(&self) -> &[u8] {
        &self.data[..self.user_key_bytes as usize + TRAILER_BYTES]
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> &[u8] {
        &self.data[self.user_key_bytes as usize + TRAILER_BYTES..]
    }

    /// The value, shared.
    #[inline]
    pub fn value_bytes(&self) -> Bytes {
        self.data.slice(self.user_key_bytes as usize + TRAILER_BYTES..)
    }

    /// Brings the first cache lines of its bytes into the cache.
    #[inline]
    pub fn touch(&self) -> u8 {
        self.data.iter().take(256).step_by(64).fold(0, |sum, byte| sum ^ byte)
    }

    /// `sequence << 8 | kind`.
    #[inline]
    pub fn trailer(&self) -> u64 {
        self.trailer
    }

    /// When it was written.
    #[inline]
    pub fn seq(&self) -> SeqNo {
        self.trailer >> 8
    }

    /// Put or deleted.
    #[inline]
    pub fn kind(&self) -> KeyKind {
        if self.trailer as u8 == KeyKind::Value as u8 { KeyKind::Value } else { KeyKind::Deletion }
    }
}

/// Keys and values are cut from chunks of this size; larger ones are allocated alone.
const ARENA_CHUNK_BYTES: usize = 64 << 10;

/// Where the bytes of a memtable's keys and values are. One for each memtable, held by whoever
/// may insert.
#[derive(Debug, Default)]
pub struct Arena {
    chunk: BytesMut,
}

impl Arena {
    /// Stores a version's bytes; its place in the hash index is still to be given.
    #[inline]
    pub fn store(&mut self, user_key: &[u8], trailer: u64, value: &[u8]) -> Entry {
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
        Entry { data, trailer, user_key_bytes, hash: 0, next: 0, older }
    }
}

const CHUNK_LG: u32 = 9;
const CHUNK_SLOTS: usize = 1 << CHUNK_LG;

/// Chunks of the first directory; each further one has twice as many.
const FIRST_DIRECTORY: u32 = 16;

/// With so many directories there are more places than numbers.
const DIRECTORIES: usize = 20;

type Chunk<T> = Box<[OnceLock<T>]>;
type Directory<T> = OnceLock<Box<[OnceLock<Chunk<T>>]>>;

/// The versions of a memtable.
pub type Entries = Appended<Entry>;

/// An array that grows at its end and never moves. Thread-safe; one at a time may append.
#[derive(Debug)]
pub struct Appended<T> {
    directories: [Directory<T>; DIRECTORIES],
    len: AtomicU32,
}

impl<T> Appended<T> {
    /// An empty one.
    pub fn new() -> Appended<T> {
        Appended { directories: [const { OnceLock::new() }; DIRECTORIES], len: AtomicU32::new(0) }
    }

    /// Number of elements.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len.load(Ordering::Acquire)
    }

    /// Appends an element. Its number is what [`Appended::len`] was before.
    #[inline]
    pub fn push(&self, element: T) {
        let index = self.len.load(Ordering::Relaxed);
        let (directory, chunk, slot) = place(index);
        let directory_slots = || some((FIRST_DIRECTORY as usize) << directory);
        let chunks = self.directories[directory].get_or_init(directory_slots);
        let appended = chunks[chunk].get_or_init(|| some(CHUNK_SLOTS))[slot].set(element);
        debug_assert!(appended.is_ok(), "two at a time append");
        self.len.store(index + 1, Ordering::Release);
    }

    /// The element of a number below [`Appended::len`].
    #[inline]
    pub fn get(&self, index: u32) -> Option<&T> {
        let (directory, chunk, slot) = place(index);
        self.directories[directory].get()?[chunk].get()?[slot].get()
    }
}

/// Empty slots.
fn some<T>(n: usize) -> Box<[OnceLock<T>]> {
    (0..n).map(|_| OnceLock::new()).collect()
}

/// The directory, the chunk in it, and the slot in that.
#[inline]
fn place(index: u32) -> (usize, usize, usize) {
    let chunk = index >> CHUNK_LG;
    let directory = (chunk / FIRST_DIRECTORY + 1).ilog2();
    let first = FIRST_DIRECTORY * ((1 << directory) - 1);
    (directory as usize, (chunk - first) as usize, index as usize % CHUNK_SLOTS)
}

/// What an entry takes beside its bytes.
pub const ENTRY_BYTES: usize = size_of::<OnceLock<Entry>>();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_follow_each_other_without_a_gap() {
        let mut expected = (0, 0, 0);
        for index in 0..CHUNK_SLOTS as u32 * FIRST_DIRECTORY * 9 {
            assert_eq!(place(index), expected);
            expected.2 += 1;
            if expected.2 == CHUNK_SLOTS {
                expected = (expected.0, expected.1 + 1, 0);
            }
            if expected.1 == (FIRST_DIRECTORY as usize) << expected.0 {
                expected = (expected.0 + 1, 0, 0);
            }
        }
        assert!(place(u32::MAX).0 < DIRECTORIES);
    }

    #[test]
    fn what_is_appended_is_read_by_others() {
        let entries = Entries::new();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut seen = 0;
                while seen < 50_000 {
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
            for index in 0..50_000u32 {
                entries.push(arena.store(&index.to_le_bytes(), u64::from(index) << 8 | 1, b"v"));
            }
            reader.join().unwrap();
        });
        assert!(entries.get(50_000).is_none());
    }
}
