//! Runs most features at once for a long time:
//!
//! ```text
//! cargo run --release --manifest-path tests/soak/Cargo.toml -- 28800    # eight hours
//! ```
//!
//! Threads write, each beside a model of what must be read; others flush, compact, copy, back up,
//! verify, follow and replicate. From time to time all of them end, and the database is opened
//! anew. A row a minute says what was done and what it took; the last line sums up. Whatever is
//! read and should not be, or takes more and more, ends the program with the reason.
//!
//! - `world`: the database, its options, and counts of the work
//! - `views`: entries that every view must show together
//! - `owner`: entries of one thread, with an exact model
//! - `accounts`, `sessions`, `offers`: transactions, expiry, and a compaction filter
//! - `keeper`: flushes, compactions, checkpoints, backups, verification
//! - `follower`: another handle that follows, and a replica that is made of the changes

mod accounts;
mod follower;
mod keeper;
mod offers;
mod owner;
mod sessions;
mod views;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use minikv::Db;
use minikv_support::rng::{Rng, seed};
use peak_alloc::PeakAlloc;

use crate::follower::Replica;
use crate::offers::Offers;
use crate::owner::Owner;
use crate::sessions::Sessions;
use crate::world::{Checked, Done, World};

/// Longest time from one open to the next.
const LONGEST_ROUND: Duration = Duration::from_secs(900);
const MIB: f64 = 1048576.0;
/// Memory in use, in MiB, that the process may have gained from the end of the first round to the
/// end of the last, while no database is open. It includes the models.
const GROWTH_MIB: f64 = 4.0;

fn main() -> ExitCode {
    let seconds = std::env::args().nth(1).map(|text| text.parse());
    let seconds: u64 = match seconds {
        None => 20,
        Some(Ok(seconds)) => seconds,
        Some(Err(_)) => {
            eprintln!("usage: minikv-soak [SECONDS]");
            return ExitCode::from(2);
        }
    };
    match soak(Duration::from_secs(seconds), seed()) {
        Ok(told) => {
            println!("{told}");
            ExitCode::SUCCESS
        }
        Err(wrong) => {
            eprintln!("{wrong}");
            ExitCode::FAILURE
        }
    }
}

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Memory and open files of the process.
#[derive(Clone, Copy, Debug)]
struct Taken {
    /// Memory that is in use.
    used_mib: f64,
    /// Memory that no file stands behind: what is in use, and what the allocator keeps.
    memory_mib: f64,
    files: usize,
}

fn taken() -> Taken {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let memory = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = memory.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    let files = std::fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() - 1);
    let used_mib = ALLOCATOR.current_usage() as f64 / MIB;
    Taken { used_mib, memory_mib: kib.unwrap_or_default() / 1024.0, files }
}

fn disk_mib(dir: &Path) -> f64 {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum::<u64>() as f64 / MIB
}

/// The work of a thread, and its name.
type Job<'a> = (&'static str, Box<dyn FnOnce() -> Checked + Send + 'a>);

fn job<'a>(name: &'static str, work: impl FnOnce() -> Checked + Send + 'a) -> Job<'a> {
    (name, Box::new(work))
}

/// Soaks in a directory of its own, which stays if something is wrong.
fn soak(length: Duration, seed: u64) -> Checked<String> {
    println!("seed {seed}");
    let home = tempfile::tempdir()?;
    soak_in(home.path(), length, seed).map_err(|wrong| {
        let kept = home.keep();
        format!("seed {seed}: {wrong}; see {}", kept.display()).into()
    })
}

fn soak_in(home: &Path, length: Duration, seed: u64) -> Checked<String> {
    let (began, mut world, mut writers) =
        (Instant::now(), World::new(home, length), Writers::new(seed));
    let (mut rounds, mut first_end) = (0, None);
    let round = (length / 3).min(LONGEST_ROUND);
    println!("{HEAD}");
    while began.elapsed() < length {
        let end = Instant::now() + round.min(length.saturating_sub(began.elapsed()));
        let db = world.open()?;
        views::check_view(&world, &db.snapshot(), world.pairs.load(Relaxed), "the open")?;
        let replica = writers.work(&world, &db, || {
            let mut next_row = Instant::now() + world.row_time;
            while Instant::now() < end && !world.ends() {
                std::thread::sleep(Duration::from_millis(20));
                if Instant::now() >= next_row {
                    next_row += world.row_time;
                    println!("{}", row(&world, began));
                }
            }
        })?;
        replica.end(&world, &db)?;
        db.close()?;
        world.check_closed()?;
        world.drop_resources();
        rounds += 1;
        let at_end = taken();
        println!("closed: {:.1} MiB are used, {:.1} kept", at_end.used_mib, at_end.memory_mib);
        let first = *first_end.get_or_insert(at_end);
        if at_end.files > first.files || at_end.used_mib > first.used_mib + GROWTH_MIB {
            let grown = format!("{first:?} after the first round, {at_end:?} now");
            return Err(format!("files stay open, or memory grows: {grown}").into());
        }
    }
    println!("{}", row(&world, began));
    Ok(format!("{} s, {rounds} opens: {}", began.elapsed().as_secs(), done(&world)))
}

