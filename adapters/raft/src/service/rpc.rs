//! The HTTP routes for messages from other nodes.

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use openraft::Snapshot;
use openraft::raft::AppendEntriesRequest;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::kv::TypeConfig;
use crate::service::beats::is_accepted;
use crate::service::connections::Slot;
use crate::service::error::{ApiError, ApiResult};
use crate::service::identity::{Claim, Hello, sender};
use crate::service::network::{Finish, Offer};
use crate::service::node::Node;
use crate::service::notices::notice;
use crate::service::query::json;
use crate::service::stream::{MAX_MESSAGE_BYTES, PROTOCOL, Stream};
use crate::service::sums;
use crate::store::Position;

pub(crate) fn routes(node: &Arc<Node>) -> Router<Arc<Node>> {
    let of_strangers = Router::new()
        .route("/raft/hello", get(hello))
        .route("/raft/claim", post(claim))
        .layer(middleware::from_fn(sums::check));
    Router::new()
        .route("/raft/{to}/append", post(append_alone))
        .route("/raft/{to}/vote", post(vote))
        .route("/raft/{to}/snapshot", post(offer))
        .route("/raft/{to}/chunk/{id}/{file}/{offset}", post(chunk))
        .route("/raft/{to}/finish", post(finish))
        .layer(middleware::from_fn(sums::check))
        .route("/raft/{to}/stream", post(accept))
        .layer(middleware::from_fn_with_state(node.clone(), check_peer))
        .layer(DefaultBodyLimit::max(MAX_MESSAGE_BYTES))
        .merge(of_strangers)
}

/// Refuses messages meant for another node, as this node may have an address that previously
/// belonged to another node, and messages from another cluster.
async fn check_peer(State(node): State<Arc<Node>>, request: Request, next: Next) -> Response {
    let to = request.uri().path().split('/').nth(2).and_then(|to| to.parse::<u64>().ok());
    if to != Some(node.id) {
        let what = format!("this is node {}", node.id);
        return ApiError::with(StatusCode::NOT_FOUND, what).into_response();
    }
    if let Err(refused) = node.identity.check(request.headers()) {
        return refused.into_response();
    }
    if let Some(slot) = request.extensions().get::<Arc<Slot>>() {
        slot.is_of_peer();
    }
    #[cfg(feature = "faults")]
    {
        let from = sender(request.headers());
        if from.is_some_and(|id| node.faults.ignores(id)) {
            return ApiError::Unavailable("cut off by a test".into()).into_response();
        }
    }
    next.run(request).await
}

async fn hello(State(node): State<Arc<Node>>) -> axum::Json<Hello> {
    axum::Json(node.identity.hello())
}

