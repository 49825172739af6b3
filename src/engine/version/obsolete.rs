//! What becomes of files nobody needs any more.
//!
//! A table is obsolete once the edit that drops it is durable, and is removed when the last
//! version, snapshot of a version or cursor that names it goes. Logs and MANIFESTs have one user,
//! the engine, and are removed by it.
//!
//! # Why no view names a table that is gone
//! While an engine runs, [`Trash`] alone removes its tables, and it removes none of whose number a
//! [`TableFile`](crate::engine::version::TableFile) is alive. A view names a table by nothing else.
//! Who asks for a removal:
//! - the drop of a `TableFile` that was marked obsolete. It is marked after the edit that drops it
//!   is durable; every view made before holds it, and no view made later names it, because an edit
//!   that moves it keeps the same object, and an edit that drops what is not in the current version
//!   is refused (`VersionSet::commit`).
//! - a merge or a flush that failed before its edit was tried: no version has named its outputs.
//!   After an edit that failed, or of which that is not known, they stay for the next open.
//!
//! An open removes what its MANIFEST does not name, before there is a view and with the directory
//! locked; that lock is held until the last view is gone. Numbers are not given twice: those that
//! a MANIFEST named are below its next file number, so even a removal that comes late, from a
//! database that was closed, finds no table of another.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use crate::base::sync::{LockRank, Mutex};
use crate::base::sync::atomic::AtomicBool;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::{Error, Result};
use crate::format::name;
use crate::fs::{FileLock, Fs, check_not_replaced};

/// Removes tables. A removal that fails is tried again by the next open, which removes whatever no
/// MANIFEST names.
#[derive(Debug)]
pub struct Trash {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    tables: Mutex<Tables>,
    /// Whether no table is thrown: callers look here before they take the lock. Written under it.
    is_empty: AtomicBool,
    /// The lock of the directory, while it is held.
    lock: Option<Weak<dyn FileLock>>,
}

#[derive(Debug, Default)]
struct Tables {
    /// The tables that versions name, and in how many objects.
    named: BTreeMap<u64, usize>,
    /// The tables to remove.
    thrown: Vec<u64>,
}

impl Trash {
    /// Removes tables of `dir`.
    pub fn new(fs: Arc<dyn Fs>, dir: &Path) -> Trash {
        Trash {
            fs,
            dir: dir.to_path_buf(),
            tables: Mutex::ranked(LockRank::Leaf, Tables::default()),
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
        let checked = check_not_replaced(self.lock.as_ref());
        checked.map_err(|error| Error::io("use", &self.dir, error))
    }

    /// Takes note that a version names the table: it is not removed before
    /// [`Trash::let_go`] was called as often.
    pub fn hold(&self, number: u64) {
        *self.tables.lock().named.entry(number).or_insert(0) += 1;
    }

    /// Takes note that the table is named once less, and, if it is `obsolete`, that it is to be
    /// removed. That is done later: readers do not wait for the disk.
    pub fn let_go(&self, number: u64, obsolete: bool) {
        let mut tables = self.tables.lock();
        if let Some(count) = tables.named.get_mut(&number) {
            *count -= 1;
            if *count == 0 {
                tables.named.remove(&number);
            }
        }
        if obsolete {
            tables.thrown.push(number);
            self.is_empty.store(false, Relaxed);
        }
    }

    /// Removes the tables that were thrown.
    pub fn empty(&self) {
        if self.is_empty.load(Relaxed) {
            return;
        }
        let thrown = {
            let mut tables = self.tables.lock();
            self.is_empty.store(true, Relaxed);
            std::mem::take(&mut tables.thrown)
        };
        self.remove(thrown.into_iter());
    }

    /// Removes tables, but for those that a version names.
    pub fn remove(&self, numbers: impl Iterator<Item = u64>) {
        if self.check_directory().is_err() {
            return;
        }
        for number in numbers {
            if !self.tables.lock().named.contains_key(&number) {
                // Dropping a cursor comes here, and a panic in a drop could end the process.
                let _stays = catch_unwind(AssertUnwindSafe(|| self.remove_file(number)));
            }
        }
    }

    fn remove_file(&self, number: u64) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::MemFs;

    #[test]
    fn a_table_that_a_version_names_is_not_removed_whoever_asks() {
        let fs = MemFs::new();
        let dir = Path::new("db");
        fs.create_dir(dir).unwrap();
        let path = dir.join(name::table_name(7));
        fs.create(&path).unwrap();
        let trash = Trash::new(Arc::new(fs.clone()), dir);
        trash.hold(7);
        trash.hold(7);
        trash.let_go(7, true);
        trash.empty();
        trash.remove([7].into_iter());
        assert!(fs.exists(&path).unwrap(), "it is named once more");
        trash.let_go(7, true);
        assert!(fs.exists(&path).unwrap(), "nobody waits for the disk");
        trash.empty();
        assert!(!fs.exists(&path).unwrap());
    }
}
