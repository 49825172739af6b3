//! Faults that occur while other threads are waiting.

use std::panic::resume_unwind;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};

use minikv::fs::sim::{CrashPlan, Fault, OpKind, SimFs};
use minikv::{Db, Error, HealthState, Readable};
use shuttle::thread;

use crate::{check, open, options, sync};

const WRITERS: usize = 3;

fn key(writer: usize, number: usize) -> String {
    format!("{writer}.{number}")
}

/// Performs the writes of one thread. Returns, for each write, whether it was acknowledged.
fn write(db: &Db, writer: usize) -> [bool; 2] {
    std::array::from_fn(|number| {
        match db.writing(sync((writer + number).is_multiple_of(2))).put(key(writer, number), "1") {
            Ok(()) => true,
            Err(Error::Io { .. } | Error::ReadOnly { .. }) => false,
            Err(error) => panic!("{error}"),
        }
    })
}

fn assert_same(db: &Db, acknowledged: &[[bool; 2]]) {
    for (writer, numbers) in acknowledged.iter().enumerate() {
        for (number, &there) in numbers.iter().enumerate() {
            let found = db.contains_key(key(writer, number)).unwrap();
            assert_eq!(found, there, "write {number} of {writer}");
        }
    }
    let there = acknowledged.iter().flatten().filter(|there| **there).count();
    let backward = db.iter().rev().map(Result::unwrap).count();
    assert!(backward >= there, "{backward} backward");
    assert_eq!(db.iter().map(Result::unwrap).count(), backward);
}

/// Makes one of the writes fail, while another thread calls `resume`.
fn strike_and_resume(fault: fn() -> Fault, write_buffer_bytes: usize) {
    let fs = SimFs::new(1);
    let options = || options(&fs).write_buffer_bytes(write_buffer_bytes);
    let db = Db::open(crate::DIR, options()).unwrap();
    fs.inject(fault());
    let db = Arc::new(db);
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let db = db.clone();
            thread::spawn(move || write(&db, writer))
        })
        .collect();
    // If the fault has not occurred yet, `resume` does nothing.
    for _ in 0..3 {
        db.resume().unwrap();
        thread::yield_now();
    }
    let acknowledged: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
    // The fault may not have occurred yet.
    fs.clear_faults();
    db.resume().unwrap();
    assert_eq!(db.health().state, HealthState::Good);
    assert_same(&db, &acknowledged);
    db.writing(sync(true)).put("last", "1").unwrap();
    let crashed = open(&fs.crash_image(&CrashPlan::strict()));
    assert!(crashed.contains_key("last").unwrap());
    assert_same(&crashed, &acknowledged);
    assert_same(&db, &acknowledged);
}

#[test]
fn a_failed_append_leaves_nobody_waiting_and_resume_lets_them_write_again() {
    check(|| strike_and_resume(|| Fault::torn_write(9).path("*.log").nth(2), 16 << 10));
}

/// Runs the scene with a write buffer so small that each group of writes fills a memtable. Flushes
/// are therefore running while `resume` is called.
#[test]
fn a_failed_append_beside_flushes_leaves_nobody_waiting_and_loses_nothing() {
    check(|| strike_and_resume(|| Fault::torn_write(9).path("*.log").nth(6), 1));
}

/// Checks that threads that wait for a flush return after a failed append. Background work flushes
/// nothing after such a failure, so these threads must get the error.
#[test]
fn a_failed_append_leaves_nobody_waiting_for_a_flush_or_for_quiet() {
    check(|| {
        let fs = SimFs::new(1);
        let db = open(&fs);
        db.put("a", "1").unwrap();
        // If the flush starts before the puts, the first matching write is the first record of the
        // log that the flush starts.
        fs.inject(Fault::torn_write(9).path("*.log").nth(2));
        let (flusher, waiter) = (db.clone(), db.clone());
        let others = [
            thread::spawn(move || flusher.flush().is_ok()),
            thread::spawn(move || waiter.wait_idle().is_ok()),
        ];
        let written = ["b", "c"].map(|key| db.put(key, "1").is_ok());
        let _may_be_in_time = others.map(|thread| thread.join().unwrap());
        assert!(!written[0] || !written[1] || fs.waiting_faults() > 0);
        assert!(db.contains_key("a").unwrap());
    });
}

#[test]
fn a_failed_sync_leaves_nobody_waiting_and_resume_lets_them_write_again() {
    check(|| {
        strike_and_resume(|| Fault::io_error().on(&[OpKind::Sync]).path("*.log").nth(2), 16 << 10)
    });
}

#[test]
fn a_failed_flush_leaves_nobody_waiting_and_resume_lets_them_write_again() {
    check(|| strike_and_resume(|| Fault::no_space().path("*.ldb"), 1));
}

