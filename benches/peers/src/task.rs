//! The tasks of a child process.

use std::str::FromStr;

/// The task of the process. The engine and the workloads are given by the same options as in the
/// parent process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Run the workloads.
    Run,
    /// Fill the log, and exit without closing the database.
    FillLog,
    /// Open the database that `FillLog` left.
    Open,
    /// Count reads, writes and space.
    Amplification,
    /// Run a mixed load for a given time.
    Steady,
}

impl FromStr for Task {
    type Err = String;

    fn from_str(text: &str) -> Result<Task, String> {
        match text {
            "run" => Ok(Task::Run),
            "fill-log" => Ok(Task::FillLog),
            "open" => Ok(Task::Open),
            "amplification" => Ok(Task::Amplification),
            "steady" => Ok(Task::Steady),
            _ => Err("run, fill-log, open, amplification or steady".to_string()),
        }
    }
}

impl Task {
    pub fn name(self) -> &'static str {
        match self {
            Task::Run => "run",
            Task::FillLog => "fill-log",
            Task::Open => "open",
            Task::Amplification => "amplification",
            Task::Steady => "steady",
        }
    }
}
