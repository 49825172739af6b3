//! The entries in order, for cursors and flushes: small sorted leaves under crossbeam's skip list.
//!
//! Writers do not touch it. Whoever needs the order first brings it up to date: what came since
//! is sorted and merged into the leaves it belongs to. So a memtable that is only filled and asked
//! for single keys is sorted once, by the flush, and one that is scanned all the time pays for
//! each entry about what inserting it into the skip list would cost.
//!
//! A key belongs to the last leaf whose own key is not above it; the first leaf's key is below all.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use crossbeam_skiplist::SkipMap;

use super::entries::Entries;
use super::sort::{self, SortKey, compare, compare_entries, head};
use crate::base::Comparator;
use crate::base::sync::Mutex;

/// A leaf is split in pieces of the first size when it has more than the second.
const LEAF_ENTRIES: (usize, usize) = (64, 128);

/// What an entry takes in a leaf, and a leaf beside its entries, shared by them.
pub const ORDERED_ENTRY_BYTES: usize = size_of::<SortKey>() + 4;

type FoundLeaf<'a> = crossbeam_skiplist::map::Entry<'a, LeafKey, Mutex<Arc<Leaf>>>;

/// The entries in order.
#[derive(Debug)]
pub struct Ordered {
    leaves: SkipMap<LeafKey, Mutex<Arc<Leaf>>>,
    /// How many entries, from the first one on, are in the leaves.
    covered: Mutex<u32>,
    order: Option<Arc<dyn Comparator>>,
}

/// What a leaf is found by: an internal key. It carries its order, so that `Ord` can be a
/// comparator chosen at run time.
#[derive(Clone, Debug)]
pub struct LeafKey {
    /// Whether it is below every key.
    lowest: bool,
    /// Decides most comparisons in byte order without a look at the key.
    head: u64,
    trailer: u64,
    user_key: Bytes,
    order: Option<Arc<dyn Comparator>>,
}

impl Ord for LeafKey {
    #[inline]
    fn cmp(&self, other: &LeafKey) -> Ordering {
        let by_head = match self.order {
            _ if self.lowest || other.lowest => return other.lowest.cmp(&self.lowest),
            None => self.head.cmp(&other.head),
            Some(_) => Ordering::Equal,
        };
        by_head.then_with(|| {
            let (a, b) = ((&self.user_key[..], self.trailer), (&other.user_key[..], other.trailer));
            compare(a, b, self.order.as_deref())
        })
    }
}

