//! Expiring keyspaces: no read shows expired entries, and compactions remove them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use minikv::bulk::SortedTable;
use minikv::fs::sim::{CrashPlan, Fault, OpKind};
use minikv::fs::{Fs, MemFs, SimFs};
use minikv::{
    CompactionDecision, Db, Error, Expiry, Keyspace, KeyspaceKind, Options, ReadOptions, Readable,
    Transaction, WriteBatch,
};

use crate::{key, on, small, soon};

/// A clock that a test sets, in milliseconds since the Unix epoch.
#[derive(Clone, Default)]
struct TestClock(Arc<AtomicU64>);

impl TestClock {
    fn at(millis: u64) -> TestClock {
        TestClock(Arc::new(AtomicU64::new(millis)))
    }

    fn set(&self, millis: u64) {
        self.0.store(millis, Relaxed);
    }

    fn of(&self, options: Options) -> Options {
        let now = self.0.clone();
        options.clock(move || time(now.load(Relaxed)))
    }
}

fn time(millis: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis)
}

fn in_memory() -> Options {
    small().fs(MemFs::new()).inline_background(Some(4))
}

type Texts = Vec<(String, String)>;

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn texts(entries: impl Iterator<Item = minikv::Result<(minikv::Bytes, minikv::Bytes)>>) -> Texts {
    entries.map(Result::unwrap).map(|(key, value)| (text(&key), text(&value))).collect()
}

/// Asserts that, for the keys from "a" to "z", every read of the keyspace shows exactly the entries
/// `expected`.
fn assert_shows<H: Readable>(space: &Keyspace<H>, expected: &[(&str, &str)]) {
    let all: Texts = expected.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let keys: Vec<String> = ('a'..='z').map(String::from).collect();
    let values = space.multi_get(&keys).unwrap();
    for (key, value) in keys.iter().zip(values) {
        let expected = all.iter().find(|(other, _)| other == key).map(|(_, v)| v.as_bytes());
        assert_eq!(value.as_deref(), expected, "{key}");
        assert_eq!(space.get(key).unwrap().as_deref(), expected, "{key}");
        assert_eq!(space.get_traced(key).unwrap().0.as_deref(), expected, "{key}");
        assert_eq!(space.explain(key).unwrap().value.as_deref(), expected, "{key}");
        assert_eq!(space.contains_key(key).unwrap(), expected.is_some(), "{key}");
        assert_eq!(space.expiry(key).unwrap().is_some(), expected.is_some(), "{key}");
        let found = texts(space.prefix(key).unwrap());
        assert_eq!(found.first().map(|(_, value)| value.as_bytes()), expected, "{key}");
        assert_eq!(texts(space.range(key..=key)), found, "{key}");
    }
    let backwards: Texts = all.iter().rev().cloned().collect();
    assert_eq!(texts(space.iter()), all);
    assert_eq!(texts(space.iter().rev()), backwards);
    assert_eq!(space.is_empty().unwrap(), all.is_empty());
    let first = space.first_key_value().unwrap().map(|(key, _)| text(&key));
    assert_eq!(first.as_ref(), all.first().map(|(key, _)| key));
    let last = space.last_key_value().unwrap().map(|(key, _)| text(&key));
    assert_eq!(last.as_ref(), all.last().map(|(key, _)| key));
    let mut cursor = space.cursor().unwrap();
    let mut shown = Texts::new();
    let mut valid = cursor.seek_to_first().unwrap();
    while valid {
        assert_eq!(cursor.value_bytes(), cursor.value());
        shown.push((text(cursor.key()), text(cursor.value())));
        valid = cursor.next().unwrap();
    }
    assert_eq!(shown, all);
    let (mut shown, mut valid) = (Texts::new(), cursor.seek_to_last().unwrap());
    while valid {
        assert_eq!(cursor.value_bytes(), cursor.value());
        shown.push((text(cursor.key()), text(cursor.value())));
        valid = cursor.prev().unwrap();
    }
    assert_eq!(shown, backwards);
    for key in &keys {
        let at = all.partition_point(|(other, _)| other < key);
        let after = cursor.seek(key).unwrap().then(|| text(cursor.key()));
        assert_eq!(after.as_ref(), all.get(at).map(|(key, _)| key), "{key}");
        let to = all.partition_point(|(other, _)| other <= key);
        let before = cursor.seek_for_prev(key).unwrap().then(|| text(cursor.key()));
        assert_eq!(before.as_ref(), all[..to].last().map(|(key, _)| key), "{key}");
    }
}

