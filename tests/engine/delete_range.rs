//! Range deletes: what they remove, and how they interact with snapshots, iterators, transactions,
//! compactions, failures, crashes and damage.

use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use minikv::fs::sim::{CrashPlan, Fault, OpKind};
use minikv::fs::{Fs, SimFs};
use minikv::{Db, Error, HealthState, ReadOptions, Readable, RepairOptions, WriteOptions};

use crate::comparators::Order;
use crate::{Contents, contents, disk_bytes, edits, key, levels, on, rng, small};

/// Puts the keys of `range`, each with a value of its own.
fn fill(db: &Db, range: std::ops::Range<u32>, value: &str) {
    range.for_each(|i| db.put(key(i), format!("{value} {i} of the first fill")).unwrap());
}

fn tables_on_disk(fs: &SimFs) -> usize {
    fs.list(Path::new("/db")).unwrap().iter().filter(|name| name.ends_with(".ldb")).count()
}

#[test]
fn whole_tables_go_at_once_and_keys_at_the_ends_one_by_one() {
    let fs = SimFs::new(1);
    let db = Db::open("/db", on(&fs)).unwrap();
    fill(&db, 0..20_000, "value");
    db.compact_range(..).unwrap();
    let tables = levels(&db).iter().sum::<u64>();
    assert!(tables > 20, "{tables} tables");
    let already_read = fs.counts().bytes_read;
    let done = db.delete_range(key(1005)..key(18_995)).unwrap();
    assert_eq!(done.tables + 4, tables, "all but two tables at each end: {done:?}");
    assert!(done.keys > 0 && done.keys < 2000, "{done:?}");
    assert!(done.file_bytes > 10 * (16 << 10), "{done:?}");
    // Only the tables at the two ends of the range were read. The tables between them were removed
    // from the disk.
    let read = fs.counts().bytes_read - already_read;
    assert!(read < 4 * (16 << 10), "{read} bytes were read");
    assert!(tables_on_disk(&fs) <= 5, "{} tables", tables_on_disk(&fs));
    let left: Vec<_> = contents(&db).into_keys().collect();
    let expected: Vec<_> = (0..1005).chain(18_995..20_000).map(|i| key(i).into_bytes()).collect();
    assert_eq!(left, expected);
    assert_eq!(db.iter().rev().count(), expected.len());
    for i in [0, 1004, 1005, 10_000, 18_994, 18_995] {
        assert_eq!(db.get(key(i)).unwrap().is_some(), !(1005..18_995).contains(&i), "{i}");
    }
    // Writes after the range delete are not affected by it.
    db.put(key(5000), "late").unwrap();
    assert_eq!(db.get(key(5000)).unwrap().as_deref(), Some(&b"late"[..]));
    drop(db);
    assert!(minikv::verify("/db", &on(&fs)).unwrap().is_sound());
    let db = Db::open("/db", on(&fs)).unwrap();
    assert_eq!(contents(&db).len(), expected.len() + 1);
    db.compact_range(..).unwrap();
    assert_eq!(contents(&db).len(), expected.len() + 1);
}

#[test]
fn few_entries_are_deleted_by_a_batch_without_a_flush() {
    let fs = SimFs::new(2);
    let db = Db::open("/db", on(&fs).write_buffer_bytes(4 << 20)).unwrap();
    fill(&db, 0..1000, "value");
    fs.record_history();
    let done = db.delete_range(key(100)..=key(300)).unwrap();
    assert_eq!((done.tables, done.keys), (0, 201));
    let kinds: Vec<_> = fs.journal().iter().map(|entry| entry.kind).collect();
    assert!(!kinds.contains(&OpKind::Create) && !kinds.contains(&OpKind::Sync), "{kinds:?}");
    let sync = WriteOptions::default().sync(true);
    db.writing(sync).delete_range(..key(10)).unwrap();
    let synced = fs.journal().iter().any(|entry| entry.kind == OpKind::Sync);
    assert!(synced, "a synced range delete syncs the log");
    assert_eq!(contents(&db).len(), 1000 - 201 - 10);
    assert_eq!(levels(&db).iter().sum::<u64>(), 0);
}

