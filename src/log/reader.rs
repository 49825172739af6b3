//! Reads the records of a log. LevelDB's `db/log_reader.cc`.
//!
//! A crash leaves a log that ends too early, or in zeros where space was allocated and nothing
//! was written: the log ends there, and [`Tail`] says what was left out. Anything else that is
//! not a record is an error. Both as LevelDB has it, save that LevelDB (which reports and goes
//! on) has no word for, and this reader refuses:
//! - zeros that something follows: a page that was lost, after which nothing is in order. In a log
//!   of batches, only if a batch is missing: a LevelDB that continues the log of a killed process
//!   begins a block after such zeros, with the next sequence number
//!   (`LogReader::find_continuation`);
//! - a length that passes the record's block, in the last block too: no writer wrote it, so it is
//!   no record cut short.
//!
//! And save that this reader takes as cut short what LevelDB reports: a damaged record whose end,
//! like the rest of the file, is zeros, 512 bytes at least. A crash leaves that where space was
//! allocated first. And the last 64 KiB that are not zeros, if they have no header and hold no
//! record's beginning: a process leaves that if it is killed while it stores a record. Of a longer
//! record it leaves more, in which each block begins with a header without length and type.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::{Error, Result};
use crate::format::batch::decode_header;
use crate::format::key::SeqNo;
use crate::format::record::{BLOCK_BYTES, HEADER_BYTES, RecordHeader, RecordType, SEAL};
use crate::fs::{MAX_STORED_BYTES, ReadFile};

/// How much is read at a time: whole blocks, so that no physical record is cut.
const CHUNK_BYTES: u64 = 32 * BLOCK_BYTES as u64;

/// The least that storage writes or loses at once.
const SECTOR_BYTES: u64 = 512;

/// What follows the last record of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tail {
    /// Nothing.
    #[default]
    Clean,
    /// A record that was not written to its end.
    Torn {
        /// Where in the file, in bytes: the end of the last record.
        offset: u64,
        /// How many bytes there are.
        bytes: u64,
    },
    /// Zeros: space that was allocated and not used.
    Zeros {
        /// Where in the file, in bytes: the end of the last record.
        offset: u64,
        /// How many zeros there are.
        bytes: u64,
    },
}

/// How a log is continued behind what ends it: a batch at the beginning of a block, with the
/// sequence number that comes next.
#[derive(Debug)]
struct Continuing {
    /// The sequence number after those read so far; `None` before the first batch.
    next_seq: Option<SeqNo>,
}

/// Reads a log from its start.
///
/// The file may grow meanwhile; what it held at first is read. It may be cut meanwhile, too. That a
/// read should end before the file does is an error: it tells nothing of the log's end.
#[derive(Debug)]
pub struct LogReader {
    file: Arc<dyn ReadFile>,
    path: PathBuf,
    file_bytes: u64,
    /// A part of the file that starts with a block.
    chunk: Vec<u8>,
    chunk_offset: u64,
    /// Where in the file the next physical record is.
    offset: u64,
    /// The fragments of a record put together.
    joined: Vec<u8>,
    record_offset: u64,
    valid_end: u64,
    /// Where reading can go on after corruption.
    resume_offset: u64,
    /// Whether another process may be writing the log.
    beside_writer: bool,
    /// For a log of batches.
    continuing: Option<Continuing>,
    /// Whether the end of the file was searched for a record of which a process was killed while
    /// it wrote it. A file full of damage must not be searched again for each block.
    is_searched: bool,
    end: Option<Result<Tail>>,
}

/// A logical record.
enum Record {
    /// In `chunk`.
    Whole(Range<usize>),
    /// In `joined`.
    Joined,
}

/// A physical record.
struct Fragment {
    offset: u64,
    record_type: RecordType,
    /// In `chunk`.
    payload: Range<usize>,
}

