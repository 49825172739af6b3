//! The recovery of a database at open.

use std::path::PathBuf;

/// The result of replaying the logs at open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Number of logs replayed.
    pub logs: u64,
    /// Number of records replayed. Each record is a commit group, with one or more writes.
    pub records: u64,
    /// Logs from which records were left out, because the log is damaged or follows a damaged log.
    pub lost: Vec<LostLog>,
}

/// A log from which records were left out. The whole log is kept in the directory `lost/`, unless
/// the database was opened for reading only.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct LostLog {
    /// The path of the log.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "file", serialize_with = "crate::base::serialize::path")
    )]
    pub path: PathBuf,
    /// Offset of the first byte that was left out.
    pub offset: u64,
    /// Number of bytes from `offset` to the end of the log.
    pub bytes: u64,
    /// The reason why records were left out, as text.
    pub why: String,
}
