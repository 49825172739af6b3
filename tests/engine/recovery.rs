//! The state that a reopen finds after a close, a killed process, or damage.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use minikv::files::VersionEdit;
use minikv::fs::sim::{CrashPlan, Fault, OpKind, SimFs};
use minikv::fs::{DiskFs, Fs, MemFs};
use minikv::internals::format::edit::encode;
use minikv::{Db, Error, Options, Readable, WriteBatch, WriteOptions};
use minikv_support::system::CROSSES_DEVICES;

use crate::comparators::Order;
use crate::small;

fn files(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_str().unwrap().ends_with(ending))
        .collect();
    files.sort();
    files
}

fn copy(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        // On Windows, nobody can read the file of a lock that is held.
        if entry.file_type().unwrap().is_file() && entry.file_name() != "LOCK" {
            fs::copy(entry.path(), to.path().join(entry.file_name())).unwrap();
        }
    }
    to
}

fn contents(db: &impl Readable) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    db.iter().map(|entry| entry.map(|(k, v)| (text(&k), text(&v))).unwrap()).collect()
}

#[test]
fn a_killed_process_loses_no_acknowledged_write() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    for i in 0..3000 {
        db.put(format!("{i:05}"), format!("{i}")).unwrap();
    }
    // Once the database is idle, its files are those that a killed process would leave, and they do
    // not change while they are copied.
    db.wait_idle().unwrap();
    let killed = copy(dir.path());
    let before = contents(&db);
    assert_eq!(before.len(), 3000);
    for reuse in [false, true, true] {
        let db = Db::open(killed.path(), small().reuse_logs(reuse)).unwrap();
        assert_eq!(contents(&db), before);
        let recovery = db.recovery();
        assert!(recovery.lost.is_empty());
        // Later opens replay only what the previous open did not flush, which may be nothing.
        assert!(reuse || (1..=3000).contains(&recovery.records), "{recovery:?}");
    }
}

#[test]
fn a_torn_log_ends_before_the_torn_batch_at_every_length() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    let mut ends = Vec::new();
    let log = files(dir.path(), ".log").pop().unwrap();
    for i in 0..20 {
        let mut batch = WriteBatch::new();
        batch.put(format!("a{i:02}"), "x");
        batch.put(format!("b{i:02}"), "y".repeat(i));
        db.write(batch).unwrap();
        ends.push(fs::metadata(&log).unwrap().len());
    }
    let name = log.file_name().unwrap();
    let last = *ends.last().unwrap();
    for len in (0..=last).step_by(7).chain(ends.iter().copied()) {
        let torn = copy(dir.path());
        fs::OpenOptions::new()
            .write(true)
            .open(torn.path().join(name))
            .unwrap()
            .set_len(len)
            .unwrap();
        let whole = ends.iter().filter(|&&end| end <= len).count();
        for _ in 0..2 {
            let db = Db::open(torn.path(), small()).unwrap();
            assert_eq!(contents(&db).len(), 2 * whole, "cut at {len}");
            db.put("z", "after").unwrap();
            assert_eq!(db.get("z").unwrap().as_deref(), Some(&b"after"[..]));
            db.delete("z").unwrap();
        }
    }
}

fn log_names(fs: &SimFs, dir: &str) -> Vec<String> {
    let names = fs.list(Path::new(dir)).unwrap();
    names.into_iter().filter(|name| name.ends_with(".log")).collect()
}

fn bytes_of(fs: &SimFs, path: &Path) -> Vec<u8> {
    let mut bytes = vec![0; fs.len(path).unwrap() as usize];
    fs.open(path).unwrap().read_at(&mut bytes, 0).unwrap();
    bytes
}

/// Makes the database `/db` with a log of which only the first of three writes, to `a`, can be read
/// again. Returns the contents of the log.
fn damaged_log(fs: &SimFs) -> Vec<u8> {
    let db = Db::open("/db", crate::on(fs)).unwrap();
    db.put("a", "1").unwrap();
    let path = Path::new("/db").join(&log_names(fs, "/db")[0]);
    let end_of_a = fs.len(&path).unwrap();
    db.put("b", "2").unwrap();
    db.put("c", "3").unwrap();
    let mut bytes = bytes_of(fs, &path);
    drop(db);
    bytes[end_of_a as usize + 8] ^= 1;
    fs.create(&path).unwrap().write(&bytes).unwrap();
    bytes
}

