//! Background work in more than one thread: compactions that are split into parts, and logs that
//! are created ahead of time.

use minikv::fs::sim::{CrashPlan, Fault, OpKind, SimFs};
use minikv::fs::{Fs, MemFs};
use minikv::{Db, Readable, Resources, Snapshot, WriteBatch};
use shuttle::thread;

use crate::{check, live_tables, open, options, sync, tables};

const KEYS: usize = 8;
const ROUNDS: usize = 3;

fn key(number: usize) -> String {
    format!("key {number}")
}

fn value(round: usize) -> String {
    round.to_string().repeat(100)
}

/// Makes overlapping tables of 800 bytes. Their merge has more than two outputs of 256 bytes, so
/// two threads share the merge.
fn fill(db: &Db) {
    for round in 0..ROUNDS {
        let mut batch = WriteBatch::new();
        (0..KEYS).for_each(|number| batch.put(key(number), value(round)));
        db.write(batch).unwrap();
        db.flush().unwrap();
    }
}

/// Checks that every read finds each key with the value of the last round.
fn assert_all(snapshot: &Snapshot) {
    let expected: Vec<_> = (0..KEYS).map(|n| (key(n).into(), value(ROUNDS - 1).into())).collect();
    let found: Vec<_> = snapshot.iter().map(Result::unwrap).collect();
    assert!(found == expected, "{} entries", found.len());
    let found = snapshot.iter().rev().map(Result::unwrap);
    assert!(found.eq(expected.into_iter().rev()), "backward");
    for number in [0, KEYS / 2, KEYS - 1] {
        let found = snapshot.get(key(number)).unwrap();
        assert!(found.is_some_and(|found| found == value(ROUNDS - 1)), "key {number}");
    }
}

#[test]
fn the_parts_of_a_compaction_are_the_whole_beside_readers_and_a_writer() {
    check(|| {
        let fs = MemFs::new();
        let db = open(&fs);
        fill(&db);
        let snapshot = db.snapshot();
        let threads = [
            thread::spawn({
                let db = db.clone();
                move || db.compact_range(..).unwrap()
            }),
            thread::spawn(move || assert_all(&snapshot)),
            thread::spawn({
                let db = db.clone();
                move || {
                    db.put(key(KEYS / 2), "new").unwrap();
                    db.delete(key(KEYS - 1)).unwrap();
                    assert_eq!(db.get(key(KEYS / 2)).unwrap().unwrap(), "new");
                }
            }),
        ];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        db.compact_range(..).unwrap();
        assert_eq!(db.iter().count(), KEYS - 1);
        db.put(key(KEYS / 2), value(ROUNDS - 1)).unwrap();
        db.put(key(KEYS - 1), value(ROUNDS - 1)).unwrap();
        assert_all(&db.snapshot());
        db.wait_idle().unwrap();
        let live = live_tables(&db);
        // The last thread that releases a table removes its file, which may happen as late as now.
        db.close().unwrap();
        assert_eq!(tables(&fs).len(), live);
    });
}

/// Checks that a compaction removes the outputs of all its parts if a table cannot be created
/// because the disk is full, and that the next compaction succeeds.
#[test]
fn a_part_that_fails_takes_the_others_with_it_and_the_next_try_succeeds() {
    check(|| {
        let fs = SimFs::new(1);
        let db = open(&fs);
        fill(&db);
        let ldb = |fs: &SimFs| {
            let names = fs.list(crate::DIR.as_ref()).unwrap();
            names.iter().filter(|name| name.ends_with(".ldb")).count()
        };
        fs.inject(Fault::no_space().on(&[OpKind::Create]).path("*.ldb").nth(2));
        let reader = thread::spawn({
            let snapshot = db.snapshot();
            move || assert_all(&snapshot)
        });
        db.compact_range(..).unwrap_err();
        assert!(soon(|| ldb(&fs) == live_tables(&db)), "outputs of the parts are left");
        reader.join().unwrap();
        fs.clear_faults();
        db.compact_range(..).unwrap();
        assert_all(&db.snapshot());
        assert!(soon(|| ldb(&fs) == live_tables(&db)), "inputs are left");
    });
}

