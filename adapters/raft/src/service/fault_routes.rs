//! The HTTP routes that cause faults, for tests. Ordinary builds do not contain them.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use axum::routing::post;

use crate::service::error::{ApiError, ApiResult};
use crate::service::node::Node;

pub(crate) fn routes() -> Router<Arc<Node>> {
    Router::new()
        .route("/test/ignore", post(ignore))
        .route("/test/trust-lease", post(trust_lease))
        .route("/test/panic", post(panic))
}

async fn ignore(State(node): State<Arc<Node>>, body: Bytes) -> ApiResult<()> {
    let nodes = serde_json::from_slice(&body).map_err(|e| ApiError::bad(e.to_string()))?;
    node.faults.ignore(nodes);
    Ok(())
}

async fn trust_lease(State(node): State<Arc<Node>>) {
    node.faults.trust_lease();
}

/// Makes Raft's task panic.
async fn panic(State(node): State<Arc<Node>>) {
    node.raft.external_request(|_| panic!("a test asked for this"));
}

/// Holds back all responses after the node has lost power.
pub(crate) async fn hold(State(node): State<Arc<Node>>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    node.faults.pass().await;
    response
}