/// Asserts that, for the keys from "a" to "z", every read in the transaction shows exactly the
/// entries `expected`.
fn assert_shows_in(space: &Keyspace<&Transaction>, expected: &[(&str, &str)]) {
    let all: Texts = expected.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let keys: Vec<String> = ('a'..='z').map(String::from).collect();
    let values = space.multi_get(&keys).unwrap();
    for (key, value) in keys.iter().zip(values) {
        let expected = all.iter().find(|(other, _)| other == key).map(|(_, v)| v.as_bytes());
        assert_eq!(value.as_deref(), expected, "{key}");
        assert_eq!(space.get(key).unwrap().as_deref(), expected, "{key}");
        assert_eq!(
            space.reading(ReadOptions::default().track(false)).get(key).unwrap().as_deref(),
            expected,
            "{key}"
        );
        assert_eq!(space.prefix(key).unwrap().count(), usize::from(expected.is_some()));
    }
    let backwards: Texts = all.iter().rev().cloned().collect();
    assert_eq!(texts(space.iter()), all);
    assert_eq!(texts(space.iter().rev()), backwards);
    let mut cursor = space.cursor().unwrap();
    let (mut shown, mut valid) = (Texts::new(), cursor.seek_to_first().unwrap());
    while valid {
        assert_eq!(cursor.value_bytes(), cursor.value());
        shown.push((text(cursor.key()), text(cursor.value())));
        valid = cursor.next().unwrap();
    }
    assert_eq!(shown, all);
    let (mut shown, mut valid) = (Texts::new(), cursor.seek_to_last().unwrap());
    while valid {
        shown.push((text(cursor.key()), text(cursor.value())));
        valid = cursor.prev().unwrap();
    }
    assert_eq!(shown, backwards);
}

/// Returns a database with four entries, and its clock, which is set to 1000. Entry a never
/// expires, c and g expire at 2000, and e expires at 3000.
fn example(options: Options) -> (Db, TestClock) {
    let clock = TestClock::at(1000);
    let db = Db::open("/db", clock.of(options)).unwrap();
    let space = db.expiring_keyspace("s").unwrap();
    space.put("a", "1").unwrap();
    space.put_for("c", "22", Duration::from_millis(1000)).unwrap();
    let mut batch = WriteBatch::new();
    batch.put_until_in(&space, "e", "333", time(3000)).unwrap();
    batch.put_for_in(&space, "g", "", Duration::from_millis(1000)).unwrap();
    batch.put("plain", "p");
    db.write(batch).unwrap();
    (db, clock)
}

const AT_1999: &[(&str, &str)] = &[("a", "1"), ("c", "22"), ("e", "333"), ("g", "")];
const AT_2000: &[(&str, &str)] = &[("a", "1"), ("e", "333")];
const AT_3000: &[(&str, &str)] = &[("a", "1")];

#[test]
fn no_read_shows_expired_entries() {
    let options = in_memory();
    let (db, clock) = example(options.clone());
    let followed = Db::open_read_only("/db", clock.of(options.clone())).unwrap();
    let space = db.expiring_keyspace("s").unwrap();
    let snapshot = db.snapshot().expiring_keyspace("s").unwrap();
    let transaction = db.transaction();
    let in_transaction = transaction.keyspace(&space);
    let mut at_2000 = false;
    for (now, expected) in
        [(1000, AT_1999), (1999, AT_1999), (2000, AT_2000), (2999, AT_2000), (3000, AT_3000)]
    {
        clock.set(now);
        assert_shows(&space, expected);
        assert_shows(&snapshot, expected);
        assert_shows_in(&in_transaction, expected);
        let reader = Db::open_read_only("/db", clock.of(options.clone())).unwrap();
        assert_shows(&reader.expiring_keyspace("s").unwrap(), expected);
        assert_shows(&followed.expiring_keyspace("s").unwrap(), expected);
        if now == 2000 && !std::mem::replace(&mut at_2000, true) {
            db.flush().unwrap();
            followed.refresh().unwrap();
            assert_shows(&space, expected);
        }
    }
    assert_eq!(db.get("plain").unwrap().as_deref(), Some(&b"p"[..]));
    assert_eq!(space.expiry("a").unwrap(), Some(Expiry::Never));
    // If the clock goes back, entries that no compaction has removed are visible again.
    clock.set(1500);
    assert_shows(&space, AT_1999);
    assert_eq!(space.expiry("e").unwrap(), Some(Expiry::At(time(3000))));
}

