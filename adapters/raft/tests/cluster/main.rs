//! Tests of clusters of processes: requests of clients, and histories of clients that run while
//! faults occur.

mod bodies;
mod clocks;
mod faults;
mod history;
mod lists;
mod load;
mod power;
mod processes;
mod rng;
mod snapshots;
mod wall_clock;
mod watching;
