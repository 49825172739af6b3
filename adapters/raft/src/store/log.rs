//! `RaftLogStorage`. Every write is durable when its call returns or its callback is called.
//!
//! openraft makes one write at a time and waits for it. Writes of other threads to the same
//! database, and those of other groups, share its sync (minikv's group commit).

use std::fmt::Debug;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::{Arc, Mutex, PoisonError};

use minikv::{WriteBatch, WriteOptions};
use openraft::storage::{LogFlushed, LogState, RaftLogStorage};
use openraft::{ErrorSubject, ErrorVerb, LogId, OptionalSend, RaftLogId, RaftLogReader, Vote};

use crate::store::error::{Result, Stored};
use crate::store::home::Store;
use crate::store::machine::blocking;
use crate::store::{StoreConfig, keys};

/// A reader stops after this many bytes of entries, so that a message stays small.
const READ_BYTES: usize = 4 << 20;

/// openraft's log, and its reader. Clones share it.
pub struct LogStore<C: StoreConfig> {
    store: Arc<Store>,
    /// The last committed id, which is written with the next entries: it only saves work after a
    /// restart, and deserves no sync of its own.
    committed: Arc<Mutex<Option<LogId<u64>>>>,
    config: PhantomData<fn() -> C>,
}

impl<C: StoreConfig> Clone for LogStore<C> {
    fn clone(&self) -> Self {
        let (store, committed) = (self.store.clone(), self.committed.clone());
        LogStore { store, committed, config: PhantomData }
    }
}

impl<C: StoreConfig> LogStore<C> {
    /// The log in `store`.
    ///
    /// # Errors
    /// Errors of the database, or of the format of the last committed id.
    pub fn new(store: Arc<Store>) -> Result<Self> {
        let committed = store.current().log.id(keys::COMMITTED)?;
        Ok(LogStore { store, committed: Arc::new(Mutex::new(committed)), config: PhantomData })
    }

    /// Makes a node that was the leader when it stopped begin as a follower. openraft would go on
    /// as the leader in the same term; but after a loss of power its state may be older than what
    /// it has acknowledged, and only a new term makes reads wait until the state has caught up.
    /// Call it before `Raft::new`.
    ///
    /// # Errors
    /// Errors of the database, or of the format of the vote.
    pub fn step_down(&self, own: u64) -> Result<()> {
        let vote = self.store.current().log.meta.get(keys::VOTE)?;
        match vote.map(|bytes| keys::decode_vote(&bytes)).transpose()? {
            Some(vote) if vote.committed && vote.leader_id.node_id == own => {
                let vote = Vote::new(vote.leader_id.term, own);
                self.put_meta(keys::VOTE, &keys::encode_vote(&vote))
            }
            _ => Ok(()),
        }
    }

