//! Background work: flushes and compactions, run by the threads of a
//! [`Pool`](crate::engine::resources::pool::Pool), which belongs to one database or is shared.
//!
//! A thread that is free asks for work ([`Member::next`]). With the state lock held, the engine
//! looks for work that is due and claims it. The claimed work runs without the lock, and notifies
//! `Engine::changed` when it ends. The deterministic mode of tests has no threads: a caller that
//! would wait for a thread runs a piece of background work instead (`run_inline`).

use std::sync::Arc;

use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::sync::{Instant, MutexGuard};
use crate::base::{Error, Result};
use crate::engine::compact::pick::{self, DropHorizon};
use crate::engine::compact::plan::Compaction;
use crate::engine::resources::pool::{COMPACTION_THREADS, Lane, Member, Membership, Next, Pool};
use crate::engine::state::Manual;
use crate::engine::version::{KeyRange, TableFile};
use crate::engine::{Engine, State};
use crate::format::edit::NUM_LEVELS;

/// Membership of an engine in a pool of threads. It ends at [`Workers::stop`].
#[derive(Debug, Default)]
pub(crate) struct Workers {
    membership: Option<Membership>,
    pool: Option<Arc<Pool>>,
}

impl Workers {
    /// Lets the pool's threads work for the engine, and starts the threads if they are not running
    /// yet.
    ///
    /// # Errors
    /// An I/O error if the system cannot start another thread.
    pub(crate) fn start(engine: &Arc<Engine>) -> Result<Workers> {
        let mut workers = Workers::default();
        engine.start_observing()?;
        if engine.inline.is_some() {
            return Ok(workers);
        }
        let shared = engine.options.resources.pool.clone();
        let pool = shared.unwrap_or_else(|| Arc::new(Pool::new(COMPACTION_THREADS)));
        match workers.pool.insert(pool).join(engine.clone()) {
            Ok(membership) => {
                engine.reads.work.connect(membership.signal());
                if let Some(share) = engine.pace.share() {
                    share.signal.connect(membership.signal());
                }
                workers.membership = Some(membership);
                // Signals again that there may be work: signals sent before the pool was connected
                // are lost.
                engine.reads.work.give();
                Ok(workers)
            }
            Err(error) => {
                workers.stop(engine);
                engine.end_observing();
                Err(Error::io("start a thread for", &engine.dir, error))
            }
        }
    }

    /// Ends background work, and the compactions that callers run: merges are abandoned, but a
    /// running flush is finished.
    pub(crate) fn stop(&mut self, engine: &Engine) {
        let mut state = engine.state.lock();
        state.lifecycle.closing = true;
        engine.tell_pace(&state);
        drop(state);
        engine.closing.store(true, Relaxed);
        engine.changed.notify_all();
        if let Some(membership) = self.membership.take() {
            membership.leave();
        }
        self.pool = None;
        engine.wait_for_callers();
        // The empty file of the spare log stays until the next open removes it: without the file,
        // the log's number could be handed out again.
        let mut state = engine.state.lock();
        let (spare, done) = (state.logs.spare.take(), std::mem::take(&mut state.logs.done));
        let refused = std::mem::take(&mut state.logs.refused);
        drop(state);
        // `contain` records the error in the state.
        let _ = engine.contain("close", || {
            drop((spare, done));
            engine.remove_closed_logs(refused);
            Ok(())
        });
        engine.trash.empty();
    }
}

/// A piece of background work, claimed so that no other thread does it.
enum Claimed {
    SpareLog,
    /// Freezing the memtable, because its memory is needed.
    Freeze,
    Flush,
    Compaction(Arc<Compaction>),
    /// Removing the files of dropped tables.
    Trash,
    /// Reading the expiry information of a table.
    LoadExpiry(Arc<TableFile>),
}

impl Member for Engine {
    fn next(self: Arc<Self>, lane: Lane) -> Next {
        let next = || {
            let mut state = self.state.lock();
            state.compactions.end_backoff(Instant::now());
            Ok(match self.claim_due(&mut state, lane) {
                Some(claimed) => {
                    let engine = self.clone();
                    Next::Run(Box::new(move || engine.run_claimed(claimed)))
                }
                // A clock that made the database fail must not be called again and again.
                None if lane == Lane::Compaction && state.lifecycle.failed.is_none() => {
                    // Work for which these threads wait may have stopped being due.
                    if state.idle_waiters > 0 {
                        self.changed.notify_all();
                    }
                    let until = state.compactions.not_before.or_else(|| self.next_expiry(&state));
                    Next::Wait(until)
                }
                None => Next::Wait(None),
            })
        };
        // After a panic, the thread waits until `Engine::resume` signals that there is work again.
        self.contain("a background thread", next).unwrap_or(Next::Wait(None))
    }
}

