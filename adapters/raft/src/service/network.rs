//! Sends openraft's messages and snapshots to other nodes, over HTTP. Messages are in postcard's
//! format.

use std::future::Future;
use std::time::{Duration, Instant};

use axum::http::{HeaderValue, Method, StatusCode};
use bytes::Bytes;
use openraft::error::{
    Fatal, NetworkError, RPCError, RaftError, ReplicationClosed, StreamingError, Unreachable,
};
use openraft::network::{Backoff, RPCOption};
use openraft::raft::{AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse};
use openraft::{
    BasicNode, Entry, EntryPayload, LogId, RaftNetwork, RaftNetworkFactory, Snapshot, SnapshotMeta,
    Vote,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::kv::TypeConfig;
use crate::service::beats::{Append, Beats, SharedLane, decode, encode, exchange, is_accepted};
use crate::service::lane::Lane;
use crate::service::sums;
use crate::service::target::{Network, Target, failed, unreachable};
use crate::service::wire::{Answer, Call};
use crate::store::SnapshotFile;

/// Description of an answer that does not have its checksum.
const DAMAGED: &str = "the answer does not have its checksum: it was damaged on the way";

/// Time that entries may take before a heartbeat is sent beside them.
const PROMPT: Duration = Duration::from_millis(20);
/// Time without progress after which entries are given up and sent again.
const PATIENCE: Duration = Duration::from_secs(10);
/// A message with entries gets longer if the last one took less than the first of these times, and
/// shorter if it took more than the second: little is sent twice after a failure, and each sync of
/// the follower is worth its cost.
const SHORT_MESSAGE: Duration = Duration::from_millis(100);
const LONG_MESSAGE: Duration = Duration::from_millis(400);
const FIRST_MESSAGE_BYTES: usize = 1 << 20;
const SMALLEST_MESSAGE_BYTES: usize = 64 << 10;
const LARGEST_MESSAGE_BYTES: usize = 4 << 20;

type RpcResult<T> = Result<T, RPCError<u64, BasicNode, RaftError<u64>>>;
pub(super) type Streaming = StreamingError<TypeConfig, Fatal<u64>>;

/// The message that announces the files of a snapshot.
#[derive(Serialize, Deserialize)]
pub(crate) struct Offer {
    pub(crate) id: String,
    pub(crate) files: Vec<SnapshotFile>,
}

/// The message that ends the transfer of a snapshot.
#[derive(Serialize, Deserialize)]
pub(crate) struct Finish {
    pub(crate) vote: Vote<u64>,
    pub(crate) meta: SnapshotMeta<u64, BasicNode>,
}

/// A connection to one node, for openraft.
pub(crate) struct Peer {
    pub(super) target: Target,
    /// Whether a message was already sent to the node. openraft also creates peers for single
    /// messages, for which a stream would not be worth its cost.
    is_in_use: bool,
    /// Carries heartbeats, which must not wait behind entries.
    heartbeats: SharedLane,
    /// Carries entries.
    entries: Lane,
    /// The entries under way.
    under_way: Option<UnderWay>,
    /// Heartbeats beside entries that take long or do not arrive, and while openraft reads the next
    /// ones.
    beats: Option<Beats>,
    /// The last entry up to which the node's log is known to match this one; `None` if unknown.
    matching: Option<Option<LogId<u64>>>,
    /// Size in bytes at which a message with entries ends.
    message_bytes: usize,
}

/// Entries that are being sent.
struct UnderWay {
    vote: Vote<u64>,
    prev: Option<LogId<u64>>,
    last: LogId<u64>,
    bytes: usize,
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = Peer;

    async fn new_client(&mut self, id: u64, node: &BasicNode) -> Peer {
        Peer {
            target: Target { network: self.clone(), id, address: node.addr.clone() },
            is_in_use: false,
            heartbeats: SharedLane::default(),
            entries: Lane::default(),
            under_way: None,
            beats: None,
            matching: None,
            message_bytes: FIRST_MESSAGE_BYTES,
        }
    }
}

impl Peer {
    pub(super) async fn post(
        &self,
        what: &str,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Answer, Unreachable> {
        #[cfg(feature = "faults")]
        self.target.check_faults().await?;
        let Target { network, id, address } = &self.target;
        let path = format!("/raft/{id}/{what}");
        let mut headers = network.identity.headers();
        headers.push((sums::SUM, HeaderValue::from(sums::of_message(&path, &body))));
        let call = Call { method: Method::POST, to: address, path: &path, headers, body, timeout };
        let answer = network.wire.send(call).await.map_err(|e| unreachable(e.to_string()))?;
        self.target.note(&answer);
        match answer.is_checked || answer.status != StatusCode::OK {
            true => Ok(answer),
            false => Err(unreachable(format!("{address} answers {what}: {DAMAGED}"))),
        }
    }

    /// Sends one of openraft's messages, and returns the answer.
    async fn exchange<Q: Serialize, A: DeserializeOwned>(
        &self,
        what: &str,
        message: &Q,
        timeout: Duration,
    ) -> RpcResult<A> {
        let body = postcard::to_stdvec(message).map_err(|e| failed(format!("{what}: {e}")))?;
        let answer = self.post(what, body.into(), timeout).await?;
        if answer.status != StatusCode::OK {
            return Err(unreachable(self.target.refusal(what, &answer)).into());
        }
        let decoded = postcard::from_bytes(&answer.body);
        decoded.map_err(|e| failed(format!("{} answers {what}: {e}", self.target.address)).into())
    }
}

/// Returns a heartbeat with the same position in the log as `message`.
fn head(message: &Append) -> Append {
    let Append { vote, prev_log_id, leader_commit, .. } = message;
    let (vote, prev_log_id, leader_commit) = (*vote, *prev_log_id, *leader_commit);
    Append { vote, prev_log_id, leader_commit, entries: Vec::new() }
}

/// Returns the approximate size of an entry in a message, in bytes.
fn bytes_of(entry: &Entry<TypeConfig>) -> usize {
    match &entry.payload {
        EntryPayload::Normal(requests) => 64 + requests.bytes(),
        _ => 64,
    }
}

/// Sending entries and heartbeats.
impl Peer {
    /// Sends a heartbeat, and waits for its answer until the time `until`.
    async fn heartbeat(
        &mut self,
        heartbeat: Append,
        until: Instant,
    ) -> RpcResult<AppendEntriesResponse<u64>> {
        let (vote, prev) = (heartbeat.vote, heartbeat.prev_log_id);
        let late = || failed(format!("{}: a heartbeat is late", self.target.address));
        let (sent, answer) = if std::mem::replace(&mut self.is_in_use, true) {
            let late = late();
            let exchange = exchange(&self.heartbeats, &self.target, encode(&heartbeat)?);
            match tokio::time::timeout_at(until.into(), exchange).await {
                Ok((sent, answer)) => (sent, decode(&self.target, &answer?)?),
                Err(_) => return Err(late.into()),
            }
        } else {
            let (sent, limit) = (Instant::now(), until.saturating_duration_since(Instant::now()));
            (sent, self.exchange("append", &heartbeat, limit).await?)
        };
        if is_accepted(&answer) {
            self.target.network.lease.accepted(&vote, self.target.id, sent);
            self.matching = Some(prev);
        }
        Ok(answer)
    }

    /// Returns whether entries after the same position are under way.
    fn is_under_way(&self, message: &Append) -> bool {
        self.under_way.as_ref().is_some_and(|under_way| {
            under_way.vote == message.vote && under_way.prev == message.prev_log_id
        })
    }

    /// Sends as many of the entries as fit into a message.
    fn send(&mut self, mut message: Append) -> Result<(), NetworkError> {
        let mut bytes = 0;
        let mut fits = |entry: &Entry<TypeConfig>| {
            let is_first = bytes == 0;
            bytes += bytes_of(entry);
            is_first || bytes <= self.message_bytes
        };
        let count = message.entries.iter().take_while(|entry| fits(entry)).count();
        message.entries.truncate(count);
        let Some(last) = message.entries.last().map(|entry| entry.log_id) else { return Ok(()) };
        let bytes = message.entries.iter().map(bytes_of).sum();
        let (vote, prev) = (message.vote, message.prev_log_id);
        self.entries.abandon();
        self.entries.send(&self.target, encode(&message)?, PATIENCE);
        self.under_way = Some(UnderWay { vote, prev, last, bytes });
        Ok(())
    }

    /// Sends entries, or goes on waiting for those under way.
    async fn send_entries(
        &mut self,
        message: Append,
        until: Instant,
    ) -> RpcResult<AppendEntriesResponse<u64>> {
        let Some(last) = message.entries.last().map(|entry| entry.log_id) else {
            return Err(failed("a message without entries".into()).into());
        };
        let heartbeat = head(&message);
        if !self.is_under_way(&message) {
            // If the logs do not match, the entries would be sent in vain.
            if self.matching != Some(message.prev_log_id) {
                let answer = self.heartbeat(head(&message), until).await?;
                if !is_accepted(&answer) {
                    return Ok(answer);
                }
            }
            self.send(message)?;
        }
        self.wait(heartbeat, last, until).await
    }

    /// Waits until the entries under way have arrived. If that takes longer than until `until`,
    /// reports that the node has accepted nothing new, if it has answered a heartbeat meanwhile.
    /// `last` is the last entry that openraft wants to send.
    async fn wait(
        &mut self,
        heartbeat: Append,
        last: LogId<u64>,
        until: Instant,
    ) -> RpcResult<AppendEntriesResponse<u64>> {
        let prompt = (Instant::now() + PROMPT).min(until);
        let landed = tokio::time::timeout_at(prompt.into(), self.entries.answer()).await;
        if let Ok((sent, answer)) = landed {
            return self.landed(sent, answer, last);
        }
        let (vote, prev) = (heartbeat.vote, heartbeat.prev_log_id);
        let recent = Instant::now() - self.target.network.heartbeat;
        self.beat(heartbeat);
        let Some(beats) = &mut self.beats else {
            return Err(failed("no heartbeats".into()).into());
        };
        let higher = tokio::select! {
            (sent, answer) = self.entries.answer() => return self.landed(sent, answer, last),
            higher = beats.higher_vote() => Some(higher),
            () = tokio::time::sleep_until(until.into()) => None,
        };
        if let Some(higher) = higher {
            self.beats = None;
            return Ok(AppendEntriesResponse::HigherVote(higher));
        }
        let is_live = self.target.network.lease.last(&vote, self.target.id) >= Some(recent);
        // openraft takes no answer that a node matches nothing.
        match prev.filter(|_| is_live) {
            Some(prev) => Ok(AppendEntriesResponse::PartialSuccess(Some(prev))),
            None => Err(failed(format!("{}: a heartbeat is late", self.target.address)).into()),
        }
    }

    /// Sends heartbeats beside entries, until some time after the last call.
    fn beat(&mut self, heartbeat: Append) {
        let until = Instant::now() + self.target.network.stall_limit;
        match &self.beats {
            Some(beats) => beats.update(heartbeat, until),
            None => {
                let (lane, target) = (self.heartbeats.clone(), self.target.clone());
                self.beats = Some(Beats::start(lane, target, heartbeat, Some(until)));
            }
        }
    }

    /// Handles the answer to the entries under way.
    #[expect(clippy::result_large_err, reason = "openraft's error has that size")]
    fn landed(
        &mut self,
        sent: Instant,
        answer: Result<Vec<u8>, Unreachable>,
        last: LogId<u64>,
    ) -> RpcResult<AppendEntriesResponse<u64>> {
        let Some(UnderWay { vote, last: arrived, bytes, .. }) = self.under_way.take() else {
            return Err(failed("no entries are under way".into()).into());
        };
        let answer = decode(&self.target, &answer?)?;
        if !is_accepted(&answer) {
            return Ok(answer);
        }
        self.target.network.lease.accepted(&vote, self.target.id, sent);
        self.matching = Some(Some(arrived));
        let took = sent.elapsed();
        if took > LONG_MESSAGE {
            self.message_bytes = (self.message_bytes / 2).max(SMALLEST_MESSAGE_BYTES);
        } else if took < SHORT_MESSAGE && bytes > self.message_bytes / 2 {
            self.message_bytes = (self.message_bytes * 2).min(LARGEST_MESSAGE_BYTES);
        }
        match (arrived.index < last.index, answer) {
            (true, AppendEntriesResponse::Success) => {
                Ok(AppendEntriesResponse::PartialSuccess(Some(arrived)))
            }
            (_, answer) => Ok(answer),
        }
    }
}

impl RaftNetwork<TypeConfig> for Peer {
    /// Sends entries or a heartbeat. openraft gives up after the time between two heartbeats, and
    /// sends nothing else until then. If entries take longer, this function therefore sends a
    /// heartbeat beside them, and reports that the node has accepted nothing new so far. openraft
    /// then calls it with the same entries again, and it goes on waiting for those under way.
    async fn append_entries(
        &mut self,
        mut message: Append,
        option: RPCOption,
    ) -> RpcResult<AppendEntriesResponse<u64>> {
        // openraft counts this node's own copy of an entry towards the quorum before that copy is
        // durable.
        let durable = |id| self.target.network.store.durable_part(id);
        message.leader_commit = message.leader_commit.and_then(durable);
        let until = Instant::now() + option.soft_ttl();
        let network = &self.target.network;
        if let Some(stall) = network.store.log_stall(network.stall_limit) {
            // Another node can lead better.
            self.beats = None;
            return Err(unreachable(stall).into());
        }
        if message.entries.is_empty() {
            return self.heartbeat(message, until).await;
        }
        let heartbeat = head(&message);
        let answer = self.send_entries(message, until).await;
        if answer.is_err() {
            self.beat(heartbeat);
        } else if self.beats.as_ref().is_some_and(Beats::is_over) {
            self.beats = None;
        }
        answer
    }

    async fn vote(
        &mut self,
        message: VoteRequest<u64>,
        option: RPCOption,
    ) -> RpcResult<VoteResponse<u64>> {
        self.exchange("vote", &message, option.hard_ttl()).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote<u64>,
        snapshot: Snapshot<TypeConfig>,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<u64>, Streaming> {
        let send = async {
            self.send_files(&snapshot).await?;
            self.finish(vote, &snapshot.meta).await
        };
        // Every log matches the position before its first entry.
        let heartbeat =
            Append { vote, prev_log_id: None, leader_commit: None, entries: Vec::new() };
        let (lane, target) = (self.heartbeats.clone(), self.target.clone());
        let mut beats = Beats::start(lane, target, heartbeat, None);
        tokio::select! {
            result = send => result,
            higher = beats.higher_vote() => Ok(SnapshotResponse::new(higher)),
            closed = cancel => Err(closed.into()),
        }
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(std::iter::repeat(Duration::from_millis(100)))
    }
}
