//! The whole-table filter: one filter over all user keys of a table. Specific to minikv; LevelDB
//! does not have it. On-disk format: do not change.
//!
//! ```text
//! array: slots of `width` bits, lowest bits first, padded to whole bytes
//!     | seed: fixed64 | keys: fixed64 | starts: fixed32 | segment_lg: 1 byte | width: 1 byte
//!
//! the one key "k" at 10 bits a key; h = a921e3704fda881d, s = e3839f8bc1bea9ea:
//!   0  (12 bytes)  00 00 00 e5 00 ...        its slots are 3, 4 and 9, its fingerprint e5
//!   12 (8 bytes)   00 00 00 00 00 00 00 00   seed
//!   20 (8 bytes)   01 00 00 00 00 00 00 00   keys
//!   28 (4 bytes)   01 00 00 00               starts
//!   32             02                        segment_lg: (1 + 2) << 2 = 12 slots
//!   33             08                        width
//! ```
//!
//! The array has `(starts + 2) << segment_lg` slots. Slot `i` occupies `width` bits from bit
//! `i * width` on; bit `b` is `1 << (b & 7)` of byte `b >> 3`. The key's hash `h` is its 64-bit
//! XXH3 with seed 0. In arithmetic mod 2^64:
//! - `s` is `p ^ p >> 32`, where `p` is `(h ^ seed) * 0x9e3779b97f4a7c15`;
//! - the key's slots are `a`, the high half of the 128-bit product `s * (starts << segment_lg)`;
//!   `a + (1 << segment_lg)` with its lowest `segment_lg` bits xored with those of `s >> 18`; and
//!   `a + (2 << segment_lg)` with its lowest `segment_lg` bits xored with those of `s`;
//! - its fingerprint is the lowest `width` bits of `s * 0xd6e8feb86659fd93` rotated left by 32.
//!
//! A key may be present if the xor of its three slots and its fingerprint is 0. An absent key is a
//! false positive with probability `2^-width`. [`crate::filter::fuse`] builds the array.
//!
//! A filter of no keys is an empty array followed by zeros, and matches no key. Bytes with any
//! other layout match every key.
//!
//! The filter is stored in an uncompressed meta block, named [`TABLE_FILTER_NAME`] in the
//! metaindex. A prefix filter ([`crate::filter::prefix`]) has the same format under another name.
//! LevelDB looks up only the name of its own filter in the metaindex and ignores other names.
//! `docs/filters-compared.md` has the measurements behind the choice of this kind of filter.

use bytes::Bytes;

use crate::base::hash::key_hash;
use crate::filter::fuse::{self, Geometry, MAX_SEGMENT_LG, Solution};
use crate::format::coding::{get_fixed32, get_fixed64};

/// Name of a whole-table filter in the metaindex. Another version or kind of filter must have
/// another name. Readers that do not know a name read the table without the filter.
pub const TABLE_FILTER_NAME: &str = "minikv.table-filter.v1.binary-fuse";

/// Largest number of bits per key. More bits would not lower the false-positive rate, because of
/// `MAX_WIDTH`.
pub const MAX_BITS_PER_KEY: u32 = 64;

/// Largest width of a slot, in bits. A slot is read with one load of eight bytes, and can start at
/// any bit of the first of these bytes.
const MAX_WIDTH: u32 = 57;

const TAIL_BYTES: usize = 8 + 8 + 4 + 1 + 1;

/// Returns the width, in bits, of the fingerprints in the filter of a table of 20,000 keys (1.23
/// slots per key), given `bits_per_key` (1 to 64). Filters of smaller tables have more slots per
/// key, and filters of larger tables have fewer.
pub fn fingerprint_bits(bits_per_key: u32) -> u32 {
    (bits_per_key * 100 / 123).max(1)
}

