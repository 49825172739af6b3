//! Faults on demand, for tests: partitions, loss of power, reads without a check of the lease. Only
//! in builds with the feature `faults`.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;

use crate::service::error::{ApiError, ApiResult};
use crate::service::node::Node;

/// The faults of a node.
#[derive(Default)]
pub struct Faults {
    ignored: Mutex<BTreeSet<u64>>,
    is_off: AtomicBool,
    trusts_lease: AtomicBool,
}

impl Faults {
    pub(crate) fn ignores(&self, node: u64) -> bool {
        self.ignored.lock().unwrap_or_else(PoisonError::into_inner).contains(&node)
    }

    /// Makes the node ignore `nodes`: it neither sends messages to them nor accepts messages from
    /// them.
    pub fn ignore(&self, nodes: BTreeSet<u64>) {
        *self.ignored.lock().unwrap_or_else(PoisonError::into_inner) = nodes;
    }

    /// Stops all answers and messages of the node from now on.
    pub fn lose_power(&self) {
        self.is_off.store(true, Ordering::SeqCst);
    }

    pub(crate) async fn pass(&self) {
        if self.is_off.load(Ordering::SeqCst) {
            std::future::pending().await
        }
    }

    /// Returns whether this node, if it believes that it is the leader, serves lease reads without
    /// checking its lease.
    pub(crate) fn trusts_lease(&self) -> bool {
        self.trusts_lease.load(Ordering::Relaxed)
    }
}

pub(crate) async fn ignore(State(node): State<Arc<Node>>, body: Bytes) -> ApiResult<()> {
    let nodes = serde_json::from_slice(&body).map_err(|e| ApiError::bad(e.to_string()))?;
    node.faults.ignore(nodes);
    Ok(())
}

pub(crate) async fn trust_lease(State(node): State<Arc<Node>>) {
    node.faults.trusts_lease.store(true, Ordering::Relaxed);
}

/// Holds back answers once the node has lost power.
pub(crate) async fn hold(State(node): State<Arc<Node>>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    node.faults.pass().await;
    response
}
