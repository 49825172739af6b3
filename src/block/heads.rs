//! Heads: an index, stored in front of a cached block, that usually leads a lookup to one entry.
//!
//! A plain search of a block misses the CPU's caches at each restart point that it reads, and then
//! decodes up to sixteen entries. A block that stays in memory therefore gets this index:
//!
//! ```text
//! head of entry 0: 8 bytes, head of entry 1, ... | offset of entry 0: 2 bytes, of entry 1, ...
//! ```
//!
//! A head is the first eight bytes of a user key after the prefix common to all user keys of the
//! block, as computed by [`head`] and stored in native byte order. The heads of an ordinary block
//! fill five cache lines, which are fetched together, and lead to the one entry that can match. If
//! the bytes that an entry shares with the previous key are all in the common prefix or the head,
//! the entry's key can be completed from the prefix and the head, and no other entry needs to be
//! decoded.
//!
//! Only a block of internal keys in byte order, whose entries are all well-formed, has heads.

use std::ops::ControlFlow;

use crate::base::Result;
use crate::base::prefix::{common_prefix, head};
use crate::block::position::Position;
use crate::block::view::{Block, BlockView, Heads, LooseBlock, RawEntry, SharedBlock, allocate};
use crate::format::coding::get_fixed64;
use crate::format::key::{KeyKind, KeyOrder, TRAILER_BYTES, user_key};

/// Size of a head and size of an offset, in bytes.
const HEAD_BYTES: usize = 8;
const OFFSET_BYTES: usize = 2;

/// Divisor of a block's size: heads and offsets may take at most one fifth of the block. A block
/// that would need more gets no heads, because it has many small entries, and several small entries
/// share a cache line anyway. With a larger divisor, fewer blocks have heads.
const HEADS_DIVISOR: usize = 5;

/// Maximum number of heads that a search compares one by one, without branches. A higher number
/// makes searches of large blocks longer.
const MAX_LINEAR_HEADS: usize = 48;

/// The result of using a block's heads to look up a version of a user key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ByHeads<'a> {
    /// The version's trailer and value.
    Found(u64, &'a [u8]),
    /// The block does not contain the version.
    Absent,
    /// The heads are not sufficient to decide.
    Unknown,
}

impl Block {
    /// Creates a block like [`Block::new`], and adds heads for its entries if the heads are worth
    /// their memory. Meant for blocks that will be searched often. A damaged block gets no heads.
    /// `buffer` is scratch space.
    ///
    /// `spare(n)` may return the allocation of a discarded block, at least `n` bytes long, for
    /// reuse.
    ///
    /// # Errors
    /// The same as for [`Block::new`].
    pub fn with_heads(
        contents: impl AsRef<[u8]>,
        order: &KeyOrder,
        buffer: &mut Vec<u8>,
        spare: impl FnOnce(usize) -> Option<SharedBlock>,
    ) -> Result<Block> {
        let loose = LooseBlock::new(contents.as_ref())?;
        buffer.clear();
        let heads = build(loose.view(), order, buffer);
        let LooseBlock { mut head, contents } = loose;
        let mut bytes = contents;
        if let Some(heads) = heads {
            (head.start, head.heads) = (buffer.len(), heads);
            buffer.extend_from_slice(contents);
            bytes = buffer;
        }
        Ok(Block::from_shared(allocate(head, bytes, spare(bytes.len()))))
    }
}

#[cfg(test)]
impl Block {
    /// Returns the block with heads of `byte` only, which belong to none of its keys.
    pub(crate) fn with_wrong_heads(self, byte: u8) -> Block {
        let mut shared = self.into_shared();
        shared.with_arc_mut(|block| {
            let block = triomphe::Arc::get_mut(block).expect("nobody shares the block");
            let bytes = block.header().heads.count * HEAD_BYTES;
            assert!(bytes > 0, "the block has no heads");
            block.slice_mut()[..bytes].fill(byte);
        });
        Block::from_shared(shared)
    }
}

