//! Reads the logs of a followed database, and continues as records are appended to them.
//!
//! A writer finishes a log before it begins the next one. So once a later log has begun, the
//! current log is read to its end before the later one is read: a view never has a record without
//! all records before it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::{Error, Result};
use crate::engine::memtable::{Arena, Memtable};
use crate::engine::open::directory;
use crate::engine::open::read_only::{LastLog, Opened};
use crate::engine::open::replay::{gap_before, overlap};
use crate::engine::version::manifest::Recovered;
use crate::format::batch::{decode_header, decode_ops};
use crate::format::key::{InternalComparator, MAX_SEQ_NO, SeqNo};
use crate::format::name::{self, FileName};
use crate::format::record::HEADER_BYTES;
use crate::fs::{Fs, ReadFile};
use crate::log::LogReader;

/// The logs that were read, and the position up to which the last of them was read.
#[derive(Debug, Default)]
pub(super) struct Logs {
    /// The memtables of the logs, oldest first, each with the number of the last log whose records
    /// it holds.
    mems: Vec<(u64, Arc<Memtable>)>,
    /// The last log that has begun. Its records go into the last memtable.
    current: Option<FollowedLog>,
    /// The live logs up to the current one.
    known: BTreeSet<u64>,
    /// The sequence number of the last write read from a log.
    pub last_seq: SeqNo,
}

#[derive(Debug)]
struct FollowedLog {
    number: u64,
    path: PathBuf,
    reader: LogReader,
    arena: Arena,
}

/// The files to read, and the parameters for reading them.
pub(super) struct ReplayContext<'a> {
    /// The filesystem.
    pub fs: &'a dyn Fs,
    /// The directory of the database.
    pub dir: &'a Path,
    /// The order of keys.
    pub order: &'a InternalComparator,
    /// The number to add to each sequence number.
    pub shift: SeqNo,
    /// The last sequence number that readers may have seen; `None` while there are no readers.
    pub seen: Option<SeqNo>,
}

