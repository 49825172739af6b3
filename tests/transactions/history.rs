//! Replays the transactions of many threads one after the other.
//!
//! Each transaction writes a marker, which is a key of its own. The sequence number of the marker
//! is the place of the transaction in the order of commits. A transaction that only reads has the
//! place of its snapshot. The replay applies the transactions to a map in this order, and checks
//! that each transaction has read the entries that the map holds before the transaction is applied.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use minikv::bulk::TableWriter;
use minikv::explain::Step;
use minikv::fs::MemFs;
use minikv::{Db, Error, Options, Readable, Transaction, WriteBatch, WriteOptions};

use crate::rng::{Rng, seed};

const THREADS: usize = 4;

type State = BTreeMap<Vec<u8>, u64>;

/// A read and its result.
#[derive(Clone, Debug)]
enum Read {
    Key(Vec<u8>, Option<u64>),
    /// All entries from the first key up to the second. If the flag is set, the scan ended at the
    /// second key, and the range includes this key.
    Range(Vec<u8>, Vec<u8>, bool, Vec<(Vec<u8>, u64)>),
}

/// A transaction, or a batch, that was committed.
#[derive(Clone, Debug)]
struct Committed {
    /// The place of the transaction in the order of commits: the sequence number of its marker or,
    /// if it has only read, that of its snapshot.
    place: u64,
    reads: Vec<Read>,
    writes: Vec<(Vec<u8>, Option<u64>)>,
}

impl Read {
    fn fits(&self, state: &State) -> bool {
        match self {
            Read::Key(key, value) => state.get(key) == value.as_ref(),
            Read::Range(from, to, to_included, found) => {
                let range = state.range(from.clone()..);
                let within = range.take_while(|(key, _)| *key < to || (*to_included && *key == to));
                within.eq(found.iter().map(|(key, value)| (key, value)))
            }
        }
    }
}

/// Replays the history. Returns the state at the end, or a description of the first read that does
/// not agree with the state.
fn replay(mut history: Vec<Committed>) -> Result<State, String> {
    // Of the transactions at one place, the transaction that wrote the marker comes first.
    history.sort_by_key(|committed| (committed.place, committed.writes.is_empty()));
    let mut state = State::new();
    for committed in &history {
        if let Some(read) = committed.reads.iter().find(|read| !read.fits(&state)) {
            return Err(format!("{read:x?} does not fit at {}", committed.place));
        }
        for (key, value) in &committed.writes {
            match value {
                Some(value) => drop(state.insert(key.clone(), *value)),
                None => drop(state.remove(key)),
            }
        }
    }
    Ok(state)
}

fn number(value: impl AsRef<[u8]>) -> u64 {
    u64::from_le_bytes(value.as_ref()[..8].try_into().unwrap())
}

/// Returns a value of 8 to 100 bytes, so that memtables fill at different times.
fn bytes(number: u64) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(8 + (number % 93) as usize, b'.');
    bytes
}

fn marker(number: u64) -> String {
    format!("~{number:08}")
}

/// Returns the sequence number of a marker.
fn place(db: &Db, number: u64) -> u64 {
    match db.explain(marker(number)).unwrap().steps.last() {
        Some(Step::Memtable { entry: Some(entry), .. } | Step::Entry(entry)) => entry.seq,
        other => panic!("the marker {number} is missing: {other:?}"),
    }
}

/// A workload of many threads on one database.
struct Workload {
    db: Db,
    options: Options,
    numbers: AtomicU64,
    /// The committed transactions. Until the check, the place of a transaction that wrote is the
    /// number of its marker.
    history: Mutex<Vec<Committed>>,
    conflicts: AtomicU64,
}

/// The body of a transaction: it records its reads, and returns the keys to write.
type Body = fn(&mut Rng, &Transaction, &mut Vec<Read>) -> Vec<Vec<u8>>;

fn get(tx: &Transaction, reads: &mut Vec<Read>, key: Vec<u8>) -> Option<u64> {
    let value = tx.get(&key).unwrap().map(number);
    reads.push(Read::Key(key, value));
    value
}

/// Reads the first entries of a range, at most `most`. Returns their keys.
fn scan(
    tx: &Transaction,
    reads: &mut Vec<Read>,
    (from, to): (Vec<u8>, Vec<u8>),
    most: usize,
) -> Vec<Vec<u8>> {
    let iter = tx.range(from.clone()..to.clone()).take(most);
    let found: Vec<_> = iter
        .map(|entry| entry.unwrap())
        .map(|(key, value)| (key.to_vec(), number(value)))
        .collect();
    let keys: Vec<Vec<u8>> = found.iter().map(|(key, _)| key.clone()).collect();
    let is_cut = keys.len() == most;
    let to = if is_cut { keys[most - 1].clone() } else { to };
    reads.push(Read::Range(from, to, is_cut, found));
    keys
}

