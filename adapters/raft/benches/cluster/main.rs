//! Measures a cluster on this machine: synced puts, the time without a leader after the leader is
//! killed, and the time that a node takes to catch up after it has missed many writes. With
//! `--etcd`, etcd is measured, too, in turns and on the same disk. With `--rocksdb FILE`,
//! openraft's own RocksDB store is measured, too; its followers confirm entries before they sync
//! them.
//!
//! ```sh
//! cargo bench --bench cluster -- --nodes 1,3,5 --clients 1,16,128 --seconds 10 --rounds 3 --etcd
//! ```
//!
//! Every put has a key of 16 bytes, in random order, and a value of 100 bytes. A client waits for
//! one put before it sends the next. minikv and etcd sync on a majority before they acknowledge.
//! Clusters run as processes with their defaults, except that all use minikv's heartbeats and
//! election timeouts, so that failovers can be compared. Clients speak to etcd by gRPC, as etcd's
//! own clients do, and to the others by HTTP.

mod etcd;
mod minikv;
mod outages;
mod processes;
mod rocksdb;
mod table;
mod usage;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;

use crate::processes::Processes;
use crate::table::Row;
use crate::usage::Usage;

/// Total size of the key and the value of a put, in bytes.
const PUT_BYTES: u64 = 116;

// A fast allocator: clients run on the same machine as the nodes and should take little CPU time
// from them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
struct Args {
    /// Numbers of nodes of the clusters.
    #[arg(long, value_delimiter = ',', default_value = "1,3,5")]
    nodes: Vec<usize>,
    /// Numbers of concurrent clients.
    #[arg(long, value_delimiter = ',', default_value = "1,16,128")]
    clients: Vec<usize>,
    /// Length of each run, in seconds.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Number of runs of each measurement. The run with the median number of puts per second is
    /// shown.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Number of times to kill the leader.
    #[arg(long, default_value_t = 3)]
    kills: usize,
    /// Total size, in MiB, of the values that a stopped node misses and must catch up on; 0 skips
    /// this measurement.
    #[arg(long, default_value_t = 0)]
    catch_up: u64,
    /// Measure etcd, too. etcd must be installed.
    #[arg(long)]
    etcd: bool,
    /// Measure openraft's RocksDB store, too. FILE is the binary built by benches/rocksdb.
    #[arg(long, value_name = "FILE")]
    rocksdb: Option<PathBuf>,
    /// Layouts of minikv's nodes. Each may name the command to run instead of this build's.
    #[arg(long, value_delimiter = ',', value_name = "LAYOUT[=COMMAND]", default_value = "two")]
    layouts: Vec<String>,
    /// Directory on the disk to be measured [default: a temporary one]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Passed by `cargo bench`.
    #[arg(long, hide = true)]
    bench: bool,
}

/// A running cluster of nodes.
trait Cluster: Sized + Send + Sync + 'static {
    /// Starts `nodes` nodes with directories below `dir`, and waits for a leader.
    fn start(name: &str, nodes: usize, dir: &std::path::Path) -> impl Future<Output = Self>;
    /// Puts an entry over the connection that belongs to `client`.
    fn put(
        &self,
        client: usize,
        key: Vec<u8>,
        value: Vec<u8>,
    ) -> impl Future<Output = Result<(), String>> + Send;
    /// Starts a node for the first time, or restarts it.
    fn restart(&self, node: usize);
    /// Returns the index of the leader in the list of nodes.
    fn leader(&self) -> impl Future<Output = Option<usize>>;
    /// Returns the index of the last entry that a node has applied; `None` if the node does not
    /// answer.
    fn applied(&self, node: usize) -> impl Future<Output = Option<u64>> + Send;
    /// Returns the processes of the nodes.
    fn processes(&self) -> &Processes;

    /// Kills the leader, and returns the leader's index in the list of nodes.
    async fn kill_leader(&self) -> usize {
        let node = self.leader().await.expect("a leader");
        self.processes().kill(node);
        node
    }

    /// Kills a node that is not the leader, and returns the node's index in the list of nodes.
    async fn kill_follower(&self) -> usize {
        let leader = self.leader().await.expect("a leader");
        let node = (leader + 1) % self.processes().len();
        self.processes().kill(node);
        node
    }
}

