//! A node: Raft, the store of the node, and background tasks.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::http::HeaderValue;
use minikv::fs::{DiskFs, Fs};
use openraft::{Config, Raft, ServerState, SnapshotPolicy};

use crate::kv::{Kv, TypeConfig};
use crate::service::elections::Elections;
use crate::service::error::{ApiError, ApiResult};
use crate::service::hosts::Hosts;
use crate::service::identity::Identity;
use crate::service::kept::Backups;
use crate::service::leading::leader;
use crate::service::lease::Lease;
use crate::service::rounds::Rounds;
use crate::service::stream::MAX_MESSAGE_BYTES;
use crate::service::target::Network;
use crate::service::tls::Security;
use crate::service::trim::{Limits, trim};
use crate::service::wire::Wire;
use crate::service::writes::Writes;
use crate::store::{Layout, LogStore, StateMachine, Store, StoreOptions};
use crate::watch::Hub;

/// The options of a node.
#[derive(Clone, Debug, clap::Args)]
pub struct NodeOptions {
    /// Number of this node. No other node of the cluster may have, or have had, this number.
    #[arg(long)]
    pub id: u64,
    /// Directory of the node, which is created if it is missing.
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    /// Address to listen on.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:7101")]
    pub listen: SocketAddr,
    /// Address under which others reach this node [default: the address of --listen]
    #[arg(long, value_name = "HOST:PORT")]
    pub advertise: Option<String>,
    #[command(flatten)]
    pub security: Security,
    /// Layout of a new node: log and state in one database, or in two.
    #[arg(long, value_enum, default_value = "two")]
    pub layout: LayoutArg,
    /// Time between two heartbeats of the leader, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 100)]
    pub heartbeat: u64,
    /// Maximum time without a leader before an election starts, in milliseconds. The leader's lease
    /// lasts half as long.
    #[arg(long, value_name = "MS", default_value_t = 600)]
    pub election_timeout: u64,
    /// Number of log entries after which a snapshot is made.
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    pub snapshot_every: u64,
    /// Number of entries before a snapshot that stay in the log for nodes that lag behind.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub keep_entries: u64,
    /// Size of the log entries, in bytes, after which a snapshot is made.
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    pub snapshot_bytes: u64,
    /// Size of the entries before a snapshot, in bytes, that stay in the log for nodes that lag
    /// behind. Entries beyond either limit are purged.
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    pub keep_bytes: u64,
    /// Maximum size of the body of a request, in bytes. At most 64 MiB, as entries must fit into
    /// messages between nodes.
    #[arg(long, value_name = "BYTES", default_value_t = 4 << 20, value_parser = request_bytes)]
    pub max_request_bytes: usize,
    /// Maximum number of open connections, of which up to 64 are kept back for other nodes. At most
    /// half the number of files that the process may open.
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub max_connections: usize,
    /// Names, besides addresses, `localhost` and the name in --advertise, under which clients reach
    /// this node. Requests for other names are refused, as pages of other sites could send them.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub allow_host: Vec<String>,
}

/// Parses the maximum size of a body. The entry of a request must fit into a message several times,
/// because a message begins before the limit of its entries is reached.
fn request_bytes(text: &str) -> Result<usize, String> {
    const MOST: usize = MAX_MESSAGE_BYTES / 4;
    let bytes = text.parse().map_err(|e: std::num::ParseIntError| e.to_string())?;
    match (1..=MOST).contains(&bytes) {
        true => Ok(bytes),
        false => Err(format!("from 1 to {MOST}")),
    }
}

impl NodeOptions {
    fn limits(&self) -> Limits {
        Limits { snapshot: self.snapshot_bytes, keep: self.keep_bytes }
    }
}

/// The values of [`Layout`] on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LayoutArg {
    One,
    Two,
}

impl From<LayoutArg> for Layout {
    fn from(layout: LayoutArg) -> Layout {
        match layout {
            LayoutArg::One => Layout::One,
            LayoutArg::Two => Layout::Two,
        }
    }
}

/// Numbers of requests since the node started.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) reads: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) client_errors: AtomicU64,
    pub(crate) server_errors: AtomicU64,
    pub(crate) redirects: AtomicU64,
}

