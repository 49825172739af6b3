//! Events for an observer: they are complete and in order, and the observer may do anything while
//! it handles an event.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use minikv::bulk::{SortedTable, TableWriter};
use minikv::events::{CompactionKind, Event, EventKind, StallCause, TableInfo};
use minikv::fs::sim::{Fault, OpKind};
use minikv::fs::{DiskFs, Fs, MemFs, SimFs};
use minikv::internals::format::key::user_key;
use minikv::{Db, Error, HealthState, Options, ReadSample, Stats};

use crate::small;

/// The events that an observer was given.
#[derive(Clone, Default)]
struct Record(Arc<Mutex<Vec<Event>>>);

impl Record {
    fn on(&self, options: Options) -> Options {
        let events = self.0.clone();
        options.observer(move |event: &Event| events.lock().unwrap().push(event.clone()))
    }

    fn events(&self) -> Vec<Event> {
        self.0.lock().unwrap().clone()
    }
}

/// Level, size and key range of a table.
type Table = (usize, u64, Vec<u8>, Vec<u8>);

fn table(info: &TableInfo) -> Table {
    (info.level, info.file_bytes, info.first_key.clone(), info.last_key.clone())
}

/// Tables by number, reconstructed from events.
#[derive(Default)]
struct Replayed(BTreeMap<u64, Table>);

impl Replayed {
    #[track_caller]
    fn add(&mut self, added: &[TableInfo]) {
        for info in added {
            assert!(self.0.insert(info.number, table(info)).is_none(), "{info:?} was there");
        }
    }

    #[track_caller]
    fn remove(&mut self, removed: &[TableInfo]) {
        for info in removed {
            assert_eq!(self.0.remove(&info.number), Some(table(info)), "{info:?}");
        }
    }

    fn replay(events: &[Event]) -> Replayed {
        let mut tables = Replayed::default();
        for event in events {
            match &event.kind {
                EventKind::Opened { tables: all, .. } => tables.add(all),
                EventKind::FlushEnded { table, .. } => tables.add(table.as_slice()),
                EventKind::CompactionEnded { inputs, outputs, error: None, .. } => {
                    tables.remove(inputs);
                    tables.add(outputs);
                }
                EventKind::TablesChanged { added, removed, .. } => {
                    tables.remove(removed);
                    tables.add(added);
                }
                _ => {}
            }
        }
        tables
    }
}

/// Returns the tables that the MANIFEST names.
fn named(fs: &dyn Fs, dir: &Path) -> BTreeMap<u64, Table> {
    let comparator = "leveldb.BytewiseComparator";
    let files = minikv::files::recover_manifest(fs, dir, comparator).unwrap().edit.new_files;
    let table = |file: &minikv::files::NewFile| {
        let keys = [&file.smallest, &file.largest].map(|key| user_key(key).to_vec());
        let [first, last] = keys;
        (file.level, file.file_bytes, first, last)
    };
    files.iter().map(|file| (file.number, table(file))).collect()
}

/// Checks the numbers and times of events, and that every event for the end of some work follows an
/// event for its beginning.
fn assert_ordered(events: &[Event]) {
    let (mut jobs, mut begun, mut stalled) = (BTreeSet::new(), BTreeMap::new(), false);
    let (mut time, mut ended_log) = (Duration::ZERO, 0);
    for (at, event) in events.iter().enumerate() {
        assert_eq!(event.number, at as u64);
        assert!(event.since_open >= time, "{event:?} is before {time:?}");
        time = event.since_open;
        match &event.kind {
            EventKind::Opened { .. } => assert_eq!(at, 0),
            EventKind::MemtableFrozen { log, .. } => {
                assert!(*log > std::mem::replace(&mut ended_log, *log), "{event:?}");
            }
            EventKind::FlushBegan { job, .. } => {
                assert!(jobs.insert(*job));
                begun.insert(*job, Vec::new());
            }
            EventKind::CompactionBegan { job, inputs, .. } => {
                assert!(jobs.insert(*job) && !inputs.is_empty());
                begun.insert(*job, inputs.clone());
            }
            EventKind::FlushEnded { job, .. } => assert_eq!(begun.remove(job), Some(Vec::new())),
            EventKind::CompactionEnded { job, inputs, .. } => {
                assert_eq!(begun.remove(job).as_ref(), Some(inputs));
            }
            EventKind::StallBegan { .. } => assert!(!std::mem::replace(&mut stalled, true)),
            EventKind::StallEnded { .. } => assert!(std::mem::take(&mut stalled)),
            EventKind::Closed { .. } => assert_eq!(at, events.len() - 1),
            _ => {}
        }
    }
    assert!(begun.is_empty() && !stalled, "{begun:?}");
    assert!(matches!(events[0].kind, EventKind::Opened { .. }));
}

