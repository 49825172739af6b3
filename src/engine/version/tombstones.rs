//! Counts of the tombstones in tables, and the rule that says when they justify a compaction.
//!
//! A scan steps over every tombstone in its way. Without a rule, a level within its target size
//! would keep its tombstones for ever. LevelDB's tables and MANIFESTs have no field for the number
//! of tombstones. Information about tombstones comes from two sources and is kept only in memory:
//!
//! - this process counts the entries that it writes into a table ([`EntryCounts`]);
//! - a cursor that has passed more than [`CRAWL_TOMBSTONES`] tombstones in one step (a *crawl*)
//!   reports each table in which it meets further tombstones. The first slow scan therefore finds
//!   the tables that earlier processes wrote.
//!
//! Sampling tables when they are opened would find some of these tables earlier, at the cost of
//! reads in every open.
//!
//! Only tombstones that every reader sees are considered: while a snapshot holds an older state, a
//! compaction cannot drop them. A compaction for tombstones moves them one level down, or drops
//! them if no deeper level has a table in their range. So each table is compacted only once for its
//! tombstones; they are considered again only as part of a table of the next level.

use std::sync::OnceLock;

use crate::base::entry_sum::EntrySum;
use crate::base::sync::atomic::AtomicU64;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::format::expiry::{NEVER, TableExpiry};
use crate::format::key::{KeyKind, ParsedKey, SeqNo};

/// Minimum number of tombstones for which a table is compacted, unless a cursor crawled over them.
/// A higher number saves compactions and makes scans step over more tombstones.
pub(crate) const MIN_TOMBSTONES: u64 = 256;

/// Number of consecutive tombstones, in one step of a cursor, above which the step is a crawl.
/// Stepping over 1,024 tombstones takes a few tenths of a millisecond. A higher number leaves
/// slower scans unnoticed.
pub(crate) const CRAWL_TOMBSTONES: u64 = 1024;

/// Assumed size of an entry, in bytes, in a table whose entries were not counted by this process.
/// The value affects only the estimated cost of a merge.
const GUESSED_ENTRY_BYTES: u64 = 64;

/// Counts of the entries of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EntryCounts {
    /// Number of entries, including tombstones.
    pub entries: u64,
    /// Number of tombstones.
    pub tombstones: u64,
    /// Sequence number of the newest tombstone; 0 if there is none.
    pub newest_tombstone: SeqNo,
    /// Sequence number of the newest entry; 0 if there is none.
    pub newest: SeqNo,
    /// Number of entries with an expiry.
    pub expiring: u64,
    /// Latest expiry of the entries that are not tombstones, in milliseconds since the Unix epoch;
    /// 0 if no such entry has an expiry.
    pub last_expiry: u64,
    /// The sum over the entries, as the table's writer had it; `None` if they were counted by a
    /// reader.
    pub sum: Option<EntrySum>,
}

impl EntryCounts {
    /// Checks that the counts are consistent.
    fn check(&self) {
        debug_assert!(self.tombstones <= self.entries, "more tombstones than entries: {self:?}");
        debug_assert!(self.tombstones > 0 || self.newest_tombstone == 0, "{self:?}");
    }

    /// Counts an entry. `expiry` is the time at which the entry expires; it is ignored for a
    /// tombstone.
    pub(crate) fn add(&mut self, entry: &ParsedKey<'_>, expiry: u64) {
        self.entries += 1;
        self.newest = self.newest.max(entry.seq);
        if entry.kind == KeyKind::Deletion {
            self.tombstones += 1;
            self.newest_tombstone = self.newest_tombstone.max(entry.seq);
        } else {
            self.expiring += u64::from(expiry != NEVER);
            self.last_expiry = self.last_expiry.max(expiry);
        }
    }

    /// Returns the summary of the entries' expiries; `None` if no entry has an expiry.
    pub(crate) fn expiry(&self) -> Option<TableExpiry> {
        let expiry = TableExpiry { last: self.last_expiry, entries: self.expiring };
        (expiry.entries > 0).then_some(expiry)
    }
}

/// Information about the tombstones of a table: counts, and whether cursors crawled over them.
/// Thread-safe.
#[derive(Debug, Default)]
pub(crate) struct Tombstones {
    counts: OnceLock<EntryCounts>,
    /// Sequence number of the newest tombstone that a cursor crawled over; 0 if no cursor did.
    crawled: AtomicU64,
}

impl Tombstones {
    /// Stores the counts that this process made when it wrote the table.
    pub(crate) fn set_counts(&self, counts: EntryCounts) {
        counts.check();
        self.counts.get_or_init(|| counts);
    }

    /// Records that a cursor crawled over tombstones of the table, the newest of which has the
    /// sequence number `seq`.
    pub(crate) fn crawled(&self, seq: SeqNo) {
        // The value is loaded first, because a cursor reports the same crawl many times.
        if self.crawled.load(Relaxed) < seq.max(1) {
            self.crawled.fetch_max(seq.max(1), Relaxed);
        }
    }

    /// Returns whether a cursor crawled over tombstones of the table.
    pub(crate) fn is_crawled(&self) -> bool {
        self.crawled.load(Relaxed) > 0
    }

    /// Returns the counts made by this process when it wrote the table; `None` if another process
    /// wrote the table.
    pub(crate) fn counts(&self) -> Option<EntryCounts> {
        self.counts.get().copied()
    }

    /// Returns the number of tombstones; 0 if this process did not count them.
    pub(crate) fn count(&self) -> u64 {
        self.counts.get().map_or(0, |counts| counts.tombstones)
    }

    /// Returns the sequence number of the newest entry; 0 if this process did not write the table.
    /// Such a table was written before the database was opened.
    pub(crate) fn newest(&self) -> SeqNo {
        self.counts.get().map_or(0, |counts| counts.newest)
    }

    /// Returns the number of entries of a table of `file_bytes` bytes, estimated if the entries
    /// were not counted.
    pub(crate) fn entries(&self, file_bytes: u64) -> u64 {
        self.counts.get().map_or(file_bytes / GUESSED_ENTRY_BYTES, |counts| counts.entries)
    }

    /// Returns whether the tombstones justify a compaction. They must be numerous and at least half
    /// of all entries, or a cursor must have crawled over them. All readers, even one at
    /// `oldest_read`, must see them.
    pub(crate) fn are_many(&self, oldest_read: SeqNo) -> bool {
        let crawled = self.crawled.load(Relaxed);
        match self.counts.get() {
            Some(counts) => {
                let dense = counts.tombstones >= MIN_TOMBSTONES
                    && counts.tombstones >= counts.entries.div_ceil(2);
                (dense || (crawled > 0 && counts.tombstones > 0))
                    && counts.newest_tombstone <= oldest_read
            }
            None => crawled > 0 && crawled <= oldest_read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(entries: u64, tombstones: u64, newest_tombstone: SeqNo) {
        let newest = newest_tombstone;
        let counts =
            EntryCounts { entries, tombstones, newest_tombstone, newest, ..<_>::default() };
        Tombstones::default().set_counts(counts);
    }

    #[test]
    fn all_entries_may_be_tombstones() {
        set(3, 3, 9);
        set(3, 0, 0);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "more tombstones than entries")]
    fn there_are_no_more_tombstones_than_entries() {
        set(3, 4, 9);
    }
}
