//! The child process, which runs one group of workloads with one engine on one database, and prints
//! each outcome as a line of JSON.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use minikv_workloads::{Outcome, Result, Runner, Settings, fill_log};
use serde::{Deserialize, Serialize};

use crate::amplification::{self, Case};
use crate::args::Args;
use crate::engines::Engine;
use crate::steady;
use crate::task::Task;

/// Returns the command that starts a process for `task` with `engine` in `dir`. The numbers of
/// entries and operations and all sizes come from `args`.
pub fn command(args: &Args, task: Task, engine: Engine, dir: &Path) -> Result<Command> {
    let plan = args.plan();
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["--child", task.name(), "--engines", engine.name()])
        .args(["--entries", &plan.entries.to_string()])
        .args(["--most-operations", &plan.most_operations.to_string()])
        .args(["--value-bytes", &plan.value_bytes.to_string()])
        .args(["--write-buffer-mib", &args.write_buffer_mib().to_string()])
        .args(["--cache-mib", &args.cache_mib.to_string()])
        .arg("--child-dir")
        .arg(dir);
    Ok(command)
}

/// A line of a child's output.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    /// The description of the engine and its options.
    pub engine: String,
    pub outcome: Outcome,
}

pub fn run(args: &Args, task: &Task) -> Result<()> {
    let engine: Engine = *args.engines.first().ok_or("a child has an engine")?;
    let dir = args.child_dir.as_deref().ok_or("a child has a directory")?;
    let open = |dir: &Path, settings: &Settings| engine.open(dir, settings);
    let plan = args.plan();
    let mut runner = Runner::new(plan, dir, &open);
    let tell = |runner: &Runner<'_>, outcome: Outcome| -> Result<()> {
        let line = Line { engine: runner.describe().unwrap_or_default(), outcome };
        let mut stdout = std::io::stdout().lock();
        serde_json::to_writer(&mut stdout, &line)?;
        Ok(writeln!(stdout)?)
    };
    match task {
        Task::Run => {
            for workload in args.workloads() {
                let outcome = runner.run(workload)?;
                tell(&runner, outcome)?;
            }
            Ok(())
        }
        Task::FillLog => {
            let store = open(dir, &plan.settings)?;
            fill_log(&*store, &plan)?;
            // `exit` runs no destructors, so the database is left as if the process had been
            // killed.
            std::process::exit(0)
        }
        Task::Open => {
            let outcome = runner.measure_open()?;
            tell(&runner, outcome)
        }
        Task::Amplification => {
            let case = Case { engine, filters: !args.child_without_filters };
            let measured = amplification::measure(case, &plan, dir)?;
            Ok(serde_json::to_writer(std::io::stdout().lock(), &measured)?)
        }
        Task::Steady => {
            let seconds = args.steady.ok_or("a steady load has an end")?;
            let measured = steady::measure(engine, &plan, seconds, dir)?;
            Ok(serde_json::to_writer(std::io::stdout().lock(), &measured)?)
        }
    }
}
