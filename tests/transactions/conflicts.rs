//! Tests of the conditions under which transactions conflict. Conflicts must be found wherever the
//! other write is stored.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use minikv::fs::SimFs;
use minikv::fs::sim::{Fault, OpKind};
use minikv::{Db, Error, Filters, Options, ReadOptions, Readable, WriteBatch, WriteOptions};

use crate::comparators::Order;
use crate::{Home, assert_conflict, small, text};

#[test]
fn every_kind_of_write_conflicts_and_the_key_is_named() {
    type Write = fn(&Db);
    let writes: [(&str, Write); 5] = [
        ("put", |db| db.put("read/1", "new").unwrap()),
        ("delete", |db| db.delete("read/1").unwrap()),
        ("same", |db| db.put("read/1", "old").unwrap()),
        ("batch", |db| {
            let mut batch = WriteBatch::new();
            batch.put("other", "");
            batch.put("read/1", "new");
            db.write(batch).unwrap();
        }),
        ("transaction", |db| {
            let mut tx = db.transaction();
            tx.delete("read/1");
            tx.writing(WriteOptions::default().sync(true)).commit().unwrap();
        }),
    ];
    for (name, write) in writes {
        for by_range in [false, true] {
            let home = Home::with([("read/1", "old"), ("read/3", "old")]);
            let mut tx = home.transaction();
            match by_range {
                false => assert!(tx.contains_key("read/1").unwrap()),
                true => assert_eq!(tx.prefix("read/").unwrap().count(), 2),
            }
            tx.put("written", name);
            write(&home);
            let error = tx.commit().unwrap_err();
            let message = error.to_string();
            assert!(message.contains("\"read/1\""), "{message}");
            assert_conflict(Err(error), "read/1");
            assert_eq!(home.get("written").unwrap(), None);
        }
    }
}

#[test]
fn keys_that_were_not_read_or_are_not_written_do_not_conflict() {
    let home = Home::with([("a", "1"), ("b", "1")]);
    let write = || {
        for key in ["a", "b", "c"] {
            home.put(key, "2").unwrap();
        }
    };
    // Blind writes.
    let mut blind = home.transaction();
    blind.put("a", "3");
    blind.delete("c");
    write();
    blind.commit().unwrap();
    assert_eq!((text(home.get("a").unwrap()), text(home.get("c").unwrap())), pair("3", "none"));
    // Reads alone.
    let reader = home.transaction();
    assert_eq!(reader.iter().count(), 2);
    write();
    reader.commit().unwrap();
    // The check for conflicts ignores reads of a transaction's own writes, untracked reads, and
    // reads of its snapshot.
    let mut own = home.transaction();
    own.put("a", "4");
    assert_eq!(text(own.get("a").unwrap()), "4");
    assert_eq!(text(own.reading(ReadOptions::default().track(false)).get("a").unwrap()), "4");
    assert_eq!(text(own.reading(ReadOptions::default().track(false)).get("b").unwrap()), "2");
    assert_eq!(text(own.snapshot().get("a").unwrap()), "2");
    own.put("d", "4");
    write();
    own.commit().unwrap();
    assert_eq!((text(home.get("a").unwrap()), text(home.get("d").unwrap())), pair("4", "4"));
    // A small range delete is a batch of deletions of the keys that are there.
    let mut absent = home.transaction();
    assert!(absent.get("bb").unwrap().is_none());
    absent.put("e", "5");
    assert_eq!(home.delete_range("b".."c").unwrap().keys, 1);
    absent.commit().unwrap();
}

fn pair(a: &str, b: &str) -> (String, String) {
    (a.to_owned(), b.to_owned())
}