/// Appends the heads and offsets of a block's entries to `out`. Returns `None` if the block cannot
/// have heads or if they are not worth their memory; `out` may then contain some heads.
fn build(view: BlockView<'_>, order: &KeyOrder, out: &mut Vec<u8>) -> Option<Heads> {
    let contents = view.contents();
    let internal = matches!(order, KeyOrder::Internal(_)) && order.user().custom().is_none();
    if !internal || view.is_empty() || contents.len() > usize::from(u16::MAX) {
        return None;
    }
    let first = view.entry(0).ok()?;
    let first_key = user_key(&contents[first.key_start..first.value_start]);
    let prefix_len = common_prefix(first_key, &last_user_key(view)?);
    let prefix = &first_key[..prefix_len];
    let mut walk = HeadDecoder { prefix, head: 0, user_len: 0, key_len: 0 };
    let (mut at, mut restart) = (0, 0);
    let room = contents.len() / HEADS_DIVISOR;
    let most_offset_bytes = room / (HEAD_BYTES + OFFSET_BYTES) * OFFSET_BYTES;
    let mut offsets = Vec::with_capacity(most_offset_bytes);
    out.reserve(contents.len() + room);
    while at < view.entries_end() {
        let entry = view.entry(at).ok()?;
        if restart < view.restarts() && view.restart(restart) <= at {
            if view.restart(restart) < at || entry.shared != 0 {
                return None;
            }
            restart += 1;
        }
        walk.step(&entry, &contents[entry.key_start..entry.value_start])?;
        out.extend_from_slice(&walk.head.to_ne_bytes());
        offsets.extend_from_slice(&(at as u16).to_ne_bytes());
        if offsets.len() > most_offset_bytes {
            return None;
        }
        at = entry.end;
    }
    if restart != view.restarts() {
        return None;
    }
    out.extend_from_slice(&offsets);
    let count = offsets.len() / OFFSET_BYTES;
    debug_assert_eq!(out.len(), count * (HEAD_BYTES + OFFSET_BYTES), "heads without offsets");
    Some(Heads { count, prefix_start: first.key_start, prefix_len })
}

fn last_user_key(view: BlockView<'_>) -> Option<Vec<u8>> {
    let (mut position, mut buffer) = (Position::default(), Vec::new());
    position.restart(view, view.restart(view.restarts() - 1)).ok()?;
    while position.end < view.entries_end() {
        position.step(view, position.end, &mut buffer).ok()?;
    }
    Some(user_key(position.key(view, &buffer)).to_vec())
}

/// A walk over the entries that computes each head from the previous head, without building whole
/// keys.
struct HeadDecoder<'a> {
    prefix: &'a [u8],
    head: u64,
    user_len: usize,
    key_len: usize,
}

impl HeadDecoder<'_> {
    /// Advances to the next entry, whose key ends in the unshared bytes `rest`. Returns `None` if
    /// the entry is malformed, out of order, or of a form that heads do not support.
    #[inline]
    fn step(&mut self, entry: &RawEntry, rest: &[u8]) -> Option<()> {
        let (shared, prefix_len) = (entry.shared, self.prefix.len());
        let key_len = shared.checked_add(rest.len())?;
        let user_len = key_len.checked_sub(TRAILER_BYTES)?;
        if shared > self.key_len || user_len < prefix_len {
            return None;
        }
        if shared < prefix_len && rest.get(..prefix_len - shared)? != &self.prefix[shared..] {
            return None;
        }
        if let Some(trailer) = rest.len().checked_sub(TRAILER_BYTES) {
            KeyKind::from_u8(rest[trailer])?;
        }
        let head = if shared <= prefix_len {
            head(&rest[prefix_len - shared..user_len - shared])
        } else if user_len == self.user_len && shared >= user_len.min(prefix_len + HEAD_BYTES) {
            self.head
        } else if shared > user_len || shared > self.user_len {
            // The user keys differ in length, and some of the shared bytes belong to the trailer of
            // the shorter key but to the user key of the longer one. Heads do not support this.
            return None;
        } else if shared >= prefix_len + HEAD_BYTES {
            self.head
        } else {
            let kept = 8 * (shared - prefix_len) as u32;
            let keep = !(u64::MAX >> kept);
            self.head & keep | head(&rest[..user_len - shared]) >> kept
        };
        if head < self.head {
            return None;
        }
        (self.head, self.user_len, self.key_len) = (head, user_len, key_len);
        Some(())
    }
}

