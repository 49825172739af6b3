//! Tests requests in sessions.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use minikv::fs::SimFs;
use minikv_raft::command::{Command, Op, Outcome, Request, RequestId};
use minikv_raft::kv::{Answered, TypeConfig};
use minikv_raft::requests::Requests;
use openraft::storage::RaftStateMachine;
use openraft::{Entry, EntryPayload};

use crate::common::{LAYOUTS, Machine, id, open};

async fn apply(machine: &mut Machine, index: u64, request: Request) -> Answered {
    let payload = EntryPayload::Normal(Requests::new(&[request]));
    let entry: Entry<TypeConfig> = Entry { log_id: id(1, index), payload };
    machine.apply([entry]).await.unwrap().remove(0).remove(0)
}

#[tokio::test]
async fn a_repeated_request_is_answered_with_the_entry_of_the_first_attempt() {
    for layout in LAYOUTS {
        let fs = Arc::new(SimFs::new(3));
        let (_store, _, mut machine) = open(fs, Path::new("/node"), layout).unwrap();
        let opening = Request { id: None, command: Command::OpenSession };
        let opened = apply(&mut machine, 0, opening).await;
        let (0, Outcome::Session(session)) = opened else { panic!("{opened:?}") };
        let put = |sequence: u64| {
            let op = Op { key: Bytes::from("a"), value: Some(Bytes::from("1")) };
            let command = Command::Write { conditions: Vec::new(), ops: vec![op] };
            Request { id: Some(RequestId { session, sequence }), command }
        };
        assert_eq!(apply(&mut machine, 1, put(1)).await, (1, Outcome::Written(true)));
        for index in [2, 3] {
            let again = apply(&mut machine, index, put(1)).await;
            assert_eq!(again, (1, Outcome::Written(true)), "{layout:?}");
        }
        assert_eq!(apply(&mut machine, 4, put(2)).await, (4, Outcome::Written(true)));
        assert_eq!(apply(&mut machine, 5, put(1)).await, (5, Outcome::Superseded));
    }
}
