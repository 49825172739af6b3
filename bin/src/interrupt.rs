//! Actions to run when the process is interrupted by Ctrl-C, SIGTERM or SIGHUP.
//!
//! A separate thread handles the signal while the command still runs. It runs the registered
//! actions, the latest first, and ends the process with exit code 130.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once};
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::output;

const EXIT_CODE_INTERRUPTED: i32 = 130;

/// Maximum time to wait for a write that is in progress. A longer time delays the end of an
/// interrupted command.
const MAX_WAIT: Duration = Duration::from_secs(2);

type Action = Box<dyn FnMut() + Send>;

static ACTIONS: Mutex<Vec<(u64, Action)>> = Mutex::new(Vec::new());
static NEXT_ID: AtomicU64 = AtomicU64::new(0);
static HANDLER: Once = Once::new();

/// Keeps an action registered until dropped.
#[must_use]
pub struct Guard {
    id: u64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        actions().retain(|(id, _)| *id != self.id);
    }
}

/// Registers `action` to be run when the process is interrupted.
pub fn on_interrupt(action: impl FnMut() + Send + 'static) -> Guard {
    let made = make(|| Ok(((), action)));
    made.expect("it makes nothing that could fail").1
}

/// Creates something by `make`, and registers the action that removes it. No interrupt can come
/// between these two steps.
pub fn make<T, A: FnMut() + Send + 'static>(
    make: impl FnOnce() -> Result<(T, A)>,
) -> Result<(T, Guard)> {
    // If no handler can be installed, an interrupt ends the process as usual, so the error is
    // ignored.
    HANDLER.call_once(|| drop(ctrlc::set_handler(end)));
    let mut actions = actions();
    let (made, action) = make()?;
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    actions.push((id, Box::new(action)));
    Ok((made, Guard { id }))
}

fn actions() -> MutexGuard<'static, Vec<(u64, Action)>> {
    ACTIONS.lock().unwrap_or_else(|e| e.into_inner())
}

fn end() {
    for (_, action) in actions().iter_mut().rev() {
        action();
    }
    std::process::exit(EXIT_CODE_INTERRUPTED);
}

/// A count of entries written, to be reported if the command is interrupted.
#[derive(Clone, Default)]
pub struct Tally {
    shared: Arc<(Mutex<()>, AtomicU64)>,
}

impl Tally {
    /// Registers a message for an interrupt. `done` returns the message for a number of entries.
    pub fn say_on_interrupt(&self, done: impl Fn(u64) -> String + Send + 'static) -> Guard {
        let tally = self.clone();
        on_interrupt(move || {
            let started = Instant::now();
            // A write in progress is still counted. No other write begins, because the lock is kept
            // until the process ends.
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
