//! The implementation of openraft's `RaftLogStorage`. One thread writes all entries and votes. A
//! single sync makes everything in the queue of that thread durable.
//!
//! # Ahead of the disk
//!
//! openraft 0.9 waits for the callback of one append before it does anything else. A leader
//! therefore sends entries to its followers only after the entries are durable on its own disk, and
//! no node reads messages during a sync. With [`LogStore::pipelined`], the log calls back at once,
//! so that the disks of all nodes sync in parallel. Instead, the steps that depend on an entry wait
//! until the entry is durable:
//!
//! 1. [`StateMachine`](crate::store::StateMachine) applies an entry, and thereby answers the
//!    client, only after the entry is durable on this node.
//! 2. A follower confirms entries only after they are durable on its disk
//!    ([`Store::log_durable`](crate::store::Store::log_durable)).
//! 3. A leader counts its own copy of an entry before that copy is durable, and so may consider the
//!    entry committed too early. To other nodes it reports an entry as committed only when its own
//!    copy is durable, too ([`Store::durable_part`](crate::store::Store::durable_part)).
//!
//! A vote is written after all entries that were appended before it, and openraft waits until the
//! vote is durable. So a candidate never claims entries that it may lose.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minikv::{Readable, WriteOptions};
use openraft::storage::{LogFlushed, LogState, RaftLogStorage};
use openraft::{ErrorSubject, ErrorVerb, LogId, OptionalSend, RaftLogId, RaftLogReader, Vote};

use crate::store::disk::Store;
use crate::store::error::{Error, Result, Stored};
use crate::store::machine::blocking;
use crate::store::recent::Recent;
use crate::store::sizes::Sizes;
use crate::store::writer::{Job, committed_meta};
use crate::store::{StoreConfig, install, keys};

/// Total size of entries, in bytes, at which a read stops. The limit keeps messages small.
const READ_BYTES: usize = 4 << 20;

/// The implementation of openraft's log storage and log reader. Clones share the log.
pub struct LogStore<C: StoreConfig> {
    store: Arc<Store>,
    /// Whether the log calls back before entries are durable.
    is_ahead: bool,
    shared: Arc<Mutex<Shared<C>>>,
    config: PhantomData<fn() -> C>,
}

struct Shared<C: StoreConfig> {
    /// The id of the last committed entry. It is written together with the next entries: it only
    /// saves work after a restart, and is not worth a separate sync.
    committed: Option<LogId<u64>>,
    recent: Recent<C>,
    sizes: Sizes,
    /// The index of the next entry, or `None` if the log never had an entry.
    next: Option<u64>,
}

impl<C: StoreConfig> Clone for LogStore<C> {
    fn clone(&self) -> Self {
        let LogStore { store, is_ahead, shared, config } = self;
        let (store, shared) = (store.clone(), shared.clone());
        LogStore { store, is_ahead: *is_ahead, shared, config: *config }
    }
}

impl<C: StoreConfig> LogStore<C> {
    /// Returns the log in `store`. The callback of an append is called after the entries are
    /// durable.
    ///
    /// # Errors
    /// Errors of the database; [`Error::Damaged`] if an entry is damaged or missing;
    /// [`Error::Format`] if the stored id of the last committed entry is damaged.
    pub fn new(store: Arc<Store>) -> Result<Self> {
        LogStore::open(store, false)
    }

    /// Returns the log in `store`. The callback of an append is called at once, so leaders and
    /// followers must themselves wait until entries are durable (see the beginning of `log.rs`).
    ///
    /// # Errors
    /// See [`LogStore::new`].
    pub fn pipelined(store: Arc<Store>) -> Result<Self> {
        LogStore::open(store, true)
    }

    fn open(store: Arc<Store>, is_ahead: bool) -> Result<Self> {
        let committed = store.current().log.id(keys::COMMITTED)?;
        let sizes = sizes_of(&store)?;
        let shared = Shared { committed, recent: Recent::new(), sizes, next: None };
        let shared = Arc::new(Mutex::new(shared));
        let log = LogStore { store, is_ahead, shared, config: PhantomData };
        let last = log.state()?.last_log_id;
        log.shared().next = last.and_then(|id| id.index.checked_add(1));
        Ok(log)
    }

    /// Makes the node `own` start as a follower, even if the node was the leader when it stopped.
    /// By default, openraft continues as the leader in the same term. After a power failure,
    /// however, the state may lack writes that the node acknowledged, and only a new term makes
    /// reads wait until the state has caught up. Call this method before `Raft::new`.
    ///
    /// # Errors
    /// Errors of the database; [`Error::Format`] if the stored vote is damaged.
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

    fn shared(&self) -> MutexGuard<'_, Shared<C>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the approximate size of the entries after `index`, or of all entries, in bytes.
    pub fn bytes_after(&self, index: Option<u64>) -> u64 {
        self.shared().sizes.bytes_after(index)
    }

