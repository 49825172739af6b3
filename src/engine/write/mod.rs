//! A write: a place in the queue, the log, the memtable.
//!
//! The writer at the head of the queue leads: it takes what waits behind it into one group,
//! writes one log record for all, syncs it if any of them asked, inserts everything into the
//! memtable and makes it visible. A group is one batch on disk, so each of its batches is all or
//! nothing. A writer that nobody waits behind pays two uncontended locks and no allocation.
//!
//! Every log begins with an empty batch that says which sequence number comes next. LevelDB and
//! goleveldb replay it without effect; recovery sees by it that the log before lost its end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::{Error, Result};
use crate::engine::Engine;
use crate::engine::memtable::{Arena, Memtable};
use crate::engine::options::WriteOptions;
use crate::engine::write::queue::{Waiter, Write};
use crate::engine::write::wal::OutgoingLog;
use crate::format::batch::{HEADER_BYTES, WriteBatch};
use crate::format::key::{MAX_SEQ_NO, SeqNo};
use crate::log::LogWriter;

pub mod pace;
pub mod queue;
pub mod wal;

/// The group's buffer is given back if one group made it larger than this.
const KEEP_BUFFER_BYTES: usize = 4 << 20;

/// What the commit leader holds: the log under way and the memtable it fills.
#[derive(Debug)]
pub struct CommitState {
    /// The log's number.
    pub log_number: u64,
    /// The log's file.
    pub log_path: PathBuf,
    /// The log.
    pub log: LogWriter,
    /// Whether the log's name is durable.
    pub name_synced: bool,
    /// Logs before this one that hold unsynced records: they are synced before a synced write
    /// here is acknowledged, so that what survives is a prefix.
    pub outgoing: Vec<OutgoingLog>,
    /// The last log that recovery replayed and did not flush. Before a synced write is
    /// acknowledged the background makes a table of it: syncing it would not do, for a sync that
    /// failed before this process began may have dropped what can still be read.
    pub replayed_log: Option<u64>,
    /// The memtable that the log's records are in.
    pub mem: Arc<Memtable>,
    /// Where that memtable's bytes are.
    pub arena: Arena,
    /// The size of the memtable at which to look whether it is full, or grows too fast.
    pub look_at: usize,
    /// The last sequence number given.
    pub last_seq: SeqNo,
    /// Whether the log holds records that are not synced.
    pub unsynced: bool,
    /// Set while a batch is inserted and while the memtable is replaced. If a panic leaves it set,
    /// only the next open helps: it replays the log.
    pub half_done: bool,
    /// Where groups are put together.
    pub group: WriteBatch,
    /// How long the last sync took.
    pub last_sync: Duration,
}

impl Engine {
    /// Applies `write`, all or nothing.
    ///
    /// # Errors
    /// I/O errors of the log, after which the database takes no more writes;
    /// [`Error::ReadOnly`] then, and after trouble in the background.
    pub fn write(&self, options: &WriteOptions, write: Write<'_>) -> Result<()> {
        write.check()?;
        let write = match self.queue.enter(write, options.sync) {
            Ok(write) => write,
            Err(done) => return done,
        };
        let mut commit = self.commit.lock();
        let mut group = Vec::new();
        let lead = || self.lead(&mut commit, options.sync, write, &mut group);
        let result = self.contain("a write", lead);
        drop(commit);
        self.queue.leave(&group, &result);
        self.maybe_run_inline();
        result
    }

    /// Commits `write`, and with it the `group` that it takes from the queue.
    fn lead(
        &self,
        commit: &mut CommitState,
        sync: bool,
        write: Write<'_>,
        group: &mut Vec<Arc<Waiter>>,
    ) -> Result<()> {
        self.make_room(commit, false)?;
        let bytes = match &write {
            Write::Put(key, value) => key.len() + value.len(),
            Write::Delete(key) => key.len(),
            Write::Batch(batch) => batch.contents().len(),
        };
        if sync {
            self.queue.gather(commit.last_sync);
        }
        self.queue.group(bytes, sync, group);
        self.commit_group(commit, sync, write, group)
    }

    fn commit_group(
        &self,
        commit: &mut CommitState,
        sync: bool,
        write: Write<'_>,
        group: &[Arc<Waiter>],
    ) -> Result<()> {
        let mut batch = match write {
            Write::Batch(batch) if group.is_empty() => batch,
            write => {
                let mut merged = std::mem::take(&mut commit.group);
                merged.clear();
                write.append_to(&mut merged);
                for waiter in group {
                    merged.append(&waiter.batch.lock());
                }
                merged
            }
        };
        let result = self.commit_batch(commit, sync, &mut batch);
        if batch.contents().len() <= KEEP_BUFFER_BYTES {
            commit.group = batch;
        }
        result
    }

    fn commit_batch(
        &self,
        commit: &mut CommitState,
        sync: bool,
        batch: &mut WriteBatch,
    ) -> Result<()> {
        let count = batch.len() as u64;
        let first_seq = commit.last_seq + 1;
        if count > MAX_SEQ_NO - commit.last_seq {
            return Err(Error::invalid("the database has used up its sequence numbers"));
        }
        batch.set_sequence(first_seq);
        let contents = batch.contents();
        let logged = commit
            .log
            .add_record(contents)
            .map_err(|error| Error::io("append to", &commit.log_path, error));
        let durable = logged.and_then(|()| {
            commit.unsynced = true;
            if sync { self.sync_log(commit, first_seq + count) } else { Ok(()) }
        });
        if let Err(error) = durable {
            // The record may be in the file, whole or in part: nothing may follow it.
            self.fail(error.clone());
            return Err(error);
        }
        commit.last_seq += count;
        commit.half_done = true;
        let applied = commit.mem.insert_batch(contents, first_seq, &mut commit.arena);
        applied.inspect_err(|error| self.fail(error.clone()))?;
        commit.half_done = false;
        self.reads.set_visible_seq(commit.last_seq);
        let metrics = &self.metrics;
        metrics.groups.fetch_add(1, Relaxed);
        metrics.operations.fetch_add(count, Relaxed);
        metrics.user_bytes.fetch_add((contents.len() - HEADER_BYTES) as u64, Relaxed);
        metrics.wal_bytes.store(commit.log.len() + metrics.wal_bytes_before.load(Relaxed), Relaxed);
        Ok(())
    }
}
