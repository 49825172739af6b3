//! Questions to other nodes outside Raft: who they are, and the message that makes them part of a
//! cluster.

use std::time::Duration;

use axum::http::{HeaderValue, Method, StatusCode, header};
use bytes::Bytes;

use crate::service::error::{ApiError, ApiResult};
use crate::service::identity::{Claim, Hello, VERSION};
use crate::service::node::Node;
use crate::service::sums;
use crate::service::wire::{Answer, Call};

const TIMEOUT: Duration = Duration::from_secs(2);

async fn ask(node: &Node, to: &str, method: Method, path: &str, body: Bytes) -> ApiResult<Answer> {
    #[cfg(feature = "faults")]
    node.faults.pass().await;
    let sum = HeaderValue::from(sums::of_message(path, &body));
    let json = HeaderValue::from_static("application/json");
    let headers = vec![(header::CONTENT_TYPE, json), (sums::SUM, sum)];
    let call = Call { method, to, path, headers, body, timeout: TIMEOUT };
    let answer = node.wire.send(call).await;
    let answer = answer.map_err(|e| ApiError::Unavailable(format!("no answer from {e}")))?;
    match answer.status {
        StatusCode::OK => Ok(answer),
        status => Err(ApiError::with(status, format!("{to} answers: {}", answer.message()))),
    }
}

/// Asks the node at `address` who it is.
pub(crate) async fn hello(node: &Node, address: &str) -> ApiResult<Hello> {
    let answer = ask(node, address, Method::GET, "/raft/hello", Bytes::new()).await?;
    let strange = |e| ApiError::Unavailable(format!("{address} answers strangely: {e}"));
    let hello: Hello = serde_json::from_slice(&answer.body).map_err(strange)?;
    if hello.version != VERSION {
        let what = format!("{address} speaks version {}, not {VERSION}", hello.version);
        return Err(ApiError::with(StatusCode::CONFLICT, what));
    }
    match answer.is_checked {
        true => Ok(hello),
        false => Err(ApiError::Unavailable(format!("{address}: a damaged answer"))),
    }
}

/// Asks the node at `address`, which should be the node `id`, who it is.
pub(crate) async fn hello_of(node: &Node, id: u64, address: &str) -> ApiResult<Hello> {
    let hello = hello(node, address).await?;
    match hello.id == id {
        true => Ok(hello),
        false => {
            let what = format!("the node at {address} is node {}, not node {id}", hello.id);
            Err(ApiError::with(StatusCode::CONFLICT, what))
        }
    }
}

/// Makes the node `to` at `address` part of the cluster `cluster`.
pub(crate) async fn claim(node: &Node, cluster: &str, to: u64, address: &str) -> ApiResult<()> {
    let own = node.identity.id;
    let metrics = node.raft.metrics().borrow().clone();
    let member = metrics.membership_config.membership().get_node(&own);
    let own_address = member.map_or(&node.identity.address, |member| &member.addr).clone();
    let claim =
        Claim { version: VERSION, cluster: cluster.into(), from: own, address: own_address, to };
    let body = serde_json::to_vec(&claim).map_err(ApiError::internal)?;
    ask(node, address, Method::POST, "/raft/claim", body.into()).await.map(drop)
}
