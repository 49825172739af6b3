//! Logs, as in LevelDB's `db/log_format.h` and `db/log_reader.cc`.

use super::coding::{crc32c, fixed32, masked};

pub const BLOCK: usize = 32 << 10;
pub const HEADER: usize = 7;

/// The end of a log: the cases of the table in docs/format.md, under "Logs".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Clean,
    Torn,
    Zeros,
    Damage,
    /// A record of another engine.
    Foreign,
    /// No header, but no record after it either: the documents leave open whether a killed writer
    /// left this.
    TornOrDamage,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Log {
    pub records: Vec<Vec<u8>>,
    pub end: End,
    /// The end of the last record.
    pub valid_end: usize,
}

/// Returns the bytes of a physical record. `checksum` is applied to the masked checksum.
pub fn record(kind: u8, payload: &[u8], checksum: impl Fn(u32) -> u32) -> Vec<u8> {
    let crc = checksum(stored_checksum(kind, payload));
    let len = (payload.len() as u16).to_le_bytes();
    [&crc.to_le_bytes()[..], &len, &[kind], payload].concat()
}

fn stored_checksum(kind: u8, payload: &[u8]) -> u32 {
    masked(crc32c(&[&[kind], payload].concat()))
}

/// A physical record, or what is there instead.
enum Physical<'a> {
    Record { kind: u8, payload: &'a [u8] },
    Nothing(End),
}

/// Decodes a log up to its end or the first damage. A lone record of zeros of 512 bytes or more,
/// which a crash can leave, and the continuation of a log by LevelDB are not known here.
pub fn log(file: &[u8]) -> Log {
    let mut log = Log { records: Vec::new(), end: End::Clean, valid_end: 0 };
    let mut partial: Option<Vec<u8>> = None;
    let mut at = 0;
    loop {
        // A header does not fit into the last bytes of a block.
        if BLOCK - at % BLOCK < HEADER {
            at = at.next_multiple_of(BLOCK);
        }
        let (kind, payload) = match physical(file, at) {
            Physical::Record { kind, payload } => (kind, payload),
            Physical::Nothing(end) => {
                let rest = &file[log.valid_end..];
                log.end = match end {
                    End::Torn | End::TornOrDamage if rest.iter().all(|byte| *byte == 0) => {
                        if rest.is_empty() { End::Clean } else { End::Zeros }
                    }
                    end => end,
                };
                return log;
            }
        };
        at += HEADER + payload.len();
        // An old writer of LevelDB left an empty FIRST at the end of a block, and then wrote the
        // record as if it had not.
        let is_open = partial.as_ref().is_some_and(|partial| !partial.is_empty());
        let whole = match (kind, &mut partial) {
            (1, _) if !is_open => Some(payload.to_vec()),
            (2, _) if !is_open => {
                partial = Some(payload.to_vec());
                None
            }
            (3, Some(partial)) => {
                partial.extend_from_slice(payload);
                None
            }
            (4, Some(partial)) => Some([partial, payload].concat()),
            // The record before has no end, or this one has no beginning. LevelDB reports this
            // and reads on; for minikv it ends the log: docs/leveldb.md, under "Opening".
            _ => {
                log.end = End::Damage;
                return log;
            }
        };
        if let Some(record) = whole {
            (partial, log.valid_end) = (None, at);
            log.records.push(record);
        }
    }
}

/// Reads the physical record at `at`.
fn physical(file: &[u8], at: usize) -> Physical<'_> {
    let rest = file.get(at..).unwrap_or(&[]);
    if rest.len() < HEADER {
        return Physical::Nothing(End::Torn);
    }
    let (len, kind) = (usize::from(rest[4]) + 256 * usize::from(rest[5]), rest[6]);
    if len == 0 && kind == 0 {
        return Physical::Nothing(without_header(rest));
    }
    // LevelDB takes such a length at the end of the file for a record that was cut off. The head of
    // `log/reader.rs` says why minikv does not.
    if HEADER + len > BLOCK - at % BLOCK {
        return Physical::Nothing(End::Damage);
    }
    if HEADER + len > rest.len() {
        // The documentation of `LogReader::length_error`: the record is whole, but for one bit of
        // its length.
        let is_whole = (0..16).any(|bit| {
            let shorter = len ^ 1 << bit;
            shorter < len && is_record(rest, shorter)
        });
        return Physical::Nothing(if is_whole { End::Damage } else { End::Torn });
    }
    if !is_record(rest, len) {
        return Physical::Nothing(End::Damage);
    }
    match kind {
        1..=4 => Physical::Record { kind, payload: &rest[HEADER..HEADER + len] },
        // Damage for LevelDB; the head of `log/reader.rs` and docs/format.md, under "Other
        // engines".
        _ => Physical::Nothing(End::Foreign),
    }
}

/// Returns whether `bytes` begin with a record of `len` bytes and the right checksum.
fn is_record(bytes: &[u8], len: usize) -> bool {
    let payload = bytes.get(HEADER..HEADER + len);
    payload.is_some_and(|payload| fixed32(bytes, 0) == Some(stored_checksum(bytes[6], payload)))
}

/// Returns the end of a log that has neither length nor type in a header. No record that begins
/// after it may be passed over silently. Without one, it is what is left of a write if the
/// checksum's first three bytes alone are there and zeros end the file (docs/format.md, under
/// "Logs"); of that write, a MIDDLE or LAST fragment may be there, too.
fn without_header(rest: &[u8]) -> End {
    if rest.iter().all(|byte| *byte == 0) {
        return End::Torn;
    }
    let begins_record = (0..rest.len().saturating_sub(HEADER - 1)).any(|at| {
        let bytes = &rest[at..];
        let len = usize::from(bytes[4]) + 256 * usize::from(bytes[5]);
        (1..=2).contains(&bytes[6]) && is_record(bytes, len)
    });
    let is_store = rest[3] == 0 && rest[..3] != [0; 3] && rest[rest.len() - 1] == 0;
    match (begins_record, is_store) {
        (true, _) => End::Damage,
        (false, true) => End::Torn,
        (false, false) => End::TornOrDamage,
    }
}

/// Returns the records that LevelDB returns, which skips damage with the rest of its block.
pub fn skipping(file: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    let mut partial: Option<Vec<u8>> = None;
    for block in file.chunks(BLOCK) {
        let mut rest = block;
        while rest.len() >= HEADER {
            let (len, kind) = (usize::from(rest[4]) + 256 * usize::from(rest[5]), rest[6]);
            let is_unwritten = len == 0 && kind == 0;
            if HEADER + len > rest.len() && block.len() < BLOCK {
                // The end of the file.
                return records;
            }
            if is_unwritten || HEADER + len > rest.len() || !is_record(rest, len) {
                partial = None;
                break;
            }
            let payload = &rest[HEADER..HEADER + len];
            rest = &rest[HEADER + len..];
            match (kind, &mut partial) {
                (1, _) => records.push(payload.to_vec()),
                (2, _) => partial = Some(payload.to_vec()),
                (3, Some(partial)) => partial.extend_from_slice(payload),
                (4, Some(partial)) => records.push([partial, payload].concat()),
                (3 | 4, None) => {}
                _ => partial = None,
            }
            if matches!(kind, 1 | 4) {
                partial = None;
            }
        }
    }
    records
}
