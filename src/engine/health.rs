//! Trouble while running: what the database still does, and what it says.
//!
//! - A failed write, sync or flush, or a failed edit of the MANIFEST: no more writes, until
//!   [`Engine::resume`]. The file that failed is never written again. Reads go on.
//! - A failed compaction: it is tried again, after a time that doubles. Writes go on until level 0
//!   is full; then they get the error instead of waiting for what may never come.
//! - A table that a compaction finds damaged: it stays where it is, and no compaction that needs
//!   it is tried again. The others go on.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::base::sync::Instant;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::{Error, Result};
use crate::engine::compact::Compaction;
use crate::engine::metrics::StallCause;
use crate::engine::write::CommitState;
use crate::engine::{Engine, State};
use crate::format::name::{self, FileName};

/// After the first failure of a compaction, how long until the next try.
const FIRST_BACKOFF: Duration = Duration::from_millis(50);

/// The longest time between two tries.
const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// What a database can do at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HealthState {
    /// Everything.
    Good,
    /// Everything, but compactions fail or leave tables out: in the end writes will stop.
    Degraded,
    /// Reads only, until [`Db::resume`](crate::Db::resume) or the next open.
    ReadOnly,
}

/// What a database can do, and why not more.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Health {
    /// What it can do.
    pub state: HealthState,
    /// Why not more.
    pub error: Option<Error>,
    /// Compactions that failed one after another, up to now.
    pub compaction_failures: u32,
    /// Tables that no compaction could read, and what is wrong with each. Reads of them are right
    /// or errors.
    pub damaged_tables: Vec<(PathBuf, Error)>,
    /// What a write waits for at this moment.
    pub stall: Option<StallCause>,
}

impl State {
    /// The first log whose records are not in tables.
    pub fn oldest_log(&self) -> u64 {
        self.frozen.front().map_or(self.mem_log, |frozen| frozen.first_log)
    }

    /// What keeps compactions from being done.
    pub fn compaction_trouble(&self) -> Option<&Error> {
        self.compaction_error.as_ref().or_else(|| self.pinned.values().next())
    }

    /// A compaction went well.
    pub fn compaction_succeeded(&mut self) {
        self.compaction_error = None;
        self.compaction_failures = 0;
        self.compaction_not_before = None;
    }

    /// A compaction failed. Space and handles may come back: it is tried again. Damage stays: the
    /// damaged table is left alone, or all inputs if it is not known which one it is.
    pub fn compaction_failed(&mut self, compaction: &Compaction, error: &Error) {
        self.compaction_error = Some(error.clone());
        self.compaction_failures = self.compaction_failures.saturating_add(1);
        if matches!(error, Error::Io { .. } | Error::ReadOnly { .. }) {
            let doublings = (self.compaction_failures - 1).min(16);
            let backoff = FIRST_BACKOFF.saturating_mul(1 << doublings).min(MAX_BACKOFF);
            self.compaction_not_before = Some(Instant::now() + backoff);
            return;
        }
        let damaged = table_of(error);
        let is_input = compaction.input_files().any(|file| Some(file.number) == damaged);
        for file in compaction.input_files() {
            if !is_input || Some(file.number) == damaged {
                file.compacting.store(true, Relaxed);
                self.pinned.insert(file.number, error.clone());
            }
        }
    }

    /// Lets compactions be tried again if it is time.
    pub fn end_backoff(&mut self, now: Instant) {
        if self.compaction_not_before.is_some_and(|time| time <= now) {
            self.compaction_not_before = None;
        }
    }

    /// Tries everything that failed again.
    pub fn forgive_compactions(&mut self) {
        self.compaction_succeeded();
        for (_, file) in self.version.files() {
            if self.pinned.remove(&file.number).is_some() {
                file.compacting.store(false, Relaxed);
            }
        }
        self.pinned.clear();
    }
}

