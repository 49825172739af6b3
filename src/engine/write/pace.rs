//! How fast writes may go: with the background, not far ahead of it.
//!
//! A writer that is faster than flushes or compactions must wait in the end. It waits a little and
//! often, so that no single write waits long: each time the memtable has grown by [`STEP_BYTES`].

use std::sync::Arc;
use std::time::Duration;

use crate::base::sync::Instant;
use crate::base::sync::atomic::AtomicU64;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::{Error, Result};
use crate::engine::Engine;
use crate::engine::compact::pick;
use crate::engine::stats::metrics::StallCause;
use crate::engine::write::CommitState;

/// After so much growth of the memtable, in bytes, a writer looks whether it is too fast. Of small
/// entries these are more than a thousand: waits stay out of the 99.9th percentile.
pub const STEP_BYTES: usize = 256 << 10;

/// Frozen memtables that may wait for their flush before writes wait for it.
const MAX_FROZEN: usize = 2;

/// What a flush is thought to take for a mebibyte, in microseconds, before one was timed.
const FIRST_MICROS_PER_MIB: u64 = 4000;

/// The longest wait.
const MAX_WAIT: Duration = Duration::from_micros(2500);

/// Shorter waits are put off: they would take longer than they should.
const MIN_WAIT: Duration = Duration::from_micros(200);

/// What is known of the flushes. Of a memtable's bytes, those count as unflushed that a table does
/// not hold yet.
#[derive(Debug, Default)]
pub struct Pace {
    unflushed: AtomicU64,
    /// What a flush takes for a mebibyte, in microseconds; 0 before the first.
    micros_per_mib: AtomicU64,
}

impl Pace {
    /// A memtable of `bytes` was frozen.
    pub fn frozen(&self, bytes: u64) {
        self.unflushed.fetch_add(bytes, Relaxed);
    }

    /// Part of a frozen memtable is in a table.
    pub fn flushed(&self, bytes: u64) {
        self.unflushed.fetch_sub(bytes, Relaxed);
    }

    /// A memtable of `bytes` was flushed in `time`.
    pub fn timed(&self, bytes: u64, time: Duration) {
        let micros = (time.as_micros() as u64).saturating_mul(1 << 20);
        if let Some(micros) = micros.checked_div(bytes) {
            self.micros_per_mib.store(micros, Relaxed);
        }
    }

    /// How far a memtable of so many bytes is ahead of the flush of those before it: the time that
    /// the flush needs to get as far. It is to be done when the memtable is half full, so that
    /// memory holds no more than one and a half of them.
    fn lead(&self, mem_bytes: usize, write_buffer_bytes: usize) -> Duration {
        let unflushed = self.unflushed.load(Relaxed);
        if unflushed == 0 {
            return Duration::ZERO;
        }
        let held = unflushed.saturating_add(2 * mem_bytes as u64);
        let ahead = held.saturating_sub(write_buffer_bytes as u64);
        let micros_per_mib = match self.micros_per_mib.load(Relaxed) {
            0 => FIRST_MICROS_PER_MIB,
            known => known,
        };
        Duration::from_micros((ahead >> 10).saturating_mul(micros_per_mib) >> 10)
    }
}

impl Engine {
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

    /// Holds a writer back as much as it is ahead of the background.
    pub fn keep_pace(&self, commit: &mut CommitState) {
        let mem_bytes = commit.mem.bytes();
        let full = self.options.write_buffer_bytes;
        commit.look_at = mem_bytes.saturating_add(STEP_BYTES.min(full / 4)).min(full);
        let mut wait = self.pace.lead(mem_bytes, full);
        let mut state = self.state.lock();
        // The next open could not go on with the last log if an empty one followed it.
        let may_be_made = !self.options.reuse_logs && !state.wants_spare_log;
        if mem_bytes >= full / 2 && may_be_made && state.spare_log.is_none() {
            state.wants_spare_log = true;
            self.reads.work.notify_all();
        }
        let level0 = state.version.level(0).len();
        if let Some(over) = level0.checked_sub(pick::LEVEL0_SLOWDOWN_FILES) {
            wait = wait.max(MAX_WAIT / 8 * (over as u32 + 1).min(8));
        }
        if wait < MIN_WAIT || state.closing || state.failed.is_some() {
            return;
        }
        let began = Instant::now();
        state.stall = Some(StallCause::Slowdown);
        match self.inline {
            None => drop(self.changed.wait_for(&mut state, wait.min(MAX_WAIT))),
            Some(_) => self.wait_for_change(&mut state),
        }
        state.stall = None;
        drop(state);
        self.metrics.stall(StallCause::Slowdown, began.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_is_ahead_of_a_flush_that_would_not_end_at_half_a_buffer() {
        const MIB: usize = 1 << 20;
        let pace = Pace::default();
        assert_eq!(pace.lead(64 * MIB, 64 * MIB), Duration::ZERO, "nothing to flush");
        pace.frozen(64 << 20);
        assert_eq!(pace.lead(0, 64 * MIB), Duration::ZERO);
        assert_eq!(pace.lead(MIB, 64 * MIB), Duration::from_millis(8), "a guess");
        pace.timed(64 << 20, Duration::from_millis(640));
        assert_eq!(pace.lead(MIB, 64 * MIB), Duration::from_millis(20));
        pace.flushed(32 << 20);
        assert_eq!(pace.lead(16 * MIB, 64 * MIB), Duration::ZERO);
        assert_eq!(pace.lead(17 * MIB, 64 * MIB), Duration::from_millis(20));
        pace.flushed(32 << 20);
        assert_eq!(pace.lead(64 * MIB, 64 * MIB), Duration::ZERO);
    }
}

#[cfg(test)]
mod transcripts;
