//! Common traits for the two engines.

use std::path::Path;

use minikv::{
    Compression, Db, Filters, FixedPrefix, Options, ReadOnlyDb, ReadOptions, Readable, WriteBatch,
};
use minikv_interop::ffi::{Entry, Op};
use minikv_interop::{LevelDb, Settings};

use crate::comparators::Order;
use crate::rng::Rng;
use crate::workload::{Model, absent};

/// Options for both engines.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub write_buffer_bytes: usize,
    pub block_bytes: usize,
    pub block_restart_interval: usize,
    pub max_file_bytes: usize,
    pub snappy: bool,
    pub bloom_bits: Option<u32>,
    /// Kind of minikv's filters. LevelDB has neither this option nor `prefix_filter`.
    pub filters: fn(u32) -> Filters,
    pub prefix_filter: bool,
    pub reuse_logs: bool,
    pub reverse: bool,
}

const KINDS: [fn(u32) -> Filters; 3] = [Filters::Block, Filters::Table, Filters::Both];

impl Shape {
    pub fn random(rng: &mut Rng) -> Shape {
        Shape {
            write_buffer_bytes: *rng.pick(&[64 << 10, 256 << 10, 4 << 20]),
            block_bytes: *rng.pick(&[256, 1024, 4096, 64 << 10]),
            block_restart_interval: *rng.pick(&[1, 2, 16, 128]),
            max_file_bytes: *rng.pick(&[8 << 10, 64 << 10, 2 << 20]),
            snappy: rng.one_in(2),
            bloom_bits: *rng.pick(&[None, Some(10), Some(10), Some(1), Some(50)]),
            filters: *rng.pick(&KINDS),
            prefix_filter: rng.one_in(3),
            reuse_logs: rng.one_in(2),
            reverse: rng.one_in(6),
        }
    }

    /// Returns another shape for the same database. Only the order of keys stays the same.
    pub fn other(self, rng: &mut Rng) -> Shape {
        Shape { reverse: self.reverse, ..Shape::random(rng) }
    }

    pub fn options(&self) -> Options {
        let options = Options::default()
            .create_if_missing(true)
            .paranoid_checks(true)
            .write_buffer_bytes(self.write_buffer_bytes)
            .block_bytes(self.block_bytes)
            .block_restart_interval(self.block_restart_interval)
            .max_file_bytes(self.max_file_bytes as u64)
            .compression(if self.snappy { Compression::Snappy } else { Compression::None })
            .reuse_logs(self.reuse_logs);
        let options = match self.bloom_bits {
            None => options.filters(Filters::None),
            Some(bits) => options.filters((self.filters)(bits)),
        };
        match (self.reverse, self.prefix_filter) {
            (true, _) => options.comparator(Order::Reverse.comparator()),
            (false, true) => options.filter_prefix(FixedPrefix::new(2)),
            (false, false) => options,
        }
    }

    pub fn settings(&self) -> Settings {
        Settings {
            create_if_missing: true,
            paranoid_checks: true,
            write_buffer_bytes: self.write_buffer_bytes,
            block_bytes: self.block_bytes,
            block_restart_interval: self.block_restart_interval,
            max_file_bytes: self.max_file_bytes,
            snappy: self.snappy,
            bloom_bits: self.bloom_bits,
            reuse_logs: self.reuse_logs,
            reverse: self.reverse,
            ..Settings::default()
        }
    }
}

/// A database open for reading, by either engine.
pub trait Reader {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>>;
    fn entries(&self, backward: bool) -> Vec<Entry>;
}

/// A database open for writing.
pub trait Engine: Reader {
    fn write(&self, batch: &[Op]);
    fn compact(&self, bounds: Option<(&[u8], &[u8])>);
    fn files_at_level(&self, level: usize) -> usize;
}

macro_rules! reader {
    ($($handle:ty),*) => {$(
        impl Reader for $handle {
            fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
                self.reading(ReadOptions::default()).get(key).unwrap().map(|value| value.to_vec())
            }

            fn entries(&self, backward: bool) -> Vec<Entry> {
                let iter = self.iter();
                let iter: Box<dyn Iterator<Item = _>> = match backward {
                    false => Box::new(iter),
                    true => Box::new(iter.rev()),
                };
                let entries = iter.map(|entry| entry.unwrap());
                entries.map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
            }
        }
    )*};
}

reader!(Db, ReadOnlyDb);

impl Engine for Db {
    fn write(&self, batch: &[Op]) {
        if let [op] = batch {
            return match op {
                Op::Put(key, value) => self.put(key, value).unwrap(),
                Op::Delete(key) => self.delete(key).unwrap(),
            };
        }
        let mut ours = WriteBatch::new();
        for op in batch {
            match op {
                Op::Put(key, value) => ours.put(key, value),
                Op::Delete(key) => ours.delete(key),
            }
        }
        Db::write(self, ours).unwrap();
    }

    fn compact(&self, bounds: Option<(&[u8], &[u8])>) {
        match bounds {
            None => self.compact_range(..).unwrap(),
            Some((start, limit)) => self.compact_range(start..=limit).unwrap(),
        }
    }

    fn files_at_level(&self, level: usize) -> usize {
        let files = self.property(&format!("leveldb.num-files-at-level{level}"));
        files.expect("a known property").parse().expect("a number")
    }
}

impl Reader for LevelDb {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        LevelDb::get(self, key).unwrap()
    }

    fn entries(&self, backward: bool) -> Vec<Entry> {
        LevelDb::entries(self, backward).unwrap()
    }
}

impl Engine for LevelDb {
    fn write(&self, batch: &[Op]) {
        match batch {
            [Op::Put(key, value)] => self.put(key, value).unwrap(),
            _ => LevelDb::write(self, batch).unwrap(),
        }
    }

    fn compact(&self, bounds: Option<(&[u8], &[u8])>) {
        match bounds {
            None => self.compact_range(None, None),
            Some((start, limit)) => self.compact_range(Some(start), Some(limit)),
        }
    }

    fn files_at_level(&self, level: usize) -> usize {
        let files = self.property(&format!("leveldb.num-files-at-level{level}"));
        files.expect("a known property").parse().expect("a number")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Minikv,
    LevelDb,
}

impl Side {
    pub fn open(self, dir: &Path, shape: &Shape) -> Box<dyn Engine> {
        match self {
            Side::Minikv => Box::new(Db::open(dir, shape.options()).unwrap()),
            Side::LevelDb => Box::new(LevelDb::open(dir, &shape.settings()).unwrap()),
        }
    }
}

/// Checks every entry forward, backward and by get. Checks that there are no other entries, and
/// that neighbouring keys are not found.
pub fn check(reader: &dyn Reader, model: &Model, shape: &Shape, rng: &mut Rng) {
    let mut forward = reader.entries(false);
    let mut backward = reader.entries(true);
    match shape.reverse {
        false => backward.reverse(),
        true => forward.reverse(),
    }
    for (found, way) in [(&forward, "forward"), (&backward, "backward")] {
        for ((key, value), expected) in found.iter().zip(model) {
            assert!((key, value) == expected, "{way}: {key:x?} where {:x?} is due", expected.0);
        }
        assert_eq!(found.len(), model.len(), "{way}");
    }
    for (key, value) in model {
        assert!(reader.get(key).as_ref() == Some(value), "get {key:x?}");
    }
    for key in absent(rng, model) {
        assert_eq!(reader.get(&key), None, "{key:x?}");
    }
}
