//! The queue of writers.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use minikv::backup::Backups;
use minikv::fs::MemFs;
use minikv::fs::sim::{CrashPlan, SimFs};
use minikv::{Db, Options, Readable, Snapshot, WriteBatch};
use shuttle::thread;

use crate::{check, open, options, sync};

const WRITERS: usize = 3;
const BATCHES: usize = 2;

fn key(writer: usize, batch: usize, part: usize) -> String {
    format!("{writer}.{batch}.{part}")
}

/// Returns a batch of two keys that are in no other batch.
fn batch(writer: usize, number: usize) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(key(writer, number, 0), "first");
    batch.put(key(writer, number, 1), "second");
    batch
}

/// Returns, for each writer, the number of the writer's batches that a snapshot shows. Checks that
/// each of these batches is complete, and that no earlier batch of the writer is missing.
fn batches_seen(snapshot: &Snapshot) -> [usize; WRITERS] {
    let has = |writer, number, part| snapshot.contains_key(key(writer, number, part)).unwrap();
    let seen = std::array::from_fn(|writer| {
        let mut seen = 0;
        for number in 0..BATCHES {
            let parts = [has(writer, number, 0), has(writer, number, 1)];
            assert_eq!(parts[0], parts[1], "batch {number} of {writer} is there in part");
            if parts[0] {
                assert_eq!(seen, number, "a batch of {writer} is left out");
                seen += 1;
            }
        }
        seen
    });
    // Every write has a sequence number, and the snapshot shows all writes up to its own sequence
    // number.
    let entries = snapshot.iter().map(Result::unwrap).count();
    assert_eq!(entries as u64, snapshot.sequence());
    assert_eq!(snapshot.iter().rev().map(Result::unwrap).count(), entries);
    assert_eq!(entries, 2 * seen.iter().sum::<usize>());
    seen
}

fn write_and_read(db: &Db) {
    let done: Arc<[AtomicUsize; WRITERS]> = Arc::default();
    let mut threads = Vec::new();
    for writer in 0..WRITERS {
        let (db, done) = (db.clone(), done.clone());
        threads.push(thread::spawn(move || {
            for number in 0..BATCHES {
                let synced = (writer + number).is_multiple_of(2);
                db.writing(sync(synced)).write(batch(writer, number)).unwrap();
                done[writer].fetch_add(1, SeqCst);
                assert!(db.contains_key(key(writer, number, 1)).unwrap(), "one's own write");
            }
        }));
    }
    for _ in 0..2 {
        let at_least: Vec<_> = done.iter().map(|done| done.load(SeqCst)).collect();
        let seen = batches_seen(&db.snapshot());
        assert!(seen.iter().zip(&at_least).all(|(seen, least)| seen >= least));
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(batches_seen(&db.snapshot()), [BATCHES; WRITERS]);
}

#[test]
fn writers_in_the_queue_are_all_served_and_each_batch_is_whole() {
    check(|| {
        let fs = MemFs::new();
        let db = open(&fs);
        write_and_read(&db);
        db.close().unwrap();
        assert_eq!(batches_seen(&open(&fs).snapshot()), [BATCHES; WRITERS]);
    });
}

/// Checks that a sync covers all earlier writes of the thread that syncs, whichever thread leads
/// the group.
#[test]
fn writes_before_a_sync_are_durable_after_it() {
    check(|| {
        let fs = SimFs::new(1);
        let options = Options::default().create_if_missing(true).fs(fs.clone());
        let db = Db::open(crate::DIR, options.clone().write_buffer_bytes(1 << 10)).unwrap();
        let threads: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (db, fs, options) = (db.clone(), fs.clone(), options.clone());
                thread::spawn(move || {
                    db.put(format!("{writer}"), "value").unwrap();
                    db.sync().unwrap();
                    let crashed = fs.crash_image(&CrashPlan::strict());
                    let db = Db::open(crate::DIR, options.fs(crashed)).unwrap();
                    assert!(db.contains_key(format!("{writer}")).unwrap(), "a synced put is lost");
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// Checks that all writers are served if each group fills a memtable: the leader waits for flushes,
/// while the other writers wait for the leader.
#[test]
fn writers_in_the_queue_are_served_while_each_group_fills_a_memtable() {
    check(|| {
        let fs = MemFs::new();
        let db = Db::open(crate::DIR, options(&fs).write_buffer_bytes(1)).unwrap();
        write_and_read(&db);
        drop(db);
        assert_eq!(batches_seen(&open(&fs).snapshot()), [BATCHES; WRITERS]);
    });
}

/// Checks that a checkpoint shows the state of the database at one moment.
#[test]
fn a_checkpoint_beside_writers_is_a_prefix() {
    check(|| {
        let fs = MemFs::new();
        let db = Db::open(crate::DIR, options(&fs).write_buffer_bytes(1)).unwrap();
        let done: Arc<[AtomicUsize; WRITERS]> = Arc::default();
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (db, done) = (db.clone(), done.clone());
                thread::spawn(move || {
                    for number in 0..BATCHES {
                        db.write(batch(writer, number)).unwrap();
                        done[writer].fetch_add(1, SeqCst);
                    }
                })
            })
            .collect();
        let at_least: Vec<_> = done.iter().map(|done| done.load(SeqCst)).collect();
        db.checkpoint("/copy").unwrap();
        let copy = Db::open("/copy", options(&fs)).unwrap();
        let seen = batches_seen(&copy.snapshot());
        assert!(seen.iter().zip(&at_least).all(|(seen, least)| seen >= least));
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert_eq!(batches_seen(&db.snapshot()), [BATCHES; WRITERS]);
    });
}

/// Checks that a backup shows the state of the database at one moment.
#[test]
fn a_backup_beside_writers_is_a_prefix() {
    check(|| {
        let fs = MemFs::new();
        let db = Db::open(crate::DIR, options(&fs).write_buffer_bytes(1)).unwrap();
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let db = db.clone();
                thread::spawn(move || {
                    for number in 0..BATCHES {
                        db.write(batch(writer, number)).unwrap();
                    }
                })
            })
            .collect();
        db.backup("/backups").unwrap();
        let second = db.backup("/backups").unwrap().number;
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        let backups = Backups::open("/backups", &options(&fs)).unwrap();
        let mut seen = [1, second].map(|number| {
            let copy = format!("/copy{number}");
            backups.restore(Some(number), &copy, |_| {}).unwrap();
            batches_seen(&Db::open(&copy, options(&fs)).unwrap().snapshot())
        });
        seen.reverse();
        assert!(seen[0].iter().zip(&seen[1]).all(|(second, first)| second >= first), "{seen:?}");
        assert_eq!(batches_seen(&db.snapshot()), [BATCHES; WRITERS]);
    });
}
