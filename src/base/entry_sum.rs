//! A sum over entries that does not depend on their order: it shows that entries which passed
//! through a merge are the entries that went in.
//!
//! Sums are kept in memory only, so the hash may change at any time. It is made for few
//! instructions: most of it is one addition for each eight bytes. A change of any bits within eight
//! bytes changes it; so does a shift of bytes, and an exchange of values between two keys. It is no
//! protection against somebody who chooses the entries.

use std::fmt;

/// Odd numbers without a pattern (from the digits of pi), which keep zeros from hashing to zero.
const KEYS: [u64; 4] =
    [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7345, 0xa409_3822_299f_31d1, 0x082e_fa98_ec4e_6c89];

/// A number of entries, and the sum of their hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EntrySum {
    /// Number of entries.
    pub entries: u64,
    hashes: u64,
}

impl EntrySum {
    /// Adds an entry.
    #[inline]
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) {
        self.add_hash(entry_hash(key, value));
    }

    /// Adds an entry by its [`entry_hash`].
    #[inline]
    pub(crate) fn add_hash(&mut self, hash: u64) {
        self.entries += 1;
        self.hashes = self.hashes.wrapping_add(hash);
    }

    /// Returns the sum over `entries` entries, the sum of whose [`entry_hash`]es is `hashes`.
    pub(crate) fn of(entries: u64, hashes: u64) -> EntrySum {
        EntrySum { entries, hashes }
    }

    /// Returns the sum with another number of entries.
    pub(crate) fn with_entries(self, entries: u64) -> EntrySum {
        EntrySum { entries, ..self }
    }

    /// Returns the sum over the entries of both.
    pub(crate) fn and(self, other: EntrySum) -> EntrySum {
        EntrySum {
            entries: self.entries.wrapping_add(other.entries),
            hashes: self.hashes.wrapping_add(other.hashes),
        }
    }
}

impl fmt::Display for EntrySum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} entries with hash {:016x}", self.entries, self.hashes)
    }
}

/// Returns the hash of an entry.
#[inline]
pub(crate) fn entry_hash(key: &[u8], value: &[u8]) -> u64 {
    let [a, b, c, d] = KEYS;
    let sums = [a.wrapping_add(value.len() as u64), b.wrapping_add(key.len() as u64), c, d];
    let [a, b, c, d] = add_words(value, sums);
    // The words of a short key and those of a short value are multiplied, not only added:
    // otherwise, an exchange of values would not change a sum.
    let [b, c, d, a] = add_words(key, [b, c, d, a]);
    fold(fold(a, b), fold(c, d))
}

/// Returns the upper and the lower half of the product, added without carry.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Adds the words of `bytes` to four sums in turn. If the last words are not complete, the last 32
/// bytes are added once more; they then fall into other sums or other bits than before.
#[inline(always)]
fn add_words(bytes: &[u8], mut sums: [u64; 4]) -> [u64; 4] {
    let Some(last) = bytes.last_chunk::<32>() else { return add_short(bytes, sums) };
    let (chunks, rest) = bytes.as_chunks::<64>();
    for chunk in chunks {
        let (halves, _) = chunk.as_chunks::<32>();
        sums = add_chunk(&halves[1], add_chunk(&halves[0], sums));
    }
    if let Some(first) = rest.first_chunk::<32>() {
        sums = add_chunk(first, sums);
    }
    if !bytes.len().is_multiple_of(32) {
        sums = add_chunk(last, sums);
    }
    sums
}

#[inline(always)]
fn add_chunk(chunk: &[u8; 32], [a, b, c, d]: [u64; 4]) -> [u64; 4] {
    let (words, _) = chunk.as_chunks::<8>();
    let word = |at: usize| u64::from_le_bytes(words[at]);
    [
        a.wrapping_add(word(0)),
        b.wrapping_add(word(1)),
        c.wrapping_add(word(2)),
        d.wrapping_add(word(3)),
    ]
}

/// Adds up to 31 bytes to four sums: the words at both ends, which may overlap.
#[inline(always)]
fn add_short(bytes: &[u8], [a, b, c, d]: [u64; 4]) -> [u64; 4] {
    let (first, last) = match (bytes.first_chunk::<16>(), bytes.last_chunk::<16>()) {
        (Some(first), Some(last)) => (u128::from_le_bytes(*first), u128::from_le_bytes(*last)),
        _ => {
            let (first, last) = ends(bytes);
            (u128::from(first), u128::from(last))
        }
    };
    [
        a.wrapping_add(first as u64),
        b.wrapping_add((first >> 64) as u64),
        c.wrapping_add(last as u64),
        d.wrapping_add((last >> 64) as u64),
    ]
}

