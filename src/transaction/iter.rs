//! The iterator of a transaction, made of two merged cursors that stop where they meet.

use std::ops::Bound;

use bytes::Bytes;

use crate::base::Result;
use crate::engine::read::iter::IterSource;
use crate::engine::span::Span;
use crate::format::keyspace::Space;
use crate::transaction::merged::MergedCursor;
use crate::transaction::own::OwnWrites;
use crate::transaction::reads::Walk;

/// An iterator over the entries of a range that a [`Transaction`](crate::Transaction) sees, in key
/// order. It can be used from both ends, and yields the same items as an [`Iter`](crate::Iter).
///
/// The part of the range that the iterator has walked over counts as read, including the gaps
/// between the entries; the rest of the range does not.
#[derive(Debug)]
pub struct TransactionIter<'t> {
    front: Option<MergedCursor<'t>>,
    back: Option<MergedCursor<'t>>,
    range: Span,
    /// The keyspace whose keys are yielded. The range is within this keyspace.
    space: Space,
    done: bool,
    writes: &'t OwnWrites,
    source: IterSource,
    // Must stay the last field: dropping the walk removes its stand-in from the record of reads.
    walk: Walk<'t>,
}

/// An end of an iterator.
#[derive(Clone, Copy)]
enum End {
    Front,
    Back,
}

impl<'t> TransactionIter<'t> {
    pub(super) fn new(
        source: IterSource,
        range: Span,
        writes: &'t OwnWrites,
        walk: Walk<'t>,
    ) -> TransactionIter<'t> {
        let (front, back, space) = (None, None, Space::default());
        TransactionIter { front, back, range, space, done: false, writes, source, walk }
    }

    /// Makes the iterator yield the keys within `space`, without the keyspace's prefix. The range
    /// of the iterator must be within `space`.
    pub(crate) fn in_space(mut self, space: Space) -> TransactionIter<'t> {
        self.space = space;
        self
    }

    /// Moves an end to its next entry. Returns whether this entry is in the range and the other end
    /// has not reached it yet.
    fn step(&mut self, end: End) -> Result<bool> {
        let (cursor, range) = match end {
            End::Front => (&mut self.front, &self.range),
            End::Back => (&mut self.back, &self.range),
        };
        let valid = match (cursor.as_mut(), end) {
            (Some(cursor), End::Front) => cursor.next()?,
            (Some(cursor), End::Back) => cursor.prev()?,
            (None, _) => {
                let cursor = cursor.insert(MergedCursor::new(self.source.cursor()?, self.writes));
                match end {
                    End::Front => cursor.seek_from(range.from.as_ref().map(Vec::as_slice))?,
                    End::Back => cursor.seek_to(range.to.as_ref().map(Vec::as_slice))?,
                }
            }
        };
        let order = self.walk.order();
        let within =
            valid && cursor.as_ref().is_some_and(|cursor| range.contains(order, cursor.key()));
        Ok(within && self.ends_apart())
    }

    /// Returns whether the entry at the front is before the entry at the back.
    fn ends_apart(&self) -> bool {
        match (&self.front, &self.back) {
            (Some(front), Some(back)) if front.valid() && back.valid() => {
                self.walk.order().compare(front.key(), back.key()).is_lt()
            }
            _ => true,
        }
    }

    fn advance(&mut self, end: End) -> Option<Result<(Bytes, Bytes)>> {
        if self.done {
            return None;
        }
        let range = &self.range;
        self.walk.begin(|| range.clone());
        loop {
            let found = self.step(end).and_then(|within| {
                let cursor = match end {
                    End::Front => &self.front,
                    End::Back => &self.back,
                };
                let cursor = cursor.as_ref().filter(|_| within);
                cursor.map(|cursor| self.entry(cursor)).transpose()
            });
            match found {
                Ok(Some(Some(entry))) => return Some(Ok(entry)),
                // The entry has expired.
                Ok(Some(None)) => {}
                Ok(None) => {
                    self.done = true;
                    return None;
                }
                Err(error) => {
                    self.done = true;
                    return Some(Err(error));
                }
            }
        }
    }

    /// Returns the entry of `cursor` in the form that the iterator yields; `None` if it has
    /// expired.
    fn entry(&self, cursor: &MergedCursor<'_>) -> Result<Option<(Bytes, Bytes)>> {
        let now = || self.source.clock().now_millis();
        self.space.entry(cursor.key(), cursor.value(), || cursor.value_bytes(), now)
    }
}

impl Iterator for TransactionIter<'_> {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance(End::Front)
    }
}

impl DoubleEndedIterator for TransactionIter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.advance(End::Back)
    }
}

impl std::iter::FusedIterator for TransactionIter<'_> {}

impl Drop for TransactionIter<'_> {
    fn drop(&mut self) {
        let Span { from, to } = std::mem::replace(&mut self.range, Span::ALL);
        if self.done {
            self.walk.read(Span { from, to });
            return;
        }
        // Neither end has stepped out of the range, so each end is at the entry that it yielded
        // last.
        let key = |cursor: &MergedCursor<'_>| Bound::Included(cursor.key().to_vec());
        if let Some(front) = self.front.as_ref().filter(|front| front.valid()) {
            self.walk.read(Span { from, to: key(front) });
        }
        if let Some(back) = self.back.as_ref().filter(|back| back.valid()) {
            self.walk.read(Span { from: key(back), to });
        }
    }
}
