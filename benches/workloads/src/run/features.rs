//! Workloads that need features that some engines lack.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::{Current, MIB, Opener, Plan, Stage, settled_disk_bytes, speed, two_speeds};
use crate::data::Values;
use crate::measure::{Better, Figure, Outcome, Timings, disk_bytes, peak_memory_mib};
use crate::steps::{Done, Loaded, Order, Spread};
use crate::store::{Result, Space};

const SHARED_DATABASES: usize = 4;
const KEYSPACES: usize = 16;
/// Number of entries that are put in each round, before the follower catches up.
const FOLLOWED_PUTS: u64 = 1000;
/// Minimum and maximum number of rounds in which the follower catches up.
const FOLLOWED_ROUNDS: (u64, u64) = (10, 200);

impl Current {
    pub(super) fn transact(&mut self, name: &str) -> Result<Outcome> {
        self.stage = Stage::Spent;
        let (done, conflicts) = self.all().transact(self.plan.operations(20))?;
        let mut outcome = speed(name, &done);
        let percent = conflicts as f64 / (conflicts + done.operations) as f64 * 100.0;
        let name = format!("{name}, conflicts");
        outcome.figures.push(Figure::new(name, percent, "%", Better::Lower));
        Ok(outcome)
    }

    pub(super) fn keyspaces(&mut self, name: &str) -> Result<Outcome> {
        self.stage = Stage::Spent;
        let (order, plan) = (self.order(0), self.plan);
        let spaces = self.store.keyspaces(KEYSPACES)?;
        spread(name, &plan, &self.values, order, &spaces)
    }

    pub(super) fn shared(&mut self, name: &str, dir: &Path) -> Result<Outcome> {
        self.stage = Stage::Spent;
        // This directory is inside the database's directory, so it is removed with the database
        // even if an error occurs.
        let home = dir.join("shared");
        std::fs::create_dir(&home)?;
        let dirs: Vec<PathBuf> = (0..SHARED_DATABASES).map(|n| home.join(n.to_string())).collect();
        let spaces = self.store.open_shared(&dirs, &self.plan.settings)?;
        let mut outcome = spread(name, &self.plan, &self.values, self.order(0), &spaces)?;
        let peak = peak_memory_mib();
        let name = format!("{name}, peak memory");
        outcome.figures.extend(peak.map(|mib| Figure::new(name, mib, "MiB", Better::Lower)));
        drop(spaces);
        std::fs::remove_dir_all(&home)?;
        Ok(outcome)
    }

    /// Backs up the database, puts a hundredth of the entries again, and makes a second backup.
    pub(super) fn back_up(&mut self, name: &str, dir: &Path, open: &Opener<'_>) -> Result<Outcome> {
        let generation = self.generations.1 + 1;
        self.generations.1 = generation;
        self.stage = Stage::Changed;
        let (folder, restored) = (dir.join("backups"), dir.join("restored"));
        let back_up = || -> Result<f64> {
            let start = Instant::now();
            self.store.backup(&folder)?;
            Ok(start.elapsed().as_secs_f64())
        };
        let first = back_up()?;
        let before = disk_bytes(&folder)?;
        let (order, changed) = (self.order(3), self.plan.entries.div_ceil(100));
        self.all().put_some(order, changed, generation)?;
        let second = back_up()?;
        let added = disk_bytes(&folder)?.saturating_sub(before);

        self.store.restore(&folder, &restored)?;
        let store = open(&restored, &self.plan.settings)?;
        let copy = Loaded { store: &*store, ..self.all() };
        copy.check_all_there()?;
        copy.check_put(order, changed, generation)?;
        drop(store);
        for dir in [folder, restored] {
            std::fs::remove_dir_all(dir)?;
        }
        let lower = Better::Lower;
        let figures = vec![
            Figure::new(name, first * 1e3, "ms", lower),
            Figure::new(format!("{name}, second"), second * 1e3, "ms", lower),
            Figure::new(format!("{name}, added by the second"), added as f64 / MIB, "MiB", lower),
        ];
        let (operations, seconds) = (2, first + second);
        Ok(Outcome { workload: name.to_string(), operations, seconds, latency: None, figures })
    }

    pub(super) fn follow(&mut self, name: &str) -> Result<Outcome> {
        self.stage = Stage::Changed;
        let entries = self.plan.entries;
        let (least, most) = FOLLOWED_ROUNDS;
        let rounds = (entries / FOLLOWED_PUTS).clamp(least, most) as u32;
        let puts = FOLLOWED_PUTS.min(entries);
        let generation = self.generations.1 + 1;
        self.generations.1 += rounds;
        let follower = self.store.follow()?;
        let done = self.all().follow(&*follower, rounds, puts, self.order(3), generation)?;
        drop(follower);
        self.all().check_some()?;
        let mut outcome = speed(name, &done);
        let latency = outcome.latency.expect("each time is timed");
        outcome.figures = vec![
            Figure::new(name, latency.median, "µs", Better::Lower),
            Figure::new(format!("{name}, p99"), latency.p99, "µs", Better::Lower),
        ];
        Ok(outcome)
    }

    /// Compacts the whole database with the compaction filter.
    pub(super) fn filter(&mut self, name: &str, dir: &Path) -> Result<Outcome> {
        self.stage = Stage::Spent;
        let start = Instant::now();
        self.store.compact()?;
        let time = start.elapsed();
        self.rest()?;
        let disk = settled_disk_bytes(dir)? as f64 / MIB;
        self.all().check_filtered()?;
        let operations = self.plan.entries;
        let mut outcome = speed(name, &Done { operations, time, timings: Timings::new() });
        let disk = Figure::new(format!("{name}, disk after"), disk, "MiB", Better::Lower);
        outcome.figures.push(disk);
        Ok(outcome)
    }
}

/// Puts all entries into `spaces`, and then gets random entries.
fn spread(
    name: &str,
    plan: &Plan,
    values: &Values,
    order: Order,
    spaces: &[Box<dyn Space + '_>],
) -> Result<Outcome> {
    let spread = Spread { spaces, values, entries: plan.entries, seed: plan.seed };
    let (puts, gets) = spread.put_and_get(order, plan.operations(2))?;
    Ok(two_speeds(name, ("puts", &puts), ("gets", &gets)))
}
