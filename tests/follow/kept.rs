//! Tests of logs that are kept after their writes were flushed, and of reading changes from these
//! logs.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use minikv::bulk::TableWriter;
use minikv::files::{self, FileName};
use minikv::follow::Changes;
use minikv::fs::sim::{CrashPlan, Fault, OpKind, SimFs};
use minikv::fs::{DiskFs, Fs};
use minikv::{Db, Error, Options, ReadOnlyDb, Readable, WriteOptions, destroy, repair, verify};

use crate::changes::{Write, read, write};
use crate::rng::{Rng, seed};
use crate::{DIR, of_iter, options};

/// Returns two lists of the logs in `dir`, with the number and file size of each log: first the
/// kept logs, whose writes are all in tables, then the other logs.
fn logs_in(fs: &dyn Fs, dir: &str) -> [Vec<(u64, u64)>; 2] {
    let dir = Path::new(dir);
    let recovered = files::recover_manifest(fs, dir, "leveldb.BytewiseComparator").unwrap();
    let log = |(name, parsed): (String, FileName)| match parsed {
        FileName::Log(number) => Some((number, fs.len(&dir.join(name)).unwrap())),
        _ => None,
    };
    let mut logs: Vec<_> =
        files::list_files(fs, dir).unwrap().into_iter().filter_map(log).collect();
    logs.sort_unstable();
    let (kept, live) = logs.into_iter().partition(|(number, _)| *number < recovered.log_number);
    [kept, live]
}

fn kept(fs: &dyn Fs) -> Vec<u64> {
    logs_in(fs, DIR)[0].iter().map(|(number, _)| *number).collect()
}

/// Outcome of reading changes until no more are available.
#[derive(Debug, PartialEq)]
enum End {
    Whole,
    /// Changes after the first sequence number are lost. The second number is that of the next
    /// available change.
    Lost(u64, u64),
    Failed(String),
}

fn all_of(changes: minikv::Result<Changes>) -> (Vec<Write>, End) {
    let mut found = Vec::new();
    let end = match read(&mut changes.unwrap(), &mut found) {
        Ok(()) => End::Whole,
        Err(Error::ChangesLost { after, next }) => End::Lost(after, next),
        Err(error) => End::Failed(error.to_string()),
    };
    (found, end)
}

/// Puts one value at a time, each into a log of its own. Returns the numbers of the logs.
fn put_and_flush(db: &Db, fs: &dyn Fs, keys: std::ops::Range<u32>) -> Vec<u64> {
    let log = |key: u32| {
        db.put(key.to_string(), [7; 100]).unwrap();
        let last = logs_in(fs, DIR)[1].last().unwrap().0;
        db.flush().unwrap();
        last
    };
    keys.map(log).collect()
}

#[test]
fn logs_are_kept_up_to_their_size_and_removed_beyond_it() {
    for limit in [0, 100, 700, 5000, 1 << 20] {
        let fs = SimFs::new(1);
        let options = options(&fs, 1).keep_logs_bytes(limit);
        let db = Db::open(DIR, options).unwrap();
        let (mut rng, mut written) = (Rng::new(seed()), Vec::new());
        let first = logs_in(&fs, DIR)[1][0].0;
        for step in 0..300 {
            write(&db, &mut rng, &mut written);
            if rng.one_in(5) {
                db.flush().unwrap();
            }
            let bytes: u64 = logs_in(&fs, DIR)[0].iter().map(|(_, bytes)| bytes).sum();
            assert!(bytes <= limit, "step {step}: {bytes} of {limit}");
            // No log is removed before its space is needed.
            let is_full = bytes + 3000 > limit;
            let all = all_of(db.changes_since(0));
            assert!(is_full || all == (written.clone(), End::Whole), "step {step} of {limit}");
        }
        assert_eq!(limit == 1 << 20, kept(&fs).contains(&first), "{limit}");
    }
}

