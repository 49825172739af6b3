//! Background threads, which belong to a single database or are shared by several databases.
//!
//! There are two kinds of work, called lanes: one thread flushes and the others compact, so that a
//! flush never waits for a compaction. Each lane has a queue of the databases that may have work;
//! no database is in the queue twice. A thread takes the first database out of its lane's queue,
//! asks the database for a piece of work ([`Member::next`]), and puts the database at the end of
//! the queue, because another thread may be able to do more work of the same database at the same
//! time. Then the thread does the piece of work. In this way databases take turns.
//!
//! No signal is lost: a database leaves the queue before it is asked for work, so a signal that
//! arrives while it is being asked puts the database back into the queue.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::sync::Arc;

use crate::base::process::ProcessId;
use crate::base::sync::thread::{self, JoinHandle, ThreadId};
use crate::base::sync::{Condvar, Instant, LockRank, Mutex, MutexGuard};
use crate::engine::behalf::working_thread;

/// Number of compaction threads of a database that shares no threads. More threads take more
/// processor time from reads and writes.
pub(crate) const COMPACTION_THREADS: usize = 2;

/// Niceness of the flush thread. A higher value leaves more of the processor to reads and writes.
const FLUSH_NICE: i32 = 3;
/// Niceness of the compaction threads. A higher value leaves more of the processor to everything
/// else.
pub(crate) const COMPACTION_NICE: i32 = 5;

/// A kind of background work, with its own threads and its own queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Flush,
    Compaction,
}

/// An answer of a database that is asked for work.
pub(crate) enum Next {
    /// A piece of work, which is given to no other thread.
    Run(Box<dyn FnOnce() + Send>),
    /// No work until there is a signal, or until this time.
    Wait(Option<Instant>),
}

/// A database whose background work is done by a pool.
pub(crate) trait Member: Send + Sync {
    /// Returns the next piece of work in `lane`. Neither this function nor the work panics.
    fn next(self: Arc<Self>, lane: Lane) -> Next;
}

/// Background threads. The threads start when the first database joins, and end when the pool is
/// dropped.
pub(crate) struct Pool {
    compaction_threads: usize,
    queues: Arc<Queues>,
    threads: Mutex<Threads>,
}

/// The threads of a pool that have been started.
struct Threads {
    handles: Vec<JoinHandle<()>>,
    /// The process that started them. A forked child does not have them.
    process: ProcessId,
}

/// A database's membership in a pool.
pub(crate) struct Membership {
    queues: Arc<Queues>,
    id: u64,
}

/// The queues of both lanes, and the databases in them.
struct Queues {
    waiting: Mutex<Waiting>,
    /// Notified when a database enters the queue of flushes, and when the threads are to end.
    flush_due: Condvar,
    /// Notified when a database enters the queue of compactions, and when the threads are to end.
    compaction_due: Condvar,
    /// Notified when a thread has finished with a database.
    finished: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// Whether the threads are to end.
    ends: bool,
    next_id: u64,
    members: BTreeMap<u64, Arc<dyn Member>>,
    flush: LaneQueue,
    compaction: LaneQueue,
    /// The threads that are working, each with the id of the database that it works for.
    busy: Vec<(ThreadId, u64)>,
}

/// The databases that may have work in a lane, by id.
#[derive(Default)]
struct LaneQueue {
    due: VecDeque<u64>,
    /// Databases that are due at a later time.
    later: BTreeMap<u64, Instant>,
}

impl LaneQueue {
    fn push(&mut self, id: u64) {
        self.later.remove(&id);
        if !self.due.contains(&id) {
            self.due.push_back(id);
        }
    }

    /// Adds a database that is due at `time`, unless it is due already.
    fn push_at(&mut self, id: u64, time: Instant) {
        if !self.due.contains(&id) {
            self.later.insert(id, time);
        }
    }

