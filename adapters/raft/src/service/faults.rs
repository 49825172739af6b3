//! Faults on demand, for tests: partitions, loss of power, and reads that do not check the lease.
//! Only builds with the feature `faults` contain this module.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The faults of a node.
#[derive(Default)]
pub struct Faults {
    ignored: Mutex<BTreeSet<u64>>,
    is_off: AtomicBool,
    trusts_lease: AtomicBool,
}

impl Faults {
    pub(crate) fn ignores(&self, node: u64) -> bool {
        self.ignored.lock().unwrap_or_else(PoisonError::into_inner).contains(&node)
    }

    /// Makes the node ignore `nodes`: the node neither sends messages to them nor accepts messages
    /// from them.
    pub fn ignore(&self, nodes: BTreeSet<u64>) {
        *self.ignored.lock().unwrap_or_else(PoisonError::into_inner) = nodes;
    }

    /// Makes the node send no more responses and messages.
    pub fn lose_power(&self) {
        self.is_off.store(true, Ordering::SeqCst);
    }

    /// Makes the node serve lease reads without checking its lease whenever it believes that it is
    /// the leader.
    pub(crate) fn trust_lease(&self) {
        self.trusts_lease.store(true, Ordering::Relaxed);
    }

    pub(crate) async fn pass(&self) {
        if self.is_off.load(Ordering::SeqCst) {
            std::future::pending().await
        }
    }

    /// Returns whether this node serves lease reads without checking its lease whenever it believes
    /// that it is the leader.
    pub(crate) fn trusts_lease(&self) -> bool {
        self.trusts_lease.load(Ordering::Relaxed)
    }
}