impl Workload {
    fn new(options: Options) -> Workload {
        let options = options
            .create_if_missing(true)
            .fs(MemFs::new())
            .write_buffer_bytes(3 << 10)
            .max_file_bytes(2 << 10)
            .block_bytes(256);
        Workload {
            db: Db::open("/db", options.clone()).unwrap(),
            options,
            numbers: AtomicU64::new(1),
            history: Mutex::default(),
            conflicts: AtomicU64::new(0),
        }
    }

    /// Runs one transaction. Each write of the transaction either sets a key to the transaction's
    /// number or, in about one of three cases, deletes the key.
    fn transact(&self, rng: &mut Rng, body: Body) {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let mut tx = self.db.transaction();
        let mut reads = Vec::new();
        let keys = body(rng, &tx, &mut reads);
        let mut writes = Vec::new();
        for key in keys {
            let value = (!rng.one_in(3)).then_some(number);
            match value {
                Some(value) => tx.put(&key, bytes(value)),
                None => tx.delete(&key),
            }
            writes.push((key, value));
        }
        let place = match writes.is_empty() {
            true => tx.snapshot().sequence(),
            false => number,
        };
        if !writes.is_empty() {
            tx.put(marker(number), "");
        }
        // Gives other threads time to commit between the reads and the commit.
        (0..rng.below(3)).for_each(|_| thread::yield_now());
        match tx.writing(WriteOptions::default().sync(rng.one_in(8))).commit() {
            Ok(()) => self.history.lock().unwrap().push(Committed { place, reads, writes }),
            Err(Error::Conflict { .. }) => drop(self.conflicts.fetch_add(1, Ordering::Relaxed)),
            Err(error) => panic!("{error}"),
        }
    }

    /// Writes a batch without a transaction.
    fn write(&self, rng: &mut Rng, key: fn(&mut Rng) -> Vec<u8>) {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let (key, value) = (key(rng), (!rng.one_in(4)).then_some(number));
        let mut batch = WriteBatch::new();
        match value {
            Some(value) => batch.put(&key, bytes(value)),
            None => batch.delete(&key),
        }
        batch.put(marker(number), "");
        self.db.write(batch).unwrap();
        let writes = vec![(key, value)];
        self.history.lock().unwrap().push(Committed { place: number, reads: Vec::new(), writes });
    }

    /// Sets up to four keys to one number, by an ingest of tables.
    fn ingest(&self, rng: &mut Rng, key: fn(&mut Rng) -> Vec<u8>) {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let keys: BTreeSet<Vec<u8>> = (0..1 + rng.below(4)).map(|_| key(rng)).collect();
        let mut tables = TableWriter::create(format!("/tables{number}"), &self.options).unwrap();
        for key in &keys {
            tables.put(key, bytes(number)).unwrap();
        }
        tables.put(marker(number), "").unwrap();
        self.db.ingest(&tables.finish().unwrap()).unwrap();
        let writes = keys.into_iter().map(|key| (key, Some(number))).collect();
        self.history.lock().unwrap().push(Committed { place: number, reads: Vec::new(), writes });
    }

    /// Runs transactions, plain writes, ingests, flushes and compactions in several threads, and
    /// checks the history.
    fn run(self, bodies: &[Body], key: fn(&mut Rng) -> Vec<u8>) {
        let seed = seed();
        eprintln!("MINIKV_SEED={seed}");
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let (workload, done) = (&self, &done);
            let writers: Vec<_> = (0..THREADS as u64)
                .map(|thread| {
                    scope.spawn(move || {
                        let mut rng = Rng::new(seed ^ thread << 40);
                        for _ in 0..1000 {
                            match rng.one_in(6) {
                                true => workload.write(&mut rng, key),
                                false => {
                                    let body = *rng.pick(bodies);
                                    workload.transact(&mut rng, body);
                                }
                            }
                        }
                    })
                })
                .collect();
            scope.spawn(move || {
                let mut rng = Rng::new(!seed);
                while !done.load(Ordering::Relaxed) {
                    workload.ingest(&mut rng, key);
                }
            });
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    workload.db.flush().unwrap();
                    workload.db.compact_range("a".."c").unwrap();
                    thread::yield_now();
                }
            });
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            done.store(true, Ordering::Relaxed);
        });
        self.check();
    }

    fn check(self) {
        let mut history = self.history.into_inner().unwrap();
        for committed in history.iter_mut().filter(|committed| !committed.writes.is_empty()) {
            committed.place = place(&self.db, committed.place);
        }
        let conflicts = self.conflicts.into_inner();
        println!("{} committed, {conflicts} conflicts", history.len());
        assert!(history.len() > 1000 && conflicts > 20, "{} and {conflicts}", history.len());
        let state = replay(history).unwrap_or_else(|what| panic!("not serializable: {what}"));
        let left = self.db.range(..b"~".to_vec()).map(|entry| entry.unwrap());
        assert!(left.map(|(key, value)| (key.to_vec(), number(value))).eq(state));
    }
}

