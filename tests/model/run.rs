//! One long run of random operations, each compared with the model.

use std::collections::VecDeque;
use std::ops::Bound;

use bytes::Bytes;
use minikv::bulk::TableWriter;
use minikv::fs::sim::{CrashPlan, Holes};
use minikv::{
    Compression, Cursor, Db, DeletedRange, Filters, Iter, Options, ReadOnlyDb, ReadOptions,
    Readable, Resources, Snapshot, WriteBatch, WriteOptions,
};

use crate::comparators::Order;
use crate::crash::{Change, Journal};
use crate::home::Home;
use crate::keys::{KeySpace, value};
use crate::order::{Entry, Model};
use crate::reads::Handle;
use crate::rng::Rng;
use crate::transactions::{Bounds, Open};

const LEVELS: usize = 7;

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct Config {
    pub name: &'static str,
    pub keys: KeySpace,
    pub order: Order,
    pub bloom_bits: Option<u32>,
    pub compression: Compression,
    pub reuse_logs: bool,
    pub cache_bytes: usize,
    /// Whether each open chooses a new filter, a new compression and a new value of `reuse_logs`.
    pub change_options: bool,
}

impl Config {
    pub fn options(&self, home: &Home, rng: &mut Rng) -> Options {
        let mut config = self.clone();
        if self.change_options {
            config.bloom_bits = *rng.pick(&[None, Some(1), Some(10), Some(20)]);
            config.compression = *rng.pick(&[Compression::None, Compression::Snappy]);
            config.reuse_logs = rng.one_in(2);
            config.cache_bytes = *rng.pick(&[0, 4 << 10, 8 << 20]);
        }
        let resources = match config.change_options && rng.one_in(2) {
            true => Resources::default().memory_bytes(*rng.pick(&[1 << 20, 8 << 20])),
            false => Resources::default(),
        };
        let kept_log_bytes =
            if config.change_options { *rng.pick(&[0, 32 << 10, 1 << 20]) } else { 0 };
        home.options()
            .write_buffer_bytes(64 << 10)
            .block_bytes(256)
            .block_restart_interval(*rng.pick(&[1, 4, 16]))
            .max_file_bytes(8 << 10)
            .max_open_files(*rng.pick(&[20, 1000]))
            .filters(config.bloom_bits.map_or(Filters::None, Filters::Block))
            .compression(config.compression)
            .reuse_logs(config.reuse_logs)
            .block_cache_bytes(config.cache_bytes)
            .resources(&resources)
            .keep_logs_bytes(kept_log_bytes)
            .comparator(self.order.comparator())
    }
}

/// A handle for reads, the options for these reads, and the state that they must show.
struct View {
    handle: Handle,
    options: ReadOptions,
    model: Model,
}

/// A cursor that is kept while writes continue, and the expected state.
struct Walk {
    cursor: Cursor,
    model: Model,
    at: Option<Entry>,
}

/// An iterator that is kept while writes continue, and the entries that it must still yield.
struct Pass {
    iter: Iter,
    left: VecDeque<Entry>,
}

pub struct Run {
    pub config: Config,
    seed: u64,
    pub operation: u64,
    pub home: Home,
    pub rng: Rng,
    db: Option<Db>,
    /// A handle that follows the database.
    pub follower: Option<ReadOnlyDb>,
    /// A sequence number, and the state of the database at this sequence number.
    pub copied: Option<(u64, Model)>,
    /// Number of times that changes were copied, and number of times that some changes were lost.
    pub changes_copied: u64,
    pub changes_lost: u64,
    /// The numbers of the backups, with the states from which they were made.
    pub backups: Vec<(u64, Model)>,
    pub model: Model,
    journal: Journal,
    pub snapshots: Vec<(Snapshot, Model)>,
    walks: Vec<Walk>,
    passes: Vec<Pass>,
    transactions: Vec<Open>,
    /// Levels that were seen to have tables.
    levels: [bool; LEVELS],
}

impl Drop for Run {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "failed at operation {} of «{}»; MINIKV_SEED={} repeats it",
                self.operation, self.config.name, self.seed
            );
        }
    }
}

