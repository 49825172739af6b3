//! The data that the commit lock guards: the current log and the memtable that it fills.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::memtable::{Arena, Memtable};
use crate::engine::read::view::VisibleSeq;
use crate::engine::write::log_file::OutgoingLog;
use crate::format::batch::WriteBatch;
use crate::format::key::SeqNo;
use crate::log::LogWriter;

/// The state that the leader of a group works on: the current log and its memtable. Guarded by
/// [`Engine::commit`](crate::engine::Engine).
#[derive(Debug)]
pub(crate) struct CommitState {
    /// File number of the log.
    pub log_number: u64,
    /// Path of the log, for errors.
    pub log_path: PathBuf,
    /// The current log.
    pub log: LogWriter,
    /// Whether the log's directory entry is durable.
    pub name_synced: bool,
    /// Earlier logs with unsynced records, oldest first. They are synced before a synced write to
    /// this log is acknowledged, so that a crash never loses a write but keeps a later one.
    pub outgoing: Vec<OutgoingLog>,
    /// The last log that recovery replayed and did not flush. Before a synced write is
    /// acknowledged, background work flushes this log's records to a table. Syncing the log would
    /// not be enough: a sync that failed before this process began may have left pages in memory
    /// that can be read but are not on disk.
    pub replayed_log: Option<u64>,
    /// The memtable that holds the log's records.
    pub mem: Arc<Memtable>,
    /// The last visible write, for the readers of views with the memtable.
    pub visible: Arc<VisibleSeq>,
    /// Allocator of the memtable's keys and values.
    pub arena: Arena,
    /// Maximum number of entries in the memtable.
    pub max_entries: usize,
    /// Size of the memtable, in bytes, at which the leader next checks whether the memtable is full
    /// or is growing too fast.
    pub check_room_at: usize,
    /// The last sequence number assigned to an entry.
    pub last_seq: SeqNo,
    /// Whether the log holds records that are not synced.
    pub unsynced: bool,
    /// Set while a batch is inserted and while the memtable is replaced. If a panic leaves it set,
    /// the database must be reopened, which replays the log.
    pub half_done: bool,
    /// Buffer in which the batches of a group are merged.
    pub group: WriteBatch,
    /// Duration of the last sync.
    pub last_sync: Duration,
}
