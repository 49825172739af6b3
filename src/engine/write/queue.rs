//! The queue of writers: who leads the next group, and who joins it.
//!
//! 1. A writer enters the queue. If there is no leader, the writer leads; otherwise it copies its
//!    write into a batch and waits.
//! 2. The leader of a synced group may wait briefly for the writers of the last group to write
//!    again ([`WriteQueue::gather`]).
//! 3. The leader takes waiters from the front of the queue as long as they fit
//!    ([`WriteQueue::group`]), merges their batches and commits them as one batch.
//! 4. The leader hands the lead to the next waiter, if there is one, and the result to its group
//!    ([`WriteQueue::leave`]).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::base::sync::{Condvar, Instant, LockRank, Mutex, MutexGuard, yield_until};
use crate::base::{Error, Result};
use crate::engine::write::check::Check;
use crate::format::batch::WriteBatch;
use crate::format::key::MAX_KEY_OR_VALUE_BYTES;

/// Size in bytes above which a group takes no more batches. A higher limit makes groups larger and
/// the writers in them wait longer.
const MAX_GROUP_BYTES: usize = 1 << 20;

/// Size in bytes up to which a write counts as small. A group led by a small write takes at most
/// this many bytes from other writes, so that the small write does not wait for large ones. A
/// higher limit makes groups larger and small writes slower.
const SMALL_WRITE_BYTES: usize = 128 << 10;

/// Ratio of the duration of the last sync to the maximum time for which a leader waits for the
/// previous group's writers to write again. A higher ratio shortens the wait and makes groups
/// smaller.
const GATHER_DIVISOR: u32 = 2;

/// Largest value of the exponent `n` of the back-off for gathering: after `n` consecutive timeouts,
/// the next 2^`n` groups do not wait. With a higher limit, leaders wait in vain less often, but
/// take longer to notice that writers come back again.
const MAX_TIMEOUTS: u32 = 8;

/// Duration of the last sync up to which followers spin instead of parking: waking a parked thread
/// takes about as long as such a sync. A higher limit saves wake-ups and uses more processor time.
const MAX_SPIN: Duration = Duration::from_micros(250);

/// Number of writers in the queue above which new writers park instead of spinning. A higher limit
/// uses more processor time.
const MAX_SPINNING_WRITERS: usize = 16;

/// A write on its way into the queue. Puts and deletes borrow from the caller, so that a writer
/// that is alone in its group allocates nothing.
pub(crate) enum Write<'a> {
    /// Sets the value of a key.
    Put(&'a [u8], &'a [u8]),
    /// Removes a key.
    Delete(&'a [u8]),
    /// Applies any number of puts and deletes atomically.
    Batch(WriteBatch),
    /// Applies a batch if the check passes when the batch is about to be committed.
    Checked(WriteBatch, Arc<Check>),
}

impl Write<'_> {
    fn into_batch(self) -> (WriteBatch, Option<Arc<Check>>) {
        let batch = match self {
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
            Write::Checked(batch, check) => return (batch, Some(check)),
        };
        (batch, None)
    }

    #[inline]
    fn check(&self) -> Result<()> {
        let fits = |bytes: &[u8]| bytes.len() <= MAX_KEY_OR_VALUE_BYTES;
        match self {
            Write::Put(key, value) if fits(key) && fits(value) => Ok(()),
            Write::Delete(key) if fits(key) => Ok(()),
            Write::Batch(batch) | Write::Checked(batch, _) => batch.check(),
            _ => Err(Error::invalid("keys and values are shorter than 3 GiB")),
        }
    }

    /// Returns the size of the write, in bytes.
    #[inline]
    fn bytes(&self) -> usize {
        match self {
            Write::Put(key, value) => key.len() + value.len(),
            Write::Delete(key) => key.len(),
            Write::Batch(batch) | Write::Checked(batch, _) => batch.contents().len(),
        }
    }

    #[inline]
    fn append_to(&self, group: &mut WriteBatch) {
        match self {
            Write::Put(key, value) => group.put(key, value),
            Write::Delete(key) => group.delete(key),
            Write::Batch(batch) | Write::Checked(batch, _) => group.append(batch),
        }
    }
}

/// The next step of a writer that has entered the queue.
pub(super) enum Turn<'a> {
    /// Lead a group that begins with this write.
    Lead(Write<'a>),
    /// Return this result: another leader has handled the write, or the write is invalid.
    Done(Result<()>),
}