/// Checks that a conflict is found whether the other write is in the memtable or has moved to a
/// table, and that no compaction drops an entry that the check for conflicts needs.
#[test]
fn conflicts_are_found_wherever_the_write_has_gone() {
    type Step = fn(&Db);
    let steps: [(&str, Step); 4] = [
        ("memtable", |_| {}),
        ("level 0", |db| db.flush().unwrap()),
        ("compacted", |db| db.compact_range(..).unwrap()),
        ("moved twice", |db| {
            db.compact_range(..).unwrap();
            db.put("k5000", "again").unwrap();
            db.put("unrelated", "again").unwrap();
            db.compact_range(..).unwrap();
            db.compact_range(..).unwrap();
        }),
    ];
    for (place, step) in steps {
        for is_delete in [false, true] {
            for by_range in [false, true] {
                let home = Home::new(small());
                (0..3000).for_each(|i| home.put(format!("k{i:04}"), [b'v'; 40]).unwrap());
                home.compact_range(..).unwrap();
                let mut tx = home.transaction();
                let read = match by_range {
                    false => tx.get("k1500").unwrap().is_some(),
                    true => tx.range("k1400".."k1600").count() == 200,
                };
                assert!(read);
                tx.put("k0000", "written");
                match is_delete {
                    true => home.delete("k1500").unwrap(),
                    false => home.put("k1500", "changed").unwrap(),
                }
                step(&home);
                let what = format!("{place}, delete {is_delete}, range {by_range}");
                match tx.commit() {
                    Err(Error::Conflict { key, .. }) => assert_eq!(key, "k1500", "{what}"),
                    other => panic!("{what}: {other:?}"),
                }
                // Writes next to the keys and ranges that were read do not conflict.
                let mut tx = home.transaction();
                assert_eq!(tx.range("k1000".."k1400").count(), 400);
                assert!(tx.contains_key("k1501").unwrap());
                tx.put("k0000", "written");
                home.delete("k1500").unwrap();
                home.put("k1400", "at the end").unwrap();
                step(&home);
                tx.commit().unwrap_or_else(|error| panic!("{what}: {error}"));
            }
        }
    }
}

/// Checks that a key that was written and deleted again causes a conflict. Compactions drop the
/// tombstone of such a key very early, because no other version of the key is left.
#[test]
fn a_key_that_came_and_went_is_a_conflict() {
    let home = Home::with([("a", "1"), ("z", "1")]);
    home.compact_range(..).unwrap();
    for by_range in [false, true] {
        let mut tx = home.transaction();
        match by_range {
            false => assert!(!tx.contains_key("m").unwrap()),
            true => assert_eq!(tx.range("b".."y").count(), 0),
        }
        tx.put("written", "");
        home.put("m", "came").unwrap();
        home.flush().unwrap();
        home.delete("m").unwrap();
        home.compact_range(..).unwrap();
        home.compact_range(..).unwrap();
        assert_conflict(tx.commit(), "m");
    }
}

#[test]
fn a_long_transaction_is_checked_key_by_key_and_entry_by_entry() {
    let home = Home::new(Options::default().create_if_missing(true));
    (0..2000).for_each(|i| home.put(format!("{i:04}"), "old").unwrap());
    for (reads, writes) in [(3, 1000), (1000, 3), (1000, 1000)] {
        for conflicts in [false, true] {
            // The last write before the transaction began does not count as a later write.
            home.put("0001", "new").unwrap();
            let mut tx = home.transaction();
            (0..reads).for_each(|i| assert!(tx.contains_key(format!("{i:04}")).unwrap()));
            tx.put("written", "");
            (0..writes).for_each(|i| home.put(format!("{:04}", 1000 + i), "new").unwrap());
            if conflicts {
                home.put("0002", "new").unwrap();
            }
            (0..writes).for_each(|i| home.put(format!("{:04}", 1000 + i), "newer").unwrap());
            match conflicts {
                true => assert_conflict(tx.commit(), "0002"),
                false => tx.commit().unwrap(),
            }
        }
    }
}

