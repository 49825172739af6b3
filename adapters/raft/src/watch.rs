//! The latest changes, kept for clients that watch the store.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::watch;

/// The place of a change in the history of a cluster, the same on every node. As text, it is
/// `INDEX-POSITION`, and `INDEX` for the place after all changes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChangeId {
    /// The index of the log entry that made the change.
    pub index: u64,
    /// The number of earlier changes of the same entry, which may hold the requests of many
    /// clients.
    pub position: u32,
}

impl ChangeId {
    /// Returns the place after all changes of the entry `index`.
    pub fn end_of(index: u64) -> ChangeId {
        ChangeId { index, position: u32::MAX }
    }
}

impl fmt::Display for ChangeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            u32::MAX => write!(f, "{}", self.index),
            position => write!(f, "{}-{position}", self.index),
        }
    }
}

impl FromStr for ChangeId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<ChangeId, Self::Err> {
        match text.split_once('-') {
            None => text.parse().map(ChangeId::end_of),
            Some((index, position)) => {
                Ok(ChangeId { index: index.parse()?, position: position.parse()? })
            }
        }
    }
}

/// A change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The place of the change.
    pub id: ChangeId,
    /// The key.
    pub key: Bytes,
    /// The new value, or `None` if the key was deleted.
    pub value: Option<Bytes>,
}

/// Maximum number and size of changes kept in memory, unless those published last are more.
const MAX_KEPT_CHANGES: usize = 1 << 16;
const KEPT_BYTES: usize = 16 << 20;

/// The latest changes to the state of this node, in the order of the log. Thread-safe.
pub struct Hub {
    recent: Mutex<RecentChanges>,
    /// The log index up to which changes have been published.
    applied: watch::Sender<u64>,
}

struct RecentChanges {
    changes: VecDeque<Change>,
    /// For each group of changes that were published together, the number of changes and the number
    /// of bytes that they keep in memory.
    groups: VecDeque<(usize, usize)>,
    bytes: usize,
    /// The place after which `changes` contains all changes.
    complete_after: ChangeId,
}

impl Hub {
    /// Creates a hub for a state that includes all entries up to `applied`.
    pub fn new(applied: u64) -> Hub {
        Hub {
            recent: Mutex::new(RecentChanges::after(applied)),
            applied: watch::Sender::new(applied),
        }
    }

    fn lock(&self) -> MutexGuard<'_, RecentChanges> {
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
        *recent = RecentChanges::after(index);
        drop(recent);
        self.applied.send_replace(index);
    }

    /// Returns a receiver of the log index up to which changes have been published. The receiver
    /// wakes up when this index changes.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.applied.subscribe()
    }

    /// Returns the changes after `seen` whose keys begin with `prefix`, and the place up to which
    /// the log was examined.
    ///
    /// # Errors
    /// The place after which all changes are in memory, if some changes after `seen` may no longer
    /// be in memory.
    pub fn since(
        &self,
        seen: ChangeId,
        prefix: &[u8],
    ) -> Result<(Vec<Change>, ChangeId), ChangeId> {
        // Their changes are in memory before the index shows them.
        let applied = ChangeId::end_of(*self.applied.borrow());
        let recent = self.lock();
        if seen < recent.complete_after {
            return Err(recent.complete_after);
        }
        let first = recent.changes.partition_point(|change| change.id <= seen);
        let newer = recent.changes.range(first..);
        let matching = newer.filter(|change| change.key.starts_with(prefix)).cloned();
        let upto = recent.changes.back().map_or(seen, |change| change.id.max(seen));
        Ok((matching.collect(), upto.max(applied)))
    }
}

impl RecentChanges {
    fn after(index: u64) -> RecentChanges {
        let (changes, groups) = (VecDeque::new(), VecDeque::new());
        RecentChanges { changes, groups, bytes: 0, complete_after: ChangeId::end_of(index) }
    }

