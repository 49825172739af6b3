//! The database that `minikv shell` keeps open between its commands.
//!
//! The first command that reads opens the database for reading, and the first command that writes
//! opens it for writing. It then stays open until the shell ends or a command needs it closed.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minikv::{Db, HealthState, ReadOnlyDb, Snapshot, Stats};

use crate::error::Result;
use crate::writer;

/// The database of a shell, shared by its commands. The first of them opens it.
#[derive(Clone, Default)]
pub struct SharedDb(Arc<Mutex<OpenHandles>>);

#[derive(Default)]
struct OpenHandles {
    writer: Option<Db>,
    reader: Option<ReadOnlyDb>,
}

impl SharedDb {
    /// Returns the database for writing. If it is not open, opens it with `open`. If a failed write
    /// has stopped writes, resumes them.
    ///
    /// # Errors
    /// The error of `open`, or the error that still prevents writes.
    pub fn writer(&self, dir: &Path, open: impl FnOnce() -> Result<Db>) -> Result<Db> {
        let mut state = self.state();
        if let Some(db) = &state.writer {
            if db.health().state == HealthState::ReadOnly {
                db.resume()?;
            }
            return Ok(db.clone());
        }
        let db = open()?;
        // From here on, the lock file must not be opened again.
        writer::hold(Some(dir));
        *state = OpenHandles { writer: Some(db.clone()), reader: None };
        Ok(db)
    }

    /// Returns the current state of the database. If it is not open, opens it with `open`.
    pub fn snapshot(&self, open: impl FnOnce() -> Result<ReadOnlyDb>) -> Result<Snapshot> {
        let mut state = self.state();
        if let Some(db) = &state.writer {
            return Ok(db.snapshot());
        }
        Ok(state.reader(open)?.snapshot())
    }

    /// Returns the counters of the database. If it is not open, opens it with `open`.
    pub fn stats(&self, open: impl FnOnce() -> Result<ReadOnlyDb>) -> Result<Stats> {
        let mut state = self.state();
        if let Some(db) = &state.writer {
            return Ok(db.stats());
        }
        Ok(state.reader(open)?.stats())
    }

    /// Syncs and closes the database. A later command opens it again.
    pub fn close(&self) -> Result<()> {
        let OpenHandles { writer, .. } = std::mem::take(&mut *self.state());
        let Some(db) = writer else { return Ok(()) };
        let closed = db.close();
        writer::hold(None);
        Ok(closed?)
    }

    fn state(&self) -> MutexGuard<'_, OpenHandles> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenHandles {
    /// Returns the database for reading, with what other processes have written meanwhile.
    fn reader(&mut self, open: impl FnOnce() -> Result<ReadOnlyDb>) -> Result<&ReadOnlyDb> {
        // If another process has replaced the files, they are opened again.
        if self.reader.as_ref().is_some_and(|db| db.refresh().is_err()) {
            self.reader = None;
        }
        if self.reader.is_none() {
            self.reader = Some(open()?);
        }
        Ok(self.reader.as_ref().expect("just opened"))
    }
}

impl fmt::Debug for SharedDb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedDb")
    }
}
