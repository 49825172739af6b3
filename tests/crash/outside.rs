//! Tests of readers outside the writing process (`open_read_only`, `verify` and checkpoints). They
//! read the files left at every crash point, the files of a writer that proceeds between any two
//! operations of the reader, and the files of a real process.
//!
//! A reader must see everything that was acknowledged before it began. It must not fail, and must
//! not report damage where there is none.
//!
//! `MINIKV_OUTSIDE` (default 12) is the number of workloads that are read while they run. It is
//! also the number of processes whose databases are read while the processes write.

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::ThreadId;

use minikv::fs::sim::SimFs;
use minikv::{Db, Error, Options, ReadOnlyDb, Readable, checkpoint, verify};

use crate::model::{Entries, hash_of};
use crate::rng::{Rng, seed};
use crate::workload::{DIR, Run};
use crate::{kill, setting};

const COPY: &str = "/copy";

fn entries_of(db: &ReadOnlyDb) -> Result<Entries, String> {
    let mut entries = Entries::new();
    for entry in db.iter() {
        let (key, value) = entry.map_err(|error| format!("iterating: {error}"))?;
        entries.insert(key.to_vec(), value.to_vec());
    }
    Ok(entries)
}

/// Returns the hash of the entries that a read-only open shows. A missing database counts as empty.
fn read(options: Options) -> Result<u64, String> {
    match Db::open_read_only(DIR, options) {
        Ok(db) if db.recovery().lost.is_empty() => Ok(hash_of(&entries_of(&db)?)),
        Ok(db) => Err(format!("something is lost: {:?}", db.recovery().lost)),
        Err(Error::DatabaseMissing { .. }) => Ok(hash_of(&Entries::new())),
        Err(error) => Err(format!("open for reading: {error}")),
    }
}

fn check_sound(options: &Options) -> Result<(), String> {
    match verify(DIR, options) {
        Ok(report) if report.is_sound() => Ok(()),
        Ok(report) => Err(format!("verify: {:?}", report.faults)),
        Err(Error::DatabaseMissing { .. }) => Ok(()),
        Err(error) => Err(format!("verify: {error}")),
    }
}

/// Reads the files that a crash left, as another process would, and copies them with a checkpoint.
/// The files and the copy must show `state`, the state that an open recovers from the files. After
/// a loss of power (not `killed`), a read-only open may also be refused.
pub fn look(
    image: &SimFs,
    options: &dyn Fn(&SimFs) -> Options,
    state: u64,
    killed: bool,
) -> Result<(), String> {
    let before = image.fingerprint();
    if killed {
        let plain = read(options(image))?;
        let paranoid = read(options(image).paranoid_checks(true))?;
        check_sound(&options(image))?;
        if (plain, paranoid) != (state, state) {
            return Err("opened for reading it holds something else".to_owned());
        }
    } else if let Ok(db) = Db::open_read_only(DIR, options(image))
        && hash_of(&entries_of(&db)?) != state
    {
        return Err("opened for reading it holds something else".to_owned());
    }
    if image.fingerprint() != before {
        return Err("a reader changed something".to_owned());
    }
    match checkpoint(DIR, COPY, &options(image)) {
        Err(Error::DatabaseMissing { .. }) => return Ok(()),
        copied => copied.map_err(|error| format!("checkpoint: {error}"))?,
    }
    let copy = Db::open_read_only(COPY, options(image));
    let copy = copy.map_err(|error| format!("open the checkpoint: {error}"))?;
    match hash_of(&entries_of(&copy)?) == state {
        true => Ok(()),
        false => Err("the checkpoint holds something else".to_owned()),
    }
}

/// Lets a writer do some operations whenever a reader does one.
#[derive(Default)]
struct Turns {
    turn: Mutex<Turn>,
    changed: Condvar,
}

#[derive(Default)]
struct Turn {
    /// Number of operations that the writer may still do.
    left: usize,
    /// Whether the writer waits for permission.
    waits: bool,
    is_done: bool,
}

impl Turns {
    fn write(&self) {
        let mut turn = self.turn.lock().unwrap();
        while turn.left == 0 {
            turn.waits = true;
            self.changed.notify_all();
            turn = self.changed.wait(turn).unwrap();
        }
        turn.waits = false;
        turn.left -= 1;
    }

    fn read(&self, operations: usize) {
        let mut turn = self.turn.lock().unwrap();
        turn.left += operations;
        self.changed.notify_all();
        while !(turn.is_done || (turn.waits && turn.left == 0)) {
            turn = self.changed.wait(turn).unwrap();
        }
    }