/// Runs `operations` random operations. Returns, for each level, whether it ever had tables.
pub fn run(config: Config, home: Home, seed: u64, operations: u64) -> [bool; LEVELS] {
    println!("«{}»: {operations} operations, MINIKV_SEED={seed}", config.name);
    let mut rng = Rng::new(seed);
    let options = config.options(&home, &mut rng).create_if_missing(true).error_if_exists(true);
    let db = Db::open(home.dir(), options).unwrap();
    let model = Model::new(config.order);
    let mut run = Run {
        config,
        seed,
        operation: 0,
        home,
        rng,
        db: Some(db),
        follower: None,
        copied: None,
        changes_copied: 0,
        changes_lost: 0,
        backups: Vec::new(),
        journal: Journal::new(model.clone()),
        model,
        snapshots: Vec::new(),
        walks: Vec::new(),
        passes: Vec::new(),
        transactions: Vec::new(),
        levels: [false; LEVELS],
    };
    while run.operation < operations {
        run.operation += 1;
        run.step();
    }
    run.finish();
    run.levels
}

impl Run {
    pub fn db(&self) -> &Db {
        self.db.as_ref().expect("open between operations")
    }

    fn step(&mut self) {
        if self.home.can_crash() && self.rng.one_in(150) {
            return self.crash();
        }
        match self.rng.below(1000) {
            0..300 => self.put(),
            300..330 => self.use_keyspace(),
            330..440 => self.delete(),
            440..446 => self.update(),
            446..450 => self.copy_changes(),
            450..500 => self.write_batch(),
            500..730 => self.look_up(),
            730..770 => self.transact(),
            770..810 => self.look_up_many(),
            810..870 => self.scan_range(),
            870..910 => self.scan_prefix(),
            910..915 => self.scan_all(),
            915..945 => self.new_walk(),
            945..958 => self.go_on_walking(),
            958..964 => self.new_pass(),
            964..976 => self.go_on_passing(),
            976..985 => self.take_snapshot(),
            985..991 => self.drop_a_view(),
            991 => match self.rng.below(10) {
                0 => self.back_up_or_restore(),
                1..4 => self.follow(),
                _ => self.drop_a_view(),
            },
            992 if self.rng.one_in(2) => self.delete_range(),
            992 => self.sync(),
            993 | 994 => self.flush(),
            995 => self.ingest(),
            996 => self.compact(),
            997 => self.db().wait_idle().unwrap(),
            998 => self.look_at_levels(),
            _ => self.reopen(),
        }
    }

    fn sync(&mut self) {
        self.db().sync().unwrap();
        self.all_is_durable();
    }

    fn flush(&mut self) {
        self.db().flush().unwrap();
        self.all_is_durable();
    }

    /// Returns a random key: half of the time a key that exists, sometimes a near miss.
    fn key(&mut self) -> Vec<u8> {
        let mut key = self.config.keys.key(&mut self.rng);
        if self.rng.one_in(2)
            && let Some((present, _)) = self.model.at_or_after(&key)
        {
            key = present.to_vec();
        }
        match self.rng.below(20) {
            0 => key.push(*self.rng.pick(&[0, 0xff])),
            1 => drop(key.pop()),
            _ => {}
        }
        key
    }

    /// Applies a successful write to the model.
    pub fn written(&mut self, changes: Vec<Change>, sync: bool) {
        for (key, value) in &changes {
            self.model.set(key, value.as_deref());
        }
        self.transactions.iter_mut().for_each(|open| open.note(&changes));
        match sync {
            true => self.all_is_durable(),
            false => self.journal.write(changes),
        }
    }

    fn all_is_durable(&mut self) {
        self.journal = Journal::new(self.model.clone());
    }

    fn put(&mut self) {
        let (key, value) = (self.key(), value(&mut self.rng, self.operation));
        let sync = self.rng.one_in(300);
        let options = WriteOptions::default().sync(sync);
        self.db().writing(options).put(&key, &value).unwrap();
        self.written(vec![(key, Some(value))], sync);
    }

