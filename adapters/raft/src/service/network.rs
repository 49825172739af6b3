//! Sends openraft's messages and snapshots to other nodes, over HTTP. Messages are in postcard's
//! format.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use bytes::Bytes;
use openraft::error::{
    Fatal, NetworkError, RPCError, RaftError, ReplicationClosed, StreamingError, Unreachable,
};
use openraft::network::{Backoff, RPCOption};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use openraft::{
    AnyError, BasicNode, ErrorSubject, ErrorVerb, RaftNetwork, RaftNetworkFactory, Snapshot,
    SnapshotMeta, Vote,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::kv::TypeConfig;
use crate::service::identity::Identity;
use crate::service::lease::Lease;
use crate::service::stream::{PROTOCOL, Stream};
use crate::service::wire::{Answer, Call, Wire};
use crate::store::{Position, SnapshotDir, SnapshotFile, Store};

/// Header with the CRC-32C checksum of a chunk.
pub(crate) const CRC: HeaderName = HeaderName::from_static("chunk-crc32c");

const CHUNK_BYTES: usize = 1 << 20;
const CHUNK_TIMEOUT: Duration = Duration::from_secs(20);
/// Time limit for the installation of a snapshot by the receiver.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(300);
const CHUNK_RETRIES: u32 = 8;

type RpcResult<T> = Result<T, RPCError<u64, BasicNode, RaftError<u64>>>;
type Streaming = StreamingError<TypeConfig, Fatal<u64>>;

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

/// A factory of connections to other nodes.
#[derive(Clone)]
pub(crate) struct Network {
    pub(crate) identity: Arc<Identity>,
    pub(crate) wire: Wire,
    pub(crate) lease: Arc<Lease>,
    pub(crate) store: Arc<Store>,
    #[cfg(feature = "faults")]
    pub(crate) faults: Arc<super::faults::Faults>,
}

/// A connection to one node.
pub(crate) struct Peer {
    network: Network,
    target: u64,
    address: String,
    /// Whether entries or heartbeats were already sent to the node. openraft also creates peers for
    /// single messages, for which a stream would not be worth its cost.
    is_in_use: bool,
    /// The stream for entries and heartbeats, used from the second message on. A call takes the
    /// stream out, so a cancelled call drops the stream. No thread ever waits for this mutex.
    stream: Mutex<Option<Stream>>,
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = Peer;

    async fn new_client(&mut self, target: u64, node: &BasicNode) -> Peer {
        let (network, address) = (self.clone(), node.addr.clone());
        Peer { network, target, address, is_in_use: false, stream: Mutex::new(None) }
    }
}

fn unreachable(error: &(impl std::error::Error + 'static)) -> Unreachable {
    Unreachable::new(error)
}

fn failed(what: String) -> NetworkError {
    NetworkError::new(&AnyError::error(what))
}

impl Peer {
    #[cfg(feature = "faults")]
    async fn check_faults(&self) -> Result<(), Unreachable> {
        self.network.faults.pass().await;
        match self.network.faults.ignores(self.target) {
            true => Err(unreachable(&AnyError::error("cut off by a test"))),
            false => Ok(()),
        }
    }

    /// Sends entries or a heartbeat over the stream. Opens the stream first if necessary.
    async fn stream(&mut self, message: &[u8], timeout: Duration) -> Result<Vec<u8>, Unreachable> {
        #[cfg(feature = "faults")]
        self.check_faults().await?;
        let stream = self.kept_stream().take();
        let exchange = async {
            let mut stream = match stream {
                Some(stream) => stream,
                None => self.open_stream().await?,
            };
            let answer = stream.call(message).await;
            let answer = answer
                .map_err(|e| unreachable(&AnyError::error(format!("{}: {e}", self.address))))?;
            Ok::<_, Unreachable>((stream, answer))
        };
        let late = |_| {
            let what = format!("{}: no answer within {} ms", self.address, timeout.as_millis());
            unreachable(&AnyError::error(what))
        };
        let (stream, answer) = tokio::time::timeout(timeout, exchange).await.map_err(late)??;
        *self.kept_stream() = Some(stream);
        Ok(answer)
    }

    fn kept_stream(&mut self) -> &mut Option<Stream> {
        self.stream.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    async fn open_stream(&self) -> Result<Stream, Unreachable> {
        let (network, path) = (&self.network, format!("/raft/{}/stream", self.target));
        let headers = network.identity.headers();
        let upgraded = network.wire.upgrade(&self.address, &path, headers, PROTOCOL).await;
        match upgraded.map_err(|error| unreachable(&error))? {
            Ok(upgraded) => Ok(Stream::new(upgraded)),
            Err(answer) => {
                self.note(&answer);
                Err(unreachable(&AnyError::error(self.refusal("stream", &answer))))
            }
        }
    }

    /// Records whether the other node takes messages of this one at all: a node of another cluster
    /// does not.
    fn note(&self, answer: &Answer) {
        let is_refused = matches!(answer.status, StatusCode::CONFLICT | StatusCode::NOT_FOUND);
        self.network.identity.sent(self.target, is_refused.then(|| answer.message()));
    }

    async fn post(
        &self,
        what: &str,
        headers: Vec<(HeaderName, HeaderValue)>,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Answer, Unreachable> {
        #[cfg(feature = "faults")]
        self.check_faults().await?;
        let mut headers = headers;
        headers.extend(self.network.identity.headers());
        let path = format!("/raft/{}/{what}", self.target);
        let (method, to) = (Method::POST, self.address.as_str());
        let call = Call { method, to, path: &path, headers, body, timeout };
        let answer = self.network.wire.send(call).await.map_err(|error| unreachable(&error))?;
        self.note(&answer);
        Ok(answer)
    }

    /// Sends one of openraft's messages, and returns the answer.
    async fn exchange<Q: Serialize, A: DeserializeOwned>(
        &self,
        what: &str,
        message: &Q,
        option: &RPCOption,
    ) -> RpcResult<A> {
        let body = postcard::to_stdvec(message).map_err(|e| failed(format!("{what}: {e}")))?;
        let answer = self.post(what, Vec::new(), body.into(), option.hard_ttl()).await?;
        if answer.status != StatusCode::OK {
            return Err(unreachable(&AnyError::error(self.refusal(what, &answer))).into());
        }
        let decoded = postcard::from_bytes(&answer.body);
        decoded.map_err(|e| failed(format!("{} answers {what}: {e}", self.address)).into())
    }

    fn refusal(&self, what: &str, answer: &Answer) -> String {
        let body = String::from_utf8_lossy(&answer.body);
        format!("{} answers {what}: {} {body}", self.address, answer.status)
    }

    async fn send_files(&self, snapshot: &Snapshot<TypeConfig>) -> Result<(), Streaming> {
        let signature = snapshot.meta.signature();
        let reading = |error: crate::store::Error| {
            error.into_storage(ErrorSubject::Snapshot(Some(signature.clone())), ErrorVerb::Read)
        };
        let files = snapshot.snapshot.files().map_err(reading)?;
        let id = &snapshot.meta.snapshot_id;
        let mut at = self.offer(id, &files).await?;
        let mut failures = 0;
        while let Some(file) = files.get(at.file) {
            let bytes = (file.bytes.saturating_sub(at.offset)).min(CHUNK_BYTES as u64) as usize;
            let (dir, name, offset) = (snapshot.snapshot.clone(), file.name.clone(), at.offset);
            let chunk = tokio::task::spawn_blocking(move || read_chunk(&dir, &name, offset, bytes))
                .await
                .map_err(|e| failed(format!("reading a snapshot: {e}")))?
                .map_err(reading)?;
            match self.send_chunk(id, at, chunk).await {
                Ok(next) => (at, failures) = (next, 0),
                Err(_) if failures < CHUNK_RETRIES => {
                    failures += 1;
                    tokio::time::sleep(Duration::from_millis(50 << failures.min(5))).await;
                    // The receiver knows how far the transfer got, even if its last answer was
                    // lost.
                    if let Ok(known) = self.offer(id, &files).await {
                        at = known;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn offer(&self, id: &str, files: &[SnapshotFile]) -> Result<Position, Streaming> {
        let offer = Offer { id: id.into(), files: files.to_vec() };
        let body = serde_json::to_vec(&offer).map_err(|e| failed(e.to_string()))?;
        let answer = self.post("snapshot", Vec::new(), body.into(), CHUNK_TIMEOUT).await?;
        self.position("snapshot", &answer)
    }

    async fn send_chunk(
        &self,
        id: &str,
        at: Position,
        chunk: Vec<u8>,
    ) -> Result<Position, Streaming> {
        let crc = HeaderValue::from(crc32c::crc32c(&chunk));
        let what = format!("chunk/{id}/{}/{}", at.file, at.offset);
        let answer = self.post(&what, vec![(CRC, crc)], chunk.into(), CHUNK_TIMEOUT).await?;
        self.position(&what, &answer)
    }

    #[expect(clippy::result_large_err, reason = "openraft's error has that size")]
    fn position(&self, what: &str, answer: &Answer) -> Result<Position, Streaming> {
        if answer.status != StatusCode::OK {
            return Err(failed(self.refusal(what, answer)).into());
        }
        serde_json::from_slice(&answer.body)
            .map_err(|e| failed(format!("{} answers {what}: {e}", self.address)).into())
    }

    async fn finish(
        &self,
        vote: Vote<u64>,
        meta: &SnapshotMeta<u64, BasicNode>,
    ) -> Result<SnapshotResponse<u64>, Streaming> {
        let finish = Finish { vote, meta: meta.clone() };
        let body = serde_json::to_vec(&finish).map_err(|e| failed(e.to_string()))?;
        let answer = self.post("finish", Vec::new(), body.into(), INSTALL_TIMEOUT).await?;
        if answer.status != StatusCode::OK {
            return Err(failed(self.refusal("finish", &answer)).into());
        }
        serde_json::from_slice(&answer.body)
            .map_err(|e| failed(format!("{} answers finish: {e}", self.address)).into())
    }
}

/// Returns whether a follower has accepted entries or a heartbeat.
pub(crate) fn is_accepted(answer: &AppendEntriesResponse<u64>) -> bool {
    matches!(answer, AppendEntriesResponse::Success | AppendEntriesResponse::PartialSuccess(_))
}

fn read_chunk(
    dir: &SnapshotDir,
    name: &str,
    offset: u64,
    bytes: usize,
) -> crate::store::Result<Vec<u8>> {
    let mut chunk = vec![0; bytes];
    let read = dir.read_at(name, &mut chunk, offset)?;
    if read < bytes {
        let what = format!("ends at {}, before its length", offset + read as u64);
        return Err(crate::store::Error::Format { place: format!("the snapshot's {name}"), what });
    }
    Ok(chunk)
}

impl RaftNetwork<TypeConfig> for Peer {
    async fn append_entries(
        &mut self,
        mut message: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> RpcResult<AppendEntriesResponse<u64>> {
        // openraft counts this node's own copy of an entry towards the quorum before that copy is
        // durable.
        let durable = |id| self.network.store.durable_part(id);
        message.leader_commit = message.leader_commit.and_then(durable);
        let sent = Instant::now();
        let answer: AppendEntriesResponse<u64> = if std::mem::replace(&mut self.is_in_use, true) {
            let body = postcard::to_stdvec(&message).map_err(|e| failed(format!("append: {e}")))?;
            let answer = self.stream(&body, option.hard_ttl()).await?;
            let decoded = postcard::from_bytes(&answer);
            decoded.map_err(|e| failed(format!("{} answers append: {e}", self.address)))?
        } else {
            self.exchange("append", &message, &option).await?
        };
        if is_accepted(&answer) {
            self.network.lease.accepted(&message.vote, self.target, sent);
        }
        Ok(answer)
    }

    async fn vote(
        &mut self,
        message: VoteRequest<u64>,
        option: RPCOption,
    ) -> RpcResult<VoteResponse<u64>> {
        self.exchange("vote", &message, &option).await
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
        tokio::select! {
            result = send => result,
            closed = cancel => Err(closed.into()),
        }
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(std::iter::repeat(Duration::from_millis(100)))
    }
}
