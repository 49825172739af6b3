//! Bulk load: what `TableWriter` and `Db::ingest` add, and how they interact with snapshots,
//! writes, compactions, crashes and misuse.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use minikv::bulk::{SortedTable, TableWriter};
use minikv::fs::sim::{CrashPlan, Fault, OpKind};
use minikv::fs::{Fs, SimFs};
use minikv::internals::format::key::{InternalComparator, KeyOrder};
use minikv::internals::table::{TableBuilder, TableOptions};
use minikv::{
    BytewiseComparator, Compression, Db, Error, Feature, Options, Readable, WriteOptions,
};
use minikv_support::forge::table_of;

use crate::comparators::Order;
use crate::{Contents, contents, edits, key, levels, on, small};

/// Writes tables with the keys of `range`.
fn tables(
    dir: impl AsRef<Path>,
    options: &Options,
    range: Range<u32>,
    value: &str,
) -> Vec<SortedTable> {
    let mut writer = TableWriter::create(dir, options).unwrap();
    range.for_each(|i| writer.put(key(i), value.repeat(10)).unwrap());
    writer.finish().unwrap()
}

fn add(model: &mut Contents, range: Range<u32>, value: &str) {
    model.extend(range.map(|i| (key(i).into_bytes(), value.repeat(10).into_bytes())));
}

#[test]
fn tables_of_a_new_database_go_to_the_last_level_and_are_linked() {
    let fs = SimFs::new(1);
    let written = tables("/tables", &on(&fs), 0..5000, "first ");
    assert!(written.len() > 3, "{written:?}");
    let db = Db::open("/db", on(&fs)).unwrap();
    fs.record_history();
    let done = db.ingest(&written).unwrap();
    assert_eq!((done.tables, done.entries), (written.len() as u64, 5000));
    assert_eq!(done.rewritten_tables, 0);
    assert_eq!(levels(&db), [0, 0, 0, 0, 0, 0, written.len() as u64]);
    let created = fs.journal().iter().filter(|entry| entry.kind == OpKind::Create).count();
    assert_eq!(created, 0, "the tables are linked");
    let mut model = Contents::new();
    add(&mut model, 0..5000, "first ");
    assert_eq!(contents(&db), model);
    // Writes after the ingest hide the ingested entries.
    db.put(key(7), "late").unwrap();
    db.delete(key(8)).unwrap();
    model.insert(key(7).into(), b"late".to_vec());
    model.remove(key(8).as_bytes());
    assert_eq!(contents(&db), model);
    db.compact_range(..).unwrap();
    assert_eq!(contents(&db), model);
    drop(db);
    assert!(minikv::verify("/db", &on(&fs)).unwrap().is_sound());
    assert_eq!(contents(&Db::open("/db", on(&fs)).unwrap()), model);
    assert!(fs.exists(written[0].path()).unwrap(), "the files stay");
}

#[test]
fn tables_hide_older_entries_wherever_these_are() {
    let fs = SimFs::new(2);
    let db = Db::open("/db", on(&fs)).unwrap();
    let mut model = Contents::new();
    let put = |range: Range<u32>, value: &str, model: &mut Contents| {
        range.clone().for_each(|i| db.put(key(i), value.repeat(10)).unwrap());
        add(model, range, value);
    };
    put(0..3000, "deep ", &mut model);
    db.compact_range(..).unwrap();
    put(1000..1200, "level 0 ", &mut model);
    db.flush().unwrap();
    put(1100..1300, "in memory ", &mut model);
    for (n, range) in [1050..1250, 2000..2500, 5000..6000, 900..3500].into_iter().enumerate() {
        let value = format!("table {n} ");
        let written = tables(format!("/tables{n}"), &on(&fs), range.clone(), &value);
        db.ingest(&written).unwrap();
        add(&mut model, range, &value);
        assert_eq!(contents(&db), model, "after ingest {n}");
        for (key, value) in &model {
            assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]), "after ingest {n}");
        }
    }
    let flat = |db: &Db| db.iter().rev().count();
    assert_eq!(flat(&db), model.len());
    db.wait_idle().unwrap();
    assert_eq!(contents(&db), model);
    db.compact_range(..).unwrap();
    assert_eq!(contents(&db), model);
    drop(db);
    assert_eq!(contents(&Db::open("/db", on(&fs)).unwrap()), model);
}

