//! Watching: sends changes as server-sent events, in the order of the log.
//!
//! Each event has the name `change`, the place of the change as the id (`INDEX-POSITION`: the index
//! of the log entry, and the number of earlier changes of the same entry), and JSON data with
//! `index`, `position`, `key` and `value` (null for a deletion). A client that sends the id of the
//! last event that it received continues exactly after that event. A node keeps the latest changes
//! in memory. A request for older changes, and one with an id that no event has, gets the status
//! 410; the client must then read the whole range again. A follower that is behind an id answers
//! 503, as it does not know whether an event has it. A stream that falls behind ends with the event
//! `lost`.
//!
//! While no change has the prefix, the event `progress`, which has an id but no data, tells every
//! [`PROGRESS`] how far the node has looked. A client that has missed nothing can then go on at a
//! node that no longer knows the changes before. Browsers keep the id, and dispatch no event.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::sse::{Event, Sse};
use bytes::Bytes;
use futures_util::Stream;
use openraft::ServerState;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::service::error::{ApiError, ApiResult};
use crate::service::node::Node;
use crate::service::query::Query;
use crate::service::text::Text;
use crate::watch::{Change, ChangeId};

/// The time without an event after which a stream tells how far it has come.
const PROGRESS: Duration = Duration::from_secs(5);

/// The data of an event.
#[derive(Serialize, Deserialize)]
pub(crate) struct ChangeBody {
    index: u64,
    position: u32,
    key: Text,
    value: Option<Text>,
}

impl ChangeBody {
    pub(crate) fn into_change(self) -> Change {
        let ChangeBody { index, position, key, value } = self;
        Change { id: ChangeId { index, position }, key: key.0, value: value.map(|value| value.0) }
    }
}

/// An open stream of events.
struct Watching {
    node: Arc<Node>,
    prefix: Bytes,
    seen: ChangeId,
    wake: watch::Receiver<u64>,
    waiting: VecDeque<Change>,
    /// The time of the last event.
    told: Instant,
    is_over: bool,
}

pub(crate) async fn watch(
    State(node): State<Arc<Node>>,
    headers: HeaderMap,
    uri: Uri,
) -> ApiResult<Sse<impl Stream<Item = Result<Event, Infallible>>>> {
    let query = Query::parse(&uri, &["prefix", "after"])?;
    let mut wake = node.hub.subscribe();
    let applied = *wake.borrow_and_update();
    let seen = match place(&headers, &query)? {
        Some(seen) => check_place(&node, seen, applied)?,
        None => ChangeId::end_of(applied),
    };
    let prefix = query.bytes("prefix").unwrap_or_default();
    if let Err(first) = node.hub.since(seen, &prefix) {
        let what = format!("changes after {seen} are forgotten; the oldest are after {first}");
        return Err(ApiError::with(StatusCode::GONE, what));
    }
    let waiting = VecDeque::new();
    let told = Instant::now();
    let watching = Watching { node, prefix, seen, wake, waiting, told, is_over: false };
    Ok(Sse::new(futures_util::stream::unfold(watching, |mut watching| async {
        let event = watching.next().await?;
        watching.told = Instant::now();
        Some((Ok(event), watching))
    })))
}

/// Returns the place after which a client wants to see changes. A browser that reconnects sends the
/// id of the last event that it received.
fn place(headers: &HeaderMap, query: &Query) -> ApiResult<Option<ChangeId>> {
    if let Some(id) = headers.get("last-event-id") {
        // An index alone would be the id of an event of an older version, which had the same id for
        // all changes of an entry.
        let text = id.to_str().unwrap_or_default();
        let id = text.contains('-').then(|| text.parse().ok()).flatten();
        let gone = || format!("`{text}` is not the id of an event, which is INDEX-POSITION");
        return id.map(Some).ok_or_else(|| ApiError::with(StatusCode::GONE, gone()));
    }
    let Some(after) = query.bytes("after") else { return Ok(None) };
    let text = String::from_utf8_lossy(&after);
    let bad = |_| ApiError::bad(format!("`after` is INDEX or INDEX-POSITION, not `{text}`"));
    text.parse().map(Some).map_err(bad)
}

/// Refuses a place after the end of this node's log. If the node leads, the place comes from
/// another cluster, such as the one from whose backup this cluster was restored. A follower cannot
/// know, because it may lag; if it took the place, it would drop all changes up to there.
fn check_place(node: &Node, seen: ChangeId, applied: u64) -> ApiResult<ChangeId> {
    let metrics = node.raft.metrics();
    let metrics = metrics.borrow();
    // The metrics may not show an entry yet whose changes were sent.
    let last = metrics.last_log_index.unwrap_or(0).max(applied);
    if seen.index <= last {
        return Ok(seen);
    }
    if metrics.state == ServerState::Leader {
        let what = format!("there is no change {seen}: the log ends at {last}");
        return Err(ApiError::with(StatusCode::GONE, what));
    }
    let what = format!("this node is behind the change {seen}; ask another, or later");
    Err(ApiError::Unavailable(what))
}

impl Watching {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if self.is_over {
                return None;
            }
            if let Some(Change { id, key, value }) = self.waiting.pop_front() {
                let ChangeId { index, position } = id;
                let body = ChangeBody { index, position, key: Text(key), value: value.map(Text) };
                let event = Event::default().event("change").id(id.to_string());
                return event.json_data(body).ok();
            }
            match self.node.hub.since(self.seen, &self.prefix) {
                Ok((changes, upto)) => {
                    self.seen = upto;
                    self.waiting = changes.into();
                }
                Err(_) => {
                    self.is_over = true;
                    let seen = self.seen.to_string();
                    return Some(Event::default().event("lost").data(seen));
                }
            }
            if self.waiting.is_empty() {
                let until = self.told + PROGRESS;
                if Instant::now() >= until {
                    let ChangeId { index, position } = self.seen;
                    let id = format!("{index}-{position}");
                    return Some(Event::default().event("progress").id(id));
                }
                if let Ok(changed) = timeout_at(until, self.wake.changed()).await {
                    changed.ok()?;
                }
            }
        }
    }
}
