//! Reading the records of a log. Follows LevelDB's `db/log_reader.cc`.
//!
//! After a crash, a log may end in an incomplete record, or in zeros where space was allocated but
//! nothing was written. The reader treats either as the end of the log, and [`Tail`] describes it.
//! Any other bytes that do not form a record are an error. LevelDB does the same, except that it
//! skips damage and continues.
//!
//! A record of a type that LevelDB does not write, with a correct checksum, is not damage but the
//! log of another engine: [`Error::Unsupported`].
//!
//! Two things that LevelDB ignores are errors here:
//! - Zeros that are followed by other bytes: a page was lost, and nothing after it can be trusted.
//!   In a log of batches, such zeros are an error only if a batch is missing. If LevelDB continues
//!   the log of a killed process, it starts a new block after such zeros, with the next sequence
//!   number (`LogReader::find_continuation`).
//! - A length that exceeds the rest of the record's block, even in the last block. No writer stores
//!   such a length, so the record is damaged rather than cut short.
//!
//! Three things that LevelDB reports as damage end the log here, because a crash can leave them:
//! - A damaged record whose last byte is zero, followed only by zeros, in a file whose last 512
//!   bytes are zeros: the space of the record was allocated before the record was written. Power
//!   loss takes whole sectors, but LevelDB before 1.15 stored records through a mapping, the header
//!   first, so a process that was killed may have stored any part of the payload.
//! - Other bytes of at most 64 KiB before the file's final zeros, if these bytes have no header and
//!   no record starts in them: the process was killed while it stored a record through a mapping
//!   (`fs/mapped.rs`).
//! - Other bytes of more than 64 KiB, if each further block starts with a header without length and
//!   type: the process was killed while it wrote a long record (`fs/ordered.rs`).

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::{Error, Feature, Result};
use crate::format::batch::decode_header;
use crate::format::key::SeqNo;
use crate::format::record::{BLOCK_BYTES, HEADER_BYTES, RecordHeader, RecordType, SEAL};
use crate::fs::{MAX_STORED_BYTES, ReadFile};

/// Size of a read, in bytes: a whole number of blocks, so that a physical record is never split.
/// Larger reads take more memory and fewer system calls.
const CHUNK_BYTES: u64 = 32 * BLOCK_BYTES as u64;

/// Smallest unit, in bytes, that a storage device writes or loses.
const SECTOR_BYTES: u64 = 512;

/// A description of the part of a log file after the last record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tail {
    /// Nothing follows the last record.
    #[default]
    Clean,
    /// A record that was not written completely.
    Torn {
        /// Offset in the file, in bytes, of the end of the last record.
        offset: u64,
        /// Number of bytes after the last record.
        bytes: u64,
    },
    /// Zeros: space that was allocated but not used.
    Zeros {
        /// Offset in the file, in bytes, of the end of the last record.
        offset: u64,
        /// Number of zeros after the last record.
        bytes: u64,
    },
}

/// State of the search for a continuation in a log of batches. A continuation is the part of the
/// log that another program appended after damage. It begins at the start of a block, and its first
/// batch has the next sequence number.
#[derive(Debug)]
struct Continuing {
    /// The sequence number that follows the batches read so far; `None` before the first batch.
    next_seq: Option<SeqNo>,
    /// Whether the search has ended without finding a continuation.
    is_over: bool,
}

/// Reads a log from its start.
///
/// The file may grow or be truncated while it is read. The reader sees no bytes that were appended
/// after the reader was created. A read that returns too few bytes, although the file was not
/// truncated, is an error, because such a read does not show where the log ends.
#[derive(Debug)]
pub struct LogReader {
    file: Arc<dyn ReadFile>,
    path: PathBuf,
    file_bytes: u64,
    /// A part of the file, beginning at the start of a block.
    chunk: Vec<u8>,
    chunk_offset: u64,
    /// Offset in the file at which the next physical record begins.
    offset: u64,
    /// The joined fragments of a record.
    joined: Vec<u8>,
    record_offset: u64,
    valid_end: u64,
    /// Offset in the file at which reading can continue after corruption.
    resume_offset: u64,
    /// Whether another process may be writing the log.
    beside_writer: bool,
    /// State of the search for continuations; `None` if the log does not hold batches.
    continuing: Option<Continuing>,
    /// Whether the end of the file was already searched for an unfinished record. The search must
    /// not be repeated for each block of a file full of damage.
    is_searched: bool,
    /// Size of the next read, in bytes.
    read_bytes: u64,
    /// Whether [`LogReader::resume`] was called.
    is_resumed: bool,
    /// Length of the file, in bytes, when the reader found only zeros after the last record. While
    /// the file keeps this length, writers replace the zeros in order, starting with the next
    /// record.
    zeros_to: Option<u64>,
    end: Option<Result<Tail>>,
}

