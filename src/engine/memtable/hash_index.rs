//! The hash index, which leads from a key to its newest version, for point lookups.
//!
//! Each bucket holds a chain of entries, newest first. An insert touches one bucket and compares no
//! keys: it sets the new entry's [`MemEntry::next`] to what the bucket held before.
//!
//! A frequently overwritten key would make the chain long for the other keys in its bucket. So each
//! bucket counts its inserts, and every eighth entry starts a tidy chain, which contains only the
//! newest entry of each hash. [`MemEntry::older`] leads from that entry to the older entries of the
//! same hash. If an existing entry must be followed by a different entry in the new chain than in
//! the old one, a [`Link`] takes the place of the existing entry in the new chain.
//!
//! When there are more entries than buckets, a larger array of buckets is allocated for all further
//! entries. Lookups search the arrays from the newest to the oldest.
//!
//! # Thread safety
//! One thread at a time may call [`HashIndex::push`], while any number of threads call
//! [`HashIndex::find`] without locks.
//!
//! # Invariants
//! 1. An entry is stored in [`Entries`], and a link in `links`, before anything points to it.
//! 2. Once an entry or link is reachable, its next position never changes. Only an entry's `older`
//!    may still change, and only once: from [`END`] to an older entry.
//! 3. Along a chain, and along `older`, numbers descend: of two versions of a key inserted in the
//!    order of their sequence numbers, the newer version comes first. So every walk ends.
//! 4. Every entry of the bucket is reachable from the bucket. A tidy chain leads to all entries of
//!    the chain that it replaces. The old chain stays unchanged for readers that are walking it.
//! 5. `older` leads only to entries with the same hash.
//!
//! `Memtable::check` verifies these invariants in tests.
//!
//! # Why the orderings suffice
//! A bucket is stored with Release after all stores that its new chain depends on: the entry and
//! its `next`, the links, and the `older` fields that tidying has set. A reader loads the bucket
//! with Acquire, so it sees these stores and, by the single writer's program order, all earlier
//! ones.
//!
//! The `older` of an entry that is already reachable is stored with Release and loaded with
//! Acquire. A reader in the old chain may or may not see that store: in either case it meets the
//! older entry, because the old chain still contains it (invariant 4).
//!
//! `newest` is stored with Release after its array is allocated. A reader that sees the old value
//! of `newest` misses only entries that were inserted after the new value was stored. Their
//! sequence numbers are higher than the one at which the reader reads, because sequence numbers are
//! published after the insert.

use super::entries::{Appended, Entries, MemEntry};
use crate::base::sync::lock_free::{AtomicU32, AtomicUsize, OnceLock, Ordering};

/// Binary logarithm of the ratio between the sizes of successive arrays. With a higher ratio,
/// lookups search fewer arrays, but more buckets are empty.
const GROWTH_LG: u32 = 2;
const MAX_ARRAYS: usize = if cfg!(minikv_loom) { 3 } else { 12 };
const MAX_BUCKETS_LG: u32 = 28;

/// Number of buckets in the first array of a small index. Models with loom need few.
const MIN_BUCKETS: usize = if cfg!(minikv_loom) { 1 } else { 64 };

/// The position that ends a chain. The position of an entry is its number plus one.
const END: u32 = 0;

/// Bit that marks a position as the number of a link.
const LINK: u32 = 1 << 31;

/// Number of low bits of a bucket that hold the first position of its chain. The high bits count
/// the entries since the last tidy chain.
const POSITION_BITS: u32 = 29;
const POSITION_MASK: u32 = (1 << POSITION_BITS) - 1;

/// Largest number of entries that the index can hold.
pub(super) const MAX_INDEXED: u32 = POSITION_MASK - 1;

/// Number of entries that are inserted in front of a tidy chain before the next tidy chain is made.
/// A higher number makes chains longer and inserts cheaper. The number must fit in the high bits of
/// a bucket.
const MAX_UNTIDY: u32 = if cfg!(minikv_loom) { 1 } else { (1 << (32 - POSITION_BITS)) - 1 };

