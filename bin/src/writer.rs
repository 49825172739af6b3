//! The process, if any, that has the database open for writing.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use serde::Serialize;

use crate::error::{CliError, Result};
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

/// The database that the shell of this process opens for writing and keeps open.
static OF_SHELL: OnceLock<PathBuf> = OnceLock::new();

/// Registers `dir` as the database that the shell of this process opens for writing and keeps open.
pub fn keep_lock_of(dir: &Path) {
    // A process runs one shell.
    let _ = OF_SHELL.set(dir.to_path_buf());
}

/// Returns an error if `path` leads to the lock file of the shell's database. Call this function
/// before opening or replacing a file that the user names: closing a descriptor of the lock file
/// would release an `fcntl` lock, even one that is taken only after the file was opened.
pub fn check_not_lock(path: &Path) -> Result<()> {
    let is_lock = |dir: &PathBuf| system::is_same_file(path, &dir.join("LOCK"));
    if !OF_SHELL.get().is_some_and(is_lock) {
        return Ok(());
    }
    let what = "is the lock file of the database, whose lock would be lost; name another file";
    Err(CliError::Usage(format!("{} {what}", path.display())))
}

/// Returns whether two paths lead to the same directory.
pub fn is_same_dir(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

fn is_held_here(dir: &Path) -> bool {
    let held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    held.as_deref().is_some_and(|held| is_same_dir(held, dir))
}
