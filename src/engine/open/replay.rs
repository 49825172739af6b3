//! Replaying logs into memtables.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use crate::base::{Error, Result};
use crate::engine::Frozen;
use crate::engine::memtable::{Arena, Memtable};
use crate::engine::report::recovery::{LostLog, Recovery};
use crate::format::batch::{HEADER_BYTES, decode_header, decode_ops};
use crate::format::key::{InternalComparator, SeqNo};
use crate::format::name;
use crate::fs::Fs;
use crate::log::{LogReader, Tail};

/// Number of full memtables that a replay keeps in memory before it flushes the oldest one. With a
/// higher number, opening a database after a crash takes more memory and writes fewer tables.
const MAX_RECOVERED_MEMTABLES: usize = 2;

/// The memtables that remain after a replay, and the report of the replay.
pub(crate) struct Replayed {
    /// The memtables, oldest first. No memtable is empty, and all except the last are full.
    pub memtables: VecDeque<Frozen>,
    /// The highest sequence number that was replayed or is in the MANIFEST.
    pub last_seq: SeqNo,
    /// The report of the replay.
    pub recovery: Recovery,
    /// The number and the length of the last log, if it can be continued.
    pub last_log: Option<(u64, u64)>,
    /// The number of the last log, and the end of its last record in bytes; `None` if records were
    /// left out, or if there is no log.
    pub read_to: Option<(u64, u64)>,
}

impl Replayed {
    /// Returns the highest sequence number in the memtables; 0 if there is none.
    fn logged_seq(&self) -> SeqNo {
        self.memtables.iter().map(|frozen| frozen.mem.last_seq()).max().unwrap_or(0)
    }

    /// Asserts that the memtables are in the order of their logs, and that no entry is after
    /// `last_seq`.
    fn check(&self) {
        debug_assert!(
            self.memtables.iter().is_sorted_by(|a, b| a.first_log < b.first_log),
            "memtables are out of order"
        );
        debug_assert!(
            self.memtables.iter().all(|frozen| frozen.mem.last_seq() <= self.last_seq),
            "an entry was replayed that the last sequence number does not cover"
        );
    }
}

/// A replay of logs into memtables.
pub(crate) struct LogReplay<'a> {
    /// The filesystem of the logs.
    pub fs: &'a dyn Fs,
    /// The directory of the logs.
    pub dir: &'a Path,
    /// The order of keys.
    pub order: &'a InternalComparator,
    /// Size at which a memtable is full, in bytes.
    pub write_buffer_bytes: usize,
    /// Maximum number of entries in a log. A memtable with more entries takes no further log, so
    /// that each log fits.
    pub max_entries: usize,
    /// Whether damage inside a log is an error, rather than the end of the replay.
    pub paranoid: bool,
    /// Whether another process may be writing the logs.
    pub beside_writer: bool,
}

