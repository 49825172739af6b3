//! Appending records to a log. Follows LevelDB's `db/log_writer.cc`.

use std::io;

use crate::format::record::{BLOCK_BYTES, HEADER_BYTES, RecordHeader, RecordType};
use crate::fs::WriteFile;

/// Size in bytes at which the buffer is written to the file, so that memory never holds a second
/// copy of a huge record. With a larger size, the buffer takes more memory and fewer system calls
/// are made.
const MAX_BUFFER_BYTES: usize = 1 << 20;

/// Appends records to a log file.
///
/// A record of up to 1 MiB reaches the file in one write. If the process is killed, the file
/// therefore contains all of the record or nothing of it, as far as the filesystem permits. Larger
/// records take several writes. After a failed write, the contents of the file after the last good
/// record are unknown, so every later append or sync fails, too.
#[derive(Debug)]
pub struct LogWriter {
    file: Box<dyn WriteFile>,
    /// Length of the log, in bytes.
    len: u64,
    /// The record being encoded. Kept to reuse its memory.
    buffer: Vec<u8>,
    poisoned: bool,
}

#[allow(clippy::len_without_is_empty, reason = "a length in bytes, not a number of items")]
impl LogWriter {
    /// Creates a writer that continues a log at `start_offset`, which must be the position of
    /// `file`. It is 0 for a new log. For an existing log, it is
    /// [`LogReader::valid_end`](crate::log::LogReader::valid_end), and the log must have been
    /// truncated to that length.
    pub fn new(file: Box<dyn WriteFile>, start_offset: u64) -> LogWriter {
        LogWriter { file, len: start_offset, buffer: Vec::new(), poisoned: false }
    }

    /// Appends a record. It is durable after the next [`LogWriter::sync`].
    ///
    /// # Errors
    /// An I/O error, after which the log accepts no more records.
    pub fn add_record(&mut self, payload: &[u8]) -> io::Result<()> {
        self.check()?;
        let start = self.len;
        let added = self.append(payload);
        if added.is_err() {
            self.poisoned = true;
            self.len = start;
            // Remove an incomplete record: some readers would report it as damage, and LevelDB
            // would append new records after it.
            let _ = self.file.set_len(start);
        }
        added
    }

    fn append(&mut self, payload: &[u8]) -> io::Result<()> {
        self.buffer.clear();
        let mut rest = payload;
        let mut is_first = true;
        loop {
            let fragment;
            (fragment, rest) = rest.split_at(rest.len().min(self.begin_fragment()));
            let header =
                RecordHeader::new(RecordType::of_fragment(is_first, rest.is_empty()), fragment);
            self.buffer.extend_from_slice(&header.encode());
            self.buffer.extend_from_slice(fragment);
            if rest.is_empty() {
                return self.write_buffer();
            }
            if self.buffer.len() >= MAX_BUFFER_BYTES {
                self.write_buffer()?;
            }
            is_first = false;
        }
    }

    /// Makes all records appended so far durable.
    ///
    /// # Errors
    /// An I/O error, after which the log accepts no more records: a failed sync may have dropped
    /// dirty pages, and another sync could then succeed without writing these pages.
    pub fn sync(&mut self) -> io::Result<()> {
        self.check()?;
        let result = self.file.sync();
        self.poisoned = result.is_err();
        result
    }

    /// Appends `mark`, a record without effect. Called after a failed sync, when the log accepts no
    /// other records. The records that the failed sync did not write may still be readable, even in
    /// the next process. The mark tells the next process not to continue this log. A failure to
    /// append the mark is ignored.
    pub(crate) fn mark_failed(&mut self, mark: &[u8]) {
        let start = self.len;
        if self.append(mark).is_err() {
            let _ = self.file.set_len(start);
        }
        self.poisoned = true;
    }

