//! Damaged databases: opened, read, compacted, verified, repaired.
//!
//! | file | contents |
//! | --- | --- |
//! | `database` | a small database of every kind of content, its files and its expected contents |
//! | `sweep` | every byte of the database changed, and every file cut at every length |
//! | `hostile` | tables and logs that no engine wrote |
//! | `repair` | entries that a repair must save, and entries that it must not bring back |
//! | `crashes` | a crash after every operation of a repair |
//! | `checkpoint` | copies, and crashes while copies are made |
//!
//! `MINIKV_SWEEP_STRIDE` is the distance in bytes from one changed byte to the next; 1 takes some
//! minutes.

mod checkpoint;
mod crashes;
mod database;
mod hostile;
mod repair;
mod sweep;

#[path = "../support/rng.rs"]
#[allow(dead_code, reason = "tests share it, and each uses a part")]
mod rng;

#[path = "../support/forge.rs"]
#[allow(dead_code, reason = "tests share it, and each uses a part")]
mod forge;