    fn delete(&mut self) {
        let key = self.key();
        let sync = self.rng.one_in(300);
        let options = WriteOptions::default().sync(sync);
        self.db().writing(options).delete(&key).unwrap();
        self.written(vec![(key, None)], sync);
    }

    /// Replaces the value of a random key by a value that depends on the old one, or deletes the
    /// key.
    fn update(&mut self) {
        let key = self.key();
        let expected = self.model.get(&key).map(<[u8]>::to_vec);
        let removes = self.rng.one_in(3);
        let change = |old: Option<&[u8]>| {
            assert_eq!(old, expected.as_deref());
            (!removes).then(|| [old.unwrap_or(b"none"), b"+"].concat())
        };
        let new = self.db().update(&key, change).unwrap();
        assert_eq!(new.is_none(), removes);
        // An update that leaves an absent key absent writes nothing.
        if expected.is_some() || new.is_some() {
            self.written(vec![(key, new.map(|new| new.to_vec()))], false);
        }
    }

    fn write_batch(&mut self) {
        let mut batch = WriteBatch::new();
        let most = if self.rng.one_in(20) { 300 } else { 10 };
        let mut changes = Vec::new();
        for _ in 0..self.rng.below(most) {
            let key = self.key();
            if self.rng.one_in(3) {
                batch.delete(&key);
                changes.push((key, None));
            } else {
                let value = value(&mut self.rng, self.operation);
                batch.put(&key, &value);
                changes.push((key, Some(value)));
            }
        }
        assert_eq!(batch.len(), changes.len());
        let sync = self.rng.one_in(300);
        self.db().writing(WriteOptions::default().sync(sync)).write(batch).unwrap();
        self.written(changes, sync);
    }

    /// Deletes a range: a few keys, or all keys between two random keys.
    fn delete_range(&mut self) {
        let (a, b) = (self.key(), self.key());
        let few = |from: &[u8], model: &Model| {
            let end = model.range(Bound::Included(from), Bound::Unbounded);
            end.get(20).map_or(b.clone(), |(key, _)| key.to_vec())
        };
        let to = if self.rng.one_in(2) { few(&a, &self.model) } else { b.clone() };
        let mut bound = |key| match self.rng.below(12) {
            0 => Bound::Unbounded,
            1..6 => Bound::Excluded(key),
            _ => Bound::Included(key),
        };
        let range: Bounds = (bound(a), bound(to));
        let sync = self.rng.one_in(10);
        let options = WriteOptions::default().sync(sync);
        let done = self.db().writing(options).delete_range(range.clone()).unwrap();
        let keys =
            self.model.range(range.0.as_ref().map(|k| &k[..]), range.1.as_ref().map(|k| &k[..]));
        let keys = keys.into_iter().map(|(key, _)| key.to_vec());
        self.deleted(&range, keys.collect(), done, sync);
    }

    /// Records the deletion of a range, in which the model had the keys `keys`.
    pub fn deleted(&mut self, range: &Bounds, keys: Vec<Vec<u8>>, done: DeletedRange, sync: bool) {
        assert!(done.tables > 0 || done.keys >= keys.len() as u64, "{done:?}");
        self.transactions.iter_mut().for_each(|open| open.note_range(range));
        let deleted = keys.into_iter().map(|key| (key, None));
        self.written(deleted.collect(), sync || done.tables > 0);
    }

    /// Adds tables that were written outside of the database.
    fn ingest(&mut self) {
        let mut puts = Model::new(self.config.order);
        let around = self.key();
        for _ in 0..self.rng.below(200) {
            let key =
                if self.rng.one_in(4) { self.key() } else { self.config.keys.key(&mut self.rng) };
            puts.set(&key, Some(&value(&mut self.rng, self.operation)));
        }
        puts.set(&around, Some(&value(&mut self.rng, self.operation)));
        let options = self.config.options(&self.home, &mut self.rng);
        let dir = self.home.dir().with_extension(format!("tables{}", self.operation));
        let mut writer = TableWriter::create(dir, &options).unwrap();
        let puts = puts.all();
        puts.iter().for_each(|(key, value)| writer.put(key, value).unwrap());
        let tables = writer.finish().unwrap();
        let done = self.db().ingest(&tables).unwrap();
        assert_eq!(done.entries, puts.len() as u64);
        tables.iter().for_each(|table| self.home.remove(table.path()));
        let put = |(key, value): Entry| (key.to_vec(), Some(value.to_vec()));
        self.written(puts.into_iter().map(put).collect(), true);
    }

