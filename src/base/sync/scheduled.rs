//! Stand-ins for the synchronization primitives, for threads that are scheduled by shuttle.
//!
//! Atomics behave as if every memory ordering were `SeqCst`. Time advances only in timed waits.

use std::cell::Cell;
use std::fmt;
use std::ops::{Add, Bound, Deref, DerefMut};
use std::sync::{Arc, PoisonError, TryLockError};
use std::time::Duration;

pub use crossbeam_skiplist::map::Entry as SkipEntry;
use shuttle::rand::{Rng, thread_rng};
pub use shuttle::sync::atomic;

/// The parts of `std::thread` that the library uses.
pub mod thread {
    use std::io;
    use std::num::NonZero;

    pub use shuttle::thread::{
        JoinHandle, Scope, ScopedJoinHandle, ThreadId, current, scope, sleep, yield_now,
    };

    /// Stand-in for `std::thread::Builder`. Spawning never fails.
    #[derive(Debug, Default)]
    pub struct Builder(shuttle::thread::Builder);

    impl Builder {
        /// Creates a builder for an unnamed thread.
        pub fn new() -> Builder {
            Builder::default()
        }

        /// Sets the thread's name, which appears in messages. Returns the builder.
        pub fn name(self, name: String) -> Builder {
            Builder(self.0.name(name))
        }

        /// Spawns the thread.
        pub fn spawn<T: Send + 'static>(
            self,
            work: impl FnOnce() -> T + Send + 'static,
        ) -> io::Result<JoinHandle<T>> {
            self.0.spawn(work)
        }

        /// Spawns a scoped thread. The thread name set in the builder is ignored.
        pub fn spawn_scoped<'scope, T: Send + 'scope>(
            self,
            scope: &'scope Scope<'scope, '_>,
            work: impl FnOnce() -> T + Send + 'scope,
        ) -> io::Result<ScopedJoinHandle<'scope, T>> {
            Ok(scope.spawn(work))
        }
    }

    /// Returns 2 on every machine, so that a schedule can be replayed on any machine.
    pub fn available_parallelism() -> io::Result<NonZero<usize>> {
        NonZero::new(2).ok_or(io::ErrorKind::Unsupported.into())
    }
}

/// Stand-in for `parking_lot::Mutex`. A thread that has just arrived may take the lock before
/// threads that are already waiting.
#[derive(Default)]
pub struct Mutex<T: ?Sized>(shuttle::sync::Mutex<T>);

/// Stand-in for `parking_lot::MutexGuard`.
pub struct MutexGuard<'a, T: ?Sized> {
    /// `None` while the lock is released by a condition variable or by [`MutexGuard::unlocked`].
    held: Option<shuttle::sync::MutexGuard<'a, T>>,
    mutex: &'a Mutex<T>,
}

impl<T> Mutex<T> {
    /// Creates an unlocked mutex.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(shuttle::sync::Mutex::new(value))
    }
}

impl<T: ?Sized> Mutex<T> {
    fn held(&self) -> shuttle::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the mutex, waiting if necessary. Returns the guard.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { held: Some(self.held()), mutex: self }
    }

    /// Locks the mutex unless it is locked already. Returns the guard, or `None` if the mutex is
    /// locked.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let held = match self.0.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(MutexGuard { held: Some(held), mutex: self })
    }

    /// Returns the value. No lock is needed, because the caller has exclusive access.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: ?Sized> MutexGuard<'_, T> {
    /// Releases the lock while `work` runs. Returns the result of `work`.
    pub fn unlocked<R>(guard: &mut Self, work: impl FnOnce() -> R) -> R {
        guard.held = None;
        let result = work();
        guard.held = Some(guard.mutex.held());
        result
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect("the lock is held")
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("the lock is held")
    }
}

/// Stand-in for `parking_lot::RwLock`.
#[derive(Debug, Default)]
pub struct RwLock<T>(shuttle::sync::RwLock<T>);

impl<T> RwLock<T> {
    /// Creates an unlocked reader-writer lock.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(shuttle::sync::RwLock::new(value))
    }

    /// Locks for reading, waiting until no thread writes. Returns the guard.
    pub fn read(&self) -> shuttle::sync::RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks for writing, waiting until no other thread holds the lock. Returns the guard.
    pub fn write(&self) -> shuttle::sync::RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stand-in for `parking_lot::Condvar`.
#[derive(Debug, Default)]
pub struct Condvar(shuttle::sync::Condvar);

impl Condvar {
    /// Creates a condition variable.
    pub const fn new() -> Condvar {
        Condvar(shuttle::sync::Condvar::new())
    }

