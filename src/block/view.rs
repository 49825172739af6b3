//! A block's bytes in memory, and the decoding of single entries.

use std::cmp::Ordering;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use triomphe::{Arc, ThinArc};

use crate::base::{Error, Result};
use crate::format::coding::{get_fixed32, get_varint32};
use crate::format::key::KeyOrder;

/// Size of a cache line, in bytes.
const LINE_BYTES: usize = 64;

/// Number of cache lines that [`BlockView::prefetch`] touches: enough for the heads and offsets of
/// an ordinary block. A higher number loads lines that the search does not use.
const PREFETCHED_LINES: usize = 7;

/// The number of a block's heads, and the prefix that all its user keys share.
#[derive(Debug, Default)]
pub(super) struct Heads {
    /// Number of heads, which is the number of entries.
    pub(super) count: usize,
    /// The prefix common to all user keys: its offset in the contents, and its length.
    pub(super) prefix_start: usize,
    pub(super) prefix_len: usize,
}

/// The header of a block, stored in front of the block's bytes in the same allocation. If the
/// block is not in the CPU's caches, a lookup therefore has one cache miss. With a separate header,
/// it would have two.
#[derive(Debug)]
pub struct BlockHead {
    /// Offset of the contents in the allocation: after the heads, if there are any.
    pub(super) start: usize,
    /// Length of the contents. The allocation may be longer.
    len: usize,
    /// Offset in the contents at which the entries end and the restart array begins.
    entries_end: usize,
    restarts: usize,
    pub(super) heads: Heads,
    uses: AtomicU8,
}

/// The single allocation that holds a block.
pub(crate) type SharedBlock = ThinArc<BlockHead, u8>;

/// A block's uncompressed contents. Cheap to clone; clones share the memory.
#[derive(Clone)]
pub struct Block {
    shared: SharedBlock,
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Block").field("head", &self.shared.header.header).finish_non_exhaustive()
    }
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        self.view().contents
    }
}

/// A borrowed view of a block, which implements lookups and decoding.
#[derive(Clone, Copy, Debug)]
pub struct BlockView<'a> {
    head: &'a BlockHead,
    /// The heads and offsets of the entries. May be empty.
    heads: &'a [u8],
    contents: &'a [u8],
}

/// The offsets of an entry's parts in the contents of the block, and the number of key bytes that
/// the entry shares with the previous entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawEntry {
    /// Number of key bytes shared with the previous entry's key.
    pub shared: usize,
    /// Start of the unshared part of the key.
    pub key_start: usize,
    pub value_start: usize,
    pub end: usize,
}

/// An entry of a block.
#[derive(Clone, Debug)]
pub struct EntryRef<'k, 'a> {
    /// The full key, in the block or in the buffer into which it was decoded.
    pub key: &'k [u8],
    /// The value, in the block.
    pub value: &'a [u8],
}

impl Block {
    /// Creates a block from a copy of `contents`.
    ///
    /// # Errors
    /// Corruption, if the restart array does not fit or does not ascend from 0.
    pub fn new(contents: impl AsRef<[u8]>) -> Result<Block> {
        let LooseBlock { head, contents } = LooseBlock::new(contents.as_ref())?;
        Ok(Block { shared: ThinArc::from_header_and_slice(head, contents) })
    }

    /// Wraps an allocation that holds a block.
    pub fn from_shared(shared: SharedBlock) -> Block {
        Block { shared }
    }

    /// Returns the block's allocation.
    pub fn into_shared(self) -> SharedBlock {
        self.shared
    }

    /// Returns a view of the block.
    #[inline]
    pub fn view(&self) -> BlockView<'_> {
        BlockView::of(&self.shared)
    }

    /// Returns the length of the allocated heads and contents, in bytes.
    pub fn len(&self) -> usize {
        self.shared.slice.len()
    }

    /// Returns whether the block has no entries.
    pub fn is_empty(&self) -> bool {
        self.view().is_empty()
    }

    /// Returns the number of restart points.
    pub fn restarts(&self) -> usize {
        self.shared.header.header.restarts
    }

    /// Returns `part`, a subslice of the contents, as `Bytes` that share the block's memory.
    pub fn share(&self, part: &[u8]) -> Bytes {
        Bytes::from_owner(self.clone()).slice_ref(part)
    }
}

/// A block in borrowed memory, for a single lookup.
#[derive(Debug)]
pub(crate) struct LooseBlock<'a> {
    pub(super) head: BlockHead,
    pub(super) contents: &'a [u8],
}