/// Checks that a few keys with large values are not deleted one by one: their tables are removed,
/// which frees the space.
#[test]
fn few_large_entries_go_with_their_tables() {
    let fs = SimFs::new(1);
    let db = Db::open("/db", on(&fs).compression(minikv::Compression::None)).unwrap();
    let value = "x".repeat(8 << 10);
    fill(&db, 0..10, &value);
    db.compact_range(..).unwrap();
    assert!(tables_on_disk(&fs) > 3);
    let done = db.delete_range(..).unwrap();
    assert!(done.file_bytes > 10 * (8 << 10), "{done:?}");
    assert_eq!((done.keys, tables_on_disk(&fs)), (0, 0));
}

/// Deletes ranges with all kinds of bounds in random databases of many levels, and compares the
/// results with a model. Some of the databases sort their keys in reverse order.
#[test]
fn ranges_of_all_kinds_delete_the_keys_that_a_model_deletes() {
    let mut rng = rng::Rng::new(7);
    let (mut by_tables, mut by_batch) = (0, 0);
    for round in 0..60 {
        let fs = SimFs::new(round);
        let reverse = round % 3 == 2;
        let mut options = on(&fs).write_buffer_bytes(8 << 10).max_file_bytes(2 << 10);
        if reverse {
            options = options.comparator(Order::Reverse.comparator());
        }
        let db = Db::open("/db", options).unwrap();
        let mut model = Contents::new();
        for _ in 0..6 {
            for _ in 0..rng.below(800) {
                let i = rng.below(1500) as u32;
                if rng.below(6) == 0 {
                    db.delete(key(i)).unwrap();
                    model.remove(key(i).as_bytes());
                } else {
                    let value = format!("{} {i}", rng.below(1000));
                    db.put(key(i), &value).unwrap();
                    model.insert(key(i).into_bytes(), value.into_bytes());
                }
            }
            let mut bound = || {
                let key = key(rng.below(1500) as u32).into_bytes();
                match rng.below(7) {
                    0 => Unbounded,
                    1..4 => Included(key),
                    _ => Excluded(key),
                }
            };
            let range: (Bound<Vec<u8>>, Bound<Vec<u8>>) = (bound(), bound());
            let done = db.delete_range(range.clone()).unwrap();
            by_tables += u32::from(done.tables > 0);
            by_batch += u32::from(done.tables == 0 && done.keys > 0);
            model.retain(|key, _| !is_in(key, &range, reverse));
            assert_eq!(contents(&db), model, "round {round}, {range:?}, {done:?}");
            for _ in 0..50 {
                let key = key(rng.below(1500) as u32);
                let expected = model.get(key.as_bytes()).cloned();
                assert_eq!(db.get(&key).unwrap().map(|v| v.to_vec()), expected, "{key}");
            }
        }
        db.compact_range(..).unwrap();
        assert_eq!(contents(&db), model);
    }
    assert!(by_tables > 50 && by_batch > 50, "{by_tables} by tables, {by_batch} by a batch");
}

fn is_in(key: &[u8], range: &(Bound<Vec<u8>>, Bound<Vec<u8>>), reverse: bool) -> bool {
    let (mut from, mut to) = (range.0.as_ref(), range.1.as_ref());
    if reverse {
        std::mem::swap(&mut from, &mut to);
    }
    let after = match from {
        Unbounded => true,
        Included(from) => key >= &from[..],
        Excluded(from) => key > &from[..],
    };
    let before = match to {
        Unbounded => true,
        Included(to) => key <= &to[..],
        Excluded(to) => key < &to[..],
    };
    after && before
}