/// Checks that no open removes a damaged log before this open or an earlier one has linked the log
/// into `lost`.
#[test]
fn an_open_that_cannot_keep_a_damaged_log_aside_fails_and_leaves_it() {
    let fs = SimFs::new(1);
    damaged_log(&fs);
    let logs = |dir: &str| log_names(&fs, dir);
    let damaged = logs("/db");
    for _ in 0..2 {
        fs.inject(Fault::io_error().on(&[OpKind::HardLink]));
        let error = Db::open("/db", crate::on(&fs)).unwrap_err();
        assert!(error.to_string().contains("keep aside"), "{error}");
        assert_eq!((logs("/db"), logs("/db/lost").len()), (damaged.clone(), 0));
    }
    // The next open links the log, and fails later. The open after that finds the link.
    fs.inject(Fault::io_error().on(&[OpKind::Create]).path("*.ldb"));
    Db::open("/db", crate::on(&fs)).unwrap_err();
    assert_eq!((logs("/db"), logs("/db/lost")), (damaged.clone(), damaged.clone()));
    let db = Db::open("/db", crate::on(&fs)).unwrap();
    assert_eq!(contents(&db), [("a".to_owned(), "1".to_owned())]);
    assert_eq!(logs("/db/lost"), damaged);
    assert_ne!(logs("/db"), damaged);
}

#[test]
fn a_damaged_log_that_cannot_be_linked_is_copied_aside() {
    let fs = SimFs::new(1);
    let bytes = damaged_log(&fs);
    let damaged = log_names(&fs, "/db");
    fs.inject(Fault::os_error(CROSSES_DEVICES).on(&[OpKind::HardLink]).sticky());
    // A copy that is cut short has another name, under which the next open makes it anew.
    fs.inject(Fault::no_space().on(&[OpKind::Write]).path("*/lost/*"));
    Db::open("/db", crate::on(&fs)).unwrap_err();
    assert_eq!((log_names(&fs, "/db"), log_names(&fs, "/db/lost").len()), (damaged.clone(), 0));
    fs.inject(Fault::io_error().on(&[OpKind::Create]).path("*.ldb"));
    Db::open("/db", crate::on(&fs)).unwrap_err();
    assert_eq!(
        (log_names(&fs, "/db"), log_names(&fs, "/db/lost")),
        (damaged.clone(), damaged.clone())
    );
    let db = Db::open("/db", crate::on(&fs)).unwrap();
    assert_eq!(contents(&db), [("a".to_owned(), "1".to_owned())]);
    assert_ne!(log_names(&fs, "/db"), damaged);
    let kept = Path::new("/db/lost").join(&damaged[0]);
    for fs in [fs.crash_image(&CrashPlan::strict()), fs] {
        assert_eq!(fs.list(Path::new("/db/lost")).unwrap(), damaged);
        assert!(bytes_of(&fs, &kept) == bytes, "the copy differs");
    }
}

#[test]
fn damage_inside_a_log_is_told_kept_aside_and_never_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    let log = files(dir.path(), ".log").pop().unwrap();
    db.put("a", "1").unwrap();
    let end_of_a = fs::metadata(&log).unwrap().len();
    db.put("b", "2").unwrap();
    db.put("c", "3").unwrap();
    drop(db);
    let mut bytes = fs::read(&log).unwrap();
    bytes[end_of_a as usize + 8] ^= 1;
    fs::write(&log, &bytes).unwrap();
    let error = Db::open(dir.path(), small().paranoid_checks(true)).unwrap_err();
    assert!(error.is_corruption(), "{error}");
    let text = error.to_string();
    assert!(text.contains(log.to_str().unwrap()), "{text}");
    assert!(text.contains(&format!("offset {end_of_a}")), "{text}");

    let db = Db::open(dir.path(), small()).unwrap();
    assert_eq!(contents(&db), [("a".to_owned(), "1".to_owned())]);
    let lost = db.recovery().lost.clone();
    assert_eq!(lost.len(), 1);
    assert_eq!((lost[0].offset, lost[0].bytes), (end_of_a, bytes.len() as u64 - end_of_a));
    let kept = dir.path().join("lost").join(log.file_name().unwrap());
    assert_eq!(fs::read(kept).unwrap(), bytes);
    // The earlier damage must not make new writes disappear.
    db.put("d", "4").unwrap();
    drop(db);
    let db = Db::open(dir.path(), small()).unwrap();
    assert!(db.recovery().lost.is_empty());
    assert_eq!(db.get("d").unwrap().as_deref(), Some(&b"4"[..]));
    drop(db);
    fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    minikv::destroy(dir.path(), &small()).unwrap();
    assert_eq!(files(dir.path(), "").len(), 1, "only what is not the database's is left");
}

#[test]
fn a_damaged_or_missing_current_is_refused_and_nothing_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    db.put("a", "1").unwrap();
    drop(db);
    let current = dir.path().join("CURRENT");
    let good = fs::read(&current).unwrap();
    for bad in [&b""[..], b"MANIFEST-000002", b"../../x\n", b"MANIFEST-999999\n", b"\0\0\0\0"] {
        fs::write(&current, bad).unwrap();
        let error = Db::open(dir.path(), small()).unwrap_err();
        assert!(error.is_corruption(), "{error}");
        assert!(error.to_string().contains("CURRENT"), "{error}");
    }
    fs::remove_file(&current).unwrap();
    let error = Db::open(dir.path(), small()).unwrap_err();
    assert!(error.to_string().contains("repair"), "{error}");
    assert!(Db::open_read_only(dir.path(), small()).is_err());
    fs::write(&current, good).unwrap();
    assert_eq!(contents(&Db::open(dir.path(), small()).unwrap()).len(), 1);
}