impl PartialOrd for LeafKey {
    #[inline]
    fn partial_cmp(&self, other: &LeafKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for LeafKey {
    fn eq(&self, other: &LeafKey) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for LeafKey {}

/// A run of entries, ascending. It never changes; the skip list gets another in its place.
#[derive(Debug, Default)]
pub struct Leaf {
    /// So many bytes of the user keys are the same; heads are what follows.
    shared: usize,
    keys: Box<[SortKey]>,
}

impl Leaf {
    fn new(entries: &Entries, numbers: &[u32], order: Option<&dyn Comparator>) -> Leaf {
        let key = |index| entries.get(index).map_or(&[][..], |entry| entry.user_key());
        // Under another order the first and the last say nothing of those between.
        let shared = match (numbers, order) {
            ([first, .., last], None) => shared_bytes(key(*first), key(*last)),
            _ => 0,
        };
        let with_head = |&index| SortKey { head: head(key(index), shared), index };
        Leaf { shared, keys: numbers.iter().map(with_head).collect() }
    }

    /// How many entries it has.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// The number of an entry.
    pub fn entry(&self, at: usize) -> Option<u32> {
        Some(self.keys.get(at)?.index)
    }

    /// How many entries are below an internal key, and with `or_equal` also those that are it.
    fn below(
        &self,
        entries: &Entries,
        (user_key, trailer): (&[u8], u64),
        order: Option<&dyn Comparator>,
        or_equal: bool,
    ) -> usize {
        let below = |key: &SortKey| {
            let found =
                entries.get(key.index).map_or((&[][..], 0), |e| (e.user_key(), e.trailer()));
            match compare(found, (user_key, trailer), order) {
                Ordering::Less => true,
                Ordering::Equal => or_equal,
                Ordering::Greater => false,
            }
        };
        let Some(first) = self.keys.first() else { return 0 };
        if order.is_some() {
            return self.keys.partition_point(below);
        }
        let shared = entries.get(first.index).map_or(&[][..], |entry| entry.user_key());
        let shared = shared.get(..self.shared).unwrap_or_default();
        match user_key.get(..self.shared) {
            Some(start) if start == shared => {
                let target = head(user_key, self.shared);
                let from = self.keys.partition_point(|key| key.head < target);
                let equal = self.keys[from..].partition_point(|key| key.head == target);
                from + self.keys[from..from + equal].partition_point(below)
            }
            Some(start) if start > shared => self.keys.len(),
            None if user_key > shared => self.keys.len(),
            _ => 0,
        }
    }
}

fn shared_bytes(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

impl Ordered {
    /// One without entries, under an order other than that of bytes, or under that.
    pub fn new(order: Option<Arc<dyn Comparator>>) -> Ordered {
        let ordered = Ordered { leaves: SkipMap::new(), covered: Mutex::new(0), order };
        let lowest = LeafKey { lowest: true, ..ordered.key(Bytes::new(), 0) };
        ordered.leaves.insert(lowest, Mutex::default());
        ordered
    }

    /// What `entries` has by now gets its place. The number of those that got one.
    pub fn catch_up(&self, entries: &Entries) -> u32 {
        let mut covered = self.covered.lock();
        let len = entries.len();
        if *covered == len {
            return 0;
        }
        let order = self.order.as_deref();
        let new = sort::sorted(entries, *covered..len, order);
        let mut rest = &new[..];
        while let Some(&first) = rest.first() {
            let Some(leaf) = self.leaf_of(&self.leaf_key(entries, first)) else { break };
            let next = leaf.next();
            let here = match &next {
                None => rest.len(),
                Some(next) => rest.partition_point(|&index| {
                    self.leaf_key(entries, index).cmp(next.key()) == Ordering::Less
                }),
            };
            let (new, later) = rest.split_at(here.max(1));
            self.add(entries, &leaf, new);
            rest = later;
        }
        let added = len - *covered;
        *covered = len;
        added
    }

    /// Adds entries that all belong to `leaf`.
    fn add(&self, entries: &Entries, leaf: &FoundLeaf<'_>, new: &[u32]) {
        let order = self.order.as_deref();
        let old = leaf.value().lock().clone();
        let all = merged(entries, &old, new, order);
        let pieces = if all.len() <= LEAF_ENTRIES.1 { all.len() } else { LEAF_ENTRIES.0 };
        let mut pieces = all.chunks(pieces);
        let first = pieces.next().unwrap_or_default();
        // The new leaves first: a cursor may meet an entry in two leaves, never in none.
        for piece in pieces {
            let key = self.leaf_key(entries, piece[0]);
            let leaf = Arc::new(Leaf::new(entries, piece, order));
            self.leaves.insert(key, Mutex::new(leaf));
        }
        *leaf.value().lock() = Arc::new(Leaf::new(entries, first, order));
    }

    fn leaf_key(&self, entries: &Entries, index: u32) -> LeafKey {
        let (user_key, trailer) = entries
            .get(index)
            .map_or((Bytes::new(), 0), |entry| (entry.user_key_bytes(), entry.trailer()));
        self.key(user_key, trailer)
    }

    /// The key to look for a leaf by.
    pub fn key(&self, user_key: Bytes, trailer: u64) -> LeafKey {
        LeafKey {
            lowest: false,
            head: head(&user_key, 0),
            trailer,
            user_key,
            order: self.order.clone(),
        }
    }

    fn leaf_of(&self, key: &LeafKey) -> Option<FoundLeaf<'_>> {
        self.leaves.upper_bound(Bound::Included(key))
    }

    /// Where the entries at or above a key begin (above it, with `after`).
    pub fn lower_bound(&self, entries: &Entries, key: &LeafKey, after: bool) -> Option<Place> {
        let mut leaf = self.leaf_of(key);
        while let Some(entry) = leaf {
            let found = entry.value().lock().clone();
            let target = (&key.user_key[..], key.trailer);
            let at = found.below(entries, target, self.order.as_deref(), after);
            if at < found.len() {
                return Some(Place { leaf: found, at });
            }
            leaf = entry.next();
        }
        None
    }

    /// The last entry below a key.
    pub fn before(&self, entries: &Entries, key: &LeafKey) -> Option<Place> {
        let mut leaf = self.leaf_of(key);
        while let Some(entry) = leaf {
            let found = entry.value().lock().clone();
            let target = (&key.user_key[..], key.trailer);
            let at = found.below(entries, target, self.order.as_deref(), false);
            if let Some(at) = at.checked_sub(1) {
                return Some(Place { leaf: found, at });
            }
            leaf = entry.prev();
        }
        None
    }

    /// The first entry.
    pub fn first(&self) -> Option<Place> {
        let leaf = self.leaves.front()?.value().lock().clone();
        (leaf.len() > 0).then_some(Place { leaf, at: 0 })
    }

    /// The last entry.
    pub fn last(&self) -> Option<Place> {
        let leaf = self.leaves.back()?.value().lock().clone();
        let at = leaf.len().checked_sub(1)?;
        Some(Place { leaf, at })
    }
}

/// An entry's place: the leaf as it was found, and where in it.
#[derive(Clone, Debug)]
pub struct Place {
    /// The leaf.
    pub leaf: Arc<Leaf>,
    /// Which of its entries.
    pub at: usize,
}

/// The entries of a leaf and `new` ones, both ascending, as one run; of two with the same key the
/// new one.
fn merged(entries: &Entries, old: &Leaf, new: &[u32], order: Option<&dyn Comparator>) -> Vec<u32> {
    let mut all = Vec::with_capacity(old.len() + new.len());
    let mut old = old.keys.iter().map(|key| key.index).peekable();
    for &index in new {
        let compare = |old: &u32| compare_entries(entries, *old, index, order);
        while let Some(older) = old.next_if(|old| compare(old).is_lt()) {
            all.push(older);
        }
        let _replaced = old.next_if(|old| compare(old).is_eq());
        all.push(index);
    }
    all.extend(old);
    all
}
