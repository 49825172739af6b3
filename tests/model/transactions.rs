//! Transactions that stay open while other operations run, and their expected results.

use std::ops::Bound;

use bytes::Bytes;
use minikv::{Db, Error, ReadOptions, Readable, Result, Savepoint, Transaction, WriteOptions};

use crate::comparators::Order;
use crate::crash::Change;
use crate::keys::value;
use crate::order::{Entry, Model};
use crate::rng::Rng;

pub type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// An open transaction.
pub struct Open {
    transaction: Transaction,
    order: Order,
    /// The expected view of the transaction: the state when it began, with its own changes.
    model: Model,
    changes: Vec<Change>,
    /// The keys and ranges that the transaction has read.
    reads: Vec<Bounds>,
    /// The keys that other writers have written since the transaction began.
    written: Vec<Vec<u8>>,
    /// The ranges that other writers have deleted since the transaction began. A deleted range may
    /// conflict with a read of the range even if the read found nothing.
    deleted: Vec<Bounds>,
    savepoint: Option<Saved>,
}

/// A savepoint, with the view and the changes that the transaction had when the savepoint was set.
struct Saved {
    savepoint: Savepoint,
    model: Model,
    changes: usize,
}

impl Open {
    pub fn begin(db: &Db, model: &Model, order: Order) -> Open {
        Open {
            transaction: db.transaction(),
            order,
            model: model.clone(),
            changes: Vec::new(),
            reads: Vec::new(),
            written: Vec::new(),
            deleted: Vec::new(),
            savepoint: None,
        }
    }

    /// Records the changes made by another write.
    pub fn note(&mut self, changes: &[Change]) {
        self.written.extend(changes.iter().map(|(key, _)| key.clone()));
    }

    /// Records that another write has deleted a range.
    pub fn note_range(&mut self, range: &Bounds) {
        self.deleted.push(range.clone());
    }

    /// Performs a random step: reads keys, reads a range, moves a cursor, writes `key`, or uses a
    /// savepoint.
    pub fn step(&mut self, rng: &mut Rng, operation: u64, key: Vec<u8>, other: Vec<u8>) {
        match rng.below(12) {
            0..2 => self.look_up(rng, key, other),
            8 => self.walk(rng, &key),
            9 => self.save_or_roll_back(rng),
            2 => {
                let found = self
                    .transaction
                    .reading(ReadOptions::default().track(false))
                    .get(&key)
                    .unwrap();
                assert_eq!(found.as_deref(), self.model.get(&key), "{key:x?} untracked");
            }
            3 => self.scan(rng, key, other),
            _ => {
                let new = (!rng.one_in(3)).then(|| value(rng, operation));
                match &new {
                    Some(new) => self.transaction.put(&key, new),
                    None => self.transaction.delete(&key),
                }
                self.model.set(&key, new.as_deref());
                self.changes.push((key, new));
            }
        }
    }

    /// Reads one key or two keys.
    fn look_up(&mut self, rng: &mut Rng, key: Vec<u8>, other: Vec<u8>) {
        let expected = self.model.get(&key);
        let mut read = vec![key.clone()];
        match rng.below(3) {
            0 => {
                let found = self.transaction.get(&key).unwrap();
                assert_eq!(found.as_deref(), expected, "{key:x?} in a transaction");
            }
            1 => {
                let found = self.transaction.contains_key(&key).unwrap();
                assert_eq!(found, expected.is_some(), "{key:x?} in a transaction");
            }
            _ => {
                let found = self.transaction.multi_get(&[&key, &other]).unwrap();
                let found: Vec<_> = found.iter().map(Option::as_deref).collect();
                assert_eq!(found, [expected, self.model.get(&other)], "{key:x?}, {other:x?}");
                read.push(other);
            }
        }
        for key in read {
            if !self.changes.iter().any(|change| self.same(&change.0, &key)) {
                self.reads.push((Bound::Included(key.clone()), Bound::Included(key)));
            }
        }
    }

    /// Moves a cursor a few steps in one direction. The range through which the cursor moves counts
    /// as read.
    fn walk(&mut self, rng: &mut Rng, key: &[u8]) {
        let mut cursor = self.transaction.cursor().unwrap();
        let back = rng.one_in(2);
        let mut expected = match back {
            true => self.model.at_or_before(key),
            false => self.model.at_or_after(key),
        };
        let mut valid =
            if back { cursor.seek_for_prev(key).unwrap() } else { cursor.seek(key).unwrap() };
        let mut last = None;
        for step in 0..=rng.below(6) {
            assert_eq!(valid, expected.is_some(), "step {step}, from the back: {back}");
            let Some((at, value)) = expected else {
                last = None;
                break;
            };
            assert_eq!((cursor.key(), cursor.value()), (&*at, &*value));
            expected = if back { self.model.before(&at) } else { self.model.after(&at) };
            valid = if back { cursor.prev().unwrap() } else { cursor.next().unwrap() };
            // The entry to which the cursor has moved counts as read, too.
            last = expected.as_ref().map(|(key, _)| key.to_vec());
        }
        let (from, to) =
            (Bound::Included(key.to_vec()), last.map_or(Bound::Unbounded, Bound::Included));
        self.reads.push(if back { (to, from) } else { (from, to) });
    }

