//! Panics in a filter policy, a comparator or a filesystem, during work for which other threads
//! wait. Every waiting thread gets an error, `health` gives the reason, and no acknowledged write
//! is lost.

use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use minikv::fs::sim::{CrashPlan, JournalEntry, OpKind, SimFs};
use minikv::fs::{Fs, MemFs};
use minikv::{
    BloomFilterPolicy, Comparator, Compression, Db, Error, FilterGenerator, FilterPolicy,
    HealthState, Options, Readable, WriteOptions,
};

const MESSAGE: &str = "the trap was sprung";

/// A trap that, while it is armed, panics in threads whose name starts with `thread`.
#[derive(Clone, Debug)]
struct Trap {
    armed: Arc<AtomicBool>,
    thread: &'static str,
}

impl Trap {
    fn new(thread: &'static str) -> Trap {
        Trap { armed: Arc::default(), thread }
    }

    fn arm(&self, yes: bool) {
        self.armed.store(yes, SeqCst);
    }

    fn step(&self) {
        let here = thread::current().name().is_some_and(|name| name.starts_with(self.thread));
        if self.armed.load(SeqCst) && (here || self.thread.is_empty()) {
            spring();
        }
    }
}

/// Panics without printing a message.
fn spring() {
    resume_unwind(Box::new(MESSAGE));
}

/// LevelDB's filter policy, with a trap at the start of each table.
#[derive(Debug)]
struct TrapPolicy(BloomFilterPolicy, Trap);

impl FilterPolicy for TrapPolicy {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn create(&self, keys: &[&[u8]], dst: &mut Vec<u8>) {
        self.0.create(keys, dst);
    }

    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        self.0.may_match(key, filter)
    }

    fn generator(&self) -> Box<dyn FilterGenerator> {
        self.1.step();
        self.0.generator()
    }
}

/// Bytewise order, with a trap.
#[derive(Debug)]
struct TrapOrder(Trap);

impl Comparator for TrapOrder {
    fn name(&self) -> &str {
        "test.TrapOrder"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.0.step();
        a.cmp(b)
    }
}

fn with_policy(fs: &MemFs, trap: &Trap) -> Options {
    let policy = TrapPolicy(BloomFilterPolicy::new(10), trap.clone());
    let options = crate::small().compression(Compression::None).fs(fs.clone());
    options.filter_policy(policy)
}

fn open(options: Options) -> Db {
    Db::open("/db", options).unwrap()
}

fn synced() -> WriteOptions {
    WriteOptions::default().sync(true)
}

/// Runs `work` in a thread of its own and returns the result. Fails if `work` hangs.
#[track_caller]
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    let _ends_or_hangs = thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(Duration::from_secs(20)).expect("it returns")
}

/// Checks that `result` is [`Error::Panicked`], or an error whose reason is [`Error::Panicked`].
#[track_caller]
fn assert_panicked<T>(result: Result<T, Error>, during: &str) {
    let error = result.map(drop).unwrap_err();
    let panicked = match &error {
        Error::ReadOnly { reason } => &**reason,
        error => error,
    };
    let Error::Panicked { message, .. } = panicked else { panic!("{error}") };
    assert_eq!(message, MESSAGE);
    assert!(error.to_string().ends_with(&format!("{during} panicked: {MESSAGE}")), "{error}");
}

#[track_caller]
fn assert_read_only(db: &Db, during: &str) {
    let health = db.health();
    assert_eq!(health.state, HealthState::ReadOnly);
    assert_panicked(health.error.map_or(Ok(()), Err), during);
    assert!(health.damaged_tables.is_empty());
    assert_panicked(db.put("refused", ""), during);
}

fn key(number: usize) -> String {
    format!("key {:05}", number * 7919 % 10_000)
}

fn fill(db: &Db, numbers: std::ops::Range<usize>) {
    numbers.for_each(|number| db.put(key(number), number.to_string().repeat(20)).unwrap());
}

/// Puts entries, with a flush after every hundred, until background work fails. Four tables of
/// level 0 make a compaction due. Returns the number of acknowledged writes.
fn fill_until_it_fails(db: &Db) -> usize {
    for number in 0..2000 {
        if db.put(key(number), number.to_string().repeat(20)).is_err() {
            return number;
        }
        if number % 100 == 99 {
            let _may_fail = db.flush();
        }
    }
    2000
}

