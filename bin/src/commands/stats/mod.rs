//! `minikv stats`

mod prefixes;

use std::cmp::Ordering;
use std::path::Path;

use minikv::files::{FileName, NewFile, ParsedKey, list_files};
use minikv::fs::{DiskFs, Fs};
use serde::Serialize;

use self::prefixes::Prefixes;
use super::{count, size, thousands};
use crate::args::{Dir, Global};
use crate::codec::JsonBytes;
use crate::error::Result;
use crate::files::Survey;
use crate::output::{Stdout, Table};
use crate::style::shortened;
use crate::writer::Writer;

const SHOWN_KEY_CHARS: usize = 24;

/// Print the database's tables and logs
///
/// Lists the tables by level, and the logs whose batches are not in tables yet. Reads the MANIFEST
/// and the logs, and neither opens nor locks the database. With --prometheus, opens the database
/// read-only and prints the metrics of this read-only instance, including the metrics of expired
/// tables.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub(super) dir: Dir,
    /// List every table with its first and last key
    #[arg(long)]
    tables: bool,
    /// Print JSON, which always lists every table
    #[arg(long)]
    json: bool,
    /// Print metrics in Prometheus's text format
    #[arg(long, conflicts_with_all = ["tables", "json"])]
    prometheus: bool,
    /// Read every entry, and sum them up by the prefixes of their keys
    ///
    /// Prints the number of entries with each prefix and the sizes of their keys and values, which
    /// do not include compression, and the largest keys and values of all.
    #[arg(long, conflicts_with_all = ["tables", "prometheus"])]
    by_prefix: bool,
    #[command(flatten)]
    prefixes: Prefixes,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    if args.prometheus {
        return print_metrics(global);
    }
    if args.by_prefix {
        return args.prefixes.run(global, args.json);
    }
    let dir = global.db()?;
    let any_order = global.ignores_comparator();
    let order = if any_order { None } else { Some(global.comparator(&dir)?) };
    let mut survey = Survey::of(&dir, any_order)?;
    if let Some(order) = order {
        // Tables of level 0 stay in the order of their file numbers, that is, from oldest to
        // newest.
        survey.tables.sort_by(|a, b| {
            let by_key = || order.compare(user_key(&a.smallest), user_key(&b.smallest));
            a.level.cmp(&b.level).then_with(|| if a.level > 0 { by_key() } else { Ordering::Equal })
        });
    }
    let writer = Writer::of(&dir);
    survey.say_damage();
    let mut stdout = Stdout::open()?;
    if args.json {
        stdout.json(&StatsDocument::new(&survey, &dir, writer))?;
    } else {
        stdout.line(text(&survey, args.tables))?;
    }
    stdout.finish()?;
    if let Some(writer) = writer {
        writer.say(&dir);
    }
    Ok(())
}

/// Opens the database read-only and prints its metrics, for a scraper that reads a file or a pipe.
fn print_metrics(global: &Global) -> Result<()> {
    let stats = match &global.shared {
        Some(shared) => shared.stats(|| super::open_read_only(global))?,
        None => super::open_read_only(global)?.stats(),
    };
    let name = global.db()?.display().to_string();
    let mut stdout = Stdout::open()?;
    stdout.line(stats.prometheus(&[("db", &name)]).trim_end())?;
    stdout.finish()
}

/// Number and total size of files.
#[derive(Clone, Copy, Default, Serialize)]
pub struct Files {
    pub files: u64,
    pub bytes: u64,
}

impl Files {
    /// Returns the number and total size of the logs in `dir`.
    pub fn logs(dir: &Path) -> Result<Files> {
        let mut logs = Files::default();
        for (file, name) in list_files(&DiskFs, dir)? {
            // A writer may have removed the log since it was listed.
            if let (FileName::Log(_), Ok(bytes)) = (name, DiskFs.len(&dir.join(file))) {
                logs.add(bytes);
            }
        }
        Ok(logs)
    }

