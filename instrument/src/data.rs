//! Entries to load, and absent keys near them.

use std::path::Path;

use minikv::{Db, Options, WriteBatch};
use minikv_workloads::{Profile, mix};

use crate::error::Result;
use crate::progress::Progress;
use crate::random::Rng;

const BATCH_ENTRIES: u64 = 1000;
const MUTATIONS: u64 = 1000;
/// Seed that determines when flushes and compactions run while a batch is written. The value is
/// arbitrary, but it must not change: published figures depend on it.
const BACKGROUND_SEED: u64 = 1;

/// Entries to load, with distinct keys.
pub enum Data {
    /// Entries of a list, such as a file, in key order.
    Listed {
        /// Name of the data, for reports.
        name: String,
        /// The keys and values, in key order. There is at least one.
        entries: Vec<(Vec<u8>, Vec<u8>)>,
    },
    /// Entries whose keys have 16 hexadecimal digits, in random order.
    Generated {
        /// Number of entries.
        entries: u64,
        /// Size of each value, in bytes.
        value_bytes: usize,
        /// Determines the keys.
        seed: u64,
    },
    /// Entries of a profile of requests, numbered in key order.
    Like {
        /// Number of entries.
        entries: u64,
        /// The profile.
        profile: Profile,
    },
}

impl Data {
    /// Returns the name of the data, for reports.
    pub fn name(&self) -> String {
        match self {
            Data::Listed { name, .. } => name.clone(),
            Data::Generated { value_bytes, .. } => {
                format!("generated keys of 16 bytes, values of {value_bytes}")
            }
            Data::Like { profile, .. } => format!("generated for {profile}"),
        }
    }

    /// Returns the number of entries.
    #[allow(clippy::len_without_is_empty, reason = "data has at least one entry")]
    pub fn len(&self) -> u64 {
        match self {
            Data::Listed { entries, .. } => entries.len() as u64,
            Data::Generated { entries, .. } | Data::Like { entries, .. } => *entries,
        }
    }

    /// Returns the key of entry `i`.
    pub fn key(&self, i: u64) -> Vec<u8> {
        match self {
            Data::Listed { entries, .. } => entries[i as usize].0.clone(),
            Data::Generated { seed, .. } => generated_key(*seed, i),
            Data::Like { profile, .. } => profile.key(i, false),
        }
    }

    /// Returns the value of entry `i`.
    pub fn value(&self, i: u64) -> Vec<u8> {
        match self {
            Data::Listed { entries, .. } => entries[i as usize].1.clone(),
            Data::Generated { value_bytes, .. } => make_value(i, *value_bytes),
            Data::Like { profile, .. } => make_value(i, profile.value_bytes(i)),
        }
    }

