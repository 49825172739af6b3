//! Batches.

use minikv::files::BatchRecord;
use minikv::{BatchOp, WriteBatch};

use crate::twin::batch::{Batch, Op};
use crate::twin::{self, Bad};
use crate::{Input, bad, covered, up_to, words};

/// Operations, right and wrong: puts and deletions, empty keys, lengths that are not minimal, too
/// long for the batch or for a varint, and tags of other engines.
const OPS: [&[u8]; 16] = [
    b"\x01\x01k\x01v",
    b"\x00\x01k",
    b"\x01\x00\x00",
    b"\x00\x00",
    b"\x01\x81\x00k\x80\x80\x80\x80\x00",
    b"\x00\x81\x80\x80\x80\x80\x00k",
    b"\x01\x05k\x01v",
    b"\x01\x01k\x05v",
    b"\x00\xff\xff\xff\xff\x0fk",
    b"\x00\x81\x80\x80\x80\x10k",
    b"\x01\x01k",
    b"\x02\x01k\x01v",
    b"\x03\x01k",
    b"\x04\x00\x00\x01k",
    b"\xff\x01k",
    b"\x81\x00\x01k",
];

const LAST: u64 = (1 << 56) - 1;

fn head(sequence: u64, count: u32) -> Vec<u8> {
    [&sequence.to_le_bytes()[..], &count.to_le_bytes()].concat()
}

fn op(op: BatchOp<'_>) -> Op {
    match op {
        BatchOp::Put { key, value } => (key.to_vec(), Some(value.to_vec())),
        BatchOp::Delete { key } => (key.to_vec(), None),
    }
}

/// Compares the batch that is decoded operation by operation, and the one that is decoded whole.
fn compare(src: &[u8]) {
    let _input = Input(src);
    let expected = twin::batch::batch(src);
    let whole = WriteBatch::from_contents(src);
    let Some(expected) = expected else {
        let error = BatchRecord::parse(src).expect_err("a head that the twin refuses");
        assert_eq!(bad(&error), Bad::Damaged);
        assert_eq!(whole.err().map(|error| bad(&error)), Some(Bad::Damaged), "{src:02x?}");
        return;
    };
    let record = BatchRecord::parse(src).expect("a head that the twin accepts");
    assert_eq!((record.sequence, record.count), (expected.sequence, expected.count));
    let mut ops = Vec::new();
    let mut end = Ok(());
    for found in record.operations() {
        match found {
            Ok(found) if end.is_ok() => ops.push(op(found)),
            Ok(found) => panic!("{found:?} after damage"),
            Err(error) => end = Err(bad(&error)),
        }
    }
    compare_ops(&expected, &ops, end);
    assert_eq!(whole.as_ref().err().map(bad), end.err(), "{src:02x?}");
    if let Ok(batch) = whole {
        let ops: Vec<Op> = batch.iter().map(|found| op(found.unwrap())).collect();
        assert_eq!((ops, batch.contents()), (expected.ops, src));
    }
}

/// Compares operations with the twin's. Once there are as many as the head counts, the next one is
/// damage, whatever it is. LevelDB counts at the end.
fn compare_ops(expected: &Batch, ops: &[Op], end: Result<(), Bad>) {
    let counted = expected.count as usize;
    if counted < expected.ops.len() || (counted == expected.ops.len() && expected.end.is_err()) {
        assert!(ops == &expected.ops[..counted] && end.is_err(), "{expected:?}: {ops:?} {end:?}");
    } else {
        assert_eq!((ops, end), (&expected.ops[..], expected.end));
    }
}

#[test]
fn heads_of_batches_are_those_of_the_twin() {
    let mut inputs = 0;
    let whole = [&head(7, 1)[..], OPS[1]].concat();
    for len in 0..=whole.len() {
        compare(&whole[..len]);
        inputs += 1;
    }
    for sequence in [0, 1, LAST - 2, LAST - 1, LAST, LAST + 1, 1 << 63, u64::MAX] {
        for count in [0, 1, 2, 3, u32::MAX - 1, u32::MAX] {
            for ops in 0..4 {
                let src = [head(sequence, count), OPS[0].repeat(ops)].concat();
                compare(&src);
                inputs += 1;
            }
        }
    }
    covered(inputs, "heads of batches");
}

#[test]
fn batches_of_any_short_bytes_are_those_of_the_twin() {
    let mut inputs = 0;
    words(&[0, 1, 2, 3, 4, b'k', 0x80, 0xff], up_to(5, 7), |body| {
        for count in 0..4 {
            compare(&[&head(1, count), body].concat());
            inputs += 1;
        }
    });
    covered(inputs, "batches of short bytes");
}

#[test]
fn batches_by_grammar_are_those_of_the_twin() {
    let mut inputs = 0;
    words(&OPS, up_to(3, 4), |ops| {
        let Some((last, before)) = ops.split_last() else { return };
        let (before, len) = (before.concat(), ops.len() as u32);
        for cut in 0..=last.len() {
            for count in [0, len - 1, len, len + 1, u32::MAX] {
                compare(&[&head(7, count), &before, &last[..cut]].concat());
                inputs += 1;
            }
        }
    });
    covered(inputs, "batches by grammar");
}
