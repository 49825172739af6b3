//! Reads pieces ahead on several threads, and prints their lines in order.

use std::collections::VecDeque;
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::error::{CliError, Result};

/// Size of a chunk of lines, in bytes. Smaller chunks are handed over more often.
const CHUNK_BYTES: usize = 64 << 10;

/// Maximum size of the lines of a piece that are queued for printing, in bytes. A larger chunk is
/// queued alone. With a lower limit, threads wait more often for the printing of their piece.
const MAX_QUEUED_BYTES: usize = 8 << 20;

/// Lines, and the number of entries in them.
pub struct Chunk {
    pub lines: Vec<u8>,
    pub entries: u64,
}

impl Chunk {
    /// Returns an empty chunk whose capacity is enough for most chunks, so that it is seldom
    /// reallocated.
    pub fn new() -> Chunk {
        Chunk { lines: Vec::with_capacity(CHUNK_BYTES + CHUNK_BYTES / 4), entries: 0 }
    }

    pub fn is_full(&self) -> bool {
        self.lines.len() >= CHUNK_BYTES
    }
}

/// Calls `read` with each piece on one of `threads` threads, a few pieces ahead of the printing.
/// Calls `print` with the chunks that `read` sends, in the order of the pieces, until `print`
/// returns false, or until `read` or `print` fails.
pub fn each_chunk<P: Send>(
    threads: usize,
    mut pieces: impl Iterator<Item = P>,
    read: impl Fn(P, &Sender) -> Result<()> + Sync,
    mut print: impl FnMut(Chunk) -> Result<bool>,
) -> Result<()> {
    let (jobs, queue) = mpsc::channel::<(P, Sender)>();
    let queue = Mutex::new(queue);
    let work = || {
        loop {
            let next = lock(&queue).recv();
            let Ok((piece, sender)) = next else { return };
            if !sender.is_unwanted() {
                let done = read(piece, &sender);
                sender.end(done);
            }
        }
    };
    thread::scope(|scope| {
        // `jobs` is dropped at the end of this block, which ends the threads.
        let jobs = jobs;
        let mut started = VecDeque::new();
        for _ in 0..threads {
            let spawned = thread::Builder::new().spawn_scoped(scope, work);
            spawned.map_err(|source| CliError::Io {
                op: "start",
                name: "a thread".into(),
                source,
            })?;
        }
        loop {
            // Start one more piece than there are threads, so that no thread waits for a piece.
            while started.len() <= threads
                && let Some(piece) = pieces.next()
            {
                let (sender, receiver) = channel();
                // This cannot fail, because the queue outlives the threads.
                let _ = jobs.send((piece, sender));
                started.push_back(receiver);
            }
            let Some(receiver) = started.pop_front() else { return Ok(()) };
            while let Some(chunk) = receiver.next() {
                if !print(chunk?)? {
                    return Ok(());
                }
            }
            if receiver.is_broken() {
                // The thread panicked. The panic is repeated at the end of the scope.
                return Ok(());
            }
        }
    })
}

/// The sending end of a piece's queue.
pub struct Sender(Arc<Queue>);

/// The receiving end of a piece's queue.
struct Receiver(Arc<Queue>);

#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    chunks: VecDeque<Result<Chunk>>,
    bytes: usize,
    /// Whether all chunks of the piece were sent.
    ended: bool,
    /// Whether the sender (`no_sender`) or the receiver (`no_receiver`) was dropped.
    no_sender: bool,
    no_receiver: bool,
}

fn channel() -> (Sender, Receiver) {
    let queue = Arc::new(Queue::default());
    (Sender(queue.clone()), Receiver(queue))
}

impl Sender {
    /// Sends a chunk as soon as there is room for it. Returns false if the receiver is gone.
    pub fn send(&self, chunk: Chunk) -> bool {
        let is_full = |state: &mut QueueState| {
            let bytes = state.bytes + chunk.lines.len();
            !state.no_receiver && !state.chunks.is_empty() && bytes > MAX_QUEUED_BYTES
        };
        let state = lock(&self.0.state);
        let waited = self.0.changed.wait_while(state, is_full);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.bytes += chunk.lines.len();
        state.chunks.push_back(Ok(chunk));
        self.0.changed.notify_all();
        !state.no_receiver
    }

    /// Returns whether the receiver is gone.
    pub fn is_unwanted(&self) -> bool {
        lock(&self.0.state).no_receiver
    }

    fn end(self, done: Result<()>) {
        let mut state = lock(&self.0.state);
        state.ended = true;
        state.chunks.extend(done.err().map(Err));
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        lock(&self.0.state).no_sender = true;
        self.0.changed.notify_all();
    }
}

