//! The writer of the log: one thread takes all queued jobs, writes them as one batch, and syncs the
//! batch.
//!
//! Each job has a ticket, which is a number. Jobs become durable in the order of their tickets.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use minikv::{WriteBatch, WriteOptions};
use openraft::LogId;
use tokio::sync::watch;

use crate::store::error::{Error, Result};
use crate::store::keys;
use crate::store::state::Current;

/// A callback that is called when a job is durable or has failed.
pub(crate) type Done = Box<dyn FnOnce(io::Result<()>) + Send>;

/// Log entries and other values to be written.
#[derive(Default)]
pub(crate) struct Job {
    /// Indices and values of entries, in the order of the log.
    pub(crate) entries: Vec<(u64, Vec<u8>)>,
    /// The id of the last of these entries.
    pub(crate) last: Option<LogId<u64>>,
    /// Keys and values for the keyspace `meta`.
    pub(crate) meta: Vec<(&'static str, Vec<u8>)>,
    pub(crate) done: Option<Done>,
}

/// The thread that writes the log, and the queue of the thread.
pub(crate) struct Writer {
    shared: Arc<SharedJobs>,
    thread: Option<JoinHandle<()>>,
}

struct SharedJobs {
    queue: Mutex<JobQueue>,
    /// Wakes the writer thread.
    wake: Condvar,
    /// Wakes the threads and tasks that wait until a job is durable.
    progress: watch::Sender<Progress>,
}

#[derive(Default)]
struct JobQueue {
    jobs: Vec<Job>,
    /// The ticket of the job that was pushed last.
    pushed: u64,
    /// Jobs with entries that are not durable yet.
    pending: VecDeque<Pending>,
    /// The id of the last durable entry.
    durable: Option<LogId<u64>>,
    /// When the write under way began, if there is one.
    writing_since: Option<Instant>,
    stop: bool,
}

struct Pending {
    ticket: u64,
    first: u64,
    last: Option<LogId<u64>>,
}

#[derive(Clone, Default)]
struct Progress {
    ticket: u64,
    failed: Option<Arc<str>>,
}

impl Writer {
    pub(crate) fn start(current: Arc<RwLock<Current>>) -> Result<Writer> {
        let shared = Arc::new(SharedJobs {
            queue: Mutex::default(),
            wake: Condvar::new(),
            progress: watch::Sender::default(),
        });
        let run = {
            let shared = shared.clone();
            move || shared.run(&current)
        };
        let thread = std::thread::Builder::new().name("minikv-raft-log".into()).spawn(run);
        let thread = thread.map_err(|e| Error::Refused(format!("no thread for the log: {e}")))?;
        Ok(Writer { shared, thread: Some(thread) })
    }

    /// Queues a job, and returns its ticket.
    pub(crate) fn push(&self, job: Job) -> Result<u64> {
        self.shared.check()?;
        let mut queue = self.shared.lock();
        queue.pushed += 1;
        let ticket = queue.pushed;
        if let Some((first, _)) = job.entries.first() {
            let pending = Pending { ticket, first: *first, last: job.last };
            queue.pending.push_back(pending);
        }
        queue.jobs.push(job);
        drop(queue);
        self.shared.wake.notify_one();
        Ok(ticket)
    }

    /// Waits until all jobs that were pushed before this call are durable.
    pub(crate) async fn all_durable(&self) -> Result<()> {
        let ticket = self.shared.lock().pushed;
        self.durable(ticket).await
    }

    /// Waits until all entries up to `index` are durable.
    pub(crate) async fn durable_to(&self, index: u64) -> Result<()> {
        let ticket = {
            let queue = self.shared.lock();
            queue.pending.iter().rev().find(|p| p.first <= index).map(|p| p.ticket)
        };
        match ticket {
            Some(ticket) => self.durable(ticket).await,
            None => self.shared.check(),
        }
    }

    /// Waits until the job with this ticket is durable.
    pub(crate) async fn durable(&self, ticket: u64) -> Result<()> {
        let mut progress = self.shared.progress.subscribe();
        let reached = |progress: &Progress| progress.ticket >= ticket || progress.failed.is_some();
        // This wait cannot fail: `self` owns the sender and thereby keeps the channel open.
        let _ = progress.wait_for(reached).await;
        self.shared.check()
    }