    /// Truncates the file to the end of its records. Returns whether the file was longer. The new
    /// length is durable after the next [`LogWriter::sync`].
    ///
    /// # Errors
    /// An I/O error, after which the log remains usable.
    pub fn trim(&mut self) -> io::Result<bool> {
        match self.poisoned {
            true => Ok(false),
            false => self.file.trim(),
        }
    }

    /// Closes the file of a log that is complete and synced.
    ///
    /// # Errors
    /// An I/O error, after which the records cannot be relied on.
    pub(crate) fn close(mut self) -> io::Result<()> {
        self.file.close()
    }

    /// Returns the length of the log, in bytes. The file may be longer if it is preallocated.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether a write or sync has failed, after which the log accepts no more records.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// Pads the current block with zeros if the rest of the block is too short for a header.
    /// Returns the number of payload bytes that fit after the next header.
    fn begin_fragment(&mut self) -> usize {
        let end = self.len + self.buffer.len() as u64;
        let left = BLOCK_BYTES - (end % BLOCK_BYTES as u64) as usize;
        if left >= HEADER_BYTES {
            return left - HEADER_BYTES;
        }
        debug_assert!(self.buffer.len() < MAX_BUFFER_BYTES + BLOCK_BYTES, "an unbounded buffer");
        self.buffer.resize(self.buffer.len() + left, 0);
        BLOCK_BYTES - HEADER_BYTES
    }

    fn write_buffer(&mut self) -> io::Result<()> {
        let result = self.file.write(&self.buffer);
        if result.is_ok() {
            self.len += self.buffer.len() as u64;
        }
        self.buffer.clear();
        result
    }