    /// Returns the size of all keys and values, in bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Data::Listed { entries, .. } => {
                entries.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum()
            }
            Data::Generated { entries, value_bytes, .. } => entries * (16 + *value_bytes as u64),
            Data::Like { entries, profile } => {
                let one = |i| (profile.key_bytes() + profile.value_bytes(i)) as u64;
                (0..*entries).map(one).sum()
            }
        }
    }

    /// Returns an absent key. In generated data, `i` is the number of the key, and different
    /// numbers give different keys. In other data, the key is usually random.
    pub fn one_absent(&self, i: u64, rng: &mut Rng) -> Vec<u8> {
        match self {
            // Different numbers give different keys, so numbers beyond the last entry give absent
            // keys.
            Data::Generated { entries, seed, .. } => generated_key(*seed, entries + i),
            Data::Like { .. } => self.absent_near(rng.below(self.len())),
            Data::Listed { entries, .. } => {
                let contains = |key: &[u8]| entries.binary_search_by(|e| e.0[..].cmp(key)).is_ok();
                let inside = |key: &[u8]| {
                    entries.first().is_some_and(|e| e.0[..] < *key)
                        && entries.last().is_some_and(|e| *key < e.0[..])
                };
                let mut keys = (0..MUTATIONS).map(|_| near_miss(entries, rng));
                keys.find(|key| inside(key) && !contains(key)).unwrap_or_else(|| {
                    let mut key = self.key(i % self.len());
                    while contains(&key) {
                        key.push(0);
                    }
                    key
                })
            }
        }
    }

    /// Returns an absent key near the key of entry `i`. Every call with the same `i` returns the
    /// same key.
    pub fn absent_near(&self, i: u64) -> Vec<u8> {
        match self {
            Data::Generated { .. } => self.one_absent(i, &mut Rng::new(i)),
            Data::Like { profile, .. } => profile.key(i, true),
            Data::Listed { entries, .. } => near_miss_of(entries, i, |key| {
                Ok(entries.binary_search_by(|entry| entry.0[..].cmp(key)).is_ok())
            })
            .unwrap_or_default(),
        }
    }

    /// Creates a database in `dir` that [`Data::load`] fills the same way every time.
    ///
    /// With background threads, the scheduler and the number of cores would decide which tables a
    /// merge reads and where its outputs end. This database has no background threads: flushes and
    /// compactions run in the calling thread as soon as they are due.
    pub fn create(dir: &Path, options: Options) -> Result<Db> {
        let options = options.create_if_missing(true).error_if_exists(true);
        Ok(Db::open(dir, options.inline_background(Some(BACKGROUND_SEED)))?)
    }

    /// Puts the entries into `db` in a random order that depends only on the seed. After each full
    /// batch, runs all flushes and compactions that are due.
    pub fn load(&self, db: &Db, seed: u64) -> Result<()> {
        self.load_and(db, seed, BATCH_ENTRIES, |_| Ok(()))
    }

    /// Loads the entries as [`Data::load`] does, but in batches of `batch_entries` entries. After
    /// each full batch, calls `then` with the entry that was put last.
    pub fn load_and(
        &self,
        db: &Db,
        seed: u64,
        batch_entries: u64,
        mut then: impl FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let progress = Progress::steps("loading", self.len());
        let order = self.order(seed);
        let mut batch = WriteBatch::new();
        for n in 0..self.len() {
            let i = order.as_ref().map_or(n, |order| u64::from(order[n as usize]));
            batch.put(self.key(i), self.value(i));
            if (n + 1) % batch_entries == 0 {
                db.write(std::mem::take(&mut batch))?;
                db.wait_idle()?;
                then(i)?;
                progress.set(n);
            }
        }
        Ok(db.write(batch)?)
    }

    /// Returns the order in which to load the entries, or `None` if the entries are already in
    /// random order.
    fn order(&self, seed: u64) -> Option<Vec<u32>> {
        if matches!(self, Data::Generated { .. }) {
            return None;
        }
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        Rng::new(seed).shuffle(&mut order);
        Some(order)
    }
}

fn generated_key(seed: u64, i: u64) -> Vec<u8> {
    format!("{:016x}", mix(i.wrapping_add(mix(seed)))).into_bytes()
}

/// Returns a value of `bytes` bytes whose second half repeats the first, so that it compresses to
/// about half.
pub fn make_value(i: u64, bytes: usize) -> Vec<u8> {
    let mut rng = Rng::new(i);
    let mut value = Vec::with_capacity(bytes);
    value.extend((0..bytes.div_ceil(2)).map(|_| b' ' + rng.below(95) as u8));
    value.extend_from_within(..bytes / 2);
    value
}

/// Returns a present key with one change: a byte replaced, added or removed, or two bytes swapped.
pub(crate) fn near_miss(entries: &[(Vec<u8>, Vec<u8>)], rng: &mut Rng) -> Vec<u8> {
    let key = entries[rng.position(entries.len())].0.clone();
    changed(key, entries, rng)
}

/// Returns the key of entry `i` with one change that makes it an absent key. Every call with the
/// same `i` returns the same key.
pub(crate) fn near_miss_of(
    entries: &[(Vec<u8>, Vec<u8>)],
    i: u64,
    present: impl Fn(&[u8]) -> Result<bool>,
) -> Result<Vec<u8>> {
    let mut rng = Rng::new(mix(i));
    let own = &entries[i as usize].0;
    for _ in 0..MUTATIONS {
        let key = changed(own.clone(), entries, &mut rng);
        if !present(&key)? {
            return Ok(key);
        }
    }
    let mut key = own.clone();
    while present(&key)? {
        key.push(0);
    }
    Ok(key)
}

