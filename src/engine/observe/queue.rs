//! The queue of events, and the thread that delivers them to the observer. What that thread runs is
//! in [`observe`](super).

use std::collections::VecDeque;
use std::io;

use crate::base::clock::whole_micros;
use crate::base::sync::atomic::AtomicU64;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::sync::thread::{self, JoinHandle, ThreadId};
use crate::base::sync::{Condvar, Instant, LockRank, Mutex};
use crate::engine::behalf::working_thread;
use crate::engine::report::event::{Event, EventKind, Observed};

/// Events that are waiting for the observer. Thread-safe.
///
/// The queue is not bounded: a database does not wait for its observer.
pub(crate) struct Observing {
    observer: Observed,
    opened: Instant,
    /// Number of flushes and compactions that have begun.
    jobs: AtomicU64,
    queue: Mutex<EventQueue>,
    /// Notified when an event is added, and when the last event has been delivered.
    changed: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct EventQueue {
    waiting: VecDeque<Event>,
    /// Number of the next event.
    next: u64,
    /// Whether the last event has been added. The thread ends after it has delivered that event.
    ends: bool,
    /// ID of the thread that delivers events; `None` before the thread starts and after it has
    /// delivered the last event.
    delivering: Option<ThreadId>,
}

impl Observing {
    pub(crate) fn new(observer: Observed) -> Observing {
        Observing {
            observer,
            opened: Instant::now(),
            jobs: AtomicU64::new(0),
            queue: Mutex::ranked(LockRank::Leaf, EventQueue::default()),
            changed: Condvar::new(),
            thread: Mutex::ranked(LockRank::Leaf, None),
        }
    }

    /// Adds an event, unless the last event has already been added.
    pub(super) fn push(&self, kind: EventKind) {
        self.push_and(kind, false);
    }

    fn push_and(&self, kind: EventKind, ends: bool) {
        let mut queue = self.queue.lock();
        if queue.ends {
            return;
        }
        queue.ends = ends;
        let number = queue.next;
        queue.next += 1;
        // The time is taken under the lock, so that times ascend with the event numbers.
        let since_open = whole_micros(self.opened.elapsed());
        queue.waiting.push_back(Event { number, since_open, kind });
        drop(queue);
        self.changed.notify_all();
    }

    /// Calls the observer.
    pub(super) fn call(&self, event: &Event) {
        self.observer.0.event(event);
    }

    pub(super) fn next_job(&self) -> u64 {
        self.jobs.fetch_add(1, Relaxed)
    }

    /// Starts the thread that calls the observer, which runs `deliver`.
    ///
    /// # Errors
    /// The operating system's error, if it cannot start a thread.
    pub(super) fn start(&self, deliver: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let builder = thread::Builder::new().name("minikv-observer".to_owned());
        let thread = builder.spawn(deliver)?;
        self.queue.lock().delivering = Some(thread.thread().id());
        *self.thread.lock() = Some(thread);
        Ok(())
    }

    /// Adds the last event. Waits until the observer has received all events, unless the observer
    /// makes this call, or waits for it. Several threads may call this function at once.
    pub(super) fn end(&self, last: impl FnOnce() -> EventKind) {
        if !self.queue.lock().ends {
            self.push_and(last(), true);
        }
        let mut queue = self.queue.lock();
        if queue.delivering == Some(working_thread()) {
            return;
        }
        while queue.delivering.is_some() {
            self.changed.wait(&mut queue);
        }
        drop(queue);
        // Waits for the end of the thread: until then, the thread keeps the engine alive, and the
        // engine holds the lock file of the database.
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // The thread does not panic, because it catches panics of the observer.
            let _ = thread.join();
        }
    }

    /// Waits for an event and takes it out of the queue. Returns `None` after the last event was
    /// delivered.
    pub(super) fn next(&self) -> Option<Event> {
        let mut queue = self.queue.lock();
        loop {
            if let Some(event) = queue.waiting.pop_front() {
                return Some(event);
            }
            if queue.ends {
                queue.delivering = None;
                self.changed.notify_all();
                return None;
            }
            self.changed.wait(&mut queue);
        }
    }
}
