//! The read set of a transaction: sorted keys and sorted ranges of keys. A lookup of a key takes
//! logarithmic time.

use std::ops::Bound;

use crate::engine::span::{Span, compare_from, ends_below};
use crate::format::key::UserComparator;

/// Sorts `spans` and merges the spans that overlap or touch.
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
    /// Ranges, ascending; no two overlap or touch.
    pub(super) spans: Vec<Span>,
}

impl ReadSet {
    /// Returns the set of `keys` and `spans`, which may be in any order.
    pub(crate) fn new(
        order: &UserComparator,
        mut keys: Vec<Vec<u8>>,
        mut spans: Vec<Span>,
    ) -> ReadSet {
        merge_keys(order, &mut keys);
        merge_spans(order, &mut spans);
        ReadSet { keys, spans }
    }

    /// Returns whether the transaction has read nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.spans.is_empty()
    }

    /// Returns whether `key` was read, by itself or as a part of a range.
    pub(super) fn has(&self, order: &UserComparator, key: &[u8]) -> bool {
        self.has_key(order, key) || self.has_in_range(order, key)
    }

    /// Returns a key in `span` that was read. If there is none, but a range that was read
    /// intersects `span`, returns a bound of the intersection.
    pub(super) fn key_in(&self, order: &UserComparator, span: &Span) -> Option<Vec<u8>> {
        let at = self.keys.partition_point(|key| !span.begins_by(order, key));
        let key = self.keys.get(at).filter(|key| !span.ends_before(order, key));
        let common = || {
            let mut common = self.spans.iter().map(|read| read.intersection(order, span));
            let common = common.find(|common| !common.is_empty(order))?;
            let key = common.closed();
            Some(key.from.or(key.to).unwrap_or_default().to_vec())
        };
        key.cloned().or_else(common)
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

    /// Checks that merged ranges contain exactly the same keys as the ranges before the merge.
    #[test]
    fn merged_ranges_contain_the_same_keys() {
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
