//! The seeds of test runs, and the random number generator.

/// A small random number generator. For each seed, it returns the same numbers on every machine.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self, below: u64) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }
}

pub fn seeds() -> std::ops::Range<u64> {
    let Ok(seeds) = std::env::var("MINIKV_RAFT_SEEDS") else { return 0..3 };
    match seeds.split_once("..") {
        Some((from, to)) => from.parse().unwrap()..to.parse().unwrap(),
        None => seeds.parse().unwrap()..seeds.parse::<u64>().unwrap() + 1,
    }
}
