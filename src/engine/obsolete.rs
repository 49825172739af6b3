//! What becomes of files nobody needs any more.
//!
//! A table is obsolete once the edit that drops it is durable, and is removed when the last
//! version, snapshot of a version or cursor that names it goes. Logs and MANIFESTs have one user,
//! the engine, and are removed by it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicBool, Ordering::Relaxed};
use crate::base::{Error, Result};
use crate::format::name;
use crate::fs::{FileLock, Fs};

/// Removes obsolete tables. A removal that fails is tried again by the next open, which removes
/// whatever no MANIFEST names.
#[derive(Debug)]
pub struct Trash {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    /// Tables to remove, when someone comes by whom it does not delay.
    thrown: Mutex<Vec<u64>>,
    /// Whether `thrown` is: who comes by looks here first. Written under its lock.
    is_empty: AtomicBool,
    /// The lock of the directory, while it is held.
    lock: Option<Weak<dyn FileLock>>,
}

impl Trash {
    /// Removes tables of `dir`.
    pub fn new(fs: Arc<dyn Fs>, dir: &Path) -> Trash {
        Trash {
            fs,
            dir: dir.to_path_buf(),
            thrown: Mutex::default(),
            is_empty: AtomicBool::new(true),
            lock: None,
        }
    }

    /// Removes nothing once `lock`, that of the directory, was replaced.
    pub fn guarded_by(mut self, lock: &Arc<dyn FileLock>) -> Trash {
        self.lock = Some(Arc::downgrade(lock));
        self
    }

    /// Checks that the directory is the one that was locked, and not one that another process has
    /// made since under the same name. One look at the lock file: for what writes whole files.
    ///
    /// # Errors
    /// If it is another one, or it cannot be told.
    pub fn check_directory(&self) -> Result<()> {
        let Some(lock) = self.lock.as_ref().and_then(Weak::upgrade) else { return Ok(()) };
        let failed = |error| Err(Error::io("write to", &self.dir, error));
        match lock.is_replaced() {
            Ok(false) => Ok(()),
            Ok(true) => failed(io::Error::other(
                "its LOCK is not the one that was locked: the directory was removed and made again",
            )),
            Err(error) => failed(error),
        }
    }

    /// Takes note of a table to remove: readers do not wait for the disk.
    pub fn throw(&self, number: u64) {
        let mut thrown = self.thrown.lock();
        thrown.push(number);
        self.is_empty.store(false, Relaxed);
    }

    /// Removes what was thrown.
    pub fn empty(&self) {
        if self.is_empty.load(Relaxed) {
            return;
        }
        let thrown = {
            let mut thrown = self.thrown.lock();
            self.is_empty.store(true, Relaxed);
            std::mem::take(&mut *thrown)
        };
        if self.check_directory().is_err() {
            return;
        }
        for number in thrown {
            self.remove_table(number);
        }
    }

    fn remove_table(&self, number: u64) {
        // The table may have the name that LevelDB before 1.14 gave it.
        for file in [name::table_name(number), name::legacy_table_name(number)] {
            if self.fs.remove(&self.dir.join(file)).is_ok() {
                return;
            }
        }
    }
}

impl Drop for Trash {
    fn drop(&mut self) {
        self.empty();
    }
}
