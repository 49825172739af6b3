//! The router of a node, and the steps that apply to all routes: the checks of the host and the
//! token, redirects and counters.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::service::connections::Slot;
use crate::service::error::{ApiError, Leader};
use crate::service::node::Node;
use crate::service::{backup, cluster, events, http, report, rpc};

/// Returns the router with all routes of a node.
pub fn routes(node: &Arc<Node>) -> Router {
    let users = Router::new()
        .merge(http::routes())
        .route("/v1/watch", get(events::watch))
        .merge(cluster::routes())
        .merge(backup::routes())
        .route("/metrics", get(report::metrics))
        .route("/", get(report::page))
        .layer(DefaultBodyLimit::max(node.max_request_bytes));
    #[cfg(feature = "faults")]
    let users = users.merge(super::fault_routes::routes());
    let all = users
        .merge(rpc::routes(node))
        .fallback(|| async { ApiError::with(StatusCode::NOT_FOUND, "no such path") })
        .method_not_allowed_fallback(|| async {
            ApiError::with(StatusCode::METHOD_NOT_ALLOWED, "this path has no such method")
        })
        .layer(middleware::from_fn_with_state(node.clone(), guard))
        .route("/health", get(report::health));
    #[cfg(feature = "faults")]
    let all = all.layer(middleware::from_fn_with_state(node.clone(), super::fault_routes::hold));
    all.with_state(node.clone())
}

/// The paths of messages between nodes.
const PEERS: &str = "/raft/";

/// Checks the connection, the host and the token, redirects clients to the leader, and counts
/// responses.
async fn guard(State(node): State<Arc<Node>>, request: Request, next: Next) -> Response {
    let slot = request.extensions().get::<Arc<Slot>>();
    if slot.is_some_and(|slot| slot.is_reserved) && !request.uri().path().starts_with(PEERS) {
        let mut refused =
            ApiError::Unavailable("too many connections are open".into()).into_response();
        refused.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        return refused;
    }
    if let Err(refused) = node.hosts.check(&request) {
        return refused.into_response();
    }
    if let Some(token) = &node.token {
        let given = request.headers().get(header::AUTHORIZATION);
        let given = given.map_or(&b""[..], |value| value.as_bytes());
        if !report::is_authorized(given, token.as_bytes()) {
            let mut refused =
                ApiError::with(StatusCode::UNAUTHORIZED, "the token is missing or wrong")
                    .into_response();
            let scheme = HeaderValue::from_static("Basic realm=\"minikv\"");
            refused.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
            return refused;
        }
    }
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_string();
    let mut response = next.run(request).await;
    let status = response.status();
    let counters = &node.counters;
    if let Some(Leader(leader)) = response.extensions().get() {
        let location = format!("{}://{leader}{path}", node.scheme);
        if let Ok(location) = HeaderValue::try_from(location) {
            response.headers_mut().insert(header::LOCATION, location);
        }
        counters.redirects.fetch_add(1, Ordering::Relaxed);
    } else if status.is_client_error() {
        counters.client_errors.fetch_add(1, Ordering::Relaxed);
    } else if status.is_server_error() {
        counters.server_errors.fetch_add(1, Ordering::Relaxed);
    }
    response
}
