//! Decodes all inputs up to the length or the number of parts at which the space of inputs ends for
//! all purposes, and compares each answer with that of a twin: a second decoder, which was written
//! from LevelDB's documents by someone who had not read the library's.
//!
//! Every test prints the number of its inputs. `MINIKV_EXHAUSTIVE=1` covers longer inputs, in
//! minutes instead of seconds:
//!
//! ```text
//! MINIKV_EXHAUSTIVE=1 cargo test --test exhaustive -- --nocapture
//! ```
//!
//! | file | inputs |
//! | --- | --- |
//! | `twin` | the twins, which share nothing with the library |
//! | `varints` | varints and slices |
//! | `handles` | block handles, footers and the checksums of blocks |
//! | `logs`, `continued` | physical records, and also continued by another program |
//! | `batches` | batches |
//! | `edits` | version edits |
//! | `blocks`, `searches` | blocks of any bytes, and sound blocks that are searched by heads |
//! | `filters` | bloom filters, filter blocks and whole-table filters |
//! | `names` | names of files, and `CURRENT` |

mod batches;
mod blocks;
mod continued;
mod edits;
mod filters;
mod handles;
mod logs;
mod names;
mod searches;
mod twin;
mod varints;

use minikv::Error;

use twin::Bad;

/// Returns whether the long form was asked for.
fn is_long() -> bool {
    std::env::var("MINIKV_EXHAUSTIVE").is_ok_and(|value| value == "1")
}

/// Returns `long` in the long form, and otherwise `short`.
fn up_to(short: usize, long: usize) -> usize {
    if is_long() { long } else { short }
}

/// Prints the number of inputs that a test covered.
fn covered(inputs: u64, what: &str) {
    assert!(inputs > 0, "no inputs: {what}");
    println!("{inputs} inputs: {what}");
}

/// Calls `each` with all words of `len` letters.
fn words_of<T: Copy>(letters: &[T], len: usize, each: &mut impl FnMut(&[T])) {
    let mut digits = vec![0; len];
    let mut word = vec![letters[0]; len];
    loop {
        each(&word);
        let Some(at) = digits.iter().rposition(|digit| digit + 1 < letters.len()) else { return };
        digits[at] += 1;
        digits[at + 1..].fill(0);
        for (letter, digit) in word.iter_mut().zip(&digits).skip(at) {
            *letter = letters[*digit];
        }
    }
}

/// Calls `each` with all words of up to `most` letters.
fn words<T: Copy>(letters: &[T], most: usize, mut each: impl FnMut(&[T])) {
    (0..=most).for_each(|len| words_of(letters, len, &mut each));
}

/// Shows the input of a decoder that panics.
struct Input<'a>(&'a [u8]);

impl Drop for Input<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the input: {}", hex(self.0));
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x} ")).collect()
}

/// Returns the reason of a refusal in the words of the twins.
fn bad(error: &Error) -> Bad {
    match error {
        Error::Corruption(_) => Bad::Damaged,
        Error::Unsupported { .. } => Bad::Unknown,
        _ => panic!("no decoder returns this: {error}"),
    }
}

#[test]
fn words_are_all_there_and_all_different() {
    let mut all = std::collections::BTreeSet::new();
    words(b"abc", 3, |word| assert!(all.insert(word.to_vec())));
    assert_eq!(all.len(), 1 + 3 + 9 + 27);
}

/// Compares the twins with values that LevelDB's documents and tests state.
#[test]
fn twins_know_the_published_values() {
    assert_eq!(twin::coding::crc32c(&[0; 32]), 0x8a91_36aa);
    assert_eq!(twin::coding::crc32c(&[0xff; 32]), 0x62a8_ab43);
    assert_eq!(twin::coding::varint32(&[0xac, 2]), Some((300, 2)));
    assert_eq!(twin::log::record(1, b"a", |crc| crc), b"\xb5\xcd\x0b\xa2\x01\x00\x01a");
    assert_eq!(twin::name::name("000100.log"), Some(twin::name::Name::Log(100)));
    assert_eq!(twin::name::name("100.log"), None);
    let filter = [4, 4, 4, 0x40, 0x40, 0x40, 0, 0, 6];
    assert!(twin::filter::bloom_may_match(b"first", &filter));
    assert!(!twin::filter::bloom_may_match(b"second", &filter));
}
