//! The data that the state lock guards: the current memtables and tables, and one struct each for
//! the logs, the compactions and the lifecycle of the engine.
//!
//! [`State::check`] lists the invariants that hold whenever the lock is free.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::base::Error;
use crate::base::sync::Instant;
use crate::engine::compact::plan::{Compaction, is_free};
use crate::engine::memtable::Memtable;
use crate::engine::read::view::Layers;
use crate::engine::report::event::StallCause;
use crate::engine::version::{TableFile, Version};
use crate::engine::write::kept::KeptLogs;
use crate::engine::write::log_file::{OutgoingLog, SpareLog};

/// The engine's own state, guarded by one lock.
#[derive(Debug)]
pub(crate) struct State {
    /// The memtable that writes go to.
    pub(super) mem: Arc<Memtable>,
    /// Memtables to flush, oldest first.
    pub(super) frozen: VecDeque<Frozen>,
    /// Whether a thread is flushing the oldest frozen memtable. Set by that thread before it calls
    /// [`Engine::flush_oldest`](crate::engine::Engine::flush_oldest).
    pub(super) flushing: bool,
    /// The current version.
    pub(super) version: Arc<Version>,
    pub(super) logs: LogState,
    pub(super) compactions: CompactionState,
    /// Tables whose expiry times could not be read, by number.
    pub(super) failed_looks: BTreeMap<u64, FailedLook>,
    pub(super) lifecycle: Lifecycle,
    /// Number of threads that wait until nothing is running or due.
    pub(super) idle_waiters: usize,
}

/// The failures to read the expiry times of a table, one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct FailedLook {
    /// Number of failures.
    pub failures: u32,
    /// End of the back-off: the table is not looked into before this time.
    pub not_before: Instant,
}

/// A frozen memtable, which waits for its flush.
#[derive(Clone, Debug)]
pub(crate) struct Frozen {
    /// The memtable.
    pub mem: Arc<Memtable>,
    /// Number of the first log whose records are in the memtable.
    pub first_log: u64,
    /// Memory that the memtable took when it was frozen, in bytes; 0 if it was replayed from a log,
    /// because throttling does not count such memtables.
    pub bytes: u64,
}

/// The write-ahead logs.
#[derive(Debug)]
pub(super) struct LogState {
    /// Number of the first log whose records are in the memtable that writes go to.
    pub(super) mem_log: u64,
    /// The logs on disk, by number, each with the size of its records in bytes. The size is 0 until
    /// the next log takes over, or `None` if the log was already on disk when the engine was
    /// created. A log that was replayed and not continued keeps the size `None`.
    pub(super) on_disk: BTreeMap<u64, Option<u64>>,
    /// The logs that are kept although their records are in tables. They are not in `on_disk`.
    pub(super) kept: KeptLogs,
    /// The log to use after the current one, if it was created ahead of time.
    pub(super) spare: Option<SpareLog>,
    /// Whether a background thread should create the spare log.
    pub(super) wants_spare: bool,
    /// Logs that are not needed any more but are still open: closing a long log takes a while, so
    /// background work does it.
    pub(super) done: Vec<OutgoingLog>,
    /// Numbers of logs that are not needed any more but could not be removed, because they may have
    /// been open.
    pub(super) refused: BTreeSet<u64>,
}

/// Compactions under way, and those that failed.
#[derive(Debug, Default)]
pub(super) struct CompactionState {
    /// Compactions under way.
    pub(super) running: Vec<Arc<Compaction>>,
    /// The manual compaction under way.
    pub(super) manual: Option<Manual>,
    /// Whether no compaction may begin, because a change of the tables is being made.
    pub(super) paused: bool,
    /// Whether a background thread should remove the files of tables that a range delete dropped.
    pub(super) has_dropped: bool,
    /// Error of the last compaction; `None` if it succeeded.
    pub(super) error: Option<Error>,
    /// Number of compactions that failed since the last one that succeeded.
    pub(super) failures: u32,
    /// End of the back-off after a failure: no compaction is tried before this time.
    pub(super) not_before: Option<Instant>,
    /// Tables that no compaction can read, each with its error. These tables stay marked as being
    /// compacted, so that no compaction takes them.
    pub(super) damaged: BTreeMap<u64, Error>,
}