impl LogReader {
    /// Reads `file`, which errors call `path`.
    ///
    /// # Errors
    /// I/O, if the file does not tell its length.
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
            end: None,
        })
    }

    /// Says whether another process may be writing the log. If so, zeros that become a record while
    /// they are looked at are the log's end, and no damage.
    pub fn beside_writer(self, beside_writer: bool) -> LogReader {
        LogReader { beside_writer, ..self }
    }

    /// [`LogReader::new`] for a log whose records are batches: it goes on where another program
    /// continued the log of a killed process at the beginning of a block.
    ///
    /// # Errors
    /// I/O, if the file does not tell its length.
    pub fn of_batches(file: Arc<dyn ReadFile>, path: &Path) -> Result<LogReader> {
        let mut reader = LogReader::new(file, path)?;
        reader.continuing = Some(Continuing { next_seq: None });
        Ok(reader)
    }

    /// The next record; `None` at the log's end, of which [`LogReader::tail`] tells more.
    ///
    /// # Errors
    /// Corruption, with the offset of the physical record, for what is neither a record nor left
    /// by a crash; I/O. The same error comes again, until [`LogReader::skip_damage`].
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

    /// The next record; behind damage, if the log was continued there.
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

    /// Whether a program continued the log after what is damaged here: then the next record is the
    /// first that it wrote.
    ///
    /// A killed process can leave zeros up to the end of a block, or a record cut short before
    /// such zeros. LevelDB skips both with the rest of their block, and with `reuse_logs` appends
    /// at the end of the file, which is the beginning of a block. Sequence numbers have no gaps: if
    /// the first batch there has the one that comes next, no batch is missing between. Behind a
    /// lost page the next batch has a later one.
    fn find_continuation(&mut self) -> Result<bool> {
        let Some(Continuing { next_seq: Some(next_seq) }) = self.continuing else {
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
            offset += block;
        }
        // Searched once: a file full of damage must not be read again for each block of it.
        self.continuing = None;
        Ok(false)
    }

    /// What follows the last record; clean until [`LogReader::next`] returned `None`.
    pub fn tail(&self) -> Tail {
        match self.end {
            Some(Ok(tail)) => tail,
            _ => Tail::Clean,
        }
    }

    /// Where the last complete record ends, in bytes. A log that is written on goes on here.
    pub fn valid_end(&self) -> u64 {
        self.valid_end
    }

    /// Where the record lent last starts, in bytes.
    pub fn record_offset(&self) -> u64 {
        self.record_offset
    }

    /// After corruption, goes on behind it, as LevelDB's repair does: where fragments were out of
    /// order with the next one, otherwise with the next block, for no length can be trusted. What
    /// is left there of a record begun before is an error again.
    pub fn skip_damage(&mut self) {
        if let Some(Err(Error::Corruption(_))) = self.end {
            self.end = None;
            self.offset = self.resume_offset;
        }
    }

    fn next_record(&mut self) -> Result<Option<Record>> {
        // Where the record under way starts.
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
                // A first fragment before may be empty: old LevelDBs ended blocks with such.
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
        self.record_offset = start;
        self.valid_end = self.offset;
    }

    /// The next physical record, and `None` where the log ends, torn or not.
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
            return Ok(None);
        }
        if header.type_number == 0 && header.payload_bytes == 0 {
            if self.is_zero_from(offset)?
                || self.is_torn_store(offset)?
                || self.is_unfinished(offset)?
            {
                return Ok(None);
            }
            let error = Error::corruption("zeros inside the log");
            return self.damage(error, offset, end);
        }
        let start = (offset - self.chunk_offset) as usize + HEADER_BYTES;
        let payload = start..start + usize::from(header.payload_bytes);
        let crc = header.actual_crc(&self.chunk[payload.clone()]);
        if crc != header.stored_crc() {
            let hex = |crc| format!("{crc:08x}");
            let what = "log record checksum mismatch";
            let error = Error::mismatch(what, hex(header.stored_crc()), hex(crc));
            return self.damage(error, offset, end);
        }
        let Some(record_type) = RecordType::from_u8(header.type_number) else {
            let error = Error::mismatch("unknown log record type", "1 to 4", header.type_number);
            return Err(self.corruption(error, offset));
        };
        self.offset = end;
        Ok(Some(Fragment { offset, record_type, payload }))
    }

    /// The log's end if a crash in the middle of writing the record at `offset..end` explains
    /// what is there, and `error` if not.
    fn damage(&self, error: Error, offset: u64, end: u64) -> Result<Option<Fragment>> {
        let zeros = (end - 1).min(self.file_bytes.saturating_sub(SECTOR_BYTES));
        if self.is_zero_from(zeros)? || self.has_grown(offset, end)? {
            return Ok(None);
        }
        Err(self.corruption(error, offset))
    }

    /// Whether another process is writing at `offset..end`: zeros that were read there are zeros no
    /// longer. Then the end that was seen is the log's end: what follows it was written later.
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
            _ if self.is_zero_from(offset)? => Tail::Zeros { offset, bytes },
            _ => Tail::Torn { offset, bytes },
        })
    }

    /// The bytes of the chunk from `offset` on, read if need be; `None` past the file's end.
    fn load(&mut self, offset: u64) -> Result<Option<&[u8]>> {
        if offset >= self.file_bytes {
            return Ok(None);
        }
        let chunk_end = self.chunk_offset + self.chunk.len() as u64;
        if offset < self.chunk_offset || offset >= chunk_end {
            self.chunk_offset = offset - offset % BLOCK_BYTES as u64;
            let wanted = (self.file_bytes - self.chunk_offset).min(CHUNK_BYTES) as usize;
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

    /// Whether the file holds zeros only from `offset` on.
    fn is_zero_from(&self, offset: u64) -> Result<bool> {
        let mut buf = [0; 16 << 10];
        let mut offset = offset;
        while offset < self.file_bytes {
            let wanted = (self.file_bytes - offset).min(buf.len() as u64) as usize;
            let read = self.file.read_at(&mut buf[..wanted], offset);
            let read = read.map_err(|error| self.io_error(error))?;
            if buf[..read].iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
            if read < wanted {
                self.shorter_by_now()?;
                break;
            }
            offset += read as u64;
        }
        Ok(true)
    }

    /// The file's length, after a read ended before the length it had: whoever writes a log cuts
    /// the zeros off when it is done.
    ///
    /// # Errors
    /// If it is as long as before: then the read should not have ended.
    fn shorter_by_now(&self) -> Result<u64> {
        match self.file.len().map_err(|error| self.io_error(error))? {
            now if now < self.file_bytes => Ok(now),
            _ => Err(self.io_error(io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// Whether what is at `offset`, which has no header, is a record that a killed process had
    /// begun to store: it stores the header last. Nothing is behind it then, and it holds no other
    /// record's beginning.
    fn is_torn_store(&self, offset: u64) -> Result<bool> {
        if !self.is_zero_from(offset + MAX_STORED_BYTES as u64)? {
            return Ok(false);
        }
        Ok(!begins_record(&self.read(offset, MAX_STORED_BYTES as u64)?))
    }

    /// Whether what is at `offset`, which has no header, is a record of any size of which a
    /// process was killed while it wrote it: a header that begins a later block has three bytes of
    /// its checksum, but neither length nor type (`fs/ordered.rs`). A page that was lost has
    /// nothing at all. Behind the record there are zeros.
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

    /// Up to `len` bytes of the file from `offset` on.
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

/// Whether a sound record begins anywhere in `bytes`.
fn begins_record(bytes: &[u8]) -> bool {
    let begins = |at: usize| {
        let header = RecordHeader::decode(&bytes[at..])?;
        let start = at + HEADER_BYTES;
        let payload = bytes.get(start..start + usize::from(header.payload_bytes))?;
        let record_type = RecordType::from_u8(header.type_number)?;
        let is_first = matches!(record_type, RecordType::Full | RecordType::First);
        (is_first && header.actual_crc(payload) == header.stored_crc()).then_some(())
    };
    (0..bytes.len()).any(|at| begins(at).is_some())
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
