//! Cursors over a block's entries, in both directions.

use std::sync::OnceLock;

use bytes::Bytes;

use crate::base::Result;
use crate::block::position::Position;
use crate::block::view::{Block, BlockView, EntryRef};
use crate::format::key::KeyOrder;

impl Position {
    /// Moves to the first entry whose key is not less than `target`. Returns false if there is no
    /// such entry.
    pub(super) fn seek(
        &mut self,
        block: BlockView<'_>,
        order: &KeyOrder,
        target: &[u8],
        buffer: &mut Vec<u8>,
    ) -> Result<bool> {
        if block.is_empty() {
            return Ok(false);
        }
        if let Some(found) = self.seek_by_heads(block, order, target, buffer) {
            return found;
        }
        self.seek_plain(block, order, target, buffer)
    }
}

impl<'a> BlockView<'a> {
    /// Returns the first entry whose key is not less than `target`, without a cursor. `scratch`
    /// receives the keys decoded during the search; once it is large enough, the search allocates
    /// no memory.
    ///
    /// # Errors
    /// Corruption, if an entry read by the search is malformed.
    pub fn get_ge<'k>(
        &self,
        order: &KeyOrder,
        target: &[u8],
        scratch: &'k mut Vec<u8>,
    ) -> Result<Option<EntryRef<'k, 'a>>>
    where
        'a: 'k,
    {
        let mut position = Position::default();
        if !position.seek(*self, order, target, scratch)? {
            return Ok(None);
        }
        let value = &self.contents()[position.value_start..position.end];
        Ok(Some(EntryRef { key: position.key(*self, scratch), value }))
    }
}

impl Block {
    /// Returns a cursor over the entries, not positioned yet.
    pub fn cursor(&self) -> BlockCursor {
        BlockCursor::new(self.clone())
    }
}

/// A cursor over the entries of a block. It owns the block; keys and values are borrowed until the
/// next move. The cursor is at no entry (is not positioned) until the first move, after a move past
/// either end, and after an error; `next` and `prev` then have no effect.
#[derive(Debug)]
pub struct BlockCursor {
    block: Block,
    /// The block's contents as `Bytes`. Values that share the block's memory are slices of these
    /// `Bytes`.
    shared: OnceLock<Bytes>,
    valid: bool,
    position: Position,
    key_buffer: Vec<u8>,
    /// The entries between the preceding restart point and the current position. The first backward
    /// step decodes all of these entries, so that a backward scan decodes each entry only once.
    behind: Vec<Behind>,
    behind_keys: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Behind {
    at: usize,
    /// The range of the key in `behind_keys`.
    key_start: usize,
    key_end: usize,
    value_start: usize,
    end: usize,
}

impl Behind {
    fn new(scan: &Position, key: &[u8], keys: &mut Vec<u8>) -> Behind {
        let key_start = keys.len();
        keys.extend_from_slice(key);
        let key_end = keys.len();
        Behind { at: scan.at, key_start, key_end, value_start: scan.value_start, end: scan.end }
    }
}

#[allow(clippy::should_implement_trait, reason = "an Iterator cannot lend or fail")]
impl BlockCursor {
    /// Creates a cursor over `block`.
    pub fn new(block: Block) -> BlockCursor {
        BlockCursor {
            block,
            shared: OnceLock::new(),
            valid: false,
            position: Position::default(),
            key_buffer: Vec::new(),
            behind: Vec::new(),
            behind_keys: Vec::new(),
        }
    }

    /// Replaces the block, but keeps the buffers. Afterwards the cursor is not positioned.
    pub fn set_block(&mut self, block: Block) {
        self.block = block;
        self.shared = OnceLock::new();
        self.invalidate();
    }

    /// Leaves the current entry. Afterwards the cursor is not positioned.
    pub fn invalidate(&mut self) {
        self.valid = false;
        self.behind.clear();
    }

    /// Returns whether the cursor is at an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// Returns the current key, or an empty slice if the cursor is not positioned.
    #[inline]
    pub fn key(&self) -> &[u8] {
        if self.valid { self.position.key(self.block.view(), &self.key_buffer) } else { &[] }
    }

    /// Returns the offset of the current entry in the block. The cursor must be positioned.
    #[inline]
    pub(crate) fn offset(&self) -> usize {
        self.position.at
    }

    /// Returns the current value, or an empty slice if the cursor is not positioned.
    #[inline]
    pub fn value(&self) -> &[u8] {
        if self.valid {
            &self.block.view().contents()[self.position.value_start..self.position.end]
        } else {
            &[]
        }
    }

