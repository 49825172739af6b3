//! Compares keyspaces with sorted maps: reads, writes, stored bytes, names and filters.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex};

use minikv::fs::sim::OpKind;
use minikv::fs::{MemFs, SimFs};
use minikv::{
    Bytes, Db, DelimitedPrefix, Error, Filters, FixedPrefix, Keyspace, KeyspaceKind, Options,
    Readable, Result, WriteBatch, WriteOptions,
};

use crate::comparators::Order;
use crate::rng::{Rng, seed};
use crate::{on, small};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;
type Entry = (Vec<u8>, Vec<u8>);

/// Returns keyspace names. Some are prefixes of other names, and some consist of the smallest or
/// largest byte values.
fn names() -> Vec<Vec<u8>> {
    let long = |byte| vec![byte; 255];
    let short = ["u", "user", "users", "usert", "\0", "\0\0"].map(|name| name.as_bytes().to_vec());
    let mut names = short.to_vec();
    names.extend([b"\xff".to_vec(), b"\xff\xff".to_vec(), long(0), long(0xff), long(b'u')]);
    names
}

/// Returns the names of the keyspaces that have entries.
fn listed(db: &Db) -> Vec<Vec<u8>> {
    db.keyspaces().unwrap().iter().map(|keyspace| keyspace.name().to_vec()).collect()
}

/// Returns the database key that stores `key` of the keyspace `name`, as documented in
/// docs/keyspaces.md.
fn documented(name: &[u8], key: &[u8]) -> Vec<u8> {
    [&[0xff, 0xfe, 0x6b, 0x73, name.len() as u8], name, key].concat()
}

fn key(rng: &mut Rng) -> Vec<u8> {
    let bytes = [0, 1, b'a', b'b', b'/', 0xfe, 0xff];
    (0..rng.below(5)).map(|_| *rng.pick(&bytes)).collect()
}

fn owned(entry: Result<(Bytes, Bytes)>) -> Entry {
    let (key, value) = entry.unwrap();
    (key.to_vec(), value.to_vec())
}

fn bound(rng: &mut Rng) -> Bound<Vec<u8>> {
    match rng.below(3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(key(rng)),
        _ => Bound::Excluded(key(rng)),
    }
}

