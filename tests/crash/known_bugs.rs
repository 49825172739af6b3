//! Tests for bugs that engines of this format have or had, one bug per test. The comment before
//! each test describes the bug in the other engines.

use std::path::{Path, PathBuf};

use minikv::fs::Fs;
use minikv::fs::sim::{CrashPlan, Fault, Holes, OpKind, SimFs};
use minikv::{Compression, Db, Error, Options, Readable, WriteBatch, WriteOptions};

fn options(fs: &SimFs) -> Options {
    Options::default()
        .create_if_missing(true)
        .fs(fs.clone())
        .compression(Compression::None)
        .write_buffer_bytes(4 << 10)
        .max_file_bytes(4 << 10)
        .block_bytes(512)
}

fn inline(fs: &SimFs) -> Options {
    options(fs).inline_background(Some(1))
}

fn synced() -> WriteOptions {
    WriteOptions::default().sync(true)
}

fn entries(db: &Db) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    db.iter().map(|entry| entry.map(|(k, v)| (text(&k), text(&v))).unwrap()).collect()
}

fn keys(db: &Db) -> Vec<String> {
    entries(db).into_iter().map(|(key, _)| key).collect()
}

fn files(fs: &SimFs, ending: &str) -> Vec<PathBuf> {
    let mut names = fs.list(Path::new("/db")).unwrap();
    names.retain(|name| name.ends_with(ending));
    names.sort();
    names.into_iter().map(|name| Path::new("/db").join(name)).collect()
}

/// Calls `check` with many images of a crash after every recorded operation.
fn every_image(fs: &SimFs, mut check: impl FnMut(&SimFs, u64, &str)) {
    for op in 0..=fs.op_count() {
        let mut plans = vec![CrashPlan::strict(), CrashPlan::everything()];
        plans.extend((0..12).map(CrashPlan::random));
        plans.extend((0..6).map(|seed| CrashPlan::random(seed).holes(Holes::Garbage)));
        for plan in plans {
            let plan = plan.at_op(op);
            check(&fs.crash_image(&plan), op, &plan.to_string());
        }
    }
}

/// Other engines remove the old MANIFEST before the rename of the new CURRENT is durable, rename a
/// CURRENT that was not synced, or name a MANIFEST that was not synced. After a loss of power, the
/// database does not open.
#[test]
fn the_old_manifest_goes_after_the_new_current_is_durable() {
    let fs = SimFs::new(1);
    let db = Db::open("/db", inline(&fs)).unwrap();
    db.writing(synced()).put("a", "1").unwrap();
    drop(db);
    fs.record_history();
    let begin = fs.op_count();
    // Every open makes a new MANIFEST.
    for _ in 0..2 {
        drop(Db::open("/db", inline(&fs)).unwrap());
    }
    let journal = fs.journal();
    assert_eq!(journal.iter().filter(|entry| entry.kind == OpKind::Rename).count(), 2);
    for op in begin..=fs.op_count() {
        for seed in 0..20 {
            let plan = CrashPlan::random(seed).at_op(op);
            let db = Db::open("/db", inline(&fs.crash_image(&plan)))
                .unwrap_or_else(|error| panic!("{plan}: {error}"));
            assert_eq!(keys(&db), ["a"], "{plan}");
        }
    }
}

/// The bugs of the previous test, but during the creation of a database: a crash must leave either
/// no database or a complete one, and a second attempt to create the database must succeed.
#[test]
fn a_crash_while_a_database_is_made_leaves_none_or_all_of_it() {
    let fs = SimFs::new(2);
    fs.record_history();
    let db = Db::open("/deep/er/db", inline(&fs)).unwrap();
    db.writing(synced()).put("a", "1").unwrap();
    let acked = fs.op_count();
    every_image(&fs, |image, op, plan| {
        let db = Db::open("/deep/er/db", inline(image)).unwrap_or_else(|e| panic!("{plan}: {e}"));
        let found = keys(&db);
        assert!(found == ["a"] || (op < acked && found.is_empty()), "{plan}: {found:?}");
    });
}

