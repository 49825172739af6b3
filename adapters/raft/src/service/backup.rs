//! The HTTP routes for reading a backup: the list of the files of a snapshot, and the files in
//! chunks.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use openraft::BasicNode;
use serde::{Deserialize, Serialize};

use crate::service::error::{ApiError, ApiResult};
use crate::service::node::Node;
use crate::store::{Error, SnapshotFile};

/// Size of a chunk, in bytes: small enough to arrive within the client's time limit over a link of
/// 1 Mbit/s.
const CHUNK_BYTES: u64 = 1 << 20;

/// A snapshot whose files a client can read.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Listing {
    pub(crate) id: String,
    /// The index of the last log entry in the snapshot.
    pub(crate) index: Option<u64>,
    pub(crate) files: Vec<SnapshotFile>,
}

pub(crate) fn routes() -> Router<Arc<Node>> {
    Router::new()
        .route("/v1/backup", post(make))
        .route("/v1/backup/{id}", axum::routing::delete(release))
        .route("/v1/backup/{id}/{file}/{offset}", get(read))
}

/// Makes a snapshot of this node's state. The snapshot is as fresh as a linearizable read.
async fn make(State(node): State<Arc<Node>>) -> ApiResult<Json<Listing>> {
    let listing = node.read(super::Read::Linearizable, |node| {
        let (meta, snapshot) = crate::store::build::build::<BasicNode>(&node.store)?;
        let (index, files) = (meta.last_log_id.map(|id| id.index), snapshot.files()?);
        let id = node.backups.keep(&meta.snapshot_id, snapshot)?;
        Ok(Listing { id, index, files })
    });
    Ok(Json(listing.await?))
}

async fn release(State(node): State<Arc<Node>>, Path(id): Path<String>) -> ApiResult<()> {
    // Dropping the last clone of an old snapshot removes its files.
    let release = move |node: &Node| {
        node.backups.release(&id);
        Ok(())
    };
    node.blocking(release).await
}

async fn read(
    State(node): State<Arc<Node>>,
    Path((id, file, offset)): Path<(String, usize, u64)>,
) -> ApiResult<Vec<u8>> {
    let chunk = node.blocking(move |node| {
        let Some(snapshot) = node.backups.get(&id) else { return Ok(None) };
        let files = snapshot.files()?;
        let Some(file) = files.get(file).filter(|file| offset <= file.bytes) else {
            return Err(Error::Refused(format!("no byte {offset} in a file {file}")));
        };
        let mut chunk = vec![0; (file.bytes - offset).min(CHUNK_BYTES) as usize];
        let read = snapshot.read_at(&file.name, &mut chunk, offset)?;
        chunk.truncate(read);
        Ok(Some(chunk))
    });
    let gone = || ApiError::with(StatusCode::GONE, "the node no longer keeps this backup");
    chunk.await?.ok_or_else(gone)
}
