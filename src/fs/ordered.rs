//! The order in which a record is written into a log that is longer than its records, by zeros.
//!
//! A process may be killed between two pages of a write. Written from its beginning, the record
//! would be left with a header and without its end, and readers would call that damage. So the
//! page with the first header is written last, and behind it what completes the later headers.
//! Until then each header has no length and no type, as if nothing had been written there.
//!
//! ```text
//! F header payload ... | page | page | L header payload ...
//! └ 2                  └ 1           └ 1, its last four bytes: 3
//! ```
//!
//! Between 2 and 3 a record that crosses a block has its first fragments and not its last ones.

use std::io;
use std::iter::once;
use std::ops::Range;

use crate::format::record::{BLOCK_BYTES, HEADER_BYTES, RecordType, SEAL, header_offsets};

/// The smallest page there is: what the system writes into one page is there whole or not at all
/// when the process is killed.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Whether the bytes from `start` to `end` of a file are in one page.
pub(crate) fn is_in_one_page(start: u64, end: u64) -> bool {
    start == end || start / PAGE_BYTES == (end - 1) / PAGE_BYTES
}

/// What was left out of a record that comes in several writes, with the offsets where it goes.
#[derive(Debug, Default)]
pub(crate) struct Held(Vec<(u64, Vec<u8>)>);

impl Held {
    /// Whether the last record was written to its end.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets what was left out.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Writes `bytes`, physical records that belong at `position`, with `write`. The file holds
    /// zeros there.
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
        let mut left_out = once(head.clone()).chain(seals());
        if !ends_record(bytes, position) {
            let owned = |part: Range<usize>| (position + part.start as u64, bytes[part].to_vec());
            self.0.extend(left_out.map(owned));
            return Ok(());
        }
        for (offset, part) in self.0.drain(..) {
            write(&part, offset)?;
        }
        left_out.try_for_each(|part| write_part(bytes, part, position, &mut write))
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

/// The end of the page that the first header is in; of the header, if that ends later.
fn head_end(first: usize, position: u64) -> usize {
    let start = position + first as u64;
    let page_end = (start / PAGE_BYTES + 1) * PAGE_BYTES;
    (page_end.max(start + HEADER_BYTES as u64) - position) as usize
}

fn ends_record(bytes: &[u8], position: u64) -> bool {
    let last = header_offsets(bytes, position).last();
    let number = last.map_or(0, |at| bytes[at + HEADER_BYTES - 1]);
    !matches!(RecordType::from_u8(number), Some(RecordType::First | RecordType::Middle))
}
