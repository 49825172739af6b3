//! Recorded histories of many threads, checked for linearizability.
//!
//! Every operation takes a number when it is called and another when it has returned. A history is
//! linearizable if each operation can be placed at one moment between its two numbers so that a
//! plain array, on which the operations are performed in the order of these moments, gives the same
//! answers as the database. The search for such moments is Wing and Gong's algorithm, with Lowe's
//! cache of the states already tried. A batch is one operation. A snapshot or an iterator is also
//! one operation, no matter when it is read: it shows the state at the moment of its creation.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Barrier;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;

use minikv::{Db, Iter, Options, Readable, WriteBatch, WriteOptions};

use crate::rng::Rng;

const KEYS: usize = 3;
const THREADS: usize = 4;
const OPS_PER_THREAD: usize = 6;

type Value = Option<u64>;
type State = [Value; KEYS];

#[derive(Clone, Debug, PartialEq, Eq)]
enum Op {
    /// A batch: indexes of keys, and their new values.
    Write(Vec<(usize, Value)>),
    /// A read at one moment: indexes of keys, and the values found.
    Read(Vec<(usize, Value)>),
}

#[derive(Clone, Debug)]
struct Event {
    called: u64,
    returned: u64,
    op: Op,
}

impl Op {
    /// Returns the state after this operation, or `None` if this operation cannot come next.
    fn apply(&self, state: &State) -> Option<State> {
        match self {
            Op::Write(writes) => {
                let mut state = *state;
                writes.iter().for_each(|&(key, value)| state[key] = value);
                Some(state)
            }
            Op::Read(found) => {
                found.iter().all(|&(key, value)| state[key] == value).then_some(*state)
            }
        }
    }
}

/// Returns whether some order of the operations explains a history that begins in `state`.
fn is_linearizable(state: State, history: &[Event]) -> bool {
    assert!(history.len() <= 64, "a bit for each");
    explain(state, history, 0, &mut HashSet::new())
}

fn explain(state: State, history: &[Event], done: u64, tried: &mut HashSet<(u64, State)>) -> bool {
    let is_left = |at: &usize| done & 1 << at == 0;
    let left = || (0..history.len()).filter(is_left);
    // The next operation in the order must have been called before any other remaining operation
    // returned.
    let Some(first_return) = left().map(|at| history[at].returned).min() else { return true };
    left().filter(|&at| history[at].called < first_return).any(|at| {
        let Some(next) = history[at].op.apply(&state) else { return false };
        let done = done | 1 << at;
        tried.insert((done, next)) && explain(next, history, done, tried)
    })
}

fn key(key: usize) -> [u8; 1] {
    [b'a' + key as u8]
}

/// Returns the index of a key.
fn at(key: &[u8]) -> usize {
    usize::from(key[0] - b'a')
}

/// Returns the values that an iterator found for a range of keys. Keys that the iterator did not
/// return are absent.
fn found_by(
    entries: impl IntoIterator<Item = <Iter as Iterator>::Item>,
    keys: Range<usize>,
) -> Vec<(usize, Value)> {
    let mut found: Vec<_> = keys.map(|at| (at, None)).collect();
    for entry in entries {
        let (key, value) = entry.unwrap();
        let place = found.iter_mut().find(|(asked, _)| *asked == at(&key));
        place.expect("a key that was asked for").1 = number(Some(value));
    }
    found
}

/// Returns a value that is long enough to fill memtables.
fn bytes(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(1 + number as usize % 9)
}

fn number(value: Option<impl AsRef<[u8]>>) -> Value {
    value.map(|value| {
        let value = value.as_ref();
        let number = u64::from_le_bytes(value[..8].try_into().unwrap());
        assert_eq!(value, bytes(number), "a value no one wrote");
        number
    })
}

struct Stress {
    db: Db,
    clock: AtomicU64,
    numbers: AtomicU64,
}

