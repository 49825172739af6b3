//! Back-pressure: how writes are held back when flushes or compactions do not keep up.
//!
//! A writer that is faster than the background work has to wait sooner or later. It waits briefly
//! and often, so that no single write waits long:
//! 1. each time the memtable has grown by [`STEP_BYTES`], a writer waits for as long as the flush
//!    needs to catch up, at most [`MAX_WAIT`] (`keep_pace`);
//! 2. a full memtable is frozen only once [`State::may_freeze`] and level 0 has fewer than
//!    [`Level0Limits::stop`] tables (`wait_for_room`).
//!
//! So the memtables of a database take at most twice the size of a write buffer.
//!
//! With a memory budget ([`memory`](crate::engine::resources::memory)), each of these steps also
//! checks the total size of the memtables of all databases: the largest memtable that can be
//! flushed is frozen before it is full, and writers wait while the total is too large.

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::whole_micros;
use crate::base::sync::Instant;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::{Error, Result};
use crate::engine::compact::pick::{self, DropHorizon};
use crate::engine::health::is_retried;
use crate::engine::options::{Filters, Options};
use crate::engine::report::event::{EventKind, StallCause};
use crate::engine::resources::memory::Pressure;
use crate::engine::write::commit::CommitState;
use crate::engine::{Engine, State};

/// Growth of the memtable, in bytes, between two checks of the pace. A step holds more than a
/// thousand small entries, so fewer than one write in a thousand has to wait. A larger step makes
/// waits rarer and longer.
const STEP_BYTES: usize = 256 << 10;

/// Number of frozen memtables at which writes wait instead of freezing another memtable. A higher
/// limit makes writes wait later if memtables are frozen while they are small.
const MAX_FROZEN: usize = 2;

/// Longest wait at one step. A longer wait lets flushes and compactions catch up sooner, but
/// increases the latency of single writes.
const MAX_WAIT: Duration = Duration::from_micros(2500);

/// Shortest wait. A step whose wait would be shorter does not wait, because threads cannot sleep
/// for shorter times; a later step waits longer instead. A higher value makes waits rarer and
/// longer.
const MIN_WAIT: Duration = Duration::from_micros(200);

/// Numbers of tables in level 0 at which writers wait. With higher numbers, they wait later, and
/// reads are slower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Level0Limits {
    /// Number of tables at which writes are slowed down.
    slowdown: usize,
    /// Number of tables at which writes wait for a compaction.
    stop: usize,
}

/// The limits with filters, which spare a get most blocks of level 0.
const WITH_FILTERS: Level0Limits = Level0Limits { slowdown: 12, stop: 20 };
/// The limits without filters, when a get reads a block of every table of level 0; LevelDB's
/// `kL0_SlowdownWritesTrigger` and `kL0_StopWritesTrigger`.
const WITHOUT_FILTERS: Level0Limits = Level0Limits { slowdown: 8, stop: 12 };

impl State {
    /// Returns whether the memtable may be frozen now: the frozen memtables then have to fit into
    /// one write buffer, or into a step. The only frozen memtable may have any size.
    fn may_freeze(&self, write_buffer_bytes: usize) -> bool {
        let frozen: usize = self.frozen.iter().map(|frozen| frozen.mem.bytes()).sum();
        let together = frozen.saturating_add(self.mem.bytes());
        let is_small = together <= write_buffer_bytes.max(STEP_BYTES);
        self.frozen.is_empty() || (is_small && self.frozen.len() < MAX_FROZEN)
    }
}

impl Engine {
    /// Makes room for another group in the memtable: makes the writer wait briefly, or freezes a
    /// full memtable after waiting for flushes and compactions. If `force` is true, any memtable
    /// that is not empty counts as full.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] or [`Error::Closed`] if the database takes no more writes; I/O errors of
    /// the next log; the error of [`Engine::check_process`].
    pub(crate) fn make_room(&self, commit: &mut CommitState, force: bool) -> Result<()> {
        if self.has_failed.load(Relaxed) {
            return Err(self.read_only_error());
        }
        let bytes = commit.mem.bytes();
        if bytes < commit.check_room_at && !force {
            return Ok(());
        }
        self.check_process()?;
        let pressure = match self.pace.share() {
            Some(share) => share.grown_to(bytes as u64),
            None => Pressure::None,
        };
        let full = bytes >= self.options.write_buffer_bytes || force;
        if !full && pressure != Pressure::Freeze {
            commit.check_room_at = next_room_check(bytes, self.options.write_buffer_bytes);
            self.observe(|| grew_event(commit));
            self.order_spare_log(bytes);
            self.keep_pace(bytes, pressure);
            return Ok(());
        }
        if commit.mem.is_empty() {
            return Ok(());
        }
        self.wait_for_room()?;
        self.freeze(commit).inspect_err(|error| self.fail(error.clone()))
    }

