//! The only module through which the library uses locks, atomics, threads and time.
//!
//! In an ordinary build, this module re-exports `parking_lot`, `arc_swap`, `crossbeam_skiplist` and
//! the standard library, at no cost. With debug assertions, a mutex also checks that locks are
//! taken in the order of their [`LockRank`]. With `RUSTFLAGS="--cfg shuttle"`, the module contains
//! stand-ins with the same methods, built on [shuttle](https://docs.rs/shuttle): a scheduler that
//! decides at each call which thread continues. `tests/shuttle` runs the engine with these
//! stand-ins, under many schedules. With `RUSTFLAGS="--cfg minikv_loom"`, [`lock_free`] contains
//! stand-ins built on [loom](https://docs.rs/loom), whose loads also return the old values that
//! memory orderings allow; `engine/memtable/weak_orders.rs` explores them.
//!
//! `tests/layers` lists the uses of locks, atomics, threads and time that bypass this module, and
//! gives the reasons. `Arc` also bypasses it, because the schedule already decides which thread
//! drops the last reference.

#[cfg(not(shuttle))]
mod real {
    pub(crate) use std::sync::atomic;
    pub(crate) use std::thread;
    pub(crate) use std::thread_local;
    use std::time::Duration;
    pub(crate) use std::time::Instant;

    pub(crate) use arc_swap::{ArcSwap, ArcSwapAny, ArcSwapOption, Guard};
    pub(crate) use crossbeam_skiplist::SkipMap;
    pub(crate) use crossbeam_skiplist::map::Entry as SkipEntry;
    pub(super) use parking_lot as raw;
    pub(crate) use parking_lot::{RwLock, WaitTimeoutResult};

    /// Yields to other threads until `done` returns true, for at most `limit`. Meant for waits that
    /// take about as long as parking and waking a thread.
    pub(crate) fn yield_until(limit: Duration, mut done: impl FnMut() -> bool) {
        if limit.is_zero() {
            return;
        }
        let began = Instant::now();
        while !done() && began.elapsed() < limit {
            thread::yield_now();
        }
    }
}

/// The primitives of the lock-free parts, whose memory orderings matter.
#[cfg(not(minikv_loom))]
pub(crate) mod lock_free {
    pub(crate) use std::sync::OnceLock;

    pub(crate) use super::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
}

#[cfg(minikv_loom)]
pub(crate) mod lock_free;

mod rank;

pub(crate) use rank::{Condvar, LockRank, Mutex, MutexGuard};
#[cfg(not(shuttle))]
pub(crate) use real::*;

#[cfg(shuttle)]
mod scheduled;

#[cfg(shuttle)]
use scheduled as raw;
#[cfg(shuttle)]
pub(crate) use scheduled::{
    ArcSwap, ArcSwapAny, ArcSwapOption, Guard, Instant, RwLock, SkipEntry, SkipMap,
    WaitTimeoutResult, atomic, thread, yield_until,
};
#[cfg(shuttle)]
pub(crate) use shuttle::thread_local;
