//! The process, if any, that has the database open for writing.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use crate::{output, system};

/// The process that holds the database's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Writer {
    /// Id of the process; `None` if the system does not report it.
    pub process: Option<u32>,
}

impl Writer {
    /// Returns the holder of the lock of the database in `dir`.
    ///
    /// This function only queries the lock. It locks, creates and changes nothing, so it does not
    /// disturb a writer. If this process holds the lock ([`hold`]), returns `None` without opening
    /// the lock file, because closing a descriptor of it would release an `fcntl` lock.
    pub fn of(dir: &Path) -> Option<Writer> {
        if is_held_here(dir) {
            return None;
        }
        let process = system::lock_holder(&dir.join("LOCK"))?;
        Some(Writer { process })
    }

    /// Tells the user on stderr that a writer is active, and that the output shows the state at one
    /// moment.
    pub fn say(self, dir: &Path) {
        let who = match self.process {
            Some(pid) => format!("process {pid}"),
            None => "another process".to_string(),
        };
        output::say(format!(
            "minikv: {who} has {} open for writing; this shows one moment, read without the lock",
            dir.display()
        ));
    }
}

/// The database that this process has open for writing while it runs other commands.
static HELD: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Registers `dir` as the database that this process has open for writing, or `None` after it was
/// closed.
pub fn hold(dir: Option<&Path>) {
    *HELD.lock().unwrap_or_else(PoisonError::into_inner) = dir.map(Path::to_path_buf);
}

/// Returns whether two paths lead to the same directory.
pub fn is_same_dir(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

fn is_held_here(dir: &Path) -> bool {
    let held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    held.as_deref().is_some_and(|held| is_same_dir(held, dir))
}
