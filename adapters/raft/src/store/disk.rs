//! A node's log and state, its current snapshot, and the snapshot transfer that is in progress.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use minikv::{Db, WriteOptions};
use openraft::LogId;

use crate::store::error::{Error, Result};
use crate::store::home::{Home, LIVE, Layout};
use crate::store::incoming::Incoming;
use crate::store::keys;
use crate::store::snapshot::SnapshotDir;
use crate::store::state::{Current, State};
use crate::store::writer::Writer;

/// A node's log and state on disk. Shared by the [`LogStore`](crate::store::LogStore) and the
/// [`StateMachine`](crate::store::StateMachine).
pub struct Store {
    pub(crate) home: Home,
    /// The current log and state. Read-locked during a write to the log or to the state;
    /// write-locked while a snapshot replaces the state. Lock order: after `snapshot`.
    pub(super) current: Arc<RwLock<Current>>,
    /// The writer of entries and votes.
    pub(crate) writer: Writer,
    /// The current snapshot. Locked while a snapshot is being made or installed.
    pub(super) snapshot: Mutex<Option<SnapshotDir>>,
    /// The snapshot transfer that is being received. Lock order: before `snapshot`.
    pub(crate) incoming: Mutex<Option<Incoming>>,
    /// The complete snapshots in `incoming/` that wait to be installed. Lock order: last.
    pub(super) received: Mutex<Vec<SnapshotDir>>,
}

impl Store {
    /// Returns the directory of the store.
    pub fn dir(&self) -> &Path {
        &self.home.dir
    }

    /// Returns the layout of the store.
    pub fn layout(&self) -> Layout {
        self.home.layout
    }

    /// Returns the current state. If a snapshot replaces the state later, the returned state stays
    /// readable and no longer changes.
    pub fn state(&self) -> Arc<State> {
        self.current().state.clone()
    }

    /// Waits until all entries that were appended to the log before this call are durable. With
    /// [`LogStore::pipelined`](crate::store::LogStore::pipelined), a follower calls this method
    /// before it confirms entries.
    ///
    /// # Errors
    /// [`Error::Log`](crate::store::Error::Log) if the log cannot be written.
    pub async fn log_durable(&self) -> Result<()> {
        self.writer.all_durable().await
    }

    /// Returns `committed` if the log is durable up to the entry with that id. Otherwise returns
    /// the id of an earlier durable entry, or `None` if no such id is known. With
    /// [`LogStore::pipelined`](crate::store::LogStore::pipelined), a leader tells its followers
    /// that entries are committed only up to the returned id.
    pub fn durable_part(&self, committed: LogId<u64>) -> Option<LogId<u64>> {
        self.writer.durable_part(committed)
    }

    /// Checks that nobody has removed or emptied the directory while the store is open.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the file `LIVE` is missing; errors of the file.
    pub(crate) fn check_home(&self) -> Result<()> {
        let path = self.home.path(LIVE);
        match self.home.fs.exists(&path).map_err(Error::file("query", &path))? {
            true => Ok(()),
            false => {
                let dir = self.home.dir.display();
                let what = format!("{dir}: the file {LIVE} is missing: the directory was emptied");
                Err(Error::Damaged { what })
            }
        }
    }

    /// Returns what is wrong if the disk has not completed a write to the log for longer than
    /// `limit`.
    pub(crate) fn log_stall(&self, limit: Duration) -> Option<String> {
        let (took, dir) = (self.writer.writing_for()?, self.home.dir.display());
        let what = || format!("{dir}: the disk has not synced the log for {} ms", took.as_millis());
        (took > limit).then(what)
    }

    /// Returns the database that holds the log.
    pub fn log_db(&self) -> Db {
        self.current().log.db.clone()
    }

    pub(crate) fn current(&self) -> RwLockReadGuard<'_, Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `change` while neither the log nor the state is being written.
    pub(crate) fn with_current<T>(&self, change: impl FnOnce(&mut Current) -> T) -> T {
        change(&mut self.current.write().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn snapshot(&self) -> MutexGuard<'_, Option<SnapshotDir>> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn received(&self) -> MutexGuard<'_, Vec<SnapshotDir>> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn open_state(&self, number: u64) -> Result<State> {
        State::open(&self.home, number, false)
    }

    /// Removes purged entries that an interrupted purge left in the log. Synced, as each write to
    /// the log: so a damaged one that others follow was not torn by a crash.
    pub(crate) fn finish_purge(&self) -> Result<()> {
        let current = self.current();
        if let Some(purged) = current.log.id(keys::PURGED)? {
            let range = ..=purged.index.to_be_bytes();
            let sync = WriteOptions::default().sync(true);
            current.log.entries.writing(sync).delete_range(range)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.home.dir).finish()
    }
}