#[test]
fn snapshots_iterators_and_transactions_that_exist_do_not_see_the_tables() {
    let fs = SimFs::new(3);
    let db = Db::open("/db", on(&fs)).unwrap();
    db.put(key(5), "old").unwrap();
    let written = tables("/tables", &on(&fs), 0..1000, "new ");
    let (snapshot, iter) = (db.snapshot(), db.iter());
    let mut reader = db.transaction();
    let mut other = db.transaction();
    assert_eq!(reader.get(key(6)).unwrap(), None);
    assert_eq!(other.get("elsewhere").unwrap(), None);
    db.ingest(&written).unwrap();
    for _ in 0..2 {
        assert_eq!(snapshot.get(key(5)).unwrap().as_deref(), Some(&b"old"[..]));
        assert_eq!(snapshot.iter().count(), 1);
        db.compact_range(..).unwrap();
    }
    assert_eq!(iter.count(), 1);
    assert_eq!(db.iter().count(), 1000);
    reader.put("conclusion", "1");
    let error = reader.commit().unwrap_err();
    assert!(matches!(&error, Error::Conflict { key: k, .. } if *k == key(6)), "{error}");
    other.put("conclusion", "1");
    other.commit().unwrap();
}

#[test]
fn tables_that_are_older_than_the_database_are_written_anew() {
    let fs = SimFs::new(4);
    let db = Db::open("/db", on(&fs)).unwrap();
    let before = tables("/before", &on(&fs), 0..2000, "before ");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let after = tables("/after", &on(&fs), 1000..3000, "after ");
    let snapshot = db.snapshot();
    assert_eq!(db.ingest(&after).unwrap().rewritten_tables, 0);
    let done = db.ingest(&before).unwrap();
    assert_eq!(done.rewritten_tables, before.len() as u64);
    let mut model = Contents::new();
    add(&mut model, 1000..3000, "after ");
    add(&mut model, 0..2000, "before ");
    assert_eq!(contents(&db), model);
    assert_eq!(snapshot.iter().count(), 0);
    db.put(key(1), "last").unwrap();
    model.insert(key(1).into(), b"last".to_vec());
    db.compact_range(..).unwrap();
    assert_eq!(contents(&db), model);
    drop((db, snapshot));
    assert_eq!(contents(&Db::open("/db", on(&fs)).unwrap()), model);
}

#[test]
fn wrong_tables_are_refused_by_name_and_change_nothing() {
    let fs = SimFs::new(5);
    let options = on(&fs);
    let mut writer = TableWriter::create("/tables", &options).unwrap();
    writer.put("b", "1").unwrap();
    for key in ["b", "a", ""] {
        let error = writer.put(key, "2").unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
        assert!(error.to_string().contains("not after the key before it, b"), "{error}");
    }
    writer.put("c", "3").unwrap();
    let written = writer.finish().unwrap();
    assert_eq!((written[0].first_key(), written[0].last_key()), (&b"b"[..], &b"c"[..]));
    let error = TableWriter::create("/tables", &options).unwrap_err();
    assert!(error.to_string().contains("/tables is not empty"), "{error}");

    let db = Db::open("/db", options.clone()).unwrap();
    db.put("a", "1").unwrap();
    let twice = [written[0].clone(), written[0].clone()];
    let error = db.ingest(&twice).unwrap_err();
    let path = written[0].path().display();
    assert!(error.to_string().contains(&format!("{path} overlap")), "{error}");
    assert_eq!(db.ingest(&[]).unwrap().tables, 0);
    assert_eq!(contents(&db).len(), 1);

    // Tries to ingest three tables taken from databases. A table with several versions of a key is
    // refused, a table with a single entry is accepted, and a table with a deletion is refused.
    let snapshot = db.snapshot();
    db.put("a", "2").unwrap();
    db.flush().unwrap();
    let table = |dir: &str| {
        let mut names = fs.list(Path::new(dir)).unwrap();
        names.retain(|name| name.ends_with(".ldb"));
        names.sort();
        Path::new(dir).join(names.last().unwrap())
    };
    let error = SortedTable::open(table("/db"), &options).unwrap_err();
    assert!(error.to_string().ends_with("has several versions of a"), "{error}");
    drop(snapshot);
    db.compact_range(..).unwrap();
    let found = SortedTable::open(table("/db"), &options).unwrap();
    assert_eq!((found.entries(), found.first_key()), (1, &b"a"[..]));
    let other = Db::open("/other", options.clone()).unwrap();
    (0..100).for_each(|i| other.put(key(i), "").unwrap());
    assert_eq!(other.ingest(&[found]).unwrap().rewritten_tables, 1);
    assert_eq!(other.get("a").unwrap().as_deref(), Some(&b"2"[..]));
    other.delete("a").unwrap();
    other.flush().unwrap();
    let error = SortedTable::open(table("/other"), &options).unwrap_err();
    assert!(error.to_string().ends_with("has a deletion of a"), "{error}");
    fs.create(Path::new("/note")).unwrap().write(b"dear").unwrap();
    assert!(SortedTable::open("/note", &options).unwrap_err().is_corruption());
    assert!(SortedTable::open("/nothing", &options).unwrap_err().io_kind().is_some());
}

