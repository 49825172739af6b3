//! Transcripts of whole databases: what each call reads, writes and counts, and what it leaves in
//! the directory.
//!
//! The databases are in a simulated filesystem and start no threads, so that all numbers are the
//! same in every run and on every machine.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::base::transcript::{self, Command, number};
use crate::engine::options::Filters;
use crate::filter::prefix::FixedPrefix;
use crate::format::compress::Compression;
use crate::fs::Fs;
use crate::fs::sim::{OpKind, SimFs};
use crate::{Cursor, Db, Options, Readable, Result, Snapshot, Stats, WriteBatch, WriteOptions};

/// Number of operations and number of bytes for each kind of file and each kind of operation.
type Operations = BTreeMap<(String, OpKind), (u64, u64)>;

struct Machine {
    fs: SimFs,
    operations: Arc<Mutex<Operations>>,
    db: Option<Db>,
    snapshot: Option<Snapshot>,
    cursor: Option<Cursor>,
    counted: BTreeMap<String, u64>,
}

impl Machine {
    fn new() -> Machine {
        let fs = SimFs::new(1);
        let operations = Arc::new(Mutex::new(Operations::new()));
        let seen = operations.clone();
        fs.set_hook(move |operation| {
            let mut seen = seen.lock().unwrap();
            let count = seen.entry((kind_of(operation.path), operation.kind)).or_default();
            *count = (count.0 + 1, count.1 + operation.bytes);
        });
        let (db, snapshot, cursor, counted) = (None, None, None, BTreeMap::new());
        Machine { fs, operations, db, snapshot, cursor, counted }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("open comes first")
    }

    /// Runs a command. Returns the output of the command, the counters that have changed, and the
    /// filesystem operations that were done.
    fn answer(&mut self, command: &Command<'_>) -> String {
        self.operations.lock().unwrap().clear();
        let answer = match self.run(command) {
            Ok(answer) => answer,
            Err(error) => error.to_string(),
        };
        let operations = std::mem::take(&mut *self.operations.lock().unwrap());
        let parts = [answer, self.counters(), show(operations)];
        let parts: Vec<&str> = parts.iter().map(|part| part.trim_end()).collect();
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
    }

    fn run(&mut self, command: &Command<'_>) -> Result<String> {
        match command.name {
            "open" => {
                self.counted.clear();
                let options = options(command).fs(self.fs.clone());
                self.db = Some(Db::open("/db", options)?);
                let recovery = self.db().recovery();
                return Ok(format!("{} records in {} logs", recovery.records, recovery.logs));
            }
            "close" => {
                (self.cursor, self.snapshot) = (None, None);
                self.db.take().expect("open comes first").close()?;
            }
            "fill" => self.fill(command)?,
            "put" => self.db().put(command.args[0], command.args[1])?,
            "delete" => self.db().delete(command.args[0])?,
            "sync" => self.db().sync()?,
            "flush" => self.db().flush()?,
            "wait" => self.db().wait_idle()?,
            "compact" => self.db().compact_range(range(command))?,
            "checkpoint" => self.db().checkpoint(command.args[0])?,
            "snapshot" => self.snapshot = Some(self.db().snapshot()),
            "release" => (self.cursor, self.snapshot) = (None, None),
            "files" => return Ok(self.files(command.args.first().unwrap_or(&"/db"))),
            "levels" => return Ok(self.levels()),
            "size" => return Ok(self.db().approximate_size(range(command))?.to_string()),
            _ => return self.read(command),
        }
        Ok(String::new())
    }

    /// Puts one entry for each number in `from..to`, in steps of `step`; with `deleted`, deletes
    /// these keys instead. The factor `by` permutes the order of the keys. With `wait`, waits for
    /// background work after each key.
    fn fill(&self, command: &Command<'_>) -> Result<()> {
        let [from, to, step] = [("from", 0), ("to", 100), ("step", 1)]
            .map(|(name, default)| command.number(name, default));
        let (by, bytes) = (command.number("by", 1), command.number("bytes", 20));
        let numbers: Vec<u64> = (from..to).step_by(step as usize).collect();
        let db = &self.db().writing(WriteOptions::default().sync(command.args.contains(&"sync")));
        let mut batch = WriteBatch::new();
        for i in 0..numbers.len() as u64 {
            let number = numbers[(i * by % numbers.len() as u64) as usize];
            let (key, value) = (format!("key{number:06}"), value(number, bytes));
            match command.args.contains(&"deleted") {
                true => batch.delete(key),
                false => batch.put(key, value),
            }
            if batch.len() as u64 == command.number("batch", 1) || i + 1 == numbers.len() as u64 {
                db.write(std::mem::take(&mut batch))?;
            }
            if command.args.contains(&"wait") {
                self.db().wait_idle()?;
            }
        }
        Ok(())
    }

