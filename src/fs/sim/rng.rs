//! The pseudo-random number generator of the simulation: SplitMix64, which is small and gives the
//! same numbers everywhere.

#[derive(Clone, Debug)]
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// Creates a generator whose numbers are independent of those of any other `stream` of the same
    /// seed.
    pub(super) fn stream(seed: u64, stream: u64) -> Rng {
        let mut rng = Rng(stream);
        Rng(seed ^ rng.next())
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`; 0 if `bound` is 0. The modulo bias is far too small for a
    /// test to notice.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }

    pub(super) fn chance(&mut self, eighths: u64) -> bool {
        self.below(8) < eighths
    }
}
