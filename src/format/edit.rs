//! Version edits: the changes that one record of the MANIFEST makes. On-disk format: do not change.
//!
//! Fields in this order, each preceded by its tag as a varint32:
//!
//! ```text
//! 1 comparator: slice
//! 2 log number: varint64             records of logs with smaller numbers are in tables
//! 9 previous log number: varint64    0; formerly, a log still being flushed
//! 3 next file number: varint64
//! 4 last sequence: varint64
//! 5 level: varint32  key: slice                         next compaction starts after this key
//! 6 level: varint32  number: varint64                   table removed from the level
//! 7 level: varint32  number: varint64  bytes: varint64  smallest: slice  largest: slice
//!
//! log 3, previous log 0, next file 4, last sequence 0:
//! 02 03 | 09 00 | 03 04 | 04 00
//! ```
//!
//! Keys are internal keys. Tag 8 is obsolete and is refused. Defined by LevelDB's
//! `db/version_edit.cc`.

use crate::base::{Error, Feature, Result};
use crate::format::coding::{Decoder, put_slice, put_varint32, put_varint64};
use crate::format::key::{MAX_SEQ_NO, SeqNo, TRAILER_BYTES};

/// Number of levels of a database; LevelDB's `config::kNumLevels`. Do not change: MANIFESTs contain
/// level numbers.
pub const NUM_LEVELS: usize = 7;

const COMPARATOR: u32 = 1;
const LOG_NUMBER: u32 = 2;
const NEXT_FILE_NUMBER: u32 = 3;
const LAST_SEQ: u32 = 4;
const COMPACT_POINTER: u32 = 5;
const DELETED_FILE: u32 = 6;
const NEW_FILE: u32 = 7;
const PREV_LOG_NUMBER: u32 = 9;

/// A change to the set of tables and to the counters recorded with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionEdit {
    /// Name of the database's comparator.
    pub comparator: Option<String>,
    /// Number of the oldest log with records that are not in tables.
    pub log_number: Option<u64>,
    /// Number of an older log that is still needed; 0 if no older log is needed.
    pub prev_log_number: Option<u64>,
    /// Smallest file number not yet assigned.
    pub next_file_number: Option<u64>,
    /// A sequence number that is at least as high as that of every write stored in a table.
    pub last_seq: Option<SeqNo>,
    /// Levels, each with the largest internal key of the input of the last compaction at that
    /// level.
    pub compact_pointers: Vec<(usize, Vec<u8>)>,
    /// The level and number of each removed table. LevelDB writes them in ascending order.
    pub deleted_files: Vec<(usize, u64)>,
    /// The added tables.
    pub new_files: Vec<NewFile>,
}

/// A table added to a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// The level, below [`NUM_LEVELS`].
    pub level: usize,
    /// The file number.
    pub number: u64,
    /// Length of the file, in bytes.
    pub file_bytes: u64,
    /// The smallest internal key in the table.
    pub smallest: Vec<u8>,
    /// The largest internal key in the table.
    pub largest: Vec<u8>,
}

impl VersionEdit {
    /// Appends the encoded edit to `dst`. Keeps the order of the lists.
    pub fn encode(&self, dst: &mut Vec<u8>) {
        if let Some(name) = &self.comparator {
            put_varint32(dst, COMPARATOR);
            put_slice(dst, name.as_bytes());
        }
        for (tag, number) in [
            (LOG_NUMBER, self.log_number),
            (PREV_LOG_NUMBER, self.prev_log_number),
            (NEXT_FILE_NUMBER, self.next_file_number),
            (LAST_SEQ, self.last_seq),
        ] {
            if let Some(number) = number {
                put_varint32(dst, tag);
                put_varint64(dst, number);
            }
        }
        for (level, key) in &self.compact_pointers {
            put_tag_and_level(dst, COMPACT_POINTER, *level);
            put_slice(dst, key);
        }
        for (level, number) in &self.deleted_files {
            put_tag_and_level(dst, DELETED_FILE, *level);
            put_varint64(dst, *number);
        }
        for file in &self.new_files {
            put_tag_and_level(dst, NEW_FILE, file.level);
            put_varint64(dst, file.number);
            put_varint64(dst, file.file_bytes);
            put_slice(dst, &file.smallest);
            put_slice(dst, &file.largest);
        }
    }

