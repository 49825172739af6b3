//! Locks that LevelDB and goleveldb respect, too.
//!
//! LevelDB opens `LOCK` for writing, shares it with readers, and takes a `LockFile` lock
//! (`util/env_windows.cc`); goleveldb shares it with nobody
//! (`leveldb/storage/file_storage_windows.go`). So a process that shares the file with nobody
//! keeps both out. Nobody can remove or rename the file then, either, or its directory.
//! `LockFileEx` keeps out programs on servers that forget the share mode.

use std::fs::File;
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::path::Path;

use fs4::{FileExt, TryLockError};

use super::files::{ERROR_LOCK_VIOLATION, ERROR_SHARING_VIOLATION, not_through_links};
use crate::base::lock_holder::LockHolder;
use crate::fs::system::FileIdentity;

const ERROR_INVALID_FUNCTION: i32 = 1;
const ERROR_NOT_SUPPORTED: i32 = 50;

/// Opens the lock file at `path`, which is created if it is missing. The inner error is another
/// process that has it open; the system does not tell which.
pub(in crate::fs) fn open_lock(path: &Path) -> io::Result<Result<File, LockHolder>> {
    let mut options = not_through_links();
    options.read(true).write(true).create(true).truncate(false).share_mode(0);
    match options.open(path) {
        Err(error) if is_code(&error, &[ERROR_SHARING_VIOLATION, ERROR_LOCK_VIOLATION]) => {
            Ok(Err(LockHolder::Process(None)))
        }
        opened => opened.map(Ok),
    }
}

/// Locks an open file. Returns whether the filesystem has locks, or the holder of the lock as the
/// inner error.
pub(in crate::fs) fn take_lock(
    file: &File,
    _: FileIdentity,
) -> io::Result<Result<bool, LockHolder>> {
    match FileExt::try_lock(file) {
        Ok(()) => Ok(Ok(true)),
        Err(TryLockError::WouldBlock) => Ok(Err(LockHolder::Process(None))),
        Err(TryLockError::Error(error))
            if is_code(&error, &[ERROR_INVALID_FUNCTION, ERROR_NOT_SUPPORTED]) =>
        {
            Ok(Ok(false))
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Releases the lock on a file that is about to be closed.
pub(in crate::fs) fn release_lock(file: &File) {
    let _ = FileExt::unlock(file);
}

/// Returns false: nobody can replace a file that is shared with nobody.
pub(in crate::fs) fn lock_is_replaced(_: &Path, _: FileIdentity) -> io::Result<bool> {
    Ok(false)
}

fn is_code(error: &io::Error, codes: &[i32]) -> bool {
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};

    use super::*;
    use crate::fs::{DiskFs, Fs};

    const FILE_SHARE_READ: u32 = 1;

    /// Opens the lock file as another engine does, whose share mode is given.
    fn open_as(path: &Path, share: u32) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create(true).share_mode(share).open(path)
    }

    #[test]
    fn leveldb_and_goleveldb_are_kept_out_and_keep_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        for share in [FILE_SHARE_READ, 0] {
            let ours = DiskFs.lock(&path).unwrap().unwrap();
            let refused = open_as(&path, share).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(ERROR_SHARING_VIOLATION));
            drop(ours);
            let theirs = open_as(&path, share).unwrap();
            let refused = DiskFs.lock(&path).unwrap().unwrap_err();
            assert_eq!(refused, LockHolder::Process(None));
            drop(theirs);
        }
    }

    #[test]
    fn a_lock_file_stays_while_it_is_locked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let lock = DiskFs.lock(&path).unwrap().unwrap();
        assert_eq!(DiskFs.lock(&path).unwrap().unwrap_err(), LockHolder::ThisProcess);
        let upper = dir.path().join("lock");
        assert_eq!(DiskFs.lock(&upper).unwrap().unwrap_err(), LockHolder::ThisProcess);
        assert_eq!(DiskFs.remove(&path).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        assert!(fs::rename(&path, dir.path().join("OTHER")).is_err());
        drop(lock);
        DiskFs.remove(&path).unwrap();
    }
}