#[test]
fn a_missing_table_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    drop(db);
    let table = files(dir.path(), ".ldb").pop().unwrap();
    fs::remove_file(&table).unwrap();
    let error = Db::open(dir.path(), small()).unwrap_err();
    assert!(
        error.is_corruption() && error.to_string().contains(table.to_str().unwrap()),
        "{error}"
    );
}

#[test]
fn a_database_whose_making_was_cut_short_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    drop(Db::open(dir.path(), small()).unwrap());
    for path in files(dir.path(), "") {
        fs::remove_file(path).unwrap();
    }
    fs::write(dir.path().join("MANIFEST-000001"), b"half").unwrap();
    fs::write(dir.path().join("000001.dbtmp"), b"MANI").unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    db.put("a", "1").unwrap();
    assert!(files(dir.path(), ".dbtmp").is_empty());
}

#[test]
fn options_about_existence_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/er");
    let error = Db::open(&path, Options::default()).unwrap_err();
    assert!(matches!(error, Error::DatabaseMissing { .. }), "{error}");
    assert!(!path.exists());
    assert!(matches!(Db::open_read_only(&path, small()), Err(Error::DatabaseMissing { .. })));
    drop(Db::open(&path, small()).unwrap());
    let error = Db::open(&path, small().error_if_exists(true)).unwrap_err();
    assert!(matches!(error, Error::DatabaseExists { .. }), "{error}");
    Db::open(&path, Options::default()).unwrap();
}

#[test]
fn a_second_open_names_the_holder_of_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    let error = Db::open(dir.path(), small()).unwrap_err();
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    assert!(error.to_string().contains("this process"), "{error}");
    let cursor = db.cursor().unwrap();
    drop(db);
    assert!(Db::open(dir.path(), small()).is_err(), "a cursor still reads the files");
    drop(cursor);
    Db::open(dir.path(), small()).unwrap();
}

/// Checks two opens. During the first open, after it has looked for the database and before it
/// takes the lock, another process creates the database. During the second open, another process
/// removes the database between the same two steps.
#[test]
fn whether_a_database_exists_is_decided_under_the_lock() {
    let fs = SimFs::new(1);
    let options =
        |fs: &SimFs| small().fs(fs.clone()).error_if_exists(true).inline_background(Some(1));
    let (other, was_made) = (fs.clone(), AtomicBool::new(false));
    fs.set_hook(move |operation| {
        if operation.kind == OpKind::Lock && !was_made.swap(true, Relaxed) {
            Db::open("/db", options(&other)).unwrap().put("theirs", "1").unwrap();
        }
    });
    let error = Db::open("/db", options(&fs)).unwrap_err();
    assert!(matches!(error, Error::DatabaseExists { .. }), "{error}");
    // The reverse case: the database exists at first, and is then removed.
    let (other, was_removed) = (fs.clone(), AtomicBool::new(false));
    fs.set_hook(move |operation| {
        if operation.kind == OpKind::Lock && !was_removed.swap(true, Relaxed) {
            minikv::destroy("/db", &options(&other)).unwrap();
            other.create_dir(Path::new("/db")).unwrap();
        }
    });
    let must_exist = options(&fs).error_if_exists(false).create_if_missing(false);
    let error = Db::open("/db", must_exist).unwrap_err();
    assert!(matches!(error, Error::DatabaseMissing { .. }), "{error}");
}

#[test]
fn a_database_whose_directory_was_made_again_leaves_the_new_one_alone() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("db");
    let old = Db::open(&path, small()).unwrap();
    (0..200).for_each(|i| old.put(format!("{i}"), "1".repeat(100)).unwrap());
    old.flush().unwrap();
    old.put("old", "1").unwrap();
    fs::remove_dir_all(&path).unwrap();
    let new = Db::open(&path, small()).unwrap();
    (0..200).for_each(|i| new.put(format!("{i}"), "2".repeat(100)).unwrap());
    new.flush().unwrap();
    new.put("new", "2").unwrap();
    let error = old.flush().unwrap_err();
    assert!(error.to_string().contains("removed and made again"), "{error}");
    assert!(old.compact_range(..).is_err());
    drop(old);
    let found = contents(&new);
    drop(new);
    assert!(minikv::verify(&path, &small()).unwrap().is_sound());
    let reopened = contents(&Db::open(&path, small()).unwrap());
    assert!(reopened == found && found.len() == 201);
    assert!(found.iter().all(|(_, value)| value.starts_with('2')));
}

