//! Tests that inject a fault at every operation of every workload, and at many reads.
//!
//! After the first error either the process ends, or the machine loses power, or the fault goes
//! away and the test calls `Db::resume`. `MINIKV_CRASH_FAULTS` faults are tried (default 3,000),
//! workload after workload from the seed `MINIKV_SEED` (default 1).

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use minikv::fs::sim::{CrashPlan, Fault, JournalEntry, Lack, OpKind, SimFs};
use minikv::{Error, HealthState};

use crate::model::hash_of;
use crate::rng::Rng;
use crate::workload::{Run, write};
use crate::{check, setting};

const EIO: i32 = 5;

/// The event after the first error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// The process ends, or the power is lost.
    Crash,
    /// The fault goes away, and `Db::resume` is called.
    Resume,
}

/// Returns the faults that can strike the operation of a journal entry.
fn faults_of(entry: &JournalEntry, rng: &mut Rng) -> Vec<Fault> {
    let mut faults = match entry.kind {
        OpKind::Write => vec![
            Fault::no_space(),
            Fault::torn_write(rng.below(entry.bytes as usize + 1) as u64),
            Fault::torn_write(1).sticky(),
            Fault::os_error_after(EIO),
        ],
        OpKind::Sync => vec![Fault::lost_sync(), Fault::io_error(), Fault::os_error_after(EIO)],
        OpKind::Create => vec![Fault::too_many_open_files(), Fault::no_space().sticky()],
        OpKind::SyncDir => vec![Fault::io_error(), Fault::io_error().sticky()],
        _ => vec![Fault::io_error(), Fault::os_error_after(EIO)],
    };
    let at = entry.number;
    faults.iter_mut().for_each(|fault| *fault = fault.clone().at_op(at));
    if entry.kind == OpKind::Write && rng.one_in(8) {
        faults.push(Fault::short_write(1).at_op(at));
        faults.push(Fault::interrupted().at_op(at));
    }
    faults
}

/// Returns faults of reads: for every kind of file, at the first read and at later reads.
fn read_faults(rng: &mut Rng) -> Vec<Fault> {
    let mut faults = Vec::new();
    for pattern in ["*.ldb", "*.log", "*MANIFEST*", "*CURRENT"] {
        for _ in 0..4 {
            let nth = 1 + rng.below(12) as u64;
            faults.push(Fault::io_error().on(&[OpKind::Read]).path(pattern).nth(nth));
            faults.push(Fault::short_read(0).path(pattern).nth(nth));
            faults.push(Fault::short_read(3).path(pattern).nth(nth));
            faults.push(Fault::interrupted().on(&[OpKind::Read]).path(pattern).nth(nth));
            faults.push(Fault::too_many_open_files().on(&[OpKind::Open]).path(pattern).nth(nth));
        }
    }
    for nth in 1..12 {
        faults.push(Fault::bit_flip().path("*.ldb").nth(nth));
        faults.push(Fault::io_error().on(&[OpKind::List]).nth(nth));
        faults.push(Fault::io_error().on(&[OpKind::Exists]).nth(nth));
        faults.push(Fault::io_error().on(&[OpKind::Len]).nth(nth));
        faults.push(Fault::io_error().on(&[OpKind::Append]).nth(nth));
    }
    faults
}

/// Checks, after an error, that the database reports the error, keeps its data, and accepts writes
/// again after `resume`.
fn resume(run: &mut Run, error: &Error) -> Result<(), String> {
    if !run.is_open() {
        run.fs.clear_faults();
        run.open().map_err(|error| format!("open without the fault: {error}"))?;
    } else if run.db().health().state == HealthState::ReadOnly {
        let refused = write(run.db(), &[(b"refused".to_vec(), None)], false);
        if !matches!(refused, Err(Error::ReadOnly { .. })) {
            return Err(format!("after {error} a write is taken: {refused:?}"));
        }
    }
    run.fs.clear_faults();
    if hash_of(&check::read_all_at(run.now(), run.db())?) != hash_of(&run.model.entries) {
        return Err(format!("after {error} it holds something else"));
    }
    run.db().resume().map_err(|error| format!("resume: {error}"))?;
    let health = run.db().health();
    if health.state != HealthState::Good {
        return Err(format!("resumed, and not well: {health:?}"));
    }
    run.in_doubt.clear();
    Ok(())
}

fn check_images(run: &Run, seed: u64) -> Result<u64, String> {
    let power_loss = match seed % 3 {
        0 => CrashPlan::strict(),
        1 => CrashPlan::random(seed),
        _ => CrashPlan::random_prefix(seed),
    };
    let plans = [CrashPlan::process_kill(), power_loss];
    let options = |fs: &SimFs| run.kind.options(fs, run.seed);
    let mut images = 0;
    for (at, plan) in plans.iter().enumerate() {
        images += 1;
        let image = run.fs.crash_image(plan);
        let deep = seed as usize / 3 % 4 == at;
        let context = |error| format!("{error}; {plan}");
        let state = check::recover(&image, &options, &run.kind, deep).map_err(context)?;
        run.check_after_fault(state, at > 0).map_err(context)?;
    }
    Ok(images)
}