/// Returns a newly allocated block. Reuses `spare` if it is long enough and not shared.
pub(super) fn allocate(head: BlockHead, bytes: &[u8], spare: Option<SharedBlock>) -> SharedBlock {
    let Some(mut spare) = spare else { return ThinArc::from_header_and_slice(head, bytes) };
    let unused = spare.with_arc_mut(|spare| match Arc::get_mut(spare) {
        Some(place) if place.slice().len() >= bytes.len() => {
            place.slice_mut()[..bytes.len()].copy_from_slice(bytes);
            *place.header_mut() = head;
            None
        }
        _ => Some(head),
    });
    match unused {
        None => spare,
        Some(head) => ThinArc::from_header_and_slice(head, bytes),
    }
}

impl<'a> LooseBlock<'a> {
    /// Creates a block over `contents`.
    ///
    /// # Errors
    /// The same as for [`Block::new`].
    pub(crate) fn new(contents: &'a [u8]) -> Result<LooseBlock<'a>> {
        let block = LooseBlock { head: BlockHead::of(contents)?, contents };
        block.view().check_restarts()?;
        Ok(block)
    }

    /// Returns a view of the block.
    #[inline]
    pub(crate) fn view(&self) -> BlockView<'_> {
        BlockView { head: &self.head, heads: &[], contents: self.contents }
    }
}

impl BlockHead {
    fn of(contents: &[u8]) -> Result<BlockHead> {
        let short = |len: usize| Error::mismatch("block too short", "at least 4 bytes", len);
        let count_at = contents.len().checked_sub(4).ok_or_else(|| short(contents.len()))?;
        let restarts = get_fixed32(contents, count_at).unwrap_or(0) as usize;
        if restarts > count_at / 4 {
            let room = format!("at most {}", count_at / 4);
            return Err(Error::mismatch("block has impossibly many restarts", room, restarts));
        }
        let entries_end = count_at - restarts * 4;
        let (heads, uses) = (Heads::default(), AtomicU8::new(0));
        Ok(BlockHead { start: 0, len: contents.len(), entries_end, restarts, heads, uses })
    }
}

impl<'a> BlockView<'a> {
    /// Returns a view of the block in the allocation `shared`.
    #[inline]
    pub fn of(shared: &'a SharedBlock) -> BlockView<'a> {
        let head = &shared.header.header;
        let (heads, rest) = shared.slice.split_at(head.start);
        BlockView { head, heads, contents: &rest[..head.len] }
    }

    /// Touches the cache lines that a search by heads reads first. The addresses of these lines do
    /// not depend on each other's contents, so the cache misses overlap.
    #[inline]
    pub fn prefetch(shared: &SharedBlock) {
        let line = |i: usize| shared.slice.get(i * LINE_BYTES).copied().unwrap_or(0);
        let lines = (1..PREFETCHED_LINES).fold(line(0), |lines, i| lines ^ line(i));
        std::hint::black_box(lines);
    }

    /// Returns the block's use count, which the block cache uses to decide what to keep.
    #[inline]
    pub fn uses(&self) -> &'a AtomicU8 {
        &self.head.uses
    }

    /// Increments the use count, up to `most`. If the count is already `most`, nothing is written,
    /// so that the cache line stays shared between the CPUs of all readers.
    #[inline]
    pub fn count_use(&self, most: u8) {
        let uses = self.head.uses.load(Relaxed);
        if uses < most {
            self.head.uses.store(uses + 1, Relaxed);
        }
    }

    fn check_restarts(&self) -> Result<()> {
        if self.is_empty() {
            // An empty block written by LevelDB has one restart point, at offset 0.
            return match (0..self.restarts()).find(|&i| self.restart(i) != 0 || i > 0) {
                None => Ok(()),
                Some(i) => Err(self.bad_restart(i)),
            };
        }
        if self.restarts() == 0 {
            return Err(Error::corruption("block has entries but no restarts"));
        }
        let mut least = 0;
        for i in 0..self.restarts() {
            let offset = self.restart(i);
            if offset < least || offset >= self.entries_end() || (i == 0 && offset != 0) {
                return Err(self.bad_restart(i));
            }
            least = offset + 1;
        }
        Ok(())
    }

    fn bad_restart(&self, i: usize) -> Error {
        Error::mismatch(
            format!("restart {i} of the block is out of order or range"),
            format_args!("ascending from 0 and below {}", self.entries_end()),
            self.restart(i),
        )
    }