#[test]
fn iterators_go_by_the_clock_of_each_step() {
    let (db, clock) = example(in_memory());
    let space = db.expiring_keyspace("s").unwrap();
    let mut iter = space.iter();
    let mut cursor = space.cursor().unwrap();
    assert_eq!(iter.next().unwrap().unwrap().0, "a");
    assert!(cursor.seek("c").unwrap());
    clock.set(2000);
    // The cursor still shows the expired entry until the cursor is moved.
    assert_eq!((cursor.key(), cursor.value()), (&b"c"[..], &b"22"[..]));
    assert_eq!(iter.next().unwrap().unwrap().0, "e");
    assert!(iter.next().is_none() && iter.next_back().is_none());
    assert!(cursor.next().unwrap());
    assert_eq!(cursor.key(), b"e");
    clock.set(3000);
    assert!(cursor.prev().unwrap());
    assert_eq!(cursor.key(), b"a");
    assert!(!cursor.next().unwrap() && !cursor.valid());
}

#[test]
fn an_update_keeps_the_expiry_and_a_put_does_not() {
    let (db, clock) = example(in_memory());
    let space = db.expiring_keyspace("s").unwrap();
    let more = |old: Option<&[u8]>| Some([old.unwrap_or(b"new"), b"+"].concat());
    assert_eq!(space.update("c", more).unwrap().unwrap(), "22+");
    assert_eq!(space.expiry("c").unwrap(), Some(Expiry::At(time(2000))));
    space.put("g", "stays").unwrap();
    clock.set(2000);
    assert_shows(&space, &[("a", "1"), ("e", "333"), ("g", "stays")]);
    // An update treats an expired entry as absent.
    assert_eq!(space.update("c", |old| old.map(<[u8]>::to_vec)).unwrap(), None);
    assert_eq!(space.update("c", more).unwrap().unwrap(), "new+");
    assert_eq!(space.expiry("c").unwrap(), Some(Expiry::Never));
    assert_eq!(space.update("a", |_| None::<Vec<u8>>).unwrap(), None);
    assert_shows(&space, &[("c", "new+"), ("e", "333"), ("g", "stays")]);
}

#[test]
fn a_transaction_sees_its_own_writes_until_they_expire() {
    let (db, clock) = example(in_memory());
    let space = db.expiring_keyspace("s").unwrap();
    let mut tx = db.transaction();
    tx.put_for_in(&space, "b", "own", Duration::from_millis(500)).unwrap();
    tx.put_until_in(&space, "e", "sooner", time(2000)).unwrap();
    tx.put_in(&space, "g", "for ever");
    tx.delete_in(&space, "a");
    assert_shows_in(
        &tx.keyspace(&space),
        &[("b", "own"), ("c", "22"), ("e", "sooner"), ("g", "for ever")],
    );
    clock.set(1500);
    assert_shows_in(&tx.keyspace(&space), &[("c", "22"), ("e", "sooner"), ("g", "for ever")]);
    clock.set(2000);
    assert_shows_in(&tx.keyspace(&space), &[("g", "for ever")]);
    tx.commit().unwrap();
    assert_shows(&space, &[("g", "for ever")]);
    clock.set(1999);
    assert_shows(&space, &[("c", "22"), ("e", "sooner"), ("g", "for ever")]);
}

#[test]
fn times_that_do_not_fit_are_never_or_past() {
    let (db, clock) = example(in_memory());
    let space = db.expiring_keyspace("s").unwrap();
    space.put_for("x", "1", Duration::MAX).unwrap();
    assert_eq!(space.expiry("x").unwrap(), Some(Expiry::Never));
    space.put_for("a", "2", Duration::ZERO).unwrap();
    space.put_until("e", "3", UNIX_EPOCH - Duration::from_secs(1)).unwrap();
    // Fractions of a millisecond are dropped.
    space.put_for("y", "4", Duration::from_micros(1999)).unwrap();
    assert_eq!(space.expiry("y").unwrap(), Some(Expiry::At(time(1001))));
    clock.set(1001);
    assert_shows(&space, &[("c", "22"), ("g", ""), ("x", "1")]);
}

