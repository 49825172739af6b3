//! Corrects the checksums of a modified input. Lengths and offsets stay unchanged.

use minikv::internals::block::Block;
use minikv::internals::format::compress::{Method, decompress_into};
use minikv::internals::format::handle::{
    BLOCK_TRAILER_BYTES, BlockHandle, FOOTER_BYTES, Footer, TABLE_MAGIC, block_trailer, decode,
};
use minikv::internals::format::record::{BLOCK_BYTES, HEADER_BYTES, RecordHeader, RecordType};

use crate::files::{self, Kind};

/// Maximum number of blocks corrected per index. An index may point to any number of blocks. A
/// higher limit makes hostile inputs slower.
const MAX_BLOCKS: usize = 1000;

/// Corrects the checksum of every record of a log.
pub fn log(bytes: &mut [u8]) {
    for block in bytes.chunks_mut(BLOCK_BYTES) {
        let mut at = 0;
        while block.len() - at >= HEADER_BYTES {
            let len = usize::from(u16::from_le_bytes([block[at + 4], block[at + 5]]));
            let end = at + HEADER_BYTES + len;
            let Some(record_type) = RecordType::from_u8(block[at + 6]) else { break };
            if end > block.len() {
                break;
            }
            let header = RecordHeader::new(record_type, &block[at + HEADER_BYTES..end]);
            block[at..at + HEADER_BYTES].copy_from_slice(&header.encode());
            at = end;
        }
    }
}

/// Corrects the magic number of a table, and the checksum of every block to which the footer, the
/// index or the metaindex points.
pub fn table(bytes: &mut [u8]) {
    let Some(at) = bytes.len().checked_sub(FOOTER_BYTES) else { return };
    let magic_at = bytes.len() - 8;
    bytes[magic_at..].copy_from_slice(&TABLE_MAGIC.to_le_bytes());
    let Ok(footer) = Footer::decode(&bytes[at..]) else { return };
    let mut budget_bytes = 2 * bytes.len() as u64;
    for named in [footer.metaindex, footer.index] {
        for handle in handles(bytes, named) {
            if handle.size > budget_bytes {
                break;
            }
            budget_bytes -= handle.size;
            block(bytes, handle);
        }
        block(bytes, named);
    }
}

/// Corrects the checksum of one block.
fn block(bytes: &mut [u8], handle: BlockHandle) {
    if handle.within(bytes.len() as u64).is_err() {
        return;
    }
    let (start, end) = (handle.offset as usize, (handle.offset + handle.size) as usize);
    let trailer = block_trailer(&bytes[start..end], bytes[end]);
    bytes[end..end + BLOCK_TRAILER_BYTES].copy_from_slice(&trailer);
}

/// Returns the contents of the blocks of an undamaged table, beginning with the index.
pub fn blocks(bytes: &[u8]) -> Vec<Vec<u8>> {
    let Some(at) = bytes.len().checked_sub(FOOTER_BYTES) else { return Vec::new() };
    let Ok(footer) = Footer::decode(&bytes[at..]) else { return Vec::new() };
    let named = [footer.index, footer.metaindex].into_iter().chain(handles(bytes, footer.index));
    named.filter_map(|handle| contents(bytes, handle)).collect()
}

/// Returns the handles in an index or metaindex block, up to the first malformed handle.
fn handles(bytes: &[u8], handle: BlockHandle) -> Vec<BlockHandle> {
    let mut handles = Vec::new();
    let Some(contents) = contents(bytes, handle) else { return handles };
    let Ok(block) = Block::new(contents) else { return handles };
    let mut cursor = block.cursor();
    let mut valid = cursor.seek_to_first();
    while let Ok(true) = valid
        && handles.len() < MAX_BLOCKS
    {
        handles.extend(decode(cursor.value()));
        valid = cursor.next();
    }
    handles
}

/// Returns the contents of a block, whatever its checksum.
fn contents(bytes: &[u8], handle: BlockHandle) -> Option<Vec<u8>> {
    let handle = handle.within(bytes.len() as u64).ok()?;
    let (start, end) = (handle.offset as usize, (handle.offset + handle.size) as usize);
    let stored = &bytes[start..end];
    match Method::of(bytes[end], stored).ok()? {
        Method::None => Some(stored.to_vec()),
        method => {
            let mut raw = Vec::new();
            let len = decompress_into(method, stored, &mut raw).ok()?;
            raw.truncate(len);
            Some(raw)
        }
    }
}

/// Corrects the checksums of all files of a packed directory.
pub fn directory(data: &mut [u8]) {
    for (kind, _, range) in files::split(data) {
        match kind {
            Kind::Manifest | Kind::Log => log(&mut data[range]),
            Kind::Table | Kind::OldTable => table(&mut data[range]),
            Kind::Current | Kind::Temp => {}
        }
    }
}
