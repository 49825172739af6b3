//! Requests that are distributed like those of published traces.
//!
//! - [`Mixgraph`] is the model of `mixgraph` in RocksDB's db_bench, after Cao et al.,
//!   "Characterizing, modeling, and benchmarking RocksDB key-value workloads at Facebook" (FAST
//!   2020), with the parameters that they fitted to a trace of one week.
//! - [`CacheTrace`] is the request mix of a cache, in which many gets miss. It follows the
//!   statistics in Yang et al., "A large scale analysis of hundreds of in-memory cache clusters at
//!   Twitter" (OSDI 2020): a share of gets, a share of misses, Zipf-distributed keys, and the sizes
//!   of keys and values.
//!
//! db_bench draws one number for each request and derives the kind of request, the key range, the
//! key, and the sizes from this number, so these components depend on each other: a put always goes
//! to the same few keys. Here each component has a random generator of its own, so the components
//! are independent.

use std::fmt;
use std::str::FromStr;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};

use crate::data::mix;

/// Length of the decimal number in a key, in bytes.
const DIGITS: usize = 16;

/// A model of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Profile {
    /// RocksDB's `mixgraph`.
    Mixgraph(Mixgraph),
    /// A cache.
    Cache(CacheTrace),
}

/// The parameters of `mixgraph`. The defaults are those published for the prefix-based model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mixgraph {
    /// Popularity of the keys in a key range: the rank of a requested key is at most `x` with
    /// probability `a * x^b`.
    pub keys: PowerLaw,
    /// Popularity of the key ranges. Key range `x`, counted from 1, has this weight:
    /// `a * e^(b * x) + c * e^(d * x)`.
    pub ranges: TwoTermExponential,
    /// Number of key ranges.
    pub range_count: u64,
    /// Length of values, in bytes.
    pub values: Pareto,
    /// Maximum length of a value, in bytes. As in db_bench, a greater length is reduced modulo this
    /// maximum.
    pub max_value_bytes: u64,
    /// Number of entries in a scan.
    pub scans: Pareto,
    /// Maximum number of entries in a scan. A greater number is reduced modulo this maximum.
    pub max_scan: u64,
    /// Shares of gets, puts and scans.
    pub shares: [f64; 3],
    /// Share of gets whose key is absent. In db_bench, this share depends on how the database was
    /// filled.
    pub miss: f64,
    /// Length of a key, in bytes.
    pub key_bytes: usize,
}

impl Default for Mixgraph {
    fn default() -> Mixgraph {
        Mixgraph {
            keys: PowerLaw { a: 0.002312, b: 0.3467 },
            ranges: TwoTermExponential { a: 14.18, b: -2.917, c: 0.0164, d: -0.08082 },
            range_count: 30,
            values: Pareto { k: 0.2615, sigma: 25.45 },
            max_value_bytes: 1 << 10,
            scans: Pareto { k: 2.517, sigma: 14.236 },
            max_scan: 10_000,
            shares: [0.83, 0.14, 0.03],
            miss: 0.0,
            key_bytes: 48,
        }
    }
}

/// The parameters of a cache's requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheTrace {
    /// Share of gets among the requests; the others are puts.
    pub get: f64,
    /// Share of gets whose key is absent.
    pub miss: f64,
    /// Exponent of the Zipf distribution of the keys.
    pub zipf: f64,
    /// Length of a key, in bytes.
    pub key_bytes: usize,
    /// Length of a value, in bytes.
    pub value_bytes: usize,
}

impl Default for CacheTrace {
    fn default() -> CacheTrace {
        CacheTrace { get: 0.9, miss: 0.5, zipf: 1.0, key_bytes: 40, value_bytes: 200 }
    }
}

/// A distribution of ranks: `P(rank <= x) = a * x^b`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PowerLaw {
    /// Probability of rank 1.
    pub a: f64,
    /// Exponent.
    pub b: f64,
}

