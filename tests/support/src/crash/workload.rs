//! The workloads: steps drawn from a seed, with small buffers, so that a few hundred writes cause
//! flushes, compactions, full MANIFESTs and new logs.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use minikv::bulk::TableWriter;
use minikv::fs::Fs;
use minikv::fs::sim::SimFs;
use minikv::{
    Compression, Db, DeletedRange, Error, Keyspace, KeyspaceKind, Options, Readable, WriteBatch,
    WriteOptions,
};

use super::entries::{
    DOOMED, END, EXPIRING_TAG, NEVER, ROUGH, expiring_prefix, expiry_of, filter, keyspace_prefix,
    settled,
};
use super::model::{Commit, Model, Op, hash_of};
use crate::rng::Rng;

/// The names of the keyspaces. One of them is a prefix of another.
const KEYSPACES: [&str; 3] = ["user", "users", "z"];

/// Duration of a step, in milliseconds.
const STEP_MILLIS: u64 = 2000;

/// The name of an expiring keyspace that sorts after all others, so that its tables hold no other
/// entries.
const SHORT_LIVED: &str = "zzz";

pub const DIR: &str = "/db";

/// A place that a workload writes to.
pub trait Disk: Clone {
    /// Returns the filesystem of the database.
    fn fs(&self) -> impl Fs;

    /// Returns the directory of the database.
    fn dir(&self) -> PathBuf;

    /// Returns the number of operations that the disk has seen.
    fn op_count(&self) -> u64;
}

impl Disk for SimFs {
    fn fs(&self) -> impl Fs {
        self.clone()
    }

    fn dir(&self) -> PathBuf {
        PathBuf::from(DIR)
    }

    fn op_count(&self) -> u64 {
        SimFs::op_count(self)
    }
}

/// A step of a workload. Each kind of workload weighs the steps differently.
#[derive(Clone, Copy, Debug)]
enum Step {
    Put,
    Delete,
    Batch,
    LargeBatch,
    Ingest,
    Sync,
    Flush,
    CompactRange,
    CompactAll,
    WaitIdle,
    Reopen,
    /// Clears a keyspace.
    Clear,
    DeleteRange,
    /// Writes a table of new keys, all of which then expire.
    ShortLived,
}

/// Which keyspaces a workload writes to, and whether its entries expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeysAre {
    /// In no keyspace.
    Plain,
    /// Mostly in keyspaces.
    InKeyspaces,
    /// Mostly in expiring keyspaces, whose entries live for some steps or forever.
    Expiring,
    /// In no keyspace, with a compaction filter.
    Filtered,
}

/// A kind of workload.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub name: &'static str,
    weights: &'static [(Step, usize)],
    steps: usize,
    keys: usize,
    /// On average, one of every `sync_one_in` writes is synced; 0 means that no write is synced.
    sync_one_in: usize,
    reuse_logs: bool,
    keys_are: KeysAre,
    write_buffer_bytes: usize,
    /// Maximum size of kept logs, in bytes. If it is not 0, the workload makes all changes through
    /// logs.
    pub keep_logs_bytes: u64,
}

const PUTS: &[(Step, usize)] = &[(Step::Put, 12), (Step::Delete, 3), (Step::Batch, 4)];

