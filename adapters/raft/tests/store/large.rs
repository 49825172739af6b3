//! Tests of entries that are larger than all that the log keeps in memory.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use minikv::fs::SimFs;
use minikv_raft::command::{Command, Op, Request};
use minikv_raft::kv::TypeConfig;
use minikv_raft::requests::Requests;
use openraft::storage::{RaftLogReader, RaftLogStorageExt};
use openraft::{Entry, EntryPayload};

use crate::common::{LAYOUTS, id, open_with};

#[tokio::test]
async fn an_entry_that_is_not_durable_yet_can_be_read_however_large_it_is() {
    for layout in LAYOUTS {
        let fs = Arc::new(SimFs::new(3));
        let (_store, mut log, _machine) = open_with(fs, Path::new("/node"), layout, true).unwrap();
        let op = Op { key: Bytes::from("a"), value: Some(vec![b'x'; 17 << 20].into()) };
        let command = Command::Write { conditions: Vec::new(), ops: vec![op] };
        let requests = Requests::new(&[Request { id: None, command }]);
        for index in 0..3 {
            let payload = EntryPayload::Normal(requests.clone());
            let large: Entry<TypeConfig> = Entry { log_id: id(1, index), payload };
            log.blocking_append([large]).await.unwrap();
            let read = log.try_get_log_entries(index..=index).await.unwrap();
            let found: Vec<_> = read.iter().map(|entry| entry.log_id).collect();
            assert_eq!(found, [id(1, index)], "{layout:?}");
        }
        assert_eq!(log.try_get_log_entries(0..3).await.unwrap().len(), 3, "{layout:?}");
    }
}
