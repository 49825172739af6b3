//! Locks that LevelDB and goleveldb respect, too.
//!
//! LevelDB takes an `fcntl` write lock over the whole `LOCK` file (`util/env_posix.cc`), goleveldb
//! a `flock` (`leveldb/storage/file_storage_unix.go`). On Linux the two kinds of locks do not
//! conflict, so this module takes both. On macOS and the BSDs they do conflict, even within a
//! process (see their fcntl(2)): the first lock would prevent the second, so only the `fcntl` lock
//! is taken.
//!
//! An `fcntl` lock belongs to the process: locking again in the same process succeeds, and closing
//! *any* descriptor of the file releases the lock.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, fcntl_getlk};

use super::files::{not_through_links, of_metadata};
use crate::base::lock_holder::LockHolder;
use crate::fs::system::FileIdentity;

/// A call that takes or releases one kind of lock.
type LockCall = fn(&File, FlockOperation) -> rustix::io::Result<()>;

/// The kinds of locks to take.
#[cfg(target_os = "linux")]
const KINDS: &[LockCall] = &[
    |file, operation| rustix::fs::fcntl_lock(file, operation),
    |file, operation| rustix::fs::flock(file, operation),
];
#[cfg(not(target_os = "linux"))]
const KINDS: &[LockCall] = &[|file, operation| rustix::fs::fcntl_lock(file, operation)];

/// Opens the lock file at `path`, which is created if it is missing. The inner error is another
/// process that lets nobody open it, which there is none of here.
pub(in crate::fs) fn open_lock(path: &Path) -> io::Result<Result<File, LockHolder>> {
    let mut options = not_through_links();
    options.read(true).write(true).create(true).truncate(false).open(path).map(Ok)
}

/// Locks an open file. Returns whether the filesystem has locks, or the holder of the lock as the
/// inner error.
///
/// On a filesystem that has only one of the two kinds of locks, that one is enough: an engine that
/// uses the other kind cannot open the database there.
pub(in crate::fs) fn take_lock(
    file: &File,
    id: FileIdentity,
) -> io::Result<Result<bool, LockHolder>> {
    take_kinds(file, id, KINDS)
}

fn take_kinds(
    file: &File,
    id: FileIdentity,
    kinds: &[LockCall],
) -> io::Result<Result<bool, LockHolder>> {
    let (mut is_locked, mut has_room) = (false, true);
    for take in kinds {
        match take(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => is_locked = true,
            Err(Errno::NOLCK) => has_room = false,
            Err(error) if is_lack(error) => {}
            // POSIX allows either error for a refused fcntl lock.
            Err(Errno::AGAIN | Errno::ACCESS) => return Ok(Err(holder(file, id))),
            Err(error) => return Err(error.into()),
        }
    }
    // A server without locks has neither kind. If it has the other one, its table of locks is full,
    // and an engine that uses this kind may be in the directory.
    if is_locked && !has_room {
        return Err(Errno::NOLCK.into());
    }
    Ok(Ok(is_locked))
}

/// Releases the lock on a file that is about to be closed.
pub(in crate::fs) fn release_lock(file: &File) {
    // A child process between fork and exec shares the flock. An explicit unlock releases the flock
    // for the child, too; closing the file would not.
    let _ = rustix::fs::flock(file, FlockOperation::Unlock);
    let _ = rustix::fs::fcntl_lock(file, FlockOperation::NonBlockingUnlock);
}

/// Returns whether another file than the one that was locked is at `path`.
pub(in crate::fs) fn lock_is_replaced(path: &Path, id: FileIdentity) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(of_metadata(&metadata) != id),
        // The next process that locks the directory creates another lock file, which a later call
        // notices.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns whether an error means that the filesystem lacks a kind of lock.
fn is_lack(error: Errno) -> bool {
    [Errno::OPNOTSUPP, Errno::NOTSUP, Errno::NOSYS, Errno::INVAL].contains(&error)
}

/// Returns the holder of the lock on `file`, as far as the system reports it.
fn holder(file: &File, id: FileIdentity) -> LockHolder {
    #[cfg(target_os = "linux")]
    if let Ok(table) = fs::read_to_string("/proc/locks")
        && let Some(pid) = holder_in_proc_locks(&table, id, std::process::id())
    {
        return match u32::try_from(pid) {
            // The system names the process that took a `flock`, but the lock belongs to every
            // process that inherited the open file.
            Ok(ended) if pid > 0 && !Path::new(&format!("/proc/{ended}")).exists() => {
                LockHolder::ForkOf { ended, heir: user_of(id) }
            }
            pid => LockHolder::Process(pid.ok()),
        };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = id;
    let blocking = fcntl_getlk(file, &Flock::from(FlockType::WriteLock)).ok().flatten();
    // The pid is 0 if the process is outside of the pid namespace of this process.
    let pid = blocking.and_then(|blocking| blocking.pid);
    LockHolder::Process(pid.and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok()))
}

/// Returns another process that has the file open, if there is one and this process may see it.
#[cfg(target_os = "linux")]
fn user_of(id: FileIdentity) -> Option<u32> {
    let pids = fs::read_dir("/proc").ok()?.flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != std::process::id()).find(|pid| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut ids = files.filter_map(|file| Some(of_metadata(&fs::metadata(file.path()).ok()?)));
        ids.any(|file| file == id)
    })
}

/// Searches `table`, the contents of `/proc/locks`, for the process that holds a lock on a file.
/// Linux reports the holder of a `flock` nowhere else.
///
/// A line looks like `1: FLOCK  ADVISORY  WRITE 708 08:01:1234 0 EOF`; waiters have an arrow after
/// the number. The process id is -1 if the lock belongs to an open file rather than to a process.
/// Skips locks of the process `ours`, which may just have taken one of its two locks.
#[cfg(target_os = "linux")]
fn holder_in_proc_locks(table: &str, (dev, ino): FileIdentity, ours: u32) -> Option<i64> {
    let file = format!("{:02x}:{:02x}:{ino}", rustix::fs::major(dev), rustix::fs::minor(dev));
    table.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(4);
        let pid: i64 = fields.next()?.parse().ok()?;
        (fields.next()? == file && pid != i64::from(ours)).then_some(pid)
    })
}

#[cfg(test)]
mod tests;
