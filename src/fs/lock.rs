//! The lock on a database directory, which LevelDB and goleveldb respect, too.
//!
//! The files that this process has locked are kept in a table, which is checked before a lock file
//! is opened, because on Unix an `fcntl` lock does not keep out its own process, and is released
//! when *any* descriptor of the file is closed. So nothing else in the process may open a `LOCK`
//! file.

use std::fs::{
    File, {self},
};
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::{Mutex, MutexGuard};

use super::open::require_regular_file;
use super::system::{
    FileIdentity, identity, identity_of, lock_is_replaced, open_lock, release_lock, take_lock,
};
use super::{FileLock, LockHolder};

/// The files that this process has locked. The mutex is held while a lock file is opened or closed.
static LOCKED: Mutex<Vec<FileIdentity>> = Mutex::new(Vec::new());

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
    /// `None` only while being dropped.
    pub(super) file: Option<File>,
    id: FileIdentity,
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

impl Drop for DiskLock {
    fn drop(&mut self) {
        let mut locked = LOCKED.lock();
        if let Some(file) = self.file.take() {
            release_lock(&file);
        }
        debug_assert!(locked.contains(&self.id), "a lock that is not in the table");
        locked.retain(|id| *id != self.id);
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
            Ok(metadata) if locked.contains(&identity_of(path, &metadata)?) => {
                return Ok(Err(LockHolder::ThisProcess));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        if let Some(outcome) = try_lock(path, take, &mut locked)? {
            return Ok(outcome);
        }
    }
    Err(io::Error::other("the lock file was replaced again and again while being locked"))
}

/// Tries once to lock `path`. Returns `None` if the file was removed or replaced before it was
/// locked, which makes the lock worthless.
fn try_lock(
    path: &Path,
    take: TakeLock<'_>,
    locked: &mut MutexGuard<'_, Vec<FileIdentity>>,
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
    debug_assert!(!locked.contains(&id), "a file is locked twice");
    locked.push(id);
    let path = path.to_path_buf();
    Ok(Some(Ok(DiskLock { file: Some(file), id, path, is_locked })))
}
