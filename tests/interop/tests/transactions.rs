//! Checks that the C++ library can read everything that transactions leave on disk.

use std::collections::BTreeMap;

use minikv::{Db, Options, Readable, WriteOptions};
use minikv_interop::{LevelDb, Settings};

#[test]
fn leveldb_and_transactions_read_each_others_writes() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let options = || Options::default().create_if_missing(true).write_buffer_bytes(64 << 10);
    let mut expected = BTreeMap::new();
    for round in 0..4 {
        let db = Db::open(home.path(), options()).expect("minikv opens");
        for i in 0..500u32 {
            let mut tx = db.transaction();
            let (kept, gone) = (format!("{:04}", i * 7 % 300), format!("{:04}", i * 11 % 300));
            let old = tx.get(&kept).unwrap();
            assert_eq!(old.as_deref(), expected.get(kept.as_bytes()).map(Vec::as_slice));
            let seen = tx.range(gone.clone()..).take(3).count();
            let before_gone = tx.savepoint();
            tx.delete("not deleted");
            tx.rollback_to(&before_gone).unwrap();
            tx.delete(&gone);
            expected.remove(gone.as_bytes());
            let value = format!("{round} {i} {seen} {}", "v".repeat(i as usize % 200));
            tx.put(&kept, &value);
            expected.insert(kept.into_bytes(), value.into_bytes());
            if i % 9 == 0 {
                // Another transaction fails because of a conflict, and must leave nothing on disk.
                let mut late = db.transaction();
                assert!(late.iter().all(|entry| entry.is_ok()));
                late.put("late", "");
                tx.writing(WriteOptions::default().sync(true)).commit().unwrap();
                assert!(late.commit().unwrap_err().is_conflict());
            } else {
                tx.commit().unwrap();
            }
        }
        match round {
            0 => {}
            1 => db.flush().unwrap(),
            _ => db.compact_range(..).unwrap(),
        }
        drop(db);
        let leveldb = LevelDb::open(home.path(), &Settings::default()).expect("LevelDB opens");
        let entries: BTreeMap<_, _> = leveldb.entries(false).unwrap().into_iter().collect();
        assert_eq!(entries, expected, "round {round}");
        leveldb.put(b"0007", b"LevelDB").unwrap();
        expected.insert(b"0007".to_vec(), b"LevelDB".to_vec());
    }
}
