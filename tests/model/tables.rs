//! Checks that every table of a view can be read, however many tables are written and removed in
//! the meantime.
//!
//! All sizes in the options are as small as possible: every few writes make a table, compactions
//! run all the time, and at most sixteen tables are open, so that nearly every read opens a file by
//! its name.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use minikv::{Db, Filters, FixedPrefix, Iter, Options, Readable, Snapshot};

use crate::home::Home;
use crate::rng::Rng;

const KEYS: usize = 400;
/// Number of iterators and snapshots that are held while tables are removed.
const HELD: usize = 6;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(home: &Home, rng: &mut Rng) -> Options {
    home.options()
        .create_if_missing(true)
        .write_buffer_bytes(*rng.pick(&[1, 500, 4000]))
        .max_file_bytes(*rng.pick(&[1, 300, 2000]))
        .max_open_files(16)
        .block_bytes(64)
        .block_cache_bytes(*rng.pick(&[0, 4 << 10]))
        .filters(Filters::Table(10))
        .filter_prefix(FixedPrefix::new(0))
        .manifest_rotate_bytes(*rng.pick(&[1, 10 << 10]))
}

fn key(rng: &mut Rng) -> Vec<u8> {
    format!("{:03}", rng.below(KEYS)).into_bytes()
}

/// Runs `operations` random operations in one thread, which compares the results with a model.
/// Meanwhile, other threads read, and check only that every read succeeds.
pub fn run(home: &Home, seed: u64, operations: u64) {
    println!("{operations} operations over tiny tables, MINIKV_SEED={seed}");
    let mut rng = Rng::new(seed);
    let mut model = Model::new();
    // The iterators in `held` outlive the handle that created them. The directory stays locked
    // until they are dropped.
    let mut left = operations;
    while left > 0 {
        let now = left.min(1 + rng.below(3000) as u64);
        left -= now;
        let db = Db::open(home.dir(), options(home, &mut rng)).unwrap();
        let writing = AtomicBool::new(true);
        let mut held = Vec::new();
        thread::scope(|scope| {
            for reader in 0..2 {
                let (db, writing) = (&db, &writing);
                scope.spawn(move || look(db, writing, Rng::new(seed ^ left << 8 ^ reader)));
            }
            let _done = Done(&writing);
            for _ in 0..now {
                step(&db, &mut model, &mut held, &mut rng);
            }
        });
        drop(db);
        held.into_iter().for_each(Held::check);
    }
}

/// Makes the other threads end when it is dropped, even after a panic.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// A view that is held while tables are removed, and the expected state.
enum Held {
    Iter(Box<Iter>, Model),
    Snapshot(Snapshot, Model),
}

impl Held {
    fn check(self) {
        match self {
            Held::Iter(iter, model) => check(*iter, &model),
            Held::Snapshot(snapshot, model) => check(snapshot.iter(), &model),
        }
    }
}

/// Reads an iterator from both ends alternately, and compares its entries with `model`.
fn check(mut iter: Iter, model: &Model) {
    let mut due = model.iter();
    let mut backward = true;
    loop {
        let (found, wanted) = match backward {
            true => (iter.next_back(), due.next_back()),
            false => (iter.next(), due.next()),
        };
        let found = found.map(|entry| entry.unwrap());
        let found = found.as_ref().map(|(key, value)| (&key[..], &value[..]));
        assert_eq!(found, wanted.map(|(key, value)| (&key[..], &value[..])));
        if found.is_none() {
            return;
        }
        backward = !backward;
    }
}

fn step(db: &Db, model: &mut Model, held: &mut Vec<Held>, rng: &mut Rng) {
    match rng.below(100) {
        0 => db.flush().unwrap(),
        1 => {
            let (a, b) = (key(rng), key(rng));
            db.compact_range(a.clone().min(b.clone())..=a.max(b)).unwrap();
        }
        2 if rng.one_in(10) => db.compact_range(..).unwrap(),
        2..6 => check(db.iter(), model),
        6 | 7 if held.len() < HELD => held.push(match rng.one_in(2) {
            true => Held::Iter(Box::new(db.iter()), model.clone()),
            false => Held::Snapshot(db.snapshot(), model.clone()),
        }),
        6..9 if !held.is_empty() => held.swap_remove(rng.below(held.len())).check(),
        6..30 => {
            let key = key(rng);
            db.delete(&key).unwrap();
            model.remove(&key);
        }
        _ => {
            let (key, len) = (key(rng), rng.below(60));
            let value = rng.bytes(len);
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
    }
}

/// Reads from random positions in both directions until the writing thread is done.
fn look(db: &Db, writing: &AtomicBool, mut rng: Rng) {
    while writing.load(Ordering::SeqCst) {
        let mut cursor = db.cursor().unwrap();
        let mut valid = match rng.below(4) {
            0 => cursor.seek_to_first().unwrap(),
            1 => cursor.seek_to_last().unwrap(),
            2 => cursor.seek(key(&mut rng)).unwrap(),
            _ => cursor.seek_for_prev(key(&mut rng)).unwrap(),
        };
        for _ in 0..rng.below(100) {
            if !valid {
                break;
            }
            valid = if rng.one_in(3) { cursor.next() } else { cursor.prev() }.unwrap();
        }
        db.get(key(&mut rng)).unwrap();
    }
}