    /// Returns the current value, sharing the block's memory.
    #[inline]
    pub fn value_bytes(&self) -> Bytes {
        if self.valid {
            let shared = self.shared.get_or_init(|| Bytes::from_owner(self.block.clone()));
            shared.slice(self.position.value_start..self.position.end)
        } else {
            Bytes::new()
        }
    }

    /// Moves to the first entry whose key is not less than `target`. Returns false if there is no
    /// such entry.
    ///
    /// # Errors
    /// Corruption, if an entry decoded during the move is malformed. All other moves can return
    /// this error, too.
    pub fn seek(&mut self, order: &KeyOrder, target: &[u8]) -> Result<bool> {
        self.invalidate();
        self.valid = self.position.seek(self.block.view(), order, target, &mut self.key_buffer)?;
        Ok(self.valid)
    }

    /// Moves to the first entry. Returns false if there is none.
    pub fn seek_to_first(&mut self) -> Result<bool> {
        self.invalidate();
        if self.block.is_empty() {
            return Ok(false);
        }
        self.position.restart(self.block.view(), 0)?;
        self.valid = true;
        Ok(true)
    }

    /// Moves to the last entry. Returns false if there is none.
    pub fn seek_to_last(&mut self) -> Result<bool> {
        self.invalidate();
        if self.block.is_empty() {
            return Ok(false);
        }
        let view = self.block.view();
        self.position.restart(view, view.restart(view.restarts() - 1))?;
        while self.position.end < self.block.view().entries_end() {
            self.position.step(self.block.view(), self.position.end, &mut self.key_buffer)?;
        }
        self.valid = true;
        Ok(true)
    }

    /// Moves to the next entry. Returns false if there is none.
    #[inline]
    pub fn next(&mut self) -> Result<bool> {
        if !self.valid {
            return Ok(false);
        }
        if !self.behind.is_empty() {
            self.behind.clear();
        }
        self.valid = false;
        if self.position.end < self.block.view().entries_end() {
            self.position.step(self.block.view(), self.position.end, &mut self.key_buffer)?;
            self.valid = true;
        }
        Ok(self.valid)
    }

    /// Moves to the previous entry. Returns false if there is none.
    pub fn prev(&mut self) -> Result<bool> {
        if !self.valid {
            return Ok(false);
        }
        self.valid = false;
        let (view, buffer) = (self.block.view(), &mut self.key_buffer);
        if let Some(found) = self.position.prev_by_heads(view, buffer) {
            self.valid = found?;
            return Ok(self.valid);
        }
        if self.behind.is_empty() && self.position.at > 0 {
            self.gather_behind()?;
        }
        let Some(entry) = self.behind.pop() else { return Ok(false) };
        self.key_buffer.clear();
        self.key_buffer.extend_from_slice(&self.behind_keys[entry.key_start..entry.key_end]);
        self.position = Position {
            at: entry.at,
            key_in_buffer: true,
            value_start: entry.value_start,
            end: entry.end,
            ..Position::default()
        };
        self.valid = true;
        Ok(true)
    }

    /// Decodes the entries from the preceding restart point up to the current position. If their
    /// keys take more than `KEEP_BYTES` bytes in total, keeps only the last entry, because a
    /// malicious block can claim terabytes of shared prefixes.
    fn gather_behind(&mut self) -> Result<()> {
        const KEEP_BYTES: usize = 1 << 20;
        let stop = self.position.at;
        self.behind_keys.clear();
        let mut key_bytes = 0usize;
        let mut scan = Position::default();
        let view = self.block.view();
        scan.restart(view, view.restart(view.restarts_before(stop).saturating_sub(1)))?;
        loop {
            let key = scan.key(view, &self.key_buffer);
            key_bytes = key_bytes.saturating_add(key.len());
            if key_bytes <= KEEP_BYTES {
                self.behind.push(Behind::new(&scan, key, &mut self.behind_keys));
            }
            if scan.end >= stop {
                break;
            }
            if let Err(error) = scan.step(view, scan.end, &mut self.key_buffer) {
                self.behind.clear();
                return Err(error);
            }
        }
        if key_bytes > KEEP_BYTES {
            self.behind.clear();
            self.behind_keys.clear();
            let key = scan.key(view, &self.key_buffer);
            self.behind.push(Behind::new(&scan, key, &mut self.behind_keys));
        }
        if scan.end != stop {
            self.behind.clear();
            return Err(view.malformed(scan.at, "it runs into the next restart"));
        }
        Ok(())
    }

    /// Returns the capacity of the buffer of keys for backward steps, in bytes.
    #[cfg(test)]
    pub fn kept_bytes(&self) -> usize {
        self.behind_keys.capacity()
    }
}
