//! The HTTP routes that change the cluster or show its status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use openraft::error::{InitializeError, RaftError};
use openraft::{BasicNode, ChangeMembers};
use serde::{Deserialize, Serialize};

use crate::service::error::{ApiError, ApiResult};
use crate::service::node::Node;
use crate::service::query::json;

/// Time limit for a new node to catch up.
const JOIN_TIMEOUT: Duration = Duration::from_secs(600);

/// Maximum length of the round after which a new node counts as caught up. In a round, the node
/// must receive all entries that the leader had at the beginning of the round. With a longer limit,
/// writes may have to wait longer after the node becomes a voter.
const CATCH_UP_ROUND: Duration = Duration::from_millis(300);

/// The numbers and addresses of the nodes of a new cluster. An empty map stands for a cluster of
/// only this node.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InitBody {
    #[serde(default)]
    pub(crate) members: BTreeMap<u64, String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JoinBody {
    pub(crate) id: u64,
    pub(crate) address: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LeaveBody {
    pub(crate) id: u64,
}

/// The status of the cluster, as one node knows it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Status {
    /// The number of this node.
    pub id: u64,
    /// The address of this node.
    pub address: String,
    /// The role of this node: `Leader`, `Follower`, `Candidate` or `Learner`.
    pub role: String,
    /// The current term of this node.
    pub term: u64,
    /// The number of the leader, if this node knows a leader.
    pub leader: Option<u64>,
    /// The index of the last entry in this node's log.
    pub last_log: Option<u64>,
    /// The index of the last entry that this node has applied.
    pub applied: Option<u64>,
    /// The index of the last entry in this node's latest snapshot.
    pub snapshot: Option<u64>,
    /// The index of the last entry that was purged from the log.
    pub purged: Option<u64>,
    /// The nodes that vote: one set of nodes, or two sets during a change of the membership.
    pub voters: Vec<BTreeSet<u64>>,
    /// All nodes, with their addresses.
    pub nodes: BTreeMap<u64, String>,
    /// For each node, the index of the last log entry that the node has. Empty unless this node is
    /// the leader.
    pub replicated: BTreeMap<u64, Option<u64>>,
    /// The layout of this node: log and state in one database, or in two.
    pub layout: String,
    /// The reason why Raft has stopped on this node, if it has.
    pub failure: Option<String>,
}

pub(crate) fn routes() -> Router<Arc<Node>> {
    Router::new()
        .route(
            "/v1/status",
            get(|State(node): State<Arc<Node>>| async move { Json(status(&node)) }),
        )
        .route("/v1/cluster/init", post(init))
        .route("/v1/cluster/join", post(join))
        .route("/v1/cluster/leave", post(leave))
        .route("/v1/cluster/snapshot", post(snapshot))
}

pub(crate) fn status(node: &Node) -> Status {
    let metrics = node.raft.metrics().borrow().clone();
    let membership = metrics.membership_config.membership();
    let replicated = metrics.replication.unwrap_or_default();
    Status {
        id: node.id,
        address: node.address.clone(),
        role: format!("{:?}", metrics.state),
        term: metrics.current_term,
        leader: metrics.current_leader,
        last_log: metrics.last_log_index,
        applied: metrics.last_applied.map(|id| id.index),
        snapshot: metrics.snapshot.map(|id| id.index),
        purged: metrics.purged.map(|id| id.index),
        voters: membership.get_joint_config().clone(),
        nodes: membership.nodes().map(|(id, node)| (*id, node.addr.clone())).collect(),
        replicated: replicated.iter().map(|(id, at)| (*id, at.map(|at| at.index))).collect(),
        layout: format!("{:?}", node.store.layout()).to_lowercase(),
        failure: metrics.running_state.err().map(|error| error.to_string()),
    }
}

fn check_address(address: &str) -> ApiResult<()> {
    let is_good = address.rsplit_once(':').is_some_and(|(host, port)| {
        let is_host = |c: char| c.is_ascii_alphanumeric() || ".-_[]:".contains(c);
        !host.is_empty() && host.chars().all(is_host) && port.parse::<u16>().is_ok()
    });
    match is_good {
        true => Ok(()),
        false => Err(ApiError::bad(format!("`{address}` is not HOST:PORT"))),
    }
}