/// The part of a running manual compaction that background work needs to know.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manual {
    /// The level that will hold the whole result; `None` until that level is known.
    pub output_level: Option<usize>,
    /// Whether the manual compaction waits for tables that automatic compactions are reading.
    pub waits: bool,
}

/// Whether the engine has failed, is closing, or makes writes wait.
#[derive(Debug, Default)]
pub(super) struct Lifecycle {
    /// Error that stopped all writes. `Engine::has_failed` mirrors whether there is such an error.
    pub(super) failed: Option<Error>,
    /// First failure since the last `resume` began its repairs. `failed` shows it only once that
    /// `resume` has ended.
    pub(super) failed_again: Option<Error>,
    /// Whether the engine is being closed. `Engine::closing` mirrors this field.
    pub(super) closing: bool,
    /// Cause of the current write stall; `None` if no write waits.
    pub(super) stall: Option<StallCause>,
}

impl State {
    /// Returns the state of an engine that was just opened: `mem` holds the records of `mem_log`
    /// and later logs, and `on_disk` yields the logs that were replayed and the current log.
    pub(super) fn new(
        mem: Arc<Memtable>,
        mem_log: u64,
        frozen: VecDeque<Frozen>,
        version: Arc<Version>,
        on_disk: impl Iterator<Item = u64>,
    ) -> State {
        let state = State {
            mem,
            frozen,
            flushing: false,
            version,
            logs: LogState {
                mem_log,
                on_disk: on_disk.map(|log| (log, None)).collect(),
                kept: KeptLogs::default(),
                spare: None,
                wants_spare: false,
                done: Vec::new(),
                refused: BTreeSet::new(),
            },
            compactions: CompactionState::default(),
            failed_looks: BTreeMap::new(),
            lifecycle: Lifecycle::default(),
            idle_waiters: 0,
        };
        debug_assert_eq!(state.check(), Ok(()));
        state
    }

    /// Returns the memtables and tables for readers.
    pub(super) fn layers(&self) -> Layers {
        Layers {
            mem: self.mem.clone(),
            imm: self.frozen.iter().rev().map(|frozen| frozen.mem.clone()).collect(),
            version: self.version.clone(),
        }
    }

    /// Returns the number of the first log whose records are not all in tables.
    pub(crate) fn oldest_log(&self) -> u64 {
        self.frozen.front().map_or(self.logs.mem_log, |frozen| frozen.first_log)
    }

    /// Returns the number of the first log that is still needed once the oldest frozen memtable is
    /// in a table.
    pub(super) fn log_after_flush(&self) -> u64 {
        self.frozen.get(1).map_or(self.logs.mem_log, |next| next.first_log)
    }

    /// Returns whether a flush or compaction is running, in a background thread or a caller's.
    pub(super) fn is_working(&self) -> bool {
        let compactions = &self.compactions;
        self.flushing || !compactions.running.is_empty() || compactions.manual.is_some()
    }

    /// Checks the invariants that hold whenever the state lock is free. Returns the first broken
    /// invariant as the error.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.check_memtables()?;
        self.logs.check()?;
        let is_live = |log| log >= self.oldest_log();
        broken(self.logs.kept.numbers().any(is_live), "a kept log is needed for a memtable")?;
        self.compactions.check()?;
        let is_free_damage = |file: &Arc<TableFile>| {
            is_free(file) && self.compactions.damaged.contains_key(&file.number)
        };
        let has_free_damage = self.version.files().any(|(_, file)| is_free_damage(file));
        broken(has_free_damage, "a damaged table is free to be taken")
    }

    /// Checks that logs and sequence numbers ascend from the oldest frozen memtable to the current
    /// memtable. They ascend because a memtable is frozen before the next one is written to.
    fn check_memtables(&self) -> Result<(), String> {
        let first_logs = self.frozen.iter().map(|frozen| frozen.first_log);
        let first_logs = first_logs.chain([self.logs.mem_log]);
        broken(!first_logs.is_sorted(), "a later memtable begins in an earlier log")?;
        // Memtables replayed from logs are not checked: a damaged log may hold anything.
        let frozen_here = self.frozen.iter().filter(|frozen| frozen.bytes > 0);
        let mems = frozen_here.map(|frozen| &frozen.mem).filter(|mem| !mem.is_empty());
        let last_seqs = mems.map(|mem| mem.last_seq());
        broken(!last_seqs.is_sorted(), "a later memtable holds earlier writes")?;
        let is_frozen = self.frozen.iter().any(|frozen| Arc::ptr_eq(&frozen.mem, &self.mem));
        broken(is_frozen, "the memtable that writes go to is frozen")
    }
}

