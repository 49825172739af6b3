//! Counters: what reads, writes, flushes and compactions did.

pub(crate) mod metrics;
mod prometheus;
pub(crate) mod property;
pub(crate) mod sample;
pub(crate) mod totals;
pub(crate) mod trace;
