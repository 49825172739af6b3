//! A cursor over a memtable.

use std::sync::Arc;

use bytes::Bytes;

use super::Memtable;
use super::entries::MemEntry;
use super::ordered::{LeafKey, LeafPosition};
use crate::format::key::{trailer, user_key};

/// A cursor that owns its memtable and lends internal keys and values.
///
/// The cursor returns the entries that were inserted before it was created. It may also return
/// entries that were inserted later. Their sequence numbers are higher than the one at which the
/// cursor's reader reads.
#[derive(Debug)]
pub struct MemCursor {
    mem: Arc<Memtable>,
    position: Option<LeafPosition>,
}

impl MemCursor {
    pub(super) fn new(mem: Arc<Memtable>) -> MemCursor {
        mem.order_all();
        MemCursor { mem, position: None }
    }

    /// Returns whether the cursor is at an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.position.is_some()
    }

    #[inline]
    fn entry(&self) -> Option<&MemEntry> {
        let position = self.position.as_ref()?;
        self.mem.entries.get(position.leaf.entry(position.at)?)
    }

    /// Returns the current internal key, or an empty slice if the cursor is not positioned.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.entry().map_or(&[], MemEntry::internal_key)
    }

    /// Returns the current value, or an empty slice if the cursor is not positioned.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.entry().map_or(&[], MemEntry::value)
    }

    /// Returns the current value, sharing the memtable's memory.
    pub fn value_bytes(&self) -> Bytes {
        self.entry().map_or(Bytes::new(), MemEntry::value_bytes)
    }

    /// Moves to the first entry. Like every method that moves the cursor, returns false if there is
    /// no such entry.
    pub fn seek_to_first(&mut self) -> bool {
        self.position = self.mem.ordered.first();
        self.valid()
    }

    /// Moves to the last entry.
    pub fn seek_to_last(&mut self) -> bool {
        self.position = self.mem.ordered.last(&self.mem.entries);
        self.valid()
    }

    /// Moves to the first entry not less than the internal key `target`.
    pub fn seek(&mut self, target: &[u8]) -> bool {
        let key = Bytes::copy_from_slice(user_key(target));
        let key = self.mem.ordered.key(key, trailer(target));
        self.position = self.mem.ordered.lower_bound(&self.mem.entries, &key);
        self.valid()
    }

    /// Moves to the last entry less than the internal key `target`. If `or_at` is set and an entry
    /// has exactly the key `target`, moves to that entry instead. Concurrent inserts do not affect
    /// the result, as they could if a caller used `seek` and then `prev`.
    pub fn seek_before(&mut self, target: &[u8], or_at: bool) -> bool {
        if or_at && self.seek(target) && self.key() == target {
            return true;
        }
        let key = Bytes::copy_from_slice(user_key(target));
        let key = self.mem.ordered.key(key, trailer(target));
        self.position = self.mem.ordered.before(&self.mem.entries, &key);
        self.valid()
    }

    /// Moves to the next entry.
    #[allow(clippy::should_implement_trait, reason = "an Iterator cannot lend")]
    #[inline]
    pub fn next(&mut self) -> bool {
        let Some(position) = &mut self.position else { return false };
        position.at += 1;
        if position.at < position.leaf.len() {
            return true;
        }
        self.next_leaf()
    }

    fn next_leaf(&mut self) -> bool {
        let passed = self.position.take();
        self.position =
            passed.and_then(|LeafPosition { leaf, at }| self.mem.ordered.at_or_after(leaf, at));
        self.valid()
    }

    /// Moves to the previous entry.
    #[inline]
    pub fn prev(&mut self) -> bool {
        if let Some(position) = &mut self.position
            && position.at > 0
        {
            position.at -= 1;
            return true;
        }
        self.position =
            self.here().and_then(|key| self.mem.ordered.before(&self.mem.entries, &key));
        self.valid()
    }

    /// Returns the key for finding the current entry in the leaves.
    fn here(&self) -> Option<LeafKey> {
        let entry = self.entry()?;
        Some(self.mem.ordered.key(entry.user_key_bytes(), entry.trailer()))
    }
}
