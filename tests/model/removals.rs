//! Entries that compactions remove or change: expired entries, and entries that a compaction filter
//! removes or changes.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use minikv::bulk::TableWriter;
use minikv::fs::sim::{CrashPlan, SimFs};
use minikv::{CompactionDecision, Db, Expiry, Keyspace, Options, Readable, Snapshot, WriteBatch};

use crate::home::Home;
use crate::operations;
use crate::rng::{self, Rng};

const SPACE: &str = "sessions";
const NEVER: u64 = u64::MAX;

/// The first byte of values that the filter removes.
const DOOMED: u8 = b'-';
/// The first byte of values that the filter changes, and its replacement.
const ROUGH: u8 = b'~';
const SMOOTH: u8 = b'!';

type Entries = Vec<(Bytes, Bytes)>;
/// Values with their expiries, in milliseconds since the epoch.
type Expiring = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;
type Plain = BTreeMap<Vec<u8>, Vec<u8>>;

struct Run {
    home: Home,
    rng: Rng,
    /// `None` only while the database is opened again.
    db: Option<Db>,
    /// Time of the clock, in milliseconds since the epoch.
    now: Arc<AtomicU64>,
    /// The entries of the expiring keyspace, including expired entries.
    expiring: Expiring,
    /// The entries outside of keyspaces, as each of them was last written or read.
    plain: Plain,
    snapshots: Vec<(Snapshot, Expiring, Entries)>,
    operation: u64,
    /// Number of entries that reads found removed by the filter, and number of entries that reads
    /// found changed by the filter.
    filtered: [u64; 2],
    /// Number of entries that expired while the model held them.
    expired: u64,
}

fn options(home: &Home, now: &Arc<AtomicU64>) -> Options {
    let now = now.clone();
    home.options()
        .write_buffer_bytes(32 << 10)
        .max_file_bytes(8 << 10)
        .block_bytes(256)
        .max_open_files(20)
        .clock(move || time(now.load(Relaxed)))
        .compaction_filter(|key, value| match value.split_first() {
            _ if key[0] == 0xff => CompactionDecision::Keep,
            Some((&DOOMED, _)) => CompactionDecision::Remove,
            Some((&ROUGH, rest)) => CompactionDecision::Change([&[SMOOTH], rest].concat()),
            _ => CompactionDecision::Keep,
        })
}

fn time(millis: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis)
}

fn all(entries: impl Iterator<Item = minikv::Result<(Bytes, Bytes)>>) -> Entries {
    entries.map(Result::unwrap).collect()
}

/// Returns the entries that a read at the time `now` must show.
fn live(expiring: &Expiring, now: u64) -> Entries {
    let live = expiring.iter().filter(|(_, (_, expiry))| *expiry > now);
    live.map(|(key, (value, _))| (key.clone().into(), value.clone().into())).collect()
}

/// Asserts that reads of the keyspace show exactly `expected`.
fn assert_shows<H: Readable>(space: &Keyspace<H>, expected: &Entries, what: &str) {
    let found = all(space.iter());
    let differs = found.iter().zip(expected).find(|(found, expected)| found != expected);
    assert!(found == *expected, "{what}, forward: {differs:?}");
    let mut backward = all(space.iter().rev());
    backward.reverse();
    assert!(backward == *expected, "{what}, backward");
    let mut cursor = space.cursor().unwrap();
    let mut valid = cursor.seek_to_last().unwrap();
    for (key, value) in expected.iter().rev() {
        assert!(valid && cursor.key() == key && cursor.value() == value, "{what}, a cursor");
        valid = cursor.prev().unwrap();
    }
    assert!(!valid, "{what}, a cursor");
}

impl Run {
    fn new(home: Home, seed: u64) -> Run {
        let now = Arc::new(AtomicU64::new(1_000_000));
        let options = options(&home, &now).create_if_missing(true);
        Run {
            db: Some(Db::open(home.dir(), options).unwrap()),
            home,
            rng: Rng::new(seed),
            now,
            expiring: Expiring::new(),
            plain: Plain::new(),
            snapshots: Vec::new(),
            operation: 0,
            filtered: [0; 2],
            expired: 0,
        }
    }

