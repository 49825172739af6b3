//! Concurrent writers and readers, while memtables are flushed and tables are compacted.
//!
//! Each writer owns a range of keys. In one batch, it writes two keys whose values are always
//! equal, and a third key that exists only if the written number is even. The numbers only grow, so
//! a reader can check its results without knowing the progress of the writer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use bytes::Bytes;
use minikv::{Db, Iter, Options, Readable, WriteBatch, WriteOptions};

use crate::home::Home;

use crate::rng::Rng;

const WRITERS: usize = 3;
const READERS: usize = 2;
/// Number of groups of keys per writer.
const GROUPS: usize = 50;

fn key(writer: usize, group: usize, part: &str) -> String {
    format!("w{writer}/{group:03}/{part}")
}

/// Returns a value that starts with `number` and is long enough to fill tables.
fn value(number: u64) -> Vec<u8> {
    [&number.to_be_bytes()[..], &vec![number as u8; 40 + number as usize % 100]].concat()
}

fn number(value: &[u8]) -> u64 {
    let number = u64::from_be_bytes(value[..8].try_into().expect("eight bytes"));
    assert_eq!(value, self::value(number), "a value no one wrote");
    number
}

/// The state that the threads share.
struct Scene<'a> {
    db: Db,
    home: &'a Home,
    seed: u64,
    rounds: u64,
    /// Number of the last write that has returned, by writer and group.
    acknowledged: Vec<Vec<AtomicU64>>,
    writing: AtomicUsize,
}

/// Counts a writer as finished when dropped, even after a panic, so that the other threads end.
struct Writing<'a>(&'a AtomicUsize);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Lets each writer write `rounds` batches.
pub fn run(home: &Home, options: Options, seed: u64, rounds: u64) {
    println!("{rounds} rounds, MINIKV_SEED={seed}");
    let groups = || (0..GROUPS).map(|_| AtomicU64::new(0)).collect();
    let scene = Scene {
        db: Db::open(home.dir(), options.clone().create_if_missing(true)).unwrap(),
        home,
        seed,
        rounds,
        acknowledged: (0..WRITERS).map(|_| groups()).collect(),
        writing: AtomicUsize::new(WRITERS),
    };
    thread::scope(|scope| {
        let scene = &scene;
        for writer in 0..WRITERS {
            scope.spawn(move || scene.write(writer));
        }
        for reader in 0..READERS {
            scope.spawn(move || scene.read(reader));
        }
        scope.spawn(move || scene.look_from_outside());
        scope.spawn(move || scene.tidy());
    });
    scene.check_at_rest(&scene.db);
    let Scene { db, acknowledged, .. } = scene;
    db.close().unwrap();
    let db = Db::open(home.dir(), options).unwrap();
    let scene = Scene { db, home, seed, rounds, acknowledged, writing: AtomicUsize::new(0) };
    scene.check_at_rest(&scene.db);
}

