//! The HTTP routes of a node: entries, the cluster, and messages from other nodes.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::header::LOCATION;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use openraft::error::{ForwardToLeader, RaftError};
use openraft::{BasicNode, Raft, TryAsRef};
use openraft_rocksstore::{RocksRequest, RocksStore, TypeConfig};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Time limit of a write. After a timeout, the outcome of the write is unknown.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a message, in bytes. No node sends a larger message.
const MAX_MESSAGE_BYTES: usize = 256 << 20;

pub struct Node {
    pub id: u64,
    pub raft: Raft<TypeConfig>,
    pub store: Arc<RocksStore>,
}

type Failure = (StatusCode, String);

pub fn routes(node: Arc<Node>) -> Router {
    let messages = Router::new()
        .route("/raft/append", post(append))
        .route("/raft/vote", post(vote))
        .route("/raft/snapshot", post(snapshot))
        .layer(DefaultBodyLimit::max(MAX_MESSAGE_BYTES));
    Router::new()
        .route("/v1/kv/{*key}", put(put_entry).get(get_entry))
        .route("/init", post(init))
        .route("/status", get(status))
        .merge(messages)
        .with_state(node)
}

fn internal(error: impl Display) -> Failure {
    (StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

/// Redirects the client to the leader, if another node is the leader. Otherwise, returns a status
/// that lets the client try again, unless Raft has stopped.
fn refused<E>(error: &RaftError<u64, E>, uri: &Uri) -> Response
where
    E: std::error::Error + TryAsRef<ForwardToLeader<u64, BasicNode>>,
{
    let leader = error.forward_to_leader().and_then(|forward| forward.leader_node.as_ref());
    if let Some(leader) = leader {
        let location = format!("http://{}{}", leader.addr, uri.path());
        let body = Json(json!({ "error": error.to_string(), "leader": leader.addr }));
        return (StatusCode::TEMPORARY_REDIRECT, [(LOCATION, location)], body).into_response();
    }
    let status = match error.fatal() {
        Some(_) => StatusCode::INTERNAL_SERVER_ERROR,
        None => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, Json(json!({ "error": error.to_string() }))).into_response()
}

async fn put_entry(
    State(node): State<Arc<Node>>,
    Path(key): Path<String>,
    uri: Uri,
    value: String,
) -> Response {
    let write = node.raft.client_write(RocksRequest::Set { key, value });
    match tokio::time::timeout(WRITE_TIMEOUT, write).await {
        Ok(Ok(_)) => StatusCode::OK.into_response(),
        Ok(Err(error)) => refused(&error, &uri),
        Err(_) => StatusCode::GATEWAY_TIMEOUT.into_response(),
    }
}

async fn get_entry(State(node): State<Arc<Node>>, Path(key): Path<String>, uri: Uri) -> Response {
    match node.raft.ensure_linearizable().await {
        Ok(_) => match node.store.state_machine.read().await.get(&key) {
            Ok(Some(value)) => value.into_response(),
            Ok(None) => StatusCode::NOT_FOUND.into_response(),
            Err(error) => internal(error).into_response(),
        },
        Err(error) => refused(&error, &uri),
    }
}

/// Creates a cluster of the nodes listed in the body, `{"id": "address"}`.
async fn init(
    State(node): State<Arc<Node>>,
    Json(members): Json<BTreeMap<u64, String>>,
) -> Result<StatusCode, Failure> {
    let members = members.into_iter().map(|(id, address)| (id, BasicNode::new(address)));
    let members: BTreeMap<u64, BasicNode> = members.collect();
    node.raft.initialize(members).await.map_err(internal)?;
    Ok(StatusCode::OK)
}

async fn status(State(node): State<Arc<Node>>) -> Json<Value> {
    let metrics = node.raft.metrics();
    let metrics = metrics.borrow();
    Json(json!({
        "id": node.id,
        "leader": metrics.current_leader,
        "term": metrics.current_term,
        "last_log": metrics.last_log_index,
        "applied": metrics.last_applied.map(|id| id.index),
        "snapshot": metrics.snapshot.map(|id| id.index),
    }))
}

fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    postcard::from_bytes(body).map_err(|e| (StatusCode::BAD_REQUEST, e.to_string()))
}

fn encode<T: Serialize>(answer: &T) -> Result<Vec<u8>, Failure> {
    postcard::to_stdvec(answer).map_err(internal)
}

async fn append(State(node): State<Arc<Node>>, body: Bytes) -> Result<Vec<u8>, Failure> {
    encode(&node.raft.append_entries(decode(&body)?).await)
}

async fn vote(State(node): State<Arc<Node>>, body: Bytes) -> Result<Vec<u8>, Failure> {
    encode(&node.raft.vote(decode(&body)?).await)
}

async fn snapshot(State(node): State<Arc<Node>>, body: Bytes) -> Result<Vec<u8>, Failure> {
    encode(&node.raft.install_snapshot(decode(&body)?).await)
}
