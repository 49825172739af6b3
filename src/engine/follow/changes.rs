//! The batches that a writer commits, read from its logs in order.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use crate::base::{Error, Result};
use crate::engine::follow::Followed;
use crate::engine::follow::logs::open_begun;
use crate::engine::open::directory;
use crate::format::batch::{WriteBatch, decode_header};
use crate::format::key::SeqNo;
use crate::format::name::{
    FileName, {self},
};
use crate::fs::ReadFile;
use crate::log::LogReader;

/// Iterator over the batches that were committed after a sequence number, in order: see
/// [`ReadOnlyDb::changes_since`](crate::ReadOnlyDb::changes_since).
#[derive(Debug)]
pub struct Changes {
    followed: Arc<Followed>,
    /// The sequence number of the last change yielded, or of the last one before the first.
    last_seq: SeqNo,
    /// The log to read; `None` if none has begun.
    current: Option<Current>,
    /// The error that ended the iteration.
    failed: Option<Error>,
}

#[derive(Debug)]
struct Current {
    number: u64,
    path: PathBuf,
    reader: LogReader,
}

impl Changes {
    /// Returns the changes after `sequence`.
    ///
    /// # Errors
    /// Corruption and I/O errors of the logs.
    pub(crate) fn new(followed: Arc<Followed>, sequence: SeqNo) -> Result<Changes> {
        let mut changes = Changes { followed, last_seq: sequence, current: None, failed: None };
        // The changes begin in the last log that begins with them or before them. If there is none,
        // the first batch shows that some are missing.
        for (number, file) in changes.newer_logs()? {
            let log = Current::open(&changes.followed, number, file)?;
            let first = log.first_seq()?;
            if changes.current.is_none() || first.is_some_and(|first| first <= sequence + 1) {
                changes.current = Some(log);
            }
        }
        Ok(changes)
    }

    /// Returns the sequence number of the last change that was yielded, or of the last one before
    /// the first. Changes may be continued from it later, in another process, too.
    pub fn sequence(&self) -> u64 {
        self.last_seq
    }

    /// Returns the next batch; `None` if there is none now.
    fn next_batch(&mut self) -> Result<Option<WriteBatch>> {
        if let Some(batch) = self.read_on()? {
            return Ok(Some(batch));
        }
        // Everything that the view shows by then must be in the logs.
        let shown = self.followed.refresh()?;
        if shown.restarted && shown.sequence < self.last_seq {
            return Err(self.lost(shown.sequence));
        }
        loop {
            // Only the last log that has begun may grow.
            let newer = self.newer_logs()?;
            if let Some(current) = &mut self.current {
                current.reader.resume()?;
                if let Some(batch) = self.read_on()? {
                    return Ok(Some(batch));
                }
            }
            let Some((number, file)) = newer.into_iter().next() else { break };
            self.current = Some(Current::open(&self.followed, number, file)?);
        }
        match self.last_seq < shown.sequence {
            true => Err(self.lost(shown.sequence)),
            false => Ok(None),
        }
    }

    /// Returns the next batch of what was last seen of the current log.
    fn read_on(&mut self) -> Result<Option<WriteBatch>> {
        let Some(current) = &mut self.current else { return Ok(None) };
        while let Some(record) = current.reader.next()? {
            let batch = decode_header(record)
                .and_then(|header| Ok((header, WriteBatch::from_contents(record.to_vec())?)));
            let ((first, count), batch) = match batch {
                Ok(batch) => batch,
                Err(error) => {
                    return Err(error.in_file(&current.path).at(current.reader.record_offset()));
                }
            };
            let next = first + u64::from(count);
            if count == 0 || next <= self.last_seq + 1 {
                continue;
            }
            if first > self.last_seq + 1 {
                return Err(self.lost(first));
            }
            self.last_seq = next - 1;
            return Ok(Some(batch));
        }
        Ok(None)
    }

    /// Returns the logs after the current one that have begun, ascending.
    fn newer_logs(&self) -> Result<Vec<(u64, Arc<dyn ReadFile>)>> {
        let after = self.current.as_ref().map(|current| current.number);
        loop {
            let files = directory::list(&*self.followed.options.fs, &self.followed.dir)?;
            let mut logs: Vec<u64> = files
                .iter()
                .filter_map(|(_, name)| match name {
                    FileName::Log(number) if Some(*number) > after => Some(*number),
                    _ => None,
                })
                .collect();
            logs.sort_unstable();
            match open_begun(&self.followed.source(0, None), logs) {
                // The writer has removed one since.
                Err(error) if error.io_kind() == Some(ErrorKind::NotFound) => {}
                begun => return begun,
            }
        }
    }

    fn lost(&self, next: SeqNo) -> Error {
        Error::ChangesLost { after: self.last_seq, next }
    }
}

impl Current {
    fn open(followed: &Followed, number: u64, file: Arc<dyn ReadFile>) -> Result<Current> {
        let path = followed.dir.join(name::log_name(number));
        let reader = LogReader::of_batches(file, &path)?.beside_writer(true);
        Ok(Current { number, path, reader })
    }

    /// Returns the sequence number with which the log begins; `None` if it has no whole record.
    fn first_seq(&self) -> Result<Option<SeqNo>> {
        let file = self.reader.file().clone();
        let mut reader = LogReader::of_batches(file, &self.path)?.beside_writer(true);
        reader.resume()?;
        match reader.next()? {
            Some(record) => Ok(Some(decode_header(record)?.0)),
            None => Ok(None),
        }
    }
}

impl Iterator for Changes {
    type Item = Result<WriteBatch>;

    fn next(&mut self) -> Option<Result<WriteBatch>> {
        if let Some(error) = &self.failed {
            return Some(Err(error.clone()));
        }
        let batch = self.next_batch();
        self.failed = batch.as_ref().err().cloned();
        batch.transpose()
    }
}
