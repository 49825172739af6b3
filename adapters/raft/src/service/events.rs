//! Watching: sends changes as server-sent events, in the order of the log.
//!
//! Each event has the name `change`, the index of its log entry as the id, and JSON data with
//! `index`, `key` and `value` (null for a deletion). A node keeps the latest changes in memory. A
//! request for older changes gets the status 410 and the index after which the node still has all
//! changes; the client must then read the whole range again. A stream that falls behind ends with
//! the event `lost`.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::sse::{Event, KeepAlive, Sse};
use bytes::Bytes;
use futures_util::Stream;
use serde::Serialize;
use tokio::sync::watch;

use crate::service::error::{ApiError, ApiResult};
use crate::service::node::Node;
use crate::service::query::Query;
use crate::service::text::Text;
use crate::watch::Change;

#[derive(Serialize)]
struct ChangeBody {
    index: u64,
    key: Text,
    value: Option<Text>,
}

/// An open stream of events.
struct Watching {
    node: Arc<Node>,
    prefix: Bytes,
    seen: u64,
    wake: watch::Receiver<u64>,
    waiting: VecDeque<Change>,
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
    // A browser that reconnects sends the id of the last event that it received.
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let seen = last.or(query.parsed("after")?).unwrap_or(applied);
    let prefix = query.bytes("prefix").unwrap_or_default();
    if let Err(first) = node.hub.since(seen, &prefix) {
        let what = format!("changes after {seen} are forgotten; the oldest are after {first}");
        return Err(ApiError::with(StatusCode::GONE, what));
    }
    let waiting = VecDeque::new();
    let watching = Watching { node, prefix, seen, wake, waiting, is_over: false };
    let events = futures_util::stream::unfold(watching, |mut watching| async {
        let event = watching.next().await?;
        Some((Ok(event), watching))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))))
}

impl Watching {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if self.is_over {
                return None;
            }
            if let Some(Change { index, key, value }) = self.waiting.pop_front() {
                let body = ChangeBody { index, key: Text(key), value: value.map(Text) };
                let event = Event::default().event("change").id(index.to_string());
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
                self.wake.changed().await.ok()?;
            }
        }
    }
}
