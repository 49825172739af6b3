//! Statistics of a database, as numbers.

use std::time::Duration;

#[cfg(feature = "serde")]
use crate::base::clock::micros_of;
use crate::engine::stats::trace::ReadTrace;

/// Counters of a database since it was opened, and the sizes of its parts.
///
/// The counters are read one after another, so a read in progress may be counted in part. The work
/// of a cursor or iterator is counted when it is dropped. Counters only grow; sizes and numbers of
/// tables are current values.
///
/// ```
/// # use minikv::Db;
/// # let dir = tempfile::tempdir()?;
/// # let db = Db::create(dir.path())?;
/// db.put("key", "value")?;
/// db.flush()?;
/// db.get("key")?;
/// let stats = db.stats();
/// assert_eq!((stats.operations, stats.gets, stats.gets_found), (1, 1, 1));
/// assert_eq!((stats.flushes, stats.levels.len()), (1, 7));
/// println!("{stats}"); // the tables by level, and a summary of the work
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Stats {
    /// Counts of the work of all reads.
    pub reads: ReadTrace,
    /// Number of gets. Each key of a multi-get counts as one get.
    pub gets: u64,
    /// Number of gets that found a value.
    pub gets_found: u64,
    /// Number of puts and deletes.
    pub operations: u64,
    /// Number of commit groups: log records, each with the operations of one or more writers.
    pub commit_groups: u64,
    /// Size of the operations in bytes: keys, values, tags and lengths.
    pub user_bytes: u64,
    /// Number of bytes written to logs.
    pub wal_bytes: u64,
    /// Number of log syncs.
    pub wal_syncs: u64,
    /// Number of memtables flushed to tables.
    pub flushes: u64,
    /// Size of the flushed tables, in bytes.
    pub flush_bytes: u64,
    /// Time taken by flushes.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "flush_micros", serialize_with = "crate::base::serialize::micros")
    )]
    pub flush_time: Duration,
    /// Write stalls, by cause.
    pub stalls: Stalls,
    /// The levels, from level 0 to level 6.
    pub levels: Vec<LevelStats>,
    /// Memory taken by the memtable and the frozen memtables, in bytes.
    pub memtable_bytes: u64,
    /// Memory taken by cached blocks, in bytes.
    pub block_cache_bytes: u64,
    /// Number of data blocks that reads found in the block cache.
    pub block_cache_hits: u64,
    /// Number of data blocks that reads did not find in the block cache; 0 if there is no cache.
    pub block_cache_misses: u64,
    /// Number of open tables.
    pub open_tables: u64,
    /// Memory taken by the indexes and filters of open tables, in bytes.
    pub pinned_bytes: u64,
    /// Number of snapshots that exist.
    pub snapshots: u64,
    /// Number of tables that wait to be dropped because all their entries have expired.
    pub expired_tables: u64,
    /// Total size of the tables counted by `expired_tables`, in bytes.
    pub expired_bytes: u64,
    /// Number of entries in the tables counted by `expired_tables`. Expired entries in other tables
    /// are not counted.
    pub expired_entries: u64,
    /// Number of tables that were dropped without being read, because all their entries had
    /// expired.
    pub expired_tables_dropped: u64,
}

/// Write stalls, by cause.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Stalls {
    /// Waits for a flush.
    pub flush: StallSum,
    /// Waits for a compaction of level 0.
    pub level0: StallSum,
    /// Delays that slow writes down
    /// ([`StallCause::Slowdown`](crate::events::StallCause::Slowdown)).
    pub slowdown: StallSum,
}

impl Stalls {
    /// Returns the number of stalls of all causes.
    pub fn count(&self) -> u64 {
        self.flush.count + self.level0.count + self.slowdown.count
    }
}

/// The write stalls of one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StallSum {
    /// Number of stalls.
    pub count: u64,
    /// Total time of the stalls, each in whole microseconds.
    pub time: Duration,
}

/// Serializes as `[count, microseconds]`.
#[cfg(feature = "serde")]
impl serde::Serialize for StallSum {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        (self.count, micros_of(self.time)).serialize(to)
    }
}

/// The size of one level, and counters of the compactions into it.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LevelStats {
    /// Number of tables in the level.
    pub files: u64,
    /// Size of the level's tables, in bytes.
    pub bytes: u64,
    /// Number of compactions into the level that merged tables.
    pub compactions: u64,
    /// Number of tables moved into the level unchanged.
    pub moves: u64,
    /// Size of the input tables of the merges, in bytes.
    pub bytes_read: u64,
    /// Size of the output tables of the merges, in bytes.
    pub bytes_written: u64,
    /// Number of entries that the merges dropped.
    pub entries_dropped: u64,
    /// Time taken by the merges.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "micros", serialize_with = "crate::base::serialize::micros")
    )]
    pub merge_time: Duration,
}