/// The queue of writers, in order of arrival. Thread-safe.
#[derive(Debug)]
pub(crate) struct WriteQueue {
    line: Mutex<Line>,
    /// Notified when the number of waiting writers reaches `Line::wanted`.
    gathered: Condvar,
}

impl Default for WriteQueue {
    fn default() -> WriteQueue {
        let line = Mutex::ranked(LockRank::Line, Line::default());
        WriteQueue { line, gathered: Condvar::new() }
    }
}

#[derive(Debug, Default)]
struct Line {
    /// Whether a writer leads a group, or has been chosen to lead the next one.
    led: bool,
    /// Writers that wait, in order of arrival.
    waiting: VecDeque<Arc<Waiter>>,
    /// Number of waiting writers at which the leader stops gathering; 0 if it is not gathering.
    wanted: usize,
    /// Number of writers that may soon write again: the members of the last group, and the writers
    /// that were waiting when the group ended.
    expected: usize,
    /// Number of consecutive gathers that timed out.
    timeouts: u32,
    /// Number of groups still to commit without gathering (the back-off).
    ungathered: u32,
    /// Time for which a follower of a synced group spins before it parks.
    spin: Duration,
}

impl Line {
    /// Checks the invariants that hold whenever no thread holds the queue's lock.
    fn check(&self) {
        debug_assert!(self.led || self.waiting.is_empty(), "writers wait and nobody leads");
        debug_assert!(self.led || self.wanted == 0, "nobody leads, but a leader waits");
        debug_assert!(self.timeouts <= MAX_TIMEOUTS, "the back-off is unbounded");
        debug_assert!(self.ungathered <= 1 << self.timeouts, "a back-off without timeouts");
        debug_assert!(self.spin <= 2 * MAX_SPIN, "followers spin for {:?}", self.spin);
    }
}

/// A waiting writer and its write.
#[derive(Debug)]
pub(super) struct Waiter {
    sync: bool,
    bytes: usize,
    pub(super) batch: Mutex<WriteBatch>,
    /// Check that must pass before the batch is applied.
    pub(super) check: Option<Arc<Check>>,
    signal: Mutex<Signal>,
    signalled: Condvar,
}

#[derive(Debug)]
enum Signal {
    Wait,
    /// Lead the next group. The batch is still in the waiter.
    Lead,
    Done(Result<()>),
}

impl Waiter {
    /// Waits for a signal and returns it. Spins for `spin` before parking.
    fn wait(&self, spin: Duration) -> Signal {
        yield_until(spin, || !matches!(*self.signal.lock(), Signal::Wait));
        let mut signal = self.signal.lock();
        loop {
            match std::mem::replace(&mut *signal, Signal::Wait) {
                Signal::Wait => self.signalled.wait(&mut signal),
                given => return given,
            }
        }
    }

    fn give(&self, given: Signal) {
        let before = std::mem::replace(&mut *self.signal.lock(), given);
        debug_assert!(matches!(before, Signal::Wait), "a waiter is signalled once");
        self.signalled.notify_one();
    }
}

/// The waiters that a leader took from the queue.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// Waiters whose writes are committed with the leader's.
    pub members: Vec<Arc<Waiter>>,
    /// Waiters whose checks failed, and the errors. These waiters also wait for the end of the
    /// group, so that a transaction that is run again sees the write that it conflicted with.
    pub refused: Vec<(Arc<Waiter>, Error)>,
}

impl Group {
    /// Gives `result` to the members, and each refused waiter its own error.
    #[inline(never)]
    fn give(self, result: &Result<()>) {
        for waiter in self.members {
            waiter.give(Signal::Done(result.clone()));
        }
        for (waiter, error) in self.refused {
            waiter.give(Signal::Done(Err(error)));
        }
    }
}

