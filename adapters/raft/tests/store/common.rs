//! What the tests of the store share.

use std::path::Path;
use std::sync::Arc;

use minikv_raft::kv::{Kv, TypeConfig};
use minikv_raft::store::{Layout, LogStore, StateMachine, Store, StoreOptions};
use minikv_raft::watch::Hub;

pub type Machine = StateMachine<TypeConfig, Kv>;

pub const LAYOUTS: [Layout; 2] = [Layout::One, Layout::Two];

pub fn open(dir: &Path, layout: Layout) -> (Arc<Store>, LogStore<TypeConfig>, Machine) {
    let options = StoreOptions { layout: Some(layout), ..StoreOptions::default() };
    let store = Store::open(dir, options).unwrap();
    let log = LogStore::new(store.clone()).unwrap();
    let machine = StateMachine::new(store.clone(), Kv::new(Arc::new(Hub::new(0))));
    (store, log, machine)
}
