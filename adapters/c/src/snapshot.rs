//! The snapshot type, which read options refer to.

use minikv::Snapshot;

pub struct leveldb_snapshot_t {
    pub snapshot: Snapshot,
}
