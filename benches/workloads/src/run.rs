//! Brings a database into the state from which a workload starts, runs the workload and measures
//! it.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::data::{Shuffle, Values, key};
use crate::measure::{
    Better, Figure, Outcome, Timings, disk_bytes, peak_memory_mib, reset_peak_memory,
    wait_until_quiet, written_bytes,
};
use crate::profile::{CacheTrace, Mixgraph, Profile};
use crate::steps::{Done, Loaded, Order, PUTS_PER_SYNC};
use crate::store::{Direction, Failure, Result, Settings, Store};
use crate::workload::{Group, Start, Workload};

mod features;
mod requests;

const SMALL_CACHE_BYTES: usize = 8 << 20;
const SMALL_BUFFER_BYTES: usize = 4 << 20;
/// Memory budget in bytes for all databases of the `shared` workload. The write buffer of each
/// database is an eighth of the budget.
const SHARED_BYTES: usize = 64 << 20;
/// Number of threads that write and sync at the same time.
const SYNCING: u64 = 4;
const LARGE_VALUE_BYTES: usize = 4 << 10;
const LARGE_VALUES_DIVISOR: u64 = 20;
/// Time after which files that have not changed count as settled.
const SETTLED: Duration = Duration::from_millis(100);
const KEYS_BYTES: u64 = crate::data::KEY_BYTES as u64;
/// Number of entries per batch in untimed fills. Larger batches make these fills faster.
const FILL_BATCH: u64 = 100;
const MIB: f64 = 1048576.0;

/// The amount of work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Number of entries in a full database.
    pub entries: u64,
    /// Maximum number of gets, seeks, synced puts or mixed operations in a workload. Unsynced
    /// fills, overwrites, deletes and whole scans process all entries.
    pub most_operations: u64,
    /// Length of a value, in bytes.
    pub value_bytes: usize,
    /// Number of threads in the `readthreads` workload.
    pub threads: u64,
    /// Sizes of the memtable and the cache.
    pub settings: Settings,
    /// The requests of the `mixgraph` workload.
    pub mixgraph: Mixgraph,
    /// The requests of the `cachetrace` workload.
    pub cache: CacheTrace,
    /// Seed of all random choices.
    pub seed: u64,
}

impl Default for Plan {
    /// Returns a plan with 2,000,000 entries, 16-byte keys, 100-byte values, 64 MiB of write buffer
    /// and 512 MiB of cache.
    fn default() -> Plan {
        Plan {
            entries: 2_000_000,
            most_operations: u64::MAX,
            value_bytes: 100,
            threads: 2,
            settings: Settings::new(64 << 20, 512 << 20),
            mixgraph: Mixgraph::default(),
            cache: CacheTrace::default(),
            seed: 1,
        }
    }
}

impl Plan {
    /// Returns the plan for a group of workloads.
    fn of(&self, group: Group) -> Plan {
        let mut plan = *self;
        match group {
            Group::SmallCache => plan.settings.cache_bytes = SMALL_CACHE_BYTES,
            Group::SmallBuffer | Group::Follow => {
                plan.settings.write_buffer_bytes = SMALL_BUFFER_BYTES
            }
            Group::LargeValues => {
                plan.value_bytes = LARGE_VALUE_BYTES;
                plan.entries = (self.entries / LARGE_VALUES_DIVISOR).max(1);
            }
            // No engine may flush its memtable, and engines measure the size of a memtable
            // differently. For this reason, the entries fill only three quarters of the write
            // buffer.
            Group::Open => {
                let bytes = plan.settings.write_buffer_bytes as u64 / 4 * 3;
                plan.entries = (bytes / (KEYS_BYTES + self.value_bytes as u64)).max(1);
            }
            Group::Transactions => plan.settings.transactions = true,
            Group::Shared => plan.settings = Settings::new(SHARED_BYTES / 8, SHARED_BYTES),
            Group::Seq
            | Group::Load
            | Group::Requests
            | Group::Batch
            | Group::Sync
            | Group::Random
            | Group::Keyspaces
            | Group::Backup
            | Group::Filtered => {}
        }
        plan
    }

    /// Returns the number of operations of a workload that does one operation for every `share`
    /// entries, up to the maximum.
    fn operations(&self, share: u64) -> u64 {
        self.entries.div_ceil(share).min(self.most_operations)
    }

    fn user_bytes(&self) -> f64 {
        self.entries as f64 * (KEYS_BYTES as f64 + self.value_bytes as f64)
    }
}

/// The state of the current database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    At(Start),
    /// All entries are present, and some of them have been overwritten.
    Changed,
    /// No workload can start from this state, for example because entries are missing.
    Spent,
}

