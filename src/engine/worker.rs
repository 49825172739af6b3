//! Background threads: one flushes, the others compact, so that a flush never waits for a
//! compaction.
//!
//! Each thread waits on [`ReadState::work`](crate::engine::read::view::ReadState::work) under the
//! state lock, looks for something due, claims it under the same lock, does it without the lock,
//! and notifies `Engine::changed`. In the deterministic mode of tests there are no threads: a
//! caller that would wait for one does a piece of its work instead (`run_inline`).

use std::sync::Arc;

use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::sync::thread::{
    JoinHandle, {self},
};
use crate::base::sync::{Instant, MutexGuard};
use crate::base::{Error, Result};
use crate::engine::compact::pick::{
    Moment, {self},
};
use crate::engine::compact::plan::Compaction;
use crate::engine::state::Manual;
use crate::engine::{Engine, State};
use crate::format::edit::NUM_LEVELS;

/// Number of threads that compact. More threads take processor time from reads and writes.
const COMPACTION_THREADS: usize = 2;

/// Niceness of the thread that flushes: higher values leave more of the processor to readers and
/// writers.
const FLUSH_NICE: i32 = 3;
/// Niceness of the threads that compact: higher values leave more of the processor to everything
/// else.
pub(crate) const COMPACTION_NICE: i32 = 5;

/// The threads of one engine. Stopped and joined by [`Workers::stop`].
#[derive(Debug)]
pub(crate) struct Workers {
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts the threads.
    ///
    /// # Errors
    /// An I/O error if the system cannot start another thread.
    pub(crate) fn start(engine: &Arc<Engine>) -> Result<Workers> {
        let mut workers = Workers { threads: Vec::new() };
        if engine.inline.is_some() {
            return Ok(workers);
        }
        let flusher = engine.clone();
        workers.spawn(engine, "minikv-flush", move || {
            lower_priority(FLUSH_NICE);
            flusher.until_closed(|| flusher.flush_loop())
        })?;
        for _ in 0..COMPACTION_THREADS {
            let compactor = engine.clone();
            workers.spawn(engine, "minikv-compact", move || {
                lower_priority(COMPACTION_NICE);
                compactor.until_closed(|| compactor.compaction_loop())
            })?;
        }
        Ok(workers)
    }

    fn spawn(
        &mut self,
        engine: &Arc<Engine>,
        name: &str,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<()> {
        match thread::Builder::new().name(name.to_owned()).spawn(body) {
            Ok(thread) => {
                self.threads.push(thread);
                Ok(())
            }
            Err(error) => {
                self.stop(engine);
                Err(Error::io("start a thread for", &engine.dir, error))
            }
        }
    }

    /// Ends background work: merges under way are given up, a flush under way is finished.
    pub(crate) fn stop(&mut self, engine: &Engine) {
        engine.state.lock().lifecycle.closing = true;
        engine.closing.store(true, Relaxed);
        engine.reads.work.notify_all();
        engine.changed.notify_all();
        for thread in self.threads.drain(..) {
            if let Err(payload) = thread.join() {
                engine.fail(Error::panicked("a background thread", &*payload));
            }
        }
        // The file of the spare log stays, empty, until the next open removes it: without it, its
        // number could be handed out again.
        let mut state = engine.state.lock();
        let (spare, done) = (state.logs.spare.take(), std::mem::take(&mut state.logs.done));
        drop(state);
        // The state keeps the error.
        let _ = engine.contain("close", || {
            drop((spare, done));
            Ok(())
        });
        engine.trash.empty();
    }
}

impl Engine {
    /// Waits until something may have changed. In deterministic mode, runs background work instead.
    pub(crate) fn wait_for_change(&self, state: &mut MutexGuard<'_, State>) {
        match self.inline {
            None => self.changed.wait(state),
            Some(_) => MutexGuard::unlocked(state, || self.run_inline()),
        }
    }

    /// In deterministic mode, runs background work for one write in four, as the PRNG decides.
    pub(crate) fn maybe_run_inline(&self) {
        let Some(seed) = &self.inline else { return };
        let drawn = {
            // Not the generator of `base::random`: which writes it picks decides the shape of the
            // databases behind published figures.
            let mut seed = seed.lock();
            *seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            *seed >> 62
        };
        if drawn == 0 {
            self.run_inline();
        }
    }

    fn run_inline(&self) {
        // The state keeps the error.
        let _ = self.contain("background work", || {
            self.do_one();
            Ok(())
        });
    }