/// The directory of the database already exists: a process created it, and ended before it synced
/// the parent directory. LevelDB never syncs the parent, so a loss of power removes the database
/// with all its synced writes.
#[test]
fn a_directory_that_was_there_already_is_made_durable_too() {
    let fs = SimFs::new(3);
    fs.create_dir(Path::new("/somewhere/db")).unwrap();
    let db = Db::open("/somewhere/db", inline(&fs)).unwrap();
    db.writing(synced()).put("a", "1").unwrap();
    let left = fs.crash_image(&CrashPlan::strict());
    assert_eq!(keys(&Db::open("/somewhere/db", inline(&left)).unwrap()), ["a"]);
}

/// LevelDB syncs only the current log: an unsynced put in log A is lost although a later, synced
/// put in log B survives.
#[test]
fn a_put_before_a_log_rotation_is_durable_when_a_later_one_is_synced() {
    let fs = SimFs::new(4);
    let db = Db::open("/db", options(&fs)).unwrap();
    // A flush would make the put durable too, so flushes are made to fail.
    fs.inject(Fault::no_space().on(&[OpKind::Create]).path("*.ldb").sticky());
    db.put("a", "x".repeat(5000)).unwrap();
    let second = db.writing(synced()).put("b", "2");
    let left = fs.crash_image(&CrashPlan::strict());
    let found = keys(&Db::open("/db", options(&left)).unwrap());
    match second {
        Ok(()) => assert_eq!(found, ["a", "b"]),
        Err(_) => assert!(!found.contains(&"b".to_owned()) || found.len() == 2, "{found:?}"),
    }
}

/// Puts in two logs, A and B, are not synced, and the disk happens to keep log B but not the end of
/// log A. Other engines replay both logs, and recover a state that the database was never in.
#[test]
fn a_log_after_one_that_lost_its_end_is_not_replayed() {
    let fs = SimFs::new(5);
    fs.record_history();
    // Nothing is flushed, because the seed of `inline` never starts background work here.
    let db = Db::open("/db", inline(&fs).write_buffer_bytes(600)).unwrap();
    for i in 0..12 {
        db.put(format!("{i:02}"), "x".repeat(150)).unwrap();
    }
    let mut told = 0;
    every_image(&fs, |image, _, plan| {
        let db = Db::open("/db", inline(image)).unwrap_or_else(|e| panic!("{plan}: {e}"));
        let found = keys(&db);
        let prefix: Vec<_> = (0..found.len()).map(|i| format!("{i:02}")).collect();
        assert_eq!(found, prefix, "{plan}");
        let lost = &db.recovery().lost;
        let misplaced = lost.iter().find(|lost| lost.why.contains("but the previous log ends at"));
        if let Some(lost) = misplaced {
            told += 1;
            let kept = Path::new("/db/lost").join(lost.path.file_name().unwrap());
            assert_eq!(image.len(&kept).unwrap(), lost.bytes, "{plan}");
        }
    });
    assert!(told >= 10, "{told} images had a log without the one before it");
}

/// If a table's name is durable but its contents are not, the table is empty after a loss of power.
/// goleveldb and rusty-leveldb name such tables in the MANIFEST.
#[test]
fn a_table_that_is_named_is_never_empty() {
    let fs = SimFs::new(6);
    fs.record_history();
    let db = Db::open("/db", inline(&fs)).unwrap();
    for i in 0..40 {
        db.put(format!("{i:02}"), "x".repeat(300)).unwrap();
        if i % 10 == 9 {
            db.flush().unwrap();
        }
    }
    db.compact_range(..).unwrap();
    let done = fs.op_count();
    every_image(&fs, |image, op, plan| {
        let db = Db::open("/db", inline(image)).unwrap_or_else(|e| panic!("{plan}: {e}"));
        let found = keys(&db);
        assert!(op < done || found.len() == 40, "{plan}: {}", found.len());
    });
}