#[test]
fn logs_are_kept_for_their_time() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().to_str().unwrap();
    let plain = Options::default().create_if_missing(true);
    let options = plain.clone().keep_logs_for(Duration::from_secs(3600));
    let put = |db: &Db, key: &str| {
        db.put(key, "value").unwrap();
        db.flush().unwrap();
        // Waits for the removal of logs, which happens only after the flush.
        db.wait_idle().unwrap();
    };
    let db = Db::open(dir, options.clone()).unwrap();
    ["a", "b", "c", "d"].iter().for_each(|key| put(&db, key));
    assert_eq!(logs_in(&DiskFs, dir)[0].len(), 4);
    assert_eq!(all_of(db.changes_since(0)).0.len(), 4);
    db.close().unwrap();
    // Makes the second log look as if it had last been written two hours ago. The open must then
    // remove this log and the log before it.
    let second = Path::new(dir).join(format!("{:06}.log", logs_in(&DiskFs, dir)[0][1].0));
    let then = SystemTime::now() - Duration::from_secs(7200);
    let file = std::fs::File::options().write(true).open(second).unwrap();
    file.set_modified(then).unwrap();
    drop(file);
    let db = Db::open(dir, options.clone()).unwrap();
    let (found, end) = all_of(db.changes_since(2));
    assert_eq!((found.len(), end), (2, End::Whole));
    assert_eq!(found[0].1, b"c");
    let (found, end) = all_of(db.changes_since(1));
    assert_eq!(found, []);
    assert_eq!(end, End::Lost(1, 3));
    db.close().unwrap();
    // Each log is removed by the first flush after the time limit has passed.
    let short = plain.keep_logs_for(Duration::from_millis(30));
    let db = Db::open(dir, short).unwrap();
    for key in ["e", "f"] {
        let last = logs_in(&DiskFs, dir)[1].last().unwrap().0;
        std::thread::sleep(Duration::from_millis(40));
        put(&db, key);
        assert!(logs_in(&DiskFs, dir)[0].iter().all(|(number, _)| *number >= last), "{key}");
    }
}

#[test]
fn kept_logs_outlive_an_open_with_the_option_and_no_other() {
    let fs = SimFs::new(1);
    for reuse in [false, true] {
        let plain = options(&fs, 1).reuse_logs(reuse);
        let keeping = plain.clone().keep_logs_bytes(1 << 20);
        let db = Db::open(DIR, keeping.clone()).unwrap();
        let logs = put_and_flush(&db, &fs, 0..4);
        db.put("live", "1").unwrap();
        drop(db);
        for _ in 0..3 {
            let db = Db::open(DIR, keeping.clone()).unwrap();
            assert!(kept(&fs).starts_with(&logs));
            let (found, end) = all_of(db.changes_since(0));
            assert_eq!((found.len(), end), (5, End::Whole));
            assert_eq!(found.last().unwrap().1, b"live");
        }
        // A lower limit takes effect when the database is opened.
        let db = Db::open(DIR, plain.clone().keep_logs_bytes(400)).unwrap();
        assert!(!kept(&fs).contains(&logs[0]) && kept(&fs).contains(&logs[3]));
        drop(db);
        let db = Db::open(DIR, plain).unwrap();
        assert_eq!(kept(&fs), []);
        let (_, end) = all_of(db.changes_since(0));
        assert!(matches!(end, End::Lost(0, _)), "{end:?}");
        assert_eq!(db.iter().count(), 5);
        drop(db);
        destroy(DIR, &keeping).unwrap();
    }
}