    /// Does one piece of background work, the first of these that is due: creating the spare log,
    /// flushing, compacting, looking into a table.
    fn do_one(&self) {
        let mut state = self.state.lock();
        if state.lifecycle.closing || state.flushing {
            return;
        }
        if self.takes_spare_log(&mut state) {
            drop(state);
            return self.create_spare_log();
        }
        if !state.frozen.is_empty() && state.lifecycle.failed.is_none() {
            state.flushing = true;
            drop(state);
            return self.flush_in_background();
        }
        let Some(compaction) = self.pick(&state) else {
            let file = self.table_to_look_into(&state);
            drop(state);
            return file.iter().for_each(|file| self.look_into(file));
        };
        let compaction = claim(&mut state, compaction);
        drop(state);
        // The state keeps the error.
        let _ = self.run_compaction(compaction);
    }

    fn flush_in_background(&self) {
        if let Err(error) = self.contain("a flush", || self.flush_oldest()) {
            self.fail(error);
        }
        self.trash.empty();
        let mut state = self.state.lock();
        debug_assert!(state.flushing, "another thread ended this flush");
        state.flushing = false;
        let done = std::mem::take(&mut state.logs.done);
        drop(state);
        self.changed.notify_all();
        drop(done);
    }

    /// Returns whether a writer asked for a spare log, and clears the request. Callers do this
    /// before they look for a flush, whose syncs delay the creation of files.
    fn takes_spare_log(&self, state: &mut State) -> bool {
        state.lifecycle.failed.is_none() && std::mem::take(&mut state.logs.wants_spare)
    }

    /// Runs `work`, which ends when the engine is closed. Starts it again after a panic, because
    /// there may be work after [`Engine::resume`].
    fn until_closed(&self, work: impl Fn()) {
        let work = || {
            work();
            Ok(())
        };
        while self.contain("a background thread", work).is_err() {}
    }

    fn flush_loop(&self) {
        let mut state = self.state.lock();
        while !state.lifecycle.closing {
            if self.takes_spare_log(&mut state) {
                drop(state);
                self.create_spare_log();
                state = self.state.lock();
                continue;
            }
            if state.frozen.is_empty() || state.lifecycle.failed.is_some() {
                self.reads.work.wait(&mut state);
                continue;
            }
            state.flushing = true;
            drop(state);
            self.flush_in_background();
            state = self.state.lock();
        }
    }

    fn compaction_loop(&self) {
        let mut state = self.state.lock();
        while !state.lifecycle.closing {
            let Some(compaction) = self.pick(&state) else {
                if std::mem::take(&mut state.compactions.has_dropped) {
                    drop(state);
                    self.trash.empty();
                    state = self.state.lock();
                    continue;
                }
                if let Some(file) = self.table_to_look_into(&state) {
                    drop(state);
                    self.look_into(&file);
                    state = self.state.lock();
                    continue;
                }
                match state.compactions.not_before.or_else(|| self.next_expiry(&state)) {
                    Some(time) => drop(self.reads.work.wait_until(&mut state, time)),
                    None => self.reads.work.wait(&mut state),
                }
                state.compactions.end_backoff(Instant::now());
                continue;
            };
            let compaction = claim(&mut state, compaction);
            drop(state);
            // The state keeps the error.
            let _ = self.run_compaction(compaction);
            state = self.state.lock();
        }
    }

    /// Returns the automatic compaction that is most due, if one may be started now.
    ///
    /// Runs under the state lock, so that nobody takes its inputs before [`claim`] does. It walks
    /// the tables of the levels that are due, or all tables if no level is.
    pub(crate) fn pick(&self, state: &State) -> Option<Compaction> {
        let waits = state.compactions.not_before.is_some() && self.inline.is_none();
        let manual = state.compactions.manual;
        if state.lifecycle.failed.is_some() || waits || state.compactions.paused {
            return None;
        }
        let levels = match manual {
            // A piece of the manual compaction waits for tables that are in use. No other
            // compaction may take tables now, unless writes would soon wait for level 0.
            Some(manual) if manual.waits => {
                0..usize::from(state.version.level(0).len() >= 2 * pick::LEVEL0_COMPACT_FILES)
            }
            Some(Manual { output_level: Some(output_level), .. }) => 0..output_level,
            _ => 0..NUM_LEVELS,
        };
        let (order, oldest_read) = (self.reads.order.user(), self.reads.oldest_read_seq());
        let expires = || state.version.files().any(|(_, file)| file.known_expiry().is_some());
        let can_expire = self.reads.snapshots_held().0 == 0 && expires();
        let now = can_expire.then(|| self.reads.clock.now_millis());
        pick::pick(
            &state.version,
            order,
            &self.options,
            &state.compactions.running,
            levels,
            Moment { oldest_read, now },
        )
    }