    /// Returns the index of the last entry that has to be purged to leave about `bytes` bytes in
    /// the log. Returns `None` if no entry has to be purged.
    pub fn end_before(&self, bytes: u64) -> Option<u64> {
        self.shared().sizes.end_before(bytes)
    }

    /// Passes entries to the writer thread.
    fn push(&self, entries: Vec<C::Entry>, callback: LogFlushed<C>) -> Result<()> {
        let mut encoded = Vec::with_capacity(entries.len());
        for entry in &entries {
            encoded.push((entry.log_id.index, keys::encode_entry(entry)?));
        }
        let last = entries.last().map(|entry| entry.log_id);
        let mut shared = self.shared();
        let next = self.check_next(shared.next, &encoded)?;
        shared.next = next;
        for (entry, (_, bytes)) in entries.into_iter().zip(&encoded) {
            shared.sizes.push(entry.log_id.index, bytes.len() as u64);
            shared.recent.push(entry, bytes.len());
        }
        let meta = committed_meta(shared.committed);
        let mut job = Job { entries: encoded, last, meta, done: None };
        if self.is_ahead {
            self.store.writer.push(job)?;
            callback.log_io_completed(Ok(()));
        } else {
            job.done = Some(Box::new(|result| callback.log_io_completed(result)));
            self.store.writer.push(job)?;
        }
        // Only now are the new entries pending, and kept until they can be read from the database.
        shared.recent.trim(self.store.writer.first_pending());
        Ok(())
    }

    /// Checks that the new entries leave no gap after `next`, and returns the index after them.
    /// openraft does not check this: a follower whose directory is an older copy, and a leader that
    /// counts on what the copy lacks, would leave a gap in the log.
    fn check_next(&self, next: Option<u64>, new: &[(u64, Vec<u8>)]) -> Result<Option<u64>> {
        let (Some((first, _)), Some((last, _))) = (new.first(), new.last()) else {
            return Ok(next);
        };
        if let Some(next) = next.filter(|next| next < first) {
            let dir = self.store.current().log.db.path().display().to_string();
            let what = format!("{dir}: the leader sends entry {first} instead of entry {next}");
            return Err(Error::Damaged { what });
        }
        Ok(next.max(last.checked_add(1)))
    }

