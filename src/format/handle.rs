//! Block handles, block trailers and the table footer. On-disk format: do not change.
//!
//! ```text
//! block handle   varint64 offset | varint64 size, the trailer not counted
//!                offset 300, size 20                    ->  ac 02 14
//!
//! block          contents (size bytes) | trailer
//! trailer        1 byte compression id | 4 bytes masked CRC-32C of contents and id
//!                an empty block, uncompressed           ->  00 c0 f2 a1 b0
//!
//! footer         metaindex handle | index handle | zeros up to 40 bytes | magic, 8 bytes
//!                the last 48 bytes of the file          ->  ... 57 fb 80 8b 24 75 47 db
//! ```
//!
//! Defined by LevelDB's `table/format.h`.

use crate::base::{Error, Feature, Result};
use crate::format::coding::{Decoder, MAX_VARINT64_BYTES, get_fixed32, get_fixed64, put_varint64};
use crate::format::crc;

/// Magic number in the last eight bytes of every table.
pub const TABLE_MAGIC: u64 = 0xdb47_7524_8b80_fb57;

/// Magic numbers of tables that other engines write, with the engines. RocksDB's are in its
/// `table/block_based/block_based_table_builder.cc`, `table/plain` and `table/cuckoo`, Pebble's in
/// its `sstable/table.go`.
const OTHER_MAGICS: [(u64, &str); 5] = [
    (0x88e2_41b7_85f4_cff7, "RocksDB"),
    (0x8242_2296_63bf_9564, "RocksDB"),
    (0x4f34_18eb_7a8f_13b8, "RocksDB"),
    (0x9267_89d0_c5f1_7873, "RocksDB"),
    (u64::from_le_bytes([0xf0, 0x9f, 0xaa, 0xb3, 0xf0, 0x9f, 0xaa, 0xb3]), "Pebble"),
];

/// Size of a footer, in bytes.
pub const FOOTER_BYTES: usize = 4 * MAX_VARINT64_BYTES + 8;

/// Size of the trailer after every block's contents, in bytes.
pub const BLOCK_TRAILER_BYTES: usize = 5;

/// The location of a block in its table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockHandle {
    /// Offset of the block's contents from the start of the file, in bytes.
    pub offset: u64,
    /// Size of the contents as stored, without the trailer, in bytes.
    pub size: u64,
}

impl BlockHandle {
    /// Appends the encoded handle to `dst`.
    pub fn encode_to(&self, dst: &mut Vec<u8>) {
        put_varint64(dst, self.offset);
        put_varint64(dst, self.size);
    }

    /// Decodes the next handle from `decoder`.
    ///
    /// # Errors
    /// Corruption, if the bytes end inside the handle.
    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<BlockHandle> {
        let offset = decoder.varint64("block handle offset")?;
        let size = decoder.varint64("block handle size")?;
        Ok(BlockHandle { offset, size })
    }

    /// Returns the offset just past the block's trailer, or `None` if the offset overflows 64 bits.
    pub fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.size)?.checked_add(BLOCK_TRAILER_BYTES as u64)
    }

    /// Returns this handle, after checking that its block ends before the footer of a table of
    /// `file_bytes` bytes.
    ///
    /// # Errors
    /// Corruption, at the handle's offset, if the block does not fit.
    pub fn within(self, file_bytes: u64) -> Result<BlockHandle> {
        let limit = file_bytes.saturating_sub(FOOTER_BYTES as u64);
        match self.end() {
            Some(end) if end <= limit => Ok(self),
            _ => Err(Error::mismatch(
                "block handle points outside the table",
                format_args!("an end at most at {limit}"),
                format_args!("offset {} and size {}", self.offset, self.size),
            )),
        }
    }
}

/// The footer of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footer {
    /// Handle of the metaindex block, which maps names of meta blocks, such as the filter block, to
    /// their handles.
    pub metaindex: BlockHandle,
    /// Handle of the index block, which maps separators to handles of data blocks.
    pub index: BlockHandle,
}

impl Footer {
    /// Returns the encoded footer.
    pub fn encode(&self) -> [u8; FOOTER_BYTES] {
        let mut handles = Vec::with_capacity(FOOTER_BYTES);
        self.metaindex.encode_to(&mut handles);
        self.index.encode_to(&mut handles);
        let mut footer = [0; FOOTER_BYTES];
        footer[..handles.len()].copy_from_slice(&handles);
        footer[FOOTER_BYTES - 8..].copy_from_slice(&TABLE_MAGIC.to_le_bytes());
        footer
    }

    /// Decodes a footer. The padding between the handles and the magic number is not checked.
    ///
    /// # Errors
    /// Unsupported, for the magic number of another engine. Corruption, if the length or the magic
    /// number is wrong or a handle is malformed.
    pub fn decode(footer: &[u8]) -> Result<Footer> {
        if footer.len() != FOOTER_BYTES {
            return Err(Error::mismatch("table footer length", FOOTER_BYTES, footer.len()));
        }
        let magic = get_fixed64(footer, FOOTER_BYTES - 8).unwrap_or(0);
        if let Some((_, engine)) = OTHER_MAGICS.iter().find(|(other, _)| *other == magic) {
            return Err(Error::unsupported(Feature::TableFormat, format!("of {engine}")));
        }
        if magic != TABLE_MAGIC {
            return Err(Error::mismatch(
                "not a table: bad magic number",
                format_args!("{TABLE_MAGIC:#018x}"),
                format_args!("{magic:#018x}"),
            )
            .at(FOOTER_BYTES as u64 - 8));
        }
        let mut decoder = Decoder::new(&footer[..FOOTER_BYTES - 8]);
        let metaindex = BlockHandle::decode(&mut decoder)?;
        let index = BlockHandle::decode(&mut decoder)?;
        Ok(Footer { metaindex, index })
    }
}

