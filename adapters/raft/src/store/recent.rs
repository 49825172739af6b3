//! The latest entries of the log, kept in memory: entries that are not written yet, and entries
//! that followers and the state machine usually read.

use std::collections::VecDeque;

use openraft::RaftLogId;

use crate::store::StoreConfig;

/// Maximum total size of the entries kept in memory, measured by their size on disk, in bytes.
/// Entries that are not durable yet are kept even above this limit.
const MAX_KEPT_BYTES: usize = 16 << 20;

/// Consecutive entries at the end of the log.
pub(crate) struct Recent<C: StoreConfig> {
    entries: VecDeque<(C::Entry, usize)>,
    bytes: usize,
}

impl<C: StoreConfig> Recent<C> {
    pub(crate) fn new() -> Self {
        Recent { entries: VecDeque::new(), bytes: 0 }
    }

    /// Returns the index of the first entry kept in memory.
    pub(crate) fn first(&self) -> Option<u64> {
        self.entries.front().map(|(entry, _)| entry.get_log_id().index)
    }

    /// Adds the next entry, whose size on disk is `bytes`.
    pub(crate) fn push(&mut self, entry: C::Entry, bytes: usize) {
        let index = entry.get_log_id().index;
        if self.entries.back().is_some_and(|(last, _)| last.get_log_id().index + 1 != index) {
            self.clear();
        }
        self.bytes += bytes;
        self.entries.push_back((entry, bytes));
    }

    /// Drops the oldest entries while the size limit is exceeded. Keeps all entries from the index
    /// `needed` on.
    pub(crate) fn trim(&mut self, needed: Option<u64>) {
        while self.bytes > MAX_KEPT_BYTES
            && self.first().is_some_and(|first| needed.is_none_or(|needed| first < needed))
        {
            self.pop_front();
        }
    }

    /// Drops the entries from `index` on.
    pub(crate) fn truncate(&mut self, index: u64) {
        while self.entries.back().is_some_and(|(last, _)| last.get_log_id().index >= index) {
            self.bytes -= self.entries.pop_back().map_or(0, |(_, bytes)| bytes);
        }
    }

    /// Drops the entries up to `index`.
    pub(crate) fn purge(&mut self, index: u64) {
        while self.first().is_some_and(|first| first <= index) {
            self.pop_front();
        }
    }

    /// Returns the entries in `[start, end)`. `start` must not be before the first entry kept in
    /// memory. Returns at least one entry if the range contains one, and stops when the returned
    /// entries reach `max_bytes` in total.
    pub(crate) fn read(&self, start: u64, end: u64, max_bytes: usize) -> Vec<C::Entry> {
        let Some(first) = self.first() else { return Vec::new() };
        let (from, to) = (start.saturating_sub(first) as usize, end.saturating_sub(first) as usize);
        let mut total = 0;
        let wanted = self.entries.iter().take(to).skip(from);
        let fits = |entry: &&(C::Entry, usize)| {
            let before = total;
            total += entry.1;
            before < max_bytes
        };
        wanted.take_while(fits).map(|(entry, _)| entry.clone()).collect()
    }

    fn pop_front(&mut self) {
        if let Some((_, bytes)) = self.entries.pop_front() {
            self.bytes -= bytes;
        }
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }
}