#[test]
fn a_keyspace_that_does_not_expire_takes_no_expiry() {
    let (db, _) = example(in_memory());
    let users = db.keyspace("us\ters").unwrap();
    let ttl = Duration::from_secs(1);
    let named = |error: Error| {
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
        assert!(error.to_string().contains(r#"keyspace "us\ters""#), "{error}");
    };
    named(users.put_for("k", "v", ttl).unwrap_err());
    named(users.put_until("k", "v", time(5000)).unwrap_err());
    let mut batch = WriteBatch::new();
    named(batch.put_for_in(&users, "k", "v", ttl).unwrap_err());
    named(batch.put_until_in(&users, "k", "v", time(5000)).unwrap_err());
    let mut tx = db.transaction();
    named(tx.put_for_in(&users, "k", "v", ttl).unwrap_err());
    named(tx.put_until_in(&users, "k", "v", time(5000)).unwrap_err());
    assert!(batch.is_empty() && users.is_empty().unwrap());
    users.put("k", "v").unwrap();
    assert_eq!(users.expiry("k").unwrap(), Some(Expiry::Never));
    assert_eq!(users.expiry("none").unwrap(), None);
}

/// Returns the kind and the name of each keyspace that has entries.
fn listed(keyspaces: Vec<Keyspace<impl Readable>>) -> Vec<(bool, String)> {
    let one = |keyspace: &Keyspace<_>| (keyspace.is_expiring(), text(keyspace.name()));
    keyspaces.iter().map(one).collect()
}

#[test]
fn a_keyspace_is_found_whatever_its_kind() {
    let (db, _) = example(in_memory());
    let space = db.expiring_keyspace("s").unwrap();
    assert_shows(&space, AT_1999);
    let ordinary = db.keyspace("t").unwrap();
    assert!(!ordinary.is_expiring());
    // A keyspace without entries can still become an expiring one.
    assert!(db.expiring_keyspace("t").unwrap().is_expiring());
    ordinary.put("c", "ordinary").unwrap();
    assert_eq!(db.keyspace("s").unwrap(), space);
    assert_eq!(db.keyspace("t").unwrap(), ordinary);
    let expected = [(true, "s".to_owned()), (false, "t".to_owned())];
    assert_eq!(listed(db.keyspaces().unwrap()), expected);
    assert_eq!(listed(db.snapshot().keyspaces().unwrap()), expected);
    assert!(db.snapshot().keyspace("s").unwrap().is_expiring());
    let refusals =
        [db.expiring_keyspace("t").map(drop), db.snapshot().expiring_keyspace("t").map(drop)];
    for refusal in refusals {
        let error = refusal.unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error:?}");
        assert!(error.to_string().contains("\"t\" has entries that do not expire"), "{error}");
    }
    // Expired entries count until a compaction has removed them.
    db.keyspace("s").unwrap().clear().unwrap();
    space.put_until("a", "past", time(1)).unwrap();
    assert!(space.is_empty().unwrap() && db.keyspace("s").unwrap().is_expiring());
    db.compact_range(..).unwrap();
    assert!(!db.keyspace("s").unwrap().is_expiring());
    assert_eq!(listed(db.keyspaces().unwrap()), expected[1..]);
}

/// Earlier builds made both kinds under one name.
#[test]
fn both_kinds_of_one_name_are_two_keyspaces() {
    let (db, clock) = example(in_memory());
    db.put(b"\xff\xfe\x6b\x73\x01sc", "ordinary").unwrap();
    let expected = [(false, "s".to_owned()), (true, "s".to_owned())];
    assert_eq!(listed(db.keyspaces().unwrap()), expected);
    let error = db.keyspace("s").unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { .. }), "{error:?}");
    assert!(error.to_string().contains("two keyspaces \"s\""), "{error}");
    assert!(db.snapshot().keyspace("s").is_err());
    let open = |kind| db.keyspace_of(kind, "s").unwrap();
    let (ordinary, space) = (open(KeyspaceKind::Ordinary), open(KeyspaceKind::Expiring));
    assert!(space.is_expiring() && !ordinary.is_expiring());
    assert_eq!(db.keyspaces().unwrap(), [ordinary.clone(), space.clone()]);
    assert_eq!(db.expiring_keyspace("s").unwrap(), space);
    assert_shows(&space, AT_1999);
    clock.set(5000);
    assert_eq!(ordinary.get("c").unwrap().unwrap(), "ordinary");
    // The stored key and value have the formats documented in docs/keyspaces.md and docs/expiry.md.
    let stored = [b"22", &2000u64.to_le_bytes()[..]].concat();
    assert_eq!(db.get(b"\xff\xfe\x6b\x74\x01sc").unwrap().unwrap(), stored);
    space.clear().unwrap();
    assert_eq!(listed(db.keyspaces().unwrap()), expected[..1]);
    assert_eq!(db.keyspace("s").unwrap(), ordinary);
}

