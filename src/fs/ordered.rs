//! The order in which the parts of a record are written to a log whose length was set ahead, so
//! that zeros follow the last record.
//!
//! A process may be killed between two pages of a write. If the record were written from its start,
//! it could be left with a header but without its end, which readers would report as damage.
//! Therefore, the page with the first header is written after the other pages, and only the seals
//! of the later headers are written after that page. Until the page with the first header is
//! written, every header lacks its length and type, as if nothing had been written there.
//!
//! ```text
//! F header payload ... | page | page | L header payload ...
//! └ 2                  └ 1           └ 1, its last four bytes (the seal): 3
//! ```
//!
//! Between steps 2 and 3, a record that crosses a block boundary has its first fragments but not
//! its last ones.

use std::io;
use std::iter::once;
use std::ops::Range;

use crate::format::record::{BLOCK_BYTES, HEADER_BYTES, RecordType, SEAL, header_offsets};

/// Size of the smallest page in use, in bytes. After a process is killed, the bytes that a write
/// put into one page are either all present or all missing.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Returns whether the bytes `[start, end)` of a file are in one page.
pub(crate) fn is_in_one_page(start: u64, end: u64) -> bool {
    start == end || start / PAGE_BYTES == (end - 1) / PAGE_BYTES
}

/// The parts of an unfinished record that are written last, with their offsets in the file.
///
/// A record may come in several writes. If a write does not end the record, these parts are kept
/// until the write that ends the record.
#[derive(Debug, Default)]
pub(crate) struct DeferredParts(Vec<(u64, Vec<u8>)>);

impl DeferredParts {
    /// Returns whether there is no unfinished record.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Discards the parts of a record that will not be finished.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Writes `bytes`, which are physical records that belong at `position`, by calling `write`
    /// with parts of `bytes` and their offsets. The file must hold zeros at `position`.
    pub(crate) fn write(
        &mut self,
        bytes: &[u8],
        position: u64,
        mut write: impl FnMut(&[u8], u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut put = |part| write_part(bytes, part, position, &mut write);
        let Some(first) = header_offsets(bytes, position).next() else {
            return put(0..bytes.len());
        };
        let head = match self.is_empty() {
            true => first..head_end(first, position).min(bytes.len()),
            false => 0..0,
        };
        let seals = || {
            let begins_block =
                |at: usize| (position + at as u64).is_multiple_of(BLOCK_BYTES as u64);
            header_offsets(bytes, position)
                .filter(move |&at| at >= head.end && begins_block(at))
                .map(|at| at + SEAL.start..at + SEAL.end)
        };
        let mut done = head.end;
        for seal in seals() {
            put(done..seal.start)?;
            done = seal.end;
        }
        put(done..bytes.len())?;
        let mut deferred = once(head.clone()).chain(seals());
        if !ends_record(bytes, position) {
            let owned = |part: Range<usize>| (position + part.start as u64, bytes[part].to_vec());
            self.0.extend(deferred.map(owned));
            debug_assert!(self.0.is_sorted_by_key(|(offset, _)| *offset), "seals out of order");
            return Ok(());
        }
        for (offset, part) in self.0.drain(..) {
            write(&part, offset)?;
        }
        deferred.try_for_each(|part| write_part(bytes, part, position, &mut write))
    }
}

fn write_part(
    bytes: &[u8],
    part: Range<usize>,
    position: u64,
    write: &mut impl FnMut(&[u8], u64) -> io::Result<()>,
) -> io::Result<()> {
    match part.is_empty() {
        true => Ok(()),
        false => write(&bytes[part.clone()], position + part.start as u64),
    }
}

/// Returns the end of the page with the first header, or the end of the header if that is later.
fn head_end(first: usize, position: u64) -> usize {
    let start = position + first as u64;
    let page_end = (start / PAGE_BYTES + 1) * PAGE_BYTES;
    (page_end.max(start + HEADER_BYTES as u64) - position) as usize
}

/// Returns whether the last physical record in `bytes` ends its logical record.
fn ends_record(bytes: &[u8], position: u64) -> bool {
    let last = header_offsets(bytes, position).last();
    let number = last.map_or(0, |at| bytes[at + HEADER_BYTES - 1]);
    !matches!(RecordType::from_u8(number), Some(RecordType::First | RecordType::Middle))
}