/// Returns the width, in bits, of the slots of a filter with `keys` keys and `slots` slots.
fn width(keys: u64, slots: u64, bits_per_key: u32) -> u32 {
    let paid_for = u64::from(bits_per_key) * keys / slots;
    (paid_for as u32).max(fingerprint_bits(bits_per_key)).min(MAX_WIDTH)
}

/// Returns the length of a filter of `keys` keys, in bytes, and the width of its slots, in bits.
pub(crate) fn filter_size(keys: u64, bits_per_key: u32) -> (u64, u32) {
    if keys == 0 {
        return (TAIL_BYTES as u64, 0);
    }
    let slots = Geometry::of(keys as usize).slots();
    let width = width(keys, slots, bits_per_key);
    ((slots * u64::from(width)).div_ceil(8) + TAIL_BYTES as u64, width)
}

/// Collects the hashes of a table's keys, eight bytes each, and builds the table's filter.
#[derive(Debug)]
pub struct TableFilterBuilder {
    bits_per_key: u32,
    hashes: Vec<u64>,
}

impl TableFilterBuilder {
    /// Creates a builder of a filter of `bits_per_key` bits per key, clamped to the range 1 to 64.
    /// Filters of small tables take more bits per key, so that their false-positive rate is not
    /// higher.
    pub fn new(bits_per_key: u32) -> TableFilterBuilder {
        let bits_per_key = bits_per_key.clamp(1, MAX_BITS_PER_KEY);
        TableFilterBuilder { bits_per_key, hashes: Vec::new() }
    }

    /// Adds a key. A key that is added several times in a row counts once.
    #[inline]
    pub fn add_key(&mut self, key: &[u8]) {
        self.add_hash(key_hash(key));
    }

    /// Adds the key with this `key_hash`.
    #[inline]
    pub fn add_hash(&mut self, hash: u64) {
        if self.hashes.last() != Some(&hash) {
            self.hashes.push(hash);
        }
    }

    /// Returns the filter's bytes, without a block trailer. Building the filter temporarily takes
    /// about thirty bytes of memory per key.
    pub fn finish(self) -> Vec<u8> {
        if self.hashes.is_empty() {
            return vec![0; TAIL_BYTES];
        }
        let Some(Solution { geometry, array, keys }) = fuse::solve(self.hashes) else {
            // Readers treat an empty block as an unknown filter, so every key may match.
            return Vec::new();
        };
        let width = width(keys, geometry.slots(), self.bits_per_key);
        let mut bytes = packed(&array, width);
        bytes.extend_from_slice(&geometry.seed.to_le_bytes());
        bytes.extend_from_slice(&keys.to_le_bytes());
        bytes.extend_from_slice(&geometry.starts.to_le_bytes());
        bytes.extend_from_slice(&[geometry.segment_lg as u8, width as u8]);
        bytes
    }
}

/// Returns the lowest `width` bits of each slot, packed without gaps.
fn packed(array: &[u64], width: u32) -> Vec<u8> {
    let bits = array.len() as u64 * u64::from(width);
    let mut bytes = Vec::with_capacity(bits.div_ceil(8) as usize + TAIL_BYTES);
    let (mut pending, mut pending_bits) = (0u128, 0);
    for slot in array {
        pending |= u128::from(slot & mask(width)) << pending_bits;
        pending_bits += width;
        while pending_bits >= 8 {
            bytes.push(pending as u8);
            pending >>= 8;
            pending_bits -= 8;
        }
    }
    if pending_bits > 0 {
        bytes.push(pending as u8);
    }
    bytes
}

fn mask(width: u32) -> u64 {
    u64::MAX >> (u64::BITS - width)
}

/// A whole-table filter, ready for lookups. Immutable and thread-safe.
#[derive(Clone)]
pub struct TableFilter {
    contents: Bytes,
    geometry: Geometry,
    keys: u64,
    width: u32,
}

impl TableFilter {
    /// Returns the hash of a key, for [`TableFilter::may_match_hash`] and
    /// [`TableFilterBuilder::add_hash`]: its 64-bit XXH3. One hash serves any number of filters.
    #[inline]
    pub fn hash(key: &[u8]) -> u64 {
        key_hash(key)
    }