/// The location of a logical record.
enum Record {
    /// The range of the record in `chunk`.
    Whole(Range<usize>),
    /// The record is all of `joined`.
    Joined,
}

/// A physical record.
struct Fragment {
    offset: u64,
    record_type: RecordType,
    /// The range of the payload in `chunk`.
    payload: Range<usize>,
}

impl LogReader {
    /// Creates a reader of `file`. `path` appears in errors.
    ///
    /// # Errors
    /// An I/O error, if the length of the file cannot be read.
    pub fn new(file: Arc<dyn ReadFile>, path: &Path) -> Result<LogReader> {
        let file_bytes = file.len().map_err(|error| Error::io("read", path, error))?;
        Ok(LogReader {
            file,
            path: path.to_path_buf(),
            file_bytes,
            chunk: Vec::new(),
            chunk_offset: 0,
            offset: 0,
            joined: Vec::new(),
            record_offset: 0,
            valid_end: 0,
            resume_offset: 0,
            beside_writer: false,
            continuing: None,
            is_searched: false,
            read_bytes: CHUNK_BYTES,
            is_resumed: false,
            zeros_to: None,
            end: None,
        })
    }

    /// Sets whether another process may be writing the log, and returns the reader. If so, zeros
    /// that turn into a record while the reader reads them are the end of the log. Otherwise, they
    /// are reported as damage, because no record may follow zeros. Default: false.
    pub fn beside_writer(self, beside_writer: bool) -> LogReader {
        LogReader { beside_writer, ..self }
    }

    /// Creates a reader of a log of batches. If another program continued the log of a killed
    /// process at the start of a block, the reader continues there.
    ///
    /// # Errors
    /// The same as for [`LogReader::new`].
    pub fn of_batches(file: Arc<dyn ReadFile>, path: &Path) -> Result<LogReader> {
        let mut reader = LogReader::new(file, path)?;
        reader.continuing = Some(Continuing { next_seq: None, is_over: false });
        Ok(reader)
    }

    /// Moves the reader to `offset`, which must be the end of a record, and returns the reader. In
    /// a log of batches, `next_seq` is the sequence number that follows the batches before
    /// `offset`.
    pub(crate) fn starting_at(self, offset: u64, next_seq: Option<SeqNo>) -> LogReader {
        let continuing = self.continuing.map(|_| Continuing { next_seq, is_over: false });
        LogReader { offset, valid_end: offset, continuing, ..self }
    }

    /// Continues after the last whole record, even after the log's end or an error: the file may
    /// have grown, or an unfinished record may have been finished or replaced.
    ///
    /// The first read is only one block, so that checking a log to which little was appended is
    /// cheap.
    ///
    /// # Errors
    /// The same as for [`LogReader::new`]; corruption if the file has become shorter than the
    /// records read so far.
    pub(crate) fn resume(&mut self) -> Result<()> {
        self.file_bytes = self.file.len().map_err(|error| self.io_error(error))?;
        if self.file_bytes < self.valid_end {
            let what = "log became shorter than what was read of it";
            let error = Error::mismatch(what, self.valid_end, self.file_bytes);
            return Err(self.corruption(error, self.file_bytes));
        }
        self.offset = self.valid_end;
        self.chunk.clear();
        self.joined.clear();
        self.read_bytes = BLOCK_BYTES as u64;
        self.is_searched = false;
        self.is_resumed = true;
        self.end = None;
        if let Some(continuing) = &mut self.continuing {
            continuing.is_over = false;
        }
        Ok(())
    }

