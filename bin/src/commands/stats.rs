//! `minikv stats`

use std::path::Path;

use minikv::ReadOnlyDb;
use minikv::base::stats::LevelTrace;
use minikv::engine::property::{LevelStats, Stats};
use minikv::format::name::FileName;
use serde_json::{Value, json};

use super::{count, explain, size, thousands};
use crate::args::Global;
use crate::error::{CliError, Result};
use crate::output::{Stdout, Table};

/// Print what the database is made of, and what was counted
///
/// Read without taking the lock: a moment's view, if another process writes meanwhile. Counters of
/// reads, writes, compactions and stalls are those of this process; the text leaves out what is
/// all zeros, the JSON has everything.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let dir = global.db()?;
    let view = View { db: super::open_read_only(global)?, logs: Files::logs(&dir)? };
    let mut stdout = Stdout::open()?;
    if args.json {
        stdout.line(view.json(&dir).to_string())?;
    } else {
        stdout.line(view.text())?;
    }
    stdout.finish()
}

/// A number of files, and their bytes.
#[derive(Default)]
pub struct Files {
    pub files: u64,
    pub bytes: u64,
}

impl Files {
    /// The logs in `dir`.
    pub fn logs(dir: &Path) -> Result<Files> {
        let failed = |error| CliError::io("read", dir, error);
        let mut logs = Files::default();
        for entry in std::fs::read_dir(dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_str().and_then(FileName::parse);
            // A log that a writer removed since it was listed is not there any more.
            if let (Some(FileName::Log(_)), Ok(metadata)) = (name, entry.metadata()) {
                logs.files += 1;
                logs.bytes += metadata.len();
            }
        }
        Ok(logs)
    }
}

struct View {
    db: ReadOnlyDb,
    logs: Files,
}

impl View {
    fn text(&self) -> String {
        let replayed = self.db.recovery().records;
        format!(
            "{}\n\n{}, {}: {} not in a table yet\nA moment's view: read without the lock.",
            text(&self.db.stats()),
            count(self.logs.files, "log", "logs"),
            size(self.logs.bytes),
            count(replayed, "batch", "batches"),
        )
    }

    fn json(&self, dir: &Path) -> Value {
        let mut document = json(&self.db.stats());
        document["db"] = json!(dir.display().to_string());
        document["logs"] = json!({
            "files": self.logs.files,
            "bytes": self.logs.bytes,
            "batches": self.db.recovery().records,
        });
        document
    }
}

/// The tables of all levels together.
fn all(stats: &Stats) -> Files {
    stats.levels.iter().fold(Files::default(), |sum, level| Files {
        files: sum.files + level.files,
        bytes: sum.bytes.saturating_add(level.bytes),
    })
}

/// Everything that is not zero, for people.
pub fn text(stats: &Stats) -> String {
    let mut parts = vec![levels(stats)];
    if stats.levels.iter().any(|level| level.compactions + level.moves > 0) {
        parts.push(compactions(stats));
    }
    if stats.reads.total() != LevelTrace::default() {
        parts.push(reads(stats));
    }
    parts.push(lines(stats).join("\n"));
    parts.join("\n\n")
}

fn levels(stats: &Stats) -> String {
    let mut table = Table::new(["level", "tables", "bytes"]);
    for (level, LevelStats { files, bytes, .. }) in stats.levels.iter().enumerate() {
        if *files > 0 {
            table.row([&format!("L{level}"), &thousands(*files), &size(*bytes)]);
        }
    }
    let all = all(stats);
    table.row(["all", &thousands(all.files), &size(all.bytes)]);
    table.to_string()
}

fn compactions(stats: &Stats) -> String {
    let head = ["into", "compactions", "moved", "read", "written", "entries dropped", "time"];
    let mut table = Table::new(head);
    for (number, level) in stats.levels.iter().enumerate() {
        if level.compactions + level.moves > 0 {
            table.row([
                &format!("L{number}"),
                &thousands(level.compactions),
                &thousands(level.moves),
                &size(level.bytes_read),
                &size(level.bytes_written),
                &thousands(level.entries_dropped),
                &seconds(level.micros),
            ]);
        }
    }
    table.to_string()
}

/// What reads did, level by level.
fn reads(stats: &Stats) -> String {
    let mut table =
        Table::new(["reads", "tables", "filters", "filters", "", "index", "blocks", ""]);
    let head = ["of", "asked", "asked", "said no", "wrong", "seeks", "cached", "from files"];
    table.row(head);
    let mut row = |name: &str, level: &LevelTrace| {
        if *level != LevelTrace::default() {
            table.row([
                name,
                &thousands(level.tables_considered),
                &thousands(level.all_filter_checks()),
                &thousands(level.all_filter_negatives()),
                &thousands(level.all_filter_false_positives()),
                &thousands(level.index_seeks),
                &thousands(level.data_blocks_from_cache),
                &thousands(level.data_blocks_from_file),
            ]);
        }
    };
    for (level, counts) in stats.reads.levels.iter().enumerate() {
        row(&format!("L{level}"), counts);
    }
    row("all", &stats.reads.total());
    table.to_string()
}

