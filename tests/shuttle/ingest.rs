//! Ingests that are concurrent with writes, compactions, snapshots, transactions and read-only
//! opens.

use minikv::bulk::{SortedTable, TableWriter};
use minikv::fs::MemFs;
use minikv::{Db, Readable};
use shuttle::thread;

use crate::{check, open, options};

const KEYS: usize = 3;

fn tables(fs: &MemFs, dir: &str, value: &str) -> Vec<SortedTable> {
    let mut writer = TableWriter::create(dir, &options(fs)).unwrap();
    (0..KEYS).for_each(|i| writer.put(format!("key{i}"), value).unwrap());
    writer.finish().unwrap()
}

/// Returns the value that all keys have, or `None` if there are no keys.
fn value_of<'a>(values: impl Iterator<Item = &'a [u8]>) -> Option<&'a [u8]> {
    let values: Vec<_> = values.collect();
    assert!(values.is_empty() || values.len() == KEYS, "a part of the tables: {values:?}");
    assert!(values.windows(2).all(|pair| pair[0] == pair[1]), "{values:?}");
    values.first().copied()
}

fn read(db: &Db) -> Option<Vec<u8>> {
    let entries: Vec<_> = db.prefix("key").unwrap().map(Result::unwrap).collect();
    value_of(entries.iter().map(|(_, value)| &value[..])).map(<[u8]>::to_vec)
}

#[test]
fn an_ingest_is_seen_whole_and_by_no_earlier_snapshot() {
    check(|| {
        let fs = MemFs::new();
        let db = Db::open(crate::DIR, options(&fs).write_buffer_bytes(64)).unwrap();
        let written = tables(&fs, "/first", "1");
        let writer = {
            let db = db.clone();
            thread::spawn(move || {
                for i in 0..3 {
                    db.put("kex", i.to_string()).unwrap();
                    db.put(format!("kez{i}"), "").unwrap();
                }
            })
        };
        let ingest = {
            let db = db.clone();
            thread::spawn(move || db.ingest(&written).map(|_| ()).unwrap())
        };
        let snapshot = db.snapshot();
        let view = |snapshot: &minikv::Snapshot| snapshot.prefix("key").unwrap().count();
        let first = view(&snapshot);
        read(&db);
        db.compact_range(..).unwrap();
        assert_eq!(view(&snapshot), first, "a snapshot changes");
        let reader = Db::open_read_only(crate::DIR, options(&fs)).unwrap();
        assert!([0, KEYS].contains(&reader.prefix("key").unwrap().count()));
        [writer, ingest].into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(read(&db).as_deref(), Some(&b"1"[..]));
        drop((db, snapshot));
        let db = open(&fs);
        assert_eq!(read(&db).as_deref(), Some(&b"1"[..]));
        assert_eq!(db.get("kex").unwrap().as_deref(), Some(&b"2"[..]));
    });
}

#[test]
fn a_write_and_an_ingest_of_the_same_key_happen_one_after_the_other() {
    check(|| {
        let fs = MemFs::new();
        let db = Db::open(crate::DIR, options(&fs).write_buffer_bytes(64)).unwrap();
        db.put("key1", "0").unwrap();
        let written = tables(&fs, "/first", "1");
        let writer = {
            let db = db.clone();
            thread::spawn(move || {
                db.put("key1", "2").unwrap();
                assert!(db.get("key1").unwrap().is_some_and(|value| *value != b"0"[..]));
                db.flush().unwrap();
            })
        };
        let reader = {
            let db = db.clone();
            thread::spawn(move || {
                // If the transaction commits after the ingest, it must have read the ingested
                // entries.
                let mut tx = db.transaction();
                let seen = tx.get("key0").unwrap();
                tx.put("copy", seen.as_deref().unwrap_or(b"none"));
                (tx.commit().is_ok(), seen)
            })
        };
        db.ingest(&written).unwrap();
        let after = db.get("key1").unwrap();
        writer.join().unwrap();
        let (committed, seen) = reader.join().unwrap();
        let copy = db.get("copy").unwrap();
        let expected = seen.as_deref().unwrap_or(b"none");
        assert_eq!(copy.as_deref(), committed.then_some(expected));
        let last = db.get("key1").unwrap();
        assert!(matches!(last.as_deref(), Some(b"1" | b"2")), "{last:?}");
        db.compact_range(..).unwrap();
        assert_eq!(db.get("key1").unwrap(), last, "a compaction brings the other one back");
        assert!(after.is_some_and(|value| *value != b"0"[..]));
    });
}

/// Checks that an ingest and a concurrent compaction do not write overlapping tables. The
/// compaction merges two tables, and the keys of the ingested tables lie between the keys of these
/// two tables. An output with the keys of both inputs would overlap the ingested tables.
#[test]
fn an_ingest_between_the_inputs_of_a_compaction_overlaps_no_output() {
    check(|| {
        let fs = MemFs::new();
        let db = Db::open(crate::DIR, options(&fs)).unwrap();
        for key in ["kex", "kez"] {
            let mut writer = TableWriter::create(format!("/{key}"), &options(&fs)).unwrap();
            writer.put(key, "").unwrap();
            db.ingest(&writer.finish().unwrap()).unwrap();
        }
        let written = tables(&fs, "/first", "1");
        let ingest = {
            let db = db.clone();
            thread::spawn(move || db.ingest(&written).map(|_| ()).unwrap())
        };
        db.compact_range(..).unwrap();
        ingest.join().unwrap();
        assert_eq!(read(&db).as_deref(), Some(&b"1"[..]));
        assert_eq!(db.iter().count(), KEYS + 2);
    });
}
