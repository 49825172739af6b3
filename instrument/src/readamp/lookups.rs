//! Chooses the keys to look up.

use std::collections::HashSet;

use minikv::{ReadOnlyDb, Readable};
use minikv_workloads::{Profile, Requests};

use crate::data::{Data, near_miss, near_miss_of};
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::random::Rng;

/// Maximum size of the sample of a database's keys from which lookups are chosen. The sample is
/// held in memory, so a larger sample takes more memory.
const POOL_KEYS: usize = 200_000;
/// Maximum number of attempts to change a present key into an absent key between the first and the
/// last key. More attempts help only if nearly all changed keys are present, too.
const TRIES: usize = 100;

/// The way in which lookups are chosen.
#[derive(Clone, Debug)]
pub struct Choice {
    pub number: u64,
    /// Fraction of lookups that ask for absent keys.
    pub absent_ratio: f64,
    /// Exponent of a Zipf distribution, or `None` for a uniform distribution.
    pub zipf: Option<f64>,
    /// Profile whose gets are used as lookups, instead of `absent_ratio` and `zipf`.
    pub like: Option<Profile>,
    pub seed: u64,
}

/// A key to look up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    pub key: Vec<u8>,
    pub present: bool,
}

/// A source of present and absent keys.
pub trait Keys {
    /// Returns the number of present keys that can be chosen.
    fn present_keys(&self) -> u64;
    fn present(&self, i: u64) -> Vec<u8>;
    /// Returns the `i`-th absent key.
    fn absent(&self, i: u64, rng: &mut Rng) -> Result<Vec<u8>>;
    /// Returns an absent key near the present key `i`. The result is the same for every call.
    fn absent_near(&self, i: u64) -> Result<Vec<u8>>;
}

impl Keys for Data {
    fn present_keys(&self) -> u64 {
        self.len()
    }

    fn present(&self, i: u64) -> Vec<u8> {
        self.key(i)
    }

    fn absent(&self, i: u64, rng: &mut Rng) -> Result<Vec<u8>> {
        Ok(self.one_absent(i, rng))
    }

    fn absent_near(&self, i: u64) -> Result<Vec<u8>> {
        Ok(Data::absent_near(self, i))
    }
}

/// A sample of the keys of a database, in key order.
pub struct Pool<'a> {
    db: &'a ReadOnlyDb,
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    first: Vec<u8>,
    last: Vec<u8>,
    /// Number of entries in the database.
    pub all_entries: u64,
    /// Size of the keys and values of all entries, in bytes.
    pub all_bytes: u64,
}

impl<'a> Pool<'a> {
    /// Reads the whole database, and returns a random sample of its keys, in which each key is
    /// equally likely.
    pub fn of(db: &'a ReadOnlyDb, seed: u64) -> Result<Pool<'a>> {
        let mut rng = Rng::new(seed);
        let mut pool = Pool {
            db,
            entries: Vec::new(),
            first: Vec::new(),
            last: Vec::new(),
            all_entries: 0,
            all_bytes: 0,
        };
        let progress = Progress::counter("reading the database");
        let mut cursor = db.cursor()?;
        let mut valid = cursor.seek_to_first()?;
        while valid {
            let key = cursor.key();
            if pool.all_entries == 0 {
                pool.first = key.to_vec();
            }
            pool.all_entries += 1;
            pool.all_bytes += (key.len() + cursor.value().len()) as u64;
            if pool.entries.len() < POOL_KEYS {
                pool.entries.push((key.to_vec(), Vec::new()));
            } else {
                let place = rng.below(pool.all_entries) as usize;
                if place < POOL_KEYS {
                    pool.entries[place].0 = key.to_vec();
                }
            }
            if pool.all_entries.is_multiple_of(4096) {
                progress.set(pool.all_entries);
            }
            pool.last.clear();
            pool.last.extend_from_slice(key);
            valid = cursor.next()?;
        }
        pool.entries.sort_unstable();
        match pool.all_entries {
            0 => Err(Error::Usage("the database is empty: nothing to measure".to_string())),
            _ => Ok(pool),
        }
    }
}

impl Keys for Pool<'_> {
    fn present_keys(&self) -> u64 {
        self.entries.len() as u64
    }

