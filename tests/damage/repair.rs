//! Entries that a repair must save, and entries that it must not bring back.

use std::collections::BTreeSet;
use std::path::Path;

use minikv::bulk::TableWriter;
use minikv::fs::{Fs, MemFs};
use minikv::repair::{Quarantined, TableOutcome};
use minikv::{Compression, Db, RepairOptions, RepairReport};

use crate::database::{DIR, Entries, Files, Made, SHAPE, Shape, is_lost, options, path, read_all};

fn shapes() -> Vec<Shape> {
    vec![
        SHAPE,
        Shape { compression: Compression::Snappy, seed: 2, ..SHAPE },
        Shape { compacted: true, seed: 3, ..SHAPE },
        Shape { commits: 200, seed: 4, ..SHAPE },
    ]
}

/// Repairs the database, after a dry run that must return the same report and change no file.
/// Returns the report.
fn repair(fs: &MemFs, what: &str) -> RepairReport {
    let before = Files::of(fs);
    let dry = minikv::repair(DIR, &options(fs), RepairOptions::default().dry_run(true));
    let mut dry = dry.unwrap_or_else(|error| panic!("{what}: dry run: {error}"));
    assert!(Files::of(fs) == before, "{what}: a dry run changed something");
    assert!(!fs.exists(&path("lost")).unwrap(), "{what}");
    let report = minikv::repair(DIR, &options(fs), RepairOptions::default());
    let report = report.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(dry.dry_run && !report.dry_run);
    dry.dry_run = false;
    assert_eq!(dry, report, "{what}");
    report
}

/// Checks that every key outside the ranges reported as lost has its last value, and that every key
/// within these ranges has either no value or a value that it once had.
fn check(made: &Made, found: &Entries, report: &RepairReport, what: &str) {
    for key in Made::keys() {
        let (got, due) = (found.get(&key), made.entries.get(&key));
        if !is_lost(&report.lost, &key) {
            assert_eq!(got, due, "{what}: {}\n{report:#?}", key.escape_ascii());
        } else if let Some(got) = got {
            assert!(made.history[&key].contains(got), "{what}: {}", key.escape_ascii());
        }
    }
    assert!(found.keys().all(|key| made.history.contains_key(key)), "{what}");
}

/// Repairs a database of damaged files. Checks that the repaired database is sound, that a second
/// repair changes nothing, that new writes are visible, and that copies of the damaged files are
/// kept. Returns the report of the repair and the entries of the repaired database.
fn repaired(files: &Files, what: &str) -> (RepairReport, Entries) {
    let fs = files.load();
    let report = repair(&fs, what);
    assert!(!report.healthy, "{what}");
    let verified = minikv::verify(DIR, &options(&fs)).unwrap();
    assert!(verified.is_sound(), "{what}: {:#?}\n{report:#?}", verified.faults);
    let again = Files::of(&fs);
    let second = minikv::repair(DIR, &options(&fs), RepairOptions::default()).unwrap();
    assert!(second.healthy && Files::of(&fs) == again, "{what}: repaired twice");

    let db = Db::open(DIR, options(&fs)).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(db.recovery().lost.is_empty(), "{what}");
    let found = read_all(&db).unwrap_or_else(|error| panic!("{what}: {error}"));
    db.compact_range(..).unwrap();
    assert!(read_all(&db).unwrap() == found, "{what}: compacting changed what is read");
    // New writes must hide everything written before them.
    for key in Made::keys().step_by(9) {
        db.put(&key, "new").unwrap();
    }
    for key in Made::keys().step_by(9) {
        assert_eq!(db.get(&key).unwrap().as_deref(), Some(&b"new"[..]), "{what}");
    }
    // Nothing was deleted: the bytes of every damaged file are kept.
    for quarantined in &report.quarantined {
        let name = quarantined.path.file_name().unwrap().to_str().unwrap();
        assert!(crate::database::read(&fs, &quarantined.kept) == files.0[name], "{what}: {name}");
    }
    (report, found)
}

fn full(made: &Made, files: &Files, what: &str) {
    let (report, found) = repaired(files, what);
    check(made, &found, &report, what);
}

/// Checks that a repair of a healthy database changes nothing. LevelDB's repair, in contrast,
/// always writes a new MANIFEST and converts every log into a table.
#[test]
fn repair_of_a_healthy_database_changes_nothing() {
    for shape in shapes() {
        let made = Made::new(shape);
        for files in [made.files.clone(), made.files.without("LOCK")] {
            let fs = files.load();
            let report = repair(&fs, "healthy");
            assert!(report.healthy && report.faults.is_empty(), "{report:#?}");
            assert!(report.tables.is_empty() && report.quarantined.is_empty(), "{report:#?}");
            assert!(Files::of(&fs) == files);
        }
    }
}

