//! The process, if any, that has the database open for writing.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::OFlags;
use rustix::process::{Flock, FlockType, fcntl_getlk};
use serde::Serialize;

use crate::output;

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
    /// disturb a writer. A `flock` lock, the only lock that goleveldb takes, is detected only on
    /// Linux. If this process holds the lock ([`hold`]), returns `None` without opening the lock
    /// file, because closing a descriptor of it would release an `fcntl` lock.
    pub fn of(dir: &Path) -> Option<Writer> {
        if is_held_here(dir) {
            return None;
        }
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = File::options()
            .read(true)
            .custom_flags(flags.bits() as i32)
            .open(dir.join("LOCK"))
            .ok()?;
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        if let Ok(Some(lock)) = fcntl_getlk(&file, &Flock::from(FlockType::WriteLock)) {
            // The process id is 0 for a process outside the pid namespace of this process.
            let process = lock.pid.and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok());
            return Some(Writer { process });
        }
        flock_holder(&file)
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

/// Returns the process that holds a `flock` lock on the file, according to Linux's list of locks. A
/// line of the list is `1: FLOCK  ADVISORY  WRITE 708 08:01:1234 0 EOF`.
#[cfg(target_os = "linux")]
fn flock_holder(file: &File) -> Option<Writer> {
    use std::os::unix::fs::MetadataExt;
    let metadata = file.metadata().ok()?;
    let (dev, ino) = (metadata.dev(), metadata.ino());
    let name = format!("{:02x}:{:02x}:{ino}", rustix::fs::major(dev), rustix::fs::minor(dev));
    let table = std::fs::read_to_string("/proc/locks").ok()?;
    table.lines().find_map(|line| {
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        match fields[..] {
            [_, "FLOCK", _, "WRITE", pid, file, ..] if file == name => {
                Some(Writer { process: pid.parse().ok() })
            }
            _ => None,
        }
    })
}

#[cfg(not(target_os = "linux"))]
fn flock_holder(_: &File) -> Option<Writer> {
    None
}
