//! The batches that a writer commits, read from its logs in order.
//!
//! A reader repeats these steps:
//! 1. Ask for the last committed sequence number. Every write up to it is in the logs, or was
//!    removed with a log, or was never in a log.
//! 2. Find the log after the current one. If that log has begun, the current log is complete.
//! 3. Yield the batches up to the committed number, and continue in the next log. A batch with a
//!    higher number than expected shows a gap; so does a committed number that no log reaches.
//!
//! The first record of a log states the sequence number at which the log begins. A batch in an
//! earlier log with that number or a higher one was never committed: its sync failed, and the
//! writer resumed with a new log.
//!
//! A log that holds only this record is passed over once a later log has begun. If a resume began
//! it and then failed, an open may have replayed the batch, after which the batch is committed.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::{Error, Result};
use crate::engine::Engine;
use crate::engine::follow::Followed;
use crate::engine::open::entries;
use crate::engine::read::view::ReadState;
use crate::format::batch::{WriteBatch, decode_header};
use crate::format::key::SeqNo;
use crate::format::name::{self, FileName};
use crate::format::record::HEADER_BYTES;
use crate::fs::{Fs, ReadFile};
use crate::log::LogReader;

/// Iterator over the batches that were committed after a sequence number, in order: see
/// [`Db::changes_since`](crate::Db::changes_since) and
/// [`ReadOnlyDb::changes_since`](crate::ReadOnlyDb::changes_since).
#[derive(Debug)]
pub struct Changes {
    writer: WatchedDb,
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    /// The sequence number of the last change yielded; before the first change is yielded, the
    /// number after which the changes begin.
    last_seq: SeqNo,
    /// The last sequence number that is known to be committed.
    committed: SeqNo,
    /// The log to read; `None` if no log has begun.
    current: Option<LogCursor>,
    /// The log after `current`, if that log has begun.
    next: Option<LogCursor>,
    /// The error that ended the iteration.
    failed: Option<Error>,
}

/// The database whose changes are read.
#[derive(Debug)]
enum WatchedDb {
    /// A database that is open in this process.
    Here(Arc<ReadState>),
    /// A database of another process, which this process follows.
    Elsewhere(Arc<Followed>),
}

impl WatchedDb {
    /// Returns the last committed sequence number. All records up to that number are in files.
    fn committed(&self) -> Result<SeqNo> {
        match self {
            WatchedDb::Here(reads) => Ok(reads.visible_seq()),
            WatchedDb::Elsewhere(followed) => Ok(followed.refresh()?.sequence),
        }
    }

    /// Checks that the directory is still the directory that the writer has locked.
    fn check_directory(&self) -> Result<()> {
        match self {
            WatchedDb::Here(reads) => reads.trash.check_directory(),
            WatchedDb::Elsewhere(_) => Ok(()),
        }
    }
}

/// A log that is being read.
#[derive(Debug)]
struct LogCursor {
    number: u64,
    path: PathBuf,
    reader: LogReader,
    /// The sequence number that the first record states; `None` if that record is not complete yet.
    begins_at: Option<SeqNo>,
    /// Whether the first record was an empty batch, and nothing followed it.
    is_bare: bool,
    /// The batch that was read last, if it was not committed yet.
    ahead: Option<WriteBatch>,
}

impl Changes {
    /// Returns the changes of a followed database after the sequence number `sequence`.
    ///
    /// # Errors
    /// Corruption and I/O errors of the logs.
    pub(crate) fn of_followed(followed: Arc<Followed>, sequence: SeqNo) -> Result<Changes> {
        let (fs, dir) = (followed.options.fs.clone(), followed.dir.clone());
        Changes::new(WatchedDb::Elsewhere(followed), fs, dir, sequence)
    }