#[test]
fn tables_in_another_key_order_are_refused_by_its_name_and_change_nothing() {
    let fs = SimFs::new(5);
    let reverse = on(&fs).comparator(Order::Reverse.comparator());
    let written = tables("/tables", &on(&fs), 0..10, "value ").remove(0);
    let opened = SortedTable::open(written.path(), &on(&fs)).unwrap();
    let mut writer = TableWriter::create("/reverse", &reverse).unwrap();
    ["b", "a"].into_iter().for_each(|key| writer.put(key, "1").unwrap());
    let backward = writer.finish().unwrap().remove(0);
    let refused = |db: &Db, tables: &[SortedTable], expected: &str| {
        let error = db.ingest(tables).unwrap_err();
        let is_order = matches!(error, Error::Unsupported { what: Feature::Comparator, .. });
        assert!(is_order && error.to_string().contains(expected), "{error}");
    };
    let db = Db::open("/db", reverse).unwrap();
    let bytewise = format!("leveldb.BytewiseComparator in {}", written.path().display());
    refused(&db, std::slice::from_ref(&written), &bytewise);
    refused(&db, std::slice::from_ref(&opened), &bytewise);
    refused(&db, &[backward.clone(), opened], &bytewise);
    assert!(db.is_empty().unwrap());
    let other = Db::open("/other", on(&fs)).unwrap();
    let reverse = format!("test.Reverse in {}", backward.path().display());
    refused(&other, std::slice::from_ref(&backward), &reverse);
    db.put("c", "1").unwrap();
    db.ingest(&[backward]).unwrap();
    let keys: Vec<_> = db.iter().map(|entry| entry.unwrap().0).collect();
    assert_eq!(keys, ["c", "b", "a"]);
}

/// goleveldb writes an empty data block into a table without entries; LevelDB writes no block.
#[test]
fn a_table_without_entries_is_an_invalid_argument_and_no_damage() {
    let fs = SimFs::new(5);
    let without_blocks = Path::new("/without.ldb");
    let builder = TableBuilder::new(
        fs.create(without_blocks).unwrap(),
        without_blocks.into(),
        table_options(),
    );
    builder.finish().unwrap();
    let empty_block = [0, 0, 0, 0, 1, 0, 0, 0];
    let of_goleveldb = table_of(&empty_block, 0, 1, &[]);
    let mut damaged = of_goleveldb.clone();
    damaged[0] ^= 1;
    for (path, bytes) in [("/with.ldb", of_goleveldb), ("/damaged.ldb", damaged)] {
        fs.create(Path::new(path)).unwrap().write(&bytes).unwrap();
    }
    for path in ["/without.ldb", "/with.ldb"] {
        let error = SortedTable::open(path, &on(&fs)).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
        assert!(error.to_string().ends_with(&format!("{path} has no entries")), "{error}");
    }
    assert!(SortedTable::open("/damaged.ldb", &on(&fs)).unwrap_err().is_corruption());
}

