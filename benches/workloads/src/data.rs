//! Keys, values, and random orders of keys, all determined by seeds.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Length of a key, in bytes.
pub const KEY_BYTES: usize = 16;

/// Minimum length of a value, in bytes: the number of the key (8 bytes) and the generation (4
/// bytes).
pub const MIN_VALUE_BYTES: usize = 12;

const POOL_BYTES: usize = 1 << 20;
/// Distance in bytes between the positions in the pool for consecutive numbers. The distance
/// exceeds half the length of a 4 KiB value, so values of up to 4 KiB share no part of the pool if
/// their numbers are consecutive.
const POOL_STEP: u64 = 4_099;
const GENERATION_STEP: u64 = 100_003;

/// A key: a number with 16 decimal digits, as in db_bench.
pub type Key = [u8; KEY_BYTES];

/// Returns the key for a number.
pub fn key(number: u64) -> Key {
    let mut key = [b'0'; KEY_BYTES];
    let mut rest = number;
    for digit in key.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// Returns the number in a key, or `None` if the key does not have the form of a [`Key`].
pub fn number_of(key: &[u8]) -> Option<u64> {
    if key.len() != KEY_BYTES {
        return None;
    }
    key.iter().try_fold(0, |number: u64, digit| {
        digit.is_ascii_digit().then(|| number * 10 + u64::from(digit - b'0'))
    })
}

/// Returns whether the compaction filter of the `filtered` workload removes the entry of `key`. The
/// filter removes the entries with odd numbers.
pub fn is_removed(key: &[u8]) -> bool {
    key.last().is_some_and(|digit| digit % 2 == 1)
}

/// Creates and checks values. A value consists of the number of its key, a generation, and two
/// copies of the same bytes from a pool, so it compresses to about half of its length, like the
/// values of db_bench. Because a value contains its generation, it can be checked even if several
/// generations are possible. Values from [`fill_sized`](Values::fill_sized) have no number and no
/// generation.
#[derive(Clone, Debug)]
pub struct Values {
    pool: Vec<u8>,
    value_bytes: usize,
}

impl Values {
    /// Creates a generator of values with a length of `value_bytes`, or of [`MIN_VALUE_BYTES`] if
    /// that is greater.
    pub fn new(value_bytes: usize) -> Values {
        let value_bytes = value_bytes.max(MIN_VALUE_BYTES);
        let mut rng = SmallRng::seed_from_u64(301);
        let pool = (0..POOL_BYTES + value_bytes).map(|_| b' ' + rng.random_range(0..95u8));
        Values { pool: pool.collect(), value_bytes }
    }

    /// Returns the length of a value, in bytes.
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Returns the pool bytes that follow a value's header. The rest of the value repeats these
    /// bytes from their start.
    fn half(&self, number: u64, generation: u32) -> &[u8] {
        let moved = number
            .wrapping_mul(POOL_STEP)
            .wrapping_add(u64::from(generation).wrapping_mul(GENERATION_STEP));
        let start = (moved % POOL_BYTES as u64) as usize;
        &self.pool[start..start + (self.value_bytes - MIN_VALUE_BYTES).div_ceil(2)]
    }

    /// Replaces the contents of `value` with the value for a number and a generation.
    pub fn fill(&self, number: u64, generation: u32, value: &mut Vec<u8>) {
        let half = self.half(number, generation);
        value.clear();
        value.extend_from_slice(&number.to_le_bytes());
        value.extend_from_slice(&generation.to_le_bytes());
        value.extend_from_slice(half);
        value.extend_from_slice(&half[..self.value_bytes - MIN_VALUE_BYTES - half.len()]);
    }

    /// Replaces the contents of `value` with a value of `value_bytes` bytes that has no generation.
    /// `value_bytes` must not exceed the length of this generator's values.
    pub fn fill_sized(&self, number: u64, value_bytes: usize, value: &mut Vec<u8>) {
        value.clear();
        self.sized(number, value_bytes, |part| value.extend_from_slice(part));
    }

    /// Returns whether `value` is a value without a generation for `number`.
    pub fn is_sized(&self, number: u64, value: &[u8]) -> bool {
        let (mut rest, mut is_ours) = (value, true);
        self.sized(number, value.len(), |part| {
            is_ours &= rest.starts_with(part);
            rest = &rest[part.len()..];
        });
        is_ours
    }

    fn sized(&self, number: u64, value_bytes: usize, mut each: impl FnMut(&[u8])) {
        let start = (number.wrapping_mul(POOL_STEP) % POOL_BYTES as u64) as usize;
        let half = value_bytes.min(self.value_bytes).div_ceil(2);
        each(&self.pool[start..start + half]);
        each(&self.pool[start..start + value_bytes.saturating_sub(half).min(half)]);
    }

    /// Returns the generation of `value` if it is a value for `number`.
    pub fn generation_of(&self, number: u64, value: &[u8]) -> Option<u32> {
        if value.len() != self.value_bytes {
            return None;
        }
        let (head, tail) = value.split_at_checked(MIN_VALUE_BYTES)?;
        let generation = u32::from_le_bytes(head[8..].try_into().ok()?);
        let half = self.half(number, generation);
        let (first, second) = tail.split_at(half.len());
        let is_ours =
            head[..8] == number.to_le_bytes() && first == half && second == &half[..second.len()];
        is_ours.then_some(generation)
    }
}

/// A pseudo-random permutation of the numbers below `len` that needs no list of them. It is a
/// Feistel network over the numbers below the next power of four. Results that are not below `len`
/// are permuted again.
#[derive(Clone, Copy, Debug)]
pub struct Shuffle {
    len: u64,
    half_bits: u32,
    seed: u64,
}

impl Shuffle {
    /// Creates the permutation of the numbers below `len` that `seed` selects.
    pub fn new(len: u64, seed: u64) -> Shuffle {
        let bits = u64::BITS - len.saturating_sub(1).leading_zeros();
        Shuffle { len, half_bits: bits.div_ceil(2).max(1), seed }
    }

    /// Returns the number at `position`, which must be below `len`.
    pub fn at(&self, position: u64) -> u64 {
        let mut number = position;
        loop {
            number = self.round_trip(number);
            if number < self.len {
                return number;
            }
        }
    }

    fn round_trip(&self, number: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits, number & mask);
        for round in 0..4 {
            let mixed = mix(right ^ self.seed.wrapping_add(round << 32));
            (left, right) = (right, (left ^ mixed) & mask);
        }
        left << self.half_bits | right
    }
}

