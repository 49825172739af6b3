//! Messages of a leader that contradict what a node has applied or holds. They are the result of
//! another loss, such as a directory that was replaced by an older copy.

use std::path::Path;
use std::sync::Arc;

use minikv::fs::SimFs;
use openraft::storage::{
    RaftLogReader, RaftLogReaderExt, RaftLogStorage, RaftLogStorageExt, RaftStateMachine,
};

use crate::common::{LAYOUTS, entry, id, open};

#[tokio::test]
async fn entries_that_were_applied_are_not_truncated() {
    for layout in LAYOUTS {
        let fs = Arc::new(SimFs::new(3));
        let (_store, mut log, mut machine) = open(fs, Path::new("/node"), layout).unwrap();
        log.blocking_append((0..=10).map(|index| entry(1, index))).await.unwrap();
        machine.apply((0..=6).map(|index| entry(1, index))).await.unwrap();

        log.truncate(id(1, 8)).await.unwrap();
        let error = log.truncate(id(1, 6)).await.unwrap_err().to_string();
        assert!(error.contains("other entries from entry 6 on"), "{layout:?}: {error}");
        let kept = log.try_get_log_entries(0..100).await.unwrap();
        assert_eq!(kept.len(), 8, "{layout:?}");
        log.truncate(id(1, 7)).await.unwrap();
    }
}

#[tokio::test]
async fn entries_after_a_gap_are_refused() {
    for layout in LAYOUTS {
        let fs = Arc::new(SimFs::new(3));
        let (store, mut log, machine) = open(fs.clone(), Path::new("/node"), layout).unwrap();
        log.blocking_append((0..=10).map(|index| entry(1, index))).await.unwrap();
        let error = log.blocking_append([entry(1, 12)]).await.unwrap_err().to_string();
        assert!(error.contains("entry 12 instead of entry 11"), "{layout:?}: {error}");
        log.blocking_append([entry(1, 11)]).await.unwrap();
        log.truncate(id(1, 5)).await.unwrap();
        assert!(log.blocking_append([entry(2, 6)]).await.is_err(), "{layout:?}");
        drop((store, log, machine));

        let (_store, mut log, _machine) = open(fs, Path::new("/node"), layout).unwrap();
        assert!(log.blocking_append([entry(2, 6)]).await.is_err(), "{layout:?}");
        log.blocking_append([entry(2, 5)]).await.unwrap();
        assert_eq!(log.get_log_entries(0..6).await.unwrap().len(), 6, "{layout:?}");
        // An installed snapshot continues after its end.
        log.purge(id(2, 20)).await.unwrap();
        assert!(log.blocking_append([entry(2, 22)]).await.is_err(), "{layout:?}");
        log.blocking_append([entry(2, 21)]).await.unwrap();
    }
}