    fn check(&self) -> io::Result<()> {
        if self.poisoned {
            return Err(io::Error::other("an earlier write or sync of this log failed"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::testing::{MemFile, read, written};

    #[test]
    fn a_buffer_is_written_once_it_is_full() {
        // Each fragment here takes a whole block, so a whole number of fragments fills the buffer
        // exactly.
        let fragment = BLOCK_BYTES - HEADER_BYTES;
        let of_buffer = MAX_BUFFER_BYTES / BLOCK_BYTES;
        let writes = |fragments: usize| {
            let file = MemFile::default();
            let mut writer = LogWriter::new(Box::new(file.clone()), 0);
            assert_eq!(writer.len(), 0);
            writer.add_record(&vec![7; fragments * fragment]).unwrap();
            assert_ne!(writer.len(), 0);
            file.writes()
        };
        assert_eq!([of_buffer, of_buffer + 1, 2 * of_buffer + 1].map(writes), [1, 2, 3]);
    }

    #[test]
    fn a_record_is_one_write() {
        let file = MemFile::default();
        let mut writer = LogWriter::new(Box::new(file.clone()), 0);
        writer.add_record(b"a").unwrap();
        assert_eq!(file.bytes(), [0xb5, 0xcd, 0x0b, 0xa2, 1, 0, 1, b'a']);
        writer.add_record(&[b'b'; 100_000]).unwrap();
        assert_eq!(file.writes(), 2);
        assert_eq!(writer.len(), file.bytes().len() as u64);
        assert_eq!(writer.len(), 8 + 100_000 + 4 * 7);
    }

    #[test]
    fn a_huge_record_goes_through_a_bounded_buffer() {
        let payload: Vec<u8> = (0..5_000_000u32).map(|i| (i * 7 % 251) as u8).collect();
        let file = MemFile::default();
        let mut writer = LogWriter::new(Box::new(file.clone()), 0);
        writer.add_record(&payload).unwrap();
        assert!((4..=6).contains(&file.writes()), "{}", file.writes());
        assert!(writer.buffer.capacity() <= 2 * MAX_BUFFER_BYTES);
        assert_eq!(read(&file.bytes()).payloads(), [payload]);
    }

    #[test]
    fn records_around_a_blocks_end() {
        for left in 0..20 {
            let filler = vec![b'f'; BLOCK_BYTES - HEADER_BYTES - left];
            for len in 0..20 {
                let record = vec![b'r'; len];
                let bytes = written(&[filler.as_slice(), record.as_slice(), b"end"]);
                let log = read(&bytes);
                assert_eq!(log.payloads(), [&filler[..], &record[..], b"end"]);
                let padding = if left < HEADER_BYTES { left } else { 0 };
                let at = BLOCK_BYTES - left + padding;
                assert_eq!(log.records[1].0, at as u64, "{left} bytes left");
            }
        }
    }

    /// Checks that each fragment except the last ends at the end of a block, wherever the record
    /// begins.
    #[test]
    fn only_the_last_fragment_of_a_record_ends_within_a_block() {
        for left in (0..20).chain([5000, BLOCK_BYTES - HEADER_BYTES - 1]) {
            let record = vec![b'r'; 2 * BLOCK_BYTES];
            let filler = vec![b'f'; BLOCK_BYTES - HEADER_BYTES - left];
            let bytes = written(&[filler.as_slice(), record.as_slice()]);
            let mut at = BLOCK_BYTES - left;
            at += if left < HEADER_BYTES { left } else { 0 };
            let mut found = Vec::new();
            while at < bytes.len() {
                let header = RecordHeader::decode(&bytes[at..]).unwrap();
                at += HEADER_BYTES + usize::from(header.payload_bytes);
                found.push((header.type_number, at.is_multiple_of(BLOCK_BYTES)));
            }
            let (last, before) = found.split_last().unwrap();
            assert_eq!(*last, (RecordType::Last as u8, false), "{left} bytes left");
            assert_eq!(before[0], (RecordType::First as u8, true), "{left} bytes left");
            let middle = (RecordType::Middle as u8, true);
            assert!(before[1..].iter().all(|fragment| *fragment == middle), "{found:?}");
        }
    }

    #[test]
    fn an_exact_fit_leaves_an_empty_first_fragment() {
        let filler = vec![b'f'; BLOCK_BYTES - 2 * HEADER_BYTES];
        let bytes = written(&[filler.as_slice(), b"x"]);
        let at = BLOCK_BYTES - HEADER_BYTES;
        let first = RecordHeader::decode(&bytes[at..]).unwrap();
        assert_eq!((first.payload_bytes, first.type_number), (0, RecordType::First as u8));
    }

    #[test]
    fn a_log_goes_on_at_its_end() {
        let payloads: Vec<Vec<u8>> = (0..40).map(|i| vec![i; 5000]).collect();
        let whole = written(&payloads);
        let file = MemFile::default();
        let mut len = 0;
        for payload in &payloads {
            let mut writer = LogWriter::new(Box::new(file.clone()), len);
            writer.add_record(payload).unwrap();
            len = writer.len();
        }
        assert_eq!(file.bytes(), whole);
    }

    #[test]
    fn a_failed_write_or_sync_ends_the_log() {
        type Call = fn(&mut LogWriter) -> io::Result<()>;
        let calls: [Call; 2] = [|writer| writer.add_record(b"lost"), LogWriter::sync];
        for call in calls {
            let file = MemFile::default();
            let mut writer = LogWriter::new(Box::new(file.clone()), 0);
            writer.add_record(b"kept").unwrap();
            file.set_failing(true);
            assert_eq!(call(&mut writer).unwrap_err().kind(), io::ErrorKind::StorageFull);
            file.set_failing(false);
            assert!(writer.add_record(b"more").is_err());
            assert!(writer.sync().is_err());
            assert_eq!(writer.len(), 11);
            assert_eq!(read(&file.bytes()).payloads(), [b"kept"]);
        }
    }

    #[test]
    fn preallocated_space_is_zeros_behind_the_log() {
        let mut file = MemFile::default();
        let mut writer = LogWriter::new(Box::new(file.clone()), 0);
        writer.add_record(b"a").unwrap();
        file.set_len(4096).unwrap();
        assert_eq!((writer.len(), file.bytes().len()), (8, 4096));
        assert_eq!(read(&file.bytes()).payloads(), [b"a"]);
    }
}
