//! Samples of the keys looked up by gets and of the ranges read by scans, taken at bounded cost.
//!
//! The next get to sample is chosen in advance: a thread compares its count of gets with the count
//! at which the next get is sampled, and only a sampled get takes the lock. At first every get is
//! sampled. Whenever the sample is full, half of the keys are dropped and the gaps between sampled
//! gets double, so that every kept key represents the same number of gets. Once the average gap is
//! 256, the oldest keys are dropped instead, so that the sample covers the last two million gets.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use crate::base::random::Rng;
use crate::base::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::base::sync::{LockRank, Mutex};
use crate::engine::stats::trace::ReadTally;

/// Maximum number of keys kept. More keys make advice based on the sample more certain, and the
/// replay of the keys slower.
pub(crate) const MAX_KEYS: usize = 8192;

/// Maximum total length of the keys kept, in bytes. This limit bounds the memory of the sample,
/// apart from 24 bytes per key. A higher limit keeps more long keys.
pub(crate) const MAX_BYTES: usize = 1 << 20;

/// Maximum length of a key that is kept, in bytes: a longer key would push out hundreds of other
/// keys. With a higher limit, more of the long keys are sampled.
const MAX_KEY_BYTES: usize = MAX_BYTES / 64;

/// Maximum average gap between sampled gets; a power of two. A larger gap makes sampling cheaper
/// and makes the sample reach further back.
const MAX_GAP: u64 = 256;

/// A sample of the reads of a database, given to
/// [`Options::sample_reads`](crate::Options::sample_reads). It holds users' keys: at most 8192 keys
/// of gets, in at most 1 MiB, and as many ranges of scans. Keys longer than 16 KiB are left out.
/// Thread-safe; clones share the sample, which may outlive the database.
///
/// At first every get is sampled. When the sample is full, half of it is dropped, and from then on
/// half as many gets are sampled, down to one in 256: then the oldest keys make room. So the sample
/// stands for all gets, or for the last two million.
///
/// ```
/// use minikv::{Db, Options, ReadSample};
///
/// # let dir = tempfile::tempdir()?;
/// let sample = ReadSample::new();
/// let options = Options::default().create_if_missing(true).sample_reads(&sample);
/// let db = Db::open(dir.path(), options)?;
/// db.get("apple")?;
/// db.range("a".."c").count();
/// assert_eq!(sample.keys(), [b"apple"]);
/// assert_eq!(sample.ranges()[0].from, b"a");
/// # use minikv::Readable;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ReadSample(Arc<Sampled>);

#[derive(Debug, Default)]
struct Sampled {
    keys: KeptKeys,
    ranges: KeptKeys,
    /// Number of scans with two bounds.
    scans: AtomicU64,
    /// The value of `scans` at which the next scan is sampled.
    next_scan: AtomicU64,
}

/// The range of a scan, from [`ReadSample::ranges`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScannedRange {
    /// The lower bound, treated as inclusive.
    pub from: Vec<u8>,
    /// The upper bound.
    pub to: Bound<Vec<u8>>,
}

impl ReadSample {
    /// Creates an empty sample.
    pub fn new() -> ReadSample {
        ReadSample::default()
    }

    /// Returns the keys of sampled gets, oldest first, with the prefix of their keyspace. A key
    /// sampled several times occurs several times.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        self.0.keys.0.lock().keys.iter().map(|key| key.to_vec()).collect()
    }

    /// Returns the ranges of sampled iterators with two bounds, oldest first.
    pub fn ranges(&self) -> Vec<ScannedRange> {
        self.0.ranges.0.lock().keys.iter().filter_map(|kept| range(kept)).collect()
    }

    /// Returns the number of iterators with two bounds, sampled or not.
    pub fn scans(&self) -> u64 {
        self.0.scans.load(Relaxed)
    }

    /// Forgets all keys, ranges and counts.
    pub fn clear(&self) {
        *self.0.keys.0.lock() = Kept::new();
        *self.0.ranges.0.lock() = Kept::new();
        self.0.scans.store(0, Relaxed);
        self.0.next_scan.store(0, Relaxed);
    }

    /// Adds `key` if this get is to be sampled. Must be called for every get, after the get was
    /// counted in `tally`.
    #[inline]
    pub(crate) fn looked_up(sample: Option<&ReadSample>, key: &[u8], tally: &ReadTally) {
        if tally.gets.load() >= tally.next_sample.load() {
            ReadSample::keep_key(sample, key, tally);
        }
    }

    #[cold]
    fn keep_key(sample: Option<&ReadSample>, key: &[u8], tally: &ReadTally) {
        // Without a sample, no further get comes here.
        let next = sample.map_or(u64::MAX, |sample| {
            tally.gets.load().saturating_add(sample.0.keys.0.lock().keep(key))
        });
        tally.next_sample.set(next);
    }

    /// Counts a scan, and may add its range, if the scan has two bounds.
    pub(crate) fn scanned(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) {
        let (Bound::Included(from) | Bound::Excluded(from)) = from else { return };
        let (Bound::Included(end) | Bound::Excluded(end)) = to else { return };
        let scans = self.0.scans.fetch_add(1, Relaxed) + 1;
        if scans >= self.0.next_scan.load(Relaxed) {
            // The lower bound is preceded by its length, so that the two bounds can be told apart.
            let is_included = matches!(to, Bound::Included(_));
            let len = u32::try_from(from.len()).unwrap_or(u32::MAX);
            let range = [&[u8::from(is_included)][..], &len.to_le_bytes(), from, end].concat();
            let gap = self.0.ranges.0.lock().keep(&range);
            self.0.next_scan.store(scans + gap, Relaxed);
        }
    }
}

