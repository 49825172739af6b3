//! Block handles, trailers and footers, as in LevelDB's `table/format.cc`.

use super::Bad;
use super::coding::{Input, crc32c, fixed32, fixed64, masked};

pub const MAGIC: u64 = 0xdb47_7524_8b80_fb57;

/// Magic numbers of tables of other engines: RocksDB's block-based, plain, old plain and cuckoo
/// tables, and Pebble's. docs/format.md, under "Other engines", refuses them as unsupported.
pub const OTHER_MAGICS: [u64; 5] = [
    0x88e2_41b7_85f4_cff7,
    0x8242_2296_63bf_9564,
    0x4f34_18eb_7a8f_13b8,
    0x9267_89d0_c5f1_7873,
    u64::from_le_bytes(*b"\xf0\x9f\xaa\xb3\xf0\x9f\xaa\xb3"),
];

/// The offset and the size of a block.
pub type Handle = (u64, u64);

pub fn handle(src: &[u8]) -> Result<Handle, Bad> {
    read_handle(&mut Input(src))
}

fn read_handle(input: &mut Input<'_>) -> Result<Handle, Bad> {
    Ok((input.varint64()?, input.varint64()?))
}

/// Decodes a footer to the handles of the metaindex and of the index.
pub fn footer(src: &[u8]) -> Result<(Handle, Handle), Bad> {
    if src.len() != 48 {
        return Err(Bad::Damaged);
    }
    match fixed64(src, 40) {
        Some(MAGIC) => {}
        Some(magic) if OTHER_MAGICS.contains(&magic) => return Err(Bad::Unknown),
        _ => return Err(Bad::Damaged),
    }
    let mut input = Input(&src[..40]);
    Ok((read_handle(&mut input)?, read_handle(&mut input)?))
}

/// Returns whether a block, its trailer of five bytes and the footer fit in a file.
pub fn fits((offset, size): Handle, file_bytes: u64) -> bool {
    u128::from(offset) + u128::from(size) + 5 + 48 <= u128::from(file_bytes)
}

/// Returns whether the checksum at the end is that of the bytes before it.
pub fn checksum_is_right(block_and_trailer: &[u8]) -> bool {
    let at = block_and_trailer.len() - 4;
    fixed32(block_and_trailer, at) == Some(masked(crc32c(&block_and_trailer[..at])))
}