#[test]
fn a_gap_between_logs_is_an_error_at_the_gap() {
    let fs = SimFs::new(1);
    let db = Db::open(DIR, options(&fs, 1).keep_logs_bytes(1 << 20)).unwrap();
    let logs = put_and_flush(&db, &fs, 0..5);
    let follower = Db::open_read_only(DIR, options(&fs, 1)).unwrap();
    let (mut begun, mut found) = (db.changes_since(0).unwrap(), Vec::new());
    found.push(begun.next().unwrap().unwrap().sequence());
    fs.remove(&Path::new(DIR).join(format!("{:06}.log", logs[2]))).unwrap();
    let both = || [db.changes_since(0), follower.changes_since(0)];
    for changes in both() {
        let (found, end) = all_of(changes);
        assert_eq!(found.iter().map(|write| write.0).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(end, End::Lost(2, 4));
    }
    for changes in [db.changes_since(3), follower.changes_since(3)] {
        let (found, end) = all_of(changes);
        assert_eq!((found.len(), found[0].0, end), (2, 4, End::Whole));
    }
    let (_, end) = all_of(db.changes_since(2));
    assert_eq!(end, End::Lost(2, 4));
    // `begun` still returns the change in the second log, and then reports the gap after it.
    assert_eq!(begun.next().unwrap().unwrap().sequence(), 2);
    assert!(matches!(begun.next(), Some(Err(Error::ChangesLost { after: 2, .. }))));
}

#[test]
fn tables_that_were_ingested_are_a_gap_although_logs_are_kept() {
    let fs = SimFs::new(1);
    let options = options(&fs, 1).keep_logs_bytes(1 << 20);
    let db = Db::open(DIR, options.clone()).unwrap();
    put_and_flush(&db, &fs, 0..2);
    let mut tables = TableWriter::create("/tables", &options).unwrap();
    tables.put("ingested", "1").unwrap();
    db.ingest(&tables.finish().unwrap()).unwrap();
    let last = db.sequence();
    let (found, end) = all_of(db.changes_since(0));
    assert_eq!(found.len(), 2);
    assert_eq!(end, End::Lost(2, last));
    db.put("after", "1").unwrap();
    assert_eq!(all_of(db.changes_since(1)).1, End::Lost(2, last + 1));
    let (found, end) = all_of(db.changes_since(last));
    assert_eq!((found.len(), end), (1, End::Whole));
}

#[test]
fn a_writer_reads_its_own_changes_as_soon_as_they_are_acknowledged() {
    let mut rng = Rng::new(seed());
    for round in 0..10 {
        let fs = SimFs::new(round);
        let options = options(&fs, round).keep_logs_bytes(1 << 30).reuse_logs(round % 2 == 0);
        let mut db = Db::open(DIR, options.clone()).unwrap();
        let follower = Db::open_read_only(DIR, options.clone()).unwrap();
        let (mut written, mut found) = (Vec::new(), Vec::new());
        let mut changes = db.changes_since(0).unwrap();
        for step in 0..300 {
            write(&db, &mut rng, &mut written);
            match rng.below(40) {
                0 => db.flush().unwrap(),
                1 => db.compact_range(..).unwrap(),
                2 => {
                    drop((changes, db));
                    db = Db::open(DIR, options.clone()).unwrap();
                    changes = db.changes_since(found.len() as u64).unwrap();
                }
                _ => {}
            }
            if !rng.one_in(3) {
                read(&mut changes, &mut found).unwrap();
                assert!(found == written, "round {round}, step {step}");
            }
            if rng.one_in(10) {
                let since = rng.below(written.len() + 1) as u64;
                let both = [db.changes_since(since), follower.changes_since(since)];
                let [(mine, end), theirs] = both.map(all_of);
                assert!((&mine, &end) == (&theirs.0, &theirs.1) && end == End::Whole);
                let first = mine.first().map_or(since, |write| write.0 - 1);
                assert!(first <= since && since - first < 3);
                assert!(mine == written[first as usize..], "round {round}, since {since}");
            }
        }
        assert!(kept(&fs).len() > 10);
    }
}

#[test]
fn changes_on_the_disk_are_read_beside_threads_that_write() {
    const WRITES: u64 = 20_000;
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().create_if_missing(true).write_buffer_bytes(128 << 10);
    let options = options.keep_logs_bytes(1 << 30);
    let db = Db::open(dir.path(), options.clone()).unwrap();
    let follower = Db::open_read_only(dir.path(), options).unwrap();
    let read = |mut changes: Changes| {
        let mut last = 0;
        while last < WRITES {
            let least = db.sequence();
            for batch in &mut changes {
                let batch = batch.unwrap();
                assert_eq!(batch.sequence(), last + 1);
                last += batch.len() as u64;
            }
            assert!(last >= least && changes.sequence() == last);
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let db = db.clone();
            scope.spawn(move || {
                for number in 0..WRITES / 2 {
                    let key = format!("{thread}{number:06}");
                    db.put(key, vec![7; 20 + number as usize % 200]).unwrap();
                }
            });
        }
        scope.spawn(|| read(db.changes_since(0).unwrap()));
        scope.spawn(|| read(follower.changes_since(0).unwrap()));
    });
    assert!(logs_in(&DiskFs, dir.path().to_str().unwrap())[0].len() > 5);
    read(db.changes_since(0).unwrap());
}