/// Returns the range of a scan from its stored form.
fn range(kept: &[u8]) -> Option<ScannedRange> {
    let (&[is_included, a, b, c, d], keys) = kept.split_first_chunk()?;
    let len = u32::from_le_bytes([a, b, c, d]) as usize;
    let (from, end) = keys.split_at_checked(len)?;
    let to = if is_included == 1 { Bound::Included } else { Bound::Excluded };
    Some(ScannedRange { from: from.to_vec(), to: to(end.to_vec()) })
}

#[derive(Debug)]
struct KeptKeys(Mutex<Kept>);

impl Default for KeptKeys {
    fn default() -> KeptKeys {
        KeptKeys(Mutex::ranked(LockRank::Leaf, Kept::new()))
    }
}

#[derive(Debug)]
struct Kept {
    /// The keys, oldest first.
    keys: VecDeque<Box<[u8]>>,
    bytes: usize,
    /// Number of times that the gaps were doubled.
    doublings: u32,
    random: Rng,
}

impl Kept {
    fn new() -> Kept {
        Kept { keys: VecDeque::new(), bytes: 0, doublings: 0, random: Rng::new(0) }
    }

    /// Adds `key`. Returns the number of gets (or scans) until the next one to sample.
    fn keep(&mut self, key: &[u8]) -> u64 {
        if key.len() <= MAX_KEY_BYTES {
            while self.keys.len() == MAX_KEYS || self.bytes + key.len() > MAX_BYTES {
                self.make_room();
            }
            self.bytes += key.len();
            debug_assert!(self.bytes <= MAX_BYTES, "the keys kept are too long");
            self.keys.push_back(key.into());
        }
        // The gaps are random, because the pattern of lookups may be periodic.
        let mean = 1 << self.doublings;
        1 + self.random.below(2 * mean - 1)
    }

