//! A limit on background I/O: the time for which a flush or a compaction waits after it has read or
//! written.

use std::time::Duration;

use crate::base::sync::{Instant, LockRank, Mutex};
use crate::engine::resources::pool::Lane;

/// A limit in bytes per second. Thread-safe.
#[derive(Debug)]
pub(crate) struct IoLimit {
    bytes_per_second: u64,
    paid: Mutex<Paid>,
}

/// The time at which the limit will have allowed all bytes of flushes that were counted so far, and
/// the same time for the bytes of all work.
#[derive(Debug)]
struct Paid {
    flushes: Instant,
    all: Instant,
}

impl IoLimit {
    pub(crate) fn new(bytes_per_second: u64) -> IoLimit {
        let now = Instant::now();
        let paid = Mutex::ranked(LockRank::Leaf, Paid { flushes: now, all: now });
        IoLimit { bytes_per_second, paid }
    }

    /// Counts `bytes` that were read or written at the time `now`. Returns the time until which
    /// work of the same lane must wait. Unused time is not saved up.
    pub(crate) fn count(&self, lane: Lane, bytes: u64, now: Instant) -> Instant {
        let micros = u128::from(bytes) * 1_000_000 / u128::from(self.bytes_per_second);
        let cost = Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX >> 20));
        let mut paid = self.paid.lock();
        paid.all = paid.all.max(now) + cost;
        match lane {
            Lane::Compaction => paid.all,
            Lane::Flush => {
                paid.flushes = paid.flushes.max(now) + cost;
                paid.flushes
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compactions_wait_for_everything_and_flushes_for_flushes() {
        let limit = IoLimit::new(1000);
        let begin = Instant::now();
        let after = |seconds| begin + Duration::from_secs(seconds);
        assert_eq!(limit.count(Lane::Compaction, 2000, begin), after(2));
        assert_eq!(limit.count(Lane::Compaction, 1000, begin), after(3));
        assert_eq!(limit.count(Lane::Flush, 4000, begin), after(4));
        assert_eq!(limit.count(Lane::Compaction, 0, begin), after(7));
        assert_eq!(limit.count(Lane::Flush, 1000, after(5)), after(6));
        assert_eq!(limit.count(Lane::Compaction, 0, after(6)), after(8));
        // A pause in the work gives no credit.
        assert_eq!(limit.count(Lane::Compaction, 1000, after(100)), after(101));
        // Times beyond the range of a clock do not overflow.
        assert!(limit.count(Lane::Compaction, u64::MAX, begin) > after(1 << 20));
        assert!(limit.count(Lane::Compaction, u64::MAX, begin) > after(1 << 21));
    }
}
