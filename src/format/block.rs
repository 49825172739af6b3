//! A block: its entries, and the first at or after a key.
//!
//! The bytes are drawn at the head of [`block_builder`](crate::format::block_builder). Defined by
//! LevelDB's `table/block.cc`.
//!
//! Nothing in a block is trusted. The restart array is checked once, when the block is made; an
//! entry when it is decoded, and what is wrong with one is an error, never the end of the block.

use std::cmp::Ordering;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use bytes::Bytes;
use triomphe::{Arc, ThinArc};

use crate::base::{Error, Result};
use crate::format::block_cursor::{BlockCursor, Position};
use crate::format::block_heads::{self, Heads};
use crate::format::coding::{get_fixed32, get_varint32};
use crate::format::key::KeyOrder;

/// The bytes of a cache line.
const LINE_BYTES: usize = 64;

/// As many lines as the heads of a usual block and their offsets take.
const PREFETCHED_LINES: usize = 7;

/// What is known of a block, in front of its bytes and in the same allocation: a lookup that
/// comes to a block out of the CPU's caches waits for it once, not for a handle and then for
/// bytes.
#[derive(Debug)]
pub struct BlockHead {
    /// Where the contents begin: behind the heads of its entries, if it has them.
    start: usize,
    /// The length of the contents. The allocation may be longer.
    len: usize,
    /// Where in the contents the entries end and the restart array begins.
    entries_end: usize,
    restarts: usize,
    heads: Heads,
    uses: AtomicU8,
}

/// The one allocation of a block.
pub type SharedBlock = ThinArc<BlockHead, u8>;

/// The contents of a block, uncompressed. Cheap to clone; clones share it.
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

/// A block that is looked at: where lookups and moves are.
#[derive(Clone, Copy, Debug)]
pub struct BlockView<'a> {
    head: &'a BlockHead,
    /// The heads of the entries; may be empty.
    heads: &'a [u8],
    contents: &'a [u8],
}

/// Where the parts of an entry lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawEntry {
    /// Bytes of its key that are those of the key before it.
    pub shared: usize,
    /// Where the rest of its key begins.
    pub key_start: usize,
    pub value_start: usize,
    pub end: usize,
}

/// An entry of a block.
#[derive(Clone, Debug)]
pub struct EntryRef<'a> {
    /// The whole key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

/// What a search for a version of a user key by the heads of a block came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ByHeads<'a> {
    /// The trailer of the version, and its value.
    Found(u64, &'a [u8]),
    /// The block has none.
    Absent,
    /// The heads cannot tell.
    Unknown,
}

impl Block {
    /// Takes `contents` as a block: a copy of them.
    ///
    /// # Errors
    /// Corruption, if the restart array does not fit or is not ascending from 0.
    pub fn new(contents: impl AsRef<[u8]>) -> Result<Block> {
        let LooseBlock { head, contents } = LooseBlock::new(contents.as_ref())?;
        Ok(Block { shared: ThinArc::from_header_and_slice(head, contents) })
    }

    /// [`Block::new`], with the heads of its entries if that pays: for blocks that are going to
    /// be searched often. A damaged block has none. What `buffer` holds is lost.
    ///
    /// `spare` may give the allocation of a block nobody needs, of so many bytes at least.
    ///
    /// # Errors
    /// As [`Block::new`].
    pub fn with_heads(
        contents: impl AsRef<[u8]>,
        order: &KeyOrder,
        buffer: &mut Vec<u8>,
        spare: impl FnOnce(usize) -> Option<SharedBlock>,
    ) -> Result<Block> {
        let loose = LooseBlock::new(contents.as_ref())?;
        buffer.clear();
        let heads = block_heads::build(loose.view(), order, buffer);
        let LooseBlock { mut head, contents } = loose;
        let mut bytes = contents;
        if let Some(heads) = heads {
            (head.start, head.heads) = (buffer.len(), heads);
            buffer.extend_from_slice(contents);
            bytes = buffer;
        }
        Ok(Block { shared: allocate(head, bytes, spare(bytes.len())) })
    }

    /// The block in an allocation.
    pub fn from_shared(shared: SharedBlock) -> Block {
        Block { shared }
    }

    /// Its allocation.
    pub fn into_shared(self) -> SharedBlock {
        self.shared
    }

    /// Looks at it.
    #[inline]
    pub fn view(&self) -> BlockView<'_> {
        BlockView::of(&self.shared)
    }

    /// The bytes it occupies in memory.
    pub fn len(&self) -> usize {
        self.shared.slice.len()
    }

    /// Whether it holds no entries.
    pub fn is_empty(&self) -> bool {
        self.view().is_empty()
    }

    /// The number of restarts.
    pub fn restarts(&self) -> usize {
        self.shared.header.header.restarts
    }

    /// A part of the contents, sharing the block's memory.
    pub fn share(&self, part: &[u8]) -> Bytes {
        Bytes::from_owner(self.clone()).slice_ref(part)
    }

    /// A cursor over the entries, at none of them yet.
    pub fn cursor(&self) -> BlockCursor {
        BlockCursor::new(self.clone())
    }
}