impl Receiver {
    /// Waits for the next chunk and returns it. Returns `None` after the last chunk.
    fn next(&self) -> Option<Result<Chunk>> {
        let is_waiting = |state: &mut QueueState| state.chunks.is_empty() && !state.no_sender;
        let waited = self.0.changed.wait_while(lock(&self.0.state), is_waiting);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        let chunk = state.chunks.pop_front();
        if let Some(Ok(chunk)) = &chunk {
            state.bytes -= chunk.lines.len();
        }
        self.0.changed.notify_all();
        chunk
    }

    /// Returns whether the sender was dropped before it had sent all chunks.
    fn is_broken(&self) -> bool {
        !lock(&self.0.state).ended
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        lock(&self.0.state).no_receiver = true;
        self.0.changed.notify_all();
    }
}

/// Locks `mutex`, even if a panic poisoned it: every state of a queue is valid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::SeqCst;

    use super::*;

    fn chunk(line: String) -> Chunk {
        Chunk { lines: line.into_bytes(), entries: 1 }
    }

    /// Reads `pieces` pieces of 50 chunks each, and returns the printed lines.
    fn printed(pieces: usize, threads: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let read = |piece: usize, sender: &Sender| {
            // The first pieces take the longest time to read.
            thread::sleep(std::time::Duration::from_millis(20 / (piece as u64 + 1)));
            (0..50).try_for_each(|i| match sender.send(chunk(format!("{piece}.{i} "))) {
                true => Ok(()),
                false => Err(CliError::ClosedPipe),
            })
        };
        let print = |chunk: Chunk| {
            out.extend(chunk.lines);
            Ok(true)
        };
        each_chunk(threads, 0..pieces, read, print).unwrap();
        out
    }

    #[test]
    fn pieces_are_printed_in_their_order() {
        let wanted: String =
            (0..20).flat_map(|p| (0..50).map(move |i| format!("{p}.{i} "))).collect();
        for threads in [1, 2, 7] {
            assert_eq!(String::from_utf8(printed(20, threads)).unwrap(), wanted);
        }
        assert_eq!(printed(0, 3), b"");
    }

    #[test]
    fn no_more_is_read_ahead_than_the_memory_allows() {
        let (sent, taken, most) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let read = |_, sender: &Sender| {
            for _ in 0..40 {
                let line = "x".repeat(1 << 20);
                sender.send(chunk(line));
                let ahead = sent.fetch_add(1, SeqCst) + 1 - taken.load(SeqCst);
                most.fetch_max(ahead, SeqCst);
            }
            Ok(())
        };
        let print = |_: Chunk| {
            taken.fetch_add(1, SeqCst);
            Ok(true)
        };
        each_chunk(2, 0..6, read, print).unwrap();
        assert_eq!(sent.load(SeqCst), 240);
        // Each of three pieces may queue 8 MiB. A few more chunks may have left their queues
        // without being counted in `taken` yet.
        assert!(most.load(SeqCst) <= 3 * 8 + 2, "{most:?} MiB ahead");
    }

    #[test]
    fn an_end_stops_the_threads() {
        let read = |piece: usize, sender: &Sender| {
            while sender.send(chunk(format!("{piece} {}", "x".repeat(CHUNK_BYTES)))) {}
            Ok(())
        };
        // `read` sends chunks until `print` returns false.
        let mut left = 300;
        let print = |_: Chunk| {
            left -= 1;
            Ok(left > 0)
        };
        each_chunk(3, 0..100, read, print).unwrap();
        assert_eq!(left, 0);
        let failed = each_chunk(3, 0..100, read, |_| Err(CliError::ClosedPipe));
        assert!(matches!(failed, Err(CliError::ClosedPipe)));
    }

    #[test]
    fn an_error_comes_after_the_lines_read_before_it() {
        let read = |piece: usize, sender: &Sender| {
            sender.send(chunk(piece.to_string()));
            if piece == 3 { Err(CliError::NotFound) } else { Ok(()) }
        };
        let mut out = Vec::new();
        let print = |chunk: Chunk| {
            out.extend(chunk.lines);
            Ok(true)
        };
        let failed = each_chunk(2, 0..9, read, print);
        assert!(matches!(failed, Err(CliError::NotFound)));
        assert_eq!(out, b"0123");
    }

    #[test]
    fn a_panic_is_not_the_end_of_the_entries() {
        let read = |piece: usize, sender: &Sender| {
            sender.send(chunk(piece.to_string()));
            assert!(piece != 1, "a bug");
            Ok(())
        };
        let scan = || each_chunk(1, 0..4, read, |_| Ok(true));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(scan)).is_err());
    }
}
