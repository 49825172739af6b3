//! Batches, as in LevelDB's `db/write_batch.cc`.

use super::Bad;
use super::coding::{Input, fixed32, fixed64};

/// A put of a key and a value, or a deletion of a key.
pub type Op = (Vec<u8>, Option<Vec<u8>>);

/// The parts of a batch that can be read.
#[derive(Debug, PartialEq, Eq)]
pub struct Batch {
    pub sequence: u64,
    pub count: u32,
    /// The operations before the end or the first damage.
    pub ops: Vec<Op>,
    pub end: Result<(), Bad>,
}

/// Decodes a batch; `None` if its head is damaged.
///
/// Sequence numbers have 56 bits, and the documentation of `format/batch.rs` refuses the numbers
/// past them. LevelDB does not look. An empty batch states the number that comes next, which may be
/// the one after the last.
pub fn batch(src: &[u8]) -> Option<Batch> {
    let (sequence, count) = (fixed64(src, 0)?, fixed32(src, 8)?);
    if u128::from(sequence) + u128::from(count) > 1 << 56 {
        return None;
    }
    let mut input = Input(&src[12..]);
    let mut ops = Vec::new();
    let end = loop {
        if input.0.is_empty() {
            break if ops.len() == count as usize { Ok(()) } else { Err(Bad::Damaged) };
        }
        match op(&mut input) {
            Ok(op) => ops.push(op),
            Err(bad) => break Err(bad),
        }
    };
    Some(Batch { sequence, count, ops, end })
}

/// Decodes an operation. A tag of another engine is not damage but unsupported: docs/format.md,
/// under "Batches". For LevelDB, it is damage.
fn op(input: &mut Input<'_>) -> Result<Op, Bad> {
    match input.byte()? {
        0 => Ok((input.slice()?.to_vec(), None)),
        1 => Ok((input.slice()?.to_vec(), Some(input.slice()?.to_vec()))),
        _ => Err(Bad::Unknown),
    }
}
