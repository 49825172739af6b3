//! A write: a place in the queue, the log, the memtable.
//!
//! The writer at the head of the queue leads: it takes what waits behind it into one group,
//! writes one log record for all, syncs it if any of them asked, inserts everything into the
//! memtable and makes it visible. A group is one batch on disk, so each of its batches is all or
//! nothing. A writer that nobody waits behind pays two uncontended locks and no allocation.
//!
//! Every log begins with an empty batch that says which sequence number comes next. LevelDB and
//! goleveldb replay it without effect; recovery sees by it that the log before lost its end.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::sync::{Condvar, Instant, Mutex, yield_until};
use crate::base::{Error, Result};
use crate::engine::memtable::{Arena, Memtable};
use crate::engine::metrics::StallCause;
use crate::engine::options::WriteOptions;
use crate::engine::version_set::sync_dir;
use crate::engine::wal::{OutgoingLog, SpareLog, failed_sync};
use crate::engine::{Engine, Frozen, pick};
use crate::format::batch::{HEADER_BYTES, WriteBatch};
use crate::format::key::{MAX_KEY_OR_VALUE_BYTES, MAX_SEQ_NO, SeqNo};
use crate::format::name;
use crate::log::LogWriter;

/// A group takes no more batches once it is this large, in bytes.
const MAX_GROUP_BYTES: usize = 1 << 20;

/// A group led by a small write stays small, so that it does not wait for the large ones behind.
const SMALL_WRITE_BYTES: usize = 128 << 10;

/// The group's buffer is given back if one group made it larger than this.
const KEEP_BUFFER_BYTES: usize = 4 << 20;

/// Frozen memtables that may wait for their flush before writes wait for it.
const MAX_FROZEN: usize = 2;

/// Of the time that the last sync took, the part that the next leader may wait for others.
const GATHER_PART: u32 = 2;

/// After so many disappointments in a row a leader waits for others once in two to their power.
const MAX_DISAPPOINTMENTS: u32 = 8;

/// A sync that took no longer is waited for without sleeping: to be woken takes as long.
const MAX_AWAKE: Duration = Duration::from_micros(250);

/// More writers than this sleep.
const MAX_AWAKE_WRITERS: usize = 16;

/// One write, as its caller has it.
pub enum Write<'a> {
    /// A value for a key.
    Put(&'a [u8], &'a [u8]),
    /// No value for a key.
    Delete(&'a [u8]),
    /// Many of both.
    Batch(WriteBatch),
}

impl Write<'_> {
    fn into_batch(self) -> WriteBatch {
        match self {
            Write::Put(key, value) => {
                let mut batch = WriteBatch::new();
                batch.put(key, value);
                batch
            }
            Write::Delete(key) => {
                let mut batch = WriteBatch::new();
                batch.delete(key);
                batch
            }
            Write::Batch(batch) => batch,
        }
    }

    fn check(&self) -> Result<()> {
        let fits = |bytes: &[u8]| bytes.len() <= MAX_KEY_OR_VALUE_BYTES;
        match self {
            Write::Put(key, value) if fits(key) && fits(value) => Ok(()),
            Write::Delete(key) if fits(key) => Ok(()),
            Write::Batch(batch) => batch.check(),
            _ => Err(Error::invalid("keys and values are shorter than 3 GiB")),
        }
    }

    fn append_to(&self, group: &mut WriteBatch) {
        match self {
            Write::Put(key, value) => group.put(key, value),
            Write::Delete(key) => group.delete(key),
            Write::Batch(batch) => group.append(batch),
        }
    }
}

/// Who may write next. Thread-safe.
#[derive(Debug, Default)]
pub struct WriteQueue {
    line: Mutex<Line>,
    /// Told when as many wait as a leader wants.
    gathered: Condvar,
}

#[derive(Debug, Default)]
struct Line {
    /// Whether someone leads a group, or was told to lead the next.
    led: bool,
    waiting: VecDeque<Arc<Waiter>>,
    /// How many the leader waits for; 0 if it does not.
    wanted: usize,
    /// How many may write again at once: those of the last group, and those who waited meanwhile.
    expected: usize,
    /// How often one after another they did not all come.
    disappointments: u32,
    /// How many groups are not waited for.
    impatient: u32,
    /// How long a synced write is waited for without sleeping.
    awake: Duration,
}

