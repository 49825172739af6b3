//! Calls of Raft that are answered only while the node leads.
//!
//! openraft 0.9 answers a write or a change of the membership once it has applied the entry, or has
//! dropped it from the log. It never answers if a node that no longer leads gets the entry, or
//! another in its place, as a part of a snapshot.

use std::future::Future;
use std::time::Duration;

use openraft::{Raft, ServerState};

use crate::kv::TypeConfig;

/// The interval at which a node looks whether it still leads. Waking up at each change of the
/// metrics would slow down every write.
const INTERVAL: Duration = Duration::from_millis(200);

/// Time after the end of a lead within which openraft may still answer: a leader that removes
/// itself stops leading first.
const GRACE: Duration = Duration::from_secs(5);

/// Waits until the node of `raft` does not lead in its present term any more.
pub(crate) fn lead_ends(raft: &Raft<TypeConfig>) -> impl Future<Output = ()> + Send + use<> {
    let metrics = raft.metrics();
    let term = metrics.borrow().current_term;
    async move {
        loop {
            tokio::time::sleep(INTERVAL).await;
            let metrics = metrics.borrow();
            if metrics.current_term != term || metrics.state != ServerState::Leader {
                return;
            }
        }
    }
}

/// Waits until openraft has forgotten a call that begins now.
pub(crate) fn forgets(raft: &Raft<TypeConfig>) -> impl Future<Output = ()> + Send + use<> {
    let lead_ends = lead_ends(raft);
    async move {
        lead_ends.await;
        tokio::time::sleep(GRACE).await;
    }
}
