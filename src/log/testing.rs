//! In-memory files for the tests of logs.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::base::Result;
use crate::fs::WriteFile;
use crate::fs::bytes_file::BytesFile;
use crate::log::{LogReader, LogWriter, Tail};

/// A file in memory. Clones share the file. Writes can be made to fail.
#[derive(Clone, Debug, Default)]
pub(super) struct MemFile(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    writes: usize,
    failing: bool,
}

impl MemFile {
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().bytes.clone()
    }

    pub(super) fn writes(&self) -> usize {
        self.0.lock().unwrap().writes
    }

    pub(super) fn set_failing(&self, failing: bool) {
        self.0.lock().unwrap().failing = failing;
    }

    fn check(&self) -> io::Result<()> {
        if self.0.lock().unwrap().failing {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

impl WriteFile for MemFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.check()?;
        let mut state = self.0.lock().unwrap();
        state.writes += 1;
        state.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.check()
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.0.lock().unwrap().bytes.resize(len as usize, 0);
        Ok(())
    }
}

pub(super) fn reader(bytes: &[u8]) -> LogReader {
    LogReader::new(Arc::new(BytesFile(bytes.to_vec())), Path::new("000003.log")).unwrap()
}

/// Returns a [`reader`] of a log whose records are batches.
pub(super) fn of_batches(bytes: &[u8]) -> LogReader {
    LogReader::of_batches(Arc::new(BytesFile(bytes.to_vec())), Path::new("000003.log")).unwrap()
}

/// The records of a log and their offsets, up to the end of the log or the first error.
pub(super) struct Read {
    pub records: Vec<(u64, Vec<u8>)>,
    pub end: Result<Tail>,
    pub valid_end: u64,
}

impl Read {
    pub(super) fn payloads(&self) -> Vec<&[u8]> {
        self.records.iter().map(|(_, payload)| payload.as_slice()).collect()
    }
}

pub(super) fn read(bytes: &[u8]) -> Read {
    read_all(reader(bytes))
}

pub(super) fn read_all(mut reader: LogReader) -> Read {
    let mut records = Vec::new();
    let end = loop {
        match reader.next() {
            Ok(Some(payload)) => {
                let payload = payload.to_vec();
                records.push((reader.record_offset(), payload));
            }
            Ok(None) => break Ok(reader.tail()),
            Err(error) => break Err(error),
        }
    };
    Read { records, end, valid_end: reader.valid_end() }
}

pub(super) fn written<P: AsRef<[u8]>>(payloads: &[P]) -> Vec<u8> {
    let file = MemFile::default();
    let mut writer = LogWriter::new(Box::new(file.clone()), 0);
    payloads.iter().for_each(|payload| writer.add_record(payload.as_ref()).unwrap());
    file.bytes()
}
