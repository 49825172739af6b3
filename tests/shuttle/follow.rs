//! A handle that is refreshed while other threads read through it.

use minikv::fs::MemFs;
use minikv::{Db, ReadOnlyDb, Readable, WriteBatch};
use shuttle::thread;

use crate::{DIR, check, open, options};

fn put_both(db: &Db, value: &str) {
    let mut batch = WriteBatch::new();
    batch.put("a", value);
    batch.put("b", value);
    db.write(batch).unwrap();
}

fn follow(fs: &MemFs) -> ReadOnlyDb {
    Db::open_read_only(DIR, options(fs)).unwrap()
}

/// Reads the keys in three ways. Checks that no read shows half of a batch, and that no read shows
/// an older value than the read before. Returns the last value read.
fn get_both(db: &ReadOnlyDb) -> Vec<u8> {
    let values = db.multi_get(&["a", "b"]).unwrap();
    assert_eq!(values[0], values[1], "half of a batch");
    let entries: Vec<_> = db.iter().map(|entry| entry.unwrap().1).collect();
    assert!(entries.len() == 2 && entries[0] == entries[1], "{entries:?}");
    let value = db.get("a").unwrap().expect("a key that always has a value");
    assert!(value >= entries[0] && entries[0] >= *values[0].as_ref().unwrap(), "it went back");
    value.to_vec()
}

/// Reads in one thread while two other threads refresh the handle.
fn read_while_refreshing(db: &ReadOnlyDb, last: &str) {
    let refreshers = [(); 2].map(|()| {
        let db = db.clone();
        thread::spawn(move || db.refresh().unwrap())
    });
    let reader = db.clone();
    let reader = thread::spawn(move || {
        let first = get_both(&reader);
        assert!(get_both(&reader) >= first);
    });
    let refreshed = refreshers.map(|refresher| refresher.join().unwrap());
    assert!(refreshed.iter().any(|refreshed| refreshed.changed));
    assert_eq!(refreshed[0].sequence, refreshed[1].sequence);
    reader.join().unwrap();
    assert_eq!(get_both(db), last.as_bytes());
}

#[test]
fn records_of_a_log_become_visible_batch_by_batch() {
    check(|| {
        let fs = MemFs::new();
        let db = open(&fs);
        put_both(&db, "1");
        let follower = follow(&fs);
        put_both(&db, "2");
        put_both(&db, "3");
        read_while_refreshing(&follower, "3");
    });
}

#[test]
fn tables_that_lack_visible_writes_are_not_read_with_an_old_sequence_number() {
    check(|| {
        let fs = MemFs::new();
        let db = open(&fs);
        put_both(&db, "1");
        let follower = follow(&fs);
        put_both(&db, "2");
        // The flush drops the older versions of the keys.
        db.flush().unwrap();
        put_both(&db, "3");
        read_while_refreshing(&follower, "3");
    });
}

#[test]
fn a_writer_reads_its_own_changes_while_it_writes_and_flushes() {
    check(|| {
        let fs = MemFs::new();
        let db = Db::open(DIR, options(&fs).keep_logs_bytes(1 << 20)).unwrap();
        put_both(&db, "1");
        let mut changes = db.changes_since(0).unwrap();
        let writer = db.clone();
        let writer = thread::spawn(move || {
            put_both(&writer, "2");
            writer.flush().unwrap();
            put_both(&writer, "3");
        });
        let mut last = 0;
        let mut read = || {
            let acknowledged = db.sequence();
            for batch in &mut changes {
                let batch = batch.unwrap();
                assert_eq!(batch.sequence(), last + 1);
                last += batch.len() as u64;
                assert!(last <= db.sequence(), "a write that is not visible");
            }
            assert!(last >= acknowledged);
            last
        };
        read();
        read();
        writer.join().unwrap();
        assert_eq!(read(), 6);
    });
}

#[test]
fn a_writer_goes_on_while_readers_refresh() {
    check(|| {
        let fs = MemFs::new();
        let db = open(&fs);
        put_both(&db, "1");
        let follower = follow(&fs);
        let writer = thread::spawn(move || {
            put_both(&db, "2");
            db.flush().unwrap();
            put_both(&db, "3");
            db.close().unwrap();
        });
        let reader = follower.clone();
        let reader = thread::spawn(move || {
            let first = get_both(&reader);
            assert!(get_both(&reader) >= first);
        });
        follower.refresh().unwrap();
        let seen = get_both(&follower);
        follower.refresh().unwrap();
        assert!(get_both(&follower) >= seen);
        reader.join().unwrap();
        writer.join().unwrap();
        follower.refresh().unwrap();
        assert_eq!(get_both(&follower), b"3");
    });
}