    /// Returns the length, in bytes, of a filter of `keys` distinct keys with `bits_per_key` bits
    /// per key.
    pub fn predicted_bytes(keys: u64, bits_per_key: u32) -> u64 {
        filter_size(keys, bits_per_key).0
    }

    /// Returns the length of a fingerprint, in bits, in a filter of `keys` distinct keys with
    /// `bits_per_key` bits per key; 0 without keys. A fingerprint of `n` bits has a false-positive
    /// rate of `2^-n`.
    pub fn predicted_fingerprint_bits(keys: u64, bits_per_key: u32) -> u32 {
        filter_size(keys, bits_per_key).1
    }

    /// Decodes a filter. Returns `None` if `contents` is not a filter of this version.
    pub fn decode(contents: Bytes) -> Option<TableFilter> {
        let array_bytes = contents.len().checked_sub(TAIL_BYTES)?;
        let [segment_lg, width] = *contents.last_chunk()?;
        let (segment_lg, width) = (u32::from(segment_lg), u32::from(width));
        let geometry = Geometry {
            seed: get_fixed64(&contents, array_bytes)?,
            segment_lg,
            starts: get_fixed32(&contents, array_bytes + 16)?,
        };
        let keys = get_fixed64(&contents, array_bytes + 8)?;
        let understood = if keys == 0 {
            array_bytes == 0 && geometry == Geometry::default() && width == 0
        } else {
            (1..=MAX_WIDTH).contains(&width)
                && segment_lg <= MAX_SEGMENT_LG
                && geometry.starts > 0
                && keys <= geometry.slots()
                && (geometry.slots() * u64::from(width)).div_ceil(8) == array_bytes as u64
        };
        understood.then_some(TableFilter { contents, geometry, keys, width })
    }

    /// Returns whether the key with this `key_hash` may be in the table.
    #[inline]
    pub fn may_match_hash(&self, hash: u64) -> bool {
        if self.keys == 0 {
            return false;
        }
        let seeded = self.geometry.seeded(hash);
        let [first, second, third] = self.geometry.slots_of(seeded).map(|slot| self.slot(slot));
        (first ^ second ^ third ^ fuse::fingerprint(seeded)) & mask(self.width) == 0
    }

    /// Returns whether `key` may be in the table.
    pub fn may_match(&self, key: &[u8]) -> bool {
        self.may_match_hash(key_hash(key))
    }

    /// Returns a slot in the lowest `width` bits of the result; the higher bits belong to other
    /// slots. Because fields follow the array, eight bytes can be loaded from the start of any
    /// slot.
    #[inline]
    fn slot(&self, slot: u64) -> u64 {
        let bit = slot * u64::from(self.width);
        let at = (bit / 8) as usize;
        match self.contents.get(at..at + 8).and_then(|bytes| bytes.first_chunk()) {
            Some(bytes) => u64::from_le_bytes(*bytes) >> (bit % 8),
            None => 0,
        }
    }

    /// Returns the number of keys that the filter was built from.
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// Returns the width of a fingerprint, in bits: the false-positive rate is `2^-width`.
    pub fn fingerprint_bits(&self) -> u32 {
        self.width
    }

    /// Returns the false-positive rate.
    pub fn false_positive_rate(&self) -> f64 {
        if self.keys == 0 { 0.0 } else { (-f64::from(self.width)).exp2() }
    }

    /// Returns the memory that the filter takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.contents.len()
    }
}