fn in_range(map: &Map, from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> Vec<Entry> {
    let after = |key: &Vec<u8>| match from {
        Bound::Unbounded => true,
        Bound::Included(from) => key >= from,
        Bound::Excluded(from) => key > from,
    };
    let before = |key: &Vec<u8>| match to {
        Bound::Unbounded => true,
        Bound::Included(to) => key <= to,
        Bound::Excluded(to) => key < to,
    };
    let entries = map.iter().filter(|(key, _)| after(key) && before(key));
    entries.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Compares the entries of an iterator with `expected`. Takes entries from the front and from the
/// back, in random order.
fn assert_yields(rng: &mut Rng, mut iter: minikv::Iter, expected: Vec<Entry>, what: &str) {
    let (mut front, mut back) = (Vec::new(), Vec::new());
    let only = rng.below(3);
    loop {
        let from_back = only == 1 || (only == 2 && rng.one_in(2));
        let entry = if from_back { iter.next_back() } else { iter.next() };
        let Some(entry) = entry.map(owned) else { break };
        if from_back { back.push(entry) } else { front.push(entry) }
    }
    back.reverse();
    front.extend(back);
    assert_eq!(front, expected, "{what}");
}

/// Compares all reads of a keyspace with a map.
fn compare<H: Readable>(rng: &mut Rng, space: &Keyspace<H>, map: &Map) {
    let sought: Vec<Vec<u8>> = (0..6).map(|_| key(rng)).collect();
    let values = space.multi_get(&sought).unwrap();
    for (key, value) in sought.iter().zip(&values) {
        let expected = map.get(key).map(Vec::as_slice);
        assert_eq!(value.as_deref(), expected, "{space:?} {key:x?}");
        assert_eq!(space.get(key).unwrap().as_deref(), expected);
        assert_eq!(space.get_traced(key).unwrap().0.as_deref(), expected);
        assert_eq!(space.explain(key).unwrap().value.as_deref(), expected);
        assert_eq!(space.contains_key(key).unwrap(), expected.is_some());
    }
    let all = in_range(map, &Bound::Unbounded, &Bound::Unbounded);
    assert_yields(rng, space.iter(), all.clone(), "iter");
    assert_eq!(space.first_key_value().unwrap().map(|e| owned(Ok(e))), all.first().cloned());
    assert_eq!(space.last_key_value().unwrap().map(|e| owned(Ok(e))), all.last().cloned());
    assert_eq!(space.is_empty().unwrap(), all.is_empty());
    let (from, to) = (bound(rng), bound(rng));
    let what = format!("{space:?} {from:x?} {to:x?}");
    let range = (from.clone(), to.clone());
    assert_yields(rng, space.range(range), in_range(map, &from, &to), &what);
    let prefix = &sought[0][..sought[0].len().min(2)];
    let with_prefix = |from: &Bound<Vec<u8>>| {
        let mut entries = in_range(map, from, &Bound::Unbounded);
        entries.retain(|(key, _)| key.starts_with(prefix));
        entries
    };
    let iter = space.prefix(prefix).unwrap();
    assert_yields(rng, iter, with_prefix(&Bound::Unbounded), &format!("{space:?} {prefix:x?}"));
    let iter = space.prefix_from(prefix, from.clone()).unwrap();
    assert_yields(rng, iter, with_prefix(&from), &what);
    compare_cursor(rng, space, &all);
}

/// Moves a cursor at random, comparing each entry with `all`.
fn compare_cursor<H: Readable>(rng: &mut Rng, space: &Keyspace<H>, all: &[Entry]) {
    let mut cursor = space.cursor().unwrap();
    let mut at: Option<usize> = None;
    for _ in 0..12 {
        let sought = key(rng);
        let at_or_after = all.partition_point(|(key, _)| *key < sought);
        let past = all.partition_point(|(key, _)| *key <= sought);
        let valid;
        (valid, at) = match rng.below(8) {
            0 => (cursor.seek_to_first(), (!all.is_empty()).then_some(0)),
            1 => (cursor.seek_to_last(), all.len().checked_sub(1)),
            2 => (cursor.seek(&sought), (at_or_after < all.len()).then_some(at_or_after)),
            3 => (cursor.seek_for_prev(&sought), past.checked_sub(1)),
            4 | 5 => (cursor.next(), at.map(|at| at + 1).filter(|at| *at < all.len())),
            _ => (cursor.prev(), at.and_then(|at| at.checked_sub(1))),
        };
        assert_eq!((valid.unwrap(), cursor.valid()), (at.is_some(), at.is_some()), "{sought:x?}");
        if let Some(at) = at {
            let (key, value) = &all[at];
            assert_eq!((cursor.key(), cursor.value()), (&key[..], &value[..]));
            assert_eq!(cursor.value_bytes(), value);
        }
    }
}

/// A database and its expected contents: the map of each keyspace, and the map of the keys outside
/// of all keyspaces.
struct Twin {
    db: Db,
    fs: Arc<MemFs>,
    names: Vec<Vec<u8>>,
    maps: Vec<Map>,
    outside: Map,
}

impl Twin {
    fn options(fs: &Arc<MemFs>) -> Options {
        small()
            .write_buffer_bytes(16 << 10)
            .max_file_bytes(4 << 10)
            .fs(fs.clone())
            .filters(Filters::Both(10))
            .filter_prefix(FixedPrefix::new(2))
            .filter_prefix_in("users", FixedPrefix::new(1))
            .filter_prefix_in("u", DelimitedPrefix::new(b'/'))
            .filter_prefix_in([0xff; 255], FixedPrefix::new(2))
    }

    fn new() -> Twin {
        let fs = Arc::new(MemFs::new());
        let names = names();
        let db = Db::open("/db", Twin::options(&fs)).unwrap();
        Twin { db, fs, maps: vec![Map::new(); names.len()], names, outside: Map::new() }
    }

    fn space(&self, at: usize) -> Keyspace {
        self.db.keyspace(&self.names[at]).unwrap()
    }

    fn reopen(&mut self) {
        let other = Db::open(format!("/other{:p}", self), Twin::options(&self.fs)).unwrap();
        std::mem::replace(&mut self.db, other).close().unwrap();
        self.db = Db::open("/db", Twin::options(&self.fs)).unwrap();
    }

    /// Returns all entries, with their full database keys.
    fn all(&self) -> Vec<Entry> {
        let mut all = self.outside.clone();
        for (name, map) in self.names.iter().zip(&self.maps) {
            all.extend(map.iter().map(|(key, value)| (documented(name, key), value.clone())));
        }
        all.into_iter().collect()
    }

    fn write(&mut self, rng: &mut Rng, operation: u64) {
        let mut batch = WriteBatch::new();
        let single = rng.one_in(2);
        for _ in 0..if single { 1 } else { rng.below(20) } {
            let (at, key) = (rng.below(self.names.len() + 1), key(rng));
            let value = [&operation.to_le_bytes()[..], &rng.bytes(8)].concat();
            let is_put = !rng.one_in(3);
            let Some(map) = self.maps.get_mut(at) else {
                // A key outside of all keyspaces; some of these keys begin almost like the keys of
                // a keyspace.
                let starts = [&b""[..], b"\xff", b"\xff\xfe", b"\xff\xfek", b"\xff\xff"];
                let key = [rng.pick(&starts), &b"\0"[..], &key].concat();
                match is_put {
                    true => batch.put(&key, &value),
                    false => batch.delete(&key),
                }
                match is_put {
                    true => drop(self.outside.insert(key, value)),
                    false => drop(self.outside.remove(&key)),
                }
                continue;
            };
            let space = self.db.keyspace(&self.names[at]).unwrap();
            match (is_put, single) {
                (true, true) => space.put(&key, &value).unwrap(),
                (true, false) => batch.put_in(&space, &key, &value),
                (false, true) => space.delete(&key).unwrap(),
                (false, false) => batch.delete_in(&space, &key),
            }
            match is_put {
                true => drop(map.insert(key, value)),
                false => drop(map.remove(&key)),
            }
        }
        self.db.write(batch).unwrap();
    }

    fn compare_all(&self, rng: &mut Rng) {
        let found: Vec<Entry> = self.db.iter().map(owned).collect();
        assert_eq!(found, self.all());
        let mut expected: Vec<Vec<u8>> = Vec::new();
        for (at, map) in self.maps.iter().enumerate() {
            compare(rng, &self.space(at), map);
            expected.extend((!map.is_empty()).then(|| self.names[at].clone()));
        }
        expected.sort();
        assert_eq!(listed(&self.db), expected);
    }
}

#[test]
fn keyspaces_equal_maps_through_flushes_compactions_and_reopens() {
    let seed = seed();
    println!("MINIKV_SEED={seed}");
    let rng = &mut Rng::new(seed);
    let mut twin = Twin::new();
    for operation in 0..3000 {
        match rng.below(300) {
            0 => twin.db.flush().unwrap(),
            1 => twin.db.compact_range(..).unwrap(),
            2 => twin.reopen(),
            3..6 => {
                let at = rng.below(twin.names.len());
                let done = twin.space(at).clear().unwrap();
                assert!(done.tables > 0 || done.keys >= twin.maps[at].len() as u64, "{done:?}");
                twin.maps[at].clear();
            }
            6 => {
                let at = rng.below(twin.names.len());
                twin.space(at).compact_range(key(rng)..).unwrap();
            }
            7..40 => {
                let at = rng.below(twin.names.len());
                compare(rng, &twin.space(at), &twin.maps[at]);
            }
            40..50 => {
                let at = rng.below(twin.names.len());
                let map = twin.maps[at].clone();
                let snapshot = twin.db.snapshot();
                twin.write(rng, operation);
                compare(rng, &snapshot.keyspace(&twin.names[at]).unwrap(), &map);
            }
            _ => twin.write(rng, operation),
        }
        if operation % 300 == 299 {
            twin.compare_all(rng);
        }
    }
    let reader = Db::open_read_only("/db", Twin::options(&twin.fs)).unwrap();
    for (name, map) in twin.names.iter().zip(&twin.maps) {
        compare(rng, &reader.keyspace(name).unwrap(), map);
    }
    assert_eq!(reader.keyspaces().unwrap(), reader.keyspaces().unwrap());
    twin.compare_all(rng);
}

#[test]
fn opening_keyspaces_touches_no_file_and_writes_nothing() {
    let fs = SimFs::new(1);
    let db = Db::open("/db", on(&fs)).unwrap();
    db.put("a", "1").unwrap();
    let work = || (fs.op_count(), db.stats().operations, db.stats().wal_bytes);
    let before = work();
    let spaces: Vec<_> = (0..20_000).map(|i| db.keyspace(format!("space{i}")).unwrap()).collect();
    assert_eq!(work(), before);
    assert_eq!(db.keyspaces().unwrap().len(), 0, "a keyspace is there once it has an entry");
    spaces[7].put("b", "2").unwrap();
    assert_eq!(db.keyspaces().unwrap(), spaces[7..8]);
}

#[test]
fn a_prefix_scan_skips_the_tables_of_other_prefixes() {
    let dir = tempfile::tempdir().unwrap();
    let options = small().filters(Filters::Table(10));
    let with = |options: &Options| options.clone().filter_prefix_in("users", FixedPrefix::new(4));
    let db = Db::open(dir.path(), with(&options)).unwrap();
    let (users, other) = (db.keyspace("users").unwrap(), db.keyspace("other").unwrap());
    for table in 0..10 {
        for i in 0..20 {
            users.put(format!("{:04}/{table}{i:03}", 2 * i), "").unwrap();
            other.put(format!("{:04}/{table}{i:03}", 2 * i), "").unwrap();
        }
        db.flush().unwrap();
    }
    let negatives = |db: &Db, keyspace: &str, prefix: &str, entries: usize| {
        let before = db.stats().reads.total();
        let keyspace = db.keyspace(keyspace).unwrap();
        assert_eq!(keyspace.prefix(prefix).unwrap().count(), entries);
        let total = db.stats().reads.total();
        let checks = total.prefix_filter_checks - before.prefix_filter_checks;
        (checks, total.prefix_filter_negatives - before.prefix_filter_negatives)
    };
    let (checks, skipped) = negatives(&db, "users", "0011", 0);
    assert!(checks > 0 && skipped == checks, "{checks} {skipped}");
    let (checks, skipped) = negatives(&db, "users", "0012", 10);
    assert!(checks > 0 && skipped == 0, "{checks} {skipped}");
    assert_eq!(negatives(&db, "other", "0011", 0), (0, 0), "a keyspace without an extractor");
    drop((users, other, db));
    // Filters built with another extractor are not used, and no key is missed.
    let changed = with(&options).filter_prefix_in("other", FixedPrefix::new(2));
    let db = Db::open(dir.path(), changed).unwrap();
    assert_eq!(negatives(&db, "users", "0011", 0), (0, 0));
    assert_eq!(negatives(&db, "other", "0012", 10), (0, 0));
}

#[test]
fn a_name_has_1_to_255_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    for len in [0, 256, 1000] {
        let error = db.keyspace(vec![b'n'; len]).unwrap_err();
        let message = format!("the name of a keyspace has 1 to 255 bytes, not {len}");
        assert!(matches!(&error, Error::InvalidArgument { what } if *what == message), "{error}");
        let options = small().filter_prefix_in(vec![b'n'; len], FixedPrefix::new(1));
        let error = Db::open(dir.path().join("other"), options).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    assert_eq!(db.keyspace([b'n'; 255]).unwrap().name(), [b'n'; 255]);
}

#[test]
fn keyspaces_of_another_order_than_byte_order_are_refused_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let order = Order::Reverse.comparator();
    let db = Db::open(dir.path(), small().comparator(order.clone())).unwrap();
    let errors = [
        db.keyspace("users").map(drop),
        db.keyspaces().map(drop),
        db.snapshot().keyspace("users").map(drop),
        Db::open(dir.path().join("other"), {
            small().comparator(order.clone()).filter_prefix_in("users", FixedPrefix::new(1))
        })
        .map(drop),
    ];
    for error in errors.map(Result::unwrap_err) {
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error:?}");
        assert!(error.to_string().contains(order.name()), "{error}");
    }
}

