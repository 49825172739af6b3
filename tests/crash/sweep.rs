//! Tests of crashes after every operation of every workload. Several images are made of each crash.
//! For some images, there is a second crash after every operation of the recovery.
//!
//! At least `MINIKV_CRASH_IMAGES` images are checked (default 10,000), several per crash point,
//! workload after workload from the seed `MINIKV_SEED` (default 1). The same seed always leads to
//! the same operations and images, so a failure can be replayed with the line that it prints.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use minikv::fs::sim::{CrashPlan, Holes, Lack, SimFs};
use minikv::{Db, Options};

use crate::model::{Model, Op};
use crate::rng::Rng;
use crate::workload::{DIR, Run};
use crate::{check, outside, setting};

/// Returns the crash plans of one crash point.
fn plans(seed: u64, op: u64) -> Vec<CrashPlan> {
    let mut rng = Rng::new(seed.wrapping_mul(1 << 20).wrapping_add(op));
    let mut plans = vec![
        CrashPlan::strict(),
        CrashPlan::process_kill(),
        CrashPlan::strict().sync_persists_names(true),
        CrashPlan::random_prefix(rng.next() >> 32),
    ];
    for holes in [Holes::Zero, Holes::Zero, Holes::Garbage] {
        plans.push(CrashPlan::random(rng.next() >> 32).holes(holes));
    }
    plans.push(CrashPlan::random(rng.next() >> 32).sector_bytes(4096));
    plans
}

#[derive(Default)]
pub struct Tally {
    pub images: AtomicU64,
    distinct: AtomicU64,
    again: AtomicU64,
    points: AtomicU64,
    runs: AtomicU64,
    /// Number of reads of changes that found all changes (`whole`), and number of reads that
    /// reported lost changes (`lost`).
    whole: AtomicU64,
    lost: AtomicU64,
    /// Number of tables removed whole because all their entries had expired.
    expired_tables: AtomicU64,
}

struct Sweep<'a> {
    run: &'a Run,
    tally: &'a Tally,
    /// Maps the fingerprint of each image to the hash of the state found in the image.
    seen: BTreeMap<u64, u64>,
}

impl Sweep<'_> {
    fn options(&self) -> impl Fn(&SimFs) -> Options + use<'_> {
        |fs| self.run.kind.options(fs, self.run.seed)
    }

    /// Checks one image. If `again` is set, also checks crashes during the recovery of the image.
    fn check(&mut self, op: u64, plan: &CrashPlan, deep: bool, again: bool) -> Result<(), String> {
        let image = self.run.fs.crash_image(&plan.clone().at_op(op));
        self.tally.images.fetch_add(1, Relaxed);
        let fingerprint = image.fingerprint();
        let power_loss = *plan != CrashPlan::process_kill();
        let state = match self.seen.get(&fingerprint) {
            Some(&state) if !again => state,
            _ => {
                self.tally.distinct.fetch_add(1, Relaxed);
                let image = || self.run.fs.crash_image(&plan.clone().at_op(op));
                let options = self.options();
                let state = check::recover(&image(), &options, &self.run.kind, deep)?;
                self.check_changes(&image())?;
                if deep || !power_loss {
                    outside::look(&image(), &options, state, !power_loss)?;
                }
                state
            }
        };
        self.seen.insert(fingerprint, state);
        let model = &self.run.model;
        let (least, most) = (model.least(op, power_loss), model.most(op));
        let count = find(model, state, least, most)?;
        if again {
            self.crash_again(op, plan, power_loss.then_some(state), (least.min(count), most))?;
        }
        Ok(())
    }

    /// Checks the changes after several sequence numbers, if the workload keeps logs. Each read
    /// must return the surviving operations in order, or report that changes are lost.
    fn check_changes(&self, image: &SimFs) -> Result<(), String> {
        if self.run.kind.keep_logs_bytes == 0 {
            return Ok(());
        }
        let db = Db::open(DIR, self.options()(image)).map_err(|error| format!("open: {error}"))?;
        let last = db.sequence();
        let ops = self.run.model.commits.iter().flat_map(|commit| &commit.ops);
        let ops: Vec<&Op> = ops.take(last as usize).collect();
        for since in [0, last / 2, last.saturating_sub(20), last] {
            let changes = db.changes_since(since).map_err(|error| format!("changes: {error}"))?;
            let is_whole = check::changes(changes, since, &ops)?;
            if since < last {
                let tally = if is_whole { &self.tally.whole } else { &self.tally.lost };
                tally.fetch_add(1, Relaxed);
            }
        }
        Ok(())
    }

    /// Checks crashes after every operation of the recovery. If the first crash was a loss of
    /// power, the state must stay the same as after the first recovery. If the process was killed,
    /// a crash during recovery may lose more commits, within the bounds.
    fn crash_again(
        &self,
        op: u64,
        plan: &CrashPlan,
        state: Option<u64>,
        (least, most): (usize, usize),
    ) -> Result<(), String> {
        let image = self.run.fs.crash_image(&plan.clone().at_op(op));
        image.record_history();
        let options = self.options();
        check::recover(&image, &options, &self.run.kind, false)?;
        // If the process was killed, unsynced writes may still be lost.
        let least = if state.is_some() { least } else { self.run.model.least(op, true) };
        let mut seen = BTreeMap::new();
        for second in 0..=image.op_count() {
            for plan in plans(op, second).into_iter().skip((second % 2) as usize).step_by(2) {
                let context = |error| format!("{error}; then again, {plan} at op {second}");
                let left = image.crash_image(&plan.clone().at_op(second));
                self.tally.images.fetch_add(1, Relaxed);
                self.tally.again.fetch_add(1, Relaxed);
                let fingerprint = left.fingerprint();
                if seen.contains_key(&fingerprint) {
                    continue;
                }
                self.tally.distinct.fetch_add(1, Relaxed);
                let deep = second % 5 == 0;
                let found =
                    check::recover(&left, &options, &self.run.kind, deep).map_err(context)?;
                seen.insert(fingerprint, found);
                match state {
                    Some(state) if state != found => {
                        return Err(context("it holds something else than after one crash".into()));
                    }
                    _ => find(&self.run.model, found, least, most).map_err(context)?,
                };
            }
        }
        Ok(())
    }
}