/// A writer that waits.
#[derive(Debug)]
struct Waiter {
    sync: bool,
    bytes: usize,
    batch: Mutex<WriteBatch>,
    signal: Mutex<Signal>,
    signalled: Condvar,
}

#[derive(Debug)]
enum Signal {
    Wait,
    /// Lead the next group; the batch is still the waiter's.
    Lead,
    Done(Result<()>),
}

impl Waiter {
    fn wait(&self, awake: Duration) -> Signal {
        yield_until(awake, || !matches!(*self.signal.lock(), Signal::Wait));
        let mut signal = self.signal.lock();
        loop {
            match std::mem::replace(&mut *signal, Signal::Wait) {
                Signal::Wait => self.signalled.wait(&mut signal),
                given => return given,
            }
        }
    }

    fn tell(&self, told: Signal) {
        *self.signal.lock() = told;
        self.signalled.notify_one();
    }
}

impl WriteQueue {
    /// Takes the lead, or waits for it or for a leader to do the work.
    fn enter<'a>(&self, write: Write<'a>, sync: bool) -> Result<Write<'a>, Result<()>> {
        let mut line = self.line.lock();
        if !line.led {
            line.led = true;
            return Ok(write);
        }
        let batch = write.into_batch();
        let waiter = Arc::new(Waiter {
            sync,
            bytes: batch.contents().len(),
            batch: Mutex::new(batch),
            signal: Mutex::new(Signal::Wait),
            signalled: Condvar::new(),
        });
        line.waiting.push_back(waiter.clone());
        if line.waiting.len() == line.wanted {
            self.gathered.notify_one();
        }
        let stay_awake = sync && line.waiting.len() <= MAX_AWAKE_WRITERS;
        let awake = if stay_awake { line.awake } else { Duration::ZERO };
        drop(line);
        match waiter.wait(awake) {
            Signal::Done(result) => Err(result),
            Signal::Lead | Signal::Wait => {
                Ok(Write::Batch(std::mem::take(&mut *waiter.batch.lock())))
            }
        }
    }

    /// Waits a while for those who wrote a moment ago and have only just been told: with them a
    /// group is twice as large, and a sync, which took `last_sync`, serves them all. Where they do
    /// not come it is not tried for a growing number of groups.
    fn gather(&self, last_sync: Duration) {
        let mut line = self.line.lock();
        // One sync that is under way, and the next.
        line.awake = if last_sync <= MAX_AWAKE { 2 * last_sync } else { Duration::ZERO };
        let wanted = line.expected.saturating_sub(1);
        if line.waiting.len() >= wanted {
            return;
        }
        if line.impatient > 0 {
            line.impatient -= 1;
            return;
        }
        let patience = last_sync / GATHER_PART;
        let deadline = Instant::now() + patience;
        if line.awake > Duration::ZERO {
            drop(line);
            yield_until(patience, || self.line.lock().waiting.len() >= wanted);
            line = self.line.lock();
        }
        line.wanted = wanted;
        while line.waiting.len() < wanted {
            if self.gathered.wait_until(&mut line, deadline).timed_out() {
                break;
            }
        }
        line.wanted = 0;
        if line.waiting.len() < wanted {
            line.disappointments = (line.disappointments + 1).min(MAX_DISAPPOINTMENTS);
            line.impatient = 1 << line.disappointments;
        } else {
            line.disappointments = 0;
        }
    }

    /// Takes the waiters that fit into a group led by a write of `bytes`.
    fn group(&self, bytes: usize, sync: bool, group: &mut Vec<Arc<Waiter>>) {
        let limit =
            if bytes <= SMALL_WRITE_BYTES { bytes + SMALL_WRITE_BYTES } else { MAX_GROUP_BYTES };
        let mut size = bytes;
        let mut line = self.line.lock();
        while let Some(next) = line.waiting.front() {
            // A write that is not to be synced does not wait for a disk behind those that are,
            // but one that is must not be let down by a leader that does not sync.
            if (next.sync && !sync) || size.saturating_add(next.bytes) > limit {
                break;
            }
            size += next.bytes;
            group.extend(line.waiting.pop_front());
        }
    }

    /// Hands the lead on, and the group's result to its members.
    fn leave(&self, group: &[Arc<Waiter>], result: &Result<()>) {
        let next = {
            let mut line = self.line.lock();
            let next = line.waiting.pop_front();
            line.led = next.is_some();
            line.expected = group.len() + line.waiting.len() + 1 + usize::from(line.led);
            next
        };
        if let Some(next) = next {
            next.tell(Signal::Lead);
        }
        for waiter in group {
            waiter.tell(Signal::Done(result.clone()));
        }
    }
}

