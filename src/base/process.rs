//! The process that an object belongs to. A forked child has copies of its parent's objects, but
//! none of its parent's threads, and the files remain those of its parent.

use std::fmt;

use crate::base::sync::{Mutex, MutexGuard};

/// The id of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessId(u32);

impl ProcessId {
    /// Returns the id of this process. Makes a system call.
    pub(crate) fn current() -> ProcessId {
        ProcessId(std::process::id())
    }

    /// Returns the id of a process that is not this one.
    #[cfg(test)]
    pub(crate) fn other() -> ProcessId {
        ProcessId(0)
    }

    /// Returns whether this process has the id. Makes a system call.
    pub(crate) fn is_current(self) -> bool {
        self == ProcessId::current()
    }

    /// Locks `mutex` and returns the guard. In a forked child of the process, returns `None` if the
    /// mutex is locked: a thread of the parent may have locked it, which will not unlock the copy.
    #[inline]
    pub(crate) fn lock<T>(self, mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
        mutex.lock_after(|| self.is_current().then_some(()).ok_or(())).ok()
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Runs `work` in a thread of its own and returns the result. Fails if `work` waits for ever.
#[cfg(test)]
pub(crate) fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = std::sync::mpsc::channel();
    let _ends_or_hangs = std::thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(std::time::Duration::from_secs(10)).expect("it returns")
}