#[test]
fn a_value_too_short_for_an_expiry_is_corruption() {
    let (db, clock) = example(in_memory());
    let space = db.expiring_keyspace("s").unwrap();
    db.put(b"\xff\xfe\x6b\x74\x01sd", "7 bytes").unwrap();
    let damaged = |error: Error| {
        assert!(error.is_corruption(), "{error}");
        let text = error.to_string();
        assert!(text.contains("\"d\"") && text.contains("\"s\""), "{text}");
        assert!(text.contains("at least 8") && text.contains('7'), "{text}");
    };
    for _ in 0..2 {
        damaged(space.get("d").unwrap_err());
        damaged(space.multi_get(&["a", "d"]).unwrap_err());
        damaged(space.contains_key("d").unwrap_err());
        damaged(space.expiry("d").unwrap_err());
        damaged(space.update("d", |_| Some("x")).unwrap_err());
        damaged(space.iter().find_map(Result::err).unwrap());
        damaged(space.iter().rev().find_map(Result::err).unwrap());
        let mut cursor = space.cursor().unwrap();
        damaged(cursor.seek("d").unwrap_err());
        assert!(!cursor.valid());
        damaged(cursor.seek_for_prev("d").unwrap_err());
        let tx = db.transaction();
        damaged(tx.keyspace(&space).get("d").unwrap_err());
        damaged(tx.keyspace(&space).iter().find_map(Result::err).unwrap());
        let mut cursor = tx.keyspace(&space).cursor().unwrap();
        damaged(cursor.seek("d").unwrap_err());
        assert!(!cursor.valid());
        // No compaction treats the damaged entry as expired.
        clock.set(1 << 49);
        drop(cursor);
        drop(tx);
        db.compact_range(..).unwrap();
    }
    assert_eq!(space.get("a").unwrap().unwrap(), "1");
    space.put("d", "whole").unwrap();
    assert_shows(&space, &[("a", "1"), ("d", "whole")]);
}

#[test]
fn a_compaction_removes_expired_entries() {
    let asked = Arc::new(AtomicU64::new(0));
    let count = asked.clone();
    let options = in_memory().compaction_filter(move |key, value| {
        if key.starts_with(b"\xff\xfekt") {
            // The filter sees the stored values of entries that have not expired.
            assert!(value.len() >= 8);
            count.fetch_add(1, Relaxed);
        }
        CompactionDecision::Keep
    });
    let (db, clock) = example(options);
    let space = db.expiring_keyspace("s").unwrap();
    clock.set(2000);
    let sequence = db.sequence();
    let snapshot = db.snapshot();
    db.compact_range(..).unwrap();
    assert_eq!(db.iter().count(), 5, "the snapshot shows all");
    assert_shows(&snapshot.expiring_keyspace("s").unwrap(), AT_2000);
    drop(snapshot);
    db.compact_range(..).unwrap();
    assert_eq!(db.iter().count(), 3);
    assert_eq!(asked.load(Relaxed), 2, "a and e");
    assert_shows(&space, AT_2000);
    assert_eq!(db.sequence(), sequence, "it is no write");
    clock.set(1000);
    assert_shows(&space, AT_2000);
}