    /// Returns `id` if all entries up to `id` are durable. Otherwise returns the id of the last
    /// durable entry, or `None` if that id is unknown or comes after `id`.
    pub(crate) fn durable_part(&self, id: LogId<u64>) -> Option<LogId<u64>> {
        let queue = self.shared.lock();
        match queue.pending.iter().any(|pending| pending.first <= id.index) {
            false => Some(id),
            true => queue.durable.filter(|durable| durable.index <= id.index),
        }
    }

    /// Returns the index of the first entry that is not durable.
    pub(crate) fn first_pending(&self) -> Option<u64> {
        self.shared.lock().pending.iter().map(|pending| pending.first).min()
    }

    /// Returns the time that the write under way has taken so far, if there is one.
    pub(crate) fn writing_for(&self) -> Option<Duration> {
        self.shared.lock().writing_since.map(|since| since.elapsed())
    }

    /// Records that the entries from `index` on were truncated.
    pub(crate) fn truncated(&self, index: u64) {
        let mut queue = self.shared.lock();
        queue.durable = queue.durable.filter(|durable| durable.index < index);
    }
}

impl Drop for Writer {
    /// Writes all queued jobs, and then ends the thread.
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, all waiting callers have already got an error.
            let _ = thread.join();
        }
    }
}

impl SharedJobs {
    fn lock(&self) -> MutexGuard<'_, JobQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an error if a write to the log has failed.
    fn check(&self) -> Result<()> {
        match &self.progress.borrow().failed {
            Some(what) => Err(Error::Log(what.to_string())),
            None => Ok(()),
        }
    }

    fn run(&self, current: &RwLock<Current>) {
        // If this thread panics, waiting callers must get an error.
        let _guard = FailOnPanic(self);
        loop {
            let mut queue = self.lock();
            while queue.jobs.is_empty() && !queue.stop {
                queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            if queue.jobs.is_empty() {
                return;
            }
            let (jobs, ticket) = (std::mem::take(&mut queue.jobs), queue.pushed);
            drop(queue);
            let result = {
                let current = current.read().unwrap_or_else(PoisonError::into_inner);
                self.lock().writing_since = Some(Instant::now());
                self.check().and_then(|()| write(&current, &jobs))
            };
            self.lock().writing_since = None;
            self.finish(ticket, result.as_ref().err());
            for done in jobs.into_iter().filter_map(|job| job.done) {
                done(result.as_ref().map(|_| ()).map_err(|e| io::Error::other(e.to_string())));
            }
        }
    }

    fn finish(&self, ticket: u64, error: Option<&Error>) {
        if error.is_none() {
            let mut queue = self.lock();
            while queue.pending.front().is_some_and(|pending| pending.ticket <= ticket) {
                let pending = queue.pending.pop_front();
                queue.durable = pending.and_then(|pending| pending.last);
            }
        }
        self.progress.send_modify(|progress| match error {
            None => progress.ticket = ticket,
            Some(error) => {
                progress.failed.get_or_insert_with(|| error.to_string().into());
            }
        });
    }
}

struct FailOnPanic<'a>(&'a SharedJobs);

impl Drop for FailOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.progress.send_modify(|progress| progress.failed = Some("a panic".into()));
        }
    }
}

/// Durably writes all jobs in one batch.
fn write(current: &Current, jobs: &[Job]) -> Result<()> {
    let mut batch = WriteBatch::new();
    let mut last_byte = None;
    for job in jobs {
        for (index, value) in &job.entries {
            batch.put_in(&current.log.entries, index.to_be_bytes(), value);
            last_byte = value.last();
        }
        for (name, value) in &job.meta {
            batch.put_in(&current.log.meta, name, value);
            last_byte = value.last();
        }
    }
    if last_byte == Some(&0) {
        // The zeros at the end of a write that a crash cut off look like this one's own zeros.
        batch.put_in(&current.log.meta, keys::END, [1]);
    }
    Ok(current.log.db.writing(WriteOptions::default().sync(true)).write(batch)?)
}

/// Encodes the id of the last committed entry, if there is one, for [`Job::meta`].
pub(crate) fn committed_meta(committed: Option<LogId<u64>>) -> Vec<(&'static str, Vec<u8>)> {
    let encoded = |id: LogId<u64>| (keys::COMMITTED, keys::encode_log_id(&id).to_vec());
    committed.map(encoded).into_iter().collect()
}
