//! Threads that do a part of another thread's work, for which that thread waits. Such a thread must
//! not wait for the thread that it works for.

use std::cell::Cell;

use crate::base::sync::thread::{self, ThreadId};
use crate::base::sync::thread_local;

thread_local! {
    /// The thread that this thread works for; `None` if it works for itself.
    static WORKS_FOR: Cell<Option<ThreadId>> = const { Cell::new(None) };
}

/// Returns the thread that the current thread works for: usually the current thread itself.
pub(crate) fn working_thread() -> ThreadId {
    let other = WORKS_FOR.try_with(Cell::get).ok().flatten();
    other.unwrap_or_else(|| thread::current().id())
}

/// Makes the current thread work for `thread`, which waits until the current thread has ended.
pub(crate) fn work_for(thread: ThreadId) {
    let _ = WORKS_FOR.try_with(|other| other.set(Some(thread)));
}