/// Another program may have written the table, and need not have synced it.
#[test]
fn a_table_that_was_opened_is_durable_once_it_is_ingested() {
    let fs = SimFs::new(3);
    let written = tables("/tables", &on(&fs), 0..50, "new ");
    let file = fs.open(written[0].path()).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    fs.create_dir(Path::new("/other")).unwrap();
    fs.create(Path::new("/other/table")).unwrap().write(&bytes).unwrap();
    let found = SortedTable::open("/other/table", &on(&fs)).unwrap();
    let db = Db::open("/db", on(&fs)).unwrap();
    fs.record_history();
    assert_eq!(db.ingest(&[found]).unwrap().rewritten_tables, 0);
    let created = fs.journal().iter().filter(|entry| entry.kind == OpKind::Create).count();
    assert_eq!(created, 0, "the table is linked");
    let done = fs.op_count();
    let image = fs.crash_image(&CrashPlan::strict().at_op(done));
    let mut model = Contents::new();
    add(&mut model, 0..50, "new ");
    assert_eq!(contents(&Db::open("/db", on(&image)).unwrap()), model);
}

#[test]
fn a_writer_that_is_dropped_or_fails_leaves_nothing() {
    let fs = SimFs::new(6);
    let mut writer = TableWriter::create("/tables", &on(&fs)).unwrap();
    (0..3000).for_each(|i| writer.put(key(i), "value").unwrap());
    assert!(!fs.list(Path::new("/tables")).unwrap().is_empty());
    drop(writer);
    assert!(!fs.exists(Path::new("/tables")).unwrap());
    let mut writer = TableWriter::create("/tables", &on(&fs)).unwrap();
    fs.inject(Fault::io_error().on(&[OpKind::Sync]).path("*.ldb"));
    writer.put("a", "1").unwrap();
    writer.finish().unwrap_err();
    assert!(!fs.exists(Path::new("/tables")).unwrap());
    assert_eq!(TableWriter::create("/tables", &on(&fs)).unwrap().finish().unwrap().len(), 0);
}

#[test]
fn a_failure_at_any_step_of_an_ingest_adds_all_or_nothing_and_leaves_no_file() {
    let (mut seen, mut cleaned) = ([0; 2], 0);
    for at in 1.. {
        let fs = SimFs::new(7);
        let written = tables("/tables", &on(&fs), 0..3000, "new ");
        assert!(written.len() > 1, "{written:?}");
        let db = Db::open("/db", on(&fs)).unwrap();
        let mut model = Contents::new();
        add(&mut model, 0..50, "old ");
        (0..50).for_each(|i| db.put(key(i), "old ".repeat(10)).unwrap());
        db.wait_idle().unwrap();
        fs.inject(Fault::io_error().nth(at));
        let result = db.ingest(&written);
        if fs.waiting_faults() > 0 {
            result.unwrap();
            assert!(at > 10 && seen.iter().all(|&n| n > 0) && cleaned > 0, "{at} steps, {seen:?}");
            return;
        }
        let new = contents(&db).len() == 3000;
        seen[usize::from(result.is_ok())] += 1;
        assert!(new || result.is_err(), "step {at}");
        if new {
            add(&mut model, 0..3000, "new ");
        }
        assert_eq!(contents(&db), model, "step {at}: {result:?}");
        let on_disk = |fs: &SimFs| {
            let names = fs.list(Path::new("/db")).unwrap();
            names.iter().filter(|name| name.ends_with(".ldb")).count() as u64
        };
        if result.is_err() && db.put("elsewhere", "1").is_ok() {
            assert_eq!(
                on_disk(&fs),
                levels(&db).iter().sum::<u64>(),
                "step {at}: {result:?}, {:?}",
                fs.list(Path::new("/db"))
            );
            db.delete("elsewhere").unwrap();
            cleaned += 1;
        }
        let in_doubt = db.resume().is_err();
        drop(db);
        let db = Db::open("/db", on(&fs)).unwrap();
        if !in_doubt {
            assert_eq!(contents(&db), model, "step {at}, after a reopen: {result:?}");
        }
        db.put("more", "1").unwrap();
        db.wait_idle().unwrap();
        assert_eq!(on_disk(&fs), levels(&db).iter().sum::<u64>(), "step {at}, after a reopen");
    }
}

