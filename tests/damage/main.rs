//! Opens, reads, compacts, verifies and repairs damaged databases.
//!
//! | file | contents |
//! | --- | --- |
//! | `agreement` | what `open`, `verify` and `repair` call sound, damaged or unsupported |
//! | `database` | a small database with all kinds of content, its files and its expected contents |
//! | `sweep` | changes of every byte of the database, truncation of files to every length |
//! | `hostile` | tables and logs that no engine wrote |
//! | `doubts` | tables in which a filter, the index or the MANIFEST leads lookups past a key |
//! | `repair` | entries that a repair must save, and entries that it must not bring back |
//! | `crashes` | crashes after each file operation of a repair |
//! | `checkpoint` | copies, and crashes while copies are made |
//!
//! `MINIKV_SWEEP_STRIDE` is the distance in bytes from one changed byte to the next. With a
//! distance of 1, the tests take several minutes.

mod agreement;
mod checkpoint;
mod crashes;
mod database;
mod doubts;
mod hostile;
mod repair;
mod sweep;

use minikv_support::{forge, rng};
