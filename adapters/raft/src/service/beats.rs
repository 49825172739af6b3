//! Heartbeats beside something that takes long: entries or a snapshot that are under way to a node.
//! They do not wait for openraft, which sends none meanwhile, and reads the log between two calls
//! of the network.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use openraft::Vote;
use openraft::error::{NetworkError, Unreachable};
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse};
use tokio::task::JoinHandle;

use crate::kv::TypeConfig;
use crate::service::lane::Lane;
use crate::service::target::{Target, failed};

pub(crate) type Append = AppendEntriesRequest<TypeConfig>;

/// The connection for heartbeats of one node.
pub(crate) type SharedLane = Arc<tokio::sync::Mutex<Lane>>;

/// Time without an answer after which the connection for heartbeats is replaced.
const HEARTBEAT_PATIENCE: Duration = Duration::from_secs(1);

/// A task that sends heartbeats until it is dropped.
pub(crate) struct Beats {
    /// Ends with the vote of the node, if it is higher.
    task: JoinHandle<Vote<u64>>,
    next: Arc<Mutex<Next>>,
}

struct Next {
    heartbeat: Append,
    /// The end of the heartbeats, unless they are asked for again: a leader whose openraft no
    /// longer works must not stay the leader.
    until: Option<Instant>,
}

impl Drop for Beats {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Beats {
    /// Sends `heartbeat` again and again, until the time `until` if there is one.
    pub(crate) fn start(
        lane: SharedLane,
        target: Target,
        heartbeat: Append,
        until: Option<Instant>,
    ) -> Beats {
        let next = Arc::new(Mutex::new(Next { heartbeat, until }));
        let task = tokio::spawn(run(lane, target, next.clone()));
        Beats { task, next }
    }

    /// Replaces the heartbeat and the end of the heartbeats.
    pub(crate) fn update(&self, heartbeat: Append, until: Instant) {
        *lock(&self.next) = Next { heartbeat, until: Some(until) };
    }

    /// Returns whether no more heartbeats are sent.
    pub(crate) fn is_over(&self) -> bool {
        lock(&self.next).until.is_some_and(|until| Instant::now() >= until)
    }

    /// Waits until the node answers that it has a higher vote, and returns that vote. Must not be
    /// called again after that.
    pub(crate) async fn higher_vote(&mut self) -> Vote<u64> {
        match (&mut self.task).await {
            Ok(higher) => higher,
            Err(_) => std::future::pending().await,
        }
    }
}

fn lock(next: &Mutex<Next>) -> MutexGuard<'_, Next> {
    next.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn run(lane: SharedLane, target: Target, next: Arc<Mutex<Next>>) -> Vote<u64> {
    let network = &target.network;
    loop {
        let due = {
            let next = lock(&next);
            let is_due = next.until.is_none_or(|until| Instant::now() < until);
            let may_lead = network.store.log_stall(network.stall_limit).is_none();
            (is_due && may_lead).then(|| (next.heartbeat.vote, encode(&next.heartbeat)))
        };
        if let Some((vote, Ok(message))) = due {
            let (sent, answer) = exchange(&lane, &target, message).await;
            match answer.map(|answer| decode(&target, &answer)) {
                Ok(Ok(AppendEntriesResponse::HigherVote(higher))) => return higher,
                Ok(Ok(answer)) if is_accepted(&answer) => {
                    network.lease.accepted(&vote, target.id, sent);
                }
                _ => {}
            }
        }
        tokio::time::sleep(network.heartbeat / 2).await;
    }
}

/// Sends a heartbeat as soon as an earlier one, whose answer nobody waits for any more, is
/// answered. Returns the time of sending, and the answer.
pub(crate) async fn exchange(
    lane: &SharedLane,
    target: &Target,
    message: Vec<u8>,
) -> (Instant, Result<Vec<u8>, Unreachable>) {
    let mut lane = lane.lock().await;
    if lane.is_busy() {
        // If it failed, the connection was closed, and the next heartbeat opens another one.
        let _ = lane.answer().await;
    }
    lane.send(target, message, HEARTBEAT_PATIENCE);
    lane.answer().await
}

pub(crate) fn encode(message: &Append) -> Result<Vec<u8>, NetworkError> {
    postcard::to_stdvec(message).map_err(|e| failed(format!("append: {e}")))
}

pub(crate) fn decode(
    target: &Target,
    answer: &[u8],
) -> Result<AppendEntriesResponse<u64>, NetworkError> {
    let decoded = postcard::from_bytes(answer);
    decoded.map_err(|e| failed(format!("{} answers append: {e}", target.address)))
}

/// Returns whether a follower has accepted entries or a heartbeat.
pub(crate) fn is_accepted(answer: &AppendEntriesResponse<u64>) -> bool {
    matches!(answer, AppendEntriesResponse::Success | AppendEntriesResponse::PartialSuccess(_))
}