/// A node of a cluster.
pub struct Node {
    pub(crate) id: u64,
    pub(crate) identity: Arc<Identity>,
    pub(crate) wire: Wire,
    pub(crate) raft: Raft<TypeConfig>,
    pub(crate) store: Arc<Store>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) lease: Arc<Lease>,
    pub(crate) elections: Arc<Elections>,
    /// When this node last took a message of a leader.
    pub(crate) heard: Mutex<Option<Instant>>,
    /// The time without an answer after which another node counts as down.
    pub(crate) patience: Duration,
    /// Description of what is wrong with the directory of the node.
    pub(crate) home_problem: Mutex<Option<String>>,
    /// The time that a write to the log may take.
    pub(crate) stall_limit: Duration,
    pub(crate) writes: Writes,
    pub(crate) rounds: Rounds,
    pub(crate) backups: Backups,
    pub(crate) counters: Counters,
    pub(crate) token: Option<Arc<HeaderValue>>,
    pub(crate) scheme: &'static str,
    pub(crate) hosts: Hosts,
    pub(crate) max_request_bytes: usize,
    #[cfg(feature = "faults")]
    pub(crate) faults: Arc<super::faults::Faults>,
}

pub(crate) fn in_words(what: &str) -> impl Fn(&dyn std::fmt::Display) -> String {
    move |error| format!("{what}: {error}")
}

impl Node {
    /// Opens the store and starts Raft.
    ///
    /// # Errors
    /// A message that describes the failure.
    pub async fn start(options: &NodeOptions) -> Result<Arc<Node>, String> {
        Node::start_on(options, Arc::new(DiskFs)).await
    }

    /// Returns the faults of the node, which tests control.
    #[cfg(feature = "faults")]
    pub fn faults(&self) -> &super::Faults {
        &self.faults
    }

    /// Opens the store in the filesystem `fs` and starts Raft.
    ///
    /// # Errors
    /// A message that describes the failure.
    pub async fn start_on(options: &NodeOptions, fs: Arc<dyn Fs>) -> Result<Arc<Node>, String> {
        options.security.check_address(&options.listen)?;
        let token = options.security.trust.token()?;
        let wire = Wire::new(options.security.trust.client_config()?, token.clone());
        let config = raft_config(options)?;
        let lease_length = Duration::from_millis(config.election_timeout_max);
        let lease = Arc::new(Lease::new(lease_length));

        let failed = |e: crate::store::Error| e.to_string();
        let is_new = Store::is_new(&*fs, &options.dir).map_err(failed)?;
        let layout = is_new.then(|| options.layout.into());
        let store_options = StoreOptions { layout, fs, ..StoreOptions::default() };
        let store = Store::open(&options.dir, store_options).map_err(failed)?;
        store.claim(options.id).map_err(failed)?;
        let applied = store.state().applied().map_err(failed)?;
        let hub = Arc::new(Hub::new(applied.map_or(0, |id| id.index)));
        let log = LogStore::pipelined(store.clone()).map_err(failed)?;
        log.step_down(options.id).map_err(failed)?;
        let machine = StateMachine::new(store.clone(), Kv::new(hub.clone()));
        #[cfg(feature = "faults")]
        let faults = Arc::new(super::faults::Faults::default());
        let address = options.advertise.clone().unwrap_or_else(|| options.listen.to_string());
        let hosts = Hosts::new(&address, &options.allow_host);
        let identity = Identity::new(options.id, address, store.clone()).map_err(failed)?;
        let identity = Arc::new(identity);
        // Long enough for disks that are only slow: if all are, no other node leads better.
        let stall_limit = Duration::from_millis(options.election_timeout * 6);
        let network = Network {
            identity: identity.clone(),
            wire: wire.clone(),
            lease: lease.clone(),
            heartbeat: Duration::from_millis(options.heartbeat),
            stall_limit,
            store: store.clone(),
            #[cfg(feature = "faults")]
            faults: faults.clone(),
        };
        let raft = Raft::new(options.id, Arc::new(config), network, log.clone(), machine)
            .await
            .map_err(|e| in_words("Raft does not start")(&e))?;
        let has_data = raft.is_initialized().await;
        identity.set_has_data(has_data.map_err(|e| in_words("Raft does not start")(&e))?);
        tokio::spawn(trim(raft.clone(), log, options.limits()));
        Ok(Arc::new(Node {
            id: options.id,
            identity,
            wire,
            writes: Writes::new(raft.clone()),
            rounds: Rounds::new(raft.clone()),
            backups: Backups::watched(),
            elections: Elections::watched(raft.clone(), lease_length),
            raft,
            store,
            hub,
            lease,
            heard: Mutex::new(None),
            patience: Duration::from_millis(options.election_timeout * 3),
            home_problem: Mutex::default(),
            stall_limit,
            counters: Counters::default(),
            token,
            scheme: if options.security.cert.is_some() { "https" } else { "http" },
            hosts,
            max_request_bytes: options.max_request_bytes,
            #[cfg(feature = "faults")]
            faults,
        }))
    }

