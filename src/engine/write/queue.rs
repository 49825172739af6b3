//! The queue of writers: who leads the next group, and who joins it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::base::sync::{Condvar, Instant, Mutex, yield_until};
use crate::base::{Error, Result};
use crate::format::batch::WriteBatch;
use crate::format::key::MAX_KEY_OR_VALUE_BYTES;

/// A group takes no more batches once it is this large, in bytes.
const MAX_GROUP_BYTES: usize = 1 << 20;

/// A group led by a small write stays small, so that it does not wait for the large ones behind.
const SMALL_WRITE_BYTES: usize = 128 << 10;

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

    pub(super) fn check(&self) -> Result<()> {
        let fits = |bytes: &[u8]| bytes.len() <= MAX_KEY_OR_VALUE_BYTES;
        match self {
            Write::Put(key, value) if fits(key) && fits(value) => Ok(()),
            Write::Delete(key) if fits(key) => Ok(()),
            Write::Batch(batch) => batch.check(),
            _ => Err(Error::invalid("keys and values are shorter than 3 GiB")),
        }
    }

    pub(super) fn append_to(&self, group: &mut WriteBatch) {
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
pub(super) struct Waiter {
    sync: bool,
    bytes: usize,
    pub(super) batch: Mutex<WriteBatch>,
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
    pub(super) fn enter<'a>(&self, write: Write<'a>, sync: bool) -> Result<Write<'a>, Result<()>> {
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
    pub(super) fn gather(&self, last_sync: Duration) {
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
    pub(super) fn group(&self, bytes: usize, sync: bool, group: &mut Vec<Arc<Waiter>>) {
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
    pub(super) fn leave(&self, group: &[Arc<Waiter>], result: &Result<()>) {
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

#[cfg(test)]
mod transcripts;
