//! Failures while the engine runs: what still works after each kind of failure, and how the failure
//! is reported.
//!
//! 1. A write, a sync, a flush or an edit of the MANIFEST fails: the database takes no more writes
//!    until [`Engine::resume`]. The file that failed is never written again. Reads continue.
//! 2. A panic in the middle of shared work, in any thread, has the same effect. [`Engine::contain`]
//!    turns the panic into an error, so that no other thread waits forever for the thread that
//!    panicked.
//! 3. A compaction fails: it is tried again after a back-off, which doubles with each failure.
//!    Writes go on until level 0 is full; from then on they return the error of the compaction
//!    instead of waiting for a compaction that may never succeed.
//! 4. A compaction finds a damaged table: the table stays where it is, and compactions that need it
//!    are not tried again. Other compactions continue. A writer waits for them while level 0 is
//!    full, and gets the error only if none of them can make level 0 shorter.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::base::sync::Instant;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::{Error, Result};
use crate::engine::compact::plan::{Compaction, is_free};
use crate::engine::inside::Inside;
use crate::engine::publish::Publication;
use crate::engine::report::health::{Health, HealthState};
use crate::engine::state::{CompactionState, Lifecycle};
use crate::engine::version::Version;
use crate::engine::write::commit::CommitState;
use crate::engine::{Engine, State};
use crate::format::name::{self, FileName};

/// Back-off after the first failed compaction; each further failure doubles it. With a longer
/// back-off, failed compactions are retried less often.
const FIRST_BACKOFF: Duration = Duration::from_millis(50);

/// Longest back-off between two attempts at a compaction. With a longer back-off, compactions also
/// resume later after the cause of the failures is gone.
const MAX_BACKOFF: Duration = Duration::from_secs(10);

impl CompactionState {
    /// Returns the error that keeps some compactions from running, if there is one.
    pub(super) fn trouble(&self) -> Option<&Error> {
        self.error.as_ref().or_else(|| self.damaged.values().next())
    }

    /// Records that a compaction succeeded.
    pub(super) fn succeeded(&mut self) {
        self.error = None;
        self.failures = 0;
        self.not_before = None;
    }

    /// Records that a compaction failed. After an I/O error, the compaction will be tried again,
    /// because disk space or file handles may become available. After any other error, no
    /// compaction takes the damaged table again. If the error does not name an input, no compaction
    /// takes any of the inputs again.
    pub(super) fn failed(&mut self, compaction: &Compaction, error: &Error) {
        self.error = Some(error.clone());
        self.failures = self.failures.saturating_add(1);
        if is_retried(error) {
            self.not_before = Some(Instant::now() + backoff(self.failures));
            return;
        }
        let damaged = table_of(error);
        let is_input = compaction.input_files().any(|file| Some(file.number) == damaged);
        for file in compaction.input_files() {
            if !is_input || Some(file.number) == damaged {
                file.compacting.store(true, Relaxed);
                self.damaged.insert(file.number, error.clone());
            }
        }
    }

    /// Ends the back-off if its time has passed.
    pub(super) fn end_backoff(&mut self, now: Instant) {
        if self.not_before.is_some_and(|time| time <= now) {
            self.not_before = None;
        }
    }

    /// Forgets all failures, so that all failed work is tried again. The tables of `version` that
    /// were found damaged may be compacted again.
    pub(super) fn forgive(&mut self, version: &Version) {
        self.succeeded();
        for (_, file) in version.files() {
            if self.damaged.remove(&file.number).is_some() {
                debug_assert!(!is_free(file), "a damaged table was free to be taken");
                file.compacting.store(false, Relaxed);
            }
        }
        self.damaged.clear();
    }

    /// Forgets the damaged tables that are not in `version` any more. If this leaves no damaged
    /// table, also forgets the failure.
    pub(super) fn forget_dropped(&mut self, version: &Version) {
        let known = self.damaged.len();
        self.damaged.retain(|number, _| version.files().any(|(_, file)| file.number == *number));
        if self.damaged.is_empty() && known > 0 {
            self.succeeded();
        }
    }
}

