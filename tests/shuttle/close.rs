//! Calls of `close` that are concurrent with other operations.

use minikv::fs::MemFs;
use minikv::{Db, Error, Readable, Result};
use shuttle::thread::{self, JoinHandle};

use crate::{check, open, options, sync, tables};

/// Returns whether a call succeeded. The only error allowed is "closed".
fn or_closed(result: Result<()>) -> bool {
    match result {
        Ok(()) => true,
        Err(Error::Closed) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Starts a thread that writes until the database is closed. The thread returns the number of
/// acknowledged writes.
fn writer(db: &Db, name: &'static str, synced: bool) -> JoinHandle<usize> {
    let db = db.clone();
    thread::spawn(move || {
        (0..3)
            .take_while(|n| or_closed(db.writing(sync(synced)).put(format!("{name}{n}"), "1")))
            .count()
    })
}

fn assert_there(db: &Db, name: &str, acknowledged: usize) {
    for n in 0..acknowledged {
        assert!(db.contains_key(format!("{name}{n}")).unwrap(), "{name}{n} is lost");
    }
    let backward = db.prefix(name).unwrap().rev().count();
    assert!(backward >= acknowledged, "{backward} backward");
}

#[test]
fn close_beside_writers_flush_and_compactions_lets_all_return_and_loses_nothing() {
    check(|| {
        let fs = MemFs::new();
        let db = Db::open(crate::DIR, options(&fs).write_buffer_bytes(1)).unwrap();
        let writers = [writer(&db, "a", false), writer(&db, "b", true)];
        let (flusher, compactor) = (db.clone(), db.clone());
        let others = [
            thread::spawn(move || or_closed(flusher.flush())),
            thread::spawn(move || or_closed(compactor.compact_range(..))),
        ];
        db.close().unwrap();
        let written = writers.map(|writer| writer.join().unwrap());
        let _whether_done = others.map(|thread| thread.join().unwrap());
        let db = open(&fs);
        assert_there(&db, "a", written[0]);
        assert_there(&db, "b", written[1]);
        assert!(db.recovery().lost.is_empty());
    });
}

/// Checks that a close loses nothing while a synced write is waiting. The write waits until the
/// data that the open replayed from a log is in tables.
#[test]
fn close_beside_a_synced_write_after_replay_loses_nothing() {
    check(|| {
        let fs = MemFs::new();
        let db = open(&fs);
        db.put("before", "1").unwrap();
        drop(db);
        let db = Db::open(crate::DIR, options(&fs).write_buffer_bytes(1)).unwrap();
        db.put("after", "1").unwrap();
        let writer = writer(&db, "a", true);
        db.close().unwrap();
        let written = writer.join().unwrap();
        let db = open(&fs);
        assert!(db.contains_key("before").unwrap(), "a write of an earlier run is lost");
        assert!(db.contains_key("after").unwrap(), "an acknowledged write is lost");
        assert_there(&db, "a", written);
        db.wait_idle().unwrap();
        assert_eq!(tables(&fs).len(), crate::live_tables(&db));
    });
}

/// Closes the database in two threads while a third thread waits for background work to end.
#[test]
fn close_twice_beside_one_that_waits_for_quiet() {
    check(|| {
        let fs = MemFs::new();
        let db = Db::open(crate::DIR, options(&fs).write_buffer_bytes(1)).unwrap();
        db.put("a", "1").unwrap();
        db.put("b", "1").unwrap();
        let (other, waiter) = (db.clone(), db.clone());
        let closer = thread::spawn(move || other.close().unwrap());
        let waiter = thread::spawn(move || or_closed(waiter.wait_idle()));
        db.close().unwrap();
        closer.join().unwrap();
        waiter.join().unwrap();
        let db = open(&fs);
        assert!(db.contains_key("a").unwrap() && db.contains_key("b").unwrap());
    });
}
