//! The model, which keeps entries in the order of a comparator.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;

use crate::comparators::Order;

#[derive(Clone, Debug)]
pub struct Key {
    pub bytes: Rc<[u8]>,
    order: Order,
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        self.order.compare(&self.bytes, &other.bytes)
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Key {}

pub type Entry = (Rc<[u8]>, Rc<[u8]>);

/// The expected contents of the database. A clone is the model of a snapshot.
#[derive(Clone, Debug)]
pub struct Model {
    order: Order,
    entries: Rc<BTreeMap<Key, Rc<[u8]>>>,
}

impl Model {
    pub fn new(order: Order) -> Model {
        Model { order, entries: Rc::default() }
    }

    fn key(&self, bytes: &[u8]) -> Key {
        Key { bytes: bytes.into(), order: self.order }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        // If two keys are equal, a map keeps the old key, but a database shows the newest key.
        let key = self.key(key);
        let entries = Rc::make_mut(&mut self.entries);
        entries.remove(&key);
        entries.insert(key, value.into());
    }

    pub fn delete(&mut self, key: &[u8]) {
        let key = self.key(key);
        Rc::make_mut(&mut self.entries).remove(&key);
    }

    pub fn set(&mut self, key: &[u8], value: Option<&[u8]>) {
        match value {
            Some(value) => self.put(key, value),
            None => self.delete(key),
        }
    }

    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.entries.get(&self.key(key)).map(|value| &**value)
    }

    pub fn range(&self, start: Bound<&[u8]>, end: Bound<&[u8]>) -> Vec<Entry> {
        use Bound::{Excluded, Included};
        if let (Included(a) | Excluded(a), Included(b) | Excluded(b)) = (start, end) {
            let order = self.order.compare(a, b);
            let both_included = matches!((start, end), (Included(_), Included(_)));
            if order == Ordering::Greater || (order == Ordering::Equal && !both_included) {
                return Vec::new();
            }
        }
        let bounds = (start.map(|key| self.key(key)), end.map(|key| self.key(key)));
        self.entries.range(bounds).map(|(key, value)| (key.bytes.clone(), value.clone())).collect()
    }

    pub fn all(&self) -> Vec<Entry> {
        self.range(Bound::Unbounded, Bound::Unbounded)
    }

    pub fn prefix(&self, prefix: &[u8]) -> Vec<Entry> {
        self.all().into_iter().filter(|(key, _)| key.starts_with(prefix)).collect()
    }

    pub fn first(&self) -> Option<Entry> {
        self.entries.first_key_value().map(entry)
    }

    pub fn last(&self) -> Option<Entry> {
        self.entries.last_key_value().map(entry)
    }

    pub fn at_or_after(&self, key: &[u8]) -> Option<Entry> {
        self.entries.range(self.key(key)..).next().map(entry)
    }

    pub fn at_or_before(&self, key: &[u8]) -> Option<Entry> {
        self.entries.range(..=self.key(key)).next_back().map(entry)
    }

    pub fn after(&self, key: &[u8]) -> Option<Entry> {
        let bounds = (Bound::Excluded(self.key(key)), Bound::Unbounded);
        self.entries.range(bounds).next().map(entry)
    }

    pub fn before(&self, key: &[u8]) -> Option<Entry> {
        self.entries.range(..self.key(key)).next_back().map(entry)
    }
}

fn entry((key, value): (&Key, &Rc<[u8]>)) -> Entry {
    (key.bytes.clone(), value.clone())
}
