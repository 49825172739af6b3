//! Reads and writes of keyspaces. The model holds the entries of keyspaces under their full
//! database keys.

use std::ops::Bound;

use minikv::{Keyspace, Readable, WriteBatch, WriteOptions};

use crate::comparators::Order;
use crate::crash::Change;
use crate::keys::value;
use crate::order::{Entry, Model};
use crate::run::{Run, assert_same, owned};

/// Names of keyspaces. One name is a prefix of another, and some are the first or the last names in
/// byte order.
const NAMES: [&[u8]; 5] = [b"a", b"ab", b"\0", b"\xff", &[0xff; 255]];

/// Returns the full database key of `key` in a keyspace.
fn documented(name: &[u8], key: &[u8]) -> Vec<u8> {
    [b"\xff\xfeks", &[name.len() as u8][..], name, key].concat()
}

/// Returns the entries of a keyspace, with their keys within the keyspace.
fn entries_of(model: &Model, name: &[u8]) -> Vec<Entry> {
    let prefix = documented(name, b"");
    let within = |(key, value): Entry| (key[prefix.len()..].into(), value);
    model.prefix(&prefix).into_iter().map(within).collect()
}

impl Run {
    /// Performs a random operation on a keyspace. If the comparator does not allow keyspaces,
    /// checks that opening a keyspace fails.
    pub fn use_keyspace(&mut self) {
        let name = *self.rng.pick(&NAMES);
        if self.config.order != Order::Bytewise {
            let error = self.db().keyspace(name).unwrap_err();
            return assert!(error.to_string().contains("byte order"), "{error}");
        }
        let keyspace = self.db().keyspace(name).unwrap();
        match self.rng.below(20) {
            0..7 => self.write_in(&keyspace),
            7..11 => self.write_in_many(),
            11 if self.rng.one_in(4) => self.clear(&keyspace),
            12 => self.list_keyspaces(),
            _ => self.read_in(&keyspace),
        }
    }

    fn write_in(&mut self, keyspace: &Keyspace) {
        let key = self.config.keys.key(&mut self.rng);
        let new = (!self.rng.one_in(3)).then(|| value(&mut self.rng, self.operation));
        let sync = self.rng.one_in(100);
        let options = WriteOptions::default().sync(sync);
        match &new {
            Some(new) => keyspace.writing(options).put(&key, new).unwrap(),
            None => keyspace.writing(options).delete(&key).unwrap(),
        }
        self.written(vec![(documented(keyspace.name(), &key), new)], sync);
    }

    /// Writes a batch to several keyspaces, and to keys outside of keyspaces.
    fn write_in_many(&mut self) {
        let mut batch = WriteBatch::new();
        let mut changes: Vec<Change> = Vec::new();
        for _ in 0..self.rng.below(12) {
            let key = self.config.keys.key(&mut self.rng);
            let new = (!self.rng.one_in(3)).then(|| value(&mut self.rng, self.operation));
            let name = *self.rng.pick(&NAMES);
            if self.rng.one_in(6) {
                match &new {
                    Some(new) => batch.put(&key, new),
                    None => batch.delete(&key),
                }
                changes.push((key, new));
                continue;
            }
            let keyspace = self.db().keyspace(name).unwrap();
            match &new {
                Some(new) => batch.put_in(&keyspace, &key, new),
                None => batch.delete_in(&keyspace, &key),
            }
            changes.push((documented(name, &key), new));
        }
        self.db().write(batch).unwrap();
        self.written(changes, false);
    }

    fn clear(&mut self, keyspace: &Keyspace) {
        let name = keyspace.name();
        let entries = entries_of(&self.model, name);
        let done = keyspace.clear().unwrap();
        let end = [&documented(name, b"")[..], &[0xff; 300]].concat();
        let all = (Bound::Included(documented(name, b"")), Bound::Excluded(end));
        let keys = entries.iter().map(|(key, _)| documented(name, key));
        self.deleted(&all, keys.collect(), done, false);
    }

    fn list_keyspaces(&mut self) {
        let mut expected = NAMES.to_vec();
        expected.retain(|name| !entries_of(&self.model, name).is_empty());
        expected.sort();
        let listed = self.db().keyspaces().unwrap();
        let ordinary = listed.iter().filter(|keyspace| !keyspace.is_expiring());
        assert_eq!(ordinary.map(Keyspace::name).collect::<Vec<_>>(), expected);
    }

    /// Compares reads of a keyspace with the model, in the present state or at a snapshot.
    fn read_in(&mut self, keyspace: &Keyspace) {
        if self.snapshots.is_empty() || self.rng.one_in(2) {
            return self.read_at(keyspace, keyspace.name(), self.model.clone());
        }
        let (snapshot, then) = self.rng.pick(&self.snapshots).clone();
        let then_keyspace = snapshot.keyspace(keyspace.name()).unwrap();
        self.read_at(&then_keyspace, keyspace.name(), then);
    }

    fn read_at(&mut self, keyspace: &impl Readable, name: &[u8], model: Model) {
        let entries = entries_of(&model, name);
        let key = match self.rng.one_in(2) || entries.is_empty() {
            true => self.config.keys.key(&mut self.rng),
            false => self.rng.pick(&entries).0.to_vec(),
        };
        let found = keyspace.get(&key).unwrap();
        assert_eq!(found.as_deref(), model.get(&documented(name, &key)), "{key:x?}");
        let part = |from: Bound<&[u8]>, to: Bound<&[u8]>| {
            let after = |at: &[u8]| match from {
                Bound::Included(from) => at >= from,
                _ => true,
            };
            let before = |at: &[u8]| match to {
                Bound::Excluded(to) => at < to,
                _ => true,
            };
            let mut part = entries.clone();
            part.retain(|(key, _)| after(key) && before(key));
            part
        };
        let (from, to) = match self.rng.below(3) {
            0 => (Bound::Unbounded, Bound::Unbounded),
            1 => (Bound::Included(&key[..]), Bound::Unbounded),
            _ => (Bound::Unbounded, Bound::Excluded(&key[..])),
        };
        let iter = keyspace.range((from, to));
        match self.rng.one_in(2) {
            true => assert_same(iter.map(owned).collect(), &part(from, to)),
            false => {
                let mut found: Vec<Entry> = iter.rev().map(owned).collect();
                found.reverse();
                assert_same(found, &part(from, to));
            }
        }
        let mut cursor = keyspace.cursor().unwrap();
        let mut at = entries.partition_point(|(at, _)| **at < key[..]);
        let mut valid = cursor.seek(&key).unwrap();
        for _ in 0..self.rng.below(10) {
            assert_eq!(valid, at < entries.len(), "{key:x?}");
            let Some((key, value)) = entries.get(at) else { break };
            assert_eq!((cursor.key(), cursor.value()), (&**key, &**value));
            valid = match self.rng.one_in(2) {
                true => cursor.next().unwrap(),
                false => cursor.prev().unwrap(),
            };
            let moved_to = entries.partition_point(|(at, _)| match valid {
                true => **at < *cursor.key(),
                false => true,
            });
            assert!(!valid || moved_to + 1 == at || moved_to == at + 1);
            assert!(valid || at == 0 || at + 1 == entries.len());
            at = moved_to;
        }
    }
}