#[test]
fn incomplete_keys_under_the_tag_are_in_no_keyspace_and_hide_none() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    let incomplete = [&b"\xff\xfeks"[..], b"\xff\xfeks\0", b"\xff\xfeks\0a", b"\xff\xfeks\x02a"];
    incomplete.iter().for_each(|key| db.put(key, "plain").unwrap());
    assert!(db.keyspaces().unwrap().is_empty());
    let last = db.keyspace([0xff; 255]).unwrap();
    last.put("", "empty key").unwrap();
    db.keyspace("ab").unwrap().put("", "1").unwrap();
    db.put("\u{10ffff}", "text").unwrap();
    assert_eq!(listed(&db), [&b"ab"[..], &[0xff; 255]]);
    assert_eq!(db.last_key_value().unwrap().unwrap().1, "empty key");
    assert_eq!(last.clear().unwrap().keys, 1);
    assert_eq!(listed(&db), [b"ab"]);
    assert_eq!(db.iter().count(), 4 + 2);
}

#[test]
fn a_keyspace_is_updated_cleared_removed_and_measured() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    let (users, next) = (db.keyspace("users").unwrap(), db.keyspace("usert").unwrap());
    let count = |old: Option<&[u8]>| Some(vec![old.map_or(1, |old| old[0] + 1)]);
    assert_eq!(users.update("n", count).unwrap().as_deref(), Some(&[1][..]));
    assert_eq!(users.update("n", count).unwrap().as_deref(), Some(&[2][..]));
    assert_eq!(db.get(documented(b"users", b"n")).unwrap().as_deref(), Some(&[2][..]));
    let sync = WriteOptions::default().sync(true);
    let mut rng = Rng::new(1);
    for i in 0..500 {
        users.writing(sync).put(format!("{i:05}"), rng.bytes(100)).unwrap();
    }
    next.put("kept", "1").unwrap();
    db.flush().unwrap();
    let bytes = users.approximate_size(..).unwrap();
    assert!((45_000..70_000).contains(&bytes), "{bytes}");
    let half = users.approximate_size("00250"..).unwrap();
    assert!((bytes / 3..bytes * 2 / 3).contains(&half), "{half} of {bytes}");
    let iter = users.iter();
    assert!(users.writing(sync).clear().unwrap().tables > 0, "most go with their tables");
    assert!(users.is_empty().unwrap());
    assert_eq!(iter.count(), 501, "an iterator is not affected");
    users.clear().unwrap();
    assert_eq!(db.keyspaces().unwrap(), std::slice::from_ref(&next));
    users.compact_range(..).unwrap();
    assert_eq!(users.approximate_size(..).unwrap(), 0);
    let again = users.clone();
    users.put("a", "1").unwrap();
    users.remove().unwrap();
    assert!(again.is_empty().unwrap() && next.contains_key("kept").unwrap());
    again.put("back", "1").unwrap();
    assert_eq!(db.keyspaces().unwrap(), [again.clone(), next.clone()]);
    assert_eq!(format!("{again:?}"), "Keyspace(\"users\")");
}