/// What the commit leader holds: the log under way and the memtable it fills.
#[derive(Debug)]
pub struct CommitState {
    /// The log's number.
    pub log_number: u64,
    /// The log's file.
    pub log_path: PathBuf,
    /// The log.
    pub log: LogWriter,
    /// Whether the log's name is durable.
    pub name_synced: bool,
    /// Logs before this one that hold unsynced records: they are synced before a synced write
    /// here is acknowledged, so that what survives is a prefix.
    pub outgoing: Vec<OutgoingLog>,
    /// The last log that recovery replayed and did not flush. Before a synced write is
    /// acknowledged the background makes a table of it: syncing it would not do, for a sync that
    /// failed before this process began may have dropped what can still be read.
    pub replayed_log: Option<u64>,
    /// The memtable that the log's records are in.
    pub mem: Arc<Memtable>,
    /// Where that memtable's bytes are.
    pub arena: Arena,
    /// The size of the memtable at which to look whether it is full, or grows too fast.
    pub look_at: usize,
    /// The last sequence number given.
    pub last_seq: SeqNo,
    /// Whether the log holds records that are not synced.
    pub unsynced: bool,
    /// Set while a batch is inserted and while the memtable is replaced. If a panic leaves it set,
    /// only the next open helps: it replays the log.
    pub half_done: bool,
    /// Where groups are put together.
    pub group: WriteBatch,
    /// How long the last sync took.
    pub last_sync: Duration,
}

impl Engine {
    /// Applies `write`, all or nothing.
    ///
    /// # Errors
    /// I/O errors of the log, after which the database takes no more writes;
    /// [`Error::ReadOnly`] then, and after trouble in the background.
    pub fn write(&self, options: &WriteOptions, write: Write<'_>) -> Result<()> {
        write.check()?;
        let write = match self.queue.enter(write, options.sync) {
            Ok(write) => write,
            Err(done) => return done,
        };
        let mut commit = self.commit.lock();
        let mut group = Vec::new();
        let lead = || self.lead(&mut commit, options.sync, write, &mut group);
        let result = self.contain("a write", lead);
        drop(commit);
        self.queue.leave(&group, &result);
        self.give_a_turn();
        result
    }

    /// Commits `write`, and with it the `group` that it takes from the queue.
    fn lead(
        &self,
        commit: &mut CommitState,
        sync: bool,
        write: Write<'_>,
        group: &mut Vec<Arc<Waiter>>,
    ) -> Result<()> {
        self.make_room(commit, false)?;
        let bytes = match &write {
            Write::Put(key, value) => key.len() + value.len(),
            Write::Delete(key) => key.len(),
            Write::Batch(batch) => batch.contents().len(),
        };
        if sync {
            self.queue.gather(commit.last_sync);
        }
        self.queue.group(bytes, sync, group);
        self.commit_group(commit, sync, write, group)
    }

    fn commit_group(
        &self,
        commit: &mut CommitState,
        sync: bool,
        write: Write<'_>,
        group: &[Arc<Waiter>],
    ) -> Result<()> {
        let mut batch = match write {
            Write::Batch(batch) if group.is_empty() => batch,
            write => {
                let mut merged = std::mem::take(&mut commit.group);
                merged.clear();
                write.append_to(&mut merged);
                for waiter in group {
                    merged.append(&waiter.batch.lock());
                }
                merged
            }
        };
        let result = self.commit_batch(commit, sync, &mut batch);
        if batch.contents().len() <= KEEP_BUFFER_BYTES {
            commit.group = batch;
        }
        result
    }

