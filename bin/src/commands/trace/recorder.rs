//! Recording a run: the events of its databases, and lookups step by step.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use minikv::explain::Explanation;
use minikv::internals::filter::whole_table::TABLE_FILTER_NAME;
use minikv::internals::format::name::table_name;
use minikv::internals::table::FILTER_PREFIX;
use minikv::{Comparator, Event, EventKind, Options, Stats, TableInfo};

use super::{lookups, page};
use crate::commands::readamp::provenance::Provenance;
use crate::error::{CliError, Result};
use crate::table_file::open_table;

/// Records the databases that are opened with its options. Clones record to the same list of runs.
#[derive(Clone)]
pub struct Recorder {
    runs: Arc<Mutex<Vec<Run>>>,
    /// Notified when a run begins.
    begun: Arc<Condvar>,
    /// Maximum number of lookups to make when a database is closed.
    most_lookups: usize,
}

/// A database, from its open to its close.
pub struct Run {
    pub path: PathBuf,
    pub options: Options,
    pub comparator: Arc<dyn Comparator>,
    pub events: Vec<Event>,
    pub lookups: Vec<Lookup>,
    /// Whether the lookups were made at the end, by the recorder.
    pub is_replay: bool,
    /// The kinds of filters of each table that was seen, by its number.
    pub filters: BTreeMap<u64, Filters>,
    /// The statistics at the end.
    pub stats: Option<Box<Stats>>,
    /// Time at which the database was opened, computed from its events; a little later than the
    /// open.
    opened: Instant,
}

/// A lookup that was recorded.
pub struct Lookup {
    /// Microseconds since the open.
    pub micros: u64,
    pub explanation: Explanation,
}

/// The kinds of filters that a table has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filters {
    pub block: bool,
    pub table: bool,
}

impl Recorder {
    pub fn new(most_lookups: usize) -> Recorder {
        Recorder { runs: Arc::default(), begun: Arc::default(), most_lookups }
    }

    fn runs(&self) -> MutexGuard<'_, Vec<Run>> {
        self.runs.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns `options`, with this `comparator`, for a database that is recorded.
    pub fn observe(&self, options: Options, comparator: Arc<dyn Comparator>) -> Options {
        let (recorder, plain) = (self.clone(), options.clone());
        // The index of the run of the database that was opened last with these options.
        let place = Mutex::new(0);
        options.observer(move |event: &Event| {
            let mut place = place.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            if let EventKind::Opened { path, .. } = &event.kind {
                *place = recorder.begin(path, &plain, &comparator);
            }
            recorder.add(*place, event);
        })
    }

    /// Begins a run. Returns its index.
    fn begin(&self, path: &Path, options: &Options, comparator: &Arc<dyn Comparator>) -> usize {
        let mut runs = self.runs();
        runs.push(Run {
            path: path.to_path_buf(),
            options: options.clone(),
            comparator: comparator.clone(),
            events: Vec::new(),
            lookups: Vec::new(),
            is_replay: false,
            filters: BTreeMap::new(),
            stats: None,
            opened: Instant::now(),
        });
        self.begun.notify_all();
        runs.len() - 1
    }

    fn add(&self, place: usize, event: &Event) {
        let now = Instant::now();
        let mut runs = self.runs();
        let run = &mut runs[place];
        let opened = now.checked_sub(Duration::from_micros(event.micros)).unwrap_or(now);
        run.opened = run.opened.min(opened);
        for table in new_tables(&event.kind) {
            run.note_filters(table);
        }
        run.events.push(event.clone());
        if let EventKind::Closed { stats, looked_up, .. } = &event.kind {
            run.stats = Some(stats.clone());
            if run.lookups.is_empty() {
                run.is_replay = true;
                // Without lookups, the page still shows the events.
                let made = lookups::make(run, looked_up, self.most_lookups).unwrap_or_default();
                let lookup = |explanation| Lookup { micros: event.micros, explanation };
                run.lookups = made.into_iter().map(lookup).collect();
            }
        }
    }

    /// Records a lookup in the database that was opened last.
    pub fn lookup(&self, explanation: Explanation) {
        // The open may not have been reported yet.
        let begun = self.begun.wait_while(self.runs(), |runs| runs.is_empty());
        let mut runs = begun.unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(run) = runs.last_mut() {
            let micros = run.opened.elapsed().as_micros() as u64;
            run.lookups.push(Lookup { micros, explanation });
        }
    }

    /// Returns whether no database was opened.
    pub fn is_empty(&self) -> bool {
        self.runs().is_empty()
    }

    /// Writes the page of all runs.
    pub fn write_page(&self, path: &Path) -> Result<()> {
        let page = page::page(&self.runs(), &Provenance::of_this_run());
        std::fs::write(path, page).map_err(|error| CliError::io("write", path, error))
    }
}

impl Run {
    /// Records the kinds of filters of a table. If the table no longer exists, its kinds stay
    /// unknown.
    fn note_filters(&mut self, table: &TableInfo) {
        let path = self.path.join(table_name(table.number));
        let Ok(file) = open_table(&path) else { return };
        let has = |test: &dyn Fn(&[u8]) -> bool| file.meta().iter().any(|(name, _)| test(name));
        let filters = Filters {
            block: has(&|name| name.starts_with(FILTER_PREFIX.as_bytes())),
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