/// Checks that flushes that a failure ends beside a `resume` return that failure.
#[test]
fn a_failed_flush_is_no_closed_database_to_those_who_wait_for_it() {
    check(|| {
        let fs = SimFs::new(1);
        let db = open(&fs);
        db.put("a", "1").unwrap();
        fs.inject(Fault::no_space().path("*.ldb"));
        let flushers = [(); 2].map(|()| {
            let db = db.clone();
            thread::spawn(move || match db.flush() {
                Ok(()) | Err(Error::Io { .. } | Error::ReadOnly { .. }) => {}
                Err(error) => panic!("{error}"),
            })
        });
        for _ in 0..3 {
            db.resume().unwrap();
            thread::yield_now();
        }
        flushers.into_iter().for_each(|flusher| flusher.join().unwrap());
        db.resume().unwrap();
        db.flush().unwrap();
        assert!(db.contains_key("a").unwrap());
    });
}

/// Checks that `close` and `resume` both return if one thread closes the database while another
/// thread resumes it after a failed write.
#[test]
fn close_beside_resume_lets_both_return() {
    check(|| {
        let fs = SimFs::new(1);
        let db = Db::open(crate::DIR, options(&fs).write_buffer_bytes(1)).unwrap();
        db.put("kept", "1").unwrap();
        fs.inject(Fault::torn_write(9).path("*.log"));
        db.put("failed", "1").unwrap_err();
        let (resumer, writer) = (db.clone(), db.clone());
        let resumer = thread::spawn(move || resumer.resume().is_ok());
        let writer = thread::spawn(move || writer.put("later", "1").is_ok());
        let _whether_it_had_failed_still = db.close();
        resumer.join().unwrap();
        let written = writer.join().unwrap();
        let db = open(&fs);
        assert!(db.contains_key("kept").unwrap());
        assert!(db.contains_key("later").unwrap() || !written);
    });
}

/// Makes the filesystem panic once, at the `nth` operation of `kind` on files with this extension.
fn panic_once(fs: &SimFs, kind: OpKind, extension: &'static str, nth: usize) {
    let seen = AtomicUsize::new(0);
    fs.set_hook(move |operation| {
        let is_named = operation.path.extension().is_some_and(|found| found == extension);
        if operation.kind == kind && is_named && seen.fetch_add(1, SeqCst) == nth {
            resume_unwind(Box::new("the disk is not there"));
        }
    });
}

/// Runs writers, a flush and a wait for background work, while a leader or a background thread
/// panics. All of these calls must return.
fn panic_and_resume(kind: OpKind, extension: &'static str, nth: usize, buffer_bytes: usize) {
    let fs = SimFs::new(1);
    let db = Db::open(crate::DIR, options(&fs).write_buffer_bytes(buffer_bytes)).unwrap();
    panic_once(&fs, kind, extension, nth);
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let db = db.clone();
            thread::spawn(move || {
                std::array::from_fn(|number| {
                    let option = sync((writer + number).is_multiple_of(2));
                    match db.writing(option).put(key(writer, number), "1") {
                        Ok(()) => true,
                        Err(Error::Panicked { .. } | Error::ReadOnly { .. }) => false,
                        Err(error) => panic!("{error}"),
                    }
                })
            })
        })
        .collect();
    let _may_be_in_time = (db.flush(), db.wait_idle());
    let acknowledged: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
    fs.clear_hook();
    db.resume().unwrap();
    assert_same(&db, &acknowledged);
    db.writing(sync(true)).put("last", "1").unwrap();
    db.close().unwrap();
    assert_same(&open(&fs), &acknowledged);
}

#[test]
fn a_leader_that_panics_leaves_nobody_waiting_and_resume_lets_them_write_again() {
    check(|| panic_and_resume(OpKind::Sync, "log", 0, 16 << 10));
}

#[test]
fn a_flush_that_panics_leaves_nobody_waiting_and_resume_lets_them_write_again() {
    check(|| panic_and_resume(OpKind::Create, "ldb", 1, 1));
}

/// A range delete that panicked used to let the next write go on before it stopped all writes. That
/// write got the sequence number of a deletion in the log, and the next open put a later deletion
/// over it.
#[test]
fn a_range_delete_that_panics_lets_no_write_follow_that_the_next_open_would_lose() {
    check(|| {
        let fs = SimFs::new(1);
        let db = open(&fs);
        ["a", "b"].iter().for_each(|key| db.put(key, "1").unwrap());
        let (other, has_begun) = (db.clone(), AtomicBool::new(false));
        let writer = Arc::new(Mutex::new(None));
        let spawned = writer.clone();
        fs.set_hook(move |operation| {
            let is_log = operation.path.extension().is_some_and(|found| found == "log");
            if operation.kind == OpKind::Sync && is_log && !has_begun.swap(true, SeqCst) {
                // The deletions are in the log.
                let db = other.clone();
                let put = thread::spawn(move || db.put("b", "2").is_ok());
                *spawned.lock().unwrap() = Some(put);
                resume_unwind(Box::new("the disk is not there"));
            }
        });
        let deleted = db.writing(sync(true)).delete_range("a"..="b");
        assert!(matches!(deleted, Err(Error::Panicked { .. })), "{deleted:?}");
        let writer = writer.lock().unwrap().take().unwrap();
        let is_written = writer.join().unwrap();
        fs.clear_hook();
        drop(db);
        let found = open(&fs).get("b").unwrap();
        assert!(!is_written || found.as_deref() == Some(b"2"), "{found:?}");
    });
}