#[test]
fn snapshots_iterators_and_cursors_that_exist_go_on_to_show_the_entries() {
    let fs = SimFs::new(3);
    let db = Db::open("/db", on(&fs)).unwrap();
    fill(&db, 0..6000, "old");
    db.compact_range(..).unwrap();
    fill(&db, 2000..2500, "newer");
    let before = contents(&db);
    let (snapshot, iter) = (db.snapshot(), db.iter());
    let clone = snapshot.clone();
    let mut cursor = db.cursor().unwrap();
    assert!(cursor.seek(key(3000)).unwrap());
    let done = db.delete_range(..).unwrap();
    assert!(done.tables > 3, "{done:?}");
    assert!(db.is_empty().unwrap());
    // Writes after the delete do not appear in the snapshot, either.
    fill(&db, 0..3000, "after");
    db.delete_range(key(100)..key(2900)).unwrap();
    db.compact_range(..).unwrap();
    let shown = |snapshot: &minikv::Snapshot| -> Contents {
        let entries = snapshot.iter().map(Result::unwrap);
        entries.map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
    };
    assert_eq!(shown(&snapshot), before);
    assert_eq!(snapshot.get(key(5)).unwrap().as_deref(), Some(&b"old 5 of the first fill"[..]));
    assert_eq!(snapshot.multi_get(&[key(2100), key(9999)]).unwrap()[1], None);
    assert!(snapshot.explain(key(2100)).unwrap().value.is_some());
    assert_eq!(snapshot.iter().rev().count(), before.len());
    assert_eq!(iter.count(), before.len());
    assert!(cursor.valid() && cursor.next().unwrap());
    assert_eq!(cursor.key(), key(3001).as_bytes());
    assert_eq!(contents(&db).len(), 200);
    // The space is freed when the last handle that shows the entries is dropped.
    let held = tables_on_disk(&fs);
    drop((snapshot, cursor));
    assert_eq!(tables_on_disk(&fs), held);
    drop(clone);
    assert!(tables_on_disk(&fs) + 5 < held, "{} of {held}", tables_on_disk(&fs));
}

#[test]
fn transactions_that_read_in_the_range_conflict() {
    let fs = SimFs::new(4);
    let db = Db::open("/db", on(&fs)).unwrap();
    fill(&db, 0..6000, "value");
    db.compact_range(..).unwrap();
    let begin = || {
        let mut transaction = db.transaction();
        transaction.put("conclusion", "1");
        transaction
    };
    let by_key = begin();
    by_key.get(key(3000)).unwrap();
    let by_range = begin();
    assert_eq!(by_range.range(key(4990)..key(5200)).count(), 210);
    let outside = begin();
    outside.get(key(10)).unwrap();
    assert_eq!(outside.range(key(5000)..).count(), 1000);
    let untracked = begin();
    untracked.reading(ReadOptions::default().track(false)).get(key(3000)).unwrap();
    let done = db.delete_range(key(1000)..key(5000)).unwrap();
    assert!(done.tables > 3, "{done:?}");
    // The transaction still reads the state from before the delete.
    assert!(by_key.get(key(2000)).unwrap().is_some());
    let conflict = |error: Error| match error {
        Error::Conflict { key, .. } => String::from_utf8(key.to_vec()).unwrap(),
        error => panic!("{error}"),
    };
    assert_eq!(conflict(by_key.commit().unwrap_err()), key(2000));
    assert_eq!(conflict(by_range.commit().unwrap_err()), key(4990));
    outside.commit().unwrap();
    untracked.commit().unwrap();
    // A transaction that begins afterwards sees the deletion, and does not conflict with it.
    let after = begin();
    assert_eq!(after.get(key(3000)).unwrap(), None);
    after.commit().unwrap();
}