impl PowerLaw {
    /// Returns the smallest rank, from 1 on, whose cumulative probability is at least
    /// `probability`, which must be below 1.
    fn inverse(self, probability: f64) -> u64 {
        ((probability / self.a).powf(1.0 / self.b).ceil() as u64).max(1)
    }
}

/// Weights `a * e^(b * x) + c * e^(d * x)`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names are those of the formula")]
pub struct TwoTermExponential {
    pub a: f64,
    pub b: f64,
    pub c: f64,
    pub d: f64,
}

impl TwoTermExponential {
    fn weight(self, x: u64) -> f64 {
        let x = x as f64;
        self.a * (self.b * x).exp() + self.c * (self.d * x).exp()
    }
}

/// A generalised Pareto distribution that begins at 0. Numbers are rounded up to whole numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pareto {
    /// Shape; not 0.
    pub k: f64,
    /// Scale.
    pub sigma: f64,
}

impl Pareto {
    /// Returns the number that a draw exceeds with the given probability, which must be above 0.
    fn exceeded_with(self, probability: f64) -> u64 {
        (self.sigma * (probability.powf(-self.k) - 1.0) / self.k).ceil() as u64
    }

    fn below(self, probability: f64, max: u64) -> u64 {
        match self.exceeded_with(probability) {
            n if n > max => n % max,
            n => n,
        }
    }
}

/// A request. Entries are numbered in the order of their keys, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A get of an entry or, if `missing` is true, of the absent key that follows the entry's key.
    Get {
        /// The entry.
        number: u64,
        /// Whether the request is for an absent key, which comes directly after the entry's key.
        missing: bool,
    },
    /// A put.
    Put {
        /// The entry.
        number: u64,
        /// Length of the value.
        value_bytes: usize,
    },
    /// A scan that begins at an entry.
    Scan {
        /// The first entry.
        number: u64,
        /// Number of entries to read.
        entries: u64,
    },
}

impl Profile {
    /// Returns the key of entry `number` or, if `missing` is true, the absent key between this key
    /// and the next entry's key.
    pub fn key(&self, number: u64, missing: bool) -> Vec<u8> {
        let id = 2 * number + u64::from(missing);
        let mut key = format!("{id:0DIGITS$}").into_bytes();
        key.resize(self.key_bytes().max(DIGITS), b'0');
        key
    }

    /// Returns the length of a key, in bytes.
    pub fn key_bytes(&self) -> usize {
        match self {
            Profile::Mixgraph(mixgraph) => mixgraph.key_bytes,
            Profile::Cache(cache) => cache.key_bytes,
        }
    }

    /// Returns the length of the initial value of entry `number`, in bytes.
    pub fn value_bytes(&self, number: u64) -> usize {
        match self {
            Profile::Mixgraph(mixgraph) => {
                let random = SmallRng::seed_from_u64(mix(number));
                mixgraph.value_bytes(&mut { random })
            }
            Profile::Cache(cache) => cache.value_bytes,
        }
    }

    /// Returns the number of scans per get; 0 if there are no gets.
    pub fn scans_per_get(&self) -> f64 {
        match self {
            Profile::Mixgraph(Mixgraph { shares: [get, _, scan], .. }) if *get > 0.0 => scan / get,
            Profile::Mixgraph(_) | Profile::Cache(_) => 0.0,
        }
    }

    /// Returns the share of gets whose key is absent.
    pub fn miss(&self) -> f64 {
        match self {
            Profile::Mixgraph(mixgraph) => mixgraph.miss,
            Profile::Cache(cache) => cache.miss,
        }
    }
}

impl Mixgraph {
    fn value_bytes(&self, rng: &mut SmallRng) -> usize {
        self.values.below(above_zero(rng), self.max_value_bytes) as usize
    }
}

/// Returns a random number above 0, up to and including 1.
fn above_zero(rng: &mut SmallRng) -> f64 {
    1.0 - rng.random::<f64>()
}

/// A sequence of requests for the keys of a database.
#[derive(Debug)]
pub struct Requests {
    profile: Profile,
    keys: Keys,
    kinds: SmallRng,
    misses: SmallRng,
    values: SmallRng,
    scans: SmallRng,
}