/// A batch spans several pages, and the disk loses one of the middle pages.
#[test]
fn a_batch_that_lost_a_page_is_not_there_at_all() {
    let fs = SimFs::new(7);
    let db = Db::open("/db", inline(&fs).write_buffer_bytes(1 << 20)).unwrap();
    db.writing(synced()).put("before", "1").unwrap();
    fs.record_history();
    let mut batch = WriteBatch::new();
    for i in 0..40 {
        batch.put(format!("batch{i:02}"), "x".repeat(400));
    }
    db.write(batch).unwrap();
    let mut partly = 0;
    for seed in 0..300 {
        let plan = CrashPlan::random(seed).sector_bytes(4096);
        let image = fs.crash_image(&plan);
        let db = Db::open("/db", inline(&image)).unwrap_or_else(|e| panic!("{plan}: {e}"));
        let found = keys(&db).len();
        assert!(found == 1 || found == 41, "{plan}: {found}");
        partly += usize::from(!db.recovery().lost.is_empty());
    }
    assert!(partly > 10, "{partly} images had a part of it");
}

/// If an engine appends to a log or MANIFEST that has a torn end, the torn record hides everything
/// after it.
#[test]
fn a_torn_log_or_manifest_is_not_reused() {
    for torn in [".log", "MANIFEST-"] {
        let fs = SimFs::new(8);
        let reuse = |fs: &SimFs| inline(fs).reuse_logs(true);
        let db = Db::open("/db", reuse(&fs)).unwrap();
        db.put("a", "1").unwrap();
        drop(db);
        let mut names = fs.list(Path::new("/db")).unwrap();
        names.retain(|name| name.contains(torn));
        let path = Path::new("/db").join(names.pop().unwrap());
        let mut file = fs.append(&path).unwrap();
        // This is the header of a record of 100 bytes, followed by only two bytes of the record.
        file.write(&[1, 2, 3, 4, 100, 0, 1, b'x', b'y']).unwrap();
        drop(file);
        for key in ["b", "c"] {
            let db = Db::open("/db", reuse(&fs)).unwrap();
            db.writing(synced()).put(key, "2").unwrap();
            db.flush().unwrap();
        }
        let left = fs.crash_image(&CrashPlan::strict());
        let db = Db::open("/db", reuse(&left)).unwrap();
        assert_eq!(keys(&db), ["a", "b", "c"], "torn {torn}");
        assert!(db.recovery().lost.is_empty());
    }
}

/// LevelDB with `reuse_logs` appends to a MANIFEST whose last edit a killed process has not synced.
/// If power is lost before the next sync ends, the later edit may be there without the earlier one.
#[test]
fn an_edit_of_a_killed_process_is_durable_before_another_follows_it() {
    let fs = SimFs::new(30);
    let reuse = |fs: &SimFs| inline(fs).reuse_logs(true);
    let db = Db::open("/db", reuse(&fs)).unwrap();
    // With this key, the edit of the flush is in several sectors.
    db.writing(synced()).put("k".repeat(700), "1").unwrap();
    fs.record_history();
    db.flush().unwrap();
    let journal = fs.journal();
    let edit = journal.iter().find(|entry| {
        entry.kind == OpKind::Write && entry.path.to_str().unwrap().contains("MANIFEST")
    });
    let killed = fs.crash_image(&CrashPlan::process_kill().at_op(edit.unwrap().number));
    killed.record_history();
    Db::open("/db", reuse(&killed)).unwrap();
    for op in 0..=killed.op_count() {
        for seed in 0..40 {
            let plan = CrashPlan::random(seed).at_op(op);
            let opened = Db::open("/db", reuse(&killed.crash_image(&plan)));
            let db = opened.unwrap_or_else(|error| panic!("{plan}: {error}"));
            assert_eq!(keys(&db).len(), 1, "{plan}");
        }
    }
}