#[test]
fn a_sequence_number_of_the_future_is_an_error() {
    let fs = SimFs::new(1);
    let db = Db::open(DIR, options(&fs, 1)).unwrap();
    let follower = Db::open_read_only(DIR, options(&fs, 1)).unwrap();
    db.put("a", "1").unwrap();
    for since in [2, u64::MAX] {
        for changes in [db.changes_since(since), follower.changes_since(since)] {
            assert_eq!(all_of(changes), (Vec::new(), End::Lost(since, 1)));
        }
    }
}

#[test]
fn a_write_that_failed_is_never_among_the_changes() {
    for fault in [Fault::io_error().on(&[OpKind::Sync]), Fault::io_error().on(&[OpKind::Write])] {
        let fs = SimFs::new(1);
        let db = Db::open(DIR, options(&fs, 1).keep_logs_bytes(1 << 20)).unwrap();
        db.put("a", "1").unwrap();
        let mut changes = db.changes_since(0).unwrap();
        assert_eq!(changes.next().unwrap().unwrap().sequence(), 1);
        fs.inject(fault.path("*.log"));
        db.writing(WriteOptions::default().sync(true)).put("failed", "2").unwrap_err();
        assert!(changes.next().is_none());
        db.resume().unwrap();
        assert!(changes.next().is_none());
        db.put("b", "3").unwrap();
        let expected = [(2, b"b".to_vec(), Some(b"3".to_vec()))];
        let mut found = Vec::new();
        read(&mut changes, &mut found).unwrap();
        assert_eq!(found, expected);
        // The log with the record of the failed write is kept.
        db.flush().unwrap();
        let follower = Db::open_read_only(DIR, options(&fs, 1)).unwrap();
        for changes in [db.changes_since(0), follower.changes_since(0)] {
            let (found, end) = all_of(changes);
            assert!(end == End::Whole && found[1..] == expected, "{found:?} {end:?}");
        }
    }
}

/// Checks that the changes after each sequence number are those of `expected`, whose numbers begin
/// with 1, both for the writer and for a follower.
fn assert_changes(db: &Db, follower: &ReadOnlyDb, expected: &[(&str, &str)]) {
    let write = |at: usize| {
        let (key, value) = expected[at];
        (at as u64 + 1, key.as_bytes().to_vec(), Some(value.as_bytes().to_vec()))
    };
    for since in 0..=expected.len() {
        let left: Vec<Write> = (since..expected.len()).map(write).collect();
        for changes in [db.changes_since(since as u64), follower.changes_since(since as u64)] {
            assert_eq!(all_of(changes), (left.clone(), End::Whole), "since {since}");
        }
    }
}

/// A resume that began a log and then failed left a log that states the number of the failed write.
/// If the next open replayed that write, its change was reported as lost.
#[test]
fn a_failed_write_that_an_open_replays_is_a_change_although_a_resume_began_a_log() {
    let fs = SimFs::new(1);
    let options = options(&fs, 1).keep_logs_bytes(1 << 20);
    let writer = Db::open(DIR, options.clone()).unwrap();
    writer.put("a", "1").unwrap();
    fs.inject(Fault::io_error().on(&[OpKind::Sync]).path("*.log"));
    writer.writing(WriteOptions::default().sync(true)).put("failed", "2").unwrap_err();
    fs.inject(Fault::no_space().on(&[OpKind::Create]).path("*.ldb"));
    writer.resume().unwrap_err();
    drop(writer);
    let mut expected = vec![("a", "1"), ("failed", "2")];
    for later in ["b", "c", "d"] {
        let db = Db::open(DIR, options.clone()).unwrap();
        let follower = Db::open_read_only(DIR, options.clone()).unwrap();
        assert_changes(&db, &follower, &expected);
        db.put(later, "3").unwrap();
        expected.push((later, "3"));
        assert_changes(&db, &follower, &expected);
        if later == "b" {
            db.flush().unwrap();
            assert_changes(&db, &follower, &expected);
        }
    }
}

