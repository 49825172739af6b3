//! The replay of logs into memtables.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::{Error, Result};
use crate::engine::Frozen;
use crate::engine::memtable::{Arena, Memtable};
use crate::format::batch::{HEADER_BYTES, decode_header, decode_ops};
use crate::format::key::{InternalComparator, SeqNo};
use crate::format::name;
use crate::fs::Fs;
use crate::log::{LogReader, Tail};

/// Memtables that recovery keeps before it flushes the oldest itself.
const MAX_RECOVERED_MEMTABLES: usize = 2;

/// What recovery found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Logs replayed.
    pub logs: u64,
    /// Records replayed: commit groups.
    pub records: u64,
    /// Logs of which something was left out, because it was damaged or came after damage.
    pub lost: Vec<LostLog>,
}

/// A log of which something was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostLog {
    /// The log.
    pub path: PathBuf,
    /// Where what was left out begins.
    pub offset: u64,
    /// The bytes from there to the end.
    pub bytes: u64,
    /// What is wrong.
    pub why: String,
}

/// What replaying the logs leaves.
pub struct Replayed {
    /// Full memtables, oldest first, and last the one that is not full.
    pub memtables: VecDeque<Frozen>,
    /// The highest sequence number seen.
    pub last_seq: SeqNo,
    /// What was found.
    pub recovery: Recovery,
    /// The last log, if it ends so that it can be continued: its number and length.
    pub last_log: Option<(u64, u64)>,
}

/// Replays logs into memtables.
pub struct Replay<'a> {
    /// Where the logs are.
    pub fs: &'a dyn Fs,
    /// Their directory.
    pub dir: &'a Path,
    /// The order of keys.
    pub order: &'a InternalComparator,
    /// When a memtable is full.
    pub write_buffer_bytes: usize,
    /// Whether damage inside a log is an error.
    pub paranoid: bool,
    /// Whether another process may be writing the logs.
    pub beside_writer: bool,
}