#[test]
fn after_a_crash_at_any_step_all_of_the_tables_are_there_or_none_and_no_earlier_write_is_lost() {
    let fs = SimFs::new(8);
    let db = Db::open("/db", on(&fs)).unwrap();
    (0..50).for_each(|i| db.put(key(i), "old ".repeat(10)).unwrap());
    let written = tables("/tables", &on(&fs), 50..500, "new ");
    fs.record_history();
    let begin = fs.op_count();
    db.put("first", "1").unwrap();
    db.ingest(&written).unwrap();
    let done = fs.op_count();
    db.put("then", "1").unwrap();
    db.writing(WriteOptions::default().sync(true)).put("last", "1").unwrap();
    let end = fs.op_count();
    let mut old = Contents::new();
    add(&mut old, 0..50, "old ");
    let (mut before, mut after) = (0, 0);
    for step in begin..=end {
        for seed in 0..6 {
            let image = fs.crash_image(&CrashPlan::random(seed).at_op(step));
            let db = Db::open("/db", on(&image)).unwrap();
            let mut found = contents(&db);
            let names =
                ["first", "then", "last"].map(|name| found.remove(name.as_bytes()).is_some());
            assert!(names.is_sorted_by(|a, b| a >= b), "step {step}: {names:?}");
            let has_new = found.len() == 500;
            if has_new {
                assert!(names[0], "the tables are there, and a write before them is not");
                let mut new = old.clone();
                add(&mut new, 50..500, "new ");
                assert_eq!(found, new, "step {step}, seed {seed}");
                after += 1;
            } else {
                assert!(!names[1] && step < done, "step {step}: the tables are lost");
                assert!(found.iter().all(|(k, v)| old.get(k) == Some(v)), "step {step}");
                before += 1;
            }
        }
    }
    assert!(before > 10 && after > 10, "{before} before, {after} after");
}