/// Replaces the directory of an open database by a copy of the database. Checks that the open
/// handle neither reads nor copies the new files.
#[test]
fn a_database_that_took_the_place_of_this_one_is_not_read_or_copied() {
    let home = tempfile::tempdir().unwrap();
    let (path, copy) = (home.path().join("db"), home.path().join("copy"));
    let db = Db::open(&path, small()).unwrap();
    (0..200).for_each(|i| db.put(format!("{i}"), "1".repeat(100)).unwrap());
    db.flush().unwrap();
    db.close().unwrap();
    fs::create_dir(&copy).unwrap();
    for entry in fs::read_dir(&path).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    // From here on, both directories have files of the same names.
    let db = Db::open(&path, small()).unwrap();
    let other = Db::open(&copy, small()).unwrap();
    fs::rename(&path, home.path().join("away")).unwrap();
    fs::rename(&copy, &path).unwrap();
    let replaced = |error: minikv::Error| {
        assert!(error.to_string().contains("removed and made again"), "{error}");
    };
    replaced(db.checkpoint(home.path().join("checkpoint")).unwrap_err());
    assert!(!home.path().join("checkpoint").exists());
    replaced(db.get("7").unwrap_err());
    replaced(db.iter().next().unwrap().unwrap_err());
    replaced(db.writing(WriteOptions::default().sync(true)).put("7", "3").unwrap_err());
    drop((db, other));
    assert_eq!(contents(&Db::open(&path, small()).unwrap()).len(), 200);
}

const CHDIR: &str = "MINIKV_TEST_CHDIR";

#[test]
#[ignore = "the child of the test below"]
fn child_that_changes_its_directory() {
    let Some(home) = std::env::var_os(CHDIR) else { return };
    let home = Path::new(&home);
    std::env::set_current_dir(home.join("a")).unwrap();
    let db = Db::open("db", small()).unwrap();
    std::env::set_current_dir(home.join("b")).unwrap();
    (0..3000).for_each(|i| db.put(format!("{i}"), "1".repeat(100)).unwrap());
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    db.checkpoint("copy").unwrap();
    db.close().unwrap();
}

#[test]
fn a_relative_path_means_the_directory_of_the_time_of_opening() {
    let home = tempfile::tempdir().unwrap();
    for dir in ["a", "b"] {
        let db = Db::open(home.path().join(dir).join("db"), small()).unwrap();
        db.put("name", dir).unwrap();
        db.flush().unwrap();
        db.put("last", dir).unwrap();
    }
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["recovery::child_that_changes_its_directory", "--exact", "--include-ignored"])
        .env(CHDIR, home.path())
        .output()
        .unwrap();
    assert!(child.status.success(), "{child:?}");
    for (dir, count) in [("a/db", 3002), ("b/db", 2), ("b/copy", 3002)] {
        let path = home.path().join(dir);
        assert!(minikv::verify(&path, &small()).unwrap().is_sound(), "{dir}");
        let db = Db::open(&path, small()).unwrap();
        assert_eq!(contents(&db).len(), count, "{dir}");
        let name = if dir.starts_with("b/db") { "b" } else { "a" };
        assert_eq!(db.get("name").unwrap().as_deref(), Some(name.as_bytes()), "{dir}");
    }
}

#[test]
fn a_view_for_reading_keeps_hundreds_of_tables_that_a_writer_removes() {
    let fs = MemFs::new();
    let options = || small().fs(fs.clone()).max_file_bytes(1 << 10);
    let db = Db::open("/db", options().compression(minikv::Compression::None)).unwrap();
    let key = |i: u32| format!("key{i:06}");
    (0..700).for_each(|i| db.put(key(i), [1; 1000]).unwrap());
    db.compact_range(..).unwrap();
    let view = Db::open_read_only("/db", options()).unwrap();
    let tables = db.stats().levels.iter().map(|level| level.files).sum::<u64>();
    assert!(tables > 500, "{tables}");
    assert_eq!(view.unheld_tables(), 0);
    (0..700).for_each(|i| db.put(key(i), [2; 1000]).unwrap());
    db.compact_range(..).unwrap();
    let seen = view.iter().map(|entry| entry.unwrap().1[0]);
    assert_eq!(seen.collect::<Vec<u8>>(), [1; 700]);
}

#[test]
fn another_comparator_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let backwards = || small().comparator(Order::Reverse.comparator());
    let db = Db::open(dir.path(), backwards()).unwrap();
    for key in ["a", "b", "c"] {
        db.put(key, key).unwrap();
    }
    db.flush().unwrap();
    let keys: Vec<_> = contents(&db).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["c", "b", "a"]);
    assert!(matches!(db.prefix("a"), Err(Error::InvalidArgument { .. })));
    drop(db);
    let error = Db::open(dir.path(), small()).unwrap_err();
    assert!(matches!(&error, Error::Unsupported { name, .. } if name == "test.Reverse"));
    assert!(error.to_string().contains("test.Reverse"), "{error}");
    assert_eq!(contents(&Db::open(dir.path(), backwards()).unwrap()).len(), 3);
}