impl WriteQueue {
    /// Makes the writer the leader, or waits until the lead is handed to it or another leader has
    /// handled the write. Returns the writer's next step. Refuses a write with a key or value that
    /// is too long, and one for which `may_wait` fails, which is called before the writer waits.
    #[inline]
    pub(super) fn enter<'a>(
        &self,
        write: Write<'a>,
        sync: bool,
        may_wait: impl Fn() -> Result<()>,
    ) -> Turn<'a> {
        let checked = write.check().and_then(|()| self.line.lock_after(&may_wait));
        let mut line = match checked {
            Ok(line) => line,
            Err(error) => return Turn::Done(Err(error)),
        };
        line.check();
        if line.led
            && let Err(error) = MutexGuard::unlocked(&mut line, may_wait)
        {
            return Turn::Done(Err(error));
        }
        // The leader may have left meanwhile.
        if !line.led {
            line.led = true;
            return Turn::Lead(write);
        }
        self.wait_in(line, write, sync)
    }

    /// Waits in `line` until this writer is given the lead or another leader has handled the write.
    #[inline(never)]
    fn wait_in<'a>(
        &self,
        mut line: MutexGuard<'_, Line>,
        write: Write<'a>,
        sync: bool,
    ) -> Turn<'a> {
        let (batch, check) = write.into_batch();
        let waiter = Arc::new(Waiter {
            sync,
            bytes: batch.contents().len(),
            batch: Mutex::ranked(LockRank::Leaf, batch),
            check,
            signal: Mutex::ranked(LockRank::Leaf, Signal::Wait),
            signalled: Condvar::new(),
        });
        line.waiting.push_back(waiter.clone());
        if line.waiting.len() == line.wanted {
            self.gathered.notify_one();
        }
        let spins = sync && line.waiting.len() <= MAX_SPINNING_WRITERS;
        let spin = if spins { line.spin } else { Duration::ZERO };
        drop(line);
        match waiter.wait(spin) {
            Signal::Done(result) => Turn::Done(result),
            Signal::Lead | Signal::Wait => {
                let batch = std::mem::take(&mut *waiter.batch.lock());
                Turn::Lead(match &waiter.check {
                    None => Write::Batch(batch),
                    Some(check) => Write::Checked(batch, check.clone()),
                })
            }
        }
    }

    /// Moves waiters from the queue to `group`, which is led by `write`. If the group is synced,
    /// first waits for more writers. `last_sync` is the duration of the last sync.
    #[inline]
    pub(super) fn take_group(
        &self,
        write: &Write<'_>,
        sync: bool,
        last_sync: Duration,
        group: &mut Vec<Arc<Waiter>>,
    ) {
        if sync {
            self.gather(last_sync);
        }
        self.group(write.bytes(), sync, group);
    }

    /// Waits briefly for the writers of the last group to write again, so that the next group is
    /// about twice as large and one sync serves all its writers. `last_sync` is the duration of the
    /// last sync. Each time the writers do not write again in time, the wait is skipped for more
    /// groups.
    fn gather(&self, last_sync: Duration) {
        let mut line = self.line.lock();
        debug_assert!(line.led, "the leader gathers");
        // A follower waits for the running sync, and then for the sync of its own group.
        line.spin = if last_sync <= MAX_SPIN { 2 * last_sync } else { Duration::ZERO };
        let wanted = line.expected.saturating_sub(1);
        if line.waiting.len() >= wanted {
            return;
        }
        if line.ungathered > 0 {
            line.ungathered -= 1;
            return;
        }
        let patience = last_sync / GATHER_DIVISOR;
        let deadline = Instant::now() + patience;
        if line.spin > Duration::ZERO {
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
            line.timeouts = (line.timeouts + 1).min(MAX_TIMEOUTS);
            line.ungathered = 1 << line.timeouts;
        } else {
            line.timeouts = 0;
        }
        line.check();
    }

    /// Moves waiters from the front of the queue to `group`, as long as they fit into a group led
    /// by a write of `bytes` bytes.
    #[inline]
    fn group(&self, bytes: usize, sync: bool, group: &mut Vec<Arc<Waiter>>) {
        let limit =
            if bytes <= SMALL_WRITE_BYTES { bytes + SMALL_WRITE_BYTES } else { MAX_GROUP_BYTES };
        let mut size = bytes;
        let mut line = self.line.lock();
        debug_assert!(line.led, "the leader takes its group");
        while let Some(next) = line.waiting.front() {
            // An unsynced write may join a synced group, but a synced write must not join a group
            // whose leader does not sync.
            if (next.sync && !sync) || size.saturating_add(next.bytes) > limit {
                break;
            }
            size += next.bytes;
            group.extend(line.waiting.pop_front());
        }
    }

    /// Hands the lead to the next waiter, and the result to the members of the group.
    #[inline]
    pub(super) fn leave(&self, group: Group, result: &Result<()>) {
        let next = {
            let mut line = self.line.lock();
            debug_assert!(line.led, "the leader leaves");
            let next = line.waiting.pop_front();
            line.led = next.is_some();
            line.expected = group.members.len() + line.waiting.len() + 1 + usize::from(line.led);
            line.check();
            next
        };
        if let Some(next) = next {
            next.give(Signal::Lead);
        }
        if !group.members.is_empty() || !group.refused.is_empty() {
            group.give(result);
        }
    }
}