    fn read(&mut self, command: &Command<'_>) -> Result<String> {
        let mut options = crate::ReadOptions::default();
        options = options.use_filter(!command.args.contains(&"unfiltered"));
        options = options.fill_cache(!command.args.contains(&"uncached"));
        let reader = match &self.snapshot {
            Some(snapshot) => snapshot.reading(options),
            None => self.db().reading(options),
        };
        let mut found = 0;
        match command.name {
            "get" => {
                let [from, to, step] = [("from", 0), ("to", 0), ("step", 1)]
                    .map(|(name, default)| command.number(name, default));
                for number in (from..to).step_by(step as usize) {
                    let key = format!("key{number:06}{}", command.arg("then").unwrap_or(""));
                    found += u64::from(reader.get(key)?.is_some());
                }
            }
            "scan" | "back" => {
                let iter = reader.range(range(command));
                let items: Vec<_> = match command.name {
                    "scan" => iter.collect::<Result<_>>()?,
                    _ => iter.rev().collect::<Result<_>>()?,
                };
                found = items.len() as u64;
            }
            "prefix" => {
                for item in reader.prefix(command.args[0])? {
                    item?;
                    found += 1;
                }
            }
            "cursor" => self.cursor = Some(reader.cursor()?),
            _ => return self.step(command),
        }
        Ok(format!("{found} found"))
    }

    /// Moves the cursor once, or the number of times given by the command's argument.
    fn step(&mut self, command: &Command<'_>) -> Result<String> {
        let cursor = self.cursor.as_mut().expect("cursor comes first");
        let times = command.args.first().map_or(1, |text| text.parse().unwrap_or(1));
        let mut valid = cursor.valid();
        for _ in 0..times {
            valid = match command.name {
                "next" => cursor.next()?,
                "prev" => cursor.prev()?,
                "first" => cursor.seek_to_first()?,
                "last" => cursor.seek_to_last()?,
                "seek" => cursor.seek(command.args[0])?,
                "seek_for_prev" => cursor.seek_for_prev(command.args[0])?,
                _ => command.unknown(),
            };
        }
        Ok(if valid { format!("{}", cursor.key().escape_ascii()) } else { "no entry".to_owned() })
    }

    /// Returns the files of a directory by kind, with their total length and a checksum of their
    /// names and bytes.
    fn files(&self, dir: &str) -> String {
        let mut names = self.fs.list(Path::new(dir)).expect("a directory");
        names.sort();
        let mut kinds: BTreeMap<String, (u64, u64, u32)> = BTreeMap::new();
        for name in names {
            let path = PathBuf::from(dir).join(&name);
            let file = self.fs.open(&path).expect("a file");
            let mut bytes = vec![0; file.len().expect("a length") as usize];
            file.read_at(&mut bytes, 0).expect("bytes");
            let kind = kinds.entry(kind_of(&path)).or_default();
            let checksum = crc32c::crc32c_append(kind.2, name.as_bytes());
            let checksum = crc32c::crc32c_append(checksum, &bytes);
            *kind = (kind.0 + 1, kind.1 + bytes.len() as u64, checksum);
        }
        self.operations.lock().unwrap().clear();
        let mut text = String::new();
        for (kind, (files, bytes, checksum)) in kinds {
            let _ = writeln!(text, "{kind}: {files} files, {bytes} bytes, checksum {checksum:08x}");
        }
        text
    }

    /// Returns the number of tables, the first table and the last table of each level.
    fn levels(&self) -> String {
        let text = self.db().property("leveldb.sstables").expect("a property");
        let mut lines = Vec::new();
        for level in text.split("--- level ").skip(1) {
            let tables: Vec<&str> = level.lines().skip(1).map(str::trim).collect();
            if let [first, .., last] = tables[..] {
                lines.push(format!("L{}: {}, {first} to {last}", &level[..1], tables.len()));
            } else if let [only] = tables[..] {
                lines.push(format!("L{}: {only}", &level[..1]));
            }
        }
        lines.join("\n")
    }

    /// Returns the changes of the counters since the last call.
    fn counters(&mut self) -> String {
        let Some(db) = &self.db else { return String::new() };
        let now: BTreeMap<String, u64> = counters(&db.stats()).into_iter().collect();
        let mut changes = Vec::new();
        for (name, value) in &now {
            match value.wrapping_sub(*self.counted.get(name).unwrap_or(&0)) as i64 {
                0 => {}
                change => changes.push(format!("{name} {change:+}")),
            }
        }
        self.counted = now;
        changes.join(", ")
    }
}

/// Returns the kind of a file by its name.
fn kind_of(path: &Path) -> String {
    let Some(name) = path.file_name() else { return "/".to_owned() };
    let name = name.to_string_lossy();
    match name.rsplit_once('.') {
        Some((_, extension)) => extension.to_owned(),
        None => name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-').to_owned(),
    }
}

