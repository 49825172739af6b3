//! Write requests from many clients, combined into log entries.
//!
//! openraft appends one entry at a time and waits until the entry is durable. Requests that arrive
//! during this wait share the next entry, and therefore one sync, one round of messages and one
//! batch.
//!
//! The queue is bounded in requests and in bytes. A request whose client has given up leaves the
//! queue at once, so a leader without a majority does not collect the requests of clients that try
//! again and again.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, oneshot};

use crate::command::{Command, Request};
use crate::kv::{Answered, TypeConfig};
use crate::requests::Requests;
use crate::service::error::{ApiError, ApiResult};
use crate::service::leading::{lead_ends, propose};

/// Maximum number of entries in flight. While one entry is being replicated, the next one is being
/// written.
const MAX_IN_FLIGHT: usize = 2;
const MAX_REQUESTS: usize = 1024;
const MAX_BYTES: usize = 1 << 20;
/// Maximum number and total size of waiting requests. Further requests are refused.
const QUEUE: usize = 8192;
const QUEUE_BYTES: usize = 64 << 20;
/// Time limit of a write that waits for no other. After a timeout, the outcome of the write is
/// unknown.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Number of bytes of writes for which the time limit grows by a second.
const BYTES_PER_SECOND: usize = 256 << 10;

type Reply = oneshot::Sender<ApiResult<Answered>>;

/// The queue of write requests.
pub(crate) struct Writes(Arc<SharedRequests>);

impl Drop for Writes {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.pushed.notify_one();
    }
}

#[derive(Default)]
struct SharedRequests {
    queue: Mutex<Queue>,
    /// Wakes the task that combines requests.
    pushed: Notify,
}

#[derive(Default)]
struct Queue {
    next: u64,
    waiting: BTreeMap<u64, Waiting>,
    /// The total size of the requests that wait or are in flight.
    bytes: usize,
    is_closed: bool,
}

struct Waiting {
    request: Request,
    bytes: usize,
    reply: Reply,
}

/// Takes a request out of the queue if nobody waits for its outcome any more.
struct Ticket<'a> {
    shared: &'a SharedRequests,
    number: u64,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        if let Some(waiting) = queue.waiting.remove(&self.number) {
            queue.bytes -= waiting.bytes;
        }
    }
}

impl SharedRequests {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for requests, and takes as many as fit into one entry. Takes none if the queue is
    /// closed.
    async fn take(&self) -> Vec<Waiting> {
        loop {
            let pushed = self.pushed.notified();
            let (mut taken, is_closed) = (Vec::new(), self.lock().is_closed);
            {
                let mut queue = self.lock();
                let mut bytes = 0;
                while taken.len() < MAX_REQUESTS
                    && bytes < MAX_BYTES
                    && let Some((_, waiting)) = queue.waiting.pop_first()
                {
                    bytes += waiting.bytes;
                    taken.push(waiting);
                }
            }
            if is_closed || !taken.is_empty() {
                return taken;
            }
            pushed.await;
        }
    }
}

impl Writes {
    pub(crate) fn new(raft: openraft::Raft<TypeConfig>) -> Writes {
        let shared = Arc::new(SharedRequests::default());
        tokio::spawn(gather(raft, shared.clone()));
        Writes(shared)
    }

    /// Applies a request. Returns the index of its log entry, and its outcome. The time limit grows
    /// with the size of the request and of those before it.
    pub(crate) async fn apply(&self, request: Request) -> ApiResult<Answered> {
        let (reply, outcome) = oneshot::channel();
        let bytes = weight(&request);
        let (number, ahead) = {
            let mut queue = self.0.lock();
            // A request that is alone is as large as a request may be.
            let is_full = queue.bytes > 0 && queue.bytes + bytes > QUEUE_BYTES;
            if queue.waiting.len() >= QUEUE || is_full {
                return Err(ApiError::Unavailable("too many requests are waiting".into()));
            }
            let (number, ahead) = (queue.next, queue.bytes);
            queue.next += 1;
            queue.bytes += bytes;
            queue.waiting.insert(number, Waiting { request, bytes, reply });
            (number, ahead)
        };
        self.0.pushed.notify_one();
        let _ticket = Ticket { shared: &self.0, number };
        let seconds = (ahead + bytes) as f64 / BYTES_PER_SECOND as f64;
        let limit = TIMEOUT + Duration::from_secs_f64(seconds);
        let late = |_| ApiError::Unknown("no quorum in time: it may still be applied".into());
        let stopped = |_| ApiError::Unknown("the node stopped before the request ended".into());
        tokio::time::timeout(limit, outcome).await.map_err(late)?.map_err(stopped)?
    }
}

async fn gather(raft: openraft::Raft<TypeConfig>, shared: Arc<SharedRequests>) {
    let in_flight = Arc::new(Semaphore::new(MAX_IN_FLIGHT));
    loop {
        let Ok(permit) = in_flight.clone().acquire_owned().await else { return };
        let taken = shared.take().await;
        if taken.is_empty() {
            return;
        }
        let bytes: usize = taken.iter().map(|waiting| waiting.bytes).sum();
        let split = |waiting: Waiting| (waiting.request, waiting.reply);
        let (requests, mut replies): (Vec<Request>, Vec<Reply>) =
            taken.into_iter().map(split).unzip();
        let (raft, shared) = (raft.clone(), shared.clone());
        tokio::spawn(async move {
            let encoded = Requests::new(&requests);
            drop(requests);
            let lead_ends = lead_ends(&raft);
            let mut write = pin!(propose(&raft, raft.client_write(encoded)));
            let answered = tokio::select! {
                result = &mut write => Some(result),
                () = lead_ends => None,
            };
            shared.lock().bytes -= bytes;
            drop(permit);
            let result = match answered {
                Some(result) => result,
                // The next lead does not wait for an answer that may never come; the clients do.
                None => tokio::select! {
                    result = write => result,
                    () = all_closed(&mut replies) => return,
                },
            };
            match result {
                Ok(done) => {
                    for (reply, answered) in replies.into_iter().zip(done.data) {
                        let _ = reply.send(Ok(answered));
                    }
                }
                Err(error) => {
                    for reply in replies {
                        let _ = reply.send(Err(error.clone()));
                    }
                }
            }
        });
    }
}

/// Waits until nobody waits for any of the replies.
async fn all_closed(replies: &mut [Reply]) {
    for reply in replies {
        reply.closed().await;
    }
}

fn weight(request: &Request) -> usize {
    let Command::Write { conditions, ops } = &request.command else { return 64 };
    let optional = |value: &Option<bytes::Bytes>| value.as_ref().map_or(0, |value| value.len());
    let conditions: usize = conditions.iter().map(|c| c.key.len() + optional(&c.expected)).sum();
    64 + conditions + ops.iter().map(|op| op.key.len() + optional(&op.value)).sum::<usize>()
}