    fn present(&self, i: u64) -> Vec<u8> {
        self.entries[i as usize].0.clone()
    }

    fn absent(&self, i: u64, rng: &mut Rng) -> Result<Vec<u8>> {
        for _ in 0..TRIES {
            let key = near_miss(&self.entries, rng);
            let inside = self.first < key && key < self.last;
            if inside && !self.db.contains_key(&key)? {
                return Ok(key);
            }
        }
        let mut key = self.present(i % self.present_keys());
        while self.db.contains_key(&key)? {
            key.push(0);
        }
        Ok(key)
    }

    fn absent_near(&self, i: u64) -> Result<Vec<u8>> {
        near_miss_of(&self.entries, i, |key| Ok(self.db.contains_key(key)?))
    }
}

impl Choice {
    /// Returns lookups for the keys of `data`.
    pub fn of_data(&self, data: &Data) -> Result<Vec<Lookup>> {
        self.of(data)
    }

    /// Returns lookups for the keys in a sample of a database.
    pub fn of_pool(&self, pool: &Pool<'_>) -> Result<Vec<Lookup>> {
        self.of(pool)
    }

    fn of(&self, keys: &impl Keys) -> Result<Vec<Lookup>> {
        if let Some(profile) = self.like {
            let mut requests = Requests::new(profile, keys.present_keys(), self.seed);
            let lookup = |_| match requests.next_get() {
                (i, true) => Ok(Lookup { key: keys.absent_near(i)?, present: false }),
                (i, false) => Ok(Lookup { key: keys.present(i), present: true }),
            };
            return (0..self.number).map(lookup).collect();
        }
        let mut rng = Rng::new(self.seed);
        let absent_lookups = (self.number as f64 * self.absent_ratio).round() as u64;
        let absent_keys =
            (0..absent_lookups).map(|i| keys.absent(i, &mut rng)).collect::<Result<Vec<_>>>()?;
        let of_present = Chooser::new(self.zipf, keys.present_keys(), self.seed);
        let of_absent = Chooser::new(self.zipf, absent_lookups, !self.seed);
        let mut lookups = Vec::with_capacity(self.number as usize);
        for i in 0..self.number {
            // Distributes the lookups of absent keys evenly among the lookups of present keys.
            let due = |i: u64| ((i as f64) * self.absent_ratio).round() as u64;
            let present = due(i + 1) == due(i);
            let key = match (present, self.zipf) {
                (true, _) => keys.present(of_present.next(&mut rng)),
                (false, Some(_)) => absent_keys[of_absent.next(&mut rng) as usize].clone(),
                (false, None) => absent_keys[due(i) as usize].clone(),
            };
            lookups.push(Lookup { key, present });
        }
        // The lookups are shuffled, because regular alternation between present and absent keys
        // would be an unrealistic access pattern for caches.
        rng.shuffle(&mut lookups);
        Ok(lookups)
    }
}

/// Chooses numbers below `n`, either uniformly or with a Zipf distribution.
struct Chooser {
    n: u64,
    zipf: Option<Zipf>,
    offset: u64,
}

impl Chooser {
    fn new(exponent: Option<f64>, n: u64, seed: u64) -> Chooser {
        let zipf = exponent.filter(|_| n > 0).map(|exponent| Zipf::new(exponent, n));
        Chooser { n, zipf, offset: Rng::new(seed).next() }
    }

    fn next(&self, rng: &mut Rng) -> u64 {
        match &self.zipf {
            None => rng.below(self.n),
            // Scatters the popular keys over all keys.
            Some(zipf) => Rng::new(zipf.rank(rng).wrapping_add(self.offset)).below(self.n),
        }
    }
}

/// A Zipf distribution over ranks, which begin at 1. The probability of rank `i` is proportional to
/// `1 / i^exponent`.
struct Zipf {
    /// Cumulative weight of each rank: its own weight and the weights of all lower ranks.
    sums: Vec<f64>,
}

/// Maximum number of ranks. Each rank takes eight bytes, and higher ranks would hardly ever be
/// drawn.
const ZIPF_RANKS: u64 = 1 << 20;