/// Returns the operations as text, with one line for each kind of file.
fn show(operations: Operations) -> String {
    let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for ((file, kind), (count, bytes)) in operations {
        let bytes = if bytes > 0 { format!(" ({bytes} bytes)") } else { String::new() };
        lines.entry(file).or_default().push(format!("{kind:?} {count}{bytes}"));
    }
    let line = |(file, parts): (String, Vec<String>)| format!("{file}: {}\n", parts.join(", "));
    lines.into_iter().map(line).collect()
}

/// Returns a value that compresses a little.
fn value(number: u64, bytes: u64) -> Vec<u8> {
    let mut rng = crate::base::random::Rng::new(number);
    (0..bytes).map(|i| if i % 2 == 0 { b'v' } else { rng.below(256) as u8 }).collect()
}

/// Returns the half-open key range given by the arguments `from` and `to`.
fn range<'a>(command: &Command<'a>) -> (Bound<&'a str>, Bound<&'a str>) {
    let from = command.arg("from").map_or(Bound::Unbounded, Bound::Included);
    (from, command.arg("to").map_or(Bound::Unbounded, Bound::Excluded))
}

fn options(command: &Command<'_>) -> Options {
    let mut options = Options::default().create_if_missing(true).inline_background(Some(7));
    for arg in &command.args {
        let (name, value) = arg.split_once('=').unwrap_or((arg, "1"));
        options = match name {
            "buffer" => options.write_buffer_bytes(number(value) as usize),
            "table" => options.max_file_bytes(number(value)),
            "block" => options.block_bytes(number(value) as usize),
            "restarts" => options.block_restart_interval(number(value) as usize),
            "cache" => options.block_cache_bytes(number(value) as usize),
            "manifest" => options.manifest_rotate_bytes(number(value)),
            "open_files" => options.max_open_files(number(value) as usize),
            "filter" => options.filters(Filters::Block(number(value) as u32)),
            "table_filter" => options.filters(Filters::Table(number(value) as u32)),
            "both_filters" => options.filters(Filters::Both(number(value) as u32)),
            "prefix" => options.filter_prefix(FixedPrefix::new(number(value) as usize)),
            "plain" => options.compression(Compression::None),
            "reuse_logs" => options.reuse_logs(true),
            "plain_logs" => options.preallocate_logs(false),
            _ => panic!("no option is called {name:?}"),
        };
    }
    options
}

/// Returns all counters in the statistics, except those that depend on time.
fn counters(stats: &Stats) -> Vec<(String, u64)> {
    let mut all: Vec<(String, u64)> = [
        ("gets", stats.gets),
        ("gets_found", stats.gets_found),
        ("operations", stats.operations),
        ("groups", stats.commit_groups),
        ("user_bytes", stats.user_bytes),
        ("wal_bytes", stats.wal_bytes),
        ("wal_syncs", stats.wal_syncs),
        ("flushes", stats.flushes),
        ("flush_bytes", stats.flush_bytes),
        ("stalls", stats.stalls.count()),
        ("memtable_bytes", stats.memtable_bytes),
        ("block_cache_bytes", stats.block_cache_bytes),
        ("open_tables", stats.open_tables),
        ("pinned_bytes", stats.pinned_bytes),
        ("snapshots", stats.snapshots),
        ("memtables_probed", stats.reads.memtables_probed),
        ("memtable_hits", stats.reads.memtable_hits),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    let reads = stats.reads.total().counters();
    all.extend(reads.into_iter().map(|(name, value)| (name.to_owned(), value)));
    for (at, level) in stats.levels.iter().enumerate() {
        let figures = [
            ("files", level.files),
            ("bytes", level.bytes),
            ("compactions", level.compactions),
            ("moves", level.moves),
            ("bytes_read", level.bytes_read),
            ("bytes_written", level.bytes_written),
            ("entries_dropped", level.entries_dropped),
            ("blocks_searched", stats.reads.levels[at].data_blocks()),
        ];
        all.extend(figures.map(|(name, value)| (format!("L{at}.{name}"), value)));
    }
    all
}

#[test]
fn a_small_database_grows() {
    let mut machine = Machine::new();
    transcript::run("db_growth", |command| machine.answer(command));
}

#[test]
fn pieces_and_parts_of_compactions() {
    let mut machine = Machine::new();
    transcript::run("db_compactions", |command| machine.answer(command));
}

#[test]
fn tombstones_that_a_scan_crawls_over_are_compacted() {
    let mut machine = Machine::new();
    transcript::run("db_tombstones", |command| machine.answer(command));
}

#[test]
fn the_cost_of_reads_is_that_of_the_transcript() {
    let mut machine = Machine::new();
    transcript::run("db_reads", |command| machine.answer(command));
}