/// Returns a database with an entry in the expiring keyspace "a". The next read of a table moves
/// the entry to the ordinary keyspace of that name, in one write.
fn moved_at_the_next_read(fs: &SimFs) -> Db {
    let db = Db::open("/db", on(fs).block_cache_bytes(0)).unwrap();
    let expiring = db.expiring_keyspace("a").unwrap();
    let ordinary = db.keyspace_of(KeyspaceKind::Ordinary, "a").unwrap();
    expiring.put("key", "1").unwrap();
    db.flush().unwrap();
    // From here on, the table is open.
    assert!(db.keyspace("a").unwrap().is_expiring());
    let mut batch = WriteBatch::new();
    batch.delete_in(&expiring, "key");
    batch.put_in(&ordinary, "key", "1");
    let waiting = Mutex::new(Some((db.clone(), batch)));
    fs.set_hook(move |operation| {
        let is_table = operation.path.extension().is_some_and(|found| found == "ldb");
        if operation.kind != OpKind::Read || !is_table {
            return;
        }
        let taken = waiting.lock().unwrap().take();
        if let Some((db, batch)) = taken {
            db.write(batch).unwrap();
        }
    });
    db
}

#[test]
fn a_keyspace_that_changes_its_kind_meanwhile_is_found_once() {
    type Find = fn(&Db) -> Vec<Keyspace>;
    let finds: [Find; 3] = [
        |db| vec![db.keyspace("a").unwrap()],
        |db| vec![db.expiring_keyspace("a").unwrap()],
        |db| db.keyspaces().unwrap(),
    ];
    for find in finds {
        let db = moved_at_the_next_read(&SimFs::new(6));
        let kinds: Vec<_> = find(&db).iter().map(Keyspace::is_expiring).collect();
        assert_eq!(kinds, [true], "as it was when the call began");
        let kinds: Vec<_> = db.keyspaces().unwrap().iter().map(Keyspace::is_expiring).collect();
        assert_eq!(kinds, [false], "as it is now");
    }
}

/// Checks that, while another thread clears and refills a keyspace, a reader sees either all
/// entries of the keyspace or none.
#[test]
fn a_keyspace_is_cleared_in_one_step() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    let (a, b) = (db.keyspace("a").unwrap(), db.keyspace("b").unwrap());
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..200 {
                let mut batch = WriteBatch::new();
                for i in 0..50 {
                    batch.put_in(&a, format!("{i}"), format!("{round}"));
                    batch.put_in(&b, format!("{i}"), format!("{round}"));
                }
                db.write(batch).unwrap();
                a.clear().unwrap();
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        while !done.load(std::sync::atomic::Ordering::Relaxed) {
            let snapshot = db.snapshot();
            let of = |name: &str| snapshot.keyspace(name).unwrap().iter().map(owned);
            let (in_a, in_b): (Vec<Entry>, Vec<Entry>) = (of("a").collect(), of("b").collect());
            assert!(in_a.is_empty() || in_a == in_b, "{} of {}", in_a.len(), in_b.len());
        }
    });
}
