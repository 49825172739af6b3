//! The process, if any, that has the database open for writing.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

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
    /// disturb a writer. A process that holds the lock must not call this function: closing a
    /// descriptor of the lock file would release an `fcntl` lock. A `flock` lock, the only lock
    /// that goleveldb takes, is detected only on Linux.
    pub fn of(dir: &Path) -> Option<Writer> {
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