/// Opens or creates a database with the engine that is measured.
pub type Opener<'a> = dyn Fn(&Path, &Settings) -> Result<Box<dyn Store>> + 'a;

/// Runs workloads on databases in one directory.
pub struct Runner<'a> {
    plan: Plan,
    dir: PathBuf,
    open: &'a Opener<'a>,
    current: Option<Current>,
}

/// The database in use.
struct Current {
    store: Box<dyn Store>,
    plan: Plan,
    values: Values,
    stage: Stage,
    generations: (u32, u32),
    /// Number of bytes that the process had written before the entries were put one by one.
    written_before_fill: Option<u64>,
}

impl<'a> Runner<'a> {
    /// Creates a runner. Each database replaces the previous one at `dir`, which must not exist
    /// yet.
    pub fn new(plan: Plan, dir: &Path, open: &'a Opener<'a>) -> Runner<'a> {
        Runner { plan, dir: dir.to_path_buf(), open, current: None }
    }

    /// Returns the description of the engine and its options, or `None` before the first workload.
    pub fn describe(&self) -> Option<String> {
        self.current.as_ref().map(|current| current.store.describe())
    }

    /// Prepares the state from which the workload starts, runs the workload, and returns the
    /// outcome.
    ///
    /// # Errors
    /// Returns an error of the engine, or an error if a value read differs from the value written.
    pub fn run(&mut self, workload: &Workload) -> Result<Outcome> {
        let plan = self.plan.of(workload.group);
        if workload.group == Group::Open {
            self.replace(plan)?;
            let current = self.current.take().expect("just made");
            fill_log(&*current.store, &self.plan)?;
            drop(current);
            return self.measure_open();
        }
        if self.current.as_ref().is_none_or(|current| current.plan != plan) {
            self.replace(plan)?;
        }
        let store = &self.current.as_ref().expect("just made").store;
        if workload.group.is_optional() && !store.has(workload.group) {
            // In the table of results, the empty outcome shows that the engine lacks the feature.
            return Ok(Outcome {
                workload: workload.name.to_string(),
                operations: 0,
                seconds: 0.0,
                latency: None,
                figures: Vec::new(),
            });
        }
        self.prepare(workload, plan)?;
        if workload.group == Group::Filtered {
            self.open_filtered(plan)?;
        }
        let current = self.current.as_mut().expect("prepared");
        current.run(workload, &self.dir, self.open)
    }

    /// Reopens the current database with the compaction filter.
    fn open_filtered(&mut self, mut plan: Plan) -> Result<()> {
        // The database must be closed before it is opened again.
        self.current = None;
        plan.settings.filtered = true;
        self.current = Some(Current::new((self.open)(&self.dir, &plan.settings)?, plan));
        Ok(())
    }

    /// Measures the time to open the database that [`fill_log`] left in the directory.
    ///
    /// # Errors
    /// See [`Runner::run`].
    pub fn measure_open(&mut self) -> Result<Outcome> {
        let plan = self.plan.of(Group::Open);
        let start = Instant::now();
        let store = (self.open)(&self.dir, &plan.settings)?;
        let seconds = start.elapsed().as_secs_f64();
        let mut current = Current::new(store, plan);
        current.stage = Stage::Changed;
        current.loaded(plan.entries).check_some()?;
        self.current = Some(current);
        Ok(Outcome {
            workload: "open".to_string(),
            operations: 1,
            seconds,
            latency: None,
            figures: vec![Figure::new("open", seconds * 1000.0, "ms", Better::Lower)],
        })
    }

    /// Replaces the current database with a new one.
    fn replace(&mut self, plan: Plan) -> Result<()> {
        self.current = None;
        if self.dir.try_exists()? {
            std::fs::remove_dir_all(&self.dir)?;
        }
        self.current = Some(Current::new((self.open)(&self.dir, &plan.settings)?, plan));
        Ok(())
    }

    fn prepare(&mut self, workload: &Workload, plan: Plan) -> Result<()> {
        let stage = self.current.as_ref().expect("there by now").stage;
        let goes_on = match workload.start {
            Start::Compacted => stage != Stage::Spent,
            start => matches!(stage, Stage::At(stage) if stage <= start),
        };
        if !goes_on {
            self.replace(plan)?;
        }
        self.current.as_mut().expect("there by now").bring_to(workload.start)
    }
}