    /// Takes the first database that is due at the time `now` out of the queue and returns it.
    fn pop(&mut self, now: Instant) -> Option<u64> {
        while let Some(id) = self.later.iter().find(|(_, time)| **time <= now).map(|(id, _)| *id) {
            self.push(id);
        }
        self.due.pop_front()
    }

    fn remove(&mut self, id: u64) {
        self.later.remove(&id);
        self.due.retain(|other| *other != id);
    }
}

impl Waiting {
    fn lane(&mut self, lane: Lane) -> &mut LaneQueue {
        match lane {
            Lane::Flush => &mut self.flush,
            Lane::Compaction => &mut self.compaction,
        }
    }
}

impl Pool {
    /// Creates a pool with one thread that flushes and `compaction_threads` threads that compact.
    pub(crate) fn new(compaction_threads: usize) -> Pool {
        let queues = Queues {
            waiting: Mutex::ranked(LockRank::Leaf, Waiting::default()),
            flush_due: Condvar::new(),
            compaction_due: Condvar::new(),
            finished: Condvar::new(),
        };
        let threads = Threads { handles: Vec::new(), process: ProcessId::current() };
        let threads = Mutex::ranked(LockRank::PoolThreads, threads);
        Pool { compaction_threads, queues: Arc::new(queues), threads }
    }

    /// Adds a database, and starts the threads if they are not running yet.
    ///
    /// # Errors
    /// The operating system's error, if it cannot start a thread; an error in a forked child of the
    /// process that has started the threads.
    pub(crate) fn join(&self, member: Arc<dyn Member>) -> io::Result<Membership> {
        self.start()?;
        let mut waiting = self.queues.waiting.lock();
        waiting.next_id += 1;
        let id = waiting.next_id;
        waiting.members.insert(id, member);
        drop(waiting);
        let membership = Membership { queues: self.queues.clone(), id };
        self.queues.signal(id);
        Ok(membership)
    }

    /// Returns the number of threads that are working.
    pub(crate) fn busy(&self) -> usize {
        self.queues.waiting.lock().busy.len()
    }

    fn start(&self) -> io::Result<()> {
        let mut threads = self.threads.lock();
        if threads.handles.is_empty() {
            threads.process = ProcessId::current();
        } else if !threads.process.is_current() {
            let process = threads.process;
            let what = format!("process {process} has them, and this one was forked from it later");
            return Err(io::Error::other(what));
        }
        while threads.handles.len() <= self.compaction_threads {
            let (name, lane, nice) = match threads.handles.len() {
                0 => ("minikv-flush", Lane::Flush, FLUSH_NICE),
                _ => ("minikv-compact", Lane::Compaction, COMPACTION_NICE),
            };
            let queues = self.queues.clone();
            let work = move || {
                lower_priority(nice);
                queues.work(lane);
            };
            threads.handles.push(thread::Builder::new().name(name.to_owned()).spawn(work)?);
        }
        Ok(())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let Threads { handles, process } = self.threads.get_mut();
        if !process.is_current() {
            // There is nothing to join or to detach, and a thread of the parent may have held any
            // lock at the time of the fork.
            handles.drain(..).for_each(std::mem::forget);
            return;
        }
        self.queues.waiting.lock().ends = true;
        self.queues.flush_due.notify_all();
        self.queues.compaction_due.notify_all();
        let this = working_thread();
        for thread in handles.drain(..) {
            // The current thread may be one of the pool's own threads, or work for one, because
            // such a thread may run a program's code that closes the last database.
            if thread.thread().id() != this {
                // The threads do not panic.
                let _ = thread.join();
            }
        }
    }
}

impl Membership {
    /// Returns a function that signals that the database may have work.
    pub(crate) fn signal(&self) -> impl Fn() + Send + Sync + 'static {
        let (queues, id) = (self.queues.clone(), self.id);
        move || queues.signal(id)
    }

    /// Takes the database out of the pool, and waits until other threads have finished the work
    /// that they are doing for the database.
    pub(crate) fn leave(self) {
        let mut waiting = self.queues.waiting.lock();
        let member = waiting.members.remove(&self.id);
        for lane in [Lane::Flush, Lane::Compaction] {
            waiting.lane(lane).remove(self.id);
        }
        let this = working_thread();
        while waiting.busy.iter().any(|(thread, id)| *id == self.id && *thread != this) {
            self.queues.finished.wait(&mut waiting);
        }
        drop(waiting);
        drop(member);
    }
}

