//! The locks of `Env::Default()`, which are those of databases on the disk: one table says what
//! this process has locked.

use std::io;
use std::path::Path;
use std::sync::Arc;

use minikv::fs::{DiskFs, FileLock, Fs};
use minikv::{Error, Result};

use crate::border::{ErrPtr, In, Kept, export};

/// Locks a file, which is created if it is missing.
///
/// # Errors
/// `Locked`, also if this process holds the lock; I/O errors, also if the filesystem has no locks.
fn lock(path: &Path) -> Result<Kept<Box<dyn FileLock>>> {
    let failed = |source| Error::Io { op: "lock", path: path.to_owned(), source: Arc::new(source) };
    let lock = DiskFs.lock(path).map_err(failed)?;
    let lock = lock.map_err(|holder| Error::Locked { path: path.to_owned(), holder })?;
    match lock.excludes_processes() {
        true => Ok(Kept::new(lock)),
        false => Err(failed(io::Error::other("the filesystem has no locks"))),
    }
}

export! {
    fn cpp_lock(name: In, errptr: ErrPtr) -> Kept<Box<dyn FileLock>> {
        errptr.report(lock(name.path())).unwrap_or_else(Kept::null)
    }

    fn cpp_unlock(lock: Kept<Box<dyn FileLock>>) {
        drop(lock.take());
    }
}
