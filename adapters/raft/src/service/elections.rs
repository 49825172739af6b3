//! When this node may stand for election.
//!
//! openraft counts the time without a leader from the last message of the leader that its core has
//! handled. The core does one thing after another: while it purges the log or installs a snapshot,
//! the leader's messages wait, and afterwards the core looks at its timer before it looks at them.
//! The node would then stand for election although its leader is well, and with its higher term
//! overthrow it. Therefore the node only does so if no message of the leader waits for the core,
//! and none has arrived for most of the lease.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use openraft::{Raft, Vote};

use crate::kv::TypeConfig;

/// Number of steps in which the length of the lease is counted.
const LEASE_STEPS: u32 = 16;
/// Number of steps without a message of the leader after which the node may stand for election. As
/// openraft waits for longer than the lease, this delays no election that is due. Steps are counted
/// rather than time, so that a process that was stopped first takes the messages that have waited.
const QUIET_STEPS: u32 = 12;

/// Allows and forbids openraft to start elections on this node.
pub(crate) struct Elections {
    raft: Raft<TypeConfig>,
    leader: Mutex<LeaderMessages>,
}

/// The messages of the leader, as far as this node knows.
#[derive(Default)]
struct LeaderMessages {
    /// Number of messages that have arrived and that the core has not handled yet.
    waiting: usize,
    /// Number of steps since the last message.
    quiet_steps: u32,
}

impl LeaderMessages {
    /// Counts a step, and returns whether the node may stand for election.
    fn step(&mut self) -> bool {
        self.quiet_steps = self.quiet_steps.saturating_add(1);
        self.waiting == 0 && self.quiet_steps >= QUIET_STEPS
    }
}

/// A message of the leader that the core has not handled yet.
pub(crate) struct UnhandledMessage<'a>(&'a Elections);

impl Drop for UnhandledMessage<'_> {
    fn drop(&mut self) {
        let mut leader = self.0.lock();
        leader.waiting -= 1;
        leader.quiet_steps = 0;
    }
}

impl Elections {
    /// Looks after the elections of a node, whose lease has the length `lease`.
    pub(crate) fn watched(raft: Raft<TypeConfig>, lease: Duration) -> Arc<Elections> {
        let elections = Arc::new(Elections { raft, leader: Mutex::default() });
        let watched = Arc::downgrade(&elections);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(lease / LEASE_STEPS).await;
                let Some(elections) = watched.upgrade() else { return };
                let mut leader = elections.lock();
                if leader.step() {
                    elections.raft.runtime_config().elect(true);
                }
            }
        });
        elections
    }

    fn lock(&self) -> MutexGuard<'_, LeaderMessages> {
        self.leader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forbids elections while the core has to handle a message that a leader with this vote has
    /// sent, and for a while after that. The message of a leader that was replaced forbids nothing.
    pub(crate) fn wait(&self, vote: &Vote<u64>) -> Option<UnhandledMessage<'_>> {
        if *vote < self.raft.metrics().borrow().vote {
            return None;
        }
        let mut leader = self.lock();
        leader.waiting += 1;
        leader.quiet_steps = 0;
        self.raft.runtime_config().elect(false);
        Some(UnhandledMessage(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_stands_for_election_after_a_quiet_time_without_waiting_messages() {
        let mut leader = LeaderMessages { waiting: 1, quiet_steps: 0 };
        assert!((0..LEASE_STEPS * 9).all(|_| !leader.step()), "a message waits");
        leader = LeaderMessages { waiting: 0, quiet_steps: 0 };
        let steps = (1..).find(|_| leader.step());
        assert_eq!(steps, Some(QUIET_STEPS));
    }
}
