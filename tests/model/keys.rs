//! Random keys and values.

use crate::rng::Rng;

#[derive(Clone, Copy, Debug)]
pub enum KeySpace {
    /// Forty keys, so that most puts overwrite.
    Tiny,
    /// Keys that begin with one of a few prefixes. Some of these are prefixes of others.
    Prefixed,
    /// Short keys made of the smallest and largest byte values, including the empty key, and
    /// sometimes a long key.
    Binary,
    /// Twenty thousand keys of equal length.
    Wide,
}

const PREFIXES: &[&[u8]] =
    &[b"", b"a", b"a/", b"A/", b"ab/", b"user:", b"User:", b"user:1", b"z\xff", b"\xff\xff"];
const EDGE_BYTES: &[u8] = &[0, 1, b'A', b'a', b'B', b'b', 0x7f, 0x80, 0xfe, 0xff];

impl KeySpace {
    pub fn key(self, rng: &mut Rng) -> Vec<u8> {
        match self {
            KeySpace::Tiny => format!("k{:02}", rng.below(40)).into_bytes(),
            KeySpace::Prefixed => {
                let number = rng.below(60).to_string();
                [rng.pick(PREFIXES), number.as_bytes()].concat()
            }
            KeySpace::Binary if rng.one_in(200) => {
                let tail = rng.below(4) as u8;
                [&[0xff; 700][..rng.below(700)], &[tail]].concat()
            }
            KeySpace::Binary => {
                let len = rng.below(8);
                (0..len).map(|_| *rng.pick(EDGE_BYTES)).collect()
            }
            KeySpace::Wide => format!("{:016}", rng.below(20_000)).into_bytes(),
        }
    }

    pub fn prefix(self, rng: &mut Rng) -> Vec<u8> {
        let mut key = match self {
            KeySpace::Prefixed if rng.one_in(2) => return rng.pick(PREFIXES).to_vec(),
            _ => self.key(rng),
        };
        key.truncate(rng.below(key.len() + 1));
        key
    }
}

/// Returns a value of random size, which may or may not be compressible. The value contains the
/// number of the operation that writes it.
pub fn value(rng: &mut Rng, operation: u64) -> Vec<u8> {
    let len = match rng.below(1000) {
        0..100 => 0,
        100..950 => rng.below(100),
        950..998 => rng.below(1500),
        _ => rng.below(40_000),
    };
    let mut value = operation.to_le_bytes()[..len.min(8)].to_vec();
    if rng.one_in(2) {
        value.resize(len, b'v');
    } else {
        value.extend(rng.bytes(len - value.len()));
    }
    value
}
