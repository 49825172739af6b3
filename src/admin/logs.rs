//! Reading a whole write-ahead log: its records, and the batches in these records.

use std::path::{Path, PathBuf};

use crate::admin::findings::Findings;
use crate::base::{Error, Result};
use crate::format::batch::{decode_header, decode_ops};
use crate::format::key::SeqNo;
use crate::format::name;
use crate::fs::Fs;
use crate::log::{LogReader, Tail};

/// Facts about a log that was read completely.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogFacts {
    /// The file number.
    pub number: u64,
    /// The path of the file.
    pub path: PathBuf,
    /// Length of the file, in bytes.
    pub file_bytes: u64,
    /// Number of non-empty batches before the first bad record.
    pub batches: u64,
    /// The next sequence number, as stated by the log's first record; `None` if that record states
    /// no number.
    pub begins_at: Option<SeqNo>,
    /// The highest sequence number before the first bad record; 0 if there is no number.
    pub max_seq: SeqNo,
    /// Whether any record is bad.
    pub is_damaged: bool,
}

/// Reads the log with the number `number`. Returns facts about the log, and adds its faults to
/// `findings`.
pub(crate) fn examine(
    fs: &dyn Fs,
    dir: &Path,
    number: u64,
    findings: &mut Findings<'_>,
) -> LogFacts {
    let path = dir.join(name::log_name(number));
    let mut facts = LogFacts { number, path: path.clone(), ..LogFacts::default() };
    let opened = fs.open(&path).map_err(|error| Error::io("open", &path, error)).and_then(|file| {
        facts.file_bytes = file.len().map_err(|error| Error::io("read", &path, error))?;
        Ok(LogReader::of_batches(file, &path)?.beside_writer(findings.beside_writer))
    });
    match opened.and_then(|mut reader| read(&mut reader, &mut facts, findings)) {
        Ok(tail) => note_tail(tail, &path, findings),
        Err(error) => {
            facts.is_damaged = true;
            findings.fault(error, &path);
        }
    }
    findings.advance(facts.file_bytes);
    facts
}

fn read(reader: &mut LogReader, facts: &mut LogFacts, findings: &mut Findings<'_>) -> Result<Tail> {
    let mut records = 0;
    loop {
        let error = match reader.next() {
            Ok(None) => return Ok(reader.tail()),
            Ok(Some(record)) => {
                records += 1;
                match check_batch(record) {
                    Ok(_) if facts.is_damaged => continue,
                    Ok((next_seq, 0)) => {
                        if records == 1 {
                            facts.begins_at = Some(next_seq);
                        }
                        continue;
                    }
                    Ok((first_seq, count)) => {
                        facts.batches += 1;
                        let last = (first_seq + u64::from(count)).saturating_sub(1);
                        facts.max_seq = facts.max_seq.max(last);
                        continue;
                    }
                    Err(error) => error.at(reader.record_offset()),
                }
            }
            Err(error) if !error.is_corruption() => return Err(error),
            Err(error) => {
                reader.skip_damage();
                error
            }
        };
        facts.is_damaged = true;
        findings.fault(error, &facts.path);
    }
}

fn check_batch(record: &[u8]) -> Result<(SeqNo, u32)> {
    let header = decode_header(record)?;
    decode_ops(record).try_for_each(|op| op.map(drop))?;
    Ok(header)
}

fn note_tail(tail: Tail, path: &Path, findings: &mut Findings<'_>) {
    let (offset, what) = match tail {
        Tail::Clean => return,
        Tail::Torn { offset, bytes } => {
            (offset, format!("ends in {bytes} bytes of an incomplete record"))
        }
        Tail::Zeros { offset, bytes } => (offset, format!("ends in {bytes} zeros")),
    };
    findings.note(path, Some(offset), what);
}