/// After an append failed halfway, LevelDB appends the next record after the torn record and syncs
/// it, but recovery stops at the torn record.
#[test]
fn a_synced_put_after_a_torn_append_is_not_lost_behind_it() {
    for bytes in [0, 1, 6, 7, 20] {
        let fs = SimFs::new(9);
        let db = Db::open("/db", options(&fs)).unwrap();
        db.put("a", "1").unwrap();
        fs.inject(Fault::torn_write(bytes).path("*.log"));
        db.put("torn", "x".repeat(100)).unwrap_err();
        if db.writing(synced()).put("b", "2").is_err() {
            db.resume().unwrap();
            db.writing(synced()).put("b", "2").unwrap();
        }
        let left = fs.crash_image(&CrashPlan::strict());
        assert_eq!(keys(&Db::open("/db", options(&left)).unwrap()), ["a", "b"], "{bytes} bytes");
    }
}

/// A failed fsync drops the unwritten pages, and the next fsync succeeds without them. An engine
/// that just retries acknowledges data that is not on the disk.
#[test]
fn a_sync_that_fails_once_and_then_succeeds_acknowledges_nothing() {
    for pattern in ["*.log", "*.ldb", "*MANIFEST*"] {
        let fs = SimFs::new(10);
        let db = Db::open("/db", options(&fs)).unwrap();
        db.writing(synced()).put("a", "1").unwrap();
        fs.inject(Fault::lost_sync().path(pattern));
        let mut acked = vec!["a".to_owned()];
        for key in ["b", "c", "d"] {
            if db.writing(synced()).put(key, "2").and_then(|()| db.flush()).is_ok() {
                acked.push(key.to_owned());
            }
        }
        assert!(acked.len() < 4, "{pattern}");
        let left = fs.crash_image(&CrashPlan::strict());
        let found = keys(&Db::open("/db", options(&left)).unwrap());
        assert!(acked.iter().all(|key| found.contains(key)), "{pattern}: {acked:?} {found:?}");
    }
}

/// After a crash, or in a copy, there may be a file with a number that the MANIFEST has not
/// assigned yet. Some engines overwrite such a file, even if it is a live log or table.
#[test]
fn a_number_that_a_file_has_is_not_given_to_another() {
    let fs = SimFs::new(11);
    let db = Db::open("/db", inline(&fs)).unwrap();
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    db.put("b", "2").unwrap();
    drop(db);
    let all = [files(&fs, ".log"), files(&fs, ".ldb")].concat();
    let number_of = |path: &PathBuf| path.file_stem().unwrap().to_str().unwrap().parse::<u64>();
    let number = all.iter().map(|path| number_of(path).unwrap()).max().unwrap();
    for ending in ["log", "ldb"] {
        for ahead in 1..8 {
            let path = format!("/db/{:06}.{ending}", number + ahead);
            let mut file = fs.create(Path::new(&path)).unwrap();
            file.write(b"").unwrap();
        }
    }
    fs.record_history();
    let db = Db::open("/db", inline(&fs)).unwrap();
    db.flush().unwrap();
    for entry in fs.journal().iter().filter(|entry| entry.kind == OpKind::Create) {
        let name = entry.path.file_name().unwrap().to_str().unwrap();
        let digits: String = name.chars().filter(char::is_ascii_digit).collect();
        assert!(digits.parse::<u64>().unwrap() > number + 7, "{entry}");
    }
    assert_eq!(keys(&db), ["a", "b"]);
}

/// Other engines treat a read that returns fewer bytes than requested as the end of the log, even
/// in the middle of the log.
#[test]
fn a_short_read_in_a_log_is_not_its_end() {
    let fs = SimFs::new(12);
    let db = Db::open("/db", inline(&fs).write_buffer_bytes(1 << 20)).unwrap();
    for i in 0..200 {
        db.writing(synced()).put(format!("{i:03}"), "x".repeat(300)).unwrap();
    }
    drop(db);
    for (bytes, is_end) in [(1, false), (700, false), (0, true)] {
        let copy = fs.crash_image(&CrashPlan::strict());
        copy.inject(Fault::short_read(bytes).path("*.log"));
        match Db::open("/db", inline(&copy)) {
            // Short reads are continued. A read that ends before the file's length is an error.
            Ok(db) => assert!(!is_end && keys(&db).len() == 200, "{bytes} bytes"),
            Err(error) => assert!(is_end && !error.is_corruption(), "{bytes} bytes: {error}"),
        }
        copy.clear_faults();
        assert_eq!(keys(&Db::open("/db", inline(&copy)).unwrap()).len(), 200);
    }
}

