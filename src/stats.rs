//! The parts of [`Stats`](crate::Stats), of a [`ReadTrace`](crate::ReadTrace) and of a
//! [`ReadSample`](crate::ReadSample).

pub use crate::engine::report::stats::{LevelStats, StallSum, Stalls};
pub use crate::engine::stats::sample::ScannedRange;
pub use crate::table::counts::{AllFilters, LevelTrace};