#[test]
fn a_failed_write_that_a_resume_gave_up_is_no_change_after_an_open() {
    let fs = SimFs::new(1);
    let options = options(&fs, 1).keep_logs_bytes(1 << 20);
    let db = Db::open(DIR, options.clone()).unwrap();
    db.put("a", "1").unwrap();
    fs.inject(Fault::io_error().on(&[OpKind::Sync]).path("*.log"));
    db.writing(WriteOptions::default().sync(true)).put("failed", "2").unwrap_err();
    db.resume().unwrap();
    drop(db);
    // The log that the resume began holds no write.
    let db = Db::open(DIR, options.clone()).unwrap();
    let follower = Db::open_read_only(DIR, options).unwrap();
    assert_changes(&db, &follower, &[("a", "1")]);
    db.put("b", "3").unwrap();
    assert_changes(&db, &follower, &[("a", "1"), ("b", "3")]);
}

#[test]
fn a_write_that_is_being_synced_is_no_change_yet() {
    for fails in [false, true] {
        let fs = SimFs::new(1);
        let db = Db::open(DIR, options(&fs, 1)).unwrap();
        let changes = Arc::new(Mutex::new(db.changes_since(0).unwrap()));
        db.put("a", "1").unwrap();
        let (of_hook, seen) = (changes.clone(), Arc::new(Mutex::new(Vec::new())));
        let of_test = seen.clone();
        fs.set_hook(move |operation| {
            if operation.kind == OpKind::Sync
                && let Ok(mut changes) = of_hook.try_lock()
            {
                of_test.lock().unwrap().extend((&mut *changes).map(|b| b.unwrap().sequence()));
            }
        });
        if fails {
            fs.inject(Fault::io_error().on(&[OpKind::Sync]).path("*.log"));
        }
        // By the time of the sync, the log already contains the record of the second write.
        let put = db.writing(WriteOptions::default().sync(true)).put("b", "2");
        assert_eq!(put.is_err(), fails);
        assert_eq!(*seen.lock().unwrap(), [1]);
        fs.clear_hook();
        let mut changes = changes.lock().unwrap();
        let left: Vec<u64> = (&mut *changes).map(|batch| batch.unwrap().sequence()).collect();
        assert_eq!(left, if fails { vec![] } else { vec![2] });
    }
}

#[test]
fn changes_outlive_the_database_that_they_are_of() {
    let fs = SimFs::new(1);
    let options = options(&fs, 1).keep_logs_bytes(1 << 20);
    let db = Db::open(DIR, options.clone()).unwrap();
    put_and_flush(&db, &fs, 0..2);
    db.put("live", "1").unwrap();
    let mut changes = db.changes_since(0).unwrap();
    db.close().unwrap();
    let mut found = Vec::new();
    read(&mut changes, &mut found).unwrap();
    assert_eq!(found.len(), 3);
    assert!(matches!(Db::open(DIR, options.clone()), Err(Error::Locked { .. })));
    drop(changes);
    Db::open(DIR, options).unwrap();
}

/// Makes a database whose entries were all written twice, to logs that are kept. One of the entries
/// was written a third time, to a log that is not flushed. Returns the entries, and the numbers of
/// the logs of the first writes.
fn overwritten(fs: &SimFs, options: &Options) -> (crate::Entries, Vec<u64>) {
    let db = Db::open(DIR, options.clone()).unwrap();
    let logs = put_and_flush(&db, fs, 0..6);
    for key in 0..6 {
        db.put(key.to_string(), "new").unwrap();
    }
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    db.put("5", "live").unwrap();
    let entries = of_iter(db.iter());
    db.close().unwrap();
    (entries, logs)
}

