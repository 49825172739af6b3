//! Block handles, footers and the checksums of blocks.

use minikv::Result;
use minikv::files::BlockHandle;
use minikv::internals::format::handle::{Footer, block_trailer, decode, verify_block};

use crate::twin::handle::{Handle, MAGIC, OTHER_MAGICS};
use crate::twin::{self, Bad};
use crate::{Input, bad, covered, is_long, up_to, words};

const LETTERS: [u8; 7] = [0, 1, 0x7f, 0x80, 0x81, 0xfe, 0xff];

/// Encoded numbers: of each length, not minimal, too large and too long.
const NUMBERS: [&[u8]; 12] = [
    &[0],
    &[0x7f],
    &[0xac, 2],
    &[0x80, 0],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
    &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0],
    &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0],
    &[0xff],
    &[],
];

fn pair(handle: BlockHandle) -> Handle {
    (handle.offset, handle.size)
}

fn compare_footer(src: &[u8]) {
    let _input = Input(src);
    let footer: Result<Footer> = Footer::decode(src);
    let found = footer.map(|footer| (pair(footer.metaindex), pair(footer.index)));
    assert_eq!(found.map_err(|error| bad(&error)), twin::handle::footer(src), "{src:02x?}");
}

/// Returns a footer whose handles begin with `handles`.
fn footer(handles: &[u8], magic: u64) -> Vec<u8> {
    let mut footer = handles.to_vec();
    footer.resize(40, 0);
    footer.extend(magic.to_le_bytes());
    footer
}

#[test]
fn handles_are_those_of_the_twin() {
    let mut inputs = 0;
    let mut compare = |src: &[u8]| {
        let _input = Input(src);
        let found = decode(src).map(pair).map_err(|error| bad(&error));
        assert_eq!(found, twin::handle::handle(src), "{src:02x?}");
        inputs += 1;
    };
    words(&LETTERS, up_to(6, 8), &mut compare);
    words(&NUMBERS, 2, |numbers| {
        let src = numbers.concat();
        (0..=src.len()).for_each(|end| compare(&src[..end]));
        compare(&[&src[..], &[0xff; 9]].concat());
    });
    covered(inputs, "block handles");
}

#[test]
fn footers_are_those_of_the_twin() {
    let mut inputs = 0;
    words(&NUMBERS, 4, |numbers| {
        let handles = numbers.concat();
        if handles.len() <= 40 {
            compare_footer(&footer(&handles, MAGIC));
            inputs += 1;
        }
    });
    let handles: Vec<u8> = [NUMBERS[2], NUMBERS[1], NUMBERS[4], NUMBERS[6]].concat();
    let sound = footer(&handles, MAGIC);
    for at in 0..sound.len() {
        for byte in 0..=255 {
            let mut changed = sound.clone();
            changed[at] = byte;
            compare_footer(&changed);
            inputs += 1;
        }
    }
    for len in 0..=100 {
        let mut bytes = [&sound[..], &sound].concat();
        bytes.resize(len.max(bytes.len()), 0);
        compare_footer(&bytes[..len]);
        compare_footer(&bytes[bytes.len() - len..]);
        inputs += 2;
    }
    for magic in OTHER_MAGICS {
        assert_eq!(twin::handle::footer(&footer(&handles, magic)), Err(Bad::Unknown));
        compare_footer(&footer(&handles, magic));
        inputs += 1;
    }
    covered(inputs, "footers");
}

#[test]
fn a_block_is_in_its_file_if_the_twin_says_so() {
    let edges = [0, 1, 5, 47, 48, 52, 53, 54, 100, 1 << 32, u64::MAX / 2];
    let mut numbers = edges.to_vec();
    numbers.extend(edges.map(|n| u64::MAX - n));
    let mut inputs = 0;
    for (offset, size) in numbers.iter().flat_map(|a| numbers.iter().map(move |b| (*a, *b))) {
        let handle = BlockHandle { offset, size };
        let end = u128::from(offset) + u128::from(size) + 5;
        assert_eq!(handle.end(), u64::try_from(end).ok(), "{handle:?}");
        for file_bytes in &numbers {
            let found = handle.within(*file_bytes);
            let fits = twin::handle::fits((offset, size), *file_bytes);
            assert_eq!(found.is_ok(), fits, "{handle:?} in {file_bytes}");
            inputs += 1;
        }
    }
    covered(inputs, "handles in files");
}

#[test]
fn a_checksum_of_a_block_is_right_if_the_twin_says_so() {
    let mut inputs = 0;
    words(&LETTERS, up_to(3, 5), |stored| {
        for id in [0, 1, 2, 0xff] {
            let sound = [stored, &block_trailer(stored, id)].concat();
            assert!(verify_block(&sound).is_ok() && sound[stored.len()] == id, "{sound:02x?}");
            for at in 0..sound.len() {
                let bits: &[u8] =
                    if is_long() { &[1, 2, 4, 8, 16, 32, 64, 128] } else { &[1, 128] };
                for bit in bits {
                    let mut changed = sound.clone();
                    changed[at] ^= bit;
                    let _input = Input(&changed);
                    assert!(!twin::handle::checksum_is_right(&changed), "{changed:02x?}");
                    assert_eq!(verify_block(&changed).err().map(|e| bad(&e)), Some(Bad::Damaged));
                    inputs += 1;
                }
            }
            assert!(twin::handle::checksum_is_right(&sound), "{sound:02x?}");
            inputs += 1;
        }
    });
    covered(inputs, "blocks with trailers");
}