#[derive(Default)]
pub struct Tally {
    pub faults: AtomicU64,
    pub errors: AtomicU64,
    images: AtomicU64,
    runs: AtomicU64,
}

/// Injects `fault` into the workload of `seed`. `images` seeds the crash images that follow.
fn try_fault(
    seed: u64,
    fault: &Fault,
    then: Then,
    images: u64,
    (lacks, tally): (&[Lack], &Tally),
) -> Result<(), String> {
    let mut run = Run::new(seed);
    lacks.iter().for_each(|lack| run.fs.set_lack(*lack));
    run.fs.inject(fault.clone());
    let mut errors = 0;
    let mut is_begun = false;
    loop {
        let stepped = match is_begun {
            true => run.step(),
            false => run.open().map(|()| true),
        };
        is_begun = true;
        let error = match stepped {
            Ok(true) => continue,
            Ok(false) => break,
            Err(error) => error,
        };
        errors += 1;
        match then {
            Then::Crash => break,
            Then::Resume if errors > 50 => return Err(format!("no end of errors: {error}")),
            Then::Resume => resume(&mut run, &error)?,
        }
    }
    tally.faults.fetch_add(1, Relaxed);
    tally.errors.fetch_add(u64::from(errors > 0), Relaxed);
    run.end();
    run.fs.clear_faults();
    tally.images.fetch_add(check_images(&run, images)?, Relaxed);
    Ok(())
}

/// Tries one of `stride` faults of those at every operation of one workload.
pub fn sweep(
    seed: u64,
    lacks: &[Lack],
    stride: usize,
    tally: &Tally,
    is_done: &dyn Fn() -> bool,
) -> Result<(), String> {
    let plain = Run::new(seed);
    lacks.iter().for_each(|lack| plain.fs.set_lack(*lack));
    let plain = plain.finish();
    let only = std::env::var("MINIKV_CRASH_FAULT").ok().map(|at| at.parse::<usize>().unwrap());
    let mut rng = Rng::new(seed);
    let mut faults: Vec<Fault> = Vec::new();
    for entry in plain.fs.journal() {
        faults.extend(faults_of(&entry, &mut rng));
    }
    faults.extend(read_faults(&mut rng));
    for (at, fault) in faults.iter().enumerate() {
        // The number is drawn even if the fault is skipped, so that a replay makes the same images.
        let images = rng.next();
        let is_left_out = match only {
            Some(only) => at != only,
            None => at % stride != seed as usize % stride,
        };
        if is_left_out {
            continue;
        }
        if is_done() {
            return Ok(());
        }
        for then in [Then::Crash, Then::Resume] {
            try_fault(seed, fault, then, images, (lacks, tally)).map_err(|error| {
                format!(
                    "{error}\n  at {}, then {then:?}, fault {at}: {fault:?}\n  replay: \
                     MINIKV_SEED={seed} MINIKV_CRASH_FAULT={at} cargo test --test crash fault",
                    plain.describe()
                )
            })?;
        }
    }
    tally.runs.fetch_add(1, Relaxed);
    Ok(())
}

#[test]
fn sweep_of_faults() {
    let wanted = setting("MINIKV_CRASH_FAULTS", 3_000);
    let first_seed = setting("MINIKV_SEED", 1);
    let is_replay = std::env::var_os("MINIKV_CRASH_FAULT").is_some();
    let next_seed = AtomicU64::new(first_seed);
    let tally = Tally::default();
    let failures = Mutex::new(Vec::new());
    let began = std::time::Instant::now();
    let is_enough = || !is_replay && tally.faults.load(Relaxed) >= wanted;
    // A long sweep tries all faults of each workload; a short sweep tries a part of them.
    let stride = if wanted < 20_000 { 7 } else { 1 };
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next_seed.fetch_add(1, Relaxed);
                    let is_over = is_replay && seed > first_seed;
                    if is_over || is_enough() || failures.lock().unwrap().len() >= 3 {
                        break;
                    }
                    if let Err(failure) = sweep(seed, &[], stride, &tally, &is_enough) {
                        failures.lock().unwrap().push(failure);
                    }
                }
            });
        }
    });
    println!(
        "{} faults ({} of them seen as errors), {} images after them, {} whole workloads from \
         seed {first_seed}: {} violations, {:.0?}",
        tally.faults.load(Relaxed),
        tally.errors.load(Relaxed),
        tally.images.load(Relaxed),
        tally.runs.load(Relaxed),
        failures.lock().unwrap().len(),
        began.elapsed(),
    );
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}
