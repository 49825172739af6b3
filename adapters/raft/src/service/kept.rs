//! The snapshots of backups. Each one is kept until the client releases it, or has not read from it
//! for [`KEPT_UNREAD`], whatever snapshots are made meanwhile.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::store::{Error, SnapshotDir};

/// Time without a read after which the node gives up a backup.
const KEPT_UNREAD: Duration = Duration::from_secs(300);
/// Maximum number of backups at the same time. Each one may keep tables that nothing else needs.
const MAX_BACKUPS: usize = 16;

/// The backups that clients are reading. Clones share the backups.
#[derive(Clone, Default)]
pub(crate) struct Backups(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    made: u64,
    backups: HashMap<String, Backup>,
}

struct Backup {
    /// As long as there is this clone, the files of the snapshot stay.
    snapshot: SnapshotDir,
    read: Instant,
}

impl Backups {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.backups.retain(|_, backup| backup.read.elapsed() < KEPT_UNREAD);
        kept
    }

    /// Keeps a snapshot, and returns the id of the backup, which no other backup has.
    pub(crate) fn keep(
        &self,
        snapshot_id: &str,
        snapshot: SnapshotDir,
    ) -> crate::store::Result<String> {
        let mut kept = self.lock();
        if kept.backups.len() >= MAX_BACKUPS {
            return Err(Error::Refused(format!("{MAX_BACKUPS} backups are being read already")));
        }
        kept.made += 1;
        let id = format!("{snapshot_id}-{}", kept.made);
        kept.backups.insert(id.clone(), Backup { snapshot, read: Instant::now() });
        Ok(id)
    }

    /// Returns the snapshot of a backup that is read now.
    pub(crate) fn get(&self, id: &str) -> Option<SnapshotDir> {
        let mut kept = self.lock();
        let backup = kept.backups.get_mut(id)?;
        backup.read = Instant::now();
        Some(backup.snapshot.clone())
    }

    pub(crate) fn release(&self, id: &str) {
        self.lock().backups.remove(id);
    }

    /// Returns a place for backups, from which those that nobody reads any more are removed.
    pub(crate) fn watched() -> Backups {
        let backups = Backups::default();
        tokio::spawn(backups.clone().watch());
        backups
    }

    async fn watch(self) {
        while Arc::strong_count(&self.0) > 1 {
            tokio::time::sleep(KEPT_UNREAD / 10).await;
            drop(self.lock());
        }
    }
}