#[test]
fn ingests_beside_writers_readers_and_compactions_are_seen_whole() {
    let home = tempfile::tempdir().unwrap();
    let dir = |name: &str| -> PathBuf { home.path().join(name) };
    let options = small().write_buffer_bytes(16 << 10);
    let db = Db::open(dir("db"), options.clone()).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0u32.. {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                db.put(format!("key{:06}x", i % 3000), i.to_string()).unwrap();
            }
        });
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                db.compact_range(..).unwrap();
            }
        });
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let entries = db.range(key(0)..key(3000));
                let values = entries.map(|entry| entry.unwrap());
                let values = values.filter(|(key, _)| !key.ends_with(b"x"));
                let values: Vec<_> = values.map(|(_, value)| value).collect();
                assert!(values.is_empty() || values.len() == 3000, "{}", values.len());
                assert!(values.windows(2).all(|pair| pair[0] == pair[1]), "two ingests at a time");
            }
        });
        for round in 0..20 {
            let written = tables(dir(&round.to_string()), &options, 0..3000, &round.to_string());
            db.ingest(&written).unwrap();
            let expected = round.to_string().repeat(10);
            for i in (0..3000).step_by(97) {
                assert_eq!(db.get(key(i)).unwrap().as_deref(), Some(expected.as_bytes()));
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    drop(db);
    assert!(minikv::verify(dir("db"), &options).unwrap().is_sound());
}

/// Makes an ingest and a write after a reader has read the MANIFEST, before each of its operations
/// on a log.
#[test]
fn writes_after_tables_that_the_manifest_does_not_name_are_not_shown_without_them() {
    for earlier_puts in [0, 3] {
        for at in 1.. {
            let fs = SimFs::new(9);
            let db = Db::open("/db", on(&fs)).unwrap();
            (0..earlier_puts).for_each(|i| db.put(format!("before{i}"), "1").unwrap());
            db.flush().unwrap();
            let written = tables("/tables", &on(&fs), 0..500, "new ");
            let uses = Arc::new(AtomicUsize::new(0));
            let counted = uses.clone();
            fs.set_hook(move |operation| {
                let is_log = operation.path.extension().is_some_and(|ending| ending == "log");
                let is_use = matches!(operation.kind, OpKind::Len | OpKind::Read);
                if is_log && is_use && counted.fetch_add(1, Ordering::Relaxed) + 1 == at {
                    db.ingest(&written).unwrap();
                    db.put("after", "1").unwrap();
                }
            });
            let reader = Db::open_read_only("/db", on(&fs)).unwrap();
            fs.set_hook(|_| ());
            let (uses, lost) = (uses.load(Ordering::Relaxed), &reader.recovery().lost);
            assert!(lost.is_empty(), "operation {at}: {lost:?}");
            // The write comes after the tables. It is in the log only until the log has been read.
            let shown = reader.iter().count() - earlier_puts;
            let is_known = shown == 501 || (shown == 0 && at > 3);
            assert!(is_known, "operation {at}: {shown} of 501 entries");
            if uses < at {
                assert!(at > 3 && shown == 0, "{at} operations");
                break;
            }
        }
    }
}

/// Damages each of the last two edits, both of an ingest.
#[test]
fn a_manifest_that_lost_the_edit_of_an_ingest_is_refused_and_the_tables_stay() {
    for is_last in [false, true] {
        let fs = SimFs::new(10);
        let [first, second] = [("/a", 0..50), ("/b", 100..150)]
            .map(|(dir, range)| tables(dir, &on(&fs), range, "new "));
        let db = Db::open("/db", on(&fs)).unwrap();
        db.ingest(&first).unwrap();
        db.ingest(&second).unwrap();
        let expected = contents(&db);
        drop(db);
        let (manifest, edits) = edits(&fs, "/db");
        let [.., before, last] = edits[..] else { panic!("{edits:?}") };
        let edit = if is_last { last } else { before };
        fs.damage(&manifest, edit + 7 + 5, 1).unwrap();
        let names = fs.list(Path::new("/db")).unwrap();
        for opened in
            [Db::open("/db", on(&fs)).map(drop), Db::open_read_only("/db", on(&fs)).map(drop)]
        {
            assert!(opened.unwrap_err().is_corruption(), "last: {is_last}");
        }
        assert_eq!(fs.list(Path::new("/db")).unwrap(), names, "last: {is_last}");
        minikv::repair("/db", &on(&fs), minikv::RepairOptions::default()).unwrap();
        assert!(contents(&Db::open("/db", on(&fs)).unwrap()) == expected, "last: {is_last}");
    }
}

/// Cuts off the edit of an ingest, and also the edit of the flush before it, whose log was kept.
#[test]
fn a_manifest_that_ends_before_an_ingest_is_refused_and_the_tables_stay() {
    for lost in [1, 2] {
        let fs = SimFs::new(12);
        let options = |fs: &SimFs| on(fs).keep_logs_bytes(1 << 20);
        let db = Db::open("/db", options(&fs)).unwrap();
        db.put("first", "1").unwrap();
        db.flush().unwrap();
        db.put("before", "1").unwrap();
        db.ingest(&tables("/tables", &on(&fs), 0..50, "new ")).unwrap();
        db.writing(WriteOptions::default().sync(true)).put("after", "1").unwrap();
        let expected = contents(&db);
        let killed = fs.crash_image(&CrashPlan::process_kill());
        let (manifest, edits) = edits(&killed, "/db");
        let len = edits[edits.len() - lost];
        killed.append(&manifest).unwrap().set_len(len).unwrap();
        let names = killed.list(Path::new("/db")).unwrap();
        for opened in [
            Db::open("/db", options(&killed)).map(drop),
            Db::open_read_only("/db", options(&killed)).map(drop),
        ] {
            assert!(opened.unwrap_err().is_corruption(), "{lost} lost");
        }
        assert!(!minikv::verify("/db", &options(&killed)).unwrap().is_sound(), "{lost} lost");
        assert_eq!(killed.list(Path::new("/db")).unwrap(), names, "{lost} lost");
        minikv::repair("/db", &options(&killed), minikv::RepairOptions::default()).unwrap();
        let repaired = Db::open("/db", options(&killed)).unwrap();
        assert!(contents(&repaired) == expected, "{lost} lost");
        assert!(repaired.recovery().lost.is_empty(), "{lost} lost");
    }
}

/// Returns new tables for each of `ranges`, in directories whose names begin with `dir`.
fn each_of(dir: &str, options: &Options, ranges: &[Range<u32>]) -> Vec<Vec<SortedTable>> {
    let each = ranges.iter().enumerate();
    each.map(|(i, range)| tables(format!("{dir}{i}"), options, range.clone(), "v")).collect()
}

#[test]
fn ingests_at_the_same_time_all_succeed() {
    let fs = SimFs::new(20);
    let options = on(&fs).inline_background(None);
    let db = Db::open("/db", options.clone()).unwrap();
    let ranges: Vec<_> = (0..8).map(|i| i * 500..(i + 1) * 500).collect();
    for round in 0..12 {
        // The tables are ingested in descending order of their numbers, so that most of them are
        // rewritten.
        let mut written = each_of(&format!("/tables{round}"), &options, &ranges);
        written.reverse();
        std::thread::scope(|scope| {
            for tables in &written {
                scope.spawn(|| db.ingest(tables).unwrap());
            }
        });
        assert_eq!(db.iter().count(), 4000);
    }
    drop(db);
    assert!(minikv::verify("/db", &options).unwrap().is_sound());
}

/// Returns a number greater than any sequence number taken from the clock in this second or the
/// next.
fn seq_of_the_next_second() -> u64 {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap();
    (since.as_secs() + 2) << 24
}

#[test]
fn tables_that_are_written_anew_use_up_few_sequence_numbers() {
    let fs = SimFs::new(21);
    let db = Db::open("/db", on(&fs)).unwrap();
    let ranges: Vec<_> = (0..60).map(|i| i * 10..(i + 1) * 10).collect();
    let mut written = each_of("/tables", &on(&fs), &ranges);
    written.reverse();
    let rewritten = written.iter().map(|tables| db.ingest(tables).unwrap().rewritten_tables);
    assert_eq!(rewritten.sum::<u64>(), 59);
    assert!(db.sequence() < seq_of_the_next_second(), "{}", db.sequence());
    // A table that is begun later is therefore linked, not rewritten.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let later = tables("/later", &on(&fs), 0..10, "later ");
    assert_eq!(db.ingest(&later).unwrap().rewritten_tables, 0);
}

fn table_options() -> TableOptions {
    TableOptions {
        order: KeyOrder::Internal(InternalComparator::new(Arc::new(BytewiseComparator))),
        filter_policy: None,
        table_filter_bits_per_key: None,
        prefix_filter: None,
        block_bytes: 4096,
        block_restart_interval: 16,
        compression: Compression::None,
    }
}

#[test]
fn a_table_far_ahead_of_the_clock_is_written_anew_and_ends_no_writes() {
    let fs = SimFs::new(22);
    let path = Path::new("/high.ldb");
    let file = fs.create(path).unwrap();
    let mut builder = TableBuilder::new(file, path.into(), table_options());
    // The trailer has the second-highest sequence number, and the kind "value".
    let trailer = ((1u64 << 56) - 2) << 8 | 1;
    builder.add(&[b"a", &trailer.to_le_bytes()[..]].concat(), b"1").unwrap();
    builder.finish().unwrap();
    let table = SortedTable::open(path, &on(&fs)).unwrap();
    let db = Db::open("/db", on(&fs)).unwrap();
    assert_eq!(db.ingest(&[table]).unwrap().rewritten_tables, 1);
    (0..10).for_each(|i| db.put(key(i), "more").unwrap());
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    assert!(db.sequence() < 1 << 40, "{}", db.sequence());
}
