//! The node that leads, and calls of Raft that are answered only while it does.
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
use openraft::{BasicNode, Raft, RaftMetrics, ServerState};

use crate::kv::TypeConfig;
use crate::service::error::{ApiError, ApiResult};

/// The interval at which a node looks whether it still leads. Waking up at each change of the
/// metrics would slow down every write.
const INTERVAL: Duration = Duration::from_millis(200);

/// Time after the end of a lead within which openraft may still answer: a leader that removes
/// itself stops leading first.
const GRACE: Duration = Duration::from_secs(5);

/// Returns whether the node `id` led the cluster until it removed itself.
pub(crate) fn was_removed(metrics: &RaftMetrics<u64, BasicNode>, id: u64) -> bool {
    let membership = metrics.membership_config.membership();
    metrics.current_leader == Some(id) && membership.get_node(&id).is_none()
}

/// Returns the leader that the node `id` knows. openraft names a node that has stopped leading, but
/// has not voted since, as its own leader.
pub(crate) fn leader(metrics: &RaftMetrics<u64, BasicNode>, id: u64) -> Option<u64> {
    let leads = metrics.state == ServerState::Leader && !was_removed(metrics, id);
    metrics.current_leader.filter(|leader| *leader != id || leads)
}

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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use openraft::{Membership, StoredMembership};

    use super::*;

    fn metrics(state: ServerState, members: &[u64]) -> RaftMetrics<u64, BasicNode> {
        let nodes: BTreeMap<_, _> = members.iter().map(|id| (*id, BasicNode::new(""))).collect();
        let membership = Membership::new(vec![members.iter().copied().collect()], nodes);
        RaftMetrics {
            state,
            current_leader: Some(2),
            membership_config: Arc::new(StoredMembership::new(None, membership)),
            ..RaftMetrics::new_initial(2)
        }
    }

    #[test]
    fn a_node_that_has_stopped_leading_does_not_name_itself_as_the_leader() {
        let leads = metrics(ServerState::Leader, &[1, 2, 3]);
        assert_eq!((was_removed(&leads, 2), leader(&leads, 2)), (false, Some(2)));
        let follows = metrics(ServerState::Follower, &[1, 2, 3]);
        assert_eq!((was_removed(&follows, 1), leader(&follows, 1)), (false, Some(2)));
        assert_eq!((was_removed(&follows, 2), leader(&follows, 2)), (false, None));
        // openraft makes a leader that has removed itself a learner, earlier or later.
        for state in [ServerState::Leader, ServerState::Learner] {
            let removed = metrics(state, &[1, 3]);
            assert_eq!((was_removed(&removed, 2), leader(&removed, 2)), (true, None));
        }
    }
}
