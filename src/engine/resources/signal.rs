//! The signal that there may be background work for a database.

use std::fmt;
use std::sync::OnceLock;

/// A signal that there may be background work. Thread-safe. The signal has no effect before
/// [`WorkSignal::connect`] is called.
#[derive(Default)]
pub(crate) struct WorkSignal(OnceLock<Box<dyn Fn() + Send + Sync>>);

impl WorkSignal {
    /// Sets the function that the signal calls. Only the first call of `connect` has an effect.
    pub(crate) fn connect(&self, hear: impl Fn() + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(hear));
    }

    /// Gives the signal. May be called while locks are held, except for locks under which no other
    /// lock is taken.
    pub(crate) fn give(&self) {
        if let Some(hear) = self.0.get() {
            hear();
        }
    }
}

impl fmt::Debug for WorkSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WorkSignal")
    }
}