async fn init(
    State(node): State<Arc<Node>>,
    body: Result<Bytes, BytesRejection>,
) -> ApiResult<Json<Status>> {
    let InitBody { mut members } = json(body)?;
    if members.is_empty() {
        members.insert(node.id, node.address.clone());
    }
    for address in members.values() {
        check_address(address)?;
    }
    let members: BTreeMap<u64, BasicNode> =
        members.into_iter().map(|(id, address)| (id, BasicNode::new(address))).collect();
    match node.raft.initialize(members).await {
        Ok(()) => Ok(Json(status(&node))),
        Err(RaftError::APIError(InitializeError::NotAllowed(_))) => {
            Err(ApiError::with(StatusCode::CONFLICT, "the node is part of a cluster already"))
        }
        Err(RaftError::APIError(error)) => Err(ApiError::bad(error.to_string())),
        Err(RaftError::Fatal(error)) => Err(ApiError::internal(error)),
    }
}

/// Adds a node: as a learner until it has caught up, and then as a voter.
async fn join(
    State(node): State<Arc<Node>>,
    body: Result<Bytes, BytesRejection>,
) -> ApiResult<Json<Status>> {
    let JoinBody { id, address } = json(body)?;
    check_address(&address)?;
    let known = status(&node).nodes.get(&id).cloned();
    if known.as_ref().is_some_and(|known| *known != address) {
        let what = format!("node {id} has another address, {}", known.unwrap_or_default());
        return Err(ApiError::with(StatusCode::CONFLICT, what));
    }
    let change = async {
        if known.is_none() {
            node.raft.add_learner(id, BasicNode::new(address), false).await?;
        }
        caught_up(&node, id).await;
        node.raft.change_membership(ChangeMembers::AddVoterIds([id].into()), false).await?;
        Ok::<(), ApiError>(())
    };
    match tokio::time::timeout(JOIN_TIMEOUT, change).await {
        Ok(result) => result.map(|()| Json(status(&node))),
        Err(_) => Err(ApiError::Unknown("the node has not caught up yet; ask for it again".into())),
    }
}

/// Waits until the node `id` has caught up. In the last round, the node must receive, within
/// [`CATCH_UP_ROUND`], all entries that this node had at the beginning of the round. A voter that
/// lags further behind would raise the quorum without helping to reach it. Returns early if this
/// node is not the leader.
async fn caught_up(node: &Node, id: u64) {
    let mut metrics = node.raft.metrics();
    loop {
        let (start, last) = (Instant::now(), metrics.borrow().last_log_index);
        let has_it = metrics.wait_for(|metrics| {
            let Some(replicated) = &metrics.replication else { return true };
            let matched = replicated.get(&id).copied().flatten();
            matched.map(|id| id.index) >= last.max(Some(0))
        });
        let leads = has_it.await.is_ok_and(|metrics| metrics.replication.is_some());
        if !leads || start.elapsed() < CATCH_UP_ROUND {
            return;
        }
    }
}

async fn leave(
    State(node): State<Arc<Node>>,
    body: Result<Bytes, BytesRejection>,
) -> ApiResult<Json<Status>> {
    let LeaveBody { id } = json(body)?;
    let now = status(&node);
    if !now.nodes.contains_key(&id) {
        return Err(ApiError::with(StatusCode::NOT_FOUND, format!("there is no node {id}")));
    }
    let change = match now.voters.iter().any(|voters| voters.contains(&id)) {
        true => ChangeMembers::RemoveVoters([id].into()),
        false => ChangeMembers::RemoveNodes([id].into()),
    };
    node.raft.change_membership(change, false).await?;
    Ok(Json(status(&node)))
}

async fn snapshot(State(node): State<Arc<Node>>) -> ApiResult<Json<Status>> {
    node.raft.trigger().snapshot().await.map_err(ApiError::internal)?;
    Ok(Json(status(&node)))
}
