//! The number of entries that a command has written or printed, which it reports when it is
//! interrupted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::interrupt::{Guard, on_interrupt};
use crate::output;

/// Maximum time to wait for a write that is in progress. A longer time delays the end of an
/// interrupted command.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// A count of entries written or printed, to be reported if the command is interrupted.
#[derive(Clone, Default)]
pub struct Tally {
    shared: Arc<(Mutex<()>, AtomicU64)>,
}

impl Tally {
    /// Creates a tally that counts on from `entries`.
    pub fn starting_at(entries: u64) -> Tally {
        Tally { shared: Arc::new((Mutex::new(()), AtomicU64::new(entries))) }
    }

    /// Registers the message to print on an interrupt. `done` makes the message from the number of
    /// entries written.
    pub fn say_on_interrupt(&self, done: impl Fn(u64) -> String + Send + 'static) -> Guard {
        let tally = self.clone();
        on_interrupt(move || {
            let started = Instant::now();
            // Wait for a write in progress, so that it is counted. No other write begins, because
            // the lock is kept until the process ends.
            while started.elapsed() < MAX_WAIT {
                if let Ok(writing) = tally.shared.0.try_lock() {
                    std::mem::forget(writing);
                    break;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            output::say(format!("minikv: interrupted; {}", done(tally.count())));
        })
    }

    /// Runs `write`, which writes `entries` entries. Counts the entries if `write` succeeds, and
    /// returns its result.
    pub fn write<T>(&self, entries: u64, write: impl FnOnce() -> Result<T>) -> Result<T> {
        let _writing = self.shared.0.lock().unwrap_or_else(|e| e.into_inner());
        let written = write()?;
        self.shared.1.fetch_add(entries, Ordering::Relaxed);
        Ok(written)
    }

    /// Returns the number of entries written so far.
    pub fn count(&self) -> u64 {
        self.shared.1.load(Ordering::Relaxed)
    }
}
