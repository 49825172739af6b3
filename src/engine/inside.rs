//! Protection against callbacks that change the database that calls them, and against calls in
//! forked children.
//!
//! A compaction filter, a comparator, a clock and the program's other callbacks are called in the
//! middle of work for which other threads wait, often under a lock. If such a callback wrote to the
//! same database or waited for its background work, it would in the end wait for itself. Each
//! thread therefore remembers for which engines it works ([`Inside`]), and every call that changes
//! the database or waits for it checks that it does not come from inside
//! ([`Engine::check_outside`]). A thread that does a part of another thread's work takes over what
//! that thread remembers ([`Duty`]).
//!
//! A callback may use other databases, even those that share background threads with its own. The
//! thread that calls it may then be the only one that could do the work for which such a call
//! waits. During the call ([`Visit`]), those who wait for work of that database therefore do it
//! themselves ([`Engine::wait_for_work`]).
//!
//! A forked child has a copy of the engine, but none of its threads, and the files are its
//! parent's. Calls that would wait for the threads therefore fail there
//! ([`Engine::check_process`]). Because the check makes a system call, a write that is not synced
//! makes it only once it has to look for room in the memtable.

use std::cell::{Cell, RefCell};

use crate::base::sync::thread::ThreadId;
use crate::base::sync::thread_local;
use crate::base::{Error, Result};
use crate::engine::Engine;
use crate::engine::behalf::{work_for, working_thread};

thread_local! {
    /// Address of the engine for which the thread works now; 0 if there is none.
    static ENGINE: Cell<usize> = const { Cell::new(0) };

    /// Addresses of the other engines for which the thread works: a callback of each called the
    /// next one.
    static OUTER: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Marks the thread as working for an engine until it is dropped.
pub(super) struct Inside {
    /// The engine for which the thread worked before.
    before: usize,
    /// Whether `before` was added to the outer engines.
    is_nested: bool,
}

impl Inside {
    #[inline]
    pub(super) fn enter(engine: &Engine) -> Inside {
        let engine = address(engine);
        let before = replace(engine);
        let is_nested = before != 0 && before != engine;
        if is_nested {
            let _ = OUTER.try_with(|outer| outer.borrow_mut().push(before));
        }
        Inside { before, is_nested }
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        replace(self.before);
        if self.is_nested {
            let _ = OUTER.try_with(|outer| outer.borrow_mut().pop());
        }
    }
}

/// Sets the engine of the thread, and returns the engine before.
#[inline]
fn replace(engine: usize) -> usize {
    // A thread that is ending may have destroyed the variable already. It calls no callbacks.
    ENGINE.try_with(|cell| cell.replace(engine)).unwrap_or(0)
}

fn address(engine: &Engine) -> usize {
    std::ptr::from_ref(engine).addr()
}

/// The engines for which a thread works, for a new thread that does a part of this work.
#[derive(Clone)]
pub(super) struct Duty {
    engine: usize,
    outer: Vec<usize>,
    worker: ThreadId,
}

impl Duty {
    /// Returns the duty of the current thread.
    pub(super) fn current() -> Duty {
        Duty {
            engine: ENGINE.try_with(Cell::get).unwrap_or(0),
            outer: OUTER.try_with(|outer| outer.borrow().clone()).unwrap_or_default(),
            worker: working_thread(),
        }
    }

    /// Makes the current thread, which has just begun, work for the same engines. The thread whose
    /// duty it is must wait until the current thread has ended.
    pub(super) fn share(self) {
        replace(self.engine);
        let _ = OUTER.try_with(|outer| outer.replace(self.outer));
        work_for(self.worker);
    }
}

/// A call of an engine. If the call comes from the middle of another engine's work, and the two may
/// share background threads, the engine counts it as a visitor until this value is dropped.
#[must_use = "the visit ends when this value is dropped"]
pub(crate) struct Visit<'a>(Option<&'a Engine>);

impl Drop for Visit<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(engine) = self.0 {
            engine.state.lock().visitors -= 1;
        }
    }
}

impl Engine {
    /// Checks that the call does not come from a callback in the middle of this engine's own work.
    /// The caller must hold the result until the call returns.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`].
    #[inline]
    pub(crate) fn check_outside(&self) -> Result<Visit<'_>> {
        match ENGINE.try_with(Cell::get).unwrap_or(0) {
            0 => Ok(Visit(None)),
            engine if engine == address(self) || self.is_outer() => Err(called_from_inside()),
            _ => Ok(self.visit()),
        }
    }

    #[cold]
    fn visit(&self) -> Visit<'_> {
        if self.inline.is_some() || self.options.resources.pool.is_none() {
            return Visit(None);
        }
        self.state.lock().visitors += 1;
        // Wakes those whose wait the visitor may have to wait for.
        self.changed.notify_all();
        Visit(Some(self))
    }

    /// Returns whether the current thread is in the middle of this engine's work.
    pub(crate) fn is_inside(&self) -> bool {
        match ENGINE.try_with(Cell::get).unwrap_or(0) {
            0 => false,
            engine => engine == address(self) || self.is_outer(),
        }
    }

    #[cold]
    fn is_outer(&self) -> bool {
        OUTER.try_with(|outer| outer.borrow().contains(&address(self))).unwrap_or(false)
    }

    /// Checks that this process is the one that opened the database, and not a forked child of it.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`].
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.opener.is_current() { Ok(()) } else { Err(self.called_in_fork()) }
    }

    #[cold]
    fn called_in_fork(&self) -> Error {
        Error::invalid(format!(
            "process {} opened {}, and this process was forked from it later: a forked process has \
             to open the database itself",
            self.opener,
            self.dir.display()
        ))
    }

    /// Checks that a call may wait for the engine's threads: [`Engine::check_process`] and
    /// [`Engine::check_outside`]. The caller must hold the result until the call returns.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`].
    pub(crate) fn check_caller(&self) -> Result<Visit<'_>> {
        self.check_process()?;
        self.check_outside()
    }

    /// Checks that the call does not come from a callback in a thread that the call would wait for.
    /// In deterministic mode, there are no such threads.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`].
    pub(crate) fn check_outside_thread(&self) -> Result<()> {
        if self.inline.is_none() && self.is_inside() { Err(called_from_inside()) } else { Ok(()) }
    }
}

#[cold]
fn called_from_inside() -> Error {
    Error::invalid(
        "a compaction filter or another callback may not change the database that called it, nor \
         wait for it: do this in another thread, without waiting for that thread",
    )
}