impl Engine {
    /// Waits until the state may have changed. In deterministic mode, runs background work instead.
    pub(crate) fn wait_for_change(&self, state: &mut MutexGuard<'_, State>) {
        match self.inline {
            None => self.changed.wait(state),
            Some(_) => MutexGuard::unlocked(state, || self.run_inline()),
        }
    }

    /// Waits for the flushes and compactions that callers run. Does nothing if such a caller may be
    /// waiting for this call.
    fn wait_for_callers(&self) {
        if self.inline.is_some() || self.is_inside() {
            return;
        }
        let mut state = self.state.lock();
        while state.is_working() {
            self.changed.wait(&mut state);
        }
    }

    /// In deterministic mode, runs background work for about one write in four, at random.
    pub(crate) fn maybe_run_inline(&self) {
        let Some(seed) = &self.inline else { return };
        let drawn = {
            // The generator of `base::random` is not used here. The numbers drawn here determine
            // the contents of the databases used for published measurements, so this generator must
            // not change.
            let mut seed = seed.lock();
            *seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            *seed >> 62
        };
        if drawn == 0 {
            self.run_inline();
        }
    }

    /// Runs one piece of background work: from the flush lane if work is due there, otherwise from
    /// the compaction lane. Does nothing while a flush is running.
    fn run_inline(&self) {
        let claim = || {
            let mut state = self.state.lock();
            if state.flushing {
                return Ok(None);
            }
            let flush = self.claim_due(&mut state, Lane::Flush);
            Ok(flush.or_else(|| self.claim_due(&mut state, Lane::Compaction)))
        };
        // `contain` records the error in the state.
        if let Ok(Some(claimed)) = self.contain("background work", claim) {
            self.run_claimed(claimed);
        }
    }

    /// Claims and returns a piece of work that is due in `lane`; returns `None` if there is none.
    fn claim_due(&self, state: &mut State, lane: Lane) -> Option<Claimed> {
        if state.lifecycle.closing {
            return None;
        }
        match lane {
            Lane::Flush if self.takes_spare_log(state) => Some(Claimed::SpareLog),
            Lane::Flush if self.pace.share().is_some_and(|share| share.take_request()) => {
                Some(Claimed::Freeze)
            }
            Lane::Flush => {
                let waits = state.flushing || state.frozen.is_empty();
                if waits || state.lifecycle.failed.is_some() {
                    return None;
                }
                state.flushing = true;
                Some(Claimed::Flush)
            }
            Lane::Compaction => match self.pick(state) {
                Some(compaction) => Some(Claimed::Compaction(claim(state, compaction))),
                None if std::mem::take(&mut state.compactions.has_dropped) => Some(Claimed::Trash),
                None if state.lifecycle.failed.is_some() => None,
                None => self.table_without_expiry(state).map(Claimed::LoadExpiry),
            },
        }
    }

    /// Runs a piece of work that was claimed. Errors are recorded in the state.
    fn run_claimed(&self, claimed: Claimed) {
        let _ = self.contain("background work", || {
            match claimed {
                Claimed::SpareLog => self.create_spare_log(),
                Claimed::Freeze => self.give_up_memtable()?,
                Claimed::Flush => self.flush_in_background(),
                Claimed::Compaction(compaction) => drop(self.run_compaction(compaction)),
                Claimed::Trash => self.trash.empty(),
                Claimed::LoadExpiry(file) => self.load_expiry(&file),
            }
            Ok(())
        });
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
        let refused = std::mem::take(&mut state.logs.refused);
        drop(state);
        self.changed.notify_all();
        drop(done);
        self.remove_closed_logs(refused);
    }

    /// Returns whether a writer asked for a spare log, and clears the request. Callers
    /// check for such a request before they start a flush, because the syncs of a flush delay the
    /// creation of files.
    fn takes_spare_log(&self, state: &mut State) -> bool {
        state.lifecycle.failed.is_none() && std::mem::take(&mut state.logs.wants_spare)
    }

    /// Returns the most urgent automatic compaction, if one may be started now.
    ///
    /// The caller holds the state lock, so that no other thread takes the inputs before [`claim`]
    /// does. Searches the tables of the levels that are due, or all tables if no level is due.
    pub(crate) fn pick(&self, state: &State) -> Option<Compaction> {
        let waits = state.compactions.not_before.is_some() && self.inline.is_none();
        let manual = state.compactions.manual;
        if state.lifecycle.failed.is_some() || waits || state.compactions.paused {
            return None;
        }
        let levels = match manual {
            // A piece of the manual compaction waits for tables that are in use. No automatic
            // compaction may take tables now, unless writes would otherwise soon wait for level 0.
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
            DropHorizon { oldest_read, now },
        )
    }