impl Lifecycle {
    /// Returns the error that a write would return now; `None` if writes are accepted.
    pub(super) fn refusal(&self) -> Option<Error> {
        match &self.failed {
            _ if self.closing => Some(Error::Closed),
            Some(error) => Some(Error::ReadOnly { reason: Arc::new(error.clone()) }),
            None => None,
        }
    }
}

/// Returns whether a compaction that failed with `error` is tried again.
pub(super) fn is_retried(error: &Error) -> bool {
    matches!(error, Error::Io { .. } | Error::ReadOnly { .. })
}

/// Returns the back-off after `failures` failures, one after the other.
pub(super) fn backoff(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    FIRST_BACKOFF.saturating_mul(1 << doublings).min(MAX_BACKOFF)
}

/// Returns the number of the table that `error` names, if it names a table.
fn table_of(error: &Error) -> Option<u64> {
    let Error::Corruption(corruption) = error else { return None };
    let name = corruption.path.as_ref()?.file_name()?.to_str()?;
    match FileName::parse(name)? {
        FileName::Table { number, .. } => Some(number),
        _ => None,
    }
}

impl Engine {
    /// Stops writes because of `error`; if there are several errors, the first is kept. Reads
    /// continue.
    pub(crate) fn fail(&self, error: Error) {
        let mut state = self.state.lock();
        let is_first = state.lifecycle.failed.is_none();
        if !matches!(error, Error::Closed) {
            state.lifecycle.failed_again.get_or_insert_with(|| error.clone());
            state.lifecycle.failed.get_or_insert(error);
            self.has_failed.store(true, Relaxed);
            self.pace.cannot_flush();
        }
        self.changed.notify_all();
        // A later failure changes nothing for the background threads. If it woke them, a callback
        // that panics whenever they look for work would be called again and again.
        if is_first {
            self.reads.work.give();
        }
    }

    /// Tells the pace, and with it the memory budget, whether memtables can be flushed. Called with
    /// the state lock held, so that what is told last is so.
    pub(super) fn tell_pace(&self, state: &State) {
        match state.lifecycle.refusal() {
            None => self.pace.can_flush(),
            Some(_) => self.pace.cannot_flush(),
        }
    }

    /// Runs `work`, for which other threads may be waiting, and returns its result. A panic in
    /// `work` is returned as an error that names the interrupted work, `during`; it also makes the
    /// database read-only. Callbacks in `work` cannot change the database
    /// ([`Engine::check_outside`]).
    ///
    /// # Errors
    /// Errors of `work`, and [`Error::Panicked`].
    #[inline]
    pub(crate) fn contain<R>(
        &self,
        during: &'static str,
        work: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        let _inside = Inside::enter(self);
        self.contain_outside(during, work)
    }

