//! Removal of entries by compactions that are concurrent with writers and readers: expired entries,
//! and entries that a compaction filter removes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use minikv::fs::MemFs;
use minikv::{CompactionDecision, Db, Keyspace, Options, Readable};
use shuttle::thread;

use crate::{check, live_tables, options};

fn at(millis: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis)
}

/// Returns options with a clock that the test sets, and this clock, which begins at the Unix epoch.
fn with_clock(fs: &MemFs) -> (Options, Arc<AtomicU64>) {
    let clock = Arc::new(AtomicU64::new(0));
    let now = clock.clone();
    (options(fs).clock(move || at(now.load(Relaxed))), clock)
}

/// Fills an expiring keyspace. A deep level has an entry of "b" that never expires. A higher level
/// has entries of "a", "b" and "c" that expire.
fn fill(db: &Db) {
    let space = db.expiring_keyspace("s").unwrap();
    space.put("b", "old").unwrap();
    db.compact_range(..).unwrap();
    ["a", "b", "c"].iter().for_each(|key| space.put_until(key, "1", at(500)).unwrap());
    db.flush().unwrap();
}

/// Asserts that the keyspace contains nothing but, perhaps, the new value of "c".
fn assert_expired<H: Readable>(space: &Keyspace<H>) {
    for key in ["a", "b"] {
        assert_eq!(space.get(key).unwrap(), None, "{key} comes back");
    }
    for (key, value) in space.iter().map(Result::unwrap) {
        assert_eq!((&key[..], &value[..]), (&b"c"[..], &b"new"[..]));
    }
    let backward = space.iter().rev().map(Result::unwrap);
    assert!(backward.map(|(key, _)| key).all(|key| key == "c"));
}

#[test]
fn expired_entries_go_and_do_not_come_back() {
    check(|| {
        let fs = MemFs::new();
        let (options, clock) = with_clock(&fs);
        let db = Db::open(crate::DIR, options.clone()).unwrap();
        fill(&db);
        let snapshot = db.snapshot();
        clock.store(1000, Relaxed);
        let writer = {
            let db = db.clone();
            thread::spawn(move || {
                db.expiring_keyspace("s").unwrap().put("c", "new").unwrap();
                db.flush().unwrap();
            })
        };
        let reader = {
            let db = db.clone();
            thread::spawn(move || {
                assert_expired(&snapshot.expiring_keyspace("s").unwrap());
                drop(snapshot);
                assert_expired(&db.expiring_keyspace("s").unwrap());
                assert_expired(&db.snapshot().expiring_keyspace("s").unwrap());
            })
        };
        assert_expired(&db.expiring_keyspace("s").unwrap());
        db.compact_range(..).unwrap();
        assert_expired(&db.expiring_keyspace("s").unwrap());
        [writer, reader].into_iter().for_each(|thread| thread.join().unwrap());
        db.compact_range(..).unwrap();
        let stored: Vec<_> = db.iter().map(Result::unwrap).collect();
        assert_eq!(stored.len(), 1, "{stored:?}");
        drop(db);
        let db = Db::open(crate::DIR, options).unwrap();
        assert_eq!(db.expiring_keyspace("s").unwrap().get("c").unwrap().unwrap(), "new");
    });
}

/// Checks that background work removes a table whose entries have all expired, once the snapshot is
/// dropped.
#[test]
fn expired_tables_go_beside_the_last_reader() {
    check(|| {
        let fs = MemFs::new();
        let (options, clock) = with_clock(&fs);
        let db = Db::open(crate::DIR, options).unwrap();
        let space = db.expiring_keyspace("s").unwrap();
        ["a", "b"].iter().for_each(|key| space.put_until(key, "1", at(500)).unwrap());
        db.flush().unwrap();
        db.put("plain", "1").unwrap();
        db.flush().unwrap();
        let snapshot = db.snapshot();
        clock.store(1000, Relaxed);
        let reader = thread::spawn(move || {
            assert_expired(&snapshot.expiring_keyspace("s").unwrap());
            assert_eq!(snapshot.get("plain").unwrap().unwrap(), "1");
        });
        let other = {
            let db = db.clone();
            // This write makes background work look for expired tables.
            thread::spawn(move || {
                db.put("plain", "2").unwrap();
                db.flush().unwrap();
            })
        };
        [reader, other].into_iter().for_each(|thread| thread.join().unwrap());
        db.wait_idle().unwrap();
        assert_eq!(db.stats().expired_tables, 0);
        assert_eq!(live_tables(&db), 2);
        assert_eq!(db.get("plain").unwrap().unwrap(), "2");
    });
}

