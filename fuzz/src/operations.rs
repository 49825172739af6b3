//! A target that runs operations on a database and on a model, with power losses in between.

use bytes::Bytes;
use minikv::fs::SimFs;
use minikv::fs::sim::{CrashPlan, Holes};
use minikv::{Compression, Db, Options, Readable, Snapshot, WriteBatch, WriteOptions};

use crate::database::Entries;
use crate::files::DIR;

/// Maximum number of operations. Longer inputs do not find more bugs than shorter inputs.
const MAX_OPERATIONS: usize = 300;
/// Maximum number of snapshots held at a time. With more snapshots, compactions drop fewer
/// versions.
const MAX_SNAPSHOTS: usize = 3;

/// The bytes of the input, returned one by one, followed by zeros.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let (byte, rest) = self.0.split_first().map_or((0, self.0), |(byte, rest)| (*byte, rest));
        self.0 = rest;
        byte
    }

    /// Returns one of 24 keys. One is empty, and some have common prefixes.
    fn key(&mut self) -> Vec<u8> {
        let byte = self.byte();
        match byte % 24 {
            0 => Vec::new(),
            n => [vec![b'k'; usize::from(n) / 6], vec![n]].concat(),
        }
    }

    fn value(&mut self, turn: usize) -> Vec<u8> {
        let byte = self.byte();
        let len = if byte < 240 { usize::from(byte) / 3 } else { 900 };
        [&(turn as u32).to_le_bytes()[..], &vec![byte; len]].concat()
    }
}

/// A database in use, and the entries it must contain.
struct Run {
    fs: SimFs,
    seed: u64,
    db: Db,
    /// The last state known to be durable, and the state after each commit since then. The last
    /// element is the current state.
    states: Vec<Entries>,
    snapshots: Vec<(Snapshot, Entries)>,
    reuse_logs: bool,
}

fn open(fs: &SimFs, seed: u64, reuse_logs: bool) -> Db {
    let options = Options::default()
        .create_if_missing(true)
        .fs(fs.clone())
        .compression(Compression::None)
        .write_buffer_bytes(1200)
        .max_file_bytes(900)
        .block_bytes(200)
        .manifest_rotate_bytes(500)
        .block_cache_bytes(32 << 10)
        .reuse_logs(reuse_logs)
        .inline_background(Some(seed));
    Db::open(DIR, options).unwrap()
}

type Entry = (Vec<u8>, Vec<u8>);

fn owned(entry: minikv::Result<(Bytes, Bytes)>) -> Entry {
    entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()
}

fn cloned((key, value): (&Vec<u8>, &Vec<u8>)) -> Entry {
    (key.clone(), value.clone())
}

fn entries(iter: impl Iterator<Item = minikv::Result<(Bytes, Bytes)>>) -> Entries {
    iter.map(owned).collect()
}

impl Run {
    fn new(input: &mut Input<'_>) -> Run {
        let seed = u64::from(input.byte());
        let reuse_logs = input.byte().is_multiple_of(2);
        let fs = SimFs::new(seed);
        let db = open(&fs, seed, reuse_logs);
        let states = vec![Entries::new()];
        Run { fs, seed, db, states, snapshots: Vec::new(), reuse_logs }
    }

    fn now(&self) -> &Entries {
        self.states.last().expect("there is always a state")
    }

    fn all_is_durable(&mut self) {
        self.states.drain(..self.states.len() - 1);
    }

    fn commit(&mut self, sync: bool, ops: Vec<(Vec<u8>, Option<Vec<u8>>)>) {
        let options = WriteOptions::default().sync(sync);
        let mut state = self.now().clone();
        let mut batch = WriteBatch::new();
        for (key, value) in ops {
            match value {
                Some(value) => {
                    batch.put(&key, &value);
                    state.insert(key, value);
                }
                None => {
                    batch.delete(&key);
                    state.remove(&key);
                }
            }
        }
        self.db.writing(options).write(batch).unwrap();
        self.states.push(state);
        if sync {
            self.all_is_durable();
        }
    }

    fn check(&self) {
        let found = entries(self.db.iter());
        assert!(found == *self.now(), "the database is as the model");
        let backward = entries(self.db.iter().rev());
        assert!(backward == found, "and backward");
        for (snapshot, then) in &self.snapshots {
            assert!(entries(snapshot.iter()) == *then, "and a snapshot as it was then");
        }
    }

