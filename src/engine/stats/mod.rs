//! Counters of the work done by reads, writes, flushes and compactions.

pub(crate) mod metrics;
mod prometheus;
pub(crate) mod property;
pub(crate) mod sample;
mod show;
pub(crate) mod totals;
pub(crate) mod trace;
