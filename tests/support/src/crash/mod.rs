//! Random workloads on a simulated disk, and the model of the states that a crash may leave.

pub mod entries;
pub mod model;
pub mod workload;