#[test]
fn a_transaction_without_writes_is_committed_even_if_nothing_can_be_written() {
    let fs = SimFs::new(1);
    let db = Db::open("/db", small().fs(fs.clone()).inline_background(Some(4))).unwrap();
    fs.inject(Fault::io_error().on(&[OpKind::Sync]));
    let synced = WriteOptions::default().sync(true);
    db.writing(synced).put("a", "1").unwrap_err();
    for options in [WriteOptions::default(), synced] {
        let mut tx = db.transaction().writing(options);
        assert!(tx.get("b").unwrap().is_none());
        tx.commit().unwrap();
        tx = db.transaction().writing(options);
        tx.put("b", "1");
        tx.commit().unwrap_err();
    }
    assert_eq!(db.writing(synced).transact(|tx| tx.get("b")).unwrap(), None);
}

/// Checks that a range delete of which readers see nothing is no conflict, even if it had to be
/// given up after its edit of the MANIFEST.
#[test]
fn a_range_delete_that_failed_is_no_conflict() {
    let manifest = |kind| Fault::io_error().on(&[kind]).path("*MANIFEST*");
    let in_directory = Fault::io_error().on(&[OpKind::SyncDir]);
    for fault in [in_directory, manifest(OpKind::Write), manifest(OpKind::Sync)] {
        let fs = SimFs::new(1);
        let db = Db::open("/db", small().fs(fs.clone()).inline_background(Some(4))).unwrap();
        let key = |i: u32| format!("key{i:06}");
        (0..6000).for_each(|i| db.put(key(i), format!("the value of number {i}")).unwrap());
        db.compact_range(..).unwrap();
        fs.inject(fault.clone());
        db.delete_range(key(1000)..key(5000)).unwrap_err();
        fs.clear_faults();
        db.resume().unwrap();
        let begin = || {
            let mut tx = db.transaction();
            assert!(tx.get(key(3000)).unwrap().is_some(), "{fault:?}");
            tx.put("conclusion", "1");
            tx
        };
        begin().commit().unwrap_or_else(|error| panic!("{error} after {fault:?}"));
        let tx = begin();
        let done = db.delete_range(key(1000)..key(5000)).unwrap();
        assert!(done.tables > 0, "{done:?}");
        assert!(tx.commit().unwrap_err().is_conflict(), "{fault:?}");
    }
}

#[test]
fn keys_are_compared_by_the_comparator() {
    let options = || small().filters(Filters::None);
    let home = Home::new(options().comparator(Order::CaseBlind.comparator()));
    home.put("Key", "1").unwrap();
    let mut tx = home.transaction();
    assert_eq!(text(tx.get("KEY").unwrap()), "1");
    tx.put("own", "1");
    tx.put("OWN", "2");
    assert_eq!(text(tx.get("Own").unwrap()), "2");
    let keys: Vec<_> = tx.iter().map(|entry| text(Some(entry.unwrap().0))).collect();
    assert_eq!(keys, ["Key", "OWN"]);
    home.put("kEY", "2").unwrap();
    assert_conflict(tx.commit(), "kEY");
    for compacted in [false, true] {
        let mut tx = home.transaction();
        assert_eq!(tx.range("J"..="k").count(), 0);
        assert_eq!(tx.range("K".."KEZ").count(), 1);
        tx.delete("x");
        home.put("kex", "").unwrap();
        home.delete("kEX").unwrap();
        if compacted {
            home.compact_range(..).unwrap();
        }
        assert!(tx.commit().unwrap_err().is_conflict(), "compacted: {compacted}");
    }

    let home = Home::new(small().comparator(Order::Reverse.comparator()));
    ["a", "c", "e"].iter().for_each(|key| home.put(key, "").unwrap());
    for (key, conflicts) in [("f", false), ("d", true), ("b", true), ("Z", false)] {
        for compacted in [false, true] {
            let mut tx = home.transaction();
            assert_eq!(tx.range("e".."a").count(), 2);
            tx.put("~", "");
            home.put(key, "").unwrap();
            home.delete(key).unwrap();
            if compacted {
                home.compact_range(..).unwrap();
            }
            match conflicts {
                true => assert_conflict(tx.commit(), key),
                false => tx.commit().unwrap(),
            }
        }
    }
    let error = home.transaction().prefix("a").unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
}

