//! `minikv stats`

use std::path::Path;

use minikv::ReadOnlyDb;
use minikv::format::name::FileName;
use serde_json::{Value, json};

use super::{count, size, thousands};
use crate::args::Global;
use crate::error::{CliError, Result};
use crate::output::{Stdout, Table};

/// Print what the database is made of
///
/// Read without taking the lock: a moment's view, if another process writes meanwhile.
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
    fn levels(&self) -> Vec<Files> {
        let levels = self.db.stats().levels.into_iter();
        levels.map(|level| Files { files: level.files, bytes: level.bytes }).collect()
    }

    fn all(&self) -> Files {
        self.levels().into_iter().fold(Files::default(), |sum, level| Files {
            files: sum.files + level.files,
            bytes: sum.bytes.saturating_add(level.bytes),
        })
    }

    fn text(&self) -> String {
        let mut table = Table::new(["level", "tables", "bytes"]);
        for (level, Files { files, bytes }) in self.levels().into_iter().enumerate() {
            if files > 0 {
                table.row([&format!("L{level}"), &thousands(files), &size(bytes)]);
            }
        }
        let all = self.all();
        table.row(["all", &thousands(all.files), &size(all.bytes)]);
        let replayed = self.db.recovery().records;
        format!(
            "{table}\n\n{}, {}: {} not in a table yet, {} in memory\n\
             A moment's view: read without the lock.",
            count(self.logs.files, "log", "logs"),
            size(self.logs.bytes),
            count(replayed, "batch", "batches"),
            size(self.db.stats().memtable_bytes),
        )
    }

    fn json(&self, dir: &Path) -> Value {
        let levels = self.levels().into_iter().enumerate().map(
            |(level, files)| json!({"level": level, "files": files.files, "bytes": files.bytes}),
        );
        let all = self.all();
        json!({
            "db": dir.display().to_string(),
            "levels": levels.collect::<Value>(),
            "files": all.files,
            "bytes": all.bytes,
            "logs": {
                "files": self.logs.files,
                "bytes": self.logs.bytes,
                "batches": self.db.recovery().records,
            },
            "memtable_bytes": self.db.stats().memtable_bytes,
        })
    }
}
