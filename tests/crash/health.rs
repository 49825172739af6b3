//! Tests of the reaction of a running database to faults: the database reports them, keeps its
//! data, and continues when it can. The background threads are real threads.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

use minikv::events::StallCause;
use minikv::files::{LogReader, Tail};
use minikv::fs::Fs;
use minikv::fs::sim::{CrashPlan, Fault, OpKind, SimFs};
use minikv::{Compression, Db, Error, HealthState, Options, WriteOptions};

fn options(fs: &SimFs) -> Options {
    Options::default()
        .create_if_missing(true)
        .fs(fs.clone())
        .compression(Compression::None)
        .write_buffer_bytes(8 << 10)
        .max_file_bytes(8 << 10)
        .block_bytes(512)
}

fn open(fs: &SimFs) -> Db {
    Db::open("/db", options(fs)).unwrap()
}

fn synced() -> WriteOptions {
    WriteOptions::default().sync(true)
}

fn keys(db: &Db) -> Vec<String> {
    db.iter().map(|e| String::from_utf8(e.unwrap().0.to_vec()).unwrap()).collect()
}

fn crashed(fs: &SimFs) -> Db {
    open(&fs.crash_image(&CrashPlan::strict()))
}

/// Waits until `is_so` returns true. A test that hangs here has failed.
fn wait_until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}

#[test]
fn a_full_disk_in_a_log_append_makes_it_read_only_until_resume() {
    let fs = SimFs::new(1);
    let db = open(&fs);
    db.put("a", "1").unwrap();
    fs.inject(Fault::torn_write(9).path("*.log"));
    let error = db.put("b", "2").unwrap_err();
    assert_eq!(error.io_kind(), Some(std::io::ErrorKind::StorageFull), "{error}");
    assert_eq!(db.health().state, HealthState::ReadOnly);
    // The disk has space again, but nothing may follow the torn record.
    let refused = db.put("c", "3").unwrap_err();
    assert!(matches!(&refused, Error::ReadOnly { reason } if reason.io_kind() == error.io_kind()));
    assert_eq!(keys(&db), ["a"]);
    db.resume().unwrap();
    assert_eq!(db.health().state, HealthState::Good);
    assert!(db.health().error.is_none());
    db.writing(synced()).put("d", "4").unwrap();
    assert_eq!(keys(&db), ["a", "d"]);
    assert_eq!(keys(&crashed(&fs)), ["a", "d"]);
}

#[test]
fn a_log_whose_sync_failed_is_never_written_again() {
    let fs = SimFs::new(2);
    let db = open(&fs);
    fs.record_history();
    db.writing(synced()).put("a", "1").unwrap();
    db.put("b", "2").unwrap();
    fs.inject(Fault::lost_sync().path("*.log"));
    db.writing(synced()).put("c", "3").unwrap_err();
    let failed_at = fs.op_count();
    let failed_log = fs.journal().last().unwrap().path.clone();
    db.put("d", "4").unwrap_err();
    db.resume().unwrap();
    db.writing(synced()).put("e", "5").unwrap();
    // The failed log may be truncated, but must not be written to or synced.
    let journal = fs.journal();
    let later = journal.iter().filter(|entry| entry.number > failed_at);
    assert!(later.clone().count() > 5);
    assert!(!later.clone().any(|entry| {
        entry.path == failed_log && matches!(entry.kind, OpKind::Write | OpKind::Sync)
    }));
    // `b` was acknowledged but lost by the disk; it was written again from memory. `c` failed and
    // must not come back.
    assert_eq!(keys(&db), ["a", "b", "e"]);
    assert_eq!(keys(&crashed(&fs)), ["a", "b", "e"]);
}

#[test]
fn a_log_whose_sync_failed_is_not_trusted_by_the_next_process() {
    for reuse in [false, true] {
        let fs = SimFs::new(3);
        let db = Db::open("/db", options(&fs).reuse_logs(reuse)).unwrap();
        db.put("a", "1").unwrap();
        fs.inject(Fault::lost_sync().path("*.log"));
        db.writing(synced()).put("b", "2").unwrap_err();
        drop(db);
        // The pages of the failed sync can still be read, but they are not on the disk, and no
        // later sync will write them.
        let db = Db::open("/db", options(&fs).reuse_logs(reuse)).unwrap();
        assert_eq!(keys(&db), ["a", "b"]);
        db.writing(synced()).put("c", "3").unwrap();
        assert_eq!(keys(&crashed(&fs)), ["a", "b", "c"], "reuse_logs({reuse})");
    }
}