impl std::fmt::Debug for TableFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableFilter")
            .field("keys", &self.keys)
            .field("fingerprint_bits", &self.width)
            .field("geometry", &self.geometry)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(seed: u64, i: u64) -> Vec<u8> {
        format!("{seed}/{i}").into_bytes()
    }

    fn build(bits_per_key: u32, keys: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
        let mut builder = TableFilterBuilder::new(bits_per_key);
        keys.for_each(|key| builder.add_key(&key));
        builder.finish()
    }

    fn filter(bits_per_key: u32, seed: u64, keys: u64) -> TableFilter {
        decode(build(bits_per_key, (0..keys).map(|i| key(seed, i)))).unwrap()
    }

    fn decode(bytes: Vec<u8>) -> Option<TableFilter> {
        TableFilter::decode(bytes.into())
    }

    #[test]
    fn a_large_table_takes_all_bits_that_are_paid_for() {
        let keys = 200_000;
        let filter = filter(64, 0, keys);
        let width = u64::from(filter.fingerprint_bits());
        assert_eq!(width, 64 * keys / filter.geometry.slots());
        assert!(width > u64::from(fingerprint_bits(64)), "{width}");
    }

    #[test]
    fn the_worked_example_holds() {
        assert_eq!(key_hash(b"k"), 0xa921_e370_4fda_881d);
        let mut expected = [0; 34];
        expected[3] = 0xe5;
        (expected[20], expected[28], expected[32], expected[33]) = (1, 1, 2, 8);
        assert_eq!(build(10, [b"k".to_vec()].into_iter()), expected);
    }

    /// Checks the bytes of a filter of several hundred keys, which covers every part of the layout.
    /// If this test fails, existing filters can no longer be read: bytes on disk must not change,
    /// and a new encoding needs a new name.
    #[test]
    fn bytes_on_disk_stay() {
        let bytes = build(12, (0..300).map(|i| key(0, i)));
        assert_eq!((bytes.len(), crate::format::crc::value(&bytes)), (526, 3_091_306_699));
    }

    #[test]
    fn the_hash_is_xxh3() {
        // These hashes are test vectors of the reference implementation of xxHash.
        assert_eq!(key_hash(b""), 0x2d06_8005_38d3_94c2);
    }

    #[test]
    fn no_key_is_denied() {
        for (seed, keys) in (0..).zip([0, 1, 2, 3, 7, 64, 100, 999, 10_000, 100_000]) {
            for bits_per_key in [0, 1, 2, 5, 8, 10, 16, 33, 64, 99] {
                if keys > 10_000 && bits_per_key % 5 != 0 {
                    continue;
                }
                let filter = filter(bits_per_key, seed, keys);
                assert_eq!(filter.keys(), keys);
                for i in 0..keys {
                    assert!(filter.may_match(&key(seed, i)), "{i} of {keys} keys, {bits_per_key}");
                }
            }
        }
    }

    /// Asserts that the number of wrong answers agrees with the theoretical rate. A correct filter
    /// fails this check about once in 30,000 runs.
    fn assert_rate(wrong: u64, lookups: u64, rate: f64) {
        let expected = lookups as f64 * rate;
        let deviation = (expected * (1.0 - rate)).sqrt();
        let off = (wrong as f64 - expected) / deviation;
        assert!(off.abs() < 4.2, "{wrong} of {lookups} wrong, {off:.1} deviations from {expected}");
    }

    #[test]
    fn rates_are_those_of_the_theory() {
        for (bits_per_key, width) in [(1, 1), (2, 1), (4, 3), (8, 6), (10, 8), (12, 9), (16, 13)] {
            for keys in [300, 20_000] {
                let mut wrong = 0;
                for seed in 0..5 {
                    let filter = filter(bits_per_key, seed, keys);
                    assert_eq!(filter.fingerprint_bits(), width);
                    let rate = filter.false_positive_rate();
                    assert_eq!(rate, 0.5f64.powi(width as i32));
                    let absent = (keys..keys + 200_000).map(|i| key(seed, i));
                    wrong += absent.filter(|key| filter.may_match(key)).count() as u64;
                }
                assert_rate(wrong, 1_000_000, 0.5f64.powi(width as i32));
            }
        }
    }

    #[test]
    fn a_filter_takes_the_bits_it_may() {
        let bits = |bits_per_key, keys| {
            filter(bits_per_key, 1, keys).memory_bytes() as f64 * 8.0 / keys as f64
        };
        for bits_per_key in 2..=64 {
            for keys in [20_000, 60_000] {
                let taken = bits(bits_per_key, keys);
                assert!(taken <= f64::from(bits_per_key), "{taken} of {bits_per_key}");
                assert!(taken > f64::from(bits_per_key) * 0.59, "{taken} of {bits_per_key}");
            }
        }
        assert!(bits(10, 1_000) < 12.0 && bits(10, 100) < 18.0);
    }

    #[test]
    fn the_size_of_a_filter_is_known_before_it_is_built() {
        for keys in [0, 1, 100, 5000] {
            for bits_per_key in [1, 10, 64] {
                let filter = filter(bits_per_key, 0, keys);
                let size = (filter.memory_bytes() as u64, filter.fingerprint_bits());
                assert_eq!(filter_size(keys, bits_per_key), size);
            }
        }
    }

    #[test]
    fn versions_of_a_key_count_once() {
        let twice = (0..100).flat_map(|i| [key(0, i), key(0, i)]);
        assert_eq!(build(10, twice), build(10, (0..100).map(|i| key(0, i))));
    }

    #[test]
    fn no_keys_match_nothing() {
        let filter = decode(build(10, std::iter::empty())).unwrap();
        assert_eq!((filter.keys(), filter.false_positive_rate()), (0, 0.0));
        assert!(!filter.may_match(b"") && !filter.may_match(b"key"));
    }

    #[test]
    fn slots_keep_their_place_whatever_their_width() {
        for width in 1..=MAX_WIDTH {
            let array: Vec<u64> =
                (1..101).map(|i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
            let mut contents = packed(&array, width);
            assert_eq!(contents.len(), (100 * width as usize).div_ceil(8));
            contents.extend([0xff; TAIL_BYTES]);
            let filter = TableFilter {
                contents: contents.into(),
                geometry: Geometry::default(),
                keys: 1,
                width,
            };
            for (i, slot) in (0..).zip(&array) {
                assert_eq!(filter.slot(i) & mask(width), slot & mask(width));
            }
        }
    }

    #[test]
    fn a_filter_of_another_layout_is_not_decoded() {
        let good = build(10, (0..100).map(|i| key(0, i)));
        assert!(decode(good.clone()).is_some());
        let patched = |from_end: usize, bytes: &[u8]| {
            let mut patched = good.clone();
            let at = patched.len() - from_end;
            patched[at..at + bytes.len()].copy_from_slice(bytes);
            patched
        };
        let mut empty_with_a_seed = vec![0; TAIL_BYTES];
        empty_with_a_seed[0] = 1;
        for bytes in [
            Vec::new(),
            vec![0; TAIL_BYTES - 1],
            vec![0; TAIL_BYTES + 1],
            empty_with_a_seed,
            good[1..].to_vec(),
            [&[0][..], &good].concat(),
            patched(1, &[0]),
            patched(1, &[9]),
            patched(1, &[58]),
            patched(2, &[19]),
            patched(2, &[255]),
            patched(6, &[0; 4]),
            patched(6, &u32::MAX.to_le_bytes()),
            patched(14, &u64::MAX.to_le_bytes()),
            patched(14, &[0; 8]),
        ] {
            assert!(decode(bytes.clone()).is_none(), "{bytes:02x?}");
        }
    }

    #[test]
    fn no_change_of_a_byte_panics() {
        let good = build(10, (0..20).map(|i| key(0, i)));
        for at in 0..good.len() {
            for byte in 0..=255 {
                let mut bytes = good.clone();
                bytes[at] = byte;
                if let Some(filter) = decode(bytes) {
                    let _ = (0..30).filter(|&i| filter.may_match(&key(0, i))).count();
                }
            }
        }
    }
}