/// Returns the words at both ends of up to 15 bytes. Shorter words are filled up with zeros.
fn ends(bytes: &[u8]) -> (u64, u64) {
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        (u64::from_le_bytes(*first), u64::from_le_bytes(*last))
    } else if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        (u32::from_le_bytes(*first).into(), u32::from_le_bytes(*last).into())
    } else {
        (bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)), 0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::base::random::Rng;

    fn random(rng: &mut Rng, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|_| rng.next_u64() as u8).collect()
    }

    #[test]
    fn any_flipped_bit_and_any_lost_byte_changes_the_hash() {
        let mut rng = Rng::new(1);
        for key_bytes in [8, 9, 15, 16, 24, 31, 32, 40, 100] {
            for value_bytes in (0..70).chain([96, 100, 127, 128, 1000]) {
                let (key, value) = (random(&mut rng, key_bytes), random(&mut rng, value_bytes));
                let hash = entry_hash(&key, &value);
                let is_new = |key: &[u8], value: &[u8]| entry_hash(key, value) != hash;
                for bit in 0..8 * (key_bytes + value_bytes) {
                    let (mut key, mut value) = (key.clone(), value.clone());
                    let byte = match bit / 8 {
                        at if at < key_bytes => &mut key[at],
                        at => &mut value[at - key_bytes],
                    };
                    *byte ^= 1 << (bit % 8);
                    assert!(is_new(&key, &value), "bit {bit} of {key_bytes} + {value_bytes}");
                }
                if value_bytes > 0 {
                    assert!(is_new(&key, &value[1..]), "{key_bytes} + {value_bytes}");
                }
                if value_bytes > 1 {
                    assert!(is_new(&key, &value[..value_bytes - 1]), "{key_bytes} + {value_bytes}");
                }
                assert!(is_new(&key, &[&value[..], &[0]].concat()), "{key_bytes} + {value_bytes}");
                assert!(is_new(&[&key[..], &[0]].concat(), &value), "{key_bytes} + {value_bytes}");
            }
        }
    }

    #[test]
    fn zeros_of_every_length_differ() {
        let zeros = [0; 300];
        let hashes: BTreeSet<u64> =
            (0..300).map(|len| entry_hash(b"12345678", &zeros[..len])).collect();
        assert_eq!(hashes.len(), 300);
    }

    #[test]
    fn a_sum_depends_on_the_pairs_and_not_on_their_order() {
        let sum = |entries: &[(&str, &str)]| {
            let mut sum = EntrySum::default();
            entries.iter().for_each(|(key, value)| sum.add(key.as_bytes(), value.as_bytes()));
            sum
        };
        let both = sum(&[("key-00001", "a value"), ("key-00002", "another")]);
        assert_eq!(both, sum(&[("key-00002", "another"), ("key-00001", "a value")]));
        assert_eq!(both, sum(&[("key-00001", "a value")]).and(sum(&[("key-00002", "another")])));
        assert_ne!(both, sum(&[("key-00001", "another"), ("key-00002", "a value")]));
        assert_ne!(both, sum(&[("key-00001", "a value"), ("key-00001", "a value")]));
        assert_eq!(both.entries, 2);
    }

    #[test]
    fn an_exchange_of_values_changes_the_sum_whatever_differs() {
        let mut rng = Rng::new(3);
        let sum = |a: (&[u8], &[u8]), b: (&[u8], &[u8])| {
            entry_hash(a.0, a.1).wrapping_add(entry_hash(b.0, b.1))
        };
        for key_bytes in [8, 9, 12, 16, 24, 33, 40] {
            for value_bytes in 1..70 {
                let (key, value) = (random(&mut rng, key_bytes), random(&mut rng, value_bytes));
                for (key_at, value_at) in (0..key_bytes).zip((0..value_bytes).rev().cycle()) {
                    let (mut other_key, mut other_value) = (key.clone(), value.clone());
                    other_key[key_at] ^= 1;
                    other_value[value_at] ^= 1;
                    let straight = sum((&key, &value), (&other_key, &other_value));
                    let crossed = sum((&key, &other_value), (&other_key, &value));
                    assert_ne!(
                        straight, crossed,
                        "byte {key_at} of {key:?}, {value_at} of {value:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn words_that_change_places_change_the_hash() {
        let value = random(&mut Rng::new(2), 32);
        let plain = entry_hash(b"12345678", &value);
        for (a, b) in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)] {
            let mut swapped = value.clone();
            swapped[8 * a..8 * a + 8].copy_from_slice(&value[8 * b..8 * b + 8]);
            swapped[8 * b..8 * b + 8].copy_from_slice(&value[8 * a..8 * a + 8]);
            assert_ne!(entry_hash(b"12345678", &swapped), plain, "words {a} and {b}");
        }
    }
}