fn account(rng: &mut Rng) -> Vec<u8> {
    format!("account/{}", rng.below(12)).into_bytes()
}

/// Checks the transactions of a bank. `transfer` reads and writes two accounts, `skewed` reads one
/// account and writes another, and `audit` only reads accounts.
#[test]
fn a_bank_is_serializable() {
    let transfer: Body = |rng, tx, reads| {
        let (from, to) = (account(rng), account(rng));
        get(tx, reads, from.clone());
        get(tx, reads, to.clone());
        vec![from, to]
    };
    let skewed: Body = |rng, tx, reads| {
        let (read, written) = (account(rng), account(rng));
        get(tx, reads, read);
        vec![written]
    };
    let audit: Body = |rng, tx, reads| {
        for _ in 0..rng.below(12) {
            get(tx, reads, account(rng));
        }
        Vec::new()
    };
    Workload::new(Options::default()).run(&[transfer, transfer, skewed, skewed, audit], account);
}

fn member(rng: &mut Rng) -> Vec<u8> {
    format!("b{:03}", rng.below(200)).into_bytes()
}

/// Checks transactions on a set. Each transaction reads a part of the set, or the beginning of a
/// part. Most transactions then insert or remove random members, and some also replace or remove
/// the first member that they have read.
#[test]
fn insertions_into_a_set_are_serializable() {
    fn part(rng: &mut Rng) -> (Vec<u8>, Vec<u8>) {
        let from = rng.below(190);
        let to = from + 1 + rng.below(30);
        (format!("b{from:03}").into_bytes(), format!("b{to:03}").into_bytes())
    }
    let insert: Body = |rng, tx, reads| {
        scan(tx, reads, part(rng), usize::MAX);
        vec![member(rng)]
    };
    let pop: Body = |rng, tx, reads| {
        let most = 1 + rng.below(3);
        scan(tx, reads, part(rng), most).into_iter().take(1).chain([member(rng)]).collect()
    };
    let both: Body = |rng, tx, reads| {
        get(tx, reads, member(rng));
        scan(tx, reads, part(rng), usize::MAX);
        vec![member(rng), member(rng)]
    };
    let look: Body = |rng, tx, reads| {
        scan(tx, reads, part(rng), usize::MAX);
        Vec::new()
    };
    let options = Options::default().reuse_logs(true);
    Workload::new(options).run(&[insert, insert, pop, both, look], member);
}

/// Checks that a replay rejects histories that are not serializable.
#[test]
fn histories_that_are_not_serializable_are_refused() {
    let key = |key: &str| key.as_bytes().to_vec();
    let read = |k: &str, value: Option<u64>| Read::Key(key(k), value);
    let scan = |found: &[(&str, u64)]| {
        let found = found.iter().map(|(k, value)| (key(k), *value)).collect();
        Read::Range(key("a"), key("c"), false, found)
    };
    let commit = |place, reads: Vec<Read>, writes: &[(&str, u64)]| {
        let writes = writes.iter().map(|(k, value)| (key(k), Some(*value))).collect();
        Committed { place, reads, writes }
    };
    let begin = || commit(1, vec![], &[("a", 1), ("b", 1)]);
    let serial = vec![
        commit(3, vec![read("a", Some(2)), scan(&[("a", 2), ("b", 1)])], &[("b", 3)]),
        begin(),
        commit(2, vec![read("b", Some(1)), read("c", None)], &[("a", 2)]),
        commit(3, vec![scan(&[("a", 2), ("b", 3)])], &[]),
    ];
    assert_eq!(replay(serial).unwrap(), State::from([(key("a"), 2), (key("b"), 3)]));
    let lost = [2, 3].map(|place| commit(place, vec![read("a", Some(1))], &[("a", place)]));
    let skew = [("a", "b"), ("b", "a")].map(|(seen, written)| {
        let place = if seen == "a" { 2 } else { 3 };
        commit(place, vec![read(seen, Some(1))], &[(written, place)])
    });
    let phantom = [("aa", 2), ("bb", 3)]
        .map(|(k, place)| commit(place, vec![scan(&[("a", 1), ("b", 1)])], &[(k, place)]));
    let torn = [commit(3, vec![], &[("a", 3), ("b", 3)]), commit(2, vec![read("b", Some(3))], &[])];
    for (name, wrong) in [("lost", lost), ("skew", skew), ("phantom", phantom), ("torn", torn)] {
        let history = [begin()].into_iter().chain(wrong).collect();
        assert!(replay(history).is_err(), "{name}");
    }
}
