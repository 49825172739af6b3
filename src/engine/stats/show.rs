//! Statistics as text for people: the tables by level, and a summary of the work.

use std::fmt;

use crate::base::size::Size;
use crate::engine::report::stats::{LevelStats, Stats};

/// Writes a table of the levels that have tables, and a line each for reads, writes, and work in
/// the background. The text has no newline at its end, and may change between versions.
impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "level   tables        bytes")?;
        let row = |f: &mut fmt::Formatter<'_>, name: &str, files: u64, bytes: u64| {
            writeln!(f, "{name:<5} {files:>8} {:>12}", Size(bytes).to_string())
        };
        for (number, level) in self.levels.iter().enumerate().filter(|(_, level)| level.files > 0) {
            row(f, &format!("L{number}"), level.files, level.bytes)?;
        }
        let sum = |field: fn(&LevelStats) -> u64| {
            self.levels.iter().map(field).fold(0, u64::saturating_add)
        };
        row(f, "all", sum(|level| level.files), sum(|level| level.bytes))?;
        let reads = self.reads.total();
        writeln!(
            f,
            "reads: {} gets, {} found; data blocks: {} from the cache, {} from files",
            self.gets, self.gets_found, reads.data_blocks_from_cache, reads.data_blocks_from_file
        )?;
        writeln!(
            f,
            "writes: {} operations of {} in {} log records; {} syncs",
            self.operations,
            Size(self.user_bytes),
            self.commit_groups,
            self.wal_syncs
        )?;
        write!(
            f,
            "background: {} flushes of {}, {} compactions of {}; stalls: {}",
            self.flushes,
            Size(self.flush_bytes),
            sum(|level| level.compactions),
            Size(sum(|level| level.bytes_written)),
            self.stalls.count()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::report::stats::{StallSum, Stalls};

    #[test]
    fn levels_without_tables_are_left_out_and_stalls_of_all_causes_are_added_up() {
        let level = |files, bytes| LevelStats { files, bytes, ..LevelStats::default() };
        let stalls = |count| StallSum { count, ..StallSum::default() };
        let stats = Stats {
            levels: vec![level(0, 0), level(3, 2048), level(12, 1 << 20)],
            gets: 7,
            gets_found: 5,
            operations: 10,
            user_bytes: 300,
            commit_groups: 4,
            flushes: 1,
            flush_bytes: 1024,
            stalls: Stalls { flush: stalls(4), level0: stalls(20), slowdown: stalls(100) },
            ..Stats::default()
        };
        let expected = "\
level   tables        bytes
L1           3      2.0 KiB
L2          12      1.0 MiB
all         15      1.0 MiB
reads: 7 gets, 5 found; data blocks: 0 from the cache, 0 from files
writes: 10 operations of 300 B in 4 log records; 0 syncs
background: 1 flushes of 1.0 KiB, 0 compactions of 0 B; stalls: 124";
        assert_eq!(stats.to_string(), expected);
    }
}