impl Stress {
    fn timed<T>(&self, call: impl FnOnce() -> T) -> (u64, u64, T) {
        let called = self.clock.fetch_add(1, SeqCst);
        let result = call();
        (called, self.clock.fetch_add(1, SeqCst), result)
    }

    fn write(&self, rng: &mut Rng) -> Event {
        let mut writes = Vec::new();
        for key in 0..KEYS {
            if rng.one_in(2) {
                let number = self.numbers.fetch_add(1, SeqCst);
                writes.push((key, (!rng.one_in(4)).then_some(number)));
            }
        }
        let mut batch = WriteBatch::new();
        for &(key, value) in &writes {
            match value {
                Some(number) => batch.put(self::key(key), bytes(number)),
                None => batch.delete(self::key(key)),
            }
        }
        let options = WriteOptions::default().sync(rng.one_in(8));
        let (called, returned, ()) = self.timed(|| self.db.writing(options).write(batch).unwrap());
        Event { called, returned, op: Op::Write(writes) }
    }

    fn read(&self, rng: &mut Rng) -> Event {
        let one = rng.below(KEYS);
        let all = || 0..KEYS;
        let (called, returned, found) = match rng.below(7) {
            0 => {
                let get = || vec![(one, number(self.db.get(key(one)).unwrap()))];
                self.timed(get)
            }
            1 => self.timed(|| {
                let found = self.db.multi_get(&all().map(key).collect::<Vec<_>>()).unwrap();
                all().zip(found.into_iter().map(number)).collect()
            }),
            2 => {
                let (called, returned, snapshot) = self.timed(|| self.db.snapshot());
                let get = |at| (at, number(snapshot.get(key(at)).unwrap()));
                (called, returned, all().rev().map(get).collect())
            }
            3 => {
                let (called, returned, iter) = self.timed(|| self.db.iter());
                (called, returned, found_by(iter, 0..KEYS))
            }
            4 => {
                let (called, returned, iter) = self.timed(|| self.db.iter());
                (called, returned, found_by(iter.rev(), 0..KEYS))
            }
            5 => {
                let (called, returned, mut iter) = self.timed(|| self.db.iter());
                let last = iter.next_back();
                let from = last.as_ref().map_or(0, |entry| at(&entry.as_ref().unwrap().0));
                (called, returned, found_by(last, from..KEYS))
            }
            _ => {
                let (called, returned, mut cursor) = self.timed(|| self.db.cursor().unwrap());
                let found = match cursor.seek_for_prev(key(one)).unwrap() {
                    true => (at(cursor.key())..one + 1)
                        .map(|key| (key, (key == at(cursor.key())).then_some(cursor.value())))
                        .map(|(key, value)| (key, number(value)))
                        .collect(),
                    false => (0..one + 1).map(|at| (at, None)).collect(),
                };
                (called, returned, found)
            }
        };
        Event { called, returned, op: Op::Read(found) }
    }

