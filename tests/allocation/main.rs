//! Checks what an allocation that fails leaves behind. The test binary runs itself again as a child
//! process, whose allocator fails at one allocation of a workload. The process may end then, but
//! the directory must open with everything that was acknowledged.
//!
//! `MINIKV_ALLOCATIONS` is the number of allocations to fail (default 100), spread over the whole
//! workload; if it is at least the number of all allocations, each of them fails once.
//! `MINIKV_ALLOCATION` fails only one allocation.

mod allocator;
mod workload;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use allocator::FailOnce;
use minikv_support::system::fast_folder;
use workload::{Mistake, PUTS, check};

#[global_allocator]
static ALLOCATOR: FailOnce = FailOnce;

const DIR: &str = "MINIKV_ALLOCATION_CHILD";
const FAILS_AT: &str = "MINIKV_ALLOCATION_FAILS_AT";
const MISTAKE: &str = "MINIKV_ALLOCATION_MISTAKE";

/// The end of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    /// It did not notice, or went on without the memory.
    Completed,
    /// An operation returned an error.
    Error,
    /// The process was aborted.
    Aborted,
}

/// The report of a child.
struct Told {
    end: End,
    /// Number of the last put that was acknowledged.
    acked: u64,
    /// Number of allocations, if the workload ended.
    allocations: Option<u64>,
}

/// Runs the workload in a child whose allocation number `at` fails.
fn run_child(dir: &Path, at: u64, mistake: Mistake) -> Result<Told, String> {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--nocapture", "--include-ignored", "--test-threads=1"])
        .env(DIR, dir)
        .env(FAILS_AT, at.to_string())
        .envs((mistake == Mistake::EarlyAck).then_some((MISTAKE, "1")))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let after = |word| text.lines().filter_map(move |line| line.split_once(word));
    let numbers = |word| after(word).filter_map(|(_, rest)| rest.trim().parse::<u64>().ok());
    let allocations = numbers("allocations ").next();
    let end = match (allocations, after("told ").next(), output.status.success()) {
        (Some(_), None, true) => End::Completed,
        (Some(_), Some(_), true) => End::Error,
        // A failed test of the child would be a panic, which is no end that is allowed.
        (None, None, false) if output.status.code() != Some(101) => End::Aborted,
        _ => return Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr))),
    };
    Ok(Told { end, acked: numbers("acked ").max().unwrap_or(0), allocations })
}

/// Fails allocation number `at` of the workload and checks the directory.
fn try_at(at: u64, mistake: Mistake) -> Result<Told, String> {
    // The process ends, not the system, so memory is as good as a disk.
    let home = tempfile::tempdir_in(fast_folder());
    let dir = home.as_ref().map_err(|error| error.to_string())?.path().join("db");
    let told = run_child(&dir, at, mistake)?;
    check(&dir, told.acked)?;
    Ok(told)
}

/// Tries each of `places`, as many at a time as there are processors.
fn try_all(places: &[u64]) -> Vec<(u64, Result<Told, String>)> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let tried = |part: &[u64]| -> Vec<_> {
        part.iter().map(|&at| (at, try_at(at, Mistake::None))).collect()
    };
    thread::scope(|scope| {
        let parts = places.chunks(places.len().div_ceil(threads));
        let running: Vec<_> = parts.map(|part| scope.spawn(move || tried(part))).collect();
        running.into_iter().flat_map(|part| part.join().unwrap()).collect()
    })
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}: {text}")))
}

#[test]
#[ignore = "the child of the tests below"]
fn child() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let at = setting(FAILS_AT).unwrap();
    let mistake =
        if std::env::var_os(MISTAKE).is_some() { Mistake::EarlyAck } else { Mistake::None };
    println!("the output's buffer is allocated");
    allocator::begin(at);
    let result = workload::run(Path::new(&dir), mistake);
    let allocations = allocator::end();
    if let Err(error) = result {
        println!("told {error}");
    }
    println!("allocations {allocations}");
}

/// Returns the number of allocations of the workload.
fn count_allocations() -> u64 {
    let told = try_at(0, Mistake::None).unwrap();
    assert_eq!((told.end, told.acked), (End::Completed, PUTS));
    told.allocations.unwrap()
}

#[test]
fn after_any_failed_allocation_everything_acknowledged_is_there() {
    let all = count_allocations();
    let wanted = setting("MINIKV_ALLOCATIONS").unwrap_or(100).clamp(1, all);
    let only = setting("MINIKV_ALLOCATION");
    let places: Vec<u64> = match only {
        Some(at) => vec![at],
        None => (0..wanted).map(|nth| 1 + nth * all / wanted).collect(),
    };
    let mut ends = BTreeMap::from([(End::Completed, 0), (End::Error, 0), (End::Aborted, 0)]);
    for (at, told) in try_all(&places) {
        match told {
            Ok(told) => *ends.entry(told.end).or_insert(0) += 1,
            Err(error) => panic!(
                "allocation {at} of {all}: {error}\n  replay: MINIKV_ALLOCATION={at} cargo test \
                 --test allocation after_any"
            ),
        }
    }
    println!("{wanted} of {all} allocations failed, {ends:?}: nothing acknowledged is lost");
    assert!(only.is_some() || ends[&End::Aborted] > 0, "no allocation failed");
}

/// Shows that the check can fail.
#[test]
fn a_put_that_is_acknowledged_before_it_is_written_is_found() {
    let all = count_allocations();
    let found = (1..20).find_map(|n| try_at(all * n / 20, Mistake::EarlyAck).err());
    let error = found.expect("an early acknowledgement is noticed");
    assert!(error.contains("was acknowledged"), "{error}");
}
