//! Readers that are concurrent with flushes and compactions.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use minikv::fs::MemFs;
use minikv::{Db, Readable, Snapshot, WriteBatch};
use shuttle::thread;

use crate::{check, open, options};

const KEYS: [&str; 2] = ["apple", "plum"];

/// Returns a batch that sets all keys to `number`.
fn batch(number: u64) -> WriteBatch {
    let mut batch = WriteBatch::new();
    KEYS.iter().for_each(|key| batch.put(key, number.to_string()));
    batch
}

fn parse(value: &[u8]) -> u64 {
    std::str::from_utf8(value).unwrap().parse().unwrap()
}

fn get(db: &Db, key: &str) -> u64 {
    parse(&db.get(key).unwrap().expect("a key that was never deleted"))
}

/// Returns the value in a snapshot, which must be the same for all keys.
fn value_in(snapshot: &Snapshot) -> u64 {
    let values = KEYS.map(|key| parse(&snapshot.get(key).unwrap().expect("there at all times")));
    assert_eq!(values[0], values[1], "a batch seen in part");
    values[0]
}

/// Reads in every way. Checks that no read misses a write that `done` had counted before the read
/// began.
fn read(db: &Db, done: &AtomicU64) {
    let at_least = done.load(SeqCst);
    assert!(get(db, KEYS[1]) >= at_least, "an acknowledged write is missed");
    let at_least = done.load(SeqCst);
    let snapshot = db.snapshot();
    let value = value_in(&snapshot);
    assert!(value >= at_least);
    let at_least = done.load(SeqCst);
    let entries: Vec<_> = db.iter().map(|entry| parse(&entry.unwrap().1)).collect();
    assert_eq!(entries.len(), KEYS.len());
    assert!(entries[0] == entries[1] && entries[0] >= at_least && entries[0] >= value);
    let at_least = done.load(SeqCst).max(entries[0]);
    assert!(value_backward(db) >= at_least, "an acknowledged write is missed backward");
    assert_eq!(value_in(&snapshot), value, "a snapshot that changes");
    assert!(get(db, KEYS[0]) >= entries[0], "time goes back");
}

/// Returns the value that a cursor finds when it moves backward. The value must be the same for all
/// keys.
fn value_backward(db: &Db) -> u64 {
    let mut cursor = db.cursor().unwrap();
    let mut found = Vec::new();
    let mut valid = cursor.seek_to_last().unwrap();
    while valid {
        found.push(parse(cursor.value()));
        valid = cursor.prev().unwrap();
    }
    assert_eq!(found.len(), KEYS.len());
    assert_eq!(found[0], found[1], "a batch seen in part");
    assert!(cursor.seek_for_prev(KEYS[0]).unwrap());
    assert_eq!(parse(cursor.value()), found[0], "the cursor's moment changes");
    found[0]
}

fn write_and_read(db: Db, steps: u64, work: fn(&Db, u64)) {
    db.write(batch(0)).unwrap();
    let done = Arc::new(AtomicU64::new(0));
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (db, done) = (db.clone(), done.clone());
            thread::spawn(move || read(&db, &done))
        })
        .collect();
    for number in 1..=steps {
        db.write(batch(number)).unwrap();
        done.store(number, SeqCst);
        work(&db, number);
    }
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    assert_eq!(get(&db, KEYS[0]), steps);
}

/// Checks that readers miss nothing while flushes drop versions that no reader can see any more. In
/// this test, a flush drops one of two versions of each key.
#[test]
fn readers_miss_nothing_while_memtables_are_flushed() {
    check(|| {
        let db = open(&MemFs::new());
        write_and_read(db, 4, |db, number| {
            if number % 2 == 0 {
                db.flush().unwrap();
            }
        });
    });
}

#[test]
fn readers_miss_nothing_while_tables_are_compacted() {
    check(|| {
        let db = open(&MemFs::new());
        write_and_read(db, 2, |db, _| db.compact_range(..).unwrap());
    });
}

/// Checks reads during background work: every write freezes a memtable, and once there are four
/// tables, they are compacted.
#[test]
fn readers_miss_nothing_while_the_background_works() {
    check(|| {
        let fs = MemFs::new();
        let db = Db::open(crate::DIR, options(&fs).write_buffer_bytes(1)).unwrap();
        write_and_read(db, 5, |_, _| ());
    });
}

/// Checks that cursors see all entries of a memtable that is being sorted. A memtable is sorted
/// when a cursor needs it: one thread sorts, while the other thread waits.
#[test]
fn cursors_see_all_of_a_memtable_that_is_put_in_order_meanwhile() {
    const BEFORE: usize = 4;
    const AFTER: usize = 7;
    check(|| {
        let db = open(&MemFs::new());
        let put = |numbers: std::ops::Range<usize>| {
            let mut batch = WriteBatch::new();
            numbers.for_each(|n| batch.put(format!("{:03}", n * 3 % (BEFORE + AFTER)), "1"));
            db.write(batch).unwrap();
        };
        put(0..BEFORE);
        assert_eq!(db.iter().count(), BEFORE);
        put(BEFORE..BEFORE + AFTER);
        // The leaf becomes too large, and the next cursor splits it.
        let other = db.clone();
        let other = thread::spawn(move || other.iter().count());
        assert_eq!(db.iter().rev().count(), BEFORE + AFTER);
        assert_eq!(other.join().unwrap(), BEFORE + AFTER);
    });
}