    /// Returns the file.
    pub(crate) fn file(&self) -> &Arc<dyn ReadFile> {
        &self.file
    }

    /// Returns the next record, or `None` at the log's end, which [`LogReader::tail`] describes.
    ///
    /// # Errors
    /// Corruption, at the offset of a physical record, if the bytes there are neither a record nor
    /// the result of a crash; an I/O error. Every further call returns the same error, until
    /// [`LogReader::skip_damage`] is called.
    #[expect(clippy::should_implement_trait, reason = "the record is lent, not given")]
    pub fn next(&mut self) -> Result<Option<&[u8]>> {
        if let Some(end) = &self.end {
            return end.clone().map(|_| None);
        }
        let found = self.next_continued().and_then(|record| match record {
            Some(record) => Ok(Some(record)),
            None => {
                self.end = Some(Ok(self.find_tail()?));
                Ok(None)
            }
        });
        let record = match found {
            Ok(None) => return Ok(None),
            Ok(Some(Record::Whole(range))) => &self.chunk[range],
            Ok(Some(Record::Joined)) => &self.joined[..],
            Err(error) => {
                self.end = Some(Err(error.clone()));
                return Err(error);
            }
        };
        if let Some(continuing) = &mut self.continuing
            && let Ok((seq, count)) = decode_header(record)
        {
            let next_seq = seq + u64::from(count);
            continuing.next_seq = continuing.next_seq.max(Some(next_seq));
        }
        Ok(Some(record))
    }

    /// Returns the next record, which may be after damage if the log was continued there.
    fn next_continued(&mut self) -> Result<Option<Record>> {
        match self.next_record() {
            Err(error) if error.is_corruption() => {
                if !self.find_continuation()? {
                    return Err(error);
                }
                self.next_record()
            }
            found => found,
        }
    }

    /// Searches for the place after damage where another program continued the log. Returns true if
    /// there is such a place. If so, the next record is the first record that the other program
    /// wrote.
    ///
    /// A killed process can leave zeros up to the end of a block, or an incomplete record followed
    /// by such zeros. LevelDB skips the zeros or the incomplete record, together with the rest of
    /// the block. With `reuse_logs`, LevelDB then appends at the end of the file, which is the
    /// start of a block. Sequence numbers have no gaps: if the first appended batch has the next
    /// sequence number, no batch is missing in between. If a page had been lost, the batch would
    /// have a higher sequence number.
    fn find_continuation(&mut self) -> Result<bool> {
        let Some(Continuing { next_seq: Some(next_seq), is_over: false }) = self.continuing else {
            return Ok(false);
        };
        let block = BLOCK_BYTES as u64;
        let mut offset = self.resume_offset.next_multiple_of(block);
        while let Some(bytes) = self.load(offset)? {
            let Some(header) = RecordHeader::decode(bytes) else { break };
            let payload = bytes[HEADER_BYTES..].get(..usize::from(header.payload_bytes));
            let is_sound = |payload: &&[u8]| header.actual_crc(payload) == header.stored_crc();
            let begins = matches!(
                RecordType::from_u8(header.type_number),
                Some(RecordType::Full | RecordType::First)
            );
            if let Some(payload) = payload.filter(is_sound)
                && begins
            {
                let is_next = decode_header(payload).is_ok_and(|(seq, _)| seq == next_seq);
                if is_next {
                    self.offset = offset;
                    self.joined.clear();
                    return Ok(true);
                }
                break;
            }
            let is_zero = bytes[..HEADER_BYTES] == [0; HEADER_BYTES];
            offset += block;
            if is_zero {
                let Some(data) = self.data_from(offset)? else { break };
                offset = offset.max(data - data % block);
            }
        }
        // Search only once: a file full of damage must not be read again for each of its blocks.
        self.continuing = Some(Continuing { next_seq: Some(next_seq), is_over: true });
        Ok(false)
    }

    /// Returns the tail of the log, after the last record. Returns [`Tail::Clean`] until
    /// [`LogReader::next`] has returned `None`.
    pub fn tail(&self) -> Tail {
        match self.end {
            Some(Ok(tail)) => tail,
            _ => Tail::Clean,
        }
    }

