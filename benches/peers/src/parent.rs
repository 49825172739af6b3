//! The process that starts the children and collects their results.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use minikv_workloads::{Group, Result, Workload};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use crate::args::Args;
use crate::child::{self, Line};
use crate::engines::Engine;
use crate::report::Report;
use crate::results;
use crate::task::Task;

/// Workloads whose final state no other workload needs. If such a workload is slow, it can be left
/// out of repetitions.
const ENDS: &[&str] = &[
    "fillseq",
    "fillbatch",
    "overwrite",
    "deleterandom",
    "fillrandom-buffer4m",
    "sync",
    "keyspaces",
];

/// Time in seconds above which a workload in `ENDS` is not repeated with the same engine. A higher
/// limit makes runs longer.
const LONG_SECONDS: f64 = 90.0;

pub fn run(args: &Args) -> Result<()> {
    let mut report = Report::new(args);
    for line in report.head() {
        println!("{line}");
    }
    let home = match &args.dir {
        Some(dir) => tempfile::tempdir_in(dir)?,
        None => tempfile::tempdir()?,
    };
    let groups = groups(&args.workloads());
    let mut engines = args.engines();
    let mut rng = SmallRng::seed_from_u64(1);
    for run in 1..=args.repeats() {
        for group in &groups {
            // Shuffles the engines, so that no engine always runs after the same other engine.
            engines.shuffle(&mut rng);
            for &engine in &engines {
                let workloads = wanted(engine, group, args, &report);
                if workloads.is_empty() {
                    continue;
                }
                eprintln!("run {run}, {}: {}", engine.name(), names(&workloads));
                let dir = home.path().join("db");
                settle();
                one(args, engine, &workloads, &dir, &mut report)
                    .map_err(|error| format!("{}: {error}", engine.name()))?;
                if dir.try_exists()? {
                    std::fs::remove_dir_all(&dir)?;
                }
            }
        }
        // The report is written after each round, so that an interrupted run keeps its results.
        results::write(&report, &args.out)?;
    }
    println!("\n{}", report.markdown());
    println!("Written to {0}/peers.md, {0}/peers.json and {0}/peers.svg.", args.out.display());
    Ok(())
}

/// Waits until the operating system has written the data of the previous engine to disk, so that
/// these writes do not slow down the next engine.
pub fn settle() {
    // If this fails, the next engine is slower for a while.
    let _ = Command::new("sync").status();
}

/// Returns the workloads by group, in order.
fn groups(workloads: &[&'static Workload]) -> Vec<Vec<&'static Workload>> {
    workloads.chunk_by(|a, b| a.group == b.group).map(<[_]>::to_vec).collect()
}

fn wanted(
    engine: Engine,
    group: &[&'static Workload],
    args: &Args,
    so_far: &Report,
) -> Vec<&'static Workload> {
    let own = engine.own_workloads().filter(|_| !args.engines.contains(&engine));
    let is_long = |name| so_far.seconds(engine, name).is_some_and(|s| s > LONG_SECONDS);
    let runs = |w: &&&Workload| {
        own.is_none_or(|own| own.contains(&w.name)) && !(ENDS.contains(&w.name) && is_long(w.name))
    };
    group.iter().filter(runs).copied().collect()
}

fn names(workloads: &[&Workload]) -> String {
    workloads.iter().map(|workload| workload.name).collect::<Vec<_>>().join(",")
}

/// Runs one group of workloads with one engine.
fn one(
    args: &Args,
    engine: Engine,
    workloads: &[&Workload],
    dir: &Path,
    report: &mut Report,
) -> Result<()> {
    let tasks: &[Task] = match workloads[0].group {
        Group::Open => &[Task::FillLog, Task::Open],
        _ => &[Task::Run],
    };
    for &task in tasks {
        let mut child = child::command(args, task, engine, dir)?
            .args(["--workloads", &names(workloads)])
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().expect("a pipe");
        for line in BufReader::new(stdout).lines() {
            let line: Line = serde_json::from_str(&line?)?;
            for figure in &line.outcome.figures {
                eprintln!("    {:32}{:>14.2} {}", figure.name, figure.value, figure.unit);
            }
            report.add(engine, line);
        }
        let status = child.wait()?;
        if !status.success() {
            return Err(format!("its process ended with {status}").into());
        }
    }
    Ok(())
}