impl Queues {
    /// Puts a database into both queues.
    fn signal(&self, id: u64) {
        self.put(id, Lane::Flush, |queue| queue.push(id));
        self.put(id, Lane::Compaction, |queue| queue.push(id));
    }

    /// Calls `put` with the queue of `lane` and wakes a thread of the lane, unless the database has
    /// left the pool.
    fn put(&self, id: u64, lane: Lane, put: impl FnOnce(&mut LaneQueue)) {
        let mut waiting = self.waiting.lock();
        if waiting.members.contains_key(&id) {
            put(waiting.lane(lane));
            self.due(lane).notify_one();
        }
    }

    /// Returns the condition variable of a lane's threads.
    fn due(&self, lane: Lane) -> &Condvar {
        match lane {
            Lane::Flush => &self.flush_due,
            Lane::Compaction => &self.compaction_due,
        }
    }

    /// Does the work of `lane` until the pool is dropped.
    fn work(&self, lane: Lane) {
        let this = thread::current().id();
        let mut waiting = self.waiting.lock();
        while !waiting.ends {
            let Some(id) = waiting.lane(lane).pop(Instant::now()) else {
                match waiting.lane(lane).later.values().min().copied() {
                    Some(time) => drop(self.due(lane).wait_until(&mut waiting, time)),
                    None => self.due(lane).wait(&mut waiting),
                }
                continue;
            };
            let Some(member) = waiting.members.get(&id).cloned() else { continue };
            waiting.busy.push((this, id));
            MutexGuard::unlocked(&mut waiting, || self.work_for(id, member, lane));
            waiting.busy.retain(|(thread, _)| *thread != this);
            self.finished.notify_all();
        }
    }

    /// Asks a database for a piece of work and does it.
    fn work_for(&self, id: u64, member: Arc<dyn Member>, lane: Lane) {
        match member.next(lane) {
            Next::Run(work) => {
                self.put(id, lane, |queue| queue.push(id));
                // The work is already claimed, so it is done even if the database has left the pool
                // by now.
                work();
            }
            Next::Wait(Some(time)) => self.put(id, lane, |queue| queue.push_at(id, time)),
            Next::Wait(None) => {}
        }
    }
}

