//! Checks that the tables of a view exist as long as the view, and that each reader gets the table
//! that it asked for.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use minikv::{Compression, Db, Filters, FixedPrefix, Options, Readable};

use crate::{contents, key, small};

/// Options with which nearly every write creates a table, and few tables are open at a time.
fn tiny() -> Options {
    Options::default()
        .create_if_missing(true)
        .write_buffer_bytes(1)
        .max_file_bytes(1)
        .max_open_files(16)
        .block_bytes(64)
        .block_cache_bytes(0)
        .compression(Compression::None)
        .filters(Filters::Table(10))
        .filter_prefix(FixedPrefix::new(0))
}

fn table_count(dir: &Path) -> usize {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "ldb")).count()
}

/// Writes a hundred keys and compacts the database. Every call writes the same keys, so that two
/// databases use the same file numbers.
fn fill(db: &Db) {
    (0..100).for_each(|i| db.put(format!("{i:03}"), [7; 40]).unwrap());
    db.compact_range(..).unwrap();
    db.wait_idle().unwrap();
}

/// Checks that dropping an iterator removes no table of another database. The iterator outlives the
/// database that it reads. In the meantime, a new database with the same file numbers has been
/// created at the same path.
#[test]
fn an_iterator_of_an_earlier_database_removes_no_table_of_the_next_one() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("db");
    let old = Db::open(&path, tiny()).unwrap();
    fill(&old);
    let kept = old.iter();
    fill(&old);
    drop(old);
    // The directory is renamed, not removed, so that the new files cannot get the inode numbers of
    // the old files.
    fs::rename(&path, home.path().join("away")).unwrap();
    let new = Db::open(&path, tiny()).unwrap();
    fill(&new);
    let before = table_count(&path);
    drop(kept);
    assert_eq!(table_count(&path), before);
    assert_eq!(new.iter().rev().filter(|entry| entry.is_ok()).count(), 100);
}

/// Checks gets while tables are constantly closed and their memory is reused.
#[test]
fn gets_over_more_tables_than_may_be_open_look_into_their_own() {
    let home = tempfile::tempdir().unwrap();
    let db = Db::open(home.path(), tiny().write_buffer_bytes(1 << 20)).unwrap();
    let key = |i: u64| format!("{:06}", i % 40);
    (0..40).for_each(|i| db.put(key(i), key(i)).unwrap());
    db.compact_range(..).unwrap();
    let failed = AtomicBool::new(false);
    thread::scope(|scope| {
        for thread in 1..9u64 {
            let (db, failed) = (&db, &failed);
            scope.spawn(move || {
                let mut state = thread.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                for _ in 0..5_000 {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    let key = key(state >> 20);
                    let found = db.get(&key).unwrap();
                    failed.fetch_or(found.as_deref() != Some(key.as_bytes()), Relaxed);
                }
            });
        }
    });
    assert!(!failed.into_inner(), "a get did not find its key");
}

/// Returns the number of the process's mappings of tables of `dir`.
#[cfg(target_os = "linux")]
fn mapped_tables(dir: &Path) -> usize {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let ours = maps.lines().filter(|line| line.contains(dir.to_str().unwrap()));
    ours.filter(|line| line.contains(".ldb")).count()
}

#[cfg(target_os = "linux")]
#[test]
fn tables_are_mapped_only_if_asked_for_and_as_long_as_they_are_used() {
    for asked in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let options = small().block_cache_bytes(0).map_tables(asked);
        let db = Db::open(dir.path(), options).unwrap();
        for i in 0..4000 {
            db.put(key(i), i.to_string()).unwrap();
        }
        db.flush().unwrap();
        let before = contents(&db);
        assert_eq!(before.len(), 4000);
        assert_eq!(mapped_tables(dir.path()) > 0, asked);
        let snapshot = db.snapshot();
        for i in 0..4000 {
            db.delete(key(i)).unwrap();
        }
        // The snapshot reads tables whose files have lost their names.
        let cursor = snapshot.iter();
        db.compact_range(..).unwrap();
        let all = cursor.map(|entry| entry.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap());
        assert!(all.eq(before), "{asked}");
        drop(snapshot);
        db.compact_range(..).unwrap();
        assert_eq!((db.stats().open_tables, mapped_tables(dir.path())), (0, 0));
    }
}
