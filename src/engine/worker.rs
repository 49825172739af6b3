//! Background threads: one flushes, the others compact. A flush never waits for a compaction.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::base::{Error, Result};
use crate::engine::compact::Compaction;
use crate::engine::{Engine, State, pick};

/// How many compactions may run side by side.
const COMPACTION_THREADS: usize = 2;

/// After a compaction failed, how long until the next try.
const RETRY_AFTER: Duration = Duration::from_secs(1);

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
        let flusher = engine.clone();
        workers.spawn(engine, "minikv-flush", move || flusher.flush_loop())?;
        for _ in 0..COMPACTION_THREADS {
            let compactor = engine.clone();
            workers.spawn(engine, "minikv-compact", move || compactor.compaction_loop())?;
        }
        Ok(workers)
    }

    fn spawn(
        &mut self,
        engine: &Arc<Engine>,
        name: &str,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<()> {
        match std::thread::Builder::new().name(name.to_owned()).spawn(body) {
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
        engine.work.notify_all();
        engine.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A panic was printed by the thread; there is nothing to add.
            let _ = thread.join();
        }
        engine.trash.empty();
    }
}

impl Engine {
    fn flush_loop(&self) {
        let mut state = self.state.lock();
        while !state.closing {
            if state.frozen.is_empty() || state.failed.is_some() {
                self.work.wait(&mut state);
                continue;
            }
            state.flushing = true;
            drop(state);
            if let Err(error) = self.flush_oldest() {
                self.fail(error);
            }
            self.trash.empty();
            state = self.state.lock();
            state.flushing = false;
            self.changed.notify_all();
        }
    }

    fn compaction_loop(&self) {
        let mut state = self.state.lock();
        while !state.closing {
            let Some(compaction) = self.pick(&state) else {
                self.work.wait(&mut state);
                continue;
            };
            let compaction = Arc::new(compaction);
            compaction.mark(true);
            state.running.push(compaction.clone());
            drop(state);
            let result = self.run_compaction(compaction);
            state = self.state.lock();
            if result.is_err() && !state.closing {
                // Space or handles may come back; what is damaged is only tried again.
                self.work.wait_for(&mut state, RETRY_AFTER);
            }
        }
    }

    fn pick(&self, state: &State) -> Option<Compaction> {
        if state.manual > 0 || state.failed.is_some() {
            return None;
        }
        pick::pick(&state.version, self.reads.order.user(), &self.options, &state.running)
    }

    /// Waits until no flush or compaction runs or is due.
    ///
    /// # Errors
    /// What keeps one that is due from being done.
    pub fn wait_idle(&self) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            if let Some(error) = state.failed.as_ref().or(state.compaction_error.as_ref()) {
                return Err(error.clone());
            }
            if state.closing {
                return Err(Error::Closed);
            }
            let busy = state.flushing || !state.frozen.is_empty() || !state.running.is_empty();
            if !busy && state.manual == 0 && self.pick(&state).is_none() {
                return Ok(());
            }
            self.changed.wait(&mut state);
        }
    }
}