/// Mixes the bits of a number. The function is a bijection.
pub fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_db_benchs() {
        assert_eq!(&key(1_234_567), b"0000000001234567");
        assert_eq!(number_of(&key(9_876_543_210)), Some(9_876_543_210));
        assert_eq!(number_of(b"000000000123456x"), None);
        assert_eq!(number_of(b"1"), None);
    }

    #[test]
    fn a_shuffle_has_each_number_once() {
        for len in [1, 2, 3, 16, 17, 1000, 4096, 5000] {
            let mut seen: Vec<u64> = (0..len).map(|i| Shuffle::new(len, 7).at(i)).collect();
            let in_order = seen.is_sorted();
            assert!(!in_order || len < 4, "{len} in order");
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..len), "{len}");
        }
    }

    #[test]
    fn a_value_of_any_length_is_known_by_its_number_and_every_byte() {
        let values = Values::new(1024);
        let mut value = Vec::new();
        for bytes in [0, 1, 2, 17, 1023, 1024] {
            values.fill_sized(77, bytes, &mut value);
            assert_eq!(value.len(), bytes);
            assert!(values.is_sized(77, &value) && (bytes < 8 || !values.is_sized(78, &value)));
            for at in 0..bytes {
                let mut damaged = value.clone();
                damaged[at] ^= 1;
                assert!(!values.is_sized(77, &damaged), "byte {at}");
            }
        }
        assert!(!values.is_sized(77, &[b'x'; 2000]));
    }

    #[test]
    fn a_value_is_known_by_its_number_and_every_byte() {
        for bytes in [MIN_VALUE_BYTES, 100, 4096] {
            let values = Values::new(bytes);
            let mut value = Vec::new();
            values.fill(77, 3, &mut value);
            assert_eq!(value.len(), bytes);
            assert_eq!(values.generation_of(77, &value), Some(3));
            assert_eq!(values.generation_of(78, &value), None);
            assert_eq!(values.generation_of(77, &value[..bytes - 1]), None);
            for at in (0..bytes).filter(|at| !(8..12).contains(at)) {
                let mut damaged = value.clone();
                damaged[at] ^= 1;
                assert_eq!(values.generation_of(77, &damaged), None, "byte {at}");
            }
        }
    }
}
