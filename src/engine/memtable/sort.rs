//! Sorts entries by internal key while reading few bytes of the keys.
//!
//! Keys are sorted by eight bytes at a time, read as a big-endian number. Keys that are equal in
//! these bytes are sorted by their next eight bytes, and so on. A long prefix shared by all keys is
//! therefore skipped once, not in every comparison.

use std::cmp::Ordering;
use std::ops::Range;

use super::entries::Entries;
use crate::base::Comparator;
use crate::base::prefix::head;

/// The number of an entry, and the part of its key that the sort compares. Takes 12 bytes; with the
/// head as a `u64`, it would take 16.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SortKey {
    /// The lower and the upper half of the head.
    head: [u32; 2],
    /// The entry's number.
    pub index: u32,
}

impl SortKey {
    #[inline]
    pub(super) fn new(head: u64, index: u32) -> SortKey {
        SortKey { head: [head as u32, (head >> 32) as u32], index }
    }

    /// Returns eight bytes of the user key, big-endian, padded with zeros.
    #[inline]
    pub(super) fn head(&self) -> u64 {
        u64::from(self.head[1]) << 32 | u64::from(self.head[0])
    }
}

/// Largest number of keys in a group that is sorted by comparing whole keys. A higher number means
/// that the bytes of more keys are read.
const MAX_SMALL_GROUP: usize = 12;

/// Compares two internal keys, each given as user key and trailer. User keys are compared by
/// `order`, or in byte order if `order` is `None`.
#[inline]
pub(super) fn compare(
    a: (&[u8], u64),
    b: (&[u8], u64),
    order: Option<&dyn Comparator>,
) -> Ordering {
    let by_user_key = match order {
        None => a.0.cmp(b.0),
        Some(order) => order.compare(a.0, b.0),
    };
    by_user_key.then_with(|| b.1.cmp(&a.1))
}

/// Returns the numbers of the entries in `range`, sorted by internal key. Of several entries with
/// the same internal key, only the one inserted last is kept.
pub(super) fn sorted(
    entries: &Entries,
    range: Range<u32>,
    order: Option<&dyn Comparator>,
) -> Vec<u32> {
    let mut keys: Vec<_> = range.map(|index| SortKey::new(0, index)).collect();
    match order {
        Some(_) => sort_whole(&mut keys, entries, order),
        None => sort_bytes(&mut keys, entries),
    }
    // The numbers take the place of the keys, which have the same alignment.
    let mut numbers: Vec<_> = keys.into_iter().map(|key| key.index).collect();
    numbers.dedup_by(|later, first| {
        compare_entries(entries, *first, *later, order) == Ordering::Equal
    });
    numbers.shrink_to_fit();
    numbers
}

/// Compares the internal keys of two entries.
pub(super) fn compare_entries(
    entries: &Entries,
    a: u32,
    b: u32,
    order: Option<&dyn Comparator>,
) -> Ordering {
    let key = |index| entries.get(index).map_or((&[][..], 0), |e| (e.user_key(), e.trailer()));
    compare(key(a), key(b), order)
}

fn sort_whole(keys: &mut [SortKey], entries: &Entries, order: Option<&dyn Comparator>) {
    keys.sort_unstable_by(|a, b| {
        compare_entries(entries, a.index, b.index, order).then(b.index.cmp(&a.index))
    });
}

fn sort_bytes(keys: &mut [SortKey], entries: &Entries) {
    // Each group is a range of `keys` and a depth: the keys of the range are equal in all bytes
    // before that depth.
    let mut groups = vec![(0..keys.len(), 0)];
    while let Some((range, depth)) = groups.pop() {
        let start = range.start;
        let keys = &mut keys[range];
        let keys_len = keys.len();
        if keys.len() <= MAX_SMALL_GROUP {
            sort_whole(keys, entries, None);
            continue;
        }
        let user_key = |key: &SortKey| entries.get(key.index).map_or(&[][..], |e| e.user_key());
        for key in &mut *keys {
            *key = SortKey::new(head(user_key(key).get(depth..).unwrap_or_default()), key.index);
        }
        keys.sort_unstable_by_key(SortKey::head);
        let mut done = 0;
        for group in keys.chunk_by_mut(|a, b| a.head() == b.head()) {
            let at = start + done;
            done += group.len();
            if group.len() == 1 {
                continue;
            }
            // Keys that end within these eight bytes are padded with zeros, and sort before longer
            // keys.
            debug_assert!(done <= keys_len, "groups overlap");
            let ended = partition(group, |key| user_key(key).len() <= depth + 8);
            sort_whole(&mut group[..ended], entries, None);
            groups.push((at + ended..at + group.len(), depth + 8));
        }
    }
}

/// Moves the keys for which `first` returns true to the front and returns the number of these keys.
fn partition(keys: &mut [SortKey], first: impl Fn(&SortKey) -> bool) -> usize {
    let mut firsts = 0;
    for at in 0..keys.len() {
        if first(&keys[at]) {
            keys.swap(at, firsts);
            firsts += 1;
        }
    }
    firsts
}

#[cfg(test)]
mod tests {
    use super::super::entries::Arena;
    use super::*;
    use crate::base::random::Rng;

    fn check(keys: &[(Vec<u8>, u64)]) {
        let (entries, mut arena) = (Entries::new(), Arena::default());
        for (key, trailer) in keys {
            entries.push(arena.store(key, *trailer, b""));
        }
        let mut expected: Vec<_> = (0..keys.len() as u32).rev().collect();
        expected.sort_by(|&a, &b| {
            let key = |i: u32| (&keys[i as usize].0[..], keys[i as usize].1);
            compare(key(a), key(b), None)
        });
        expected.dedup_by_key(|i| keys[*i as usize].clone());
        assert_eq!(sorted(&entries, 0..keys.len() as u32, None), expected);
    }

    #[test]
    fn the_order_is_that_of_whole_comparisons() {
        let mut rng = Rng::new(7);
        for round in 0..300 {
            let letters = [b"\0\0\0\0a".as_slice(), b"ab\0\xff", b"x"][round % 3];
            let prefix = vec![b'p'; rng.index(30)];
            let longest = [3, 9, 17, 40][round % 4];
            let keys: Vec<_> = (0..rng.index(400))
                .map(|i| {
                    let mut key = prefix.clone();
                    let len = rng.index(longest);
                    key.extend((0..len).map(|_| letters[rng.index(letters.len())]));
                    (key, (i as u64 % 7) << 8 | 1)
                })
                .collect();
            check(&keys);
        }
    }

    #[test]
    fn a_long_key_with_many_versions_takes_no_deep_stack() {
        let key = vec![b'k'; 100_000];
        check(&(0..20).map(|seq| (key.clone(), seq << 8)).collect::<Vec<_>>());
    }
}
