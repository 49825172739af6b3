//! What a transaction has read: keys and ranges of keys, sorted, so that a key is found among them
//! in a logarithmic number of steps.

use std::cmp::Ordering;
use std::ops::Bound;

use crate::format::key::UserComparator;

/// A range of keys that was read.
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
    fn begins_by(&self, order: &UserComparator, key: &[u8]) -> bool {
        match &self.from {
            Bound::Unbounded => true,
            Bound::Included(from) => order.compare(from, key).is_le(),
            Bound::Excluded(from) => order.compare(from, key).is_lt(),
        }
    }

    /// Returns whether the range ends before `key`.
    pub(super) fn ends_before(&self, order: &UserComparator, key: &[u8]) -> bool {
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

    /// Returns whether no key is in the range, because it ends before it begins.
    fn is_empty(&self, order: &UserComparator) -> bool {
        let (Bound::Included(from) | Bound::Excluded(from)) = &self.from else { return false };
        match &self.to {
            Bound::Unbounded => false,
            Bound::Included(to) if matches!(self.from, Bound::Included(_)) => {
                order.compare(from, to).is_gt()
            }
            Bound::Included(to) | Bound::Excluded(to) => order.compare(from, to).is_ge(),
        }
    }

    /// Returns whether there may be a key between the end of this range and the beginning of
    /// `next`, which does not begin before this one.
    fn is_apart_from(&self, order: &UserComparator, next: &Span) -> bool {
        match (&self.to, &next.from) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Excluded(to), Bound::Excluded(from)) => order.compare(to, from).is_le(),
            (Bound::Included(to) | Bound::Excluded(to), Bound::Included(from))
            | (Bound::Included(to), Bound::Excluded(from)) => order.compare(to, from).is_lt(),
        }
    }
}

/// Compares two lower bounds.
fn compare_from(order: &UserComparator, a: &Bound<Vec<u8>>, b: &Bound<Vec<u8>>) -> Ordering {
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
fn ends_below(order: &UserComparator, a: &Bound<Vec<u8>>, b: &Bound<Vec<u8>>) -> bool {
    match (a, b) {
        (Bound::Unbounded, _) => false,
        (_, Bound::Unbounded) => true,
        (Bound::Included(x) | Bound::Excluded(x), Bound::Included(y) | Bound::Excluded(y)) => {
            let included = |bound: &Bound<_>| matches!(bound, Bound::Included(_));
            order.compare(x, y).then(included(a).cmp(&included(b))).is_lt()
        }
    }
}

/// Sorts `spans` and merges those that overlap or touch.
pub(crate) fn merge_spans(order: &UserComparator, spans: &mut Vec<Span>) {
    spans.retain(|span| !span.is_empty(order));
    spans.sort_by(|a, b| compare_from(order, &a.from, &b.from));
    spans.dedup_by(|next, span| {
        if span.is_apart_from(order, next) {
            return false;
        }
        if ends_below(order, &span.to, &next.to) {
            span.to = std::mem::replace(&mut next.to, Bound::Unbounded);
        }
        true
    });
}

/// Sorts `keys` and removes duplicates.
pub(crate) fn merge_keys(order: &UserComparator, keys: &mut Vec<Vec<u8>>) {
    keys.sort_unstable_by(|a, b| order.compare(a, b));
    keys.dedup_by(|a, b| order.compare(a, b).is_eq());
}

/// The keys and the ranges that a transaction has read.
#[derive(Debug)]
pub(crate) struct ReadSet {
    /// Keys, ascending.
    pub(super) keys: Vec<Vec<u8>>,
    /// Ranges, ascending and apart from each other.
    pub(super) spans: Vec<Span>,
}

impl ReadSet {
    /// Returns the set of these keys and ranges, in any order.
    pub(crate) fn new(
        order: &UserComparator,
        mut keys: Vec<Vec<u8>>,
        mut spans: Vec<Span>,
    ) -> ReadSet {
        merge_keys(order, &mut keys);
        merge_spans(order, &mut spans);
        ReadSet { keys, spans }
    }

    /// Returns whether nothing was read.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.spans.is_empty()
    }

    /// Returns whether `key` was read, by itself or as a part of a range.
    pub(super) fn has(&self, order: &UserComparator, key: &[u8]) -> bool {
        self.has_key(order, key) || self.has_in_range(order, key)
    }

    fn has_key(&self, order: &UserComparator, key: &[u8]) -> bool {
        self.keys.binary_search_by(|read| order.compare(read, key)).is_ok()
    }

    fn has_in_range(&self, order: &UserComparator, key: &[u8]) -> bool {
        let begun = self.spans.partition_point(|span| span.begins_by(order, key));
        begun > 0 && !self.spans[begun - 1].ends_before(order, key)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::base::BytewiseComparator;
    use crate::base::comparator::testing::Reverse;
    use crate::base::random::Rng;

    fn bound(rng: &mut Rng) -> Bound<Vec<u8>> {
        let key = vec![b'a' + rng.below(12) as u8];
        match rng.below(5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Included(key),
            _ => Bound::Excluded(key),
        }
    }

    /// Whatever the ranges, the merged ones contain exactly the same keys.
    #[test]
    fn merged_ranges_contain_what_the_ranges_contained() {
        for reverse in [false, true] {
            let order = match reverse {
                true => UserComparator::new(Arc::new(Reverse)),
                false => UserComparator::new(Arc::new(BytewiseComparator)),
            };
            let mut rng = Rng::new(5);
            let mut merged = 0;
            for _ in 0..20_000 {
                let count = rng.index(5);
                let spans: Vec<Span> = (0..count)
                    .map(|_| Span { from: bound(&mut rng), to: bound(&mut rng) })
                    .collect();
                let keys: Vec<Vec<u8>> = (0..rng.index(3)).map(|_| rng.bytes(1, 26)).collect();
                let set = ReadSet::new(&order, keys.clone(), spans.clone());
                merged += usize::from(set.spans.len() < spans.len());
                for letter in b'`'..=b'n' {
                    for key in [vec![letter], vec![letter, b'x'], vec![]] {
                        let expected = keys.contains(&key)
                            || spans.iter().any(|span| span.contains(&order, &key));
                        assert_eq!(set.has(&order, &key), expected, "{key:?} in {spans:?}");
                    }
                }
            }
            assert!(merged > 5000, "{merged} merges");
        }
    }
}
