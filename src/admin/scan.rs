//! Finds the blocks of a table whose index cannot be read. Uses only the checksums of the blocks.
//!
//! Blocks and their trailers follow one another from the start of the file. If the start of an
//! undamaged block is known, the block's end is found by trying every possible end: only at the
//! real end does the checksum computed so far equal the checksum stored in the file. After a
//! damaged block, the next block may start at any later byte. Bytes that cannot start a block are
//! skipped, and the total work is bounded.

use std::path::Path;

use crate::base::{Error, Result};
use crate::block::Block;
use crate::format::coding::{Decoder, get_fixed32, get_varint32};
use crate::format::compress::{ID_DEFLATE, ID_NONE, ID_SNAPPY, ID_ZSTD_OR_ZLIB, is_zlib};
use crate::format::crc;
use crate::format::handle::{BLOCK_TRAILER_BYTES, BlockHandle};
use crate::fs::ReadFile;

/// Maximum size, in bytes, of a file that is searched. The file is read into memory, so a higher
/// limit takes more memory.
const MAX_SEARCHED_BYTES: u64 = 1 << 30;

/// Maximum size, in bytes, of a block that is searched for after damage. With a higher limit,
/// larger blocks are found, and the search takes more time.
const MAX_REACH: usize = 1 << 20;

/// Maximum number of bytes whose checksums are computed without finding a block: `TRIES_PER_BYTE`
/// for each byte of the file, plus `TRIES`. With higher values, more blocks are found after damage,
/// and the search takes more time.
const TRIES_PER_BYTE: usize = 16;
const TRIES: usize = 64 << 20;

/// Minimum size of a block, in bytes. The smallest block contains only its number of restart
/// points.
const MIN_BLOCK_BYTES: usize = 4;

/// Returns the blocks that can be found by a correct checksum, in order.
///
/// # Errors
/// An I/O error; corruption, if the file is too long to be searched.
pub(crate) fn find_blocks(file: &dyn ReadFile, path: &Path) -> Result<Vec<BlockHandle>> {
    let failed = |error| Error::io("read", path, error);
    let len = file.len().map_err(failed)?;
    if len > MAX_SEARCHED_BYTES {
        let limit = format!("at most {MAX_SEARCHED_BYTES} bytes");
        return Err(Error::mismatch("too long to be searched for blocks", limit, len));
    }
    let mut bytes = vec![0; len as usize];
    let read = file.read_at(&mut bytes, 0).map_err(failed)?;
    bytes.truncate(read);

    let mut tries = TRIES + TRIES_PER_BYTE * bytes.len();
    let mut blocks = Vec::new();
    let mut in_step = true;
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        if in_step || (tries > 0 && may_begin(rest)) {
            let reach = if in_step { rest.len() } else { rest.len().min(MAX_REACH) };
            if let Some(size) = block_size(&rest[..reach]) {
                blocks.push(BlockHandle { offset: at as u64, size: size as u64 });
                at += size + BLOCK_TRAILER_BYTES;
                in_step = true;
                continue;
            }
            tries = tries.saturating_sub(reach);
        }
        in_step = false;
        at += 1;
    }
    Ok(blocks)
}

/// Returns the size of the block that starts at the beginning of `bytes`, or `None` if no size
/// gives a correct checksum.
fn block_size(bytes: &[u8]) -> Option<usize> {
    let mut crc = crc::value(bytes.get(..MIN_BLOCK_BYTES)?);
    for size in MIN_BLOCK_BYTES..bytes.len().saturating_sub(BLOCK_TRAILER_BYTES - 1) {
        let id = bytes[size];
        // With the id, `crc` becomes the checksum of the contents and the id, or of the beginning
        // of a longer block.
        crc = crc::extend(crc, &[id]);
        if matches!(id, ID_NONE | ID_SNAPPY | ID_ZSTD_OR_ZLIB | ID_DEFLATE)
            && get_fixed32(bytes, size + 1) == Some(crc::mask(crc))
        {
            return Some(size);
        }
    }
    None
}

/// Returns whether a data block can begin with `bytes`: the first entry must share no bytes with a
/// previous key, and its key must be at least as long as the trailer of an internal key.
fn may_begin(bytes: &[u8]) -> bool {
    let begins_entry = |bytes: &[u8]| {
        bytes.first() == Some(&0)
            && get_varint32(&bytes[1..]).is_some_and(|(key_bytes, _)| key_bytes >= 8)
    };
    let begins_snappy = |bytes: &[u8]| {
        let Some((_, len)) = get_varint32(bytes) else { return false };
        // Snappy data begins with a literal. The length of the literal is in the tag, or in up to
        // four bytes after the tag.
        let Some(&tag) = bytes.get(len) else { return false };
        let extra = usize::from(tag >> 2).saturating_sub(59);
        tag & 3 == 0 && bytes.get(len + 1 + extra) == Some(&0)
    };
    let begins_zstd = |bytes: &[u8]| bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]);
    // Expect a single deflate block with dynamic Huffman codes, which is usual for a few kilobytes.
    let begins_deflate = |bytes: &[u8]| {
        bytes.len() > 1 && bytes[0] & 7 == 0b101 && bytes[0] >> 3 < 30 && bytes[1] & 31 < 30
    };
    begins_entry(bytes)
        || begins_snappy(bytes)
        || begins_zstd(bytes)
        || is_zlib(bytes)
        || begins_deflate(bytes)
}

