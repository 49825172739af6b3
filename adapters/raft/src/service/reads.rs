//! The conditions under which a read may be served.

use std::sync::Arc;
use std::time::Instant;

use serde::Deserialize;

use crate::service::error::{ApiError, ApiResult};
use crate::service::node::Node;

/// The required freshness of a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Read {
    /// The read sees every write that was acknowledged before the read began. In a round, the
    /// leader asks a quorum to confirm that it is still the leader; reads that arrive during a
    /// round share the next one.
    #[default]
    Linearizable,
    /// Like a linearizable read, but without messages to other nodes. The leader relies on its
    /// lease, and therefore on clocks whose speeds differ by at most a tenth.
    Lease,
    /// The read sees the state of the node that receives the request, however old this state is.
    Stale,
}

impl Node {
    /// Runs `read` after it has made sure that the state of this node is as fresh as `freshness`
    /// requires.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Node>,
        freshness: Read,
        read: impl FnOnce(&Node) -> crate::store::Result<T> + Send + 'static,
    ) -> ApiResult<T> {
        match freshness {
            Read::Stale => {}
            Read::Linearizable => self.rounds.next().await?,
            Read::Lease => self.check_lease()?,
        }
        let result = self.blocking(read).await?;
        if freshness == Read::Lease {
            // The process may have been stopped during the read, so the result is valid only if the
            // lease still holds.
            self.check_lease()?;
        }
        Ok(result)
    }

    /// Succeeds if this node is the leader, no other node can be the leader, and this node has
    /// applied all writes that earlier leaders acknowledged.
    fn check_lease(&self) -> ApiResult<()> {
        self.check_leads()?;
        let now = Instant::now();
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        #[cfg(feature = "faults")]
        if self.faults.trusts_lease() {
            return Ok(());
        }
        let own_term_is_applied = metrics.last_applied.is_some_and(|id| {
            id.leader_id.term == metrics.vote.leader_id.term && id.leader_id.node_id == self.id
        });
        let configs = metrics.membership_config.membership().get_joint_config();
        let until = self.lease.until(&metrics.vote, self.id, configs, now);
        if own_term_is_applied && until.is_some_and(|until| now < until) {
            return Ok(());
        }
        Err(ApiError::Unavailable("the leader's lease is over; a linearizable read asks".into()))
    }
}
