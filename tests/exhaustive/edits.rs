//! Version edits.

use minikv::files::VersionEdit;

use crate::twin::edit::Edit;
use crate::twin::{self, Bad};
use crate::{Input, bad, covered, is_long, up_to, words};

/// Tags: all up to 10, unknown ones, and encodings that are not minimal or damaged.
const TAGS: [&[u8]; 17] = [
    &[0],
    &[1],
    &[2],
    &[3],
    &[4],
    &[5],
    &[6],
    &[7],
    &[8],
    &[9],
    &[10],
    &[100],
    &[0xc8, 1],
    &[0x82, 0],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0x82, 0x80, 0x80, 0x80, 0x10],
    &[0x82, 0x80, 0x80, 0x80, 0x80, 0],
];

// Of each set, the first value is right and the second is not.

const SLICES: [&[u8]; 7] = [
    b"\x01c",
    b"\x05abcd",
    b"\x00",
    b"\x02\xff\xfe",
    b"\x81\x00c",
    b"\xff\xff\xff\xff\x0f",
    b"\x80",
];

/// Numbers; among them the largest sequence number and the one after it.
const NUMBERS: [&[u8]; 8] = [
    b"\xac\x02",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00",
    b"\x00",
    b"\xac\x80\x00",
    b"\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
];

const LEVELS: [&[u8]; 6] =
    [b"\x06", b"\x07", b"\x00", b"\x86\x00", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x1f"];

/// Keys: with and without a user key, of a length that is not minimal, and too short.
const KEYS: [&[u8]; 6] = [
    b"\x0ak1\x01\x02\x00\x00\x00\x00\x00\x00",
    b"\x07\x01\x02\x00\x00\x00\x00\x00",
    b"\x08\x01\x02\x00\x00\x00\x00\x00\x00",
    b"\x88\x00\x07\x02\x00\x00\x00\x00\x00\x00",
    b"\x00",
    b"\x0ak1\x01\x02",
];

/// Returns the encodings of one field. `most` limits the values of each part.
fn fields(most: usize) -> Vec<Vec<u8>> {
    let product = |parts: &[&[&[u8]]]| -> Vec<Vec<u8>> {
        parts.iter().fold(vec![Vec::new()], |before, part| {
            let part = &part[..most.min(part.len())];
            let pairs = before.iter().flat_map(|start| part.iter().map(move |end| (start, end)));
            pairs.map(|(start, end)| [start, *end].concat()).collect()
        })
    };
    let tagged = |tag: &'static [u8]| {
        let tag_alone: &[&[u8]] = &[tag];
        let value: &[&[&[u8]]] = match tag[0] % 128 {
            1 => &[&SLICES],
            5 => &[&LEVELS, &KEYS],
            6 => &[&LEVELS, &NUMBERS],
            7 => &[&LEVELS, &NUMBERS, &NUMBERS, &KEYS, &KEYS],
            _ => &[&NUMBERS],
        };
        product(&[&[tag_alone], value].concat())
    };
    TAGS.iter().flat_map(|tag| tagged(tag)).collect()
}

fn to_twin(edit: VersionEdit) -> Edit {
    let added = edit.new_files.into_iter();
    Edit {
        comparator: edit.comparator,
        log_number: edit.log_number,
        prev_log_number: edit.prev_log_number,
        next_file_number: edit.next_file_number,
        last_sequence: edit.last_seq,
        compact_pointers: edit.compact_pointers,
        deleted: edit.deleted_files,
        added: added
            .map(|file| (file.level, file.number, file.file_bytes, file.smallest, file.largest))
            .collect(),
    }
}

fn compare(src: &[u8]) {
    let _input = Input(src);
    let found = VersionEdit::decode(src).map(to_twin).map_err(|error| bad(&error));
    assert_eq!(found, twin::edit::edit(src), "{src:02x?}");
}

/// Compares sequences of up to `most` fields, cut at every byte of the last one.
fn compare_all(fields: &[Vec<u8>], most: usize) -> u64 {
    let mut inputs = 0;
    let fields: Vec<&[u8]> = fields.iter().map(Vec::as_slice).collect();
    words(&fields, most, |fields| {
        let Some((last, before)) = fields.split_last() else { return compare(&[]) };
        let mut src = before.concat();
        for byte in *last {
            src.push(*byte);
            compare(&src);
            inputs += 1;
        }
    });
    inputs
}

#[test]
fn single_fields_of_edits_are_those_of_the_twin() {
    let fields = fields(usize::MAX);
    covered(compare_all(&fields, 1), "edits of one field");
}

#[test]
fn edits_by_grammar_are_those_of_the_twin() {
    let pairs = compare_all(&fields(up_to(2, 4)), 2);
    covered(pairs, "edits of two fields");
    // Three fields, of which those of the table that comes have the fewest values.
    let few = fields(up_to(1, 2));
    covered(compare_all(&few, 3), "edits of three fields");
}

#[test]
fn edits_of_any_short_bytes_are_those_of_the_twin() {
    let mut inputs = 0;
    let letters: &[u8] = if is_long() {
        &[0, 1, 2, 4, 5, 6, 7, 8, 9, 0x80, 0xff]
    } else {
        &[0, 1, 2, 5, 6, 8, 0x80]
    };
    words(letters, 6, |src| {
        compare(src);
        inputs += 1;
    });
    covered(inputs, "edits of short bytes");
}

#[test]
fn a_level_past_the_last_is_unsupported_and_not_damage() {
    let error = VersionEdit::decode(&[6, 7, 1]).expect_err("level 7");
    assert_eq!(bad(&error), Bad::Unknown, "{error}");
}
