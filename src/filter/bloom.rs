//! LevelDB's bloom filter. On-disk format: do not change.
//!
//! ```text
//! bit array, at least 8 bytes ......... | k: 1 byte
//! 00 00 00 00 00 00 00 00               | 06       no keys, 10 bits a key
//! ```
//!
//! A key sets `k` bits: `(h + i * d) mod 2^32 mod m` for `i` from 0, where `h` is the key's hash,
//! `d` is `h` rotated right by 17, and `m` is the length of the array in bits. Bit `b` is
//! `1 << (b & 7)` of byte `b >> 3`. Values of `k` over 30 are reserved for future encodings and
//! match every key. Defined by LevelDB's `util/bloom.cc` and `util/hash.cc`.

use crate::filter::policy::{FilterGenerator, FilterPolicy};

const BLOOM_SEED: u32 = 0xbc9f_1d34;
const MAX_PROBES: u8 = 30;
const MIN_BITS: u64 = 64;

/// LevelDB's bloom filter, `leveldb.BuiltinBloomFilter2`.
///
/// With ten bits per key, the false-positive rate is about 1 %. Filters with the older name
/// `leveldb.BuiltinBloomFilter`, which goleveldb writes, have the same format and can be read, too.
///
/// ```
/// use minikv::{BloomFilterPolicy, FilterPolicy};
///
/// let policy = BloomFilterPolicy::new(10);
/// let mut filter = Vec::new();
/// policy.create(&[b"hello", b"world"], &mut filter);
/// assert!(policy.may_match(b"hello", &filter));
/// assert!(!policy.may_match(b"x", &filter));
/// ```
#[doc(alias = "NewBloomFilterPolicy", alias = "NewBloomFilter")]
#[doc(alias = "filter.leveldb.BuiltinBloomFilter2")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BloomFilterPolicy {
    bits_per_key: u32,
    probes: u8,
}

impl BloomFilterPolicy {
    /// Creates a policy of `bits_per_key` bits per key and `0.69 * bits_per_key` probes (1 to 30).
    pub fn new(bits_per_key: u32) -> BloomFilterPolicy {
        // The optimum is ln 2 * bits_per_key. LevelDB uses the factor 0.69 and rounds down. This
        // code must do the same, because k is on disk.
        let probes = (f64::from(bits_per_key) * 0.69) as u32;
        BloomFilterPolicy { bits_per_key, probes: probes.clamp(1, u32::from(MAX_PROBES)) as u8 }
    }

    /// Returns the number of bits per key.
    pub fn bits_per_key(&self) -> u32 {
        self.bits_per_key
    }

    /// Returns the hash of a key: LevelDB's `Hash` with the seed `0xbc9f1d34`. All bits of a key in
    /// a filter follow from it.
    #[inline]
    pub fn hash(key: &[u8]) -> u32 {
        bloom_hash(key)
    }

    /// Returns `k`, the number of bits probed for each key.
    pub fn probes(&self) -> u32 {
        u32::from(self.probes)
    }

    /// Returns `m`, the length in bits of the bit array in a filter of `keys` keys.
    pub fn filter_bits(&self, keys: usize) -> u64 {
        let bits = (keys as u64).saturating_mul(u64::from(self.bits_per_key));
        bits.max(MIN_BITS).div_ceil(8).saturating_mul(8)
    }

    fn create_of_hashes(&self, hashes: impl ExactSizeIterator<Item = u32>, dst: &mut Vec<u8>) {
        let start = dst.len();
        let bits = self.filter_bits(hashes.len());
        dst.resize(start + (bits / 8) as usize, 0);
        let array = &mut dst[start..];
        match u32::try_from(bits) {
            Ok(bits) => {
                let modulus = Modulus::new(bits);
                hashes.for_each(|hash| set_bits(array, hash, self.probes, |h| modulus.of(h)));
            }
            // The array has more bits than a 32-bit hash can address, so no modulo operation is
            // needed.
            Err(_) => hashes.for_each(|hash| set_bits(array, hash, self.probes, |h| h)),
        }
        dst.push(self.probes);
    }
}

