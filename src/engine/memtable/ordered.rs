//! The entries in key order, for cursors: small sorted leaves under crossbeam's skip list.
//!
//! Writers do not update the key order. A reader that needs the key order first brings it up to
//! date: it sorts the entries inserted since the last update and merges them into the leaves that
//! they belong to. So a memtable that serves only point lookups is sorted once, by the flush
//! (`Memtable::for_each`, which does not use the leaves). In a memtable that is scanned all the
//! time, each entry costs about as much as an insert into a skip list.
//!
//! The skip list lets cursors search while leaves are added, without a lock on the whole map.
//!
//! # Thread safety
//! Any number of threads may search the leaves and call `catch_up`. [`Ordered::catch_up`] holds
//! `covered` while it changes leaves, so only one thread at a time changes them. Searches take a
//! leaf's lock only to copy a pointer.
//!
//! # Invariants
//! 1. A [`Leaf`] never changes; the map gets a new leaf in its place. A leaf lists every entry that
//!    is in the range `[key of the leaf, end)` and was covered when the leaf was made.
//! 2. A key belongs to the last leaf whose own key is not greater. The key of the first leaf is
//!    less than every other key, so each key belongs to one leaf.
//! 3. The entries of a leaf ascend by internal key, and are in the range `[key of the leaf, end)`.
//! 4. Outside of a split, the `end` of each leaf is the key of the next leaf, and the last leaf has
//!    no `end`. During a split, the new leaves are added from the last to the first, and the old
//!    leaf is replaced last: until then, it still contains every entry of the new leaves.
//!
//! `Memtable::check` verifies these invariants in tests.
//!
//! # Why a search misses nothing
//! A leaf may be split after a reader finds it and before the reader copies its pointer. The `end`
//! of the copied leaf reveals the split, because it is at or below the bound of the search. All
//! reads go through [`Ordered::last_leaf`], which searches again in this case. By invariant 4, the
//! new leaf is already in the map at that time. The locks of leaves and the map's own
//! synchronisation order these steps, so no further atomics are needed. The map comes from
//! `base::sync`, so that `tests/shuttle` can run other threads between any two operations.

use std::cmp::Ordering;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use bytes::Bytes;

use super::entries::Entries;
use super::sort::{self, SortKey, compare, compare_entries};
use crate::base::Comparator;
use crate::base::prefix::{common_prefix, head};
use crate::base::sync::{LockRank, Mutex, SkipEntry, SkipMap};

/// Number of entries above which a leaf is split into leaves of [`SPLIT_INTO`] entries. With larger
/// leaves, bringing the key order up to date copies more entries, and searches of the skip list are
/// shorter. The values for shuttle and Miri are small because their tests insert few entries and
/// must still split leaves.
const SPLIT_ABOVE: usize = if cfg!(any(shuttle, miri)) { 4 } else { 128 };
const SPLIT_INTO: usize = if cfg!(any(shuttle, miri)) { 2 } else { 64 };

/// Memory per entry in a leaf, in bytes, including a share of the leaf's own memory.
pub(super) const ORDERED_ENTRY_BYTES: usize = size_of::<SortKey>() + 4;

type FoundLeaf<'a> = SkipEntry<'a, LeafKey, Mutex<Arc<Leaf>>>;

/// The entries of a memtable in key order.
#[derive(Debug)]
pub(super) struct Ordered {
    leaves: SkipMap<LeafKey, Mutex<Arc<Leaf>>>,
    covered: Mutex<Covered>,
    order: Option<Arc<dyn Comparator>>,
}

/// The extent to which the leaves have caught up with the entries.
#[derive(Debug, Default)]
struct Covered {
    /// Number of entries that the leaves cover. These are the entries with numbers below `len`.
    len: u32,
    /// Whether a panic of the comparator may have interrupted the last catch-up. If so, leaves may
    /// overlap.
    cut_short: bool,
}

