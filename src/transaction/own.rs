//! The writes of an uncommitted transaction: a map ordered by the database's comparator, and a list
//! of changes with which the map can be rolled back to a savepoint.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;

use crate::format::batch::WriteBatch;
use crate::format::key::UserComparator;

/// A key together with its comparator, so that `Ord` can use a comparator chosen at run time.
#[derive(Clone, Debug)]
struct OwnKey {
    key: Bytes,
    order: UserComparator,
}

/// A key together with its comparator, borrowed or owned. The map is searched with this type.
trait Ordered {
    fn key(&self) -> &[u8];
    fn order(&self) -> &UserComparator;
}

impl Ordered for OwnKey {
    fn key(&self) -> &[u8] {
        &self.key
    }

    fn order(&self) -> &UserComparator {
        &self.order
    }
}

impl Ordered for (&[u8], &UserComparator) {
    fn key(&self) -> &[u8] {
        self.0
    }

    fn order(&self) -> &UserComparator {
        self.1
    }
}

impl<'a> Borrow<dyn Ordered + 'a> for OwnKey {
    fn borrow(&self) -> &(dyn Ordered + 'a) {
        self
    }
}

impl Ord for dyn Ordered + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().compare(self.key(), other.key())
    }
}

impl PartialOrd for dyn Ordered + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for dyn Ordered + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for dyn Ordered + '_ {}

impl Ord for OwnKey {
    fn cmp(&self, other: &OwnKey) -> Ordering {
        self.order.compare(&self.key, &other.key)
    }
}

impl PartialOrd for OwnKey {
    fn partial_cmp(&self, other: &OwnKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for OwnKey {
    fn eq(&self, other: &OwnKey) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for OwnKey {}

/// The last write of a key in the transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnWrite<'a> {
    /// The key, as it was written.
    pub key: &'a [u8],
    /// The value; `None` for a deletion.
    pub value: Option<&'a Bytes>,
}

impl<'a> OwnWrite<'a> {
    fn of((key, value): (&'a OwnKey, &'a Option<Bytes>)) -> OwnWrite<'a> {
        OwnWrite { key: &key.key, value: value.as_ref() }
    }
}

/// A change of the map that can be undone.
#[derive(Debug)]
struct Change {
    key: OwnKey,
    /// The write that the change replaced, with the key bytes of that write; `None` if the key had
    /// no earlier write.
    before: Option<(OwnKey, Option<Bytes>)>,
}

/// The writes of a transaction: the last write of each key.
#[derive(Debug)]
pub(super) struct OwnWrites {
    order: UserComparator,
    map: BTreeMap<OwnKey, Option<Bytes>>,
    /// The changes since the first savepoint, oldest first.
    changes: Vec<Change>,
    /// The savepoints that can be rolled back to: the number of each savepoint, and the length of
    /// `changes` when the savepoint was set.
    savepoints: Vec<(u64, usize)>,
    /// Number of the next savepoint.
    next_savepoint: u64,
}

impl OwnWrites {
    pub(super) fn new(order: UserComparator) -> OwnWrites {
        OwnWrites {
            order,
            map: BTreeMap::new(),
            changes: Vec::new(),
            savepoints: Vec::new(),
            next_savepoint: 0,
        }
    }

    /// Returns the order of keys.
    pub(super) fn order(&self) -> &UserComparator {
        &self.order
    }

    pub(super) fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Returns the number of keys written.
    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    /// Adds a write; a value of `None` is a deletion.
    pub(super) fn write(&mut self, key: &[u8], value: Option<Bytes>) {
        // If the comparator considers different bytes to be the same key, the map must have the
        // newest bytes, as a memtable does. So the old key is removed, too.
        let before = self.map.remove_entry::<dyn Ordered>(&(key, &self.order));
        let key = OwnKey { key: Bytes::copy_from_slice(key), order: self.order.clone() };
        if !self.savepoints.is_empty() {
            self.changes.push(Change { key: key.clone(), before });
        }
        self.map.insert(key, value);
    }

    /// Sets a savepoint. Returns its number.
    pub(super) fn savepoint(&mut self) -> u64 {
        let number = self.next_savepoint;
        self.next_savepoint += 1;
        self.savepoints.push((number, self.changes.len()));
        number
    }

    /// Undoes everything since the savepoint with this number. Keeps the savepoint, and forgets
    /// later savepoints. Returns whether there is such a savepoint.
    pub(super) fn rollback_to(&mut self, number: u64) -> bool {
        let Some(at) = self.savepoints.iter().position(|savepoint| savepoint.0 == number) else {
            return false;
        };
        for change in self.changes.drain(self.savepoints[at].1..).rev() {
            self.map.remove(&change.key);
            self.map.extend(change.before);
        }
        self.savepoints.truncate(at + 1);
        true
    }

    /// Returns the write of `key`, if there is one.
    pub(super) fn get(&self, key: &[u8]) -> Option<OwnWrite<'_>> {
        if self.map.is_empty() {
            return None;
        }
        self.map.get_key_value::<dyn Ordered>(&(key, &self.order)).map(OwnWrite::of)
    }

    /// Returns the first write that is within this lower bound.
    pub(super) fn first_from(&self, from: Bound<&[u8]>) -> Option<OwnWrite<'_>> {
        self.between(from, Bound::Unbounded).next()
    }

    /// Returns the last write that is within this upper bound.
    pub(super) fn last_to(&self, to: Bound<&[u8]>) -> Option<OwnWrite<'_>> {
        self.between(Bound::Unbounded, to).next_back()
    }

    /// Returns the writes within the bounds. At least one of the bounds must be unbounded.
    fn between(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> impl DoubleEndedIterator<Item = OwnWrite<'_>> {
        let (from, to) = (from.map(|key| (key, &self.order)), to.map(|key| (key, &self.order)));
        let from = from.as_ref().map(|key| key as &dyn Ordered);
        let to = to.as_ref().map(|key| key as &dyn Ordered);
        self.map.range::<dyn Ordered, _>((from, to)).map(OwnWrite::of)
    }

    /// Returns the writes as a batch.
    pub(super) fn to_batch(&self) -> WriteBatch {
        let mut batch = WriteBatch::new();
        for (key, value) in &self.map {
            match value {
                Some(value) => batch.put(&key.key, value),
                None => batch.delete(&key.key),
            }
        }
        batch
    }
}