    fn put_meta(&self, name: &str, value: &[u8]) -> Result<()> {
        let current = self.store.current();
        Ok(current.log.meta.writing(WriteOptions::default().sync(true)).put(name, value)?)
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

    /// Returns the existing entries in `[start, end)`: the latest ones from memory, earlier ones
    /// from the database. Reading each of these two parts stops when its entries reach `max_bytes`.
    async fn entries(&self, start: u64, end: u64, max_bytes: usize) -> Stored<Vec<C::Entry>> {
        let (first, latest) = {
            let recent = &self.shared().recent;
            let first = recent.first().unwrap_or(end).min(end);
            (first, recent.read(start.max(first), end, max_bytes))
        };
        if first <= start {
            return Ok(latest);
        }
        let log = self.clone();
        let older = move || log.read(start, first, max_bytes);
        let (mut entries, is_all) = blocking(ErrorSubject::Logs, ErrorVerb::Read, older).await?;
        if is_all {
            entries.extend(latest);
        }
        Ok(entries)
    }

    /// Returns the entries in `[start, end)` that are not purged, and whether the result is
    /// complete. Reading stops when the entries reach `max_bytes`.
    fn read(&self, start: u64, end: u64, max_bytes: usize) -> Result<(Vec<C::Entry>, bool)> {
        let current = self.store.current();
        // The cursor is created before PURGED is read. A concurrent purge is therefore either
        // recorded in the value of PURGED that is read, or deletes entries too late to hide them
        // from the cursor.
        let mut cursor = current.log.entries.cursor()?;
        let purged = current.log.id(keys::PURGED)?;
        let Some(after) = purged.map_or(Some(0), |id| id.index.checked_add(1)) else {
            return Ok((Vec::new(), true));
        };
        let (mut entries, mut bytes, mut next) = (Vec::new(), 0, start.max(after));
        let mut valid = cursor.seek(next.to_be_bytes())?;
        while valid {
            let index = keys::index_of(cursor.key())?;
            if index >= end {
                break;
            }
            if index != next {
                let what = format!("the entry {next} is missing, but {index} is there");
                return Err(Error::format("the log", what));
            }
            if bytes >= max_bytes {
                return Ok((entries, false));
            }
            bytes += cursor.value().len();
            entries.push(keys::decode_entry::<C>(index, cursor.value())?);
            next = index.saturating_add(1);
            valid = cursor.next()?;
        }
        Ok((entries, true))
    }

    /// Removes the entries from `index` on, unless the state contains one of them. A majority had
    /// those entries, so no leader has others unless nodes have lost what they confirmed.
    fn truncate_from(&self, index: u64) -> Result<()> {
        let current = self.store.current();
        let applied = current.state.applied()?.map(|id| id.index);
        if let Some(applied) = applied.filter(|applied| index <= *applied) {
            return Err(Error::Refused(format!(
                "the leader has other entries from entry {index} on, but this node has applied \
                 entry {applied}: other nodes have lost entries that they had confirmed, perhaps \
                 because of an older copy of a directory; the data of this node has the lost \
                 entries"
            )));
        }
        let sync = WriteOptions::default().sync(true);
        current.log.entries.writing(sync).delete_range(index.to_be_bytes()..)?;
        Ok(())
    }
}

/// Returns the sizes of the entries in the log. Reads the whole log, and so notices damage to its
/// tables, too.
fn sizes_of(store: &Store) -> Result<Sizes> {
    let (mut sizes, current) = (Sizes::default(), store.current());
    let mut cursor = current.log.entries.cursor()?;
    let mut valid = cursor.seek(b"").map_err(Error::damage)?;
    let mut expected = None;
    while valid {
        let index = keys::index_of(cursor.key())?;
        if expected.is_some_and(|expected| expected != index) {
            let dir = current.log.db.path().display();
            let what = format!("{dir}: the entry before entry {index} is missing");
            return Err(Error::Damaged { what });
        }
        expected = index.checked_add(1);
        sizes.push(index, cursor.value().len() as u64);
        valid = cursor.next().map_err(Error::damage)?;
    }
    Ok(sizes)
}

impl<C: StoreConfig> RaftLogReader<C> for LogStore<C> {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Stored<Vec<C::Entry>> {
        let start = match range.start_bound() {
            Bound::Included(first) => *first,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => u64::MAX,
        };
        self.entries(start, end, usize::MAX).await
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Stored<Vec<C::Entry>> {
        self.entries(start, end, READ_BYTES).await
    }
}

impl<C: StoreConfig> RaftLogStorage<C> for LogStore<C> {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Stored<LogState<C>> {
        let written = self.store.writer.all_durable().await;
        written.map_err(|e| e.into_storage(ErrorSubject::Logs, ErrorVerb::Write))?;
        let log = self.clone();
        blocking(ErrorSubject::Logs, ErrorVerb::Read, move || log.state()).await
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<u64>) -> Stored<()> {
        let failed = |e: Error| e.into_storage(ErrorSubject::Vote, ErrorVerb::Write);
        let meta = vec![(keys::VOTE, keys::encode_vote(vote).to_vec())];
        let writer = &self.store.writer;
        let ticket = writer.push(Job { meta, ..Job::default() }).map_err(failed)?;
        writer.durable(ticket).await.map_err(failed)
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
        self.shared().committed = committed;
        Ok(())
    }

    async fn read_committed(&mut self) -> Stored<Option<LogId<u64>>> {
        Ok(self.shared().committed)
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<C>) -> Stored<()>
    where
        I: IntoIterator<Item = C::Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<C::Entry> = entries.into_iter().collect();
        let subject =
            entries.first().map_or(ErrorSubject::Logs, |e| ErrorSubject::Log(*e.get_log_id()));
        self.push(entries, callback).map_err(|e| e.into_storage(subject, ErrorVerb::Write))
    }

    async fn truncate(&mut self, id: LogId<u64>) -> Stored<()> {
        let subject = ErrorSubject::Log(id);
        let written = self.store.writer.all_durable().await;
        written.map_err(|e| e.into_storage(subject.clone(), ErrorVerb::Write))?;
        let log = self.clone();
        blocking(subject, ErrorVerb::Delete, move || {
            log.truncate_from(id.index)?;
            log.shared().recent.truncate(id.index);
            log.shared().sizes.truncate(id.index);
            let mut shared = log.shared();
            shared.next = shared.next.min(Some(id.index));
            drop(shared);
            log.store.writer.truncated(id.index);
            Ok(())
        })
        .await
    }

    /// Durably records that the entries up to `id` are purged, so that they are no longer read, and
    /// then deletes these entries. If a crash interrupts the deletion, the next open deletes the
    /// remaining ones.
    async fn purge(&mut self, id: LogId<u64>) -> Stored<()> {
        let log = self.clone();
        blocking(ErrorSubject::Log(id), ErrorVerb::Delete, move || {
            install::keep_received(&log.store, id)?;
            log.put_meta(keys::PURGED, &keys::encode_log_id(&id))?;
            log.shared().recent.purge(id.index);
            log.shared().sizes.purge(id.index);
            let mut shared = log.shared();
            shared.next = shared.next.max(id.index.checked_add(1));
            drop(shared);
            log.store.finish_purge()
        })
        .await
    }
}
