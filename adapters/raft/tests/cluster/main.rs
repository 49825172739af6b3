//! Tests of clusters of processes: requests of clients, and histories of clients that run while
//! faults occur.

mod backups;
mod bodies;
mod browsers;
mod clocks;
mod commands;
mod damaged_links;
mod faults;
mod health;
mod history;
mod identity;
mod limits;
mod links;
mod lists;
mod load;
mod membership;
mod overload;
mod power;
mod processes;
mod rng;
mod sessions;
mod snapshots;
mod wall_clock;
mod watching;
