//! Observer events that are delivered while other threads work and while the database is closed.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use minikv::events::{Event, EventKind, TableInfo};
use minikv::fs::MemFs;
use minikv::{Db, Readable};
use shuttle::sync::Mutex;
use shuttle::thread;

use crate::{check, open, options};

type Events = Arc<Mutex<Vec<Event>>>;

/// Opens a database whose observer keeps all events.
fn observed(fs: &MemFs, memtable_bytes: usize) -> (Db, Events) {
    let events = Events::default();
    let kept = events.clone();
    let keep = move |event: &Event| kept.lock().unwrap().push(event.clone());
    let options = options(fs).write_buffer_bytes(memtable_bytes).observer(keep);
    (Db::open(crate::DIR, options).unwrap(), events)
}

/// Removes the numbers of the tables `removed` from `tables`, and inserts those of the tables
/// `added`.
fn change(tables: &mut BTreeSet<u64>, removed: &[TableInfo], added: &[TableInfo]) {
    for table in removed {
        assert!(tables.remove(&table.number), "{table:?} was not there");
    }
    for table in added {
        assert!(tables.insert(table.number), "{table:?} was there");
    }
}

/// Checks that events are numbered and end with `Closed`, and that each event names only tables
/// that an earlier event added. The number of tables left at the end must be the number in the
/// statistics. Returns the numbers of these tables.
fn assert_complete(events: &Events) -> BTreeSet<u64> {
    let (events, mut tables) = (events.lock().unwrap(), BTreeSet::new());
    for (at, event) in events.iter().enumerate() {
        assert_eq!(event.number, at as u64);
        match &event.kind {
            EventKind::Opened { tables: all, .. } => change(&mut tables, &[], all),
            EventKind::FlushEnded { table, .. } => change(&mut tables, &[], table.as_slice()),
            EventKind::CompactionBegan { inputs, .. } => {
                assert!(inputs.iter().all(|table| tables.contains(&table.number)), "{inputs:?}");
            }
            EventKind::CompactionEnded { inputs, outputs, error: None, .. } => {
                change(&mut tables, inputs, outputs);
            }
            EventKind::TablesChanged { added, removed, .. } => {
                change(&mut tables, removed, added);
            }
            _ => {}
        }
    }
    match events.last().map(|event| &event.kind) {
        Some(EventKind::Closed { stats, .. }) => {
            let counted: u64 = stats.levels.iter().map(|level| level.files).sum();
            assert_eq!(tables.len() as u64, counted);
        }
        last => panic!("the last event is {last:?}"),
    }
    tables
}

/// Returns the numbers of the tables that the MANIFEST names.
fn named(fs: &MemFs) -> BTreeSet<u64> {
    let (dir, comparator) = (Path::new(crate::DIR), "leveldb.BytewiseComparator");
    let recovered = minikv::files::recover_manifest(fs, dir, comparator).unwrap();
    recovered.edit.new_files.iter().map(|file| file.number).collect()
}

#[test]
fn events_beside_writers_flush_compaction_and_delete_range_add_up_to_the_tables() {
    check(|| {
        let fs = MemFs::new();
        let (db, events) = observed(&fs, 1);
        let (writer, flusher, deleter) = (db.clone(), db.clone(), db.clone());
        let threads = [
            thread::spawn(move || (0..3).for_each(|n| writer.put(format!("a{n}"), "1").unwrap())),
            thread::spawn(move || flusher.flush().unwrap()),
            thread::spawn(move || assert!(deleter.delete_range("a0".."a2").is_ok())),
        ];
        db.put("b", "1").unwrap();
        db.compact_range(..).unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        db.close().unwrap();
        assert_complete(&events);
    });
}

/// Checks that no table changes after a `close` that ends the compaction of another thread.
#[test]
fn closing_beside_a_compaction_ends_the_events_after_it() {
    check(|| {
        let fs = MemFs::new();
        let (db, events) = observed(&fs, 16 << 10);
        for value in ["1", "2"] {
            db.put("a", value).unwrap();
            db.flush().unwrap();
        }
        let compactor = db.clone();
        let compactor = thread::spawn(move || {
            let _whether_open = compactor.compact_range(..);
        });
        db.close().unwrap();
        let told = assert_complete(&events);
        compactor.join().unwrap();
        assert_eq!(told, named(&fs));
    });
}

/// Checks that, when either of two concurrent calls of `close` returns, the observer has received
/// all events.
#[test]
fn closing_twice_beside_a_writer_ends_the_events_once() {
    check(|| {
        let fs = MemFs::new();
        let (db, events) = observed(&fs, 1);
        let (writer, other, seen) = (db.clone(), db.clone(), events.clone());
        let writer = thread::spawn(move || {
            let _whether_open = writer.put("a", "1");
        });
        let closer = thread::spawn(move || {
            other.close().unwrap();
            assert_complete(&seen);
        });
        db.close().unwrap();
        assert_complete(&events);
        writer.join().unwrap();
        closer.join().unwrap();
    });
}

/// Checks that an observer can write to its database when a flush begins, and close the database
/// when the flush ends, without waiting forever.
#[test]
fn an_observer_that_writes_and_closes_waits_for_nobody() {
    check(|| {
        let fs = MemFs::new();
        let own = Arc::new(Mutex::new(None::<Db>));
        let of_observer = own.clone();
        let observer = move |event: &Event| {
            let db = of_observer.lock().unwrap().clone();
            match (&event.kind, db) {
                (EventKind::FlushBegan { .. }, Some(db)) => {
                    let _whether_open = db.put("from the observer", "1");
                }
                (EventKind::FlushEnded { .. }, Some(db)) => db.close().unwrap(),
                (EventKind::Closed { .. }, _) => *of_observer.lock().unwrap() = None,
                _ => {}
            }
        };
        let db = Db::open(crate::DIR, options(&fs).observer(observer)).unwrap();
        *own.lock().unwrap() = Some(db.clone());
        let is_written = db.put("a", "1").is_ok();
        let _whether_open = db.flush();
        db.close().unwrap();
        let db = open(&fs);
        assert!(!is_written || db.contains_key("a").unwrap(), "an acknowledged write is lost");
    });
}
