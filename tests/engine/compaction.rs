//! Manual compactions: the space that they free, and the work that continues while they run.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use minikv::{CompactionDecision, Db, Readable};

use super::rng::Rng;
use super::{disk_bytes, small, soon};

fn key(number: u32) -> String {
    format!("key{number:08}")
}

/// Returns an incompressible value of one kilobyte.
fn kilobyte(number: u32) -> Vec<u8> {
    Rng::new(number.into()).bytes(1024)
}

/// Returns the levels that hold tables.
fn levels(db: &Db) -> Vec<usize> {
    let stats = db.stats();
    let levels = stats.levels.iter().enumerate();
    levels.filter(|(_, level)| level.files > 0).map(|(at, _)| at).collect()
}

#[test]
fn a_compaction_of_a_part_gives_back_space_held_by_a_dropped_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    for whole_first in [true, false] {
        let path = dir.path().join(whole_first.to_string());
        let db = Db::open(&path, small()).unwrap();
        (0..1000).for_each(|i| db.put(key(i), kilobyte(i)).unwrap());
        // Two rounds: in the first, all data is in a deep level that no upper level overlaps; in
        // the second, the levels partly overlap.
        if whole_first {
            db.compact_range(..).unwrap();
        }
        let snapshot = db.snapshot();
        (0..1000).for_each(|i| db.put(key(i), "short").unwrap());
        db.compact_range("a"..="z").unwrap();
        assert_eq!(snapshot.get(key(7)).unwrap().unwrap().len(), 1024);
        drop(snapshot);
        (0..2).for_each(|i| db.put(key(i), "short").unwrap());
        for _ in 0..2 {
            db.compact_range("a"..="z").unwrap();
            let left = disk_bytes(&path);
            assert!(left < 400 << 10, "{left} bytes are left, whole first: {whole_first}");
            assert_eq!(levels(&db).len(), 1);
        }
        assert_eq!(db.iter().count(), 1000);
    }
}

#[test]
fn entries_kept_for_a_snapshot_that_is_dropped_during_a_compaction_go_too() {
    let dir = tempfile::tempdir().unwrap();
    let (reached, began) = mpsc::channel();
    let (go_on, gate) = mpsc::channel::<()>();
    let (reached, gate) = (Mutex::new(reached), Mutex::new(gate));
    let options = small().write_buffer_bytes(4 << 20).compaction_filter(move |_, value| {
        if value == b"gate" {
            reached.lock().unwrap().send(()).unwrap();
            let _ = gate.lock().unwrap().recv();
        }
        CompactionDecision::Keep
    });
    let db = Db::open(dir.path(), options).unwrap();
    (0..500).for_each(|i| db.put(key(i), kilobyte(i)).unwrap());
    db.compact_range(..).unwrap();
    let snapshot = db.snapshot();
    for _ in 0..4 {
        db.put(key(0), "gate").unwrap();
        (1..500).for_each(|i| db.put(key(i), "short").unwrap());
        db.flush().unwrap();
    }
    // An automatic compaction of the four tables has begun. It keeps the entries that the snapshot
    // shows.
    began.recv().unwrap();
    drop(snapshot);
    std::thread::scope(|scope| {
        let all = scope.spawn(|| db.compact_range(..).unwrap());
        std::thread::sleep(Duration::from_millis(100));
        assert!(!all.is_finished(), "the tables were not in use");
        drop(go_on);
    });
    // The thread of the automatic compaction may still hold its inputs for a moment.
    soon("the snapshot's entries are left", || disk_bytes(dir.path()) < 200 << 10);
}

#[test]
fn the_inputs_of_a_compaction_of_a_part_leave_the_disk_without_a_close() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::create(dir.path()).unwrap();
    for _ in 0..2 {
        for i in 0..3000u32 {
            db.put(key(i), kilobyte(i)).unwrap();
        }
        db.flush().unwrap();
    }
    db.compact_range("a"..="z").unwrap();
    let left = disk_bytes(dir.path());
    assert!(left < 3500 << 10, "{left} bytes are left of three million");
}

#[test]
fn writes_and_automatic_compactions_go_on_beside_a_compaction_of_everything() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    (0..10_000).for_each(|i| db.put(key(i), kilobyte(i)).unwrap());
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let into_level1 = |db: &Db| db.stats().levels[1].compactions;
    let (most_beside, compacting) = (AtomicU64::new(0), AtomicBool::new(true));
    let (written, compactions) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The number of automatic compactions that run during a full compaction depends on
            // timing.
            for _ in 0..100 {
                let before = into_level1(&db);
                db.compact_range(..).unwrap();
                compactions.fetch_add(1, Ordering::SeqCst);
                most_beside.fetch_max(into_level1(&db) - before, Ordering::SeqCst);
                if most_beside.load(Ordering::SeqCst) > 2 {
                    break;
                }
            }
            compacting.store(false, Ordering::SeqCst);
        });
        while compacting.load(Ordering::SeqCst) {
            let i = written.fetch_add(1, Ordering::SeqCst) as u32;
            db.put(key(i * 7919 % 10_000), kilobyte(i)).unwrap();
            // The pause lets background work keep up with the puts, unless the manual compactions
            // block it. Where these take less time, it must be shorter.
            std::thread::sleep(Duration::from_micros(
                200 >> (compactions.load(Ordering::SeqCst) / 8),
            ));
        }
    });
    let beside = most_beside.load(Ordering::SeqCst);
    // More than two are expected: the manual compaction counts as one compaction into level 1, and
    // one automatic compaction may have begun before it.
    assert!(beside > 2, "{beside} beside {} puts", written.load(Ordering::SeqCst));
    for i in 0..10_000 {
        assert!(db.get(key(i)).unwrap().is_some());
    }
}