    /// Waits for a notification.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        if let Some(held) = guard.held.take() {
            guard.held = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// See [`Condvar::wait_until`].
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) -> WaitTimeoutResult {
        self.wait_until(guard, Instant::now() + time)
    }

    /// Yields to other threads for an arbitrary time, and decides at random whether the deadline
    /// `time` has passed meanwhile. If the deadline has not passed, the wake-up may be spurious.
    /// Callers must allow for both cases. Returns whether the deadline has passed.
    pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, time: Instant) -> WaitTimeoutResult {
        MutexGuard::unlocked(guard, thread::yield_now);
        let is_over = thread_rng().r#gen();
        if is_over {
            NOW.set(NOW.get().max(time.0));
        }
        WaitTimeoutResult(is_over)
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// Stand-in for `parking_lot::WaitTimeoutResult`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Returns whether the wait timed out.
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

/// Yields to other threads for an arbitrary time. Afterwards, `done` may return true or false.
pub fn yield_until(limit: Duration, mut done: impl FnMut() -> bool) {
    if !limit.is_zero() && !done() {
        thread::yield_now();
    }
}

thread_local! {
    /// The current time, shared by all tasks that a runner schedules on this thread.
    static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Stand-in for `std::time::Instant`. Its clock advances only in [`Condvar::wait_until`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(Duration);

impl Instant {
    /// Returns the current time.
    pub fn now() -> Instant {
        Instant(NOW.get())
    }

    /// Returns the time elapsed since this instant.
    pub fn elapsed(&self) -> Duration {
        NOW.get().saturating_sub(self.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, time: Duration) -> Instant {
        Instant(self.0 + time)
    }
}

/// Stand-in for `arc_swap::ArcSwapAny`. Each operation is one step, before which shuttle may switch
/// threads.
pub struct ArcSwapAny<T> {
    /// Locked for a single step only.
    value: parking_lot::Mutex<T>,
    /// An atomic whose loads let shuttle switch threads.
    turn: atomic::AtomicBool,
}

/// Stand-in for `arc_swap::ArcSwap`.
pub type ArcSwap<T> = ArcSwapAny<Arc<T>>;

/// Stand-in for `arc_swap::ArcSwapOption`.
pub type ArcSwapOption<T> = ArcSwapAny<Option<Arc<T>>>;

/// Stand-in for `arc_swap::Guard`. As in `arc_swap`, a guard may be the last owner of the value.
pub struct Guard<T>(T);

impl<T> Guard<T> {
    /// Returns a guard that owns `value`.
    pub fn from_inner(value: T) -> Guard<T> {
        Guard(value)
    }

    /// Returns the value.
    pub fn into_inner(guard: Guard<T>) -> T {
        guard.0
    }
}

impl<T> Deref for Guard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> ArcSwapAny<T> {
    /// Creates a container that holds `value`.
    pub fn new(value: T) -> ArcSwapAny<T> {
        ArcSwapAny { value: value.into(), turn: atomic::AtomicBool::new(false) }
    }

    /// Returns a guard of the value.
    pub fn load(&self) -> Guard<T> {
        Guard(self.load_full())
    }

    /// Returns a clone of the value.
    pub fn load_full(&self) -> T {
        self.turn.load(atomic::Ordering::SeqCst);
        self.value.lock().clone()
    }

    /// Replaces the value.
    pub fn store(&self, value: T) {
        drop(self.swap(value));
    }

    /// Replaces the value and returns the previous one.
    pub fn swap(&self, value: T) -> T {
        self.turn.load(atomic::Ordering::SeqCst);
        std::mem::replace(&mut self.value.lock(), value)
    }
}

impl<T> ArcSwap<T> {
    /// Creates a container that holds `value`.
    pub fn from_pointee(value: T) -> ArcSwap<T> {
        ArcSwap::new(Arc::new(value))
    }
}

impl<T> ArcSwapOption<T> {
    /// Creates an empty container.
    pub fn empty() -> ArcSwapOption<T> {
        ArcSwapAny::new(None)
    }
}

impl<T> fmt::Debug for ArcSwapAny<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArcSwapAny").finish_non_exhaustive()
    }
}

/// Stand-in for `crossbeam_skiplist::SkipMap`. Each operation is one step, before which shuttle may
/// switch threads.
#[derive(Debug)]
pub struct SkipMap<K: Ord, V> {
    map: crossbeam_skiplist::SkipMap<K, V>,
    /// An atomic whose loads let shuttle switch threads.
    turn: atomic::AtomicBool,
}

impl<K: Ord + Send + 'static, V: Send + 'static> Default for SkipMap<K, V> {
    fn default() -> SkipMap<K, V> {
        SkipMap::new()
    }
}

impl<K: Ord + Send + 'static, V: Send + 'static> SkipMap<K, V> {
    /// Creates an empty map.
    pub fn new() -> SkipMap<K, V> {
        SkipMap { map: crossbeam_skiplist::SkipMap::new(), turn: atomic::AtomicBool::new(false) }
    }

    /// Adds an entry, or replaces the entry with the same key.
    pub fn insert(&self, key: K, value: V) -> SkipEntry<'_, K, V> {
        self.turn.load(atomic::Ordering::SeqCst);
        self.map.insert(key, value)
    }

    /// Returns the last entry whose key is within `..bound`.
    pub fn upper_bound(&self, bound: Bound<&K>) -> Option<SkipEntry<'_, K, V>> {
        self.turn.load(atomic::Ordering::SeqCst);
        self.map.upper_bound(bound)
    }
}