fn lines(stats: &Stats) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = |name: &str, text: String| lines.push(format!("{name:<10}{text}"));
    if stats.gets > 0 {
        let (gets, found) = (thousands(stats.gets), thousands(stats.gets_found));
        let hits = thousands(stats.reads.memtable_hits);
        line("gets", format!("{gets}: {found} found, {hits} answered by memtables"));
    }
    if stats.operations > 0 {
        line(
            "writes",
            format!(
                "{} in {}, {}; log {}, {}",
                count(stats.operations, "operation", "operations"),
                count(stats.commit_groups, "group", "groups"),
                size(stats.user_bytes),
                size(stats.wal_bytes),
                count(stats.wal_syncs, "sync", "syncs"),
            ),
        );
    }
    if stats.flushes > 0 {
        let (bytes, time) = (size(stats.flush_bytes), seconds(stats.flush_micros));
        line("flushes", format!("{}, {bytes}, {time}", thousands(stats.flushes)));
    }
    for (name, (number, micros)) in stalls(stats) {
        if number > 0 {
            let times = count(number, "write", "writes");
            line("stalls", format!("{times} waited for {name}, {}", seconds(micros)));
        }
    }
    let (hits, misses) = (stats.block_cache_hits, stats.block_cache_misses);
    if hits + misses > 0 {
        let rate = hits as f64 / (hits + misses) as f64 * 100.0;
        let (bytes, hits, misses) =
            (size(stats.block_cache_bytes), thousands(hits), thousands(misses));
        line("cache", format!("{bytes} of blocks; {hits} hits, {misses} misses: {rate:.1} %"));
    }
    line(
        "memory",
        format!(
            "{} of memtables, {} of indexes and filters of {}",
            size(stats.memtable_bytes),
            size(stats.pinned_bytes),
            count(stats.open_tables, "open table", "open tables"),
        ),
    );
    lines
}

fn stalls(stats: &Stats) -> [(&'static str, (u64, u64)); 3] {
    let stalls = &stats.stalls;
    [
        ("a flush", stalls.flush),
        ("level 0", stalls.level0),
        ("level 0, which grows", stalls.slowdown),
    ]
}

fn seconds(micros: u64) -> String {
    format!("{:.3} s", micros as f64 / 1e6)
}

/// Every figure, for programs.
pub fn json(stats: &Stats) -> Value {
    let levels = stats.levels.iter().zip(&stats.reads.levels).enumerate();
    let levels = levels.map(|(number, (level, reads))| {
        json!({
            "level": number,
            "files": level.files,
            "bytes": level.bytes,
            "compactions": level.compactions,
            "moves": level.moves,
            "bytes_read": level.bytes_read,
            "bytes_written": level.bytes_written,
            "entries_dropped": level.entries_dropped,
            "micros": level.micros,
            "reads": explain::counters(reads),
        })
    });
    let all = all(stats);
    let stall = |(count, micros): (u64, u64)| json!({"count": count, "micros": micros});
    let mut reads = explain::counters(&stats.reads.total());
    reads.insert("gets".to_string(), json!(stats.gets));
    reads.insert("gets_found".to_string(), json!(stats.gets_found));
    reads.insert("memtables_probed".to_string(), json!(stats.reads.memtables_probed));
    reads.insert("memtable_hits".to_string(), json!(stats.reads.memtable_hits));
    json!({
        "levels": levels.collect::<Value>(),
        "files": all.files,
        "bytes": all.bytes,
        "reads": reads,
        "writes": {
            "operations": stats.operations,
            "commit_groups": stats.commit_groups,
            "user_bytes": stats.user_bytes,
            "wal_bytes": stats.wal_bytes,
            "wal_syncs": stats.wal_syncs,
        },
        "flushes": {
            "count": stats.flushes,
            "bytes": stats.flush_bytes,
            "micros": stats.flush_micros,
        },
        "stalls": {
            "flush": stall(stats.stalls.flush),
            "level0": stall(stats.stalls.level0),
            "slowdown": stall(stats.stalls.slowdown),
        },
        "block_cache": {
            "bytes": stats.block_cache_bytes,
            "hits": stats.block_cache_hits,
            "misses": stats.block_cache_misses,
        },
        "memtable_bytes": stats.memtable_bytes,
        "open_tables": stats.open_tables,
        "pinned_bytes": stats.pinned_bytes,
        "snapshots": stats.snapshots,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use minikv::{Db, Options};

    /// A database that was written to, flushed, compacted and read.
    fn used() -> Stats {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), Options::default().create_if_missing(true)).unwrap();
        for i in 0..2000 {
            db.put(format!("key{i:04}"), "value").unwrap();
        }
        db.flush().unwrap();
        db.delete("key0000").unwrap();
        db.compact_range::<&str>(..).unwrap();
        for i in 0..100 {
            db.get(format!("key{:04}", i * 30)).unwrap();
        }
        db.stats()
    }

    #[test]
    fn the_tables_have_the_figures_and_fit_100_columns() {
        let stats = used();
        let text = text(&stats);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        for words in ["100: 66 found", "2,001 operations", "compactions", "flushes   2", "misses"] {
            assert!(text.contains(words), "{words:?} is not in\n{text}");
        }
        let total = stats.reads.total();
        let last = text.lines().find(|line| line.starts_with("all") && line.contains("66"));
        let cells: Vec<_> = last.unwrap().split_whitespace().collect();
        assert_eq!(cells[1], total.tables_considered.to_string());
        assert_eq!(cells[6], total.data_blocks_from_cache.to_string());
    }

    #[test]
    fn the_levels_of_the_json_add_up() {
        let stats = used();
        let document = json(&stats);
        let levels = document["levels"].as_array().unwrap();
        let counters = stats.reads.total().counters();
        assert!(counters.iter().any(|(_, count)| *count > 0));
        for (name, count) in counters {
            let sum: u64 = levels.iter().map(|level| level["reads"][name].as_u64().unwrap()).sum();
            assert_eq!(sum, count, "{name}");
            assert_eq!(document["reads"][name], count, "{name}");
        }
        assert_eq!(
            (&document["reads"]["gets"], &document["flushes"]["count"]),
            (&json!(100), &json!(2))
        );
    }
}
