//! The engine: what happens between a call and the files.
//!
//! | room | what is in it |
//! | --- | --- |
//! | `write/` | the queue of writers, the log, and back-pressure |
//! | `memtable/` | entries that are in no table yet |
//! | `flush` | turns a frozen memtable into a table of level 0 |
//! | `read/` | views, gets and cursors |
//! | `version/` | which tables are current, the MANIFEST that records it, obsolete files |
//! | `compact/` | picks tables to merge, and merges them |
//! | `open/` | from files to an engine: directory, replay of logs, read-only opens |
//! | `stats/` | counters, properties, and a sample of the keys looked up |
//! | `worker`, `health` | background threads; failures and recovery from them |
//! | `checkpoint` | a consistent copy of an open database |
//!
//! # Locks
//! In the order in which they may be taken; none is taken while one further down is held:
//! 1. the write queue's line: held for a few instructions;
//! 2. `Engine::commit`: held by the commit leader while it writes the log and the memtable;
//! 3. `Engine::manifest`: held while an edit is made durable;
//! 4. `Engine::state`: held for a few instructions, never during I/O;
//! 5. the snapshots of [`view::ReadState`].
//!
//! Reads take none of them.
//!
//! # Invariants
//! - A memtable is frozen before anything is written to the next one, and is flushed before it
//!   leaves the view; the oldest goes first.
//! - `state.version` is `manifest.current()`, but for the moment between the two locks, in which
//!   only the holder of the manifest lock looks.
//! - Whoever changes `mem`, `frozen` or `version` shows the new view under the same lock.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::base::Error;
use crate::base::sync::atomic::AtomicBool;
use crate::base::sync::{Condvar, Instant, Mutex};
use crate::engine::compact::manual::Manual;
use crate::engine::compact::plan::Compaction;
use crate::engine::memtable::Memtable;
use crate::engine::open::replay::Recovery;
use crate::engine::options::Options;
use crate::engine::read::view::{ReadState, ReadView};
use crate::engine::stats::metrics::{Metrics, StallCause};
use crate::engine::version::Version;
use crate::engine::version::numbers::FileNumbers;
use crate::engine::version::obsolete::Trash;
use crate::engine::version::set::VersionSet;
use crate::engine::write::CommitState;
use crate::engine::write::pace::Pace;
use crate::engine::write::queue::WriteQueue;
use crate::engine::write::wal::{OutgoingLog, SpareLog};
use crate::fs::Fs;

pub mod checkpoint;
pub mod compact;
pub mod flush;
pub mod health;
pub mod memtable;
pub mod open;
pub mod options;
pub mod read;
pub mod stats;
pub mod version;
pub mod worker;
pub mod write;

/// A database open for writing. Thread-safe; see the module for its locks.
pub struct Engine {
    /// Where the files are.
    pub dir: PathBuf,
    /// The filesystem they are on.
    pub fs: Arc<dyn Fs>,
    /// As given at open.
    pub options: Options,
    /// Hands out file numbers.
    pub numbers: Arc<FileNumbers>,
    /// Removes obsolete tables.
    pub trash: Arc<Trash>,
    /// Counters of the write side.
    pub metrics: Metrics,
    /// Whether writes are ahead of flushes.
    pace: Pace,
    /// What recovery found when the database was opened.
    pub recovery: Recovery,
    queue: WriteQueue,
    commit: Mutex<CommitState>,
    manifest: Mutex<VersionSet>,
    state: Mutex<State>,
    /// Told when a flush or compaction is done, when something failed, and at close.
    changed: Condvar,
    /// Whether `state.failed` is set: writers look here first.
    has_failed: AtomicBool,
    /// Whether background work must end soon: long merges look here.
    closing: AtomicBool,
    /// Without threads: what decides when background work is done. A leaf of the lock order.
    inline: Option<Mutex<u64>>,
    /// What reads need; outlives the engine in snapshots and cursors. It holds the lock of the
    /// directory, so it is the last field: logs are cut to their records when they are dropped,
    /// and by then nobody else may be writing to them.
    pub reads: Arc<ReadState>,
}

/// The engine's own state, guarded by one lock.
#[derive(Debug)]
pub struct State {
    /// The memtable that writes go to.
    mem: Arc<Memtable>,
    /// The first log whose records are in `mem`.
    mem_log: u64,
    /// Memtables to flush, oldest first.
    frozen: VecDeque<Frozen>,
    /// The current version.
    version: Arc<Version>,
    /// The logs that are on disk, each with the bytes of its records: 0 before it is the current
    /// one, `None` if it was replayed.
    logs: BTreeMap<u64, Option<u64>>,
    /// The log after the current one, if it is made already, and whether it is to be.
    spare_log: Option<SpareLog>,
    wants_spare_log: bool,
    /// Logs that nobody needs, still open: to close a long one takes a while.
    done_logs: Vec<OutgoingLog>,
    /// Compactions under way.
    running: Vec<Arc<Compaction>>,
    /// Whether a memtable is being flushed.
    flushing: bool,
    /// The manual compaction under way.
    manual: Option<Manual>,
    /// Why nothing is written any more.
    failed: Option<Error>,
    /// Why the last compaction failed; cleared by one that does not.
    compaction_error: Option<Error>,
    /// How many compactions failed one after another.
    compaction_failures: u32,
    /// No compaction is tried before.
    compaction_not_before: Option<Instant>,
    /// Tables that no compaction can read, and why. They stay marked as being compacted.
    pinned: BTreeMap<u64, Error>,
    /// What a write waits for.
    stall: Option<StallCause>,
    /// Whether the engine is being closed.
    closing: bool,
}

/// A memtable on its way to a table.
#[derive(Clone, Debug)]
pub struct Frozen {
    /// The memtable.
    pub mem: Arc<Memtable>,
    /// The first log whose records are in it.
    pub first_log: u64,
    /// The memory it took when it was frozen, in bytes.
    pub bytes: u64,
}

impl State {
    /// Returns what readers are shown of this state.
    fn view(&self) -> ReadView {
        ReadView {
            mem: self.mem.clone(),
            imm: self.frozen.iter().rev().map(|frozen| frozen.mem.clone()).collect(),
            version: self.version.clone(),
        }
    }
}

impl Engine {
    /// Shows readers what `state` holds.
    fn show(&self, state: &State) {
        self.reads.set_view(state.view());
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("dir", &self.dir).finish_non_exhaustive()
    }
}