impl Heads {
    #[inline]
    fn head(&self, bytes: &[u8], i: usize) -> u64 {
        let at = i * HEAD_BYTES;
        bytes[at..].first_chunk().map_or(0, |head| u64::from_ne_bytes(*head))
    }

    /// Returns the offset of entry `i`.
    #[inline]
    fn offset(&self, bytes: &[u8], i: usize) -> usize {
        let at = self.count * HEAD_BYTES + i * OFFSET_BYTES;
        bytes[at..].first_chunk().map_or(0, |offset| usize::from(u16::from_ne_bytes(*offset)))
    }

    /// Returns the number of entries before offset `at`.
    fn entries_before(&self, bytes: &[u8], at: usize) -> usize {
        let offsets = bytes[self.count * HEAD_BYTES..].as_chunks::<OFFSET_BYTES>().0;
        offsets.partition_point(|offset| usize::from(u16::from_ne_bytes(*offset)) < at)
    }

    /// Returns the number of entries whose head is less than `head`.
    #[inline]
    fn below(&self, bytes: &[u8], head: u64) -> usize {
        let (mut low, mut high) = (0, self.count);
        while high - low > MAX_LINEAR_HEADS {
            let middle = low + (high - low) / 2;
            if self.head(bytes, middle) < head {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let heads = bytes[low * HEAD_BYTES..high * HEAD_BYTES].as_chunks().0;
        low + heads
            .iter()
            .map(|other| usize::from(u64::from_ne_bytes(*other) < head))
            .sum::<usize>()
    }

    /// Returns the index of the first entry whose user key can be equal to or after `key`, or the
    /// number of entries if there is no such entry.
    #[inline]
    fn first(&self, view: BlockView<'_>, bytes: &[u8], key: &[u8]) -> usize {
        let prefix = self.prefix(view);
        match key[..key.len().min(prefix.len())].cmp(prefix) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Greater => self.count,
            std::cmp::Ordering::Equal => self.below(bytes, head(&key[prefix.len()..])),
        }
    }

    #[inline]
    fn prefix<'a>(&self, view: BlockView<'a>) -> &'a [u8] {
        &view.contents()[self.prefix_start..self.prefix_start + self.prefix_len]
    }
}

impl<'a> BlockView<'a> {
    /// Looks up the newest version of a user key whose trailer is at most `trailer`. Returns
    /// [`ByHeads::Unknown`] if the heads are not sufficient.
    #[inline]
    pub fn find_by_heads(&self, user_key: &[u8], trailer: u64) -> ByHeads<'a> {
        let Some((heads, bytes)) = self.heads() else { return ByHeads::Unknown };
        let Some(rest) = user_key.strip_prefix(heads.prefix(*self)) else { return ByHeads::Absent };
        let wanted = head(rest);
        for i in heads.below(bytes, wanted)..heads.count {
            if heads.head(bytes, i) != wanted {
                break;
            }
            if let ControlFlow::Break(found) = self.is_version(heads, bytes, i, user_key, trailer) {
                return found;
            }
        }
        ByHeads::Absent
    }

    /// Checks whether entry `i`, whose head equals the head of `user_key`, is the requested
    /// version. Breaks with the answer if this entry decides the search.
    #[inline]
    fn is_version(
        &self,
        heads: &Heads,
        bytes: &[u8],
        i: usize,
        user_key: &[u8],
        trailer: u64,
    ) -> ControlFlow<ByHeads<'a>> {
        let unknown = ControlFlow::Break(ByHeads::Unknown);
        let Ok(entry) = self.entry(heads.offset(bytes, i)) else { return unknown };
        let rest = &self.contents()[entry.key_start..entry.value_start];
        if entry.shared + rest.len() != user_key.len() + TRAILER_BYTES {
            return ControlFlow::Continue(());
        }
        // If the bytes shared with the previous key all belong to the common prefix or to the head,
        // they equal the first bytes of `user_key`.
        if entry.shared > user_key.len().min(heads.prefix_len + HEAD_BYTES) {
            return unknown;
        }
        let (key, own_trailer) = rest.split_at(user_key.len() - entry.shared);
        let own_trailer = get_fixed64(own_trailer, 0).unwrap_or(0);
        if key != &user_key[entry.shared..] || own_trailer > trailer {
            return ControlFlow::Continue(());
        }
        let value = &self.contents()[entry.value_start..entry.end];
        ControlFlow::Break(ByHeads::Found(own_trailer, value))
    }
}

