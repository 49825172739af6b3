//! Linearizable reads, gathered into rounds: one question to a quorum serves all waiting reads.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::kv::TypeConfig;
use crate::service::error::{ApiError, ApiResult};

/// Time limit of a round. The limit prevents one lost message from delaying all reads.
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
                // All reads in `waiters` began before the round.
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

    pub(crate) async fn next(&self) -> ApiResult<()> {
        let (waiter, round) = oneshot::channel();
        let full = |_| ApiError::Unavailable("too many reads are waiting".into());
        self.queue.try_send(waiter).map_err(full)?;
        round.await.map_err(|_| ApiError::Unavailable("the node stops".into()))?
    }
}