    /// Returns the changes after the sequence number `sequence` in a database that is open for
    /// writing.
    ///
    /// # Errors
    /// Corruption and I/O errors of the logs.
    pub(crate) fn of_engine(engine: &Engine, sequence: SeqNo) -> Result<Changes> {
        let writer = WatchedDb::Here(engine.reads.clone());
        Changes::new(writer, engine.fs.clone(), engine.dir.clone(), sequence)
    }

    fn new(writer: WatchedDb, fs: Arc<dyn Fs>, dir: PathBuf, sequence: SeqNo) -> Result<Changes> {
        let (current, next, failed) = (None, None, None);
        let mut changes =
            Changes { writer, fs, dir, last_seq: sequence, committed: 0, current, next, failed };
        changes.current = changes.first_log()?;
        Ok(changes)
    }

    /// Returns the sequence number of the last change that was yielded; before the first change is
    /// yielded, the number after which the changes begin. Reading may continue from the returned
    /// number later, even in another process.
    pub fn sequence(&self) -> u64 {
        self.last_seq
    }

    /// Returns the next batch; `None` if there is no further batch at present.
    fn next_batch(&mut self) -> Result<Option<WriteBatch>> {
        loop {
            if let Some(batch) = self.read_on()? {
                return Ok(Some(batch));
            }
            if self.last_seq < self.committed {
                // The current log has been read to its end, so the missing batches must be in the
                // next one.
                let Some(next) = self.next.take() else { return Err(self.lost(self.committed)) };
                match next.begins_at {
                    // The next log reuses the number of the last batch yielded. Therefore, that
                    // batch was never committed.
                    Some(begin) if begin <= self.last_seq => return Err(self.lost(begin)),
                    _ => self.current = Some(next),
                }
            } else {
                self.committed = self.writer.committed()?;
                match self.last_seq {
                    last if last > self.committed => return Err(self.lost(self.committed)),
                    last if last == self.committed => return Ok(None),
                    _ => self.writer.check_directory()?,
                }
            }
            self.find_next()?;
            if let Some(current) = &mut self.current {
                current.reader.resume()?;
            }
        }
    }

    /// Returns the next committed batch of the current log. Returns `None` if there is no further
    /// batch before the end that the log had when it was last checked.
    fn read_on(&mut self) -> Result<Option<WriteBatch>> {
        let Some(current) = &mut self.current else { return Ok(None) };
        let end = self.next.as_ref().and_then(|next| next.begins_at);
        while let Some(batch) = current.next_batch()? {
            let first = batch.sequence();
            let last = first + batch.len() as u64 - 1;
            if end.is_some_and(|end| first >= end) || last <= self.last_seq {
                continue;
            }
            if last > self.committed {
                current.ahead = Some(batch);
                return Ok(None);
            }
            if first > self.last_seq + 1 {
                return Err(self.lost(first));
            }
            self.last_seq = last;
            return Ok(Some(batch));
        }
        Ok(None)
    }

    /// Returns the log in which the changes begin: the last log that begins at or before the first
    /// change. If there is no such log, returns the oldest log, whose first batch shows that
    /// changes are missing.
    fn first_log(&self) -> Result<Option<LogCursor>> {
        self.with_logs(|logs| {
            let mut oldest = None;
            for &number in logs.iter().rev() {
                let Some(log) = self.open_begun(number)? else { continue };
                if log.is_bare && oldest.is_some() {
                    continue;
                }
                let begins_before =
                    log.begins_at.is_some_and(|begin| begin <= self.last_seq.saturating_add(1));
                oldest = Some(log);
                if begins_before {
                    break;
                }
            }
            Ok(oldest)
        })
    }