#[test]
fn a_failed_range_delete_deletes_nothing_and_leaves_no_file() {
    let kinds = [OpKind::Create, OpKind::Write, OpKind::Sync, OpKind::Read, OpKind::SyncDir];
    let (mut failures, mut cleaned) = (0, 0);
    for kind in kinds {
        for nth in 1..12 {
            let fs = SimFs::new(5);
            let db = Db::open("/db", on(&fs)).unwrap();
            fill(&db, 0..4000, "value");
            db.compact_range(..).unwrap();
            fill(&db, 500..900, "value");
            let before = contents(&db);
            fs.inject(Fault::io_error().on(&[kind]).nth(nth));
            let result = db.delete_range(key(700)..key(3500));
            fs.clear_faults();
            let shown = contents(&db);
            match &result {
                Ok(_) => assert_eq!(shown.len(), 1200, "{kind:?} {nth}"),
                Err(_) => assert_eq!(shown, before, "{kind:?} {nth}"),
            }
            failures += u32::from(result.is_err());
            if result.is_err() && matches!(db.health().state, HealthState::Good) {
                let tables = levels(&db).iter().sum::<u64>() as usize;
                assert_eq!(tables_on_disk(&fs), tables, "{kind:?} {nth}");
                cleaned += 1;
            }
            drop(db);
            let db = Db::open("/db", on(&fs)).unwrap();
            let reopened = contents(&db);
            assert!(reopened == before || reopened.len() == 1200, "{kind:?} {nth}");
            assert!(result.is_err() || reopened.len() == 1200, "{kind:?} {nth}");
            let tables = levels(&db).iter().sum::<u64>() as usize;
            assert_eq!(tables_on_disk(&fs), tables, "{kind:?} {nth}");
        }
    }
    assert!(failures > 10 && cleaned > 5, "{failures} failures, {cleaned} cleaned up");
}

#[test]
fn a_crash_at_any_step_shows_all_of_the_deletion_or_nothing() {
    let fs = SimFs::new(6);
    let db = Db::open("/db", on(&fs)).unwrap();
    fill(&db, 0..4000, "value");
    db.compact_range(..).unwrap();
    fill(&db, 500..900, "value");
    db.sync().unwrap();
    let before = contents(&db);
    fs.record_history();
    let begins = fs.op_count();
    db.delete_range(key(700)..key(3500)).unwrap();
    let done = fs.op_count();
    db.put("after", "1").unwrap();
    let after = contents(&db);
    let ends = fs.op_count();
    let (mut old, mut new, mut left) = (0, 0, 0);
    for op in begins..=ends {
        for plan in [CrashPlan::strict(), CrashPlan::everything(), CrashPlan::random(op)] {
            let image = fs.crash_image(&plan.clone().at_op(op));
            let repaired = fs.crash_image(&plan.at_op(op));
            let files = tables_on_disk(&image);
            let db = Db::open("/db", on(&image)).unwrap();
            let mut shown = contents(&db);
            left += u32::from(files > tables_on_disk(&image) && shown.len() < before.len());
            // A repair does not bring back deleted entries, even if their tables are still there.
            minikv::repair("/db", &on(&repaired), RepairOptions::default()).unwrap();
            let repaired = Db::open("/db", on(&repaired)).unwrap();
            assert!(contents(&repaired) == shown, "repaired at {op}");
            assert!(op < done || shown.len() < before.len(), "the deletion is not durable");
            if shown.remove(&b"after"[..]).is_some() || shown.len() < before.len() {
                assert_eq!(shown.len() + 1, after.len(), "at {op}");
                new += 1;
            } else {
                assert_eq!(shown, before, "at {op}");
                old += 1;
            }
        }
    }
    assert!(old > 10 && new > 5, "{old} before, {new} after");
    assert!(left > 5, "{left} with dropped tables on the disk");
}

/// Damages each of the last two edits, both of a range delete that drops no table.
#[test]
fn a_manifest_that_lost_the_edit_of_a_range_delete_is_refused_and_the_deletions_stay() {
    for is_last in [false, true] {
        let fs = SimFs::new(10);
        let options = || on(&fs).max_file_bytes(1 << 20);
        let db = Db::open("/db", options()).unwrap();
        fill(&db, 0..1000, "value");
        db.compact_range(..).unwrap();
        for range in [key(100)..key(300), key(500)..key(700)] {
            let done = db.delete_range(range).unwrap();
            assert_eq!((done.tables, done.keys), (0, 200));
        }
        let expected = contents(&db);
        drop(db);
        let (manifest, edits) = edits(&fs, "/db");
        let [.., before, last] = edits[..] else { panic!("{edits:?}") };
        let edit = if is_last { last } else { before };
        fs.damage(&manifest, edit + 7 + 5, 1).unwrap();
        for opened in
            [Db::open("/db", options()).map(drop), Db::open_read_only("/db", options()).map(drop)]
        {
            assert!(opened.unwrap_err().is_corruption(), "last: {is_last}");
        }
        assert_eq!(tables_on_disk(&fs), 3, "last: {is_last}");
        minikv::repair("/db", &options(), RepairOptions::default()).unwrap();
        assert!(contents(&Db::open("/db", options()).unwrap()) == expected, "last: {is_last}");
    }
}

