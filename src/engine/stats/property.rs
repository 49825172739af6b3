//! Statistics of a database: as numbers, and as the texts of LevelDB's properties.

use std::fmt::Write;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::engine::Engine;
use crate::engine::read::view::{ReadState, ReadView};
use crate::engine::report::stats::{LevelStats, StallSum, Stalls, Stats};
use crate::engine::version::Version;
use crate::format::edit::NUM_LEVELS;

/// Returns the statistics that are available from the state for reads. All other counters are 0.
pub(crate) fn read_stats(state: &ReadState, view: &ReadView) -> Stats {
    let (reads, gets, gets_found) = state.totals.sum();
    let total = reads.total();
    let cache = state.block_cache.as_deref();
    let expired = state.expired_tables(&view.version);
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
        expired_tables: expired.tables,
        expired_bytes: expired.file_bytes,
        expired_entries: expired.entries,
        ..Stats::default()
    }
}

impl Engine {
    /// Returns the statistics.
    pub(crate) fn stats(&self) -> Stats {
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
        let time = |micros: &AtomicU64| Duration::from_micros(load(micros));
        stats.flush_time = time(&metrics.flush_micros);
        stats.expired_tables_dropped = load(&metrics.expired_tables);
        let [flush, level0, slowdown] = metrics
            .stalls
            .each_ref()
            .map(|(count, micros)| StallSum { count: load(count), time: time(micros) });
        stats.stalls = Stalls { flush, level0, slowdown };
        debug_assert_eq!(stats.levels.len(), metrics.levels.len(), "levels without counters");
        for (level, counters) in stats.levels.iter_mut().zip(&metrics.levels) {
            level.compactions = load(&counters.compactions);
            level.moves = load(&counters.moves);
            level.bytes_read = load(&counters.bytes_read);
            level.bytes_written = load(&counters.bytes_written);
            level.entries_dropped = load(&counters.entries_dropped);
            level.merge_time = time(&counters.micros);
        }
        stats
    }
}

/// Returns the property `name` as text, or `None` if there is no such property. See
/// [`Db::property`](crate::Db::property) for the names.
pub(crate) fn property(name: &str, stats: &Stats, version: &Version) -> Option<String> {
    let name = name.strip_prefix("leveldb.").or_else(|| name.strip_prefix("minikv."))?;
    if let Some(level) = name.strip_prefix("num-files-at-level") {
        // `parse` accepts a sign, but LevelDB does not.
        let digits = Some(level).filter(|level| level.bytes().all(|byte| byte.is_ascii_digit()));
        let level: usize = digits?.parse().ok().filter(|&level| level < NUM_LEVELS)?;
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

/// Returns a table of compaction statistics as text, in LevelDB's format. Flushes are counted in
/// level 0.
fn stats_text(stats: &Stats) -> String {
    let mut text = String::from(
        "                               Compactions\n\
         Level  Files Size(MB) Time(sec) Read(MB) Write(MB)\n\
         --------------------------------------------------\n",
    );
    let mib = |bytes: u64| bytes as f64 / 1048576.0;
    for (number, level) in stats.levels.iter().enumerate() {
        let (flush_bytes, flush_time) = match number {
            0 => (stats.flush_bytes, stats.flush_time),
            _ => (0, Duration::ZERO),
        };
        let time = level.merge_time + flush_time;
        if level.files == 0 && time.is_zero() {
            continue;
        }
        let _ = writeln!(
            text,
            "{number:3} {:8} {:8.0} {:9.0} {:8.0} {:9.0}",
            level.files,
            mib(level.bytes),
            time.as_secs_f64(),
            mib(level.bytes_read),
            mib(level.bytes_written + flush_bytes),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_count_for_level_0_and_empty_levels_are_left_out() {
        let level = |files, mib: u64, seconds: u64| LevelStats {
            files,
            bytes: mib << 20,
            bytes_read: mib << 21,
            bytes_written: (3 * mib) << 20,
            merge_time: Duration::from_secs(seconds),
            ..LevelStats::default()
        };
        let stats = Stats {
            flush_bytes: 5 << 20,
            flush_time: Duration::from_secs(7),
            levels: vec![level(1, 10, 4), level(0, 0, 0), level(0, 0, 2), level(3, 0, 0)],
            memtable_bytes: 100,
            block_cache_bytes: 20,
            pinned_bytes: 3,
            ..Stats::default()
        };
        let text = stats_text(&stats);
        let rows: Vec<Vec<&str>> =
            text.lines().skip(3).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            rows,
            [
                ["0", "1", "10", "11", "20", "35"],
                ["2", "0", "0", "2", "0", "0"],
                ["3", "3", "0", "0", "0", "0"],
            ]
        );
        let property = |name: &str| property(name, &stats, &Version::default());
        assert_eq!(property("leveldb.approximate-memory-usage").as_deref(), Some("123"));
        assert_eq!(property("leveldb.num-files-at-level6").as_deref(), Some("0"));
        assert_eq!(property("leveldb.num-files-at-level06").as_deref(), Some("0"));
        for none in ["7", "", "+6", "-0", " 6", "6 ", "18446744073709551616"] {
            assert_eq!(property(&format!("leveldb.num-files-at-level{none}")), None, "{none}");
        }
        assert_eq!(property("leveldb.none"), None);
    }
}
