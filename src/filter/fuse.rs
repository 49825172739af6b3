//! Construction of binary fuse filters: turns hashes into an array of fingerprints.
//!
//! Every key has three slots, one in each of three neighbouring segments of the array. A key may be
//! present if the xor of the fingerprints in its slots equals the key's own fingerprint. For an
//! absent key, this happens with probability `2^-width`. Building the array solves one equation per
//! key. Keys that are alone in a slot are removed ("peeled") until no key is left, and then the
//! equations are solved in reverse order. With about 1.13 slots per key (more in small filters),
//! peeling nearly always succeeds. If it fails, it is repeated with another seed, which gives every
//! key other slots.
//!
//! Segment lengths and array sizes follow Thomas Mueller Graf and Daniel Lemire, "Binary Fuse
//! Filters: Fast and Smaller Than Xor Filters", 2022.

/// Number of slots per key.
const ARITY: u64 = 3;

/// Largest `segment_lg`. A segment of this size has 2^18 slots. With larger segments, the bits of
/// the hash that choose the second slot would overlap the bits that choose the third.
pub(crate) const MAX_SEGMENT_LG: u32 = 18;

/// The geometry of an array, which determines each key's slots. On-disk format: change neither the
/// fields nor the computation of the slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Seed that determines, together with a key's hash, the key's slots.
    pub seed: u64,
    /// Binary logarithm of the number of slots in a segment; at most 18.
    pub segment_lg: u32,
    /// Number of segments that can contain a key's first slot. The array has two more segments.
    pub starts: u32,
}

impl Geometry {
    /// Returns the smallest geometry for which building a filter of `keys` keys (at least one) is
    /// likely to succeed.
    pub(crate) fn of(keys: usize) -> Geometry {
        // A small error in a logarithm only leads to a different geometry, which works as well.
        let ln = (keys.max(2) as f64).ln();
        let segment_lg = (ln / 3.33f64.ln() + 2.25) as u32;
        let segment_lg = segment_lg.min(MAX_SEGMENT_LG);
        let slots_per_key = (0.875 + 0.25 * 1e6f64.ln() / ln).max(1.125);
        let segments = (keys as f64 * slots_per_key / f64::from(1 << segment_lg)).ceil() as u32;
        Geometry { seed: 0, segment_lg, starts: segments.saturating_sub(2).max(1) }
    }

    /// Returns the number of slots in the array.
    pub(crate) fn slots(&self) -> u64 {
        (u64::from(self.starts) + ARITY - 1) << self.segment_lg
    }

    /// Returns `hash` mixed with the seed.
    #[inline]
    pub(crate) fn seeded(&self, hash: u64) -> u64 {
        let product = (hash ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        product ^ product >> 32
    }

    /// Returns the slots of the key with this seeded hash.
    #[inline]
    pub(crate) fn slots_of(&self, seeded: u64) -> [u64; 3] {
        let starts = u64::from(self.starts) << self.segment_lg;
        let first = ((u128::from(seeded) * u128::from(starts)) >> 64) as u64;
        let mask = (1 << self.segment_lg) - 1;
        let second = (first + (1 << self.segment_lg)) ^ (seeded >> MAX_SEGMENT_LG & mask);
        let third = (first + (2 << self.segment_lg)) ^ (seeded & mask);
        [first, second, third]
    }
}

/// Returns the fingerprint of the key with this seeded hash. The caller keeps the lowest `width`
/// bits.
#[inline]
pub(crate) fn fingerprint(seeded: u64) -> u64 {
    // Move the bits that do not choose slots to the low end.
    seeded.wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(32)
}

/// The result of [`solve`].
#[derive(Debug)]
pub(crate) struct Solution {
    /// The geometry for which a solution was found.
    pub geometry: Geometry,
    /// Fingerprints, 64 bits per slot. A filter may keep only the lowest bits of each fingerprint.
    pub array: Vec<u64>,
    /// Number of distinct hashes.
    pub keys: u64,
}

/// Builds the array for the keys with these hashes, of which there must be at least one. Equal
/// hashes count as one key. Returns `None` if each of `ATTEMPTS` seeds fails, which happens only if
/// the hashes were chosen to make them fail.
pub(crate) fn solve(mut hashes: Vec<u64>) -> Option<Solution> {
    const ATTEMPTS: u64 = 64;
    let mut geometry = Geometry::of(hashes.len());
    for attempt in 0..ATTEMPTS {
        geometry.seed = attempt.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        if let Some(array) = Peeling::new(&geometry).solve(&hashes) {
            return Some(Solution { geometry, array, keys: hashes.len() as u64 });
        }
        if attempt == 0 {
            // Equal hashes share all their slots and can never be peeled, whatever the seed.
            hashes.sort_unstable();
            hashes.dedup();
            geometry = Geometry::of(hashes.len());
        }
    }
    None
}

/// The state of peeling: for each slot, information about its keys that are not yet peeled.
struct Peeling<'a> {
    geometry: &'a Geometry,
    /// For each slot, two values packed into one byte. The upper six bits count the keys that have
    /// this slot. The lower two bits are the xor of the positions (0 to 2) of this slot among the
    /// three slots of each of these keys.
    counts: Vec<u8>,
    /// For each slot, the xor of the seeded hashes of its keys.
    xors: Vec<u64>,
}

