//! Double-ended iterators over ranges: two cursors that stop where they meet.

use std::cmp::Ordering;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use bytes::Bytes;

use crate::base::clock::Clock;
use crate::base::prefix::prefix_end;
use crate::base::{Error, Result};
use crate::engine::read::cursor::Cursor;
use crate::engine::read::point::OwnedPoint;
use crate::engine::read::prefix_scan::PrefixScan;
use crate::format::key::UserComparator;
use crate::format::keyspace::Space;

/// An iterator over the entries of a range, in key order. It can be used from both ends.
///
/// Items are `Result<(key, value)>`, with the key and the value as [`Bytes`]. Keys are copies.
/// Values either share the memory of their blocks or memtables or are copies, as in
/// [`Cursor::value_bytes`]. The iterator ends after an error. Use a [`Cursor`] in loops that must
/// not allocate.
#[derive(Debug)]
pub struct Iter {
    front: End,
    back: End,
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
    /// The keyspace whose keys are yielded. The bounds are within this keyspace.
    space: Space,
    done: bool,
    // Must stay the last field: the cursors and their views are dropped before the `Sweep` in
    // `source`.
    source: IterSource,
}

/// The parameters of an iterator's cursors.
#[derive(Debug)]
pub(crate) struct IterSource {
    scan: Option<Arc<PrefixScan>>,
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
    cursor: Option<Cursor>,
}

impl Iter {
    pub(crate) fn new<K: AsRef<[u8]>>(point: OwnedPoint, range: impl RangeBounds<K>) -> Iter {
        let own = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
        let (lower, upper) = (own(range.start_bound()), own(range.end_bound()));
        Iter::within(point, lower, upper, b"")
    }

    /// Returns an iterator over the keys within the bounds. All of these keys must start with
    /// `start`.
    fn within(
        point: OwnedPoint,
        lower: Bound<Vec<u8>>,
        upper: Bound<Vec<u8>>,
        start: &[u8],
    ) -> Iter {
        let (from, to) = (lower.as_ref().map(Vec::as_slice), upper.as_ref().map(Vec::as_slice));
        let source = IterSource::new(point, (from, to), start);
        let (front, back, space) = (End::default(), End::default(), Space::default());
        Iter { front, back, lower, upper, space, done: false, source }
    }

    /// Makes the iterator yield the keys and values as users of the keyspace `space` see them. The
    /// iterator's bounds must be within `space`.
    pub(crate) fn in_space(self, space: Space) -> Iter {
        Iter { space, ..self }
    }

    /// Returns an iterator over the keys that start with `prefix` and are not before the lower
    /// bound `from`.
    ///
    /// # Errors
    /// Invalid argument if the database is not in byte order: in another order, keys with the same
    /// prefix need not be neighbours.
    pub(crate) fn with_prefix(
        point: OwnedPoint,
        prefix: &[u8],
        from: Bound<&[u8]>,
    ) -> Result<Iter> {
        let (lower, upper) = prefix_bounds(point.state().order.user(), prefix, from)?;
        Ok(Iter::within(point, lower, upper, prefix))
    }

