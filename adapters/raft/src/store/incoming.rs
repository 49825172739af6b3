//! A snapshot transfer that a node is receiving.

use minikv::fs::WriteFile;

use crate::store::snapshot::SnapshotFile;

/// A snapshot that is being received.
pub(crate) struct Incoming {
    pub(crate) id: String,
    pub(crate) files: Vec<SnapshotFile>,
    /// The position at which the next chunk must begin.
    pub(crate) at: Position,
    pub(crate) open: Option<Box<dyn WriteFile>>,
}

/// A position in a transfer: the index of a file in the list of files, and an offset in that file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Position {
    /// The index of the file in the list of files.
    pub file: usize,
    /// The number of bytes of this file that were received.
    pub offset: u64,
}
