//! Tests of clusters of processes: what users do, and the histories of clients while faults are
//! injected.

mod bodies;
mod clocks;
mod faults;
mod history;
mod lists;
mod load;
mod power;
mod processes;
mod snapshots;