/// Returns `key` with one change, which may use a byte of the key of a random entry.
fn changed(mut key: Vec<u8>, entries: &[(Vec<u8>, Vec<u8>)], rng: &mut Rng) -> Vec<u8> {
    let other = &entries[rng.position(entries.len())].0;
    if key.is_empty() || other.is_empty() {
        key.extend_from_slice(other);
        key.push(b'0');
        return key;
    }
    let at = rng.position(key.len());
    let byte = other[rng.position(other.len())];
    match rng.below(4) {
        0 => key[at] = byte,
        1 => key.insert(at + 1, byte),
        2 => drop(key.remove(at)),
        _ => {
            let next = (at + 1) % key.len();
            key.swap(at, next);
        }
    }
    key
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Returns a list of keys of several lengths.
    pub fn listed_numbers() -> Data {
        let mut keys: Vec<_> = (0..20_000u32).map(|i| format!("{}", i * 37)).collect();
        keys.sort();
        listed(&keys.iter().map(|key| &key[..]).collect::<Vec<_>>())
    }

    fn listed(keys: &[&str]) -> Data {
        let mut entries: Vec<_> =
            keys.iter().map(|k| (k.as_bytes().to_vec(), vec![b'v'])).collect();
        entries.sort();
        Data::Listed { name: "test".to_string(), entries }
    }

    fn absent_keys(data: &Data, n: u64, seed: u64) -> Vec<Vec<u8>> {
        let mut rng = Rng::new(seed);
        (0..n).map(|i| data.one_absent(i, &mut rng)).collect()
    }

    fn check_absent(data: &Data, n: u64) {
        let present: std::collections::HashSet<_> = (0..data.len()).map(|i| data.key(i)).collect();
        assert_eq!(present.len() as u64, data.len(), "no key twice");
        let absent = absent_keys(data, n, 7);
        assert_eq!(absent.len() as u64, n);
        assert!(absent.iter().all(|key| !present.contains(key)));
        assert_eq!(absent, absent_keys(data, n, 7), "the same seed gives the same keys");
    }

    #[test]
    fn absent_keys_are_absent() {
        check_absent(&listed_numbers(), 5000);
        check_absent(&Data::Generated { entries: 5000, value_bytes: 10, seed: 3 }, 5000);
        check_absent(&listed(&["a"]), 10);
        check_absent(&listed(&["", "a", "b", "ab"]), 10);
        check_absent(&Data::Like { entries: 500, profile: "mixgraph".parse().unwrap() }, 10);
    }

    #[test]
    fn absent_keys_near_an_entry_are_absent_and_always_the_same() {
        let like = Data::Like { entries: 1000, profile: "cache".parse().unwrap() };
        for data in [listed_numbers(), like, listed(&["", "a", "b", "ab"])] {
            let present: std::collections::HashSet<_> =
                (0..data.len()).map(|i| data.key(i)).collect();
            for i in 0..data.len().min(2000) {
                let key = data.absent_near(i);
                assert!(!present.contains(&key) && key == data.absent_near(i), "{key:?}");
            }
        }
    }

    #[test]
    fn values_have_the_length_asked_for() {
        for bytes in [0, 1, 16, 100] {
            assert_eq!(make_value(5, bytes).len(), bytes);
        }
    }

    /// Loads `data` into a database. Returns the contents of the database's files, keyed by name.
    fn loaded(data: &Data) -> BTreeMap<String, Vec<u8>> {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("db");
        let options = Options::default().write_buffer_bytes(64 << 10).max_file_bytes(32 << 10);
        let db = Data::create(&dir, options).unwrap();
        data.load(&db, 1).unwrap();
        db.flush().unwrap();
        db.wait_idle().unwrap();
        let levels = db.stats().levels.iter().filter(|level| level.files > 0).count();
        assert!(levels >= 2, "compactions have taken place");
        db.close().unwrap();
        let files = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
        let named = |path: std::path::PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap().to_string();
            (name, std::fs::read(&path).unwrap())
        };
        files.map(named).collect()
    }

    /// Checks that loading gives the same files while other threads compete for the processor.
    #[test]
    fn loading_the_same_data_makes_the_same_files_byte_for_byte() {
        let data = Data::Generated { entries: 20_000, value_bytes: 100, seed: 3 };
        let quiet = loaded(&data);
        let done = std::sync::atomic::AtomicBool::new(false);
        let busy = std::thread::scope(|scope| {
            let spin = || {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            };
            (0..3).for_each(|_| drop(scope.spawn(spin)));
            let busy = loaded(&data);
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            busy
        });
        let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&quiet), names(&busy));
        assert!(quiet == busy, "the files have the same names and other bytes");
    }

    #[test]
    fn the_order_of_loading_is_a_permutation() {
        let data = listed(&["a", "b", "c", "d", "e", "f"]);
        let mut order = data.order(9).unwrap();
        order.sort_unstable();
        assert_eq!(order, [0, 1, 2, 3, 4, 5]);
    }
}
