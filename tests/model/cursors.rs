//! Moves cursors in both directions while a writer fills the memtable, which is therefore sorted
//! again and again. A cursor must show every write that was acknowledged before the cursor was
//! opened, and each scan must show the state at one moment.
//!
//! `MINIKV_CURSOR_SECONDS` is the duration of each of the two runs, in seconds (default 1).

use std::ops::Range;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use minikv::{Cursor, Db, Readable, WriteBatch};

use crate::home::Home;
use crate::rng::Rng;

/// Number of reading threads. It exceeds the number of cores on most machines, so that a reader can
/// be interrupted anywhere.
const READERS: u64 = 8;
/// Number of keys in the series. The writer overwrites these keys in turn.
const KEYS: u64 = 200;
const BATCH: u64 = 50;

/// Database with counters of the acknowledged writes and of the checked scans.
struct Scene {
    db: Db,
    is_over: AtomicBool,
    /// Number of acknowledged puts to the series. Put `i` goes to the key `series_key(i)`.
    series: AtomicU64,
    /// Number of puts of ascending keys, which are greater than all other keys.
    ascending: AtomicU64,
    /// Number of batches. Each batch sets all keys of one prefix to the batch's number.
    batches: AtomicU64,
    /// Number of scans that were checked.
    scans: AtomicU64,
}

/// Returns the key to which put `number` of the series goes. Successive keys are not in order, so
/// that any leaf can be split.
fn series_key(number: u64) -> Vec<u8> {
    format!("a{:03}", number % KEYS * 77 % KEYS).into_bytes()
}

fn ascending_key(number: u64) -> Vec<u8> {
    format!("z{number:012}").into_bytes()
}

fn number(value: &[u8]) -> u64 {
    u64::from_be_bytes(value.try_into().expect("eight bytes"))
}

pub fn run(home: &Home, seed: u64) {
    let seconds = std::env::var("MINIKV_CURSOR_SECONDS").map_or(1.0, |text| text.parse().unwrap());
    for write_buffer_bytes in [32 << 20, 256 << 10] {
        let options = home.options().create_if_missing(true);
        let db = Db::open(home.dir(), options.write_buffer_bytes(write_buffer_bytes)).unwrap();
        let scene = Scene {
            db,
            is_over: AtomicBool::new(false),
            series: 0.into(),
            ascending: 0.into(),
            batches: 0.into(),
            scans: 0.into(),
        };
        for _ in 0..KEYS {
            scene.write_series();
        }
        scene.write_ascending();
        scene.write_batch();
        let until = Instant::now() + Duration::from_secs_f64(seconds);
        thread::scope(|scope| {
            let scene = &scene;
            scope.spawn(move || {
                scene.go_on(until, |scene| {
                    (0..BATCH).for_each(|_| scene.write_series());
                    (0..BATCH).for_each(|_| scene.write_ascending());
                    scene.write_batch();
                });
            });
            for reader in 0..READERS {
                let mut rng = Rng::new(seed.wrapping_mul(31).wrapping_add(reader));
                scope.spawn(move || scene.go_on(until, |scene| scene.read(&mut rng)));
            }
        });
        println!(
            "{} scans both ways beside {} puts: nothing missing, nothing torn, MINIKV_SEED={seed}",
            scene.scans.load(SeqCst),
            scene.series.load(SeqCst) + scene.ascending.load(SeqCst),
        );
        scene.db.close().unwrap();
        minikv::destroy(home.dir(), &home.options()).unwrap();
    }
}

/// Makes all threads end when it is dropped, even after a failed check.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

impl Scene {
    fn go_on(&self, until: Instant, mut step: impl FnMut(&Scene)) {
        let _over = Over(&self.is_over);
        while !self.is_over.load(SeqCst) && Instant::now() < until {
            step(self);
        }
    }

    fn write_series(&self) {
        let next = self.series.load(SeqCst) + 1;
        self.db.put(series_key(next), next.to_be_bytes()).unwrap();
        self.series.store(next, SeqCst);
    }

    fn write_ascending(&self) {
        let next = self.ascending.load(SeqCst) + 1;
        self.db.put(ascending_key(next), next.to_be_bytes()).unwrap();
        self.ascending.store(next, SeqCst);
    }

    fn write_batch(&self) {
        let next = self.batches.load(SeqCst) + 1;
        let mut batch = WriteBatch::new();
        (0..BATCH).for_each(|key| batch.put(format!("b{key:02}"), next.to_be_bytes()));
        self.db.write(batch).unwrap();
        self.batches.store(next, SeqCst);
    }

