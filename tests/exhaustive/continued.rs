//! Logs of batches that another program continued at the next block after a process was killed. The
//! rule is that of docs/format.md, under "Logs": reading goes on only if no batch can be missing.

use std::path::Path;

use minikv::files::LogReader;
use minikv_support::contents::Contents;

use crate::logs::read_on;
use crate::twin::log::{BLOCK, End, record};
use crate::{Input, covered, twin, up_to};

/// Returns a batch of `count` deletions.
fn batch(sequence: u64, count: u32) -> Vec<u8> {
    let mut batch = [&sequence.to_le_bytes()[..], &count.to_le_bytes()].concat();
    batch.extend(b"\0\x01k".repeat(count as usize));
    batch
}

fn whole(kind: u8, payload: &[u8]) -> Vec<u8> {
    record(kind, payload, |crc| crc)
}

/// Returns ends that a log of another process may have before the zeros that fill up its block.
fn ends() -> Vec<Vec<u8>> {
    let long = whole(1, &[0x5a; 1000]);
    let short = whole(1, &batch(2, 1));
    let mut ends: Vec<Vec<u8>> = Vec::new();
    let step = up_to(5, 1);
    ends.extend((0..450).step_by(step).map(|cut| long[..cut].to_vec()));
    ends.extend((1..short.len()).map(|cut| short[..cut].to_vec()));
    for kind in [2, 3, 4, 5] {
        ends.push(whole(kind, b"fragment"));
    }
    ends.push(record(1, &batch(2, 1), |crc| crc ^ 1));
    ends.push([&[0; 7][..], &long[7..300]].concat());
    ends.push([&long[..3], &[0; 4], &long[7..300]].concat());
    ends.push([&[0; 7][..], &short].concat());
    ends
}

/// Returns the beginnings of the next block, each with the sequence number of its first batch.
fn beginnings() -> Vec<(Option<u64>, Vec<u8>)> {
    let mut beginnings = Vec::new();
    for sequence in [0, 1, 2, 3, 4, 1 << 55, u64::MAX] {
        for count in [0, 1, 2] {
            let first = batch(sequence, count);
            let after = whole(1, &batch(sequence.saturating_add(u64::from(count)), 1));
            let is_batch = twin::batch::batch(&first).is_some();
            let known = is_batch.then_some(sequence);
            beginnings.push((known, [whole(1, &first), after].concat()));
            let (start, end) = first.split_at(12);
            beginnings.push((known, [whole(2, start), whole(4, end)].concat()));
            beginnings.push((None, whole(3, &first)));
            beginnings.push((None, record(1, &first, |crc| crc ^ 1)));
            beginnings.push((None, whole(1, &first[..11])));
        }
    }
    beginnings
}

/// Compares a log of a batch, with `next` as the number that follows it, the end of its block and
/// the beginning of the next one.
fn compare(end: &[u8], sequence: Option<u64>, beginning: &[u8]) {
    let _input = Input(beginning);
    let mut log = [&whole(1, &batch(1, 1)), end].concat();
    log.resize(BLOCK, 0);
    let before = twin::log::log(&log);
    let after = twin::log::log(beginning);
    log.extend(beginning);
    let path = Path::new("log");
    let mut reader = LogReader::of_batches(Contents::shared(log.as_slice()), path).unwrap();
    let mut records = Vec::new();
    let found = read_on(&mut reader, &mut records);
    let all: Vec<Vec<u8>> = before.records.iter().chain(&after.records).cloned().collect();
    let is_continued = records == all && found == after.end;
    let ends = match twin::log::log(&log).end {
        End::TornOrDamage => matches!(found, End::Torn | End::Damage),
        end => found == end,
    };
    let is_not_continued = records == before.records && ends;
    let is_next = sequence == Some(2);
    let is_right = match before.end {
        End::Zeros | End::Torn if is_next => is_continued,
        // Not what a killed process leaves, but no batch is missing.
        End::Damage | End::TornOrDamage if is_next => is_continued || is_not_continued,
        _ => is_not_continued,
    };
    assert!(is_right, "{:?}, {sequence:?}: {found:?} after {} records", before.end, records.len());
}

#[test]
fn a_log_goes_on_in_the_next_block_only_if_no_batch_is_missing() {
    let mut inputs = 0;
    let beginnings = beginnings();
    for end in ends() {
        for (sequence, beginning) in &beginnings {
            compare(&end, *sequence, beginning);
            inputs += 1;
        }
    }
    covered(inputs, "logs that another program continued");
}
