//! Counters of the write side. Reads have their own, in [`crate::base::stats`].

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::format::edit::NUM_LEVELS;

/// Why a write had to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StallCause {
    /// Frozen memtables wait for their flush.
    Flush,
    /// Level 0 has so many tables that compaction must come first.
    Level0,
    /// Level 0 has many tables: writes are slowed before they would have to stop.
    Slowdown,
}

/// Monotone counters; each may be read at any time, and no two are read at the same moment.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Puts and deletes.
    pub operations: AtomicU64,
    /// Commit groups: log records.
    pub groups: AtomicU64,
    /// Bytes of the operations: keys, values, tags and lengths.
    pub user_bytes: AtomicU64,
    /// Bytes of the logs since the database was opened.
    pub wal_bytes: AtomicU64,
    /// The part of `wal_bytes` in logs before the current one.
    pub wal_bytes_before: AtomicU64,
    /// Syncs of the log.
    pub syncs: AtomicU64,
    /// Memtables made into tables.
    pub flushes: AtomicU64,
    /// Bytes of those tables.
    pub flush_bytes: AtomicU64,
    /// Time that took, in microseconds.
    pub flush_micros: AtomicU64,
    /// Compactions into each level.
    pub levels: [LevelMetrics; NUM_LEVELS],
    /// Stalls by cause: how many and how long.
    pub stalls: [(AtomicU64, AtomicU64); 3],
}

/// Counters of the compactions whose output went to one level.
#[derive(Debug, Default)]
pub struct LevelMetrics {
    /// Compactions that merged.
    pub compactions: AtomicU64,
    /// Tables that moved down as they were.
    pub moves: AtomicU64,
    /// Bytes of the input tables.
    pub bytes_read: AtomicU64,
    /// Bytes of the output tables.
    pub bytes_written: AtomicU64,
    /// Entries dropped: versions and tombstones nobody can see.
    pub entries_dropped: AtomicU64,
    /// Time that took, in microseconds.
    pub micros: AtomicU64,
}

impl Metrics {
    /// Counts a stall.
    pub fn stall(&self, cause: StallCause, waited: Duration) {
        let (count, micros) = &self.stalls[cause as usize];
        count.fetch_add(1, Relaxed);
        micros.fetch_add(micros_of(waited), Relaxed);
    }

    /// Counts a flush.
    pub fn flush(&self, file_bytes: u64, took: Duration) {
        self.flushes.fetch_add(1, Relaxed);
        self.flush_bytes.fetch_add(file_bytes, Relaxed);
        self.flush_micros.fetch_add(micros_of(took), Relaxed);
    }
}

/// A duration in whole microseconds.
pub fn micros_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
