//! Seeded random numbers: the library's generator, with the methods that tests need.

use minikv::internals::base::random;

/// Returns the seed of a random test: `MINIKV_SEED` if it is set, otherwise a fresh seed.
pub fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    match std::env::var("MINIKV_SEED") {
        Ok(text) => text.parse().expect("MINIKV_SEED is a number"),
        Err(_) => RandomState::new().hash_one(0) >> 32,
    }
}

#[derive(Clone, Debug)]
pub struct Rng(random::Rng);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(random::Rng::new(seed))
    }

    #[allow(clippy::should_implement_trait, reason = "an iterator would return options")]
    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number less than `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// Returns bytes that do not compress.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}
