//! Events of an open database, for a program's observer.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::base::Error;
use crate::engine::report::stats::Stats;

/// Receives the events of a database: see [`Options::observer`](crate::Options::observer).
///
/// Every `Fn(&Event)` that threads can share is an observer.
pub trait Observer: Send + Sync + 'static {
    /// Receives an event. The database calls this method for one event at a time, in order.
    fn event(&self, event: &Event);
}

impl<F: Fn(&Event) + Send + Sync + 'static> Observer for F {
    fn event(&self, event: &Event) {
        self(event);
    }
}

/// The observer supplied by the program.
#[derive(Clone)]
pub(crate) struct Observed(pub(crate) Arc<dyn Observer>);

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

/// Something that happened in an open database.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Event {
    /// Number of the event. The first event after the open has the number 0, and each further event
    /// has the next number.
    pub number: u64,
    /// Time since the database was opened, in whole microseconds. The time never decreases.
    pub since_open: Duration,
    /// The kind of the event, with its details.
    pub kind: EventKind,
}

/// Kinds of events in an open database. The events report every change to the tables: the tables in
/// [`Opened`](EventKind::Opened), with the changes in all later events applied, are the tables of
/// the database.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EventKind {
    /// The database was opened. This is the first event.
    #[non_exhaustive]
    Opened {
        /// Directory of the database.
        path: PathBuf,
        /// All tables.
        tables: Vec<TableInfo>,
    },
    /// The memtable has grown. Reported about once for every 256 KiB of growth, or four times for
    /// each memtable if memtables are small.
    #[non_exhaustive]
    MemtableGrew {
        /// Number of entries in the memtable, including tombstones and older versions.
        entries: u64,
        /// Memory that the memtable takes, in bytes.
        memtable_bytes: u64,
        /// Number of the current log.
        log: u64,
        /// Size of the records of the current log, in bytes.
        log_bytes: u64,
    },
    /// The memtable was frozen. A new memtable and a new log take its place.
    #[non_exhaustive]
    MemtableFrozen {
        /// Number of entries in the memtable, including tombstones and older versions.
        entries: u64,
        /// Memory that the memtable takes, in bytes.
        memtable_bytes: u64,
        /// Number of the log that ended.
        log: u64,
        /// Size of the records of that log, in bytes.
        log_bytes: u64,
    },
    /// A flush began: the oldest frozen memtable is written to a table of level 0.
    #[non_exhaustive]
    FlushBegan {
        /// Number of the flush or compaction, counted since the database was opened.
        job: u64,
        /// Number of entries in the memtable.
        entries: u64,
    },
    /// A flush ended.
    #[non_exhaustive]
    FlushEnded {
        /// Number of the flush or compaction, as in the event of its beginning.
        job: u64,
        /// The new table; `None` if the memtable was empty, or the flush failed.
        table: Option<TableInfo>,
        /// Duration, in whole microseconds.
        took: Duration,
        /// The error, if the flush failed. A flush that failed has changed no table.
        error: Option<Error>,
    },
    /// A compaction began.
    #[non_exhaustive]
    CompactionBegan {
        /// Number of the flush or compaction, counted since the database was opened.
        job: u64,
        /// Whether the compaction merges, moves or drops its inputs.
        kind: CompactionKind,
        /// The tables that the compaction takes, from the lowest level number to the highest.
        inputs: Vec<TableInfo>,
        /// Level of the outputs.
        output_level: usize,
    },
    /// A compaction ended. If it succeeded, its outputs have taken the place of its inputs.
    #[non_exhaustive]
    CompactionEnded {
        /// Number of the flush or compaction, as in the event of its beginning.
        job: u64,
        /// Whether the compaction merged, moved or dropped its inputs.
        kind: CompactionKind,
        /// The tables that the compaction took.
        inputs: Vec<TableInfo>,
        /// Level of the outputs.
        output_level: usize,
        /// The tables that the compaction wrote or moved; empty if it failed.
        outputs: Vec<TableInfo>,
        /// Number of input entries that a merge did not write to its outputs.
        entries_dropped: u64,
        /// Duration, in whole microseconds.
        took: Duration,
        /// The error, if the compaction failed. A compaction that failed has changed no table.
        error: Option<Error>,
    },
    /// Tables were added or removed by [`Db::ingest`](crate::Db::ingest),
    /// [`Db::delete_range`](crate::Db::delete_range) or a similar call.
    #[non_exhaustive]
    TablesChanged {
        /// The new tables.
        added: Vec<TableInfo>,
        /// The tables that were removed.
        removed: Vec<TableInfo>,
    },
    /// A writer began to wait.
    #[non_exhaustive]
    StallBegan {
        /// The cause of the wait.
        cause: StallCause,
    },
    /// A writer continues.
    #[non_exhaustive]
    StallEnded {
        /// The cause of the wait; the last cause if there were several.
        cause: StallCause,
        /// Duration of the wait, in whole microseconds.
        took: Duration,
    },
    /// The database was closed. This is the last event.
    #[non_exhaustive]
    Closed {
        /// The final statistics of the database.
        stats: Box<Stats>,
    },
}

/// A table of a database, as described in an [`EventKind`] or a
/// [`Step`](crate::explain::Step).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableInfo {
    /// File number.
    pub number: u64,
    /// Level, 0 to 6. For an input of a compaction, the level before the compaction.
    pub level: usize,
    /// Size of the file in bytes.
    pub file_bytes: u64,
    /// First user key.
    pub first_key: Vec<u8>,
    /// Last user key.
    pub last_key: Vec<u8>,
    /// Number of entries, including tombstones; `None` if another process wrote the table.
    pub entries: Option<u64>,
    /// Number of tombstones; `None` if another process wrote the table.
    pub tombstones: Option<u64>,
}

/// The action of a compaction on its inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionKind {
    /// The inputs are merged into new tables.
    Merge,
    /// The inputs are moved to the output level unchanged.
    Move,
    /// The inputs are dropped without being read, because all their entries have expired.
    Drop,
}

/// The cause of a write stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StallCause {
    /// Frozen memtables wait to be flushed.
    Flush,
    /// Level 0 has so many tables that writes stop until a compaction has finished.
    Level0,
    /// Writes are slowed down so that they do not have to stop later: level 0 has many tables,
    /// flushes lag behind, or memtables take much of the memory budget.
    Slowdown,
}