/// Writers whose models outlive a round.
struct Writers {
    rng: Rng,
    owners: [Owner; 2],
    sessions: Sessions,
    offers: Offers,
}

impl Writers {
    fn new(seed: u64) -> Writers {
        let mut rng = Rng::new(seed);
        let owners = [("entries", true), ("space", false)];
        Writers {
            owners: owners.map(|(name, plain)| Owner::new(name, rng.next(), plain)),
            sessions: Sessions::default(),
            offers: Offers::default(),
            rng,
        }
    }

    /// Lets all threads work until `until` returns. Returns the replica.
    fn work(&mut self, world: &World, db: &Db, until: impl FnOnce()) -> Checked<Replica> {
        let (failures, mut replica) = (Mutex::new(Vec::new()), None);
        let (kept, failed) = (&mut replica, &failures);
        let seeds: [u64; 5] = std::array::from_fn(|_| self.rng.next());
        let (sessions, offers) = (&mut self.sessions, &mut self.offers);
        let mut jobs = vec![
            job("pairs", move || views::write_pairs(world, db)),
            job("backups", move || keeper::back_up(world, db)),
            job("verify", move || keeper::verify(world)),
            job("follower", move || follower::follow(world)),
            job("replica", move || follower::replicate(world, db).map(|made| *kept = Some(made))),
            job("keeper", move || keeper::keep(world, db, seeds[0])),
            job("sessions", move || sessions.run(world, db, seeds[1])),
            job("offers", move || offers.run(world, db, seeds[2])),
            job("accounts", move || accounts::run(world, db, seeds[3])),
            job("accounts", move || accounts::run(world, db, seeds[4])),
        ];
        jobs.extend(self.owners.iter_mut().map(|owner| job("owner", move || owner.run(world, db))));
        std::thread::scope(|scope| {
            for (name, job) in jobs {
                scope.spawn(move || {
                    // A thread that panics has found something, too.
                    let done = catch_unwind(AssertUnwindSafe(job));
                    if let Err(wrong) = done.unwrap_or_else(|_| Err("it panicked".into())) {
                        failed.lock().unwrap().push(format!("{name}: {wrong}"));
                        world.stop.store(true, Relaxed);
                    }
                });
            }
            until();
            world.stop.store(true, Relaxed);
        });
        world.stop.store(false, Relaxed);
        let failures = failures.into_inner().unwrap();
        match replica {
            Some(replica) if failures.is_empty() => Ok(replica),
            _ => Err(failures.join("; ").into()),
        }
    }
}

fn done(world: &World) -> String {
    let of = |done: &Done| done.load(Relaxed);
    format!(
        "{} writes and {} reads by their models, {} backups, {} restored, {} checkpoints, {} \
         verified, {} refreshes, {} replicated batches: nothing wrong",
        of(&world.writes),
        of(&world.reads),
        of(&world.backups),
        of(&world.restored),
        of(&world.checkpoints),
        of(&world.verified),
        of(&world.refreshes),
        of(&world.replicated),
    )
}

const HEAD: &str =
    "   s  thousand writes    reads  backups  verified  used MiB  memory MiB  files  disk MiB";

/// Returns a line about the work so far, and about the process and the database as they are now.
fn row(world: &World, began: Instant) -> String {
    let (taken, of) = (taken(), |done: &Done| done.load(Relaxed));
    format!(
        "{:>4}{:>17}{:>9}{:>9}{:>10}{:>10.1}{:>12.1}{:>7}{:>10.1}",
        began.elapsed().as_secs(),
        of(&world.writes) / 1000,
        of(&world.reads) / 1000,
        of(&world.backups),
        of(&world.verified),
        taken.used_mib,
        taken.memory_mib,
        taken.files,
        disk_mib(&world.dir),
    )
}