/// LevelDB with `reuse_logs` appends to any log. If the file did not end where its last whole
/// record ends, recovery would lose the records that LevelDB appends.
#[test]
fn a_log_or_manifest_whose_sync_failed_ends_with_a_whole_record() {
    for pattern in ["*.log", "*MANIFEST*"] {
        let fs = SimFs::new(5);
        let db = Db::open("/db", options(&fs)).unwrap();
        db.writing(synced()).put("a", "1").unwrap();
        fs.inject(Fault::lost_sync().path(pattern));
        assert!(db.writing(synced()).put("b", "2").and_then(|()| db.flush()).is_err(), "{pattern}");
        drop(db);
        for name in fs.list(Path::new("/db")).unwrap() {
            if name.ends_with(".log") || name.starts_with("MANIFEST") {
                let path = Path::new("/db").join(name);
                let mut reader = LogReader::new(fs.open(&path).unwrap(), &path).unwrap();
                while reader.next().unwrap().is_some() {}
                assert_eq!(reader.tail(), Tail::Clean, "{}", path.display());
            }
        }
        let db = Db::open("/db", options(&fs).reuse_logs(true)).unwrap();
        assert_eq!(keys(&db), ["a", "b"]);
        db.writing(synced()).put("c", "3").unwrap();
        assert_eq!(keys(&crashed(&fs)), ["a", "b", "c"], "{pattern}");
    }
}

/// A synced write waits until the data that the last open replayed is in tables. If the background
/// threads end during this wait, the write flushes the data itself, but not while a background
/// thread is still flushing it. In an earlier version, both threads flushed the same memtable, the
/// second flush was attributed to the next memtable, and the log of that next memtable was removed.
#[test]
fn a_synced_write_beside_close_leaves_a_flush_under_way_alone() {
    let fs = SimFs::new(12);
    let db = open(&fs);
    db.put("a", "1").unwrap();
    drop(db);
    let tables = Arc::new(AtomicUsize::new(0));
    let is_stalled = Arc::new(AtomicBool::new(true));
    fs.set_hook({
        let (tables, is_stalled) = (tables.clone(), is_stalled.clone());
        move |operation| {
            let is_table = operation.path.extension().is_some_and(|name| name == "ldb");
            // The first table is written by a background thread.
            if is_table && operation.kind == OpKind::Sync && tables.fetch_add(1, Relaxed) == 0 {
                wait_until(|| !is_stalled.load(Relaxed));
            }
        }
    });
    // Every write fills a memtable.
    let db = Db::open("/db", options(&fs).write_buffer_bytes(1)).unwrap();
    wait_until(|| tables.load(Relaxed) == 1);
    db.put("b", "2").unwrap();
    let logged = fs.counts().of(OpKind::Write);
    let writer = std::thread::spawn({
        let db = db.clone();
        move || db.writing(synced()).put("c", "3")
    });
    // Wait for two writes: the first record of a new log, and the record of the put.
    wait_until(|| fs.counts().of(OpKind::Write) >= logged + 2);
    let closer = std::thread::spawn(move || db.close());
    let began = Instant::now();
    wait_until(|| tables.load(Relaxed) > 1 || began.elapsed() > Duration::from_millis(100));
    assert_eq!(tables.load(Relaxed), 1, "a memtable is flushed twice at once");
    is_stalled.store(false, Relaxed);
    writer.join().unwrap().unwrap();
    closer.join().unwrap().unwrap();
    assert_eq!(keys(&open(&fs)), ["a", "b", "c"]);
}

