//! Key ranges whose tables were dropped by a range delete, for the conflict checks of transactions.

use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::sync::{LockRank, Mutex};
use crate::engine::span::Span;
use crate::format::key::SeqNo;

/// The ranges deleted since the oldest snapshot was taken, and possibly ranges deleted earlier.
/// Thread-safe.
#[derive(Debug)]
pub(crate) struct DeletedRanges {
    list: Mutex<Vec<(SeqNo, Span)>>,
    /// Sequence number of the newest range delete; 0 if there was none. If a search asks only for
    /// range deletes after this one, it takes no lock.
    newest: AtomicU64,
}

impl DeletedRanges {
    /// Returns an empty list.
    pub(crate) fn new() -> DeletedRanges {
        DeletedRanges { list: Mutex::ranked(LockRank::Leaf, Vec::new()), newest: AtomicU64::new(0) }
    }

    /// Adds the range `span`, which is about to be deleted at the sequence number `seq`. Removes
    /// from the list the ranges that are already deleted for every read at `oldest_read` or later.
    pub(crate) fn add(&self, seq: SeqNo, span: &Span, oldest_read: SeqNo) {
        let mut list = self.list.lock();
        list.retain(|(deleted_at, _)| *deleted_at > oldest_read);
        list.push((seq, span.clone()));
        self.newest.store(seq, Ordering::Release);
    }

    /// Takes back the range that was added with the sequence number `seq`, because it was not
    /// deleted.
    pub(crate) fn take_back(&self, seq: SeqNo) {
        let mut list = self.list.lock();
        list.retain(|(deleted_at, _)| *deleted_at != seq);
        let newest = list.last().map_or(0, |(deleted_at, _)| *deleted_at);
        self.newest.store(newest, Ordering::Release);
    }

    /// Calls `find` for the ranges deleted after the sequence number `after` and up to `last`.
    /// Returns the first result that is not `None`.
    pub(crate) fn find<R>(
        &self,
        after: SeqNo,
        last: SeqNo,
        find: impl FnMut(&Span) -> Option<R>,
    ) -> Option<R> {
        if self.newest.load(Ordering::Acquire) <= after {
            return None;
        }
        let list = self.list.lock();
        let mut spans = list.iter().filter(|(seq, _)| *seq > after && *seq <= last);
        spans.by_ref().map(|(_, span)| span).find_map(find)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_found_by_when_they_were_deleted_until_nobody_reads_from_before() {
        let ranges = DeletedRanges::new();
        let found = |after, last| {
            let mut all = Vec::new();
            ranges.find(after, last, |span| {
                all.push(span.clone());
                None::<()>
            });
            all.len()
        };
        assert_eq!(found(0, 100), 0);
        for seq in [5, 9, 12] {
            ranges.add(seq, &Span::new(&(seq.to_string()..)), 0);
        }
        let cases = [(0, 100, 3), (4, 12, 3), (5, 12, 2), (0, 9, 2), (0, 8, 1), (5, 9, 1)];
        for (after, last, count) in cases.into_iter().chain([(5, 8, 0), (0, 4, 0), (12, 100, 0)]) {
            assert_eq!(found(after, last), count, "after {after} and up to {last}");
        }
        assert_eq!(ranges.find(4, 12, |span| Some(span.clone())), Some(Span::new(&("5"..))));
        ranges.add(20, &Span::ALL, 9);
        assert_eq!(found(0, 100), 2);
        ranges.take_back(20);
        assert_eq!((found(0, 100), found(12, 100)), (1, 0));
        ranges.take_back(12);
        assert_eq!(found(0, 100), 0);
    }
}