/// Number of entries that a lookup examines before it gives up. Tidying also stops after this
/// number of entries and leaves the rest of the chain as it is. With a higher number, lookups of
/// keys with many versions take longer before they fall back to the sorted order.
pub(super) const MAX_STEPS: u32 = 64;

/// Represents an entry in a chain other than the one into which the entry was inserted.
#[derive(Debug)]
struct Link {
    number: u32,
    next: u32,
}

/// A hash index over [`Entries`]. One thread at a time may insert; see the module documentation.
#[derive(Debug)]
pub(super) struct HashIndex {
    links: Appended<Link>,
    arrays: [OnceLock<Box<[AtomicU32]>>; MAX_ARRAYS],
    newest: AtomicUsize,
    first_lg: u32,
    /// Number of entries at which the next array must be allocated.
    enough_for: AtomicUsize,
}

impl HashIndex {
    /// Creates an index that grows only when it has more than about `entries` entries.
    pub(super) fn new(entries: usize) -> HashIndex {
        let first_lg = entries.max(MIN_BUCKETS).next_power_of_two().ilog2().min(MAX_BUCKETS_LG);
        let index = HashIndex {
            links: Appended::new(),
            arrays: std::array::from_fn(|_| OnceLock::new()),
            newest: AtomicUsize::new(0),
            first_lg,
            enough_for: AtomicUsize::new(1 << first_lg),
        };
        index.arrays[0].get_or_init(|| buckets(first_lg));
        index
    }

