//! The connections of a node. Their number is limited, so that clients cannot use up the
//! descriptors of the process, and some are kept back for other nodes.
//!
//! A connection *waits* while the node has not received a whole request. At the limit, a new
//! connection takes the place of the one that has waited longest. If none waits, the new connection
//! may use the reserve, where only requests of other nodes are served. Connections of other nodes
//! are never closed for others.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tokio::sync::Notify;
use tokio::time::Sleep;

/// Time limit for the arrival of a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// Assumed limit of descriptors if the system does not tell.
const FEW_DESCRIPTORS: usize = 256;
const NOT_WAITING: u64 = u64::MAX;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The open connections.
pub(crate) struct Connections {
    limit: usize,
    reserve: usize,
    clock: AtomicU64,
    open: Mutex<BTreeMap<u64, Arc<Connection>>>,
}

struct Connection {
    is_peer: AtomicBool,
    /// The time at which the connection began to wait, in ticks of the clock, or [`NOT_WAITING`].
    waits_since: AtomicU64,
    close: Notify,
}

/// A place among the connections, given back when it is dropped.
pub(crate) struct Slot {
    connections: Arc<Connections>,
    number: u64,
    connection: Arc<Connection>,
    /// Whether only requests of other nodes may be served.
    pub(crate) is_reserved: bool,
}

impl Connections {
    /// Allows `most` connections, or fewer if the process may open few files: the other half of its
    /// descriptors is for the databases.
    pub(crate) fn new(most: usize) -> Arc<Connections> {
        let descriptors = descriptors().unwrap_or(FEW_DESCRIPTORS);
        Arc::new(Connections::with(most.min(descriptors / 2)))
    }

    fn with(all: usize) -> Connections {
        let reserve = (all / 4).clamp(1, 64);
        let limit = all.saturating_sub(reserve).max(1);
        Connections { limit, reserve, clock: AtomicU64::new(0), open: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Connection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes room for a new connection, or returns `None` if there is none.
    pub(crate) fn admit(self: &Arc<Connections>) -> Option<Arc<Slot>> {
        let mut open = self.lock();
        if open.len() >= self.limit {
            let waiting = open.iter().filter(|(_, connection)| connection.may_be_closed());
            let longest = waiting.min_by_key(|(_, connection)| connection.since());
            if let Some(number) = longest.map(|(number, _)| *number)
                && let Some(closed) = open.remove(&number)
            {
                closed.close.notify_one();
            }
        }
        if open.len() >= self.limit + self.reserve {
            return None;
        }
        let is_reserved = open.len() >= self.limit;
        let number = self.tick();
        let connection = Arc::new(Connection {
            is_peer: AtomicBool::new(false),
            waits_since: AtomicU64::new(number),
            close: Notify::new(),
        });
        open.insert(number, connection.clone());
        Some(Arc::new(Slot { connections: self.clone(), number, connection, is_reserved }))
    }
}

impl Connection {
    fn since(&self) -> u64 {
        self.waits_since.load(Ordering::Relaxed)
    }

    fn may_be_closed(&self) -> bool {
        !self.is_peer.load(Ordering::Relaxed) && self.since() != NOT_WAITING
    }
}

impl Slot {
    /// Records that the connection belongs to another node of the cluster.
    pub(crate) fn is_of_peer(&self) {
        self.connection.is_peer.store(true, Ordering::Relaxed);
    }

    /// Waits until another connection needs the place.
    pub(crate) async fn closed(&self) {
        self.connection.close.notified().await;
    }

    fn serves(&self) {
        self.connection.waits_since.store(NOT_WAITING, Ordering::Relaxed);
    }

    fn waits(&self) {
        self.connection.waits_since.store(self.connections.tick(), Ordering::Relaxed);
    }

    /// Wraps the body of a request. The connection waits until the body has ended.
    pub(crate) fn receive(self: &Arc<Slot>, body: Incoming) -> Body {
        if body.is_end_stream() {
            self.serves();
            return Body::empty();
        }
        self.waits();
        let timeout = Box::pin(tokio::time::sleep(BODY_TIMEOUT));
        Body::new(Received { slot: self.clone(), body, timeout })
    }

    /// Wraps the body of a response. After it, the connection waits for the next request.
    pub(crate) fn send(self: &Arc<Slot>, body: Body) -> Body {
        Body::new(Sent { body, _served: Served(self.clone()) })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.connections.lock().remove(&self.number);
    }
}

/// The body of a request, which must arrive in time.
struct Received {
    slot: Arc<Slot>,
    body: Incoming,
    timeout: Pin<Box<Sleep>>,
}

impl HttpBody for Received {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            if frame.is_none() || self.body.is_end_stream() {
                self.slot.serves();
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(BoxError::from)));
        }
        let late = || format!("the body has not arrived within {} s", BODY_TIMEOUT.as_secs());
        self.timeout.as_mut().poll(context).map(|()| Some(Err(late().into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a response.
struct Sent {
    body: Body,
    _served: Served,
}

struct Served(Arc<Slot>);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.waits();
    }
}

impl HttpBody for Sent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Returns the number of files that this process may open.
fn descriptors() -> Option<usize> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_closed(slot: &Slot) -> bool {
        !slot.connections.lock().contains_key(&slot.number)
    }

    #[test]
    fn the_connection_that_waited_longest_makes_room() {
        let connections = Arc::new(Connections::with(4));
        let slots: Vec<_> = (0..3).map(|_| connections.admit().unwrap()).collect();
        slots[0].serves();
        slots[1].is_of_peer();
        let next = connections.admit().unwrap();
        assert!(!next.is_reserved);
        let closed: Vec<bool> = slots.iter().map(|slot| is_closed(slot)).collect();
        assert_eq!(closed, [false, false, true]);
    }

    #[test]
    fn the_reserve_is_for_other_nodes() {
        let connections = Arc::new(Connections::with(4));
        let slots: Vec<_> = (0..3).map(|_| connections.admit().unwrap()).collect();
        slots.iter().for_each(|slot| slot.serves());
        let peer = connections.admit().unwrap();
        assert!(peer.is_reserved);
        peer.is_of_peer();
        assert!(connections.admit().is_none());
        drop(slots);
        assert!(!connections.admit().unwrap().is_reserved);
    }
}
