//! Runs the tests: first without a mutant, to find out which mutants each test reaches, and then
//! for each mutant.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::rewrite::Mutant;

/// Maximum of the time limits after which runs of tests are killed. A mutant whose run exceeds its
/// limit counts as caught.
const MAX_RUN: Duration = Duration::from_secs(120);

/// Limit of the first run for a mutant, in seconds: the run takes no more tests once their measured
/// times add up to this limit. The limit doubles with each further run, up to [`MAX_RUN_SECONDS`].
const FIRST_RUN_SECONDS: f64 = 0.4;

/// Maximum of the limit that starts at [`FIRST_RUN_SECONDS`], in seconds.
const MAX_RUN_SECONDS: f64 = 8.0;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Caught,
    Survived,
}

/// A test and its measurements.
pub struct Test {
    program: PathBuf,
    name: String,
    seconds: f64,
    reached: HashSet<u32>,
}

/// The outcome of a run of tests.
#[derive(PartialEq)]
enum End {
    Passed,
    Failed,
    /// Killed because the run took too long.
    Hung,
}

/// Applies a function to each item, in several threads, and returns the results in no particular
/// order.
fn in_threads<T: Sync, R: Send>(
    jobs: usize,
    items: &[T],
    apply: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = apply(item);
                    results.lock().unwrap().push(result);
                }
            });
        }
    });
    results.into_inner().unwrap()
}

/// Runs each test of the programs on its own. Returns the tests that pass, with their measurements.
pub fn measure(copy: &Path, programs: &[PathBuf], jobs: usize) -> Vec<Test> {
    let mut names = Vec::new();
    for program in programs {
        let all = list(copy, program, &[]);
        let ignored = list(copy, program, &["--ignored"]);
        names.extend(all.difference(&ignored).map(|name| (program.clone(), name.clone())));
    }
    let started = Instant::now();
    let tests = in_threads(jobs, &names, |(program, name)| {
        let scratch = Scratch::new(copy);
        let reached = scratch.path.join("reached");
        let start = Instant::now();
        let variable = ("REACHED", reached.as_os_str());
        let end = run(copy, program, &[name], &scratch, variable, MAX_RUN);
        let ids = fs::read_to_string(reached).unwrap_or_default();
        let reached = ids.lines().filter_map(|id| id.parse().ok()).collect();
        let test = Test {
            program: program.clone(),
            name: name.clone(),
            seconds: start.elapsed().as_secs_f64(),
            reached,
        };
        if end != End::Passed {
            println!("fails without a mutant, and is not used: {name}");
        }
        (end == End::Passed).then_some(test)
    });
    let tests: Vec<Test> = tests.into_iter().flatten().collect();
    println!("{} tests, once each: {} s", tests.len(), started.elapsed().as_secs());
    tests
}

fn list(copy: &Path, program: &Path, arguments: &[&str]) -> BTreeSet<String> {
    let output = Command::new(program)
        .args(["--list", "--format", "terse"])
        .args(arguments)
        .current_dir(copy)
        .output()
        .expect("the test program runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_string).collect()
}

/// Returns each mutant with its verdict. A mutant survives if all tests that are run on it pass.
/// Only tests that reach the mutant are run, and their measured times add up to at most `seconds`.
pub fn judge(
    copy: &Path,
    tests: &[Test],
    mutants: Vec<Mutant>,
    (jobs, seconds): (usize, f64),
) -> Vec<(Mutant, Verdict)> {
    let done = AtomicUsize::new(0);
    let mut verdicts = in_threads(jobs, &mutants, |mutant| {
        let verdict = judge_one(copy, tests, mutant, seconds);
        if verdict == Verdict::Survived {
            println!("{}/{} survived  {mutant}", done.load(Ordering::Relaxed), mutants.len());
        }
        done.fetch_add(1, Ordering::Relaxed);
        (mutant.clone(), verdict)
    });
    verdicts.sort_by_key(|(mutant, _)| mutant.id);
    verdicts
}

fn judge_one(copy: &Path, tests: &[Test], mutant: &Mutant, seconds: f64) -> Verdict {
    let scratch = Scratch::new(copy);
    let id = mutant.id.to_string();
    for (tests, seconds) in runs(tests, mutant, seconds) {
        let names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
        let limit = MAX_RUN.min(Duration::from_secs_f64(20.0 + 10.0 * seconds));
        let variable = ("MUTANT", id.as_ref());
        if run(copy, &tests[0].program, &names, &scratch, variable, limit) != End::Passed {
            return Verdict::Caught;
        }
    }
    Verdict::Survived
}

/// Returns the tests that reach a mutant, grouped into runs. Each run comes with its expected
/// duration in seconds; all durations add up to at most `max_seconds`, and the remaining tests are
/// left out. Short tests and tests of the mutant's own module come first. All tests of a run belong
/// to one program.
fn runs<'a>(tests: &'a [Test], mutant: &Mutant, max_seconds: f64) -> Vec<(Vec<&'a Test>, f64)> {
    let path = mutant.file.trim_start_matches("src/").trim_end_matches(".rs").replace('/', "::");
    let module = format!("{}::", path.trim_end_matches("::mod"));
    let folder = format!("{}::", path.split("::").next().expect("a folder"));
    let rank = |test: &Test| match () {
        () if test.name.starts_with(&module) => 0.2 * test.seconds,
        () if test.name.starts_with(&folder) => 0.5 * test.seconds,
        () => test.seconds,
    };
    let mut tests: Vec<&Test> =
        tests.iter().filter(|test| test.reached.contains(&mutant.id)).collect();
    tests.sort_by(|a, b| rank(a).total_cmp(&rank(b)));
    let (mut total, mut limit) = (0.0, FIRST_RUN_SECONDS);
    let mut runs: Vec<(Vec<&Test>, f64)> = Vec::new();
    let mut left = tests;
    while let Some(first) = left.first().copied() {
        let mut run = (Vec::new(), 0.0);
        left.retain(|test| {
            let fits = test.program == first.program && run.1 < limit;
            if fits {
                run.0.push(*test);
                run.1 += test.seconds;
            }
            !fits
        });
        total += run.1;
        if total > max_seconds {
            break;
        }
        runs.push(run);
        limit = (2.0 * limit).min(MAX_RUN_SECONDS);
    }
    runs
}

/// Runs the tests `names` of a program, with one environment variable set.
fn run(
    copy: &Path,
    program: &Path,
    names: &[impl AsRef<str>],
    scratch: &Scratch,
    (variable, value): (&str, &std::ffi::OsStr),
    limit: Duration,
) -> End {
    let mut child = Command::new(program)
        .args(["--quiet", "--exact"])
        .args(names.iter().map(AsRef::as_ref))
        .current_dir(copy)
        .env(variable, value)
        .env("TMPDIR", &scratch.path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("the test program runs");
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("the state of the test program") {
            return if status.success() { End::Passed } else { End::Failed };
        }
        if start.elapsed() > limit {
            // Kills the process group, which includes programs that the tests have started.
            let group = format!("-{}", child.id());
            let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
            child.wait().expect("the end of the test program");
            return End::Hung;
        }
        thread::sleep(Duration::from_millis(3));
    }
}

/// A folder for the temporary files of tests. It is removed when this value is dropped.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn new(copy: &Path) -> Scratch {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("target/scratch-{}-{number}", std::process::id());
        let path = copy.join(name);
        fs::create_dir_all(&path).expect("a folder for temporary files");
        Scratch { path }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
