//! Tests the initial state of a node that is restored from a backup.

use minikv::Readable;
use std::path::Path;
use std::sync::Arc;

use minikv::fs::{Fs, SimFs};
use minikv_raft::kv::TypeConfig;
use minikv_raft::store::{LogStore, Origin, Store, StoreOptions};
use openraft::storage::{
    RaftLogReader, RaftLogStorage, RaftLogStorageExt, RaftStateMachine, StorageHelper,
};
use openraft::{RaftSnapshotBuilder, Vote};

use crate::common::{Data, LAYOUTS, data_after, entry, id, open};

fn data(store: &Store) -> Data {
    let entries = store.state().data().iter().map(Result::unwrap);
    entries.map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

/// Checks that a restored node has the data but not the old log. If the log and the state share a
/// database, a backup also contains the log, with entries that were never committed.
#[tokio::test]
async fn a_restored_node_has_the_data_and_nothing_of_the_old_log() {
    for layout in LAYOUTS {
        let fs: Arc<dyn Fs> = Arc::new(SimFs::new(3));
        let (_store, mut log, mut machine) = open(fs.clone(), Path::new("/old"), layout).unwrap();
        log.save_vote(&Vote::new(1, 1)).await.unwrap();
        log.blocking_append((0..=50).map(|index| entry(1, index))).await.unwrap();
        machine.apply((0..=30).map(|index| entry(1, index))).await.unwrap();
        let snapshot = machine.build_snapshot().await.unwrap().snapshot;
        let backup = snapshot.path().unwrap().join("db");

        let database = minikv::Options::default();
        let options = StoreOptions { database, layout: Some(layout), fs: fs.clone() };
        let new = Path::new("/new");
        let last = Store::restore(Origin::Database(&backup), new, options, 7, "n7:1").unwrap();
        assert_eq!(last, id(1, 30));
        let (store, mut log, mut machine): (_, LogStore<TypeConfig>, _) =
            open(fs, new, layout).unwrap();
        assert_eq!(data(&store), data_after(Some(30)), "{layout:?}");
        let state = log.get_log_state().await.unwrap();
        assert_eq!(state.last_purged_log_id, Some(id(1, 30)), "{layout:?}");
        assert_eq!(state.last_log_id, Some(id(1, 30)), "{layout:?}");
        assert!(log.try_get_log_entries(0..100).await.unwrap().is_empty(), "{layout:?}");
        assert_eq!(log.read_vote().await.unwrap(), Some(Vote::new(1, 7)));
        let initial = StorageHelper::new(&mut log, &mut machine).get_initial_state().await.unwrap();
        let voters: Vec<u64> = initial.membership_state.effective().voter_ids().collect();
        assert_eq!(voters, [7], "{layout:?}");
    }
}