impl FilterPolicy for BloomFilterPolicy {
    fn name(&self) -> &str {
        "leveldb.BuiltinBloomFilter2"
    }

    fn aliases(&self) -> &[&str] {
        &["leveldb.BuiltinBloomFilter"]
    }

    fn create(&self, keys: &[&[u8]], dst: &mut Vec<u8>) {
        self.create_of_hashes(keys.iter().map(|key| bloom_hash(key)), dst);
    }

    /// Returns whether `key` may be in the filter. The number of probes is read from the filter, so
    /// that filters written with other settings can be queried. As in LevelDB, a filter shorter
    /// than two bytes matches no key.
    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        may_match_hash(bloom_hash(key), filter)
    }

    /// Returns whether `key` may be in a filter with the older name. Both goleveldb and LevelDB
    /// before 1.18 wrote such filters, but their hashes differ if there is a byte of 0x80 or above
    /// after the key's last whole four-byte word. So both hashes are tried.
    fn may_match_alias(&self, key: &[u8], filter: &[u8]) -> bool {
        may_match_hash(bloom_hash(key), filter) || may_match_hash(early_bloom_hash(key), filter)
    }

    fn generator(&self) -> Box<dyn FilterGenerator> {
        Box::new(BloomGenerator { policy: *self, hashes: Vec::new() })
    }
}

/// Builds filters. Stores only each key's four-byte hash until the number of keys is known.
#[derive(Debug)]
struct BloomGenerator {
    policy: BloomFilterPolicy,
    hashes: Vec<u32>,
}

impl FilterGenerator for BloomGenerator {
    fn add_key(&mut self, key: &[u8]) {
        self.hashes.push(bloom_hash(key));
    }

    fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    fn finish(&mut self, dst: &mut Vec<u8>) {
        self.policy.create_of_hashes(self.hashes.iter().copied(), dst);
        self.hashes.clear();
    }
}

/// Returns a key's hash in bloom filters: LevelDB's `Hash` with the filter's seed.
#[inline]
pub fn bloom_hash(key: &[u8]) -> u32 {
    hash(key, BLOOM_SEED)
}

/// Returns whether a key with this [`bloom_hash`] may be among the keys of `filter`.
#[inline]
pub fn may_match_hash(hash: u32, filter: &[u8]) -> bool {
    let Some((&probes, array)) = filter.split_last() else { return false };
    if array.is_empty() {
        return false;
    }
    if probes > MAX_PROBES {
        return true;
    }
    match u32::try_from(array.len() as u64 * 8) {
        Ok(bits) => all_bits_set(array, hash, probes, |h| h % bits),
        Err(_) => all_bits_set(array, hash, probes, |h| h),
    }
}

#[inline]
fn all_bits_set(array: &[u8], hash: u32, probes: u8, bit_of: impl Fn(u32) -> u32) -> bool {
    let delta = hash.rotate_right(17);
    let mut h = hash;
    for _ in 0..probes {
        let bit = bit_of(h);
        if array[(bit / 8) as usize] & (1 << (bit % 8)) == 0 {
            return false;
        }
        h = h.wrapping_add(delta);
    }
    true
}

#[inline]
fn set_bits(array: &mut [u8], hash: u32, probes: u8, bit_of: impl Fn(u32) -> u32) {
    let delta = hash.rotate_right(17);
    let mut h = hash;
    for _ in 0..probes {
        let bit = bit_of(h);
        array[(bit / 8) as usize] |= 1 << (bit % 8);
        h = h.wrapping_add(delta);
    }
}

/// Computes remainders by a fixed divisor, with two multiplications instead of a division. Exact
/// for every 32-bit dividend (Lemire, Kaser and Kurz, "Faster remainder by direct computation",
/// 2019). Lookups do not use this type: they compute too few remainders to make up for the 64-bit
/// division in the constructor.
struct Modulus {
    divisor: u32,
    /// 2^64 / divisor, rounded up.
    inverse: u64,
}

