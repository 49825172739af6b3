//! Reading the footer and the stored blocks of a table file.

use std::cell::Cell;
use std::path::Path;

use crate::base::{Error, Result};
use crate::block::Block;
use crate::format::compress::{Method, decompress_into};
use crate::format::handle::{BLOCK_TRAILER_BYTES, BlockHandle, FOOTER_BYTES, Footer, verify_block};
use crate::fs::ReadFile;
use crate::table::sink::{NoSink, TableSink};

/// Reads and returns the footer of a table of `file_bytes` bytes.
pub(super) fn read_footer(file: &dyn ReadFile, file_bytes: u64, path: &Path) -> Result<Footer> {
    let Some(at) = file_bytes.checked_sub(FOOTER_BYTES as u64) else {
        let least = format!("at least {FOOTER_BYTES} bytes");
        return Err(Error::mismatch("too short to be a table", least, file_bytes));
    };
    let mut footer = [0; FOOTER_BYTES];
    read_exactly(file, path, &mut footer, at)?;
    let footer = Footer::decode(&footer).map_err(|error| error.at(at))?;
    // The footer has no checksum: one changed byte could turn the index's handle into the handle of
    // another intact block. In an intact table, either the index or the metaindex ends at the
    // footer.
    if footer.index.end() != Some(at) && footer.metaindex.end() != Some(at) {
        let error = Error::mismatch(
            "neither the index nor the metaindex ends at the footer",
            at,
            footer.index.end().map_or("beyond any file".into(), |end| end.to_string()),
        );
        return Err(error.at(at));
    }
    Ok(footer)
}

/// Reads and returns a block of a file that may be an incomplete table.
///
/// # Errors
/// Corruption, if the block is damaged or the file ends inside it; an I/O error.
pub(crate) fn read_loose_block(
    file: &dyn ReadFile,
    path: &Path,
    handle: BlockHandle,
) -> Result<Block> {
    let file_bytes = file.len().map_err(|error| Error::io("read", path, error))?;
    if handle.end().is_none_or(|end| end > file_bytes) {
        let end = handle.end().map_or("fewer than 2^64".into(), |end| format!("at least {end}"));
        let error = Error::mismatch("the file ends inside a block", end + " bytes", file_bytes);
        return Err(error.at(handle.offset).in_file(path));
    }
    read_stored(file, path, handle, true, &mut NoSink, |stored| Block::new(stored.contents))
        .map_err(|error| error.in_file(path))
}

/// A block read from the file. Its contents are in buffers that the next read reuses.
pub(super) struct Stored<'a> {
    /// Compression method of the block.
    pub method: Method,
    /// The decompressed contents.
    pub contents: &'a [u8],
    /// Scratch space for the caller.
    pub buffer: &'a mut Vec<u8>,
}

/// A thread's buffers for reading blocks. Most blocks are searched in these buffers or copied out
/// of them.
#[derive(Default)]
struct Buffers {
    stored: Vec<u8>,
    raw: Vec<u8>,
    other: Vec<u8>,
}

/// Capacity in bytes above which a buffer is freed after use. A larger limit keeps more memory per
/// thread.
const KEEP_BYTES: usize = 128 << 10;

/// Reads a block inside the file, decompresses it, and passes it to `then`. Returns the result of
/// `then`, after adding the block's offset to an error of `then`.
pub(super) fn read_stored<S: TableSink, R>(
    file: &dyn ReadFile,
    path: &Path,
    handle: BlockHandle,
    verify: bool,
    sink: &mut S,
    then: impl FnOnce(Stored<'_>) -> Result<R>,
) -> Result<R> {
    thread_local! {
        static BUFFERS: Cell<Buffers> = Cell::default();
    }
    // The destructor of another thread-local may read a block after `BUFFERS` was destroyed.
    let mut buffers = BUFFERS.try_with(Cell::take).unwrap_or_default();
    let result = read_into(&mut buffers, file, path, handle, verify, sink)
        .and_then(|stored| then(stored).map_err(|error| error.at(handle.offset)));
    for buffer in [&mut buffers.stored, &mut buffers.raw, &mut buffers.other] {
        if buffer.capacity() > KEEP_BYTES {
            *buffer = Vec::new();
        }
    }
    let _dropped_if_gone = BUFFERS.try_with(|kept| kept.set(buffers));
    result
}

fn read_into<'a, S: TableSink>(
    buffers: &'a mut Buffers,
    file: &dyn ReadFile,
    path: &Path,
    handle: BlockHandle,
    verify: bool,
    sink: &mut S,
) -> Result<Stored<'a>> {
    let Buffers { stored, raw, other: buffer } = buffers;
    let (method, stored) = read_compressed(stored, file, path, handle, verify, sink)?;
    if method == Method::None {
        return Ok(Stored { method, contents: stored, buffer });
    }
    let len = decompress_into(method, stored, raw).map_err(|error| error.at(handle.offset))?;
    sink.bytes_decompressed(len as u64);
    Ok(Stored { method, contents: &raw[..len], buffer })
}

