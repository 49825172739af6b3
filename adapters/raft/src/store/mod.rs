//! The store for openraft: a log and a state machine on minikv.
//!
//! | file | contents |
//! | --- | --- |
//! | `cluster` | the id of the cluster that a node belongs to |
//! | `home` | the directory of a node, its contents, and the choice of the live state |
//! | `state` | the databases with the log and the state |
//! | `disk` | `Store`: log, state, current snapshot, and the snapshot transfer in progress |
//! | `damage`, `later`, `ends` | the search for damage before a node starts |
//! | `open` | opening, creating and cleaning a store |
//! | `keys` | the encoding of keys and values |
//! | `log` | the implementation of `RaftLogStorage` |
//! | `writer` | the thread that writes the log and knows which entries are durable |
//! | `recent` | the latest entries, in memory |
//! | `sizes` | the sizes of the entries in the log |
//! | `machine` | the implementation of `RaftStateMachine`, and the trait that programs implement |
//! | `changes` | the writes of one call of `apply`, as one batch |
//! | `snapshot` | snapshots: checkpoints of the database |
//! | `build` | making a snapshot |
//! | `install` | replacing the database with a snapshot |
//! | `incoming`, `transfer` | receiving the files of a snapshot, chunk by chunk |
//! | `backup` | the listing of a backup, and its check |
//! | `restore` | making a new cluster from a backup |
//! | `files`, `error` | files outside the databases; errors |

pub(crate) mod backup;
pub(crate) mod build;
pub(crate) mod changes;
pub(crate) mod cluster;
mod damage;
mod disk;
mod ends;
pub(crate) mod error;
mod files;
mod home;
mod incoming;
mod install;
pub(crate) mod keys;
mod later;
mod log;
pub(crate) mod machine;
mod open;
mod recent;
mod restore;
mod sizes;
pub(crate) mod snapshot;
mod state;
mod transfer;
mod writer;

use openraft::{Entry, RaftTypeConfig};

pub use backup::Origin;
pub use changes::{Changes, Space};
pub use disk::Store;
pub use error::{Error, Result};
pub use home::{Layout, StoreOptions};
pub use incoming::Position;
pub use log::LogStore;
pub use machine::{Machine, StateMachine};
pub use snapshot::{SnapshotDir, SnapshotFile};
pub use state::State;

/// The requirements that the store places on openraft's type configuration. Every configuration
/// that meets the requirements implements this trait. A command is cloned for each reader of the
/// latest entries, so cloning should be cheap.
pub trait StoreConfig:
    RaftTypeConfig<D: Clone, NodeId = u64, Entry = Entry<Self>, SnapshotData = SnapshotDir>
{
}

impl<C> StoreConfig for C where
    C: RaftTypeConfig<D: Clone, NodeId = u64, Entry = Entry<C>, SnapshotData = SnapshotDir>
{
}