    /// Returns the address of the node `id`, if it is a member of this node's cluster.
    pub(crate) fn member(&self, id: u64) -> Option<String> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        metrics.membership_config.membership().get_node(&id).map(|node| node.addr.clone())
    }

    /// Lists the numbers and addresses of the other members.
    pub(crate) fn other_members(&self) -> Vec<(u64, String)> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let nodes = metrics.membership_config.membership().nodes();
        let others = nodes.filter(|(id, _)| **id != self.id);
        others.map(|(id, node)| (*id, node.addr.clone())).collect()
    }

    /// Returns the voters of the cluster. During a change of the membership, these are the voters
    /// after the change.
    pub(crate) fn voters(&self) -> BTreeSet<u64> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let configs = metrics.membership_config.membership().get_joint_config();
        configs.last().cloned().unwrap_or_default()
    }

    /// Returns whether this node believes that it is the leader.
    pub(crate) fn leads(&self) -> bool {
        self.raft.metrics().borrow().state == ServerState::Leader
    }

    /// Redirects to the leader if this node is not the leader. Refuses if this node has stopped
    /// leading because of its disk, and does not know the next leader yet.
    pub(crate) fn check_leads(&self) -> ApiResult<()> {
        if self.leads() {
            let stall = self.store.log_stall(self.stall_limit);
            return stall.map_or(Ok(()), |stall| Err(ApiError::Unavailable(stall)));
        }
        let leader = leader(&self.raft.metrics().borrow(), self.id);
        Err(ApiError::NotLeader(leader.and_then(|id| self.member(id))))
    }

    /// Runs blocking work on a thread that does not run async tasks.
    pub(crate) async fn blocking<T: Send + 'static>(
        self: &Arc<Node>,
        work: impl FnOnce(&Node) -> crate::store::Result<T> + Send + 'static,
    ) -> ApiResult<T> {
        let node = self.clone();
        match tokio::task::spawn_blocking(move || work(&node)).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(crate::store::Error::Refused(what))) => Err(ApiError::bad(what)),
            Ok(Err(error)) => Err(ApiError::internal(error)),
            Err(panic) => Err(ApiError::internal(panic)),
        }
    }
}

fn raft_config(options: &NodeOptions) -> Result<Config, String> {
    let config = Config {
        cluster_name: "minikv".into(),
        heartbeat_interval: options.heartbeat,
        // Before it starts an election, openraft waits for the lease, which lasts
        // `election_timeout_max`, and then for a random time between these two limits.
        election_timeout_min: options.election_timeout / 3,
        election_timeout_max: options.election_timeout / 2,
        install_snapshot_timeout: 10_000,
        max_payload_entries: 256,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(options.snapshot_every),
        max_in_snapshot_log_to_keep: options.keep_entries,
        replication_lag_threshold: options.snapshot_every.max(options.keep_entries),
        // A purge is a range deletion, so a few large purges are better than many small ones.
        purge_batch_size: (options.snapshot_every / 2).max(1),
        ..Config::default()
    };
    config.validate().map_err(|e| e.to_string())
}