impl Modulus {
    /// Creates the modulus. `divisor` must be at least 2.
    fn new(divisor: u32) -> Modulus {
        debug_assert!(divisor >= 2);
        Modulus { divisor, inverse: u64::MAX / u64::from(divisor) + 1 }
    }

    #[inline]
    fn of(&self, dividend: u32) -> u32 {
        let fraction = self.inverse.wrapping_mul(u64::from(dividend));
        ((u128::from(fraction) * u128::from(self.divisor)) >> 64) as u32
    }
}

/// Returns the key's hash as LevelDB before 1.18 computed it: on platforms where C's `char` is
/// signed, the one to three bytes after the last whole word were sign-extended.
fn early_bloom_hash(key: &[u8]) -> u32 {
    hash_with_tail(key, BLOOM_SEED, |byte| byte as i8 as u32)
}

#[inline]
fn hash(data: &[u8], seed: u32) -> u32 {
    hash_with_tail(data, seed, u32::from)
}

#[inline(always)]
fn hash_with_tail(data: &[u8], seed: u32, tail_byte: impl Fn(u8) -> u32) -> u32 {
    const M: u32 = 0xc6a4_a793;
    let mut h = seed ^ (data.len() as u32).wrapping_mul(M);
    let (words, tail) = data.as_chunks::<4>();
    for word in words {
        h = h.wrapping_add(u32::from_le_bytes(*word)).wrapping_mul(M);
        h ^= h >> 16;
    }
    if !tail.is_empty() {
        for (i, &byte) in tail.iter().enumerate() {
            h = h.wrapping_add(tail_byte(byte) << (8 * i));
        }
        h = h.wrapping_mul(M);
        h ^= h >> 24;
    }
    h
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_knows_its_bits_per_key() {
        assert_eq!(
            [1, 10, 30].map(|bits| BloomFilterPolicy::new(bits).bits_per_key()),
            [1, 10, 30]
        );
    }

    #[test]
    fn filters_of_either_hash_under_the_older_name_hide_nothing() {
        let policy = BloomFilterPolicy::new(10);
        let mut hidden = 0;
        for i in 0..1000 {
            let key = format!("{i:05}\u{e9}");
            let (mut early, mut today) = (Vec::new(), Vec::new());
            let hash = early_bloom_hash(key.as_bytes());
            policy.create_of_hashes([hash].into_iter(), &mut early);
            policy.create(&[key.as_bytes()], &mut today);
            assert!(policy.may_match_alias(key.as_bytes(), &early));
            assert!(policy.may_match_alias(key.as_bytes(), &today));
            hidden += usize::from(!policy.may_match(key.as_bytes(), &early));
        }
        assert!(hidden > 900, "the hashes differ: {hidden}");
        assert_eq!(early_bloom_hash(b"plain"), bloom_hash(b"plain"));
    }

    /// Creates a filter by LevelDB's definition, with 64-bit remainders. Tests compare the fast
    /// implementation with this one.
    fn naive_create(bits_per_key: u32, keys: &[&[u8]], dst: &mut Vec<u8>) {
        let k = ((f64::from(bits_per_key) * 0.69) as u64).clamp(1, 30);
        let bytes = (keys.len() as u64 * u64::from(bits_per_key)).max(64).div_ceil(8);
        let mut array = vec![0u8; bytes as usize];
        for key in keys {
            let mut h = hash(key, 0xbc9f_1d34);
            let delta = h.rotate_left(15);
            for _ in 0..k {
                let bit = u64::from(h) % (bytes * 8);
                array[bit as usize / 8] |= 1 << (bit % 8);
                h = h.wrapping_add(delta);
            }
        }
        dst.extend_from_slice(&array);
        dst.push(k as u8);
    }

    #[test]
    fn the_hash_is_leveldbs() {
        // These cases are from LevelDB's util/hash_test.cc.
        assert_eq!(hash(b"", 0xbc9f1d34), 0xbc9f1d34);
        assert_eq!(hash(&[0x62], 0xbc9f1d34), 0xef1345c4);
        assert_eq!(hash(&[0xc3, 0x97], 0xbc9f1d34), 0x5b663814);
        assert_eq!(hash(&[0xe2, 0x99, 0xa5], 0xbc9f1d34), 0x323c078f);
        assert_eq!(hash(&[0xe1, 0x80, 0xb9, 0x32], 0xbc9f1d34), 0xed21633a);
    }

    #[test]
    fn probes_follow_the_bits() {
        let probes = |bits| BloomFilterPolicy::new(bits).probes();
        assert_eq!([0, 1, 2, 10, 20, 43, 44, 1000].map(probes), [1, 1, 1, 6, 13, 29, 30, 30]);
        assert_eq!(BloomFilterPolicy::new(u32::MAX).probes(), 30);
    }

    #[test]
    fn the_array_is_at_least_64_bits_and_whole_bytes() {
        let policy = BloomFilterPolicy::new(10);
        assert_eq!([0, 6, 7, 8].map(|keys| policy.filter_bits(keys)), [64, 64, 72, 80]);
    }

    #[test]
    fn fast_filters_equal_naive_ones_and_hold_every_key() {
        let all: Vec<Vec<u8>> = (0..3000u32).map(|i| (i * i).to_le_bytes().to_vec()).collect();
        for bits_per_key in [0, 1, 7, 10, 50] {
            let policy = BloomFilterPolicy::new(bits_per_key);
            let mut generator = policy.generator();
            for count in [0, 1, 2, 7, 100, 999, 3000] {
                let keys: Vec<&[u8]> = all[..count].iter().map(Vec::as_slice).collect();
                let (mut naive, mut fast) = (b"kept".to_vec(), b"kept".to_vec());
                naive_create(bits_per_key, &keys, &mut naive);
                policy.create(&keys, &mut fast);
                assert_eq!(fast, naive, "{count} keys, {bits_per_key} bits");

                keys.iter().for_each(|key| generator.add_key(key));
                let mut generated = b"kept".to_vec();
                generator.finish(&mut generated);
                assert_eq!(generated, naive);
                assert!(keys.iter().all(|key| policy.may_match(key, &fast[4..])));
            }
        }
    }

    #[test]
    fn the_fast_remainder_is_exact() {
        let edges = [0, 1, 2, 63, 64, 65, u32::MAX / 2, u32::MAX - 8, u32::MAX - 1, u32::MAX];
        let divisors = (64..5000).step_by(8).chain([1 << 31, u32::MAX - 7, u32::MAX]);
        for divisor in divisors {
            let modulus = Modulus::new(divisor);
            let near = (1..4u32).flat_map(|i| {
                let multiple = (u32::MAX / divisor).saturating_sub(i).wrapping_mul(divisor);
                [multiple.wrapping_sub(1), multiple, multiple.wrapping_add(1)]
            });
            for dividend in near.chain(edges) {
                assert_eq!(modulus.of(dividend), dividend % divisor, "{dividend} % {divisor}");
            }
        }
    }

    #[test]
    fn the_rate_of_false_positives_is_as_predicted() {
        let policy = BloomFilterPolicy::new(10);
        let keys: Vec<[u8; 4]> = (0..10_000u32).map(u32::to_le_bytes).collect();
        let keys: Vec<&[u8]> = keys.iter().map(<[u8; 4]>::as_slice).collect();
        let mut filter = Vec::new();
        policy.create(&keys, &mut filter);
        let absent = 1_000_000_000..1_000_010_000u32;
        let wrong = absent.filter(|i| policy.may_match(&i.to_le_bytes(), &filter)).count();
        assert!((1..200).contains(&wrong), "{wrong} of 10000");
    }

    #[test]
    fn odd_filters_are_answered_as_leveldb_does() {
        let policy = BloomFilterPolicy::new(10);
        assert!(!policy.may_match(b"a", b""));
        assert!(!policy.may_match(b"a", b"\x06"));
        assert!(policy.may_match(b"a", b"\0\0\0\0\0\0\0\0\x1f"));
        assert!(!policy.may_match(b"a", b"\0\0\0\0\0\0\0\0\x1e"));
        assert!(policy.may_match(b"a", b"\0\0\0\0\0\0\0\0\0"));
    }
}
