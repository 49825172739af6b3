//! Faults on demand, for tests: partitions, loss of power, reads without a check of the lease. Not
//! part of a usual build.

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

    /// Makes the node ignore others, in both directions.
    pub fn ignore(&self, nodes: BTreeSet<u64>) {
        *self.ignored.lock().unwrap_or_else(PoisonError::into_inner) = nodes;
    }

    /// Lets nothing leave the node any more: neither answers nor messages.
    pub fn lose_power(&self) {
        self.is_off.store(true, Ordering::SeqCst);
    }

    pub(crate) async fn pass(&self) {
        if self.is_off.load(Ordering::SeqCst) {
            std::future::pending().await
        }
    }

    /// Returns whether reads by lease are served by any node that believes it is the leader.
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

/// Holds answers back once the power is off.
pub(crate) async fn hold(State(node): State<Arc<Node>>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    node.faults.pass().await;
    response
}
