//! A range of user keys with any kind of bounds.

use std::cmp::Ordering;
use std::ops::Bound;

use crate::base::key_bounds::KeyBounds;
use crate::base::prefix::prefix_end;
use crate::engine::version::KeyRange;
use crate::format::key::UserComparator;
use crate::format::keyspace::{Space, WHOLE};

/// A range of user keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// Lower bound.
    pub from: Bound<Vec<u8>>,
    /// Upper bound.
    pub to: Bound<Vec<u8>>,
}

impl Span {
    /// The range of all keys.
    pub(crate) const ALL: Span = Span { from: Bound::Unbounded, to: Bound::Unbounded };

    /// Returns `range` with owned keys.
    pub(crate) fn new(range: &impl KeyBounds) -> Span {
        Span::within(&WHOLE, range.key_bounds())
    }

    /// Returns the range of the keys in the database that belong to `range` within `space`.
    pub(crate) fn within(space: &Space, (from, to): (Bound<&[u8]>, Bound<&[u8]>)) -> Span {
        Span { from: space.lower(from), to: space.upper(to) }
    }

    /// Returns the range of the keys that start with `prefix`, in byte order.
    pub(crate) fn of_prefix(prefix: &[u8]) -> Span {
        let to = prefix_end(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        Span { from: Bound::Included(prefix.to_vec()), to }
    }

    /// Returns the bounds.
    pub(crate) fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (self.from.as_ref().map(Vec::as_slice), self.to.as_ref().map(Vec::as_slice))
    }

    /// Returns the smallest closed range that contains this range.
    pub(crate) fn closed(&self) -> KeyRange<'_> {
        KeyRange { from: key_of(&self.from), to: key_of(&self.to) }
    }

    /// Extends the range so that it contains `key`.
    pub(crate) fn extend_to(&mut self, order: &UserComparator, key: &[u8]) {
        if !self.begins_by(order, key) {
            self.from = Bound::Included(key.to_vec());
        }
        if self.ends_before(order, key) {
            self.to = Bound::Included(key.to_vec());
        }
    }

    /// Returns whether the range begins at or before `key`.
    pub(crate) fn begins_by(&self, order: &UserComparator, key: &[u8]) -> bool {
        match &self.from {
            Bound::Unbounded => true,
            Bound::Included(from) => order.compare(from, key).is_le(),
            Bound::Excluded(from) => order.compare(from, key).is_lt(),
        }
    }

    /// Returns whether the range ends before `key`.
    pub(crate) fn ends_before(&self, order: &UserComparator, key: &[u8]) -> bool {
        match &self.to {
            Bound::Unbounded => false,
            Bound::Included(to) => order.compare(to, key).is_lt(),
            Bound::Excluded(to) => order.compare(to, key).is_le(),
        }
    }

    /// Returns whether `key` is in the range.
    pub(crate) fn contains(&self, order: &UserComparator, key: &[u8]) -> bool {
        self.begins_by(order, key) && !self.ends_before(order, key)
    }

    /// Returns whether the range contains no key because it ends before it begins.
    pub(crate) fn is_empty(&self, order: &UserComparator) -> bool {
        let (Bound::Included(from) | Bound::Excluded(from)) = &self.from else { return false };
        match &self.to {
            Bound::Unbounded => false,
            Bound::Included(to) if matches!(self.from, Bound::Included(_)) => {
                order.compare(from, to).is_gt()
            }
            Bound::Included(to) | Bound::Excluded(to) => order.compare(from, to).is_ge(),
        }
    }

    /// Returns the range of the keys that are in both this range and `other`.
    pub(crate) fn intersection(&self, order: &UserComparator, other: &Span) -> Span {
        let from = match compare_from(order, &self.from, &other.from).is_lt() {
            true => &other.from,
            false => &self.from,
        };
        let to = if ends_below(order, &other.to, &self.to) { &other.to } else { &self.to };
        Span { from: from.clone(), to: to.clone() }
    }

    /// Returns whether there may be a key between the end of this range and the beginning of
    /// `next`. `next` must not begin before this range.
    pub(crate) fn is_apart_from(&self, order: &UserComparator, next: &Span) -> bool {
        match (&self.to, &next.from) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Excluded(to), Bound::Excluded(from)) => order.compare(to, from).is_le(),
            (Bound::Included(to) | Bound::Excluded(to), Bound::Included(from))
            | (Bound::Included(to), Bound::Excluded(from)) => order.compare(to, from).is_lt(),
        }
    }
}

/// Returns the key of `bound`; `None` if `bound` is [`Bound::Unbounded`].
fn key_of(bound: &Bound<Vec<u8>>) -> Option<&[u8]> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    }
}

/// Compares two lower bounds.
pub(crate) fn compare_from(
    order: &UserComparator,
    a: &Bound<Vec<u8>>,
    b: &Bound<Vec<u8>>,
) -> Ordering {
    match (a, b) {
        (Bound::Unbounded, Bound::Unbounded) => Ordering::Equal,
        (Bound::Unbounded, _) => Ordering::Less,
        (_, Bound::Unbounded) => Ordering::Greater,
        (Bound::Included(x) | Bound::Excluded(x), Bound::Included(y) | Bound::Excluded(y)) => {
            let excluded = |bound: &Bound<_>| matches!(bound, Bound::Excluded(_));
            order.compare(x, y).then(excluded(a).cmp(&excluded(b)))
        }
    }
}

/// Returns whether the upper bound `a` is below `b`.
pub(crate) fn ends_below(order: &UserComparator, a: &Bound<Vec<u8>>, b: &Bound<Vec<u8>>) -> bool {
    match (a, b) {
        (Bound::Unbounded, _) => false,
        (_, Bound::Unbounded) => true,
        (Bound::Included(x) | Bound::Excluded(x), Bound::Included(y) | Bound::Excluded(y)) => {
            let included = |bound: &Bound<_>| matches!(bound, Bound::Included(_));
            order.compare(x, y).then(included(a).cmp(&included(b))).is_lt()
        }
    }
}
