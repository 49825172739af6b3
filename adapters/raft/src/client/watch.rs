//! Watching changes, across the loss of connections and of nodes.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::{Client, ClientError, ClientResult, FIRST_PAUSE, LONGEST_PAUSE};
use crate::service::api::ChangeBody;
use crate::service::encode_percent;
use crate::watch::{Change, ChangeId};

/// The time without any byte after which a connection counts as broken. A node sends an event at
/// least every 5 seconds.
const SILENCE: Duration = Duration::from_secs(40);
/// Maximum length of a line of the stream. A change has at most the size of a message.
const MAX_LINE_BYTES: usize = 512 << 20;

/// The reason why a connection has ended.
enum End {
    Stopped,
    /// The node was watched, and its stream has ended.
    Lost,
    /// The node cannot be reached, or cannot send the changes for now.
    Broken(String),
    /// The node at this address no longer knows the changes. Another node may still know them.
    Gone(String, ClientError),
}

impl Client {
    /// Calls `each` for every change of a key that begins with `prefix`, in order, until `each`
    /// breaks off. Begins after the change `after`, or with the next change. If the connection is
    /// lost, continues at another node after the last change, so no change is lost or repeated.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with the status 410 if the changes after `after` are no longer
    /// known by any node, or by none that is reached before the deadline, also if this happens
    /// later on; see [`ClientError`].
    pub async fn watch(
        &self,
        prefix: &[u8],
        after: Option<ChangeId>,
        mut each: impl FnMut(Change) -> ControlFlow<()>,
    ) -> ClientResult<()> {
        let mut seen = match after {
            Some(after) => after,
            None => ChangeId::end_of(self.status().await?.applied.unwrap_or(0)),
        };
        // The time to find another node begins when a stream ends, however few changes it had.
        let mut deadline = Instant::now() + self.deadline;
        let nodes = super::lock(&self.nodes).addresses.len();
        // A node that is not reached for a moment may be the one that knows the changes.
        let mut gone = BTreeMap::new();
        loop {
            let end = self.watch_once(prefix, &mut seen, &mut each).await?;
            let is_late = Instant::now() > deadline;
            match end {
                End::Stopped => return Ok(()),
                End::Lost => {
                    gone.clear();
                    deadline = Instant::now() + self.deadline;
                    tokio::time::sleep(LONGEST_PAUSE).await;
                }
                End::Gone(node, error) => {
                    gone.insert(node, error.clone());
                    if is_late || gone.len() >= nodes {
                        return Err(error);
                    }
                }
                End::Broken(what) if is_late => {
                    let known = gone.into_values().next();
                    return Err(known.unwrap_or(ClientError::Deadline(what)));
                }
                End::Broken(_) => tokio::time::sleep(LONGEST_PAUSE).await,
            }
            tokio::time::sleep(FIRST_PAUSE).await;
        }
    }

    async fn watch_once(
        &self,
        prefix: &[u8],
        seen: &mut ChangeId,
        each: &mut impl FnMut(Change) -> ControlFlow<()>,
    ) -> ClientResult<End> {
        let to = self.target(true);
        let path = format!("/v1/watch?prefix={}&after={seen}", encode_percent(prefix));
        super::check_path(&path)?;
        let body = match self.wire.open(&to, &path, self.deadline).await {
            Ok(Ok(body)) => body,
            Ok(Err(answer)) if answer.status == StatusCode::SERVICE_UNAVAILABLE => {
                self.give_up(&to);
                return Ok(End::Broken(answer.message()));
            }
            Ok(Err(answer)) if answer.status == StatusCode::GONE => {
                self.give_up(&to);
                let refused = super::refused(&answer);
                return Ok(End::Gone(to, refused));
            }
            Ok(Err(answer)) => return Err(super::refused(&answer)),
            Err(error) => {
                self.give_up(&to);
                return Ok(End::Broken(error.to_string()));
            }
        };
        let mut lines = EventLines { body, buffer: Vec::new(), searched: 0 };
        let mut is_progress = false;
        loop {
            let line = lines.next().await.filter(|line| line != b"event: lost");
            let Some(line) = line else {
                self.give_up(&to);
                return Ok(End::Lost);
            };
            if line.starts_with(b"event: ") {
                is_progress = line == b"event: progress";
            }
            // The id of a change counts once its data has arrived.
            if let Some(id) = line.strip_prefix(b"id: ").filter(|_| is_progress) {
                *seen = (*seen).max(place_of(id, &to)?);
            }
            let Some(data) = line.strip_prefix(b"data: ") else { continue };
            let change: ChangeBody = serde_json::from_slice(data)
                .map_err(|e| ClientError::Invalid(format!("{to} sends a strange change: {e}")))?;
            let change = change.into_change();
            *seen = change.id;
            if each(change).is_break() {
                return Ok(End::Stopped);
            }
        }
    }
}

fn place_of(id: &[u8], node: &str) -> ClientResult<ChangeId> {
    let id = String::from_utf8_lossy(id);
    id.parse().map_err(|_| ClientError::Invalid(format!("{node} sends a strange place: {id}")))
}

/// The lines of a stream of events.
struct EventLines {
    body: Incoming,
    buffer: Vec<u8>,
    /// The length of the part of `buffer` that contains no end of a line.
    searched: usize,
}

impl EventLines {
    /// Returns the next line, or `None` if the connection is lost.
    async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let end = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n');
            if let Some(end) = end.map(|end| self.searched + end) {
                let rest = self.buffer.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                line.pop();
                self.searched = 0;
                return Some(line);
            }
            self.searched = self.buffer.len();
            if self.searched > MAX_LINE_BYTES {
                return None;
            }
            let frame = tokio::time::timeout(SILENCE, self.body.frame()).await;
            let frame = frame.ok()??.ok()?;
            if let Some(data) = frame.data_ref() {
                self.buffer.extend_from_slice(data);
            }
        }
    }
}
