//! Physical records of a log. On-disk format: do not change.
//!
//! A log is a sequence of 32 KiB blocks. A physical record never crosses a block boundary: a
//! logical record that does not fit is split into fragments. A remainder of fewer than 7 bytes at
//! the end of a block is filled with zeros.
//!
//! ```text
//! masked CRC-32C of type and payload: fixed32 | length: fixed16 | type: 1 byte | payload
//! "a" whole:       b5 cd 0b a2                | 01 00           | 01           | 61
//! ```
//!
//! Defined by LevelDB's `db/log_format.h` and `doc/log_format.md`.

use crate::format::coding::get_fixed32;
use crate::format::crc;

/// Size of a block, in bytes.
pub const BLOCK_BYTES: usize = 32 << 10;

/// Size of the header before a physical record's payload, in bytes.
pub const HEADER_BYTES: usize = 7;

/// Range of the header bytes that are stored last, in a single store, in a log whose length was set
/// ahead: the end of the checksum, the length and the type. As long as these bytes are zeros, the
/// header marks unwritten space.
pub const SEAL: std::ops::Range<usize> = 3..HEADER_BYTES;

/// The part of a logical record that a physical record contains. The numbers are stored on disk.
///
/// 0 is reserved for preallocated space: with a length of 0, it marks space that was never written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordType {
    /// The whole record.
    Full = 1,
    /// The first fragment.
    First = 2,
    /// A fragment between the first and the last.
    Middle = 3,
    /// The last fragment.
    Last = 4,
}

impl RecordType {
    /// Returns the type with this number on disk, or `None` for an unknown number.
    #[inline]
    pub fn from_u8(byte: u8) -> Option<RecordType> {
        match byte {
            1 => Some(RecordType::Full),
            2 => Some(RecordType::First),
            3 => Some(RecordType::Middle),
            4 => Some(RecordType::Last),
            _ => None,
        }
    }

    /// Returns the type of a fragment. The arguments tell whether it is the first and whether it is
    /// the last fragment of its record.
    #[inline]
    pub fn of_fragment(is_first: bool, is_last: bool) -> RecordType {
        match (is_first, is_last) {
            (true, true) => RecordType::Full,
            (true, false) => RecordType::First,
            (false, false) => RecordType::Middle,
            (false, true) => RecordType::Last,
        }
    }
}

/// The header of a physical record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// CRC-32C of the type and the payload, masked as on disk.
    pub masked_crc: u32,
    /// Length of the payload, in bytes.
    pub payload_bytes: u16,
    /// Number of the record type, which may be unknown.
    pub type_number: u8,
}

impl RecordHeader {
    /// Creates the header for `payload`, which must fit in a block and is therefore shorter than
    /// 2^16 bytes.
    #[inline]
    pub fn new(record_type: RecordType, payload: &[u8]) -> RecordHeader {
        debug_assert!(payload.len() <= BLOCK_BYTES - HEADER_BYTES);
        let type_number = record_type as u8;
        RecordHeader {
            masked_crc: crc::mask(checksum(type_number, payload)),
            payload_bytes: payload.len() as u16,
            type_number,
        }
    }

    /// Returns the encoded header.
    #[inline]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let [c0, c1, c2, c3] = self.masked_crc.to_le_bytes();
        let [len0, len1] = self.payload_bytes.to_le_bytes();
        [c0, c1, c2, c3, len0, len1, self.type_number]
    }

    /// Decodes the header at the start of `src`, or returns `None` if `src` is too short.
    #[inline]
    pub fn decode(src: &[u8]) -> Option<RecordHeader> {
        let src = src.get(..HEADER_BYTES)?;
        Some(RecordHeader {
            masked_crc: get_fixed32(src, 0)?,
            payload_bytes: u16::from_le_bytes([src[4], src[5]]),
            type_number: src[6],
        })
    }

    /// Returns whether `bytes`, which this header begins, are an undamaged record of a type that
    /// only other engines write. Their headers may be longer: a log number of 4 bytes follows the
    /// type in a recycled log, and an offset of 8 more in Pebble's newer logs. The checksum covers
    /// these fields.
    pub(crate) fn is_foreign(&self, bytes: &[u8]) -> bool {
        let checked = |header_bytes| {
            let end = header_bytes + usize::from(self.payload_bytes);
            bytes.get(HEADER_BYTES..end)
        };
        self.type_number > RecordType::Last as u8
            && [HEADER_BYTES, HEADER_BYTES + 4, HEADER_BYTES + 12]
                .into_iter()
                .filter_map(checked)
                .any(|checked| self.actual_crc(checked) == self.stored_crc())
    }

    /// Returns the checksum stored in the header, unmasked.
    pub fn stored_crc(&self) -> u32 {
        crc::unmask(self.masked_crc)
    }

    /// Returns the checksum of this record's type and `payload`.
    #[inline]
    pub fn actual_crc(&self, payload: &[u8]) -> u32 {
        checksum(self.type_number, payload)
    }
}

/// Returns the offsets in `bytes` at which headers of physical records begin. `bytes` starts at
/// `offset` in the log, where a physical record begins.
pub fn header_offsets(bytes: &[u8], offset: u64) -> impl Iterator<Item = usize> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let left = BLOCK_BYTES - (offset + at as u64) as usize % BLOCK_BYTES;
        if left < HEADER_BYTES {
            at += left;
        }
        let found = at;
        let header = RecordHeader::decode(bytes.get(at..)?)?;
        at += HEADER_BYTES + usize::from(header.payload_bytes);
        Some(found)
    })
}

#[inline]
fn checksum(type_number: u8, payload: &[u8]) -> u32 {
    crc::extend(crc::value(&[type_number]), payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        let header = RecordHeader::new(RecordType::Full, b"a");
        assert_eq!(header.encode(), [0xb5, 0xcd, 0x0b, 0xa2, 1, 0, 1]);
        assert_eq!(RecordHeader::decode(&header.encode()), Some(header));
        assert_eq!(RecordHeader::decode(&header.encode()[..6]), None);
        assert_eq!(header.actual_crc(b"a"), header.stored_crc());
        assert_ne!(header.actual_crc(b"b"), header.stored_crc());
    }

    #[test]
    fn headers_are_found_behind_padding_and_at_the_beginning_of_blocks() {
        let record = [&RecordHeader::new(RecordType::Full, b"abc").encode()[..], b"abc"].concat();
        let two = [&record[..], &record[..]].concat();
        assert_eq!(header_offsets(&two, 0).collect::<Vec<_>>(), [0, 10]);
        let padded = [&[0; 6][..], &record].concat();
        let offset = BLOCK_BYTES as u64 - 6;
        assert_eq!(header_offsets(&padded, offset).collect::<Vec<_>>(), [6]);
        assert_eq!(header_offsets(b"short", 7).count(), 0);
    }

    #[test]
    fn types_have_their_numbers() {
        for (number, first, last) in
            [(1, true, true), (2, true, false), (3, false, false), (4, false, true)]
        {
            let record_type = RecordType::of_fragment(first, last);
            assert_eq!(record_type as u8, number);
            assert_eq!(RecordType::from_u8(number), Some(record_type));
        }
        assert_eq!(RecordType::from_u8(0), None);
        assert_eq!(RecordType::from_u8(5), None);
    }
}