    /// Returns whether the block has no entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries_end() == 0
    }

    /// Returns the same view without heads, so that every search of it is a plain one.
    pub(crate) fn without_heads(self) -> BlockView<'a> {
        BlockView { heads: &[], ..self }
    }

    #[inline]
    pub(super) fn contents(&self) -> &'a [u8] {
        self.contents
    }

    /// Returns the layout and the bytes of the entries' heads, if the block has heads.
    #[inline]
    pub(super) fn heads(&self) -> Option<(&'a Heads, &'a [u8])> {
        (!self.heads.is_empty()).then_some((&self.head.heads, self.heads))
    }

    #[inline]
    pub(super) fn entries_end(&self) -> usize {
        self.head.entries_end
    }

    #[inline]
    pub(super) fn restarts(&self) -> usize {
        self.head.restarts
    }

    /// Returns the offset of restart point `i`.
    #[inline]
    pub(crate) fn restart(&self, i: usize) -> usize {
        get_fixed32(self.contents, self.entries_end() + 4 * i).unwrap_or(0) as usize
    }

    /// Returns the number of restart points before offset `at`.
    pub(super) fn restarts_before(&self, at: usize) -> usize {
        let (mut low, mut high) = (0, self.restarts());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.restart(middle) < at {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    pub(super) fn malformed(&self, at: usize, why: &str) -> Error {
        Error::corruption(format!("malformed entry at byte {at} of the block: {why}"))
    }

    /// Decodes the entry at offset `at`, which must be before the end of the entries.
    #[inline]
    pub(super) fn entry(&self, at: usize) -> Result<RawEntry> {
        let entries = &self.contents[..self.entries_end()];
        let (shared, unshared, value_len, key_start) = match entries.get(at..at + 3) {
            Some(&[a, b, c]) if (a | b | c) < 0x80 => (a.into(), b.into(), c.into(), at + 3),
            _ => self.entry_header(at)?,
        };
        // The sum of three 32-bit numbers and an offset in memory cannot overflow 64 bits.
        let value_start = key_start as u64 + u64::from(unshared);
        let end = value_start + u64::from(value_len);
        if end > entries.len() as u64 {
            return Err(self.malformed(at, "it runs past the entries"));
        }
        Ok(RawEntry {
            shared: shared as usize,
            key_start,
            value_start: value_start as usize,
            end: end as usize,
        })
    }

    #[cold]
    fn entry_header(&self, at: usize) -> Result<(u32, u32, u32, usize)> {
        let entries = &self.contents[..self.entries_end()];
        let mut pos = at;
        let mut lens = [0u32; 3];
        for len in &mut lens {
            let (value, taken) = get_varint32(&entries[pos..])
                .ok_or_else(|| self.malformed(at, "a length is cut short or over 32 bits"))?;
            *len = value;
            pos += taken;
        }
        Ok((lens[0], lens[1], lens[2], pos))
    }

    /// Returns the entry at restart point `i`, which must exist.
    ///
    /// # Errors
    /// Corruption, if the entry is malformed.
    #[inline]
    pub fn entry_at_restart(&self, i: usize) -> Result<EntryRef<'a, 'a>> {
        let at = self.restart(i);
        let entry = self.entry(at)?;
        if entry.shared != 0 {
            return Err(self.malformed(at, "it is a restart but shares a prefix"));
        }
        Ok(EntryRef {
            key: &self.contents[entry.key_start..entry.value_start],
            value: &self.contents[entry.value_start..entry.end],
        })
    }

    /// Returns whether every entry is well-formed and a restart point, as in an index block.
    pub fn restarts_are_entries(&self) -> bool {
        let next =
            |i: usize| if i < self.restarts() { self.restart(i) } else { self.entries_end() };
        !self.is_empty()
            && (0..self.restarts()).all(|i| {
                self.entry(self.restart(i))
                    .is_ok_and(|entry| entry.shared == 0 && entry.end == next(i + 1))
            })
    }

    /// Returns the number of restart points whose key is less than `target`, by binary search. The
    /// caller must know that this number is between `low` and `high`.
    ///
    /// # Errors
    /// Corruption, if an entry read by the search is malformed.
    pub fn restarts_below(
        &self,
        order: &KeyOrder,
        target: &[u8],
        mut low: usize,
        mut high: usize,
    ) -> Result<usize> {
        while low < high {
            let middle = low + (high - low) / 2;
            let key = self.entry_at_restart(middle)?.key;
            if order.compare(key, target) == Ordering::Less {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }
}
