//! The entries in order, for cursors and flushes: small sorted leaves under crossbeam's skip list.
//!
//! Writers do not touch it. Whoever needs the order first brings it up to date: what came since
//! is sorted and merged into the leaves it belongs to. So a memtable that is only filled and asked
//! for single keys is sorted once, by the flush, and one that is scanned all the time pays for
//! each entry about what inserting it into the skip list would cost.
//!
//! A key belongs to the last leaf whose own key is not above it; the first leaf's key is below all.
//!
//! Readers take no lock for longer than a copy of a pointer, so a leaf may be split between the
//! moment when a reader finds it and the moment when the reader has its entries. Therefore a leaf
//! is a statement that stays true by itself: *these are the entries from my key up to my end*. All
//! reads go through [`Ordered::last_leaf`], which looks again if the end shows that the leaf was
//! split meanwhile. The skip list is the one of `base::sync`, so that `tests/shuttle` tries what
//! other threads do between any two of its operations.

use std::cmp::Ordering;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use bytes::Bytes;

use super::entries::Entries;
use super::sort::{self, SortKey, compare, compare_entries, head};
use crate::base::Comparator;
use crate::base::sync::{LockRank, Mutex, SkipEntry, SkipMap};

/// A leaf is split in pieces of the first size when it has more than the second. A scheduled run
/// has few entries, and should see splits all the same.
const LEAF_ENTRIES: (usize, usize) = if cfg!(shuttle) { (2, 4) } else { (64, 128) };

/// What an entry takes in a leaf, and a leaf beside its entries, shared by them.
pub const ORDERED_ENTRY_BYTES: usize = size_of::<SortKey>() + 4;

type FoundLeaf<'a> = SkipEntry<'a, LeafKey, Mutex<Arc<Leaf>>>;

/// The entries in order.
#[derive(Debug)]
pub struct Ordered {
    leaves: SkipMap<LeafKey, Mutex<Arc<Leaf>>>,
    covered: Mutex<Covered>,
    order: Option<Arc<dyn Comparator>>,
}

/// How far the leaves have caught up.
#[derive(Debug, Default)]
struct Covered {
    /// Number of entries, from the first one on, that are in the leaves.
    len: u32,
    /// Whether a panic of the comparator may have cut the last catch-up short: leaves may overlap.
    cut_short: bool,
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

/// All entries from the leaf's key up to `end`, ascending, as of when the leaf was made. It never
/// changes; the skip list gets another in its place.
#[derive(Debug, Default)]
pub struct Leaf {
    /// So many bytes of the user keys are the same; heads are what follows.
    shared: usize,
    keys: Box<[SortKey]>,
    /// The key of the next leaf; `None` for the last leaf.
    end: Option<LeafKey>,
}

impl Leaf {
    fn new(
        entries: &Entries,
        numbers: &[u32],
        end: Option<LeafKey>,
        order: Option<&dyn Comparator>,
    ) -> Leaf {
        let key = |index| entries.get(index).map_or(&[][..], |entry| entry.user_key());
        // Under another order the first and the last say nothing of those between.
        let shared = match (numbers, order) {
            ([first, .., last], None) => shared_bytes(key(*first), key(*last)),
            _ => 0,
        };
        let with_head = |&index| SortKey { head: head(key(index), shared), index };
        Leaf { shared, keys: numbers.iter().map(with_head).collect(), end }
    }

    /// The leaf with `new` entries, ascending and within its bounds; of two with the same key the
    /// new one. No look at the keys of its own entries is needed, which would be cache misses, if
    /// the new keys begin as these do; `None` if they do not.
    fn with(&self, entries: &Entries, new: &[u32], order: Option<&dyn Comparator>) -> Option<Leaf> {
        let start = entries.get(self.keys.first()?.index)?.user_key().get(..self.shared)?;
        let starts_so = |index: u32| entries.get(index).map(|e| e.user_key().starts_with(start));
        if !starts_so(*new.first()?)? || !starts_so(*new.last()?)? {
            return None;
        }
        let mut keys = Vec::with_capacity(self.len() + new.len());
        let mut old = &self.keys[..];
        for &index in new {
            let entry = entries.get(index)?;
            let below = self.below(entries, (entry.user_key(), entry.trailer()), order);
            let (before, after) = old.split_at_checked(below + old.len() - self.len())?;
            keys.extend_from_slice(before);
            let head = head(entry.user_key(), self.shared);
            let is_replaced = after.first().is_some_and(|old| {
                (order.is_some() || old.head == head)
                    && compare_entries(entries, old.index, index, order).is_eq()
            });
            old = &after[usize::from(is_replaced)..];
            keys.push(SortKey { head, index });
        }
        keys.extend_from_slice(old);
        Some(Leaf { shared: self.shared, keys: keys.into(), end: self.end.clone() })
    }

    /// How many entries it has.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// The number of an entry.
    pub fn entry(&self, at: usize) -> Option<u32> {
        Some(self.keys.get(at)?.index)
    }

    /// How many entries are below an internal key.
    fn below(
        &self,
        entries: &Entries,
        target: (&[u8], u64),
        order: Option<&dyn Comparator>,
    ) -> usize {
        let below = |key: &SortKey| {
            let found =
                entries.get(key.index).map_or((&[][..], 0), |e| (e.user_key(), e.trailer()));
            compare(found, target, order) == Ordering::Less
        };
        let (user_key, _) = target;
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
        let covered = Mutex::ranked(LockRank::Covered, Covered::default());
        let ordered = Ordered { leaves: SkipMap::new(), covered, order };
        ordered.leaves.insert(ordered.lowest(), Mutex::ranked(LockRank::Leaf, Arc::default()));
        ordered
    }