impl Scene<'_> {
    fn rng(&self, thread: usize) -> Rng {
        Rng::new(self.seed.wrapping_mul(31).wrapping_add(thread as u64))
    }

    fn write(&self, writer: usize) {
        let _writing = Writing(&self.writing);
        let mut rng = self.rng(writer);
        for _ in 0..self.rounds {
            let group = rng.below(GROUPS);
            let acknowledged = &self.acknowledged[writer][group];
            let number = acknowledged.load(Ordering::SeqCst) + 1;
            let mut batch = WriteBatch::new();
            batch.put(key(writer, group, "left"), value(number));
            match number.is_multiple_of(2) {
                true => batch.put(key(writer, group, "even"), value(number)),
                false => batch.delete(key(writer, group, "even")),
            }
            batch.put(key(writer, group, "right"), value(number));
            let options = WriteOptions::default().sync(rng.one_in(200));
            self.db.writing(options).write(batch).unwrap();
            acknowledged.store(number, Ordering::SeqCst);
        }
    }

    fn read(&self, reader: usize) {
        let mut rng = self.rng(100 + reader);
        let mut seen = vec![vec![0; GROUPS]; WRITERS];
        while self.writing.load(Ordering::SeqCst) > 0 {
            let (writer, group) = (rng.below(WRITERS), rng.below(GROUPS));
            let floor = self.acknowledged[writer][group].load(Ordering::SeqCst);
            let floor = floor.max(seen[writer][group]);
            seen[writer][group] = match rng.below(20) {
                0 => self.scan(&mut rng, writer, group, floor),
                1..4 => self.read_directly(writer, group, floor),
                4..8 => self.read_backward(&mut rng, writer, group, floor),
                _ => self.read_through_snapshot(writer, group, floor),
            };
        }
    }

    fn read_through_snapshot(&self, writer: usize, group: usize, floor: u64) -> u64 {
        let snapshot = self.db.snapshot();
        let get = |part| snapshot.get(key(writer, group, part)).unwrap();
        let left = get("left").map_or(0, |value| number(&value));
        let right = get("right").map_or(0, |value| number(&value));
        let even = get("even").map(|value| number(&value));
        assert_eq!(left, right, "half a batch");
        assert_eq!(even, expected_even(left), "half a batch, or a deleted key is back");
        assert!(left >= floor, "{left} after {floor} was acknowledged or read");
        left
    }

    fn read_directly(&self, writer: usize, group: usize, floor: u64) -> u64 {
        let read = |part| {
            let value = self.db.get(key(writer, group, part)).unwrap();
            value.map_or(0, |value| number(&value))
        };
        let (first, second) = (read("left"), read("right"));
        assert!(floor <= first && first <= second, "{first}, then {second}, after {floor}");
        second
    }

    /// Reads a group of keys backward, in one of three ways. Returns the number stored under every
    /// key of the group; 0 if the group has no keys.
    fn read_backward(&self, rng: &mut Rng, writer: usize, group: usize, floor: u64) -> u64 {
        let (first, last) = (key(writer, group, "even"), key(writer, group, "right"));
        let entries: Vec<(Bytes, Bytes)> = match rng.below(3) {
            0 => {
                self.db.prefix(key(writer, group, "")).unwrap().rev().map(Result::unwrap).collect()
            }
            1 => self.db.range(first..=last).rev().map(Result::unwrap).collect(),
            _ => {
                let (mut cursor, mut entries) = (self.db.cursor().unwrap(), Vec::new());
                let mut valid = cursor.seek_for_prev(last).unwrap();
                while valid && cursor.key() >= first.as_bytes() {
                    entries.push((Bytes::copy_from_slice(cursor.key()), cursor.value_bytes()));
                    valid = cursor.prev().unwrap();
                }
                entries
            }
        };
        let found = entries.first().map_or(0, |(_, value)| number(value));
        let parts = ["right", "left", "even"];
        let expected = match found {
            0 => &parts[..0],
            odd if !odd.is_multiple_of(2) => &parts[..2],
            _ => &parts,
        };
        let keys = entries.iter().map(|(key, _)| &key[..]);
        let expected: Vec<_> = expected.iter().map(|part| key(writer, group, part)).collect();
        assert!(keys.eq(expected.iter().map(String::as_bytes)), "{entries:?} is half a batch");
        assert!(entries.iter().all(|(_, value)| number(value) == found), "half a batch");
        assert!(found >= floor, "{found} backward, after {floor}");
        found
    }

    /// Reads the whole database in one pass, which must show the state at a single moment. Returns
    /// the number that the group holds.
    fn scan(&self, rng: &mut Rng, writer: usize, group: usize, floor: u64) -> u64 {
        let iter = self.db.iter();
        let entries = match rng.one_in(2) {
            true => collect(iter.rev()),
            false => collect(iter),
        };
        check_whole(&entries);
        let found = entries.get(&key(writer, group, "right")).copied().unwrap_or(0);
        assert!(found >= floor, "{found} in a scan, after {floor}");
        found
    }

    /// Opens the directory read-only again and again, as another process would.
    fn look_from_outside(&self) {
        let mut rng = self.rng(300);
        while self.writing.load(Ordering::SeqCst) > 0 {
            let (writer, group) = (rng.below(WRITERS), rng.below(GROUPS));
            let floor = self.acknowledged[writer][group].load(Ordering::SeqCst);
            let db = Db::open_read_only(self.home.dir(), self.home.options()).unwrap();
            let entries = collect(db.iter());
            assert_eq!(collect(db.iter().rev()), entries, "backward");
            check_whole(&entries);
            let found = entries.get(&key(writer, group, "left")).copied().unwrap_or(0);
            assert!(found >= floor, "{found} from outside, after {floor}");
        }
    }

    /// Flushes and compacts as long as there are writers.
    fn tidy(&self) {
        let mut rng = self.rng(200);
        while self.writing.load(Ordering::SeqCst) > 0 {
            let a = key(rng.below(WRITERS), rng.below(GROUPS), "");
            let b = key(rng.below(WRITERS), rng.below(GROUPS), "");
            match rng.below(4) {
                0 => self.db.flush().unwrap(),
                1 => self.db.wait_idle().unwrap(),
                2 => self.db.compact_range(&a..=&b).unwrap(),
                _ => self.db.compact_range(&a..).unwrap(),
            }
        }
    }

    fn check_at_rest(&self, db: &impl Readable) {
        let entries = collect(db.iter());
        assert_eq!(collect(db.iter().rev()), entries, "backward");
        check_whole(&entries);
        for (writer, groups) in self.acknowledged.iter().enumerate() {
            for (group, acknowledged) in groups.iter().enumerate() {
                let found = entries.get(&key(writer, group, "left")).copied();
                let acknowledged = acknowledged.load(Ordering::SeqCst);
                assert_eq!(found.unwrap_or(0), acknowledged, "writer {writer}, group {group}");
            }
        }
    }
}

fn expected_even(number: u64) -> Option<u64> {
    (number > 0 && number.is_multiple_of(2)).then_some(number)
}

fn collect(entries: impl Iterator<Item = <Iter as Iterator>::Item>) -> BTreeMap<String, u64> {
    let text = |key: &[u8]| String::from_utf8(key.to_vec()).expect("keys are text");
    entries.map(|entry| entry.unwrap()).map(|(k, v)| (text(&k), number(&v))).collect()
}

/// Checks that every group of keys is in the state that one batch left.
fn check_whole(entries: &BTreeMap<String, u64>) {
    for writer in 0..WRITERS {
        for group in 0..GROUPS {
            let get = |part| entries.get(&key(writer, group, part)).copied();
            let left = get("left");
            assert_eq!(left, get("right"), "half a batch of writer {writer}, group {group}");
            assert_eq!(get("even"), expected_even(left.unwrap_or(0)));
        }
    }
}