#[test]
fn kept_logs_are_no_part_of_the_database() {
    let fs = SimFs::new(1);
    let options = options(&fs, 1).keep_logs_bytes(1 << 20);
    let (entries, logs) = overwritten(&fs, &options);
    // Damage in a kept log is noticed only by readers of changes.
    let damaged = Path::new(DIR).join(format!("{:06}.log", logs[3]));
    fs.damage(&damaged, 30, 1).unwrap();
    let report = verify(DIR, &options).unwrap();
    assert!(report.is_sound(), "{:?}", report.faults);
    assert!(report.notes.is_empty(), "{:?}", report.notes);
    let reader = Db::open_read_only(DIR, options.clone().paranoid_checks(true)).unwrap();
    assert_eq!(of_iter(reader.iter()), entries);
    assert_eq!(reader.recovery().logs, 1);
    minikv::checkpoint(DIR, "/copy", &options).unwrap();
    assert!(repair(DIR, &options, Default::default()).unwrap().healthy);
    assert_eq!(kept(&fs)[..6], logs, "repair has changed something");
    let db = Db::open(DIR, options.clone().paranoid_checks(true)).unwrap();
    assert_eq!(of_iter(db.iter()), entries);
    assert_eq!(db.recovery().logs, 1);
    db.checkpoint("/checkpoint").unwrap();
    db.backup("/backup").unwrap();
    for copy in ["/copy", "/checkpoint"] {
        let names = fs.list(Path::new(copy)).unwrap();
        assert!(names.iter().all(|name| !logs.iter().any(|log| *name == format!("{log:06}.log"))));
        let copy = Db::open_read_only(copy, options.clone()).unwrap();
        assert_eq!(of_iter(copy.iter()), entries);
        // A copy has no kept logs.
        assert!(matches!(all_of(copy.changes_since(0)).1, End::Lost(0, _)));
    }
    let (found, end) = all_of(db.changes_since(0));
    assert_eq!(found.len(), 3);
    let End::Failed(text) = end else { panic!("{end:?}") };
    assert!(text.contains(damaged.to_str().unwrap()), "{text}");
    assert_eq!(all_of(db.changes_since(4)).1, End::Whole);
    drop(db);
    destroy(DIR, &options).unwrap();
    assert_eq!(fs.list(Path::new(DIR)).unwrap_or_default(), [""; 0]);
}

#[test]
fn a_repair_puts_no_kept_log_over_newer_tables() {
    // Without the MANIFEST, a repair cannot tell kept logs from other logs. Even if a kept log is
    // damaged, the repair reads the logs after it.
    for damaged in [None, Some(0), Some(3), Some(5)] {
        let fs = SimFs::new(1);
        let options = options(&fs, 1).keep_logs_bytes(1 << 20);
        let (entries, logs) = overwritten(&fs, &options);
        for name in fs.list(Path::new(DIR)).unwrap() {
            if name.starts_with("MANIFEST") || name == "CURRENT" {
                fs.remove(&Path::new(DIR).join(name)).unwrap();
            }
        }
        if let Some(at) = damaged {
            let log: u64 = logs[at];
            fs.damage(&Path::new(DIR).join(format!("{log:06}.log")), 30, 1).unwrap();
        }
        repair(DIR, &options, Default::default()).unwrap();
        let db = Db::open(DIR, options.clone()).unwrap();
        assert_eq!(of_iter(db.iter()), entries, "{damaged:?}");
        assert_eq!(db.sequence(), 13);
        assert_ne!(all_of(db.changes_since(0)).1, End::Whole, "logs went to lost/");
        db.put("after", "1").unwrap();
        assert_eq!(all_of(db.changes_since(13)).0.len(), 1);
        assert!(verify(DIR, &options).unwrap().is_sound());
    }
}

#[test]
fn a_damaged_kept_log_does_not_keep_a_repair_from_later_logs() {
    let fs = SimFs::new(1);
    let options = options(&fs, 1).keep_logs_bytes(1 << 20);
    let db = Db::open(DIR, options.clone()).unwrap();
    let logs = put_and_flush(&db, &fs, 0..6);
    db.put("live", "1").unwrap();
    drop(db);
    // Removes the last table, its log and the MANIFEST, so that the writes just before those of the
    // live log are missing.
    let of_db = |name: String| fs.remove(&Path::new(DIR).join(name)).unwrap();
    of_db(format!("{:06}.log", logs[5]));
    let names = fs.list(Path::new(DIR)).unwrap();
    of_db(names.iter().filter(|name| name.ends_with(".ldb")).max().unwrap().clone());
    names
        .into_iter()
        .filter(|name| name.starts_with("MANIFEST") || name == "CURRENT")
        .for_each(of_db);
    fs.damage(&Path::new(DIR).join(format!("{:06}.log", logs[2])), 30, 1).unwrap();
    let report = repair(DIR, &options, Default::default()).unwrap();
    assert!(report.lost_logs.is_empty(), "{:?}", report.lost_logs);
    let db = Db::open(DIR, options).unwrap();
    let keys: Vec<_> = db.iter().map(|entry| entry.unwrap().0).collect();
    assert_eq!(keys, ["0", "1", "2", "3", "4", "live"]);
}