/// Returns the counters of flushes, stalls and levels that the statistics must show after `events`.
fn counted(events: &[Event]) -> Stats {
    let mut stats = Db::open("/db", small().fs(MemFs::new())).unwrap().stats();
    let bytes = |tables: &[TableInfo]| tables.iter().map(|table| table.file_bytes).sum::<u64>();
    for event in events {
        match &event.kind {
            EventKind::FlushEnded { table, took, error: None, .. } => {
                stats.flushes += 1;
                stats.flush_bytes += bytes(table.as_slice());
                stats.flush_time += *took;
            }
            EventKind::CompactionEnded {
                kind,
                inputs,
                output_level,
                outputs,
                entries_dropped,
                took,
                error: None,
                ..
            } => match kind {
                CompactionKind::Move => {
                    stats.levels[*output_level].moves += outputs.len() as u64;
                }
                CompactionKind::Drop => stats.expired_tables_dropped += inputs.len() as u64,
                _ => {
                    let level = &mut stats.levels[*output_level];
                    level.compactions += 1;
                    level.bytes_read += bytes(inputs);
                    level.bytes_written += bytes(outputs);
                    level.entries_dropped += entries_dropped;
                    level.merge_time += *took;
                }
            },
            EventKind::StallEnded { cause, took, .. } => {
                let stall = match cause {
                    StallCause::Flush => &mut stats.stalls.flush,
                    StallCause::Level0 => &mut stats.stalls.level0,
                    StallCause::Slowdown => &mut stats.stalls.slowdown,
                };
                stall.count += 1;
                stall.time += *took;
            }
            _ => {}
        }
    }
    stats
}

#[track_caller]
fn assert_counted(events: &[Event], stats: &Stats) {
    let expected = counted(events);
    let flushes = |stats: &Stats| (stats.flushes, stats.flush_bytes, stats.flush_time);
    assert_eq!(flushes(&expected), flushes(stats));
    let stalls = |stats: &Stats| (stats.stalls.flush, stats.stalls.level0, stats.stalls.slowdown);
    assert_eq!(stalls(&expected), stalls(stats));
    for (expected, level) in expected.levels.iter().zip(&stats.levels) {
        let counters = |level: &minikv::stats::LevelStats| {
            let (read, written) = (level.bytes_read, level.bytes_written);
            (level.compactions, level.moves, read, written, level.entries_dropped, level.merge_time)
        };
        assert_eq!(counters(expected), counters(level));
    }
}

fn ingested(dir: &Path, round: u32) -> Vec<SortedTable> {
    let folder = dir.join(format!("sorted-{round}"));
    let mut writer = TableWriter::create(folder, &small()).unwrap();
    (0..50).for_each(|i| writer.put(format!("zz {round} {i:03}"), [1; 100]).unwrap());
    writer.finish().unwrap()
}

/// Changes the database in every way that changes tables.
fn work(db: &Db, dir: &Path, round: u32) {
    thread::scope(|scope| {
        for writer in 0..4 {
            scope.spawn(move || {
                for i in 0..1500 {
                    let key = format!("key{:06}", (i * 7919 + writer * 31 + round) % 5000);
                    match i % 7 {
                        0 => db.delete(key).unwrap(),
                        _ => db.put(key, [writer as u8; 120]).unwrap(),
                    }
                    if i % 400 == 0 {
                        db.flush().unwrap();
                    }
                }
            });
        }
        scope.spawn(move || (0..3).for_each(|_| db.compact_range(..).unwrap()));
        scope.spawn(move || {
            db.ingest(&ingested(dir, round)).unwrap();
            db.delete_range("key001000".."key003000").unwrap();
        });
    });
    db.wait_idle().unwrap();
}

