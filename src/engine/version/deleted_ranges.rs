//! Ranges of keys whose tables were dropped: the trace that a range delete leaves for the checks of
//! transactions.

use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::sync::{LockRank, Mutex};
use crate::engine::span::Span;
use crate::format::key::SeqNo;

/// At least the ranges deleted since the oldest snapshot. Thread-safe.
#[derive(Debug)]
pub(crate) struct DeletedRanges {
    list: Mutex<Vec<(SeqNo, Span)>>,
    /// Sequence number of the newest range delete; 0 if there was none. A check of writes after it
    /// needs no lock.
    newest: AtomicU64,
}

impl DeletedRanges {
    /// Returns an empty list.
    pub(crate) fn new() -> DeletedRanges {
        DeletedRanges { list: Mutex::ranked(LockRank::Leaf, Vec::new()), newest: AtomicU64::new(0) }
    }

    /// Adds the range `span`, which is about to be deleted at the sequence number `seq`. Forgets
    /// the ranges that every read at `oldest_read` or later sees as deleted.
    pub(crate) fn add(&self, seq: SeqNo, span: &Span, oldest_read: SeqNo) {
        let mut list = self.list.lock();
        list.retain(|(deleted_at, _)| *deleted_at > oldest_read);
        list.push((seq, span.clone()));
        self.newest.store(seq, Ordering::Release);
    }

    /// Returns the first result of `find` for the ranges deleted after `after` and not after
    /// `last`.
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
