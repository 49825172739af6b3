//! Code shared by the tests of the store. Commands have the same effect in every store, so the
//! index of the last entry determines the state of a store.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use minikv::fs::Fs;
use minikv_raft::command::{Command, Op, Request};
use minikv_raft::kv::{Kv, TypeConfig};
use minikv_raft::requests::Requests;
use minikv_raft::store::{Layout, LogStore, Result, StateMachine, Store, StoreOptions};
use minikv_raft::watch::Hub;
use openraft::{BasicNode, CommittedLeaderId, Entry, EntryPayload, LogId, Membership};

pub type Machine = StateMachine<TypeConfig, Kv>;
pub type Opened = (Arc<Store>, LogStore<TypeConfig>, Machine);
pub type Data = BTreeMap<Vec<u8>, Vec<u8>>;

pub const LAYOUTS: [Layout; 2] = [Layout::One, Layout::Two];

/// Opens a store. With two databases, the log is pipelined: it calls back before entries are
/// durable. With one database, the log is not pipelined.
pub fn open(fs: Arc<dyn Fs>, dir: &Path, layout: Layout) -> Result<Opened> {
    open_with(fs, dir, layout, layout == Layout::Two)
}

pub fn open_with(fs: Arc<dyn Fs>, dir: &Path, layout: Layout, is_ahead: bool) -> Result<Opened> {
    // The write buffer is small, so that tables are written and compacted.
    let database = minikv::Options::default().write_buffer_bytes(16 << 10);
    let store = Store::open(dir, StoreOptions { database, layout: Some(layout), fs })?;
    let log = match is_ahead {
        true => LogStore::pipelined(store.clone())?,
        false => LogStore::new(store.clone())?,
    };
    let machine = StateMachine::new(store.clone(), Kv::new(Arc::new(Hub::new(0))));
    Ok((store, log, machine))
}

pub fn id(term: u64, index: u64) -> LogId<u64> {
    LogId::new(CommittedLeaderId::new(term, 1), index)
}

/// Returns the members of the cluster after the entry `index`. Every 20 entries, another node
/// joins.
pub fn members(index: u64) -> BTreeSet<u64> {
    (1..=1 + index / 20).collect()
}

fn ops(index: u64) -> Vec<Op> {
    let key = |n: u64| Bytes::from(format!("key/{n:03}"));
    let value = format!("{index} ").repeat(1 + (index % 40) as usize);
    let mut ops = vec![Op { key: key(index % 31), value: Some(value.into()) }];
    if index.is_multiple_of(3) {
        ops.push(Op { key: key((index * 7) % 31), value: None });
    }
    ops
}

/// Returns the entry with this index. The entry is the same in every store, except for its term.
pub fn entry(term: u64, index: u64) -> Entry<TypeConfig> {
    let payload = if index.is_multiple_of(20) {
        let nodes: BTreeMap<u64, BasicNode> =
            members(index).into_iter().map(|id| (id, BasicNode::new(format!("n{id}:1")))).collect();
        EntryPayload::Membership(Membership::new(vec![members(index)], nodes))
    } else if index.is_multiple_of(17) {
        EntryPayload::Blank
    } else {
        let command = Command::Write { conditions: Vec::new(), ops: ops(index) };
        EntryPayload::Normal(Requests::new(&[Request { id: None, command }]))
    };
    Entry { log_id: id(term, index), payload }
}

/// Returns the user's entries in a state in which `last` is the index of the last applied entry.
pub fn data_after(last: Option<u64>) -> Data {
    let mut data = Data::new();
    for index in 0..last.map_or(0, |last| last + 1) {
        let EntryPayload::Normal(_) = entry(1, index).payload else { continue };
        for Op { key, value } in ops(index) {
            match value {
                Some(value) => data.insert(key.to_vec(), value.to_vec()),
                None => data.remove(&key[..]),
            };
        }
    }
    data
}
