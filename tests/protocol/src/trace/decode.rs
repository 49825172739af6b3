//! The contents of LevelDB's files, as far as the model knows them. Nothing of the library is used
//! here.

use crate::disk::{Edit, Id, Name, Number, Record};

/// Size of a block of a log, in bytes.
const BLOCK_BYTES: usize = 32 << 10;

/// Size of the header of a fragment: checksum, length and type, in bytes.
const HEADER_BYTES: usize = 7;

/// Returns the name of the model for the name of a file of a database.
pub fn parse_name(name: &str) -> Option<Name> {
    if name == "CURRENT" {
        return Some(Name::Current);
    }
    if let Some(number) = name.strip_prefix("MANIFEST-") {
        return Some(Name::Manifest(number.parse().ok()?));
    }
    let (number, extension) = name.split_once('.')?;
    let number = number.parse().ok()?;
    match extension {
        "log" => Some(Name::Log(number)),
        "ldb" => Some(Name::Table(number)),
        "dbtmp" => Some(Name::Temp(number)),
        _ => None,
    }
}

/// Returns the payload of the records in `bytes`, which begin at `offset` in a log. Returns `None`
/// if the bytes are not whole records.
pub fn payloads(bytes: &[u8], offset: usize) -> Option<Vec<Vec<u8>>> {
    let (mut payloads, mut joined, mut at) = (Vec::new(), Vec::new(), 0);
    while at < bytes.len() {
        let left = BLOCK_BYTES - (offset + at) % BLOCK_BYTES;
        if left < HEADER_BYTES {
            at += left;
            continue;
        }
        let header = bytes.get(at..at + HEADER_BYTES)?;
        let len = usize::from(u16::from_le_bytes([header[4], header[5]]));
        joined.extend_from_slice(bytes.get(at + HEADER_BYTES..at + HEADER_BYTES + len)?);
        at += HEADER_BYTES + len;
        // Whole records have the type 1, and last fragments the type 4.
        if matches!(header[6], 1 | 4) {
            payloads.push(std::mem::take(&mut joined));
        }
    }
    joined.is_empty().then_some(payloads)
}

/// Returns the record of a log with this payload, which is a batch.
pub fn parse_batch(payload: &[u8]) -> Option<Record> {
    let first = u64::from_le_bytes(payload.get(..8)?.try_into().ok()?);
    let count = u32::from_le_bytes(payload.get(8..12)?.try_into().ok()?);
    match count {
        0 => Some(Record::Begin(first)),
        count => {
            let [id] = marks(payload)[..] else { return None };
            Some(Record::Write(id, first, first + u64::from(count) - 1))
        }
    }
}

/// Returns the mark that the values of the write `id` contain.
pub fn mark(id: Id) -> String {
    format!("<{id:06}>")
}

/// Returns the identifiers of the writes whose marks are in `bytes`, in ascending order.
pub fn marks(bytes: &[u8]) -> Vec<Id> {
    let parse = |mark: &[u8]| match mark {
        [b'<', digits @ .., b'>'] => std::str::from_utf8(digits).ok()?.parse().ok(),
        _ => None,
    };
    let mut ids: Vec<Id> = bytes.windows(8).filter_map(parse).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Returns the MANIFEST that the content of `CURRENT` names.
pub fn parse_current(content: &[u8]) -> Option<Number> {
    let name = std::str::from_utf8(content).ok()?.strip_suffix('\n')?;
    match parse_name(name)? {
        Name::Manifest(number) => Some(number),
        _ => None,
    }
}

/// A reader of the fields of an edit.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn slice(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.varint()?).ok()?;
        let (slice, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(slice)
    }
}

/// Returns the record of a MANIFEST with this payload.
pub fn parse_edit(payload: &[u8]) -> Option<Record> {
    if payload.is_empty() {
        return Some(Record::FailedEdit);
    }
    let (mut edit, mut fields) = (Edit::default(), Fields(payload));
    while !fields.0.is_empty() {
        match fields.varint()? {
            1 => drop(fields.slice()?),
            2 => edit.log = Some(fields.varint()?),
            3 => edit.next = Some(fields.varint()?),
            4 => edit.last = Some(fields.varint()?),
            5 => {
                fields.varint()?;
                fields.slice()?;
            }
            6 => {
                fields.varint()?;
                edit.drops.push(fields.varint()?);
            }
            7 => {
                fields.varint()?;
                edit.adds.push(fields.varint()?);
                fields.varint()?;
                fields.slice()?;
                fields.slice()?;
            }
            9 => drop(fields.varint()?),
            _ => return None,
        }
    }
    Some(Record::Edit(edit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_found_wherever_they_are() {
        let bytes = format!("x{}<0000>{}<00000a>", mark(12), mark(3));
        assert_eq!(marks(bytes.as_bytes()), [3, 12]);
    }

    #[test]
    fn a_record_that_is_cut_off_is_no_record() {
        let whole = [0, 0, 0, 0, 2, 0, 1, b'a', b'b'];
        assert_eq!(payloads(&whole, 0), Some(vec![b"ab".to_vec()]));
        assert_eq!(payloads(&whole[..8], 0), None);
        let first = [0, 0, 0, 0, 2, 0, 2, b'a', b'b'];
        assert_eq!(payloads(&first, 0), None, "its last fragment is missing");
    }

    #[test]
    fn an_edit_is_what_leveldb_writes() {
        let bytes = [2, 3, 9, 0, 3, 4, 4, 0];
        let edit = Edit { log: Some(3), next: Some(4), last: Some(0), ..Edit::default() };
        assert_eq!(parse_edit(&bytes), Some(Record::Edit(edit)));
        assert_eq!(parse_edit(&[8]), None);
        assert_eq!(parse_edit(&[]), Some(Record::FailedEdit));
    }
}