#[test]
fn a_manifest_that_failed_is_never_written_again() {
    for fault in [Fault::no_space(), Fault::torn_write(5), Fault::lost_sync(), Fault::io_error()] {
        let fs = SimFs::new(4);
        let db = open(&fs);
        db.put("a", "1").unwrap();
        fs.record_history();
        fs.inject(fault.on(&[OpKind::Write, OpKind::Sync]).path("*MANIFEST*"));
        db.flush().unwrap_err();
        let failed_at = fs.op_count();
        assert_eq!(db.health().state, HealthState::ReadOnly);
        assert_eq!(keys(&db), ["a"]);
        db.put("b", "2").unwrap_err();
        db.resume().unwrap();
        db.writing(synced()).put("c", "3").unwrap();
        db.flush().unwrap();
        let journal = fs.journal();
        let manifests = journal.iter().filter(|entry| {
            entry.path.to_str().unwrap().contains("MANIFEST") && entry.kind == OpKind::Write
        });
        let (before, after): (Vec<_>, Vec<_>) = manifests.partition(|e| e.number <= failed_at);
        assert!(!after.is_empty() && after.iter().all(|e| before.iter().all(|b| b.path != e.path)));
        assert_eq!(keys(&crashed(&fs)), ["a", "c"]);
    }
}

#[test]
fn a_flush_without_space_makes_it_read_only_until_resume() {
    let fs = SimFs::new(5);
    let db = open(&fs);
    db.put("a", "1").unwrap();
    fs.inject(Fault::no_space().on(&[OpKind::Write]).path("*.ldb").sticky());
    db.flush().unwrap_err();
    assert_eq!(db.health().state, HealthState::ReadOnly);
    db.put("b", "2").unwrap_err();
    assert_eq!(keys(&db), ["a"]);
    assert!(db.resume().is_err(), "there is still no space");
    assert_eq!(db.health().state, HealthState::ReadOnly);
    fs.clear_faults();
    db.resume().unwrap();
    db.put("b", "2").unwrap();
    db.close().unwrap();
    assert_eq!(keys(&crashed(&fs)), ["a", "b"]);
}

/// Checks that failed resumes leave no files behind. Each failed attempt used to leave a log and a
/// MANIFEST, on a disk that had little space left.
#[test]
fn failed_resumes_leave_nothing_behind() {
    type Make = fn() -> Fault;
    let faults: [(&str, Make); 6] = [
        ("tables", || Fault::no_space().on(&[OpKind::Write]).path("*.ldb")),
        ("tables", || Fault::no_space().on(&[OpKind::Create]).path("*.ldb")),
        ("logs", || Fault::no_space().on(&[OpKind::Write]).path("*.log")),
        ("MANIFESTs", || Fault::no_space().on(&[OpKind::Write]).path("*MANIFEST*")),
        ("CURRENT", || Fault::no_space().on(&[OpKind::Write]).path("*.dbtmp")),
        ("names", || Fault::no_space().on(&[OpKind::Rename])),
    ];
    for (what, fault) in faults {
        let fs = SimFs::new(5);
        let db = open(&fs);
        db.put("a", "1").unwrap();
        db.writing(synced()).put("b", "2").unwrap();
        fs.inject(Fault::no_space().on(&[OpKind::Sync]).path("*MANIFEST*"));
        fs.inject(fault().sticky());
        if db.flush().is_ok() {
            db.put("c", "3").unwrap_err();
        }
        db.resume().unwrap_err();
        let files = || fs.list(Path::new("/db")).unwrap().len();
        let (count, bytes) = (files(), fs.used_bytes());
        for _ in 0..50 {
            db.resume().unwrap_err();
        }
        assert!(files() <= count && fs.used_bytes() <= bytes, "{what}: {} files", files());
        fs.clear_faults();
        db.resume().unwrap();
        db.writing(synced()).put("d", "4").unwrap();
        let found = keys(&crashed(&fs));
        assert!(found == ["a", "b", "d"] || found == ["a", "b", "c", "d"], "{what}: {found:?}");
        assert_eq!(keys(&db), found, "{what}");
        drop(db);
        drop(open(&fs));
        crate::check::check_files(&fs, 0).unwrap();
    }
}

