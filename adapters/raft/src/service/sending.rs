//! Sends snapshots to other nodes, in chunks.

use std::time::{Duration, Instant};

use axum::http::StatusCode;
use openraft::raft::SnapshotResponse;
use openraft::{BasicNode, ErrorSubject, ErrorVerb, Snapshot, SnapshotMeta, Vote};

use crate::kv::TypeConfig;
use crate::service::network::{Finish, Offer, Peer, Streaming};
use crate::service::target::failed;
use crate::service::wire::Answer;
use crate::store::{Position, SnapshotDir, SnapshotFile};

const CHUNK_TIMEOUT: Duration = Duration::from_secs(20);
/// Time for which a chunk of a snapshot may occupy a link. Heartbeats wait as long.
const CHUNK_TIME: Duration = Duration::from_millis(40);
const SMALLEST_CHUNK_BYTES: usize = 16 << 10;
const LARGEST_CHUNK_BYTES: usize = 1 << 20;
/// Time limit for the installation of a snapshot by the receiver.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(300);
const CHUNK_RETRIES: u32 = 8;

impl Peer {
    pub(super) async fn send_files(
        &self,
        snapshot: &Snapshot<TypeConfig>,
    ) -> Result<(), Streaming> {
        let signature = snapshot.meta.signature();
        let reading = |error: crate::store::Error| {
            error.into_storage(ErrorSubject::Snapshot(Some(signature.clone())), ErrorVerb::Read)
        };
        let files = snapshot.snapshot.files().map_err(reading)?;
        let id = &snapshot.meta.snapshot_id;
        let began = Instant::now();
        let mut at = self.offer(id, &files).await?;
        let mut chunks = Chunks { shortest: began.elapsed(), rate: 0.0 };
        let mut failures = 0;
        while let Some(file) = files.get(at.file) {
            let bytes = (file.bytes.saturating_sub(at.offset)).min(chunks.bytes() as u64) as usize;
            let (dir, name, offset) = (snapshot.snapshot.clone(), file.name.clone(), at.offset);
            let chunk = tokio::task::spawn_blocking(move || read_chunk(&dir, &name, offset, bytes))
                .await
                .map_err(|e| failed(format!("reading a snapshot: {e}")))?
                .map_err(reading)?;
            let began = Instant::now();
            match self.send_chunk(id, at, chunk).await {
                Ok(next) => {
                    (at, failures) = (next, 0);
                    chunks.sent(bytes, began.elapsed());
                }
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
        let answer = self.post("snapshot", body.into(), CHUNK_TIMEOUT).await?;
        self.position("snapshot", &answer)
    }

    async fn send_chunk(
        &self,
        id: &str,
        at: Position,
        chunk: Vec<u8>,
    ) -> Result<Position, Streaming> {
        let what = format!("chunk/{id}/{}/{}", at.file, at.offset);
        let answer = self.post(&what, chunk.into(), CHUNK_TIMEOUT).await?;
        self.position(&what, &answer)
    }

    #[expect(clippy::result_large_err, reason = "openraft's error has that size")]
    fn position(&self, what: &str, answer: &Answer) -> Result<Position, Streaming> {
        if answer.status != StatusCode::OK {
            return Err(failed(self.target.refusal(what, answer)).into());
        }
        serde_json::from_slice(&answer.body)
            .map_err(|e| failed(format!("{} answers {what}: {e}", self.target.address)).into())
    }

    pub(super) async fn finish(
        &self,
        vote: Vote<u64>,
        meta: &SnapshotMeta<u64, BasicNode>,
    ) -> Result<SnapshotResponse<u64>, Streaming> {
        let finish = Finish { vote, meta: meta.clone() };
        let body = serde_json::to_vec(&finish).map_err(|e| failed(e.to_string()))?;
        let answer = self.post("finish", body.into(), INSTALL_TIMEOUT).await?;
        if answer.status != StatusCode::OK {
            return Err(failed(self.target.refusal("finish", &answer)).into());
        }
        serde_json::from_slice(&answer.body)
            .map_err(|e| failed(format!("{} answers finish: {e}", self.target.address)).into())
    }
}

/// The size of the chunks of a snapshot, adapted to the link.
struct Chunks {
    /// The time of the fastest exchange, which is taken for the delay of an idle link.
    shortest: Duration,
    /// The highest rate seen lately, in bytes per second.
    rate: f64,
}

impl Chunks {
    fn sent(&mut self, bytes: usize, took: Duration) {
        self.shortest = self.shortest.min(took);
        self.rate = (self.rate * 0.98).max(bytes as f64 / took.as_secs_f64());
    }

    fn bytes(&self) -> usize {
        let bytes = self.rate * (self.shortest + CHUNK_TIME).as_secs_f64();
        (bytes as usize).clamp(SMALLEST_CHUNK_BYTES, LARGEST_CHUNK_BYTES)
    }
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