/// The disk is full during a compaction and then has space again, without a reopen; or file handles
/// run out during a compaction.
#[test]
fn a_compaction_goes_on_when_space_or_handles_are_back() {
    for fault in [
        Fault::no_space().on(&[OpKind::Write]),
        Fault::too_many_open_files().on(&[OpKind::Create]),
        Fault::too_many_open_files().on(&[OpKind::Open]),
    ] {
        let fs = SimFs::new(13);
        // Only one table may stay open, so compactions must open tables.
        let db = Db::open("/db", inline(&fs).max_open_files(1)).unwrap();
        for round in 0..3 {
            for i in 0..20 {
                db.put(format!("{i:02}"), format!("{round}")).unwrap();
            }
            db.flush().unwrap();
        }
        let before = entries(&db);
        let text = format!("{fault:?}");
        fs.inject(fault.path("*.ldb").sticky());
        let failed = db.compact_range(..);
        fs.clear_faults();
        assert_eq!(entries(&db), before);
        db.compact_range(..).unwrap();
        assert_eq!(entries(&db), before);
        assert!(failed.is_err() || text.contains("Open"), "{text}");
        db.writing(synced()).put("new", "1").unwrap();
    }
}

/// LevelDB issue 178: keys deleted between puts come back after a compaction of the range.
#[test]
fn interleaved_deletes_stay_deleted_after_a_compaction() {
    let count = 1_100_000u32;
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().create_if_missing(true);
    let db = Db::open(dir.path(), options).unwrap();
    let key = |set: u32, i: u32| format!("my_key_{set}_{i:09}");
    for set in 0..2 {
        for start in (0..count / 2).step_by(1000) {
            let mut batch = WriteBatch::new();
            (start..(start + 1000).min(count / 2)).for_each(|i| batch.put(key(set, i), "value"));
            db.write(batch).unwrap();
        }
    }
    for start in (0..count / 2).step_by(1000) {
        let mut batch = WriteBatch::new();
        (start..(start + 1000).min(count / 2)).for_each(|i| batch.delete(key(1, i)));
        db.write(batch).unwrap();
    }
    db.compact_range(key(1, 0)..=key(1, count)).unwrap();
    assert_eq!(db.iter().count(), count as usize / 2);
    assert_eq!(db.prefix("my_key_1").unwrap().count(), 0);
}

/// LevelDB issue 320: two tables of a level hold versions of the same user key, and a compaction
/// takes only the newer version down, so that reads find the older one.
#[test]
fn versions_of_a_key_that_snapshots_hold_stay_in_order() {
    let fs = SimFs::new(14);
    let db = Db::open("/db", inline(&fs).max_file_bytes(600)).unwrap();
    let mut snapshots = Vec::new();
    for round in 0..60 {
        db.put("hot", format!("{round:04}{}", "x".repeat(100))).unwrap();
        snapshots.push(db.snapshot());
        if round % 4 == 0 {
            db.put(format!("cold{round:02}"), "x").unwrap();
            db.flush().unwrap();
            db.wait_idle().unwrap();
        }
    }
    for pass in 0..3 {
        for (round, snapshot) in snapshots.iter().enumerate() {
            let value = snapshot.get("hot").unwrap().unwrap();
            assert_eq!(value[..4], *format!("{round:04}").as_bytes(), "pass {pass}");
        }
        db.compact_range("a"..="i").unwrap();
    }
    assert!(db.get("hot").unwrap().unwrap().starts_with(b"0059"));
}