    /// Waits until no flush or compaction runs or is due.
    ///
    /// # Errors
    /// The error that keeps due work from being done.
    pub(crate) fn wait_idle(&self) -> Result<()> {
        self.contain("wait_idle", || self.wait_until_idle())
    }

    fn wait_until_idle(&self) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            if let Some(error) = state.lifecycle.failed.as_ref().or(state.compactions.trouble()) {
                return Err(error.clone());
            }
            if state.lifecycle.closing {
                return Err(Error::Closed);
            }
            let busy =
                state.flushing || !state.frozen.is_empty() || !state.compactions.running.is_empty();
            if !busy && state.compactions.manual.is_none() {
                if self.pick(&state).is_none() && self.table_to_look_into(&state).is_none() {
                    debug_assert_eq!(state.check(), Ok(()));
                    return Ok(());
                }
                // A cursor's crawl or a released snapshot may have made it due without waking
                // anyone.
                self.reads.work.notify_all();
            }
            self.wait_for_change(&mut state);
        }
    }
}

/// Marks the inputs of a compaction, none of which may be in use, and adds it to those that run.
/// Returns it.
pub(crate) fn claim(state: &mut State, compaction: Compaction) -> Arc<Compaction> {
    let compaction = Arc::new(compaction);
    compaction.mark(true);
    state.compactions.running.push(compaction.clone());
    debug_assert_eq!(state.check(), Ok(()));
    compaction
}

/// Lowers the priority of the calling thread, so that on few cores background work slows down
/// instead of reads and writes. Does nothing on systems other than Linux, where the priority is
/// that of the whole process.
pub(crate) fn lower_priority(nice: i32) {
    #[cfg(all(target_os = "linux", not(shuttle)))]
    // If the system refuses, the thread keeps its priority.
    let _ = rustix::process::nice(nice);
    #[cfg(not(all(target_os = "linux", not(shuttle))))]
    let _ = nice;
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::engine::options::Options;
    use crate::engine::version::testing::version;
    use crate::fs::MemFs;

    #[test]
    fn nothing_is_compacted_during_a_back_off_or_after_a_failure() {
        let picks = |seed, change: fn(&mut State)| {
            let options = Options::default().create_if_missing(true).inline_background(seed);
            let options = options.fs(Arc::new(MemFs::new()));
            let engine = Engine::open(Path::new("/db"), options).unwrap();
            let mut state = engine.state.lock();
            state.version = version(["L0: 9:[a-c] 8:[a-c] 7:[a-c] 6:[a-c]"]);
            change(&mut state);
            engine.pick(&state).is_some()
        };
        let backs_off = |state: &mut State| state.compactions.not_before = Some(Instant::now());
        let fails = |state: &mut State| state.lifecycle.failed = Some(Error::Closed);
        assert!(picks(None, |_| ()) && picks(Some(1), |_| ()));
        assert!(!picks(None, fails) && !picks(Some(1), fails));
        assert!(!picks(None, backs_off));
        assert!(picks(Some(1), backs_off), "in deterministic mode time does not count");
    }

    #[test]
    fn beside_a_waiting_manual_compaction_only_a_long_level_0_is_compacted() {
        let options = Options::default().create_if_missing(true).inline_background(Some(4));
        let options = options.fs(Arc::new(MemFs::new()));
        let engine = Engine::open(Path::new("/db"), options).unwrap();
        let picks = |tables: usize, manual: Option<Manual>| {
            let line: Vec<String> = (0..tables).map(|at| format!("{}:[a-c]", 20 - at)).collect();
            let mut state = engine.state.lock();
            let before = std::mem::replace(
                &mut state.version,
                version([&*format!("L0: {}", line.join(" "))]),
            );
            state.compactions.manual = manual;
            let picked = engine.pick(&state).is_some();
            (state.version, state.compactions.manual) = (before, None);
            picked
        };
        let manual = |output_level, waits| Some(Manual { output_level, waits });
        assert!(!picks(3, None) && picks(4, None));
        assert!(picks(4, manual(Some(1), false)) && picks(4, manual(None, false)));
        assert!(!picks(7, manual(Some(1), true)) && picks(8, manual(Some(1), true)));
    }
}