/// The key of a leaf in the skip list: an internal key, together with its order, so that `Ord` can
/// use a comparator chosen at run time.
#[derive(Clone, Debug)]
pub(super) struct LeafKey {
    /// Whether this is the lowest key, which is less than every other key.
    lowest: bool,
    /// The user key's [`head`], which decides most comparisons in byte order.
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

/// All entries from the leaf's key up to `end`, in ascending order, as they were when the leaf was
/// made. A leaf never changes; the skip list gets a new leaf in its place.
#[derive(Debug, Default)]
pub(super) struct Leaf {
    /// Length of the prefix common to all user keys, in bytes. The keys' heads begin after this
    /// prefix.
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
        // In any order other than byte order, the first and the last key say nothing about the keys
        // in between.
        let shared = match (numbers, order) {
            ([first, .., last], None) => common_prefix(key(*first), key(*last)),
            _ => 0,
        };
        let with_head = |&index| SortKey::new(head_after(key(index), shared), index);
        let keys: Box<[SortKey]> = numbers.iter().map(with_head).collect();
        debug_assert!(order.is_some() || keys.is_sorted_by_key(SortKey::head), "heads descend");
        Leaf { shared, keys, end }
    }

    /// Returns a leaf with the entries of this leaf and the `new` entries, which must be in
    /// ascending order and belong to this leaf. A new entry replaces an old entry with the same
    /// key. The keys of old entries are not read, because each would be a cache miss; therefore the
    /// result is `None` if the new keys do not start with the prefix common to the old keys.
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
            let head = head_after(entry.user_key(), self.shared);
            let is_replaced = after.first().is_some_and(|old| {
                (order.is_some() || old.head() == head)
                    && compare_entries(entries, old.index, index, order).is_eq()
            });
            old = &after[usize::from(is_replaced)..];
            keys.push(SortKey::new(head, index));
        }
        keys.extend_from_slice(old);
        debug_assert!(order.is_some() || keys.is_sorted_by_key(SortKey::head), "heads descend");
        Some(Leaf { shared: self.shared, keys: keys.into(), end: self.end.clone() })
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns the entry number stored at index `at` of the leaf.
    pub(super) fn entry(&self, at: usize) -> Option<u32> {
        Some(self.keys.get(at)?.index)
    }

    /// Returns the number of entries in the leaf that are less than the internal key `target`.
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
                let target = head_after(user_key, self.shared);
                let from = self.keys.partition_point(|key| key.head() < target);
                let equal = self.keys[from..].partition_point(|key| key.head() == target);
                from + self.keys[from..from + equal].partition_point(below)
            }
            Some(start) if start > shared => self.keys.len(),
            None if user_key > shared => self.keys.len(),
            _ => 0,
        }
    }
}

/// Returns the [`head`] of the part of `key` after its first `shared` bytes.
#[inline]
fn head_after(key: &[u8], shared: usize) -> u64 {
    head(key.get(shared..).unwrap_or_default())
}

impl Ordered {
    /// Creates an empty list sorted by `order`, or in byte order if `order` is `None`.
    pub(super) fn new(order: Option<Arc<dyn Comparator>>) -> Ordered {
        let covered = Mutex::ranked(LockRank::Covered, Covered::default());
        let ordered = Ordered { leaves: SkipMap::new(), covered, order };
        ordered.leaves.insert(ordered.lowest(), Mutex::ranked(LockRank::Leaf, Arc::default()));
        ordered
    }