    /// Begins, continues or ends a transaction.
    fn transact(&mut self) {
        if self.transactions.len() < 3 {
            let open = Open::begin(self.db(), &self.model, self.config.order);
            self.transactions.push(open);
        }
        let at = self.rng.below(self.transactions.len());
        for _ in 0..self.rng.below(6) {
            let (key, other) = (self.key(), self.key());
            self.transactions[at].step(&mut self.rng, self.operation, key, other);
        }
        match self.rng.below(8) {
            0 => drop(self.transactions.swap_remove(at)),
            1..4 => {
                let sync = self.rng.one_in(30);
                let open = self.transactions.swap_remove(at);
                if let Some(changes) = open.commit(sync) {
                    let is_synced = sync && !changes.is_empty();
                    self.written(changes, is_synced);
                }
            }
            _ => {}
        }
    }

    fn view(&mut self) -> View {
        let options = ReadOptions::default()
            .use_filter(!self.rng.one_in(4))
            .fill_cache(!self.rng.one_in(4))
            .verify_checksums(!self.rng.one_in(4));
        if self.snapshots.is_empty() || self.rng.one_in(2) {
            let (handle, model) = (Handle::Db(self.db().clone()), self.model.clone());
            return View { handle, options, model };
        }
        let (snapshot, model) = self.rng.pick(&self.snapshots).clone();
        View { handle: Handle::Snapshot(snapshot), options, model }
    }

    fn look_up(&mut self) {
        let key = self.key();
        let View { handle, options, model } = self.view();
        let expected = model.get(&key);
        let found = handle.reading(options).get(&key).unwrap();
        assert_eq!(found.as_deref(), expected, "{key:x?}");
        if self.rng.one_in(4) {
            let (found, _) = handle.reading(options).get_traced(&key).unwrap();
            assert_eq!(found.as_deref(), expected, "{key:x?} traced");
        }
        assert_eq!(handle.get(&key).unwrap().as_deref(), expected, "{key:x?}");
        assert_eq!(handle.contains_key(&key).unwrap(), expected.is_some(), "{key:x?}");
    }

    fn look_up_many(&mut self) {
        let mut keys: Vec<Vec<u8>> = (0..self.rng.below(20)).map(|_| self.key()).collect();
        if self.rng.one_in(2) {
            keys.extend(keys.first().cloned());
        }
        let View { handle, options, model } = self.view();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let found = handle.reading(options).multi_get(&keys).unwrap();
        let found: Vec<Option<&[u8]>> = found.iter().map(|value| value.as_deref()).collect();
        let expected: Vec<Option<&[u8]>> = keys.iter().map(|key| model.get(key)).collect();
        assert_eq!(found, expected, "{keys:x?}");
    }

    fn scan_range(&mut self) {
        let (a, b) = (self.key(), self.key());
        let bounds = (self.bound(&a), self.bound(&b));
        let View { handle, options, model } = self.view();
        let pass = Pass {
            iter: handle.reading(options).range(bounds),
            left: model.range(bounds.0, bounds.1).into(),
        };
        self.exhaust(pass);
    }

