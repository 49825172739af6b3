//! Tests the initial state of a node that is restored from a backup.

use minikv::Readable;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use minikv::fs::{Fs, SimFs};
use minikv_raft::command::{Command, Outcome, Request, RequestId};
use minikv_raft::kv::TypeConfig;
use minikv_raft::requests::Requests;
use minikv_raft::store::{LogStore, Origin, Store, StoreOptions};
use minikv_raft::watch::Hub;
use openraft::storage::{
    RaftLogReader, RaftLogStorage, RaftLogStorageExt, RaftStateMachine, StorageHelper,
};
use openraft::{Entry, EntryPayload, LogId, RaftSnapshotBuilder, Vote};

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
        assert_eq!(state.last_purged_log_id, machine.applied_state().await.unwrap().0);
        assert_eq!(state.last_log_id, state.last_purged_log_id, "{layout:?}");
        assert!(log.try_get_log_entries(..).await.unwrap().is_empty(), "{layout:?}");
        assert_eq!(log.read_vote().await.unwrap(), Some(Vote::new(1, 7)));
        let initial = StorageHelper::new(&mut log, &mut machine).get_initial_state().await.unwrap();
        let voters: Vec<u64> = initial.membership_state.effective().voter_ids().collect();
        assert_eq!(voters, [7], "{layout:?}");
    }
}

fn opening(log_id: LogId<u64>) -> Entry<TypeConfig> {
    let open = Request { id: None, command: Command::OpenSession };
    Entry { log_id, payload: EntryPayload::Normal(Requests::new(&[open])) }
}

/// Checks that what the old cluster has numbered after the backup, a session or a change, is not
/// taken for what the new cluster numbers, nor for that of another cluster from the same backup.
#[tokio::test]
async fn a_restored_cluster_gives_out_no_number_again() {
    for layout in LAYOUTS {
        let fs: Arc<dyn Fs> = Arc::new(SimFs::new(3));
        let (_store, _, mut machine) = open(fs.clone(), Path::new("/old"), layout).unwrap();
        machine.apply((0..=30).map(|index| entry(1, index))).await.unwrap();
        let snapshot = machine.build_snapshot().await.unwrap().snapshot;
        let backup = snapshot.path().unwrap().join("db");
        let old = machine.apply([opening(id(1, 31))]).await.unwrap();
        let [(31, Outcome::Session(session))] = old[0][..] else { panic!("{old:?}") };

        let mut begins = BTreeSet::from([30]);
        for new in [Path::new("/new"), Path::new("/newer")] {
            let database = minikv::Options::default();
            let options = StoreOptions { database, layout: Some(layout), fs: fs.clone() };
            Store::restore(Origin::Database(&backup), new, options, 7, "n7:1").unwrap();
            let (store, _, mut machine) = open(fs.clone(), new, layout).unwrap();
            let last = store.state().applied().unwrap().unwrap();
            let next = LogId::new(last.leader_id, last.index + 1);
            assert!(last.index - 30 >= 1 << 32, "{last}, {layout:?}");
            assert!(begins.insert(last.index), "{last}, {layout:?}");

            let opened = machine.apply([opening(next)]).await.unwrap();
            assert_ne!(opened[0][0].1, Outcome::Session(session), "{layout:?}");
            let request = Some(RequestId { session, sequence: 6 });
            let command = Command::Write { conditions: Vec::new(), ops: Vec::new() };
            let write = Requests::new(&[Request { id: request, command }]);
            let log_id = LogId::new(last.leader_id, last.index + 2);
            let write = Entry { log_id, payload: EntryPayload::Normal(write) };
            let answered = machine.apply([write]).await.unwrap();
            assert_eq!(answered, [[(log_id.index, Outcome::SessionExpired)]], "{layout:?}");
            assert!(Hub::new(last.index).since("31-0".parse().unwrap(), b"").is_err());
        }
    }
}
