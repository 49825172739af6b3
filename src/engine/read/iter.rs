//! Double-ended iterators over ranges: two cursors that stop where they meet.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use crate::base::Result;
use crate::base::clock::Clock;
use crate::engine::read::point::OwnedPoint;
use crate::engine::read::prefix_scan::PrefixScan;
use crate::engine::read::read_log::TrackedWalk;
use crate::engine::read::visible::VisibleCursor;
use crate::engine::span::Span;
use crate::format::keyspace::Space;

/// An iterator over the entries of a range, in key order. It can be used from both ends.
///
/// Items are `Result<(key, value)>`, with the key and the value as [`Bytes`]. Keys are copies.
/// Values either share the memory of their blocks or memtables or are copies, as in
/// [`Cursor::value_bytes`](crate::Cursor::value_bytes). The iterator ends after an error. Use a
/// [`Cursor`](crate::Cursor) in loops that must not allocate.
///
/// The iterator of a transaction shows the writes that were made before it was created. The part of
/// the range that it has walked over counts as read, including the gaps between the entries; the
/// rest of the range does not. At a commit, an iterator that still exists counts as having read the
/// whole range.
#[derive(Debug)]
pub struct Iter {
    front: End,
    back: End,
    range: Span,
    /// The keyspace whose keys are yielded. The range is within this keyspace.
    space: Space,
    done: bool,
    scan: Option<Arc<PrefixScan>>,
    /// The record of what the iterator of a transaction has read.
    walk: Option<TrackedWalk>,
    // Must stay the last field: see `OwnedPoint`.
    point: OwnedPoint,
}

/// An iterator over the keys of a range, from [`Iter::keys`]. It can be used from both ends.
///
/// Items are `Result<key>`, with copies of the keys. Values are neither copied nor shared. The
/// iterator ends after an error.
#[derive(Debug)]
pub struct Keys(Iter);

/// One end of an iterator. The first step creates the cursor, which stays at the entry that was
/// last yielded from this end.
#[derive(Debug, Default)]
struct End {
    cursor: Option<VisibleCursor>,
}

impl Iter {
    /// Returns an iterator over the keys in `range`, which is within `space`. All of these keys
    /// must start with `start`. If `walk` is given, the iterator records what it reads.
    pub(super) fn new(
        point: OwnedPoint,
        range: Span,
        start: &[u8],
        space: Space,
        walk: Option<TrackedWalk>,
    ) -> Iter {
        let (from, to) = range.bounds();
        let scan = PrefixScan::new(point.state(), &point.options, from, to, start);
        let (front, back) = (End::default(), End::default());
        Iter { front, back, range, space, done: false, scan, walk, point }
    }