#[test]
fn the_tables_at_open_and_the_events_are_the_tables_and_counters_at_the_end() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("db");
    let mut kinds = BTreeSet::new();
    for round in 0..3 {
        let before = if round == 0 { BTreeMap::new() } else { named(&DiskFs, &dir) };
        let record = Record::default();
        let db = Db::open(&dir, record.on(small())).unwrap();
        work(&db, home.path(), round);
        let stats = db.stats();
        db.close().unwrap();
        let events = record.events();
        assert_ordered(&events);
        assert_counted(&events, &stats);
        assert!(round == 0 || !before.is_empty());
        assert_eq!(Replayed::replay(&events[..1]).0, before);
        assert_eq!(Replayed::replay(&events).0, named(&DiskFs, &dir));
        for (level, stats) in stats.levels.iter().enumerate() {
            let replayed = Replayed::replay(&events).0;
            let tables = replayed.values().filter(|table| table.0 == level);
            let (files, bytes) = tables.fold((0, 0), |(n, sum), table| (n + 1, sum + table.1));
            assert_eq!((files, bytes), (stats.files, stats.bytes), "level {level}");
        }
        let names = events.iter().map(|event| format!("{:?}", event.kind));
        kinds.extend(names.map(|name| name.split([' ', '{']).next().unwrap().to_owned()));
    }
    for kind in ["MemtableFrozen", "FlushEnded", "CompactionEnded", "TablesChanged"] {
        assert!(kinds.contains(kind), "there was no {kind}");
    }
}

#[test]
fn tables_that_this_process_wrote_have_counts() {
    let (fs, record) = (MemFs::new(), Record::default());
    let options = || record.on(small().fs(fs.clone()));
    let db = Db::open("/db", options()).unwrap();
    (0..10).for_each(|i| db.put(format!("{i}"), "").unwrap());
    (0..4).for_each(|i| db.delete(format!("{i}")).unwrap());
    db.flush().unwrap();
    db.close().unwrap();
    let counts = |event: &Event| match &event.kind {
        EventKind::FlushEnded { table: Some(table), .. } => (table.entries, table.tombstones),
        EventKind::Opened { tables, .. } => (tables[0].entries, tables[0].tombstones),
        _ => panic!("{event:?}"),
    };
    let events = record.events();
    let frozen = events.iter().find_map(|event| match event.kind {
        EventKind::MemtableFrozen { entries, log_bytes, .. } => Some((entries, log_bytes > 0)),
        _ => None,
    });
    assert_eq!(frozen, Some((14, true)));
    // The flush leaves out the puts that the deletes hide.
    assert_eq!(counts(&events[events.len() - 2]), (Some(10), Some(4)));
    record.0.lock().unwrap().clear();
    drop(Db::open("/db", options()).unwrap());
    assert_eq!(counts(&record.events()[0]), (None, None), "another process may have written it");
}

#[test]
fn the_last_event_has_the_statistics_and_no_keys() {
    for closes in [true, false] {
        let (record, sample) = (Record::default(), ReadSample::new());
        let options = small().fs(MemFs::new()).sample_reads(&sample);
        let db = Db::open("/db", record.on(options)).unwrap();
        (0..700).for_each(|i| db.put(format!("{i}"), [1; 100]).unwrap());
        for key in ["a", "b", "a"] {
            db.get(key).unwrap();
        }
        // A flush that ends after the statistics are taken would count in the last event only.
        db.wait_idle().unwrap();
        let (other, before) = (db.clone(), db.stats());
        match closes {
            true => drop((db.close().unwrap(), other)),
            false => drop((db, other)),
        }
        let events = record.events();
        let EventKind::Opened { path, .. } = &events[0].kind else { panic!("{events:?}") };
        assert_eq!(path, Path::new("/db"));
        let grown = events.iter().filter_map(|event| match event.kind {
            EventKind::MemtableGrew { log, entries, memtable_bytes, log_bytes, .. } => {
                Some((log, entries, memtable_bytes, log_bytes))
            }
            _ => None,
        });
        let grown: Vec<_> = grown.collect();
        assert!((8..=9).contains(&grown.len()) && grown.is_sorted(), "{grown:?}");
        let Some(EventKind::Closed { stats, .. }) = events.last().map(|event| &event.kind) else {
            panic!("{events:?}")
        };
        let counters = |stats: &Stats| (stats.operations, stats.gets, stats.flushes);
        assert_eq!(counters(stats), counters(&before));
        assert_eq!(sample.keys(), [b"a", b"b", b"a"], "only a sample that was asked for has keys");
        let closed = |event: &&Event| matches!(event.kind, EventKind::Closed { .. });
        assert_eq!(events.iter().filter(closed).count(), 1);
    }
}