/// Lowers the priority of the calling thread, where the system can. Threads of the test scheduler
/// have no priority of their own.
pub(crate) fn lower_priority(nice: i32) {
    if !cfg!(shuttle) {
        crate::fs::lower_priority(nice);
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("compaction_threads", &self.compaction_threads)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Membership").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    type Piece = Box<dyn FnOnce() + Send>;

    /// A member with pieces of compaction work to do.
    struct Worker {
        pieces: Mutex<VecDeque<Piece>>,
        /// The time in the member's answer once no pieces are left.
        then: Option<Instant>,
        asked: mpsc::Sender<Lane>,
    }

    impl Member for Worker {
        fn next(self: Arc<Self>, lane: Lane) -> Next {
            let _ = self.asked.send(lane);
            match lane {
                Lane::Flush => Next::Wait(None),
                Lane::Compaction => match self.pieces.lock().pop_front() {
                    Some(piece) => Next::Run(piece),
                    None => Next::Wait(self.then),
                },
            }
        }
    }

    fn worker(pieces: Vec<Piece>, then: Option<Instant>) -> (Arc<Worker>, mpsc::Receiver<Lane>) {
        let (asked, asks) = mpsc::channel();
        let pieces = Mutex::ranked(LockRank::Leaf, pieces.into());
        (Arc::new(Worker { pieces, then, asked }), asks)
    }

    #[test]
    fn databases_take_turns() {
        let pool = Pool::new(1);
        let (done, order) = mpsc::channel();
        let (begin, begins) = mpsc::channel::<()>();
        let begins = Arc::new(Mutex::ranked(LockRank::Leaf, begins));
        let pieces = |name: &'static str, count: usize| -> Vec<Piece> {
            let piece = |_| -> Piece {
                let (done, begins) = (done.clone(), begins.clone());
                Box::new(move || {
                    begins.lock().recv().unwrap();
                    done.send(name).unwrap();
                })
            };
            (0..count).map(piece).collect()
        };
        let (first, _asks_first) = worker(pieces("first", 1), None);
        let (a, _asks_a) = worker(pieces("a", 3), None);
        let (b, asks_b) = worker(pieces("b", 3), None);
        let memberships = [first, a, b].map(|worker| pool.join(worker).unwrap());
        // The compaction thread waits inside the piece of the first database, so the others are
        // first asked for a flush.
        assert_eq!(asks_b.recv().unwrap(), Lane::Flush);
        (0..7).for_each(|_| begin.send(()).unwrap());
        let order: Vec<_> = (0..7).map(|_| order.recv().unwrap()).collect();
        assert_eq!(order, ["first", "a", "b", "a", "b", "a", "b"]);
        memberships.into_iter().for_each(Membership::leave);
    }

    #[test]
    fn a_database_that_leaves_waits_for_its_work_and_is_asked_no_more() {
        let pool = Pool::new(2);
        let (begun, begins) = mpsc::channel();
        let (end, ends) = mpsc::channel();
        let (ended, has_ended) = mpsc::channel();
        let piece: Piece = Box::new(move || {
            begun.send(()).unwrap();
            ends.recv().unwrap();
            thread::sleep(Duration::from_millis(20));
            ended.send(()).unwrap();
        });
        let (member, asks) = worker(vec![piece], None);
        let membership = pool.join(member.clone()).unwrap();
        let signal = membership.signal();
        begins.recv().unwrap();
        end.send(()).unwrap();
        membership.leave();
        assert!(has_ended.try_recv().is_ok(), "it did not wait");
        assert_eq!(Arc::strong_count(&member), 1);
        while asks.try_recv().is_ok() {}
        signal();
        drop(pool);
        assert!(asks.try_recv().is_err(), "it was asked after it had left");
    }

    #[test]
    fn a_signal_asks_in_both_lanes_and_so_does_a_time_that_comes() {
        let pool = Pool::new(1);
        let (member, asks) = worker(Vec::new(), None);
        let membership = pool.join(member).unwrap();
        let both = |asks: &mpsc::Receiver<Lane>| {
            let lanes = [asks.recv().unwrap(), asks.recv().unwrap()];
            assert!(lanes[0] != lanes[1], "{lanes:?}");
        };
        both(&asks);
        for _ in 0..100 {
            membership.signal()();
            both(&asks);
        }
        assert!(asks.try_recv().is_err());
        let begin = Instant::now();
        let (later, asks) = worker(Vec::new(), Some(begin + Duration::from_millis(30)));
        let other = pool.join(later).unwrap();
        both(&asks);
        assert_eq!(asks.recv().unwrap(), Lane::Compaction);
        assert!(begin.elapsed() >= Duration::from_millis(30));
        other.leave();
        membership.leave();
    }

    #[test]
    fn the_last_owner_of_a_pool_may_be_one_of_its_threads() {
        let pool = Arc::new(Pool::new(1));
        let (own, last) = (pool.clone(), mpsc::channel::<Membership>());
        let (done, is_done) = mpsc::channel();
        let (send, receive) = last;
        let piece: Piece = Box::new(move || {
            receive.recv().unwrap().leave();
            drop(own);
            done.send(()).unwrap();
        });
        let (member, _asks) = worker(vec![piece], None);
        let membership = pool.join(member).unwrap();
        drop(pool);
        send.send(membership).unwrap();
        is_done.recv_timeout(Duration::from_secs(60)).unwrap();
    }
}
