//! Events: reports of flushes, compactions and write stalls to an
//! [`Observer`](crate::events::Observer).
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
use std::sync::Arc;

use crate::base::{Error, Result};
use crate::engine::observe::queue::Observing;
use crate::engine::report::event::{EventKind, TableInfo};
use crate::engine::version::{TableFile, Version};
use crate::engine::{Engine, State};

pub(crate) mod queue;

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
        let engine = self.clone();
        let started = observing.start(move || deliver(&engine));
        started.map_err(|error| Error::io("start a thread for", &self.dir, error))
    }

    /// Adds the last event, and waits until the observer has received all events. The caller must
    /// not hold a lock.
    pub(crate) fn end_observing(&self) {
        if let Some(observing) = &self.observing {
            observing.end(|| EventKind::Closed { stats: Box::new(self.stats()) });
        }
    }
}

/// Calls the observer for each event, up to the last event.
fn deliver(engine: &Engine) {
    let Some(observing) = &engine.observing else { return };
    while let Some(event) = observing.next() {
        // If the observer panics, `contain_outside` records the panic as an error of the database.
        let _ = engine.contain_outside("an observer", || {
            observing.call(&event);
            Ok(())
        });
    }
}
