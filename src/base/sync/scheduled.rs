//! The stand-ins: what a schedule can be made for.
//!
//! Atomics are as if every order were `SeqCst`. Time stands still but for those who wait for it.

use std::cell::Cell;
use std::fmt;
use std::ops::{Add, Bound, Deref, DerefMut};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

pub use crossbeam_skiplist::map::Entry as SkipEntry;
use shuttle::rand::{Rng, thread_rng};
pub use shuttle::sync::atomic;

/// `std::thread`, what of it is used here.
pub mod thread {
    use std::io;
    use std::num::NonZero;

    pub use shuttle::thread::{JoinHandle, Scope, ScopedJoinHandle, scope, spawn, yield_now};

    /// `std::thread::Builder`. Threads can always be had.
    #[derive(Debug, Default)]
    pub struct Builder(shuttle::thread::Builder);

    impl Builder {
        /// Of a thread without a name.
        pub fn new() -> Builder {
            Builder::default()
        }

        /// Names the thread, for messages.
        pub fn name(self, name: String) -> Builder {
            Builder(self.0.name(name))
        }

        /// Starts it.
        pub fn spawn<T: Send + 'static>(
            self,
            work: impl FnOnce() -> T + Send + 'static,
        ) -> io::Result<JoinHandle<T>> {
            self.0.spawn(work)
        }

        /// Starts it, without its name, to end within `scope`.
        pub fn spawn_scoped<'scope, T: Send + 'scope>(
            self,
            scope: &'scope Scope<'scope, '_>,
            work: impl FnOnce() -> T + Send + 'scope,
        ) -> io::Result<ScopedJoinHandle<'scope, T>> {
            Ok(scope.spawn(work))
        }
    }

    /// Two, so that a schedule fits every machine.
    pub fn available_parallelism() -> io::Result<NonZero<usize>> {
        NonZero::new(2).ok_or(io::ErrorKind::Unsupported.into())
    }
}

/// `parking_lot::Mutex`. Whoever comes may take it before those who wait.
#[derive(Default)]
pub struct Mutex<T: ?Sized>(shuttle::sync::Mutex<T>);

/// `parking_lot::MutexGuard`.
pub struct MutexGuard<'a, T: ?Sized> {
    /// `None` while a condition variable, or [`MutexGuard::unlocked`], has given it up.
    held: Option<shuttle::sync::MutexGuard<'a, T>>,
    mutex: &'a Mutex<T>,
}

impl<T> Mutex<T> {
    /// An unlocked one.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(shuttle::sync::Mutex::new(value))
    }
}

impl<T: ?Sized> Mutex<T> {
    fn held(&self) -> shuttle::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for it and takes it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { held: Some(self.held()), mutex: self }
    }

    /// What is in it: nobody else has it.
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
    /// Gives the lock up while `work` is done.
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

/// `parking_lot::RwLock`.
#[derive(Debug, Default)]
pub struct RwLock<T>(shuttle::sync::RwLock<T>);

impl<T> RwLock<T> {
    /// An unlocked one.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(shuttle::sync::RwLock::new(value))
    }

    /// Waits until nobody writes.
    pub fn read(&self) -> shuttle::sync::RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody else has it.
    pub fn write(&self) -> shuttle::sync::RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `parking_lot::Condvar`.
#[derive(Debug, Default)]
pub struct Condvar(shuttle::sync::Condvar);

impl Condvar {
    /// One that nobody waits for.
    pub const fn new() -> Condvar {
        Condvar(shuttle::sync::Condvar::new())
    }

    /// Waits to be notified.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        if let Some(held) = guard.held.take() {
            guard.held = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// See [`Condvar::wait_until`].
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) -> WaitTimeoutResult {
        self.wait_until(guard, Instant::now() + time)
    }

    /// Lets the others have a turn, of any length. After that the time may be over, or the thread
    /// was notified before, or for no reason: nobody may rely on the one or the other.
    pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, time: Instant) -> WaitTimeoutResult {
        MutexGuard::unlocked(guard, thread::yield_now);
        let is_over = thread_rng().r#gen();
        if is_over {
            NOW.set(NOW.get().max(time.0));
        }
        WaitTimeoutResult(is_over)
    }

    /// Wakes one of those who wait.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all who wait.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// `parking_lot::WaitTimeoutResult`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether the time is over.
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

