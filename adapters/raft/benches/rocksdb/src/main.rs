//! A node with openraft's own RocksDB store: the log and state machine of the crate
//! `openraft-rocksstore`, unchanged, behind a small HTTP service, like that of openraft's example
//! `raft-kv-rocksdb`. `../cluster` compares clusters of such nodes with clusters of
//! `minikv-raft serve`.
//!
//! ```sh
//! cargo build --release        # in this folder; takes minutes to compile RocksDB's C++ code
//! target/release/openraft-rocksdb --id 1 --listen 127.0.0.1:17401 --dir DIR
//! curl --json '{"1": "127.0.0.1:17401"}' 127.0.0.1:17401/init
//! ```
//!
//! On Debian, this needs `clang`, `libclang-dev` and `g++`.
//!
//! # Durability
//!
//! The durability is weaker than in minikv-raft and etcd. `append_to_log` and `save_vote` of the
//! store (0.9.21) write to RocksDB without a sync, and openraft considers entries durable once
//! `append_to_log` returns. Only `apply_to_state_machine` ends with a sync of RocksDB's write-ahead
//! log, which also contains the entries of Raft's log. So when a put is acknowledged:
//!
//! - the leader has synced it, because it has applied it;
//! - the followers that make up the majority may have the put only in the kernel's memory. They
//!   sync it when they apply it, which is after they have heard of the commit;
//! - a vote may be only in the kernel's memory.
//!
//! A put survives killed processes, and the loss of power of a cluster of one. In a larger cluster,
//! a follower that loses power may forget a put that it had confirmed, and then help to elect a
//! leader without that put. An acknowledgement waits for one sync, the leader's; in minikv-raft and
//! etcd, it also waits for the sync of a follower. Any comparison of figures has to mention this.
//!
//! # Differences from the example
//!
//! Raft's settings are those of `minikv-raft serve`. Messages between nodes are in postcard's
//! format, over HTTP connections that stay open, as in minikv-raft; openraft sends snapshots in
//! chunks. As in the example, each request is a log entry of its own, and keys and values are
//! UTF-8.

mod network;
mod service;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use axum::serve::ListenerExt;
use clap::Parser;
use openraft::storage::Adaptor;
use openraft::{Config, Raft, SnapshotPolicy};
use openraft_rocksstore::RocksStore;
use tokio::net::TcpListener;

use crate::network::Network;
use crate::service::Node;

/// A node of a cluster that uses openraft's own RocksDB store.
#[derive(Parser)]
struct Args {
    /// Number of this node.
    #[arg(long)]
    id: u64,
    /// Address to listen on.
    #[arg(long, value_name = "IP:PORT")]
    listen: SocketAddr,
    /// Directory of the node, which is created if it is missing.
    #[arg(long)]
    dir: PathBuf,
}

/// Returns the settings of `minikv-raft serve`; see `raft_config` in `src/service/node.rs`.
fn raft_config() -> Config {
    Config {
        cluster_name: "rocksdb".into(),
        heartbeat_interval: 100,
        election_timeout_min: 300,
        election_timeout_max: 600,
        install_snapshot_timeout: 10_000,
        max_payload_entries: 256,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(50_000),
        max_in_snapshot_log_to_keep: 10_000,
        replication_lag_threshold: 50_000,
        purge_batch_size: 25_000,
        ..Config::default()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let config = Arc::new(raft_config().validate()?);
    let store = RocksStore::new(&args.dir).await;
    let (log, machine) = Adaptor::new(store.clone());
    let raft = Raft::new(args.id, config, Network::new(), log, machine).await?;
    let node = Arc::new(Node { id: args.id, raft, store });
    let listener = TcpListener::bind(args.listen).await?.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    eprintln!("openraft-rocksdb: node {} listens on {}", args.id, args.listen);
    axum::serve(listener, service::routes(node)).await?;
    Ok(())
}
