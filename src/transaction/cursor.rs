//! The cursor of a transaction, which records the ranges that it walks over.

use std::ops::Bound;

use bytes::Bytes;

use crate::base::Result;
use crate::base::clock::Clock;
use crate::engine::span::Span;
use crate::format::keyspace::Space;
use crate::transaction::merged::{Direction, MergedCursor};
use crate::transaction::reads::Walk;

/// A cursor over the entries that a [`Transaction`](crate::Transaction) sees: those of the database
/// at the moment when the transaction began, and the transaction's own writes. It moves like a
/// [`Cursor`](crate::Cursor).
///
/// The ranges that the cursor walks over count as read, including the gaps between the entries:
/// from the key of a seek to the entry that the seek found, and from each entry to the next.
#[derive(Debug)]
pub struct TransactionCursor<'t> {
    merged: MergedCursor<'t>,
    /// The keyspace that the cursor is confined to.
    space: Space,
    /// The clock that decides which entries have expired.
    clock: Clock,
    /// Length of the current entry's value, without the expiry that is stored with the value.
    value_len: usize,
    /// The range walked since the last seek; `None` before a seek, or once the range is recorded.
    walked: Option<Span>,
    // Must stay the last field: dropping the walk removes its stand-in from the record of reads.
    walk: Walk<'t>,
}