    fn add(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

impl Survey {
    /// Returns the number and total size of the tables of each level that has tables.
    fn levels(&self) -> Vec<(usize, Files)> {
        let mut levels: Vec<(usize, Files)> = Vec::new();
        for table in &self.tables {
            match levels.last_mut() {
                Some((level, files)) if *level == table.level => files.add(table.file_bytes),
                _ => levels.push((table.level, Files { files: 1, bytes: table.file_bytes })),
            }
        }
        levels
    }

    fn all(&self) -> Files {
        let mut all = Files::default();
        self.tables.iter().for_each(|table| all.add(table.file_bytes));
        all
    }

    fn logs(&self) -> (Files, u64) {
        let mut logs = Files::default();
        self.logs.iter().for_each(|log| logs.add(log.bytes));
        (logs, self.logs.iter().map(|log| log.batches).sum())
    }
}

fn text(survey: &Survey, with_tables: bool) -> String {
    let mut levels = Table::new(["level", "tables", "bytes"]);
    for (level, Files { files, bytes }) in survey.levels() {
        levels.row([&format!("L{level}"), &thousands(files), &size(bytes)]);
    }
    let all = survey.all();
    levels.row(["all", &thousands(all.files), &size(all.bytes)]);
    let mut parts = vec![levels.to_string()];
    if with_tables && !survey.tables.is_empty() {
        parts.push(table_list(&survey.tables));
    }
    let (logs, batches) = survey.logs();
    parts.push(format!(
        "{}, {}: {} not in a table yet",
        count(logs.files, "log", "logs"),
        size(logs.bytes),
        count(batches, "batch", "batches"),
    ));
    parts.join("\n\n")
}

/// Returns a line for each table. Keys are left-aligned, which a [`Table`] cannot do.
fn table_list(tables: &[NewFile]) -> String {
    let mut columns = Table::new(["table", "level", "bytes"]);
    for table in tables {
        let number = format!("{:06}", table.number);
        columns.row([&number, &format!("L{}", table.level), &size(table.file_bytes)]);
    }
    let keys = ["keys".to_string()].into_iter().chain(tables.iter().map(keys_of));
    let columns = columns.to_string();
    let lines = columns.lines().zip(keys).map(|(line, keys)| format!("{line}   {keys}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the first and last key of a table, as `"first" .. "last"`. Long keys are shortened.
fn keys_of(table: &NewFile) -> String {
    let show = |key: &[u8]| format!("\"{}\"", shortened(user_key(key), SHOWN_KEY_CHARS));
    format!("{} .. {}", show(&table.smallest), show(&table.largest))
}

fn user_key(key: &[u8]) -> &[u8] {
    ParsedKey::parse(key).map_or(key, |key| key.user_key)
}

/// The survey as JSON.
#[derive(Serialize)]
struct StatsDocument<'a> {
    db: String,
    levels: Vec<LevelFiles>,
    files: u64,
    bytes: u64,
    tables: Vec<TableFile<'a>>,
    logs: Logs,
    /// Another process that has the database open for writing.
    writer: Option<Writer>,
}

#[derive(Serialize)]
struct LevelFiles {
    level: usize,
    #[serde(flatten)]
    files: Files,
}

#[derive(Serialize)]
struct TableFile<'a> {
    number: u64,
    level: usize,
    bytes: u64,
    from: JsonBytes<'a>,
    to: JsonBytes<'a>,
}

#[derive(Serialize)]
struct Logs {
    #[serde(flatten)]
    files: Files,
    batches: u64,
}

impl<'a> StatsDocument<'a> {
    fn new(survey: &'a Survey, dir: &Path, writer: Option<Writer>) -> StatsDocument<'a> {
        let levels = survey.levels().into_iter();
        let tables = survey.tables.iter().map(|table| TableFile {
            number: table.number,
            level: table.level,
            bytes: table.file_bytes,
            from: JsonBytes(user_key(&table.smallest)),
            to: JsonBytes(user_key(&table.largest)),
        });
        let Files { files, bytes } = survey.all();
        let (logs, batches) = survey.logs();
        StatsDocument {
            db: dir.display().to_string(),
            levels: levels.map(|(level, files)| LevelFiles { level, files }).collect(),
            files,
            bytes,
            tables: tables.collect(),
            logs: Logs { files: logs, batches },
            writer,
        }
    }
}
