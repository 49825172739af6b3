//! Calls of Raft that are answered only while the node leads.
//!
//! openraft 0.9 answers a write or a change of the membership once it has applied the entry, or has
//! dropped it from the log. It never answers if a node that no longer leads gets the entry, or
//! another in its place, as a part of a snapshot.
//!
//! A call whose entry was dropped gets the same answer as one that a node refuses because it does
//! not lead: the name of the leader. But other nodes may have the dropped entry, and the leader
//! after the next one may commit it.

use std::future::Future;
use std::time::Duration;

use openraft::error::{ClientWriteError, RaftError};
use openraft::{BasicNode, Raft, ServerState};

use crate::kv::TypeConfig;
use crate::service::error::{ApiError, ApiResult};

/// The interval at which a node looks whether it still leads. Waking up at each change of the
/// metrics would slow down every write.
const INTERVAL: Duration = Duration::from_millis(200);

/// Time after the end of a lead within which openraft may still answer: a leader that removes
/// itself stops leading first.
const GRACE: Duration = Duration::from_secs(5);

/// Waits until the node of `raft` does not lead in its present term any more.
pub(crate) fn lead_ends(raft: &Raft<TypeConfig>) -> impl Future<Output = ()> + Send + use<> {
    let metrics = raft.metrics();
    let term = metrics.borrow().current_term;
    async move {
        loop {
            tokio::time::sleep(INTERVAL).await;
            let metrics = metrics.borrow();
            if metrics.current_term != term || metrics.state != ServerState::Leader {
                return;
            }
        }
    }
}

/// Waits until openraft has forgotten a call that begins now.
pub(crate) fn forgets(raft: &Raft<TypeConfig>) -> impl Future<Output = ()> + Send + use<> {
    let lead_ends = lead_ends(raft);
    async move {
        lead_ends.await;
        tokio::time::sleep(GRACE).await;
    }
}

/// Makes a call that proposes entries. [`ApiError::NotLeader`] means that it has proposed none.
pub(crate) async fn propose<T>(
    raft: &Raft<TypeConfig>,
    call: impl Future<Output = Result<T, RaftError<u64, ClientWriteError<u64, BasicNode>>>>,
) -> ApiResult<T> {
    let vote = raft.metrics().borrow().vote;
    let error = match call.await {
        Ok(done) => return Ok(done),
        Err(error) => ApiError::from(error),
    };
    if !matches!(error, ApiError::NotLeader(_)) {
        return Err(error);
    }
    // A node that led and has dropped an entry has another vote by then. The metrics may not show
    // it yet.
    match raft.with_raft_state(|state| *state.vote_ref()).await {
        Ok(now) if now == vote => Err(error),
        _ => {
            let what = "this node stopped leading: the request may still be applied";
            Err(ApiError::Unknown(what.into()))
        }
    }
}