    /// Returns the offset, in bytes, of the end of the last complete record, where a writer may
    /// continue the log.
    pub fn valid_end(&self) -> u64 {
        self.valid_end
    }

    /// Returns the offset, in bytes, of the last record that was returned.
    pub fn record_offset(&self) -> u64 {
        self.record_offset
    }

    /// Continues after corruption, as LevelDB's repair does. If a fragment was missing, continues
    /// at the next fragment; otherwise, continues at the next block, because no length in the
    /// damaged block can be trusted. If more fragments of a damaged record follow, they cause
    /// further errors.
    pub fn skip_damage(&mut self) {
        if let Some(Err(Error::Corruption(_))) = self.end {
            self.end = None;
            self.offset = self.resume_offset;
        }
    }

    /// Returns whether [`LogReader::skip_damage`] would pass over a record: whether one that is not
    /// empty begins after the damage, in the same block. The log must not hold batches.
    pub(crate) fn would_skip_record(&self) -> bool {
        let block_left = BLOCK_BYTES - (self.offset % BLOCK_BYTES as u64) as usize;
        let at = (self.offset - self.chunk_offset) as usize;
        let block = self.chunk.get(at..).unwrap_or_default();
        let after = block[..block.len().min(block_left)].get(1..).unwrap_or_default();
        let empty = RecordHeader::new(RecordType::Full, &[]);
        records_in(after).any(|header| header != empty)
    }

    fn next_record(&mut self) -> Result<Option<Record>> {
        // Offset of the record whose last fragment has not been read yet.
        let mut begun: Option<u64> = None;
        while let Some(fragment) = self.next_fragment()? {
            match (fragment.record_type, begun) {
                (RecordType::Full | RecordType::First, Some(start)) if !self.joined.is_empty() => {
                    self.resume_offset = fragment.offset;
                    let what = "log record has no last fragment before the next record";
                    return Err(self.corruption(Error::corruption(what), start));
                }
                (RecordType::Full, _) => {
                    self.complete(fragment.offset);
                    return Ok(Some(Record::Whole(fragment.payload)));
                }
                // The first fragment of the previous record may be empty: early versions of LevelDB
                // ended blocks with such fragments.
                (RecordType::First, _) => {
                    begun = Some(fragment.offset);
                    self.joined.clear();
                    self.joined.extend_from_slice(&self.chunk[fragment.payload]);
                }
                (RecordType::Middle | RecordType::Last, None) => {
                    self.resume_offset = self.offset;
                    let what = "log record has no first fragment";
                    return Err(self.corruption(Error::corruption(what), fragment.offset));
                }
                (RecordType::Middle, Some(_)) => {
                    self.joined.extend_from_slice(&self.chunk[fragment.payload]);
                }
                (RecordType::Last, Some(start)) => {
                    self.joined.extend_from_slice(&self.chunk[fragment.payload]);
                    self.complete(start);
                    return Ok(Some(Record::Joined));
                }
            }
        }
        Ok(None)
    }

    fn complete(&mut self, start: u64) {
        debug_assert!(self.valid_end <= start && start < self.offset, "records go backwards");
        self.record_offset = start;
        self.valid_end = self.offset;
    }

