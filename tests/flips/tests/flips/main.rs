//! Flips one bit of one register of a process that puts, flushes, compacts or gets, at a random
//! moment, as a processor that errs does; or one bit of an entry in the memtable, before a flush,
//! as memory does that errs. Then the process goes on. What comes of it is counted, for minikv and,
//! where their libraries are installed, for LevelDB and RocksDB:
//!
//! | outcome | |
//! | --- | --- |
//! | none | the phase ends, and the database has what it should have |
//! | crash | a signal, a panic, or no end |
//! | told | an error, in the phase or when the database is read |
//! | silent | other entries than were put, and no error |
//!
//! After a crash the database must still have what it should have, or tell; after a crash among
//! puts, which leaves some of them, it is not read. The database itself is asked afterwards, by a
//! process in which nothing was flipped and with every check on. Of the flips in minikv's flushes
//! and compactions, one in a hundred may be silent: a bit of a block that changes between its
//! buffer and its checksum is not noticed. Of those in its memtable, none may be silent. For each
//! silent one, the place of the flip is printed.
//!
//! With `MINIKV_FLIPS_VERIFY`, minikv runs with `Options::verify_compression`.
//! `MINIKV_FLIPS` is the number of flips in each phase; without it there are 100, and 30 of
//! LevelDB. `MINIKV_SEED` seeds their places, `MINIKV_FLIPS_ENGINES` and `MINIKV_FLIPS_PHASES` name
//! the only ones.

mod memory;
mod place;
mod subject;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use minikv_flips::{ENGINES, Kind, PHASES, Phase, check};
use minikv_support::rng::Rng;

use crate::subject::{Flip, PROGRAM, Subject};

