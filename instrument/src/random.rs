//! Pseudo-random numbers: SplitMix64, which gives the same numbers on every platform.

/// A pseudo-random number generator. Published figures depend on its numbers.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Creates a generator. Each seed gives a different sequence.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// Returns the next number.
    #[allow(clippy::should_implement_trait, reason = "an endless sequence needs no Option")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `limit`, which must not be 0, by multiplication.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// Returns a random position in a slice of `len` elements. `len` must not be 0.
    pub(crate) fn position(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Puts elements into a random order.
    pub fn shuffle<T>(&mut self, elements: &mut [T]) {
        for i in (1..elements.len()).rev() {
            elements.swap(i, self.position(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected numbers are the first numbers of the reference implementation for the seed
    /// 1234567.
    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        let mut rng = Rng::new(1_234_567);
        let expected =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(expected.map(|_| rng.next()), expected);
    }
}
