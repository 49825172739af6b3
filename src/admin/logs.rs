//! Reading a whole write-ahead log: its records, and the batches in these records.

use std::path::{Path, PathBuf};

use crate::admin::findings::Findings;
use crate::base::{Error, Result};
use crate::engine::open::replay::gap_before;
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
    /// The next sequence number, as stated by the last empty batch before the log's first write:
    /// where the log goes on after changes of the tables. `None` if `begins_at` is.
    pub writes_from: Option<SeqNo>,
    /// The highest sequence number before the first bad record; 0 if there is no number.
    pub max_seq: SeqNo,
    /// Whether any record is bad.
    pub is_damaged: bool,
    /// The first place where an open would stop because writes are missing, with a description.
    pub gap: Option<(u64, String)>,
}

/// Reads the log with the number `number`. Returns facts about the log, and adds its faults to
/// `findings`. `last_seq` is the last sequence number before the log.
///
/// # Errors
/// [`Error::Unsupported`] if the log has a record or an operation of a kind that this build does
/// not know.
pub(crate) fn examine(
    fs: &dyn Fs,
    dir: &Path,
    number: u64,
    last_seq: SeqNo,
    findings: &mut Findings<'_>,
) -> Result<LogFacts> {
    let path = dir.join(name::log_name(number));
    let mut facts = LogFacts { number, path: path.clone(), ..LogFacts::default() };
    let opened = fs.open(&path).map_err(|error| Error::io("open", &path, error)).and_then(|file| {
        facts.file_bytes = file.len().map_err(|error| Error::io("read", &path, error))?;
        Ok(LogReader::of_batches(file, &path)?.beside_writer(findings.beside_writer))
    });
    match opened.and_then(|mut reader| read(&mut reader, last_seq, &mut facts, findings)) {
        Ok(tail) => note_tail(tail, &path, findings),
        Err(error @ Error::Unsupported { .. }) => return Err(error.in_file(&path)),
        Err(error) => {
            facts.is_damaged = true;
            findings.fault(error, &path);
        }
    }
    findings.advance(facts.file_bytes);
    Ok(facts)
}

fn read(
    reader: &mut LogReader,
    last_seq: SeqNo,
    facts: &mut LogFacts,
    findings: &mut Findings<'_>,
) -> Result<Tail> {
    let mut records = 0;
    let mut gap = None;
    loop {
        let next = reader.next();
        // An open, too, minds a gap only if a record follows it.
        if facts.gap.is_none() && !facts.is_damaged && !matches!(next, Ok(None)) {
            facts.gap = gap.take();
        }
        let error = match next {
            Ok(None) => return Ok(reader.tail()),
            Ok(Some(record)) => {
                records += 1;
                let end = last_seq.max(facts.max_seq);
                let (what, batch) = (gap_before(record, end, records == 1), check_batch(record));
                let offset = reader.record_offset();
                gap = what.map(|what| (if records == 1 { 0 } else { offset }, what));
                match batch {
                    Ok(batch) => {
                        facts.add(batch);
                        continue;
                    }
                    Err(error @ Error::Unsupported { .. }) => return Err(error),
                    Err(error) => error.at(offset),
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

impl LogFacts {
    /// Adds a batch of `count` operations, unless it is after a bad record.
    fn add(&mut self, (first_seq, count): (SeqNo, u32)) {
        if self.is_damaged {
            return;
        }
        if count > 0 {
            self.batches += 1;
            let last = (first_seq + u64::from(count)).saturating_sub(1);
            self.max_seq = self.max_seq.max(last);
        } else if self.batches == 0 {
            self.begins_at.get_or_insert(first_seq);
            self.writes_from = self.writes_from.max(Some(first_seq));
        }
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
        Tail::Zeros { offset, bytes } => {
            (offset, format!("ends in zeros from {offset} to {}", offset + bytes))
        }
    };
    findings.note(path, Some(offset), what);
}
