//! The type of snapshots, which options of reads refer to.

use minikv::Snapshot;

pub struct leveldb_snapshot_t {
    pub snapshot: Snapshot,
}
