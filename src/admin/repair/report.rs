//! What a repair did, or would do.

use std::path::PathBuf;

use crate::base::error::Corruption;
use crate::engine::open::LostLog;

/// How [`repair`](crate::repair) goes about it.
#[derive(Clone, Copy, Debug, Default)]
pub struct RepairOptions {
    pub(super) dry_run: bool,
}

impl RepairOptions {
    /// Changes nothing, and reports what would be done. Default: false.
    #[must_use]
    pub fn dry_run(mut self, yes: bool) -> RepairOptions {
        self.dry_run = yes;
        self
    }
}

/// What [`repair`](crate::repair) found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairReport {
    /// Whether nothing was changed because nothing was to be.
    pub dry_run: bool,
    /// Whether there was no fault: then nothing was done.
    pub healthy: bool,
    /// What is wrong. Beyond ten thousand faults they are only counted.
    pub faults: Vec<Corruption>,
    /// The number of faults.
    pub fault_count: u64,
    /// The MANIFEST that was gone by.
    pub manifest: Option<PathBuf>,
    /// Why it could not be trusted to say how the database was last, if it could not.
    pub manifest_distrusted: Option<String>,
    /// Tables that stay as they are.
    pub tables_kept: u64,
    /// Tables that do not.
    pub tables: Vec<TableRepair>,
    /// Tables that were written anew.
    pub new_tables: Vec<NewTable>,
    /// What could not be saved from tables. For keys in these ranges a newer version may be lost,
    /// and an older one show in its place; a key deleted there may be back.
    pub lost: Vec<LostRange>,
    /// Logs of which something was left out.
    pub lost_logs: Vec<LostLog>,
    /// Files put aside into `lost/`.
    pub quarantined: Vec<Quarantined>,
    /// What else there is to know.
    pub notes: Vec<String>,
}

/// What became of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableRepair {
    /// The table.
    pub path: PathBuf,
    /// The level it was at, if the MANIFEST says so.
    pub level: Option<usize>,
    /// What was done.
    pub outcome: TableOutcome,
    /// The entries in its sound blocks.
    pub entries: u64,
}

/// What became of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TableOutcome {
    /// Its sound blocks are in a new table, at the level it was at.
    Rewritten,
    /// It has a new number, to stay above a table that was written anew.
    Renumbered,
    /// No MANIFEST named it: it got a level.
    Placed,
    /// It was merged with others, by sequence number.
    Merged,
    /// It is gone, or nothing in it is sound.
    Lost,
}

impl TableOutcome {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            TableOutcome::Rewritten => "rewritten",
            TableOutcome::Renumbered => "renumbered",
            TableOutcome::Placed => "placed",
            TableOutcome::Merged => "merged",
            TableOutcome::Lost => "lost",
        }
    }
}

/// A table that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewTable {
    /// The table.
    pub path: PathBuf,
    /// Its level.
    pub level: usize,
    /// Its size.
    pub file_bytes: u64,
}

/// A part of a table, or all of it, whose entries are lost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostRange {
    /// The table.
    pub path: PathBuf,
    /// Where what is lost begins, in bytes.
    pub offset: u64,
    /// How much it is, in bytes as stored.
    pub bytes: u64,
    /// No key before this one is lost; `None`: nothing tells.
    pub from: Option<Vec<u8>>,
    /// No key after this one is lost; `None`: nothing tells.
    pub to: Option<Vec<u8>>,
}

/// A file that was put aside.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quarantined {
    /// Where it was.
    pub path: PathBuf,
    /// Where it is now.
    pub kept: PathBuf,
    /// Why.
    pub why: String,
}