    /// Adds all entries that are not in the leaves yet. Returns the number of added entries.
    pub(super) fn catch_up(&self, entries: &Entries) -> u32 {
        let mut covered = self.covered.lock();
        let len = entries.len();
        debug_assert!(covered.len <= len, "more entries are covered than there are");
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
            debug_assert!(here > 0, "the first entry is past the end of its leaf");
            let (new, later) = rest.split_at(here.max(1));
            self.add(entries, &found, &leaf, new);
            rest = later;
        }
        covered.cut_short = false;
        len - std::mem::replace(&mut covered.len, len)
    }

    /// Makes each leaf end at the key of the next leaf. A split interrupted by a panic leaves an
    /// old leaf that overlaps some of the new leaves. An entry added to only one of two overlapping
    /// leaves would be missing from the other.
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

    /// Adds the entries `new`, all of which belong to the leaf `old`, to which `found` points.
    fn add(&self, entries: &Entries, found: &FoundLeaf<'_>, old: &Leaf, new: &[u32]) {
        let order = self.order.as_deref();
        if old.len() + new.len() <= SPLIT_ABOVE
            && let Some(leaf) = old.with(entries, new, order)
        {
            *found.value().lock() = Arc::new(leaf);
            return;
        }
        let all = merged(entries, old, new, order);
        let size = if all.len() <= SPLIT_ABOVE { SPLIT_ABOVE } else { SPLIT_INTO };
        let mut end = old.end.clone();
        // New leaves are added from the last piece to the first. The old leaf is replaced last, by
        // the leaf of the first piece, so until then it contains all entries that are not in a new
        // leaf yet.
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

    /// Returns the key for finding the leaf that an internal key belongs to.
    pub(super) fn key(&self, user_key: Bytes, trailer: u64) -> LeafKey {
        LeafKey {
            lowest: false,
            head: head(&user_key),
            trailer,
            user_key,
            order: self.order.clone(),
        }
    }

    /// Returns the key that is less than all other keys.
    fn lowest(&self) -> LeafKey {
        LeafKey { lowest: true, ..self.key(Bytes::new(), 0) }
    }

    /// Returns the last leaf whose key is within the upper bound `bound`. Searches again if that
    /// leaf was split after it was found and before its pointer was copied.
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

    /// Returns the position of the first entry not less than `key`.
    pub(super) fn lower_bound(&self, entries: &Entries, key: &LeafKey) -> Option<LeafPosition> {
        let (_, leaf) = self.last_leaf(Bound::Included(key))?;
        let at = leaf.below(entries, (&key.user_key, key.trailer), self.order.as_deref());
        self.at_or_after(leaf, at)
    }

    /// Returns the position of the last entry less than `key`.
    pub(super) fn before(&self, entries: &Entries, key: &LeafKey) -> Option<LeafPosition> {
        let (found, leaf) = self.last_leaf(Bound::Excluded(key))?;
        let below = leaf.below(entries, (&key.user_key, key.trailer), self.order.as_deref());
        match below.checked_sub(1) {
            Some(at) => Some(LeafPosition { leaf, at }),
            None => self.before(entries, found.key()),
        }
    }

    /// Returns the position of the first entry.
    pub(super) fn first(&self) -> Option<LeafPosition> {
        let (_, leaf) = self.last_leaf(Bound::Included(&self.lowest()))?;
        self.at_or_after(leaf, 0)
    }

    /// Returns the position of the last entry.
    pub(super) fn last(&self, entries: &Entries) -> Option<LeafPosition> {
        let (found, leaf) = self.last_leaf(Bound::Unbounded)?;
        match leaf.len().checked_sub(1) {
            Some(at) => Some(LeafPosition { leaf, at }),
            None => self.before(entries, found.key()),
        }
    }

    /// Returns the position of the entry at index `at` of `leaf`, or of the first entry of the next
    /// leaf if `at` is past the end of `leaf`.
    pub(super) fn at_or_after(&self, mut leaf: Arc<Leaf>, mut at: usize) -> Option<LeafPosition> {
        while at >= leaf.len() {
            let (_, next) = self.last_leaf(Bound::Included(leaf.end.as_ref()?))?;
            (leaf, at) = (next, 0);
        }
        Some(LeafPosition { leaf, at })
    }
}