    /// Waits until no flush or compaction is running or due.
    ///
    /// # Errors
    /// The error that keeps the remaining work from being done.
    pub(crate) fn wait_idle(&self) -> Result<()> {
        self.check_caller()?;
        self.state.lock().idle_waiters += 1;
        let idle = self.contain("wait_idle", || self.wait_until_idle());
        self.state.lock().idle_waiters -= 1;
        idle
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
            let flushes = state.flushing || !state.frozen.is_empty();
            if !flushes && !state.is_working() && !state.compactions.paused {
                if self.pick(&state).is_none() && self.table_without_expiry(&state).is_none() {
                    debug_assert_eq!(state.check(), Ok(()));
                    return Ok(());
                }
                // A cursor's crawl over tombstones or a released snapshot may have made a
                // compaction due without waking a thread.
                self.reads.work.give();
            }
            self.wait_for_change(&mut state);
        }
    }

    /// Waits for the compactions with keys in `range` that are running now, but not for later
    /// compactions, which could follow one another without end.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub(crate) fn wait_for_merges_in(&self, range: KeyRange<'_>) -> Result<()> {
        let order = self.reads.order.user();
        let mut state = self.state.lock();
        let running = state.compactions.running.iter();
        let merges: Vec<_> =
            running.filter(|merge| merge.range().overlaps(order, range)).cloned().collect();
        let runs = |state: &State| {
            let running = &state.compactions.running;
            merges.iter().any(|merge| running.iter().any(|other| Arc::ptr_eq(merge, other)))
        };
        while runs(&state) {
            if state.lifecycle.closing {
                return Err(Error::Closed);
            }
            self.wait_for_change(&mut state);
        }
        Ok(())
    }
}

/// Marks the inputs of a compaction and adds the compaction to the list of running compactions. No
/// other compaction may be using the inputs. Returns the compaction.
pub(crate) fn claim(state: &mut State, compaction: Compaction) -> Arc<Compaction> {
    let compaction = Arc::new(compaction);
    compaction.mark(true);
    state.compactions.running.push(compaction.clone());
    debug_assert_eq!(state.check(), Ok(()));
    compaction
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::engine::compact::plan::Inputs;
    use crate::engine::options::{Options, WriteOptions};
    use crate::engine::table_change::Pause;
    use crate::engine::testing::engine_in_memory;
    use crate::engine::version::testing::version;
    use crate::engine::write::queue::Write;
    use crate::fs::MemFs;

    #[test]
    fn no_compaction_is_picked_during_a_back_off_or_after_a_failure() {
        let picks = |seed, change: fn(&mut State)| {
            let options = Options::default().create_if_missing(true).inline_background(seed);
            let options = options.fs(MemFs::new());
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
        let engine = engine_in_memory();
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

    #[test]
    fn a_wait_for_quiet_outlasts_a_pause_of_the_compactions() {
        let engine = engine_in_memory();
        for _ in 0..pick::LEVEL0_COMPACT_FILES {
            engine.write(&WriteOptions::default(), Write::Put(b"a", b"1")).unwrap();
            engine.flush().unwrap();
        }
        let is_due = || engine.pick(&engine.state.lock()).is_some();
        assert!(is_due());
        let commit = engine.commit.lock();
        let pause = Pause::new(&engine, &commit);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| engine.wait_idle());
            thread::sleep(Duration::from_millis(50));
            let waits = !waiting.is_finished();
            drop(pause);
            waiting.join().unwrap().unwrap();
            assert!(waits, "a compaction was due");
        });
        assert!(!is_due());
    }

    #[test]
    fn a_wait_for_merges_waits_for_none_that_begins_later() {
        let engine = engine_in_memory();
        let version = version(["L1: 3:[a-c]"]);
        let order = engine.reads.order.user();
        let merge = || {
            let inputs = Inputs(vec![(1, version.level(1).to_vec())]);
            Arc::new(Compaction::from_inputs(version.clone(), order, inputs, 2))
        };
        let (first, second) = (merge(), merge());
        let run = |merges: Vec<Arc<Compaction>>| {
            engine.state.lock().compactions.running = merges;
            engine.changed.notify_all();
        };
        run(vec![first.clone()]);
        let range = KeyRange { from: Some(b"b"), to: None };
        thread::scope(|scope| {
            let waiting = scope.spawn(|| engine.wait_for_merges_in(range));
            // The test holds the first reference to the compaction, the list of running compactions
            // the second, and the waiting thread the third.
            while Arc::strong_count(&first) < 3 {
                thread::yield_now();
            }
            run(vec![first.clone(), second.clone()]);
            assert!(!waiting.is_finished());
            run(vec![second.clone()]);
            waiting.join().unwrap().unwrap();
        });
        run(Vec::new());
    }
}
