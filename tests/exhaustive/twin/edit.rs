//! Version edits, as in LevelDB's `db/version_edit.cc`.

use super::Bad;
use super::coding::Input;

/// A level, a number, a size, and the first and last key.
pub type NewTable = (usize, u64, u64, Vec<u8>, Vec<u8>);

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// With a replacement character for what is not UTF-8, as it is for `VersionEdit::comparator`:
    /// no comparator has such a name. For LevelDB, a name is any bytes.
    pub comparator: Option<String>,
    pub log_number: Option<u64>,
    pub prev_log_number: Option<u64>,
    pub next_file_number: Option<u64>,
    pub last_sequence: Option<u64>,
    pub compact_pointers: Vec<(usize, Vec<u8>)>,
    pub deleted: Vec<(usize, u64)>,
    pub added: Vec<NewTable>,
}

/// Decodes an edit. A field that occurs twice has its second value.
pub fn edit(src: &[u8]) -> Result<Edit, Bad> {
    let mut edit = Edit::default();
    let mut input = Input(src);
    while !input.0.is_empty() {
        match input.varint32()? {
            1 => edit.comparator = Some(String::from_utf8_lossy(input.slice()?).into_owned()),
            2 => edit.log_number = Some(input.varint64()?),
            3 => edit.next_file_number = Some(input.varint64()?),
            4 => edit.last_sequence = Some(sequence(&mut input)?),
            5 => edit.compact_pointers.push((level(&mut input)?, key(&mut input)?)),
            6 => edit.deleted.push((level(&mut input)?, input.varint64()?)),
            7 => edit.added.push(new_table(&mut input)?),
            9 => edit.prev_log_number = Some(input.varint64()?),
            // LevelDB calls these damage, and docs/format.md unsupported.
            _ => return Err(Bad::Unknown),
        }
    }
    Ok(edit)
}

fn new_table(input: &mut Input<'_>) -> Result<NewTable, Bad> {
    Ok((level(input)?, input.varint64()?, input.varint64()?, key(input)?, key(input)?))
}

/// Decodes a level. For LevelDB, a level past the seventh is damage; docs/format.md, under "Other
/// engines", calls it unsupported.
fn level(input: &mut Input<'_>) -> Result<usize, Bad> {
    match input.varint32()? {
        level @ 0..7 => Ok(level as usize),
        _ => Err(Bad::Unknown),
    }
}

/// Decodes a sequence number, which has 56 bits: the documentation of `VersionEdit::decode`.
/// LevelDB does not look.
fn sequence(input: &mut Input<'_>) -> Result<u64, Bad> {
    let sequence = input.varint64()?;
    if sequence < 1 << 56 { Ok(sequence) } else { Err(Bad::Damaged) }
}

/// Decodes an internal key, which has at least eight bytes: the documentation of
/// `VersionEdit::decode`. For LevelDB, one byte is enough.
fn key(input: &mut Input<'_>) -> Result<Vec<u8>, Bad> {
    let key = input.slice()?;
    if key.len() >= 8 { Ok(key.to_vec()) } else { Err(Bad::Damaged) }
}