    /// Returns the size of all buckets, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.arrays.iter().filter_map(OnceLock::get).map(|array| size_of_val(&**array)).sum()
    }

    /// Appends `entry` to `entries` and makes it the newest entry of its bucket.
    #[inline]
    pub(super) fn push(&self, entries: &Entries, mut entry: MemEntry, hash: u64) {
        let number = entries.len();
        debug_assert!(number < MAX_INDEXED, "an entry past the limit");
        if number as usize >= self.enough_for.load(Ordering::Relaxed) {
            self.grow();
        }
        let array = self.arrays[self.newest.load(Ordering::Relaxed)].get();
        let Some(bucket) = array.and_then(|array| array.get(bucket_of(hash, array.len()))) else {
            debug_assert!(false, "the newest array is missing");
            return;
        };
        debug_assert!(array.is_some_and(|array| array.len().is_power_of_two()));
        entry.hash = tag(hash);
        let before = bucket.load(Ordering::Relaxed);
        let (mut untidy, first) = (before >> POSITION_BITS, before & POSITION_MASK);
        if untidy < MAX_UNTIDY {
            untidy += 1;
            entry.next = first;
        } else {
            untidy = 0;
            self.begin_tidy_chain(entries, &mut entry, first);
        }
        entries.push(entry);
        bucket.store(untidy << POSITION_BITS | (number + 1), Ordering::Release);
    }

    /// Builds a tidy chain that starts at `entry` from the chain at position `at`. The tidy chain
    /// contains the newest entry of each other hash, and `older` leads from that entry to the
    /// further entries of its hash. The `older` of `entry` leads to the entries with its own hash.
    #[inline(never)]
    fn begin_tidy_chain(&self, entries: &Entries, entry: &mut MemEntry, mut at: u32) {
        let mut known: Vec<Known<'_>> = Vec::with_capacity(2 * MAX_UNTIDY as usize);
        for _ in 0..MAX_STEPS {
            let Some((number, found, next)) = self.follow(entries, at) else { break };
            debug_assert!(known.iter().all(|known| number < known.number), "a chain ascends");
            let same = known.iter_mut().rfind(|known| known.oldest.hash == found.hash);
            match same {
                // If the `older` of an entry is set, it already leads to all older entries of that
                // hash, except those beyond the end of an earlier tidy chain. These remain in the
                // chain.
                Some(known) if known.oldest.older.load(Ordering::Relaxed) == END => {
                    known.oldest.older.store(number + 1, Ordering::Release);
                    known.oldest = found;
                }
                _ => known.push(Known { at, next, number, oldest: found }),
            }
            at = next;
        }
        if let Some(own) = known.iter().position(|known| known.oldest.hash == entry.hash) {
            entry.older.store(known.remove(own).number + 1, Ordering::Relaxed);
        }
        for Known { at: here, next, number, .. } in known.into_iter().rev() {
            if next == at {
                at = here;
            } else {
                let link = self.links.len();
                self.links.push(Link { number, next: at });
                at = LINK | link;
            }
        }
        entry.next = at;
    }

    /// Returns the entry at position `at` of a chain, preceded by its number and followed by the
    /// next position in the chain.
    #[inline]
    fn follow<'a>(&self, entries: &'a Entries, at: u32) -> Option<(u32, &'a MemEntry, u32)> {
        if at & LINK != 0 {
            let link = self.links.get(at & !LINK)?;
            return Some((link.number, entries.get(link.number)?, link.next));
        }
        let number = at.checked_sub(1)?;
        let entry = entries.get(number)?;
        Some((number, entry, entry.next))
    }

    #[cold]
    fn grow(&self) {
        let next = self.newest.load(Ordering::Relaxed) + 1;
        let lg = (self.first_lg + GROWTH_LG * next as u32).min(MAX_BUCKETS_LG);
        let Some(array) = self.arrays.get(next) else { return };
        array.get_or_init(|| buckets(lg));
        self.enough_for.fetch_add(1 << lg, Ordering::Relaxed);
        self.newest.store(next, Ordering::Release);
    }

    /// Finds the newest entry with the hash `hash` for which `is_it` returns true.
    #[inline]
    pub(super) fn find<'a>(
        &self,
        entries: &'a Entries,
        hash: u64,
        is_it: impl Fn(&MemEntry) -> bool,
    ) -> Lookup<'a> {
        let newest = self.newest.load(Ordering::Acquire);
        let mut steps = 0;
        for array in self.arrays[..=newest].iter().rev().filter_map(OnceLock::get) {
            let bucket = array.get(bucket_of(hash, array.len()));
            let mut at = bucket.map_or(END, |bucket| bucket.load(Ordering::Acquire));
            at &= POSITION_MASK;
            while let Some((_, first, next)) = self.follow(entries, at) {
                at = next;
                steps += 1;
                let mut version = (first.hash == tag(hash)).then_some(first);
                while let Some(entry) = version {
                    if is_it(entry) {
                        return Lookup { found: version, steps };
                    }
                    if steps > MAX_STEPS {
                        break;
                    }
                    let older = entry.older.load(Ordering::Acquire);
                    version = older.checked_sub(1).and_then(|older| entries.get(older));
                    steps += u32::from(version.is_some());
                }
                if steps > MAX_STEPS {
                    return Lookup { found: None, steps };
                }
            }
        }
        Lookup { found: None, steps }
    }
}

/// The entries of one hash in a chain that is being tidied.
struct Known<'a> {
    /// The position of the newest entry, the position after it, and the entry's number.
    at: u32,
    next: u32,
    number: u32,
    /// The oldest entry of this hash seen so far.
    oldest: &'a MemEntry,
}

/// The result of [`HashIndex::find`].
pub(super) struct Lookup<'a> {
    /// The entry, if one was found.
    pub found: Option<&'a MemEntry>,
    /// Number of entries examined.
    pub steps: u32,
}

impl Lookup<'_> {
    /// Returns whether the search stopped early, because there were too many entries to examine.
    #[inline]
    pub(super) fn gave_up(&self) -> bool {
        self.found.is_none() && self.steps > MAX_STEPS
    }
}

fn buckets(lg: u32) -> Box<[AtomicU32]> {
    (0..1usize << lg).map(|_| AtomicU32::new(END)).collect()
}