impl Position {
    /// Like [`Position::seek`], but uses the block's heads. Returns `None` if the block has no
    /// heads.
    #[inline]
    pub(super) fn seek_by_heads(
        &mut self,
        view: BlockView<'_>,
        order: &KeyOrder,
        target: &[u8],
        buffer: &mut Vec<u8>,
    ) -> Option<Result<bool>> {
        let (heads, bytes) = view.heads()?;
        let first = heads.first(view, bytes, user_key(target));
        if first == heads.count {
            return Some(Ok(false));
        }
        Some(self.seek_from(view, first, order, target, buffer))
    }

    fn seek_from(
        &mut self,
        view: BlockView<'_>,
        first: usize,
        order: &KeyOrder,
        target: &[u8],
        buffer: &mut Vec<u8>,
    ) -> Result<bool> {
        self.go_by_heads(view, first, buffer)?;
        while order.compare(self.key(view, buffer), target).is_lt() {
            if self.end == view.entries_end() {
                return Ok(false);
            }
            self.step(view, self.end, buffer)?;
        }
        Ok(true)
    }

    /// Moves to the entry before `self.at`. Returns `None` if the block has no heads.
    #[inline]
    pub(super) fn prev_by_heads(
        &mut self,
        view: BlockView<'_>,
        buffer: &mut Vec<u8>,
    ) -> Option<Result<bool>> {
        let (heads, bytes) = view.heads()?;
        let entries_before = match self.ordinal {
            0 => heads.entries_before(bytes, self.at),
            ordinal => ordinal - 1,
        };
        if entries_before == 0 {
            return Some(Ok(false));
        }
        Some(self.go_by_heads(view, entries_before - 1, buffer).map(|()| true))
    }

    /// Moves to entry `i`.
    fn go_by_heads(&mut self, view: BlockView<'_>, i: usize, buffer: &mut Vec<u8>) -> Result<()> {
        let Some((heads, bytes)) = view.heads() else { return Ok(()) };
        self.go_to_head(view, heads, bytes, i, buffer)?;
        self.ordinal = i + 1;
        Ok(())
    }

    #[inline]
    fn go_to_head(
        &mut self,
        view: BlockView<'_>,
        heads: &Heads,
        bytes: &[u8],
        i: usize,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        let at = heads.offset(bytes, i);
        let entry = view.entry(at)?;
        let user_len = (entry.shared + entry.value_start - entry.key_start) - TRAILER_BYTES;
        if entry.shared == 0 {
            return self.restart(view, at);
        }
        if entry.shared > user_len.min(heads.prefix_len + HEAD_BYTES) {
            self.restart(view, view.restart(view.restarts_before(at) - 1))?;
            while self.end <= at {
                self.step(view, self.end, buffer)?;
            }
            return Ok(());
        }
        let prefix = heads.prefix(view);
        buffer.clear();
        buffer.extend_from_slice(&prefix[..entry.shared.min(prefix.len())]);
        if entry.shared > prefix.len() {
            let head = heads.head(bytes, i).to_be_bytes();
            buffer.extend_from_slice(&head[..entry.shared - prefix.len()]);
        }
        buffer.extend_from_slice(&view.contents()[entry.key_start..entry.value_start]);
        self.stand_at(at, &entry);
        Ok(())
    }
}
