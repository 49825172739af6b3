//! Clusters of processes: what users do, and histories of clients beside faults.

mod bodies;
mod clocks;
mod faults;
mod history;
mod lists;
mod load;
mod power;
mod processes;
mod snapshots;
