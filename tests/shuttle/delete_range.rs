//! Range deletes that are concurrent with writes, compactions, snapshots and transactions.

use minikv::fs::MemFs;
use minikv::{Db, Iter, Readable, WriteBatch};
use shuttle::thread;

use crate::{check, open, options};

const KEYS: usize = 3;

/// Opens a database whose write buffer is so small that range deletes drop whole tables. One table
/// is within the range that is deleted, and another crosses the end of this range.
fn begin(fs: &MemFs) -> Db {
    let db = Db::open(crate::DIR, options(fs).write_buffer_bytes(64)).unwrap();
    let mut batch = WriteBatch::new();
    (0..KEYS).for_each(|i| batch.put(format!("key{i}"), "1"));
    db.write(batch).unwrap();
    db.flush().unwrap();
    let mut batch = WriteBatch::new();
    batch.put("key2", "1");
    batch.put("kez", "1");
    db.write(batch).unwrap();
    db.flush().unwrap();
    db
}

/// Returns the number of entries found in the range. Checks that either none or all of its keys
/// were found.
fn whole(entries: Iter) -> usize {
    let found = entries.map(Result::unwrap).count();
    assert!([0, KEYS].contains(&found), "a part of the range: {found}");
    found
}

#[test]
fn a_range_delete_is_seen_whole_and_by_no_earlier_snapshot() {
    check(|| {
        let fs = MemFs::new();
        let db = begin(&fs);
        let deleter = {
            let db = db.clone();
            thread::spawn(move || db.delete_range("key".."kez").map(|_| ()).unwrap())
        };
        let reader = {
            let db = db.clone();
            thread::spawn(move || {
                let snapshot = db.snapshot();
                let first = whole(snapshot.prefix("key").unwrap());
                let now = whole(db.prefix("key").unwrap());
                assert!(now <= first, "the range comes back");
                assert_eq!(snapshot.get("key1").unwrap().is_some(), first > 0);
                assert_eq!(whole(snapshot.prefix("key").unwrap()), first, "a snapshot changes");
            })
        };
        let snapshot = db.snapshot();
        let first = whole(snapshot.prefix("key").unwrap());
        db.compact_range(..).unwrap();
        assert_eq!(whole(snapshot.prefix("key").unwrap()), first, "a snapshot changes");
        let other = Db::open_read_only(crate::DIR, options(&fs)).unwrap();
        whole(other.prefix("key").unwrap());
        [deleter, reader].into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(whole(db.prefix("key").unwrap()), 0);
        drop((db, snapshot));
        assert_eq!(whole(open(&fs).prefix("key").unwrap()), 0);
    });
}

#[test]
fn a_write_and_a_range_delete_happen_one_after_the_other() {
    check(|| {
        let fs = MemFs::new();
        let db = begin(&fs);
        let writer = {
            let db = db.clone();
            thread::spawn(move || {
                db.put("key1", "2").unwrap();
                db.put("other", "2").unwrap();
                db.flush().unwrap();
            })
        };
        let transaction = {
            let db = db.clone();
            thread::spawn(move || {
                let mut tx = db.transaction();
                let seen = tx.get("key0").unwrap().is_some();
                tx.put("copy", if seen { "there" } else { "gone" });
                tx.commit().is_ok().then_some(seen)
            })
        };
        db.delete_range("key".."kez").unwrap();
        let after = db.get("key1").unwrap();
        assert!(after.as_deref().is_none_or(|value| *value == b"2"[..]), "{after:?}");
        assert_eq!(db.get("key0").unwrap(), None);
        let copy = db.get("copy").unwrap();
        writer.join().unwrap();
        let committed = transaction.join().unwrap();
        // A transaction that commits after the deletion must have seen the deletion.
        match copy {
            Some(copy) => assert_eq!(copy == "there", committed == Some(true)),
            None => assert_ne!(committed, Some(true), "a commit misses the deletion"),
        }
        let last = db.get("key1").unwrap();
        assert!(last.is_some() || after.is_none(), "the later put is lost");
        db.compact_range(..).unwrap();
        assert_eq!(db.get("key1").unwrap(), last, "a compaction brings something back");
        assert_eq!(db.get("other").unwrap().as_deref(), Some(&b"2"[..]));
    });
}
