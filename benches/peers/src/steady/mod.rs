//! Runs a mixed load for a long time, and shows what each second was like: the longest put and get,
//! memory, open files and space.
//!
//! - `load`: the process that runs the load on one engine
//! - `chart`: draws the results

mod chart;
mod load;

use std::path::Path;
use std::process::Stdio;

use minikv_workloads::{Latency, Result};
use serde::{Deserialize, Serialize};

use crate::args::Args;
use crate::child;
use crate::engines::Engine;
use crate::parent::settle;
use crate::task::Task;

pub use load::measure;

/// One second of the load, of all threads together.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Second {
    pub puts: u64,
    pub gets: u64,
    /// The longest put that ended in this second, in milliseconds.
    pub longest_put: f64,
    pub longest_get: f64,
    /// Memory at the end of the second that no file stands behind, in MiB.
    pub memory: f64,
    /// Number of open files at the end of the second.
    pub files: u64,
    /// Space of the directory at the end of the second, in MiB.
    pub disk: f64,
}

/// The whole load of one engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SteadyRun {
    pub engine: String,
    /// The engine's description of itself.
    pub described: String,
    pub put: Latency,
    pub get: Latency,
    pub seconds: Vec<Second>,
}

/// Runs the load with each engine, one after the other, and writes `steady.md`, `.json` and `.svg`.
pub fn run(args: &Args) -> Result<()> {
    let home = match &args.dir {
        Some(dir) => tempfile::tempdir_in(dir)?,
        None => tempfile::tempdir()?,
    };
    let named = !args.engines.is_empty();
    let wanted = |engine: &Engine| named || engine.own_workloads().is_none();
    std::fs::create_dir_all(&args.out)?;
    let mut results = Vec::new();
    for engine in args.engines().into_iter().filter(wanted) {
        eprintln!("{}", engine.name());
        settle();
        let dir = home.path().join("db");
        let measured = one(args, engine, &dir);
        results.push(measured.map_err(|error| format!("{}: {error}", engine.name()))?);
        std::fs::remove_dir_all(&dir)?;
        // After each engine, so that an interrupted run keeps its results.
        std::fs::write(args.out.join("steady.md"), markdown(&results))?;
        std::fs::write(args.out.join("steady.json"), serde_json::to_string(&results)?)?;
        chart::write(&results, &args.out.join("steady.svg"))?;
    }
    println!("{}", markdown(&results));
    println!("Written to {0}/steady.md, {0}/steady.json and {0}/steady.svg.", args.out.display());
    Ok(())
}

fn one(args: &Args, engine: Engine, dir: &Path) -> Result<SteadyRun> {
    let seconds = args.steady.unwrap_or_default().to_string();
    let child = child::command(args, Task::Steady, engine, dir)?
        .args(["--steady", &seconds])
        .stdout(Stdio::piped())
        .spawn()?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        return Err(format!("its process ended with {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Returns the table: the whole run of each engine in one row.
fn markdown(results: &[SteadyRun]) -> String {
    let head = [
        "engine",
        "thousand puts, gets a second",
        "put: p50, p99, p99.9, p99.99, longest (µs)",
        "get: the same",
        "seconds with a put over 10 ms",
        "most memory, space (MiB)",
        "most files",
    ];
    let mut rows = vec![head.map(String::from), head.map(|_| "---".to_string())];
    for measured in results {
        let seconds = &measured.seconds;
        let count = seconds.len().max(1) as f64;
        let rate =
            |of: fn(&Second) -> u64| seconds.iter().map(of).sum::<u64>() as f64 / count / 1e3;
        let most = |of: fn(&Second) -> f64| seconds.iter().map(of).fold(0.0, f64::max);
        rows.push([
            measured.engine.clone(),
            format!("{:.1}, {:.1}", rate(|s| s.puts), rate(|s| s.gets)),
            latencies(&measured.put),
            latencies(&measured.get),
            seconds.iter().filter(|second| second.longest_put > 10.0).count().to_string(),
            format!("{:.0}, {:.0}", most(|s| s.memory), most(|s| s.disk)),
            format!("{:.0}", most(|s| s.files as f64)),
        ]);
    }
    rows.iter().map(|row| format!("| {} |\n", row.join(" | "))).collect()
}

fn latencies(latency: &Latency) -> String {
    let Latency { median, p99, p999, p9999, max } = *latency;
    [median, p99, p999, p9999, max].map(|us| format!("{us:.1}")).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use minikv_workloads::{Plan, Settings};

    #[test]
    fn every_engine_has_its_row_and_its_line() {
        let plan =
            Plan { entries: 1000, settings: Settings::new(1 << 20, 1 << 20), ..Plan::default() };
        let results: Vec<SteadyRun> = crate::engines::ENGINES
            .iter()
            .map(|&engine| {
                let home = tempfile::tempdir().unwrap();
                measure(engine, &plan, 2, &home.path().join("db")).unwrap()
            })
            .collect();
        for measured in &results {
            assert_eq!(measured.seconds.len(), 2, "{measured:?}");
            let longest = measured.seconds.iter().map(|s| s.longest_put).fold(0.0, f64::max);
            assert!((longest * 1e3 - measured.put.max).abs() < 1.0, "{measured:?}");
            for second in &measured.seconds {
                assert!(second.puts > 0 && second.gets > 0, "{measured:?}");
                assert!(second.longest_get > 0.0 && second.disk > 0.0, "{measured:?}");
            }
        }
        let home = tempfile::tempdir().unwrap();
        chart::write(&results, &home.path().join("steady.svg")).unwrap();
        let svg = std::fs::read_to_string(home.path().join("steady.svg")).unwrap();
        let text = markdown(&results);
        for measured in &results {
            assert!(text.contains(&format!("| {} |", measured.engine)), "{text}");
            assert_eq!(svg.matches(&format!("\n{}\n", measured.engine)).count(), 1, "{svg}");
        }
    }
}