/// LevelDB issue 200: an iterator that changes direction after a put skips an entry.
#[test]
fn an_iterator_that_turns_round_while_a_put_lands_skips_nothing() {
    let fs = SimFs::new(15);
    let db = Db::open("/db", inline(&fs)).unwrap();
    for key in ["1", "2", "3", "4", "5"] {
        db.put(key, "b").unwrap();
    }
    let mut cursor = db.cursor().unwrap();
    db.put("1", "b").unwrap();
    assert!(cursor.seek("5").unwrap() && cursor.key() == b"5");
    for expected in ["4", "3"] {
        assert!(cursor.prev().unwrap() && cursor.key() == expected.as_bytes());
    }
    db.put("35", "lands").unwrap();
    for expected in ["4", "5"] {
        assert!(cursor.next().unwrap() && cursor.key() == expected.as_bytes());
    }
}

/// The database is reopened again and again with an empty key in the log.
#[test]
fn an_empty_key_survives_reopen_loops() {
    let fs = SimFs::new(16);
    for round in 0..8 {
        for reuse in [false, true] {
            let db = Db::open("/db", inline(&fs).reuse_logs(reuse)).unwrap();
            let expected = (round > 0 || reuse).then(|| b"value".to_vec());
            assert_eq!(db.get("").unwrap().map(|value| value.to_vec()), expected);
            db.put("", "value").unwrap();
            db.delete("gone").unwrap();
        }
    }
}

/// A table that cannot be read makes LevelDB's compaction fail and restart endlessly.
#[test]
fn a_damaged_table_does_not_make_compactions_spin() {
    let fs = SimFs::new(17);
    let db = Db::open("/db", options(&fs)).unwrap();
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    let table = files(&fs, ".ldb").pop().unwrap();
    drop(db);
    for offset in 0..fs.len(&table).unwrap() {
        fs.damage(&table, offset, 0xff).unwrap();
    }
    let db = Db::open("/db", options(&fs)).unwrap();
    for i in 0..8 {
        for key in ["a", "b"] {
            db.put(key, format!("{i}")).unwrap();
        }
        if db.flush().is_err() {
            break;
        }
    }
    while db.health().damaged_tables.is_empty() {
        std::thread::yield_now();
    }
    assert!(db.wait_idle().unwrap_err().is_corruption());
    assert_eq!(db.health().compaction_failures, 1);
    assert_eq!(db.get("b").unwrap().as_deref(), Some(&b"7"[..]));
}

/// The contents of CURRENT are untrusted. If CURRENT contains a path that leads out of the
/// directory, the open is refused and the path is not followed.
#[test]
fn a_current_that_names_another_directory_is_refused() {
    let fs = SimFs::new(18);
    drop(Db::open("/db", inline(&fs)).unwrap());
    for bad in ["../../x\n", "/MANIFEST-000002\n", "MANIFEST-000002/../MANIFEST-000002\n", "\n"] {
        fs.create(Path::new("/db/CURRENT")).unwrap().write(bad.as_bytes()).unwrap();
        let opened = fs.counts().of(OpKind::Open);
        let error = Db::open("/db", inline(&fs)).unwrap_err();
        assert!(error.is_corruption(), "{bad:?}: {error}");
        assert_eq!(fs.counts().of(OpKind::Open), opened + 1, "only CURRENT was opened");
    }
}

/// If a process could open a database twice, compactions of the second handle would remove files
/// that the first handle reads.
#[test]
fn a_second_open_by_the_same_process_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let options = || Options::default().create_if_missing(true);
    let db = Db::open(dir.path(), options()).unwrap();
    for _ in 0..3 {
        let error = Db::open(dir.path(), options()).unwrap_err();
        assert!(matches!(&error, Error::Locked { .. }), "{error}");
    }
    db.put("a", "1").unwrap();
    drop(db);
    assert_eq!(keys(&Db::open(dir.path(), options()).unwrap()), ["a"]);
}

