//! The writes of an uncommitted transaction, which its reads show above everything in the database:
//! a map ordered by the database's comparator, and a list of changes with which the map can be
//! rolled back to a savepoint.
//!
//! A cursor shows the writes that were made before it was created: the first write after that
//! copies the map, if the cursor still exists.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use crate::format::batch::WriteBatch;
use crate::format::key::{
    InternalComparator, KeyKind, MAX_SEQ_NO, SeqNo, UserComparator, append_internal_key, user_key,
};

/// The sequence number of a transaction's writes in its reads. It is the highest one, so that these
/// writes come before all versions in the database.
pub(super) const OWN_SEQ: SeqNo = MAX_SEQ_NO;

/// A key together with its comparator, so that `Ord` can use a comparator chosen at run time.
#[derive(Clone, Debug)]
struct OwnKey {
    key: Bytes,
    order: UserComparator,
}

impl OwnKey {
    fn new(key: &[u8], order: &InternalComparator) -> OwnKey {
        OwnKey { key: Bytes::copy_from_slice(key), order: order.user().clone() }
    }
}

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

/// The last write of each key: a value, or `None` for a deletion.
type OwnMap = BTreeMap<OwnKey, Option<Bytes>>;

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
pub(crate) struct OwnWrites {
    order: InternalComparator,
    map: Arc<OwnMap>,
    /// The changes since the first savepoint, oldest first.
    changes: Vec<Change>,
    /// The savepoints that can be rolled back to: the number of each savepoint, and the length of
    /// `changes` when the savepoint was set.
    savepoints: Vec<(u64, usize)>,
    /// Number of the next savepoint.
    next_savepoint: u64,
}

impl OwnWrites {
    pub(crate) fn new(order: InternalComparator) -> OwnWrites {
        OwnWrites {
            order,
            map: Arc::default(),
            changes: Vec::new(),
            savepoints: Vec::new(),
            next_savepoint: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Returns the number of keys written.
    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    /// Adds a write; a value of `None` is a deletion.
    pub(crate) fn write(&mut self, key: &[u8], value: Option<Bytes>) {
        let key = OwnKey::new(key, &self.order);
        let map = Arc::make_mut(&mut self.map);
        // If the comparator considers different bytes to be the same key, the map must have the
        // newest bytes, as a memtable does. So the old key is removed, too.
        let before = map.remove_entry(&key);
        if !self.savepoints.is_empty() {
            self.changes.push(Change { key: key.clone(), before });
        }
        map.insert(key, value);
    }

    /// Sets a savepoint. Returns its number.
    pub(crate) fn savepoint(&mut self) -> u64 {
        let number = self.next_savepoint;
        self.next_savepoint += 1;
        self.savepoints.push((number, self.changes.len()));
        number
    }

    /// Undoes everything since the savepoint with this number. Keeps the savepoint, and forgets
    /// later savepoints. Returns whether there is such a savepoint.
    pub(crate) fn rollback_to(&mut self, number: u64) -> bool {
        let Some(at) = self.savepoints.iter().position(|savepoint| savepoint.0 == number) else {
            return false;
        };
        let map = Arc::make_mut(&mut self.map);
        for change in self.changes.drain(self.savepoints[at].1..).rev() {
            map.remove(&change.key);
            map.extend(change.before);
        }
        self.savepoints.truncate(at + 1);
        true
    }

    /// Returns the write of `key`, if there is one: its value, or `None` for a deletion.
    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Option<Bytes>> {
        if self.map.is_empty() { None } else { self.map.get(&OwnKey::new(key, &self.order)) }
    }

    /// Returns a cursor over the writes; `None` if there are none.
    pub(super) fn cursor(&self) -> Option<OwnCursor> {
        if self.map.is_empty() {
            return None;
        }
        let (map, order) = (self.map.clone(), self.order.clone());
        Some(OwnCursor { map, order, at: None, internal_key: Vec::new() })
    }

    /// Returns the writes as a batch.
    pub(crate) fn to_batch(&self) -> WriteBatch {
        let mut batch = WriteBatch::new();
        for (key, value) in &*self.map {
            match value {
                Some(value) => batch.put(&key.key, value),
                None => batch.delete(&key.key),
            }
        }
        batch
    }
}

/// A cursor over the writes of a transaction, as versions with the sequence number [`OWN_SEQ`].
/// Every move returns whether the cursor is at a write.
#[derive(Clone, Debug)]
pub(crate) struct OwnCursor {
    map: Arc<OwnMap>,
    order: InternalComparator,
    /// The current write.
    at: Option<(OwnKey, Option<Bytes>)>,
    /// The internal key of the current write.
    internal_key: Vec<u8>,
}

impl OwnCursor {
    /// Returns the internal key.
    pub(super) fn key(&self) -> &[u8] {
        &self.internal_key
    }

    /// Returns the value; empty for a deletion.
    pub(super) fn value(&self) -> &[u8] {
        self.at.as_ref().and_then(|(_, value)| value.as_deref()).unwrap_or_default()
    }

    pub(super) fn value_bytes(&self) -> Bytes {
        self.at.as_ref().and_then(|(_, value)| value.clone()).unwrap_or_default()
    }

    pub(super) fn seek_to_first(&mut self) -> bool {
        self.first_from(Bound::Unbounded)
    }

    pub(super) fn seek_to_last(&mut self) -> bool {
        self.last_to(Bound::Unbounded)
    }

    /// Moves to the first write at or after the internal key `target`.
    pub(super) fn seek(&mut self, target: &[u8]) -> bool {
        let valid = self.first_from(Bound::Included(OwnKey::new(user_key(target), &self.order)));
        if valid && self.order.compare(&self.internal_key, target).is_lt() {
            return self.next();
        }
        valid
    }

    /// Moves to the last write before the internal key `target`. If `or_at` is set and `target` is
    /// itself a write, moves to that write instead.
    pub(super) fn seek_before(&mut self, target: &[u8], or_at: bool) -> bool {
        if !self.last_to(Bound::Included(OwnKey::new(user_key(target), &self.order))) {
            return false;
        }
        match self.order.compare(&self.internal_key, target) {
            Ordering::Less => true,
            Ordering::Equal if or_at => true,
            _ => self.prev(),
        }
    }

    pub(super) fn next(&mut self) -> bool {
        let Some((key, _)) = self.at.take() else { return false };
        self.first_from(Bound::Excluded(key))
    }

    pub(super) fn prev(&mut self) -> bool {
        let Some((key, _)) = self.at.take() else { return false };
        self.last_to(Bound::Excluded(key))
    }

    fn first_from(&mut self, from: Bound<OwnKey>) -> bool {
        let first = self.map.range((from, Bound::Unbounded)).next();
        self.at = first.map(|(key, value)| (key.clone(), value.clone()));
        self.set_internal_key()
    }

    fn last_to(&mut self, to: Bound<OwnKey>) -> bool {
        let last = self.map.range((Bound::Unbounded, to)).next_back();
        self.at = last.map(|(key, value)| (key.clone(), value.clone()));
        self.set_internal_key()
    }

    /// Sets the internal key to that of the current write. Returns whether there is one.
    fn set_internal_key(&mut self) -> bool {
        self.internal_key.clear();
        let Some((key, value)) = &self.at else { return false };
        let kind = if value.is_some() { KeyKind::Value } else { KeyKind::Deletion };
        append_internal_key(&mut self.internal_key, &key.key, OWN_SEQ, kind);
        true
    }
}