#[cfg(test)]
impl Ordered {
    /// Panics if an invariant from the module documentation is broken. No other thread may change
    /// the leaves during the check.
    pub(super) fn check(&self, entries: &Entries) {
        let order = self.order.as_deref();
        let mut next: Option<LeafKey> = None;
        let mut bound = Bound::Unbounded;
        let mut ordered = 0;
        while let Some(found) = self.leaves.upper_bound(bound.as_ref()) {
            let leaf = found.value().lock().clone();
            assert!(leaf.end == next, "a leaf does not end where the next one begins");
            assert!(leaf.len() <= SPLIT_ABOVE, "a leaf of {} entries", leaf.len());
            let numbers: Vec<_> = leaf.keys.iter().map(|key| key.index).collect();
            let ascends = |a: &u32, b: &u32| compare_entries(entries, *a, *b, order).is_lt();
            assert!(numbers.is_sorted_by(ascends), "the entries of a leaf do not ascend");
            if let [first, .., last] | [first @ last] = &numbers[..] {
                assert!(self.leaf_key(entries, *first) >= *found.key(), "before its leaf");
                let end = leaf.end.as_ref();
                let is_before_end = end.is_none_or(|end| self.leaf_key(entries, *last) < *end);
                assert!(is_before_end, "past the end of its leaf");
            }
            for key in leaf.keys.iter().filter(|_| order.is_none()) {
                let user_key = entries.get(key.index).expect("an entry").user_key();
                assert_eq!(key.head(), head_after(user_key, leaf.shared), "another key's head");
            }
            ordered += leaf.len();
            next = Some(found.key().clone());
            bound = Bound::Excluded(found.key().clone());
        }
        assert!(next == Some(self.lowest()), "no leaf takes the lowest keys");
        assert!(ordered <= self.covered.lock().len as usize, "an entry is in two leaves");
    }
}

/// The position of an entry: a leaf as it was when it was found, and an index into the leaf.
#[derive(Clone, Debug)]
pub(super) struct LeafPosition {
    /// The leaf.
    pub leaf: Arc<Leaf>,
    /// The index of the entry in the leaf.
    pub at: usize,
}

/// Returns the entries of the leaf `old` merged with the entries `new`, which must be in ascending
/// order. A new entry replaces an old entry with the same key.
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
    debug_assert!(all.len() >= new.len(), "a merge loses entries");
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::memtable::entries::Arena;

    /// Returns entries with the user keys `keys`.
    fn entries(keys: &[&str]) -> Entries {
        let (entries, mut arena) = (Entries::new(), Arena::default());
        for key in keys {
            entries.push(arena.store(key.as_bytes(), 1, b""));
        }
        entries
    }

    #[test]
    fn a_leaf_finds_keys_before_within_and_after_its_common_prefix() {
        let keys = ["prefix/a", "prefix/aaaaaaaa1", "prefix/aaaaaaaa2", "prefix/b"];
        let entries = entries(&keys);
        let leaf = Leaf::new(&entries, &[0, 1, 2, 3], None, None);
        assert_eq!((leaf.shared, leaf.len()), ("prefix/".len(), 4));
        let targets = ["", "o", "pre", "prefiw", "prefix/", "prefix/aaaaaaaa1a", "prefix/c"];
        let after = ["prefiy", "prefix0", "prf", "q", "prefj"];
        for target in targets.iter().chain(&after).chain(&keys) {
            let expected = keys.iter().filter(|key| *key < target).count();
            let below = leaf.below(&entries, (target.as_bytes(), u64::MAX), None);
            assert_eq!(below, expected, "{target}");
        }
    }

    #[test]
    fn a_leaf_takes_new_keys_that_have_its_common_prefix() {
        let entries = entries(&["prefix/a", "prefix/c", "prefix/b", "prefix/d", "pre"]);
        let leaf = Leaf::new(&entries, &[0, 1], None, None);
        let with = |new: &[u32]| leaf.with(&entries, new, None).map(|leaf| leaf.len());
        assert_eq!((with(&[2, 3]), with(&[4])), (Some(4), None));
    }

    #[test]
    fn a_leaf_is_split_once_it_is_too_long() {
        let keys: Vec<String> = (0..=SPLIT_ABOVE).map(|at| format!("{at:05}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let sizes = |count: usize| {
            let ordered = Ordered::new(None);
            ordered.catch_up(&entries(&keys[..count]));
            let sizes = ordered.leaves.iter().map(|leaf| leaf.value().lock().len());
            sizes.collect::<Vec<_>>()
        };
        assert_eq!(sizes(SPLIT_ABOVE), [SPLIT_ABOVE]);
        let split = sizes(SPLIT_ABOVE + 1);
        assert!(split.len() > 1 && split[0] == SPLIT_INTO, "{split:?}");
        assert_eq!(split.iter().sum::<usize>(), SPLIT_ABOVE + 1);
    }
}
