//! The one door to locks, atomics, threads and time.
//!
//! In an ordinary build these are `parking_lot`, `arc_swap`, `crossbeam_skiplist` and the standard
//! library, by their own names and at no cost. With `RUSTFLAGS="--cfg shuttle"` they are stand-ins
//! with the same methods, over those of [shuttle](https://docs.rs/shuttle): a scheduler which
//! decides at every one of them who goes on. `tests/shuttle` runs the engine so, under many
//! schedules.
//!
//! What stays outside, and why, is listed in `tests/layers`. `Arc` does: who drops the last one is
//! decided by the schedule too.

#[cfg(not(shuttle))]
mod real {
    pub use std::sync::atomic;
    pub use std::thread;
    use std::time::Duration;
    pub use std::time::Instant;

    pub use arc_swap::{ArcSwap, ArcSwapAny, ArcSwapOption, Guard};
    pub use crossbeam_skiplist::SkipMap;
    pub use crossbeam_skiplist::map::Entry as SkipEntry;
    pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};

    /// Gives way to other threads until `done`, and no longer than `limit`. For waits that take
    /// about as long as to fall asleep and be woken.
    pub fn yield_until(limit: Duration, mut done: impl FnMut() -> bool) {
        if limit.is_zero() {
            return;
        }
        let began = Instant::now();
        while !done() && began.elapsed() < limit {
            thread::yield_now();
        }
    }
}

#[cfg(not(shuttle))]
pub use real::*;

#[cfg(shuttle)]
mod scheduled;

#[cfg(shuttle)]
pub use scheduled::*;