#[track_caller]
fn assert_filled(db: &Db, numbers: std::ops::Range<usize>) {
    let expected = numbers.len();
    for number in numbers {
        let found = db.get(key(number)).unwrap();
        assert!(found.is_some_and(|found| found == number.to_string().repeat(20)), "{number}");
    }
    assert_eq!(db.prefix("key ").unwrap().count(), expected);
}

#[test]
fn a_policy_that_panics_in_a_flush_fails_all_waiting_writers_and_loses_nothing() {
    let (fs, trap) = (MemFs::new(), Trap::new(""));
    let db = open(with_policy(&fs, &trap));
    fill(&db, 0..300);
    trap.arm(true);
    let waiters = [Db::flush, Db::wait_idle, |db: &Db| db.compact_range(..)];
    assert_panicked(in_time(move || (db.flush(), db).0), "a flush");
    let db = open(with_policy(&fs, &trap));
    // When two memtables are waiting to be flushed, the writer has to wait as well.
    let writer = db.clone();
    let error = in_time(move || {
        let mut puts = (300..).map(|number| writer.put(key(number % 300), vec![7; 1000]));
        puts.find_map(Result::err).unwrap()
    });
    assert_panicked::<()>(Err(error), "a flush");
    for wait in waiters {
        let db = db.clone();
        assert_panicked(in_time(move || wait(&db)), "a flush");
    }
    assert_read_only(&db, "a flush");
    let resumer = db.clone();
    assert_panicked(in_time(move || resumer.resume()), "resume");
    assert_read_only(&db, "resume");
    trap.arm(false);
    db.resume().unwrap();
    fill(&db, 0..300);
    assert_filled(&db, 0..300);
    db.flush().unwrap();
    in_time(move || db.close()).unwrap();
    assert_filled(&open(with_policy(&fs, &trap)), 0..300);
}

#[test]
fn a_policy_that_panics_in_a_compaction_fails_all_waiting_writers_and_loses_nothing() {
    let (fs, trap) = (MemFs::new(), Trap::new("minikv-compact"));
    let db = open(with_policy(&fs, &trap));
    trap.arm(true);
    let done = fill_until_it_fails(&db);
    let waiter = db.clone();
    assert_panicked(in_time(move || waiter.wait_idle()), "a compaction");
    assert_read_only(&db, "a compaction");
    assert_filled(&db, 0..done);
    let closer = db.clone();
    assert_panicked(in_time(move || closer.close()), "a compaction");
    // The threads have ended: nothing is said of the inputs any more.
    assert!(db.health().damaged_tables.is_empty());
    drop(db);
    let db = open(crate::small().fs(fs.clone()));
    assert_filled(&db, 0..done);
    db.compact_range(..).unwrap();
    assert_filled(&db, 0..done);
}

/// Returns the number of table files, and the number of tables in the current version.
fn tables(fs: &MemFs, db: &Db) -> (usize, usize) {
    let names = fs.list(Path::new("/db")).unwrap();
    let files = names.iter().filter(|name| name.ends_with(".ldb")).count();
    let level = |n: u8| db.property(&format!("leveldb.num-files-at-level{n}")).unwrap();
    (files, (0..7).map(|n| level(n).parse::<usize>().unwrap()).sum())
}

#[test]
fn a_panic_in_one_part_of_a_compaction_ends_the_others_and_leaves_no_files() {
    if thread::available_parallelism().is_ok_and(|cores| cores.get() < 2) {
        return; // a compaction then has a single part
    }
    let (fs, trap) = (MemFs::new(), Trap::new("minikv-merge"));
    let db = open(with_policy(&fs, &trap));
    fill(&db, 0..2000);
    db.flush().unwrap();
    db.wait_idle().unwrap();
    trap.arm(true);
    let compactor = db.clone();
    assert_panicked(in_time(move || compactor.compact_range(..)), "a compaction");
    assert_read_only(&db, "a compaction");
    // An earlier compaction may still be removing its inputs.
    let began = Instant::now();
    while tables(&fs, &db).0 != tables(&fs, &db).1 {
        assert!(began.elapsed() < Duration::from_secs(10), "outputs of the parts are left");
        thread::yield_now();
    }
    trap.arm(false);
    db.resume().unwrap();
    db.compact_range(..).unwrap();
    assert_filled(&db, 0..2000);
}

