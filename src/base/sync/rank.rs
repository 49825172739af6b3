//! Mutexes with a rank in the lock order.
//!
//! Each thread takes locks only in ascending order of their [`LockRank`], so that these locks
//! cannot cause a deadlock. Builds with debug assertions check this order whenever a lock is taken,
//! and panic if it is violated, even if no other thread is waiting at that moment. Other builds
//! store no rank and check nothing: in these builds, a [`Mutex`] is only its inner mutex.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use super::{Instant, WaitTimeoutResult, raw};

/// The locks of the library, in the order in which a thread may take them. The documentation of the
/// module `engine` says what each lock guards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LockRank {
    /// The position up to which a followed database has been read.
    Follow,
    /// The handles of an engine's background threads.
    Workers,
    /// The handles of the threads of a pool.
    PoolThreads,
    /// Held by the only ingest that may currently add tables.
    Ingest,
    /// The current log and the memtable it fills.
    Commit,
    /// The queue of writers.
    Line,
    /// The MANIFEST.
    Manifest,
    /// The engine's state.
    State,
    /// The sequence numbers that snapshots hold.
    Snapshots,
    /// A table that is being opened.
    Opening,
    /// The tables that are open.
    OpenTables,
    /// The large blocks of a block cache.
    LargeBlocks,
    /// A shard of a block cache.
    Shard,
    /// The sorted part of a memtable.
    Covered,
    /// The shared tally of reads, for threads that have no tally of their own.
    SharedTally,
    /// A lock under which no other lock is taken.
    Leaf,
}

#[cfg(debug_assertions)]
mod order {
    use std::cell::Cell;

    use super::LockRank;

    super::super::thread_local! {
        /// Ranks of the locks that the thread holds, as a bit set.
        static HELD: Cell<u32> = const { Cell::new(0) };
    }

    /// The rank of a lock; a lock without a rank is not checked.
    #[derive(Clone, Copy)]
    pub(super) struct Order(Option<LockRank>);

    impl Order {
        /// Wraps the rank of a lock; `None` means that the lock is not checked.
        pub(super) const fn new(rank: Option<LockRank>) -> Order {
            Order(rank)
        }

        /// Records that the thread is about to hold a lock of this rank.
        #[track_caller]
        pub(super) fn enter(self) {
            let Some(rank) = self.0 else { return };
            let bit = 1 << rank as u32;
            // A thread that is ending may have destroyed `HELD` already.
            let _ = HELD.try_with(|held| {
                let now = held.get();
                let is_above = now < bit;
                assert!(
                    is_above || std::thread::panicking(),
                    "lock order: {rank:?} is taken while a lock of its rank or after it is held \
                     (ranks held: {now:#b})"
                );
                held.set(now | bit);
            });
        }

        /// Records that the thread no longer holds the lock of this rank.
        pub(super) fn exit(self) {
            let Some(rank) = self.0 else { return };
            let _ = HELD.try_with(|held| held.set(held.get() & !(1 << rank as u32)));
        }
    }
}

#[cfg(not(debug_assertions))]
mod order {
    use super::LockRank;

    /// A replacement for the rank in builds without debug assertions. It is never checked.
    #[derive(Clone, Copy)]
    pub(super) struct Order;

    impl Order {
        /// Returns the replacement for a rank.
        #[inline(always)]
        pub(super) const fn new(_: Option<LockRank>) -> Order {
            Order
        }

        #[inline(always)]
        pub(super) fn enter(self) {}

        #[inline(always)]
        pub(super) fn exit(self) {}
    }
}

use order::Order;

/// A mutex that may have a rank.
pub(crate) struct Mutex<T: ?Sized> {
    order: Order,
    inner: raw::Mutex<T>,
}

/// Access to the value that a [`Mutex`] guards; unlocks the mutex when dropped.
pub(crate) struct MutexGuard<'a, T: ?Sized> {
    order: Order,
    inner: raw::MutexGuard<'a, T>,
}

impl<T> Mutex<T> {
    /// Creates an unlocked mutex with a rank.
    #[inline]
    pub(crate) const fn ranked(rank: LockRank, value: T) -> Mutex<T> {
        Mutex { order: Order::new(Some(rank)), inner: raw::Mutex::new(value) }
    }

    /// Creates an unlocked mutex without a rank, whose lock order is not checked. The filesystems
    /// use such mutexes.
    #[inline]
    pub(crate) const fn new(value: T) -> Mutex<T> {
        Mutex { order: Order::new(None), inner: raw::Mutex::new(value) }
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Mutex<T> {
        Mutex::new(T::default())
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks the mutex, waiting if necessary. Returns the guard.
    ///
    /// # Panics
    /// With debug assertions, if the thread holds a lock of the same or a later rank.
    #[inline]
    #[track_caller]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.order.enter();
        MutexGuard { order: self.order, inner: self.inner.lock() }
    }

    /// Locks the mutex unless it is locked already. Returns the guard, or `None` if the mutex is
    /// locked.
    ///
    /// # Panics
    /// The same as for [`Mutex::lock`].
    #[inline]
    #[track_caller]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let inner = self.inner.try_lock()?;
        self.order.enter();
        Some(MutexGuard { order: self.order, inner })
    }

