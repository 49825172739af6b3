//! Files of the write-ahead log that are not the current log: the spare log and outgoing logs.
//! [`wal`](super::wal) describes the life of a log.

use std::path::{Path, PathBuf};

use crate::base::{Error, Result};
use crate::format::batch::WriteBatch;
use crate::format::key::SeqNo;
use crate::format::name;
use crate::fs::{Fs, WriteFile};
use crate::log::LogWriter;

/// A log that takes no more records and is not durable yet.
#[derive(Debug)]
pub(crate) struct OutgoingLog {
    /// File number of the log.
    pub number: u64,
    /// Path of the log, for errors.
    pub path: PathBuf,
    /// The log, still open.
    pub log: LogWriter,
    /// Sequence number after the last one in the log.
    pub next_seq: SeqNo,
}

/// A log created before it is needed, because creating a file can be slow while other files are
/// being synced.
#[derive(Debug)]
pub(crate) struct SpareLog {
    /// File number of the log.
    pub number: u64,
    path: PathBuf,
    file: Box<dyn WriteFile>,
}

impl SpareLog {
    /// Creates the empty log `number` in `dir`. If `plain` is true, the log is neither
    /// preallocated nor mapped.
    ///
    /// # Errors
    /// I/O errors of the creation.
    pub(crate) fn create(fs: &dyn Fs, dir: &Path, number: u64, plain: bool) -> Result<SpareLog> {
        let path = dir.join(name::log_name(number));
        let created = if plain { fs.create(&path) } else { fs.create_log(&path) };
        let file = created.map_err(|error| Error::io("create", &path, error))?;
        Ok(SpareLog { number, path, file })
    }

    /// Begins the log with an empty batch that carries `next_seq`, the first sequence number that
    /// the log will hold. Returns the path and the writer of the log.
    ///
    /// # Errors
    /// I/O errors of the append.
    pub(crate) fn begin(self, next_seq: SeqNo) -> Result<(PathBuf, LogWriter)> {
        let mut log = LogWriter::new(self.file, 0);
        let marker = empty_batch(next_seq);
        let added = log.add_record(marker.contents());
        added.map_err(|error| Error::io("append to", &self.path, error))?;
        Ok((self.path, log))
    }
}

/// Returns an empty batch, which records that `next_seq` is the next sequence number.
pub(crate) fn empty_batch(next_seq: SeqNo) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.set_sequence(next_seq);
    batch
}