#[inline]
fn bucket_of(hash: u64, buckets: usize) -> usize {
    hash as usize & (buckets - 1)
}

/// Returns the upper half of the hash, which is not used to choose the bucket.
#[inline]
fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[cfg(test)]
impl HashIndex {
    /// Panics if an invariant from the module documentation is broken. `hash` returns the hash that
    /// an entry was inserted with.
    pub(super) fn check(&self, entries: &Entries, hash: impl Fn(&MemEntry) -> u64) {
        let mut is_reached = vec![false; entries.len() as usize];
        for array in self.arrays.iter().filter_map(OnceLock::get) {
            assert!(array.len().is_power_of_two());
            for (i, bucket) in array.iter().enumerate() {
                let mut last = u32::MAX;
                let mut at = bucket.load(Ordering::Relaxed) & POSITION_MASK;
                while at != END {
                    let (number, entry, next) =
                        self.follow(entries, at).expect("a dangling position");
                    assert!(number < last, "a chain ascends from {last} to {number}");
                    assert_eq!(bucket_of(hash(entry), array.len()), i, "in another bucket");
                    self.check_older(entries, number, &mut is_reached);
                    (last, at) = (number, next);
                }
            }
        }
        let lost = is_reached.iter().position(|is_reached| !is_reached);
        assert_eq!(lost, None, "no chain leads to this entry");
    }

