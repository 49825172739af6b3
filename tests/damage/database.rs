//! The database whose files the tests damage. It is about 64 KiB in size, and has several levels,
//! overwrites, deletes and a live log. Every state that the database went through is recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use minikv::fs::sim::SimFs;
use minikv::fs::{Fs, MemFs};
use minikv::repair::LostRange;
use minikv::{Compression, Db, Options, Result, WriteBatch};

use crate::rng::Rng;

pub const DIR: &str = "/db";

pub type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// The bytes of every file of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files(pub BTreeMap<String, Vec<u8>>);

impl Files {
    pub fn of(fs: &dyn Fs) -> Files {
        let dir = Path::new(DIR);
        let names = fs.list(dir).unwrap().into_iter().filter(|name| name != "lost");
        Files(names.map(|name| (name.clone(), read(fs, &dir.join(name)))).collect())
    }

    /// Returns an in-memory filesystem with these files.
    pub fn load(&self) -> MemFs {
        let fs = MemFs::new();
        self.put_into(&fs);
        fs
    }

    /// Returns a simulated filesystem on which these files are durable.
    pub fn load_sim(&self, seed: u64) -> SimFs {
        let fs = SimFs::new(seed);
        self.put_into(&fs);
        fs.sync_all();
        fs
    }

    pub fn put_into(&self, fs: &dyn Fs) {
        fs.create_dir(Path::new(DIR)).unwrap();
        for (name, bytes) in &self.0 {
            fs.create(&Path::new(DIR).join(name)).unwrap().write(bytes).unwrap();
        }
    }

    /// Returns the names that begin or end with `part`, in order.
    pub fn named(&self, part: &str) -> Vec<String> {
        let names = self.0.keys().filter(|name| name.starts_with(part) || name.ends_with(part));
        names.cloned().collect()
    }

    pub fn flip(&self, name: &str, at: usize, mask: u8) -> Files {
        let mut files = self.clone();
        files.0.get_mut(name).unwrap()[at] ^= mask;
        files
    }

    pub fn cut(&self, name: &str, len: usize) -> Files {
        let mut files = self.clone();
        files.0.get_mut(name).unwrap().truncate(len);
        files
    }

    pub fn without(&self, name: &str) -> Files {
        let mut files = self.clone();
        files.0.remove(name).unwrap();
        files
    }

    pub fn bytes(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }
}

pub fn read(fs: &dyn Fs, path: &Path) -> Vec<u8> {
    let file = fs.open(path).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

pub fn options_on(fs: Arc<dyn Fs>) -> Options {
    Options::default()
        .fs(fs)
        .write_buffer_bytes(4000)
        .max_file_bytes(5000)
        .block_bytes(500)
        .block_restart_interval(4)
        .block_cache_bytes(0)
        .inline_background(Some(3))
}

pub fn options(fs: &MemFs) -> Options {
    options_on(Arc::new(fs.clone()))
}

/// A database, and its expected contents.
#[derive(Clone, Debug)]
pub struct Made {
    pub files: Files,
    /// The expected entries.
    pub entries: Entries,
    /// Every value that each key ever had.
    pub history: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>,
    /// Hashes of the states. `states[n]` is the hash of the state after `n` commits.
    pub states: Vec<u64>,
}

/// Parameters of the database to be made.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub seed: u64,
    pub commits: usize,
    pub compression: Compression,
    /// Whether everything is compacted shortly before the last commits.
    pub compacted: bool,
}

pub const SHAPE: Shape =
    Shape { seed: 1, commits: 1500, compression: Compression::None, compacted: false };

impl Made {
    pub fn new(shape: Shape) -> Made {
        let fs = MemFs::new();
        let options = options(&fs).create_if_missing(true).compression(shape.compression);
        let mut rng = Rng::new(shape.seed);
        let mut made = Made {
            files: Files(BTreeMap::new()),
            entries: Entries::new(),
            history: BTreeMap::new(),
            states: vec![0],
        };
        let db = Db::open(DIR, options).unwrap();
        let log_bytes = |fs: &MemFs| {
            let logs = Files::of(fs).named(".log");
            logs.last().map_or(0, |log| fs.len(&path(log)).unwrap())
        };
        let mut commit = 0;
        // The last log must have some records.
        while commit < shape.commits || log_bytes(&fs) < 1200 {
            let mut batch = WriteBatch::new();
            let mut state = made.states[commit];
            for _ in 0..if rng.one_in(10) { 4 } else { 1 } {
                let key = format!("key{:04}", rng.below(500)).into_bytes();
                if let Some(old) = made.entries.remove(&key) {
                    state ^= hash_entry(&key, &old);
                }
                if rng.one_in(5) {
                    batch.delete(&key);
                    continue;
                }
                let value = format!("{commit}:{}", "v".repeat(20 + rng.below(120))).into_bytes();
                batch.put(&key, &value);
                state ^= hash_entry(&key, &value);
                made.history.entry(key.clone()).or_default().insert(value.clone());
                made.entries.insert(key, value);
            }
            db.write(batch).unwrap();
            made.states.push(state);
            commit += 1;
            if shape.compacted && commit == shape.commits - 10 {
                db.compact_range(..).unwrap();
            }
        }
        db.wait_idle().unwrap();
        db.close().unwrap();
        made.files = Files::of(&fs);
        made
    }

    /// Returns all keys that can occur.
    pub fn keys() -> impl Iterator<Item = Vec<u8>> {
        (0..500).map(|i| format!("key{i:04}").into_bytes())
    }
}

/// Returns all entries, after reading them forward, backward and by key. The three results must
/// agree.
pub fn read_all(db: &Db) -> Result<Entries> {
    let forward = db.iter().collect::<Result<Vec<_>>>()?;
    let mut backward = db.iter().rev().collect::<Result<Vec<_>>>()?;
    backward.reverse();
    assert!(forward == backward, "forward and backward iteration differ");
    let entries: Entries = forward.into_iter().map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
    for key in Made::keys() {
        assert_eq!(db.get(&key)?.as_deref(), entries.get(&key).map(Vec::as_slice), "get");
    }
    Ok(entries)
}

/// Returns whether a key is in a range that a repair reported as lost.
pub fn is_lost(lost: &[LostRange], key: &[u8]) -> bool {
    lost.iter().any(|range| {
        range.from.as_deref().is_none_or(|from| from <= key)
            && range.to.as_deref().is_none_or(|to| key <= to)
    })
}

fn hash_entry(key: &[u8], value: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (key, value).hash(&mut hasher);
    hasher.finish()
}

pub fn hash_of(entries: &Entries) -> u64 {
    entries.iter().fold(0, |state, (key, value)| state ^ hash_entry(key, value))
}

pub fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}
