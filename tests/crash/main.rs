//! Tests of the state after a crash or a fault at every operation of many workloads.
//!
//! | file | contents |
//! | --- | --- |
//! | `check` | checks of a recovered database against itself and its files |
//! | `sweep` | a crash after every operation, and after every operation of the recovery |
//! | `faults` | a fault at every operation |
//! | `creation` | a crash while a database is created |
//! | `health` | the reaction of a running database to faults |
//! | `known_bugs` | bugs of other engines of this format, one test each |
//! | `kill` | kills of a real process |
//! | `disk` | disk limits that must cause errors, not signals |
//! | `outside` | readers at every crash point, beside a writer, and beside a process |
//! | `shared` | databases that share a memory budget |
//! | `windows` | crashes and removals where open files keep their names |
//!
//! The workloads and their model are in `tests/support`, because `tests/interop` and `tests/kernel`
//! use them, too.
//!
//! `MINIKV_CRASH_IMAGES` and `MINIKV_CRASH_FAULTS` set how many images and faults to try (see
//! `sweep` and `faults`), and `MINIKV_SEED` the first seed. A failure prints the command that
//! replays it.

mod check;
mod creation;
mod disk;
mod faults;
mod health;
mod kill;
mod known_bugs;
mod outside;
mod shared;
mod sweep;
mod windows;

use minikv_support::crash::{entries, model, workload};
use minikv_support::rng;

/// Returns the number in the environment variable `name`, or `default` if the variable is not set.
fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is a number")),
        Err(_) => default,
    }
}