    fn add(&mut self, changes: Vec<Change>, bytes: usize) {
        let bytes = bytes + changes.len() * size_of::<Change>();
        self.groups.push_back((changes.len(), bytes));
        self.bytes += bytes;
        self.changes.extend(changes);
        let is_too_much =
            |all: &RecentChanges| all.changes.len() > MAX_KEPT_CHANGES || all.bytes > KEPT_BYTES;
        // However large the new group is, watchers must get it.
        while self.groups.len() > 1 && is_too_much(self) {
            let Some((count, bytes)) = self.groups.pop_front() else { break };
            self.bytes -= bytes;
            for change in self.changes.drain(..count) {
                self.complete_after = change.id;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(index: u64, position: u32) -> Change {
        Change { id: ChangeId { index, position }, key: Bytes::from("k"), value: None }
    }

    #[test]
    fn a_watch_resumes_after_any_change_of_an_entry() {
        let hub = Hub::new(4);
        hub.publish(6, vec![change(5, 0), change(5, 1), change(5, 2), change(6, 0)], 0);
        let ids = |seen: &str| {
            let (changes, _) = hub.since(seen.parse().unwrap(), b"").unwrap();
            changes.iter().map(|change| change.id.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(ids("4"), ["5-0", "5-1", "5-2", "6-0"]);
        assert_eq!(ids("5-0"), ["5-1", "5-2", "6-0"]);
        assert_eq!(ids("5-2"), ["6-0"]);
        assert_eq!(ids("5"), ["6-0"]);
        assert_eq!(ids("6-0"), [""; 0]);
        // Of the entry 4, the hub knows nothing, so it cannot continue within it.
        let inside = ChangeId { index: 4, position: 3 };
        assert_eq!(hub.since(inside, b""), Err(ChangeId::end_of(4)));
    }

    #[test]
    fn a_watch_of_a_quiet_prefix_comes_as_far_as_the_log() {
        let hub = Hub::new(4);
        hub.publish(6, vec![change(5, 0)], 0);
        hub.publish(9, Vec::new(), 0);
        let quiet = |hub: &Hub, seen| hub.since(seen, b"quiet").map(|(_, upto)| upto);
        let end = ChangeId::end_of;
        assert_eq!(quiet(&hub, end(4)), Ok(end(9)));
        let restarted = Hub::new(9);
        assert_eq!(quiet(&restarted, end(9)), Ok(end(9)));
        assert_eq!(quiet(&restarted, end(4)), Err(end(9)));
    }

    #[test]
    fn forgotten_changes_are_reported_even_within_an_entry() {
        let hub = Hub::new(0);
        let many = |index| (0..40_000).map(|position| change(index, position)).collect();
        hub.publish(1, many(1), 0);
        hub.publish(2, many(2), 0);
        let last = ChangeId { index: 1, position: 39_999 };
        let before = ChangeId { index: 1, position: 39_998 };
        assert_eq!(hub.since(before, b""), Err(last));
        assert_eq!(hub.since(last, b"").unwrap().0.len(), 40_000);
    }

    #[test]
    fn a_group_over_the_limits_reaches_watchers() {
        let start = ChangeId::end_of(0);
        let hub = Hub::new(0);
        let count = MAX_KEPT_CHANGES + 1;
        let many = (0..count as u32).map(|position| change(1, position)).collect();
        hub.publish(1, many, 0);
        assert_eq!(hub.since(start, b"").map(|(changes, _)| changes.len()), Ok(count));
        hub.publish(2, vec![change(2, 0)], KEPT_BYTES + 1);
        assert_eq!(hub.since(start, b""), Err(ChangeId { index: 1, position: count as u32 - 1 }));
        let (changes, upto) = hub.since(ChangeId::end_of(1), b"").unwrap();
        assert_eq!((changes.len(), upto), (1, ChangeId::end_of(2)));
        hub.publish(3, vec![change(3, 0)], 0);
        assert_eq!(hub.since(upto, b"").map(|(changes, _)| changes.len()), Ok(1));
    }
}