impl LogState {
    fn check(&self) -> Result<(), String> {
        let has_current = self.on_disk.contains_key(&self.mem_log);
        broken(!has_current, "the log of the memtable is not on disk")?;
        let spare = self.spare.as_ref().map(|spare| spare.number);
        let has_records = |number| !matches!(self.on_disk.get(&number), None | Some(Some(0)));
        broken(spare.is_some_and(has_records), "the spare log is not empty")?;
        let is_current = |done: &OutgoingLog| done.number >= self.mem_log;
        broken(self.done.iter().any(is_current), "a log that is done holds the memtable")
    }
}

impl CompactionState {
    fn check(&self) -> Result<(), String> {
        let has_failed = self.failures > 0;
        broken(has_failed != self.error.is_some(), "failures of compactions without an error")?;
        broken(self.not_before.is_some() && !has_failed, "a back-off without a failure")?;
        for compaction in &self.running {
            broken(compaction.input_files().any(is_free), "an input is free to be taken")?;
            let is_damaged = |file: &Arc<TableFile>| self.damaged.contains_key(&file.number);
            let has_damaged = compaction.input_files().any(is_damaged);
            broken(has_damaged, "a damaged table is being compacted")?;
        }
        Ok(())
    }
}

/// Returns an error with the text `rule` if `is_broken` is true.
fn broken(is_broken: bool, rule: &str) -> Result<(), String> {
    if is_broken { Err(rule.to_owned()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::BytewiseComparator;
    use crate::base::sync::atomic::Ordering::Relaxed;
    use crate::engine::compact::plan::{Compaction, Inputs};
    use crate::engine::memtable::Arena;
    use crate::engine::version::obsolete::Trash;
    use crate::format::batch::WriteBatch;
    use crate::format::edit::{NewFile, VersionEdit};
    use crate::format::key::{InternalComparator, KeyKind, internal_key};
    use crate::fs::{Fs, MemFs};

    fn order() -> InternalComparator {
        InternalComparator::new(Arc::new(BytewiseComparator))
    }

    fn memtable() -> Arc<Memtable> {
        Arc::new(Memtable::new(order().user(), 1 << 20))
    }

    fn frozen(first_log: u64) -> Frozen {
        Frozen { mem: memtable(), first_log, bytes: 0 }
    }

    /// Returns the state of an engine with the table 7 and the logs 3 to 5, of which log 5 is the
    /// current one.
    fn state() -> State {
        let fs = Arc::new(MemFs::new());
        let trash = Arc::new(Trash::new(fs, std::path::Path::new("db")));
        let key = internal_key(b"key", 1, KeyKind::Value).to_vec();
        let file =
            NewFile { level: 1, number: 7, file_bytes: 1, smallest: key.clone(), largest: key };
        let edit = VersionEdit { new_files: vec![file], ..VersionEdit::default() };
        let version = Version::default().apply(&edit, &order(), &trash).unwrap();
        let memtables = VecDeque::from([frozen(3), frozen(3), frozen(4)]);
        State::new(memtable(), 5, memtables, Arc::new(version), 3..=5)
    }

    /// Returns the invariant that `change` breaks in a valid state.
    fn broken_by(change: impl FnOnce(&mut State)) -> String {
        let mut state = state();
        change(&mut state);
        state.check().unwrap_err()
    }

    fn compaction(state: &State) -> Arc<Compaction> {
        let inputs = Inputs(vec![(1, state.version.level(1).to_vec())]);
        let version = state.version.clone();
        Arc::new(Compaction::from_inputs(version, order().user(), inputs, 2))
    }

    #[test]
    fn a_broken_rule_of_the_memtables_and_logs_is_found() {
        let rule = broken_by(|state| state.frozen.swap(0, 2));
        assert_eq!(rule, "a later memtable begins in an earlier log");
        let rule = broken_by(|state| state.frozen.push_back(frozen(6)));
        assert_eq!(rule, "a later memtable begins in an earlier log");
        let rule = broken_by(|state| state.frozen[2].mem = state.mem.clone());
        assert_eq!(rule, "the memtable that writes go to is frozen");
        let rule = broken_by(|state| {
            state.logs.on_disk.remove(&5);
        });
        assert_eq!(rule, "the log of the memtable is not on disk");
        let rule = broken_by(|state| {
            let fs = MemFs::new();
            let dir = std::path::Path::new("db");
            fs.create_dir(dir).unwrap();
            state.logs.spare = Some(SpareLog::create(&fs, dir, 6, true).unwrap());
            state.logs.on_disk.insert(6, Some(10));
        });
        assert_eq!(rule, "the spare log is not empty");
    }

    #[test]
    fn memtables_that_were_frozen_here_hold_later_and_later_writes() {
        let with = |seq: u64, bytes| {
            let (mem, mut batch) = (memtable(), WriteBatch::new());
            batch.put(b"key", b"");
            batch.set_sequence(seq);
            mem.insert_batch(batch.contents(), seq, &mut Arena::default()).unwrap();
            Frozen { mem, first_log: 4, bytes }
        };
        let rule = broken_by(|state| state.frozen.extend([with(9, 1), with(8, 1)]));
        assert_eq!(rule, "a later memtable holds earlier writes");
        let mut state = state();
        // Memtables that were replayed are not checked.
        state.frozen.extend([with(9, 0), with(8, 1), with(9, 1), with(7, 0)]);
        assert_eq!(state.check(), Ok(()));
    }

    #[test]
    fn a_log_that_is_done_is_older_than_that_of_the_memtable() {
        let fs = MemFs::new();
        let dir = std::path::Path::new("db");
        fs.create_dir(dir).unwrap();
        let done = |number| {
            let spare = SpareLog::create(&fs, dir, number, true).unwrap();
            let (path, log) = spare.begin(1).unwrap();
            OutgoingLog { number, path, log, next_seq: 1 }
        };
        let mut state = state();
        state.logs.done.push(done(4));
        assert_eq!(state.check(), Ok(()));
        for number in [5, 6] {
            let rule = broken_by(|state| state.logs.done.push(done(number)));
            assert_eq!(rule, "a log that is done holds the memtable");
        }
    }

    #[test]
    fn a_broken_rule_of_the_compactions_is_found() {
        let rule = broken_by(|state| state.compactions.failures = 1);
        assert_eq!(rule, "failures of compactions without an error");
        let rule = broken_by(|state| state.compactions.not_before = Some(Instant::now()));
        assert_eq!(rule, "a back-off without a failure");
        let rule = broken_by(|state| state.compactions.running.push(compaction(state)));
        assert_eq!(rule, "an input is free to be taken");
        let rule = broken_by(|state| drop(state.compactions.damaged.insert(7, Error::Closed)));
        assert_eq!(rule, "a damaged table is free to be taken");
        let rule = broken_by(|state| {
            let compaction = compaction(state);
            compaction.mark(true);
            state.compactions.running.push(compaction);
            state.compactions.damaged.insert(7, Error::Closed);
        });
        assert_eq!(rule, "a damaged table is being compacted");
        let mut state = state();
        state.version.level(1)[0].compacting.store(true, Relaxed);
        state.compactions.damaged.insert(7, Error::Closed);
        assert_eq!(state.check(), Ok(()));
    }
}
