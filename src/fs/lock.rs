//! The lock on a database directory, which LevelDB and goleveldb respect, too.
//!
//! The files that this process has locked are kept in a table, which is checked before a lock file
//! is opened, because on Unix an `fcntl` lock does not keep out its own process, and is released
//! when *any* descriptor of the file is closed. So nothing else in the process may open a `LOCK`
//! file.
//!
//! A forked child inherits the table and the open files, which still are its parent's: it neither
//! releases these locks nor holds them, but its copies of the files keep a `flock` alive.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::{io, process};

use parking_lot::Mutex;

use super::open::require_regular_file;
use super::system::{
    FileIdentity, identity, identity_of, lock_is_replaced, open_lock, release_lock, take_lock,
};
use super::{FileLock, LockHolder};

/// A file that a process has locked: this one, or one from which it was forked.
struct Locked {
    id: FileIdentity,
    process: u32,
    file: File,
}

impl Locked {
    /// Returns whether this process has locked the file `id`, and this is its entry.
    fn is_ours(&self, id: FileIdentity) -> bool {
        self.id == id && self.process == process::id()
    }
}

/// The locked files. The mutex is held while a lock file is opened or closed.
static LOCKED: Mutex<Vec<Locked>> = Mutex::new(Vec::new());

/// Maximum number of attempts to lock a file that is replaced at every attempt. More attempts only
/// delay the error.
const MAX_ATTEMPTS: usize = 100;

/// A call that locks an open file. Returns whether the filesystem has locks, or the holder of the
/// lock as the inner error.
pub(super) type TakeLock<'a> =
    &'a dyn Fn(&File, FileIdentity) -> io::Result<Result<bool, LockHolder>>;

/// A locked file. Dropping it releases the lock.
#[derive(Debug)]
pub(super) struct DiskLock {
    id: FileIdentity,
    /// The process that has locked the file.
    process: u32,
    path: PathBuf,
    /// Whether the filesystem has locks of any kind.
    is_locked: bool,
}

impl FileLock for DiskLock {
    fn excludes_processes(&self) -> bool {
        self.is_locked
    }

    fn is_replaced(&self) -> io::Result<bool> {
        lock_is_replaced(&self.path, self.id)
    }
}

impl DiskLock {
    /// Returns another handle of the file.
    #[cfg(test)]
    #[allow(dead_code, reason = "only Unix has tests that need it")]
    pub(super) fn handle(&self) -> File {
        let locked = LOCKED.lock();
        locked.iter().find(|locked| locked.is_ours(self.id)).unwrap().file.try_clone().unwrap()
    }
}

impl Drop for DiskLock {
    fn drop(&mut self) {
        // A forked child would release the lock of its parent, and by closing the file also a lock
        // of its own.
        if self.process != process::id() {
            return;
        }
        let mut locked = LOCKED.lock();
        let at = locked.iter().position(|locked| locked.is_ours(self.id));
        debug_assert!(at.is_some(), "a lock that is not in the table");
        if let Some(at) = at {
            release_lock(&locked.swap_remove(at).file);
        }
    }
}

/// Locks `path`. Creates the file if it is missing, but never truncates or removes it. Returns the
/// lock, or the holder of the lock as the inner error.
pub(super) fn lock(path: &Path) -> io::Result<Result<DiskLock, LockHolder>> {
    lock_by(path, &take_lock)
}

/// Locks `path` as [`lock`] does, by the call `take`.
pub(super) fn lock_by(path: &Path, take: TakeLock<'_>) -> io::Result<Result<DiskLock, LockHolder>> {
    let mut locked = LOCKED.lock();
    for _ in 0..MAX_ATTEMPTS {
        match require_regular_file(path) {
            Ok(metadata) => {
                let id = identity_of(path, &metadata)?;
                if locked.iter().any(|locked| locked.is_ours(id)) {
                    return Ok(Err(LockHolder::ThisProcess));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        match try_lock(path, take, &mut locked)? {
            // Nothing tells of a process that has ended where `/proc` does not.
            Some(Err(LockHolder::ForkOf { .. } | LockHolder::Process(None)))
                if close_inherited(path, &mut locked)? => {}
            Some(outcome) => return Ok(outcome),
            None => {}
        }
    }
    Err(io::Error::other("the lock file was replaced again and again while being locked"))
}

/// Closes the file at `path` that this process has inherited by a fork, and with it the lock of a
/// process that has ended. Returns whether there was one. Must not be called while this process
/// has the file locked itself.
fn close_inherited(path: &Path, locked: &mut Vec<Locked>) -> io::Result<bool> {
    if locked.iter().all(|locked| locked.is_ours(locked.id)) {
        return Ok(false);
    }
    let id = identity_of(path, &require_regular_file(path)?)?;
    let before = locked.len();
    locked.retain(|locked| locked.id != id);
    Ok(locked.len() < before)
}

/// Tries once to lock `path`. Returns `None` if the file was removed or replaced before it was
/// locked, which makes the lock worthless.
fn try_lock(
    path: &Path,
    take: TakeLock<'_>,
    locked: &mut Vec<Locked>,
) -> io::Result<Option<Result<DiskLock, LockHolder>>> {
    let file = match open_lock(path)? {
        Ok(file) => file,
        Err(holder) => return Ok(Some(Err(holder))),
    };
    let id = identity(&file)?;
    let is_locked = match take(&file, id)? {
        Ok(is_locked) => is_locked,
        Err(holder) => return Ok(Some(Err(holder))),
    };
    match fs::symlink_metadata(path) {
        Ok(metadata) if identity_of(path, &metadata)? == id => {}
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    debug_assert!(!locked.iter().any(|locked| locked.is_ours(id)), "a file is locked twice");
    let process = process::id();
    locked.push(Locked { id, process, file });
    Ok(Some(Ok(DiskLock { id, process, path: path.to_path_buf(), is_locked })))
}