    fn bound<'a>(&mut self, key: &'a [u8]) -> Bound<&'a [u8]> {
        match self.rng.below(5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Excluded(key),
            _ => Bound::Included(key),
        }
    }

    fn scan_prefix(&mut self) {
        let prefix = self.config.keys.prefix(&mut self.rng);
        if self.config.order != Order::Bytewise {
            return; // keys of one prefix need not be neighbours
        }
        let View { handle, options, model } = self.view();
        let iter = handle.reading(options).prefix(&prefix).unwrap();
        self.exhaust(Pass { iter, left: model.prefix(&prefix).into() });
    }

    fn scan_all(&mut self) {
        let View { handle, options, model } = self.view();
        self.exhaust(Pass { iter: handle.reading(options).iter(), left: model.all().into() });
    }

    /// Takes entries of `pass` from the front, from the back, or from both ends: at most 50 entries
    /// or, in one of five cases, all entries.
    fn exhaust(&mut self, mut pass: Pass) {
        let style = self.rng.below(3);
        let most = if self.rng.one_in(5) { usize::MAX } else { 50 };
        for _ in 0..pass.left.len().min(most) {
            let back = style == 1 || (style == 2 && self.rng.one_in(2));
            pass.take(back);
        }
        if pass.left.is_empty() {
            pass.take(false);
            pass.take(true);
            pass.take(false);
        }
    }

    fn new_pass(&mut self) {
        let View { handle, options, model } = self.view();
        let iter = handle.reading(options).iter();
        self.passes.push(Pass { iter, left: model.all().into() });
        self.go_on_passing();
    }

    fn go_on_passing(&mut self) {
        if self.passes.is_empty() {
            return;
        }
        let i = self.rng.below(self.passes.len());
        for _ in 0..self.rng.below(40) {
            let back = self.rng.one_in(4);
            self.passes[i].take(back);
        }
    }

    fn new_walk(&mut self) {
        let View { handle, options, model } = self.view();
        let cursor = handle.reading(options).cursor().unwrap();
        assert!(!cursor.valid());
        self.walks.push(Walk { cursor, model, at: None });
        self.walk(self.walks.len() - 1);
        if !self.rng.one_in(5) {
            self.walks.pop();
        }
    }

    fn go_on_walking(&mut self) {
        if !self.walks.is_empty() {
            let i = self.rng.below(self.walks.len());
            self.walk(i);
        }
    }

    fn walk(&mut self, i: usize) {
        for _ in 0..self.rng.below(30) {
            let key = self.key();
            let choice = self.rng.below(20);
            let walk = &mut self.walks[i];
            let (cursor, model) = (&mut walk.cursor, &walk.model);
            let (moved, at) = match (&walk.at, choice) {
                (Some((at, _)), 0..8) => (cursor.next(), model.after(at)),
                (Some((at, _)), 8..16) => (cursor.prev(), model.before(at)),
                (_, 16) => (cursor.seek_to_first(), model.first()),
                (_, 17) => (cursor.seek_to_last(), model.last()),
                (_, n) if n % 2 == 0 => (cursor.seek(&key), model.at_or_after(&key)),
                _ => (cursor.seek_for_prev(&key), model.at_or_before(&key)),
            };
            assert_eq!(moved.unwrap(), at.is_some(), "step {choice}, {key:x?}");
            assert_eq!(cursor.valid(), at.is_some());
            if let Some((key, value)) = &at {
                assert_eq!(cursor.key(), &**key, "step {choice}");
                assert_eq!(cursor.value(), &**value, "value of {key:x?}");
            }
            walk.at = at;
        }
    }

    fn take_snapshot(&mut self) {
        self.snapshots.push((self.db().snapshot(), self.model.clone()));
    }

    /// Drops some views, to bound the number of snapshots, cursors and iterators.
    fn drop_a_view(&mut self) {
        if !self.snapshots.is_empty() {
            let i = self.rng.below(self.snapshots.len());
            self.snapshots.swap_remove(i);
        }
        if self.walks.len() > 3 {
            self.walks.remove(0);
        }
        if self.passes.len() > 3 {
            self.passes.remove(0);
        }
    }

    fn compact(&mut self) {
        let (a, b) = (self.key(), self.key());
        let bounds = (self.bound(&a), self.bound(&b));
        if self.rng.one_in(4) {
            self.db().compact_range(..).unwrap();
        } else {
            self.db().compact_range(bounds).unwrap();
        }
        self.all_is_durable();
        self.look_at_levels();
    }

    fn look_at_levels(&mut self) {
        for level in 0..LEVELS {
            let name = format!("leveldb.num-files-at-level{level}");
            let files = self.db().property(&name).expect("a known property");
            self.levels[level] |= files.parse::<u64>().expect("a number of files") > 0;
        }
    }

    /// Continues with the files that a crash leaves at this moment, at whatever stage background
    /// work is.
    fn crash(&mut self) {
        let seed = self.rng.next();
        let plans = [
            CrashPlan::process_kill(),
            CrashPlan::strict(),
            CrashPlan::everything(),
            CrashPlan::random_prefix(seed),
            CrashPlan::random(seed),
            CrashPlan::random(seed).holes(Holes::Garbage),
        ];
        let plan = self.rng.pick(&plans).clone();
        let after = self.home.after_crash(&plan).expect("a home that can crash");
        self.drop_views();
        self.follower = None;
        // Discards the copy, because new writes reuse the sequence numbers of lost writes.
        self.copied = None;
        self.db = None;
        self.home = after;
        let options = self.config.options(&self.home, &mut self.rng);
        let db = Db::open(self.home.dir(), options).unwrap();
        if plan != CrashPlan::process_kill() {
            let found: Vec<Entry> = db.iter().map(owned).collect();
            let survivor = self.journal.survivor(&found);
            self.model = survivor.unwrap_or_else(|| panic!("after «{plan}» no prefix is left"));
            self.all_is_durable();
        }
        self.compare_all(&db);
        self.db = Some(db);
        if self.rng.one_in(20) {
            self.check_backups();
        }
    }

    fn drop_views(&mut self) {
        self.snapshots.clear();
        self.walks.clear();
        self.passes.clear();
        self.transactions.clear();
    }

    /// Closes and reopens the database, sometimes with a read-only handle in between.
    fn reopen(&mut self) {
        let kept = std::mem::take(&mut self.transactions);
        self.drop_views();
        let db = self.db.take().expect("open between operations");
        match self.rng.one_in(2) {
            true => drop((kept, db)),
            false => {
                db.close().unwrap();
                kept.into_iter().for_each(Open::commit_after_close);
            }
        }
        let options = self.config.options(&self.home, &mut self.rng);
        if self.rng.one_in(3) {
            let db = Db::open_read_only(self.home.dir(), options.clone()).unwrap();
            self.compare_all(&db);
        }
        self.db = Some(Db::open(self.home.dir(), options).unwrap());
        self.compare_all(self.db());
    }

    pub fn compare_all(&self, handle: &impl Readable) {
        self.compare(handle, &self.model);
    }

    /// Compares everything that `handle` shows with `model`.
    pub fn compare(&self, handle: &impl Readable, model: &Model) {
        let options = ReadOptions::default();
        let expected = model.all();
        let forward = handle.reading(options).iter().map(owned).collect();
        assert_same(forward, &expected);
        let mut backward: Vec<Entry> = handle.reading(options).iter().rev().map(owned).collect();
        backward.reverse();
        assert_same(backward, &expected);
        for (key, value) in expected.iter().step_by(expected.len() / 500 + 1) {
            assert_eq!(handle.get(key).unwrap().as_deref(), Some(&**value), "{key:x?}");
        }
    }

    fn finish(&mut self) {
        self.look_at_levels();
        self.compare_all(self.db());
        self.follow();
        self.check_backups();
        for (snapshot, model) in &self.snapshots {
            assert_same(snapshot.iter().map(owned).collect(), &model.all());
        }
        self.reopen();
        self.db().compact_range(..).unwrap();
        self.compare_all(self.db());
        println!(
            "«{}»: {} entries are left; changes were copied {} times, and lost {} times",
            self.config.name,
            self.model.len(),
            self.changes_copied,
            self.changes_lost
        );
        assert!(self.operation < 20_000 || self.changes_copied > 0, "no change was copied");
    }
}

impl Pass {
    fn take(&mut self, back: bool) {
        let (found, expected) = match back {
            false => (self.iter.next(), self.left.pop_front()),
            true => (self.iter.next_back(), self.left.pop_back()),
        };
        assert_eq!(found.map(owned), expected, "from the back: {back}");
    }
}

pub fn owned(entry: minikv::Result<(Bytes, Bytes)>) -> Entry {
    let (key, value) = entry.unwrap();
    ((&*key).into(), (&*value).into())
}

/// Compares the entries one by one, so that a failure does not print all of them.
pub fn assert_same(found: Vec<Entry>, expected: &[Entry]) {
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len(), "entries");
}
