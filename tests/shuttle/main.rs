//! Small scenes of several threads, each run under many schedules.
//!
//! Every operation of the library that may block, and every atomic that decides something, is
//! replaced here by an operation of shuttle. At each such operation, shuttle decides which thread
//! runs next: at random, or by priorities that change at a few random moments (PCT). Shuttle
//! reports a thread that waits forever as a deadlock. See `src/base/sync`.
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test --target-dir target/shuttle --test shuttle
//! ```
//!
//! `MINIKV_SCHEDULES` is the number of schedules of each kind for every scene. `MINIKV_SEED` is the
//! first seed (default: the time). If a schedule fails, it is written to a file, and a hint shows
//! how to run it again.
#![cfg(shuttle)]

mod background;
mod caches;
mod close;
mod delete_range;
mod faults;
mod follow;
mod ingest;
mod lifetimes;
mod memtable;
mod observers;
mod points;
mod reads;
mod removals;
mod transactions;
mod writes;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use minikv::fs::{Fs, MemFs};
use minikv::{Compression, Db, Options, WriteOptions};
use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler};
use shuttle::{Config, FailurePersistence, Runner};

/// Number of events whose order the scheduler PCT varies. PCT eventually finds every bug that
/// requires at most this number of events to happen in a certain order. With a higher number, PCT
/// finds more intricate bugs but takes longer.
const PCT_DEPTH: usize = 3;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|number| number.parse().expect(name))
}

/// Runs a scene under many schedules, or under the schedule in the file `MINIKV_SCHEDULE`.
#[track_caller]
fn check(scene: fn()) {
    let mut config = Config::new();
    config.stack_size = 1 << 19;
    config.silence_warnings = true;
    config.ungraceful_shutdown_config.immediately_return_on_panic = true;
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    config.failure_persistence = FailurePersistence::File(Some(dir));
    if let Some(path) = std::env::var_os("MINIKV_SCHEDULE") {
        let mut replay = ReplayScheduler::new_from_file(path).expect("a schedule");
        replay.set_allow_incomplete();
        Runner::new(replay, config).run(scene);
        return;
    }
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    let schedules = number("MINIKV_SCHEDULES").unwrap_or(1000) as usize;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock");
    let seed = number("MINIKV_SEED").unwrap_or(now.as_nanos() as u64);
    let hint = Hint { name: &name, seed };
    let random = RandomScheduler::new_from_seed(seed, schedules);
    let pct = PctScheduler::new_from_seed(seed, PCT_DEPTH, schedules);
    // At the same time, so that no core waits for the second kind of the slowest scene.
    std::thread::scope(|scope| {
        let other = config.clone();
        let random = scope.spawn(|| Runner::new(random, other).run(scene));
        Runner::new(pct, config).run(scene);
        random.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    std::mem::forget(hint);
    let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
    done.0 += 2 * schedules;
    done.1 += 1;
    println!("{} schedules of {} scenes: nothing lost, nobody waits for ever", done.0, done.1);
}

/// Number of schedules, and number of scenes, that have been run so far.
static DONE: Mutex<(usize, usize)> = Mutex::new((0, 0));

/// Prints how to run a schedule again, if the schedule fails.
struct Hint<'a> {
    name: &'a str,
    seed: u64,
}

impl Drop for Hint<'_> {
    fn drop(&mut self) {
        eprintln!(
            "MINIKV_SEED={} found it. To run that schedule again:\nMINIKV_SCHEDULE=<its file> \
             RUSTFLAGS=\"--cfg shuttle\" cargo test --target-dir target/shuttle --test shuttle -- \
             --exact {}",
            self.seed, self.name
        );
    }
}

const DIR: &str = "/db";

fn options(fs: &(impl Fs + Clone)) -> Options {
    Options::default()
        .create_if_missing(true)
        .fs(fs.clone())
        .compression(Compression::None)
        .block_bytes(64)
        .block_cache_bytes(1 << 10)
        .max_file_bytes(256)
        .write_buffer_bytes(16 << 10)
}

fn open(fs: &(impl Fs + Clone)) -> Db {
    Db::open(DIR, options(fs)).unwrap()
}

fn sync(yes: bool) -> WriteOptions {
    WriteOptions::default().sync(yes)
}

/// Returns the table files in the directory.
fn tables(fs: &MemFs) -> Vec<String> {
    let mut names = fs.list(Path::new(DIR)).unwrap();
    names.retain(|name| name.ends_with(".ldb"));
    names.sort();
    names
}

/// Returns the number of tables in the database.
fn live_tables(db: &Db) -> usize {
    let files = |level| db.property(&format!("leveldb.num-files-at-level{level}")).unwrap();
    (0..7).map(|level| files(level).parse::<usize>().unwrap()).sum()
}