#[test]
fn an_order_that_takes_other_bytes_for_the_same_key_finds_them_in_tables_too() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small().comparator(Order::CaseBlind.comparator())).unwrap();
    for i in 0..1000 {
        db.put(format!("Key{i}"), "v").unwrap();
    }
    for flushed in [false, true] {
        if flushed {
            db.flush().unwrap();
        }
        for i in 0..1000 {
            assert!(db.contains_key(format!("kEY{i}")).unwrap(), "{i}, flushed: {flushed}");
        }
    }
}

#[test]
fn reuse_logs_appends_to_the_last_log_and_manifest() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..4 {
        let db = Db::open(dir.path(), small().reuse_logs(true)).unwrap();
        assert_eq!(contents(&db).len(), round);
        db.put(format!("{round}"), "v").unwrap();
    }
    assert_eq!(files(dir.path(), ".log").len(), 1);
    assert!(files(dir.path(), ".ldb").is_empty());
}

#[test]
fn a_log_that_begins_after_a_gap_is_kept_aside_unless_it_holds_no_write() {
    for last_writes in [0, 1] {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        Db::open(dir.path(), small()).unwrap().put("a", "1").unwrap();
        // The last log of the other database begins after three writes.
        for writes in [3, last_writes] {
            let db = Db::open(other.path(), small()).unwrap();
            (0..writes).for_each(|i| db.put(format!("{i}"), "").unwrap());
        }
        let log = files(other.path(), ".log").pop().unwrap();
        fs::copy(log, dir.path().join("000099.log")).unwrap();
        let db = Db::open(dir.path(), small()).unwrap();
        assert_eq!(contents(&db), [("a".to_owned(), "1".to_owned())]);
        let lost: Vec<_> = db.recovery().lost.iter().map(|lost| (lost.offset, &lost.why)).collect();
        match lost[..] {
            [] => assert_eq!(last_writes, 0),
            [(0, why)] => {
                assert!(last_writes == 1 && why.contains("the previous log ends at"), "{why}")
            }
            _ => panic!("{lost:?}"),
        }
    }
}

#[test]
fn a_checkpoint_takes_tables_of_either_name_and_gives_no_number_twice() {
    let home = tempfile::tempdir().unwrap();
    let (dir, copy) = (home.path().join("db"), home.path().join("copy"));
    let db = Db::open(&dir, small()).unwrap();
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let tables = files(&dir, ".ldb");
    tables.iter().for_each(|table| fs::rename(table, table.with_extension("sst")).unwrap());
    Db::open(&dir, small()).unwrap().checkpoint(&copy).unwrap();
    assert_eq!(files(&copy, ".sst").len(), tables.len());
    let comparator = "leveldb.BytewiseComparator";
    let recovered = minikv::files::recover_manifest(&DiskFs, &copy, comparator).unwrap();
    assert!(recovered.next_file_number > recovered.manifest_number);
    assert_eq!(contents(&Db::open(&copy, small()).unwrap()), [("a".to_owned(), "1".to_owned())]);
}

#[test]
fn a_checkpoint_copies_tables_if_the_filesystem_refuses_links() {
    let fs = SimFs::new(1);
    let options = || small().fs(fs.clone());
    let db = Db::open("/db", options()).unwrap();
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    fs.inject(Fault::os_error(CROSSES_DEVICES).on(&[OpKind::HardLink]).sticky());
    db.checkpoint("/copy").unwrap();
    assert!(fs.fault_count() > 0);
    let copy = Db::open("/copy", options()).unwrap();
    assert_eq!(contents(&copy), [("a".to_owned(), "1".to_owned())]);
}

#[test]
fn a_damaged_edit_before_others_refuses_the_manifest() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    // The edits are so large that each damaged block is followed by another block.
    for i in 0..4 {
        db.put(i.to_string().repeat(12_000), "").unwrap();
        db.flush().unwrap();
    }
    db.close().unwrap();
    let current = fs::read_to_string(dir.path().join("CURRENT")).unwrap();
    let manifest = dir.path().join(current.trim_end());
    let sound = fs::read(&manifest).unwrap();
    let second = 7 + usize::from(u16::from_le_bytes([sound[4], sound[5]]));
    for at in [7, second + 7] {
        let mut damaged = sound.clone();
        damaged[at] ^= 1;
        fs::write(&manifest, damaged).unwrap();
        let error = Db::open(dir.path(), small()).unwrap_err();
        assert!(error.is_corruption(), "{error}");
        assert!(error.to_string().contains("checksum mismatch"), "{error}");
    }
    fs::write(&manifest, sound).unwrap();
    assert_eq!(contents(&Db::open(dir.path(), small()).unwrap()).len(), 4);
}

