//! A model of the order in which minikv changes its files: commit, rotation of logs, flush, edits
//! of the MANIFEST, removal of obsolete files, recovery, and failed syncs.
//!
//! The rules are those of `docs/durability.md`. [`model`] explores every order of steps that they
//! allow, with crashes in between, up to some bounds; each rule is shown to be needed, because the
//! model without it loses data. [`trace`] holds the library to the same rules: it records the
//! library's operations on files, and each must be a step that the model allows.

pub mod check;
pub mod disk;
pub mod model;
pub mod moves;
pub mod raft;
pub mod recover;
pub mod relabel;
pub mod rules;
pub mod scenarios;
pub mod state;
pub mod step;
pub mod trace;
