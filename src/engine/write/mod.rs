//! A write: from the queue into the log, from the log into the memtable.
//!
//! 1. The writer enters the [`queue`]. The writer at the head of the queue leads; the others wait
//!    for the leader's result.
//! 2. The leader makes room in the memtable ([`room`]): it may have to wait, or to freeze the
//!    memtable and begin a new log ([`wal`]).
//! 3. The leader takes the next waiters into its group and merges their batches. A write whose
//!    [`check`] fails is left out and gets an error. If the leader's own check fails, it takes no
//!    group.
//! 4. The leader appends one record for the group to the log, and syncs the log if the leader's own
//!    write asks for a sync.
//! 5. The leader inserts the group's entries into the memtable and makes them visible, all at once.
//! 6. The leader hands the lead to the next waiter, and the result to its group.
//!
//! A group is one record, so each batch of the group survives a crash completely or not at all. If
//! step 4 fails, part of the record may be in the file. No record may follow a partial one, so
//! writes stop until [`Engine::resume`]. A lone writer waits for no lock and allocates nothing.
//!
//! Every log begins with an empty batch that carries the next sequence number. The batch has no
//! effect when LevelDB or goleveldb replays it; recovery uses it to tell whether the previous log
//! lost its end.

use std::sync::Arc;

use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::{Error, Result};
use crate::engine::Engine;
use crate::engine::options::WriteOptions;
use crate::engine::write::check::Check;
use crate::engine::write::commit::CommitState;
use crate::engine::write::queue::{Group, Turn, Waiter, Write, merge_group};
use crate::format::batch::{HEADER_BYTES, WriteBatch};
use crate::format::key::MAX_SEQ_NO;

pub(crate) mod check;
pub(crate) mod commit;
pub(crate) mod kept;
pub(crate) mod log_file;
pub(crate) mod pace;
pub(crate) mod queue;
pub(crate) mod read_set;
mod room;
pub(crate) mod wal;

/// Maximum size, in bytes, of a buffer that is kept for the next group; a larger buffer is freed. A
/// higher limit saves allocations for large groups but retains more memory.
const MAX_KEPT_BUFFER_BYTES: usize = 4 << 20;

impl Engine {
    /// Applies `write` atomically.
    ///
    /// # Errors
    /// I/O errors of the log, after which the database takes no more writes; [`Error::ReadOnly`]
    /// for every later write, and after background work has failed; the error of
    /// [`Engine::check_process`] if the write is synced or has to wait.
    pub(crate) fn write(&self, options: &WriteOptions, write: Write<'_>) -> Result<()> {
        self.check_outside()?;
        // The check makes a system call, so a write that is neither synced nor has to wait goes
        // without it.
        let may_wait = || self.check_process();
        if options.sync {
            may_wait()?;
        }
        let write = match self.queue.enter(write, options.sync, may_wait) {
            Turn::Lead(write) => write,
            Turn::Done(result) => return result,
        };
        let mut group = Group::default();
        let result = self.commit.lock_after(may_wait).and_then(|mut commit| {
            let lead = || self.lead(&mut commit, options.sync, write, &mut group);
            self.contain("a write", lead)
        });
        self.queue.leave(group, &result);
        self.maybe_run_inline();
        result
    }

    /// Commits `write` together with waiting writes, which are moved from the queue to `group`.
    fn lead(
        &self,
        commit: &mut CommitState,
        sync: bool,
        write: Write<'_>,
        group: &mut Group,
    ) -> Result<()> {
        if commit.mem.bytes() >= commit.check_room_at {
            self.make_room(commit, false)?;
        } else if self.has_failed.load(Relaxed) {
            return Err(self.read_only_error());
        }
        if let Write::Checked(_, check) = &write {
            check.run(&self.reads, &self.reads.view_owned())?;
        }
        self.queue.take_group(&write, sync, commit.last_sync, &mut group.members);
        self.refuse_conflicts(&write, group);
        let mut batch = merge_group(write, &group.members, &mut commit.group);
        let result = self.commit_batch(commit, sync, &mut batch);
        // The batch, whether merged or a single writer's own, becomes the buffer for the next
        // group.
        if batch.contents().len() <= MAX_KEPT_BUFFER_BYTES {
            commit.group = batch;
        }
        result
    }

