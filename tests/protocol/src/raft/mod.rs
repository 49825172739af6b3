//! A model of the store of a replicated node: votes, appends, truncations, purges, and snapshots
//! that are made, received and installed. The store's code is in `adapters/raft/src/store`.
//!
//! The databases of the store are what the model of [`crate::model`] promises: after a loss of
//! power, the commits that are left are a prefix that contains every synced one. Files beside the
//! databases, and names in directories, survive a loss of power independently of each other until
//! they are synced. The model also has openraft's side: which calls it makes, in which order, and
//! which of them it makes while another one is under way.

pub mod bounds;
pub mod explore;
pub mod files;
pub mod found;
pub mod laws;
pub mod machine;
pub mod replay;
pub mod replica;
pub mod snapshots;
pub mod take;
pub mod writer;