/// Lets the other threads run for some steps. Returns whether `done` returns true in the meantime.
/// (An automatic compaction that ran at the same time as a manual one may still have to remove its
/// inputs.)
fn soon(done: impl Fn() -> bool) -> bool {
    (0..1000).any(|_| {
        shuttle::thread::yield_now();
        done()
    })
}

/// Checks that no write is lost, whether or not the next log has been created ahead of time when a
/// memtable is full. Six values are enough to fill a memtable.
#[test]
fn a_log_made_ahead_is_the_next_one_or_none_and_no_write_is_lost() {
    const WRITES: usize = 6;
    check(|| {
        let fs = SimFs::new(1);
        let db = open(&fs);
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let db = db.clone();
                thread::spawn(move || {
                    for number in 0..WRITES {
                        let key = format!("{writer}.{number}");
                        db.writing(sync(number + 1 == WRITES)).put(key, vec![7; 3000]).unwrap();
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        let all = |db: &Db| {
            let mut cursor = db.cursor().unwrap();
            let mut count = 0;
            let mut valid = cursor.seek_to_first().unwrap();
            while valid {
                assert_eq!(cursor.value(), [7; 3000]);
                count += 1;
                valid = cursor.next().unwrap();
            }
            assert_eq!(db.iter().rev().count(), count);
            count
        };
        assert_eq!(all(&db), 2 * WRITES);
        // The last write of each writer was synced, and so was everything before it.
        let crashed = open(&fs.crash_image(&CrashPlan::strict()));
        assert_eq!(all(&crashed), 2 * WRITES, "after a loss of power");
        drop(crashed);
        db.close().unwrap();
        let db = open(&fs);
        assert_eq!(all(&db), 2 * WRITES);
        assert!(db.recovery().lost.is_empty());
    });
}

/// Checks that a database can be closed while another database, which shares its threads, continues
/// to work.
#[test]
fn databases_that_share_threads_do_not_wait_for_each_other() {
    check(|| {
        let fs = MemFs::new();
        let shared = Resources::default().compaction_threads(1).block_cache_bytes(1 << 10);
        let open = |dir: &str| Db::open(dir, options(&fs).resources(&shared)).unwrap();
        let (db, other) = (open(crate::DIR), open("/other"));
        let work = thread::spawn(move || {
            fill(&other);
            other.put(key(0), "last").unwrap();
            other.close().unwrap();
        });
        fill(&db);
        assert_all(&db.snapshot());
        db.compact_range(..).unwrap();
        db.wait_idle().unwrap();
        work.join().unwrap();
        assert_all(&db.snapshot());
        let other = open("/other");
        assert_eq!(other.get(key(0)).unwrap().unwrap(), "last");
        assert_eq!(other.iter().count(), KEYS);
        drop(db);
        other.compact_range(..).unwrap();
        assert_eq!(other.iter().count(), KEYS);
    });
}

/// Checks two databases that share a memory budget: writes to one database may cause a flush of the
/// other database's memtable.
#[test]
fn a_budget_of_memory_is_kept_beside_writers_of_two_databases() {
    check(|| {
        let fs = MemFs::new();
        let shared = Resources::default().memory_bytes(128 << 10);
        let open = |dir: &str| Db::open(dir, options(&fs).resources(&shared)).unwrap();
        let (db, other) = (open(crate::DIR), open("/other"));
        // A write buffer has 16 KiB. Once all memtables together take 32 KiB, the largest memtable
        // is flushed.
        let large = [b'a'; 3000];
        (0..3).for_each(|number| other.put(key(number), large).unwrap());
        let work = thread::spawn({
            let other = other.clone();
            move || {
                other.put(key(0), "small").unwrap();
                assert_eq!(other.get(key(1)).unwrap().unwrap(), large[..]);
            }
        });
        (0..KEYS).for_each(|number| db.put(key(number), large).unwrap());
        work.join().unwrap();
        db.wait_idle().unwrap();
        other.wait_idle().unwrap();
        assert_eq!(db.iter().count(), KEYS);
        assert_eq!(other.iter().count(), 3);
        db.close().unwrap();
        other.close().unwrap();
        assert_eq!(shared.memory_used_bytes(), 0);
        assert_eq!(open("/other").iter().count(), 3);
    });
}
