//! Physical records, and logs of them.

use std::path::Path;

use minikv::files::{LogReader, Tail};
use minikv_support::contents::Contents;

use crate::twin::log::{BLOCK, End, HEADER, record};
use crate::twin::{self, Bad};
use crate::{Input, bad, covered, is_long, up_to, words};

fn reader(file: &[u8]) -> LogReader {
    LogReader::new(Contents::shared(file), Path::new("log")).unwrap()
}

/// Reads records up to the end of the log or an error.
pub fn read_on(reader: &mut LogReader, records: &mut Vec<Vec<u8>>) -> End {
    loop {
        match reader.next() {
            Ok(Some(record)) => records.push(record.to_vec()),
            Ok(None) => {
                return match reader.tail() {
                    Tail::Clean => End::Clean,
                    Tail::Torn { .. } => End::Torn,
                    Tail::Zeros { .. } => End::Zeros,
                };
            }
            Err(error) if bad(&error) == Bad::Unknown => return End::Foreign,
            Err(_) => return End::Damage,
        }
    }
}

fn compare(file: &[u8]) {
    // The rest of a longer log is a single record.
    let _input = Input(&file[file.len().saturating_sub(100)..]);
    let expected = twin::log::log(file);
    let (mut reader, mut records) = (reader(file), Vec::new());
    let end = read_on(&mut reader, &mut records);
    let is_right = match expected.end {
        End::TornOrDamage => matches!(end, End::Torn | End::Damage),
        expected => end == expected,
    };
    assert!(is_right, "{:?} instead of {:?}", end, expected.end);
    assert!(records == expected.records, "{} records", records.len());
    assert_eq!(reader.valid_end(), expected.valid_end as u64);
    let after = (reader.valid_end(), file.len() as u64 - reader.valid_end());
    match reader.tail() {
        Tail::Torn { offset, bytes } | Tail::Zeros { offset, bytes } => {
            assert_eq!((offset, bytes), after);
        }
        Tail::Clean => assert!(end == End::Damage || end == End::Foreign || after.1 == 0),
    }
    assert_eq!(read_on(&mut reader, &mut records), end, "a second time");
    if end == End::Damage {
        compare_skipped(file, reader, records);
    }
}

/// Compares the records that can be read after damage with those that LevelDB reads.
fn compare_skipped(file: &[u8], mut reader: LogReader, mut records: Vec<Vec<u8>>) {
    let mut end = End::Damage;
    for _ in 0..file.len() {
        if end != End::Damage {
            break;
        }
        reader.skip_damage();
        end = read_on(&mut reader, &mut records);
    }
    assert!(end != End::Damage, "endless damage");
    let mut expected = twin::log::skipping(file);
    if end == End::Foreign {
        expected.truncate(records.len());
    }
    assert!(records == expected, "LevelDB reads {} records, not {}", expected.len(), records.len());
}

/// A kind of fragment, from which the fragment at each place of a log is made.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Record {
        kind: u8,
        len: usize,
        /// Bits that are changed in the checksum.
        wrong: u32,
    },
    /// A record that states another length than it has.
    Length(u16),
    Unwritten,
    /// Three bytes of a checksum and a payload, as a killed process leaves them.
    Stored,
}

impl Kind {
    fn bytes(self, place: usize) -> Vec<u8> {
        let payload = [b'a' + place as u8; 5];
        match self {
            Kind::Record { kind, len, wrong } => record(kind, &payload[..len], |crc| crc ^ wrong),
            Kind::Length(len) => {
                let mut bytes = record(1, &payload, |crc| crc);
                bytes[4..6].copy_from_slice(&len.to_le_bytes());
                bytes
            }
            Kind::Unwritten => vec![0; HEADER],
            Kind::Stored => [&[1, 2, 3, 0, 0, 0, 0], &payload[..]].concat(),
        }
    }
}

fn kinds(types: &[u8], lens: &[usize], wrong: &[u32]) -> Vec<Kind> {
    let mut kinds = vec![
        Kind::Length(5 ^ 16),
        Kind::Length(4),
        Kind::Length(u16::MAX),
        Kind::Unwritten,
        Kind::Stored,
    ];
    for kind in types {
        for len in lens {
            let all = wrong.iter();
            kinds.extend(all.map(|wrong| Kind::Record { kind: *kind, len: *len, wrong: *wrong }));
        }
    }
    kinds
}

fn all_kinds() -> Vec<Kind> {
    kinds(&[0, 1, 2, 3, 4, 5, 6, 255], &[0, 1, 5], &[0, 1])
}

fn few_kinds() -> Vec<Kind> {
    let mut few = kinds(&[0, 1, 2, 3, 4, 5], &[0, 1], &[0]);
    few.push(Kind::Record { kind: 1, len: 5, wrong: 1 << 31 });
    few
}

/// Compares logs of up to `most` fragments after `start`, cut at each byte of the last one, with
/// and without zeros at the end.
fn compare_all(kinds: &[Kind], most: usize, start: &[u8]) -> u64 {
    let mut inputs = 0;
    words(kinds, most, |kinds| {
        let mut file = start.to_vec();
        let fragments = kinds.iter().enumerate().map(|(place, kind)| kind.bytes(place));
        let mut fragments: Vec<Vec<u8>> = fragments.collect();
        let last = fragments.pop().unwrap_or_default();
        fragments.iter().for_each(|fragment| file.extend(fragment));
        let before = file.len();
        for cut in 0..=last.len() {
            for zeros in [0, 20] {
                file.truncate(before);
                file.extend(&last[..cut]);
                file.resize(file.len() + zeros, 0);
                compare(&file);
                inputs += 1;
            }
        }
    });
    inputs
}

#[test]
fn logs_by_grammar_are_read_like_the_twin_reads_them() {
    let all = compare_all(&all_kinds(), up_to(2, 3), &[]);
    covered(all, "logs of fragments of all kinds");
    let few = compare_all(&few_kinds(), up_to(3, 4), &[]);
    covered(few, "longer logs of fragments of few kinds");
}

#[test]
fn logs_are_read_across_the_border_of_a_block_like_the_twin_reads_them() {
    let mut inputs = 0;
    let kinds = if is_long() { all_kinds() } else { few_kinds() };
    for left in 0..9 {
        for kind in [1, 2] {
            let first = record(kind, &vec![b'_'; BLOCK - HEADER - left], |crc| crc);
            // The writer fills up the block with zeros; readers do not look at what is there, if it
            // is too short for a header.
            for filling in [Some(0), Some(0x5a), None] {
                let mut start = first.clone();
                if let Some(byte) = filling.filter(|_| left < HEADER) {
                    start.resize(BLOCK, byte);
                }
                let most = if is_long() && filling == Some(0) { 2 } else { 1 };
                inputs += compare_all(&kinds, most, &start);
            }
        }
    }
    covered(inputs, "logs at the border of a block");
}

#[test]
fn logs_of_any_short_bytes_are_read_like_the_twin_reads_them() {
    let mut inputs = 0;
    words(&[0, 1, 2, 0xff], up_to(7, 9), |file| {
        compare(file);
        inputs += 1;
    });
    // The checksums of empty records of all types, with any type after them.
    for (kind, stored) in (0..=255).flat_map(|a| (0..=255).map(move |b| (a, b))) {
        let mut file = record(kind, b"", |crc| crc);
        file[6] = stored;
        compare(&file);
        inputs += 1;
    }
    covered(inputs, "logs of short bytes");
}
