//! The reads at a read point: get, multi-get, cursor, iterator.

use std::borrow::Cow;
use std::ops::Bound;

use bytes::Bytes;

use crate::base::{Error, Result};
use crate::engine::read::cursor::Cursor;
use crate::engine::read::get;
use crate::engine::read::iter::Iter;
use crate::engine::read::point::ReadPoint;
use crate::engine::read::read_log::TrackedWalk;
use crate::engine::read::visible::VisibleCursor;
use crate::engine::span::Span;
use crate::engine::stats::trace::ReadTrace;
use crate::format::key::UserComparator;

impl ReadPoint<'_> {
    /// Returns whether the read sees all keys of the database, and nothing else.
    #[inline]
    fn is_plain(&self) -> bool {
        self.space.is_whole() && self.overlay.is_none()
    }

    /// Returns the value of `key`.
    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        match self.is_plain() {
            true => get::counted_get(self, key),
            false => self.get_stored(key, || self.now_millis(), get::counted_get),
        }
    }

    /// Returns the value of `key`, and counts of the work done to find the value.
    pub(crate) fn get_traced(&self, key: &[u8]) -> Result<(Option<Bytes>, ReadTrace)> {
        let mut trace = ReadTrace::default();
        let traced = |point: &Self, key: &[u8]| get::traced_get(point, key, &mut trace);
        let value = self.get_stored(key, || self.now_millis(), traced)?;
        Ok((value, trace))
    }

    /// Returns the value of `key`, which is that of the transaction's own write or what `get` finds
    /// in the database. `now` returns the time at which the entry must not have expired.
    fn get_stored(
        &self,
        key: &[u8],
        now: impl FnOnce() -> u64,
        get: impl FnOnce(&Self, &[u8]) -> Result<Option<Bytes>>,
    ) -> Result<Option<Bytes>> {
        let key = &*self.space.key(key);
        let stored = match self.overlay.and_then(|overlay| overlay.writes.get(key)) {
            Some(own) => own.clone(),
            None => {
                self.log.inspect(|log| log.read_key(key));
                get(self, key)?
            }
        };
        self.space.live_value(key, stored, now)
    }

    /// Returns the time of the database's clock, in milliseconds since the Unix epoch.
    fn now_millis(&self) -> u64 {
        self.state.clock.now_millis()
    }

    /// Returns the key under which the database stores the entry of `key`.
    pub(crate) fn stored_key<'k>(&self, key: &'k [u8]) -> Cow<'k, [u8]> {
        self.space.key(key)
    }

    /// Returns the value in `stored`, which was read under the database's key `key`; `None` if the
    /// entry has expired.
    pub(crate) fn live(&self, key: &[u8], stored: Option<Bytes>) -> Result<Option<Bytes>> {
        self.space.live_value(key, stored, || self.now_millis())
    }

    /// Returns the values of `keys`, in the order of `keys`. The lookups are done in key order, so
    /// that neighbouring keys find their shared blocks in the caches.
    pub(crate) fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Bytes>>> {
        let order = self.state.order.user();
        let mut by_key: Vec<usize> = (0..keys.len()).collect();
        by_key.sort_by(|&a, &b| order.compare(keys[a].as_ref(), keys[b].as_ref()));
        let mut values = vec![None; keys.len()];
        let now = if self.space.expires() { self.now_millis() } else { 0 };
        for at in by_key {
            let key = keys[at].as_ref();
            values[at] = match self.is_plain() {
                true => get::counted_get(self, key)?,
                false => self.get_stored(key, || now, get::counted_get)?,
            };
        }
        Ok(values)
    }

    /// Returns a new cursor, which is at no entry.
    pub(crate) fn cursor(self) -> Result<Cursor> {
        let (walk, space) = (self.walk(), self.space.clone());
        Ok(Cursor::new(VisibleCursor::new(self.into_owned(), None)?, space, walk))
    }

    /// Returns an iterator over the keys in `range`.
    pub(crate) fn range(self, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Iter {
        let span = Span::within(self.space, range);
        self.sampled(&span).unsampled(span, b"")
    }

    /// Returns an iterator over the keys that start with `prefix` and are not before the lower
    /// bound `from`.
    ///
    /// # Errors
    /// As [`prefix_span`].
    pub(crate) fn prefix(self, prefix: &[u8], from: Bound<&[u8]>) -> Result<Iter> {
        let (prefix, from) = (&*self.space.key(prefix), self.space.lower(from));
        let span = prefix_span(self.state.order.user(), prefix, from)?;
        Ok(self.sampled(&span).unsampled(span, prefix))
    }

    /// Tells the sample of the program's reads that `span` is scanned.
    fn sampled(self, span: &Span) -> Self {
        if let Some(sample) = &self.state.sample {
            let (from, to) = span.bounds();
            sample.scanned(from, to);
        }
        self
    }

    /// Returns an iterator over the keys in `span`, all of which start with `start`, for a walk
    /// that the program did not ask for.
    pub(crate) fn unsampled(self, span: Span, start: &[u8]) -> Iter {
        let (walk, space) = (self.walk(), self.space.clone());
        Iter::new(self.into_owned(), span, start, space, walk)
    }

    fn walk(&self) -> Option<TrackedWalk> {
        self.log.map(|log| TrackedWalk::new(log.clone()))
    }
}

/// Returns the range of the keys that start with `prefix` and are not before the lower bound
/// `from`.
///
/// # Errors
/// Invalid argument if the database is not in byte order: in another order, keys with the same
/// prefix need not be neighbours.
pub(crate) fn prefix_span(
    order: &UserComparator,
    prefix: &[u8],
    from: Bound<Vec<u8>>,
) -> Result<Span> {
    if let Some(order) = order.custom() {
        return Err(Error::invalid(format!(
            "a prefix scan requires byte order; this database has the order of {}",
            order.name()
        )));
    }
    let within = Span::of_prefix(prefix);
    let from = match from {
        Bound::Included(key) | Bound::Excluded(key) if key.as_slice() < prefix => within.from,
        Bound::Unbounded => within.from,
        from => from,
    };
    Ok(Span { from, to: within.to })
}
