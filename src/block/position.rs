//! A position in a block: moves from entry to entry, and the search without heads.

use std::cmp::Ordering;

use crate::base::Result;
use crate::block::view::{BlockView, RawEntry};
use crate::format::key::KeyOrder;

/// A decoded entry and the location of its key. The key is in the block if it shares no bytes with
/// the previous key; otherwise it is assembled in a buffer that the caller owns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Position {
    pub at: usize,
    /// The key's range in the block. Unused if the key is in the buffer.
    pub(super) key_start: usize,
    pub(super) key_end: usize,
    pub(super) key_in_buffer: bool,
    pub value_start: usize,
    pub end: usize,
    /// The entry's index plus one; 0 if unknown.
    pub ordinal: usize,
}

impl Position {
    #[inline]
    pub(super) fn key<'a>(&self, block: BlockView<'a>, buffer: &'a [u8]) -> &'a [u8] {
        if self.key_in_buffer { buffer } else { &block.contents()[self.key_start..self.key_end] }
    }

    /// Moves to the entry at offset `at`, which must be a restart point.
    #[inline]
    pub(super) fn restart(&mut self, block: BlockView<'_>, at: usize) -> Result<()> {
        (self.key_in_buffer, self.key_start, self.key_end) = (false, at, at);
        self.step(block, at, &mut Vec::new())
    }

    /// Moves to the entry at offset `at`, which must be the entry after the current one.
    #[inline]
    pub(super) fn step(
        &mut self,
        block: BlockView<'_>,
        at: usize,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        debug_assert!(at < block.entries_end(), "{at} is past the entries");
        let entry = block.entry(at)?;
        debug_assert!(entry.key_start <= entry.value_start && entry.value_start <= entry.end);
        if entry.shared == 0 {
            self.key_in_buffer = false;
            (self.key_start, self.key_end) = (entry.key_start, entry.value_start);
        } else {
            if entry.shared > self.key(block, buffer).len() {
                return Err(block.malformed(at, "it shares more bytes than the previous key has"));
            }
            if self.key_in_buffer {
                buffer.truncate(entry.shared);
            } else {
                let shared = &block.contents()[self.key_start..self.key_start + entry.shared];
                buffer.clear();
                buffer.extend_from_slice(shared);
                self.key_in_buffer = true;
            }
            buffer.extend_from_slice(&block.contents()[entry.key_start..entry.value_start]);
        }
        self.ordinal = 0;
        (self.at, self.value_start, self.end) = (at, entry.value_start, entry.end);
        Ok(())
    }

    /// Moves to an entry whose key is already in the buffer.
    #[inline]
    pub(super) fn stand_at(&mut self, at: usize, entry: &RawEntry) {
        self.key_in_buffer = true;
        (self.at, self.value_start, self.end) = (at, entry.value_start, entry.end);
    }

    /// Moves to the first entry whose key is not less than `target`, by a binary search over the
    /// restart points and then a scan. Returns false if there is no such entry. The block must not
    /// be empty.
    pub(super) fn seek_plain(
        &mut self,
        block: BlockView<'_>,
        order: &KeyOrder,
        target: &[u8],
        buffer: &mut Vec<u8>,
    ) -> Result<bool> {
        debug_assert!(!block.is_empty(), "an empty block has no restart to go to");
        let below = block.restarts_below(order, target, 0, block.restarts())?;
        if below == 0 {
            self.restart(block, 0)?;
            return Ok(true);
        }
        // The search established that the key of restart point `below - 1` is less than `target`
        // and the key of restart point `below` is not.
        self.restart(block, block.restart(below - 1))?;
        let known =
            if below < block.restarts() { block.restart(below) } else { block.entries_end() };
        while self.end < known {
            self.step(block, self.end, buffer)?;
            if order.compare(self.key(block, buffer), target) != Ordering::Less {
                return Ok(true);
            }
        }
        if self.end != known {
            return Err(block.malformed(self.at, "it runs into the next restart"));
        }
        if known == block.entries_end() {
            return Ok(false);
        }
        self.restart(block, known)?;
        Ok(true)
    }
}