/// Damages or cuts off the last edit, of a range delete that only drops tables. A snapshot has kept
/// their files until the process was killed.
#[test]
fn a_manifest_that_lost_the_edit_of_a_range_delete_that_drops_tables_is_refused() {
    for (is_cut, writes_after) in [(false, false), (false, true), (true, false), (true, true)] {
        let fs = SimFs::new(11);
        let db = Db::open("/db", on(&fs)).unwrap();
        fill(&db, 0..6000, "value");
        db.compact_range(..).unwrap();
        let before = contents(&db);
        let snapshot = db.snapshot();
        let done = db.delete_range(..).unwrap();
        assert!(done.tables > 3 && done.keys == 0, "{done:?}");
        if writes_after {
            db.writing(WriteOptions::default().sync(true)).put("after", "1").unwrap();
        }
        let [sound, killed] = [(); 2].map(|()| fs.crash_image(&CrashPlan::process_kill()));
        drop(snapshot);
        let deleted = contents(&Db::open("/db", on(&sound)).unwrap());
        assert_eq!(deleted.len(), usize::from(writes_after));
        let (manifest, edits) = edits(&killed, "/db");
        let last = *edits.last().unwrap();
        match is_cut {
            false => killed.damage(&manifest, last + 7, 1).unwrap(),
            true => killed.append(&manifest).unwrap().set_len(last).unwrap(),
        }
        let what = format!("cut: {is_cut}, writes after: {writes_after}");
        let tables = tables_on_disk(&killed);
        for opened in [
            Db::open("/db", on(&killed)).map(drop),
            Db::open_read_only("/db", on(&killed)).map(drop),
        ] {
            assert!(opened.expect_err(&what).is_corruption(), "{what}");
        }
        assert!(!minikv::verify("/db", &on(&killed)).unwrap().is_sound(), "{what}");
        assert_eq!(tables_on_disk(&killed), tables, "{what}");
        // A repair cannot know what was deleted, but it keeps the write.
        minikv::repair("/db", &on(&killed), RepairOptions::default()).unwrap();
        let db = Db::open("/db", on(&killed)).unwrap();
        assert!(db.recovery().lost.is_empty(), "{what}: {:?}", db.recovery());
        let mut found = contents(&db);
        assert_eq!(found.remove(&b"after"[..]).is_some(), writes_after, "{what}");
        assert!(found == before, "{what}");
        drop(db);
        assert!(minikv::verify("/db", &on(&killed)).unwrap().is_sound(), "{what}");
    }
}

#[test]
fn a_damaged_table_within_the_range_is_dropped_and_across_its_end_it_is_an_error() {
    let fs = SimFs::new(8);
    let db = Db::open("/db", on(&fs)).unwrap();
    fill(&db, 0..6000, "value");
    db.compact_range(..).unwrap();
    drop(db);
    for name in fs.list(Path::new("/db")).unwrap() {
        if name.ends_with(".ldb") {
            fs.damage(&Path::new("/db").join(name), 100, 0xff).unwrap();
        }
    }
    let db = Db::open("/db", on(&fs)).unwrap();
    db.get(key(10)).unwrap_err();
    let error = db.delete_range(key(1000)..key(5000)).unwrap_err();
    assert!(error.is_corruption() && error.to_string().contains(".ldb"), "{error}");
    db.get(key(10)).unwrap_err();
    // The compaction finds the damage. Once no damaged table is left, the database is healthy
    // again.
    let error = db.compact_range(..).unwrap_err();
    assert!(error.is_corruption(), "{error}");
    assert!(matches!(db.health().state, HealthState::Degraded), "{:?}", db.health());
    let done = db.delete_range(..).unwrap();
    assert!(done.tables > 5 && done.keys == 0, "{done:?}");
    assert!(matches!(db.health().state, HealthState::Good), "{:?}", db.health());
    assert!(db.is_empty().unwrap());
    fill(&db, 0..2000, "anew");
    db.compact_range(..).unwrap();
    assert_eq!(contents(&db).len(), 2000);
}

