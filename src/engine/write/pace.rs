//! The pace of writes: how far they are ahead of the flushes. [`room`](super::room) makes writers
//! wait accordingly.

use std::sync::Arc;
use std::time::Duration;

use crate::base::sync::atomic::AtomicU64;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::engine::resources::memory::{Memory, MemtableShare};

/// Assumed duration of a flush, in microseconds per mebibyte, until the first flush is timed. A
/// higher value makes the first waits longer.
const FIRST_MICROS_PER_MIB: u64 = 4000;

/// The progress of flushes, from which writers compute how long to wait. Thread-safe.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// The memtables' share of the memory budget, if there is one.
    share: Option<Arc<MemtableShare>>,
    /// Bytes of frozen memtables that are not in a table yet.
    unflushed: AtomicU64,
    /// Bytes of the memtable being flushed that are already in the table.
    written: AtomicU64,
    /// Microseconds per mebibyte that the last flush took; 0 before the first flush.
    micros_per_mib: AtomicU64,
}

impl Pace {
    /// Creates the pace of a database whose memtables count against the budget `memory`, if any.
    pub(crate) fn new(memory: Option<&Arc<Memory>>) -> Pace {
        Pace { share: memory.map(Memory::join), ..Pace::default() }
    }

    /// Returns the memtables' share of the memory budget, if there is one.
    pub(crate) fn share(&self) -> Option<&Arc<MemtableShare>> {
        self.share.as_ref()
    }

    /// Records that no memtable can be flushed until [`can_flush`](Pace::can_flush) is called.
    pub(crate) fn cannot_flush(&self) {
        if let Some(share) = &self.share {
            share.set_stuck(true);
        }
    }

    /// Records that memtables can be flushed again.
    pub(crate) fn can_flush(&self) {
        if let Some(share) = &self.share {
            share.set_stuck(false);
        }
    }

    /// Records that a memtable of `bytes` bytes was frozen.
    pub(crate) fn frozen(&self, bytes: u64) {
        self.unflushed.fetch_add(bytes, Relaxed);
        if let Some(share) = &self.share {
            share.frozen(bytes);
        }
    }

    /// Begins the flush of a frozen memtable of `bytes` bytes. Resets the progress of a flush that
    /// failed, because the next flush starts from the beginning.
    pub(crate) fn flush(&self, bytes: u64) -> FlushProgress<'_> {
        self.written.store(0, Relaxed);
        FlushProgress { pace: self, bytes }
    }

    /// Records that a memtable of `bytes` bytes was flushed in `time`.
    pub(crate) fn timed(&self, bytes: u64, time: Duration) {
        let micros = (time.as_micros() as u64).saturating_mul(1 << 20);
        if let Some(micros) = micros.checked_div(bytes) {
            self.micros_per_mib.store(micros, Relaxed);
        }
    }

    /// Returns the time that the flush of earlier memtables needs to catch up with a memtable of
    /// `mem_bytes` bytes. The flush should end by the time the memtable is half full, so that
    /// memory holds at most one and a half memtables.
    pub(super) fn lead(&self, mem_bytes: usize, write_buffer_bytes: usize) -> Duration {
        let unflushed = self.unflushed.load(Relaxed).saturating_sub(self.written.load(Relaxed));
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

/// The progress of the running flush. Only one flush runs at a time.
pub(crate) struct FlushProgress<'a> {
    pace: &'a Pace,
    /// Size of the memtable being flushed, in bytes.
    bytes: u64,
}

impl FlushProgress<'_> {
    /// Records that another `bytes` bytes of the memtable are in the table.
    pub(crate) fn advance(&self, bytes: u64) {
        let written = self.pace.written.load(Relaxed).saturating_add(bytes);
        self.pace.written.store(written.min(self.bytes), Relaxed);
    }

    /// Records that the whole memtable is in a table of the current version.
    pub(crate) fn done(self) {
        let unflushed = self.pace.unflushed.fetch_sub(self.bytes, Relaxed);
        debug_assert!(self.bytes <= unflushed, "{} bytes flushed of {unflushed}", self.bytes);
        self.pace.written.store(0, Relaxed);
        if let Some(share) = &self.pace.share {
            share.flushed(self.bytes);
        }
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
        let flush = pace.flush(64 << 20);
        flush.advance(32 << 20);
        assert_eq!(pace.lead(16 * MIB, 64 * MIB), Duration::ZERO);
        assert_eq!(pace.lead(17 * MIB, 64 * MIB), Duration::from_millis(20));
        flush.done();
        assert_eq!(pace.lead(64 * MIB, 64 * MIB), Duration::ZERO);
    }

    #[test]
    fn the_progress_of_a_flush_that_failed_is_forgotten() {
        const MIB: u64 = 1 << 20;
        let pace = Pace::default();
        pace.frozen(64 * MIB);
        let lead = || pace.lead(0, 0);
        let all = lead();
        // The estimated sizes of the entries may add up to more than the size of the memtable.
        for (reported, left) in [(32, all / 2), (128, Duration::ZERO)] {
            let flush = pace.flush(64 * MIB);
            assert_eq!(lead(), all);
            flush.advance(reported * MIB);
            assert_eq!(lead(), left);
        }
        pace.flush(64 * MIB).done();
        assert_eq!(lead(), Duration::ZERO);
        pace.frozen(64 * MIB);
        assert_eq!(lead(), all);
    }
}