/// Reads a block inside the file into `stored`, without decompressing it. Returns its compression
/// method and its stored bytes.
///
/// # Errors
/// Corruption, if the block is damaged; [`Error::Unsupported`], if its method is unknown; an I/O
/// error.
pub(super) fn read_compressed<'a, S: TableSink>(
    stored: &'a mut Vec<u8>,
    file: &dyn ReadFile,
    path: &Path,
    handle: BlockHandle,
    verify: bool,
    sink: &mut S,
) -> Result<(Method, &'a [u8])> {
    let too_long = || Error::corruption("block too long for this machine").at(handle.offset);
    let size = usize::try_from(handle.size).map_err(|_| too_long())?;
    let len = size.checked_add(BLOCK_TRAILER_BYTES).ok_or_else(too_long)?;
    if stored.len() < len {
        stored.resize(len, 0);
    }
    let stored = &mut stored[..len];
    read_exactly(file, path, stored, handle.offset)?;
    sink.bytes_read(len as u64);
    if verify {
        verify_block(stored).map_err(|error| error.at(handle.offset))?;
        sink.checksum_verified();
    }
    let (id, stored) = (stored[size], &stored[..size]);
    let method = Method::of(id, stored).map_err(|error| error.at(handle.offset))?;
    Ok((method, stored))
}

pub(super) fn read_exactly(
    file: &dyn ReadFile,
    path: &Path,
    buf: &mut [u8],
    offset: u64,
) -> Result<()> {
    let read = file.read_at(buf, offset).map_err(|error| Error::io("read", path, error))?;
    if read == buf.len() {
        return Ok(());
    }
    let end = offset.saturating_add(buf.len() as u64);
    let file_bytes = file.len().map_err(|error| Error::io("read", path, error))?;
    if file_bytes >= end {
        return Err(Error::io("read", path, std::io::ErrorKind::UnexpectedEof.into()));
    }
    let what = "the file ends inside a block or the footer";
    Err(Error::mismatch(what, format_args!("at least {end} bytes"), file_bytes).at(offset))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::bytes_file::BytesFile;

    #[test]
    fn the_error_of_a_truncated_table_states_its_length() {
        let table = [0; 300];
        let path = Path::new("5.ldb");
        for left in [0, 10, table.len() - 1] {
            let file = BytesFile(table[..left].to_vec());
            let error = read_footer(&file, table.len() as u64, path).unwrap_err().to_string();
            let lengths = format!("(expected at least {} bytes, found {left})", table.len());
            assert!(error.contains(&lengths), "{error}");
        }
    }

    #[test]
    fn a_loose_block_lies_within_its_file() {
        let mut bytes = vec![0, 0, 0, 0, 1, 0, 0, 0];
        bytes.extend_from_slice(&crate::format::handle::block_trailer(&bytes, 0));
        let read = |offset, size| {
            let file = BytesFile(bytes.clone());
            let read = read_loose_block(&file, Path::new("5.ldb"), BlockHandle { offset, size });
            read.map(|block| block.len()).map_err(|error| error.to_string())
        };
        assert_eq!(read(0, 8), Ok(8));
        for (offset, size) in [(0, 9), (1, 8), (0, 100), (100, 8), (u64::MAX, 1)] {
            let error = read(offset, size).unwrap_err();
            assert!(error.contains("the file ends inside a block"), "{error}");
        }
    }
}