/// Returns the directory of a database of the fixtures.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name).join("db")
}

/// Checks that the database in `dir` is refused, that `verify` finds its fault, and that its table
/// `table` stays. Returns the contents after a repair.
fn repaired_after_refusals(dir: &Path, table: &str) -> Vec<(String, String)> {
    for error in [
        Db::open(dir, Options::default()).map(drop).unwrap_err(),
        Db::open_read_only(dir, Options::default()).map(drop).unwrap_err(),
        minikv::checkpoint(dir, dir.join("copy"), &Options::default()).unwrap_err(),
    ] {
        assert!(error.is_corruption(), "{error}");
        assert!(error.to_string().contains("MANIFEST"), "{error}");
    }
    assert!(!minikv::verify(dir, &Options::default()).unwrap().is_sound());
    assert!(dir.join(table).exists());
    minikv::repair(dir, &Options::default(), minikv::RepairOptions::default()).unwrap();
    contents(&Db::open(dir, Options::default()).unwrap())
}

/// A MANIFEST of LevelDB that states the log number 0, and after it the first flush. Without the
/// edit of the flush, its table is not named, and the log that it has emptied is not missed.
#[test]
fn a_manifest_that_lost_its_first_flush_is_refused_and_the_table_stays() {
    let original = fixture("chromium/local-storage");
    let sound = copy(&original);
    let expected = contents(&Db::open(sound.path(), Options::default()).unwrap());
    let second = 41;
    for is_cut in [false, true] {
        let damaged = copy(&original);
        let manifest = damaged.path().join("MANIFEST-000001");
        let mut bytes = fs::read(&manifest).unwrap();
        match is_cut {
            false => bytes[second + 7 + 20] ^= 1,
            true => bytes.truncate(second),
        }
        fs::write(&manifest, bytes).unwrap();
        let found = repaired_after_refusals(damaged.path(), "000003.ldb");
        assert!(found == expected, "cut: {is_cut}: {} of {}", found.len(), expected.len());
    }
}

/// goleveldb writes a transaction into tables, and begins no log for it.
#[test]
fn a_manifest_that_lost_a_transaction_before_the_writes_in_its_log_is_refused() {
    let original = fixture("goleveldb/06-transaction");
    let sound = copy(&original);
    let expected = contents(&Db::open(sound.path(), Options::default()).unwrap());
    for is_cut in [false, true] {
        let damaged = copy(&original);
        let manifest = damaged.path().join("MANIFEST-000000");
        let mut bytes = fs::read(&manifest).unwrap();
        match is_cut {
            false => bytes[98 + 7] ^= 1,
            true => bytes.truncate(98),
        }
        fs::write(&manifest, bytes).unwrap();
        let found = repaired_after_refusals(damaged.path(), "000004.ldb");
        assert!(found == expected, "cut: {is_cut}: {} of {}", found.len(), expected.len());
    }
}

/// Writes `edits` into the MANIFEST `name` in `dir`.
fn make_manifest(dir: &Path, name: &str, edits: &[VersionEdit]) {
    let file = DiskFs.create(&dir.join(name)).unwrap();
    let mut log = minikv::internals::log::LogWriter::new(file, 0);
    for edit in edits {
        let mut record = Vec::new();
        encode(edit, &mut record);
        log.add_record(&record).unwrap();
    }
}

/// Returns the first edit of a MANIFEST.
fn first_edit(next_file_number: u64) -> VersionEdit {
    VersionEdit {
        comparator: Some("leveldb.BytewiseComparator".to_owned()),
        log_number: Some(0),
        next_file_number: Some(next_file_number),
        last_seq: Some(0),
        ..VersionEdit::default()
    }
}

/// goleveldb's `Recover` states the log number 0 and the last sequence number in tables. Then it
/// replays the log, which begins one number later than that, because goleveldb has left out a
/// number. If it is killed before it records the tables that it writes, no edit names them.
#[test]
fn a_database_that_goleveldb_was_killed_while_it_recovered_is_opened() {
    let original = fixture("goleveldb/05-edge");
    let sound = copy(&original);
    let before =
        minikv::files::recover_manifest(&DiskFs, &original, "leveldb.BytewiseComparator").unwrap();
    let db = Db::open(sound.path(), Options::default()).unwrap();
    let expected = contents(&db);
    db.flush().unwrap();
    let flushed = files(sound.path(), ".ldb").pop().unwrap();
    assert!(!flushed.ends_with("000002.ldb"));
    for table in [b"half a table".to_vec(), fs::read(flushed).unwrap()] {
        let killed = copy(&original);
        let named = VersionEdit {
            next_file_number: Some(10),
            last_seq: Some(262),
            new_files: before.edit.new_files.clone(),
            ..VersionEdit::default()
        };
        make_manifest(killed.path(), "MANIFEST-000004", &[first_edit(1), named]);
        fs::write(killed.path().join("000009.ldb"), &table).unwrap();
        let report = minikv::verify(killed.path(), &Options::default()).unwrap();
        assert!(report.is_sound(), "{:?}", report.faults);
        let db = Db::open_read_only(killed.path(), Options::default()).unwrap();
        assert!(contents(&db) == expected && db.recovery().lost.is_empty());
        let db = Db::open(killed.path(), Options::default()).unwrap();
        assert!(contents(&db) == expected && db.recovery().lost.is_empty());
        assert!(!killed.path().join("000009.ldb").exists());
    }
}

