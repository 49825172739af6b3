//! The report of what a repair did, or of what it would do.

use std::path::PathBuf;

use crate::base::error::Corruption;
use crate::engine::report::recovery::LostLog;

/// Options of [`repair`](crate::repair()).
#[derive(Clone, Copy, Debug, Default)]
pub struct RepairOptions {
    pub(super) dry_run: bool,
}

impl RepairOptions {
    /// Sets whether the repair only reports what it would do, without changing anything. Default:
    /// false.
    #[must_use]
    pub fn dry_run(mut self, yes: bool) -> RepairOptions {
        self.dry_run = yes;
        self
    }
}

/// The report of [`repair`](crate::repair()).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RepairReport {
    /// Whether this was a dry run, which changes nothing.
    pub dry_run: bool,
    /// Whether there were no faults, in which case nothing was done.
    pub healthy: bool,
    /// The faults, up to ten thousand. Further faults are only counted.
    pub faults: Vec<Corruption>,
    /// Number of faults, including those that were only counted.
    pub fault_count: u64,
    /// The MANIFEST that was used.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::base::serialize::optional_path"))]
    pub manifest: Option<PathBuf>,
    /// Reason why the MANIFEST may not describe the latest state; `None` if it was trusted.
    pub manifest_distrusted: Option<String>,
    /// Number of tables kept unchanged.
    pub tables_kept: u64,
    /// The tables that were not kept unchanged, and what the repair did with them.
    pub tables: Vec<TableRepair>,
    /// Tables that were written.
    pub new_tables: Vec<NewTable>,
    /// Ranges of keys that could not be recovered from tables. In these ranges, the newest version
    /// of a key may be lost, so that an older version is visible, and a deleted key may be visible
    /// again.
    pub lost: Vec<LostRange>,
    /// Logs that could not be replayed completely.
    pub lost_logs: Vec<LostLog>,
    /// Files moved to `lost/`.
    #[cfg_attr(feature = "serde", serde(rename = "put_aside"))]
    pub quarantined: Vec<Quarantined>,
    /// Further remarks.
    pub notes: Vec<String>,
}

/// A table that the repair did not keep unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TableRepair {
    /// The path of the table.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "file", serialize_with = "crate::base::serialize::path")
    )]
    pub path: PathBuf,
    /// Level of the table, if the MANIFEST names it.
    pub level: Option<usize>,
    /// Treatment of the table by the repair.
    pub outcome: TableOutcome,
    /// Number of entries in the undamaged blocks of the table.
    pub entries: u64,
}

/// The treatment of a table by a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum TableOutcome {
    /// The undamaged blocks were written to a new table.
    Rewritten,
    /// The table got a new number, so that it remains newer than a table that was rewritten.
    Renumbered,
    /// The MANIFEST did not name the table, and the repair assigned it to a level.
    Placed,
    /// The table was merged with other tables by sequence number.
    Merged,
    /// The table is missing, or has no undamaged block.
    Lost,
}

impl TableOutcome {
    /// Returns the name of the outcome, in lower case.
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

/// A table that the repair wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct NewTable {
    /// The path of the table.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "file", serialize_with = "crate::base::serialize::path")
    )]
    pub path: PathBuf,
    /// Level of the table.
    pub level: usize,
    /// Size of the file, in bytes.
    #[cfg_attr(feature = "serde", serde(rename = "bytes"))]
    pub file_bytes: u64,
}

/// A part of a table, or a whole table, whose entries are lost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LostRange {
    /// The path of the table.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "file", serialize_with = "crate::base::serialize::path")
    )]
    pub path: PathBuf,
    /// Offset of the lost part in the file, in bytes.
    pub offset: u64,
    /// Length of the lost part as stored, in bytes.
    pub bytes: u64,
    /// Inclusive lower bound of the keys that may be lost; `None` if unknown.
    #[cfg_attr(
        feature = "serde",
        serde(serialize_with = "crate::base::serialize::optional_bytes")
    )]
    pub from: Option<Vec<u8>>,
    /// Inclusive upper bound of the keys that may be lost; `None` if unknown.
    #[cfg_attr(
        feature = "serde",
        serde(serialize_with = "crate::base::serialize::optional_bytes")
    )]
    pub to: Option<Vec<u8>>,
}

/// A file that was moved to `lost/`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Quarantined {
    /// The original path.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "file", serialize_with = "crate::base::serialize::path")
    )]
    pub path: PathBuf,
    /// The path in `lost/`.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::base::serialize::path"))]
    pub kept: PathBuf,
    /// The reason why the file was moved.
    pub why: String,
}