/// Each open that failed late used to leave a log, and a table if a log was damaged.
#[test]
fn failed_opens_leave_nothing_behind() {
    type Make = fn() -> Fault;
    let faults: [(&str, Make); 4] = [
        ("MANIFESTs", || Fault::no_space().on(&[OpKind::Write]).path("*MANIFEST*")),
        ("logs", || Fault::no_space().on(&[OpKind::Write]).path("*.log")),
        ("CURRENT", || Fault::no_space().on(&[OpKind::Write]).path("*.dbtmp")),
        ("names", || Fault::no_space().on(&[OpKind::Rename])),
    ];
    for ((what, fault), is_damaged) in faults.into_iter().flat_map(|of| [(of, false), (of, true)]) {
        let fs = SimFs::new(5);
        let db = open(&fs);
        ["a", "b", "c"].iter().for_each(|key| db.put(key, "1").unwrap());
        drop(db);
        let names = fs.list(Path::new("/db")).unwrap();
        if is_damaged {
            let log = names.iter().find(|name| name.ends_with(".log")).unwrap();
            // In the second of the three batches.
            fs.damage(&Path::new("/db").join(log), 60, 1).unwrap();
        }
        fs.inject(fault().sticky());
        let fails = || drop(Db::open("/db", options(&fs)).unwrap_err());
        fails();
        let files = || fs.list(Path::new("/db")).unwrap().len();
        let (count, bytes) = (files(), fs.used_bytes());
        (0..50).for_each(|_| fails());
        assert!(files() <= count && fs.used_bytes() <= bytes, "{what}: {} files", files());
        fs.clear_faults();
        let db = open(&fs);
        assert_eq!(keys(&db), if is_damaged { &["a"][..] } else { &["a", "b", "c"] }, "{what}");
        db.writing(synced()).put("d", "1").unwrap();
        db.wait_idle().unwrap();
        drop(db);
        drop(open(&fs));
        crate::check::check_files(&fs, 0).unwrap();
    }
}

/// Flushes `rounds` tables that contain the same keys.
fn fill_level0(db: &Db, rounds: usize) -> Result<(), Error> {
    for round in 0..rounds {
        for key in ["a", "m", "z"] {
            db.put(key, format!("{round}"))?;
        }
        db.flush()?;
    }
    Ok(())
}

fn no_compaction(fs: &SimFs, fault: Fault) -> Arc<AtomicBool> {
    // Flushes must continue to work, so the fault strikes only compaction threads.
    let fails = Arc::new(AtomicBool::new(true));
    let (hooked, armed) = (fs.clone(), fails.clone());
    fs.set_hook(move |op| {
        let thread = std::thread::current();
        let is_compaction = thread.name() == Some("minikv-compact");
        if is_compaction && op.kind == OpKind::Create && armed.load(Relaxed) {
            let path = op.path.to_str().unwrap();
            hooked.inject(fault.clone().on(&[OpKind::Create]).path(path));
        }
    });
    fails
}

#[test]
fn a_compaction_without_space_or_handles_is_tried_again_until_there_are() {
    for fault in [Fault::no_space(), Fault::too_many_open_files()] {
        let fs = SimFs::new(6);
        let db = open(&fs);
        let fails = no_compaction(&fs, fault);
        fill_level0(&db, 6).unwrap();
        wait_until(|| db.health().compaction_failures >= 2);
        let health = db.health();
        assert_eq!(health.state, HealthState::Degraded);
        assert!(health.error.is_some() && health.damaged_tables.is_empty());
        assert_eq!(keys(&db), ["a", "m", "z"]);
        db.put("b", "writes go on").unwrap();
        fails.store(false, Relaxed);
        fs.clear_faults();
        // The database recovers without a reopen or a call of `resume`.
        wait_until(|| db.health().state == HealthState::Good);
        db.wait_idle().unwrap();
        assert_eq!(db.property("leveldb.num-files-at-level0").unwrap(), "0");
        assert_eq!(keys(&db), ["a", "b", "m", "z"]);
    }
}

