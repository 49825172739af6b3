//! The conditions under which a read may be served.

use std::sync::Arc;
use std::time::{Duration, Instant};

use openraft::ServerState;
use serde::Deserialize;
use tokio::sync::{mpsc, oneshot};

use crate::kv::TypeConfig;
use crate::service::error::{ApiError, ApiResult};
use crate::service::node::Node;

/// The freshness of a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Read {
    /// The read sees every write that was acknowledged before the read began. The leader asks a
    /// quorum whether it is still the leader; reads that arrive during such a round share the next
    /// round.
    #[default]
    Linearizable,
    /// Like a linearizable read, but without messages: the leader relies on its lease, and so on
    /// clocks whose speeds differ by at most a tenth.
    Lease,
    /// The read sees the state of the node that receives the request, however old that state is.
    Stale,
}

/// Time limit of a round, so that one lost message does not hold up all reads.
const ROUND: Duration = Duration::from_secs(2);
const QUEUE: usize = 65536;

type Waiter = oneshot::Sender<ApiResult<()>>;

/// The queue of linearizable reads that wait for the next round. Clones share the queue.
#[derive(Clone)]
pub(crate) struct Rounds {
    queue: mpsc::Sender<Waiter>,
}

impl Rounds {
    pub(crate) fn new(raft: openraft::Raft<TypeConfig>) -> Rounds {
        let (queue, mut waiting) = mpsc::channel::<Waiter>(QUEUE);
        tokio::spawn(async move {
            while let Some(first) = waiting.recv().await {
                let mut waiters = vec![first];
                while let Ok(waiter) = waiting.try_recv() {
                    waiters.push(waiter);
                }
                // All of these reads began before the round.
                let round = tokio::time::timeout(ROUND, raft.ensure_linearizable()).await;
                let result = match round {
                    Ok(Ok(_)) => Ok(()),
                    Ok(Err(error)) => Err(ApiError::from(error)),
                    Err(_) => Err(ApiError::Unavailable("no quorum answers".into())),
                };
                for waiter in waiters {
                    let _ = waiter.send(result.clone());
                }
            }
        });
        Rounds { queue }
    }

    async fn next(&self) -> ApiResult<()> {
        let (waiter, round) = oneshot::channel();
        let full = |_| ApiError::Unavailable("too many reads are waiting".into());
        self.queue.try_send(waiter).map_err(full)?;
        round.await.map_err(|_| ApiError::Unavailable("the node stops".into()))?
    }
}

impl Node {
    /// Runs `read` on the state, which is at least as fresh as `freshness` requires.
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
            // The process may have been stopped during the read, so the read was in time only if
            // the lease still holds.
            self.check_lease()?;
        }
        Ok(result)
    }

    /// Succeeds if this node is the leader, no other node can be the leader, and this node has
    /// applied all writes that earlier leaders acknowledged.
    fn check_lease(&self) -> ApiResult<()> {
        let now = Instant::now();
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        if metrics.state != ServerState::Leader {
            let leader = metrics.current_leader.filter(|id| *id != self.id);
            let membership = metrics.membership_config.membership();
            let node = leader.and_then(|id| membership.get_node(&id));
            return Err(ApiError::NotLeader(node.map(|node| node.addr.clone())));
        }
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
