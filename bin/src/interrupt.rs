//! Actions to run when the process is interrupted by Ctrl-C, SIGTERM or SIGHUP.
//!
//! A separate thread handles the signal while the command still runs. It runs the registered
//! actions, the latest first, and ends the process with exit code 130.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, Once};

use crate::error::Result;
use crate::system;

const EXIT_CODE_INTERRUPTED: i32 = 130;

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

/// Creates something with `make`, and registers the action that removes it. `make` returns both. No
/// interrupt can come between the creation and the registration.
pub fn make<T, A: FnMut() + Send + 'static>(
    make: impl FnOnce() -> Result<(T, A)>,
) -> Result<(T, Guard)> {
    // If no handler can be installed, an interrupt ends the process as usual, so the error is
    // ignored.
    HANDLER.call_once(|| drop(system::on_interrupt(end)));
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