/// Recoveries from a crash are themselves interrupted by crashes, again and again, until one
/// recovery completes.
#[test]
fn crashes_during_recovery_from_crashes_lose_nothing() {
    let fs = SimFs::new(19);
    let db = Db::open("/db", inline(&fs)).unwrap();
    for i in 0..60 {
        db.writing(synced()).put(format!("{i:02}"), "x".repeat(200)).unwrap();
    }
    let mut image = fs.crash_image(&CrashPlan::random(1));
    for depth in 0..40 {
        image.record_history();
        let db = Db::open("/db", inline(&image)).unwrap_or_else(|e| panic!("depth {depth}: {e}"));
        assert_eq!(keys(&db).len(), 60, "depth {depth}");
        let op = image.op_count() * (depth % 7) / 7;
        let plan = CrashPlan::random(depth).at_op(op);
        let next = image.crash_image(&plan);
        drop(db);
        image = next;
    }
}

/// LevelDB's logs have no marker at their start. If one log is damaged, the next log does not
/// continue it, but LevelDB replays the next log all the same.
#[test]
fn a_log_after_a_damaged_one_is_not_replayed_with_or_without_a_marker() {
    for has_marker in [true, false] {
        let fs = SimFs::new(20);
        // Nothing is flushed, so the logs must stay.
        fs.inject(Fault::no_space().on(&[OpKind::Create]).path("*.ldb").sticky());
        let db = Db::open("/db", inline(&fs).write_buffer_bytes(500)).unwrap();
        let mut count = 0;
        while files(&fs, ".log").len() < 2 || count % 4 != 0 {
            db.put(format!("{count:02}"), "x".repeat(100)).unwrap();
            count += 1;
        }
        drop(db);
        fs.clear_faults();
        let logs = files(&fs, ".log");
        fs.damage(&logs[0], 19 + 20, 1).unwrap();
        let mut bytes = vec![0; fs.len(&logs[1]).unwrap() as usize];
        fs.open(&logs[1]).unwrap().read_at(&mut bytes, 0).unwrap();
        let kept = if has_marker { &bytes[..] } else { &bytes[19..] };
        fs.create(&logs[1]).unwrap().write(kept).unwrap();
        let db = Db::open("/db", inline(&fs)).unwrap();
        assert_eq!(keys(&db), Vec::<String>::new(), "marker: {has_marker}");
        assert_eq!(db.recovery().lost.len(), 2);
        drop(db);
        assert!(Db::open("/db", inline(&fs)).unwrap().recovery().lost.is_empty());
    }
}

/// The last record of a MANIFEST is damaged after the record took effect. The files that the record
/// made obsolete are gone, so the record is not an edit that a crash interrupted. An open without
/// the record would lose the tables that the record named.
#[test]
fn a_manifest_whose_last_durable_record_is_damaged_is_refused() {
    for compacts in [false, true] {
        let fs = SimFs::new(21);
        let db = Db::open("/db", inline(&fs)).unwrap();
        db.put("a", "1").unwrap();
        db.flush().unwrap();
        if compacts {
            db.put("a", "2").unwrap();
            db.compact_range(..).unwrap();
        }
        drop(db);
        let mut names = fs.list(Path::new("/db")).unwrap();
        names.retain(|name| name.starts_with("MANIFEST-"));
        let manifest = Path::new("/db").join(names.pop().unwrap());
        fs.damage(&manifest, fs.len(&manifest).unwrap() - 1, 1).unwrap();
        for paranoid in [false, true] {
            let error = Db::open("/db", inline(&fs).paranoid_checks(paranoid)).unwrap_err();
            assert!(error.is_corruption(), "{error}");
            assert!(error.to_string().contains("MANIFEST"), "{error}");
            assert!(Db::open_read_only("/db", inline(&fs)).is_err());
        }
        fs.damage(&manifest, fs.len(&manifest).unwrap() - 1, 1).unwrap();
        assert_eq!(keys(&Db::open("/db", inline(&fs)).unwrap()), ["a"]);
    }
}