pub const KINDS: &[Kind] = &[
    Kind {
        name: "fill",
        weights: &[(Step::Put, 60), (Step::Batch, 6), (Step::LargeBatch, 1)],
        steps: 90,
        keys: 400,
        sync_one_in: 9,
        reuse_logs: false,
        keys_are: KeysAre::Plain,
        write_buffer_bytes: 3000,
        keep_logs_bytes: 0,
    },
    Kind {
        name: "overwrite and delete",
        weights: PUTS,
        steps: 110,
        keys: 12,
        sync_one_in: 12,
        reuse_logs: false,
        keys_are: KeysAre::Plain,
        write_buffer_bytes: 1500,
        keep_logs_bytes: 0,
    },
    Kind {
        name: "unsynced over many logs",
        weights: &[(Step::Put, 20), (Step::Delete, 2), (Step::LargeBatch, 2), (Step::Sync, 1)],
        steps: 80,
        keys: 40,
        sync_one_in: 80,
        reuse_logs: false,
        keys_are: KeysAre::Plain,
        write_buffer_bytes: 900,
        keep_logs_bytes: 0,
    },
    Kind {
        name: "everything",
        weights: &[
            (Step::Put, 40),
            (Step::Delete, 12),
            (Step::Batch, 10),
            (Step::LargeBatch, 2),
            (Step::Flush, 3),
            (Step::CompactRange, 2),
            (Step::CompactAll, 1),
            (Step::WaitIdle, 2),
            (Step::Reopen, 2),
        ],
        steps: 120,
        keys: 50,
        sync_one_in: 8,
        reuse_logs: false,
        keys_are: KeysAre::Plain,
        write_buffer_bytes: 2000,
        keep_logs_bytes: 0,
    },
    Kind {
        name: "reopen",
        weights: &[(Step::Put, 10), (Step::Delete, 2), (Step::Batch, 2), (Step::Reopen, 4)],
        steps: 50,
        keys: 30,
        sync_one_in: 10,
        reuse_logs: false,
        keys_are: KeysAre::Plain,
        write_buffer_bytes: 1200,
        keep_logs_bytes: 0,
    },
    Kind {
        name: "reopen and reuse logs",
        weights: &[
            (Step::Put, 12),
            (Step::Delete, 2),
            (Step::Batch, 2),
            (Step::Sync, 1),
            (Step::Flush, 1),
            (Step::Reopen, 4),
        ],
        steps: 60,
        keys: 30,
        sync_one_in: 10,
        reuse_logs: true,
        keys_are: KeysAre::Plain,
        write_buffer_bytes: 2500,
        keep_logs_bytes: 0,
    },
    Kind {
        name: "ingest",
        weights: &[
            (Step::Put, 30),
            (Step::Delete, 6),
            (Step::Ingest, 6),
            (Step::Flush, 1),
            (Step::CompactRange, 1),
            (Step::WaitIdle, 2),
            (Step::Reopen, 1),
        ],
        steps: 80,
        keys: 60,
        sync_one_in: 8,
        reuse_logs: false,
        keys_are: KeysAre::Plain,
        write_buffer_bytes: 1500,
        keep_logs_bytes: 0,
    },
    Kind {
        name: "range deletes",
        weights: &[
            (Step::Put, 36),
            (Step::Delete, 3),
            (Step::Batch, 4),
            (Step::DeleteRange, 5),
            (Step::Flush, 1),
            (Step::CompactRange, 1),
            (Step::CompactAll, 1),
            (Step::WaitIdle, 2),
            (Step::Reopen, 1),
        ],
        steps: 90,
        keys: 120,
        sync_one_in: 9,
        reuse_logs: false,
        keys_are: KeysAre::Plain,
        keep_logs_bytes: 0,
        write_buffer_bytes: 1200,
    },
    Kind {
        name: "keyspaces",
        weights: &[
            (Step::Put, 20),
            (Step::Delete, 4),
            (Step::Batch, 12),
            (Step::Clear, 3),
            (Step::Flush, 2),
            (Step::CompactAll, 1),
            (Step::Reopen, 1),
        ],
        steps: 80,
        keys: 40,
        sync_one_in: 9,
        reuse_logs: false,
        keys_are: KeysAre::InKeyspaces,
        write_buffer_bytes: 1800,
        keep_logs_bytes: 0,
    },
    Kind {
        name: "expiry",
        weights: &[
            (Step::Put, 40),
            (Step::Delete, 3),
            (Step::Batch, 6),
            (Step::Clear, 1),
            (Step::ShortLived, 3),
            (Step::CompactAll, 1),
            (Step::Flush, 2),
            (Step::CompactRange, 1),
            (Step::WaitIdle, 6),
            (Step::Reopen, 3),
        ],
        steps: 110,
        keys: 120,
        sync_one_in: 9,
        reuse_logs: false,
        keys_are: KeysAre::Expiring,
        write_buffer_bytes: 1200,
        keep_logs_bytes: 0,
    },
    Kind {
        name: "compaction filter",
        weights: &[
            (Step::Put, 40),
            (Step::Delete, 3),
            (Step::Batch, 6),
            (Step::Ingest, 2),
            (Step::Flush, 2),
            (Step::CompactRange, 1),
            (Step::CompactAll, 1),
            (Step::WaitIdle, 3),
            (Step::Reopen, 2),
        ],
        steps: 90,
        keys: 40,
        sync_one_in: 9,
        reuse_logs: false,
        keys_are: KeysAre::Filtered,
        write_buffer_bytes: 1500,
        keep_logs_bytes: 0,
    },
    Kind {
        name: "kept logs",
        // Each write is one batch, and each operation has a sequence number of its own.
        weights: &[
            (Step::Put, 40),
            (Step::Delete, 8),
            (Step::LargeBatch, 1),
            (Step::Sync, 2),
            (Step::Flush, 2),
            (Step::CompactAll, 1),
            (Step::Reopen, 3),
        ],
        steps: 90,
        keys: 40,
        sync_one_in: 9,
        reuse_logs: false,
        keys_are: KeysAre::Plain,
        write_buffer_bytes: 1200,
        keep_logs_bytes: 6000,
    },
];