/// Checks that a reader of changes gets an error if a repair lost writes that the reader had seen,
/// even if at least as many new writes have followed.
#[test]
fn a_reader_of_changes_gets_an_error_after_a_repair() {
    for lost in [Loss::LastTable, Loss::LiveLog] {
        let fs = SimFs::new(1);
        let options = options(&fs, 1);
        let db = Db::open(DIR, options.clone()).unwrap();
        (0..3).for_each(|i| db.put(i.to_string(), "1").unwrap());
        db.flush().unwrap();
        (3..6).for_each(|i| db.put(i.to_string(), "1").unwrap());
        if lost == Loss::LastTable {
            db.flush().unwrap();
        }
        let reader = Db::open_read_only(DIR, options.clone()).unwrap();
        let mut live = reader.changes_since(db.sequence()).unwrap();
        assert!(live.next().is_none());
        let seen = live.sequence();
        drop(db);
        lost.inflict(&fs);
        assert!(!repair(DIR, &options, Default::default()).unwrap().healthy);
        let db = Db::open(DIR, options.clone()).unwrap();
        assert_eq!(db.iter().count(), 3);
        (6..12).for_each(|i| db.put(i.to_string(), "2").unwrap());
        let later = Db::open_read_only(DIR, options).unwrap();
        for mut changes in [live, later.changes_since(seen).unwrap()] {
            let error = changes.next().unwrap().unwrap_err();
            assert!(matches!(error, Error::ChangesLost { after, .. } if after == seen), "{error}");
            assert!(error.to_string().contains("the database was repaired"), "{error}");
        }
        // The follower itself continues.
        reader.refresh().unwrap();
        assert_eq!(reader.iter().count(), 9);
    }
}

/// The file that is removed or damaged before a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    LastTable,
    LiveLog,
}

impl Loss {
    fn inflict(self, fs: &SimFs) {
        let end = match self {
            Loss::LastTable => ".ldb",
            Loss::LiveLog => ".log",
        };
        let names = fs.list(Path::new(DIR)).unwrap();
        let last = names.iter().filter(|name| name.ends_with(end)).max().unwrap();
        let path = Path::new(DIR).join(last);
        match self {
            Loss::LastTable => fs.remove(&path).unwrap(),
            Loss::LiveLog => fs.damage(&path, 10, 1).unwrap(),
        }
        // Without the MANIFEST, the repair does not know the last sequence number.
        let manifests = names.iter().filter(|name| name.starts_with("MANIFEST"));
        manifests.for_each(|name| fs.remove(&Path::new(DIR).join(name)).unwrap());
    }
}

#[test]
fn kept_logs_make_up_for_the_last_edits_of_a_manifest() {
    let fs = SimFs::new(1);
    let options = options(&fs, 1).keep_logs_bytes(1 << 20).manifest_rotate_bytes(1 << 20);
    let db = Db::open(DIR, options.clone()).unwrap();
    put_and_flush(&db, &fs, 0..2);
    db.put("3", "1").unwrap();
    let names = fs.list(Path::new(DIR)).unwrap();
    let name = names.into_iter().find(|name| name.starts_with("MANIFEST")).unwrap();
    let path = Path::new(DIR).join(name);
    let before = fs.len(&path).unwrap();
    db.flush().unwrap();
    db.put("4", "1").unwrap();
    let entries = of_iter(db.iter());
    drop(db);
    assert!(fs.len(&path).unwrap() > before);
    fs.append(&path).unwrap().set_len(before).unwrap();
    let db = Db::open(DIR, options).unwrap();
    assert_eq!(of_iter(db.iter()), entries);
    let (found, end) = all_of(db.changes_since(0));
    assert_eq!((found.len() as u64, end), (db.sequence(), End::Whole));
}