/// Checks that a repair without a MANIFEST does not bring back overwritten or deleted entries.
/// LevelDB's repair does: it puts every table into level 0, where a table with a higher number is
/// taken for newer. The output of the last compaction, which holds the oldest data, then hides
/// newer writes.
#[test]
fn repair_that_resurrects_or_reorders() {
    for shape in shapes() {
        let made = Made::new(shape);
        let manifest = made.files.named("MANIFEST").remove(0);
        let cases = [
            ("no CURRENT", made.files.without("CURRENT")),
            ("no MANIFEST", made.files.without(&manifest)),
            ("neither", made.files.without("CURRENT").without(&manifest)),
            ("an empty MANIFEST", made.files.cut(&manifest, 0)),
            ("an empty CURRENT", made.files.cut("CURRENT", 0)),
        ];
        for (what, files) in cases {
            let (report, found) = repaired(&files, what);
            assert!(report.lost.is_empty(), "{what}: {:#?}", report.lost);
            assert!(found == made.entries, "{what}, {shape:?}: {report:#?}");
        }
    }
}

#[test]
fn a_manifest_damaged_or_cut_anywhere_loses_nothing() {
    for shape in shapes() {
        let made = Made::new(shape);
        let manifest = made.files.named("MANIFEST").remove(0);
        let len = made.files.0[&manifest].len();
        for at in (0..len).step_by(97).chain((len.saturating_sub(60)..len).step_by(3)) {
            for (what, files) in [
                ("flip", made.files.flip(&manifest, at, 1)),
                ("cut", made.files.cut(&manifest, at)),
            ] {
                let what = format!("{what} of {manifest} at {at}, {shape:?}");
                let sound = minikv::verify(DIR, &options(&files.load())).unwrap();
                if sound.is_sound() {
                    // The loss of the truncated record does not change any entry.
                    let db = Db::open(DIR, options(&files.load())).unwrap();
                    assert!(read_all(&db).unwrap() == made.entries, "{what}");
                    continue;
                }
                let (report, found) = repaired(&files, &what);
                assert!(found == made.entries && report.lost.is_empty(), "{what}: {report:#?}");
            }
        }
    }
}

#[test]
fn a_damaged_table_loses_its_damaged_blocks_only() {
    for shape in shapes() {
        let made = Made::new(shape);
        for table in made.files.named(".ldb") {
            let len = made.files.0[&table].len();
            for part in 0..6 {
                let at = (len - 1) * part / 5;
                let what = format!("flip of {table} at {at}, {shape:?}");
                let files = made.files.flip(&table, at, 0x10);
                if minikv::verify(DIR, &options(&files.load())).unwrap().is_sound() {
                    // The flipped byte is in the padding of the footer.
                    assert!(at > len - 48, "{what}");
                    continue;
                }
                let (report, found) = repaired(&files, &what);
                check(&made, &found, &report, &what);
                let doubtful = Made::keys().filter(|key| is_lost(&report.lost, key)).count();
                // The key range of a block in level 0 includes many keys that the block does not
                // hold.
                let is_dense = report.tables.iter().all(|table| table.level > Some(0));
                let most = if shape.compression == Compression::None { 80 } else { 160 };
                assert!(doubtful <= most || !is_dense, "{what}: {doubtful} keys: {report:#?}");
                let wrong = Made::keys().filter(|key| found.get(key) != made.entries.get(key));
                assert!(wrong.count() <= 40, "{what}: {report:#?}");
                assert!(report.manifest_distrusted.is_none(), "{what}");
            }
            for part in 0..3 {
                let at = len * part / 3;
                full(&made, &made.files.cut(&table, at), &format!("{table} cut at {at}"));
            }
            full(&made, &made.files.without(&table), &format!("no {table}, {shape:?}"));
        }
    }
}

/// Checks that, if both the index and one data block of a table are damaged, the repair still finds
/// the other blocks by their checksums.
#[test]
fn a_table_with_a_damaged_index_and_a_damaged_block_keeps_the_others() {
    let mut large = 0;
    for compression in [Compression::None, Compression::Snappy] {
        let made = Made::new(Shape { compression, ..SHAPE });
        for table in made.files.named(".ldb") {
            let len = made.files.0[&table].len();
            let files = made.files.flip(&table, len - 60, 1).flip(&table, len / 3, 1);
            let what = format!("{table}, {compression:?}");
            let (report, found) = repaired(&files, &what);
            check(&made, &found, &report, &what);
            let repaired = report.tables.iter().find(|t| t.path == path(&table)).unwrap();
            if len < 3000 {
                continue;
            }
            large += 1;
            assert!(repaired.outcome == TableOutcome::Rewritten && repaired.entries > 5, "{what}");
        }
    }
    assert!(large > 5, "{large}");
}

