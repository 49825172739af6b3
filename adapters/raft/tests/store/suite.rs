//! Runs openraft's test suite for stores, with the log and the state in one database and in two,
//! and with a pipelined log and a log that is not pipelined.

use std::sync::Arc;

use minikv_raft::kv::TypeConfig;
use minikv_raft::store::{Layout, LogStore};
use openraft::StorageError;
use openraft::testing::{StoreBuilder, Suite};
use tempfile::TempDir;

use crate::common::{Machine, open_with};

/// A builder of stores: the layout, and whether the log calls back before entries are durable.
struct Builder(Layout, bool);

impl StoreBuilder<TypeConfig, LogStore<TypeConfig>, Machine, TempDir> for Builder {
    async fn build(&self) -> Result<(TempDir, LogStore<TypeConfig>, Machine), StorageError<u64>> {
        let home = tempfile::tempdir().unwrap();
        let fs = Arc::new(minikv::fs::DiskFs);
        let (_, log, machine) = open_with(fs, &home.path().join("node"), self.0, self.1).unwrap();
        Ok((home, log, machine))
    }
}

#[test]
fn openrafts_suite_passes_with_one_database() {
    Suite::test_all(Builder(Layout::One, false)).unwrap();
    Suite::test_all(Builder(Layout::One, true)).unwrap();
}

#[test]
fn openrafts_suite_passes_with_two_databases() {
    Suite::test_all(Builder(Layout::Two, false)).unwrap();
    Suite::test_all(Builder(Layout::Two, true)).unwrap();
}