impl Replay<'_> {
    /// Replays `logs`, ascending. `full` is told when a memtable beyond the first few is full,
    /// and may take the oldest from the queue.
    pub fn run(
        &self,
        logs: &[u64],
        last_seq: SeqNo,
        mut full: impl FnMut(&mut VecDeque<Frozen>) -> Result<()>,
    ) -> Result<Replayed> {
        let mut replayed = Replayed {
            memtables: VecDeque::new(),
            last_seq,
            recovery: Recovery::default(),
            last_log: None,
        };
        let mut arena = Arena::default();
        for &number in logs {
            if replayed.recovery.lost.is_empty() {
                self.replay_log(number, &mut replayed, &mut arena, &mut full)?;
                continue;
            }
            let path = self.dir.join(name::log_name(number));
            let bytes = self.fs.len(&path).map_err(|error| Error::io("read", &path, error))?;
            if bytes > 0 {
                let why = "comes after a damaged log".to_owned();
                replayed.recovery.lost.push(LostLog { path, offset: 0, bytes, why });
            }
        }
        // A batch may be empty, and of no entries no table can be made.
        replayed.memtables.retain(|frozen| !frozen.mem.is_empty());
        Ok(replayed)
    }

    fn replay_log(
        &self,
        number: u64,
        replayed: &mut Replayed,
        arena: &mut Arena,
        full: &mut impl FnMut(&mut VecDeque<Frozen>) -> Result<()>,
    ) -> Result<()> {
        let path = self.dir.join(name::log_name(number));
        let file = self.fs.open(&path).map_err(|error| Error::io("open", &path, error))?;
        let file_bytes = file.len().map_err(|error| Error::io("read", &path, error))?;
        let mut reader = LogReader::of_batches(file, &path)?.beside_writer(self.beside_writer);
        let log = Log { number, path: &path, file_bytes };
        let end = self.replay_records(&log, &mut reader, replayed, arena, full)?;
        replayed.recovery.logs += 1;
        replayed.last_log = None;
        let (offset, why) = match end {
            LogEnd::Whole { sync_failed } => {
                let is_clean = reader.tail() == Tail::Clean;
                let can_continue = is_clean && !sync_failed;
                replayed.last_log = can_continue.then_some((number, reader.valid_end()));
                return Ok(());
            }
            // With nothing after the first record there is nothing to lose.
            LogEnd::Misplaced(_) if matches!(reader.next(), Ok(None)) => return Ok(()),
            LogEnd::Misplaced(gap) => (0, gap),
            LogEnd::Damaged(error) if self.paranoid || !error.is_corruption() => return Err(error),
            LogEnd::Damaged(error) => (reader.valid_end(), error.to_string()),
        };
        let bytes = file_bytes.saturating_sub(offset);
        replayed.recovery.lost.push(LostLog { path, offset, bytes, why });
        Ok(())
    }

    /// Inserts the records of a log into a memtable, up to the log's end or the first bad record.
    fn replay_records(
        &self,
        log: &Log<'_>,
        reader: &mut LogReader,
        replayed: &mut Replayed,
        arena: &mut Arena,
        full: &mut impl FnMut(&mut VecDeque<Frozen>) -> Result<()>,
    ) -> Result<LogEnd> {
        // A log is never split between two memtables: if the first were flushed and the log then
        // lost its end, the next replay would yield entries older than that table.
        let mut mem = None;
        let mut sync_failed = false;
        loop {
            let is_first = reader.valid_end() == 0;
            let record = match reader.next() {
                Ok(Some(record)) => record,
                Ok(None) => return Ok(LogEnd::Whole { sync_failed }),
                Err(error) => return Ok(LogEnd::Damaged(error)),
            };
            if is_first && let Some(gap) = gap_before(record, replayed.last_seq) {
                return Ok(LogEnd::Misplaced(gap));
            }
            let mem = match &mem {
                Some(mem) => mem,
                None => mem.insert(self.current_memtable(log, replayed, arena, full)?),
            };
            match insert_record(mem, record, arena) {
                Ok(last) => replayed.last_seq = replayed.last_seq.max(last),
                Err(error) => {
                    let error = error.in_file(log.path).at(reader.record_offset());
                    return Ok(LogEnd::Damaged(error));
                }
            }
            let is_empty = record.len() == HEADER_BYTES;
            sync_failed |= is_empty && !is_first;
            replayed.recovery.records += u64::from(!is_empty);
        }
    }

    /// Returns the memtable for a log: the last one, or a new one if that is full.
    fn current_memtable(
        &self,
        log: &Log<'_>,
        replayed: &mut Replayed,
        arena: &mut Arena,
        full: &mut impl FnMut(&mut VecDeque<Frozen>) -> Result<()>,
    ) -> Result<Arc<Memtable>> {
        if let Some(last) = replayed.memtables.back()
            && last.mem.bytes() < self.write_buffer_bytes
        {
            return Ok(last.mem.clone());
        }
        if replayed.memtables.len() > MAX_RECOVERED_MEMTABLES {
            full(&mut replayed.memtables)?;
        }
        *arena = Arena::default();
        let log_bytes = usize::try_from(log.file_bytes).unwrap_or(usize::MAX);
        let expected_bytes = self.write_buffer_bytes.min(log_bytes);
        let mem = Arc::new(Memtable::new(self.order.user(), expected_bytes));
        let frozen = Frozen { mem: mem.clone(), first_log: log.number, bytes: 0 };
        replayed.memtables.push_back(frozen);
        Ok(mem)
    }
}

/// A log that is being replayed.
struct Log<'a> {
    number: u64,
    path: &'a Path,
    file_bytes: u64,
}

/// How the replay of a log ended.
enum LogEnd {
    /// At the log's end, torn or not.
    Whole {
        /// Whether the log's writer marked it as one whose sync failed.
        sync_failed: bool,
    },
    /// At its first record, which says why: the log before must have lost its end.
    Misplaced(String),
    /// At a bad record.
    Damaged(Error),
}

/// Whether a log's first record says that the log before must have gone on past `last_seq`, and
/// what it says.
fn gap_before(first_record: &[u8], last_seq: SeqNo) -> Option<String> {
    match decode_header(first_record) {
        Ok((next_seq, 0)) if next_seq > last_seq + 1 => Some(format!(
            "begins at sequence number {next_seq}, but the log before ends at {last_seq}"
        )),
        _ => None,
    }
}

/// Inserts a log record, a batch: its last sequence number.
fn insert_record(mem: &Memtable, record: &[u8], arena: &mut Arena) -> Result<SeqNo> {
    let (first_seq, count) = decode_header(record)?;
    let last_seq = (first_seq + u64::from(count)).saturating_sub(1);
    // All or nothing: a batch that is malformed further on must not be half there.
    decode_ops(record).try_for_each(|op| op.map(drop))?;
    mem.insert_batch(record, first_seq, arena)?;
    Ok(last_seq)
}
