//! Events: reports of flushes, compactions and write stalls to an [`Observer`].
//!
//! The event of a change is numbered and queued under the state lock, together with the change
//! ([`Engine::observe`]). So events are in the same order as the changes that they report: an event
//! that names a table comes after the event that reports the table's creation. The observer is
//! called by a separate thread ([`deliver`]) that holds no lock, so it may use the database. The
//! threads that make the changes could not call the observer themselves: memtables are frozen under
//! the commit lock, and a put by the observer would wait for that lock forever.
//!
//! Without an observer, there is no thread and no queue. Each place in the code that reports an
//! event checks one `Option`. A put reaches such a place only when it checks the size of the
//! memtable. A get never reaches one.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::base::{Error, Result};
use crate::engine::compact::plan::CompactionKind;
use crate::engine::stats::metrics::StallCause;
use crate::engine::stats::property::Stats;
use crate::engine::version::{TableFile, Version};
use crate::engine::{Engine, State};

mod deliver;

pub(crate) use deliver::Observing;

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
    /// Time since the database was opened, in microseconds. The time never decreases.
    pub micros: u64,
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
        /// Duration, in microseconds.
        micros: u64,
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
        /// Duration, in microseconds.
        micros: u64,
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
        /// Duration of the wait, in microseconds.
        micros: u64,
    },
    /// The database was closed. This is the last event.
    #[non_exhaustive]
    Closed {
        /// The final statistics of the database.
        stats: Box<Stats>,
        /// Keys that were looked up by gets, oldest first: all of these keys if there were few,
        /// otherwise a sample of a few thousand.
        looked_up: Vec<Box<[u8]>>,
    },
}

/// A table of a database, as described in an [`EventKind`].
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

impl TableInfo {
    pub(crate) fn of(level: usize, file: &TableFile) -> TableInfo {
        let counts = file.tombstones.counts();
        TableInfo {
            number: file.number,
            level,
            file_bytes: file.file_bytes,
            first_key: file.first_key().to_vec(),
            last_key: file.last_key().to_vec(),
            entries: counts.map(|counts| counts.entries),
            tombstones: counts.map(|counts| counts.tombstones),
        }
    }

    /// Returns those tables of the level `level` of `version` whose numbers are in `numbers`.
    pub(crate) fn named(
        version: &Version,
        level: usize,
        numbers: impl IntoIterator<Item = u64>,
    ) -> Vec<TableInfo> {
        let numbers: BTreeSet<u64> = numbers.into_iter().collect();
        let named = version.level(level).iter().filter(|file| numbers.contains(&file.number));
        named.map(|file| TableInfo::of(level, file)).collect()
    }
}

impl Engine {
    /// Reports an event to the observer, if there is one. If the event reports that a memtable
    /// was frozen or that the set of tables changed, the caller must hold the state lock.
    pub(crate) fn observe<E: Into<Option<EventKind>>>(&self, kind: impl FnOnce() -> E) {
        if let Some(observing) = &self.observing
            && let Some(kind) = kind().into()
        {
            observing.push(kind);
        }
    }

    /// Returns the number of a flush or compaction that is about to begin; 0 if there is no
    /// observer.
    pub(crate) fn next_job(&self) -> u64 {
        self.observing.as_ref().map_or(0, Observing::next_job)
    }

    /// Starts the thread that calls the observer, if there is one, and reports the tables that the
    /// open found. Must be called before background work begins.
    ///
    /// # Errors
    /// An I/O error if the system cannot start a thread.
    pub(crate) fn start_observing(self: &Arc<Engine>) -> Result<()> {
        let Some(observing) = &self.observing else { return Ok(()) };
        let all = |state: &State| {
            state.version.files().map(|(level, file)| TableInfo::of(level, file)).collect()
        };
        let (path, state) = (self.dir.clone(), self.state.lock());
        observing.push(EventKind::Opened { path, tables: all(&state) });
        drop(state);
        let started = observing.start(self);
        started.map_err(|error| Error::io("start a thread for", &self.dir, error))
    }

    /// Adds the last event, and waits until the observer has received all events. The caller must
    /// not hold a lock.
    pub(crate) fn end_observing(&self) {
        if let Some(observing) = &self.observing {
            observing.end(|| {
                let (stats, looked_up) = (Box::new(self.stats()), self.reads.sample.keys());
                EventKind::Closed { stats, looked_up }
            });
        }
    }
}