impl LogReplay<'_> {
    /// Replays `logs`, whose numbers must be in ascending order. Returns the memtables that remain.
    /// `last_seq` is the last sequence number in the tables. `full` is called when more than
    /// [`MAX_RECOVERED_MEMTABLES`] memtables are full, and may take the oldest memtables from the
    /// queue.
    ///
    /// # Errors
    /// I/O errors, the errors of `full`, and corruption if `paranoid` is set.
    pub(crate) fn run(
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
            read_to: None,
        };
        debug_assert!(logs.is_sorted_by(|a, b| a < b), "logs are replayed out of order");
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
        // Empty batches can leave a memtable empty, and a table needs at least one entry.
        replayed.memtables.retain(|frozen| !frozen.mem.is_empty());
        debug_assert!(replayed.last_seq >= last_seq, "the last sequence number goes back");
        replayed.check();
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
        replayed.read_to = None;
        let (offset, why) = match end {
            LogEnd::Whole { sync_failed } => {
                let is_clean = reader.tail() == Tail::Clean;
                replayed.read_to = Some((number, reader.valid_end()));
                let can_continue = is_clean && !sync_failed;
                replayed.last_log = can_continue.then_some((number, reader.valid_end()));
                return Ok(());
            }
            // If no record follows, nothing has to be left out.
            LogEnd::Misplaced { .. } if matches!(reader.next(), Ok(None)) => return Ok(()),
            LogEnd::Misplaced { offset, gap } => (offset, gap),
            LogEnd::Damaged(error) if self.paranoid || !error.is_corruption() => return Err(error),
            LogEnd::Damaged(error) => (reader.valid_end(), error.to_string()),
        };
        let bytes = file_bytes.saturating_sub(offset);
        replayed.recovery.lost.push(LostLog { path, offset, bytes, why });
        Ok(())
    }

    /// Inserts the records of a log into a memtable, up to the log's end or the first bad record.
    /// Returns how the log ended.
    fn replay_records(
        &self,
        log: &Log<'_>,
        reader: &mut LogReader,
        replayed: &mut Replayed,
        arena: &mut Arena,
        full: &mut impl FnMut(&mut VecDeque<Frozen>) -> Result<()>,
    ) -> Result<LogEnd> {
        // A log is never split between two memtables: if the first memtable were flushed and the
        // log then lost its end, the next replay would yield entries that are older than the
        // flushed table.
        let mut mem = None;
        let mut sync_failed = false;
        loop {
            let is_first = reader.valid_end() == 0;
            let record = match reader.next() {
                Ok(Some(record)) => record,
                Ok(None) => return Ok(LogEnd::Whole { sync_failed }),
                Err(error) => return Ok(LogEnd::Damaged(error)),
            };
            if let Some(gap) = gap_before(record, replayed.last_seq, is_first) {
                let offset = if is_first { 0 } else { reader.record_offset() };
                return Ok(LogEnd::Misplaced { offset, gap });
            }
            if self.beside_writer
                && is_first
                && let Some(gap) = overlap(record, replayed.logged_seq())
            {
                return Ok(LogEnd::Misplaced { offset: 0, gap });
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

    /// Returns the memtable for a log: the last memtable, or a new memtable if the last one is
    /// full.
    fn current_memtable(
        &self,
        log: &Log<'_>,
        replayed: &mut Replayed,
        arena: &mut Arena,
        full: &mut impl FnMut(&mut VecDeque<Frozen>) -> Result<()>,
    ) -> Result<Arc<Memtable>> {
        if let Some(last) = replayed.memtables.back()
            && last.mem.bytes() < self.write_buffer_bytes
            && last.mem.len() <= self.max_entries
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

/// The way in which the replay of a log ended.
enum LogEnd {
    /// The log was replayed up to its end, which may be torn.
    Whole {
        /// Whether the writer marked the log because a sync of the log failed.
        sync_failed: bool,
    },
    /// An empty batch shows that earlier writes are lost: the writes at the end of the previous
    /// log, or tables that were ingested. Or it shows that the end of the previous log was never
    /// committed ([`overlap`]).
    Misplaced {
        /// Offset in the log after which no record was replayed.
        offset: u64,
        /// Description of the gap, or of the overlap.
        gap: String,
    },
    /// A bad record ended the replay.
    Damaged(Error),
}

/// Returns a description of the gap if `record` has no operations and shows that writes between
/// `last_seq` and the record are missing.
pub(crate) fn gap_before(record: &[u8], last_seq: SeqNo, is_first: bool) -> Option<String> {
    match decode_header(record) {
        Ok((next_seq, 0)) if next_seq > last_seq + 1 => Some(match is_first {
            true => {
                format!(
                    "begins at sequence number {next_seq}, but the previous log ends at {last_seq}"
                )
            }
            false => format!(
                "goes on at sequence number {next_seq}, but the writes before it end at {last_seq}"
            ),
        }),
        _ => None,
    }
}

/// Returns a description of the overlap if `record`, the first of a log, has no operations and
/// states a number that earlier logs, which end at `last_seq`, have given to a write. That write
/// failed, and the writer resumed with this log. It writes no other record before the MANIFEST
/// gives up the earlier logs: if one follows, the MANIFEST that was read is out of date.
pub(crate) fn overlap(record: &[u8], last_seq: SeqNo) -> Option<String> {
    match decode_header(record) {
        // No write has the number 0.
        Ok((next_seq @ 1.., 0)) if next_seq <= last_seq => Some(format!(
            "begins at sequence number {next_seq}, but the previous log ends at {last_seq}"
        )),
        _ => None,
    }
}

/// Inserts a log record, which is a batch. Returns the last sequence number of the batch.
fn insert_record(mem: &Memtable, record: &[u8], arena: &mut Arena) -> Result<SeqNo> {
    let (first_seq, count) = decode_header(record)?;
    let last_seq = (first_seq + u64::from(count)).saturating_sub(1);
    // A batch is inserted completely or not at all, so the whole batch is checked first.
    decode_ops(record).try_for_each(|op| op.map(drop))?;
    mem.insert_batch(record, first_seq, arena)?;
    Ok(last_seq)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::version::testing::order;
    use crate::format::batch::WriteBatch;
    use crate::fs::MemFs;
    use crate::log::LogWriter;

    /// Replays `logs` logs, numbered from 1, each with one put. The logs in `damaged` have a bad
    /// record instead, and the logs in `empty` have no record. Returns the result, and the number
    /// of memtables at each call of `full`, which removes the oldest memtable.
    fn replay(logs: u64, damaged: &[u64], empty: &[u64], buffer: usize) -> (Replayed, Vec<usize>) {
        replay_up_to(logs, damaged, empty, buffer, usize::MAX)
    }

    /// Like [`replay`], with a maximum number of entries in a log.
    fn replay_up_to(
        logs: u64,
        damaged: &[u64],
        empty: &[u64],
        buffer: usize,
        max_entries: usize,
    ) -> (Replayed, Vec<usize>) {
        let (fs, dir) = (MemFs::new(), Path::new("/db"));
        fs.create_dir(dir).unwrap();
        for number in 1..=logs {
            let file = fs.create(&dir.join(name::log_name(number))).unwrap();
            let mut log = LogWriter::new(file, 0);
            let mut batch = WriteBatch::new();
            batch.put(number.to_be_bytes(), b"value");
            batch.set_sequence(number);
            let contents = match damaged.contains(&number) {
                true => &b"no batch"[..],
                false => batch.contents(),
            };
            if !empty.contains(&number) {
                log.add_record(contents).unwrap();
            }
        }
        let order = order();
        let replay = LogReplay {
            fs: &fs,
            dir,
            order: &order,
            write_buffer_bytes: buffer,
            max_entries,
            paranoid: false,
            beside_writer: false,
        };
        let mut fulls = Vec::new();
        let full = |memtables: &mut VecDeque<Frozen>| {
            fulls.push(memtables.len());
            memtables.pop_front();
            Ok(())
        };
        let numbers: Vec<u64> = (1..=logs).collect();
        let replayed = replay.run(&numbers, 0, full).unwrap();
        (replayed, fulls)
    }

    #[test]
    fn memtables_are_flushed_once_there_are_too_many() {
        let most = MAX_RECOVERED_MEMTABLES;
        let (replayed, fulls) = replay(most as u64 + 1, &[], &[], 1);
        assert_eq!((replayed.memtables.len(), fulls), (most + 1, vec![]));
        let (replayed, fulls) = replay(most as u64 + 3, &[], &[], 1);
        assert_eq!((replayed.memtables.len(), fulls), (most + 1, vec![most + 1; 2]));
        let (replayed, fulls) = replay(9, &[], &[], usize::MAX);
        assert_eq!((replayed.memtables.len(), fulls), (1, vec![]));
        assert_eq!((replayed.recovery.logs, replayed.recovery.records), (9, 9));
        assert_eq!((replayed.last_seq, replayed.last_log.map(|(number, _)| number)), (9, Some(9)));
    }

    /// A memtable has room for twice as many entries as a log may have.
    #[test]
    fn a_memtable_with_many_entries_takes_no_further_log() {
        let lens = |max_entries| -> Vec<usize> {
            let (replayed, _) = replay_up_to(5, &[], &[], usize::MAX, max_entries);
            assert_eq!((replayed.last_seq, replayed.recovery.records), (5, 5));
            replayed.memtables.iter().map(|frozen| frozen.mem.len()).collect()
        };
        assert_eq!(lens(1), [2, 2, 1]);
        assert_eq!(lens(2), [3, 2]);
        assert_eq!(lens(4), [5]);
    }

    #[test]
    fn logs_after_a_damaged_log_are_lost_unless_they_are_empty() {
        let (replayed, _) = replay(5, &[2], &[4], usize::MAX);
        let lost = replayed.recovery.lost.iter();
        let lost: Vec<_> =
            lost.map(|log| log.path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(lost, ["000002.log", "000003.log", "000005.log"]);
        assert_eq!((replayed.recovery.logs, replayed.recovery.records), (2, 1));
        assert_eq!((replayed.last_seq, replayed.last_log), (1, None));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "memtables are out of order")]
    fn memtables_are_replayed_in_the_order_of_their_logs() {
        let frozen = |first_log| {
            let mem = Arc::new(Memtable::new(order().user(), 0));
            Frozen { mem, first_log, bytes: 0 }
        };
        let memtables = VecDeque::from([frozen(5), frozen(4)]);
        let recovery = Recovery::default();
        Replayed { memtables, last_seq: 0, recovery, last_log: None, read_to: None }.check();
    }
}
