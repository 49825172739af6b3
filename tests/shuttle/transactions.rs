//! Transactions that are concurrent with each other and with plain writes.

use minikv::fs::MemFs;
use minikv::{Db, Readable, Transaction};
use shuttle::thread;

use crate::{check, open, options, sync};

/// Takes a doctor off call if another doctor is on call. Returns whether the transaction committed.
fn leave(db: &Db, name: &str, on_call: fn(&Transaction) -> usize) -> bool {
    let mut tx = db.transaction();
    if on_call(&tx) < 2 {
        return false;
    }
    tx.delete(name);
    match tx.writing(sync(name == "call/ann")).commit() {
        Ok(()) => true,
        Err(error) => {
            assert!(error.is_conflict(), "{error}");
            false
        }
    }
}

fn skew(on_call: fn(&Transaction) -> usize, write_buffer_bytes: usize) {
    let fs = MemFs::new();
    let db = Db::open(crate::DIR, options(&fs).write_buffer_bytes(write_buffer_bytes)).unwrap();
    db.put("call/ann", "").unwrap();
    db.put("call/bob", "").unwrap();
    let doctors: Vec<_> = ["call/ann", "call/bob"]
        .map(|name| {
            let db = db.clone();
            thread::spawn(move || leave(&db, name, on_call))
        })
        .into_iter()
        .collect();
    db.put("plain", "1").unwrap();
    db.writing(sync(true)).put("plain", "2").unwrap();
    let left: Vec<bool> = doctors.into_iter().map(|doctor| doctor.join().unwrap()).collect();
    assert_eq!(left.iter().filter(|left| **left).count(), 1, "one leaves, and one stays");
    assert_eq!(db.prefix("call/").unwrap().count(), 1);
    drop(db);
    let db = open(&fs);
    assert_eq!(db.prefix("call/").unwrap().count(), 1);
    assert_eq!(db.get("plain").unwrap().as_deref(), Some(&b"2"[..]));
}

#[test]
fn of_two_transactions_with_a_write_skew_one_succeeds() {
    fn by_keys(tx: &Transaction) -> usize {
        let is_there = |name: &&&str| tx.contains_key(name).unwrap();
        ["call/ann", "call/bob"].iter().filter(is_there).count()
    }
    fn by_range(tx: &Transaction) -> usize {
        tx.prefix("call/").unwrap().map(Result::unwrap).count()
    }
    check(|| skew(by_keys, 16 << 10));
    check(|| skew(by_range, 16 << 10));
}

/// Runs the scene with a write buffer so small that each write fills a memtable. The check for
/// conflicts must therefore find writes in frozen memtables and in tables.
#[test]
fn a_write_skew_is_found_while_memtables_become_tables() {
    fn by_range(tx: &Transaction) -> usize {
        tx.prefix("call/").unwrap().map(Result::unwrap).count()
    }
    check(|| skew(by_range, 1));
}

/// Checks that no write is lost when a plain put runs at the same time as two updates: the put
/// takes effect before, between or after the updates.
#[test]
fn updates_and_a_plain_put_come_one_after_the_other() {
    check(|| {
        let db = open(&MemFs::new());
        let updates: Vec<_> = (0..2)
            .map(|_| {
                let db = db.clone();
                thread::spawn(move || {
                    let next = |old: Option<&[u8]>| Some(vec![old.map_or(0, |old| old[0]) + 1]);
                    db.update("count", next).unwrap();
                })
            })
            .collect();
        db.put("count", [10]).unwrap();
        updates.into_iter().for_each(|update| update.join().unwrap());
        let count = db.get("count").unwrap().unwrap()[0];
        assert!((10..=12).contains(&count), "{count}");
    });
}