impl Logs {
    /// Returns the logs, positioned where the replay stopped when the database was opened; `None`
    /// if reading cannot continue from there.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn after(opened: &Opened) -> Result<Option<Logs>> {
        if opened.logs.is_empty() {
            return Ok(Some(Logs::default()));
        }
        let Some(LastLog { number, end, file }) = &opened.last_log else { return Ok(None) };
        let view = opened.state.view_owned();
        if !view.imm.is_empty() {
            // The logs of the memtables before the last one are not known.
            return Ok(None);
        }
        let last_seq = opened.state.visible_seq();
        let path = opened.dir.join(name::log_name(*number));
        let reader = LogReader::of_batches(file.clone(), &path)?.beside_writer(true);
        let reader = reader.starting_at(*end, Some(last_seq + 1));
        let current = FollowedLog { number: *number, path, reader, arena: Arena::default() };
        Ok(Some(Logs {
            mems: vec![(*number, view.mem.clone())],
            current: Some(current),
            known: opened.logs.iter().copied().collect(),
            last_seq,
        }))
    }

    /// Reads all records that were appended to the logs and are not in tables. `files` must have
    /// been listed before the MANIFEST was read; `numbers` are the numbers in the MANIFEST. Returns
    /// whether any record was read; `None` if the logs do not continue the logs read before.
    ///
    /// # Errors
    /// Corruption of a log; I/O errors, such as `NotFound` for a log that the writer has removed.
    pub(super) fn read_on(
        &mut self,
        source: &ReplayContext<'_>,
        files: &[(String, FileName)],
        numbers: &Recovered,
    ) -> Result<Option<bool>> {
        let live = directory::live_logs(files, numbers);
        // Only early versions of LevelDB had a second live log.
        let is_old = numbers.prev_log_number != 0;
        if source.seen.is_some() && (is_old || !self.are_continued_by(&live, numbers)) {
            return Ok(None);
        }
        self.drop_flushed(numbers.log_number);
        let after = self.current.as_ref().map(|current| current.number);
        let newer = live.iter().copied().filter(|&number| Some(number) > after);
        let begun = open_begun(source, newer.collect())?;
        let in_tables = numbers.last_seq;
        let Some(mut changed) = self.read_current(source, in_tables)? else { return Ok(None) };
        for (number, file) in begun {
            let before = self.last_seq.max(in_tables);
            if !self.begin(source, number, file, before)? {
                continue;
            }
            match self.read_current(source, in_tables)? {
                None => return Ok(None),
                Some(_) => changed = true,
            }
        }
        if let Some(current) = &self.current {
            self.known = live.into_iter().filter(|&number| number <= current.number).collect();
        }
        Ok(Some(changed))
    }

    /// Returns whether the live logs are exactly the previously read logs that have records outside
    /// of tables, followed by newer logs.
    fn are_continued_by(&self, live: &[u64], numbers: &Recovered) -> bool {
        let Some(current) = &self.current else { return true };
        let is_there = current.number < numbers.log_number || live.contains(&current.number);
        let is_known = |&number: &u64| number > current.number || self.known.contains(&number);
        is_there && live.iter().all(is_known)
    }

    /// Forgets the logs whose records are all in tables: those before the log `log_number`.
    fn drop_flushed(&mut self, log_number: u64) {
        self.mems.retain(|(number, _)| *number >= log_number);
        self.current.take_if(|current| current.number < log_number);
    }

    /// Makes the log `number` the current one, with a memtable of its own. Returns false, without
    /// a change, if the only record of the log `number` is an empty batch that shows that writes
    /// between the sequence number `before` and the log are missing, or that the last writes of the
    /// earlier logs failed.
    ///
    /// # Errors
    /// Corruption if the first record is such an empty batch and another record follows it; I/O
    /// errors.
    fn begin(
        &mut self,
        source: &ReplayContext<'_>,
        number: u64,
        file: Arc<dyn ReadFile>,
        before: SeqNo,
    ) -> Result<bool> {
        let path = source.dir.join(name::log_name(number));
        let mut reader = LogReader::of_batches(file.clone(), &path)?.beside_writer(true);
        reader.resume()?;
        let gap = reader.next()?.and_then(|first| {
            gap_before(first, before, true).or_else(|| overlap(first, self.last_seq))
        });
        if let Some(gap) = gap {
            return match reader.next()? {
                None => Ok(false),
                Some(_) => Err(Error::corruption(format!("log {gap}")).in_file(&path).at(0)),
            };
        }
        let bytes = file.len().map_err(|error| Error::io("read", &path, error))?;
        let expected = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.mems.push((number, Arc::new(Memtable::new(source.order.user(), expected))));
        let reader = reader.starting_at(0, None);
        self.current = Some(FollowedLog { number, path, reader, arena: Arena::default() });
        Ok(true)
    }

    /// Inserts the records appended to the current log into its memtable. `in_tables` is the last
    /// sequence number in tables. Returns whether there were any records; `None` if the records do
    /// not follow the records that readers may have seen.
    ///
    /// # Errors
    /// I/O errors; corruption. An empty batch that shows missing writes counts as corruption if
    /// another record follows it.
    fn read_current(
        &mut self,
        source: &ReplayContext<'_>,
        in_tables: SeqNo,
    ) -> Result<Option<bool>> {
        let (Some(current), Some((_, mem))) = (&mut self.current, self.mems.last()) else {
            return Ok(Some(false));
        };
        let (mut changed, mut gap) = (false, None);
        current.reader.resume()?;
        while let Some(record) = current.reader.next()? {
            if let Some(gap) = gap {
                let error = Error::corruption(format!("log {gap}"));
                return Err(error.in_file(&current.path).at(current.reader.record_offset()));
            }
            // Tables with the missing writes may have been ingested since the MANIFEST was read.
            gap = gap_before(record, self.last_seq.max(in_tables), false);
            let (first, last) = match check(record, source.shift) {
                Ok(None) => continue,
                Ok(Some(seqs)) => seqs,
                Err(error) => {
                    return Err(error.in_file(&current.path).at(current.reader.record_offset()));
                }
            };
            let shifted = first + source.shift;
            let is_next = |seen| first > seen && (mem.is_empty() || shifted > mem.last_seq());
            if !source.seen.is_none_or(is_next) {
                return Ok(None);
            }
            mem.insert_batch(record, shifted, &mut current.arena)?;
            self.last_seq = self.last_seq.max(last);
            changed = true;
        }
        Ok(Some(changed))
    }

    /// Returns the memtables, newest first.
    pub(super) fn memtables(&self) -> impl Iterator<Item = Arc<Memtable>> {
        self.mems.iter().rev().map(|(_, mem)| mem.clone())
    }
}

/// Checks a record, which holds a batch, before it is inserted: a batch is inserted completely or
/// not at all. Returns the first and the last sequence number of the batch; `None` if it is empty.
///
/// # Errors
/// Corruption of the batch, including sequence numbers to which `shift` cannot be added.
fn check(record: &[u8], shift: SeqNo) -> Result<Option<(SeqNo, SeqNo)>> {
    decode_ops(record).try_for_each(|op| op.map(drop))?;
    let (first, count) = decode_header(record)?;
    let last = (first + u64::from(count)).saturating_sub(1);
    match MAX_SEQ_NO.checked_sub(shift) {
        Some(most) if last <= most => Ok((count > 0).then_some((first, last))),
        most => Err(Error::mismatch("sequence number too large", most.unwrap_or(0), last)),
    }
}

/// Opens the logs with the numbers `logs`, which must ascend, up to the last log that has begun.
fn open_begun(source: &ReplayContext<'_>, logs: Vec<u64>) -> Result<Vec<(u64, Arc<dyn ReadFile>)>> {
    let mut begun = Vec::new();
    for number in logs.into_iter().rev() {
        let path = source.dir.join(name::log_name(number));
        let file = source.fs.open(&path).map_err(|error| Error::io("open", &path, error))?;
        let mut header = [0; HEADER_BYTES];
        let is_read = file.read_at(&mut header, 0);
        is_read.map_err(|error| Error::io("read", &path, error))?;
        // A writer may create a log before it is used, and fill it with zeros to allocate space.
        if !begun.is_empty() || header != [0; HEADER_BYTES] {
            begun.push((number, file));
        }
    }
    begun.reverse();
    Ok(begun)
}
