//! Sizes at which engines often fail: one large value, one large batch, many deletes.

use std::path::Path;
use std::time::Instant;

use minikv::{Db, Readable, WriteBatch};

use crate::rng::Rng;

fn open(dir: &Path) -> Db {
    Db::create(dir).unwrap()
}

fn bytes_on_disk(dir: &Path) -> u64 {
    let entries =
        std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry"));
    // A file that is removed during the listing does not count.
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// Waits, for at most a minute, until the directory has less than `limit` bytes. Waiting is
/// necessary because a table is removed only when the last thread releases it.
fn wait_until_below(dir: &Path, limit: u64) {
    let began = Instant::now();
    while bytes_on_disk(dir) >= limit {
        assert!(began.elapsed().as_secs() < 60, "{} bytes are left", bytes_on_disk(dir));
        std::thread::yield_now();
    }
}

fn key(number: u32) -> String {
    format!("{number:016}")
}

#[test]
fn a_value_of_100_mib() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let block = Rng::new(1).bytes(1 << 20);
    let value: Vec<u8> = block.iter().copied().cycle().take(100 << 20).collect();
    let db = open(home.path());
    db.put("before", "1").unwrap();
    db.put("large", &value).unwrap();
    db.put("low", "2").unwrap();
    let check = |db: &Db| {
        assert!(db.get("large").unwrap().as_deref() == Some(&value[..]));
        let lengths = db.iter().map(|entry| entry.unwrap().1.len());
        assert_eq!(lengths.collect::<Vec<_>>(), [1, 100 << 20, 1]);
    };
    check(&db);
    drop(db);
    let db = open(home.path());
    check(&db);
    db.flush().unwrap();
    check(&db);
    db.compact_range(..).unwrap();
    check(&db);
}

#[test]
fn a_batch_of_a_million_entries() {
    const ENTRIES: u32 = 1_000_000;
    let home = tempfile::tempdir().expect("a temporary directory");
    let mut batch = WriteBatch::new();
    for i in 0..u64::from(ENTRIES) {
        let number = (i * 7_919 % u64::from(ENTRIES)) as u32;
        batch.put(key(number), number.to_le_bytes());
    }
    let db = open(home.path());
    db.write(batch).unwrap();
    let check = |db: &Db| {
        let mut next = 0;
        for entry in db.iter() {
            let (found, value) = entry.unwrap();
            assert_eq!((&*found, &*value), (key(next).as_bytes(), &next.to_le_bytes()[..]));
            next += 1;
        }
        assert_eq!(next, ENTRIES);
        assert_eq!(db.get(key(ENTRIES)).unwrap(), None);
    };
    check(&db);
    db.close().unwrap();
    check(&open(home.path()));
}

#[test]
fn a_million_deletes_give_their_space_back() {
    const ENTRIES: u32 = 1_000_000;
    let home = tempfile::tempdir().expect("a temporary directory");
    let db = open(home.path());
    let mut batch = WriteBatch::new();
    for number in 0..ENTRIES {
        batch.put(key(number), [number as u8; 20]);
        if batch.len() == 1000 {
            db.write(std::mem::take(&mut batch)).unwrap();
        }
    }
    db.compact_range(..).unwrap();
    let full = bytes_on_disk(home.path());
    assert!(full > 10 << 20, "{full} bytes full");
    let mut rng = Rng::new(7);
    let mut order: Vec<u32> = (0..ENTRIES).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, rng.below(i + 1));
    }
    for number in order {
        batch.delete(key(number));
        if batch.len() == 1000 {
            db.write(std::mem::take(&mut batch)).unwrap();
        }
    }
    assert_eq!(db.iter().count(), 0);
    db.compact_range(..).unwrap();
    wait_until_below(home.path(), 256 << 10);
    drop(db);
    let db = open(home.path());
    assert_eq!(db.iter().count(), 0, "deleted keys are back");
    assert!(bytes_on_disk(home.path()) < 256 << 10);
}

/// Checks that a table stays on the disk as long as a reader can reach it, and is removed when the
/// last reader releases it.
#[test]
fn tables_live_as_long_as_their_readers() {
    const ENTRIES: u32 = 20_000;
    let home = tempfile::tempdir().expect("a temporary directory");
    let db = open(home.path());
    let mut rng = Rng::new(9);
    for number in 0..ENTRIES {
        db.put(key(number), rng.bytes(100)).unwrap();
    }
    db.compact_range(..).unwrap();
    let (full, mut iter, snapshot) = (bytes_on_disk(home.path()), db.iter(), db.snapshot());
    assert_eq!(&*iter.next().unwrap().unwrap().0, key(0).as_bytes());

    for number in 0..ENTRIES {
        db.delete(key(number)).unwrap();
    }
    db.compact_range(..).unwrap();
    assert_eq!(db.iter().count(), 0);
    assert_eq!(iter.by_ref().count(), ENTRIES as usize - 1, "the iterator goes on");
    assert_eq!(snapshot.iter().count(), ENTRIES as usize, "the snapshot goes on");

    drop((iter, snapshot));
    db.compact_range(..).unwrap();
    wait_until_below(home.path(), full / 20);
}