/// Makes this node part of a cluster.
async fn claim(
    State(node): State<Arc<Node>>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> ApiResult<axum::Json<Hello>> {
    let claim: Claim = json(&headers, body)?;
    let claimed = node.clone();
    tokio::task::spawn_blocking(move || {
        let member = claimed.member(claim.from);
        claimed.identity.accept(&claim, member.as_deref())
    })
    .await
    .map_err(ApiError::internal)??;
    Ok(axum::Json(node.identity.hello()))
}

fn decode<T: DeserializeOwned>(body: &[u8]) -> ApiResult<T> {
    postcard::from_bytes(body).map_err(|e| ApiError::bad(format!("not a message: {e}")))
}

fn encode<T: Serialize>(answer: &T) -> ApiResult<Vec<u8>> {
    postcard::to_stdvec(answer).map_err(ApiError::internal)
}

async fn append_alone(State(node): State<Arc<Node>>, body: Bytes) -> ApiResult<Vec<u8>> {
    append(&node, &body).await
}

/// Handles a message with entries or a heartbeat, and returns the answer.
async fn append(node: &Arc<Node>, message: &[u8]) -> ApiResult<Vec<u8>> {
    let message: AppendEntriesRequest<TypeConfig> = decode(message)?;
    // A heartbeat confirms nothing that is not durable if its entry is, and need not wait for the
    // entries that are being written.
    let is_durable = |id| node.store.durable_part(id) == Some(id);
    let confirms = !message.entries.is_empty() || !message.prev_log_id.is_none_or(is_durable);
    let waiting = node.elections.wait(&message.vote);
    let answer = node.raft.append_entries(message).await.map_err(ApiError::internal)?;
    drop(waiting);
    if is_accepted(&answer) {
        node.hear();
    }
    if is_accepted(&answer) && confirms {
        node.store.log_durable().await.map_err(ApiError::internal)?;
    }
    encode(&answer)
}

/// Switches the connection to the protocol for messages, and answers messages until the other side
/// closes the connection.
async fn accept(State(node): State<Arc<Node>>, request: Request) -> Response {
    if request.headers().get(header::UPGRADE) != Some(&PROTOCOL) {
        let what = "this path needs `Upgrade: minikv-raft-3`";
        return ApiError::with(StatusCode::UPGRADE_REQUIRED, what).into_response();
    }
    let from = sender(request.headers());
    let slot = request.extensions().get::<Arc<Slot>>().cloned();
    tokio::spawn(async move {
        // The connection counts until the stream has ended.
        let _slot = slot;
        if let Ok(upgraded) = hyper::upgrade::on(request).await {
            // The sender notices that the connection has ended, and reconnects.
            if let Err(error) = answer_all(&node, from, Stream::new(upgraded)).await
                && error.kind() == io::ErrorKind::InvalidData
            {
                let from = from.map_or("an unknown node".into(), |id| format!("node {id}"));
                notice(format_args!("closes the connection from {from}: {error}"));
            }
        }
    });
    let mut headers = HeaderMap::new();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, PROTOCOL);
    (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}

#[cfg_attr(not(feature = "faults"), expect(unused_variables, reason = "for partitions in tests"))]
async fn answer_all(node: &Arc<Node>, from: Option<u64>, mut stream: Stream) -> io::Result<()> {
    while let Some(message) = stream.receive().await? {
        #[cfg(feature = "faults")]
        if from.is_some_and(|id| node.faults.ignores(id)) {
            return Ok(());
        }
        let answer = append(node, &message).await;
        #[cfg(feature = "faults")]
        node.faults.pass().await;
        stream.answer(answer.as_deref().map_err(ApiError::message)).await?;
    }
    Ok(())
}

async fn vote(State(node): State<Arc<Node>>, body: Bytes) -> ApiResult<Vec<u8>> {
    let answer = node.raft.vote(decode(&body)?).await.map_err(ApiError::internal)?;
    if answer.vote_granted {
        node.lease.voted(&answer.vote);
    }
    encode(&answer)
}

async fn offer(State(node): State<Arc<Node>>, body: Bytes) -> ApiResult<axum::Json<Position>> {
    let offer: Offer = serde_json::from_slice(&body).map_err(|e| ApiError::bad(e.to_string()))?;
    node.hear();
    let position = node.blocking(move |node| node.store.offer_snapshot(&offer.id, offer.files));
    Ok(axum::Json(position.await?))
}

async fn chunk(
    State(node): State<Arc<Node>>,
    Path((_, id, file, offset)): Path<(u64, String, usize, u64)>,
    body: Bytes,
) -> ApiResult<axum::Json<Position>> {
    node.hear();
    let at = Position { file, offset };
    let next = node.blocking(move |node| node.store.add_chunk(&id, at, &body));
    Ok(axum::Json(next.await?))
}

async fn finish(State(node): State<Arc<Node>>, body: Bytes) -> ApiResult<Response> {
    let Finish { vote, meta } =
        serde_json::from_slice(&body).map_err(|e| ApiError::bad(e.to_string()))?;
    let received = {
        let meta = meta.clone();
        node.blocking(move |node| node.store.finish_transfer(&meta)).await?
    };
    let snapshot = Snapshot { meta, snapshot: Box::new(received) };
    let _waiting = node.elections.wait(&vote);
    let answer = node.raft.install_full_snapshot(vote, snapshot).await;
    Ok(axum::Json(answer.map_err(ApiError::internal)?).into_response())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::{Duration, Instant};

    use clap::Parser;
    use minikv::fs::SimFs;
    use openraft::raft::{VoteRequest, VoteResponse};
    use openraft::{
        BasicNode, ChangeMembers, CommittedLeaderId, Entry, EntryPayload, LogId, ServerState, Vote,
    };

    use super::*;
    use crate::command::{Command, Op};
    use crate::service::cluster::change_members;
    use crate::service::node::NodeOptions;

    #[derive(Parser)]
    struct Options {
        #[command(flatten)]
        node: NodeOptions,
    }

    async fn start() -> Arc<Node> {
        let options = Options::parse_from(["node", "--id", "1", "--dir", "/node"]).node;
        Node::start_on(&options, Arc::new(SimFs::new(1))).await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_leader_that_has_voted_for_another_node_has_no_lease() {
        let node = start().await;
        let (lead, now) = (Vote::new_committed(1, 1), Instant::now());
        let until = || node.lease.until(&lead, 1, &[BTreeSet::from([1, 2, 3])], now);
        node.lease.accepted(&lead, 2, now);
        assert!(until().is_some());
        let message = encode(&VoteRequest::new(Vote::new(2, 3), None)).unwrap();
        let answer = vote(State(node.clone()), message.into()).await.unwrap();
        let answer: VoteResponse<u64> = decode(&answer).unwrap();
        assert!(answer.vote_granted);
        assert_eq!(until(), None);
        // Answers that come late do not bring it back.
        node.lease.accepted(&lead, 2, now);
        assert_eq!(until(), None);
    }

    fn put() -> crate::command::Request {
        let op = Op { key: "a".into(), value: Some("1".into()) };
        let command = Command::Write { conditions: Vec::new(), ops: vec![op] };
        crate::command::Request { id: None, command }
    }

    /// Waits until the log of a node ends with the entry `index`.
    async fn ends_at(node: &Node, index: u64) {
        let mut metrics = node.raft.metrics();
        let grown = metrics.wait_for(|metrics| metrics.last_log_index >= Some(index));
        tokio::time::timeout(Duration::from_secs(20), grown).await.expect("an entry").unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn entries_that_another_leader_drops_may_still_be_applied() {
        let node = start().await;
        let refused = node.writes.apply(put()).await;
        assert!(matches!(refused, Err(ApiError::NotLeader(None))), "{refused:?}");

        let address = || BasicNode::new("127.0.0.1:1");
        node.raft.initialize(BTreeMap::from([(1, address())])).await.unwrap();
        let mut metrics = node.raft.metrics();
        let leads = metrics.wait_for(|metrics| metrics.state == ServerState::Leader);
        let term = leads.await.map(|metrics| metrics.current_term).unwrap();
        node.writes.apply(put()).await.unwrap();
        let learner = node.raft.add_learner(2, address(), false).await.unwrap();

        // Node 2 never answers, so neither the change nor the write is committed.
        let last = learner.log_id;
        let changing = node.clone();
        let change = tokio::spawn(async move {
            change_members(&changing, ChangeMembers::AddVoterIds([2].into())).await
        });
        ends_at(&node, last.index + 1).await;
        let writing = node.clone();
        let write = tokio::spawn(async move { writing.writes.apply(put()).await });
        ends_at(&node, last.index + 2).await;

        let log_id = LogId::new(CommittedLeaderId::new(term + 1, 2), last.index + 1);
        let message: AppendEntriesRequest<TypeConfig> = AppendEntriesRequest {
            vote: Vote::new_committed(term + 1, 2),
            prev_log_id: Some(last),
            entries: vec![Entry { log_id, payload: EntryPayload::Blank }],
            leader_commit: None,
        };
        append(&node, &encode(&message).unwrap()).await.unwrap();
        let (change, write) = (change.await.unwrap(), write.await.unwrap());
        assert!(matches!(change, Err(ApiError::Unknown(_))), "{change:?}");
        assert!(matches!(write, Err(ApiError::Unknown(_))), "{write:?}");
    }
}
