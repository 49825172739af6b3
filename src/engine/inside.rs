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
//! A callback may use other databases, but not change or wait for one that shares background
//! threads with its own: its thread may be the only one that could do the work for which such a
//! call waits.
//!
//! A forked child has a copy of the engine, but none of its threads, and the files are its
//! parent's. Calls that would wait for the threads therefore fail there
//! ([`Engine::check_process`]). Because the check makes a system call, a write that is not synced
//! makes it only once it has to wait, or to look for room in the memtable.

use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::Arc;

use crate::base::sync::thread::ThreadId;
use crate::base::sync::thread_local;
use crate::base::{Error, Result};
use crate::engine::Engine;
use crate::engine::behalf::{work_for, working_thread};

thread_local! {
    /// The engine for which the thread works now.
    static WORK: Cell<Work> = const { Cell::new(Work::NONE) };

    /// The other engines for which the thread works: a callback of each called the next one.
    static OUTER: RefCell<Vec<Work>> = const { RefCell::new(Vec::new()) };
}

/// An engine for which a thread works, and the threads that it shares with other engines.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Work {
    /// Address of the engine; 0 if there is none.
    engine: usize,
    /// Address of the shared pool of threads; 0 if there is none.
    pool: usize,
}

impl Work {
    const NONE: Work = Work { engine: 0, pool: 0 };

    #[inline]
    fn of(engine: &Engine) -> Work {
        let pool = match &engine.options.resources.pool {
            Some(pool) if engine.inline.is_none() => Arc::as_ptr(pool).addr(),
            _ => 0,
        };
        Work { engine: ptr::from_ref(engine).addr(), pool }
    }

    /// Returns what the current thread works for.
    #[inline]
    fn current() -> Work {
        WORK.try_with(Cell::get).unwrap_or(Work::NONE)
    }

    /// Sets what the current thread works for, and returns what it worked for before.
    #[inline]
    fn begin(self) -> Work {
        // A thread that is ending may have destroyed the variable already. It calls no callbacks.
        WORK.try_with(|work| work.replace(self)).unwrap_or(Work::NONE)
    }

    fn shares_threads(self, other: Work) -> bool {
        self.pool != 0 && self.pool == other.pool
    }
}

/// Marks the thread as working for an engine until it is dropped.
pub(super) struct Inside {
    before: Work,
    /// Whether `before` was added to the outer engines.
    is_nested: bool,
}

impl Inside {
    #[inline]
    pub(super) fn enter(engine: &Engine) -> Inside {
        let work = Work::of(engine);
        let before = work.begin();
        let is_nested = before.engine != 0 && before != work;
        if is_nested {
            let _ = OUTER.try_with(|outer| outer.borrow_mut().push(before));
        }
        Inside { before, is_nested }
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        self.before.begin();
        if self.is_nested {
            let _ = OUTER.try_with(|outer| outer.borrow_mut().pop());
        }
    }
}

/// The engines for which a thread works, for a new thread that does a part of this work.
#[derive(Clone)]
pub(super) struct Duty {
    work: Work,
    outer: Vec<Work>,
    worker: ThreadId,
}

impl Duty {
    /// Returns the duty of the current thread.
    pub(super) fn current() -> Duty {
        Duty {
            work: Work::current(),
            outer: OUTER.try_with(|outer| outer.borrow().clone()).unwrap_or_default(),
            worker: working_thread(),
        }
    }

    /// Makes the current thread, which has just begun, work for the same engines. The thread whose
    /// duty it is must wait until the current thread has ended.
    pub(super) fn share(self) {
        self.work.begin();
        let _ = OUTER.try_with(|outer| outer.replace(self.outer));
        work_for(self.worker);
    }
}

impl Engine {
    /// Checks that the call does not come from a callback in the middle of the work of this engine,
    /// or of one that shares its threads.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`].
    #[inline]
    pub(crate) fn check_outside(&self) -> Result<()> {
        match Work::current() {
            Work::NONE => Ok(()),
            _ => self.check_callback(),
        }
    }

    #[cold]
    fn check_callback(&self) -> Result<()> {
        let own = Work::of(self);
        let waits = |work: Work| work.engine == own.engine || work.shares_threads(own);
        if self.is_called_in(waits) { Err(called_from_inside()) } else { Ok(()) }
    }

    /// Returns whether the current thread is in the middle of this engine's work.
    pub(crate) fn is_inside(&self) -> bool {
        let own = Work::of(self);
        self.is_called_in(|work| work.engine == own.engine)
    }

    /// Returns whether the current thread works for an engine for which `is` returns true.
    fn is_called_in(&self, is: impl Fn(Work) -> bool) -> bool {
        let is_outer = |outer: &RefCell<Vec<Work>>| outer.borrow().iter().any(|work| is(*work));
        is(Work::current()) || OUTER.try_with(is_outer).unwrap_or(false)
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
    /// [`Engine::check_outside`].
    ///
    /// # Errors
    /// [`Error::InvalidArgument`].
    pub(crate) fn check_caller(&self) -> Result<()> {
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
        "a compaction filter or another callback may not change the database that called it, or \
         one that shares its threads, nor wait for them: do this in another thread, without \
         waiting for that thread",
    )
}
