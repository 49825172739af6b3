//! Makes flushes and merges wait if [`Resources`](crate::Resources) limits background I/O.

use crate::base::sync::Instant;
use crate::engine::Engine;
use crate::engine::resources::limit::IoLimit;
use crate::engine::resources::pool::Lane;

/// Size in memory, in bytes, of the entries that a merge processes between two waits. With a higher
/// number, waits are rarer and longer.
const STEP_BYTES: u64 = 256 << 10;

/// Counts the I/O of one flush or merge, and waits if the limit requires it. Does nothing if there
/// is no limit.
pub(crate) struct Meter<'a> {
    engine: &'a Engine,
    /// The limit; `None` if there is no limit, or in deterministic mode, which ignores time.
    limit: Option<&'a IoLimit>,
    lane: Lane,
    /// Number of bytes counted so far.
    counted: u64,
    /// Size in memory, in bytes, of the entries since the last wait.
    passed: u64,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(engine: &'a Engine, lane: Lane) -> Meter<'a> {
        let limit = engine.options.resources.limit.as_deref();
        let limit = limit.filter(|_| engine.inline.is_none());
        Meter { engine, limit, lane, counted: 0, passed: 0 }
    }

    /// Counts a processed entry of `bytes` bytes. Once the entries since the last wait add up to
    /// [`STEP_BYTES`], calls [`Meter::count_to`] with the result of `total`, which is the number of
    /// bytes read and written so far.
    #[inline]
    pub(crate) fn pass(&mut self, bytes: usize, total: impl FnOnce() -> u64) {
        if self.limit.is_some() {
            self.passed += bytes as u64;
            if self.passed >= STEP_BYTES {
                self.passed = 0;
                self.count_to(total());
            }
        }
    }

    /// Counts the bytes read and written since the previous call; `total` is the number of bytes
    /// since the beginning. Then waits for as long as the limit demands, or until the database is
    /// closed.
    pub(crate) fn count_to(&mut self, total: u64) {
        let Some(limit) = self.limit else { return };
        let bytes = total.saturating_sub(self.counted);
        self.counted = self.counted.max(total);
        let until = limit.count(self.lane, bytes, Instant::now());
        let mut state = self.engine.state.lock();
        while !state.lifecycle.closing && Instant::now() < until {
            self.engine.changed.wait_until(&mut state, until);
        }
    }
}