/// Time that a check of a database may take.
const MAX_CHECK: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    None,
    Crash,
    Told,
    Silent,
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Returns the names that a setting chooses, all of `known` without it.
fn chosen(setting: &str, known: &[&'static str]) -> Vec<&'static str> {
    let Ok(names) = std::env::var(setting) else { return known.to_vec() };
    let find = |name: &str| known.iter().find(|&&known| known == name).copied();
    names.split(',').map(|name| find(name).unwrap_or_else(|| panic!("{setting}: {name}"))).collect()
}

/// Copies the files of a database.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

/// A phase of a database, and what it takes.
struct Trial {
    kind: Kind,
    phase: Phase,
    template: PathBuf,
    /// Processor time that the phase takes.
    within: Duration,
}

impl Trial {
    fn prepare(kind: Kind, phase: Phase, home: &Path) -> Trial {
        let template = home.join(format!("{}-{}", kind.name(), phase.name()));
        phase.prepare(kind, &template).unwrap();
        let mut trial = Trial { kind, phase, template, within: Duration::from_secs(20) };
        let mut all: Vec<_> = (0..5).map(|_| trial.duration(&home.join("db"))).collect();
        all.sort();
        trial.within = all[2];
        trial
    }

    /// Runs the phase without a flip.
    fn duration(&self, dir: &Path) -> Duration {
        copy(&self.template, dir);
        let mut subject = Subject::start(self.kind, self.phase.name(), dir);
        subject.go();
        let (took, status) = subject.wait(self.within);
        assert!(status.is_some_and(|status| status.success()), "{status:?}");
        assert_eq!(self.judge(status, dir), Outcome::None, "without a flip");
        std::fs::remove_dir_all(dir).unwrap();
        took
    }

    /// Runs the phase once, with a flip. Returns `None` if it ended before the flip.
    fn run(&self, dir: &Path, rng: &mut Rng) -> Option<(Outcome, Flip)> {
        copy(&self.template, dir);
        let mut subject = Subject::start(self.kind, self.phase.name(), dir);
        let moment = Duration::from_nanos(rng.below(self.within.as_nanos() as usize) as u64);
        let flipped = (self.phase == Phase::Memory).then(|| subject.flip_memory(rng));
        subject.go();
        let outcome = flipped.or_else(|| subject.flip(moment, rng)).map(|flip| {
            let (_, status) = subject.wait(self.within * 20 + Duration::from_millis(200));
            (self.judge(status, dir), flip)
        });
        std::fs::remove_dir_all(dir).unwrap();
        outcome
    }

    fn judge(&self, status: Option<ExitStatus>, dir: &Path) -> Outcome {
        let ended = outcome(status);
        if ended == Outcome::Silent || self.phase == Phase::Put && ended != Outcome::None {
            // What a process that ended in the middle of its puts left is a part of them.
            return ended;
        }
        // The C++ libraries may crash on what they read.
        let left = match self.kind {
            Kind::Minikv => match check(self.kind, dir) {
                Ok(Ok(())) => Outcome::None,
                Ok(Err(_)) => Outcome::Told,
                Err(_) => Outcome::Silent,
            },
            _ => outcome(Subject::start(self.kind, "check", dir).wait(MAX_CHECK).1),
        };
        match (left, ended) {
            (Outcome::None, ended) => ended,
            (left, _) => left,
        }
    }
}

/// Returns what the end of a process says.
fn outcome(status: Option<ExitStatus>) -> Outcome {
    match status.and_then(|status| status.code()) {
        Some(0) => Outcome::None,
        Some(3) => Outcome::Told,
        Some(4) => Outcome::Silent,
        // A signal, a panic, no end, or whatever a changed register made the exit code.
        _ => Outcome::Crash,
    }
}

/// Flips bits of a phase, as many at a time as there are cores. Returns the number of each outcome.
fn flip_many(trial: &Trial, flips: u64, home: &Path) -> BTreeMap<Outcome, u64> {
    let seed = setting("MINIKV_SEED").unwrap_or(1);
    let (next, outcomes) = (AtomicU64::new(0), Mutex::new(BTreeMap::new()));
    let name = format!("{} {}", trial.kind.name(), trial.phase.name());
    let worker = |number: usize| {
        let dir = home.join(format!("db{number}"));
        loop {
            let flip = next.fetch_add(1, Ordering::Relaxed);
            if flip >= flips {
                break;
            }
            let mut rng = Rng::new(seed.wrapping_mul(1 << 32).wrapping_add(flip));
            let (outcome, flip) = std::iter::repeat_with(|| trial.run(&dir, &mut rng))
                .flatten()
                .next()
                .expect("flips without end");
            *outcomes.lock().unwrap().entry(outcome).or_default() += 1;
            if outcome == Outcome::Silent {
                let place = flip.place.describe(Path::new(PROGRAM));
                println!("  silent in {name}: bit {} of {} at {place}", flip.bit, flip.register);
            }
        }
    };
    std::thread::scope(|scope| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for number in 0..cores {
            scope.spawn(move || worker(number));
        }
    });
    outcomes.into_inner().unwrap()
}

/// Flips bits of all phases of a database. Returns how many in flushes and compactions were silent.
fn flip_phases(kind: Kind, flips: u64, home: &Path) -> u64 {
    let mut silent = 0;
    let phases = chosen("MINIKV_FLIPS_PHASES", &PHASES.map(Phase::name));
    for phase in PHASES.into_iter().filter(|phase| phases.contains(&phase.name())) {
        let trial = Trial::prepare(kind, phase, home);
        let outcomes = flip_many(&trial, flips, home);
        let of = |outcome| outcomes.get(&outcome).copied().unwrap_or(0);
        println!(
            "{} {}: {flips} flipped bits in {:.1?}: {} none, {} crash, {} told, {} silent",
            kind.name(),
            phase.name(),
            trial.within,
            of(Outcome::None),
            of(Outcome::Crash),
            of(Outcome::Told),
            of(Outcome::Silent)
        );
        assert!(of(Outcome::None) < flips, "nothing was flipped");
        match phase {
            Phase::Put | Phase::Get => {}
            Phase::Flush | Phase::Compact => silent += of(Outcome::Silent),
            Phase::Memory if kind == Kind::Minikv => assert_eq!(of(Outcome::Silent), 0),
            Phase::Memory => {}
        }
    }
    silent
}

#[test]
fn flipped_bits_in_flushes_and_compactions_are_hardly_ever_silent() {
    let home = tempfile::tempdir_in(if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "." });
    let (home, long) = (home.unwrap(), setting("MINIKV_FLIPS"));
    let engines = chosen("MINIKV_FLIPS_ENGINES", &ENGINES.map(Kind::name));
    for kind in ENGINES.into_iter().filter(|kind| engines.contains(&kind.name())) {
        let flips = match (kind, long) {
            (_, Some(flips)) => flips,
            (Kind::Minikv, None) => 100,
            (Kind::LevelDb, None) => 30,
            (Kind::RocksDb, None) => continue,
        };
        if !kind.installed() {
            println!("{}: left out, for its library is not installed", kind.name());
            continue;
        }
        let silent = flip_phases(kind, flips, home.path());
        if kind == Kind::Minikv {
            assert!(silent <= 2 + flips / 50, "{silent} of flushes and compactions were silent");
        }
    }
}
