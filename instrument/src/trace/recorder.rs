//! Records runs: the events of databases, and the steps of lookups.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

use minikv::events::{Event, EventKind};
use minikv::explain::Explanation;
use minikv::{Comparator, Options, ReadSample};

use super::run::{Run, TracedLookup, new_tables};
use super::{lookups, page};
use crate::error::{Error, Result};
use crate::readamp::Provenance;

/// Records databases opened with options from [`Recorder::observe`]. Clones record to the same list
/// of runs.
#[derive(Clone)]
pub struct Recorder {
    runs: Arc<Mutex<Vec<Run>>>,
    /// Notified when a run begins.
    begun: Arc<Condvar>,
    /// Maximum number of lookups to make when a database is closed.
    most_lookups: usize,
}

impl Recorder {
    /// Creates a recorder that looks up at most `most_lookups` keys itself when a database is
    /// closed.
    pub fn new(most_lookups: usize) -> Recorder {
        Recorder { runs: Arc::default(), begun: Arc::default(), most_lookups }
    }

    fn runs(&self) -> MutexGuard<'_, Vec<Run>> {
        self.runs.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns `options` with an observer that records the databases opened with them. `comparator`
    /// must be the comparator of `options`.
    pub fn observe(&self, options: Options, comparator: Arc<dyn Comparator>) -> Options {
        let (recorder, plain) = (self.clone(), options.clone());
        let sample = ReadSample::new();
        let options = options.sample_reads(&sample);
        // Index of the run of the database that was opened last with these options.
        let place = Mutex::new(0);
        options.observer(move |event: &Event| {
            let mut place = place.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            if let EventKind::Opened { path, .. } = &event.kind {
                *place = recorder.begin(path, &plain, &comparator);
            }
            recorder.add(*place, event, &sample);
        })
    }

    /// Begins a run. Returns its index.
    fn begin(&self, path: &Path, options: &Options, comparator: &Arc<dyn Comparator>) -> usize {
        let mut runs = self.runs();
        runs.push(Run::new(path, options, comparator));
        self.begun.notify_all();
        runs.len() - 1
    }

    fn add(&self, place: usize, event: &Event, sample: &ReadSample) {
        let now = Instant::now();
        let mut runs = self.runs();
        let run = &mut runs[place];
        let opened = now.checked_sub(event.since_open).unwrap_or(now);
        run.opened = run.opened.min(opened);
        for table in new_tables(&event.kind) {
            run.note_filters(table);
        }
        run.events.push(event.clone());
        if let EventKind::Closed { stats, .. } = &event.kind {
            run.stats = Some(stats.clone());
            if run.lookups.is_empty() {
                run.is_replay = true;
                // If the lookups fail, the page still shows the events.
                let made =
                    lookups::make(run, &sample.keys(), self.most_lookups).unwrap_or_default();
                let micros = event.since_open.as_micros() as u64;
                let lookup = |explanation| TracedLookup { micros, explanation };
                run.lookups = made.into_iter().map(lookup).collect();
            }
            // The next database that is opened with these options has a sample of its own.
            sample.clear();
        }
    }

    /// Records a lookup in the database that was opened last.
    pub fn lookup(&self, explanation: Explanation) {
        // The event of the open may not have been recorded yet.
        let begun = self.begun.wait_while(self.runs(), |runs| runs.is_empty());
        let mut runs = begun.unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(run) = runs.last_mut() {
            let micros = run.opened.elapsed().as_micros() as u64;
            run.lookups.push(TracedLookup { micros, explanation });
        }
    }

    /// Returns whether no database was opened.
    pub fn is_empty(&self) -> bool {
        self.runs().is_empty()
    }

    /// Writes the page of all runs to the file `path`.
    ///
    /// # Errors
    /// An I/O error of that file.
    pub fn write_page(&self, path: &Path) -> Result<()> {
        let page = page::page(&self.runs(), &Provenance::of_this_run());
        std::fs::write(path, page).map_err(|error| Error::io("write", path, error))
    }
}
