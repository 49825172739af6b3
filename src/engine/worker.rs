//! Background threads: one flushes, the others compact. A flush never waits for a compaction.

use std::sync::Arc;

use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::sync::thread::{self, JoinHandle};
use crate::base::sync::{Instant, MutexGuard};
use crate::base::{Error, Result};
use crate::engine::compact::manual::Manual;
use crate::engine::compact::pick;
use crate::engine::compact::plan::Compaction;
use crate::engine::{Engine, State};
use crate::format::edit::NUM_LEVELS;

/// How many compactions may run side by side.
const COMPACTION_THREADS: usize = 2;

/// By how much the priority of flushes is lower, as `nice` counts.
const FLUSH_NICE: i32 = 3;
/// By how much the priority of compactions is lower.
pub const COMPACTION_NICE: i32 = 5;

/// The threads of one engine. Stopped and joined by [`Workers::stop`].
#[derive(Debug)]
pub struct Workers {
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system gives no more threads.
    pub fn start(engine: &Arc<Engine>) -> Result<Workers> {
        let mut workers = Workers { threads: Vec::new() };
        if engine.inline.is_some() {
            return Ok(workers);
        }
        let flusher = engine.clone();
        workers.spawn(engine, "minikv-flush", move || {
            give_way(FLUSH_NICE);
            flusher.until_closed(|| flusher.flush_loop())
        })?;
        for _ in 0..COMPACTION_THREADS {
            let compactor = engine.clone();
            workers.spawn(engine, "minikv-compact", move || {
                give_way(COMPACTION_NICE);
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

    /// Ends background work: merges under way are given up, a flush is carried through.
    pub fn stop(&mut self, engine: &Engine) {
        engine.state.lock().closing = true;
        engine.closing.store(true, Relaxed);
        engine.reads.work.notify_all();
        engine.changed.notify_all();
        for thread in self.threads.drain(..) {
            if let Err(payload) = thread.join() {
                engine.fail(Error::panicked("a background thread", &*payload));
            }
        }
        // The log that was made ahead stays, empty, for the next open to remove: without its file
        // its number could be given again.
        let mut state = engine.state.lock();
        let (spare, done) = (state.spare_log.take(), std::mem::take(&mut state.done_logs));
        drop(state);
        // What went wrong is in the state.
        let _ = engine.contain("close", || {
            drop((spare, done));
            Ok(())
        });
        engine.trash.empty();
    }
}

impl Engine {
    /// Waits until something may have changed; without threads, does what there is to do.
    pub fn wait_for_change(&self, state: &mut MutexGuard<'_, State>) {
        match self.inline {
            None => self.changed.wait(state),
            Some(_) => MutexGuard::unlocked(state, || self.take_a_turn()),
        }
    }

    /// Without threads: a turn for the background, if the seed says so.
    pub fn give_a_turn(&self) {
        let Some(seed) = &self.inline else { return };
        let drawn = {
            let mut seed = seed.lock();
            *seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            *seed >> 62
        };
        if drawn == 0 {
            self.take_a_turn();
        }
    }

    fn take_a_turn(&self) {
        // What went wrong is in the state.
        let _ = self.contain("background work", || {
            self.do_one();
            Ok(())
        });
    }

    /// A flush or a compaction, if one is due.
    fn do_one(&self) {
        let mut state = self.state.lock();
        if state.closing || state.flushing {
            return;
        }
        if self.takes_spare_log(&mut state) {
            drop(state);
            return self.create_spare_log();
        }
        if !state.frozen.is_empty() && state.failed.is_none() {
            state.flushing = true;
            drop(state);
            return self.flush_in_background();
        }
        let Some(compaction) = self.pick(&state) else { return };
        let compaction = take(&mut state, compaction);
        drop(state);
        // What went wrong is in the state.
        let _ = self.run_compaction(compaction);
    }

    fn flush_in_background(&self) {
        if let Err(error) = self.contain("a flush", || self.flush_oldest()) {
            self.fail(error);
        }
        self.trash.empty();
        let mut state = self.state.lock();
        state.flushing = false;
        let done = std::mem::take(&mut state.done_logs);
        drop(state);
        self.changed.notify_all();
        drop(done);
    }

    /// Whether the next log is to be made: that comes before a flush, which syncs much.
    fn takes_spare_log(&self, state: &mut State) -> bool {
        state.failed.is_none() && std::mem::take(&mut state.wants_spare_log)
    }

    /// Does `work`, which ends when the engine is closed; again if a panic ends it before, for
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
        while !state.closing {
            if self.takes_spare_log(&mut state) {
                drop(state);
                self.create_spare_log();
                state = self.state.lock();
                continue;
            }
            if state.frozen.is_empty() || state.failed.is_some() {
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
        while !state.closing {
            let Some(compaction) = self.pick(&state) else {
                match state.compaction_not_before {
                    Some(time) => drop(self.reads.work.wait_until(&mut state, time)),
                    None => self.reads.work.wait(&mut state),
                }
                state.end_backoff(Instant::now());
                continue;
            };
            let compaction = take(&mut state, compaction);
            drop(state);
            // What went wrong is in the state.
            let _ = self.run_compaction(compaction);
            state = self.state.lock();
        }
    }

    /// The automatic compaction that is most due, if there is one that may be started now.
    pub fn pick(&self, state: &State) -> Option<Compaction> {
        let waits = state.compaction_not_before.is_some() && self.inline.is_none();
        let manual = state.manual;
        if state.failed.is_some() || waits {
            return None;
        }
        let levels = match manual {
            // A piece waits for tables that are in use, so no more are taken, except where writes
            // would soon wait for level 0.
            Some(manual) if manual.waits => {
                0..usize::from(state.version.level(0).len() >= 2 * pick::LEVEL0_COMPACT_FILES)
            }
            Some(Manual { output_level: Some(output_level), .. }) => 0..output_level,
            _ => 0..NUM_LEVELS,
        };
        let (order, oldest_held) = (self.reads.order.user(), self.reads.oldest_held_seq());
        pick::pick(&state.version, order, &self.options, &state.running, levels, oldest_held)
    }

    /// Waits until no flush or compaction runs or is due.
    ///
    /// # Errors
    /// What keeps one that is due from being done.
    pub fn wait_idle(&self) -> Result<()> {
        self.contain("wait_idle", || self.wait_until_idle())
    }

    fn wait_until_idle(&self) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            if let Some(error) = state.failed.as_ref().or(state.compaction_trouble()) {
                return Err(error.clone());
            }
            if state.closing {
                return Err(Error::Closed);
            }
            let busy = state.flushing || !state.frozen.is_empty() || !state.running.is_empty();
            if !busy && state.manual.is_none() {
                if self.pick(&state).is_none() {
                    return Ok(());
                }
                // A cursor, or a snapshot that went, may have made it due unheard.
                self.reads.work.notify_all();
            }
            self.wait_for_change(&mut state);
        }
    }
}

/// Takes the inputs of a compaction that nothing is in the way of.
pub fn take(state: &mut State, compaction: Compaction) -> Arc<Compaction> {
    let compaction = Arc::new(compaction);
    compaction.mark(true);
    state.running.push(compaction.clone());
    compaction
}

/// Lowers the thread's priority: where cores are few, the background may take a little longer
/// rather than have reads and writes wait for their turn. (Elsewhere than on Linux it would be that
/// of the whole process.)
pub fn give_way(nice: i32) {
    #[cfg(all(target_os = "linux", not(shuttle)))]
    // Refused, it works all the same.
    let _ = rustix::process::nice(nice);
    #[cfg(not(all(target_os = "linux", not(shuttle))))]
    let _ = nice;
}