    fn committed(&self) -> Option<LogId<u64>> {
        *self.committed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_entries(&self, entries: &[C::Entry]) -> Result<()> {
        let current = self.store.current();
        let mut batch = WriteBatch::new();
        for entry in entries {
            let key = entry.log_id.index.to_be_bytes();
            batch.put_in(&current.log.entries, key, keys::encode_entry(entry)?);
        }
        if let Some(committed) = self.committed() {
            batch.put_in(&current.log.meta, keys::COMMITTED, keys::encode_log_id(&committed));
        }
        Ok(current.log.db.write_with(&WriteOptions::default().sync(true), batch)?)
    }

    fn put_meta(&self, name: &str, value: &[u8]) -> Result<()> {
        let current = self.store.current();
        Ok(current.log.meta.put_with(&WriteOptions::default().sync(true), name, value)?)
    }

    fn state(&self) -> Result<LogState<C>> {
        let current = self.store.current();
        let purged = current.log.id(keys::PURGED)?;
        let last = match current.log.entries.last_key_value()? {
            None => None,
            Some((key, value)) => {
                let entry = keys::decode_entry::<C>(keys::index_of(&key)?, &value)?;
                Some(entry.log_id).filter(|id| purged.is_none_or(|p| id.index > p.index))
            }
        };
        Ok(LogState { last_purged_log_id: purged, last_log_id: last.or(purged) })
    }

    /// Reads the entries in `range` that are not purged, by one cursor.
    fn read(&self, range: (Bound<u64>, Bound<u64>), max_bytes: usize) -> Result<Vec<C::Entry>> {
        let current = self.store.current();
        let purged = current.log.id(keys::PURGED)?;
        let first = match range.0 {
            Bound::Included(first) => Some(first),
            Bound::Excluded(before) => before.checked_add(1),
            Bound::Unbounded => Some(0),
        };
        let after_purged = purged.map_or(Some(0), |id| id.index.checked_add(1));
        let (Some(first), Some(after)) = (first, after_purged) else { return Ok(Vec::new()) };
        let mut cursor = current.log.entries.cursor()?;
        let (mut entries, mut bytes) = (Vec::new(), 0);
        let mut valid = cursor.seek(first.max(after).to_be_bytes())?;
        while valid && bytes < max_bytes {
            let index = keys::index_of(cursor.key())?;
            let is_within = match range.1 {
                Bound::Included(last) => index <= last,
                Bound::Excluded(end) => index < end,
                Bound::Unbounded => true,
            };
            if !is_within {
                break;
            }
            bytes += cursor.value().len();
            entries.push(keys::decode_entry::<C>(index, cursor.value())?);
            valid = cursor.next()?;
        }
        Ok(entries)
    }

    fn truncate_from(&self, index: u64) -> Result<()> {
        let current = self.store.current();
        let sync = WriteOptions::default().sync(true);
        current.log.entries.delete_range_with(&sync, index.to_be_bytes()..)?;
        Ok(())
    }
}

impl<C: StoreConfig> RaftLogReader<C> for LogStore<C> {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Stored<Vec<C::Entry>> {
        let log = self.clone();
        let range = (range.start_bound().cloned(), range.end_bound().cloned());
        blocking(ErrorSubject::Logs, ErrorVerb::Read, move || log.read(range, usize::MAX)).await
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Stored<Vec<C::Entry>> {
        let log = self.clone();
        let range = (Bound::Included(start), Bound::Excluded(end));
        blocking(ErrorSubject::Logs, ErrorVerb::Read, move || log.read(range, READ_BYTES)).await
    }
}

impl<C: StoreConfig> RaftLogStorage<C> for LogStore<C> {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Stored<LogState<C>> {
        let log = self.clone();
        blocking(ErrorSubject::Logs, ErrorVerb::Read, move || log.state()).await
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<u64>) -> Stored<()> {
        let (log, vote) = (self.clone(), keys::encode_vote(vote));
        blocking(ErrorSubject::Vote, ErrorVerb::Write, move || log.put_meta(keys::VOTE, &vote))
            .await
    }

    async fn read_vote(&mut self) -> Stored<Option<Vote<u64>>> {
        let store = self.store.clone();
        blocking(ErrorSubject::Vote, ErrorVerb::Read, move || {
            let vote = store.current().log.meta.get(keys::VOTE)?;
            vote.map(|bytes| keys::decode_vote(&bytes)).transpose()
        })
        .await
    }

    async fn save_committed(&mut self, committed: Option<LogId<u64>>) -> Stored<()> {
        *self.committed.lock().unwrap_or_else(PoisonError::into_inner) = committed;
        Ok(())
    }

    async fn read_committed(&mut self) -> Stored<Option<LogId<u64>>> {
        Ok(self.committed())
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<C>) -> Stored<()>
    where
        I: IntoIterator<Item = C::Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let log = self.clone();
        let entries: Vec<C::Entry> = entries.into_iter().collect();
        let subject =
            entries.first().map_or(ErrorSubject::Logs, |e| ErrorSubject::Log(*e.get_log_id()));
        blocking(subject, ErrorVerb::Write, move || log.write_entries(&entries)).await?;
        callback.log_io_completed(Ok(()));
        Ok(())
    }

    async fn truncate(&mut self, id: LogId<u64>) -> Stored<()> {
        let log = self.clone();
        blocking(ErrorSubject::Log(id), ErrorVerb::Delete, move || log.truncate_from(id.index))
            .await
    }

    /// First the id, durably, then the entries: those up to the id are not read any more. The next
    /// open deletes what a crash leaves.
    async fn purge(&mut self, id: LogId<u64>) -> Stored<()> {
        let log = self.clone();
        blocking(ErrorSubject::Log(id), ErrorVerb::Delete, move || {
            log.put_meta(keys::PURGED, &keys::encode_log_id(&id))?;
            log.store.finish_purge()
        })
        .await
    }
}