impl Current {
    fn new(store: Box<dyn Store>, plan: Plan) -> Current {
        Current {
            store,
            plan,
            values: Values::new(plan.value_bytes),
            stage: Stage::At(Start::Empty),
            generations: (0, 0),
            written_before_fill: None,
        }
    }

    fn loaded(&self, entries: u64) -> Loaded<'_> {
        Loaded {
            store: &*self.store,
            values: &self.values,
            entries,
            generations: self.generations,
            seed: self.plan.seed,
        }
    }

    fn all(&self) -> Loaded<'_> {
        self.loaded(self.plan.entries)
    }

    fn order(&self, pass: u64) -> Order {
        Order::Shuffled(Shuffle::new(self.plan.entries, self.plan.seed * 100 + pass))
    }

    fn rest(&self) -> Result<()> {
        if !self.store.wait_idle()? {
            wait_until_quiet();
        }
        Ok(())
    }

    fn bring_to(&mut self, start: Start) -> Result<()> {
        if self.stage == Stage::At(Start::Empty) && start > Start::Empty {
            self.all().put_batches(self.order(0), FILL_BATCH, 0)?;
            self.stage = Stage::At(Start::Filled);
        }
        if self.stage != Stage::At(start) && start >= Start::Rested {
            self.rest()?;
            if start == Start::Compacted {
                self.store.compact()?;
                self.rest()?;
            }
            self.stage = Stage::At(start);
        }
        Ok(())
    }

    fn run(&mut self, workload: &Workload, dir: &Path, open: &Opener<'_>) -> Result<Outcome> {
        let name = workload.name;
        reset_peak_memory();
        let outcome = match name {
            "fillseq" | "fillrandom" | "fillbatch" | "fillrandom-4k" | "fillrandom-buffer4m" => {
                self.fill(name)
            }
            "fillsync" | "fillsync8" => self.fill_synced(name),
            "compact" => self.compact(name, dir),
            "deleterange" => self.delete_range(name, dir),
            "loadsorted" => self.load_sorted(name),
            "transact" => self.transact(name),
            "sync" => self.put_and_sync(name),
            "keyspaces" => self.keyspaces(name),
            "shared" => self.shared(name, dir),
            "backup" => self.back_up(name, dir, open),
            "follow" => self.follow(name),
            "filtered" => self.filter(name, dir),
            "mixgraph" => self.requests(name, Profile::Mixgraph(self.plan.mixgraph)),
            "cachetrace" => self.requests(name, Profile::Cache(self.plan.cache)),
            "overwrite" | "overwrite-compacting" | "ycsb-a" | "ycsb-b" | "readwhilewriting" => {
                self.change(name)
            }
            "deleterandom" => {
                self.stage = Stage::Spent;
                let done = self.all().delete(self.order(2));
                done.and_then(|done| self.all().check_gone().map(|()| speed(name, &done)))
            }
            _ => self.read(name).map(|done| speed(name, &done)),
        };
        outcome.map_err(|error| match error.downcast::<minikv::Error>() {
            // Errors of minikv are not wrapped, because the exit code of `minikv bench` depends on
            // their kind.
            Ok(error) => Failure::from(error),
            Err(error) => format!("{name}: {error}").into(),
        })
    }

    fn fill(&mut self, name: &str) -> Result<Outcome> {
        let written = written_bytes();
        let done = match name {
            "fillseq" => self.all().put(Order::Sequential, 0)?,
            "fillbatch" => self.all().put_batches(self.order(0), 100, 0)?,
            _ => self.all().put(self.order(0), 0)?,
        };
        let mut outcome = speed(name, &done);
        if name == "fillrandom" {
            self.written_before_fill = written;
            let latency = outcome.latency.expect("puts are timed");
            let more = |what: &str| format!("{name}, {what}");
            let lower = Better::Lower;
            outcome.figures.extend([
                Figure::new(more("p99.9"), latency.p999, "µs", lower),
                Figure::new(more("longest"), latency.max / 1000.0, "ms", lower),
            ]);
            let peak = peak_memory_mib();
            let peak = peak.map(|mib| Figure::new(more("peak memory"), mib, "MiB", lower));
            outcome.figures.extend(peak);
        }
        self.stage = Stage::At(Start::Filled);
        // Only a few entries are checked, so that the reads that follow the fill still find a cold
        // cache and running background work.
        self.all().check_some()?;
        Ok(outcome)
    }

    fn load_sorted(&mut self, name: &str) -> Result<Outcome> {
        self.stage = Stage::Spent;
        let (values, entries) = (&self.values, self.plan.entries);
        let mut value = Vec::new();
        let start = Instant::now();
        self.store.load_sorted(&mut |sink| {
            for number in 0..entries {
                values.fill(number, 0, &mut value);
                sink(&key(number), &value)?;
            }
            Ok(())
        })?;
        let time = start.elapsed();
        self.all().check_some()?;
        self.all().check_all_there()?;
        Ok(speed(name, &Done { operations: entries, time, timings: Timings::new() }))
    }

    fn put_and_sync(&mut self, name: &str) -> Result<Outcome> {
        self.stage = Stage::Spent;
        let syncs = self.plan.operations(1000).max(20);
        let mut loaded = self.loaded(syncs * PUTS_PER_SYNC);
        let order = Order::Shuffled(Shuffle::new(loaded.entries, self.plan.seed));
        let one = loaded.put_and_sync(1, order, 0)?;
        let several = loaded.put_and_sync(SYNCING, order, 1)?;
        loaded.generations = (1, 1);
        loaded.check_some()?;
        let mut outcome = speed(name, &one);
        let name = format!("{name}, {SYNCING} threads");
        outcome.figures.append(&mut speed(&name, &several).figures);
        Ok(outcome)
    }

    fn fill_synced(&mut self, name: &str) -> Result<Outcome> {
        let (threads, share) = if name == "fillsync8" { (8, 50) } else { (1, 200) };
        let loaded = self.loaded(self.plan.operations(share).max(100));
        let order = Order::Shuffled(Shuffle::new(loaded.entries, self.plan.seed));
        let done = loaded.put_synced(threads, order, 0)?;
        loaded.check_some()?;
        self.stage = Stage::Spent;
        Ok(speed(name, &done))
    }

    fn compact(&mut self, name: &str, dir: &Path) -> Result<Outcome> {
        let resting = disk_bytes(dir)?;
        let start = Instant::now();
        self.store.compact()?;
        let seconds = start.elapsed().as_secs_f64();
        self.rest()?;
        self.stage = Stage::At(Start::Compacted);
        let user_bytes = self.plan.user_bytes();
        let lower = Better::Lower;
        let mut figures = vec![
            Figure::new(name, seconds, "s", lower),
            Figure::new("disk at rest", resting as f64 / MIB, "MiB", lower),
            Figure::new("disk compacted", disk_bytes(dir)? as f64 / MIB, "MiB", lower),
        ];
        if let (Some(before), Some(now)) = (self.written_before_fill, written_bytes()) {
            let written = (now - before) as f64 / user_bytes;
            figures.push(Figure::new("written per byte put", written, "", lower));
        }
        Ok(Outcome { workload: name.to_string(), operations: 1, seconds, latency: None, figures })
    }

    /// Deletes all entries except the first twentieth and the last twentieth.
    fn delete_range(&mut self, name: &str, dir: &Path) -> Result<Outcome> {
        let entries = self.plan.entries;
        let kept = entries.div_ceil(20);
        let (from, to) = (key(kept), key(entries - kept));
        self.stage = Stage::Spent;
        let start = Instant::now();
        self.store.delete_range(&from, &to)?;
        let seconds = start.elapsed().as_secs_f64();
        self.rest()?;
        let mut left = 0;
        self.store.scan(None, Direction::Forward, &mut |_, _| {
            left += 1;
            true
        })?;
        if left != 2 * kept {
            return Err(format!("{left} entries are left, not {}", 2 * kept).into());
        }
        let lower = Better::Lower;
        let disk = settled_disk_bytes(dir)? as f64 / MIB;
        let figures = vec![
            Figure::new(name, seconds * 1e3, "ms", lower),
            Figure::new(format!("{name}, disk after"), disk, "MiB", lower),
        ];
        let operations = entries - 2 * kept;
        Ok(Outcome { workload: name.to_string(), operations, seconds, latency: None, figures })
    }

    fn change(&mut self, name: &str) -> Result<Outcome> {
        let plan = self.plan;
        let generation = self.generations.1 + 1;
        self.generations.1 = generation;
        self.stage = Stage::Changed;
        let outcome = match name {
            "overwrite" => {
                let done = self.all().put(self.order(1), generation)?;
                self.generations.0 = generation;
                speed(name, &done)
            }
            "overwrite-compacting" => {
                let done = self.put_beside_compactions(generation)?;
                self.generations.0 = generation;
                let mut outcome = speed(name, &done);
                let longest = outcome.latency.expect("puts are timed").max / 1000.0;
                let longest = Figure::new(format!("{name}, longest"), longest, "ms", Better::Lower);
                outcome.figures.push(longest);
                outcome
            }
            "ycsb-a" => speed(name, &self.all().ycsb(plan.operations(2), 50, generation)?),
            "ycsb-b" => speed(name, &self.all().ycsb(plan.operations(2), 95, generation)?),
            _ => {
                let (gets, puts) = self.all().gets_while_putting(plan.operations(4), generation)?;
                two_speeds(name, ("gets", &gets), ("puts", &puts))
            }
        };
        self.all().check_some()?;
        Ok(outcome)
    }

    /// Overwrites all entries while another thread repeatedly compacts the whole database.
    fn put_beside_compactions(&self, generation: u32) -> Result<Done> {
        let ended = AtomicBool::new(false);
        std::thread::scope(|threads| {
            let compacting = threads.spawn(|| {
                let mut can = true;
                while can && !ended.load(Relaxed) {
                    can = self.store.compact_beside()?;
                }
                Ok(())
            });
            let done = self.all().put(self.order(1), generation);
            ended.store(true, Relaxed);
            let compacted: Result<()> = compacting.join().map_err(|_| "a compaction panicked")?;
            compacted.and(done)
        })
    }

    fn read(&self, name: &str) -> Result<Done> {
        let all = self.all();
        let entries = all.entries;
        let gets = self.plan.operations(2);
        match name {
            "readmissing" | "readmissing-cache8m" => all.gets_of_missing(gets),
            "readhot" => all.gets(gets, entries.div_ceil(100), 1),
            "readthreads" => all.gets(gets, entries, self.plan.threads.max(1)),
            "readseq" => all.scan_all(Direction::Forward, 3),
            "readreverse" => all.scan_all(Direction::Backward, 3),
            "seekrandom" => all.seeks(self.plan.operations(4), 11),
            "scan100" => all.seeks(self.plan.operations(20), 100),
            "readrandom" | "readrandom-filled" | "readrandom-rested" | "readrandom-cache8m"
            | "readrandom-4k" => all.gets(gets, entries, 1),
            _ => Err(format!("there is no workload {name}").into()),
        }
    }
}