/// LevelDB's `RepairDB` states the log number 0, and no table if it could save nothing. It leaves
/// an empty file for each table from which it has read no entry.
#[test]
fn a_database_of_which_leveldb_repaired_nothing_opens_empty() {
    let dir = tempfile::tempdir().unwrap();
    make_manifest(dir.path(), "MANIFEST-000001", &[first_edit(7)]);
    fs::write(dir.path().join("CURRENT"), "MANIFEST-000001\n").unwrap();
    fs::write(dir.path().join("000006.ldb"), "").unwrap();
    assert!(minikv::verify(dir.path(), &Options::default()).unwrap().is_sound());
    assert!(contents(&Db::open_read_only(dir.path(), Options::default()).unwrap()).is_empty());
    assert!(contents(&Db::open(dir.path(), Options::default()).unwrap()).is_empty());
}

#[test]
fn a_reused_manifest_that_lost_any_edit_is_refused_and_the_table_stays() {
    let dir = tempfile::tempdir().unwrap();
    let options = || small().reuse_logs(true);
    let db = Db::open(dir.path(), options()).unwrap();
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let tables = files(dir.path(), ".ldb");
    let manifest = dir.path().join("MANIFEST-000001");
    let sound = fs::read(&manifest).unwrap();
    let end = |at: usize| at + 7 + usize::from(u16::from_le_bytes([sound[at + 4], sound[at + 5]]));
    // The edits of the creation, of the open, and of the flush.
    let (second, third) = (end(0), end(end(0)));
    assert_eq!(end(third), sound.len());
    let flipped = |at: usize| {
        let mut bytes = sound.clone();
        bytes[at] ^= 1;
        bytes
    };
    for (what, bytes) in [
        ("the open is damaged", flipped(second + 7)),
        ("the flush is damaged", flipped(third + 7)),
        ("both are cut off", sound[..second].to_vec()),
        ("the flush is cut off", sound[..third].to_vec()),
    ] {
        fs::write(&manifest, bytes).unwrap();
        let error = Db::open(dir.path(), options()).map(drop).expect_err(what);
        assert!(error.is_corruption(), "{what}: {error}");
        Db::open_read_only(dir.path(), options()).map(drop).expect_err(what);
        assert!(!minikv::verify(dir.path(), &options()).unwrap().is_sound(), "{what}");
        assert_eq!(files(dir.path(), ".ldb"), tables, "{what}");
    }
    fs::write(&manifest, &sound).unwrap();
    let db = Db::open(dir.path(), options()).unwrap();
    assert_eq!(contents(&db), [("a".to_owned(), "1".to_owned())]);
}

/// LevelDB states the log number 0 until its first flush. If it is killed during that flush, there
/// is a table that no edit names, and everything is in the log.
#[test]
fn a_table_of_a_first_flush_that_did_not_end_is_left_out() {
    let original = fixture("leveldb-cpp/08-reuse-logs");
    let sound = copy(&original);
    let expected = contents(&Db::open(sound.path(), Options::default()).unwrap());
    for has_torn_edit in [false, true] {
        let killed = copy(&original);
        fs::write(killed.path().join("000004.log"), "").unwrap();
        let table = killed.path().join("000005.ldb");
        fs::write(&table, "half a table").unwrap();
        if has_torn_edit {
            let manifest = killed.path().join("MANIFEST-000001");
            let mut bytes = fs::read(&manifest).unwrap();
            // A whole record, as its header says, whose payload did not reach the disk.
            bytes.extend_from_slice(&[1, 2, 3, 4, 1, 0, 1, 9]);
            fs::write(&manifest, bytes).unwrap();
        }
        let db = Db::open(killed.path(), Options::default()).unwrap();
        assert!(contents(&db) == expected, "torn edit: {has_torn_edit}");
        assert!(db.recovery().lost.is_empty() && !table.exists());
    }
}

