//! Finding out how the blocks of a table were compressed. A table does not say which compression
//! its writer used: each block states its own method, and a block that would not become smaller by
//! more than an eighth is stored uncompressed by every writer.

use std::path::Path;

use crate::base::{Error, Result};
use crate::block::Block;
use crate::format::coding::Decoder;
use crate::format::compress::{Compression, Compressor, ID_NONE, Method};
use crate::format::handle::{BlockHandle, Footer};
use crate::fs::ReadFile;
use crate::table::sink::NoSink;
use crate::table::stored::{read_compressed, read_footer};

/// Number of data blocks that are read. A table that has more data blocks than this has an index
/// that can be compressed, because every key in it ends with the same bytes.
const MAX_DATA_BLOCKS: usize = 8;

/// Maximum stored length, in bytes, of a data block that is read. Higher values make opening a
/// database of large values slower.
const MAX_DATA_BYTES: u64 = 256 << 10;

/// Number of bytes of an uncompressed block that are compressed as a test.
const TEST_BYTES: usize = 64 << 10;

/// Returns the method with which the table's writer compressed blocks: the method of the first
/// block that is compressed; [`Method::None`] if no block is, although snappy would have made one
/// smaller; `None` if the blocks that were read do not show the method.
///
/// # Errors
/// Corruption, if the footer or the index is damaged; [`Error::Unsupported`], if its method is
/// unknown; I/O errors.
pub(crate) fn compression_of(file: &dyn ReadFile, path: &Path) -> Result<Option<Method>> {
    let file_bytes = file.len().map_err(|error| Error::io("read", path, error))?;
    let mut reader = BlockReader { file, path, file_bytes, buffer: Vec::new() };
    reader.compression().map_err(|error| error.in_file(path))
}

/// Returns the same as [`compression_of`], for a table whose index is damaged: `blocks` are its
/// undamaged data blocks.
///
/// # Errors
/// [`Error::Unsupported`], if a method is unknown; I/O errors.
pub(crate) fn compression_of_blocks(
    file: &dyn ReadFile,
    path: &Path,
    blocks: &[BlockHandle],
) -> Result<Option<Method>> {
    let file_bytes = file.len().map_err(|error| Error::io("read", path, error))?;
    let mut reader = BlockReader { file, path, file_bytes, buffer: Vec::new() };
    reader.first_compressed(blocks, false).map_err(|error| error.in_file(path))
}

/// Reads blocks of a table without decompressing them.
struct BlockReader<'a> {
    file: &'a dyn ReadFile,
    path: &'a Path,
    file_bytes: u64,
    buffer: Vec<u8>,
}

impl BlockReader<'_> {
    fn compression(&mut self) -> Result<Option<Method>> {
        let Footer { index, .. } = read_footer(self.file, self.file_bytes, self.path)?;
        let (method, stored) = self.read(index)?;
        if method != Method::None {
            return Ok(Some(method));
        }
        let is_left_out = is_compressible(stored);
        let blocks = first_blocks(&Block::new(stored)?)?;
        self.first_compressed(&blocks, is_left_out)
    }

    /// Returns the method of the first of the blocks that is compressed. If none is, returns
    /// [`Method::None`] if one could be, or if `is_left_out` says so of another block.
    fn first_compressed(
        &mut self,
        blocks: &[BlockHandle],
        mut is_left_out: bool,
    ) -> Result<Option<Method>> {
        let small = blocks.iter().filter(|handle| handle.size <= MAX_DATA_BYTES);
        for &handle in small.take(MAX_DATA_BLOCKS) {
            // The other blocks of a damaged table show the method as well.
            let (method, stored) = match self.read(handle) {
                Err(Error::Corruption(_)) => continue,
                read => read?,
            };
            if method != Method::None {
                return Ok(Some(method));
            }
            is_left_out |= is_compressible(stored);
        }
        Ok(is_left_out.then_some(Method::None))
    }

    /// Returns the method and the stored bytes of a block.
    fn read(&mut self, handle: BlockHandle) -> Result<(Method, &[u8])> {
        let handle = handle.within(self.file_bytes)?;
        read_compressed(&mut self.buffer, self.file, self.path, handle, true, &mut NoSink)
    }
}

/// Returns the handles of the first data blocks.
fn first_blocks(index: &Block) -> Result<Vec<BlockHandle>> {
    let mut handles = Vec::new();
    let mut cursor = index.cursor();
    let mut valid = cursor.seek_to_first()?;
    while valid && handles.len() < MAX_DATA_BLOCKS {
        handles.push(BlockHandle::decode(&mut Decoder::new(cursor.value()))?);
        valid = cursor.next()?;
    }
    Ok(handles)
}