fn find(model: &Model, state: u64, least: usize, most: usize) -> Result<usize, String> {
    model.find(state, least, most).ok_or_else(|| match model.find(state, 0, model.commits.len()) {
        Some(count) => format!("{count} commits are left, of at least {least}, at most {most}"),
        None => format!("no prefix of the commits ({least} to {most}) makes this state"),
    })
}

/// Sweeps one workload on a filesystem that may lack something: one of `every` crash points, or
/// only the crash point to replay.
pub fn sweep(seed: u64, lacks: &[Lack], every: u64, tally: &Tally) -> Result<(), String> {
    let run = Run::new(seed);
    lacks.iter().for_each(|lack| run.fs.set_lack(*lack));
    let run = run.finish();
    let only_op = std::env::var("MINIKV_CRASH_OP").ok().map(|op| op.parse::<u64>().unwrap());
    check::check_numbers(&run.fs, &Default::default())?;
    let mut sweep = Sweep { run: &run, tally, seen: BTreeMap::new() };
    for op in 0..=run.fs.op_count() {
        if only_op.map_or(op % every != seed % every, |only| only != op) {
            continue;
        }
        tally.points.fetch_add(1, Relaxed);
        let plans = plans(seed, op);
        for (at, plan) in plans.iter().enumerate() {
            let turn = op as usize + at;
            let (deep, again) = (turn.is_multiple_of(11), turn.is_multiple_of(97));
            sweep.check(op, plan, deep, again).map_err(|error| {
                let before = run.fs.journal().into_iter().filter(|entry| entry.number <= op);
                let before: Vec<_> = before.map(|entry| format!("    {entry}")).collect();
                let last = before[before.len().saturating_sub(15)..].join("\n");
                format!(
                    "{error}\n{last}\n  at {}, {plan} at op {op}\n  replay: MINIKV_SEED={seed} \
                     MINIKV_CRASH_OP={op} cargo test --test crash sweep",
                    run.describe()
                )
            })?;
        }
    }
    tally.runs.fetch_add(1, Relaxed);
    tally.expired_tables.fetch_add(run.expired_tables, Relaxed);
    Ok(())
}

/// Sweeps one seed after another, on all processors, until enough images were checked.
#[test]
fn sweep_of_crash_points() {
    let wanted = setting("MINIKV_CRASH_IMAGES", 10_000);
    let first_seed = setting("MINIKV_SEED", 1);
    let is_replay = std::env::var_os("MINIKV_CRASH_OP").is_some();
    let next_seed = AtomicU64::new(first_seed);
    let tally = Tally::default();
    let failures = Mutex::new(Vec::new());
    let began = std::time::Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next_seed.fetch_add(1, Relaxed);
                    let is_done = match is_replay {
                        true => seed > first_seed,
                        false => tally.images.load(Relaxed) >= wanted,
                    };
                    if is_done || failures.lock().unwrap().len() >= 3 {
                        break;
                    }
                    if let Err(failure) = sweep(seed, &[], 1, &tally) {
                        failures.lock().unwrap().push(failure);
                    }
                }
            });
        }
    });
    println!(
        "{} crash images ({} distinct, {} of a second crash) at {} operations of {} workloads \
         from seed {first_seed}: {} violations, {:.0?}",
        tally.images.load(Relaxed),
        tally.distinct.load(Relaxed),
        tally.again.load(Relaxed),
        tally.points.load(Relaxed),
        tally.runs.load(Relaxed),
        failures.lock().unwrap().len(),
        began.elapsed(),
    );
    let (whole, lost) = (tally.whole.load(Relaxed), tally.lost.load(Relaxed));
    println!("the changes of kept logs were whole {whole} times, and lost {lost} times");
    println!(
        "{} tables went because their entries had expired",
        tally.expired_tables.load(Relaxed)
    );
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

/// A server makes names durable if directories cannot be synced. Nothing may be lost there that
/// is kept elsewhere.
#[test]
fn crashes_lose_nothing_if_directories_cannot_be_synced() {
    let tally = Tally::default();
    let seed = setting("MINIKV_SEED", 1);
    sweep(seed, &[Lack::DirectorySync], 1, &tally).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(tally.points.load(Relaxed) > 0);
}