    fn read(&self, rng: &mut Rng) {
        self.scans.fetch_add(1, SeqCst);
        match rng.below(8) {
            0 => self.scan_series(true),
            1 | 2 => self.scan_series(false),
            3 => self.scan_part_of_series(rng),
            4 => self.seek_in_series(rng),
            5 => self.read_batch(rng.one_in(3)),
            _ => self.read_last(rng.one_in(2)),
        }
    }

    /// Checks a scan of the series. The value of each key shows when it was written, so the highest
    /// value determines all other values.
    fn scan_series(&self, forward: bool) {
        let done = self.series.load(SeqCst);
        let iter = self.db.prefix("a").unwrap();
        let mut found: Vec<_> = match forward {
            true => iter.map(Result::unwrap).collect(),
            false => iter.rev().map(Result::unwrap).collect(),
        };
        if !forward {
            found.reverse();
        }
        let newest = found.iter().map(|(_, value)| number(value)).max().unwrap();
        assert!(newest >= done, "{newest} is the newest, {done} was acknowledged before");
        let mut expected: Vec<_> = (newest - KEYS + 1..=newest)
            .map(|number| {
                (Bytes::from(series_key(number)), Bytes::from(number.to_be_bytes().to_vec()))
            })
            .collect();
        expected.sort();
        assert!(found == expected, "forward: {forward}, {done} acknowledged: {found:?}");
    }

    fn scan_part_of_series(&self, rng: &mut Rng) {
        let from = rng.below(KEYS as usize);
        let Range { start, end } = from..(from + 1 + rng.below(40)).min(KEYS as usize);
        let (lower, upper) = (format!("a{start:03}"), format!("a{end:03}"));
        let done = self.series.load(SeqCst);
        let found: Vec<_> = match rng.one_in(3) {
            true => self.db.range(lower..upper).map(Result::unwrap).collect(),
            false => {
                let iter = self.db.range(lower..upper);
                let mut found: Vec<_> = iter.rev().map(Result::unwrap).collect();
                found.reverse();
                found
            }
        };
        let keys = (start..end).map(|key| format!("a{key:03}"));
        assert!(
            found.iter().map(|(key, _)| &key[..]).eq(keys.map(String::into_bytes)),
            "{found:?}"
        );
        found.iter().for_each(|(key, value)| check_in_series(key, value, done));
    }

    fn seek_in_series(&self, rng: &mut Rng) {
        let key = series_key(rng.next());
        let done = self.series.load(SeqCst);
        let mut cursor = self.db.cursor().unwrap();
        assert!(cursor.seek_for_prev(&key).unwrap());
        assert_eq!(cursor.key(), key);
        check_in_series(cursor.key(), cursor.value(), done);
        if cursor.prev().unwrap() {
            check_in_series(cursor.key(), cursor.value(), done);
            assert!(cursor.next().unwrap());
            assert_eq!(cursor.key(), key);
        }
    }

    fn read_batch(&self, forward: bool) {
        let done = self.batches.load(SeqCst);
        let iter = self.db.prefix("b").unwrap();
        let value = |entry: minikv::Result<(Bytes, Bytes)>| number(&entry.unwrap().1);
        let found: Vec<_> = match forward {
            true => iter.map(value).collect(),
            false => iter.rev().map(value).collect(),
        };
        assert_eq!(found.len() as u64, BATCH);
        assert!(found[0] >= done, "{found:?}, after {done}");
        assert!(found.iter().all(|number| *number == found[0]), "a torn batch: {found:?}");
    }

    fn read_last(&self, by_iterator: bool) {
        let done = self.ascending.load(SeqCst);
        let check = |key: &[u8], value: &[u8]| {
            assert!(number(value) >= done, "{} is the last, after {done}", number(value));
            assert_eq!(key, ascending_key(number(value)));
        };
        if by_iterator {
            let (key, value) = self.db.iter().next_back().unwrap().unwrap();
            return check(&key, &value);
        }
        let mut cursor: Cursor = self.db.cursor().unwrap();
        assert!(cursor.seek_to_last().unwrap());
        check(cursor.key(), cursor.value());
        let last = number(cursor.value());
        for back in 1..last.min(100) {
            assert!(cursor.prev().unwrap());
            assert_eq!(number(cursor.value()), last - back, "{back} before the last");
        }
    }
}

/// Checks that an entry is no older than the newest acknowledged entry with the same key.
fn check_in_series(key: &[u8], value: &[u8], done: u64) {
    assert_eq!(key, series_key(number(value)));
    assert!(number(value) + KEYS > done, "{} is there, after {done}", number(value));
}