    /// Refuses the waiters whose checks fail because of earlier writes, the leader's `write`, or
    /// waiters before them in the group.
    fn refuse_conflicts(&self, write: &Write<'_>, group: &mut Group) {
        let mut at = 0;
        while let Some(waiter) = group.members.get(at) {
            let passed = match &waiter.check {
                None => Ok(()),
                Some(check) => self.check_in_group(check, write, &group.members[..at]),
            };
            match passed {
                Ok(()) => at += 1,
                // The waiter is removed only after its check, so that it is still in the group if a
                // comparator panics during the check.
                Err(error) => group.refused.push((group.members.remove(at), error)),
            }
        }
    }

    /// Checks a write against everything that will be applied before it.
    fn check_in_group(
        &self,
        check: &Check,
        write: &Write<'_>,
        before: &[Arc<Waiter>],
    ) -> Result<()> {
        check.run(&self.reads, &self.reads.view_owned())?;
        let order = self.reads.order.user();
        match write {
            Write::Put(key, _) | Write::Delete(key) => check.check_written(order, key)?,
            Write::Batch(batch) | Write::Checked(batch, _) => {
                check.run_on_batch(order, batch.contents())?;
            }
        }
        let mut batches = before.iter().map(|waiter| waiter.batch.lock());
        batches.try_for_each(|batch| check.run_on_batch(order, batch.contents()))
    }

    /// Appends the batch to the log, inserts it into the memtable and makes it visible.
    pub(super) fn commit_batch(
        &self,
        commit: &mut CommitState,
        sync: bool,
        batch: &mut WriteBatch,
    ) -> Result<()> {
        let count = batch.len() as u64;
        let first_seq = commit.last_seq + 1;
        debug_assert!(!commit.half_done, "nothing follows a change that was cut short");
        debug_assert_eq!(commit.last_seq, self.reads.visible_seq(), "earlier writes are visible");
        if count == 0 {
            return if sync { self.sync_earlier(commit) } else { Ok(()) };
        }
        self.make_room_for(commit, count)?;
        batch.set_sequence(first_seq);
        let contents = batch.contents();
        let logged = commit
            .log
            .add_record(contents)
            .map_err(|error| Error::io("append to", &commit.log_path, error));
        let durable = logged.and_then(|()| {
            commit.unsynced = true;
            if sync { self.sync_log(commit, first_seq + count) } else { Ok(()) }
        });
        if let Err(error) = durable {
            // The record may be in the file, whole or in part, so no record may follow it.
            self.fail(error.clone());
            return Err(error);
        }
        commit.last_seq += count;
        commit.half_done = true;
        let applied = commit.mem.insert_batch(contents, first_seq, &mut commit.arena);
        applied.inspect_err(|error| self.fail(error.clone()))?;
        commit.half_done = false;
        debug_assert!(
            commit.mem.last_seq() <= commit.last_seq,
            "an entry is newer than the last write"
        );
        commit.visible.advance(commit.last_seq);
        let metrics = &self.metrics;
        metrics.groups.fetch_add(1, Relaxed);
        metrics.operations.fetch_add(count, Relaxed);
        metrics.user_bytes.fetch_add((contents.len() - HEADER_BYTES) as u64, Relaxed);
        metrics.wal_bytes.store(commit.log.len() + metrics.wal_bytes_before.load(Relaxed), Relaxed);
        Ok(())
    }

    /// Checks that `count` operations can be committed as one batch, and freezes the memtable if it
    /// has no room for them. Nothing is in the log yet, so a refusal harms no other write.
    #[inline]
    fn make_room_for(&self, commit: &mut CommitState, count: u64) -> Result<()> {
        if count > MAX_SEQ_NO - commit.last_seq {
            return Err(Error::invalid("the database has used up its sequence numbers"));
        }
        let most = commit.max_entries as u64;
        if commit.mem.len() as u64 + count <= most {
            return Ok(());
        }
        if count > most {
            return Err(Error::invalid(format!("a batch takes at most {most} operations")));
        }
        self.make_room(commit, true)
    }

