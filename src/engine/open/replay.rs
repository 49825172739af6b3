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
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct LostLog {
    /// The log.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "file", serialize_with = "crate::base::serialize::path")
    )]
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
        // All of a log is in one memtable. Of two, the first could be flushed, the log needed for
        // the second could lose its end, and what is replayed then be older than the table.
        let mut mem = None;
        let mut sync_failed = false;
        let end = loop {
            let is_first = reader.valid_end() == 0;
            let record = match reader.next() {
                Ok(Some(record)) => record,
                Ok(None) => break LogEnd::Whole,
                Err(error) => break LogEnd::Damaged(error),
            };
            if is_first && let Some(gap) = gap_before(record, replayed.last_seq) {
                break LogEnd::Misplaced(gap);
            }
            let mem = match &mem {
                Some(mem) => mem,
                None => {
                    let expected = usize::try_from(file_bytes).unwrap_or(usize::MAX);
                    let log = (number, expected);
                    mem.insert(current_memtable(self, replayed, log, arena, full)?)
                }
            };
            match insert_record(mem, record, arena) {
                Ok(last) => replayed.last_seq = replayed.last_seq.max(last),
                Err(error) => {
                    break LogEnd::Damaged(error.in_file(&path).at(reader.record_offset()));
                }
            }
            let is_empty = record.len() == HEADER_BYTES;
            sync_failed |= is_empty && !is_first;
            replayed.recovery.records += u64::from(!is_empty);
        };
        replayed.recovery.logs += 1;
        replayed.last_log = None;
        let (offset, why) = match end {
            LogEnd::Whole => {
                let is_clean = reader.tail() == Tail::Clean;
                let may_go_on = is_clean && !sync_failed;
                replayed.last_log = may_go_on.then_some((number, reader.valid_end()));
                return Ok(());
            }
            // With nothing after the marker there is nothing to lose.
            LogEnd::Misplaced(_) if matches!(reader.next(), Ok(None)) => return Ok(()),
            LogEnd::Misplaced(gap) => (0, gap),
            LogEnd::Damaged(error) if self.paranoid || !error.is_corruption() => return Err(error),
            LogEnd::Damaged(error) => (reader.valid_end(), error.to_string()),
        };
        let bytes = file_bytes.saturating_sub(offset);
        replayed.recovery.lost.push(LostLog { path, offset, bytes, why });
        Ok(())
    }
}

/// How the replay of a log ended.
enum LogEnd {
    /// At the log's end, torn or not.
    Whole,
    /// Before its first record: the log before must have lost its end.
    Misplaced(String),
    /// At damage.
    Damaged(Error),
}

/// The memtable to replay into: the last, or, if that is full, a new one for a log of a number and
/// a size.
fn current_memtable(
    replay: &Replay<'_>,
    replayed: &mut Replayed,
    (log_number, expected_bytes): (u64, usize),
    arena: &mut Arena,
    full: &mut impl FnMut(&mut VecDeque<Frozen>) -> Result<()>,
) -> Result<Arc<Memtable>> {
    if let Some(last) = replayed.memtables.back()
        && last.mem.bytes() < replay.write_buffer_bytes
    {
        return Ok(last.mem.clone());
    }
    if replayed.memtables.len() > MAX_RECOVERED_MEMTABLES {
        full(&mut replayed.memtables)?;
    }
    *arena = Arena::default();
    let mem =
        Arc::new(Memtable::new(replay.order.user(), replay.write_buffer_bytes.min(expected_bytes)));
    replayed.memtables.push_back(Frozen { mem: mem.clone(), first_log: log_number, bytes: 0 });
    Ok(mem)
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