    /// Freezes the memtable because another database asked for the memtable's memory. Does nothing
    /// while a writer holds the commit lock, because writers check the budget themselves. If the
    /// memtable cannot be frozen, or the writer waits, other databases are asked until that has
    /// changed.
    pub(crate) fn give_up_memtable(&self) -> Result<()> {
        let commit = self.commit.try_lock();
        let is_stuck = {
            let state = self.state.lock();
            let is_stuck = state.lifecycle.refusal().is_some()
                || state.lifecycle.stall.is_some()
                || state.frozen.len() >= MAX_FROZEN;
            if is_stuck {
                self.pace.cannot_flush();
            }
            is_stuck
        };
        if is_stuck {
            return Ok(());
        }
        let Some(mut commit) = commit else { return Ok(()) };
        if commit.mem.is_empty() {
            return Ok(());
        }
        self.contain("a flush", || self.freeze(&mut commit))
            .inspect_err(|error| self.fail(error.clone()))
    }

    /// Waits until a memtable may be frozen.
    fn wait_for_room(&self) -> Result<()> {
        let limits = level0_limits(&self.options);
        let mut stall = Stall::new(self);
        let mut state = self.state.lock();
        loop {
            if let Some(error) = state.lifecycle.refusal() {
                return Err(error);
            }
            let level0 = state.version.level(0).len();
            if !state.may_freeze(self.options.write_buffer_bytes) {
                stall.begin(&mut state, StallCause::Flush);
                self.wait_for_change(&mut state);
            } else if level0 >= limits.stop {
                if let Some(error) = self.level0_trouble(&state) {
                    return Err(Error::ReadOnly { reason: Arc::new(error.clone()) });
                }
                stall.begin(&mut state, StallCause::Level0);
                self.wait_for_change(&mut state);
            } else {
                return Ok(());
            }
        }
    }

    /// Returns the error for which a writer does not wait until level 0 is shorter, if there is
    /// one: compactions fail again and again, or none that would make level 0 shorter can run,
    /// because of damage.
    fn level0_trouble<'a>(&self, state: &'a State) -> Option<&'a Error> {
        let trouble = state.compactions.trouble()?;
        let (order, running) = (self.reads.order.user(), &state.compactions.running);
        let can_shrink = || {
            let horizon = DropHorizon { oldest_read: self.reads.oldest_read_seq(), now: None };
            pick::pick(&state.version, order, &self.options, running, 0..1, horizon).is_some()
        };
        let waits = !is_retried(trouble) && (!running.is_empty() || can_shrink());
        (!waits).then_some(trouble)
    }

    /// Asks for the next log to be created in the background, once half the write buffer is full.
    fn order_spare_log(&self, mem_bytes: usize) {
        // No spare log is created if `reuse_logs` is set, because an open could not continue the
        // last log if an empty log followed it.
        if mem_bytes < self.options.write_buffer_bytes / 2 || self.options.reuse_logs {
            return;
        }
        let mut state = self.state.lock();
        if state.logs.spare.is_none() && !state.logs.wants_spare {
            state.logs.wants_spare = true;
            self.reads.work.give();
        }
    }

    /// Makes a writer wait for the time that the background work needs to catch up, or for
    /// [`MAX_WAIT`] if memtables take too much of the memory budget. The wait never exceeds
    /// [`MAX_WAIT`], and it ends early if [`Engine::changed`](Engine) is notified.
    fn keep_pace(&self, mem_bytes: usize, pressure: Pressure) {
        let mut wait = match pressure {
            Pressure::SlowDown => MAX_WAIT,
            _ => self.pace.lead(mem_bytes, self.options.write_buffer_bytes),
        };
        let mut stall = Stall::new(self);
        let mut state = self.state.lock();
        let level0 = state.version.level(0).len();
        wait = wait.max(slowdown(level0, level0_limits(&self.options)));
        if wait < MIN_WAIT || state.lifecycle.refusal().is_some() {
            return;
        }
        stall.begin(&mut state, StallCause::Slowdown);
        match self.inline {
            None => drop(self.changed.wait_for(&mut state, wait.min(MAX_WAIT))),
            Some(_) => self.wait_for_change(&mut state),
        }
    }
}

/// A writer that may have to wait. The wait ends when this value is dropped, also by a panic. It is
/// dropped without the state lock, and so made before that lock is taken.
struct Stall<'a> {
    engine: &'a Engine,
    /// Cause and beginning of the wait; `None` if the writer has not begun to wait.
    waits: Option<(StallCause, Instant)>,
}