/// Returns whether every writer that compresses would have stored this block compressed.
fn is_compressible(raw: &[u8]) -> bool {
    let start = &raw[..raw.len().min(TEST_BYTES)];
    Compressor::new(Compression::Snappy).compress(start).1 != ID_NONE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::random::Rng;
    use crate::format::handle::block_trailer;
    use crate::fs::bytes_file::BytesFile;
    use crate::fs::{Fs, MemFs};
    use crate::table::builder::{TableBuilder, TableOptions};
    use crate::table::testing::internal_order;

    /// Returns the bytes of a table with `entries` entries, whose values have `value_bytes` bytes.
    fn table(compression: Compression, entries: u64, value_bytes: usize, is_text: bool) -> Vec<u8> {
        let fs = MemFs::new();
        let path = Path::new("5.ldb");
        let options = TableOptions {
            order: internal_order(),
            filter_policy: None,
            table_filter_bits_per_key: None,
            prefix_filter: None,
            block_bytes: 4096,
            block_restart_interval: 16,
            compression,
        };
        let file = fs.create(path).unwrap();
        let mut builder = TableBuilder::new(file, path.to_path_buf(), options);
        let mut rng = Rng::new(5);
        for i in 0..entries {
            let byte = |_| if is_text { b'a' } else { rng.next_u64() as u8 };
            let value: Vec<u8> = (0..value_bytes).map(byte).collect();
            let mut key = i.to_be_bytes().to_vec();
            key.extend_from_slice(&[1, i as u8, 0, 0, 0, 0, 0, 0]);
            builder.add(&key, &value).unwrap();
        }
        builder.finish().unwrap();
        let file = fs.open(path).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
        bytes
    }

    fn found(bytes: Vec<u8>) -> Result<Option<Method>> {
        compression_of(&BytesFile(bytes), Path::new("5.ldb"))
    }

    #[test]
    fn the_first_compressed_block_shows_the_method() {
        let snappy = Compression::Snappy;
        assert_eq!(found(table(snappy, 1000, 100, true)).unwrap(), Some(Method::Snappy));
        assert_eq!(found(table(snappy, 1, 1000, true)).unwrap(), Some(Method::Snappy));
        #[cfg(feature = "zlib")]
        for (compression, method) in
            [(Compression::Zlib(6), Method::Zlib), (Compression::Deflate(1), Method::Deflate)]
        {
            assert_eq!(found(table(compression, 1000, 100, true)).unwrap(), Some(method));
        }
        #[cfg(feature = "zstd")]
        assert_eq!(
            found(table(Compression::Zstd(3), 1000, 100, true)).unwrap(),
            Some(Method::Zstd)
        );
    }

    #[test]
    fn the_index_shows_the_method_if_values_cannot_be_compressed() {
        for (compression, method) in
            [(Compression::Snappy, Method::Snappy), (Compression::None, Method::None)]
        {
            assert_eq!(found(table(compression, 100, 2000, false)).unwrap(), Some(method));
        }
    }

    #[test]
    fn uncompressed_blocks_show_no_compression_only_if_they_could_be_smaller() {
        assert_eq!(found(table(Compression::None, 1, 1000, true)).unwrap(), Some(Method::None));
        for compression in [Compression::None, Compression::Snappy] {
            assert_eq!(found(table(compression, 1, 1000, false)).unwrap(), None);
            assert_eq!(found(table(compression, 1, 0, false)).unwrap(), None);
        }
    }

    #[test]
    fn damage_and_unknown_methods_are_errors() {
        let whole = table(Compression::None, 1, 1000, true);
        for len in [0, 40, whole.len() - 1] {
            assert!(found(whole[..len].to_vec()).unwrap_err().is_corruption());
        }
        let mut damaged = whole.clone();
        damaged[100] ^= 1;
        assert_eq!(found(damaged).unwrap(), None, "the only data block");
        let mut unknown = whole;
        let end = unknown.len();
        let footer = Footer::decode(&unknown[end - 48..]).unwrap();
        let (from, to) = (footer.index.offset as usize, footer.index.end().unwrap() as usize);
        let trailer = block_trailer(&unknown[from..to - 5], 7);
        unknown[to - 5..to].copy_from_slice(&trailer);
        let error = found(unknown).unwrap_err().to_string();
        assert_eq!(error, "unsupported compression 7 in 5.ldb");
    }
}