/// A kind of workload whose logs become long enough to be written through a mapping.
pub const LONG_LOGS: Kind = Kind {
    name: "long logs",
    weights: &[(Step::Put, 60), (Step::Delete, 6), (Step::Batch, 6), (Step::Sync, 1)],
    steps: 1200,
    keys: 400,
    sync_one_in: 400,
    reuse_logs: false,
    keys_are: KeysAre::Plain,
    write_buffer_bytes: 100_000,
    keep_logs_bytes: 0,
};

/// A kind of workload whose logs are written through a mapping soon, because nothing is synced.
pub const MAPPED_LOGS: Kind = Kind {
    name: "mapped logs",
    weights: &[(Step::Put, 60), (Step::Delete, 6), (Step::Batch, 6)],
    sync_one_in: 0,
    ..LONG_LOGS
};

impl Kind {
    /// Returns the options of this kind of workload for `disk`, with a clock that shows [`END`].
    /// The seed determines the order of background work.
    pub fn options(&self, disk: &impl Disk, seed: u64) -> Options {
        let options = options(disk, seed)
            .write_buffer_bytes(self.write_buffer_bytes)
            .reuse_logs(self.reuse_logs)
            .keep_logs_bytes(self.keep_logs_bytes)
            .clock(|| time(END));
        match self.keys_are {
            KeysAre::Filtered => options.compaction_filter(filter),
            _ => options,
        }
    }

    pub fn keys(&self) -> usize {
        self.keys
    }

    fn draw_step(&self, rng: &mut Rng) -> Step {
        let total: usize = self.weights.iter().map(|(_, weight)| weight).sum();
        let mut at = rng.below(total);
        for &(step, weight) in self.weights {
            if at < weight {
                return step;
            }
            at -= weight;
        }
        unreachable!("a draw below the sum of the weights")
    }

    fn key(&self, rng: &mut Rng) -> Vec<u8> {
        let number = rng.below(self.keys);
        let key = format!("key{number:04}").into_bytes();
        let name = KEYSPACES.get(number % (KEYSPACES.len() + 1));
        let prefix = match self.keys_are {
            KeysAre::InKeyspaces => name.map(|name| keyspace_prefix(name)),
            KeysAre::Expiring => name.map(|name| expiring_prefix(name)),
            _ => None,
        };
        [prefix.unwrap_or_default(), key].concat()
    }

    fn value(&self, rng: &mut Rng) -> Vec<u8> {
        let len = if rng.one_in(12) { rng.below(700) } else { rng.below(60) };
        let bytes = rng.bytes(len);
        match rng.below(4) {
            0 if self.keys_are == KeysAre::Filtered => [DOOMED, &bytes].concat(),
            1 if self.keys_are == KeysAre::Filtered => [ROUGH, &bytes].concat(),
            _ => bytes,
        }
    }