    /// Locks the mutex. If it is locked already, calls `check` before waiting. Returns the guard.
    ///
    /// # Errors
    /// The error of `check`.
    ///
    /// # Panics
    /// The same as for [`Mutex::lock`].
    #[inline]
    #[track_caller]
    pub(crate) fn lock_after<E>(
        &self,
        check: impl FnOnce() -> Result<(), E>,
    ) -> Result<MutexGuard<'_, T>, E> {
        match self.try_lock() {
            Some(guard) => Ok(guard),
            None => check().map(|()| self.lock()),
        }
    }

    /// Returns the value. No lock is needed, because the caller has exclusive access.
    #[inline]
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T: ?Sized> MutexGuard<'_, T> {
    /// Releases the lock while `work` runs. Returns the result of `work`.
    #[inline]
    pub(crate) fn unlocked<R>(guard: &mut Self, work: impl FnOnce() -> R) -> R {
        guard.order.exit();
        let result = raw::MutexGuard::unlocked(&mut guard.inner, work);
        guard.order.enter();
        result
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.order.exit();
    }
}

/// A condition variable for a [`Mutex`]. During the wait, the mutex is released, but the thread's
/// record of held locks still includes the mutex. This does no harm, because a waiting thread takes
/// no other lock.
#[derive(Debug, Default)]
pub(crate) struct Condvar(raw::Condvar);

impl Condvar {
    /// Creates a condition variable.
    pub(crate) const fn new() -> Condvar {
        Condvar(raw::Condvar::new())
    }

    /// Waits for a notification.
    #[inline]
    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        self.0.wait(&mut guard.inner);
    }

    /// Waits for a notification, for at most `time`. Returns whether the wait timed out.
    #[inline]
    pub(crate) fn wait_for<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        time: Duration,
    ) -> WaitTimeoutResult {
        self.0.wait_for(&mut guard.inner, time)
    }

    /// Waits for a notification, until `time` at the latest. Returns whether the wait timed out.
    #[inline]
    pub(crate) fn wait_until<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        time: Instant,
    ) -> WaitTimeoutResult {
        self.0.wait_until(&mut guard.inner, time)
    }

    /// Wakes one waiting thread.
    #[inline]
    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiting threads.
    #[inline]
    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[cfg(all(test, debug_assertions, not(shuttle)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn panics(work: impl FnOnce()) -> bool {
        catch_unwind(AssertUnwindSafe(work)).is_err()
    }

    #[test]
    fn locks_are_taken_in_ascending_rank_or_not_at_all() {
        let commit = Mutex::ranked(LockRank::Commit, 1);
        let state = Mutex::ranked(LockRank::State, 2);
        let leaf = Mutex::ranked(LockRank::Leaf, 3);
        let other_leaf = Mutex::ranked(LockRank::Leaf, 4);
        {
            let _commit = commit.lock();
            let _state = state.lock();
            let _leaf = leaf.lock();
        }
        let held = state.lock();
        assert!(panics(|| drop(commit.lock())), "a lock further up");
        assert!(!panics(|| drop(leaf.lock())), "the failed attempt holds nothing");
        drop(held);
        let held = leaf.lock();
        assert!(panics(|| drop(other_leaf.lock())), "two of one rank");
        assert!(panics(|| drop(leaf.lock())), "the same lock twice");
        drop(held);
        assert!(!panics(|| drop(commit.lock())));
    }

    #[test]
    fn a_lock_that_is_released_for_a_while_does_not_count_meanwhile() {
        let commit = Mutex::ranked(LockRank::Commit, 1);
        let state = Mutex::ranked(LockRank::State, 2);
        let mut held = state.lock();
        let read = MutexGuard::unlocked(&mut held, || *commit.lock());
        assert_eq!(read, 1);
        assert!(panics(|| drop(commit.lock())), "it counts again");
    }

    #[test]
    fn locks_may_be_released_in_any_order() {
        let commit = Mutex::ranked(LockRank::Commit, 1);
        let state = Mutex::ranked(LockRank::State, 2);
        let leaf = Mutex::ranked(LockRank::Leaf, 3);
        let held = (commit.lock(), state.lock());
        drop(held.0);
        assert!(panics(|| drop(commit.lock())), "the state is still held");
        drop(leaf.lock());
        drop(held.1);
        drop(commit.lock());
    }

    #[test]
    fn a_mutex_without_a_rank_is_taken_anywhere() {
        let unranked = Mutex::new(0);
        let leaf = Mutex::ranked(LockRank::Leaf, 3);
        let held = leaf.lock();
        drop(unranked.lock());
        drop(held);
        let _held = unranked.lock();
        drop(leaf.lock());
    }
}