    /// What `entries` has by now gets its place. The number of those that got one.
    pub fn catch_up(&self, entries: &Entries) -> u32 {
        let mut covered = self.covered.lock();
        let len = entries.len();
        if covered.len == len {
            return 0;
        }
        let order = self.order.as_deref();
        let new = sort::sorted(entries, covered.len..len, order);
        if covered.cut_short {
            self.part_leaves(entries);
        }
        covered.cut_short = true;
        let mut rest = &new[..];
        while let Some(&first) = rest.first() {
            let key = self.leaf_key(entries, first);
            let Some((found, leaf)) = self.last_leaf(Bound::Included(&key)) else { break };
            let here = match &leaf.end {
                None => rest.len(),
                Some(end) => rest.partition_point(|&index| self.leaf_key(entries, index) < *end),
            };
            let (new, later) = rest.split_at(here.max(1));
            self.add(entries, &found, &leaf, new);
            rest = later;
        }
        covered.cut_short = false;
        len - std::mem::replace(&mut covered.len, len)
    }

    /// Ends each leaf where the next one begins. A split that was cut short leaves a leaf that
    /// overlaps some of those made of it; what is added to one would be missing from the other.
    fn part_leaves(&self, entries: &Entries) {
        let mut next: Option<LeafKey> = None;
        let mut bound = Bound::Unbounded;
        while let Some(found) = self.leaves.upper_bound(bound.as_ref()) {
            let leaf = found.value().lock().clone();
            if let Some(end) = next.filter(|next| leaf.end.as_ref() != Some(next)) {
                let target = (&end.user_key[..], end.trailer);
                let below = leaf.below(entries, target, self.order.as_deref());
                let (shared, keys) = (leaf.shared, leaf.keys[..below].into());
                *found.value().lock() = Arc::new(Leaf { shared, keys, end: Some(end) });
            }
            next = Some(found.key().clone());
            bound = Bound::Excluded(found.key().clone());
        }
    }

    /// Adds entries that all belong to `old`, which is what `found` leads to.
    fn add(&self, entries: &Entries, found: &FoundLeaf<'_>, old: &Leaf, new: &[u32]) {
        let order = self.order.as_deref();
        if old.len() + new.len() <= LEAF_ENTRIES.1
            && let Some(leaf) = old.with(entries, new, order)
        {
            *found.value().lock() = Arc::new(leaf);
            return;
        }
        let all = merged(entries, old, new, order);
        let size = if all.len() <= LEAF_ENTRIES.1 { LEAF_ENTRIES.1 } else { LEAF_ENTRIES.0 };
        let mut end = old.end.clone();
        // The last piece first: until its first piece replaces it, the old leaf has what is not
        // in a new one.
        for (at, piece) in all.chunks(size).enumerate().rev() {
            let leaf = Arc::new(Leaf::new(entries, piece, end, order));
            if at == 0 {
                *found.value().lock() = leaf;
                break;
            }
            let key = self.leaf_key(entries, piece[0]);
            self.leaves.insert(key.clone(), Mutex::ranked(LockRank::Leaf, leaf));
            end = Some(key);
        }
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

    /// The key below all others.
    fn lowest(&self) -> LeafKey {
        LeafKey { lowest: true, ..self.key(Bytes::new(), 0) }
    }

    /// The last leaf whose key is within `..bound`, with all the entries between the two.
    fn last_leaf(&self, bound: Bound<&LeafKey>) -> Option<(FoundLeaf<'_>, Arc<Leaf>)> {
        loop {
            let found = self.leaves.upper_bound(bound)?;
            let leaf = found.value().lock().clone();
            let was_split =
                leaf.end.as_ref().is_some_and(|end| (Bound::Unbounded, bound).contains(end));
            if !was_split {
                return Some((found, leaf));
            }
        }
    }

    /// Where the entries at or above a key begin.
    pub fn lower_bound(&self, entries: &Entries, key: &LeafKey) -> Option<Place> {
        let (_, leaf) = self.last_leaf(Bound::Included(key))?;
        let at = leaf.below(entries, (&key.user_key, key.trailer), self.order.as_deref());
        self.at_or_after(leaf, at)
    }

    /// The last entry below a key.
    pub fn before(&self, entries: &Entries, key: &LeafKey) -> Option<Place> {
        let (found, leaf) = self.last_leaf(Bound::Excluded(key))?;
        let below = leaf.below(entries, (&key.user_key, key.trailer), self.order.as_deref());
        match below.checked_sub(1) {
            Some(at) => Some(Place { leaf, at }),
            None => self.before(entries, found.key()),
        }
    }

    /// The first entry.
    pub fn first(&self) -> Option<Place> {
        let (_, leaf) = self.last_leaf(Bound::Included(&self.lowest()))?;
        self.at_or_after(leaf, 0)
    }

    /// The last entry.
    pub fn last(&self, entries: &Entries) -> Option<Place> {
        let (found, leaf) = self.last_leaf(Bound::Unbounded)?;
        match leaf.len().checked_sub(1) {
            Some(at) => Some(Place { leaf, at }),
            None => self.before(entries, found.key()),
        }
    }

    /// The entry at a place, or if there the leaf ends the one after it.
    pub fn at_or_after(&self, mut leaf: Arc<Leaf>, mut at: usize) -> Option<Place> {
        while at >= leaf.len() {
            let (_, next) = self.last_leaf(Bound::Included(leaf.end.as_ref()?))?;
            (leaf, at) = (next, 0);
        }
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