    /// Returns an iterator over the keys that this iterator has not yielded yet.
    ///
    /// ```
    /// # use minikv::{Db, Readable};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::create(dir.path())?;
    /// for name in ["user/ann", "user/bob", "visit/1"] {
    ///     db.put(name, "a long value")?;
    /// }
    /// let users: Result<Vec<_>, _> = db.prefix("user/")?.keys().collect();
    /// assert_eq!(users?, ["user/ann", "user/bob"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keys(self) -> Keys {
        Keys(self)
    }

    /// Returns the number of entries that this iterator has not yielded yet.
    ///
    /// # Errors
    /// Corruption and I/O errors.
    pub(crate) fn count_entries(mut self) -> Result<u64> {
        let is_live = |iter: &Iter, cursor: &VisibleCursor| {
            let now = || iter.clock().now_millis();
            Ok(iter.space.live(cursor.key(), cursor.value(), now)?.map(drop))
        };
        let mut count = 0;
        while let Some(entry) = self.advance(Iter::step_front, |iter| &iter.front, is_live) {
            entry?;
            count += 1;
        }
        Ok(count)
    }

    fn clock(&self) -> &Clock {
        &self.point.state().clock
    }

    /// Moves the front to the next entry. Returns whether that entry is in the range and before the
    /// back.
    fn step_front(&mut self) -> Result<bool> {
        let valid = match &mut self.front.cursor {
            Some(cursor) => cursor.next()?,
            None => {
                let cursor = self.cursor()?;
                self.front.cursor.insert(cursor).seek_from(self.range.bounds().0)?
            }
        };
        let order = self.point.state().order.user();
        let within = |cursor: &VisibleCursor| !self.range.ends_before(order, cursor.key());
        Ok(valid && self.front.cursor.as_ref().is_some_and(within) && self.ends_apart())
    }

    /// Moves the back to the previous entry. Returns whether that entry is in the range and after
    /// the front.
    fn step_back(&mut self) -> Result<bool> {
        let valid = match &mut self.back.cursor {
            Some(cursor) => cursor.prev()?,
            None => {
                let cursor = self.cursor()?;
                self.back.cursor.insert(cursor).seek_to(self.range.bounds().1)?
            }
        };
        let order = self.point.state().order.user();
        let within = |cursor: &VisibleCursor| self.range.begins_by(order, cursor.key());
        Ok(valid && self.back.cursor.as_ref().is_some_and(within) && self.ends_apart())
    }

    /// Returns a new cursor, which is at no entry, and begins the record of what is read.
    fn cursor(&mut self) -> Result<VisibleCursor> {
        if let Some(walk) = &mut self.walk {
            walk.begin(|| self.range.clone());
        }
        VisibleCursor::new(self.point.clone(), self.scan.as_ref())
    }

    /// Returns whether the front's entry is before the back's entry.
    fn ends_apart(&self) -> bool {
        match (&self.front.cursor, &self.back.cursor) {
            (Some(front), Some(back)) if front.valid() && back.valid() => {
                self.point.state().order.user().compare(front.key(), back.key()).is_lt()
            }
            _ => true,
        }
    }

    /// Moves one end to the next entry that has not expired, and returns what `yielded` makes of
    /// it. `step` moves the end by one entry, and `end` returns the end. `yielded` returns `None`
    /// if the entry has expired.
    #[inline]
    fn advance<T>(
        &mut self,
        step: fn(&mut Iter) -> Result<bool>,
        end: fn(&Iter) -> &End,
        yielded: impl Fn(&Iter, &VisibleCursor) -> Result<Option<T>>,
    ) -> Option<Result<T>> {
        if self.done {
            return None;
        }
        loop {
            let found = step(self).and_then(|within| {
                let cursor = end(self).cursor.as_ref().filter(|_| within);
                cursor.map(|cursor| yielded(self, cursor)).transpose()
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

    /// Returns the entry that `cursor` is at, in the form in which the iterator yields it; `None`
    /// if the entry has expired.
    #[inline]
    fn entry(&self, cursor: &VisibleCursor) -> Result<Option<(Bytes, Bytes)>> {
        let now = || self.clock().now_millis();
        self.space.entry(cursor.key(), cursor.value(), || cursor.value_bytes(), now)
    }
}

impl Keys {
    /// Returns the key of the entry that `cursor` is at; `None` if the entry has expired.
    #[inline]
    fn key(iter: &Iter, cursor: &VisibleCursor) -> Result<Option<Bytes>> {
        let now = || iter.clock().now_millis();
        iter.space.live_key(cursor.key(), cursor.value(), now)
    }
}

impl Iterator for Keys {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.advance(Iter::step_front, |iter| &iter.front, Keys::key)
    }
}

impl DoubleEndedIterator for Keys {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.advance(Iter::step_back, |iter| &iter.back, Keys::key)
    }
}

impl std::iter::FusedIterator for Keys {}

impl Iterator for Iter {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance(Iter::step_front, |iter| &iter.front, Iter::entry)
    }
}

impl DoubleEndedIterator for Iter {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.advance(Iter::step_back, |iter| &iter.back, Iter::entry)
    }
}

impl std::iter::FusedIterator for Iter {}

impl Drop for Iter {
    fn drop(&mut self) {
        let Some(walk) = &self.walk else { return };
        let Span { from, to } = std::mem::replace(&mut self.range, Span::ALL);
        if self.done {
            walk.read(Span { from, to });
            return;
        }
        // Neither end has stepped out of the range, so each end is at the entry that it yielded
        // last.
        let key = |end: &End| {
            let cursor = end.cursor.as_ref().filter(|cursor| cursor.valid())?;
            Some(Bound::Included(cursor.key().to_vec()))
        };
        if let Some(to) = key(&self.front) {
            walk.read(Span { from, to });
        }
        if let Some(from) = key(&self.back) {
            walk.read(Span { from, to });
        }
    }
}