const ONE: u8 = 4;

impl Peeling<'_> {
    fn new(geometry: &Geometry) -> Peeling<'_> {
        let slots = geometry.slots() as usize;
        Peeling { geometry, counts: vec![0; slots], xors: vec![0; slots] }
    }

    fn solve(mut self, hashes: &[u64]) -> Option<Vec<u64>> {
        self.add_all(hashes)?;
        let order = self.peel(hashes.len())?;
        // The xor of each slot is now 0 or the seeded hash of the key that was peeled from that
        // slot. In reverse order, the other two slots of each key are final before the key's own
        // slot is set.
        for (seeded, which) in order.into_iter().rev() {
            let [own, second, third] = self.slots_from(seeded, which);
            self.xors[own] = fingerprint(seeded) ^ self.xors[second] ^ self.xors[third];
        }
        Some(self.xors)
    }

    /// Adds all keys to their slots. Returns `None` if a slot has too many keys for its counter.
    fn add_all(&mut self, hashes: &[u64]) -> Option<()> {
        for &hash in hashes {
            let seeded = self.geometry.seeded(hash);
            for (which, slot) in (0..).zip(self.geometry.slots_of(seeded)) {
                let slot = slot as usize;
                self.counts[slot] = self.counts[slot].checked_add(ONE)? ^ which;
                self.xors[slot] ^= seeded;
            }
        }
        Some(())
    }

    /// Returns the keys in the order in which they were peeled, each with the position (0 to 2) of
    /// the slot in which the key was alone. Returns `None` if peeling ends before all keys are
    /// peeled.
    fn peel(&mut self, keys: usize) -> Option<Vec<(u64, u8)>> {
        // Whether a slot has a single key cannot be predicted, and a branch on this condition took
        // half of the time. Therefore every slot is written to the list, and the list grows only if
        // the slot has a single key. This happens at most once for each slot.
        let is_single = |count: u8| usize::from(count / ONE == 1);
        let mut singles = vec![0; self.counts.len() + 1];
        let mut end = 0;
        for (slot, &count) in self.counts.iter().enumerate() {
            singles[end] = slot;
            end += is_single(count);
        }
        let mut order = Vec::with_capacity(keys);
        let mut at = 0;
        while at < end {
            let slot = singles[at];
            at += 1;
            if is_single(self.counts[slot]) == 0 {
                continue;
            }
            let seeded = self.xors[slot];
            let which = self.counts[slot] % ONE;
            order.push((seeded, which));
            self.counts[slot] = 0;
            let [_, second, third] = self.slots_from(seeded, which);
            for (slot, which) in [(second, (which + 1) % 3), (third, (which + 2) % 3)] {
                self.counts[slot] = (self.counts[slot] - ONE) ^ which;
                self.xors[slot] ^= seeded;
                singles[end] = slot;
                end += is_single(self.counts[slot]);
            }
        }
        (order.len() == keys).then_some(order)
    }

    /// Returns a key's slots, starting with the one at position `which`.
    #[inline]
    fn slots_from(&self, seeded: u64, which: u8) -> [usize; 3] {
        let [a, b, c] = self.geometry.slots_of(seeded).map(|slot| slot as usize);
        match which {
            0 => [a, b, c],
            1 => [b, c, a],
            _ => [c, a, b],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::random::Rng;

    /// Returns `count` pseudo-random hashes.
    fn hashes(seed: u64, count: usize) -> Vec<u64> {
        let mut rng = Rng::new(seed);
        (0..count).map(|_| rng.next_u64()).collect()
    }

    fn holds(solution: &Solution, hash: u64) -> bool {
        let seeded = solution.geometry.seeded(hash);
        let slots = solution.geometry.slots_of(seeded);
        slots.iter().fold(fingerprint(seeded), |sum, &slot| sum ^ solution.array[slot as usize])
            == 0
    }

    #[test]
    fn every_size_is_solved() {
        for seed in 0..20 {
            println!("seed {seed}");
            for keys in (1..200).chain([1_000, 5_000, 20_000]) {
                let hashes = hashes(seed, keys);
                let solution = solve(hashes.clone()).unwrap();
                assert_eq!(solution.keys, keys as u64);
                assert_eq!(solution.array.len() as u64, solution.geometry.slots());
                assert!(hashes.iter().all(|&hash| holds(&solution, hash)));
                assert!(!holds(&solution, !seed), "64 bits agree by chance");
            }
        }
    }

    #[test]
    fn slots_are_three_in_neighbouring_segments() {
        for geometry in [
            Geometry { seed: 0, segment_lg: 0, starts: 1 },
            Geometry { seed: 7, segment_lg: 5, starts: 3 },
            Geometry { seed: 1, segment_lg: MAX_SEGMENT_LG, starts: u32::MAX },
        ] {
            for hash in hashes(3, 1_000).into_iter().chain([0, u64::MAX]) {
                let slots = geometry.slots_of(geometry.seeded(hash));
                let segments = slots.map(|slot| slot >> geometry.segment_lg);
                assert_eq!(segments, [segments[0], segments[0] + 1, segments[0] + 2]);
                assert!(slots[2] < geometry.slots());
            }
        }
    }

    #[test]
    fn slots_a_key_fall_to_nine_eighths() {
        let per_key = |keys: usize| Geometry::of(keys).slots() as f64 / keys as f64;
        for (keys, limit) in [(100, 1.95), (1_000, 1.5), (20_000, 1.24), (1_000_000, 1.14)] {
            assert!((1.125..limit).contains(&per_key(keys)), "{keys} keys: {}", per_key(keys));
        }
    }

    #[test]
    fn equal_hashes_count_once() {
        let once = hashes(1, 3_000);
        let often: Vec<u64> = once.iter().chain(&once).chain(&once[..10]).copied().collect();
        let solution = solve(often).unwrap();
        assert_eq!(solution.keys, 3_000);
        assert!(once.iter().all(|&hash| holds(&solution, hash)));
        // The first seed fails because of the duplicate hashes, which are then removed, and the
        // second seed succeeds.
        assert_eq!(solution.geometry.seed, 0x9e37_79b9_7f4a_7c15);
        assert_eq!(solution.geometry.slots(), Geometry::of(3_000).slots());
        assert_eq!(solve(vec![5; 1_000]).unwrap().keys, 1);
    }

    #[test]
    fn a_seed_that_does_not_work_is_followed_by_another() {
        let solved_by_first = (0..2_000).filter(|&seed| {
            let solution = solve(hashes(seed, 20)).unwrap();
            assert!(hashes(seed, 20).iter().all(|&hash| holds(&solution, hash)));
            solution.geometry.seed == 0
        });
        let first = solved_by_first.count();
        assert!((1_500..2_000).contains(&first), "{first} of 2000");
    }
}