/// Checks that older versions in deeper levels stay hidden when the newer entry above them expires.
#[test]
fn older_versions_do_not_come_back() {
    let clock = TestClock::at(0);
    let options = in_memory().write_buffer_bytes(8 << 10).max_file_bytes(4 << 10);
    let db = Db::open("/db", clock.of(options)).unwrap();
    let space = db.expiring_keyspace("s").unwrap();
    for round in 0..3 {
        (0..2000).for_each(|i| space.put(key(i), format!("{round} kept {i}")).unwrap());
        db.compact_range(..).unwrap();
    }
    for round in 1..=8 {
        let ttl = Duration::from_millis(10);
        (0..200).for_each(|i| space.put_for(key(i * 10), "short-lived", ttl).unwrap());
        clock.set(round * 10);
        db.wait_idle().unwrap();
        for i in 0..200 {
            assert_eq!(space.get(key(i * 10)).unwrap(), None, "{i}");
        }
        assert_eq!(space.iter().count(), 1800);
    }
    db.compact_range(..).unwrap();
    assert_eq!(db.iter().count(), 1800);
    clock.set(0);
    assert_eq!(space.iter().count(), 1800);
}

/// Checks that a snapshot keeps showing an older version, even after the newer version has expired.
#[test]
fn an_old_snapshot_keeps_the_version_that_it_shows() {
    let clock = TestClock::at(1000);
    let db = Db::open("/db", clock.of(in_memory())).unwrap();
    let space = db.expiring_keyspace("s").unwrap();
    space.put("k", "old").unwrap();
    let before = db.snapshot();
    space.put_for("k", "new", Duration::from_millis(1000)).unwrap();
    let after = db.snapshot();
    for now in [1000, 2000, 3000] {
        clock.set(now);
        db.compact_range(..).unwrap();
        db.wait_idle().unwrap();
        let get = |space: Keyspace<minikv::Snapshot>| space.get("k").unwrap();
        assert_eq!(get(before.expiring_keyspace("s").unwrap()).unwrap(), "old");
        let shown = get(after.expiring_keyspace("s").unwrap());
        assert_eq!(shown.is_some(), now == 1000);
        assert_eq!(space.get("k").unwrap().is_some(), now == 1000);
    }
    drop(after);
    db.compact_range(..).unwrap();
    assert_eq!(before.expiring_keyspace("s").unwrap().get("k").unwrap().unwrap(), "old");
    assert_eq!(space.get("k").unwrap(), None);
    drop(before);
    db.compact_range(..).unwrap();
    assert!(db.is_empty().unwrap());
}

fn files(db: &Db) -> u64 {
    db.stats().levels.iter().map(|level| level.files).sum()
}

/// Fills a keyspace with entries that expire at 2000, in tables without any other entries.
fn fill(db: &Db, count: u32) {
    let space = db.expiring_keyspace("logs").unwrap();
    (0..count).for_each(|i| space.put_until(key(i), "x".repeat(50), time(2000)).unwrap());
    db.compact_range(..).unwrap();
}

#[test]
fn tables_that_have_expired_go_without_being_read() {
    for reopened in [false, true] {
        let clock = TestClock::at(1000);
        let options = clock.of(in_memory());
        let mut db = Db::open("/db", options.clone()).unwrap();
        fill(&db, 3000);
        assert!(files(&db) > 2, "{}", files(&db));
        if reopened {
            db.close().unwrap();
            db = Db::open("/db", options.clone()).unwrap();
        }
        db.wait_idle().unwrap();
        let stats = db.stats();
        assert_eq!((stats.expired_tables, stats.expired_bytes), (0, 0));
        let tables = files(&db);
        let snapshot = db.snapshot();
        clock.set(2000);
        db.wait_idle().unwrap();
        let stats = db.stats();
        assert_eq!((stats.expired_tables, stats.expired_entries), (tables, 3000));
        assert_eq!(stats.expired_bytes, stats.levels.iter().map(|level| level.bytes).sum::<u64>());
        assert_eq!(files(&db), tables, "a snapshot shows them");
        let reader = Db::open_read_only("/db", options.clone()).unwrap();
        assert_eq!(reader.stats().expired_tables, tables);
        drop(snapshot);
        let read = |db: &Db| db.stats().levels.iter().map(|level| level.bytes_read).sum::<u64>();
        let (before, sequence) = (read(&db), db.sequence());
        db.wait_idle().unwrap();
        assert_eq!(files(&db), 0);
        let stats = db.stats();
        assert_eq!((stats.expired_tables, stats.expired_tables_dropped), (0, tables));
        assert_eq!((read(&db), db.sequence()), (before, sequence));
        assert!(stats.prometheus(&[]).contains("\nminikv_expired_tables 0\n"));
        clock.set(0);
        assert!(db.is_empty().unwrap());
        db.close().unwrap();
        assert!(minikv::verify("/db", &options).unwrap().is_sound());
        let db = Db::open("/db", options).unwrap();
        assert!(db.is_empty().unwrap() && db.sequence() >= sequence);
    }
}