/// Returns the merged batches of a group. Reuses the memory of `buffer`, unless the leader is alone
/// and its write is already a batch.
#[inline]
pub(super) fn merge_group(
    write: Write<'_>,
    group: &[Arc<Waiter>],
    buffer: &mut WriteBatch,
) -> WriteBatch {
    match write {
        Write::Batch(batch) | Write::Checked(batch, _) if group.is_empty() => batch,
        write => {
            let mut merged = std::mem::take(buffer);
            merged.clear();
            write.append_to(&mut merged);
            for waiter in group {
                merged.append(&waiter.batch.lock());
            }
            merged
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// The zeros are never touched, so they take no memory.
    #[cfg(target_pointer_width = "64")]
    #[test]
    fn a_write_with_a_key_or_value_that_is_too_long_is_refused() {
        let zeros = vec![0; MAX_KEY_OR_VALUE_BYTES + 1];
        let check = |bytes: &[u8]| {
            [Write::Put(bytes, b""), Write::Put(b"", bytes), Write::Delete(bytes)]
                .map(|write| matches!(write.check(), Err(Error::InvalidArgument { .. })))
        };
        assert_eq!(check(&zeros), [true; 3]);
        assert_eq!(check(&zeros[1..]), [false; 3]);
    }

    #[test]
    fn a_leader_waits_for_as_many_writers_as_before() {
        let queue = WriteQueue::default();
        assert!(matches!(queue.enter(Write::Delete(b"lead"), true, || Ok(())), Turn::Lead(_)));
        queue.line.lock().expected = 3;
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(5));
                    let turn = queue.enter(Write::Delete(b"follow"), true, || Ok(()));
                    assert!(matches!(turn, Turn::Done(Ok(()))));
                });
            }
            queue.gather(LONG);
            let mut group = Vec::new();
            queue.group(10, true, &mut group);
            assert_eq!(group.len(), 2);
            queue.leave(Group { members: group, refused: Vec::new() }, &Ok(()));
        });
        assert_eq!(queue.line.lock().expected, 3);
    }

    /// Checks that a large write of any kind takes no other write into its group, and that a small
    /// write takes one.
    #[test]
    fn a_group_is_as_large_as_its_leader_allows() {
        let large = vec![b'x'; MAX_GROUP_BYTES];
        for (bytes, joined) in [(&b"x"[..], 1), (&large[..], 0)] {
            let mut batch = WriteBatch::new();
            batch.put(b"key", bytes);
            let writes = [
                Write::Put(b"", bytes),
                Write::Put(bytes, b""),
                Write::Delete(bytes),
                Write::Batch(batch),
            ];
            for write in writes {
                let queue = WriteQueue::default();
                assert!(matches!(
                    queue.enter(Write::Delete(b"lead"), false, || Ok(())),
                    Turn::Lead(_)
                ));
                queue.line.lock().waiting.push_back(Arc::new(Waiter {
                    sync: false,
                    bytes: 20,
                    batch: Mutex::new(WriteBatch::new()),
                    check: None,
                    signal: Mutex::new(Signal::Wait),
                    signalled: Condvar::new(),
                }));
                let mut group = Vec::new();
                queue.take_group(&write, false, Duration::ZERO, &mut group);
                assert_eq!(group.len(), joined, "{} bytes", bytes.len());
            }
        }
    }

    #[test]
    fn a_leader_waits_ever_less_often_for_writers_that_do_not_come() {
        let queue = WriteQueue::default();
        assert!(matches!(queue.enter(Write::Delete(b"lead"), true, || Ok(())), Turn::Lead(_)));
        queue.line.lock().expected = 2;
        let mut waited = 0;
        for _ in 0..1000 {
            let patient = queue.line.lock().ungathered == 0;
            // Without the back-off, the leader would wait for half a minute.
            queue.gather(if patient { Duration::from_micros(10) } else { LONG });
            waited += u32::from(patient);
        }
        assert!((5..20).contains(&waited), "{waited}");
    }
}

#[cfg(test)]
mod transcripts;
