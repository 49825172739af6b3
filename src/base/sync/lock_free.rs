//! Stand-ins for `--cfg minikv_loom`: a load returns any value that its ordering allows.

use std::sync::Mutex;

pub(crate) use loom::sync::atomic::Ordering;
use loom::sync::atomic::{AtomicBool as Set, AtomicU64 as Shared};
use loom::thread::{self, ThreadId};

/// An atomic that one thread stores to: the one that has made it.
///
/// Loads of that thread can return one value only, so loom is not asked. Besides, loom tries
/// another order only of the last access before a store: asked for the writer's own loads, it would
/// leave out those of readers.
#[derive(Debug)]
struct Written<T> {
    shared: Shared,
    own: Mutex<T>,
    writer: ThreadId,
}

macro_rules! atomics {
    ($($name:ident, $kind:ty, $to:expr, $from:expr;)*) => { $(
        #[derive(Debug)]
        pub struct $name(Written<$kind>);

        impl $name {
            pub(crate) fn new(value: $kind) -> $name {
                let shared = Shared::new($to(value));
                $name(Written { shared, own: Mutex::new(value), writer: thread::current().id() })
            }

            pub(crate) fn load(&self, order: Ordering) -> $kind {
                match self.0.writer == thread::current().id() {
                    true => *self.0.own.lock().unwrap(),
                    false => $from(self.0.shared.load(order)),
                }
            }

            pub(crate) fn store(&self, value: $kind, order: Ordering) {
                self.0.shared.store($to(value), order);
                assert_eq!(self.0.writer, thread::current().id(), "two threads store");
                *self.0.own.lock().unwrap() = value;
            }
        }
    )* };
}

atomics! {
    AtomicBool, bool, u64::from, |value| value != 0;
    AtomicU32, u32, u64::from, |value| value as u32;
    AtomicU64, u64, u64::from, |value| value;
    AtomicUsize, usize, |value| value as u64, |value| value as usize;
}

impl AtomicUsize {
    pub(crate) fn fetch_add(&self, value: usize, order: Ordering) -> usize {
        let before = self.load(Ordering::Relaxed);
        self.store(before + value, order);
        before
    }
}

/// A cell that one thread sets, once. Others see it as late as the standard library's lets them.
#[derive(Debug)]
pub(crate) struct OnceLock<T> {
    cell: std::sync::OnceLock<T>,
    is_set: Set,
}

impl<T> OnceLock<T> {
    pub(crate) fn new() -> OnceLock<T> {
        OnceLock { cell: std::sync::OnceLock::new(), is_set: Set::new(false) }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        self.is_set.load(Ordering::Acquire).then(|| self.cell.get()).flatten()
    }

    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        self.cell.set(value)?;
        self.is_set.store(true, Ordering::Release);
        Ok(())
    }

    pub(crate) fn get_or_init(&self, init: impl FnOnce() -> T) -> &T {
        let is_new = self.cell.get().is_none();
        let value = self.cell.get_or_init(init);
        if is_new {
            self.is_set.store(true, Ordering::Release);
        }
        value
    }
}