/// Makes the second write to the log panic, or the second sync of the log. This write or sync is
/// made for a group of writers, because the first one waits until the other writers are in the
/// queue.
#[test]
fn writers_whose_leader_panics_get_the_error_and_so_do_those_behind_them() {
    const WRITERS: usize = 8;
    for during in [OpKind::Write, OpKind::Sync] {
        let fs = SimFs::new(1);
        let db = open(crate::small().fs(fs.clone()));
        db.writing(synced()).put("before", "").unwrap();
        let (arrived, operations) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (seen, counted) = (arrived.clone(), operations.clone());
        fs.set_hook(move |operation| {
            if operation.kind != during || operation.path.extension().is_none_or(|e| e != "log") {
                return;
            }
            match counted.fetch_add(1, SeqCst) {
                0 => {
                    while seen.load(SeqCst) < WRITERS {
                        thread::yield_now();
                    }
                    thread::sleep(Duration::from_millis(50));
                }
                _ => spring(),
            }
        });
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (db, arrived) = (db.clone(), arrived.clone());
                let operations = operations.clone();
                move || {
                    arrived.fetch_add(1, SeqCst);
                    // The first writer must be alone in its group.
                    while writer > 0 && operations.load(SeqCst) == 0 {
                        thread::yield_now();
                    }
                    db.writing(synced()).put(format!("writer {writer}"), "")
                }
            })
            .map(|writer| thread::spawn(move || in_time(writer)))
            .collect();
        let results = writers.into_iter().map(|writer| writer.join().unwrap());
        let (done, failed): (Vec<_>, Vec<_>) = results.partition(Result::is_ok);
        assert_eq!(done.len(), 1, "the first, alone");
        failed.into_iter().for_each(|result| assert_panicked(result, "a write"));
        assert_read_only(&db, "a write");
        fs.clear_hook();
        let mut keys = db.iter().map(|entry| entry.unwrap().0);
        assert!(keys.next().unwrap() == "before" && keys.count() == 1);
        db.resume().unwrap();
        db.writing(synced()).put("later", "").unwrap();
        let crashed = open(crate::small().fs(fs.crash_image(&CrashPlan::strict())));
        assert_eq!(crashed.iter().count(), 3, "of {during:?}");
    }
}

#[test]
fn a_comparator_that_panics_fails_flushes_and_looks_for_work_and_leaves_reads_alone_later() {
    let (fs, trap) = (MemFs::new(), Trap::new(""));
    let options = || crate::small().fs(fs.clone()).comparator(TrapOrder(trap.clone()));
    let db = open(options());
    let scanned = |db: &Db| db.iter().map(Result::unwrap).count();
    (0..500).for_each(|number| db.put(key(number), "").unwrap());
    trap.arm(true);
    // A read runs in its caller's thread, so the panic reaches the caller.
    assert!(catch_unwind(AssertUnwindSafe(|| scanned(&db))).is_err());
    assert_eq!(db.health().state, HealthState::Good);
    let flusher = db.clone();
    assert_panicked(in_time(move || flusher.flush()), "a flush");
    let waiter = db.clone();
    assert_panicked(in_time(move || waiter.wait_idle()), "a flush");
    assert_read_only(&db, "a flush");
    trap.arm(false);
    assert_eq!(scanned(&db), 500);
    db.resume().unwrap();
    assert_eq!(scanned(&db), 500);
    in_time(move || db.close()).unwrap();
    assert_eq!(scanned(&open(options())), 500);
}

/// Makes the comparator panic while tables are being chosen for a merge, before any of these tables
/// is marked as taken.
#[test]
fn a_comparator_that_panics_when_compactions_are_chosen_ends_no_thread() {
    let (fs, trap) = (MemFs::new(), Trap::new("minikv-compact"));
    let order = Arc::new(TrapOrder(trap.clone()));
    let db = open(crate::small().fs(fs).comparator(order));
    trap.arm(true);
    let done = fill_until_it_fails(&db);
    let waiter = db.clone();
    assert_panicked(in_time(move || waiter.wait_idle()), "a background thread");
    assert_read_only(&db, "a background thread");
    trap.arm(false);
    let waiter = db.clone();
    in_time(move || {
        // Two threads panic. The second may panic only after the first call of `resume`.
        while waiter.resume().and_then(|()| waiter.wait_idle()).is_err() {
            thread::yield_now();
        }
    });
    assert!(db.stats().levels[1..].iter().any(|level| level.compactions + level.moves > 0));
    assert_eq!(db.iter().count(), done);
}