/// A block in borrowed memory, for one look.
#[derive(Debug)]
pub struct LooseBlock<'a> {
    head: BlockHead,
    contents: &'a [u8],
}

/// A block in the allocation of `spare`, if that is long enough and nobody else has it.
fn allocate(head: BlockHead, bytes: &[u8], spare: Option<SharedBlock>) -> SharedBlock {
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
    /// Takes `contents` as a block.
    ///
    /// # Errors
    /// As [`Block::new`].
    pub fn new(contents: &'a [u8]) -> Result<LooseBlock<'a>> {
        let block = LooseBlock { head: BlockHead::of(contents)?, contents };
        block.view().check_restarts()?;
        Ok(block)
    }

    /// Looks at it.
    #[inline]
    pub fn view(&self) -> BlockView<'_> {
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
    /// Looks at the block in an allocation.
    #[inline]
    pub fn of(shared: &'a SharedBlock) -> BlockView<'a> {
        let head = &shared.header.header;
        let (heads, rest) = shared.slice.split_at(head.start);
        BlockView { head, heads, contents: &rest[..head.len] }
    }

    /// Prefetches what a search by heads comes to first: all those lines at once, because their
    /// places are known before any of them is there.
    #[inline]
    pub fn prefetch(shared: &SharedBlock) {
        let line = |i: usize| shared.slice.get(i * LINE_BYTES).copied().unwrap_or(0);
        let lines = (1..PREFETCHED_LINES).fold(line(0), |lines, i| lines ^ line(i));
        std::hint::black_box(lines);
    }

    /// How often it was of use lately; for a cache to decide what to keep.
    #[inline]
    pub fn uses(&self) -> &'a AtomicU8 {
        &self.head.uses
    }

    /// Counts a use, up to `most`. Once there, it writes nothing: the cache line stays shared by
    /// all who read.
    #[inline]
    pub fn count_use(&self, most: u8) {
        let uses = self.head.uses.load(Relaxed);
        if uses < most {
            self.head.uses.store(uses + 1, Relaxed);
        }
    }

    fn check_restarts(&self) -> Result<()> {
        if self.is_empty() {
            // LevelDB gives an empty block the one restart 0.
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

    /// Whether it holds no entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries_end() == 0
    }

    #[inline]
    pub(super) fn contents(&self) -> &'a [u8] {
        self.contents
    }

    /// The heads of its entries, if it has them.
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

    /// The offset of the restart `i`.
    #[inline]
    pub(super) fn restart(&self, i: usize) -> usize {
        get_fixed32(self.contents, self.entries_end() + 4 * i).unwrap_or(0) as usize
    }

    /// The number of restarts before the offset `at`.
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

    /// Decodes the entry at `at`, which is before the end of the entries.
    #[inline]
    pub(super) fn entry(&self, at: usize) -> Result<RawEntry> {
        let entries = &self.contents[..self.entries_end()];
        let (shared, unshared, value_len, key_start) = match entries.get(at..at + 3) {
            Some(&[a, b, c]) if (a | b | c) < 0x80 => (a.into(), b.into(), c.into(), at + 3),
            _ => self.entry_header(at)?,
        };
        // Three 32-bit numbers and an offset in memory: no overflow in 64 bits.
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

    /// The entry at the restart `i`, which is one.
    ///
    /// # Errors
    /// Corruption, if it is malformed.
    #[inline]
    pub fn entry_at_restart(&self, i: usize) -> Result<EntryRef<'a>> {
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

    /// Whether each entry is sound and a restart, as in an index block.
    pub fn restarts_are_entries(&self) -> bool {
        let next =
            |i: usize| if i < self.restarts() { self.restart(i) } else { self.entries_end() };
        !self.is_empty()
            && (0..self.restarts()).all(|i| {
                self.entry(self.restart(i))
                    .is_ok_and(|entry| entry.shared == 0 && entry.end == next(i + 1))
            })
    }

    /// The number of restarts whose key is less than `target`, which is known to be from `low` to
    /// `high`: a search over them.
    ///
    /// # Errors
    /// Corruption, if an entry on the way is malformed.
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

    /// The first entry whose key is not less than `target`, for lookups that want no more.
    /// `scratch` holds keys on the way, so that nothing is allocated once it has grown.
    ///
    /// # Errors
    /// Corruption, if an entry on the way is malformed.
    pub fn get_ge(
        &self,
        order: &KeyOrder,
        target: &[u8],
        scratch: &'a mut Vec<u8>,
    ) -> Result<Option<EntryRef<'a>>> {
        let mut position = Position::default();
        if !position.seek(*self, order, target, scratch)? {
            return Ok(None);
        }
        let value = &self.contents[position.value_start..position.end];
        Ok(Some(EntryRef { key: position.key(*self, scratch), value }))
    }
}

#[cfg(test)]
#[path = "block_tests.rs"]
mod tests;
