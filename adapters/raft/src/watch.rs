//! The latest changes, kept for clients that watch the store.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::watch;

/// A change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The index of the log entry that made the change.
    pub index: u64,
    /// The key.
    pub key: Bytes,
    /// The new value, or `None` if the key was deleted.
    pub value: Option<Bytes>,
}

/// Maximum number of changes kept in memory.
const KEPT_CHANGES: usize = 1 << 16;
const KEPT_BYTES: usize = 16 << 20;

/// The latest changes to the state of this node, in the order of the log. Thread-safe.
pub struct Hub {
    recent: Mutex<Recent>,
    /// The log index up to which changes have been published.
    applied: watch::Sender<u64>,
}

struct Recent {
    changes: VecDeque<Change>,
    /// For each group of changes that were published together, the number of changes and the number
    /// of bytes that they keep in memory.
    groups: VecDeque<(usize, usize)>,
    bytes: usize,
    /// The log index after which `changes` contains all changes.
    complete_after: u64,
}

impl Hub {
    /// Creates a hub for a state that includes all entries up to `applied`.
    pub fn new(applied: u64) -> Hub {
        Hub { recent: Mutex::new(Recent::after(applied)), applied: watch::Sender::new(applied) }
    }

    fn lock(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes the changes of all entries up to `index`. The changes are slices of buffers whose
    /// total size is `bytes` bytes.
    pub(crate) fn publish(&self, index: u64, changes: Vec<Change>, bytes: usize) {
        if !changes.is_empty() {
            self.lock().add(changes, bytes);
        }
        self.applied.send_replace(index);
    }

    /// Forgets all changes, because a snapshot has replaced the state.
    pub(crate) fn reset(&self, index: u64) {
        let mut recent = self.lock();
        *recent = Recent::after(index);
        drop(recent);
        self.applied.send_replace(index);
    }

    /// Returns a receiver of the log index up to which changes have been published. The receiver
    /// wakes up when this index changes.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.applied.subscribe()
    }

    /// Returns the changes after the entry `index` whose keys begin with `prefix`, and the index up
    /// to which changes were examined.
    ///
    /// # Errors
    /// The index after which all changes are in memory, if some changes after `index` may no longer
    /// be in memory.
    pub fn since(&self, index: u64, prefix: &[u8]) -> Result<(Vec<Change>, u64), u64> {
        let recent = self.lock();
        if index < recent.complete_after {
            return Err(recent.complete_after);
        }
        let first = recent.changes.partition_point(|change| change.index <= index);
        let changes: Vec<Change> = recent.changes.range(first..).cloned().collect();
        let upto = changes.last().map_or(index, |change| change.index);
        let matching = changes.into_iter().filter(|change| change.key.starts_with(prefix));
        Ok((matching.collect(), upto))
    }
}

impl Recent {
    fn after(index: u64) -> Recent {
        let (changes, groups) = (VecDeque::new(), VecDeque::new());
        Recent { changes, groups, bytes: 0, complete_after: index }
    }

    fn add(&mut self, changes: Vec<Change>, bytes: usize) {
        let bytes = bytes + changes.len() * size_of::<Change>();
        self.groups.push_back((changes.len(), bytes));
        self.bytes += bytes;
        self.changes.extend(changes);
        while self.changes.len() > KEPT_CHANGES || self.bytes > KEPT_BYTES {
            let Some((count, bytes)) = self.groups.pop_front() else { break };
            self.bytes -= bytes;
            for change in self.changes.drain(..count) {
                self.complete_after = change.index;
            }
        }
    }
}