#[test]
fn a_few_keys_in_a_damaged_table_are_dropped_with_it() {
    let fs = SimFs::new(8);
    let db = Db::open("/db", on(&fs)).unwrap();
    fill(&db, 0..20, "value");
    db.compact_range(..).unwrap();
    drop(db);
    let tables =
        fs.list(Path::new("/db")).unwrap().into_iter().filter(|name| name.ends_with("ldb"));
    tables.for_each(|name| fs.damage(&Path::new("/db").join(name), 100, 0xff).unwrap());
    let db = Db::open("/db", on(&fs)).unwrap();
    db.get(key(10)).unwrap_err();
    let done = db.delete_range(..).unwrap();
    assert_eq!((done.tables, done.keys), (1, 0));
    assert!(db.is_empty().unwrap());
}

#[test]
fn a_few_keys_in_a_table_that_cannot_be_read_are_dropped_with_it() {
    let fs = SimFs::new(8);
    let db = Db::open("/db", on(&fs)).unwrap();
    fill(&db, 0..20, "value");
    db.compact_range(..).unwrap();
    drop(db);
    let db = Db::open("/db", on(&fs)).unwrap();
    fs.inject(Fault::io_error().on(&[OpKind::Read]).path("*.ldb").sticky());
    assert!(db.get(key(10)).unwrap_err().io_kind().is_some());
    // The end of the range is in the table, so the keys before it would have to be read.
    let error = db.delete_range(..key(10)).unwrap_err();
    assert!(error.io_kind().is_some(), "{error}");
    let done = db.delete_range(..).unwrap();
    assert_eq!((done.tables, done.keys), (1, 0));
    fs.clear_faults();
    assert!(db.is_empty().unwrap());
    drop(db);
    assert!(Db::open("/db", on(&fs)).unwrap().is_empty().unwrap());
}

#[test]
fn empty_ranges_and_empty_databases_change_nothing() {
    let fs = SimFs::new(9);
    let db = Db::open("/db", on(&fs)).unwrap();
    db.delete_range(..).unwrap();
    fill(&db, 0..10, "value");
    let before = db.snapshot().sequence();
    for (from, to) in [(5, 5), (7, 3)] {
        let done = db.delete_range(key(from)..key(to)).unwrap();
        assert_eq!((done.tables, done.keys), (0, 0));
    }
    assert_eq!(db.snapshot().sequence(), before);
    assert_eq!(contents(&db).len(), 10);
    db.delete_range(key(5)..=key(5)).unwrap();
    assert_eq!(contents(&db).len(), 9);
}

#[test]
fn the_background_gives_the_space_back_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    fill(&db, 0..20_000, "value");
    db.compact_range(..).unwrap();
    let snapshot = db.snapshot();
    let before = disk_bytes(dir.path());
    let shrinks = || {
        let end = Instant::now() + Duration::from_secs(60);
        while disk_bytes(dir.path()) > before / 4 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        disk_bytes(dir.path()) <= before / 4
    };
    assert!(db.delete_range(key(10)..key(19_990)).unwrap().tables > 15);
    assert!(disk_bytes(dir.path()) > before / 4, "a snapshot shows the tables");
    drop(snapshot);
    assert!(shrinks());
    fill(&db, 0..20_000, "value");
    db.compact_range(..).unwrap();
    // No compaction follows this range delete, so the range delete itself must remove the files.
    assert!(db.delete_range(..).unwrap().tables > 15);
    assert!(shrinks());
}