impl<'t> TransactionCursor<'t> {
    pub(super) fn new(merged: MergedCursor<'t>, walk: Walk<'t>) -> TransactionCursor<'t> {
        let (space, clock) = (Space::default(), Clock::default());
        TransactionCursor { merged, space, clock, value_len: 0, walked: None, walk }
    }

    /// Confines the cursor, which must not have moved yet, to the keys of `space`. `clock` decides
    /// which entries of `space` have expired.
    pub(crate) fn in_space(mut self, space: Space, clock: Clock) -> TransactionCursor<'t> {
        (self.space, self.clock) = (space, clock);
        self
    }

    /// Returns whether the cursor is at an entry.
    pub fn valid(&self) -> bool {
        self.merged.valid()
    }

    /// Returns the key of the entry.
    ///
    /// # Panics
    /// If the cursor is at no entry.
    pub fn key(&self) -> &[u8] {
        self.space.strip(self.merged.key()).expect("the cursor is outside of its keyspace")
    }

    /// Returns the value of the entry.
    ///
    /// # Panics
    /// If the cursor is at no entry.
    pub fn value(&self) -> &[u8] {
        &self.merged.value()[..self.value_len]
    }

    /// Returns the value of the entry as [`Bytes`], which may be kept after the cursor moves.
    ///
    /// # Panics
    /// If the cursor is at no entry.
    pub fn value_bytes(&self) -> Bytes {
        let mut value = self.merged.value_bytes();
        value.truncate(self.value_len);
        value
    }

    /// Moves to the first entry. Returns `false` if there is no entry.
    ///
    /// # Errors
    /// Corruption and I/O errors, as for all moves. After an error, the cursor is at no entry.
    pub fn seek_to_first(&mut self) -> Result<bool> {
        self.seek_from(Bound::Unbounded)
    }

    /// Moves to the last entry. Returns `false` if there is no entry.
    ///
    /// # Errors
    /// As [`seek_to_first`](Self::seek_to_first).
    pub fn seek_to_last(&mut self) -> Result<bool> {
        self.seek_to(Bound::Unbounded)
    }

    /// Moves to the first entry whose key is not before `key`. Returns `false` if there is no such
    /// entry.
    ///
    /// # Errors
    /// As [`seek_to_first`](Self::seek_to_first).
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.seek_from(Bound::Included(key.as_ref()))
    }

    /// Moves to the last entry whose key is not after `key`. Returns `false` if there is no such
    /// entry.
    ///
    /// # Errors
    /// As [`seek_to_first`](Self::seek_to_first).
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.seek_to(Bound::Included(key.as_ref()))
    }

    /// Moves to the next entry. Returns `false` if there is no next entry, or if the cursor was at
    /// no entry.
    ///
    /// # Errors
    /// As [`seek_to_first`](Self::seek_to_first).
    #[expect(clippy::should_implement_trait, reason = "the entry is borrowed from the cursor")]
    pub fn next(&mut self) -> Result<bool> {
        self.step(Direction::Forward)
    }

    /// Moves to the previous entry. Returns `false` if there is no previous entry, or if the cursor
    /// was at no entry.
    ///
    /// # Errors
    /// As [`seek_to_first`](Self::seek_to_first).
    pub fn prev(&mut self) -> Result<bool> {
        self.step(Direction::Backward)
    }

    fn seek_from(&mut self, from: Bound<&[u8]>) -> Result<bool> {
        self.end_walk();
        let (from, end) = (self.space.lower(from), self.space.upper(Bound::Unbounded));
        self.begin_walk();
        self.merged.seek_from(from.as_ref().map(Vec::as_slice))?;
        let valid = self.settle(Direction::Forward)?;
        // If there is no entry, everything from the bound on was read.
        let to = if valid { Bound::Included(self.merged.key().to_vec()) } else { end };
        self.walked = Some(Span { from, to });
        Ok(valid)
    }

    fn seek_to(&mut self, to: Bound<&[u8]>) -> Result<bool> {
        self.end_walk();
        let (start, to) = (self.space.lower(Bound::Unbounded), self.space.upper(to));
        self.begin_walk();
        self.merged.seek_to(to.as_ref().map(Vec::as_slice))?;
        let valid = self.settle(Direction::Backward)?;
        let from = if valid { Bound::Included(self.merged.key().to_vec()) } else { start };
        self.walked = Some(Span { from, to });
        Ok(valid)
    }

    fn begin_walk(&mut self) {
        let space = &self.space;
        self.walk.begin(|| Span {
            from: space.lower(Bound::Unbounded),
            to: space.upper(Bound::Unbounded),
        });
    }

    fn step(&mut self, direction: Direction) -> Result<bool> {
        if !self.valid() {
            return Ok(false);
        }
        if direction != self.merged.direction() {
            self.note_position();
        }
        let moved = match direction {
            Direction::Forward => self.merged.next(),
            Direction::Backward => self.merged.prev(),
        };
        let moved = moved.and_then(|_| self.settle(direction));
        // The walk reached the end, or failed after an unknown distance.
        if let (Ok(false) | Err(_), Some(walked)) = (&moved, &mut self.walked) {
            match direction {
                Direction::Forward => walked.to = self.space.upper(Bound::Unbounded),
                Direction::Backward => walked.from = self.space.lower(Bound::Unbounded),
            }
        }
        moved
    }

    /// Skips expired entries. If this moves the cursor out of the keyspace, or if a move fails, the
    /// cursor is at no entry. Returns whether the cursor is at an entry.
    fn settle(&mut self, direction: Direction) -> Result<bool> {
        let settled = self.find_live(direction);
        if !matches!(settled, Ok(true)) {
            self.merged.leave();
        }
        settled
    }

    fn find_live(&mut self, direction: Direction) -> Result<bool> {
        while self.valid() && self.space.strip(self.merged.key()).is_some() {
            let (key, stored) = (self.merged.key(), self.merged.value());
            if let Some((value, _)) = self.space.live(key, stored, || self.clock.now_millis())? {
                self.value_len = value.len();
                return Ok(true);
            }
            match direction {
                Direction::Forward => self.merged.next()?,
                Direction::Backward => self.merged.prev()?,
            };
        }
        Ok(false)
    }

    /// Extends the walked range to the current entry. It is enough to call this where a walk turns
    /// or ends, because the outermost entries of the walk are there.
    fn note_position(&mut self) {
        if !self.valid() {
            return;
        }
        if let Some(walked) = &mut self.walked {
            walked.extend_to(self.walk.order(), self.merged.key());
        }
    }

    fn end_walk(&mut self) {
        self.note_position();
        if let Some(walked) = self.walked.take() {
            self.walk.read(walked);
        }
    }
}

impl Drop for TransactionCursor<'_> {
    fn drop(&mut self) {
        self.end_walk();
    }
}
