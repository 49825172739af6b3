//! A control experiment: the same filters with a better hash function.
//!
//! LevelDB's filters use a 32-bit hash function whose last step mixes bits weakly. If keys differ
//! only in their last four bytes, their hashes may differ in only a few bits, and filters then have
//! more false positives than theory predicts. The control experiment shows whether a high rate has
//! this cause: it builds filters of the same size, with the same number of probes and from the same
//! keys, but with another hash function.

use crate::advice::plan::{BlockFilters, FilterPlan, TableFilters};
use crate::advice::shadow::Outcome;
use minikv::files::NUM_LEVELS;
use minikv::{FilterGenerator, FilterPolicy};

use super::filters::FilterCase;
use super::lookups::Lookup;
use super::measure::Measured;
use super::rates::Rate;
use super::source::Source;
use crate::error::Result;

/// The false-positive rate of the control experiment for one configuration.
pub struct Control {
    pub filters: FilterCase,
    pub rate: Rate,
}

/// Runs a control experiment for each configuration of block filters whose measured rate differs
/// from the predicted rate. Returns the rates of these experiments.
pub fn rates(source: &Source, lookups: &[Lookup], measured: &[Measured]) -> Result<Vec<Control>> {
    let odd = measured.iter().filter(|m| m.rate.is_some_and(|rate| !rate.agrees()));
    let odd: Vec<_> =
        odd.map(|m| m.filters).filter(|f| matches!(f, FilterCase::Block(_))).collect();
    if odd.is_empty() {
        return Ok(Vec::new());
    }
    let policy = |filters: &FilterCase| Independent::new(filters.bits().unwrap_or(1));
    let plans = odd.iter().map(|f| FilterPlan {
        blocks: BlockFilters::New(std::sync::Arc::new(policy(f))),
        table: TableFilters::None,
    });
    let outcomes = source.replay(plans.collect(), source.reaching_tables(lookups)?)?;
    let control = |(filters, outcome): (FilterCase, Outcome)| {
        let tried = outcome.tried.iter().flat_map(|shapes| shapes.values()).sum();
        let wrong = outcome.wrong.iter().sum();
        let rate = Rate::of_filters(tried, wrong, &outcome, 0..NUM_LEVELS)?;
        Some(Control { filters, rate })
    };
    Ok(odd.into_iter().zip(outcomes).filter_map(control).collect())
}

/// A Bloom filter with LevelDB's size and number of probes. The probes are independent, because
/// each probe has its own 64-bit hash.
#[derive(Clone, Copy, Debug)]
pub struct Independent {
    bits_per_key: u32,
    probes: u32,
}

impl Independent {
    /// Creates a filter with LevelDB's number of probes.
    pub fn new(bits_per_key: u32) -> Independent {
        Independent::with_probes(
            bits_per_key,
            minikv::BloomFilterPolicy::new(bits_per_key).probes(),
        )
    }

    /// Creates a filter with `probes` probes.
    pub fn with_probes(bits_per_key: u32, probes: u32) -> Independent {
        Independent { bits_per_key, probes }
    }

    fn positions(&self, hash: u64, bits: u64) -> impl Iterator<Item = usize> + use<> {
        (1..=u64::from(self.probes)).map(move |i| {
            let probe = mix(hash ^ mix(i));
            ((u128::from(probe) * u128::from(bits)) >> 64) as usize
        })
    }

    fn create_of_hashes(&self, hashes: &[u64], dst: &mut Vec<u8>) {
        let bits = (hashes.len() as u64 * u64::from(self.bits_per_key)).max(64).div_ceil(8) * 8;
        let start = dst.len();
        dst.resize(start + (bits / 8) as usize, 0);
        for &hash in hashes {
            for at in self.positions(hash, bits) {
                dst[start + at / 8] |= 1 << (at % 8);
            }
        }
        dst.push(self.probes as u8);
    }
}

impl FilterPolicy for Independent {
    fn name(&self) -> &str {
        "minikv.control"
    }

    fn create(&self, keys: &[&[u8]], dst: &mut Vec<u8>) {
        let hashes: Vec<_> = keys.iter().map(|key| hash64(key)).collect();
        self.create_of_hashes(&hashes, dst);
    }

    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        let Some((_, array)) = filter.split_last() else { return false };
        let bits = array.len() as u64 * 8;
        self.positions(hash64(key), bits).all(|at| array[at / 8] & (1 << (at % 8)) != 0)
    }

    fn generator(&self) -> Box<dyn FilterGenerator> {
        Box::new(Generator { policy: *self, hashes: Vec::new() })
    }
}

#[derive(Debug)]
struct Generator {
    policy: Independent,
    hashes: Vec<u64>,
}

impl FilterGenerator for Generator {
    fn add_key(&mut self, key: &[u8]) {
        self.hashes.push(hash64(key));
    }

    fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    fn finish(&mut self, dst: &mut Vec<u8>) {
        self.policy.create_of_hashes(&self.hashes, dst);
        self.hashes.clear();
    }
}

/// Returns a 64-bit hash of `key`. The hash is mixed after every eight bytes of the key.
fn hash64(key: &[u8]) -> u64 {
    let mut hash = mix(key.len() as u64 ^ 0x5851_f42d_4c95_7f2d);
    for chunk in key.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = mix(hash ^ u64::from_le_bytes(word));
    }
    hash
}

/// Mixes `n` with the 64-bit finalizer of MurmurHash. A constant is added first, because the
/// finalizer maps 0 to 0.
fn mix(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let n = (n ^ (n >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    n ^ (n >> 33)
}

#[cfg(test)]
mod tests {
    use minikv::filter::math::false_positive_probability;

    use super::super::rates::wilson;
    use super::*;

    /// Checks that the false-positive rate agrees with the textbook formula even for keys that are
    /// consecutive numbers, which LevelDB's hash function distributes badly.
    #[test]
    fn its_rate_is_the_textbooks() {
        let keys: Vec<_> = (0..20_000u32).map(|i| format!("{i:08}").into_bytes()).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let policy = Independent::new(10);
        let mut filter = Vec::new();
        policy.create(&keys, &mut filter);
        assert!(keys.iter().all(|key| policy.may_match(key, &filter)));
        let tries = 200_000;
        let maybe = |i: &u32| policy.may_match(format!("{:08}", i + 20_000).as_bytes(), &filter);
        let wrong = (0..tries).filter(maybe).count() as u64;
        let predicted = false_positive_probability(200_000, 20_000, 6);
        let (low, high) = wilson(wrong as f64 / f64::from(tries), f64::from(tries));
        assert!((low * 0.9..high * 1.1).contains(&predicted), "{low} {high} {predicted}");
    }
}