    /// Returns an iterator over the keys that this iterator has not yielded yet.
    ///
    /// ```
    /// # use minikv::{Db, Options};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::open(dir.path(), Options::default().create_if_missing(true))?;
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
        let is_live = |iter: &Iter, cursor: &Cursor| {
            let now = || iter.source.clock().now_millis();
            Ok(iter.space.live(cursor.key(), cursor.value(), now)?.map(drop))
        };
        let mut count = 0;
        while let Some(entry) = self.advance(Iter::step_front, |iter| &iter.front, is_live) {
            entry?;
            count += 1;
        }
        Ok(count)
    }

    /// Moves the front to the next entry. Returns whether that entry is in the range and before the
    /// back.
    fn step_front(&mut self) -> Result<bool> {
        let cursor = match &mut self.front.cursor {
            Some(cursor) => {
                cursor.next()?;
                cursor
            }
            None => {
                let cursor = self.front.cursor.insert(self.source.cursor()?);
                match &self.lower {
                    Bound::Unbounded => cursor.seek_to_first()?,
                    Bound::Included(key) => cursor.seek(key)?,
                    Bound::Excluded(key) => {
                        let valid = cursor.seek(key)?;
                        if valid && self.source.order(cursor.key(), key).is_eq() {
                            cursor.next()?;
                        }
                        cursor.valid()
                    }
                };
                cursor
            }
        };
        if !cursor.valid() {
            return Ok(false);
        }
        let within = match &self.upper {
            Bound::Unbounded => true,
            Bound::Included(key) => self.source.order(cursor.key(), key).is_le(),
            Bound::Excluded(key) => self.source.order(cursor.key(), key).is_lt(),
        };
        Ok(within && self.ends_apart())
    }

    /// Moves the back to the previous entry. Returns whether that entry is in the range and after
    /// the front.
    fn step_back(&mut self) -> Result<bool> {
        let cursor = match &mut self.back.cursor {
            Some(cursor) => {
                cursor.prev()?;
                cursor
            }
            None => {
                let cursor = self.back.cursor.insert(self.source.cursor()?);
                match &self.upper {
                    Bound::Unbounded => cursor.seek_to_last()?,
                    Bound::Included(key) => cursor.seek_for_prev(key)?,
                    Bound::Excluded(key) => cursor.seek_before(key)?,
                };
                cursor
            }
        };
        if !cursor.valid() {
            return Ok(false);
        }
        let within = match &self.lower {
            Bound::Unbounded => true,
            Bound::Included(key) => self.source.order(cursor.key(), key).is_ge(),
            Bound::Excluded(key) => self.source.order(cursor.key(), key).is_gt(),
        };
        Ok(within && self.ends_apart())
    }

    /// Returns whether the front's entry is before the back's entry.
    fn ends_apart(&self) -> bool {
        match (&self.front.cursor, &self.back.cursor) {
            (Some(front), Some(back)) if front.valid() && back.valid() => {
                self.source.order(front.key(), back.key()).is_lt()
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
        yielded: impl Fn(&Iter, &Cursor) -> Result<Option<T>>,
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
    fn entry(&self, cursor: &Cursor) -> Result<Option<(Bytes, Bytes)>> {
        let now = || self.source.clock().now_millis();
        self.space.entry(cursor.key(), cursor.value(), || cursor.value_bytes(), now)
    }
}

impl Keys {
    /// Returns the key of the entry that `cursor` is at; `None` if the entry has expired.
    #[inline]
    fn key(iter: &Iter, cursor: &Cursor) -> Result<Option<Bytes>> {
        let now = || iter.source.clock().now_millis();
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

impl IterSource {
    /// Returns the parameters of cursors over the keys within the bounds `range`. All of these keys
    /// must start with `start`.
    pub(crate) fn new(
        point: OwnedPoint,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        start: &[u8],
    ) -> IterSource {
        let state = point.state();
        state.scans.scanned(range.0, range.1, &state.totals);
        let scan = PrefixScan::new(state, &point.options, range.0, range.1, start);
        IterSource { scan, point }
    }

    /// Returns a new cursor, which is at no entry.
    ///
    /// # Errors
    /// Corruption and I/O errors of opening the tables of level 0.
    pub(crate) fn cursor(&self) -> Result<Cursor> {
        Cursor::new(self.point.clone(), self.scan.as_ref())
    }

    /// Returns the clock that decides when entries expire.
    pub(crate) fn clock(&self) -> &Clock {
        &self.point.state().clock
    }

    fn order(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.point.state().order.user().compare(a, b)
    }
}

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

/// A lower and an upper bound of keys.
pub(crate) type KeyBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Returns the bounds of the keys that start with `prefix` and are not before the lower bound
/// `from`.
///
/// # Errors
/// Invalid argument if the database is not in byte order: in another order, keys with the same
/// prefix need not be neighbours.
pub(crate) fn prefix_bounds(
    order: &UserComparator,
    prefix: &[u8],
    from: Bound<&[u8]>,
) -> Result<KeyBounds> {
    if let Some(order) = order.custom() {
        return Err(Error::invalid(format!(
            "a prefix scan requires byte order; this database has the order of {}",
            order.name()
        )));
    }
    let upper = match prefix_end(prefix) {
        Some(end) => Bound::Excluded(end),
        None => Bound::Unbounded,
    };
    let lower = match from {
        Bound::Included(key) | Bound::Excluded(key) if key >= prefix => from,
        _ => Bound::Included(prefix),
    };
    debug_assert!(
        matches!(lower, Bound::Included(key) | Bound::Excluded(key) if key >= prefix),
        "the lower bound is before the prefix"
    );
    Ok((lower.map(<[u8]>::to_vec), upper))
}
