//! The parts of [`Stats`](crate::Stats) and of a [`ReadTrace`](crate::ReadTrace).

pub use crate::engine::report::stats::{LevelStats, StallSum, Stalls};
pub use crate::table::counts::LevelTrace;