impl Zipf {
    fn new(exponent: f64, n: u64) -> Zipf {
        let mut sum = 0.0;
        let weight = |rank: u64| (rank as f64).powf(-exponent);
        let sums = (1..=n.min(ZIPF_RANKS)).map(|rank| {
            sum += weight(rank);
            sum
        });
        Zipf { sums: sums.collect() }
    }

    fn rank(&self, rng: &mut Rng) -> u64 {
        let total = self.sums.last().copied().unwrap_or(0.0);
        let at = (rng.next() >> 11) as f64 / (1u64 << 53) as f64 * total;
        self.sums.partition_point(|&sum| sum <= at) as u64
    }
}

/// Returns lookups of `keys`, in order.
pub fn of_keys(keys: &[Vec<u8>], db: &ReadOnlyDb) -> Result<Vec<Lookup>> {
    let lookup = |key: &Vec<u8>| Ok(Lookup { key: key.clone(), present: db.contains_key(key)? });
    keys.iter().map(lookup).collect()
}

/// Returns a flag for each lookup, which is true for the first lookup of a key.
pub fn first_times(lookups: &[Lookup]) -> Vec<bool> {
    let mut seen = HashSet::with_capacity(lookups.len());
    lookups.iter().map(|lookup| seen.insert(&lookup.key[..])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice() -> Choice {
        Choice { number: 10_000, absent_ratio: 0.25, zipf: None, like: None, seed: 5 }
    }

    #[test]
    fn a_quarter_is_absent() {
        let data = Data::Generated { entries: 3000, value_bytes: 10, seed: 3 };
        let lookups = choice().of_data(&data).unwrap();
        let keys: HashSet<_> = (0..3000).map(|i| data.key(i)).collect();
        assert_eq!(lookups.len(), 10_000);
        assert_eq!(lookups.iter().filter(|lookup| !lookup.present).count(), 2500);
        assert!(lookups.iter().all(|lookup| keys.contains(&lookup.key) == lookup.present));
        assert_eq!(lookups, choice().of_data(&data).unwrap());
        let firsts = first_times(&lookups);
        let absent_firsts = lookups.iter().zip(firsts).filter(|(l, first)| !l.present && *first);
        assert_eq!(absent_firsts.count(), 2500, "absent keys are all different");
        for ratio in [0.0, 1.0] {
            let all = Choice { absent_ratio: ratio, ..choice() }.of_data(&data).unwrap();
            assert!(all.iter().all(|lookup| lookup.present == (ratio == 0.0)));
        }
    }

    #[test]
    fn gets_of_a_profile_miss_as_often_as_asked() {
        let like: Profile = "mixgraph:miss=0.4".parse().unwrap();
        let data = Data::Like { entries: 3000, profile: like };
        let choice = Choice { like: Some(like), ..choice() };
        for data in [data, crate::data::tests::listed_numbers()] {
            let keys: HashSet<_> = (0..data.len()).map(|i| data.key(i)).collect();
            let lookups = choice.of_data(&data).unwrap();
            assert!(lookups.iter().all(|lookup| keys.contains(&lookup.key) == lookup.present));
            let absent = lookups.iter().filter(|lookup| !lookup.present).count();
            assert!((3850..4150).contains(&absent), "{absent}");
            let firsts = first_times(&lookups).into_iter().filter(|first| *first).count();
            // With uniform lookups, the words would give about 9,700 different keys.
            assert!(firsts < 7500, "popular keys repeat: {firsts}");
        }
    }

    #[test]
    fn zipf_prefers_few_keys() {
        let data = Data::Generated { entries: 3000, value_bytes: 10, seed: 3 };
        let choice = Choice { zipf: Some(0.99), absent_ratio: 0.0, ..choice() };
        let mut counts = std::collections::HashMap::new();
        for lookup in choice.of_data(&data).unwrap() {
            *counts.entry(lookup.key).or_insert(0u32) += 1;
        }
        let mut counts: Vec<_> = counts.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        // With 3000 ranks, the probability of rank 1 is 1 / 8.9.
        assert!((1000..1300).contains(&counts[0]), "{counts:?}");
        assert!((450..700).contains(&counts[1]), "{counts:?}");
        assert!(counts.len() > 1000);
    }
}