/// Gives the others a turn, of any length; `done` may be so then, or not.
pub fn yield_until(limit: Duration, mut done: impl FnMut() -> bool) {
    if !limit.is_zero() && !done() {
        thread::yield_now();
    }
}

thread_local! {
    /// The time, of all tasks that a runner schedules on this thread.
    static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// `std::time::Instant`, of a clock that [`Condvar::wait_until`] moves and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(Duration);

impl Instant {
    /// The time.
    pub fn now() -> Instant {
        Instant(NOW.get())
    }

    /// How long ago it was.
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

/// `arc_swap::ArcSwapAny`: each of its operations is one step, before which others may go on.
pub struct ArcSwapAny<T> {
    /// Held for no longer than one step.
    value: parking_lot::Mutex<T>,
    /// Touched to give the others a turn.
    turn: atomic::AtomicBool,
}

/// `arc_swap::ArcSwap`.
pub type ArcSwap<T> = ArcSwapAny<Arc<T>>;

/// `arc_swap::ArcSwapOption`.
pub type ArcSwapOption<T> = ArcSwapAny<Option<Arc<T>>>;

/// `arc_swap::Guard`. As there, whoever holds it may be the last owner.
pub struct Guard<T>(T);

impl<T> Deref for Guard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> ArcSwapAny<T> {
    /// Holds `value`.
    pub fn new(value: T) -> ArcSwapAny<T> {
        ArcSwapAny { value: value.into(), turn: atomic::AtomicBool::new(false) }
    }

    /// What it holds, for a moment.
    pub fn load(&self) -> Guard<T> {
        Guard(self.load_full())
    }

    /// What it holds.
    pub fn load_full(&self) -> T {
        self.turn.load(atomic::Ordering::SeqCst);
        self.value.lock().clone()
    }

    /// Holds `value` from now on.
    pub fn store(&self, value: T) {
        drop(self.swap(value));
    }

    /// Holds `value` from now on: what it held before.
    pub fn swap(&self, value: T) -> T {
        self.turn.load(atomic::Ordering::SeqCst);
        std::mem::replace(&mut self.value.lock(), value)
    }
}

impl<T> ArcSwap<T> {
    /// Holds `value`.
    pub fn from_pointee(value: T) -> ArcSwap<T> {
        ArcSwap::new(Arc::new(value))
    }
}

impl<T> ArcSwapOption<T> {
    /// Holds nothing.
    pub fn empty() -> ArcSwapOption<T> {
        ArcSwapAny::new(None)
    }
}

impl<T> fmt::Debug for ArcSwapAny<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArcSwapAny").finish_non_exhaustive()
    }
}

/// `crossbeam_skiplist::SkipMap`: each of its operations is one step, before which others may go
/// on.
#[derive(Debug)]
pub struct SkipMap<K: Ord, V> {
    map: crossbeam_skiplist::SkipMap<K, V>,
    /// Touched to give the others a turn.
    turn: atomic::AtomicBool,
}

impl<K: Ord + Send + 'static, V: Send + 'static> SkipMap<K, V> {
    /// An empty one.
    pub fn new() -> SkipMap<K, V> {
        SkipMap { map: crossbeam_skiplist::SkipMap::new(), turn: atomic::AtomicBool::new(false) }
    }

    /// Adds an entry, or replaces the one of that key.
    pub fn insert(&self, key: K, value: V) -> SkipEntry<'_, K, V> {
        self.turn.load(atomic::Ordering::SeqCst);
        self.map.insert(key, value)
    }

    /// The last entry whose key is within `..bound`.
    pub fn upper_bound(&self, bound: Bound<&K>) -> Option<SkipEntry<'_, K, V>> {
        self.turn.load(atomic::Ordering::SeqCst);
        self.map.upper_bound(bound)
    }
}
