//! Parses the texts in which LevelDB and RocksDB report the contents of their levels and the number
//! of bytes written.

use std::collections::{BTreeMap, BTreeSet};

use minikv_workloads::Result;

use super::Level;

/// Number of tables and their total size in bytes, by level.
pub type Tables = BTreeMap<usize, (u64, u64)>;

/// Number of bytes of tables written, by level.
pub type Written = BTreeMap<usize, u64>;

const MIB: u64 = 1 << 20;

/// Parses LevelDB's property `leveldb.sstables`. A line such as `--- level 0 ---` precedes the
/// tables of a level. Each table has a line such as `7:1234['a' @ 1 : 1 .. 'b' @ 2 : 1]`, which
/// begins with the number and the size of the table.
pub fn leveldb_tables(text: &str) -> Result<Tables> {
    let mut tables = Tables::new();
    let mut level = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("--- level ") {
            level = Some(name.trim_end_matches(" ---").parse()?);
            continue;
        }
        let size = line.split_once(':').and_then(|(_, rest)| rest.split_once('['));
        let (Some(level), Some((size, _))) = (level, size) else {
            return Err(format!("not a table of LevelDB: {line}").into());
        };
        let (number, bytes) = tables.entry(level).or_default();
        *number += 1;
        *bytes += size.parse::<u64>()?;
    }
    Ok(tables)
}

/// Parses LevelDB's property `leveldb.stats`. The line of a level has the level's number, the
/// number and size of its tables, and three figures of the compactions into the level, which
/// include flushes: seconds, MiB read, and MiB written. Sizes are rounded to whole MiB.
pub fn leveldb_written(text: &str) -> Result<Written> {
    let rule = text.lines().position(|line| line.starts_with("---")).ok_or("no statistics")?;
    let mut written = Written::new();
    for line in text.lines().skip(rule + 1) {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let [level, _, _, _, _, mib] = columns[..] else {
            return Err(format!("not a level of LevelDB: {line}").into());
        };
        written.insert(level.parse()?, mib.parse::<u64>()? * MIB);
    }
    Ok(written)
}

/// Parses the events in RocksDB's `LOG`. When a compaction finishes, its event has the output level
/// and the total size of the output tables. All other jobs that create tables are flushes.
#[cfg(any(feature = "rocksdb", test))]
pub fn rocksdb_written(text: &str) -> Result<Written> {
    let mut written = Written::new();
    let mut compactions = Vec::new();
    let mut created = Vec::new();
    for line in text.lines() {
        let Some((_, event)) = line.split_once("EVENT_LOG_v1 ") else { continue };
        let event: serde_json::Value = serde_json::from_str(event)?;
        let number = |name: &str| {
            event[name].as_u64().ok_or_else(|| format!("an event without {name}: {event}"))
        };
        match event["event"].as_str() {
            Some("compaction_started") => compactions.push(number("job")?),
            Some("compaction_finished") => {
                let level = usize::try_from(number("output_level")?)?;
                *written.entry(level).or_default() += number("total_output_size")?;
            }
            Some("table_file_creation") => created.push((number("job")?, number("file_size")?)),
            _ => {}
        }
    }
    for (_, bytes) in created.iter().filter(|(job, _)| !compactions.contains(job)) {
        *written.entry(0).or_default() += bytes;
    }
    Ok(written)
}

/// Combines the contents of each level with the number of bytes written to it.
pub fn joined(tables: &Tables, written: &Written) -> Vec<Level> {
    let levels: BTreeSet<usize> = tables.keys().chain(written.keys()).copied().collect();
    let level = |level: usize| {
        let (tables, bytes) = tables.get(&level).copied().unwrap_or_default();
        let written_bytes = Some(written.get(&level).copied().unwrap_or_default());
        Level { level, tables, bytes, written_bytes, blocks: None }
    };
    levels.into_iter().map(level).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leveldb_lists_its_tables_by_level() {
        let text = "--- level 0 ---\n 12:100['0' @ 5 : 1 .. '9' @ 7 : 1]\n \
                    13:20['[1:2[' @ 8 : 1 .. '9' @ 9 : 1]\n--- level 1 ---\n--- level 2 ---\n \
                    7:3000['a' @ 1 : 1 .. 'b' @ 2 : 1]\n";
        let tables = leveldb_tables(text).unwrap();
        assert_eq!(tables, Tables::from([(0, (2, 120)), (2, (1, 3000))]));
        assert!(leveldb_tables("12:100['0' .. '9']").is_err(), "a table without a level");
        assert!(leveldb_tables("--- level 0 ---\nnothing").is_err());
    }

    #[test]
    fn leveldb_tells_the_written_bytes_in_mib() {
        let text = "                               Compactions\n\
                    Level  Files Size(MB) Time(sec) Read(MB) Write(MB)\n\
                    --------------------------------------------------\n  \
                    0        2        5         1        0       59\n  \
                    2       40       75         3      148      141\n";
        let written = leveldb_written(text).unwrap();
        assert_eq!(written, Written::from([(0, 59 * MIB), (2, 141 * MIB)]));
        assert!(leveldb_written("").is_err());
        assert!(leveldb_written("---\n 0 1 2").is_err());
    }

    #[test]
    fn rocksdb_logs_flushes_and_compactions() {
        let text = r#"
0.1 1 [db/db_impl.cc:1] Compaction: {"event": "no event"}
0.1 1 EVENT_LOG_v1 {"job": 2, "event": "flush_started", "num_entries": 9}
EVENT_LOG_v1 {"job": 2, "event": "table_file_creation", "file_size": 70}
EVENT_LOG_v1 {"job": 3, "event": "compaction_started", "files_L0": [7]}
EVENT_LOG_v1 {"job": 4, "event": "table_file_creation", "file_size": 5}
EVENT_LOG_v1 {"job": 3, "event": "table_file_creation", "file_size": 64}
EVENT_LOG_v1 {"job": 3, "event": "compaction_finished", "output_level": 6, "total_output_size": 64}
"#;
        assert_eq!(rocksdb_written(text).unwrap(), Written::from([(0, 75), (6, 64)]));
        assert!(rocksdb_written(r#"EVENT_LOG_v1 {"event": "compaction_started"}"#).is_err());
    }

    #[test]
    fn a_level_may_be_empty_or_never_written_by_a_merge() {
        let tables = Tables::from([(0, (2, 120)), (2, (1, 3000))]);
        let levels = joined(&tables, &Written::from([(0, 500), (1, 70)]));
        let found: Vec<_> =
            levels.iter().map(|l| (l.level, l.tables, l.bytes, l.written_bytes)).collect();
        assert_eq!(found, [(0, 2, 120, Some(500)), (1, 0, 0, Some(70)), (2, 1, 3000, Some(0))]);
    }
}