    fn step(&mut self) {
        self.operation += 1;
        match self.rng.below(1000) {
            0..250 => self.put_expiring(),
            250..300 => self.delete_expiring(),
            300..400 => self.put_plain(),
            400..450 => self.write_batch(),
            450..480 => self.update(),
            480..520 => self.transact(),
            520..700 => self.pass_time(),
            700..900 => self.look_up(),
            900..930 => self.scan(),
            930..940 => self.take_snapshot(),
            940..950 => self.drop_snapshot(),
            950..960 => self.delete_range(),
            960..970 => self.ingest(),
            970..980 => self.db().flush().unwrap(),
            980..985 => self.compact(),
            985..995 => self.idle(),
            _ => self.reopen(),
        }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn now(&self) -> u64 {
        self.now.load(Relaxed)
    }

    fn space(&self) -> Keyspace {
        self.db().expiring_keyspace(SPACE).unwrap()
    }

    fn key(&mut self) -> Vec<u8> {
        // Neighbouring keys are written at about the same time, so that whole tables expire.
        let around = self.operation / 40 % 25 * 20;
        format!("{:04}", around + self.rng.below(40) as u64).into_bytes()
    }

    fn value(&mut self) -> Vec<u8> {
        let first = *self.rng.pick(&[DOOMED, ROUGH, SMOOTH, b'a']);
        let len = self.rng.below(100);
        [vec![first], self.operation.to_string().into_bytes(), vec![b'.'; len]].concat()
    }

    /// Returns a time to live in milliseconds: zero, short, long, or `NEVER`.
    fn ttl(&mut self) -> u64 {
        match self.rng.below(20) {
            0 => 0,
            1 => NEVER,
            2..10 => 1 + self.rng.below(50) as u64,
            _ => 1 + self.rng.below(3000) as u64,
        }
    }

    fn put_expiring(&mut self) {
        let (key, value, ttl) = (self.key(), self.value(), self.ttl());
        let (space, now) = (self.space(), self.now());
        let expiry = now.saturating_add(ttl);
        match (ttl, self.rng.one_in(2)) {
            (NEVER, _) => space.put(&key, &value).unwrap(),
            (_, true) => space.put_for(&key, &value, Duration::from_millis(ttl)).unwrap(),
            (_, false) => space.put_until(&key, &value, time(expiry)).unwrap(),
        }
        self.expiring.insert(key, (value, expiry));
    }

    fn delete_expiring(&mut self) {
        let key = self.key();
        self.space().delete(&key).unwrap();
        self.expiring.remove(&key);
    }

    fn put_plain(&mut self) {
        let (key, value) = (self.key(), self.value());
        match self.rng.one_in(4) {
            true => self.db().delete(&key).unwrap(),
            false => self.db().put(&key, &value).unwrap(),
        }
        self.plain.remove(&key);
        if let Some(value) = self.db().get(&key).unwrap() {
            self.plain.insert(key, value.to_vec());
        }
    }

    fn write_batch(&mut self) {
        let (mut batch, space) = (WriteBatch::new(), self.space());
        for _ in 0..self.rng.below(20) {
            let (key, value, ttl) = (self.key(), self.value(), self.ttl());
            if self.rng.one_in(3) {
                batch.put(&key, &value);
                self.plain.insert(key, value);
                continue;
            }
            let expiry = self.now().saturating_add(ttl);
            match ttl {
                NEVER => batch.put_in(&space, &key, &value),
                _ => batch.put_for_in(&space, &key, &value, Duration::from_millis(ttl)).unwrap(),
            }
            self.expiring.insert(key, (value, expiry));
        }
        self.db().write(batch).unwrap();
    }

    /// Sets the value of a key, or deletes the key. If the key has an entry that has not expired,
    /// the new value keeps the expiry of this entry.
    fn update(&mut self) {
        let (key, new) = (self.key(), self.value());
        let new = (!self.rng.one_in(4)).then_some(new);
        let old = self.live_at(&key);
        let seen = std::cell::RefCell::new(None);
        let change = |old: Option<&[u8]>| {
            *seen.borrow_mut() = old.map(<[u8]>::to_vec);
            new.clone()
        };
        self.space().update(&key, change).unwrap();
        assert_eq!(*seen.borrow(), old.as_ref().map(|(value, _)| value.clone()), "update");
        match (new, old) {
            (Some(new), old) => {
                let expiry = old.map_or(NEVER, |(_, expiry)| expiry);
                self.expiring.insert(key, (new, expiry));
            }
            (None, Some(_)) => drop(self.expiring.remove(&key)),
            (None, None) => {}
        }
    }

    /// Moves a value from one key to another in a transaction.
    fn transact(&mut self) {
        let (from, to, ttl) = (self.key(), self.key(), 1 + self.rng.below(3000) as u64);
        let (space, expected) = (self.space(), self.live_at(&from));
        let mut tx = self.db().transaction();
        let found = tx.keyspace(&space).get(&from).unwrap();
        assert_eq!(found.as_deref(), expected.as_ref().map(|(value, _)| &value[..]), "transaction");
        let Some(value) = found.filter(|_| from != to) else { return };
        tx.delete_in(&space, &from);
        tx.put_for_in(&space, &to, &value, Duration::from_millis(ttl)).unwrap();
        assert_eq!(tx.keyspace(&space).get(&to).unwrap().as_ref(), Some(&value));
        assert_eq!(tx.keyspace(&space).get(&from).unwrap(), None);
        if self.rng.one_in(4) {
            return;
        }
        tx.commit().unwrap();
        self.expiring.remove(&from);
        self.expiring.insert(to, (value.to_vec(), self.now() + ttl));
    }

    fn pass_time(&mut self) {
        let before = live(&self.expiring, self.now()).len();
        let millis = if self.rng.one_in(50) { 2000 } else { self.rng.below(40) };
        self.now.fetch_add(millis as u64, Relaxed);
        self.expired += (before - live(&self.expiring, self.now()).len()) as u64;
    }

    /// Returns the value and the expiry that reads of `key` must show now.
    fn live_at(&self, key: &[u8]) -> Option<(Vec<u8>, u64)> {
        self.expiring.get(key).filter(|(_, expiry)| *expiry > self.now()).cloned()
    }

    fn look_up(&mut self) {
        let key = self.key();
        let (space, expected) = (self.space(), self.live_at(&key));
        let value = expected.as_ref().map(|(value, _)| &value[..]);
        assert_eq!(space.get(&key).unwrap().as_deref(), value, "{key:?}");
        assert_eq!(space.contains_key(&key).unwrap(), value.is_some());
        assert_eq!(space.multi_get(&[&key]).unwrap()[0].as_deref(), value, "{key:?}");
        let expiry = expected.map(|(_, expiry)| match expiry {
            NEVER => Expiry::Never,
            millis => Expiry::At(time(millis)),
        });
        assert_eq!(space.expiry(&key).unwrap(), expiry, "{key:?}");
        let found = self.db().get(&key).unwrap().map(|value| value.to_vec());
        self.see(key, found);
    }

    /// Checks `found`, the result of a read outside of keyspaces. Records the result, because later
    /// reads must not show an entry as it was before the filter changed or removed it.
    fn see(&mut self, key: Vec<u8>, found: Option<Vec<u8>>) {
        let last = self.plain.get(&key).cloned();
        if found == last {
            return;
        }
        let last = last.unwrap_or_else(|| panic!("{key:?} came back: {found:?}"));
        match found {
            None => {
                assert_eq!(last[0], DOOMED, "{key:?} is lost");
                self.plain.remove(&key);
                self.filtered[0] += 1;
            }
            Some(found) => {
                let is_change = last[0] == ROUGH && found[0] == SMOOTH && found[1..] == last[1..];
                assert!(is_change, "{key:?}: {last:?} became {found:?}");
                self.plain.insert(key, found);
                self.filtered[1] += 1;
            }
        }
    }

    /// Compares all entries of the database with the model.
    fn scan(&mut self) {
        assert_shows(&self.space(), &live(&self.expiring, self.now()), "the keyspace");
        // The keys outside of keyspaces consist of digits.
        let found: BTreeMap<_, _> = all(self.db().range(..&b":"[..]))
            .into_iter()
            .map(|(key, value)| (key.to_vec(), value.to_vec()))
            .collect();
        let keys: Vec<_> = self.plain.keys().chain(found.keys()).cloned().collect();
        keys.into_iter().for_each(|key| self.see(key.clone(), found.get(&key).cloned()));
        for (snapshot, expiring, plain) in &self.snapshots {
            let space = snapshot.expiring_keyspace(SPACE).unwrap();
            assert_shows(&space, &live(expiring, self.now()), "a snapshot");
            let shown = all(snapshot.range(..&b":"[..]));
            assert!(shown == *plain, "a snapshot outside of keyspaces");
        }
    }

    fn take_snapshot(&mut self) {
        self.scan();
        let snapshot = self.db().snapshot();
        let plain = all(snapshot.range(..&b":"[..]));
        self.snapshots.push((snapshot, self.expiring.clone(), plain));
        if self.snapshots.len() > 3 {
            self.drop_snapshot();
        }
    }

    fn drop_snapshot(&mut self) {
        if !self.snapshots.is_empty() {
            let at = self.rng.below(self.snapshots.len());
            self.snapshots.swap_remove(at);
        }
    }

    fn delete_range(&mut self) {
        let (a, b) = (self.key(), self.key());
        let (from, to) = (a.clone().min(b.clone()), a.max(b));
        let range = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        self.space().delete_range(range).unwrap();
        self.expiring.retain(|key, _| *key < from || *key >= to);
    }

    fn ingest(&mut self) {
        let path = self.home.dir().with_extension(format!("ingest{}", self.operation));
        let mut writer = TableWriter::create(&path, &options(&self.home, &self.now)).unwrap();
        let space = self.space();
        let mut keys: Vec<_> = (0..1 + self.rng.below(30)).map(|_| self.key()).collect();
        keys.sort();
        keys.dedup();
        for key in keys {
            let (value, expiry) = (self.value(), self.now() + self.ttl().min(10_000));
            writer.put_until_in(&space, &key, &value, time(expiry)).unwrap();
            self.expiring.insert(key, (value, expiry));
        }
        self.db().ingest(&writer.finish().unwrap()).unwrap();
    }

    /// Compacts the whole database. Checks that no expired entry remains, unless there are
    /// snapshots.
    fn compact(&mut self) {
        self.db().compact_range(..).unwrap();
        self.scan();
        if self.snapshots.is_empty() {
            let stored = self.db().range(&b"\xff"[..]..).count();
            assert_eq!(stored, live(&self.expiring, self.now()).len(), "entries in the tables");
            assert!(self.plain.values().all(|value| ![DOOMED, ROUGH].contains(&value[0])));
        }
    }

    /// Waits for background work. Unless there are snapshots, checks that no table remains whose
    /// entries have all expired.
    fn idle(&mut self) {
        self.db().wait_idle().unwrap();
        if self.snapshots.is_empty() {
            assert_eq!(self.db().stats().expired_tables, 0);
        }
    }

    /// Opens the database again, after a crash if the filesystem can crash.
    fn reopen(&mut self) {
        self.snapshots.clear();
        self.db().sync().unwrap();
        let plan = CrashPlan::random(self.rng.next());
        match self.home.after_crash(&plan) {
            Some(home) => self.home = home,
            None => self.db.take().unwrap().close().unwrap(),
        }
        let options = options(&self.home, &self.now);
        self.db = Some(Db::open(self.home.dir(), options).unwrap());
        self.scan();
    }
}

fn run(home: Home, operations: u64) {
    let seed = rng::seed();
    println!("«removals»: {operations} operations, MINIKV_SEED={seed}");
    let mut run = Run::new(home, seed);
    while run.operation < operations {
        run.step();
    }
    run.snapshots.clear();
    run.compact();
    println!("{} expired, {:?} removed and changed by the filter", run.expired, run.filtered);
    assert!(run.expired > 0 && run.filtered.iter().all(|count| *count > 0));
}

#[test]
fn keys_that_expire_or_are_filtered() {
    run(Home::in_memory(), operations(20_000));
    run(Home::on_disk(), operations(20_000) / 8);
}

#[test]
fn crashes_with_keys_that_expire_or_are_filtered() {
    run(Home::simulated(SimFs::new(rng::seed())), operations(20_000));
}