#[test]
fn a_failed_flush_or_compaction_is_an_event_and_changes_no_table() {
    let (fs, record) = (SimFs::new(1), Record::default());
    let db = Db::open("/db", record.on(small().fs(fs.clone()))).unwrap();
    db.put("a", "1").unwrap();
    fs.inject(Fault::io_error().on(&[OpKind::Sync]).path("*.ldb"));
    db.flush().unwrap_err();
    db.resume().unwrap();
    db.flush().unwrap();
    db.put("a", "2").unwrap();
    db.flush().unwrap();
    fs.inject(Fault::io_error().on(&[OpKind::Sync]).path("*.ldb"));
    db.compact_range(..).unwrap_err();
    db.compact_range(..).unwrap();
    db.close().unwrap();
    let events = record.events();
    assert_ordered(&events);
    let failed = events.iter().filter_map(|event| match &event.kind {
        EventKind::FlushEnded { table, error: Some(error), .. } => {
            Some(("flush", table.is_none(), error.clone()))
        }
        EventKind::CompactionEnded { outputs, error: Some(error), .. } => {
            Some(("compaction", outputs.is_empty(), error.clone()))
        }
        _ => None,
    });
    let failed: Vec<_> = failed.collect();
    assert!(failed.iter().all(|(_, no_table, error)| *no_table && error.io_kind().is_some()));
    assert_eq!(failed.iter().map(|failed| failed.0).collect::<Vec<_>>(), ["flush", "compaction"]);
    assert_eq!(Replayed::replay(&events).0, named(&fs, Path::new("/db")));
}

/// Runs `work` in a thread of its own and returns the result. Fails if `work` hangs.
#[track_caller]
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    let _ends_or_hangs = thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(Duration::from_secs(60)).expect("it returns")
}

#[test]
fn an_observer_that_panics_makes_the_database_read_only_until_resume() {
    let (armed, record) = (Arc::new(AtomicBool::new(false)), Record::default());
    let (trap, events) = (armed.clone(), record.0.clone());
    let observer = move |event: &Event| {
        if trap.swap(false, SeqCst) {
            std::panic::resume_unwind(Box::new("the trap was sprung"));
        }
        events.lock().unwrap().push(event.clone());
    };
    let options = small().fs(MemFs::new()).observer(observer);
    let db = Db::open("/db", options).unwrap();
    db.put("a", "1").unwrap();
    armed.store(true, SeqCst);
    let flusher = db.clone();
    let _may_be_flushed = in_time(move || flusher.flush());
    while db.health().state == HealthState::Good {
        thread::yield_now();
    }
    let error = db.put("b", "2").unwrap_err();
    let Error::ReadOnly { reason } = &error else { panic!("{error}") };
    assert_eq!(reason.to_string(), "an observer panicked: the trap was sprung");
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    db.resume().unwrap();
    db.put("b", "2").unwrap();
    db.flush().unwrap();
    in_time(move || db.close()).unwrap();
    let events = record.events();
    assert_eq!(events.len() as u64, events.last().unwrap().number, "one was lost to the panic");
}

#[test]
fn an_observer_may_use_the_database() {
    let place: Arc<Mutex<Option<Db>>> = Arc::default();
    let (inside, used) = (place.clone(), Arc::new(AtomicBool::new(false)));
    let was_used = used.clone();
    let observer = move |event: &Event| {
        // The mutex is held while the observer uses the database, so that the test cannot close the
        // database at the same time.
        let place = inside.lock().unwrap();
        let Some(db) = &*place else { return };
        let EventKind::MemtableFrozen { log, .. } = event.kind else { return };
        assert!(db.stats().operations > 0);
        let key = format!("log {log}");
        if db.get(&key).unwrap().is_none() && log < 200 {
            db.put(&key, [7; 1000]).unwrap();
            db.flush().unwrap();
            db.wait_idle().unwrap();
            db.compact_range(..).unwrap();
            used.store(true, SeqCst);
        }
    };
    let db = Db::open("/db", small().fs(MemFs::new()).observer(observer)).unwrap();
    *place.lock().unwrap() = Some(db.clone());
    let writer = db.clone();
    in_time(move || (0..3000).for_each(|i| writer.put(format!("{i}"), [1; 200]).unwrap()));
    while !was_used.load(SeqCst) {
        thread::yield_now();
    }
    drop(place.lock().unwrap().take());
    in_time(move || db.close()).unwrap();
}