#[test]
fn a_failing_compaction_does_not_spin() {
    let fs = SimFs::new(7);
    let db = open(&fs);
    let _fails = no_compaction(&fs, Fault::no_space());
    fill_level0(&db, 5).unwrap();
    wait_until(|| db.health().compaction_failures >= 3);
    // Each attempt at a compaction tries to create one file. A flush wakes the background threads,
    // but they make no attempt before the back-off has passed. With back-offs of 50, 100, 200 ms
    // and so on, there are far fewer attempts than flushes.
    let before = db.health().compaction_failures;
    for i in 0..12 {
        db.put(format!("{i}"), "x").unwrap();
        db.flush().unwrap();
    }
    assert!(db.health().compaction_failures - before < 12);
}

#[test]
fn a_writer_behind_a_failing_compaction_gets_an_error_and_later_goes_on() {
    let fs = SimFs::new(8);
    let db = open(&fs);
    let fails = no_compaction(&fs, Fault::no_space());
    let error = fill_level0(&db, 60).unwrap_err();
    assert!(matches!(&error, Error::ReadOnly { .. }), "{error}");
    assert_eq!(keys(&db), ["a", "m", "z"]);
    fails.store(false, Relaxed);
    fs.clear_faults();
    db.resume().unwrap();
    wait_until(|| fill_level0(&db, 1).is_ok());
    db.wait_idle().unwrap();
    assert_eq!(db.health().state, HealthState::Good);
}

#[test]
fn a_damaged_compaction_input_is_pinned_and_the_rest_works() {
    let fs = SimFs::new(9);
    let db = open(&fs);
    let filler = "x".repeat(300);
    for i in 0..20 {
        db.put(format!("k{i:02}"), &filler).unwrap();
    }
    db.flush().unwrap();
    let names = fs.list(Path::new("/db")).unwrap();
    let table = names.iter().find(|name| name.ends_with(".ldb")).unwrap();
    let path = Path::new("/db").join(table);
    // No part of the second block is in the cache yet.
    fs.damage(&path, 700, 1).unwrap();
    let mut rounds = 0..80;
    let (last, error) = loop {
        let round = rounds.next().unwrap().to_string();
        db.put("a", &round).unwrap();
        db.put("z", &round).unwrap();
        if let Err(error) = db.flush() {
            break (round, error);
        }
    };
    let is_damage = |error: &Error| match error {
        Error::ReadOnly { reason } => reason.is_corruption(),
        error => error.is_corruption(),
    };
    assert!(is_damage(&error), "{error}");
    let health = db.health();
    assert_eq!(health.state, HealthState::Degraded);
    let damaged: Vec<_> = health.damaged_tables.iter().map(|(path, _)| path.clone()).collect();
    assert_eq!(damaged, std::slice::from_ref(&path));
    assert_eq!(health.compaction_failures, 1, "damage is not tried again");
    assert_eq!(db.get("a").unwrap().as_deref(), Some(last.as_bytes()));
    assert!(db.get("k00").unwrap().is_some());
    assert!(db.get("k02").unwrap_err().is_corruption());
    assert!(db.wait_idle().is_err());
    assert!(is_damage(&db.compact_range(..).unwrap_err()));
    // Flipping the same bit again restores the block, so the compaction may be retried.
    fs.damage(&path, 700, 1).unwrap();
    db.resume().unwrap();
    db.wait_idle().unwrap();
    assert_eq!(db.health().state, HealthState::Good);
    fill_level0(&db, 2).unwrap();
    assert_eq!(keys(&db).len(), 23);
}

