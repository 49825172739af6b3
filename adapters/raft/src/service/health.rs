//! Whether a node can serve requests, by what it has heard from others lately.

use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Instant;

use axum::http::StatusCode;
use openraft::ServerState;

use crate::service::error::{ApiError, ApiResult};
use crate::service::leading::{leader, was_removed};
use crate::service::node::Node;
use crate::service::peers;

impl Node {
    /// Returns the reason why Raft has stopped on this node, such as a disk error, or `None` while
    /// it runs.
    pub(crate) fn failure(&self) -> Option<String> {
        let metrics = self.raft.metrics();
        if let Err(error) = &metrics.borrow().running_state {
            return Some(error.to_string());
        }
        // Raft's task owns the sender of the metrics, also if the task ends by a panic.
        metrics.has_changed().is_err().then(|| "its task has ended, perhaps by a panic".into())
    }

    /// Returns the reason why this node cannot serve requests at present. A leader must have been
    /// acknowledged lately by a majority, and any other node must have heard from the leader.
    pub(crate) fn problem(&self) -> Option<String> {
        if let Some(failure) = self.failure() {
            return Some(format!("Raft has stopped: {failure}"));
        }
        if let Some(stall) = self.store.log_stall(self.stall_limit) {
            return Some(stall);
        }
        if let Some(problem) = self.lock_home_problem().clone() {
            return Some(problem);
        }
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let membership = metrics.membership_config.membership();
        if membership.get_joint_config().is_empty() {
            return Some("the node belongs to no cluster yet".into());
        }
        let limit = self.patience.as_millis();
        if was_removed(&metrics, self.id) {
            return Some("the node was removed from the cluster".into());
        }
        if metrics.state == ServerState::Leader {
            let (now, configs) = (Instant::now(), membership.get_joint_config());
            let heard = self.lease.quorum_at(&metrics.vote, self.id, configs, now);
            let is_recent = heard.is_some_and(|at| now < at + self.patience);
            let problem = || format!("no majority has acknowledged the leader for {limit} ms");
            return (!is_recent).then(problem);
        }
        if leader(&metrics, self.id).is_none() {
            return Some("there is no leader at present".into());
        }
        let heard = *self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = heard.is_some_and(|at| at.elapsed() < self.patience);
        (!is_recent).then(|| format!("the leader has sent nothing for {limit} ms"))
    }

    fn lock_home_problem(&self) -> MutexGuard<'_, Option<String>> {
        self.home_problem.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks whether the node still has its directory.
    pub(crate) async fn check_home(self: &Arc<Node>) {
        let found = self.blocking(|node| Ok(node.store.check_home().err())).await;
        *self.lock_home_problem() = found.ok().flatten().map(|problem| problem.to_string());
    }

    /// Redirects to the leader if this node is not the leader, and refuses if this node leads no
    /// majority.
    pub(crate) fn check_serves(&self) -> ApiResult<()> {
        self.check_leads()?;
        self.problem().map_or(Ok(()), |problem| Err(ApiError::Unavailable(problem)))
    }

    /// Records that this node has taken a message of the leader.
    pub(crate) fn hear(&self) {
        let now = Some(Instant::now());
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Refuses a change of the membership to `voters` unless a majority of them answers. Otherwise
    /// the cluster would be stuck: no write, and no further change either. `change` says what the
    /// change does.
    pub(crate) async fn check_majority(
        &self,
        change: &str,
        voters: &BTreeSet<u64>,
    ) -> ApiResult<()> {
        if voters.is_empty() {
            let what = format!("{change} would leave no voter");
            return Err(ApiError::with(StatusCode::CONFLICT, what));
        }
        let answers = voters.iter().map(|id| async { self.is_live(*id).await.then_some(*id) });
        let live = futures_util::future::join_all(answers).await;
        let live: BTreeSet<u64> = live.into_iter().flatten().collect();
        let needed = voters.len() / 2 + 1;
        if live.len() >= needed {
            return Ok(());
        }
        let down: Vec<String> = voters.difference(&live).map(u64::to_string).collect();
        let what = format!(
            "{change} would stop the cluster: of its {} voters then, {needed} must answer, and {} \
             do; start node {} first",
            voters.len(),
            live.len(),
            down.join(" and node ")
        );
        Err(ApiError::with(StatusCode::CONFLICT, what))
    }

    /// Returns whether the node `id` has lately acknowledged a message of this node as the leader,
    /// and answers now.
    async fn is_live(&self, id: u64) -> bool {
        let vote = self.raft.metrics().borrow().vote;
        let heard = self.lease.last(&vote, id);
        let Some(address) = self.member(id) else { return false };
        id == self.id
            || heard.is_some_and(|at| at.elapsed() < self.patience)
                && peers::hello_of(self, id, &address).await.is_ok()
    }
}
