//! Pseudo-random numbers: SplitMix64, which is small and gives the same numbers on every platform.
//! The library and the simulated filesystem use no other generator, with one exception:
//! `Options::inline_background` has its own generator, because published results depend on the
//! numbers that it generates.

/// A pseudo-random number generator. Do not change the numbers that it generates: the seeds of
/// crash images in tests and documentation depend on them.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Creates a generator. Each seed gives a different sequence.
    pub const fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// Returns the next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`; 0 if `bound` is 0. The modulo bias is negligible for samples
    /// and tests.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_u64().checked_rem(bound).unwrap_or(0)
    }
}

#[cfg(test)]
impl Rng {
    /// Returns a number below `len`, for use as an index.
    pub(crate) fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Returns a byte string of random length, at most `max_len`, whose bytes are below `alphabet`.
    pub(crate) fn bytes(&mut self, max_len: usize, alphabet: u64) -> Vec<u8> {
        (0..self.index(max_len + 1)).map(|_| self.below(alphabet) as u8).collect()
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
        assert_eq!(expected.map(|_| rng.next_u64()), expected);
        assert_eq!(rng.below(0), 0);
    }
}