    fn end(&self) {
        self.turn.lock().unwrap().is_done = true;
        self.changed.notify_all();
    }

    fn is_done(&self) -> bool {
        self.turn.lock().unwrap().is_done
    }
}

/// Marks the writer as done when dropped, even by a panic.
struct End<'a>(&'a Turns);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Reads one workload while it runs. Returns the number of reads.
fn read_beside(seed: u64) -> Result<u64, String> {
    let mut run = Run::new(seed);
    let (kind, fs) = (run.kind, run.fs.clone());
    let turns = Arc::new(Turns::default());
    let reader: ThreadId = std::thread::current().id();
    let rng = Mutex::new(Rng::new(seed));
    let of_hook = turns.clone();
    fs.set_hook(move |_| match std::thread::current().id() == reader {
        true => {
            let mut rng = rng.lock().unwrap();
            // Sometimes the writer does many operations between two operations of the reader.
            let operations = if rng.one_in(40) { rng.below(60) } else { rng.below(2) };
            drop(rng);
            of_hook.read(operations);
        }
        false => of_hook.write(),
    });
    let seen = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let _end = End(&turns);
            run.open().unwrap();
            while run.step().unwrap() {}
            run
        });
        let mut seen = Vec::new();
        let mut follower: Option<ReadOnlyDb> = None;
        let options = || kind.options(&fs, seed);
        let mut look = || {
            while !turns.is_done() {
                let paranoid = seen.len() % 2 == 0;
                let begun = fs.op_count();
                let state = read(options().paranoid_checks(paranoid))?;
                seen.push((begun, state, fs.op_count()));
                check_sound(&options())?;
                let begun = fs.op_count();
                match &follower {
                    None => follower = Db::open_read_only(DIR, options()).ok(),
                    Some(db) => {
                        db.refresh().map_err(|error| format!("refresh: {error}"))?;
                        seen.push((begun, hash_of(&entries_of(db)?), fs.op_count()));
                    }
                }
            }
            Ok(())
        };
        let looked: Result<(), String> = look();
        // The writer now runs to its end without waiting for readers.
        turns.turn.lock().unwrap().left = usize::MAX;
        turns.changed.notify_all();
        let run = writer.join().unwrap();
        looked.map(|()| (run, seen))
    });
    fs.clear_hook();
    let (run, seen) = seen?;
    for &(begun, state, ended) in &seen {
        let (least, most) = (run.model.least(begun, false), run.model.most(ended + 1));
        if run.model.find(state, least, most).is_none() {
            return Err(format!(
                "read from operation {begun} to {ended}: no state after {least} to {most} commits"
            ));
        }
    }
    Ok(seen.len() as u64)
}

#[test]
fn a_reader_between_any_two_operations_of_a_writer_sees_all_that_was_acknowledged() {
    let first = seed();
    let runs = setting("MINIKV_OUTSIDE", 12);
    let mut reads = 0;
    for seed in first..first + runs {
        reads += read_beside(seed).unwrap_or_else(|error| {
            panic!("{error}\n  replay: MINIKV_SEED={seed} MINIKV_OUTSIDE=1 cargo test outside")
        });
    }
    println!(
        "{reads} readers beside the operations of {runs} writers from seed {first}: all right"
    );
}

/// Reads a database beside the process that writes it, until `stop` is set. Returns the number of
/// reads.
fn read_beside_process(dir: &Path, acked: &AtomicU64, stop: &AtomicBool) -> u64 {
    let mut reads = 0;
    while !stop.load(Relaxed) {
        let least = acked.load(Relaxed);
        let options = kill::options().paranoid_checks(reads % 2 == 0);
        let db = match Db::open_read_only(dir, options.clone()) {
            Err(Error::DatabaseMissing { .. }) if least == 0 => continue,
            db => db.unwrap(),
        };
        assert!(db.recovery().lost.is_empty(), "{:?}", db.recovery());
        let last = kill::check_numbers(db.iter());
        assert!(last >= least, "{last} is seen, {least} was acknowledged");
        let report = verify(dir, &options).unwrap();
        assert!(report.is_sound(), "{:?}", report.faults);
        // A second read of `db` must find the same numbers, whichever files the writer has removed
        // since the first read.
        assert_eq!(kill::check_numbers(db.iter()), last);
        reads += 1;
    }
    reads
}