#[test]
fn logs_that_lost_writes_are_not_kept() {
    let fs = SimFs::new(1);
    let options = options(&fs, 1).write_buffer_bytes(1 << 20).keep_logs_bytes(1 << 20);
    let db = Db::open(DIR, options.clone()).unwrap();
    put_and_flush(&db, &fs, 0..2);
    for key in 2..40 {
        db.put(key.to_string(), "lost").unwrap();
    }
    let live = logs_in(&fs, DIR)[1][0].0;
    let fs = fs.crash_image(&CrashPlan::process_kill());
    fs.damage(&Path::new(DIR).join(format!("{live:06}.log")), 600, 1).unwrap();
    let options = options.fs(fs.clone());
    let db = Db::open(DIR, options).unwrap();
    assert_eq!(db.recovery().lost.len(), 1);
    let last = db.sequence();
    assert!((3..40).contains(&last));
    // New writes reuse the sequence numbers of the lost writes.
    for key in 0..50 {
        db.put(key.to_string(), "new").unwrap();
    }
    let (found, end) = all_of(db.changes_since(0));
    // The damaged log has been moved to `lost` and is no longer read.
    assert!(found.len() <= last as usize && matches!(end, End::Lost(..)), "{found:?} {end:?}");
    let (found, end) = all_of(db.changes_since(last));
    assert_eq!((found.len(), end), (50, End::Whole));
    assert!(found.iter().all(|write| write.2.as_deref() == Some(b"new")));
}

/// Writes that a writer has committed, and whether the logs of some of them may have been removed.
struct Past {
    written: Vec<Write>,
    may_be_lost: bool,
}

/// Checks the changes after `since` against the committed writes. Returns whether some changes are
/// lost.
fn check(past: &Past, changes: minikv::Result<Changes>, since: u64, step: &str) -> bool {
    let (found, end) = all_of(changes);
    let first = found.first().map_or(since, |write| write.0 - 1) as usize;
    assert!(first <= since as usize, "{step}: it begins after a gap");
    assert!(past.written[first..].starts_with(&found), "{step}: other changes since {since}");
    match &end {
        End::Whole => assert_eq!(first + found.len(), past.written.len(), "{step}: left out"),
        End::Lost(..) => assert!(past.may_be_lost, "{step}: since {since}"),
        End::Failed(error) => panic!("{step}: {error}"),
    }
    end != End::Whole
}

#[test]
fn changes_are_all_there_or_lost_whatever_becomes_of_the_writer() {
    let (mut lost, mut whole) = (0, 0);
    let first = seed();
    for seed in first..first + 30 {
        let mut rng = Rng::new(seed);
        let fs = crate::switched::SwitchedFs::new(seed);
        let keep = |rng: &mut Rng| *rng.pick(&[0, 3000, 20_000, u64::MAX]);
        let unlimited = seed % 3 == 0;
        let options = |rng: &mut Rng| {
            let bytes = if unlimited { u64::MAX } else { keep(rng) };
            options(&fs, seed).keep_logs_bytes(bytes).reuse_logs(seed % 2 == 0)
        };
        let mut db = Db::open(DIR, options(&mut rng)).unwrap();
        let mut past = Past { written: Vec::new(), may_be_lost: !unlimited };
        for _ in 0..300 {
            let step = match rng.below(60) {
                0 => {
                    db.flush().unwrap();
                    "flush"
                }
                1 => {
                    db.compact_range(..).unwrap();
                    "compaction"
                }
                2 => {
                    drop(db);
                    db = Db::open(DIR, options(&mut rng)).unwrap();
                    "reopen"
                }
                3 => {
                    fs.crash(&CrashPlan::process_kill());
                    drop(db);
                    db = Db::open(DIR, options(&mut rng)).unwrap();
                    "kill"
                }
                4 => {
                    db.sync().unwrap();
                    fs.crash(&CrashPlan::random(rng.next()));
                    drop(db);
                    db = Db::open(DIR, options(&mut rng)).unwrap();
                    "power loss"
                }
                _ => {
                    write(&db, &mut rng, &mut past.written);
                    "write"
                }
            };
            assert_eq!(db.sequence(), past.written.len() as u64, "{step}");
            let since = rng.below(past.written.len() + 1) as u64;
            let follower = Db::open_read_only(DIR, options(&mut rng)).unwrap();
            for changes in [db.changes_since(since), follower.changes_since(since)] {
                let is_lost = check(&past, changes, since, step);
                (lost, whole) = (lost + u32::from(is_lost), whole + u32::from(!is_lost));
            }
        }
    }
    println!("changes were whole {whole} times, and lost {lost} times");
    assert!(lost > 1000 && whole > 5000);
}
