//! The engine: everything between a call and the files.
//!
//! | module | contents |
//! | --- | --- |
//! | `write/` | the queue of writers, the log, and back-pressure |
//! | `memtable/` | entries that are in no table yet |
//! | `flush` | turns a frozen memtable into a table of level 0 |
//! | `publish` | makes an edit of the MANIFEST durable and shows the version to readers |
//! | `table_writer` | writes one table, for flushes, compactions and repair |
//! | `read/` | views, gets and cursors |
//! | `version/` | the current tables, the MANIFEST that records them, obsolete files |
//! | `compact/` | picks tables to merge, and merges them |
//! | `conservation` | checks that jobs write what they have read |
//! | `report/` | events, statistics and health, as plain data |
//! | `observe/` | the way of events to a program's observer |
//! | `open/` | opens a database: its directory, the replay of logs, read-only opens |
//! | `follow/` | reads a database that another process writes |
//! | `stats/` | counters, properties, and a sample of the keys looked up |
//! | `state` | the data that the state lock guards |
//! | `worker`, `health` | background work; failures and recovery from them |
//! | `inside` | refuses calls by which a callback or a forked child would wait for ever |
//! | `behalf` | threads that do a part of another thread's work |
//! | `resources/` | threads, a block cache and an I/O limit that several databases may share |
//! | `throttle` | makes flushes and merges wait in order to stay within an I/O limit |
//! | `checkpoint` | a consistent copy of an open database |
//! | `table_change` | adds or drops tables between two writes |
//! | `ingest` | adds tables that were made outside of the database |
//! | `delete_range` | deletes a range of keys, mostly by dropping whole tables |
//! | `expiry` | finds out when tables expire |
//! | `span` | a range of keys with any bounds |
//!
//! LevelDB's names, and where their work is done:
//!
//! | LevelDB | here |
//! | --- | --- |
//! | `DBImpl::Write`, `BuildBatchGroup` | `Engine::write`, `WriteQueue::take_group` |
//! | `MakeRoomForWrite`, `imm_` | `Engine::make_room` and `Engine::freeze`, `State::frozen` |
//! | `MaybeScheduleCompaction` | `Engine::claim_due` |
//! | `CompactMemTable`, `WriteLevel0Table` | `Engine::flush_oldest`, `write_table` in `flush` |
//! | `PickCompaction` | `pick` in `compact/pick` |
//! | `DoCompactionWork` | `Engine::merge_into` |
//! | `ShouldStopBefore`, `IsBaseLevelForKey` | `OutputSplitter`, `DropRule::hides_nothing` |
//! | `VersionSet::LogAndApply` | `Engine::publish`, `VersionSet::commit` |
//! | `VersionSet::Recover`, `RecoverLogFile` | `recover_manifest`, `LogReplay` |
//! | `RemoveObsoleteFiles` | `Trash`; at an open, `Opening::remove_obsolete` |
//! | `DBIter`, `MergingIterator` | `VisibleCursor`, `MergeCursor` |
//! | `TwoLevelIterator` | `LevelCursor`, and `TableCursor` of `table` |
//!
//! # Locks
//! A thread takes locks in the order of the table below: while it holds a lock, it takes only locks
//! of rows further down. [`LockRank`](crate::base::sync::LockRank) defines the same order; builds
//! with debug assertions panic if the order is violated.
//!
//! | lock | guards | held |
//! | --- | --- | --- |
//! | `Followed::progress` | how far the files were read | during a refresh |
//! | `Inner::workers` | the place of a `Db` in a pool | by `close`, until background work ends |
//! | `Pool::threads` | handles of the threads of a pool | while they are started |
//! | `Engine::ingests` | no data; makes ingests take turns | while tables are rewritten and added |
//! | `Engine::commit` | the log and the memtable it fills | by the leader of a group of writes |
//! | `WriteQueue::line` | the writers that wait | for a few instructions |
//! | `Engine::manifest` | the MANIFEST | while an edit is made durable |
//! | `Engine::state` | [`State`] | briefly, never during I/O; `Engine::pick` holds it longest |
//! | `ReadState::snapshots` | sequence numbers that snapshots hold | for a few instructions |
//! | `TableSlot::opening` | one table's file | while the file is opened; other readers wait |
//! | `TableCache::ring` | the tables that are open | for a few instructions |
//! | `BlockCache::large` | the large blocks | for a few instructions |
//! | `BlockCache::shards` | the other blocks, by shard | for a few instructions |
//! | `Ordered::covered` | the sorted part of a memtable | while new entries are sorted in |
//! | `ReadTotals::shared` | counts of reads by threads without counters | for a few instructions |
//!
//! No further lock is taken while one of these locks is held: a waiter's `batch` and `signal`,
//! `Trash::tables`, `DeletedRanges::list`, the free numbers of threads (`stats/totals`),
//! `LookupSample::kept`, `ScanSample::kept`, the leaves of a memtable's sorted part, the record of
//! a transaction's reads, the queues of a pool, the count of an I/O limit, `Memory::shares`,
//! `Budget::all_tables`, the queue of events and the handle of the observer's thread, and
//! `Engine::inline`. The filesystems have locks of their own, which come after all these locks and
//! have no rank.
//!
//! A get takes none of these locks, unless it opens a table, adds a block to the cache, sorts a
//! memtable, is sampled, or runs in a thread without read counters of its own.
//!
//! # Invariants
//! - A memtable is frozen before anything is written to the next one. Memtables are flushed from
//!   the oldest to the newest, and stay in the view until they are flushed ([`State::check`]).
//! - `state.version` is `manifest.current()`, except between the end of `VersionSet::commit` and
//!   the update of the state, which only the holder of the manifest lock can observe.
//! - The thread that changes `mem`, `frozen` or `version` shows the new view before it releases the
//!   state lock.
//! - `commit.visible` is the number of the current view. Only the holder of the commit lock
//!   replaces it, by showing a view.
//! - The visible sequence number never goes back.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::base::process::ProcessId;
use crate::base::sync::atomic::AtomicBool;
use crate::base::sync::{Condvar, Mutex};
use crate::engine::compression::{Compressions, TableCompression};
use crate::engine::observe::queue::Observing;
use crate::engine::options::Options;
use crate::engine::read::view::ReadState;
use crate::engine::report::recovery::Recovery;
use crate::engine::stats::metrics::Metrics;
use crate::engine::table_writer::Target;
use crate::engine::version::numbers::FileNumbers;
use crate::engine::version::obsolete::Trash;
use crate::engine::version::set::VersionSet;
use crate::engine::write::commit::CommitState;
use crate::engine::write::pace::Pace;
use crate::engine::write::queue::WriteQueue;
use crate::fs::Fs;