/// Chooses the keys of the requests.
#[derive(Debug)]
enum Keys {
    Mixgraph {
        law: PowerLaw,
        /// Cumulative weight of each key range: its own weight and the weights of all ranges before
        /// it.
        sums: Vec<f64>,
        /// Number of entries.
        entries: u64,
        ranges: SmallRng,
        ranks: SmallRng,
    },
    Cache {
        zipf: Zipf<f64>,
        entries: u64,
        seed: u64,
        ranks: SmallRng,
    },
}

impl Requests {
    /// Creates a sequence of requests for a database of `entries` entries. If `entries` is 0, it
    /// counts as 1.
    pub fn new(profile: Profile, entries: u64, seed: u64) -> Requests {
        let entries = entries.max(1);
        // Each component has its own random generator.
        let rng = |component: u64| SmallRng::seed_from_u64(mix(seed) ^ mix(component));
        let keys = match profile {
            Profile::Mixgraph(mixgraph) => {
                let sums = range_sums(&mixgraph, seed);
                Keys::Mixgraph { law: mixgraph.keys, sums, entries, ranges: rng(1), ranks: rng(2) }
            }
            Profile::Cache(cache) => {
                let zipf = Zipf::new(entries as f64, cache.zipf).expect("the parser checks it");
                Keys::Cache { zipf, entries, seed: mix(seed), ranks: rng(2) }
            }
        };
        let [kinds, misses, values, scans] = [rng(3), rng(4), rng(5), rng(6)];
        Requests { profile, keys, kinds, misses, values, scans }
    }

    /// Returns the number of the next entry to request.
    pub fn next_number(&mut self) -> u64 {
        match &mut self.keys {
            Keys::Mixgraph { law, sums, entries, ranges, ranks } => {
                let at = ranges.random::<f64>() * sums.last().copied().unwrap_or(0.0);
                let range = sums.partition_point(|&sum| sum <= at).min(sums.len() - 1) as u64;
                let count = sums.len() as u64;
                let bound = |range: u64| (u128::from(range) * u128::from(*entries)) / count as u128;
                let (from, to) = (bound(range) as u64, bound(range + 1) as u64);
                // Scatters the popular keys over the key range.
                let rank = law.inverse(ranks.random::<f64>());
                from + mix(rank) % (to - from).max(1)
            }
            Keys::Cache { zipf, entries, seed, ranks } => {
                let rank = zipf.sample(ranks) as u64;
                mix(rank ^ *seed) % *entries
            }
        }
    }

    /// Returns the next get: the number of an entry, and whether the get asks for the absent key
    /// after that entry.
    pub fn next_get(&mut self) -> (u64, bool) {
        let missing = self.misses.random::<f64>() < self.profile.miss();
        (self.next_number(), missing)
    }

    /// Returns the next scan: its first entry, and the number of entries. Returns `None` if the
    /// profile has no scans.
    pub fn next_scan(&mut self) -> Option<(u64, u64)> {
        let Profile::Mixgraph(mixgraph) = self.profile else { return None };
        if mixgraph.shares[2] <= 0.0 {
            return None;
        }
        let entries = mixgraph.scans.below(above_zero(&mut self.scans), mixgraph.max_scan);
        Some((self.next_number(), entries.max(1)))
    }

    /// Returns the next request.
    pub fn next_request(&mut self) -> Request {
        let kind = self.kinds.random::<f64>();
        let [get, put] = match self.profile {
            Profile::Mixgraph(Mixgraph { shares: [get, put, scan], .. }) => {
                let all = get + put + scan;
                [get / all, put / all]
            }
            Profile::Cache(cache) => [cache.get, 1.0],
        };
        if kind < get {
            let (number, missing) = self.next_get();
            return Request::Get { number, missing };
        }
        if kind >= get + put
            && let Some((number, entries)) = self.next_scan()
        {
            return Request::Scan { number, entries };
        }
        let number = self.next_number();
        match self.profile {
            Profile::Mixgraph(mixgraph) => {
                let value_bytes = mixgraph.value_bytes(&mut self.values);
                Request::Put { number, value_bytes }
            }
            Profile::Cache(cache) => Request::Put { number, value_bytes: cache.value_bytes },
        }
    }
}

