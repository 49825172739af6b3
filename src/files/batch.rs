//! Batches as a log stores them.

use crate::base::Result;
use crate::format::batch::{BatchOps, decode_header, decode_ops};
use crate::format::key::SeqNo;

/// A record of a log, which holds one batch. Its operations are decoded one by one, so that those
/// before damage can be read. [`WriteBatch::from_contents`](crate::WriteBatch::from_contents)
/// accepts only an intact record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchRecord<'a> {
    /// Sequence number of the first operation. Each further operation has the next number.
    pub sequence: SeqNo,
    /// Number of operations, as the record states it.
    pub count: u32,
    contents: &'a [u8],
}

impl<'a> BatchRecord<'a> {
    /// Decodes the head of `record`.
    ///
    /// # Errors
    /// Corruption, without a file, if the record is shorter than a head or if a sequence number is
    /// out of range. Its offset is relative to the record.
    pub fn parse(record: &'a [u8]) -> Result<BatchRecord<'a>> {
        let (sequence, count) = decode_header(record)?;
        Ok(BatchRecord { sequence, count, contents: record })
    }

    /// Returns an iterator over the operations, which ends after the first damage. It also reports
    /// damage if the number of operations is not [`BatchRecord::count`].
    pub fn operations(&self) -> BatchOps<'a> {
        decode_ops(self.contents)
    }
}