    /// Sets a savepoint, or rolls back to the savepoint.
    fn save_or_roll_back(&mut self, rng: &mut Rng) {
        match &self.savepoint {
            Some(saved) if rng.one_in(2) => {
                self.transaction.rollback_to(&saved.savepoint).unwrap();
                self.model = saved.model.clone();
                self.changes.truncate(saved.changes);
            }
            _ => {
                let savepoint = self.transaction.savepoint();
                let (model, changes) = (self.model.clone(), self.changes.len());
                self.savepoint = Some(Saved { savepoint, model, changes });
            }
        }
    }

    /// Reads a range from one end, and usually stops before the other end.
    fn scan(&mut self, rng: &mut Rng, from: Vec<u8>, to: Vec<u8>) {
        let (mut from, mut to) = (Bound::Included(from), Bound::Excluded(to));
        let back = rng.one_in(2);
        if !self.changes.is_empty() && rng.one_in(2) {
            // The transaction has few writes of its own. Half of the scans therefore begin or end
            // at one of them.
            let own = Bound::Included(rng.pick(&self.changes).0.clone());
            (from, to) = match back {
                true => (Bound::Unbounded, own),
                false => (own, Bound::Unbounded),
            };
        }
        let mut left = self.model.range(slice(&from), slice(&to));
        let mut iter = self.transaction.range((from.clone(), to.clone()));
        let mut last = None;
        for _ in 0..rng.below(8) {
            let (found, expected) = match back {
                true => (iter.next_back(), left.pop()),
                false => (iter.next(), (!left.is_empty()).then(|| left.remove(0))),
            };
            assert_eq!(found.map(owned), expected, "in a transaction, from the back: {back}");
            last = Some(expected.map(|(key, _)| Bound::Included(key.to_vec())));
        }
        self.reads.extend(match (last, back) {
            (None, _) => None,
            (Some(None), _) => Some((from, to)),
            (Some(Some(key)), true) => Some((key, to)),
            (Some(Some(key)), false) => Some((from, key)),
        });
    }

    fn same(&self, a: &[u8], b: &[u8]) -> bool {
        self.order.compare(a, b).is_eq()
    }

    fn is_in(&self, key: &[u8], (from, to): &Bounds) -> bool {
        self.begins_by(from, key) && self.ends_at_or_after(to, key)
    }

    fn begins_by(&self, from: &Bound<Vec<u8>>, key: &[u8]) -> bool {
        match from {
            Bound::Unbounded => true,
            Bound::Included(from) => self.order.compare(from, key).is_le(),
            Bound::Excluded(from) => self.order.compare(from, key).is_lt(),
        }
    }

    fn ends_at_or_after(&self, to: &Bound<Vec<u8>>, key: &[u8]) -> bool {
        match to {
            Bound::Unbounded => true,
            Bound::Included(to) => self.order.compare(key, to).is_le(),
            Bound::Excluded(to) => self.order.compare(key, to).is_lt(),
        }
    }

    fn has_read(&self, key: &[u8]) -> bool {
        self.reads.iter().any(|read| self.is_in(key, read))
    }

    /// Returns whether two ranges may overlap: each begins before the other ends.
    fn meet(&self, a: &Bounds, b: &Bounds) -> bool {
        let begins_by_end = |(from, _): &Bounds, (_, to): &Bounds| match to {
            Bound::Unbounded => true,
            Bound::Included(key) | Bound::Excluded(key) => self.begins_by(from, key),
        };
        begins_by_end(a, b) && begins_by_end(b, a)
    }

    fn may_conflict(&self) -> bool {
        let mut deleted = self.deleted.iter();
        deleted.any(|range| self.reads.iter().any(|read| self.meet(range, read)))
    }

    /// Returns whether a commit must fail because of what other writers have written.
    fn conflicts(&self) -> bool {
        !self.changes.is_empty() && self.written.iter().any(|key| self.has_read(key))
    }

    /// Commits, and checks that the commit conflicts if it must, and only if it may. Returns the
    /// changes, or `None` after a conflict.
    pub fn commit(self, sync: bool) -> Option<Vec<Change>> {
        let (conflicts, may_conflict) = (self.conflicts(), self.may_conflict());
        let both = self.written.iter().find(|key| self.has_read(key)).cloned();
        match self.transaction.writing(WriteOptions::default().sync(sync)).commit() {
            Ok(()) => {
                assert!(!conflicts, "{both:x?} was written and read");
                Some(self.changes)
            }
            Err(error) => {
                assert!((conflicts || may_conflict) && error.is_conflict(), "{error}");
                None
            }
        }
    }

    /// Commits to a database that was closed.
    pub fn commit_after_close(self) {
        let (conflicts, writes) = (self.conflicts(), !self.changes.is_empty());
        let may_conflict = self.may_conflict();
        match self.transaction.commit() {
            Ok(()) => assert!(!writes, "a write to a closed database"),
            Err(Error::Closed) => assert!(!conflicts && writes),
            Err(error) => {
                assert!((conflicts || may_conflict) && error.is_conflict(), "{error}");
            }
        }
    }
}

fn slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

fn owned(entry: Result<(Bytes, Bytes)>) -> Entry {
    let (key, value) = entry.unwrap();
    ((&*key).into(), (&*value).into())
}