    /// Makes all earlier writes durable. Does nothing if they are durable already.
    fn sync_earlier(&self, commit: &mut CommitState) -> Result<()> {
        if !commit.unsynced && commit.outgoing.is_empty() && commit.replayed_log.is_none() {
            return Ok(());
        }
        let next_seq = commit.last_seq + 1;
        self.sync_log(commit, next_seq).inspect_err(|error| self.fail(error.clone()))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::base::process::{ProcessId, in_time};
    use crate::engine::options::Options;
    use crate::engine::report::health::HealthState;
    use crate::engine::testing::engine_in_memory;
    use crate::fs::MemFs;

    #[test]
    fn the_last_sequence_number_is_given_out_and_none_after_it() {
        let engine = engine_in_memory();
        let write = |puts: usize| {
            let mut batch = WriteBatch::new();
            (0..puts).for_each(|_| batch.put(b"key", b""));
            engine.write(&WriteOptions::default(), Write::Batch(batch))
        };
        let last_seq = MAX_SEQ_NO - 2;
        let mut commit = engine.commit.lock();
        commit.last_seq = last_seq;
        commit.visible.advance(last_seq);
        drop(commit);
        for puts in [3, 4, 100] {
            let error = write(puts).unwrap_err().to_string();
            assert!(error.contains("used up its sequence numbers"), "{error}");
        }
        write(2).unwrap();
        write(1).unwrap_err();
        assert_eq!(engine.reads.visible_seq(), MAX_SEQ_NO);
    }

    #[test]
    fn a_forked_child_is_refused_where_a_write_would_wait_for_a_thread_of_its_parent() {
        let mut engine = engine_in_memory();
        engine.write(&WriteOptions::default(), Write::Put(b"parent", b"")).unwrap();
        Arc::get_mut(&mut engine).unwrap().opener = ProcessId::other();
        let put = |sync| {
            let child = engine.clone();
            in_time(move || child.write(&WriteOptions { sync }, Write::Put(b"child", b"")))
        };
        let is_refused = |sync| {
            let refused = put(sync).unwrap_err().to_string();
            assert!(refused.contains("forked"), "{refused}");
        };
        is_refused(true);
        let commit = engine.commit.lock();
        [false, true, false].into_iter().for_each(is_refused);
        drop(commit);
        assert!(matches!(
            engine.queue.enter(Write::Delete(b"parent"), false, || Ok(())),
            Turn::Lead(_)
        ));
        [false, true, false].into_iter().for_each(is_refused);
        engine.queue.leave(Group::default(), &Ok(()));
        put(false).unwrap();
    }

    /// A memtable that could not take the whole batch made the database read-only, and every later
    /// open failed in the same way.
    #[test]
    fn a_batch_that_no_memtable_takes_is_refused_and_harms_no_other_write() {
        let fs = MemFs::new();
        let open = || {
            let options = Options::default().create_if_missing(true).inline_background(Some(4));
            Engine::open(Path::new("/db"), options.fs(fs.clone())).unwrap()
        };
        let engine = open();
        engine.commit.lock().max_entries = 64;
        let write = |puts: u64| {
            let mut batch = WriteBatch::new();
            (0..puts).for_each(|key| batch.put(key.to_be_bytes(), b""));
            engine.write(&WriteOptions::default(), Write::Batch(batch))
        };
        write(1).unwrap();
        for puts in [65, 1000] {
            let error = write(puts).unwrap_err();
            assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
            assert!(error.to_string().contains("at most 64 operations"), "{error}");
            assert_eq!(engine.health().state, HealthState::Good);
        }
        // Most of these do not fit into the memtable of those before them.
        for puts in [64, 1, 64, 63, 2].into_iter().chain([1; 200]) {
            write(puts).unwrap();
            assert!(engine.commit.lock().mem.len() <= 64);
        }
        let last_seq = engine.reads.visible_seq();
        assert_eq!(last_seq, 1 + 64 + 1 + 64 + 63 + 2 + 200);
        drop(engine);
        assert_eq!(open().reads.visible_seq(), last_seq);
    }
}