/// Returns the trailer of a block whose stored bytes are `stored` and whose compression id is `id`.
pub fn block_trailer(stored: &[u8], id: u8) -> [u8; BLOCK_TRAILER_BYTES] {
    let mut trailer = [id, 0, 0, 0, 0];
    let crc = crc::mask(crc::extend(crc::value(stored), &[id]));
    trailer[1..].copy_from_slice(&crc.to_le_bytes());
    trailer
}

/// Verifies the checksum of a block and its trailer.
///
/// # Errors
/// Corruption, if the stored checksum does not match the bytes.
pub fn verify_block(block_and_trailer: &[u8]) -> Result<()> {
    let Some(split) = block_and_trailer.len().checked_sub(4) else {
        return Err(Error::corruption("block shorter than its trailer"));
    };
    let stored = get_fixed32(block_and_trailer, split).unwrap_or(0);
    let computed = crc::mask(crc::value(&block_and_trailer[..split]));
    if stored == computed {
        return Ok(());
    }
    Err(Error::mismatch(
        "block checksum mismatch",
        format_args!("{stored:#010x} as stored"),
        format_args!("{computed:#010x} of the bytes"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_examples() {
        let handle = BlockHandle { offset: 300, size: 20 };
        let mut bytes = Vec::new();
        handle.encode_to(&mut bytes);
        assert_eq!(bytes, [0xac, 0x02, 0x14]);
        assert_eq!(BlockHandle::decode(&mut Decoder::new(&bytes)).unwrap(), handle);

        let footer = Footer { metaindex: handle, index: BlockHandle { offset: 325, size: 8 } };
        let bytes = footer.encode();
        assert_eq!(bytes[..8], [0xac, 0x02, 0x14, 0xc5, 0x02, 0x08, 0, 0]);
        assert_eq!(bytes[40..], [0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb]);
        assert_eq!(Footer::decode(&bytes).unwrap(), footer);

        let empty = [0, 0, 0, 0, 1, 0, 0, 0];
        assert_eq!(block_trailer(&empty, 0), [0x00, 0xc0, 0xf2, 0xa1, 0xb0]);
    }

    #[test]
    fn handles_at_the_largest_offsets_do_not_overflow() {
        for (offset, size) in [(u64::MAX, 0), (0, u64::MAX), (u64::MAX - 4, 0), (1 << 63, 1 << 63)]
        {
            let handle = BlockHandle { offset, size };
            assert_eq!(handle.end(), None, "{handle:?}");
            assert!(handle.within(u64::MAX).unwrap_err().is_corruption());
        }
        let last = BlockHandle { offset: 10, size: 37 };
        assert_eq!(last.within(100).unwrap(), last);
        assert!(last.within(99).unwrap_err().is_corruption());
        assert!(last.within(3).unwrap_err().is_corruption());
    }

    #[test]
    fn a_changed_bit_fails_the_checksum() {
        let mut block = b"contents".to_vec();
        block.extend_from_slice(&block_trailer(b"contents", 1));
        verify_block(&block).unwrap();
        for bit in 0..block.len() * 8 {
            block[bit / 8] ^= 1 << (bit % 8);
            assert!(verify_block(&block).unwrap_err().is_corruption(), "bit {bit}");
            block[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(verify_block(b"abc").unwrap_err().is_corruption());
    }

    #[test]
    fn a_footer_of_another_engine_is_unsupported() {
        for (magic, engine) in OTHER_MAGICS {
            let mut footer = [0; FOOTER_BYTES];
            footer[FOOTER_BYTES - 8..].copy_from_slice(&magic.to_le_bytes());
            let error = Footer::decode(&footer).unwrap_err();
            assert!(
                matches!(error, Error::Unsupported { what: Feature::TableFormat, .. }),
                "{error}"
            );
            assert!(error.to_string().contains(engine), "{error}");
        }
    }

    #[test]
    fn a_footer_with_a_wrong_magic_or_length_is_refused() {
        let mut bytes = Footer::default().encode();
        bytes[47] ^= 1;
        let error = Footer::decode(&bytes).unwrap_err();
        let Error::Corruption(found) = &error else { panic!("{error}") };
        assert_eq!(found.offset, Some(40));
        assert!(error.to_string().contains("0xdb4775248b80fb57"), "{error}");
        assert!(Footer::decode(&bytes[1..]).unwrap_err().is_corruption());
        let mut endless = [0xff; FOOTER_BYTES];
        endless[40..].copy_from_slice(&TABLE_MAGIC.to_le_bytes());
        assert!(Footer::decode(&endless).unwrap_err().is_corruption());
    }
}