/// Returns the cumulative weights of the key ranges, in an order that depends on the seed.
fn range_sums(mixgraph: &Mixgraph, seed: u64) -> Vec<f64> {
    let count = mixgraph.range_count.max(1);
    let mut weights: Vec<f64> = (1..=count).map(|x| mixgraph.ranges.weight(x)).collect();
    for i in (1..weights.len()).rev() {
        weights.swap(i, (mix(seed ^ i as u64) % (i as u64 + 1)) as usize);
    }
    let mut sum = 0.0;
    weights.iter().map(|weight| (sum += weight, sum).1).collect()
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Profile::Mixgraph(Mixgraph { shares: [get, put, scan], miss, key_bytes, .. }) => {
                write!(f, "mixgraph:get={get},put={put},scan={scan},miss={miss},key={key_bytes}")
            }
            Profile::Cache(CacheTrace { get, miss, zipf, key_bytes, value_bytes }) => {
                write!(f, "cache:get={get},miss={miss},zipf={zipf}")?;
                write!(f, ",key={key_bytes},value={value_bytes}")
            }
        }
    }
}

impl FromStr for Profile {
    type Err = String;

    /// Parses `mixgraph` or `cache`, with parameters as in `cache:miss=0.9,value=400`.
    fn from_str(text: &str) -> Result<Profile, String> {
        let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
        let mut profile = match name {
            "mixgraph" => Profile::Mixgraph(Mixgraph::default()),
            "cache" => Profile::Cache(CacheTrace::default()),
            _ => return Err(format!("{name:?} is not a profile: mixgraph or cache")),
        };
        for parameter in parameters.split(',').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            profile.set(name, value)?;
        }
        if let Profile::Mixgraph(Mixgraph { shares, .. }) = profile
            && shares.iter().sum::<f64>() <= 0.0
        {
            return Err("one of get, put and scan must be above 0".to_string());
        }
        Ok(profile)
    }
}

impl Profile {
    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let share = || match value.parse::<f64>() {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
            _ => Err(format!("{name}={value}: a share is a number from 0 to 1")),
        };
        let exponent = || match value.parse::<f64>() {
            Ok(exponent) if (0.0..=10.0).contains(&exponent) => Ok(exponent),
            _ => Err(format!("{name}={value}: an exponent is a number from 0 to 10")),
        };
        let bytes = |from: usize| match value.parse::<usize>() {
            Ok(bytes) if (from..=1 << 20).contains(&bytes) => Ok(bytes),
            _ => Err(format!("{name}={value}: a length has {from} bytes to 1 MiB")),
        };
        match (self, name) {
            (Profile::Mixgraph(mixgraph), "get") => mixgraph.shares[0] = share()?,
            (Profile::Mixgraph(mixgraph), "put") => mixgraph.shares[1] = share()?,
            (Profile::Mixgraph(mixgraph), "scan") => mixgraph.shares[2] = share()?,
            (Profile::Mixgraph(mixgraph), "miss") => mixgraph.miss = share()?,
            (Profile::Mixgraph(mixgraph), "key") => mixgraph.key_bytes = bytes(DIGITS)?,
            (Profile::Cache(cache), "get") => cache.get = share()?,
            (Profile::Cache(cache), "miss") => cache.miss = share()?,
            (Profile::Cache(cache), "zipf") => cache.zipf = exponent()?,
            (Profile::Cache(cache), "key") => cache.key_bytes = bytes(DIGITS)?,
            (Profile::Cache(cache), "value") => cache.value_bytes = bytes(0)?,
            (Profile::Mixgraph(_), _) => {
                return Err(format!("{name:?} is no parameter: get, put, scan, miss or key"));
            }
            (Profile::Cache(_), _) => {
                return Err(format!("{name:?} is no parameter: get, miss, zipf, key or value"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