#[test]
fn a_manifest_that_ends_in_a_torn_record_is_not_continued() {
    let dir = tempfile::tempdir().unwrap();
    let current = || fs::read_to_string(dir.path().join("CURRENT")).unwrap();
    for round in 0..3 {
        let db = Db::open(dir.path(), small().reuse_logs(true)).unwrap();
        for earlier in 0..round {
            assert!(db.get(format!("{earlier}")).unwrap().is_some(), "{earlier} is lost");
        }
        db.put(format!("{round}"), "").unwrap();
        db.flush().unwrap();
        db.close().unwrap();
        let before = current();
        let manifest = dir.path().join(before.trim_end());
        let mut bytes = fs::read(&manifest).unwrap();
        // Appends the header of a record of a hundred bytes, and only the first two of these bytes.
        bytes.extend_from_slice(&[1, 2, 3, 4, 100, 0, 1, 1, 1]);
        fs::write(&manifest, bytes).unwrap();
        Db::open(dir.path(), small().reuse_logs(true)).unwrap().close().unwrap();
        assert_ne!(current(), before);
    }
}

#[test]
fn files_without_a_reference_are_removed_though_the_manifest_is_reused() {
    let dir = tempfile::tempdir().unwrap();
    let options = || small().reuse_logs(true);
    Db::open(dir.path(), options()).unwrap().put("a", "1").unwrap();
    let live = files(dir.path(), "");
    // A process that failed while it made a MANIFEST leaves these files. CURRENT does not name the
    // new MANIFEST yet.
    for stale in ["MANIFEST-000090", "000091.ldb", "000092.dbtmp"] {
        fs::write(dir.path().join(stale), "half made").unwrap();
    }
    let db = Db::open(dir.path(), options()).unwrap();
    assert_eq!(contents(&db), [("a".to_owned(), "1".to_owned())]);
    assert_eq!(files(dir.path(), ""), live);
}

#[test]
fn the_log_is_durable_before_a_synced_write_returns_and_so_are_the_logs_before_it() {
    use minikv::fs::sim::{CrashPlan, SimFs};
    let fs = SimFs::new(1);
    let options = || small().fs(fs.clone()).write_buffer_bytes(4 << 10);
    let db = Db::open("/db", options()).unwrap();
    for i in 0..200 {
        db.put(format!("{i:04}"), "v".repeat(40)).unwrap();
    }
    db.writing(WriteOptions::default().sync(true)).put("synced", "v").unwrap();
    let crashed = fs.crash_image(&CrashPlan::strict());
    drop(db);
    let db = Db::open("/db", small().fs(crashed)).unwrap();
    assert_eq!(contents(&db).len(), 201);
}

#[test]
fn a_database_in_memory_works_as_one_on_disk() {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    let options = || small().fs(fs.clone());
    let db = Db::open("/db", options()).unwrap();
    for i in 0..5000 {
        db.put(format!("{i:05}"), "value").unwrap();
    }
    drop(db);
    let db = Db::open("/db", options()).unwrap();
    db.compact_range(..).unwrap();
    assert_eq!(contents(&db).len(), 5000);
    drop(db);
    minikv::destroy("/db", &options()).unwrap();
    assert!(!fs.exists(Path::new("/db")).unwrap());
}

/// Appends an edit to the MANIFEST of a database that is not open.
fn append_edit(dir: &Path, edit: &VersionEdit) {
    let manifest = files(dir, "").into_iter().find(|path| {
        path.file_name().is_some_and(|name| name.to_str().unwrap().starts_with("MANIFEST"))
    });
    let manifest = manifest.unwrap();
    let len = fs::metadata(&manifest).unwrap().len();
    let mut log = minikv::internals::log::LogWriter::new(DiskFs.append(&manifest).unwrap(), len);
    let mut record = Vec::new();
    encode(edit, &mut record);
    log.add_record(&record).unwrap();
}

#[test]
fn a_manifest_that_needs_a_log_before_its_first_one_or_logs_ahead_is_opened() {
    for (ahead, needs_both, reuse) in
        [(0, true, false), (0, true, true), (1000, true, false), (1000, false, false)]
    {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("db");
        let open = || Db::open(&dir, small().reuse_logs(reuse)).unwrap();
        let db = open();
        db.put("a", "1").unwrap();
        db.close().unwrap();
        let comparator = "leveldb.BytewiseComparator";
        let before = minikv::files::recover_manifest(&DiskFs, &dir, comparator).unwrap();
        let log = before.log_number;
        let first = before.next_file_number - 1 + ahead;
        append_edit(
            &dir,
            &VersionEdit {
                log_number: Some(first),
                prev_log_number: needs_both.then_some(log),
                ..Default::default()
            },
        );
        let mut expected = Vec::new();
        if needs_both {
            expected.push(("a".to_owned(), "1".to_owned()));
        }
        let db = open();
        assert_eq!(contents(&db), expected);
        db.put("b", "2").unwrap();
        drop(db);
        expected.push(("b".to_owned(), "2".to_owned()));
        for _ in 0..2 {
            assert_eq!(contents(&open()), expected, "{ahead} {needs_both} {reuse}");
        }
        let after = minikv::files::recover_manifest(&DiskFs, &dir, comparator).unwrap();
        assert!(after.log_number > first, "{} is not after {first}", after.log_number);
    }
}