    /// Returns the next physical record, or `None` at the end of the log. A torn tail also counts
    /// as the end of the log.
    fn next_fragment(&mut self) -> Result<Option<Fragment>> {
        let block_left = BLOCK_BYTES as u64 - self.offset % BLOCK_BYTES as u64;
        if block_left < HEADER_BYTES as u64 {
            self.offset += block_left;
        }
        let offset = self.offset;
        let Some(header) = self.load(offset)?.and_then(RecordHeader::decode) else {
            return Ok(None);
        };
        let end = offset + HEADER_BYTES as u64 + u64::from(header.payload_bytes);
        let block_end = (offset / BLOCK_BYTES as u64 + 1) * BLOCK_BYTES as u64;
        self.resume_offset = block_end;
        if end > block_end {
            let room = block_end - offset - HEADER_BYTES as u64;
            let error = Error::mismatch(
                "log record longer than its block",
                format!("at most {room} bytes"),
                header.payload_bytes,
            );
            return self.damage(error, offset, end);
        }
        if end > self.file_bytes {
            let wrong = self.length_error(offset);
            return wrong.map_or(Ok(None), |error| Err(self.corruption(error, offset)));
        }
        if header.type_number == 0 && header.payload_bytes == 0 {
            return self.zeros(offset, end);
        }
        let at = (offset - self.chunk_offset) as usize;
        let in_block = &self.chunk[at..self.chunk.len().min(at + (block_end - offset) as usize)];
        if header.is_foreign(in_block) {
            return Err(unknown_type(header.type_number).in_file(&self.path));
        }
        let start = at + HEADER_BYTES;
        let payload = start..start + usize::from(header.payload_bytes);
        let crc = header.actual_crc(&self.chunk[payload.clone()]);
        if crc != header.stored_crc() {
            let hex = |crc| format!("{crc:08x}");
            let what = "log record checksum mismatch";
            let error = Error::mismatch(what, hex(header.stored_crc()), hex(crc));
            return self.damage(error, offset, end);
        }
        let unknown = || unknown_type(header.type_number).in_file(&self.path);
        let record_type = RecordType::from_u8(header.type_number).ok_or_else(unknown)?;
        debug_assert!(end > self.offset, "the reader does not move");
        debug_assert!(payload.end <= self.chunk.len(), "the payload passes the chunk");
        self.offset = end;
        Ok(Some(Fragment { offset, record_type, payload }))
    }

    /// Returns `None` (the end of the log) if the log ends at `offset`, where there are zeros
    /// instead of a header. Otherwise returns an error, after which the next record is looked for
    /// in the block of the bytes that follow the zeros: these may be a hole of any size.
    fn zeros(&mut self, offset: u64, end: u64) -> Result<Option<Fragment>> {
        if self.ends_in_zeros(offset)? {
            return Ok(None);
        }
        let Some(data) = self.data_from(offset)? else { return Ok(None) };
        self.resume_offset = self.resume_offset.max(data - data % BLOCK_BYTES as u64);
        let what = format!("zeros inside the log, from {offset} to {data}");
        self.damage(Error::corruption(what), offset, end)
    }

    /// Returns an error if the record at `offset` is whole, except that one bit of its length has
    /// changed. The checksum does not cover the length, so such a record may seem to go on after
    /// the end of the log, like a record that was cut off.
    fn length_error(&self, offset: u64) -> Option<Error> {
        let block_left = BLOCK_BYTES - (offset % BLOCK_BYTES as u64) as usize;
        let record = self.chunk.get((offset - self.chunk_offset) as usize..)?;
        let record = &record[..record.len().min(block_left)];
        let (header, rest) = (RecordHeader::decode(record)?, record.get(HEADER_BYTES..)?);
        let is_whole = (0..u16::BITS).any(|bit| {
            let payload = rest.get(..usize::from(header.payload_bytes ^ 1 << bit));
            payload.is_some_and(|payload| header.actual_crc(payload) == header.stored_crc())
        });
        let (what, expected) =
            ("damaged length of a log record", "the length that its checksum covers");
        is_whole.then(|| Error::mismatch(what, expected, header.payload_bytes))
    }

    /// Returns whether the log ends at `offset`, where there are zeros instead of a header.
    fn ends_in_zeros(&mut self, offset: u64) -> Result<bool> {
        if self.is_known_zero() {
            return Ok(true);
        }
        if self.is_zero_from(offset)? {
            self.zeros_to = Some(self.file_bytes);
            return Ok(true);
        }
        Ok(self.is_torn_store(offset)? || self.is_unfinished(offset)?)
    }

    /// Returns whether the zeros after the last record need not be read: the reader has already
    /// found only zeros up to the end of the file, and the length of the file is still the same.
    /// Without this check, each poll of a preallocated log would read all of the log's zeros.
    fn is_known_zero(&self) -> bool {
        self.is_resumed && self.zeros_to == Some(self.file_bytes)
    }