/// Damages every third table of a database and removes its MANIFEST. The repaired database must
/// show no entry that was never written, and the report must name everything that is lost.
#[test]
fn damaged_tables_without_a_manifest() {
    for shape in shapes() {
        let made = Made::new(shape);
        let manifest = made.files.named("MANIFEST").remove(0);
        let mut files = made.files.without(&manifest);
        for (nth, table) in made.files.named(".ldb").into_iter().enumerate() {
            if nth % 3 == 0 {
                let len = files.0[&table].len();
                files = files.flip(&table, len * (nth % 5) / 5, 0x22);
            }
            full(&made, &files, &format!("{nth} tables, {shape:?}"));
        }
    }
}

/// Checks that a repair reads a damaged log up to the first bad record, as an open does, and keeps
/// the damaged log in `lost`.
#[test]
fn a_repair_ends_a_damaged_log_as_an_open_does() {
    let made = Made::new(SHAPE);
    let log = made.files.named(".log").pop().unwrap();
    let len = made.files.0[&log].len();
    assert!(len > 300, "{len} bytes of {log}");
    let mut damaged = 0;
    for at in (0..len).step_by(7) {
        let files = made.files.flip(&log, at, 1);
        let by_open = Db::open(DIR, options(&files.load())).unwrap();
        let expected = read_all(&by_open).unwrap();
        let what = format!("flip of {log} at {at}");
        if minikv::verify(DIR, &options(&files.load())).unwrap().is_sound() {
            continue;
        }
        damaged += 1;
        let (report, found) = repaired(&files, &what);
        assert!(found == expected, "{what}");
        assert_eq!(report.lost_logs, by_open.recovery().lost, "{what}");
        assert!(report.quarantined.iter().any(|q| q.path == path(&log)), "{what}: {report:#?}");
    }
    assert!(damaged > 20, "{damaged}");
}

/// Checks that a repair does not bring back a deleted key from an input of a finished compaction. A
/// crash has left one input, which holds the key, beside the output, and the MANIFEST is gone. The
/// tombstone of the key is in neither table.
#[test]
fn inputs_of_a_finished_compaction_bring_nothing_back() {
    let fs = MemFs::new();
    let options = options(&fs).create_if_missing(true).write_buffer_bytes(1 << 20);
    let db = Db::open(DIR, options.clone()).unwrap();
    for key in ["a", "deleted", "m", "z"] {
        db.put(key, "old").unwrap();
    }
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    let input = Files::of(&fs).named(".ldb");
    db.delete("deleted").unwrap();
    db.put("m", "new").unwrap();
    db.flush().unwrap();
    let inputs = Files::of(&fs);
    db.compact_range(..).unwrap();
    db.close().unwrap();
    let after = Files::of(&fs);
    assert_eq!((input.len(), after.named(".ldb").len()), (1, 1));
    let keys = |files: &Files| {
        let fs = files.load();
        let report = repair(&fs, "leftover");
        let db = Db::open(DIR, crate::database::options(&fs)).unwrap();
        (report, read_all_keys(&db))
    };
    // First repair: all tables are from before the compaction, and the tombstone hides the key.
    let manifest = inputs.named("MANIFEST").remove(0);
    let (_, found) = keys(&inputs.without(&manifest));
    assert_eq!(found, ["a=old", "m=new", "z=old"]);
    // Second repair: only the oldest of these tables is left beside the output of the compaction.
    // The output hides the key.
    let manifest = after.named("MANIFEST").remove(0);
    let mut leftover = after.without(&manifest);
    leftover.0.insert(input[0].clone(), inputs.0[&input[0]].clone());
    let (report, found) = keys(&leftover);
    assert_eq!(found, ["a=old", "m=new", "z=old"], "{report:#?}");
    assert!(report.notes.iter().any(|note| note.contains(&input[0])), "{report:#?}");
}

fn read_all_keys(db: &Db) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let entries = db.iter().map(Result::unwrap);
    entries.map(|(key, value)| format!("{}={}", text(&key), text(&value))).collect()
}

/// Checks that a log whose memtable was flushed is not replayed over newer tables.
#[test]
fn an_old_log_is_not_replayed_over_newer_tables() {
    let fs = MemFs::new();
    let options = options(&fs).create_if_missing(true).write_buffer_bytes(1 << 20);
    let db = Db::open(DIR, options).unwrap();
    db.put("key", "old").unwrap();
    let old_log = Files::of(&fs).named(".log").remove(0);
    let old_bytes = Files::of(&fs).0[&old_log].clone();
    db.flush().unwrap();
    db.put("key", "new").unwrap();
    db.flush().unwrap();
    db.put("other", "1").unwrap();
    db.close().unwrap();
    let mut files = Files::of(&fs);
    assert!(!files.0.contains_key(&old_log));
    files.0.insert(old_log.clone(), old_bytes);
    let manifest = files.named("MANIFEST").remove(0);
    let fs = files.without(&manifest).load();
    let report = repair(&fs, "old log");
    let db = Db::open(DIR, crate::database::options(&fs)).unwrap();
    assert_eq!(read_all_keys(&db), ["key=new", "other=1"]);
    let aside: BTreeSet<_> = report.quarantined.iter().map(|q| q.path.clone()).collect();
    assert!(aside.contains(Path::new(&path(&old_log))), "{report:#?}");
}

