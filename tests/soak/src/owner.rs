//! Entries that one thread writes, in every way, beside an exact model of them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use minikv::bulk::TableWriter;
use minikv::{Bytes, Db, Keyspace, Readable, Result, Snapshot, WriteBatch, WriteOptions};
use minikv_support::rng::Rng;

use crate::world::{Checked, World};

/// Number of keys.
const KEYS: usize = 4000;
/// Number of snapshots that are held.
const SNAPSHOTS: usize = 4;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A home of entries: the keys of the database, or a keyspace.
trait Place: Sized {
    type Old: Readable;

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;
    fn put_synced(&self, key: &[u8], value: &[u8]) -> Result<()>;
    fn delete(&self, key: &[u8]) -> Result<()>;
    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<()>;
    fn put_in_batch(&self, batch: &mut WriteBatch, key: &[u8], value: Option<&[u8]>);
    fn put_in_table(&self, tables: &mut TableWriter, key: &[u8], value: &[u8]) -> Result<()>;
    fn append(&self, key: &[u8], more: &[u8]) -> Result<()>;
    fn old(&self, snapshot: &Snapshot) -> Result<Self::Old>;
}

fn appended(old: Option<&[u8]>, more: &[u8]) -> Vec<u8> {
    [old.unwrap_or_default(), more].concat()
}

impl Place for Db {
    type Old = Snapshot;

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Db::put(self, key, value)
    }

    fn put_synced(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.writing(WriteOptions::default().sync(true)).put(key, value)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Db::delete(self, key)
    }

    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<()> {
        Db::delete_range(self, from..to).map(drop)
    }

    fn put_in_batch(&self, batch: &mut WriteBatch, key: &[u8], value: Option<&[u8]>) {
        match value {
            Some(value) => batch.put(key, value),
            None => batch.delete(key),
        }
    }

    fn put_in_table(&self, tables: &mut TableWriter, key: &[u8], value: &[u8]) -> Result<()> {
        tables.put(key, value)
    }

    fn append(&self, key: &[u8], more: &[u8]) -> Result<()> {
        self.update(key, |old| Some(appended(old, more))).map(drop)
    }

    fn old(&self, snapshot: &Snapshot) -> Result<Snapshot> {
        Ok(snapshot.clone())
    }
}

impl Place for Keyspace {
    type Old = Keyspace<Snapshot>;

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Keyspace::put(self, key, value)
    }

    fn put_synced(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.writing(WriteOptions::default().sync(true)).put(key, value)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Keyspace::delete(self, key)
    }

    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<()> {
        Keyspace::delete_range(self, from..to).map(drop)
    }

    fn put_in_batch(&self, batch: &mut WriteBatch, key: &[u8], value: Option<&[u8]>) {
        match value {
            Some(value) => batch.put_in(self, key, value),
            None => batch.delete_in(self, key),
        }
    }

    fn put_in_table(&self, tables: &mut TableWriter, key: &[u8], value: &[u8]) -> Result<()> {
        tables.put_in(self, key, value)
    }

    fn append(&self, key: &[u8], more: &[u8]) -> Result<()> {
        self.update(key, |old| Some(appended(old, more))).map(drop)
    }

    fn old(&self, snapshot: &Snapshot) -> Result<Keyspace<Snapshot>> {
        snapshot.keyspace(self.name())
    }
}

pub struct Owner {
    name: &'static str,
    rng: Rng,
    model: Model,
    /// Whether the entries are among the keys of the database.
    plain: bool,
}

impl Owner {
    pub fn new(name: &'static str, seed: u64, plain: bool) -> Owner {
        Owner { name, rng: Rng::new(seed), model: Model::new(), plain }
    }

    pub fn run(&mut self, world: &World, db: &Db) -> Checked {
        match self.plain {
            true => self.work(world, db, db),
            false => self.work(world, db, &db.keyspace(self.name)?),
        }
    }

    fn key(&self, number: usize) -> Vec<u8> {
        format!("{}/{number:05}", self.name).into_bytes()
    }

    fn any_key(&mut self) -> Vec<u8> {
        let number = self.rng.below(KEYS);
        self.key(number)
    }

    fn any_value(&mut self) -> Vec<u8> {
        let len = match self.rng.below(50) {
            0 => self.rng.below(20_000),
            _ => self.rng.below(200),
        };
        let mut value = self.rng.bytes(len / 2);
        value.resize(len, b'-');
        value
    }

    /// Writes and reads until the end.
    fn work<P: Place + Readable>(&mut self, world: &World, db: &Db, place: &P) -> Checked {
        let mut held: VecDeque<(P::Old, Model)> = VecDeque::new();
        self.compare_all(place, &self.model, "after the open")?;
        while world.wait(Duration::from_micros(500)) {
            self.write(world, db, place)?;
            world.writes.fetch_add(1, Relaxed);
            self.read(place)?;
            world.reads.fetch_add(1, Relaxed);
            if self.rng.one_in(500) {
                held.push_back((place.old(&db.snapshot())?, self.model.clone()));
            }
            if held.len() > SNAPSHOTS {
                let (old, model) = held.pop_front().expect("a snapshot");
                self.compare_all(&old, &model, "in a snapshot")?;
                world.reads.fetch_add(model.len() as u64, Relaxed);
            }
        }
        self.compare_all(place, &self.model, "in the end")
    }