    /// Returns a put at the time `now`.
    fn put(&self, rng: &mut Rng, now: u64) -> Op {
        let (key, mut value) = (self.key(rng), self.value(rng));
        if key.starts_with(EXPIRING_TAG) {
            let expiry = match rng.below(5) {
                0 => NEVER,
                1 => END + 1,
                _ => now + 1 + rng.below(20) as u64 * STEP_MILLIS,
            };
            value.extend(expiry.to_le_bytes());
        }
        (key, Some(value))
    }

    /// Returns puts of new keys that expire one step after the time `now`.
    fn short_lived(&self, rng: &mut Rng, now: u64) -> Vec<Op> {
        let put = |number: usize| {
            let key = format!("{now:08}-{number}").into_bytes();
            let expiry = (now + STEP_MILLIS).to_le_bytes();
            let value = [&self.value(rng)[..], &expiry].concat();
            ([&expiring_prefix(SHORT_LIVED), &key[..]].concat(), Some(value))
        };
        (0..5).map(put).collect()
    }

    fn op(&self, rng: &mut Rng, now: u64) -> Op {
        let put = self.put(rng, now);
        if rng.one_in(4) { (put.0, None) } else { put }
    }

    /// Returns the operations of a step at the time `now`.
    fn ops(&self, step: Step, rng: &mut Rng, now: u64) -> Vec<Op> {
        match step {
            Step::Put => vec![self.put(rng, now)],
            Step::Delete => vec![(self.key(rng), None)],
            Step::Batch => (0..2 + rng.below(8)).map(|_| self.op(rng, now)).collect(),
            // The batch spans several pages, and sometimes a block boundary of the log.
            Step::LargeBatch => {
                let len = if rng.one_in(3) { 12_000 } else { 3_000 };
                (0..3).map(|_| (self.key(rng), Some(rng.bytes(len)))).collect()
            }
            Step::Ingest => {
                let first = rng.below(self.keys);
                let keys = first..(first + 1 + rng.below(20)).min(self.keys);
                let key = |at| format!("key{at:04}").into_bytes();
                keys.map(|at| (key(at), Some(self.value(rng)))).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Returns options for a database on `disk`, with small buffers and small files.
pub fn options(disk: &impl Disk, seed: u64) -> Options {
    Options::default()
        .create_if_missing(true)
        .fs(disk.fs())
        .compression(Compression::None)
        .write_buffer_bytes(2000)
        .max_file_bytes(1500)
        .block_bytes(400)
        .block_cache_bytes(64 << 10)
        .manifest_rotate_bytes(600)
        .inline_background(Some(seed))
}

fn time(millis: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis)
}

/// Returns the keyspace that contains `key`, if there is one, and the key within the keyspace.
fn keyspace_of<'k>(db: &Db, key: &'k [u8]) -> Option<(Keyspace, &'k [u8])> {
    KEYSPACES.iter().chain([&SHORT_LIVED]).find_map(|name| {
        if let Some(key) = key.strip_prefix(&expiring_prefix(name)[..]) {
            return Some((db.keyspace_of(KeyspaceKind::Expiring, name).unwrap(), key));
        }
        let key = key.strip_prefix(&keyspace_prefix(name)[..])?;
        Some((db.keyspace_of(KeyspaceKind::Ordinary, name).unwrap(), key))
    })
}

/// Writes one operation to a keyspace.
fn write_in(keyspace: &Keyspace, op: (&[u8], Option<&[u8]>), sync: bool) -> Result<(), Error> {
    let options = WriteOptions::default().sync(sync);
    match op {
        (key, None) => keyspace.writing(options).delete(key),
        (key, Some(stored)) if keyspace.is_expiring() => {
            let (value, expiry) = (&stored[..stored.len() - 8], expiry_of(stored));
            match expiry {
                NEVER => keyspace.writing(options).put(key, value),
                _ => keyspace.writing(options).put_until(key, value, time(expiry)),
            }
        }
        (key, Some(value)) => keyspace.writing(options).put(key, value),
    }
}

/// Writes operations: a single operation by itself, several operations in a transaction or a batch.
/// In transactions and batches, entries of expiring keyspaces are written under the keys that the
/// database stores.
pub fn write(db: &Db, ops: &[Op], sync: bool) -> Result<(), Error> {
    let options = WriteOptions::default().sync(sync);
    if let [(key, value)] = ops
        && let Some((keyspace, key)) = keyspace_of(db, key)
    {
        return write_in(&keyspace, (key, value.as_deref()), sync);
    }
    match ops {
        [(key, Some(value))] => db.writing(options).put(key, value),
        [(key, None)] => db.writing(options).delete(key),
        ops if ops.len().is_multiple_of(2) => transact(db, ops, &options),
        ops => {
            let mut batch = WriteBatch::new();
            for (key, value) in ops {
                let keyspace = keyspace_of(db, key).filter(|(keyspace, _)| !keyspace.is_expiring());
                match (keyspace, value) {
                    (Some((keyspace, key)), Some(value)) => batch.put_in(&keyspace, key, value),
                    (Some((keyspace, key)), None) => batch.delete_in(&keyspace, key),
                    (None, Some(value)) => batch.put(key, value),
                    (None, None) => batch.delete(key),
                }
            }
            db.writing(options).write(batch)
        }
    }
}

/// Writes `ops` in a transaction. The transaction also reads a range, and each key that it writes.
fn transact(db: &Db, ops: &[Op], options: &WriteOptions) -> Result<(), Error> {
    let mut transaction = db.transaction();
    if let Some(entry) = transaction.range(ops[0].0.clone()..).next() {
        entry?;
    }
    for (key, value) in ops {
        let keyspace = keyspace_of(db, key);
        match &keyspace {
            Some((keyspace, key)) => transaction.keyspace(keyspace).get(key)?,
            None => transaction.get(key)?,
        };
        match (keyspace.filter(|(keyspace, _)| !keyspace.is_expiring()), value) {
            (Some((keyspace, key)), Some(value)) => transaction.put_in(&keyspace, key, value),
            (Some((keyspace, key)), None) => transaction.delete_in(&keyspace, key),
            (None, Some(value)) => transaction.put(key, value),
            (None, None) => transaction.delete(key),
        }
    }
    transaction.writing(*options).commit()
}

/// A running workload.
pub struct Run<D = SimFs> {
    pub kind: Kind,
    pub fs: D,
    pub seed: u64,
    pub model: Model,
    /// Operations of failed writes, which the next reopen may or may not bring back.
    pub in_doubt: Vec<Vec<Op>>,
    /// Time of the clock, in milliseconds since the Unix epoch.
    now: Arc<AtomicU64>,
    /// Number of tables removed because all their entries had expired.
    pub expired_tables: u64,
    rng: Rng,
    db: Option<Db>,
    steps_left: usize,
}

impl Run {
    pub fn new(seed: u64) -> Run {
        Run::on(SimFs::new(seed), seed)
    }

    /// Runs to the end without a fault, recording every operation. Returns the finished run.
    pub fn finish(mut self) -> Run {
        self.fs.record_history();
        self.open().unwrap_or_else(|error| panic!("{}: {error}", self.describe()));
        while self.step().unwrap_or_else(|error| panic!("{}: {error}", self.describe())) {}
        self
    }
}

impl<D: Disk> Run<D> {
    pub fn on(fs: D, seed: u64) -> Run<D> {
        Run::of_kind(KINDS[(seed % KINDS.len() as u64) as usize], fs, seed)
    }

    pub fn of_kind(kind: Kind, fs: D, seed: u64) -> Run<D> {
        Run {
            kind,
            fs,
            seed,
            model: Model::new(),
            in_doubt: Vec::new(),
            now: Arc::default(),
            expired_tables: 0,
            rng: Rng::new(seed),
            db: None,
            steps_left: kind.steps,
        }
    }

    /// Returns one line that identifies the workload.
    pub fn describe(&self) -> String {
        format!("workload seed {} ({})", self.seed, self.kind.name)
    }

    pub fn db(&self) -> &Db {
        self.db.as_ref().expect("a database is open between steps")
    }

    /// Returns the time of the clock, in milliseconds since the Unix epoch.
    pub fn now(&self) -> u64 {
        self.now.load(Relaxed)
    }

    /// Checks that `state` is one that may be left after a fault that ended the workload: with or
    /// without the failed writes.
    pub fn check_after_fault(&self, state: u64, power_loss: bool) -> Result<(), String> {
        let (now, all) = (self.fs.op_count(), self.model.commits.len());
        let least = self.model.least(now, power_loss);
        if self.model.find(state, least, all).is_some() {
            return Ok(());
        }
        let mut entries = self.model.entries.clone();
        for (key, value) in self.in_doubt.iter().flatten() {
            match value {
                Some(value) => entries.insert(key.clone(), value.clone()),
                None => entries.remove(key),
            };
        }
        match hash_of(&entries) == state {
            true => Ok(()),
            false => Err(format!("neither {least} to {all} commits, nor the failed one")),
        }
    }

    pub fn is_open(&self) -> bool {
        self.db.is_some()
    }

    /// Drops the handle without closing the database, as when the process ends.
    pub fn end(&mut self) {
        self.db = None;
    }

    /// Opens the database.
    pub fn open(&mut self) -> Result<(), Error> {
        let now = self.now.clone();
        let options = self.kind.options(&self.fs, self.seed);
        self.db = Some(Db::open(self.fs.dir(), options.clock(move || time(now.load(Relaxed))))?);
        Ok(())
    }

    /// Closes the database, if it is open: with `Db::close` if `says_so`, otherwise by dropping the
    /// handle, as when the process ends.
    pub fn shut(&mut self, says_so: bool) -> Result<(), Error> {
        self.count_expired_tables();
        match self.db.take() {
            Some(db) if says_so => {
                db.close()?;
                self.model.barrier(self.fs.op_count());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn count_expired_tables(&mut self) {
        let stats = self.db.as_ref().map(|db| db.stats());
        self.expired_tables += stats.map_or(0, |stats| stats.expired_tables_dropped);
    }

    /// Writes tables outside of the database, and ingests them.
    fn ingest(&self, ops: &[Op]) -> Result<(), Error> {
        let options = self.kind.options(&self.fs, self.seed);
        let tables = self.fs.dir().with_file_name(format!("tables{}", self.steps_left));
        let mut writer = TableWriter::create(tables, &options)?;
        for (key, value) in ops {
            writer.put(key, value.as_ref().expect("a put"))?;
        }
        self.db().ingest(&writer.finish()?)?;
        Ok(())
    }

    /// Does one more step. Returns false at the end.
    pub fn step(&mut self) -> Result<bool, Error> {
        if self.steps_left == 0 {
            self.count_expired_tables();
            self.db = None;
            return Ok(false);
        }
        self.steps_left -= 1;
        let step = self.kind.draw_step(&mut self.rng);
        let now = self.now.fetch_add(STEP_MILLIS, Relaxed) + STEP_MILLIS;
        let ops = self.kind.ops(step, &mut self.rng, now);
        match step {
            Step::Clear => return self.clear().map(|()| true),
            Step::DeleteRange => return self.delete_range().map(|()| true),
            Step::ShortLived => return self.write_short_lived(now).map(|()| true),
            _ => {}
        }
        match step {
            Step::Sync => self.db().sync()?,
            Step::Flush => self.db().flush()?,
            Step::CompactRange => {
                let (from, to) = (self.kind.key(&mut self.rng), self.kind.key(&mut self.rng));
                let (from, to) = (from.clone().min(to.clone()), from.max(to));
                self.db().compact_range(from..=to)?;
            }
            Step::CompactAll => self.db().compact_range(..)?,
            Step::WaitIdle => self.db().wait_idle()?,
            Step::Reopen => {
                let says_so = self.rng.one_in(2);
                self.shut(says_so)?;
                self.open()?;
            }
            _ => {
                let one_in = self.kind.sync_one_in;
                let is_ingest = matches!(step, Step::Ingest);
                let sync = is_ingest || one_in > 0 && self.rng.one_in(one_in);
                self.commit(ops, sync, |run, ops| match is_ingest {
                    true => run.ingest(ops),
                    false => write(run.db(), ops, sync),
                })?;
            }
        }
        if matches!(step, Step::Sync | Step::Flush | Step::CompactRange | Step::CompactAll) {
            self.model.barrier(self.fs.op_count());
        }
        Ok(true)
    }

    fn commit(
        &mut self,
        ops: Vec<Op>,
        sync: bool,
        write: impl FnOnce(&Self, &[Op]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.commit_durably(ops, |run, ops| write(run, ops).map(|()| sync))
    }

    /// Commits by calling `write`, which returns whether the commit is durable.
    fn commit_durably(
        &mut self,
        ops: Vec<Op>,
        write: impl FnOnce(&Self, &[Op]) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let begun = self.fs.op_count();
        match write(self, &ops) {
            Ok(sync) => {
                let acked = self.fs.op_count();
                self.model.push(Commit { ops, sync, begun, acked });
                Ok(())
            }
            Err(error) => {
                self.in_doubt.push(ops);
                Err(error)
            }
        }
    }

    /// Writes a table of new keys, and waits until all of them have expired.
    fn write_short_lived(&mut self, now: u64) -> Result<(), Error> {
        let ops = self.kind.short_lived(&mut self.rng, now);
        self.db().flush()?;
        self.commit(ops, false, |run, ops| write(run.db(), ops, false))?;
        self.db().flush()?;
        self.model.barrier(self.fs.op_count());
        self.now.fetch_add(STEP_MILLIS, Relaxed);
        self.db().wait_idle()
    }

    /// Clears a keyspace.
    fn clear(&mut self) -> Result<(), Error> {
        let name = *self.rng.pick(&KEYSPACES);
        if self.kind.keys_are == KeysAre::Expiring {
            let prefix = expiring_prefix(name);
            return self.delete(
                |key| key.starts_with(&prefix),
                |db, options| {
                    db.keyspace_of(KeyspaceKind::Expiring, name)?.writing(*options).clear()
                },
            );
        }
        let prefix = keyspace_prefix(name);
        self.delete(
            |key| key.starts_with(&prefix),
            |db, options| db.keyspace(name)?.writing(*options).clear(),
        )
    }

    /// Deletes a range of keys.
    fn delete_range(&mut self) -> Result<(), Error> {
        let (a, b) = (self.kind.key(&mut self.rng), self.kind.key(&mut self.rng));
        let (from, to) = (a.clone().min(b.clone()), a.max(b));
        self.delete(
            |key| (&from..&to).contains(&key),
            |db, options| db.writing(*options).delete_range(&from[..]..&to[..]),
        )
    }

    /// Deletes the keys for which `chosen` returns true, in one commit. Makes no commit if there
    /// are no such keys.
    fn delete(
        &mut self,
        chosen: impl Fn(&Vec<u8>) -> bool,
        delete: impl Fn(&Db, &WriteOptions) -> Result<DeletedRange, Error>,
    ) -> Result<(), Error> {
        let sync = self.rng.one_in(3);
        let options = WriteOptions::default().sync(sync);
        let keys = self.model.entries.keys().filter(|key| chosen(key));
        let ops: Vec<Op> = keys.map(|key| (key.clone(), None)).collect();
        let delete = |run: &Self, ops: &[Op]| {
            let done = delete(run.db(), &options)?;
            let alive = |(key, _): &&Op| settled(key, &run.model.entries[key]).is_some();
            let least = ops.iter().filter(alive).count() as u64;
            assert!(done.tables > 0 || done.keys >= least, "{done:?}");
            // Nothing is written if compactions have already removed every chosen entry.
            Ok(sync && done.keys > 0 || done.tables > 0)
        };
        match ops.len() {
            0 => delete(self, &ops).map(drop),
            _ => self.commit_durably(ops, delete),
        }
    }
}
