//! Varints and slices.

use minikv::internals::format::coding::{
    Decoder, get_fixed32, get_fixed64, get_varint32, get_varint64,
};

use crate::{Input, covered, is_long, twin, up_to, words, words_of};

/// Bytes at the borders of what a byte of a varint can say.
const LETTERS: [u8; 7] = [0, 1, 0x7f, 0x80, 0x81, 0xfe, 0xff];
/// Bytes after which another one follows, and bytes that end a varint.
const GOES_ON: &[u8] = &[0x80, 0x81, 0xfe, 0xff];
const ENDS: &[u8] = &[0, 1, 2, 7, 8, 0x0f, 0x10, 0x7f];

/// Compares the varints at the start of `src`. The functions and the decoder, which errs where
/// they have no answer, must agree with the twin.
fn compare(src: &[u8]) {
    let _input = Input(src);
    let (short, long) = (twin::coding::varint32(src), twin::coding::varint64(src));
    assert_eq!((get_varint32(src), get_varint64(src)), (short, long), "{src:02x?}");
}

fn compare_decoder(src: &[u8]) {
    let _input = Input(src);
    let mut decoder = Decoder::new(src);
    let value = decoder.varint32("test").ok().map(|value| (value, decoder.position()));
    assert_eq!(value, twin::coding::varint32(src), "{src:02x?}");
    let mut decoder = Decoder::new(src);
    let value = decoder.varint64("test").ok().map(|value| (value, decoder.position()));
    assert_eq!(value, twin::coding::varint64(src), "{src:02x?}");
    let (mut decoder, mut input) = (Decoder::new(src), twin::coding::Input(src));
    let slice = decoder.slice("test").ok().map(|slice| (slice, decoder.rest()));
    let expected = input.slice().ok().map(|slice| (slice, input.0));
    assert_eq!(slice, expected, "{src:02x?}");
}

#[test]
fn varints_of_any_short_bytes_are_those_of_the_twin() {
    let mut inputs = 0;
    let all: Vec<u8> = (0..=255).collect();
    words(&all, 2, |src| {
        compare(src);
        compare_decoder(src);
        inputs += 1;
    });
    // The short form has fewer third bytes.
    let third = if is_long() { &all[..] } else { &LETTERS };
    words_of(&all, 2, &mut |src| {
        for third in third {
            compare(&[src[0], src[1], *third]);
            inputs += 1;
        }
    });
    covered(inputs, "varints of up to 3 bytes");
}

#[test]
fn varints_by_grammar_are_those_of_the_twin() {
    let mut inputs = 0;
    words(&LETTERS, up_to(6, 8), |src| {
        compare(src);
        compare_decoder(src);
        inputs += 1;
    });
    // In a longer one, all bytes but the last say that it goes on.
    let goes_on = if is_long() { GOES_ON } else { &[0x80, 0xff] };
    words(goes_on, 11, |start| {
        compare(start);
        for end in ENDS {
            let mut src = [start, &[*end]].concat();
            compare(&src);
            src.extend([0xff; 9]);
            compare(&src);
            inputs += 2;
        }
    });
    covered(inputs, "varints of up to 11 bytes by grammar");
}

#[test]
fn integers_of_a_fixed_size_are_those_of_the_twin() {
    let mut inputs = 0;
    words(&LETTERS, up_to(5, 6), |start| {
        let src = [start, &[0x12, 0x9a, 0x34]].concat();
        for at in [0, 1, 2, 3, 4, 5, 9, usize::MAX - 3, usize::MAX] {
            assert_eq!(get_fixed32(&src, at), twin::coding::fixed32(&src, at), "{src:02x?} {at}");
            assert_eq!(get_fixed64(&src, at), twin::coding::fixed64(&src, at), "{src:02x?} {at}");
            inputs += 1;
        }
    });
    covered(inputs, "fixed integers");
}