pub fn main() {
    let args = Args::parse();
    if let Some(command) = &args.rocksdb {
        rocksdb::COMMAND.set(command.clone()).expect("set once");
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let mut rows = Vec::new();
        for &nodes in &args.nodes {
            for &clients in &args.clients {
                let mut runs: Vec<Vec<Row>> = vec![Vec::new(); args.layouts.len() + 2];
                for _ in 0..args.rounds {
                    for (at, layout) in args.layouts.iter().enumerate() {
                        runs[at].push(puts::<minikv::Minikv>(layout, nodes, clients, &args).await);
                    }
                    if args.etcd {
                        let run = puts::<etcd::Etcd>("etcd", nodes, clients, &args).await;
                        runs[args.layouts.len()].push(run);
                    }
                    if args.rocksdb.is_some() {
                        let run = puts::<rocksdb::RocksDb>("rocksdb", nodes, clients, &args).await;
                        runs[args.layouts.len() + 1].push(run);
                    }
                }
                rows.extend(runs.into_iter().filter_map(table::median));
            }
        }
        table::print(&rows);
        outages::<minikv::Minikv>(&args.layouts[0], &args).await;
        if args.etcd {
            outages::<etcd::Etcd>("etcd", &args).await;
        }
        if args.rocksdb.is_some() {
            outages::<rocksdb::RocksDb>("rocksdb", &args).await;
        }
    });
}

/// Measures the cost of losing a node: failovers and catching up.
async fn outages<C: Cluster>(name: &str, args: &Args) {
    if args.kills > 0 {
        outages::failovers::<C>(name, args).await;
    }
    if args.catch_up > 0 {
        outages::catch_up::<C>(name, args).await;
    }
}

fn home(args: &Args) -> tempfile::TempDir {
    match &args.dir {
        Some(dir) => tempfile::tempdir_in(dir),
        None => tempfile::tempdir(),
    }
    .expect("a directory")
}

fn key(state: &mut u64) -> Vec<u8> {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    format!("{:016x}", *state).into_bytes()
}

async fn puts<C: Cluster>(name: &str, nodes: usize, clients: usize, args: &Args) -> Row {
    let home = home(args);
    let cluster = Arc::new(C::start(name, nodes, home.path()).await);
    let before = Usage::of(&cluster.processes().ids());
    let start = Instant::now();
    // The warm-up takes one fifth of the time that is measured.
    let length = Duration::from_secs(args.seconds);
    let warm = length / 5;
    let tasks: Vec<_> = (0..clients)
        .map(|client| {
            let cluster = cluster.clone();
            tokio::spawn(async move {
                let (mut state, mut latencies, mut puts) = (client as u64 + 1, Vec::new(), 0);
                while start.elapsed() < warm + length {
                    let (key, value) = (key(&mut state), vec![b'v'; 100]);
                    let sent = Instant::now();
                    cluster.put(client, key, value).await.expect("a put");
                    puts += 1;
                    if start.elapsed() > warm {
                        latencies.push(sent.elapsed());
                    }
                }
                (latencies, puts)
            })
        })
        .collect();
    let (mut latencies, mut puts) = (Vec::new(), 0);
    for task in tasks {
        let (taken, count) = task.await.expect("a client");
        latencies.extend(taken);
        puts += count;
    }
    let usage = Usage::of(&cluster.processes().ids());
    let written =
        (usage.written - before.written) as f64 / (puts * PUT_BYTES * nodes as u64) as f64;
    Row::new(name, [nodes, clients], length, latencies, written, usage.peak_memory)
}
