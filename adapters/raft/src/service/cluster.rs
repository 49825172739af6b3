//! The HTTP routes that change the cluster or show its status.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use openraft::error::{InitializeError, RaftError};
use openraft::{BasicNode, ChangeMembers};
use serde::{Deserialize, Serialize};

use crate::service::error::{ApiError, ApiResult};
use crate::service::identity::{Hello, lost};
use crate::service::leading::{forgets, propose};
use crate::service::node::Node;
use crate::service::peers;
use crate::service::query::json;
use crate::service::status::{Status, status};

/// Time limit for a new node to catch up.
const JOIN_TIMEOUT: Duration = Duration::from_secs(600);

/// Time without an answer of a new node after which it does not join.
const JOIN_SILENCE: Duration = Duration::from_secs(15);
const JOIN_PAUSE: Duration = Duration::from_millis(500);

/// Time for which a node that creates a cluster waits for the other nodes to start.
const INIT_WAIT: Duration = Duration::from_secs(8);
const INIT_PAUSE: Duration = Duration::from_millis(50);
const INITIALIZED: &str = "the node is part of a cluster already";

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

fn conflict(what: impl Into<String>) -> ApiError {
    ApiError::with(StatusCode::CONFLICT, what)
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
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> ApiResult<Json<Status>> {
    let InitBody { mut members } = json(&headers, body)?;
    if members.is_empty() {
        members.insert(node.id, node.identity.address.clone());
    }
    for address in members.values() {
        check_address(address)?;
    }
    let _busy = node.identity.make_busy()?;
    let cluster = create(&node, &members).await?;
    let others = members.iter().filter(|(id, _)| **id != node.id);
    for (id, address) in others {
        peers::claim(&node, &cluster, *id, address).await?;
    }
    let members: BTreeMap<u64, BasicNode> =
        members.into_iter().map(|(id, address)| (id, BasicNode::new(address))).collect();
    match node.raft.initialize(members).await {
        Ok(()) => Ok(Json(status(&node))),
        Err(RaftError::APIError(InitializeError::NotAllowed(_))) => Err(conflict(INITIALIZED)),
        Err(RaftError::APIError(error)) => Err(ApiError::bad(error.to_string())),
        Err(RaftError::Fatal(error)) => Err(ApiError::Unknown(error.to_string())),
    }
}

/// Makes the id of a new cluster, if this node and all others of `members` are new.
async fn create(node: &Arc<Node>, members: &BTreeMap<u64, String>) -> ApiResult<String> {
    if node.raft.is_initialized().await.map_err(ApiError::internal)? {
        return Err(conflict(INITIALIZED));
    }
    let known = node.identity.known();
    if let Some(by) = known.as_ref().and_then(|known| known.claimed_by.as_ref()) {
        let id = node.id;
        return Err(conflict(format!("node {id} was made part of a cluster by {by} already")));
    }
    if !members.contains_key(&node.id) {
        return Err(ApiError::bad(format!("this is node {}, which is not listed", node.id)));
    }
    let end = Instant::now() + INIT_WAIT;
    for (id, address) in members.iter().filter(|(id, _)| **id != node.id) {
        let own = known.as_ref().map(|known| &known.cluster);
        while let Err(error) = is_free(node, *id, address, own).await {
            if !matches!(error, ApiError::Unavailable(_)) || Instant::now() > end {
                return Err(error);
            }
            tokio::time::sleep(INIT_PAUSE).await;
        }
    }
    node.blocking(|node| node.identity.make_cluster()).await
}

/// Checks that the node `id` belongs to no cluster, or already to the one that is being created.
async fn is_free(node: &Node, id: u64, address: &str, own: Option<&String>) -> ApiResult<()> {
    let hello = peers::hello_of(node, id, address).await?;
    match hello.cluster {
        _ if hello.has_data => {
            Err(conflict(format!("node {id} at {address} is part of a cluster already")))
        }
        Some(other) if own != Some(&other) => {
            Err(conflict(format!("node {id} at {address} belongs to the cluster {other} already")))
        }
        None if hello.is_busy => {
            Err(ApiError::Unavailable(format!("node {id} is making a cluster")))
        }
        _ => Ok(()),
    }
}

/// Adds a node: as a learner until it has caught up, and then as a voter.
async fn join(
    State(node): State<Arc<Node>>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> ApiResult<Json<Status>> {
    let JoinBody { id, address } = json(&headers, body)?;
    check_address(&address)?;
    node.check_serves()?;
    let known = node.member(id);
    if let Some(known) = known.as_ref().filter(|known| **known != address) {
        return Err(conflict(format!("node {id} has another address, {known}")));
    }
    if id != node.id {
        admit(&node, id, &address, known.is_some()).await?;
    }
    let change = async {
        if known.is_none() {
            let learner = BasicNode::new(address.clone());
            propose(&node.raft, node.raft.add_learner(id, learner, false)).await?;
        }
        tokio::select! {
            () = caught_up(&node, id) => {}
            silent = falls_silent(&node, id, &address), if id != node.id => return Err(silent),
        }
        let mut voters = node.voters();
        voters.insert(id);
        node.check_majority(&format!("node {id} as a voter"), &voters).await?;
        change_members(&node, ChangeMembers::AddVoterIds([id].into())).await
    };
    match tokio::time::timeout(JOIN_TIMEOUT, change).await {
        Ok(result) => result.map(|()| Json(status(&node))),
        Err(_) => Err(ApiError::Unknown("the node has not caught up yet; ask for it again".into())),
    }
}

/// Makes the node `id` part of this node's cluster. Refuses a node of another cluster, and a member
/// whose directory was emptied.
async fn admit(node: &Arc<Node>, id: u64, address: &str, is_member: bool) -> ApiResult<()> {
    let Some(own) = node.identity.cluster() else {
        let what = "the cluster has no id yet: all of its nodes must run this version first";
        return Err(ApiError::Unavailable(what.into()));
    };
    let hello = hello_in_time(node, id, address).await?;
    match hello.cluster {
        Some(theirs) if theirs == own => Ok(()),
        Some(theirs) => Err(conflict(format!(
            "node {id} at {address} belongs to the cluster {theirs}, not to this one, {own}; to \
             join, it needs an empty directory"
        ))),
        None if hello.has_data => Err(conflict(format!(
            "node {id} at {address} has the data of a cluster; to join, it needs an empty directory"
        ))),
        None if is_member => Err(conflict(lost(id, address))),
        None => peers::claim(node, &own, id, address).await,
    }
}

/// Asks the node `id` who it is, for some time if it does not answer.
async fn hello_in_time(node: &Node, id: u64, address: &str) -> ApiResult<Hello> {
    let end = Instant::now() + JOIN_SILENCE;
    loop {
        match peers::hello_of(node, id, address).await {
            Err(ApiError::Unavailable(why)) if Instant::now() > end => {
                let seconds = JOIN_SILENCE.as_secs();
                let what = format!(
                    "node {id} at {address} has not answered for {seconds} s, so it does not join \
                     ({why}): start it, then ask again"
                );
                return Err(ApiError::with(StatusCode::BAD_GATEWAY, what));
            }
            Err(ApiError::Unavailable(_)) => tokio::time::sleep(JOIN_PAUSE).await,
            answer => return answer,
        }
    }
}

/// Returns when the node `id` has not answered for some time.
async fn falls_silent(node: &Node, id: u64, address: &str) -> ApiError {
    loop {
        if let Err(silent) = hello_in_time(node, id, address).await {
            return silent;
        }
        tokio::time::sleep(JOIN_PAUSE).await;
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
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> ApiResult<Json<Status>> {
    let LeaveBody { id } = json(&headers, body)?;
    node.check_serves()?;
    if node.member(id).is_none() {
        return Err(ApiError::with(StatusCode::NOT_FOUND, format!("there is no node {id}")));
    }
    let mut voters = node.voters();
    let change = match voters.remove(&id) {
        true => {
            node.check_majority(&format!("the removal of node {id}"), &voters).await?;
            ChangeMembers::RemoveVoters([id].into())
        }
        false => ChangeMembers::RemoveNodes([id].into()),
    };
    change_members(&node, change).await?;
    Ok(Json(status(&node)))
}

/// Changes the membership. Goes on if the client gives up, because a change has two steps, and the
/// cluster should not stay between them.
pub(crate) async fn change_members(
    node: &Arc<Node>,
    change: ChangeMembers<u64, BasicNode>,
) -> ApiResult<()> {
    let raft = node.raft.clone();
    let changed = tokio::spawn(async move {
        let forgets = forgets(&raft);
        tokio::select! {
            changed = propose(&raft, raft.change_membership(change, false)) => changed,
            () = forgets => {
                let what = "this node stopped leading: the members may still change";
                Err(ApiError::Unknown(what.into()))
            }
        }
    });
    changed.await.map_err(|panic| ApiError::Unknown(panic.to_string()))??;
    Ok(())
}

async fn snapshot(State(node): State<Arc<Node>>) -> ApiResult<Json<Status>> {
    node.raft.trigger().snapshot().await.map_err(ApiError::internal)?;
    Ok(Json(status(&node)))
}