impl<'a> Stall<'a> {
    fn new(engine: &'a Engine) -> Stall<'a> {
        Stall { engine, waits: None }
    }

    /// Records that the writer waits, because of `cause` from now on.
    fn begin(&mut self, state: &mut State, cause: StallCause) {
        let began = self.waits.map_or_else(Instant::now, |(_, began)| began);
        self.waits = Some((cause, began));
        if state.lifecycle.stall.replace(cause).is_none() {
            self.engine.observe(|| EventKind::StallBegan { cause });
        }
    }
}

impl Drop for Stall<'_> {
    fn drop(&mut self) {
        let Some((cause, began)) = self.waits else { return };
        let (engine, waited) = (self.engine, began.elapsed());
        let mut state = engine.state.lock();
        state.lifecycle.stall = None;
        // If the writer wrote nothing more, nothing else would offer the memtable's memory again.
        engine.tell_pace(&state);
        engine.observe(|| EventKind::StallEnded { cause, took: whole_micros(waited) });
        drop(state);
        engine.metrics.stall(cause, waited);
    }
}

fn grew_event(commit: &CommitState) -> EventKind {
    EventKind::MemtableGrew {
        entries: commit.mem.len() as u64,
        memtable_bytes: commit.mem.bytes() as u64,
        log: commit.log_number,
        log_bytes: commit.log.len(),
    }
}

/// Returns the limits of level 0.
fn level0_limits(options: &Options) -> Level0Limits {
    match options.filters_of(0) {
        Filters::None => WITHOUT_FILTERS,
        _ => WITH_FILTERS,
    }
}

/// Returns the wait at each step while level 0 has `level0` tables. The wait grows with each table
/// from [`Level0Limits::slowdown`] on, up to [`MAX_WAIT`].
fn slowdown(level0: usize, limits: Level0Limits) -> Duration {
    match level0.checked_sub(limits.slowdown) {
        Some(over) => MAX_WAIT / 8 * (over as u32 + 1).min(8),
        None => Duration::ZERO,
    }
}