    fn write<P: Place>(&mut self, world: &World, db: &Db, place: &P) -> Checked {
        let (key, value) = (self.any_key(), self.any_value());
        match self.rng.below(1000) {
            0 => {
                let folder = world.home.join(format!("tables-{}", self.name));
                let mut tables = TableWriter::create(&folder, &world.options())?;
                let first = self.rng.below(KEYS - 200);
                for number in (first..first + 200).step_by(3) {
                    let (key, value) = (self.key(number), self.any_value());
                    place.put_in_table(&mut tables, &key, &value)?;
                    self.model.insert(key, value);
                }
                db.ingest(&tables.finish()?)?;
                std::fs::remove_dir_all(&folder)?;
            }
            1..4 => {
                let first = self.rng.below(KEYS);
                // A long range has whole tables in it, which are dropped at once.
                let longest = if self.rng.one_in(4) { KEYS } else { 300 };
                let end = first + self.rng.below(longest);
                let (from, to) = (self.key(first), self.key(end));
                place.delete_range(&from, &to)?;
                self.model.retain(|key, _| *key < from || *key >= to);
            }
            4..100 => {
                let mut batch = WriteBatch::new();
                for _ in 0..self.rng.below(20) {
                    let (key, value) = (self.any_key(), self.any_value());
                    if self.rng.one_in(4) {
                        place.put_in_batch(&mut batch, &key, None);
                        self.model.remove(&key);
                    } else {
                        place.put_in_batch(&mut batch, &key, Some(&value));
                        self.model.insert(key, value);
                    }
                }
                db.write(batch)?;
            }
            100..250 => {
                place.delete(&key)?;
                self.model.remove(&key);
            }
            250..300 => {
                place.append(&key, b"+")?;
                self.model.entry(key).or_default().push(b'+');
            }
            300..305 => {
                place.put_synced(&key, &value)?;
                self.model.insert(key, value);
            }
            _ => {
                place.put(&key, &value)?;
                self.model.insert(key, value);
            }
        }
        Ok(())
    }

    /// Reads a few entries in one of several ways.
    fn read<R: Readable>(&mut self, place: &R) -> Checked {
        let keys: Vec<_> = (0..4).map(|_| self.any_key()).collect();
        let (from, to) = (keys[0].clone(), keys[1].clone());
        if from >= to {
            for (key, found) in keys.iter().zip(place.multi_get(&keys)?) {
                let expected = self.model.get(key).map(|value| &value[..]);
                let is_right = found.as_deref() == expected && place.get(key)? == found;
                self.right(is_right, "a get of", key)?;
            }
            return Ok(());
        }
        let expected = self.model.range(from.clone()..to.clone());
        let range = || place.range(&from[..]..&to[..]);
        if self.rng.one_in(3) {
            let count = place.count(&from[..]..&to[..])?;
            return self.right(count == expected.count() as u64, "a count from", &from);
        }
        let same = |found: &(Bytes, Bytes), (key, value): (&Vec<u8>, &Vec<u8>)| {
            found.0 == *key && found.1 == *value
        };
        let expected: Vec<_> = expected.collect();
        let least = expected.len().min(30);
        let forwards = range().take(30).collect::<Result<Vec<_>>>()?;
        let ahead = expected.iter().copied();
        let is_right =
            forwards.len() == least && forwards.iter().zip(ahead).all(|(f, e)| same(f, e));
        self.right(is_right, "a scan from", &from)?;
        let backwards = range().rev().take(30).collect::<Result<Vec<_>>>()?;
        let back = expected.iter().rev().copied();
        let is_right =
            backwards.len() == least && backwards.iter().zip(back).all(|(f, e)| same(f, e));
        self.right(is_right, "a scan back to", &from)
    }

    fn compare_all<R: Readable>(&self, place: &R, model: &Model, when: &str) -> Checked {
        let mut expected = model.iter();
        for entry in place.prefix(format!("{}/", self.name))? {
            let (key, value) = entry?;
            let is_right = expected.next().is_some_and(|(k, v)| *k == key && *v == value);
            self.right(is_right, when, &key)?;
        }
        expected.next().map_or(Ok(()), |(key, _)| self.right(false, when, key))
    }

    fn right(&self, is_right: bool, what: &str, key: &[u8]) -> Checked {
        let wrong =
            || format!("{}: {what} {}: not what was written", self.name, key.escape_ascii());
        if is_right { Ok(()) } else { Err(wrong().into()) }
    }
}