    /// Like [`Engine::contain`], for work that no other thread waits for and that holds no lock:
    /// its callbacks may change the database.
    ///
    /// # Errors
    /// The same as for [`Engine::contain`].
    pub(super) fn contain_outside<R>(
        &self,
        during: &'static str,
        work: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        // Unwind safety: `work` may leave the log, the MANIFEST and the memtable half changed. No
        // write reaches the log or the memtable once `failed` is set, and `resume` begins a new log
        // and a new memtable; `VersionSet::commit` takes care of the MANIFEST.
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
            let error = Error::panicked(during, &*payload);
            self.fail(error.clone());
            Err(error)
        })
    }

    /// Returns the error that writes return while the database is read-only or closed. The caller
    /// must hold the commit lock: otherwise, a `resume` could end the failure before this call.
    pub(crate) fn read_only_error(&self) -> Error {
        match self.state.lock_after(|| self.check_process()) {
            Ok(state) => state.lifecycle.refusal().unwrap_or(Error::Closed),
            Err(error) => error,
        }
    }

    /// Returns the operations that the database currently serves, and the failures that restrict
    /// them.
    pub(crate) fn health(&self) -> Health {
        let state = self.state.lock();
        let (compactions, failed) = (&state.compactions, &state.lifecycle.failed);
        let trouble = compactions.trouble();
        let path = |number: &u64| self.dir.join(name::table_name(*number));
        let damaged =
            compactions.damaged.iter().map(|(number, error)| (path(number), error.clone()));
        Health {
            state: match (failed, trouble) {
                (Some(_), _) => HealthState::ReadOnly,
                (None, Some(_)) => HealthState::Degraded,
                (None, None) => HealthState::Good,
            },
            error: failed.as_ref().or(trouble).cloned(),
            compaction_failures: compactions.failures,
            damaged_tables: damaged.collect(),
            stall: state.lifecycle.stall,
            has_lock: self.fs_abilities.has_lock,
            syncs_names: self.fs_abilities.syncs_names,
        }
    }

    /// Accepts writes again, once the cause of the failure is gone.
    ///
    /// Nothing more is written to a file that failed: a new MANIFEST begins, the memtables are
    /// flushed (after which the old logs are no longer needed), and a new log begins. Failed writes
    /// have no effect.
    ///
    /// # Errors
    /// The error of the step that failed, or of other work that failed meanwhile; the database then
    /// stays read-only. After a panic in the middle of a change to the memtable, the database must
    /// be opened again, which replays the log.
    pub(crate) fn resume(&self) -> Result<()> {
        self.check_caller()?;
        let mut commit = self.commit.lock();
        let mut state = self.state.lock();
        while state.flushing && !state.lifecycle.closing {
            self.wait_for_change(&mut state);
        }
        if state.lifecycle.closing {
            return Err(Error::Closed);
        }
        let version = state.version.clone();
        state.compactions.forgive(&version);
        if state.lifecycle.failed.is_none() {
            self.reads.work.give();
            return Ok(());
        }
        if commit.half_done {
            return Err(state.lifecycle.failed.clone().unwrap_or(Error::Closed));
        }
        // Keeps other threads from flushing.
        state.flushing = true;
        drop(state);
        let result = self.contain("resume", || self.start_afresh(&mut commit));
        let mut state = self.state.lock();
        state.flushing = false;
        let result = result.and(state.lifecycle.failed_again.take().map_or(Ok(()), Err));
        state.lifecycle.failed = result.as_ref().err().cloned();
        self.has_failed.store(result.is_err(), Relaxed);
        self.tell_pace(&state);
        drop(state);
        self.wake();
        result
    }

    fn start_afresh(&self, commit: &mut CommitState) -> Result<()> {
        self.restart_manifest();
        // Flush the frozen memtables first: otherwise, while the disk has no room for their tables,
        // each attempt would leave one more log.
        self.flush_all()?;
        // If an earlier attempt began a new log and that log is still empty, keep using it.
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

    /// Makes the next edit begin a new MANIFEST if the old one failed. Failures up to now are then
    /// repaired, or will be; the manifest lock separates edits that fail before from later ones.
    fn restart_manifest(&self) {
        let mut manifest = self.manifest.lock();
        manifest.restart();
        self.state.lock().lifecycle.failed_again = None;
    }

    /// Writes a new MANIFEST if the old one failed and no flush has written a new one since.
    fn ensure_manifest(&self) -> Result<()> {
        let mut manifest = self.manifest.lock();
        if manifest.manifest_number() > 0 {
            return Ok(());
        }
        self.publish(&mut manifest, Publication::default(), |_| (), |_, ()| None)
    }

    fn flush_all(&self) -> Result<()> {
        while !self.state.lock().frozen.is_empty() {
            self.flush_oldest()?;
        }
        Ok(())
    }

    /// Stops writes and makes all earlier writes durable. Called after the background threads have
    /// ended.
    ///
    /// # Errors
    /// I/O errors of the log, or the error that had already stopped writes.
    pub(crate) fn close(&self) -> Result<()> {
        let closed = self.close_log();
        self.end_observing();
        closed
    }

    fn close_log(&self) -> Result<()> {
        let mut commit = self.commit.lock();
        if self.has_failed.swap(true, Relaxed) {
            return match &self.state.lock().lifecycle.failed {
                Some(error) => Err(error.clone()),
                None => Ok(()),
            };
        }
        // If `trim` fails, the log ends in zeros, which do no harm.
        let trimmed = self.contain("close", || Ok(commit.log.trim().unwrap_or(false)))?;
        let unsynced = commit.unsynced || !commit.outgoing.is_empty();
        if !trimmed && !unsynced && commit.replayed_log.is_none() {
            return Ok(());
        }
        let next_seq = commit.last_seq + 1;
        let synced = self.contain("close", || self.sync_log(&mut commit, next_seq));
        // Without the error, another close would take the log for durable.
        synced.inspect_err(|error| self.fail(error.clone()))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::base::sync::atomic::AtomicBool;
    use crate::engine::compact::plan::Inputs;
    use crate::engine::options::{Options, WriteOptions};
    use crate::engine::resources::Resources;
    use crate::engine::resources::memory::{MemtableShare, Pressure};
    use crate::engine::version::KeyRange;
    use crate::engine::version::manifest::read_current;
    use crate::engine::version::testing::{order, version};
    use crate::engine::worker::Workers;
    use crate::engine::write::queue::Write;
    use crate::format::edit::VersionEdit;
    use crate::fs::sim::{Fault, OpKind, SimFs};
    use crate::fs::{Fs, MemFs};

    fn open(fs: &MemFs) -> Arc<Engine> {
        let options = Options::default().create_if_missing(true).inline_background(Some(1));
        Engine::open(Path::new("/db"), options.fs(fs.clone())).unwrap()
    }

    fn put(engine: &Engine, key: &[u8]) -> Result<()> {
        engine.write(&WriteOptions::default(), Write::Put(key, b""))
    }

    #[test]
    fn a_manifest_that_current_names_is_never_removed() {
        let dir = Path::new("/db");
        let mut in_doubt = 0;
        for nth in 1..6 {
            let fs = SimFs::new(1);
            let options = Options::default().create_if_missing(true).inline_background(Some(1));
            let engine = Engine::open(dir, options.fs(fs.clone())).unwrap();
            put(&engine, b"a").unwrap();
            fs.inject(Fault::io_error().on(&[OpKind::Sync]).path("*MANIFEST*"));
            engine.flush().unwrap_err();
            // One of these directory syncs comes after the rename that makes CURRENT name the new
            // MANIFEST.
            fs.inject(Fault::io_error().on(&[OpKind::SyncDir]).nth(nth));
            let resumed = engine.resume();
            in_doubt += usize::from(resumed.is_err() && engine.manifest.lock().is_in_doubt());
            let named = read_current(&fs, dir).unwrap();
            assert!(fs.exists(&dir.join(&named)).unwrap(), "{named} is gone, after {nth}");
        }
        assert!(in_doubt > 0);
    }

    #[test]
    fn attempts_to_begin_a_manifest_leave_no_files_when_they_fail() {
        let dir = Path::new("/db");
        let fs = SimFs::new(1);
        let options = Options::default().create_if_missing(true).inline_background(Some(1));
        let engine = Engine::open(dir, options.fs(fs.clone())).unwrap();
        put(&engine, b"a").unwrap();
        fs.inject(Fault::io_error().on(&[OpKind::Sync]).path("*MANIFEST*").sticky());
        engine.flush().unwrap_err();
        let mut counts = Vec::new();
        for _ in 0..4 {
            engine.resume().unwrap_err();
            assert!(!engine.manifest.lock().is_in_doubt());
            let names = fs.list(dir).unwrap();
            let manifests = names.iter().filter(|name| name.starts_with("MANIFEST")).count();
            assert!(manifests == 1 && !names.iter().any(|name| name.ends_with("tmp")), "{names:?}");
            counts.push(names.len());
        }
        assert_eq!(counts[1..], [counts[1]; 3]);
        fs.clear_faults();
        engine.resume().unwrap();
    }

    #[test]
    fn a_merge_whose_edit_is_in_no_manifest_leaves_no_tables() {
        let dir = Path::new("/db");
        for restarts in [false, true] {
            let fs = SimFs::new(1);
            let options = Options::default().create_if_missing(true).inline_background(Some(1));
            let engine = Engine::open(dir, options.fs(fs.clone())).unwrap();
            for _ in 0..2 {
                put(&engine, b"a").unwrap();
                engine.flush().unwrap();
            }
            let tables = || {
                let names = fs.list(dir).unwrap();
                names.iter().filter(|name| name.ends_with(".ldb")).count()
            };
            assert_eq!(tables(), 2);
            let (hooked, other) = (fs.clone(), Arc::downgrade(&engine));
            let is_merged = AtomicBool::new(false);
            fs.set_hook(move |op| {
                // The sync of the directory is the last step of a merge before its edit.
                if op.kind != OpKind::SyncDir || is_merged.swap(true, Relaxed) {
                    return;
                }
                hooked.inject(Fault::io_error().on(&[OpKind::Sync]).path("*MANIFEST*"));
                let engine = other.upgrade().unwrap();
                let mut manifest = engine.manifest.lock();
                manifest.commit(VersionEdit::default()).unwrap_err();
                assert!(manifest.is_in_doubt());
                if restarts {
                    manifest.restart();
                    hooked.inject(Fault::no_space().on(&[OpKind::Create]).path("*MANIFEST*"));
                }
            });
            engine.compact_range(KeyRange { from: None, to: None }).unwrap_err();
            assert_eq!((tables(), fs.fault_count()), (2, 1 + u64::from(restarts)));
        }
    }

    /// Returns an engine on `fs` with a memory budget of 8 MiB and a memtable of 3 MiB, and the
    /// share of another database in the budget.
    fn with_budget(fs: &SimFs) -> (Arc<Engine>, Arc<MemtableShare>) {
        let resources = Resources::default().memory_bytes(8 << 20);
        let options = Options::default().create_if_missing(true).inline_background(Some(4));
        let options = options.resources(&resources).fs(fs.clone());
        let engine = Engine::open(Path::new("/db"), options).unwrap();
        engine.write(&WriteOptions::default(), Write::Put(b"a", &[7; 3 << 20])).unwrap();
        let other = engine.options.resources.memory.as_ref().unwrap().join();
        (engine, other)
    }

    #[test]
    fn a_resume_that_fails_leaves_the_memory_budget_to_other_databases() {
        let fs = SimFs::new(1);
        let (engine, other) = with_budget(&fs);
        engine.fail(Error::corruption("torn"));
        fs.inject(Fault::no_space().on(&[OpKind::Write]).path("*.ldb").sticky());
        engine.resume().unwrap_err();
        assert_eq!(engine.state.lock().frozen.len(), 1);
        assert_eq!(other.grown_to(1), Pressure::None);
        fs.clear_faults();
        engine.resume().unwrap();
        assert!(put(&engine, b"b").is_ok());
    }

    #[test]
    fn a_closed_database_leaves_the_memory_budget_to_other_databases() {
        let (engine, other) = with_budget(&SimFs::new(1));
        engine.freeze(&mut engine.commit.lock()).unwrap();
        assert_eq!(other.grown_to(1), Pressure::Freeze);
        Workers::default().stop(&engine);
        engine.close().unwrap();
        assert_eq!(other.grown_to(1), Pressure::None);
    }

    #[test]
    fn a_failure_during_a_resume_outlives_it() {
        let fs = SimFs::new(1);
        let options = Options::default().create_if_missing(true).inline_background(Some(1));
        let engine = Engine::open(Path::new("/db"), options.fs(fs.clone())).unwrap();
        put(&engine, b"a").unwrap();
        engine.fail(Error::corruption("first"));
        let other = Arc::downgrade(&engine);
        fs.set_hook(move |op| {
            if op.kind == OpKind::Create && op.path.extension().is_some_and(|name| name == "ldb") {
                other.upgrade().unwrap().fail(Error::corruption("meanwhile"));
            }
        });
        let error = engine.resume().unwrap_err();
        assert!(error.to_string().contains("meanwhile"), "{error}");
        assert!(matches!(put(&engine, b"b"), Err(Error::ReadOnly { .. })));
        fs.clear_hook();
        engine.resume().unwrap();
        put(&engine, b"b").unwrap();
    }

    #[test]
    fn a_new_log_that_fails_and_cannot_be_removed_is_removed_by_a_later_flush() {
        let dir = Path::new("/db");
        for (removal_fails, created) in [(false, true), (true, true), (false, false)] {
            let fs = SimFs::new(1);
            let options = Options::default().create_if_missing(true).inline_background(Some(1));
            let engine = Engine::open(dir, options.fs(fs.clone())).unwrap();
            let logs = || {
                let names = fs.list(dir).unwrap();
                names.iter().filter(|name| name.ends_with(".log")).count()
            };
            put(&engine, b"a").unwrap();
            let during = if created { OpKind::Write } else { OpKind::Create };
            let current = engine.commit.lock().log_number;
            let next = name::log_name(engine.numbers.next());
            fs.inject(Fault::io_error().on(&[during]).path(&format!("*{next}")));
            if removal_fails {
                fs.inject(Fault::io_error().on(&[OpKind::Remove]).path(&format!("*{next}")));
            }
            engine.flush().unwrap_err();
            assert_eq!(engine.commit.lock().log_number, current);
            assert_eq!(logs(), 1 + usize::from(removal_fails));
            // `on_disk` contains the new log only if the log's file could not be removed.
            assert_eq!(engine.state.lock().logs.on_disk.len(), logs());
            fs.clear_faults();
            engine.resume().unwrap();
            for _ in 0..2 {
                put(&engine, b"a").unwrap();
                engine.flush().unwrap();
            }
            assert_eq!(logs(), 1);
        }
    }

    #[test]
    fn a_back_off_ends_at_its_time() {
        let time = Instant::now();
        let mut state = CompactionState { not_before: Some(time), ..CompactionState::default() };
        state.end_backoff(time - std::time::Duration::from_nanos(1));
        assert!(state.not_before.is_some());
        state.end_backoff(time);
        assert!(state.not_before.is_none());
    }

    #[test]
    fn a_resume_flushes_earlier_writes_even_if_they_were_synced() {
        let engine = open(&MemFs::new());
        let synced = WriteOptions { sync: true };
        for options in [synced, WriteOptions::default()] {
            engine.write(&options, Write::Put(b"a", b"")).unwrap();
            let log = engine.commit.lock().log_number;
            engine.fail(Error::corruption("torn"));
            engine.resume().unwrap();
            let commit = engine.commit.lock();
            assert!(commit.mem.is_empty() && commit.log_number > log);
        }
    }

    #[test]
    fn a_resume_writes_a_new_manifest_even_if_nothing_is_to_be_flushed() {
        let fs = SimFs::new(1);
        let options = Options::default().create_if_missing(true).inline_background(Some(1));
        let engine = Engine::open(Path::new("/db"), options.fs(fs.clone())).unwrap();
        put(&engine, b"a").unwrap();
        engine.flush().unwrap();
        fs.inject(Fault::io_error().on(&[OpKind::Sync]).path("*MANIFEST*"));
        engine.compact_range(KeyRange { from: None, to: None }).unwrap_err();
        assert!(put(&engine, b"b").is_err(), "the edit may or may not be durable");
        let log = engine.commit.lock().log_number;
        engine.resume().unwrap();
        assert!(engine.manifest.lock().manifest_number() > 0);
        assert_eq!(engine.commit.lock().log_number, log, "the log is still fresh");
        put(&engine, b"b").unwrap();
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
    fn of_the_inputs_of_a_compaction_only_the_damaged_table_is_set_aside_if_it_is_known() {
        let version = version(["L1: 3:[a-c] 4:[d-f]"]);
        let inputs = Inputs(vec![(1, version.level(1).to_vec())]);
        let order = order().user().clone();
        let compaction = Compaction::from_inputs(version.clone(), &order, inputs, 2);
        for (file, damaged) in [("000004.ldb", vec![4]), ("000009.ldb", vec![3, 4])] {
            let mut state = CompactionState::default();
            let error = Error::corruption("torn").in_file(Path::new(file));
            state.failed(&compaction, &error);
            assert_eq!(state.damaged.keys().copied().collect::<Vec<_>>(), damaged, "{file}");
            let taken = version.level(1).iter().filter(|file| !is_free(file));
            assert_eq!(taken.map(|file| file.number).collect::<Vec<_>>(), damaged, "{file}");
            state.forgive(&version);
            assert!(version.level(1).iter().all(is_free));
        }
    }

    #[test]
    fn a_damaged_table_is_forgotten_when_it_leaves_the_version() {
        let before = version(["L1: 3:[a-c] 4:[d-f]"]);
        let inputs = Inputs(vec![(1, before.level(1).to_vec())]);
        let order = order().user().clone();
        let compaction = Compaction::from_inputs(before.clone(), &order, inputs, 2);
        let mut state = CompactionState::default();
        state.failed(&compaction, &Error::corruption("torn").in_file(Path::new("000004.ldb")));
        state.forget_dropped(&version(["L1: 4:[d-f]", "L2: 5:[a-c]"]));
        assert!(state.damaged.contains_key(&4) && state.trouble().is_some());
        state.forget_dropped(&version(["L1: 3:[a-c]", "L2: 5:[g-h]"]));
        assert!(state.damaged.is_empty() && state.trouble().is_none());
        assert_eq!(state.failures, 0);
    }

    #[test]
    fn a_database_that_is_closing_refuses_writes_for_that_reason() {
        let mut lifecycle = Lifecycle::default();
        assert!(lifecycle.refusal().is_none());
        lifecycle.failed = Some(Error::corruption("torn"));
        assert!(matches!(lifecycle.refusal(), Some(Error::ReadOnly { .. })));
        lifecycle.closing = true;
        assert!(matches!(lifecycle.refusal(), Some(Error::Closed)));
        lifecycle.failed = None;
        assert!(matches!(lifecycle.refusal(), Some(Error::Closed)));
    }

    #[test]
    fn a_compaction_that_an_io_error_stopped_waits_twice_as_long_each_time() {
        let version = version(["L1: 3:[a-c]"]);
        let inputs = Inputs(vec![(1, version.level(1).to_vec())]);
        let order = order().user().clone();
        let compaction = Compaction::from_inputs(version.clone(), &order, inputs, 2);
        let error = Error::io("sync", Path::new("000003.ldb"), std::io::Error::other("full"));
        let mut state = CompactionState::default();
        for backoff in [FIRST_BACKOFF, FIRST_BACKOFF * 2, FIRST_BACKOFF * 4] {
            let began = Instant::now();
            state.failed(&compaction, &error);
            state.end_backoff(began + backoff - Duration::from_millis(1));
            assert!(state.not_before.is_some(), "{backoff:?} have not passed");
            state.end_backoff(Instant::now() + backoff);
            assert_eq!(state.not_before, None, "{backoff:?} have passed");
        }
        (0..40).for_each(|_| state.failed(&compaction, &error));
        assert!(state.not_before.is_some_and(|time| time <= Instant::now() + MAX_BACKOFF));
        assert!(state.damaged.is_empty() && version.level(1).iter().all(is_free));
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
