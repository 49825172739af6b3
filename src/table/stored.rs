//! Reading what is stored of a table: its footer, and its blocks as they lie in the file.

use std::path::Path;

use bytes::Bytes;

use crate::base::{Error, Result};
use crate::format::block::Block;
use crate::format::compress::{ID_NONE, decompress};
use crate::format::handle::{BLOCK_TRAILER_BYTES, BlockHandle, FOOTER_BYTES, Footer, verify_block};
use crate::fs::ReadFile;
use crate::table::sink::{NoSink, TableSink};

/// Reads the footer of a table of `file_bytes`.
pub(super) fn read_footer(file: &dyn ReadFile, file_bytes: u64, path: &Path) -> Result<Footer> {
    let Some(at) = file_bytes.checked_sub(FOOTER_BYTES as u64) else {
        let least = format!("at least {FOOTER_BYTES} bytes");
        return Err(Error::mismatch("too short to be a table", least, file_bytes));
    };
    let mut footer = [0; FOOTER_BYTES];
    read_exactly(file, path, &mut footer, at)?;
    let footer = Footer::decode(&footer).map_err(|error| error.at(at))?;
    // The footer has no checksum, and one changed byte could turn the index's handle into that
    // of another sound block. One of the two blocks is always the last before the footer.
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

/// Reads a block of a file that may not be a whole table.
///
/// # Errors
/// Corruption, if the block is damaged or the file ends inside it; an error of the file.
pub fn read_loose_block(file: &dyn ReadFile, path: &Path, handle: BlockHandle) -> Result<Block> {
    let file_bytes = file.len().map_err(|error| Error::io("read", path, error))?;
    if handle.end().is_none_or(|end| end > file_bytes) {
        let error = Error::mismatch("the file ends inside a block", handle.size, file_bytes);
        return Err(error.at(handle.offset).in_file(path));
    }
    read_stored(file, path, handle, true, &mut NoSink)
        .and_then(|(_, contents)| Block::new(contents).map_err(|error| error.at(handle.offset)))
        .map_err(|error| error.in_file(path))
}

/// Reads a block that lies within the file, and decompresses it.
pub(super) fn read_stored<S: TableSink>(
    file: &dyn ReadFile,
    path: &Path,
    handle: BlockHandle,
    verify: bool,
    sink: &mut S,
) -> Result<(u8, Bytes)> {
    let too_long = || Error::corruption("block too long for this machine").at(handle.offset);
    let size = usize::try_from(handle.size).map_err(|_| too_long())?;
    let len = size.checked_add(BLOCK_TRAILER_BYTES).ok_or_else(too_long)?;
    let mut stored = vec![0; len];
    read_exactly(file, path, &mut stored, handle.offset)?;
    sink.bytes_read(len as u64);
    if verify {
        verify_block(&stored).map_err(|error| error.at(handle.offset))?;
        sink.checksum_verified();
    }
    let id = stored[size];
    stored.truncate(size);
    if id == ID_NONE {
        return Ok((id, stored.into()));
    }
    let raw = decompress(id, &stored).map_err(|error| error.at(handle.offset))?;
    sink.bytes_decompressed(raw.len() as u64);
    Ok((id, raw.into()))
}

fn read_exactly(file: &dyn ReadFile, path: &Path, buf: &mut [u8], offset: u64) -> Result<()> {
    let read = file.read_at(buf, offset).map_err(|error| Error::io("read", path, error))?;
    if read == buf.len() {
        return Ok(());
    }
    let end = offset.saturating_add(buf.len() as u64);
    Err(Error::mismatch(
        "the file ends inside a block or the footer",
        format_args!("{end} bytes"),
        offset.saturating_add(read as u64),
    )
    .at(offset))
}