#[test]
fn an_observer_may_close_and_drop_the_database() {
    for closes in [true, false] {
        let place: Arc<Mutex<Option<Db>>> = Arc::default();
        let (inside, (sender, receiver)) = (place.clone(), mpsc::channel());
        let sender = Mutex::new(sender);
        let observer = move |event: &Event| {
            if !matches!(event.kind, EventKind::FlushEnded { .. }) {
                return;
            }
            let Some(db) = inside.lock().unwrap().take() else { return };
            match closes {
                true => db.close().unwrap(),
                false => drop(db),
            }
            sender.lock().unwrap().send(()).unwrap();
        };
        let fs = MemFs::new();
        let options = small().fs(fs.clone()).observer(observer);
        let db = Db::open("/db", options).unwrap();
        db.put("a", "1").unwrap();
        *place.lock().unwrap() = Some(db.clone());
        let flusher = db.clone();
        let _may_be_closed = in_time(move || flusher.flush());
        drop(db);
        receiver.recv_timeout(Duration::from_secs(60)).expect("it was closed");
        // The lock of the database is released once the observer's thread has ended.
        let reopened = in_time(move || {
            loop {
                match Db::open("/db", small().fs(fs.clone())) {
                    Err(Error::Locked { .. }) => thread::yield_now(),
                    opened => break opened,
                }
            }
        });
        assert_eq!(reopened.unwrap().get("a").unwrap().as_deref(), Some(&b"1"[..]));
    }
}

#[test]
fn a_close_ends_the_compaction_of_another_thread_before_the_last_event() {
    let (fs, record) = (SimFs::new(1), Record::default());
    let db = Db::open("/db", record.on(small().fs(fs.clone()))).unwrap();
    for value in ["1", "2"] {
        db.put("a", value).unwrap();
        db.flush().unwrap();
    }
    db.wait_idle().unwrap();
    let (arrive, is_there) = mpsc::channel();
    let (let_go, goes_on) = mpsc::channel::<()>();
    let (goes_on, armed) = (Mutex::new(goes_on), AtomicBool::new(true));
    fs.set_hook(move |operation| {
        // The sync of the directory is the last step of a merge before its edit.
        if operation.kind == OpKind::SyncDir && armed.swap(false, SeqCst) {
            arrive.send(()).unwrap();
            goes_on.lock().unwrap().recv().unwrap();
        }
    });
    let compactor = db.clone();
    let compactor = thread::spawn(move || compactor.compact_range(..));
    is_there.recv_timeout(Duration::from_secs(60)).expect("the compaction runs");
    let releaser = thread::spawn(move || {
        thread::sleep(Duration::from_millis(100));
        let_go.send(()).unwrap();
    });
    in_time(move || db.close()).unwrap();
    let events = record.events();
    releaser.join().unwrap();
    let compacted = compactor.join().unwrap();
    assert!(matches!(compacted, Ok(()) | Err(Error::Closed)), "{compacted:?}");
    assert_eq!(Replayed::replay(&events).0, named(&fs, Path::new("/db")));
    assert_ordered(&events);
    assert!(matches!(events.last().unwrap().kind, EventKind::Closed { .. }));
}

#[test]
fn stalls_begin_and_end() {
    let fs = SimFs::new(1);
    fs.set_hook(|operation| {
        let is_table = operation.path.extension().is_some_and(|extension| extension == "ldb");
        if operation.kind == OpKind::Sync && is_table {
            thread::sleep(Duration::from_millis(30));
        }
    });
    let record = Record::default();
    let db = Db::open("/db", record.on(small().fs(fs.clone()))).unwrap();
    (0..4000).for_each(|i| db.put(format!("{i}"), [1; 200]).unwrap());
    db.wait_idle().unwrap();
    let stats = db.stats();
    db.close().unwrap();
    let events = record.events();
    assert_ordered(&events);
    assert_counted(&events, &stats);
    assert!(stats.stalls.flush.count > 0 && stats.stalls.slowdown.count > 0, "{:?}", stats.stalls);
}