/// Checks that `wait_idle` returns if the table that it waits for is no longer to be dropped when a
/// background thread looks for work. Here, the clock goes back; a snapshot has the same effect.
#[test]
fn a_wait_for_quiet_ends_when_a_table_is_not_to_be_dropped_after_all() {
    const ARMED: u64 = 1;
    const RISEN: u64 = 2;
    const FALLEN: u64 = 3;
    let phase = Arc::new(AtomicU64::new(0));
    let of_clock = phase.clone();
    let clock = move || {
        let thread = std::thread::current();
        let is_background = thread.name().is_some_and(|name| name.starts_with("minikv-"));
        match (is_background, of_clock.load(Relaxed)) {
            (false, ARMED | RISEN) => {
                of_clock.store(RISEN, Relaxed);
                time(2000)
            }
            (true, RISEN) => {
                of_clock.store(FALLEN, Relaxed);
                time(1000)
            }
            _ => time(1000),
        }
    };
    let db = Db::open("/db", small().fs(MemFs::new()).clock(clock)).unwrap();
    fill(&db, 10);
    db.wait_idle().unwrap();
    phase.store(ARMED, Relaxed);
    let (done, is_done) = mpsc::channel();
    let waiter = db.clone();
    let _ends_or_hangs = std::thread::spawn(move || done.send(waiter.wait_idle()));
    is_done.recv_timeout(Duration::from_secs(60)).expect("it returns").unwrap();
    assert_eq!((phase.load(Relaxed), files(&db)), (FALLEN, 1));
}

#[test]
fn ingested_tables_that_have_expired_go() {
    let clock = TestClock::at(1000);
    let fs = Arc::new(MemFs::new());
    let options = clock.of(in_memory()).fs(fs.clone());
    let source = Db::open("/source", options.clone()).unwrap();
    fill(&source, 3000);
    let names = fs.list(Path::new("/source")).unwrap();
    let names = names.iter().filter(|name| name.ends_with(".ldb"));
    let open = |name| SortedTable::open(Path::new("/source").join(name), &options).unwrap();
    let written: Vec<_> = names.map(open).collect();
    let db = Db::open("/db", options.clone()).unwrap();
    assert_eq!(db.ingest(&written).unwrap().rewritten_tables, 0);
    let tables = files(&db);
    assert_eq!((tables > 2, db.stats().expired_tables), (true, 0));
    clock.set(2000);
    let stats = db.stats();
    assert_eq!((stats.expired_tables, stats.expired_entries), (tables, 3000));
    db.wait_idle().unwrap();
    assert_eq!(files(&db), 0);
}

/// Checks that an expired table that hides older versions is compacted together with them, not just
/// removed.
#[test]
fn an_expired_table_above_older_versions_is_compacted() {
    let clock = TestClock::at(1000);
    let db = Db::open("/db", clock.of(in_memory())).unwrap();
    let space = db.expiring_keyspace("logs").unwrap();
    (0..1000).for_each(|i| space.put(key(i), "never").unwrap());
    db.compact_range(..).unwrap();
    let half = |i: &u32| i.is_multiple_of(2);
    let short = |i| space.put_until(key(i), "short", time(2000)).unwrap();
    (0..1000).filter(half).for_each(short);
    db.flush().unwrap();
    db.wait_idle().unwrap();
    clock.set(2000);
    db.wait_idle().unwrap();
    assert_eq!(space.iter().count(), 500);
    assert_eq!(db.stats().expired_tables, 0);
    // Not even setting the clock back restores the expired entries.
    clock.set(1000);
    assert_eq!(space.iter().count(), 500);
    assert!(space.iter().all(|entry| entry.unwrap().1 == "never"));
}

/// Checks that an expired table is kept while a transaction is open that began before the entries
/// of the table were written. Otherwise, the conflict of that transaction would be missed.
#[test]
fn a_transaction_conflicts_with_entries_expired_since() {
    let clock = TestClock::at(1000);
    let db = Db::open("/db", clock.of(in_memory())).unwrap();
    let space = db.expiring_keyspace("logs").unwrap();
    let mut tx = db.transaction();
    assert_eq!(tx.keyspace(&space).get(key(7)).unwrap(), None);
    fill(&db, 100);
    clock.set(2000);
    db.wait_idle().unwrap();
    db.compact_range(..).unwrap();
    tx.put("conclusion", "1");
    assert!(tx.commit().unwrap_err().is_conflict());
    db.compact_range(..).unwrap();
    assert_eq!(files(&db), 0);
}

