//! Tests of the engine through the public API: one test for each guarantee.

mod backup;
mod cache_curve;
mod compaction;
mod compaction_filter;
mod debug;
mod delete_range;
mod expiry;
mod explain;
mod filters;
mod ingest;
mod keyspaces;
mod limited;
mod logs;
mod observer;
mod panics;
mod reads;
mod recovery;
mod resources;
#[cfg(feature = "serde")]
mod serialize;
mod tables;
mod tombstones;
mod versions;
mod writes;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use minikv::files::LogReader;
use minikv::fs::{Fs, SimFs};
use minikv::{Db, Options, ReadOptions, Readable, WriteBatch, WriteOptions};
use minikv_support::{comparators, recount, rng};

fn small() -> Options {
    Options::default()
        .create_if_missing(true)
        .write_buffer_bytes(64 << 10)
        .max_file_bytes(16 << 10)
        .block_bytes(512)
}

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// Returns options for a deterministic database on a simulated filesystem.
fn on(fs: &SimFs) -> Options {
    small().fs(fs.clone()).preallocate_logs(false).inline_background(Some(4))
}

fn key(i: u32) -> String {
    format!("key{i:06}")
}

fn contents(db: &Db) -> Contents {
    db.iter().map(|entry| entry.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap()).collect()
}

/// Returns the number of tables of each level.
fn levels(db: &Db) -> Vec<u64> {
    let count = |level| db.property(&format!("leveldb.num-files-at-level{level}"));
    (0..7).map(|level| count(level).unwrap().parse().unwrap()).collect()
}

/// Returns the path of the MANIFEST of a database without leftovers, and the offset of each edit.
fn edits(fs: &SimFs, dir: &str) -> (PathBuf, Vec<u64>) {
    let names = fs.list(Path::new(dir)).unwrap();
    let manifest = names.into_iter().find(|name| name.starts_with("MANIFEST")).unwrap();
    let path = Path::new(dir).join(manifest);
    let mut reader = LogReader::new(fs.open(&path).unwrap(), &path).unwrap();
    let mut offsets = Vec::new();
    while reader.next().unwrap().is_some() {
        offsets.push(reader.record_offset());
    }
    (path, offsets)
}

fn disk_bytes(dir: &Path) -> u64 {
    // A background thread may remove a file after it was listed.
    let files = std::fs::read_dir(dir).unwrap().filter_map(|entry| entry.unwrap().metadata().ok());
    files.map(|metadata| metadata.len()).sum()
}

/// Waits until `done` returns true. Panics with `what` after ten seconds.
#[track_caller]
fn soon(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(10);
    while !done() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn everything_written_is_read_back_through_flushes_compactions_and_reopens() {
    let dir = tempfile::tempdir().unwrap();
    let mut model = BTreeMap::new();
    for round in 0..3 {
        let db = Db::open(dir.path(), small()).unwrap();
        for i in 0..5000u32 {
            let key = format!("key{:06}", (i * 7919 + round * 31) % 20000);
            if i % 5 == 0 {
                db.delete(&key).unwrap();
                model.remove(key.as_bytes());
            } else {
                let value = format!("value {round} {i}");
                db.put(&key, &value).unwrap();
                model.insert(key.into_bytes(), value.into_bytes());
            }
        }
        for (key, value) in &model {
            assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]));
        }
        let forward: Vec<_> = db.iter().map(|e| e.unwrap()).collect();
        assert!(
            forward
                .iter()
                .map(|(k, v)| (&k[..], &v[..]))
                .eq(model.iter().map(|(k, v)| (&k[..], &v[..])))
        );
        let backward: Vec<_> = db.iter().rev().map(|e| e.unwrap()).collect();
        assert!(backward.iter().rev().eq(&forward));
        if round == 1 {
            db.compact_range(..).unwrap();
        }
        println!("{}", db.property("leveldb.stats").unwrap());
    }
}

#[test]
fn a_million_deletes_give_their_space_back() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::create(dir.path()).unwrap();
    for start in (0..1_000_000u32).step_by(1000) {
        let mut batch = WriteBatch::new();
        for i in start..start + 1000 {
            batch.put(i.to_be_bytes(), [7; 20]);
        }
        db.write(batch).unwrap();
    }
    db.flush().unwrap();
    assert!(disk_bytes(dir.path()) > 5 << 20);
    for start in (0..1_000_000u32).step_by(1000) {
        let mut batch = WriteBatch::new();
        for i in start..start + 1000 {
            batch.delete(i.to_be_bytes());
        }
        db.write(batch).unwrap();
    }
    db.compact_range(..).unwrap();
    db.close().unwrap();
    let left = disk_bytes(dir.path());
    assert!(left < 64 << 10, "{left} bytes are left");
}

#[test]
fn a_filter_that_says_no_saves_the_data_block() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    for i in 0..10_000 {
        db.put(format!("{:06}", 2 * i), "value").unwrap();
    }
    db.compact_range(..).unwrap();
    let unfiltered = ReadOptions::default().use_filter(false);
    let (mut with, mut without, mut considered) = (0, 0, 0);
    for i in 0..2_000 {
        let absent = format!("{:06}", 2 * i + 1);
        let (value, trace) = db.get_traced(&absent).unwrap();
        assert_eq!(value, None);
        // Tables whose range does not include the key are not counted, and need no filter.
        let trace = trace.total();
        let tables = trace.tables_considered;
        assert_eq!(trace.filter_checks, tables);
        considered += tables;
        assert_eq!(trace.data_blocks(), trace.filter_false_positives);
        with += trace.data_blocks();
        let (value, trace) = db.reading(unfiltered).get_traced(&absent).unwrap();
        assert_eq!((value, trace.total().filter_checks), (None, 0));
        without += trace.data_blocks();
    }
    assert!(considered > 1_900);
    assert_eq!(without, considered);
    assert!(with < 60, "{with} blocks read with filters");
}

#[test]
fn synced_writes_from_many_threads_are_all_there() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let db = db.clone();
            scope.spawn(move || {
                for i in 0..200 {
                    let sync = WriteOptions::default().sync(i % 10 == 0);
                    db.writing(sync).put(format!("{thread}/{i}"), vec![thread as u8; i]).unwrap();
                }
            });
        }
    });
    drop(db);
    let db = Db::open(dir.path(), small()).unwrap();
    assert_eq!(db.iter().count(), 1600);
}