    fn commit_batch(
        &self,
        commit: &mut CommitState,
        sync: bool,
        batch: &mut WriteBatch,
    ) -> Result<()> {
        let count = batch.len() as u64;
        let first_seq = commit.last_seq + 1;
        if count > MAX_SEQ_NO - commit.last_seq {
            return Err(Error::invalid("the database has used up its sequence numbers"));
        }
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
            // The record may be in the file, whole or in part: nothing may follow it.
            self.fail(error.clone());
            return Err(error);
        }
        commit.last_seq += count;
        commit.half_done = true;
        let applied = commit.mem.insert_batch(contents, first_seq, &mut commit.arena);
        applied.inspect_err(|error| self.fail(error.clone()))?;
        commit.half_done = false;
        self.reads.set_visible_seq(commit.last_seq);
        let metrics = &self.metrics;
        metrics.groups.fetch_add(1, Relaxed);
        metrics.operations.fetch_add(count, Relaxed);
        metrics.user_bytes.fetch_add((contents.len() - HEADER_BYTES) as u64, Relaxed);
        metrics.wal_bytes.store(commit.log.len() + metrics.wal_bytes_before.load(Relaxed), Relaxed);
        Ok(())
    }

    /// Makes everything logged so far durable; the sequence number after that is `next_seq`.
    pub fn sync_log(&self, commit: &mut CommitState, next_seq: SeqNo) -> Result<()> {
        if let Some(number) = commit.replayed_log {
            self.wait_for_flush_of(number)?;
            commit.replayed_log = None;
        }
        if !commit.outgoing.is_empty() {
            // What is in tables by now needs no log.
            let oldest_log = self.state.lock().oldest_log();
            commit.outgoing.retain(|outgoing| outgoing.number >= oldest_log);
        }
        for outgoing in &mut commit.outgoing {
            // One that is not cut ends in zeros, which do no harm.
            let _ = outgoing.log.trim();
            outgoing.log.sync().map_err(|error| {
                failed_sync(&mut outgoing.log, &outgoing.path, outgoing.next_seq, error)
            })?;
        }
        commit.outgoing.clear();
        if !commit.name_synced {
            self.trash.check_directory()?;
            sync_dir(&*self.fs, &self.dir)?;
            commit.name_synced = true;
        }
        let began = Instant::now();
        commit
            .log
            .sync()
            .map_err(|error| failed_sync(&mut commit.log, &commit.log_path, next_seq, error))?;
        commit.last_sync = began.elapsed();
        self.metrics.syncs.fetch_add(1, Relaxed);
        commit.unsynced = false;
        Ok(())
    }

    /// Waits until the log `number` and those before it are in tables.
    fn wait_for_flush_of(&self, number: u64) -> Result<()> {
        let mut state = self.state.lock();
        while state.frozen.front().is_some_and(|frozen| frozen.first_log <= number) {
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            // The background goes, but may still be at a flush.
            if state.closing && !state.flushing {
                state.flushing = true;
                drop(state);
                let flushed = self.contain("a flush", || self.flush_oldest());
                state = self.state.lock();
                state.flushing = false;
                self.changed.notify_all();
                flushed?;
                continue;
            }
            self.wait_for_change(&mut state);
        }
        Ok(())
    }

    /// Sees to it that the memtable may take another group: freezes a full one, after waiting
    /// for flushes and compactions that lag. With `force`, one that holds anything is full.
    pub fn make_room(&self, commit: &mut CommitState, force: bool) -> Result<()> {
        if self.has_failed.load(Relaxed) {
            return Err(self.read_only_error());
        }
        let bytes = commit.mem.bytes();
        if bytes < commit.look_at && !force {
            return Ok(());
        }
        let full = bytes >= self.options.write_buffer_bytes || force;
        if !full {
            self.keep_pace(commit);
            return Ok(());
        }
        if commit.mem.is_empty() {
            return Ok(());
        }
        self.wait_for_room()?;
        self.freeze(commit).inspect_err(|error| self.fail(error.clone()))
    }

    fn wait_for_room(&self) -> Result<()> {
        let began = Instant::now();
        let mut cause = None;
        let mut state = self.state.lock();
        let result = loop {
            if state.closing {
                break Err(Error::Closed);
            }
            if let Some(error) = &state.failed {
                break Err(Error::ReadOnly { reason: Arc::new(error.clone()) });
            }
            let level0 = state.version.level(0).len();
            if state.frozen.len() >= MAX_FROZEN {
                cause = Some(StallCause::Flush);
                state.stall = cause;
                self.wait_for_change(&mut state);
            } else if level0 >= pick::LEVEL0_STOP_FILES {
                if let Some(error) = state.compaction_trouble() {
                    break Err(Error::ReadOnly { reason: Arc::new(error.clone()) });
                }
                cause = Some(StallCause::Level0);
                state.stall = cause;
                self.wait_for_change(&mut state);
            } else {
                break Ok(());
            }
        };
        state.stall = None;
        drop(state);
        if let Some(cause) = cause {
            self.metrics.stall(cause, began.elapsed());
        }
        result
    }

    fn create_log(&self) -> Result<SpareLog> {
        self.trash.check_directory()?;
        let number = self.numbers.take();
        // Known before it is there, so that what is left of a failure is removed with the rest.
        self.state.lock().logs.insert(number, Some(0));
        let plain = !self.options.preallocate_logs;
        SpareLog::create(&*self.fs, &self.dir, number, plain)
            .inspect_err(|_| self.discard_log(number))
    }

    /// Removes a log that could not be begun.
    fn discard_log(&self, number: u64) {
        match self.fs.remove(&self.dir.join(name::log_name(number))) {
            Err(error) if error.kind() != ErrorKind::NotFound => {}
            _ => drop(self.state.lock().logs.remove(&number)),
        }
    }

    /// Makes the next log, which will be needed soon.
    pub fn create_spare_log(&self) {
        // If it cannot be made, who needs it says so.
        let spare = self.create_log().ok();
        self.state.lock().spare_log = spare;
    }

    /// Freezes the memtable and starts the next, with a log of its own.
    pub fn freeze(&self, commit: &mut CommitState) -> Result<()> {
        let spare = self.state.lock().spare_log.take();
        let spare = match spare {
            // One that took its number before the current log did must not come after it.
            Some(spare) if spare.number > commit.log_number => spare,
            _ => self.create_log()?,
        };
        let number = spare.number;
        let begun = spare.begin(commit.last_seq + 1);
        let (path, log) = begun.inspect_err(|_| self.discard_log(number))?;
        commit.half_done = true;
        self.metrics.wal_bytes_before.fetch_add(commit.log.len(), Relaxed);
        let log = std::mem::replace(&mut commit.log, log);
        let path = std::mem::replace(&mut commit.log_path, path);
        let next_seq = commit.last_seq + 1;
        let outgoing = OutgoingLog { number: commit.log_number, path, log, next_seq };
        let mem = Arc::new(Memtable::new(self.reads.order.user(), self.options.write_buffer_bytes));
        let mut state = self.state.lock();
        state.logs.insert(outgoing.number, Some(outgoing.log.len()));
        let oldest_log = state.oldest_log();
        let is_done = |outgoing: &mut OutgoingLog| outgoing.number < oldest_log;
        state.done_logs.extend(commit.outgoing.extract_if(.., is_done));
        match commit.unsynced {
            true => commit.outgoing.push(outgoing),
            false => state.done_logs.push(outgoing),
        }
        let first_log = std::mem::replace(&mut state.mem_log, number);
        let full = std::mem::replace(&mut state.mem, mem.clone());
        let bytes = full.bytes() as u64;
        self.pace.frozen(bytes);
        state.frozen.push_back(Frozen { mem: full, first_log, bytes });
        self.show(&state);
        drop(state);
        self.reads.work.notify_all();
        commit.log_number = number;
        commit.name_synced = false;
        commit.unsynced = false;
        commit.mem = mem;
        commit.look_at = 0;
        commit.arena = Arena::default();
        commit.half_done = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_leader_waits_for_those_who_wrote_before() {
        let queue = WriteQueue::default();
        assert!(queue.enter(Write::Delete(b"lead"), true).is_ok());
        queue.line.lock().expected = 3;
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(5));
                    assert!(matches!(queue.enter(Write::Delete(b"follow"), true), Err(Ok(()))));
                });
            }
            queue.gather(LONG);
            let mut group = Vec::new();
            queue.group(10, true, &mut group);
            assert_eq!(group.len(), 2);
            queue.leave(&group, &Ok(()));
        });
        assert_eq!(queue.line.lock().expected, 3);
    }

    #[test]
    fn a_leader_does_not_wait_again_and_again_for_those_who_do_not_come() {
        let queue = WriteQueue::default();
        queue.line.lock().expected = 2;
        let mut waited = 0;
        for _ in 0..1000 {
            let patient = queue.line.lock().impatient == 0;
            // One that is not patient would wait for a minute.
            queue.gather(if patient { Duration::from_micros(10) } else { LONG });
            waited += u32::from(patient);
        }
        assert!((5..20).contains(&waited), "{waited}");
    }
}
