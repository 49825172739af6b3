//! The files of the write-ahead log: one created ahead, one that takes no more records.

use std::io;
use std::path::{Path, PathBuf};

use crate::base::{Error, Result};
use crate::format::batch::WriteBatch;
use crate::format::key::SeqNo;
use crate::format::name;
use crate::fs::{Fs, WriteFile};
use crate::log::LogWriter;

/// A log that takes no more records and is not durable yet.
#[derive(Debug)]
pub struct OutgoingLog {
    /// File number of the log.
    pub number: u64,
    /// Path of the log, for errors.
    pub path: PathBuf,
    /// The log, still open.
    pub log: LogWriter,
    /// The sequence number after the log's last one.
    pub next_seq: SeqNo,
}

/// Returns the error of a writer whose sync of `log` failed. Appends an empty batch at `next_seq`
/// as the log's last record, by which an open sees that it must not continue the log.
pub fn failed_sync(log: &mut LogWriter, path: &Path, next_seq: SeqNo, error: io::Error) -> Error {
    log.mark_failed(empty_batch(next_seq).contents());
    Error::io("sync", path, error)
}

fn empty_batch(next_seq: SeqNo) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.set_sequence(next_seq);
    batch
}

/// A log created before it is needed: creating a file can take long while others are synced.
#[derive(Debug)]
pub struct SpareLog {
    /// File number of the log.
    pub number: u64,
    path: PathBuf,
    file: Box<dyn WriteFile>,
}

impl SpareLog {
    /// Creates the empty log `number` in `dir`. A `plain` log is never longer than its records.
    ///
    /// # Errors
    /// I/O errors of the creation.
    pub fn create(fs: &dyn Fs, dir: &Path, number: u64, plain: bool) -> Result<SpareLog> {
        let path = dir.join(name::log_name(number));
        let created = if plain { fs.create(&path) } else { fs.create_log(&path) };
        let file = created.map_err(|error| Error::io("create", &path, error))?;
        Ok(SpareLog { number, path, file })
    }

    /// Begins the log with an empty batch that carries `next_seq`, the first sequence number that
    /// the log will hold.
    ///
    /// # Errors
    /// I/O errors of the append.
    pub fn begin(self, next_seq: SeqNo) -> Result<(PathBuf, LogWriter)> {
        let mut log = LogWriter::new(self.file, 0);
        let marker = empty_batch(next_seq);
        let added = log.add_record(marker.contents());
        added.map_err(|error| Error::io("append to", &self.path, error))?;
        Ok((self.path, log))
    }
}
