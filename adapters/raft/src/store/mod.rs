//! The store for openraft: a log and a state machine on minikv.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `home` | the directory of a node: its contents, how it is opened and cleaned |
//! | `keys` | the bytes of keys and values |
//! | `log` | `RaftLogStorage` |
//! | `writer` | the thread that writes the log and knows which entries are durable |
//! | `recent` | the latest entries, in memory |
//! | `machine` | `RaftStateMachine`, and the trait that a program implements |
//! | `changes` | what one call of `apply` writes, as one batch |
//! | `snapshot` | snapshots: checkpoints of the database |
//! | `install` | replacing the database with a snapshot |
//! | `transfer` | receiving the files of a snapshot, chunk by chunk |
//! | `restore` | making a new cluster from a backup |
//! | `files`, `error` | files outside the databases; errors |

pub(crate) mod changes;
pub(crate) mod error;
mod files;
mod home;
mod install;
pub(crate) mod keys;
mod log;
pub(crate) mod machine;
mod recent;
mod restore;
pub(crate) mod snapshot;
pub(crate) mod transfer;
mod writer;

use openraft::{Entry, RaftTypeConfig};

pub use changes::{Changes, Space};
pub use error::{Error, Result};
pub use home::{Layout, State, Store, StoreOptions};
pub use log::LogStore;
pub use machine::{Machine, StateMachine};
pub use snapshot::{SnapshotDir, SnapshotFile};
pub use transfer::Position;

/// The store's requirements on openraft's type configuration. Every configuration that meets them
/// implements this trait. A command is cloned for each reader of the latest entries, so it should
/// be cheap to clone.
pub trait StoreConfig:
    RaftTypeConfig<D: Clone, NodeId = u64, Entry = Entry<Self>, SnapshotData = SnapshotDir>
{
}

impl<C> StoreConfig for C where
    C: RaftTypeConfig<D: Clone, NodeId = u64, Entry = Entry<C>, SnapshotData = SnapshotDir>
{
}