    /// Lets all threads perform operations, and then reads all keys. Returns the history of these
    /// operations.
    fn round(&self, seed: u64) -> Vec<Event> {
        let start = Barrier::new(THREADS);
        let mut history: Vec<Event> = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS as u64)
                .map(|thread| {
                    let start = &start;
                    scope.spawn(move || {
                        let mut rng = Rng::new(seed.wrapping_mul(64).wrapping_add(thread));
                        start.wait();
                        let one = |_| match rng.one_in(2) {
                            true => self.write(&mut rng),
                            false => self.read(&mut rng),
                        };
                        (0..OPS_PER_THREAD).map(one).collect::<Vec<_>>()
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let (called, returned, snapshot) = self.timed(|| self.db.snapshot());
        let found = (0..KEYS).map(|at| (at, number(snapshot.get(key(at)).unwrap()))).collect();
        history.push(Event { called, returned, op: Op::Read(found) });
        history
    }
}

/// Checks histories of four threads, while memtables are constantly flushed and tables constantly
/// compacted.
pub fn run(dir: &std::path::Path, options: Options, seed: u64, rounds: u64) {
    println!("{rounds} histories, MINIKV_SEED={seed}");
    let options = options.create_if_missing(true).write_buffer_bytes(2000).max_file_bytes(500);
    let db = Db::open(dir, options).unwrap();
    let stress = Stress { db, clock: AtomicU64::new(0), numbers: AtomicU64::new(1) };
    let is_over = AtomicBool::new(false);
    let mut overlapping = 0;
    thread::scope(|scope| {
        let over = Over(&is_over);
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                stress.db.flush().unwrap();
                stress.db.compact_range(..).unwrap();
            }
        });
        let mut state = [None; KEYS];
        for round in 0..rounds {
            let history = stress.round(seed.wrapping_add(round));
            let at_once = |a: &Event, b: &Event| a.called < b.returned && b.called < a.returned;
            let mut pairs = history.iter().enumerate().map(|(at, a)| (a, &history[at + 1..]));
            overlapping += usize::from(pairs.any(|(a, rest)| rest.iter().any(|b| at_once(a, b))));
            let explained = is_linearizable(state, &history);
            assert!(explained, "no order explains, from {state:?} on: {history:#?}");
            let Some(Event { op: Op::Read(last), .. }) = history.last() else { unreachable!() };
            state = std::array::from_fn(|at| last[at].1);
        }
        drop(over);
    });
    println!("{rounds} histories, in {overlapping} of them operations at once");
    assert!(overlapping as u64 > rounds / 10, "{overlapping}");
}

/// Makes the background thread end when it is dropped, even after a failed check.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

fn event(called: u64, returned: u64, op: Op) -> Event {
    Event { called, returned, op }
}

fn write(called: u64, returned: u64, writes: &[(usize, Value)]) -> Event {
    event(called, returned, Op::Write(writes.to_vec()))
}

fn read(called: u64, returned: u64, found: &[(usize, Value)]) -> Event {
    event(called, returned, Op::Read(found.to_vec()))
}

#[test]
fn made_up_histories_that_are_right_are_explained() {
    let empty = [None; KEYS];
    // A read that is concurrent with a write may or may not see the write.
    for found in [None, Some(1)] {
        assert!(is_linearizable(empty, &[write(0, 3, &[(0, Some(1))]), read(1, 2, &[(0, found)])]));
    }
    // Two concurrent writes may come in either order, as long as all reads agree.
    let writes = [write(0, 9, &[(0, Some(1))]), write(1, 8, &[(0, Some(2))])];
    for (first, then) in [(Some(1), Some(2)), (Some(2), Some(1))] {
        let reads = [read(2, 3, &[(0, first)]), read(4, 5, &[(0, then)])];
        assert!(is_linearizable(empty, &[&writes[..], &reads].concat()));
    }
}

#[test]
fn made_up_histories_that_are_wrong_are_told() {
    let empty = [None; KEYS];
    let both = [(0, Some(1)), (1, Some(1))];
    let wrong: [(&str, Vec<Event>); 5] = [
        ("a write is lost", vec![write(0, 1, &[(0, Some(1))]), read(2, 3, &[(0, None)])]),
        ("half a batch", vec![write(0, 5, &both), read(1, 2, &[(0, Some(1)), (1, None)])]),
        (
            "what was seen is gone",
            vec![
                write(0, 9, &[(0, Some(1))]),
                read(1, 2, &[(0, Some(1))]),
                read(3, 4, &[(0, None)]),
            ],
        ),
        (
            "two readers see two writes in two orders",
            vec![
                write(0, 20, &[(0, Some(1))]),
                write(1, 19, &[(1, Some(2))]),
                read(2, 18, &[(0, Some(1)), (1, None)]),
                read(3, 17, &[(0, None), (1, Some(2))]),
            ],
        ),
        (
            "a deleted key is back",
            vec![
                write(0, 1, &[(0, Some(1))]),
                write(2, 3, &[(0, None)]),
                read(4, 5, &[(0, Some(1))]),
            ],
        ),
    ];
    for (what, history) in wrong {
        assert!(!is_linearizable(empty, &history), "{what}");
    }
}