/// Checks that `wait_idle` does not wait for the drop of an expired table that a snapshot shows,
/// even if the drop was due before the snapshot began.
#[test]
fn a_snapshot_that_keeps_an_expired_table_lets_nobody_wait_for_its_drop() {
    check(|| {
        let fs = MemFs::new();
        let (options, clock) = with_clock(&fs);
        let db = Db::open(crate::DIR, options).unwrap();
        let space = db.expiring_keyspace("s").unwrap();
        space.put_until("a", "1", at(500)).unwrap();
        db.flush().unwrap();
        clock.store(1000, Relaxed);
        let waiter = {
            let db = db.clone();
            thread::spawn(move || db.wait_idle().unwrap())
        };
        let snapshot = db.snapshot();
        waiter.join().unwrap();
        drop(snapshot);
        db.wait_idle().unwrap();
        assert_eq!(live_tables(&db), 0);
    });
}

/// Checks that `wait_idle` returns after an open. Background work first reads the expiry times of
/// the entries from the tables, and then wakes the threads that wait for background work to end.
#[test]
fn tables_of_an_earlier_process_are_looked_into() {
    check(|| {
        let fs = MemFs::new();
        let (options, _) = with_clock(&fs);
        let db = Db::open(crate::DIR, options.clone()).unwrap();
        let space = db.expiring_keyspace("s").unwrap();
        space.put_until("a", "1", at(500)).unwrap();
        db.flush().unwrap();
        drop((db, space));
        let db = Db::open(crate::DIR, options).unwrap();
        let waiter = {
            let db = db.clone();
            thread::spawn(move || db.wait_idle().unwrap())
        };
        db.wait_idle().unwrap();
        waiter.join().unwrap();
        assert_eq!(live_tables(&db), 1);
    });
}

/// Returns options with a compaction filter that removes values beginning with "-" and changes
/// values beginning with "~".
fn filtered(fs: &MemFs) -> Options {
    options(fs).compaction_filter(|_, value| match value {
        [b'-', ..] => CompactionDecision::Remove,
        [b'~', rest @ ..] => CompactionDecision::Change(rest.to_vec()),
        _ => CompactionDecision::Keep,
    })
}

#[test]
fn a_filter_beside_snapshots_and_writers() {
    check(|| {
        let fs = MemFs::new();
        let db = Db::open(crate::DIR, filtered(&fs)).unwrap();
        db.put("deep", "old").unwrap();
        db.compact_range(..).unwrap();
        for (key, value) in [("deep", "-1"), ("rough", "~1"), ("kept", "1")] {
            db.put(key, value).unwrap();
        }
        let snapshot = db.snapshot();
        let reader = thread::spawn(move || {
            for _ in 0..2 {
                assert_eq!(snapshot.get("deep").unwrap().unwrap(), "-1");
                assert_eq!(snapshot.get("rough").unwrap().unwrap(), "~1");
                assert_eq!(snapshot.iter().count(), 3);
            }
        });
        let writer = {
            let db = db.clone();
            thread::spawn(move || {
                db.put("kept", "-2").unwrap();
                db.put("kept", "2").unwrap();
                db.flush().unwrap();
                assert_eq!(db.get("kept").unwrap().unwrap(), "2");
            })
        };
        db.compact_range(..).unwrap();
        let found = db.get("deep").unwrap();
        assert!(found.is_none_or(|found| found == "-1"), "an older version comes back");
        [reader, writer].into_iter().for_each(|thread| thread.join().unwrap());
        db.compact_range(..).unwrap();
        let stored: Vec<_> = db.iter().map(Result::unwrap).collect();
        assert_eq!(stored, [("kept".into(), "2".into()), ("rough".into(), "1".into())]);
    });
}
