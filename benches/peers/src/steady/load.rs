//! The load on one engine: two threads, each of which puts and gets random entries in turn.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use minikv_workloads::{
    Plan, Result, Store, Timings, Values, disk_bytes, fill, key, own_memory_mib,
};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::{Second, SteadyRun};
use crate::engines::Engine;

const THREADS: u64 = 2;
const MIB: f64 = 1048576.0;

/// The operations of all threads since the last second.
#[derive(Default)]
struct Current {
    puts: u64,
    gets: u64,
    longest_put: Duration,
    longest_get: Duration,
}

/// Fills a database and runs the load for so many seconds.
pub fn measure(engine: Engine, plan: &Plan, seconds: u64, dir: &Path) -> Result<SteadyRun> {
    let store = engine.open(dir, &plan.settings)?;
    let values = Values::new(plan.value_bytes);
    fill(&*store, plan, &values)?;
    let (stop, current) = (AtomicBool::new(false), Mutex::new(Current::default()));
    let work = |thread| work(&*store, plan, &values, thread, &stop, &current);
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
        let began = Instant::now();
        let mut all = Vec::new();
        let sampled = (1..=seconds).try_for_each(|second| {
            let end = began + Duration::from_secs(second);
            std::thread::sleep(end.saturating_duration_since(Instant::now()));
            all.push(sample(std::mem::take(&mut *current.lock().unwrap()), dir)?);
            Ok(())
        });
        stop.store(true, Ordering::Relaxed);
        let (mut puts, mut gets) = (Timings::new(), Timings::new());
        for thread in threads {
            let (own_puts, own_gets) = thread.join().expect("a thread of the load")?;
            puts.add(&own_puts);
            gets.add(&own_gets);
        }
        sampled.map(|()| SteadyRun {
            engine: engine.name().to_string(),
            described: store.describe(),
            put: puts.latency().expect("puts"),
            get: gets.latency().expect("gets"),
            seconds: all,
        })
    })
}

fn work(
    store: &dyn Store,
    plan: &Plan,
    values: &Values,
    thread: u64,
    stop: &AtomicBool,
    current: &Mutex<Current>,
) -> Result<(Timings, Timings)> {
    let mut rng = SmallRng::seed_from_u64(plan.seed + thread);
    let (mut puts, mut gets) = (Timings::new(), Timings::new());
    let mut value = Vec::new();
    for generation in 1.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let number = rng.random_range(0..plan.entries);
        let entry = key(number);
        values.fill(number, generation, &mut value);
        let began = Instant::now();
        store.put(&entry, &value, false)?;
        let put = began.elapsed();
        puts.record(put);

        let number = rng.random_range(0..plan.entries);
        let (entry, mut is_right) = (key(number), false);
        let began = Instant::now();
        let mut check = |value: &[u8]| is_right = values.generation_of(number, value).is_some();
        store.get(&entry, &mut check)?;
        let get = began.elapsed();
        gets.record(get);
        if !is_right {
            return Err(format!("entry {number} is not found, or has another value").into());
        }

        let mut current = current.lock().unwrap();
        current.puts += 1;
        current.gets += 1;
        current.longest_put = current.longest_put.max(put);
        current.longest_get = current.longest_get.max(get);
    }
    Ok((puts, gets))
}

fn sample(current: Current, dir: &Path) -> Result<Second> {
    let millis = |time: Duration| time.as_nanos() as f64 / 1e6;
    Ok(Second {
        puts: current.puts,
        gets: current.gets,
        longest_put: millis(current.longest_put),
        longest_get: millis(current.longest_get),
        memory: own_memory_mib().unwrap_or_default(),
        files: std::fs::read_dir("/proc/self/fd")?.count() as u64,
        disk: disk_bytes(dir)? as f64 / MIB,
    })
}
