//! Trouble while running: what the database still does, and what it says.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::base::Error;
use crate::engine::Engine;

impl Engine {
    /// Takes no more writes, because of `error`. The first one counts. Reads go on.
    pub fn fail(&self, error: Error) {
        let mut state = self.state.lock();
        if !matches!(error, Error::Closed) {
            state.failed.get_or_insert(error);
            self.has_failed.store(true, Relaxed);
        }
        self.changed.notify_all();
        self.work.notify_all();
    }

    /// What a write gets once the database takes no more.
    pub fn read_only_error(&self) -> Error {
        match &self.state.lock().failed {
            Some(error) => Error::ReadOnly { reason: Arc::new(error.clone()) },
            None => Error::Closed,
        }
    }
}

impl Engine {
    /// Takes no more writes, and makes those there were durable. The threads are gone already.
    ///
    /// # Errors
    /// I/O errors of the log, or what made the database stop before.
    pub fn close(&self) -> crate::base::Result<()> {
        let mut commit = self.commit.lock();
        if self.has_failed.swap(true, Relaxed) {
            return match &self.state.lock().failed {
                Some(error) => Err(error.clone()),
                None => Ok(()),
            };
        }
        if commit.unsynced || !commit.outgoing.is_empty() || commit.replayed_log.is_some() {
            self.sync_log(&mut commit)
        } else {
            Ok(())
        }
    }
}