    /// Decodes an edit. If a single-valued field occurs twice, the second value is used, as in
    /// LevelDB.
    ///
    /// # Errors
    /// Unsupported, for an unknown tag or level. Corruption, for a truncated field, a sequence
    /// number over 56 bits, or a key too short to be an internal key (LevelDB accepts any non-empty
    /// key). Offsets are relative to `src`.
    pub fn decode(src: &[u8]) -> Result<VersionEdit> {
        let mut edit = VersionEdit::default();
        let mut fields = Decoder::new(src);
        while !fields.is_empty() {
            edit.decode_field(&mut fields)?;
        }
        Ok(edit)
    }

    fn decode_field(&mut self, fields: &mut Decoder<'_>) -> Result<()> {
        match fields.varint32("version edit tag")? {
            COMPARATOR => {
                let name = fields.slice("comparator name")?;
                self.comparator = Some(String::from_utf8_lossy(name).into_owned());
            }
            LOG_NUMBER => self.log_number = Some(fields.varint64("log number")?),
            PREV_LOG_NUMBER => self.prev_log_number = Some(fields.varint64("previous log number")?),
            NEXT_FILE_NUMBER => self.next_file_number = Some(fields.varint64("next file number")?),
            LAST_SEQ => self.last_seq = Some(decode_seq(fields)?),
            COMPACT_POINTER => {
                let level = decode_level(fields)?;
                self.compact_pointers.push((level, decode_key(fields, "compaction pointer")?));
            }
            DELETED_FILE => {
                let level = decode_level(fields)?;
                self.deleted_files.push((level, fields.varint64("number of a deleted file")?));
            }
            NEW_FILE => self.new_files.push(NewFile {
                level: decode_level(fields)?,
                number: fields.varint64("number of a new file")?,
                file_bytes: fields.varint64("size of a new file")?,
                smallest: decode_key(fields, "smallest key of a new file")?,
                largest: decode_key(fields, "largest key of a new file")?,
            }),
            tag => return Err(Error::unsupported(Feature::EditTag, tag.to_string())),
        }
        Ok(())
    }
}

fn put_tag_and_level(dst: &mut Vec<u8>, tag: u32, level: usize) {
    debug_assert!(level < NUM_LEVELS);
    put_varint32(dst, tag);
    put_varint32(dst, level as u32);
}

fn decode_level(fields: &mut Decoder<'_>) -> Result<usize> {
    let level = fields.varint32("level")?;
    if level as usize >= NUM_LEVELS {
        let last = NUM_LEVELS - 1;
        let name = format!("{level}: LevelDB has 0 to {last}, goleveldb can be set to more,");
        return Err(Error::unsupported(Feature::Level, name));
    }
    Ok(level as usize)
}

fn decode_seq(fields: &mut Decoder<'_>) -> Result<SeqNo> {
    let offset = fields.position() as u64;
    let seq = fields.varint64("last sequence number")?;
    if seq > MAX_SEQ_NO {
        let limit = format!("at most {MAX_SEQ_NO}");
        return Err(Error::mismatch("last sequence number out of range", limit, seq).at(offset));
    }
    Ok(seq)
}