#[test]
fn after_a_crash_only_unexpired_entries_are_shown() {
    let fs = SimFs::new(1);
    let clock = TestClock::at(1000);
    let options = |fs: &SimFs| clock.of(on(fs));
    let db = Db::open("/db", options(&fs)).unwrap();
    let space = db.expiring_keyspace("s").unwrap();
    for i in 0..600 {
        match i % 3 {
            0 => space.put(key(i), "never").unwrap(),
            _ => space.put_until(key(i), "later", time(2000)).unwrap(),
        }
    }
    fill(&db, 600);
    fs.record_history();
    let begins = fs.op_count();
    clock.set(2000);
    db.wait_idle().unwrap();
    db.compact_range(..).unwrap();
    assert_eq!(db.iter().count(), 200);
    assert!(db.stats().expired_tables_dropped > 0);
    let (mut least, mut most) = (usize::MAX, 0);
    for op in begins..=fs.op_count() {
        for plan in [CrashPlan::strict(), CrashPlan::everything(), CrashPlan::random(op)] {
            let image = fs.crash_image(&plan.at_op(op));
            let db = Db::open(Path::new("/db"), options(&image)).unwrap();
            let stored = db.iter().count();
            (least, most) = (least.min(stored), most.max(stored));
            let shown: BTreeMap<String, String> =
                texts(db.expiring_keyspace("s").unwrap().iter()).into_iter().collect();
            assert_eq!(shown.len(), 200, "at {op}");
            assert!(db.expiring_keyspace("logs").unwrap().is_empty().unwrap(), "at {op}");
        }
    }
    assert!(least == 200 && most > 1000, "{least} to {most}");
}

/// A table whose expiry could not be read when the database was opened used to stay until the next
/// open.
#[test]
fn tables_go_although_their_expiry_could_not_be_read_at_first() {
    use std::sync::atomic::AtomicBool;
    for inline in [Some(4), None] {
        let (fs, clock) = (SimFs::new(1), TestClock::at(1000));
        let options = clock.of(on(&fs).inline_background(inline));
        let db = Db::open("/db", options.clone()).unwrap();
        fill(&db, 3000);
        let tables = files(&db);
        db.close().unwrap();
        let fails = Arc::new(AtomicBool::new(inline.is_none()));
        let (hooked, armed) = (fs.clone(), fails.clone());
        fs.set_hook(move |op| {
            // An open looks into a table, too.
            let is_compaction = std::thread::current().name() == Some("minikv-compact");
            let is_table = op.path.extension().is_some_and(|name| name == "ldb");
            let is_one = op.kind == OpKind::Open && is_table && armed.load(Relaxed);
            if is_one && (inline.is_some() || is_compaction) {
                let fault = Fault::too_many_open_files().on(&[OpKind::Open]);
                hooked.inject(fault.path(op.path.to_str().unwrap()));
            }
        });
        let db = Db::open("/db", options).unwrap();
        fails.store(true, Relaxed);
        db.wait_idle().unwrap();
        soon("the expiry of each table is asked for", || fs.fault_count() >= tables);
        db.wait_idle().unwrap();
        fails.store(false, Relaxed);
        fs.clear_faults();
        clock.set(2000);
        // No call tells the threads to look again.
        soon("the tables stay", || {
            if inline.is_some() {
                db.wait_idle().unwrap();
            }
            files(&db) == 0
        });
    }
}

#[test]
fn a_count_leaves_out_what_has_expired() {
    let (db, clock) = example(in_memory());
    let space = db.expiring_keyspace("s").unwrap();
    for (now, shown) in [(1999, AT_1999), (2000, AT_2000), (3000, AT_3000)] {
        clock.set(now);
        assert_eq!(space.count(..).unwrap(), shown.len() as u64);
        let within = shown.iter().filter(|(key, _)| ("b".."g").contains(key)).count();
        assert_eq!(space.count("b".."g").unwrap(), within as u64, "at {now}");
    }
}