/// Checks that a reader sees either all keys of a block or none of them, while writers put and
/// delete whole blocks and compactions run.
#[test]
fn range_deletes_beside_writers_and_readers_are_seen_whole() {
    const BLOCK: u32 = 1500;
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    let (done, checks) = (AtomicBool::new(false), AtomicU32::new(0));
    let block_key = |block: u32, i: u32| format!("block{block}/{i:05}");
    std::thread::scope(|threads| {
        for block in 0..2 {
            let (db, done) = (db.clone(), &done);
            threads.spawn(move || {
                for round in 0..12 {
                    let mut batch = minikv::WriteBatch::new();
                    (0..BLOCK).for_each(|i| batch.put(block_key(block, i), format!("{round}")));
                    db.write(batch).unwrap();
                    if round % 3 == 0 {
                        db.flush().unwrap();
                    }
                    let name = format!("block{block}/");
                    let deleted = db.delete_range(name.clone()..format!("{name}~")).unwrap();
                    assert!(deleted.tables > 0 || deleted.keys > 0, "{deleted:?}");
                    assert!(db.prefix(&name).unwrap().next().is_none(), "entries stay");
                }
                done.store(true, Ordering::Relaxed);
            });
        }
        for _ in 0..2 {
            let (db, done, checks) = (db.clone(), &done, &checks);
            threads.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let snapshot = db.snapshot();
                    for block in 0..2 {
                        let name = format!("block{block}/");
                        let whole = |entries: minikv::Iter| {
                            let values: Vec<_> = entries.map(|entry| entry.unwrap().1).collect();
                            let is_one = values.windows(2).all(|pair| pair[0] == pair[1]);
                            assert!(is_one && [0, BLOCK as usize].contains(&values.len()));
                            values
                        };
                        whole(db.prefix(&name).unwrap());
                        let first = whole(snapshot.prefix(&name).unwrap());
                        std::thread::yield_now();
                        assert_eq!(whole(snapshot.prefix(&name).unwrap()), first);
                        let got = snapshot.get(block_key(block, 700)).unwrap();
                        assert_eq!(got.as_ref(), first.first());
                        checks.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let (db, done) = (db.clone(), &done);
        threads.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                db.compact_range(..).unwrap();
            }
        });
    });
    assert!(checks.load(Ordering::Relaxed) > 20);
}

#[test]
fn a_prefix_is_deleted_whole_and_nothing_beside_it() {
    let keys: [&[u8]; 9] =
        [b"", b"a", b"ab", b"a\xff", b"a\xff\xff", b"b", b"\xfe", b"\xff", b"\xff\xff"];
    for prefix in [&b"a"[..], b"a\xff", b"\xff", b"\xff\xff", b"zz", b""] {
        let fs = SimFs::new(1);
        let db = Db::open("/db", on(&fs)).unwrap();
        let space = db.keyspace("space").unwrap();
        for key in keys {
            space.put(key, "in a keyspace").unwrap();
        }
        let deleted = space.delete_prefix(prefix).unwrap();
        let stays: Vec<_> = keys.into_iter().filter(|key| !key.starts_with(prefix)).collect();
        assert_eq!(deleted.keys + stays.len() as u64, keys.len() as u64, "{deleted:?}");
        let left: Vec<_> = space.iter().keys().map(Result::unwrap).collect();
        assert_eq!(left, stays, "{prefix:?}");
        assert_eq!(space.count(..).unwrap(), stays.len() as u64);

        for key in keys {
            db.put(key, "in none").unwrap();
        }
        db.delete_prefix(prefix).unwrap();
        let left: Vec<_> = contents(&db).into_keys().collect();
        assert!(left.iter().all(|key| !key.starts_with(prefix)), "{left:?}");
        assert!(stays.iter().all(|&key| db.contains_key(key).unwrap()), "{left:?}");
        assert_eq!(db.count(..).unwrap(), left.len() as u64);
    }
}