/// A damaged table used to make writes fail whenever level 0 was full, although compactions of
/// level 0 needed no such table.
#[test]
fn a_writer_waits_for_level_0_although_a_table_elsewhere_is_damaged() {
    let fs = SimFs::new(16);
    let db = open(&fs);
    for i in 0..20 {
        db.put(format!("k{i:02}"), "x".repeat(300)).unwrap();
    }
    db.compact_range(..).unwrap();
    let names = fs.list(Path::new("/db")).unwrap();
    let table = names.iter().filter(|name| name.ends_with(".ldb")).max().unwrap();
    // No part of the second block is in the cache yet.
    fs.damage(&Path::new("/db").join(table), 700, 1).unwrap();
    assert!(db.compact_range("k".."l").unwrap_err().is_corruption());
    assert_eq!(db.health().damaged_tables.len(), 1);
    let is_held = Arc::new(AtomicBool::new(true));
    let held = is_held.clone();
    fs.set_hook(move |op| {
        let is_compaction = std::thread::current().name() == Some("minikv-compact");
        while is_compaction && op.kind == OpKind::Create && held.load(Relaxed) {
            std::thread::yield_now();
        }
    });
    let (stall, written) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            (0..25).try_for_each(|round| {
                for key in ["x", "y", "z"] {
                    db.put(key, format!("{round}"))?;
                }
                db.flush()
            })
        });
        let mut stall = None;
        wait_until(|| {
            stall = db.health().stall;
            stall == Some(StallCause::Level0) || writer.is_finished()
        });
        is_held.store(false, Relaxed);
        (stall, writer.join().unwrap())
    });
    written.unwrap();
    assert_eq!(stall, Some(StallCause::Level0));
    assert_eq!(db.health().damaged_tables.len(), 1);
    for key in ["x", "y", "z"] {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(&b"24"[..]));
    }
}

#[test]
fn a_stall_is_seen_with_its_cause_while_it_lasts() {
    let fs = SimFs::new(10);
    let db = open(&fs);
    let is_held = Arc::new(AtomicBool::new(true));
    let held = is_held.clone();
    fs.set_hook(move |op| {
        let is_flush = std::thread::current().name() == Some("minikv-flush");
        while is_flush && op.kind == OpKind::Create && held.load(Relaxed) {
            std::thread::yield_now();
        }
    });
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for i in 0..200 {
                db.put(format!("{i:03}"), "x".repeat(500)).unwrap();
            }
        });
        wait_until(|| db.health().stall == Some(StallCause::Flush));
        assert!(!writer.is_finished());
        is_held.store(false, Relaxed);
    });
    assert_eq!(db.health().stall, None);
    assert!(db.stats().stalls.flush.count > 0);
    assert_eq!(keys(&db).len(), 200);
}

#[test]
fn resume_does_nothing_to_a_healthy_database_and_is_refused_after_close() {
    let fs = SimFs::new(11);
    let db = open(&fs);
    db.put("a", "1").unwrap();
    db.resume().unwrap();
    let other = db.clone();
    db.close().unwrap();
    assert!(matches!(other.resume(), Err(Error::Closed)));
}

/// The MANIFEST named the log that a `resume` had begun before the log's name was durable. If a
/// crash kept the name of a newer table instead, the MANIFEST seemed to have lost its last edits.
#[test]
fn a_crash_after_a_resume_with_nothing_in_memory_leaves_a_database_that_opens() {
    let fs = SimFs::new(15);
    let inline = |fs: &SimFs| options(fs).inline_background(Some(1));
    let db = Db::open("/db", inline(&fs)).unwrap();
    fs.inject(Fault::io_error().on(&[OpKind::Sync]).path("*.log"));
    db.writing(synced()).put("a", "1").unwrap_err();
    fs.record_history();
    let failed_at = fs.op_count();
    db.resume().unwrap();
    db.put("b", "2").unwrap();
    db.flush().unwrap();
    assert!(fs.journal().iter().any(|entry| {
        entry.kind == OpKind::Create && entry.path.extension().is_some_and(|name| name == "ldb")
    }));
    for op in failed_at..=fs.op_count() {
        for seed in 0..30 {
            let plan = CrashPlan::random(seed).at_op(op);
            let opened = Db::open("/db", inline(&fs.crash_image(&plan)));
            opened.unwrap_or_else(|error| panic!("{plan}: {error}"));
        }
    }
}

/// A second close used to answer `Ok` for a log that the first one could not sync.
#[test]
fn every_close_reports_that_the_log_could_not_be_synced() {
    for at_once in [false, true] {
        let fs = SimFs::new(14);
        let db = open(&fs);
        db.put("a", "1").unwrap();
        fs.inject(Fault::io_error().on(&[OpKind::Sync]).path("*.log"));
        let closers: Vec<Db> = (0..3).map(|_| db.clone()).collect();
        let closed: Vec<_> = std::thread::scope(|scope| match at_once {
            false => closers.into_iter().map(Db::close).collect(),
            true => {
                let closers = closers.into_iter().map(|db| scope.spawn(move || db.close()));
                let closers: Vec<_> = closers.collect();
                closers.into_iter().map(|closer| closer.join().unwrap()).collect()
            }
        });
        assert!(closed.iter().all(Result::is_err), "at once: {at_once}: {closed:?}");
        assert_eq!(db.health().state, HealthState::ReadOnly);
        db.put("b", "2").unwrap_err();
        assert!(keys(&crashed(&fs)).is_empty(), "nothing was durable");
    }
}

