//! Write requests from many clients, combined into log entries.
//!
//! openraft appends one entry at a time and waits until the entry is durable. Requests that arrive
//! during this wait share the next entry, and therefore one sync, one round of messages and one
//! batch.

use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::command::{Command, Outcome, Request};
use crate::kv::TypeConfig;
use crate::requests::Requests;
use crate::service::error::{ApiError, ApiResult};

/// Maximum number of entries in flight. While one entry is being replicated, the next one is being
/// written.
const IN_FLIGHT: usize = 2;
const MAX_REQUESTS: usize = 1024;
const MAX_BYTES: usize = 1 << 20;
/// Maximum number of waiting requests. Further requests are refused.
const QUEUE: usize = 8192;

type Reply = oneshot::Sender<ApiResult<(u64, Outcome)>>;

/// The queue of write requests. Clones share the queue.
#[derive(Clone)]
pub(crate) struct Writes {
    queue: mpsc::Sender<(Request, Reply)>,
}

impl Writes {
    pub(crate) fn new(raft: openraft::Raft<TypeConfig>) -> Writes {
        let (queue, waiting) = mpsc::channel(QUEUE);
        tokio::spawn(gather(raft, waiting));
        Writes { queue }
    }

    /// Applies a request. Returns the index of its log entry, and its outcome.
    pub(crate) async fn apply(&self, request: Request) -> ApiResult<(u64, Outcome)> {
        let (reply, outcome) = oneshot::channel();
        self.queue
            .try_send((request, reply))
            .map_err(|_| ApiError::Unavailable("too many requests are waiting".into()))?;
        let stopped = |_| ApiError::Unknown("the node stopped before the request ended".into());
        outcome.await.map_err(stopped)?
    }
}

async fn gather(raft: openraft::Raft<TypeConfig>, mut waiting: mpsc::Receiver<(Request, Reply)>) {
    let in_flight = Arc::new(Semaphore::new(IN_FLIGHT));
    loop {
        let Ok(permit) = in_flight.clone().acquire_owned().await else { return };
        let Some((first, reply)) = waiting.recv().await else { return };
        let mut bytes = weight(&first);
        let (mut requests, mut replies) = (vec![first], vec![reply]);
        while requests.len() < MAX_REQUESTS && bytes < MAX_BYTES {
            let Ok((request, reply)) = waiting.try_recv() else { break };
            bytes += weight(&request);
            requests.push(request);
            replies.push(reply);
        }
        let raft = raft.clone();
        tokio::spawn(async move {
            let result = raft.client_write(Requests::new(&requests)).await;
            drop(permit);
            match result {
                Ok(done) => {
                    let index = done.log_id.index;
                    for (reply, outcome) in replies.into_iter().zip(done.data) {
                        let _ = reply.send(Ok((index, outcome)));
                    }
                }
                Err(error) => {
                    let error = ApiError::from(error);
                    for reply in replies {
                        let _ = reply.send(Err(error.clone()));
                    }
                }
            }
        });
    }
}

fn weight(request: &Request) -> usize {
    let Command::Write { conditions, ops } = &request.command else { return 64 };
    let optional = |value: &Option<bytes::Bytes>| value.as_ref().map_or(0, |value| value.len());
    let conditions: usize = conditions.iter().map(|c| c.key.len() + optional(&c.expected)).sum();
    64 + conditions + ops.iter().map(|op| op.key.len() + optional(&op.value)).sum::<usize>()
}