#[test]
fn an_update_is_run_again_until_no_other_write_comes_between() {
    let home = Home::new(small());
    let calls = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..250 {
                    let count = |old: Option<&[u8]>| {
                        calls.fetch_add(1, Ordering::Relaxed);
                        let old = old.map_or(0, |old| u64::from_le_bytes(old.try_into().unwrap()));
                        Some((old + 1).to_le_bytes().to_vec())
                    };
                    assert!(home.update("count", count).unwrap().is_some());
                }
            });
        }
    });
    assert_eq!(home.get("count").unwrap().as_deref(), Some(&1000u64.to_le_bytes()[..]));
    // The closure is passed the present value, and can delete the key by returning `None`.
    let old = home.update("count", |old| {
        assert!(old.is_some());
        None::<Vec<u8>>
    });
    assert_eq!((old.unwrap(), home.get("count").unwrap()), (None, None));
    let before = home.snapshot().sequence();
    assert_eq!(home.update("count", |_| None::<Vec<u8>>).unwrap(), None);
    assert_eq!(home.snapshot().sequence(), before, "nothing to delete");
    assert_eq!(home.update("count", |_| Some("1")).unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_transaction_is_run_again_after_a_conflict_and_not_after_another_error() {
    let home = Home::with([("a", "1")]);
    let mut calls = 0;
    let value = home.transact(|tx| {
        calls += 1;
        let old = text(tx.get("a")?);
        if calls < 4 {
            home.put("a", format!("{calls}"))?;
        }
        tx.put("b", &old);
        Ok(old)
    });
    assert_eq!((value.unwrap(), calls), ("3".to_owned(), 4));
    assert_eq!(text(home.get("b").unwrap()), "3");
    let mut calls = 0;
    let error = home.transact(|tx| {
        calls += 1;
        tx.put("c", "");
        Err::<(), _>(Error::InvalidArgument { what: "no".to_owned() })
    });
    assert_eq!((error.unwrap_err().to_string(), calls), ("no".to_owned(), 1));
    assert_eq!(home.get("c").unwrap(), None);
}

/// An error type of a program.
#[derive(Debug, PartialEq)]
enum AppError {
    Refused,
    Db(String),
}

impl From<Error> for AppError {
    fn from(error: Error) -> AppError {
        AppError::Db(error.to_string())
    }
}

#[test]
fn conflicts_are_retried_whatever_the_error_type() {
    let home = Home::with([("a", "1")]);
    let mut calls = 0;
    let value = home.try_transact(|tx| {
        calls += 1;
        let old = text(tx.get("a")?);
        if calls < 4 {
            home.put("a", format!("{calls}"))?;
        }
        tx.put("b", &old);
        Ok::<_, AppError>(old)
    });
    assert_eq!((value, calls), (Ok("3".to_owned()), 4));
    let refused = home.try_transact(|tx| {
        tx.put("c", "");
        Err::<(), _>(AppError::Refused)
    });
    assert_eq!((refused, home.get("c").unwrap()), (Err(AppError::Refused), None));

    for keyspace in [home.keyspace("k").unwrap(), home.expiring_keyspace("k").unwrap()] {
        let mut calls = 0;
        let value = keyspace.try_update("a", |old| {
            calls += 1;
            if calls < 3 {
                keyspace.put("a", "0")?;
            }
            let old = old.map_or(7, |old| old[0] - b'0');
            Ok::<_, AppError>(Some((old + 1).to_string()))
        });
        assert_eq!((value.unwrap().as_deref(), calls), (Some(&b"1"[..]), 3));
        let refused = keyspace.try_update("a", |_| Err::<Option<&str>, _>(AppError::Refused));
        assert_eq!(refused, Err(AppError::Refused));
        assert_eq!(text(keyspace.get("a").unwrap()), "1");
    }
    home.db.clone().close().unwrap();
    assert!(matches!(home.try_update("a", |_| Ok::<_, AppError>(Some("x"))), Err(AppError::Db(_))));
}

#[test]
fn a_transaction_that_is_kept_over_close_gets_an_error_and_nothing_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    db.put("a", "1").unwrap();
    let mut tx = db.transaction();
    assert!(tx.contains_key("a").unwrap());
    tx.put("b", "1");
    let mut blind = db.transaction();
    blind.put("c", "1");
    db.close().unwrap();
    // After the close, the transaction can still read its own view.
    assert_eq!(tx.iter().count(), 2);
    assert!(matches!(tx.commit(), Err(Error::Closed)));
    assert!(matches!(blind.commit(), Err(Error::Closed)));
    let db = Db::open(dir.path(), small()).unwrap();
    assert_eq!(db.iter().count(), 1);
    assert_eq!(text(db.get("a").unwrap()), "1");
}

