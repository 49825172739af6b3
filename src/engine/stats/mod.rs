//! Counters: what reads, writes, flushes and compactions did.

pub mod metrics;
pub mod property;
pub mod sample;
pub mod totals;
pub mod trace;
