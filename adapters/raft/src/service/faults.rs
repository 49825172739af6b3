//! Partitions for tests: a node ignores others, in both directions. Not part of a usual build.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;
use axum::extract::State;

use crate::service::error::{ApiError, ApiResult};
use crate::service::node::Node;

#[derive(Default)]
pub(crate) struct Faults {
    ignored: Mutex<BTreeSet<u64>>,
}

impl Faults {
    pub(crate) fn ignores(&self, node: u64) -> bool {
        self.ignored.lock().unwrap_or_else(PoisonError::into_inner).contains(&node)
    }
}

pub(crate) async fn ignore(State(node): State<Arc<Node>>, body: Bytes) -> ApiResult<()> {
    let nodes = serde_json::from_slice(&body).map_err(|e| ApiError::bad(e.to_string()))?;
    *node.faults.ignored.lock().unwrap_or_else(PoisonError::into_inner) = nodes;
    Ok(())
}