/// Returns the size of the memtable, in bytes, at which to check the pace next.
fn next_room_check(mem_bytes: usize, write_buffer_bytes: usize) -> usize {
    let step = STEP_BYTES.min(write_buffer_bytes / 4);
    mem_bytes.saturating_add(step).min(write_buffer_bytes)
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;
    use std::panic::resume_unwind;
    use std::path::Path;
    use std::thread;

    use super::*;
    use crate::base::Comparator;
    use crate::base::sync::atomic::{AtomicBool, AtomicUsize};
    use crate::engine::compact::plan::{Compaction, Inputs};
    use crate::engine::options::WriteOptions;
    use crate::engine::report::event::Event;
    use crate::engine::resources::Resources;
    use crate::engine::testing::engine_in_memory;
    use crate::engine::version::testing::version;
    use crate::engine::write::queue::Write;
    use crate::fs::MemFs;

    #[test]
    fn two_small_memtables_or_a_large_one_may_wait_for_their_flush() {
        let buffer = engine_in_memory().options.write_buffer_bytes;
        let frozen = |value_bytes: usize| {
            let engine = engine_in_memory();
            let freeze = |_| {
                let value = vec![b'v'; value_bytes];
                engine.write(&WriteOptions::default(), Write::Put(b"key", &value)).unwrap();
                engine.make_room(&mut engine.commit.lock(), true).unwrap();
                engine.state.lock().frozen.len()
            };
            [(); 4].map(freeze)
        };
        assert_eq!(frozen(0), [1, 2, 2, 2]);
        assert_eq!(frozen(buffer / 4), [1, 2, 2, 2]);
        assert_eq!(frozen(buffer / 2), [1, 1, 1, 1]);
        assert_eq!(frozen(2 * buffer), [1, 1, 1, 1]);
    }

    #[test]
    fn a_memtable_can_be_asked_for_again_after_a_stall() {
        let resources = Resources::default().memory_bytes(1 << 20);
        let options = Options::default().create_if_missing(true).inline_background(Some(4));
        let options = options.resources(&resources).fs(MemFs::new());
        let engine = Engine::open(Path::new("/db"), options).unwrap();
        let share = engine.pace.share().unwrap();
        share.grown_to(300 << 10);
        let mut stall = Stall::new(&engine);
        stall.begin(&mut engine.state.lock(), StallCause::Slowdown);
        engine.give_up_memtable().unwrap();
        let other = engine.options.resources.memory.as_ref().unwrap().join();
        other.grown_to(1);
        assert!(!share.take_request(), "the writer waits");
        drop(stall);
        other.grown_to(1);
        assert!(share.take_request());
    }

    /// A comparator that panics while it is armed.
    #[derive(Debug)]
    struct TrapOrder(Arc<AtomicBool>);

    impl Comparator for TrapOrder {
        fn name(&self) -> &str {
            "test.TrapOrder"
        }

        fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
            if self.0.load(Relaxed) {
                resume_unwind(Box::new("the trap was sprung"));
            }
            a.cmp(b)
        }
    }

    /// Makes the comparator panic when the writer looks whether level 0, which is full, can still
    /// become shorter.
    #[test]
    fn a_stall_ends_with_a_writer_that_panics() {
        let (armed, stalls) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let seen = stalls.clone();
        let options =
            Options::default().create_if_missing(true).comparator(TrapOrder(armed.clone()));
        let options = options.fs(MemFs::new()).observer(move |event: &Event| match event.kind {
            EventKind::StallBegan { .. } => _ = seen.fetch_add(1, Relaxed),
            EventKind::StallEnded { .. } => _ = seen.fetch_sub(1, Relaxed),
            _ => {}
        });
        let engine = Engine::open(Path::new("/db"), options).unwrap();
        engine.start_observing().unwrap();
        engine.write(&WriteOptions::default(), Write::Put(b"a", b"1")).unwrap();
        let full: Vec<_> = (0..WITH_FILTERS.stop).map(|at| format!("{}:[a-c]", 90 - at)).collect();
        let version = version([&*format!("L0: {}", full.join(" ")), "L1: 3:[x-z]"]);
        let inputs = Inputs(vec![(1, version.level(1).to_vec())]);
        let order = engine.reads.order.user();
        let merge = Compaction::from_inputs(version.clone(), order, inputs, 2);
        let before = {
            let mut state = engine.state.lock();
            state.compactions.damaged.insert(9, Error::corruption("torn"));
            state.compactions.running.push(Arc::new(merge));
            std::mem::replace(&mut state.version, version)
        };
        let writer = engine.clone();
        let writer = thread::spawn(move || {
            let make_room = || writer.make_room(&mut writer.commit.lock(), true);
            writer.contain("a write", make_room)
        });
        while engine.health().stall != Some(StallCause::Level0) {
            thread::yield_now();
        }
        armed.store(true, Relaxed);
        engine.state.lock().compactions.running.clear();
        engine.changed.notify_all();
        let error = writer.join().unwrap().unwrap_err();
        assert!(matches!(error, Error::Panicked { .. }), "{error}");
        assert_eq!(engine.health().stall, None);
        assert_eq!(engine.stats().stalls.level0.count, 1);
        engine.state.lock().version = before;
        engine.end_observing();
        assert_eq!(stalls.load(Relaxed), 0, "the observer is told of every end");
    }

    #[test]
    fn writers_wait_earlier_if_no_filter_spares_the_blocks_of_level_0() {
        let none = Options::default().filters(Filters::None);
        let at = |level| none.clone().filters_at_level(level, Filters::Table(10));
        assert_eq!(level0_limits(&Options::default()), WITH_FILTERS);
        assert_eq!(level0_limits(&at(0)), WITH_FILTERS);
        assert_eq!(level0_limits(&at(6)), WITHOUT_FILTERS);
        assert_eq!(level0_limits(&none), WITHOUT_FILTERS);
    }

    #[test]
    fn a_writer_waits_longer_with_each_table_of_level_0() {
        for limits in [WITH_FILTERS, WITHOUT_FILTERS] {
            let most = limits.slowdown;
            let wait = |files| slowdown(files, limits);
            let eighths = |files| wait(files).as_nanos() * 8 / MAX_WAIT.as_nanos();
            assert_eq!([most - 1, most, most + 1, most + 6].map(eighths), [0, 1, 2, 7]);
            assert_eq!([most + 7, most + 8, most + 100].map(wait), [MAX_WAIT; 3]);
        }
    }

    #[test]
    fn the_next_log_is_ordered_once_at_half_a_buffer() {
        let ordered = |options: Options, bytes| {
            let options = options.create_if_missing(true).inline_background(Some(4));
            let options = options.write_buffer_bytes(100).fs(MemFs::new());
            let engine = Engine::open(Path::new("/db"), options).unwrap();
            engine.order_spare_log(bytes);
            let first = engine.state.lock().logs.wants_spare;
            engine.state.lock().logs.wants_spare = false;
            engine.create_spare_log();
            engine.order_spare_log(bytes);
            assert!(!engine.state.lock().logs.wants_spare, "there is one");
            first
        };
        assert!(!ordered(Options::default(), 49));
        assert!(ordered(Options::default(), 50) && ordered(Options::default(), 99));
        assert!(!ordered(Options::default().reuse_logs(true), 99));
    }

    #[test]
    fn the_pace_is_looked_at_every_step_or_four_times_a_small_buffer() {
        const MIB: usize = 1 << 20;
        assert_eq!(next_room_check(0, 64 * MIB), STEP_BYTES);
        assert_eq!(next_room_check(STEP_BYTES, 64 * MIB), 2 * STEP_BYTES);
        assert_eq!(next_room_check(64 * MIB - 1, 64 * MIB), 64 * MIB);
        assert_eq!(next_room_check(10, 400), 110);
    }
}

#[cfg(test)]
mod transcripts;
