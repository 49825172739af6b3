//! What is left after a crash or a fault, at every operation of many workloads.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `workload` | what a database is put through, by seed |
//! | `model` | what it was told to hold, and which states a crash may leave |
//! | `check` | a recovered database against the model, and its files against what it needs |
//! | `sweep` | a crash after every operation, and after every operation of the recovery |
//! | `faults` | a fault at every operation |
//! | `health` | what a running database does about faults |
//! | `known_bugs` | bugs of this format's engines, one test each |
//! | `kill` | a real process, really killed |
//! | `disk` | limits that are errors and no signals |
//! | `outside` | readers at every crash point, between a writer's operations, beside a process |
//!
//! `MINIKV_CRASH_IMAGES` and `MINIKV_CRASH_FAULTS` say how many to try (see `sweep` and
//! `faults`); `MINIKV_SEED` where to begin. A failure prints the line that replays it.

mod check;
mod disk;
mod faults;
mod health;
mod kill;
mod known_bugs;
mod model;
mod outside;
mod sweep;
mod workload;

#[path = "../support/rng.rs"]
#[allow(dead_code, reason = "tests share it, and each uses a part")]
mod rng;

/// A number from the environment.
fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is a number")),
        Err(_) => default,
    }
}
