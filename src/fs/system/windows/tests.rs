//! Tests of whole databases beside programs that have files of them open.

use std::fs::{File, OpenOptions, exists};
use std::os::windows::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::fs::LockHolder;
use crate::{Compression, Db, Error, Options, destroy};

/// The share mode with which LevelDB opens a file to read it.
const FILE_SHARE_READ: u32 = 1;

fn open(dir: &Path) -> crate::Result<Db> {
    Db::open(dir, Options::default().create_if_missing(true).compression(Compression::None))
}

/// Opens a file so that others may only read it meanwhile.
fn hold(path: &Path) -> File {
    OpenOptions::new().read(true).share_mode(FILE_SHARE_READ).open(path).unwrap()
}

fn tables(dir: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|ending| ending == "ldb")).collect()
}

/// Writes 50 entries into a table. The round tells their values.
fn write_table(db: &Db, round: u32) {
    (0..50).for_each(|key| db.put(format!("key{key:02}"), format!("{round}")).unwrap());
    db.flush().unwrap();
}

#[test]
fn a_table_that_another_program_has_open_is_removed_by_the_next_open() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path()).unwrap();
    write_table(&db, 1);
    let [old] = &tables(home.path())[..] else { panic!("{:?}", tables(home.path())) };
    let held = hold(old);
    write_table(&db, 2);
    db.compact_range(..).unwrap();
    db.close().unwrap();
    assert!(exists(old).unwrap(), "the other program has it open");
    drop(held);
    let db = open(home.path()).unwrap();
    assert!(!exists(old).unwrap());
    assert_eq!(db.get("key49").unwrap().as_deref(), Some(&b"2"[..]));
}

#[test]
fn an_open_waits_for_a_program_that_reads_current() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path()).unwrap();
    write_table(&db, 1);
    db.close().unwrap();
    let current = home.path().join("CURRENT");
    let before = std::fs::read(&current).unwrap();
    let held = hold(&current);
    let closing = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        drop(held);
    });
    let db = open(home.path()).unwrap();
    closing.join().unwrap();
    write_table(&db, 2);
    db.close().unwrap();
    assert_ne!(std::fs::read(&current).unwrap(), before, "it was replaced");
}

#[test]
fn a_current_that_stays_open_is_an_error_that_loses_nothing() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path()).unwrap();
    write_table(&db, 1);
    db.close().unwrap();
    let current = home.path().join("CURRENT");
    let (before, held) = (std::fs::read(&current).unwrap(), hold(&current));
    let error = open(home.path()).map(drop).unwrap_err();
    assert!(error.io_kind().is_some_and(crate::fs::is_in_use), "{error}");
    assert_eq!(std::fs::read(&current).unwrap(), before);
    drop(held);
    let db = open(home.path()).unwrap();
    assert_eq!(db.get("key00").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_database_has_a_path_of_any_length_in_any_script() {
    let home = tempfile::tempdir().unwrap();
    let deep = home.path().join("ключ-鍵-🔑".repeat(12)).join("d".repeat(200));
    let [dir, copy, folder] = ["db", "copy", "backups"].map(|name| deep.join(name));
    assert!(dir.to_str().unwrap().chars().count() > 300);
    let db = open(&dir).unwrap();
    write_table(&db, 1);
    write_table(&db, 2);
    db.compact_range(..).unwrap();
    db.checkpoint(&copy).unwrap();
    db.backup(&folder).unwrap();
    db.close().unwrap();
    for dir in [&dir, &copy] {
        let db = open(dir).unwrap();
        assert_eq!(db.iter().count(), 50);
        assert_eq!(db.get("key07").unwrap().as_deref(), Some(&b"2"[..]));
        db.close().unwrap();
        destroy(dir, &Options::default()).unwrap();
        assert!(!exists(dir).unwrap());
    }
}

#[test]
fn a_path_in_another_case_is_the_same_database() {
    let home = tempfile::tempdir().unwrap();
    let db = open(&home.path().join("Database")).unwrap();
    let error = open(&home.path().join("dataBASE")).map(drop).unwrap_err();
    let Error::Locked { holder, .. } = &error else { panic!("{error}") };
    assert_eq!(*holder, LockHolder::ThisProcess);
    db.close().unwrap();
}