#[test]
fn writes_after_a_close_that_failed_are_refused_as_closed() {
    for failed_before in [false, true] {
        let fs = SimFs::new(14);
        let db = open(&fs);
        let other = db.clone();
        db.put("a", "1").unwrap();
        fs.inject(Fault::io_error().on(&[OpKind::Sync]).path("*.log"));
        if failed_before {
            db.writing(synced()).put("b", "2").unwrap_err();
            assert!(matches!(other.put("b", "2"), Err(Error::ReadOnly { .. })));
        }
        assert!(db.close().unwrap_err().io_kind().is_some());
        assert!(matches!(other.put("b", "2"), Err(Error::Closed)));
        assert!(matches!(other.sync(), Err(Error::Closed)));
        assert!(matches!(other.flush(), Err(Error::Closed)));
        assert!(matches!(other.delete_range(..), Err(Error::Closed)));
        assert_eq!(other.health().state, HealthState::ReadOnly);
        assert_eq!(keys(&other), ["a"]);
    }
}

#[test]
fn a_full_small_filesystem_loses_nothing() {
    let fs = SimFs::new(12);
    fs.set_capacity(Some(300 << 10));
    let db = open(&fs);
    let mut acked = Vec::new();
    let error = loop {
        let key = format!("{:05}", acked.len());
        match db.writing(synced()).put(&key, "v".repeat(300)) {
            Ok(()) => acked.push(key),
            Err(error) => break error,
        }
    };
    assert!(acked.len() > 200, "{error} after {}", acked.len());
    assert_eq!(db.health().state, HealthState::ReadOnly, "{:?}", db.health());
    assert_eq!(keys(&db), acked);
    assert_eq!(keys(&crashed(&fs))[..acked.len()], acked);
    fs.set_capacity(Some(2 << 20));
    db.resume().unwrap();
    for _ in 0..100 {
        let key = format!("{:05}", acked.len());
        db.writing(synced()).put(&key, "v".repeat(300)).unwrap();
        acked.push(key);
    }
    db.wait_idle().unwrap();
    assert_eq!(keys(&db), acked);
    assert_eq!(keys(&crashed(&fs)), acked);
}

#[test]
fn a_failed_flush_gives_up_no_log_to_a_compaction_that_was_under_way() {
    let fs = SimFs::new(13);
    let db = open(&fs);
    let is_held = Arc::new(AtomicBool::new(true));
    let is_there = Arc::new(AtomicBool::new(false));
    let (held, there) = (is_held.clone(), is_there.clone());
    fs.set_hook(move |op| {
        let is_compaction = std::thread::current().name() == Some("minikv-compact");
        while is_compaction && op.kind == OpKind::Create && held.load(Relaxed) {
            there.store(true, Relaxed);
            std::thread::yield_now();
        }
    });
    fill_level0(&db, 6).unwrap();
    wait_until(|| is_there.load(Relaxed));
    db.writing(synced()).put("synced", "1").unwrap();
    fs.inject(Fault::no_space().on(&[OpKind::Write]).path("*MANIFEST*"));
    db.flush().unwrap_err();
    // Only half of a resume succeeds: it can create the MANIFEST, but not the table.
    fs.inject(Fault::no_space().on(&[OpKind::Create]).path("*.ldb"));
    db.resume().unwrap_err();
    is_held.store(false, Relaxed);
    let level0 = || db.property("leveldb.num-files-at-level0").unwrap();
    let before = level0();
    wait_until(|| level0() != before);
    assert_eq!(keys(&crashed(&fs)), ["a", "m", "synced", "z"]);
    db.resume().unwrap();
    assert_eq!(keys(&db), ["a", "m", "synced", "z"]);
}