#[test]
fn a_replayed_log_and_a_policy_that_panics_fail_synced_writes_and_close() {
    let (fs, trap) = (MemFs::new(), Trap::new(""));
    let db = open(with_policy(&fs, &trap));
    fill(&db, 0..100);
    db.close().unwrap();
    trap.arm(true);
    let db = open(with_policy(&fs, &trap));
    let writer = db.clone();
    assert_panicked(in_time(move || writer.writing(synced()).put("a", "")), "a flush");
    assert_panicked(in_time(move || db.close()), "a flush");
    trap.arm(false);
    assert_filled(&open(with_policy(&fs, &trap)), 0..100);
}

/// Makes the policy panic in an open that has to write a table because a log is damaged. The open
/// writes this table in its caller's thread.
#[test]
fn a_policy_that_panics_in_open_leaves_the_database_unlocked_and_whole() {
    let (dir, trap) = (tempfile::tempdir().unwrap(), Trap::new(""));
    let options = || {
        let policy = TrapPolicy(BloomFilterPolicy::new(10), trap.clone());
        crate::small().filter_policy(policy)
    };
    let db = Db::open(dir.path(), options()).unwrap();
    fill(&db, 0..100);
    db.put("damaged", "damaged").unwrap();
    db.close().unwrap();
    let mut names = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let log = names.find(|path| path.extension().is_some_and(|e| e == "log")).unwrap();
    let mut bytes = std::fs::read(&log).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    bytes.extend_from_slice(&[0; 32]);
    std::fs::write(&log, bytes).unwrap();
    trap.arm(true);
    assert!(catch_unwind(AssertUnwindSafe(|| Db::open(dir.path(), options()))).is_err());
    trap.arm(false);
    assert_filled(&Db::open(dir.path(), options()).unwrap(), 0..100);
}

/// Makes the filesystem panic at operations of `kind` on files whose name contains `part`, while
/// the trap is armed.
fn trapped(fs: &SimFs, trap: &Trap, kind: OpKind, part: &'static str) {
    let trap = trap.clone();
    fs.set_hook(move |operation| {
        if operation.kind == kind && operation.path.to_str().unwrap().contains(part) {
            trap.step();
        }
    });
}

/// Returns the path of the MANIFEST that `CURRENT` names.
fn manifest_of(fs: &SimFs) -> std::path::PathBuf {
    let mut name = [0; 32];
    let current = fs.open(Path::new("/db/CURRENT")).unwrap();
    let len = current.read_at(&mut name, 0).unwrap();
    Path::new("/db").join(std::str::from_utf8(&name[..len]).unwrap().trim_end())
}

#[test]
fn a_filesystem_that_panics_fails_flushes_and_close_and_loses_nothing() {
    for (kind, part) in [
        (OpKind::Create, "ldb"),
        (OpKind::Sync, "ldb"),
        (OpKind::Write, "MANIFEST"),
        (OpKind::Sync, "MANIFEST"),
        (OpKind::Remove, "log"),
        (OpKind::Create, "log"),
    ] {
        let (fs, trap) = (SimFs::new(1), Trap::new(""));
        let options = |fs: &SimFs| crate::small().fs(fs.clone());
        let db = open(options(&fs));
        fill(&db, 0..100);
        fs.record_history();
        trapped(&fs, &trap, kind, part);
        trap.arm(true);
        let flusher = db.clone();
        let during = if part == "MANIFEST" { "an edit of the MANIFEST" } else { "a flush" };
        let flushed = in_time(move || flusher.flush());
        let waiter = db.clone();
        assert_panicked(in_time(move || waiter.wait_idle()), during);
        // The flush may have succeeded, because the log is removed only after the flush.
        flushed.map_or_else(|error| assert_panicked::<()>(Err(error), during), drop);
        assert_read_only(&db, during);
        trap.arm(false);
        if part == "ldb" {
            let closer = db.clone();
            assert_panicked(in_time(move || closer.close()), "a flush");
        } else {
            let panicked_at = fs.op_count();
            let manifest = manifest_of(&fs);
            db.resume().unwrap();
            db.writing(synced()).put("last", "").unwrap();
            // The MANIFEST may hold half an edit, so it must not be written again.
            let written = |entry: &JournalEntry| entry.path == manifest && entry.kind == kind;
            let journal = fs.journal();
            let later = journal.iter().filter(|entry| entry.number > panicked_at);
            assert_eq!(later.filter(|entry| part == "MANIFEST" && written(entry)).count(), 0);
            let crashed = open(options(&fs.crash_image(&CrashPlan::strict())));
            assert!(crashed.contains_key("last").unwrap());
        }
        drop(db);
        assert_filled(&open(options(&fs)), 0..100);
    }
}

