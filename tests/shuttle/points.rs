//! The newest state of a database, read while another thread shows the next one. The state and its
//! sequence number belong together: a reader sees every write up to the number, and no later write.

use minikv::bulk::{SortedTable, TableWriter};
use minikv::fs::MemFs;
use minikv::{Db, ReadOnlyDb, Readable, Snapshot, WriteBatch};
use shuttle::thread;

use crate::{DIR, check, open, options};

/// Returns a finished table with the keys "a" and "b".
fn table(fs: &MemFs, value: &str) -> Vec<SortedTable> {
    let mut writer = TableWriter::create("/tables", &options(fs)).unwrap();
    ["a", "b"].into_iter().for_each(|key| writer.put(key, value).unwrap());
    writer.finish().unwrap()
}

/// Returns a database in which "a" and "b" have the value "0".
fn begin(fs: &MemFs) -> Db {
    let db = Db::open(DIR, options(fs).write_buffer_bytes(64)).unwrap();
    let mut batch = WriteBatch::new();
    ["a", "b"].into_iter().for_each(|key| batch.put(key, "0"));
    db.write(batch).unwrap();
    db.flush().unwrap();
    db
}

/// Returns the number of keys from `iter` that start with "a" or "b", and whether "later" is a key.
fn read(iter: minikv::Iter) -> (usize, bool) {
    let keys: Vec<_> = iter.map(|entry| entry.unwrap().0).collect();
    let is_later = |key: &&minikv::Bytes| &key[..] == b"later";
    (keys.iter().filter(|key| !is_later(key)).count(), keys.iter().any(|key| is_later(&key)))
}

#[test]
fn a_transaction_that_misses_an_ingest_conflicts_with_it() {
    check(|| {
        let fs = MemFs::new();
        let db = begin(&fs);
        let tables = table(&fs, "1");
        let ingest = {
            let db = db.clone();
            thread::spawn(move || db.ingest(&tables).map(|_| ()).unwrap())
        };
        let mut tx = db.transaction();
        let value = tx.get("a").unwrap().unwrap();
        tx.put("b", &value);
        if let Err(error) = tx.commit() {
            assert!(error.is_conflict(), "{error}");
        }
        ingest.join().unwrap();
        assert_eq!(db.get("a").unwrap(), db.get("b").unwrap(), "a conflict was missed");
    });
}

#[test]
fn a_write_is_not_shown_without_the_ingest_before_it() {
    check(|| {
        let fs = MemFs::new();
        let db = open(&fs);
        let tables = table(&fs, "1");
        let writer = {
            let db = db.clone();
            thread::spawn(move || {
                db.ingest(&tables).unwrap();
                db.put("later", "").unwrap();
            })
        };
        for iter in [db.iter(), db.snapshot().iter()] {
            let (ingested, is_later) = read(iter);
            assert!(ingested == 2 || (ingested == 0 && !is_later), "{ingested} and {is_later}");
        }
        writer.join().unwrap();
    });
}

#[test]
fn a_write_is_not_shown_without_the_range_delete_before_it() {
    check(|| {
        let fs = MemFs::new();
        let db = begin(&fs);
        let writer = {
            let db = db.clone();
            thread::spawn(move || {
                db.delete_range("a".."c").unwrap();
                db.put("later", "").unwrap();
            })
        };
        for iter in [db.iter(), db.snapshot().iter()] {
            let (left, is_later) = read(iter);
            assert!(left == 0 || (left == 2 && !is_later), "{left} and {is_later}");
        }
        writer.join().unwrap();
        assert_eq!(read(db.iter()), (0, true));
    });
}

/// Checks reads beside writes that fill memtables, flushes and a compaction. The value of the key
/// is the sequence number of its last write.
#[test]
fn a_read_shows_the_write_that_has_its_sequence_number() {
    check(|| {
        let db = Db::open(DIR, options(&MemFs::new()).write_buffer_bytes(1)).unwrap();
        db.put("a", "1").unwrap();
        let writer = {
            let db = db.clone();
            thread::spawn(move || {
                db.put("a", "2").unwrap();
                db.put("a", "3").unwrap();
                db.compact_range(..).unwrap();
                db.put("a", "4").unwrap();
            })
        };
        for _ in 0..2 {
            let explained = db.explain("a").unwrap();
            assert_eq!(explained.value.unwrap(), explained.seq.to_string());
            let snapshot = db.snapshot();
            assert_eq!(snapshot.get("a").unwrap().unwrap(), snapshot.sequence().to_string());
        }
        writer.join().unwrap();
    });
}

fn follow(fs: &MemFs) -> ReadOnlyDb {
    Db::open_read_only(DIR, options(fs)).unwrap()
}

/// Checks that a snapshot shows the write that has the snapshot's sequence number. The value of the
/// key is the sequence number of its last write.
fn check_snapshot(snapshot: &Snapshot) {
    let value = snapshot.get("a").unwrap().unwrap();
    assert_eq!(value, snapshot.sequence().to_string());
}

#[test]
fn a_snapshot_of_a_follower_shows_the_write_that_has_its_sequence_number() {
    check(|| {
        let fs = MemFs::new();
        let db = open(&fs);
        db.put("a", "1").unwrap();
        let follower = follow(&fs);
        db.put("a", "2").unwrap();
        db.flush().unwrap();
        db.put("a", "3").unwrap();
        let refresher = {
            let follower = follower.clone();
            thread::spawn(move || follower.refresh().unwrap())
        };
        for _ in 0..2 {
            check_snapshot(&follower.snapshot());
            let explained = follower.explain("a").unwrap();
            assert_eq!(explained.value.unwrap(), explained.seq.to_string());
        }
        assert_eq!(refresher.join().unwrap().sequence, 3);
        check_snapshot(&follower.snapshot());
    });
}

/// Checks the sequence numbers beside a refresh that finds another database, with lower numbers.
#[test]
fn a_snapshot_of_a_replaced_database_has_the_numbers_of_its_files() {
    check(|| {
        let fs = MemFs::new();
        let db = open(&fs);
        (1..=5).for_each(|i| db.put("a", i.to_string()).unwrap());
        db.flush().unwrap();
        let follower = follow(&fs);
        drop(db);
        minikv::destroy(DIR, &options(&fs)).unwrap();
        let db = open(&fs);
        db.put("a", "1").unwrap();
        db.put("a", "2").unwrap();
        let refresher = {
            let follower = follower.clone();
            thread::spawn(move || follower.refresh().unwrap())
        };
        let before = follower.sequence();
        check_snapshot(&follower.snapshot());
        assert!([2, 5].contains(&before), "{before}");
        assert_eq!(refresher.join().unwrap().sequence, 2);
        check_snapshot(&follower.snapshot());
        let explained = follower.explain("a").unwrap();
        assert_eq!((explained.seq, follower.sequence()), (2, 2));
    });
}

#[test]
fn a_follower_does_not_show_a_write_without_the_ingest_before_it() {
    check(|| {
        let fs = MemFs::new();
        let db = open(&fs);
        let follower = follow(&fs);
        db.ingest(&table(&fs, "1")).unwrap();
        db.put("later", "").unwrap();
        let refresher = {
            let follower = follower.clone();
            thread::spawn(move || follower.refresh().map(|_| ()).unwrap())
        };
        let (shown, is_later) = read(follower.iter());
        assert!(shown == 2 || (shown == 0 && !is_later), "{shown} and {is_later}");
        refresher.join().unwrap();
    });
}