#[test]
fn a_reader_beside_a_process_that_writes_and_is_killed_sees_all_that_was_acknowledged() {
    let kills = setting("MINIKV_OUTSIDE", 12).div_ceil(4);
    let (mut rng, mut reads, mut copies) = (Rng::new(seed()), 0, 0);
    let dir = tempfile::tempdir().unwrap();
    let (db, home) = (dir.path().join("db"), dir.path().join("copies"));
    let mut first = 1;
    for kill in 0..kills {
        let copies_of_kill = home.join(kill.to_string());
        let (acked, stop) = (AtomicU64::new(first - 1), AtomicBool::new(false));
        let lines = 60 + rng.below(200);
        reads += std::thread::scope(|scope| {
            let reader = scope.spawn(|| read_beside_process(&db, &acked, &stop));
            kill::run_and_kill(&db, first, lines, Some(&copies_of_kill), &acked);
            // This leaves time for one more read of the files that the process left.
            std::thread::sleep(std::time::Duration::from_millis(30));
            stop.store(true, Relaxed);
            reader.join().unwrap()
        });
        let copy = dir.path().join("after");
        checkpoint(&db, &copy, &kill::options()).unwrap();
        let copy_db = Db::open_read_only(&copy, kill::options()).unwrap();
        let last = kill::check_numbers(copy_db.iter());
        assert!(last >= acked.load(Relaxed), "{last}, {acked:?}");
        drop(copy_db);
        std::fs::remove_dir_all(&copy).unwrap();
        copies += check_copies(&copies_of_kill);
        first = last + 1;
    }
    println!("{reads} readers and {copies} checkpoints beside {kills} killed writers: all right");
}

/// Checks the checkpoints that the killed process made, except the unfinished one. Returns the
/// number of checkpoints checked.
fn check_copies(home: &Path) -> u64 {
    let mut checked = 0;
    for copy in std::fs::read_dir(home).into_iter().flatten() {
        let copy = copy.unwrap().path();
        if !copy.join("CURRENT").exists() {
            continue;
        }
        let report = verify(&copy, &kill::options()).unwrap();
        assert!(report.is_sound(), "{copy:?}: {:?}", report.faults);
        let db = Db::open_read_only(&copy, kill::options().paranoid_checks(true)).unwrap();
        let named = copy.file_name().unwrap().to_str().unwrap();
        let least: u64 = named.parse().unwrap();
        assert!(kill::check_numbers(db.iter()) >= least, "{copy:?}");
        checked += 1;
    }
    checked
}

/// Follows a database beside the processes that write it, until `stop` is set. Checks that no
/// refresh shows less than the previous refresh, and that a refresh does not affect existing
/// iterators. Returns the number of refreshes, and the number of refreshes that read everything
/// again.
fn follow_processes(dir: &Path, acked: &AtomicU64, stop: &AtomicBool) -> (u64, u64) {
    let db = loop {
        let least = acked.load(Relaxed);
        match Db::open_read_only(dir, kill::options()) {
            Err(Error::DatabaseMissing { .. }) if least == 0 => {}
            db => break db.unwrap(),
        }
    };
    let (mut refreshes, mut restarts) = (0, 0);
    let mut last = kill::check_numbers(db.iter());
    loop {
        let is_last = stop.load(Relaxed);
        let least = acked.load(Relaxed).max(last);
        let held = db.iter();
        let refreshed = db.refresh().unwrap();
        assert_eq!(kill::check_numbers(held), last);
        let now = kill::check_numbers(db.iter());
        assert!(now >= least, "{now} is seen, {least} was acknowledged or seen before");
        assert!(refreshed.changed || now == last, "{last} became {now} unnoticed");
        last = now;
        refreshes += 1;
        restarts += u64::from(refreshed.restarted);
        if is_last {
            return (refreshes, restarts);
        }
    }
}

#[test]
fn a_follower_of_processes_that_are_killed_sees_all_that_was_acknowledged() {
    let kills = setting("MINIKV_OUTSIDE", 12).div_ceil(2);
    let mut rng = Rng::new(seed());
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let (acked, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let (refreshes, restarts) = std::thread::scope(|scope| {
        let follower = scope.spawn(|| follow_processes(&db, &acked, &stop));
        for _ in 0..kills {
            let first = acked.load(Relaxed) + 1;
            kill::run_and_kill(&db, first, 1 + rng.below(200), None, &acked);
        }
        stop.store(true, Relaxed);
        follower.join().unwrap()
    });
    println!("{refreshes} refreshes, {restarts} from the start, beside {kills} killed writers");
}
