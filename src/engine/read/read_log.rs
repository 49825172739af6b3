//! The record of what a transaction has read, for the check at its commit.
//!
//! When an iterator or a cursor is dropped, it records the ranges that it has walked. Until then,
//! the record has a *stand-in* for these ranges, which covers everything that the walk may reach.
//! If the iterator or cursor still exists at the commit, the stand-in counts as read.

use std::sync::Arc;

use crate::base::sync::{LockRank, Mutex};
use crate::engine::span::Span;
use crate::engine::write::read_set::{ReadSet, merge_keys, merge_spans};
use crate::format::key::UserComparator;

/// Number of keys or ranges above which duplicates are removed from the record before the record
/// grows further. A higher number saves sorting and takes more memory in transactions that read the
/// same keys or ranges repeatedly.
const MERGE_ABOVE: usize = 4096;

/// The record of a transaction's reads. Thread-safe.
#[derive(Debug)]
pub(crate) struct ReadLog {
    order: UserComparator,
    record: Mutex<TrackedReads>,
}

#[derive(Debug, Default)]
struct TrackedReads {
    keys: Vec<Vec<u8>>,
    spans: Vec<Span>,
    /// Stand-ins for the ranges of walks that have not ended. `None` marks a free slot.
    walks: Vec<Option<Span>>,
    /// Number of keys at which duplicates are removed.
    merge_keys_at: usize,
    /// Number of ranges at which overlapping ranges are merged.
    merge_spans_at: usize,
}

impl ReadLog {
    pub(crate) fn new(order: UserComparator) -> ReadLog {
        ReadLog { order, record: Mutex::ranked(LockRank::Leaf, TrackedReads::default()) }
    }

    /// Returns the order of keys.
    pub(crate) fn order(&self) -> &UserComparator {
        &self.order
    }

    /// Records that `key` was read.
    pub(crate) fn read_key(&self, key: &[u8]) {
        let record = &mut *self.record.lock();
        record.keys.push(key.to_vec());
        if record.keys.len() > record.merge_keys_at.max(MERGE_ABOVE) {
            merge_keys(&self.order, &mut record.keys);
            record.merge_keys_at = 2 * record.keys.len();
        }
    }

    /// Records that a range was read.
    fn read_span(&self, span: Span) {
        let record = &mut *self.record.lock();
        record.spans.push(span);
        if record.spans.len() > record.merge_spans_at.max(MERGE_ABOVE) {
            merge_spans(&self.order, &mut record.spans);
            record.merge_spans_at = 2 * record.spans.len();
        }
    }

    /// Takes the record and returns everything that was read. A walk that has not ended counts
    /// as having read all that it could reach.
    pub(crate) fn take(&self) -> ReadSet {
        let record = std::mem::take(&mut *self.record.lock());
        let mut spans = record.spans;
        spans.extend(record.walks.into_iter().flatten());
        ReadSet::new(&self.order, record.keys, spans)
    }
}

/// The part of the record that belongs to an iterator or a cursor.
#[derive(Debug)]
pub(crate) struct TrackedWalk {
    log: Arc<ReadLog>,
    /// Index of the stand-in in `TrackedReads::walks`; `None` before the first step.
    place: Option<usize>,
}

impl TrackedWalk {
    /// Returns a walk that has read nothing.
    pub(crate) fn new(log: Arc<ReadLog>) -> TrackedWalk {
        TrackedWalk { log, place: None }
    }

    /// Returns the order of keys.
    pub(crate) fn order(&self) -> &UserComparator {
        self.log.order()
    }

    /// Begins the walk, which may read anything in the range that `reach` returns. Does nothing if
    /// the walk has already begun.
    pub(crate) fn begin(&mut self, reach: impl FnOnce() -> Span) {
        if self.place.is_some() {
            return;
        }
        let walks = &mut self.log.record.lock().walks;
        let place = walks.iter().position(Option::is_none).unwrap_or_else(|| {
            walks.push(None);
            walks.len() - 1
        });
        walks[place] = Some(reach());
        self.place = Some(place);
    }

    /// Records that the walk has read a range.
    pub(crate) fn read(&self, span: Span) {
        self.log.read_span(span);
    }
}

impl Drop for TrackedWalk {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            // The commit may have taken the record.
            if let Some(walk) = self.log.record.lock().walks.get_mut(place) {
                *walk = None;
            }
        }
    }
}