fn decode_key(fields: &mut Decoder<'_>, what: &str) -> Result<Vec<u8>> {
    let offset = fields.position() as u64;
    let key = fields.slice(what)?;
    if key.len() < TRAILER_BYTES {
        let what = format!("{what} is too short");
        return Err(Error::mismatch(what, "at least 8 bytes", key.len()).at(offset));
    }
    Ok(key.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::key::{KeyKind, internal_key};

    fn encoded(edit: &VersionEdit) -> Vec<u8> {
        let mut bytes = Vec::new();
        edit.encode(&mut bytes);
        bytes
    }

    fn full_edit() -> VersionEdit {
        let key = |user: &str, seq| internal_key(user.as_bytes(), seq, KeyKind::Value);
        let file = |level, number| NewFile {
            level,
            number,
            file_bytes: 1 << 40,
            smallest: key("a", 1 << 50),
            largest: key("z", 2),
        };
        VersionEdit {
            comparator: Some("leveldb.BytewiseComparator".into()),
            log_number: Some(u64::MAX),
            prev_log_number: Some(0),
            next_file_number: Some(1 << 50),
            last_seq: Some(MAX_SEQ_NO),
            compact_pointers: vec![(0, key("x", 9)), (6, key("", 0))],
            deleted_files: vec![(0, 700), (6, u64::MAX)],
            new_files: vec![file(0, 1), file(6, 1 << 50)],
        }
    }

    #[test]
    fn the_worked_example() {
        let edit = VersionEdit {
            log_number: Some(3),
            prev_log_number: Some(0),
            next_file_number: Some(4),
            last_seq: Some(0),
            ..VersionEdit::default()
        };
        assert_eq!(encoded(&edit), [2, 3, 9, 0, 3, 4, 4, 0]);
        assert_eq!(VersionEdit::decode(&[2, 3, 9, 0, 3, 4, 4, 0]).unwrap(), edit);
    }

    #[test]
    fn every_field_comes_back() {
        assert_eq!(VersionEdit::decode(&encoded(&full_edit())).unwrap(), full_edit());
        assert_eq!(VersionEdit::decode(&[]).unwrap(), VersionEdit::default());
    }

    #[test]
    fn lists_have_their_tags() {
        let mut edit = full_edit();
        edit.comparator = None;
        (edit.log_number, edit.prev_log_number) = (None, None);
        (edit.next_file_number, edit.last_seq) = (None, None);
        edit.new_files.clear();
        edit.compact_pointers.truncate(1);
        edit.deleted_files.truncate(1);
        assert_eq!(encoded(&edit), *b"\x05\0\x09x\x01\x09\0\0\0\0\0\0\x06\0\xbc\x05");
    }

    #[test]
    fn damage_is_named() {
        let cases: [(&[u8], &str); 5] = [
            (b"\x05\0\x071234567", "compaction pointer is too short"),
            (b"\x07\0\x01\x01\x08\x01\0\0\0\0\0\0\0\0", "largest key of a new file is too short"),
            (&[4, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], "out of range"),
            (&[2], "log number is cut short"),
            (&[1, 5, b'a'], "comparator name is cut short"),
        ];
        for (bytes, what) in cases {
            let error = VersionEdit::decode(bytes).unwrap_err();
            assert!(error.is_corruption() && error.to_string().contains(what), "{error}");
        }
    }

    #[test]
    fn unknown_tags_are_named() {
        for tag in [0, 8, 10, 100] {
            let error = VersionEdit::decode(&[2, 3, tag]).unwrap_err();
            let Error::Unsupported { what, name, .. } = error else { panic!("{error}") };
            assert_eq!((what, name), (Feature::EditTag, tag.to_string()));
        }
    }

    /// goleveldb adds levels as a database grows, without a limit.
    #[test]
    fn a_level_past_the_seventh_is_unsupported_and_no_damage() {
        for bytes in [&[7, 7][..], &[6, 7, 1], b"\x05\x0c\x0812345678"] {
            let error = VersionEdit::decode(bytes).unwrap_err();
            assert!(matches!(error, Error::Unsupported { what: Feature::Level, .. }), "{error}");
            assert!(error.to_string().contains("goleveldb"), "{error}");
        }
    }

    #[test]
    fn no_truncation_and_no_changed_byte_panics() {
        let good = encoded(&full_edit());
        for len in 0..good.len() {
            if let Ok(edit) = VersionEdit::decode(&good[..len]) {
                assert!(encoded(&edit) == good[..len], "a prefix decodes to what it says");
            }
        }
        for at in 0..good.len() {
            for byte in 0..=255 {
                let mut bytes = good.clone();
                bytes[at] = byte;
                let _ = VersionEdit::decode(&bytes);
            }
        }
    }
}
