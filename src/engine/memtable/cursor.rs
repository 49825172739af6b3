//! A cursor over a memtable.

use std::sync::Arc;

use bytes::Bytes;

use super::Memtable;
use super::entries::Entry;
use super::ordered::{LeafKey, Place};
use crate::format::key::{trailer, user_key};

/// A cursor that owns its memtable and lends internal keys and values.
///
/// It knows the entries that were there when it was made, and perhaps some that came later; these
/// are newer than any sequence its reader sees.
#[derive(Debug)]
pub struct MemCursor {
    mem: Arc<Memtable>,
    place: Option<Place>,
}

impl MemCursor {
    pub(super) fn new(mem: Arc<Memtable>) -> MemCursor {
        mem.order_all();
        MemCursor { mem, place: None }
    }

    /// Whether the cursor is at an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.place.is_some()
    }

    #[inline]
    fn entry(&self) -> Option<&Entry> {
        let place = self.place.as_ref()?;
        self.mem.entries.get(place.leaf.entry(place.at)?)
    }

    /// The internal key of the entry; empty if it is at none.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.entry().map_or(&[], Entry::internal_key)
    }

    /// The value of the entry; empty if it is at none.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.entry().map_or(&[], Entry::value)
    }

    /// The value, shared with the memtable.
    pub fn value_bytes(&self) -> Bytes {
        self.entry().map_or(Bytes::new(), Entry::value_bytes)
    }

    /// Moves to the first entry.
    pub fn seek_to_first(&mut self) -> bool {
        self.place = self.mem.ordered.first();
        self.valid()
    }

    /// Moves to the last entry.
    pub fn seek_to_last(&mut self) -> bool {
        self.place = self.mem.ordered.last(&self.mem.entries);
        self.valid()
    }

    /// Moves to the first entry at or after an internal key.
    pub fn seek(&mut self, target: &[u8]) -> bool {
        let key = Bytes::copy_from_slice(user_key(target));
        let key = self.mem.ordered.key(key, trailer(target));
        self.place = self.mem.ordered.lower_bound(&self.mem.entries, &key);
        self.valid()
    }

    /// Moves to the next entry.
    #[expect(clippy::should_implement_trait, reason = "what it moves to is lent, not given")]
    #[inline]
    pub fn next(&mut self) -> bool {
        let Some(place) = &mut self.place else { return false };
        place.at += 1;
        if place.at < place.leaf.len() {
            return true;
        }
        self.next_leaf()
    }

    fn next_leaf(&mut self) -> bool {
        let passed = self.place.take();
        self.place = passed.and_then(|Place { leaf, at }| self.mem.ordered.at_or_after(leaf, at));
        self.valid()
    }

    /// Moves to the previous entry.
    #[inline]
    pub fn prev(&mut self) -> bool {
        if let Some(place) = &mut self.place
            && place.at > 0
        {
            place.at -= 1;
            return true;
        }
        self.place = self.here().and_then(|key| self.mem.ordered.before(&self.mem.entries, &key));
        self.valid()
    }

    /// The key of the entry it is at.
    fn here(&self) -> Option<LeafKey> {
        let entry = self.entry()?;
        Some(self.mem.ordered.key(entry.user_key_bytes(), entry.trailer()))
    }
}
