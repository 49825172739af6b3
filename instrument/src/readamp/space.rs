//! The bytes written to create the tables, and the space that the tables take, by level.

use minikv::Stats;
use minikv::files::NUM_LEVELS;
use serde::Serialize;

use crate::text::Table;
use crate::text::{size, thousands};

/// The writes that created the tables, and the space that the tables take.
#[derive(Serialize)]
pub struct Space {
    /// Number of live entries. The next field is the size of their keys and values, in bytes.
    pub live_entries: u64,
    pub live_bytes: u64,
    /// The bytes written, if they were counted.
    written: Option<Written>,
    /// The levels that have tables, or to which tables were written.
    levels: Vec<LevelSpace>,
}

/// Counters of the database handle that loaded the data.
#[derive(Serialize)]
struct Written {
    /// Size of the operations in bytes: their keys, values, tags and lengths.
    user_bytes: u64,
    wal_bytes: u64,
    flush_bytes: u64,
    /// Size of the tables written by compactions, in bytes.
    compaction_bytes: u64,
}

#[derive(Serialize)]
struct LevelSpace {
    level: usize,
    tables: u64,
    bytes: u64,
    /// Number of keys, summed over the tables. A key in several tables counts several times.
    keys: u64,
    /// Size of the tables written to the level by flushes or compactions, in bytes.
    written_bytes: Option<u64>,
}

/// Totals over the tables at one level.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stored {
    pub tables: u64,
    pub bytes: u64,
    pub keys: u64,
}

impl Space {
    /// Returns the writes and the space. `stored` has the tables at each level, and `stats` has the
    /// counters of the database handle that wrote the tables.
    pub fn of(
        live_entries: u64,
        live_bytes: u64,
        stored: &[Stored; NUM_LEVELS],
        stats: Option<&Stats>,
    ) -> Space {
        let written_bytes = |level: usize| {
            let stats = stats?;
            // Flushes write to level 0.
            let flushed = if level == 0 { stats.flush_bytes } else { 0 };
            Some(flushed + stats.levels.get(level)?.bytes_written)
        };
        let level = |(level, stored): (usize, &Stored)| LevelSpace {
            level,
            tables: stored.tables,
            bytes: stored.bytes,
            keys: stored.keys,
            written_bytes: written_bytes(level),
        };
        let levels = stored.iter().enumerate().map(level);
        let levels = levels.filter(|l| l.tables > 0 || l.written_bytes.unwrap_or(0) > 0).collect();
        let written = stats.map(|stats| Written {
            user_bytes: stats.user_bytes,
            wal_bytes: stats.wal_bytes,
            flush_bytes: stats.flush_bytes,
            compaction_bytes: stats.levels.iter().map(|level| level.bytes_written).sum(),
        });
        Space { live_entries, live_bytes, written, levels }
    }

    fn per_user_byte(&self, bytes: u64) -> Option<f64> {
        Some(bytes as f64 / self.written.as_ref()?.user_bytes.max(1) as f64)
    }

    /// Returns the number of bytes written to logs and tables per byte put.
    pub fn write_amplification(&self) -> Option<f64> {
        let written = self.written.as_ref()?;
        self.per_user_byte(written.wal_bytes + written.flush_bytes + written.compaction_bytes)
    }

    /// Returns the table of levels, with a title.
    pub fn table(&self) -> (String, Table) {
        let mut table = Table::grouped(
            &[("", 4), ("written", 2), ("stored per live", 2)],
            ["level", "tables", "size", "keys", "size", "per byte put", "byte", "entry"],
        );
        let show =
            |ratio: Option<f64>| ratio.map_or("-".to_string(), |ratio| format!("{ratio:.2}"));
        let per_live = |bytes: u64| format!("{:.2}", bytes as f64 / self.live_bytes.max(1) as f64);
        let per_entry = |keys: u64| format!("{:.2}", keys as f64 / self.live_entries.max(1) as f64);
        if let Some(written) = &self.written {
            let logs = show(self.per_user_byte(written.wal_bytes));
            table.row(["logs", "-", "-", "-", &size(written.wal_bytes), &logs, "-", "-"]);
        }
        for level in &self.levels {
            table.row([
                &format!("L{}", level.level),
                &thousands(level.tables),
                &size(level.bytes),
                &thousands(level.keys),
                &level.written_bytes.map_or("-".to_string(), size),
                &show(level.written_bytes.and_then(|bytes| self.per_user_byte(bytes))),
                &per_live(level.bytes),
                &per_entry(level.keys),
            ]);
        }
        let sum =
            |of: fn(&LevelSpace) -> u64| self.levels.iter().map(of).fold(0, u64::saturating_add);
        let (bytes, keys) = (sum(|level| level.bytes), sum(|level| level.keys));
        let all = self.written.as_ref().map(|w| w.wal_bytes + w.flush_bytes + w.compaction_bytes);
        table.row([
            "all",
            &thousands(sum(|level| level.tables)),
            &size(bytes),
            &thousands(keys),
            &all.map_or("-".to_string(), size),
            &show(self.write_amplification()),
            &per_live(bytes),
            &per_entry(keys),
        ]);
        let title = match self.written {
            Some(_) => "Writes of loading the data without filters, and space, by level",
            None => "Space by level; the files do not tell what was written to make them",
        };
        (title.to_string(), table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_those_of_the_sizes() {
        let mut stats = Stats::default();
        (stats.user_bytes, stats.wal_bytes, stats.flush_bytes) = (1000, 1100, 900);
        stats.levels = (0..NUM_LEVELS).map(|_| Default::default()).collect();
        stats.levels[1].bytes_written = 2000;
        let mut stored = [Stored::default(); NUM_LEVELS];
        stored[1] = Stored { tables: 2, bytes: 600, keys: 30 };
        let space = Space::of(20, 500, &stored, Some(&stats));
        assert_eq!(space.write_amplification(), Some(4.0));
        let written: Vec<_> = space.levels.iter().map(|l| (l.level, l.written_bytes)).collect();
        assert_eq!(written, [(0, Some(900)), (1, Some(2000))]);
        let table = space.table().1.to_string();
        let last = table.lines().last().unwrap().split_whitespace().collect::<Vec<_>>();
        assert_eq!(last[last.len() - 3..], ["4.00", "1.20", "1.50"]);
        let unknown = Space::of(20, 500, &stored, None);
        assert_eq!((unknown.write_amplification(), unknown.levels.len()), (None, 1));
        assert!(unknown.table().0.contains("do not tell"));
    }

    #[test]
    fn sizes_of_levels_may_add_up_to_more_than_64_bits() {
        let mut stored = [Stored::default(); NUM_LEVELS];
        stored[..2].fill(Stored { tables: 1, bytes: 1 << 63, keys: 10 });
        let table = Space::of(20, 500, &stored, None).table().1.to_string();
        assert!(table.lines().last().unwrap().contains("16777216.0 TiB"), "{table}");
    }
}