    /// Returns `None` (the end of the log) if a crash during the write of the record at
    /// `offset..end` can explain the damage, or if another process is still writing there.
    /// Otherwise returns `error`. A crash does not change a length.
    fn damage(&self, error: Error, offset: u64, end: u64) -> Result<Option<Fragment>> {
        if let Some(wrong) = self.length_error(offset) {
            let block_left = BLOCK_BYTES as u64 - offset % BLOCK_BYTES as u64;
            let error = if end > offset + block_left { error } else { wrong };
            return Err(self.corruption(error, offset));
        }
        let zeros = (end - 1).min(self.file_bytes.saturating_sub(SECTOR_BYTES));
        if self.is_zero_from(zeros)? || self.has_grown(offset, end)? {
            return Ok(None);
        }
        Err(self.corruption(error, offset))
    }

    /// Returns whether another process has written at `offset..end` since these bytes were read,
    /// that is, whether zeros there have changed. If so, the log ended at `offset` when it was
    /// read, and the rest was written later.
    fn has_grown(&self, offset: u64, end: u64) -> Result<bool> {
        if !self.beside_writer {
            return Ok(false);
        }
        let start = (offset - self.chunk_offset) as usize;
        let seen = self.chunk.get(start..).unwrap_or_default();
        let seen = &seen[..seen.len().min((end - offset) as usize)];
        let mut now = vec![0; seen.len()];
        let read = self.file.read_at(&mut now, offset).map_err(|error| self.io_error(error))?;
        if read < seen.len() {
            self.shorter_by_now()?;
            return Ok(true);
        }
        Ok(now != seen && seen.iter().zip(&now).all(|(&seen, now)| seen == 0 || seen == *now))
    }

    fn find_tail(&self) -> Result<Tail> {
        let offset = self.valid_end;
        let bytes = self.file_bytes.saturating_sub(offset);
        Ok(match bytes {
            0 => Tail::Clean,
            _ if self.is_known_zero() || self.is_zero_from(offset)? => {
                Tail::Zeros { offset, bytes }
            }
            _ => Tail::Torn { offset, bytes },
        })
    }

    /// Returns the bytes of the chunk from `offset` on, after reading the chunk if necessary.
    /// Returns `None` if `offset` is past the end of the file.
    fn load(&mut self, offset: u64) -> Result<Option<&[u8]>> {
        if offset >= self.file_bytes {
            return Ok(None);
        }
        let chunk_end = self.chunk_offset + self.chunk.len() as u64;
        if offset < self.chunk_offset || offset >= chunk_end {
            // After a jump, over a hole for example, little may follow before the next one.
            if offset > chunk_end + BLOCK_BYTES as u64 {
                self.read_bytes = BLOCK_BYTES as u64;
            }
            self.chunk_offset = offset - offset % BLOCK_BYTES as u64;
            let wanted = (self.file_bytes - self.chunk_offset).min(self.read_bytes) as usize;
            self.read_bytes = (2 * self.read_bytes).min(CHUNK_BYTES);
            self.chunk.resize(wanted, 0);
            let read = self.file.read_at(&mut self.chunk, self.chunk_offset);
            self.chunk.truncate(*read.as_ref().unwrap_or(&0));
            if read.map_err(|error| self.io_error(error))? < wanted {
                self.file_bytes = self.shorter_by_now()?;
                return self.load(offset);
            }
        }
        Ok(self.chunk.get((offset - self.chunk_offset) as usize..))
    }

    /// Returns whether the file contains only zeros from `offset` on.
    fn is_zero_from(&self, offset: u64) -> Result<bool> {
        Ok(self.data_from(offset)?.is_none())
    }

    /// Returns the offset of the first byte from `offset` on that is not zero, or `None` if only
    /// zeros follow. Holes are not read: a sparse file may be as long as its filesystem allows.
    fn data_from(&self, offset: u64) -> Result<Option<u64>> {
        let mut buf = [0; 16 << 10];
        let mut offset = offset;
        let mut zero_reads: u32 = 0;
        while offset < self.file_bytes {
            let wanted = (self.file_bytes - offset).min(buf.len() as u64) as usize;
            let read = self.file.read_at(&mut buf[..wanted], offset);
            let read = read.map_err(|error| self.io_error(error))?;
            if let Some(at) = buf[..read].iter().position(|&byte| byte != 0) {
                return Ok(Some(offset + at as u64));
            }
            if read < wanted {
                self.shorter_by_now()?;
                break;
            }
            offset += read as u64;
            zero_reads += 1;
            // Zeros that were written are as common as holes, so holes are asked for less and less.
            if zero_reads.is_power_of_two() {
                let data = self.file.skip_hole(offset).map_err(|error| self.io_error(error))?;
                let Some(data) = data else { break };
                if data > offset {
                    (offset, zero_reads) = (data, 0);
                }
            }
        }
        Ok(None)
    }