    /// Checks a forward or backward scan that starts at the key `from`.
    fn check_range(&self, from: &[u8], backward: bool) {
        let range = self.db.range(from..);
        let want = self.now().range(from.to_vec()..);
        match backward {
            true => assert!(range.rev().map(owned).eq(want.rev().map(cloned))),
            false => assert!(range.map(owned).eq(want.map(cloned))),
        }
    }

    fn check_get(&self, key: &[u8]) {
        let found = self.db.get(key).unwrap().map(|value| value.to_vec());
        assert_eq!(found.as_ref(), self.now().get(key));
        for (snapshot, entries) in &self.snapshots {
            let found = snapshot.get(key).unwrap().map(|value| value.to_vec());
            assert_eq!(found.as_ref(), entries.get(key), "in a snapshot");
        }
    }

    /// Reopens the database after closing it, or after the process is killed.
    fn reopen(&mut self, close: bool) {
        self.snapshots.clear();
        if close {
            self.db.clone().close().unwrap();
            self.all_is_durable();
        }
        self.fs = self.fs.crash_image(&CrashPlan::process_kill());
        self.db = open(&self.fs, self.seed, self.reuse_logs);
        assert!(self.db.recovery().lost.is_empty());
        self.check();
    }

    /// Loses power. Afterwards the database must be in one of the states in [`Run::states`].
    fn crash(&mut self, plan: CrashPlan) {
        self.snapshots.clear();
        self.fs = self.fs.crash_image(&plan);
        self.db = open(&self.fs, self.seed, self.reuse_logs);
        let found = entries(self.db.iter());
        let was_there = self.states.iter().rev().any(|state| *state == found);
        assert!(was_there, "after {plan}: no state since all was durable");
        // This state was read from the disk, so it is durable.
        self.states = vec![found];
    }

    fn step(&mut self, turn: usize, input: &mut Input<'_>) {
        match input.byte() % 32 {
            0..8 => {
                let (sync, op) = (input.byte().is_multiple_of(8), (input.key(), input.value(turn)));
                self.commit(sync, vec![(op.0, Some(op.1))]);
            }
            8..11 => {
                let (sync, key) = (input.byte().is_multiple_of(8), input.key());
                self.commit(sync, vec![(key, None)]);
            }
            11..14 => {
                let head = input.byte();
                let op = |input: &mut Input<'_>| {
                    let (key, value) = (input.key(), input.value(turn));
                    (key, (!value.len().is_multiple_of(4)).then_some(value))
                };
                let ops = (0..head / 32).map(|_| op(input)).collect();
                self.commit(head.is_multiple_of(8), ops);
            }
            14..18 => self.check_get(&input.key()),
            18 => self.check(),
            19 => self.check_range(&input.key(), false),
            20 => self.check_range(&input.key(), true),
            21 => {
                self.snapshots.push((self.db.snapshot(), self.now().clone()));
                if self.snapshots.len() > MAX_SNAPSHOTS {
                    self.snapshots.remove(0);
                }
            }
            22 => drop(self.snapshots.pop()),
            23 => {
                self.db.flush().unwrap();
                self.all_is_durable();
            }
            24 => {
                let (a, b) = (input.key(), input.key());
                self.db.compact_range(a.clone().min(b.clone())..=a.max(b)).unwrap();
            }
            25 => self.db.wait_idle().unwrap(),
            26 => self.reopen(true),
            27 => self.reopen(false),
            28 => self.crash(CrashPlan::strict()),
            29 => self.crash(CrashPlan::random(input.byte().into())),
            30 => {
                let plan = CrashPlan::random(input.byte().into()).holes(Holes::Garbage);
                self.crash(plan.sector_bytes(if input.byte() < 128 { 512 } else { 4096 }));
            }
            _ => self.crash(CrashPlan::random_prefix(input.byte().into())),
        }
    }
}

/// Runs the writes, reads, flushes, compactions, reopens and power losses selected by the input.
///
/// ```text
/// input   1 byte seed of the background work | 1 byte, even: logs are reused | operations
/// ```
pub fn operations(data: &[u8]) {
    let mut input = Input(data);
    let mut run = Run::new(&mut input);
    for turn in 0..MAX_OPERATIONS {
        if input.0.is_empty() {
            break;
        }
        run.step(turn, &mut input);
    }
    run.check();
    run.reopen(false);
    run.crash(CrashPlan::strict());
}
