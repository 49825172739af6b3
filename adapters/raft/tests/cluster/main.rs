//! Clusters of processes: what users do, and histories of clients beside faults.

mod bodies;
mod faults;
mod history;
mod power;
mod processes;
mod snapshots;