mod behalf;
pub(crate) mod checkpoint;
pub(crate) mod compact;
pub(crate) mod compression;
mod conservation;
pub(crate) mod delete_range;
pub(crate) mod expiry;
pub(crate) mod flush;
pub(crate) mod follow;
pub(crate) mod health;
pub(crate) mod ingest;
mod inside;
pub mod memtable;
pub(crate) mod observe;
pub(crate) mod open;
pub(crate) mod options;
mod publish;
pub(crate) mod read;
pub(crate) mod report;
pub(crate) mod resources;
pub(crate) mod span;
mod state;
pub(crate) mod stats;
mod table_change;
pub(crate) mod table_writer;
#[cfg(test)]
mod testing;
pub(crate) mod throttle;
pub(crate) mod version;
pub(crate) mod worker;
pub(crate) mod write;

pub(crate) use state::{Frozen, State};

/// Abilities of the filesystem that a database is on.
#[derive(Clone, Copy, Debug)]
struct FsAbilities {
    /// Whether the directory is locked against other processes.
    has_lock: bool,
    /// Whether directories can be synced.
    syncs_names: bool,
}

/// A database open for writing. Thread-safe; the module's documentation lists the locks.
pub(crate) struct Engine {
    /// The database's directory.
    pub dir: PathBuf,
    /// The filesystem that the directory is on.
    pub fs: Arc<dyn Fs>,
    /// The process that opened the database, which the threads and the files belong to.
    opener: ProcessId,
    /// The options given at open, with the compression that was decided on.
    pub options: Options,
    /// Allocates file numbers.
    pub numbers: Arc<FileNumbers>,
    /// Removes obsolete tables.
    pub trash: Arc<Trash>,
    /// Counters of writes, flushes and compactions.
    pub metrics: Metrics,
    /// Measures how far writes are ahead of flushes.
    pace: Pace,
    /// Compression of new tables, and of the tables at open.
    pub compression: Compressions,
    /// Report of the recovery when the database was opened.
    pub recovery: Recovery,
    /// Held during an ingest, so that ingests take turns.
    ingests: Mutex<()>,
    queue: WriteQueue,
    commit: Mutex<CommitState>,
    manifest: Mutex<VersionSet>,
    state: Mutex<State>,
    /// Notified when a flush or compaction ends, when something fails, and at close.
    changed: Condvar,
    /// Mirror of `state.lifecycle.failed.is_some()`, so that writers need not take the state lock.
    has_failed: AtomicBool,
    /// Mirror of `state.lifecycle.closing`, which long merges read without the state lock.
    closing: AtomicBool,
    /// State of the random number generator that decides when a writer runs background work, in the
    /// deterministic mode for tests (`Options::inline_background`). `None` if there are background
    /// threads.
    inline: Option<Mutex<u64>>,
    /// Abilities of the filesystem, found out when the database was opened.
    fs_abilities: FsAbilities,
    /// Events for the observer, if there is one.
    observing: Option<Observing>,
    /// State for reads, which snapshots and cursors keep alive after the engine is dropped. Must be
    /// the last field, because it holds the directory lock: dropping the log truncates it to its
    /// records, and no other process may write to the log before that.
    pub reads: Arc<ReadState>,
}

impl Engine {
    /// Returns the compression of new tables, and of the tables at open.
    pub(crate) fn table_compression(&self) -> &TableCompression {
        self.compression.get(&*self.fs, &self.dir, &self.options)
    }

    /// Returns the target to which flushes and compactions write tables.
    fn table_target(&self) -> Target<'_> {
        let (options, order) = (&self.options, &self.reads.order);
        Target::new(&*self.fs, &self.dir, options, order)
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("dir", &self.dir).finish_non_exhaustive()
    }
}