/// Makes the filesystem panic after the merge, when the names of the output tables are made
/// durable.
#[test]
fn a_compaction_that_panics_at_its_end_frees_its_inputs() {
    let (fs, trap) = (SimFs::new(1), Trap::new("minikv-compact"));
    let db = open(crate::small().fs(fs.clone()));
    trapped(&fs, &trap, OpKind::SyncDir, "db");
    trap.arm(true);
    let done = fill_until_it_fails(&db);
    let waiter = db.clone();
    assert_panicked(in_time(move || waiter.wait_idle()), "a compaction");
    assert_read_only(&db, "a compaction");
    trap.arm(false);
    db.resume().unwrap();
    let compactor = db.clone();
    in_time(move || compactor.compact_range(..)).unwrap();
    assert_filled(&db, 0..done);
    db.close().unwrap();
    assert_filled(&open(crate::small().fs(fs)), 0..done);
}

#[test]
fn a_filesystem_that_panics_in_close_makes_close_fail() {
    let (fs, trap) = (SimFs::new(1), Trap::new(""));
    let options = || crate::small().fs(fs.clone());
    let db = open(options());
    fill(&db, 0..100);
    trapped(&fs, &trap, OpKind::Sync, "log");
    trap.arm(true);
    let other = db.clone();
    assert_panicked(in_time(move || db.close()), "close");
    assert!(matches!(other.put("later", ""), Err(Error::Closed)));
    assert_panicked(other.health().error.map_or(Ok(()), Err), "close");
    drop(other);
    trap.arm(false);
    assert_filled(&open(options()), 0..100);
}

#[test]
fn a_filesystem_that_panics_in_a_checkpoint_or_a_removal_leaves_the_database_alone() {
    let (fs, trap) = (SimFs::new(1), Trap::new(""));
    let db = open(crate::small().fs(fs.clone()));
    fill(&db, 0..300);
    trapped(&fs, &trap, OpKind::Create, "copy");
    trap.arm(true);
    // A checkpoint runs in its caller's thread, so the panic reaches the caller.
    assert!(catch_unwind(AssertUnwindSafe(|| db.checkpoint("/copy"))).is_err());
    trap.arm(false);
    fill(&db, 300..600);
    db.checkpoint("/copy2").unwrap();
    let copy = Db::open("/copy2", crate::small().fs(fs.clone())).unwrap();
    assert_filled(&copy, 0..600);
    // If a compaction leaves obsolete tables, the next thread that finishes any work removes them.
    // Even a thread that drops a cursor does so.
    let cursor = db.cursor().unwrap();
    db.compact_range(..).unwrap();
    trapped(&fs, &trap, OpKind::Remove, "ldb");
    trap.arm(true);
    db.compact_range(..).unwrap();
    drop(cursor);
    assert_eq!(db.health().state, HealthState::Good);
    in_time(move || db.close()).unwrap();
}

/// Checks that a clock that panics stops the background threads instead of being called again and
/// again. A table with expiring entries makes a background thread ask for the time.
#[test]
fn a_clock_that_panics_is_not_called_in_a_loop() {
    let (trap, calls) = (Trap::new("minikv-"), Arc::new(AtomicUsize::new(0)));
    let (step, count) = (trap.clone(), calls.clone());
    let options = crate::small().fs(MemFs::new()).clock(move || {
        count.fetch_add(1, SeqCst);
        step.step();
        std::time::SystemTime::now()
    });
    let db = open(options);
    let codes = db.expiring_keyspace("codes").unwrap();
    codes.put_for("ann", "1234", Duration::from_secs(3600)).unwrap();
    trap.arm(true);
    let _may_fail = db.flush();
    crate::soon("the clock is not called", || db.health().state == HealthState::ReadOnly);
    assert_read_only(&db, "a background thread");
    thread::sleep(Duration::from_millis(100));
    let before = calls.load(SeqCst);
    thread::sleep(Duration::from_millis(300));
    let after = calls.load(SeqCst);
    assert!(after - before <= 2, "{} calls in 0.3 s", after - before);
    trap.arm(false);
    db.resume().unwrap();
    codes.put_for("bob", "1234", Duration::from_secs(3600)).unwrap();
    db.wait_idle().unwrap();
    in_time(move || db.close()).unwrap();
}