    /// Looks for the log after the current one, unless that log is known and has begun.
    fn find_next(&mut self) -> Result<()> {
        if self.next.as_ref().is_some_and(|next| next.begins_at.is_some() && !next.is_bare) {
            return Ok(());
        }
        let after = self.current.as_ref().map(|current| current.number);
        self.next = self.with_logs(|logs| {
            let at = logs.partition_point(|&number| Some(number) <= after);
            let Some((&first, newer)) = logs[at..].split_first() else { return Ok(None) };
            if let Some(log) = self.open_begun(first)?
                && (!log.is_bare || newer.is_empty())
            {
                return Ok(Some(log));
            }
            // A writer creates a log ahead of its use, and may never use it. Newer logs are checked
            // first: once a newer log has begun, an older one takes no more records.
            let mut next: Option<LogCursor> = None;
            for &number in logs[at..].iter().rev() {
                let log = self.open_begun(number)?;
                next = log.filter(|log| !log.is_bare || next.is_none()).or(next);
            }
            Ok(next)
        })?;
        Ok(())
    }

    /// Calls `look` with the numbers of all logs, in ascending order. Repeats the call if the
    /// writer has removed one of the logs in the meantime.
    fn with_logs<T>(&self, look: impl Fn(&[u64]) -> Result<T>) -> Result<T> {
        loop {
            let files = entries::list_files(&*self.fs, &self.dir)?;
            let log = |(_, name): &(String, FileName)| match name {
                FileName::Log(number) => Some(*number),
                _ => None,
            };
            let mut logs: Vec<u64> = files.iter().filter_map(log).collect();
            logs.sort_unstable();
            match look(&logs) {
                Err(error) if error.io_kind() == Some(ErrorKind::NotFound) => {}
                found => return found,
            }
        }
    }

    /// Opens a log. Returns `None` if the log has no records yet.
    fn open_begun(&self, number: u64) -> Result<Option<LogCursor>> {
        let path = self.dir.join(name::log_name(number));
        let file = self.fs.open(&path).map_err(|error| Error::io("open", &path, error))?;
        let mut header = [0; HEADER_BYTES];
        let is_read = file.read_at(&mut header, 0);
        is_read.map_err(|error| Error::io("read", &path, error))?;
        match header == [0; HEADER_BYTES] {
            true => Ok(None),
            false => LogCursor::open(number, path, file).map(Some),
        }
    }

    fn lost(&self, next: SeqNo) -> Error {
        Error::ChangesLost { after: self.last_seq, next }
    }
}

impl LogCursor {
    fn open(number: u64, path: PathBuf, file: Arc<dyn ReadFile>) -> Result<LogCursor> {
        let mut first = open_reader(file.clone(), &path)?;
        // After `resume`, the reader first reads only one block of the file.
        first.resume()?;
        let begins = first.next()?.map(decode_header).transpose()?;
        let is_bare = begins.is_some_and(|(_, count)| count == 0) && is_at_end(&mut first, &path)?;
        let begins_at = begins.map(|(sequence, _)| sequence);
        let reader = open_reader(file, &path)?;
        Ok(LogCursor { number, path, reader, begins_at, is_bare, ahead: None })
    }

    /// Returns the next batch that is not empty.
    fn next_batch(&mut self) -> Result<Option<WriteBatch>> {
        if let Some(batch) = self.ahead.take() {
            return Ok(Some(batch));
        }
        while let Some(record) = self.reader.next()? {
            match WriteBatch::from_contents(record.to_vec()) {
                Ok(batch) if batch.is_empty() => {}
                Ok(batch) => return Ok(Some(batch)),
                Err(error) => {
                    return Err(error.in_file(&self.path).at(self.reader.record_offset()));
                }
            }
        }
        Ok(None)
    }
}

/// Returns whether nothing follows the record that was read last. A record right after it, which
/// may be long, is not read.
fn is_at_end(reader: &mut LogReader, path: &Path) -> Result<bool> {
    let mut header = [0; HEADER_BYTES];
    let is_read = reader.file().read_at(&mut header, reader.valid_end());
    is_read.map_err(|error| Error::io("read", path, error))?;
    Ok(header == [0; HEADER_BYTES] && matches!(reader.next(), Ok(None)))
}

fn open_reader(file: Arc<dyn ReadFile>, path: &Path) -> Result<LogReader> {
    Ok(LogReader::of_batches(file, path)?.beside_writer(true))
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
