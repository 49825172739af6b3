//! A recorded run of a database: its events, its lookups, and its tables' filters.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use minikv::events::{Event, EventKind, TableInfo};
use minikv::explain::Explanation;
use minikv::files::{FileName, TableReader};
use minikv::filter::TABLE_FILTER_NAME;
use minikv::{Comparator, Options, Stats};

/// First part of the name of a filter block in a table. The name of its policy follows.
const FILTER_PREFIX: &[u8] = b"filter.";

/// Record of a database from its open to its close.
pub struct Run {
    pub path: PathBuf,
    pub options: Options,
    pub comparator: Arc<dyn Comparator>,
    pub events: Vec<Event>,
    pub lookups: Vec<TracedLookup>,
    /// Whether the lookups were made by the recorder when the database was closed.
    pub is_replay: bool,
    /// Kinds of filters of each table, by the number of the table.
    pub filters: BTreeMap<u64, FilterKinds>,
    /// Statistics of the database when it was closed.
    pub stats: Option<Box<Stats>>,
    /// Time of the open, computed from the times of events. Slightly later than the actual open.
    pub opened: Instant,
}

/// Recorded lookup.
pub struct TracedLookup {
    /// Microseconds since the database was opened.
    pub micros: u64,
    pub explanation: Explanation,
}

/// Kinds of filters of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterKinds {
    pub block: bool,
    pub table: bool,
}

impl Run {
    /// Begins the run of a database that has just been opened.
    pub fn new(path: &Path, options: &Options, comparator: &Arc<dyn Comparator>) -> Run {
        Run {
            path: path.to_path_buf(),
            options: options.clone(),
            comparator: comparator.clone(),
            events: Vec::new(),
            lookups: Vec::new(),
            is_replay: false,
            filters: BTreeMap::new(),
            stats: None,
            opened: Instant::now(),
        }
    }

    /// Records the kinds of filters of a table. If the table no longer exists, records nothing.
    pub fn note_filters(&mut self, table: &TableInfo) {
        let name = FileName::Table { number: table.number, legacy_sst: false };
        let path = self.path.join(name.to_string());
        let Ok(file) = TableReader::open(path, &Options::default()) else { return };
        let has = |test: &dyn Fn(&[u8]) -> bool| file.meta().iter().any(|(name, _)| test(name));
        let filters = FilterKinds {
            block: has(&|name| name.starts_with(FILTER_PREFIX)),
            table: has(&|name| name == TABLE_FILTER_NAME.as_bytes()),
        };
        self.filters.insert(table.number, filters);
    }
}

/// Returns the tables that an event adds.
pub fn new_tables(kind: &EventKind) -> &[TableInfo] {
    match kind {
        EventKind::Opened { tables, .. } => tables,
        EventKind::FlushEnded { table, .. } => table.as_slice(),
        EventKind::CompactionEnded { outputs, .. } => outputs,
        EventKind::TablesChanged { added, .. } => added,
        _ => &[],
    }
}