    fn make_room(&mut self) {
        debug_assert!(self.keys.len() <= MAX_KEYS, "too many keys are kept");
        debug_assert!(1 << self.doublings <= MAX_GAP, "the gaps are too large");
        if 1 << self.doublings == MAX_GAP {
            self.bytes -= self.keys.pop_front().map_or(0, |oldest| oldest.len());
            return;
        }
        self.doublings += 1;
        let mut keys = std::mem::take(&mut self.keys);
        keys.retain(|_| self.random.below(2) == 0);
        let bytes = keys.iter().map(|key| key.len()).sum();
        debug_assert!(bytes <= self.bytes, "dropping keys frees memory");
        self.bytes = bytes;
        self.keys = keys;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked_up(sample: &ReadSample, tally: &ReadTally, key: &[u8]) {
        tally.get(true);
        ReadSample::looked_up(Some(sample), key, tally);
    }

    #[test]
    fn at_first_all_are_kept_and_then_fewer_and_fewer() {
        let (sample, tally) = (ReadSample::new(), ReadTally::default());
        for i in 0..1000u32 {
            looked_up(&sample, &tally, &i.to_le_bytes());
        }
        let expected: Vec<_> = (0..1000u32).map(|i| i.to_le_bytes().to_vec()).collect();
        assert_eq!(sample.keys(), expected);
        let oldest_of = || u32::from_le_bytes(sample.keys()[0][..].try_into().unwrap());
        (1000..1 << 20).for_each(|i: u32| looked_up(&sample, &tally, &i.to_le_bytes()));
        // The sample still covers all gets, and each get is equally likely to be in the sample.
        let late = sample.keys().iter().filter(|key| key[2] >= 8).count();
        let kept = sample.keys().len();
        assert!((MAX_KEYS / 2 - 300..=MAX_KEYS).contains(&kept), "{kept}");
        assert!((kept / 2).abs_diff(late) < 250, "{late} of {kept} in the second half");
        let early = sample.keys().iter().filter(|key| key[2] == 0).count();
        assert!((kept / 16).abs_diff(early) < 120, "{early} of {kept} in the first sixteenth");
        (1 << 20..8 << 20).for_each(|i: u32| looked_up(&sample, &tally, &i.to_le_bytes()));
        // Now the sample covers the last 8192 * 256 gets.
        let kept = sample.0.keys.0.lock();
        assert_eq!((kept.keys.len(), 1 << kept.doublings), (MAX_KEYS, MAX_GAP));
        assert_eq!(kept.bytes, MAX_KEYS * size_of::<u32>());
        drop(kept);
        let since = (8 << 20) - oldest_of();
        assert!(since.abs_diff((MAX_KEYS as u64 * MAX_GAP) as u32) < 100_000, "{since}");
    }

    #[test]
    fn scans_with_two_bounds_are_kept_with_them() {
        let sample = ReadSample::new();
        type Key<'a> = Bound<&'a [u8]>;
        let scanned = |from: Key<'_>, to: Key<'_>| sample.scanned(from, to);
        scanned(Bound::Included(b"b"), Bound::Excluded(b"cde"));
        scanned(Bound::Excluded(b""), Bound::Included(b""));
        scanned(Bound::Included(b"b"), Bound::Unbounded);
        scanned(Bound::Unbounded, Bound::Included(b"b"));
        let range = |from: &[u8], to| ScannedRange { from: from.to_vec(), to };
        let expected = vec![
            range(b"b", Bound::Excluded(b"cde".to_vec())),
            range(b"", Bound::Included(Vec::new())),
        ];
        assert_eq!((sample.scans(), sample.ranges()), (2, expected));
        for i in 0..100_000u32 {
            scanned(Bound::Included(&i.to_be_bytes()), Bound::Excluded(b"z"));
        }
        let kept = sample.ranges().len();
        assert_eq!(sample.scans(), 100_002);
        assert!((MAX_KEYS / 2 - 300..=MAX_KEYS).contains(&kept), "{kept}");
    }

    /// Checks that, when gets of two keys alternate, neither key is sampled much more often than
    /// the other.
    #[test]
    fn a_rhythm_of_lookups_does_not_show() {
        let (sample, tally) = (ReadSample::new(), ReadTally::default());
        (0..4u32 << 20).for_each(|i| looked_up(&sample, &tally, &[(i % 2) as u8]));
        let keys = sample.keys();
        let odd = keys.iter().filter(|key| key[0] == 1).count();
        assert!((keys.len() / 2).abs_diff(odd) < 250, "{odd} of {}", keys.len());
    }

    #[test]
    fn without_a_sample_no_get_is_looked_at_again() {
        let tally = ReadTally::default();
        tally.get(true);
        ReadSample::looked_up(None, b"key", &tally);
        assert_eq!(tally.next_sample.load(), u64::MAX);
    }

    #[test]
    fn a_cleared_sample_begins_anew() {
        let sample = ReadSample::new();
        (0..20_000).for_each(|_| sample.scanned(Bound::Included(b"a"), Bound::Included(b"b")));
        sample.clear();
        assert_eq!((sample.scans(), sample.keys().len(), sample.ranges().len()), (0, 0, 0));
        (0..10).for_each(|_| sample.scanned(Bound::Included(b"a"), Bound::Included(b"b")));
        assert_eq!((sample.scans(), sample.ranges().len()), (10, 10));
    }

    #[test]
    fn long_keys_take_no_more_room_than_short_ones() {
        let (sample, tally) = (ReadSample::new(), ReadTally::default());
        for i in 0..20_000usize {
            looked_up(&sample, &tally, &vec![7; i]);
            assert!(sample.0.keys.0.lock().bytes <= MAX_BYTES);
        }
        let kept = sample.0.keys.0.lock();
        assert_eq!(kept.bytes, kept.keys.iter().map(|key| key.len()).sum::<usize>());
        assert!(kept.keys.iter().all(|key| key.len() <= MAX_KEY_BYTES) && kept.keys.len() >= 64);
    }
}
