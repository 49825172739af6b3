//! Workloads modelled on LevelDB's `db_bench` that run on any [`Store`].
//!
//! `minikv bench` runs the workloads on minikv, and the benchmark `peers` runs them on other
//! engines, too. All engines get the same keys and values in the same order and are timed in the
//! same way; every value read is checked.
//!
//! - `data`: keys, values, and random orders of them
//! - `store`: the interface of an engine, which [`Minikv`] implements for minikv
//! - `workload`: the list of workloads, and the state each one starts from
//! - `run`: prepares the state from which a workload starts, runs the workload and measures it;
//!   `run/features.rs` has the workloads that need a feature that not every engine has
//! - `profile`: requests that are distributed like those of published traces
//! - `steps`: the timed loops
//! - `measure`: latencies, memory and bytes written

mod data;
mod measure;
mod minikv;
mod profile;
mod run;
mod steps;
mod store;
mod workload;

#[cfg(test)]
mod tests;

pub use data::{KEY_BYTES, Key, MIN_VALUE_BYTES, Shuffle, Values, is_removed, key, mix, number_of};
pub use measure::{
    Better, Figure, Latency, Outcome, Timings, disk_bytes, own_memory_mib, wait_until_quiet,
    written_bytes,
};
pub use minikv::Minikv;
pub use profile::{
    CacheTrace, Mixgraph, Pareto, PowerLaw, Profile, Request, Requests, TwoTermExponential,
};
pub use run::{Plan, Runner, fill, fill_log, settled_disk_bytes};
pub use store::{
    Direction, Ended, Entry, Failure, Follower, Result, Settings, Sink, Source, Space, Store,
    Transact,
};
pub use workload::{Group, Start, WORKLOADS, Workload, find};
