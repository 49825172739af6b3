//! What the engine says of itself: numbers, and the texts that LevelDB's properties are.

use std::fmt::Write;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::engine::Engine;
use crate::engine::read::view::{ReadState, ReadView};
use crate::engine::stats::trace::ReadTrace;
use crate::engine::version::Version;
use crate::format::edit::NUM_LEVELS;

/// The state and the counters of a database, since it was opened.
///
/// Counters are read one after the other: those of a read that is under way may be here in part.
/// What a cursor or iterator did is counted when it is dropped.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Stats {
    /// The sum of all reads.
    pub reads: ReadTrace,
    /// Gets, and keys of multi-gets.
    pub gets: u64,
    /// Those of them that found a value.
    pub gets_found: u64,
    /// Puts and deletes.
    pub operations: u64,
    /// Groups they were logged in.
    pub commit_groups: u64,
    /// Bytes of the operations: keys, values, tags and lengths.
    pub user_bytes: u64,
    /// Bytes written to logs.
    pub wal_bytes: u64,
    /// Syncs of logs.
    pub wal_syncs: u64,
    /// Memtables made into tables.
    pub flushes: u64,
    /// Bytes of those tables.
    pub flush_bytes: u64,
    /// Time that took, in microseconds.
    pub flush_micros: u64,
    /// Waits of writes, by cause.
    pub stalls: Stalls,
    /// The levels, from 0.
    pub levels: Vec<LevelStats>,
    /// Bytes of the memtable and the frozen ones.
    pub memtable_bytes: u64,
    /// Bytes of cached blocks.
    pub block_cache_bytes: u64,
    /// Data blocks that reads found in the block cache.
    pub block_cache_hits: u64,
    /// Data blocks that reads looked for in the block cache in vain.
    pub block_cache_misses: u64,
    /// Open tables.
    pub open_tables: u64,
    /// Bytes of their indexes and filters.
    pub pinned_bytes: u64,
    /// Snapshots held.
    pub snapshots: u64,
}

/// How often, and how long in microseconds, writes waited.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Stalls {
    /// For a flush: `(count, microseconds)`.
    pub flush: (u64, u64),
    /// For level 0 to be compacted.
    pub level0: (u64, u64),
    /// Slowed, because level 0 grows.
    pub slowdown: (u64, u64),
}

/// One level, and the compactions into it.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LevelStats {
    /// Tables in it.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Compactions into it that merged.
    pub compactions: u64,
    /// Tables moved into it as they were.
    pub moves: u64,
    /// Bytes those compactions read.
    pub bytes_read: u64,
    /// Bytes they wrote.
    pub bytes_written: u64,
    /// Entries they dropped.
    pub entries_dropped: u64,
    /// Time they took, in microseconds.
    pub micros: u64,
}

/// The part of the statistics that reads know.
pub fn read_stats(state: &ReadState, view: &ReadView) -> Stats {
    let (reads, gets, gets_found) = state.totals.sum();
    let total = reads.total();
    let cache = state.block_cache.as_deref();
    Stats {
        reads,
        gets,
        gets_found,
        levels: (0..NUM_LEVELS)
            .map(|level| LevelStats {
                files: view.version.level(level).len() as u64,
                bytes: view.version.level_bytes(level),
                ..LevelStats::default()
            })
            .collect(),
        memtable_bytes: view.memtables().map(|mem| mem.bytes() as u64).sum(),
        block_cache_bytes: cache.map_or(0, |cache| cache.usage_bytes()),
        block_cache_hits: total.data_blocks_from_cache,
        block_cache_misses: cache.map_or(0, |_| total.data_blocks_from_file),
        open_tables: state.tables.open_tables() as u64,
        pinned_bytes: state.tables.pinned_bytes() as u64,
        snapshots: state.snapshots_held().0 as u64,
        ..Stats::default()
    }
}

impl Engine {
    /// The statistics.
    pub fn stats(&self) -> Stats {
        let mut stats = read_stats(&self.reads, &self.reads.view_owned());
        let metrics = &self.metrics;
        let load = |counter: &AtomicU64| counter.load(Relaxed);
        stats.operations = load(&metrics.operations);
        stats.commit_groups = load(&metrics.groups);
        stats.user_bytes = load(&metrics.user_bytes);
        stats.wal_bytes = load(&metrics.wal_bytes);
        stats.wal_syncs = load(&metrics.syncs);
        stats.flushes = load(&metrics.flushes);
        stats.flush_bytes = load(&metrics.flush_bytes);
        stats.flush_micros = load(&metrics.flush_micros);
        let [flush, level0, slowdown] =
            [0, 1, 2].map(|at| (load(&metrics.stalls[at].0), load(&metrics.stalls[at].1)));
        stats.stalls = Stalls { flush, level0, slowdown };
        for (level, counters) in stats.levels.iter_mut().zip(&metrics.levels) {
            level.compactions = load(&counters.compactions);
            level.moves = load(&counters.moves);
            level.bytes_read = load(&counters.bytes_read);
            level.bytes_written = load(&counters.bytes_written);
            level.entries_dropped = load(&counters.entries_dropped);
            level.micros = load(&counters.micros);
        }
        stats
    }
}

/// The property `name`: LevelDB's names where it has one.
pub fn property(name: &str, stats: &Stats, version: &Version) -> Option<String> {
    let name = name.strip_prefix("leveldb.").or_else(|| name.strip_prefix("minikv."))?;
    if let Some(level) = name.strip_prefix("num-files-at-level") {
        let level: usize = level.parse().ok().filter(|&level| level < NUM_LEVELS)?;
        return Some(version.level(level).len().to_string());
    }
    match name {
        "stats" => Some(stats_text(stats)),
        "sstables" => Some(sstables_text(version)),
        "approximate-memory-usage" => {
            Some((stats.memtable_bytes + stats.block_cache_bytes + stats.pinned_bytes).to_string())
        }
        _ => None,
    }
}

/// LevelDB's table of compactions; level 0's is made by flushes.
fn stats_text(stats: &Stats) -> String {
    let mut text = String::from(
        "                               Compactions\n\
         Level  Files Size(MB) Time(sec) Read(MB) Write(MB)\n\
         --------------------------------------------------\n",
    );
    let mib = |bytes: u64| bytes as f64 / 1048576.0;
    for (number, level) in stats.levels.iter().enumerate() {
        let flush = if number == 0 { (stats.flush_bytes, stats.flush_micros) } else { (0, 0) };
        let micros = level.micros + flush.1;
        if level.files == 0 && micros == 0 {
            continue;
        }
        let _ = writeln!(
            text,
            "{number:3} {:8} {:8.0} {:9.0} {:8.0} {:9.0}",
            level.files,
            mib(level.bytes),
            micros as f64 / 1e6,
            mib(level.bytes_read),
            mib(level.bytes_written + flush.0),
        );
    }
    text
}

fn sstables_text(version: &Version) -> String {
    let mut text = String::new();
    for level in 0..NUM_LEVELS {
        let _ = writeln!(text, "--- level {level} ---");
        for file in version.level(level) {
            let _ = writeln!(text, " {file:?}");
        }
    }
    text
}