/// The table that an error is about.
fn table_of(error: &Error) -> Option<u64> {
    let Error::Corruption(corruption) = error else { return None };
    let name = corruption.path.as_ref()?.file_name()?.to_str()?;
    match FileName::parse(name)? {
        FileName::Table { number, .. } => Some(number),
        _ => None,
    }
}

impl Engine {
    /// Takes no more writes, because of `error`. The first one counts. Reads go on.
    pub fn fail(&self, error: Error) {
        let mut state = self.state.lock();
        if !matches!(error, Error::Closed) {
            state.failed.get_or_insert(error);
            self.has_failed.store(true, Relaxed);
        }
        self.changed.notify_all();
        self.reads.work.notify_all();
    }

    /// What a write gets once the database takes no more.
    pub fn read_only_error(&self) -> Error {
        match &self.state.lock().failed {
            Some(error) => Error::ReadOnly { reason: Arc::new(error.clone()) },
            None => Error::Closed,
        }
    }

    /// What the database can do now.
    pub fn health(&self) -> Health {
        let state = self.state.lock();
        let trouble = state.compaction_trouble();
        let path = |number: &u64| self.dir.join(name::table_name(*number));
        let damaged = state.pinned.iter().map(|(number, error)| (path(number), error.clone()));
        Health {
            state: match (&state.failed, trouble) {
                (Some(_), _) => HealthState::ReadOnly,
                (None, Some(_)) => HealthState::Degraded,
                (None, None) => HealthState::Good,
            },
            error: state.failed.as_ref().or(trouble).cloned(),
            compaction_failures: state.compaction_failures,
            damaged_tables: damaged.collect(),
            stall: state.stall,
        }
    }

    /// Takes writes again, after what made it stop is mended.
    ///
    /// Nothing is written to a file that failed: there is a new MANIFEST, a new log, and what is
    /// in memory becomes tables, so that the old logs are done with. A write that failed is not
    /// among it.
    ///
    /// # Errors
    /// What keeps that from being done; the database stays as it was.
    pub fn resume(&self) -> Result<()> {
        let mut commit = self.commit.lock();
        let mut state = self.state.lock();
        while state.flushing && !state.closing {
            self.wait_for_change(&mut state);
        }
        if state.closing {
            return Err(Error::Closed);
        }
        state.forgive_compactions();
        if state.failed.is_none() {
            self.reads.work.notify_all();
            return Ok(());
        }
        // The background leaves flushes to this thread.
        state.flushing = true;
        drop(state);
        let result = self.start_afresh(&mut commit);
        let mut state = self.state.lock();
        state.flushing = false;
        state.failed = result.as_ref().err().cloned();
        self.has_failed.store(result.is_err(), Relaxed);
        drop(state);
        self.changed.notify_all();
        self.reads.work.notify_all();
        result
    }

    fn start_afresh(&self, commit: &mut CommitState) -> Result<()> {
        self.manifest.lock().restart();
        self.freeze(commit)?;
        while !self.state.lock().frozen.is_empty() {
            self.flush_oldest()?;
        }
        commit.outgoing.clear();
        commit.replayed_log = None;
        Ok(())
    }

    /// Takes no more writes, and makes those there were durable. The threads are gone already.
    ///
    /// # Errors
    /// I/O errors of the log, or what made the database stop before.
    pub fn close(&self) -> Result<()> {
        let mut commit = self.commit.lock();
        if self.has_failed.swap(true, Relaxed) {
            return match &self.state.lock().failed {
                Some(error) => Err(error.clone()),
                None => Ok(()),
            };
        }
        let path = commit.log_path.clone();
        let trimmed = commit.log.trim().map_err(|error| Error::io("cut", path, error))?;
        let unsynced = commit.unsynced || !commit.outgoing.is_empty();
        if !trimmed && !unsynced && commit.replayed_log.is_none() {
            return Ok(());
        }
        let next_seq = commit.last_seq + 1;
        self.sync_log(&mut commit, next_seq)
    }
}