#[test]
fn a_transaction_keeps_the_database_open() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    let transactions = [(); 3].map(|()| db.transaction());
    drop(db);
    // Each transaction fills the memtable, so the next transaction has to wait for a background
    // flush.
    for (number, mut tx) in transactions.into_iter().enumerate() {
        for i in 0..1000 {
            tx.put(format!("{number} {i:04}"), [b'v'; 100]);
        }
        tx.commit().unwrap();
    }
    let db = Db::open(dir.path(), small()).unwrap();
    assert_eq!(db.iter().count(), 3000);
}

#[test]
fn a_savepoint_takes_back_later_writes() {
    let home = Home::with([("a", "1")]);
    let mut tx = home.transaction();
    tx.put("a", "2");
    let first = tx.savepoint();
    tx.put("a", "3");
    tx.put("b", "3");
    tx.delete("c");
    let second = tx.savepoint();
    tx.delete("a");
    tx.put("b", "4");
    tx.rollback_to(&second).unwrap();
    assert_eq!((text(tx.get("a").unwrap()), text(tx.get("b").unwrap())), pair("3", "3"));
    tx.put("d", "5");
    tx.rollback_to(&first).unwrap();
    let error = tx.rollback_to(&second).unwrap_err();
    assert_eq!(error.to_string(), "the savepoint was rolled back");
    assert_eq!((text(tx.get("a").unwrap()), text(tx.get("b").unwrap())), pair("2", "none"));
    tx.put("e", "6");
    tx.rollback_to(&first).unwrap();
    let error = home.transaction().rollback_to(&first).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
    tx.commit().unwrap();
    let entries: Vec<_> = home.iter().map(Result::unwrap).collect();
    assert_eq!(entries, [("a".into(), "2".into())]);
}

/// Checks that a rollback to a savepoint keeps the record of reads made after the savepoint.
#[test]
fn a_rollback_to_a_savepoint_does_not_forget_reads() {
    let home = Home::with([("a", "1")]);
    let mut tx = home.transaction();
    let start = tx.savepoint();
    tx.put("a", "own");
    assert_eq!(text(tx.get("b").unwrap()), "none");
    tx.rollback_to(&start).unwrap();
    tx.put("c", "");
    home.put("b", "").unwrap();
    assert_conflict(tx.commit(), "b");
}

#[test]
fn transactions_go_between_threads() {
    fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<minikv::Transaction>();
    let home = Arc::new(Home::with([("a", "1")]));
    let mut tx = home.transaction();
    std::thread::spawn(move || {
        assert!(tx.contains_key("a").unwrap());
        tx.put("b", "1");
        tx.commit().unwrap();
    })
    .join()
    .unwrap();
    assert!(home.contains_key("b").unwrap());
}