/// Takes away the MANIFEST, puts `table` beside the other files, and checks that a repair finds at
/// least the `expected` entries.
fn assert_found(files: &Files, table: (String, Vec<u8>), expected: &[String]) {
    let mut files = files.without(&files.named("MANIFEST").remove(0));
    files.0.insert(table.0, table.1);
    let fs = files.load();
    let report = repair(&fs, "a table of something unfinished");
    let found = read_all_keys(&Db::open(DIR, crate::database::options(&fs)).unwrap());
    let lost: Vec<_> = expected.iter().filter(|entry| !found.contains(entry)).collect();
    assert!(lost.is_empty(), "{} of {} lost: {report:#?}", lost.len(), expected.len());
}

/// A flush writes keys in their order, so the last write may be in its first block.
#[test]
fn a_log_is_not_given_up_for_a_table_that_a_flush_has_not_finished() {
    let fs = MemFs::new();
    let options = options(&fs).create_if_missing(true).write_buffer_bytes(1 << 20);
    let db = Db::open(DIR, options).unwrap();
    for number in 0..500 {
        db.put(format!("b{number:04}"), "value ".repeat(20)).unwrap();
    }
    db.put("a", "last").unwrap();
    let expected = read_all_keys(&db);
    let files = Files::of(&fs);
    db.flush().unwrap();
    let table = Files::of(&fs).named(".ldb").remove(0);
    let bytes = Files::of(&fs).0[&table].clone();
    for part in [2, 3, 10] {
        let begun = bytes[..bytes.len() - bytes.len() / part].to_vec();
        assert_found(&files, (table.clone(), begun), &expected);
    }
}

/// The numbers of a bulk load come from the clock, and are far above those of all writes.
#[test]
fn a_log_is_not_given_up_for_a_table_of_an_ingest_that_was_not_committed() {
    for entries in [1, 100] {
        let fs = MemFs::new();
        let options = options(&fs).create_if_missing(true).write_buffer_bytes(1 << 20);
        let db = Db::open(DIR, options.clone()).unwrap();
        (0..100).for_each(|number| db.put(format!("b{number:04}"), "value").unwrap());
        db.flush().unwrap();
        (0..100).for_each(|number| db.put(format!("c{number:04}"), "value").unwrap());
        let expected = read_all_keys(&db);
        let mut writer = TableWriter::create("/tables", &options).unwrap();
        (0..entries).for_each(|number| writer.put(format!("z{number:04}"), "new").unwrap());
        let table = writer.finish().unwrap().remove(0);
        let bytes = crate::database::read(&fs, table.path());
        assert_found(&Files::of(&fs), ("000099.ldb".to_owned(), bytes), &expected);
    }
}

/// Returns what the report says of the file `name`.
fn kept_aside<'a>(report: &'a RepairReport, name: &str) -> Option<&'a Quarantined> {
    report.quarantined.iter().find(|file| file.path == path(name))
}

#[test]
fn current_is_kept_aside_only_if_it_names_no_sound_manifest() {
    let made = Made::new(SHAPE);
    let table = made.files.named(".ldb").remove(0);
    for (files, is_kept) in
        [(made.files.flip(&table, 10, 1), false), (made.files.cut("CURRENT", 5), true)]
    {
        let (report, _) = repaired(&files, "current");
        assert_eq!(kept_aside(&report, "CURRENT").is_some(), is_kept, "{report:#?}");
    }
}

#[test]
fn a_damaged_file_gets_a_new_number_in_lost_if_its_name_is_taken_there() {
    let made = Made::new(SHAPE);
    let manifest = made.files.named("MANIFEST").remove(0);
    for name in made.files.named(".ldb").into_iter().take(1).chain([manifest]) {
        let files = made.files.flip(&name, 20, 1);
        let fs = files.load();
        let taken = path("lost").join(&name);
        fs.create_dir(&path("lost")).unwrap();
        fs.create(&taken).unwrap().write(b"of an earlier repair").unwrap();
        let report = minikv::repair(DIR, &options(&fs), RepairOptions::default()).unwrap();
        let kept = &kept_aside(&report, &name).unwrap().kept;
        assert!(kept.parent() == taken.parent() && *kept != taken, "{}", kept.display());
        assert!(crate::database::read(&fs, kept) == files.0[&name], "{name}");
        assert_eq!(crate::database::read(&fs, &taken), b"of an earlier repair", "{name}");
    }
}