    /// Returns the new length of the file after a read ended early. This happens when a writer
    /// closes the log and truncates the zeros at its end.
    ///
    /// # Errors
    /// An I/O error, if the file is still as long as before, because then the read should not have
    /// ended early.
    fn shorter_by_now(&self) -> Result<u64> {
        match self.file.len().map_err(|error| self.io_error(error))? {
            now if now < self.file_bytes => Ok(now),
            _ => Err(self.io_error(io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// Returns whether the bytes at `offset`, which have no header, are a record that a process was
    /// storing through a mapping when the process was killed. The header is stored last, so nothing
    /// follows such an incomplete record, and no other record starts in it.
    fn is_torn_store(&self, offset: u64) -> Result<bool> {
        if !self.is_zero_from(offset + MAX_STORED_BYTES as u64)? {
            return Ok(false);
        }
        Ok(!begins_record(&self.read(offset, MAX_STORED_BYTES as u64)?))
    }

    /// Returns whether the bytes at `offset`, which have no header, are a record of any size that a
    /// process was writing when the process was killed. In such a record, the header at the start
    /// of each further block has three bytes of its checksum, but neither length nor type
    /// (`fs/ordered.rs`), whereas a lost page is all zeros. After the record, there are only zeros.
    fn is_unfinished(&mut self, offset: u64) -> Result<bool> {
        if std::mem::replace(&mut self.is_searched, true) {
            return Ok(false);
        }
        let block = BLOCK_BYTES as u64;
        let mut next = (offset / block + 1) * block;
        if begins_record(&self.read(offset, next - offset)?) {
            return Ok(false);
        }
        while next < self.file_bytes {
            let bytes = self.read(next, block)?;
            let Some(header) = RecordHeader::decode(&bytes) else { break };
            let is_begun = bytes[..SEAL.start] != [0; SEAL.start]
                && (header.payload_bytes, header.type_number) == (0, 0);
            if !is_begun {
                break;
            }
            next += block;
        }
        self.is_zero_from(next)
    }

    /// Returns up to `len` bytes of the file from `offset` on.
    fn read(&self, offset: u64, len: u64) -> Result<Vec<u8>> {
        let left = self.file_bytes.saturating_sub(offset).min(len);
        let mut bytes = vec![0; left as usize];
        let read = self.file.read_at(&mut bytes, offset);
        bytes.truncate(read.map_err(|error| self.io_error(error))?);
        Ok(bytes)
    }

    fn io_error(&self, error: io::Error) -> Error {
        Error::io("read", &self.path, error)
    }

    fn corruption(&self, error: Error, offset: u64) -> Error {
        error.in_file(&self.path).at(offset)
    }
}

fn unknown_type(number: u8) -> Error {
    let name = match number {
        5..=12 => format!("{number}, which RocksDB and Pebble write,"),
        _ => number.to_string(),
    };
    Error::unsupported(Feature::RecordType, name)
}

/// Returns whether an undamaged record starts anywhere in `bytes`.
fn begins_record(bytes: &[u8]) -> bool {
    records_in(bytes).next().is_some()
}

/// Returns the headers of the undamaged records that start anywhere in `bytes`.
fn records_in(bytes: &[u8]) -> impl Iterator<Item = RecordHeader> {
    let begins = move |at: usize| {
        let header = RecordHeader::decode(&bytes[at..])?;
        let start = at + HEADER_BYTES;
        let payload = bytes.get(start..start + usize::from(header.payload_bytes))?;
        let record_type = RecordType::from_u8(header.type_number)?;
        let is_first = matches!(record_type, RecordType::Full | RecordType::First);
        (is_first && header.actual_crc(payload) == header.stored_crc()).then_some(header)
    };
    (0..bytes.len()).filter_map(begins)
}

#[cfg(test)]
mod tests;