    fn check_older(&self, entries: &Entries, mut number: u32, is_reached: &mut [bool]) {
        let tag = entries.get(number).expect("an entry").hash;
        while !std::mem::replace(&mut is_reached[number as usize], true) {
            let older = entries.get(number).expect("an entry").older.load(Ordering::Relaxed);
            let Some(older) = older.checked_sub(1) else { break };
            assert!(older < number, "{older} is older than {number}");
            assert_eq!(entries.get(older).expect("an entry").hash, tag, "of another hash");
            number = older;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::entries::Arena;
    use super::*;
    use crate::base::random::Rng;

    /// Compares lookups with a scan of all versions: each lookup must find the newest version that
    /// is visible at a sequence number, or give up because that version is too far back. The index
    /// grows during the test, and several keys share a tag.
    #[test]
    fn the_newest_version_at_any_moment_is_found_or_too_far() {
        // With 150 keys in one bucket, the bucket's chain is longer than the part that is tidied at
        // once.
        for (keys, buckets) in [(1u64, 40), (2, 40), (3, 40), (20, 40), (150, 40), (150, 1)] {
            let (index, entries, mut arena) = (HashIndex::new(1), Entries::new(), Arena::default());
            // Two keys share each tag.
            let hash = |key: u64| ((key / 2) << 32) | (key / 2 % buckets);
            let mut rng = Rng::new(keys);
            let mut versions = vec![Vec::new(); keys as usize];
            let mut found_old = 0;
            for seq in 0..6000u64 {
                let key = rng.below(keys);
                let key = if seq % 3 == 0 { key / 4 } else { key };
                let entry = arena.store(&key.to_le_bytes(), seq << 8 | 1, b"");
                index.push(&entries, entry, hash(key));
                versions[key as usize].push(seq);
                let (asked, at) = (rng.below(keys), seq - rng.below((seq + 1).min(100)));
                let expected = versions[asked as usize].iter().rev().find(|seq| **seq <= at);
                let asked = asked.to_le_bytes();
                let found = index.find(&entries, hash(u64::from_le_bytes(asked)), |entry| {
                    entry.user_key() == asked && entry.seq() <= at
                });
                if !found.gave_up() {
                    assert_eq!(
                        found.found.map(MemEntry::seq),
                        expected.copied(),
                        "of {keys} at {at}"
                    );
                    found_old += u32::from(seq > at);
                }
            }
            index.check(&entries, |entry| {
                hash(u64::from_le_bytes(entry.user_key().try_into().unwrap()))
            });
            assert!(index.newest.load(Ordering::Relaxed) >= 3, "it has grown");
            assert_eq!(index.bytes(), 4 * (64 + 256 + 1024 + 4096 + 16384));
            assert!(found_old > 1500, "{found_old}");
        }
    }

    /// A lookup counts each entry that it examines, whether the entries have different keys or are
    /// versions of one key, and gives up after `MAX_STEPS` entries.
    #[test]
    fn entries_that_are_examined_are_counted_up_to_the_limit() {
        for keys in [1, 2, 200u64] {
            let (index, entries, mut arena) =
                (HashIndex::new(300), Entries::new(), Arena::default());
            for seq in 0..200 {
                let key = seq % keys;
                index.push(&entries, arena.store(b"key", seq << 8 | 1, b""), key << 32);
            }
            for key in 0..keys {
                let versions = (0..200).rev().filter(|seq| seq % keys == key);
                for (before, seq) in (0..).zip(versions) {
                    let lookup = index.find(&entries, key << 32, |entry| entry.seq() == seq);
                    // Before it finds a version, a lookup examines the newer versions of its key.
                    // If there are as many keys as entries, the lookup examines all newer entries.
                    let newer = 200 - seq as u32;
                    let steps = match keys {
                        200 => newer..=newer,
                        _ => before + 1..=before + MAX_UNTIDY + 3,
                    };
                    match lookup.found {
                        Some(found) => {
                            assert_eq!(found.seq(), seq);
                            assert!(steps.contains(&lookup.steps), "{seq} of {keys}");
                        }
                        None => {
                            assert!(lookup.gave_up() && *steps.end() > MAX_STEPS);
                            assert_eq!(lookup.steps, MAX_STEPS + 1);
                        }
                    }
                }
            }
        }
    }

    /// Overwriting one or several keys many times does not make lookups of other keys in the same
    /// bucket slow, whether those keys exist or not.
    #[test]
    fn versions_of_a_key_are_no_steps_for_its_neighbours() {
        for hot_keys in [1u64, 2, 7] {
            let (index, entries, mut arena) =
                (HashIndex::new(30_000), Entries::new(), Arena::default());
            let hash = |key: u64| key << 32;
            let mut push = |key: u64, seq: u64| {
                let entry = arena.store(&key.to_le_bytes(), seq << 8 | 1, b"");
                index.push(&entries, entry, hash(key));
            };
            push(100, 0);
            for seq in 1..=100_000 {
                push(seq % hot_keys, seq);
                if seq == 50_000 {
                    push(101, seq);
                }
            }
            let find = |key: u64, at| {
                let is_it =
                    |e: &MemEntry| e.user_key() == key.to_le_bytes().as_slice() && e.seq() <= at;
                index.find(&entries, hash(key), is_it)
            };
            // In each array, a lookup examines at most the entries before the tidy chain, one entry
            // for each frequently overwritten key, and the two other keys.
            let arrays = index.newest.load(Ordering::Relaxed) as u32 + 1;
            let most = arrays * (MAX_UNTIDY + hot_keys as u32 + 2);
            assert!(most < MAX_STEPS, "{most}");
            for (key, seq) in [(100, Some(0)), (101, Some(50_000)), (102, None)] {
                let lookup = find(key, 100_000);
                assert_eq!(lookup.found.map(MemEntry::seq), seq, "key {key}");
                assert!(lookup.steps <= most, "{} steps for key {key}", lookup.steps);
            }
            for key in 0..hot_keys {
                let lookup = find(key, 100_000);
                assert!(lookup.found.is_some_and(|entry| entry.seq() > 100_000 - hot_keys));
                assert!(lookup.steps <= MAX_UNTIDY + 1, "{} steps", lookup.steps);
                let long_ago = find(key, 10);
                assert!(long_ago.gave_up() && long_ago.steps <= MAX_STEPS + 1);
            }
            let most = (hot_keys as u32 + 1) * (100_000 / (MAX_UNTIDY + 1));
            assert!(index.links.len() <= most, "{} links", index.links.len());
        }
    }
}