/// Waits until the files in `dir` no longer change, and returns their total size.
///
/// # Errors
/// An I/O error that keeps a directory from being read.
pub fn settled_disk_bytes(dir: &Path) -> Result<u64> {
    let mut before = disk_bytes(dir)?;
    loop {
        std::thread::sleep(SETTLED);
        let now = disk_bytes(dir)?;
        if now == before {
            return Ok(now);
        }
        before = now;
    }
}

/// Puts all entries in random order, as fast as batches allow.
///
/// # Errors
/// Errors of the engine.
pub fn fill(store: &dyn Store, plan: &Plan, values: &Values) -> Result<()> {
    let order = Order::Shuffled(Shuffle::new(plan.entries, plan.seed));
    let (entries, seed) = (plan.entries, plan.seed);
    let loaded = Loaded { store, values, entries, generations: (0, 0), seed };
    loaded.put_batches(order, FILL_BATCH, 0).map(drop)
}

/// Puts entries one by one until the log and the memtable are nearly full. The last put is synced,
/// because some engines promise that a write survives the death of the process only if a sync
/// follows the write.
///
/// # Errors
/// Errors of the engine.
pub fn fill_log(store: &dyn Store, plan: &Plan) -> Result<()> {
    let plan = plan.of(Group::Open);
    let order = Order::Shuffled(Shuffle::new(plan.entries, plan.seed));
    let values = Values::new(plan.value_bytes);
    let (entries, seed) = (plan.entries, plan.seed);
    Loaded { store, values: &values, entries, generations: (0, 0), seed }.put(order, 0)?;
    let mut value = Vec::new();
    values.fill(0, 0, &mut value);
    store.put(&crate::data::key(0), &value, true)
}

/// Returns the outcome of a workload whose only figure is its speed.
fn speed(name: &str, done: &Done) -> Outcome {
    let seconds = done.time.as_secs_f64().max(1e-9);
    let per_second = done.operations as f64 / seconds;
    Outcome {
        workload: name.to_string(),
        operations: done.operations,
        seconds,
        latency: done.timings.latency(),
        figures: vec![Figure::new(name, per_second, "op/s", Better::Higher)],
    }
}

/// Returns the outcome of a workload that measures the speeds of two kinds of work. The time and
/// the latencies are those of the first kind.
fn two_speeds(name: &str, first: (&str, &Done), second: (&str, &Done)) -> Outcome {
    let mut outcome = speed(name, first.1);
    outcome.figures[0].name = format!("{name}, {}", first.0);
    outcome.figures.append(&mut speed(&format!("{name}, {}", second.0), second.1).figures);
    outcome
}