/// Returns the data blocks to which `block` points, if `block` can be the index of the table.
/// `block` is at `offset`, and `blocks` are the blocks found before it. The index must point to
/// consecutive blocks, starting at the first byte of the file, and must agree with all blocks that
/// were found.
pub(crate) fn index_of(
    block: &Block,
    offset: u64,
    blocks: &[BlockHandle],
) -> Option<Vec<BlockHandle>> {
    let mut named = Vec::new();
    let mut end = 0;
    let mut cursor = block.cursor();
    let mut valid = cursor.seek_to_first().ok()?;
    while valid {
        let mut value = Decoder::new(cursor.value());
        let handle = BlockHandle::decode(&mut value).ok()?;
        if !value.is_empty() || handle.offset != end {
            return None;
        }
        end = handle.end().filter(|&end| end <= offset)?;
        named.push(handle);
        valid = cursor.next().ok()?;
    }
    let is_named = |sound: &BlockHandle| named.binary_search_by_key(&sound.offset, |h| h.offset);
    let agrees = |sound: &BlockHandle| {
        sound.offset >= end || is_named(sound).is_ok_and(|at| named[at] == *sound)
    };
    (!named.is_empty() && blocks.iter().all(agrees)).then_some(named)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use super::*;
    use crate::base::BytewiseComparator;
    use crate::format::compress::Compression;
    use crate::format::key::{InternalComparator, KeyKind, KeyOrder, internal_key};
    use crate::fs::{Fs, MemFs};
    use crate::table::builder::{TableBuilder, TableOptions};
    use crate::table::reader::{Table, TableContext};
    use crate::table::stored::read_loose_block;

    fn order() -> KeyOrder {
        KeyOrder::Internal(InternalComparator::new(Arc::new(BytewiseComparator)))
    }

    /// Writes a table. Returns its filesystem and path, and the handles of its data blocks and
    /// index.
    fn table(compression: Compression) -> (MemFs, PathBuf, Vec<BlockHandle>, BlockHandle) {
        let (fs, path) = (MemFs::new(), PathBuf::from("/table"));
        let options = TableOptions {
            order: order(),
            filter_policy: Some(Arc::new(crate::BloomFilterPolicy::new(10))),
            table_filter_bits_per_key: None,
            prefix_filter: None,
            block_bytes: 300,
            block_restart_interval: 4,
            compression,
        };
        let mut builder = TableBuilder::new(fs.create(&path).unwrap(), path.clone(), options);
        for i in 0..200u64 {
            let key = internal_key(format!("key{i:05}").as_bytes(), i + 1, KeyKind::Value);
            builder.add(&key, format!("value {i} {}", "abc".repeat(8)).as_bytes()).unwrap();
        }
        let bytes = builder.finish().unwrap().file_bytes;
        let context = TableContext {
            order: order(),
            filter_policy: None,
            prefix_extractor: None,
            block_cache: None,
            paranoid: true,
        };
        let table = Table::open(fs.open(&path).unwrap(), bytes, path.clone(), &context).unwrap();
        let blocks = table.blocks().unwrap().into_iter().map(|block| block.handle).collect();
        (fs.clone(), path, blocks, table.footer().index)
    }

    fn damage(fs: &MemFs, path: &Path, at: u64) {
        let file = fs.open(path).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(&mut bytes, 0).unwrap();
        bytes[at as usize] ^= 0x41;
        fs.create(path).unwrap().write(&bytes).unwrap();
    }

    #[test]
    fn every_sound_block_is_found_and_the_index_known() {
        for compression in [Compression::None, Compression::Snappy] {
            let (fs, path, data, index) = table(compression);
            assert!(data.len() > 10);
            let file = fs.open(&path).unwrap();
            let found = find_blocks(&*file, &path).unwrap();
            assert_eq!(found[..data.len()], data);
            // The three blocks that are not data blocks are the filter block, the metaindex and the
            // index.
            assert_eq!(found.len(), data.len() + 3);
            assert_eq!(found[data.len() + 2], index);
            let block = read_loose_block(&*file, &path, index).unwrap();
            let before = &found[..data.len() + 2];
            assert_eq!(index_of(&block, index.offset, before), Some(data.clone()));
            for &handle in &data {
                let block = read_loose_block(&*file, &path, handle).unwrap();
                assert_eq!(index_of(&block, handle.offset, &[]), None);
            }
        }
    }

    #[test]
    fn a_damaged_block_hides_no_other() {
        for compression in [Compression::None, Compression::Snappy] {
            let (_, _, data, _) = table(compression);
            for lost in [0, 1, data.len() / 2, data.len() - 1] {
                let (fs, path, mut data, _) = table(compression);
                damage(&fs, &path, data[lost].offset + data[lost].size / 2);
                data.remove(lost);
                let found = find_blocks(&*fs.open(&path).unwrap(), &path).unwrap();
                assert_eq!(found[..data.len()], data, "{compression:?}, block {lost}");
            }
        }
    }
}
