//! Workloads after LevelDB's `db_bench`, which run on any [`Store`].
//!
//! `minikv bench` runs them on minikv, and the peers' bench on each engine beside it: the same
//! keys and values in the same order, timed in the same way, and each value that is read checked.
//!
//! - `data`: keys, values, and random orders of them
//! - `store`: what an engine has to do; [`Minikv`] is minikv's
//! - `workload`: the list of workloads, and the state each one starts from
//! - `run`: brings a database into that state, runs the workload, measures
//! - `steps`: the loops that are timed
//! - `measure`: latencies, memory and bytes written

mod data;
mod measure;
mod minikv;
mod run;
mod steps;
mod store;
mod workload;

#[cfg(test)]
mod tests;

pub use data::{KEY_BYTES, Key, MIN_VALUE_BYTES, Values, key, number_of};
pub use measure::{Better, Figure, Latency, Outcome, disk_bytes};
pub use minikv::Minikv;
pub use run::{Plan, Runner, fill_log};
pub use store::{Direction, Entry, Failure, Result, Settings, Store};
pub use workload::{Group, Start, WORKLOADS, Workload, find};
