//! Names of files, and the contents of `CURRENT`.

use minikv::files::{FileName, parse_current};

use crate::twin::name::Name;
use crate::twin::{self, Bad};
use crate::{Input, bad, covered, up_to, words};

const STARTS: [&str; 11] =
    ["", "MANIFEST-", "manifest-", "MANIFEST", "MANIFEST--", "-", "+", " ", "0x", "../", "CURRENT"];

const ENDS: [&str; 18] = [
    "", ".log", ".ldb", ".sst", ".dbtmp", ".LOG", ".lo", ".logg", ".log ", ".log.log", ".bak", ".",
    "log", " .log", "\n", ".old", "\0", "é",
];

/// Numbers at the borders of their lengths and of 64 bits.
const NUMBERS: [&str; 14] = [
    "999999",
    "1000000",
    "0999999",
    "0000000",
    "18446744073709551615",
    "18446744073709551616",
    "018446744073709551615",
    "99999999999999999999",
    "100000000000000000000000000000000000000000",
    "340282366920938463463374607431768211456",
    "00000a",
    "00 001",
    "00000１",
    "-00001",
];

fn to_twin(name: FileName) -> Name {
    match name {
        FileName::Current => Name::Current,
        FileName::Lock => Name::Lock,
        FileName::InfoLog { old: false } => Name::InfoLog,
        FileName::InfoLog { old: true } => Name::OldInfoLog,
        FileName::Log(number) => Name::Log(number),
        FileName::Table { number, legacy_sst: false } => Name::Table(number),
        FileName::Table { number, legacy_sst: true } => Name::OldTable(number),
        FileName::Manifest(number) => Name::Manifest(number),
        FileName::Temp(number) => Name::Temp(number),
    }
}

/// Compares the meaning of a name, and of a `CURRENT` with the name in it.
fn compare(name: &str) {
    let _input = Input(name.as_bytes());
    let found = FileName::parse(name);
    assert_eq!(found.map(to_twin), twin::name::name(name), "{name:?}");
    assert!(found.is_none_or(|found| found.to_string() == name), "{name:?} has another name");
    compare_current(&[name.as_bytes(), b"\n"].concat());
}

fn compare_current(contents: &[u8]) {
    let found = parse_current(contents);
    assert_eq!(found.as_ref().ok().copied(), twin::name::current(contents), "{contents:02x?}");
    assert!(found.is_ok() || bad(&found.unwrap_err()) == Bad::Damaged, "{contents:02x?}");
}

#[test]
fn names_by_grammar_are_those_of_the_twin() {
    let mut inputs = 0;
    let mut with_digits = |digits: &str| {
        for start in STARTS {
            for end in ENDS {
                compare(&[start, digits, end].concat());
                inputs += 1;
            }
        }
    };
    words(b"019", up_to(7, 9), |digits| with_digits(str::from_utf8(digits).unwrap()));
    NUMBERS.iter().for_each(|digits| with_digits(digits));
    covered(inputs, "names with numbers");
}

#[test]
fn names_of_any_short_text_are_those_of_the_twin() {
    let mut inputs = 0;
    words(b"0LOGK.old", up_to(5, 7), |name| {
        compare(str::from_utf8(name).unwrap());
        inputs += 1;
    });
    // Each name with a byte changed, left out or doubled.
    for name in ["CURRENT", "LOCK", "LOG", "LOG.old", "MANIFEST-000002", "000007.dbtmp"] {
        compare(name);
        for at in 0..name.len() {
            for byte in 0..128 {
                let (start, end) = (&name[..at], &name[at + 1..]);
                compare(&format!("{start}{}{end}", char::from(byte)));
                compare(&format!("{start}{}{}", char::from(byte), &name[at..]));
                compare(&format!("{start}{end}"));
                inputs += 3;
            }
        }
    }
    covered(inputs, "names that are nearly right");
}

#[test]
fn contents_of_current_are_those_of_the_twin() {
    let mut inputs = 0;
    let letters = ["MANIFEST-", "000002", "0000002", "\n", "\r", " ", "../", "/", "\0"];
    words(&letters, up_to(5, 6), |parts| {
        compare_current(parts.concat().as_bytes());
        inputs += 1;
    });
    for at in 0..17 {
        for byte in 0..=255 {
            let mut contents = *b"MANIFEST-000002\r\n";
            contents[at] = byte;
            compare_current(&contents);
            inputs += 1;
        }
    }
    covered(inputs, "contents of CURRENT");
}
