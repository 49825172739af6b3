//! Counters of writes, flushes and compactions. Counters of reads are in
//! [`totals`](crate::engine::stats::totals).

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::base::clock::micros_of;
use crate::engine::report::event::StallCause;
use crate::format::edit::NUM_LEVELS;

/// Counters that only grow. Each counter can be read at any time, but two counters cannot be read
/// at exactly the same time.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Number of puts and deletes.
    pub operations: AtomicU64,
    /// Number of commit groups; each group is one log record.
    pub groups: AtomicU64,
    /// Size of the operations in bytes: keys, values, tags and lengths.
    pub user_bytes: AtomicU64,
    /// Number of bytes written to logs since the database was opened.
    pub wal_bytes: AtomicU64,
    /// Number of the bytes in `wal_bytes` that were written to logs other than the current log.
    pub wal_bytes_before: AtomicU64,
    /// Number of syncs of the log.
    pub syncs: AtomicU64,
    /// Number of memtables flushed to tables.
    pub flushes: AtomicU64,
    /// Size of the tables written by flushes, in bytes.
    pub flush_bytes: AtomicU64,
    /// Time taken by flushes, in microseconds.
    pub flush_micros: AtomicU64,
    /// Number of tables that were dropped whole because all their entries had expired.
    pub expired_tables: AtomicU64,
    /// Counters of the compactions into each level.
    pub levels: [LevelMetrics; NUM_LEVELS],
    /// Write stalls by [`StallCause`]: their number, and their duration in microseconds.
    pub stalls: [(AtomicU64, AtomicU64); 3],
}

/// Counters of the compactions whose output went to one level.
#[derive(Debug, Default)]
pub(crate) struct LevelMetrics {
    /// Number of compactions that merged tables.
    pub compactions: AtomicU64,
    /// Number of tables that were moved down unchanged.
    pub moves: AtomicU64,
    /// Size of the input tables of the merges, in bytes.
    pub bytes_read: AtomicU64,
    /// Size of the output tables of the merges, in bytes.
    pub bytes_written: AtomicU64,
    /// Number of input entries that the merges did not write to their outputs.
    pub entries_dropped: AtomicU64,
    /// Time taken by the merges, in microseconds.
    pub micros: AtomicU64,
}

impl Metrics {
    /// Counts a stall.
    pub(crate) fn stall(&self, cause: StallCause, waited: Duration) {
        let (count, micros) = &self.stalls[cause as usize];
        count.fetch_add(1, Relaxed);
        micros.fetch_add(micros_of(waited), Relaxed);
    }

    /// Counts a flush.
    pub(crate) fn flush(&self, file_bytes: u64, took: Duration) {
        self.flushes.fetch_add(1, Relaxed);
        self.flush_bytes.fetch_add(file_bytes, Relaxed);
        self.flush_micros.fetch_add(micros_of(took), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_and_stalls_add_up() {
        let metrics = Metrics::default();
        metrics.flush(100, Duration::from_micros(1234));
        metrics.flush(20, Duration::from_nanos(5999));
        assert_eq!(metrics.flushes.load(Relaxed), 2);
        assert_eq!(metrics.flush_bytes.load(Relaxed), 120);
        assert_eq!(metrics.flush_micros.load(Relaxed), 1239);
    }
}
