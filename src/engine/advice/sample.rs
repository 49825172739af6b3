//! A sample of the keys that gets look up, at a bounded cost.
//!
//! Which get is kept is decided ahead: a thread compares its own count of gets with the number of
//! the next one to keep, and only that one takes the lock. At first every get is kept, and the gaps
//! double until one get in 256, on average, is.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::base::stats::ReadTally;

/// Keys kept, the newest.
pub const MAX_KEYS: usize = 8192;

/// Bytes of keys kept, and so the most memory that the sample takes, but for 24 bytes a key.
pub const MAX_BYTES: usize = 1 << 20;

/// Longer keys are not kept: each would push out hundreds of others.
const MAX_KEY_BYTES: usize = MAX_BYTES / 64;

/// After so many kept keys the gaps double.
const KEYS_AT_ONE_GAP: u64 = 1024;

/// Gaps double so often.
const DOUBLINGS: u64 = 8;

/// The keys that were looked up lately, a part of them. Thread-safe.
#[derive(Debug, Default)]
pub struct LookupSample {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Oldest first.
    keys: VecDeque<Box<[u8]>>,
    bytes: usize,
    /// Keys kept since the database was opened.
    taken: u64,
}

impl LookupSample {
    /// Told of every get by the thread that `tally` is of, which counted it there already.
    #[inline]
    pub fn looked_up(&self, key: &[u8], tally: &ReadTally) {
        if tally.gets.load() >= tally.next_sample.load() {
            self.keep(key, tally);
        }
    }

    #[cold]
    fn keep(&self, key: &[u8], tally: &ReadTally) {
        let gap = self.kept.lock().keep(key);
        tally.next_sample.set(tally.gets.load() + gap);
    }

    /// The keys, oldest first, each as often as it was kept.
    pub fn keys(&self) -> Vec<Box<[u8]>> {
        self.kept.lock().keys.iter().cloned().collect()
    }
}

impl Kept {
    /// Keeps `key`, and says how many gets on the next one is to be kept.
    fn keep(&mut self, key: &[u8]) -> u64 {
        self.taken += 1;
        if key.len() <= MAX_KEY_BYTES {
            while self.keys.len() == MAX_KEYS || self.bytes + key.len() > MAX_BYTES {
                self.bytes -= self.keys.pop_front().map_or(0, |oldest| oldest.len());
            }
            self.bytes += key.len();
            self.keys.push_back(key.into());
        }
        let mean = 1 << (self.taken / KEYS_AT_ONE_GAP).min(DOUBLINGS);
        // Not the same gap each time: lookups may come in a rhythm.
        1 + spread(self.taken) % (2 * mean - 1)
    }
}

/// The finalizer of splitmix64: numbers in a row come out as if thrown.
fn spread(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked_up(sample: &LookupSample, tally: &ReadTally, key: &[u8]) {
        tally.get(true);
        sample.looked_up(key, tally);
    }

    #[test]
    fn at_first_all_are_kept_and_then_one_in_256() {
        let (sample, tally) = (LookupSample::default(), ReadTally::default());
        for i in 0..1000u32 {
            looked_up(&sample, &tally, &i.to_le_bytes());
        }
        let expected: Vec<Box<[u8]>> = (0..1000u32).map(|i| Box::from(i.to_le_bytes())).collect();
        assert_eq!(sample.keys(), expected);
        let kept_of = |gets: u32| {
            let before = sample.kept.lock().taken;
            (0..gets).for_each(|i| looked_up(&sample, &tally, &i.to_le_bytes()));
            sample.kept.lock().taken - before
        };
        kept_of(1 << 20);
        let kept = kept_of(1 << 20);
        assert!((3900..4300).contains(&kept), "{kept} of 2^20 at one in 256");
        assert_eq!(sample.keys().len(), MAX_KEYS);
    }

    /// Two keys in turns: neither may be kept much more often than the other.
    #[test]
    fn a_rhythm_of_lookups_does_not_show() {
        let (sample, tally) = (LookupSample::default(), ReadTally::default());
        (0..4u32 << 20).for_each(|i| looked_up(&sample, &tally, &[(i % 2) as u8]));
        let odd = sample.keys().iter().filter(|key| key[0] == 1).count();
        assert!((MAX_KEYS / 2).abs_diff(odd) < 200, "{odd} of {MAX_KEYS}");
    }

    #[test]
    fn long_keys_take_no_more_room_than_short_ones() {
        let (sample, tally) = (LookupSample::default(), ReadTally::default());
        for i in 0..20_000usize {
            looked_up(&sample, &tally, &vec![7; i]);
            assert!(sample.kept.lock().bytes <= MAX_BYTES);
        }
        let kept = sample.kept.lock();
        assert_eq!(kept.bytes, kept.keys.iter().map(|key| key.len()).sum::<usize>());
        assert!(kept.keys.iter().all(|key| key.len() <= MAX_KEY_BYTES) && kept.keys.len() >= 64);
    }
}
