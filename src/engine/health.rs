//! Trouble while running: what the database still does, and what it says.
//!
//! - A failed write, sync or flush, or a failed edit of the MANIFEST: no more writes, until
//!   [`Engine::resume`]. The file that failed is never written again. Reads go on.
//! - A panic in the middle of shared work, in whatever thread: as a failed write. It becomes an
//!   error where it leaves that work ([`Engine::contain`]), so that nobody waits for a thread that
//!   is gone.
//! - A failed compaction: it is tried again, after a time that doubles. Writes go on until level 0
//!   is full; then they get the error instead of waiting for what may never come.
//! - A table that a compaction finds damaged: it stays where it is, and no compaction that needs
//!   it is tried again. The others go on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::base::sync::Instant;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::{Error, Result};
use crate::engine::compact::plan::Compaction;
use crate::engine::stats::metrics::StallCause;
use crate::engine::write::CommitState;
use crate::engine::{Engine, State};
use crate::format::edit::VersionEdit;
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

    /// Does `work`, in the middle of which others may wait for it. A panic in it becomes an error
    /// and makes the database read-only; `during` names the work.
    ///
    /// # Errors
    /// Those of `work`, and [`Error::Panicked`].
    pub fn contain<R>(&self, during: &'static str, work: impl FnOnce() -> Result<R>) -> Result<R> {
        // Unwind safety: what `work` left half done is the log, the MANIFEST and the memtable. No
        // write reaches the first and the last once `failed` is set, and `resume` begins new ones;
        // `VersionSet::commit` sees to the MANIFEST itself.
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
            let error = Error::panicked(during, &*payload);
            self.fail(error.clone());
            Err(error)
        })
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
    /// What keeps that from being done; the database stays as it was. After a panic in the
    /// middle of a change to the memtable only the next open helps, which replays the log.
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
        if commit.half_done {
            return Err(state.failed.clone().unwrap_or(Error::Closed));
        }
        // The background leaves flushes to this thread.
        state.flushing = true;
        drop(state);
        let result = self.contain("resume", || self.start_afresh(&mut commit));
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
        // What waits already goes first: while there is no room for that, each try would leave one
        // more log.
        self.flush_all()?;
        // A log that an earlier try began, and to which nothing was written since, will do.
        let is_fresh = commit.mem.is_empty() && !commit.unsynced && !commit.log.is_poisoned();
        if !is_fresh {
            self.freeze(commit)?;
            self.flush_all()?;
        }
        self.ensure_manifest()?;
        commit.outgoing.clear();
        commit.replayed_log = None;
        Ok(())
    }

    /// Writes a new MANIFEST, if the old one failed and no flush has made a new one.
    fn ensure_manifest(&self) -> Result<()> {
        let mut manifest = self.manifest.lock();
        if manifest.manifest_number() > 0 {
            return Ok(());
        }
        let version = manifest.commit(VersionEdit::default())?;
        let mut state = self.state.lock();
        state.version = version;
        self.show(&state);
        Ok(())
    }

    fn flush_all(&self) -> Result<()> {
        while !self.state.lock().frozen.is_empty() {
            self.flush_oldest()?;
        }
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
        let cut = || commit.log.trim().map_err(|error| Error::io("cut", path, error));
        let trimmed = self.contain("close", cut)?;
        let unsynced = commit.unsynced || !commit.outgoing.is_empty();
        if !trimmed && !unsynced && commit.replayed_log.is_none() {
            return Ok(());
        }
        let next_seq = commit.last_seq + 1;
        self.contain("close", || self.sync_log(&mut commit, next_seq))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::engine::options::{Options, WriteOptions};
    use crate::engine::write::queue::Write;
    use crate::fs::MemFs;

    fn open(fs: &MemFs) -> Arc<Engine> {
        let options = Options::default().create_if_missing(true).inline_background(Some(1));
        Engine::open(Path::new("/db"), options.fs(Arc::new(fs.clone()))).unwrap()
    }

    fn put(engine: &Engine, key: &[u8]) -> Result<()> {
        engine.write(&WriteOptions::default(), Write::Put(key, b""))
    }

    #[test]
    fn a_panic_in_contained_work_is_an_error_with_its_message_until_resume() {
        let engine = open(&MemFs::new());
        let number = 7;
        for (panic, message) in [
            (Box::new("a word") as Box<dyn Send + std::any::Any>, "a word"),
            (Box::new(format!("word {number}")), "word 7"),
            (Box::new(number), "no message"),
        ] {
            let panics = move || -> Result<()> { std::panic::resume_unwind(panic) };
            let error = engine.contain("a test", panics).unwrap_err();
            assert_eq!(error.to_string(), format!("a test panicked: {message}"));
            assert_eq!(engine.health().error.unwrap().to_string(), error.to_string());
            assert!(matches!(put(&engine, b"a"), Err(Error::ReadOnly { .. })));
            engine.resume().unwrap();
            put(&engine, b"a").unwrap();
        }
    }

    #[test]
    fn a_change_of_the_memtable_that_was_cut_short_is_mended_by_the_next_open_alone() {
        let fs = MemFs::new();
        let engine = open(&fs);
        put(&engine, b"a").unwrap();
        let panics = || -> Result<()> {
            engine.commit.lock().half_done = true;
            std::panic::resume_unwind(Box::new("in the middle"))
        };
        engine.contain("a write", panics).unwrap_err();
        let error = engine.resume().unwrap_err();
        assert_eq!(error.to_string(), "a write panicked: in the middle");
        assert_eq!(engine.health().state, HealthState::ReadOnly);
        drop(engine);
        let engine = open(&fs);
        assert_eq!(engine.reads.visible_seq(), 1);
        put(&engine, b"b").unwrap();
    }
}
