//! The removal of files that are not needed any more.
//!
//! 1. A table is obsolete once the edit that drops it is durable.
//! 2. An obsolete table is put into the [`Trash`] when the last version that names it is dropped. A
//!    snapshot or a cursor may keep an old version alive.
//! 3. The table is removed at the next [`Trash::empty`]. Background work calls `empty` when it
//!    ends, and a range delete calls it too. A dropped cursor, iterator or snapshot calls `empty`
//!    once it has released its view.
//!
//! Only the engine uses logs and MANIFESTs, and it removes them itself.
//!
//! # Why no view names a removed table
//! While an engine runs, only [`Trash`] removes the engine's tables, and it never removes a table
//! whose number belongs to a live [`TableFile`](crate::engine::version::TableFile). A view names
//! tables only through `TableFile`s. Removals have two causes:
//! - A `TableFile` that was marked obsolete is dropped. It is marked after the edit that drops it
//!   is durable. Every view made before that edit holds the `TableFile`. No view made later names
//!   it, because an edit that moves a table keeps the same `TableFile`, and an edit that drops a
//!   table that is not in the current version is refused (`VersionSet::commit`).
//! - A merge or a flush failed, and its edit is in no MANIFEST, so no version has named its
//!   outputs. If the edit may be in one (`VersionSet::is_in_doubt`), the outputs stay until the
//!   next open.
//!
//! An open removes the tables that its MANIFEST does not name. It does so before any view exists
//! and with the directory locked; the lock is held until the last view is dropped. File numbers are
//! not handed out twice: the numbers of the tables that a MANIFEST has named are below its next
//! file number. So even a late removal, after the database was closed, cannot hit a table that a
//! later open wrote.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use crate::base::process::ProcessId;
use crate::base::sync::atomic::AtomicBool;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::sync::{LockRank, Mutex};
use crate::base::{Error, Result};
use crate::format::name;
use crate::fs::{FileLock, Fs, check_not_replaced, is_in_use};

/// Removes tables. If a removal fails, the next open removes the table, because no MANIFEST names
/// it; if the table may have been open, the next removal and the end of the trash try again.
/// Thread-safe.
#[derive(Debug)]
pub(crate) struct Trash {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    tables: Mutex<TableRefs>,
    /// Copy of `tables.thrown.is_empty()`, so that `empty` can return without the lock of `tables`.
    /// Written under that lock.
    is_empty: AtomicBool,
    /// The lock of the directory, while it is held.
    lock: Option<Weak<dyn FileLock>>,
    /// The process that the tables belong to.
    pub process: ProcessId,
}

#[derive(Debug, Default)]
struct TableRefs {
    /// Number of `TableFile`s by table number, for every table that a version names.
    named: BTreeMap<u64, usize>,
    /// Numbers of the tables in the trash, which the next `empty` removes.
    thrown: Vec<u64>,
    /// Numbers of tables that could not be removed because they may have been open.
    refused: Vec<u64>,
}

impl Trash {
    /// Creates an empty trash for tables of `dir`.
    pub(crate) fn new(fs: Arc<dyn Fs>, dir: &Path) -> Trash {
        Trash {
            fs,
            dir: dir.to_path_buf(),
            tables: Mutex::ranked(LockRank::Leaf, TableRefs::default()),
            is_empty: AtomicBool::new(true),
            lock: None,
            process: ProcessId::current(),
        }
    }

    /// Returns the trash as a forked child has it.
    #[cfg(test)]
    pub(crate) fn inherited(mut self) -> Trash {
        self.process = ProcessId::other();
        self
    }

    /// Makes the trash stop removing tables once `lock`, the directory's lock, has been replaced.
    /// Returns the trash.
    pub(crate) fn guarded_by(mut self, lock: &Arc<dyn FileLock>) -> Trash {
        self.lock = Some(Arc::downgrade(lock));
        self
    }

    /// Checks that the directory is still the one that was locked, and not a new directory that
    /// another process has created under the same name. The check queries the lock file. This is
    /// cheap enough for every new file, but not for every write.
    ///
    /// # Errors
    /// An I/O error if the directory has been replaced, or if the lock file cannot be queried.
    pub(crate) fn check_directory(&self) -> Result<()> {
        let checked = check_not_replaced(self.lock.as_ref());
        checked.map_err(|error| Error::io("use", &self.dir, error))
    }

    /// Counts one more `TableFile` of the table `number`. The table is not removed until
    /// [`Trash::let_go`] has been called for each counted `TableFile`.
    pub(crate) fn hold(&self, number: u64) {
        *self.tables.lock().named.entry(number).or_insert(0) += 1;
    }

    /// Undoes one [`Trash::hold`] by decrementing the count of `TableFile`s. If `obsolete` is true,
    /// the next [`Trash::empty`] removes the table. This function does no I/O, so it can be called
    /// under any lock.
    pub(crate) fn let_go(&self, number: u64, obsolete: bool) {
        let Some(mut tables) = self.process.lock(&self.tables) else { return };
        debug_assert!(tables.named.contains_key(&number), "table {number:06} was not held");
        debug_assert!(!tables.thrown.contains(&number), "table {number:06} is thrown away twice");
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

    /// Removes all tables in the trash.
    pub(crate) fn empty(&self) {
        if self.is_empty.load(Relaxed) {
            return;
        }
        let thrown = {
            let Some(mut tables) = self.process.lock(&self.tables) else { return };
            self.is_empty.store(true, Relaxed);
            let refused = std::mem::take(&mut tables.refused);
            std::mem::take(&mut tables.thrown).into_iter().chain(refused)
        };
        self.remove(thrown);
    }

    /// Removes the tables `numbers`, except for tables that a version names. Does nothing in a
    /// forked child, whose parent may need them.
    pub(crate) fn remove(&self, numbers: impl Iterator<Item = u64>) {
        if !self.process.is_current() || self.check_directory().is_err() {
            return;
        }
        for number in numbers {
            if !self.tables.lock().named.contains_key(&number) {
                // Dropping a cursor may call this function, and a panic during a drop could abort
                // the process.
                let _stays = catch_unwind(AssertUnwindSafe(|| self.remove_file(number)));
            }
        }
    }

    fn remove_file(&self, number: u64) {
        // LevelDB before 1.14 gave tables a different file name.
        for file in [name::table_name(number), name::legacy_table_name(number)] {
            match self.fs.remove(&self.dir.join(file)) {
                Ok(()) => return,
                Err(error) if is_in_use(error.kind()) => self.tables.lock().refused.push(number),
                Err(_) => {}
            }
        }
    }
}

impl Drop for Trash {
    fn drop(&mut self) {
        self.is_empty.store(false, Relaxed);
        self.empty();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::process::in_time;
    use crate::fs::sim::Lack;
    use crate::fs::{MemFs, SimFs};

    #[test]
    fn a_table_is_removed_under_either_of_its_names_but_not_under_both() {
        let fs = MemFs::new();
        let dir = Path::new("db");
        fs.create_dir(dir).unwrap();
        let trash = Trash::new(Arc::new(fs.clone()), dir);
        let [now, before] =
            [name::table_name(7), name::legacy_table_name(7)].map(|name| dir.join(name));
        fs.create(&before).unwrap();
        trash.remove([7].into_iter());
        assert!(!fs.exists(&before).unwrap());
        fs.create(&before).unwrap();
        fs.create(&now).unwrap();
        trash.remove([7].into_iter());
        assert!(!fs.exists(&now).unwrap() && fs.exists(&before).unwrap());
    }

    #[test]
    fn a_table_that_was_open_is_removed_later() {
        let fs = SimFs::new(1);
        fs.set_lack(Lack::NamesOfOpenFiles);
        let dir = Path::new("/");
        let trash = Trash::new(Arc::new(fs.clone()), dir);
        let open = |number| fs.create(&dir.join(name::table_name(number))).unwrap();
        let there = |number| fs.exists(&dir.join(name::table_name(number))).unwrap();
        let (seventh, eighth) = (open(7), open(8));
        trash.remove([7, 8].into_iter());
        assert!(there(7) && there(8), "they are open");
        drop(seventh);
        trash.empty();
        assert!(there(7), "nothing was thrown away, so nothing is tried");
        trash.hold(9);
        drop(open(9));
        trash.let_go(9, true);
        trash.empty();
        assert!(!there(7) && there(8) && !there(9));
        drop(eighth);
        drop(trash);
        assert!(!there(8));
    }

    #[test]
    fn a_forked_child_removes_no_table_of_its_parent() {
        let fs = MemFs::new();
        let dir = Path::new("db");
        fs.create_dir(dir).unwrap();
        let path = dir.join(name::table_name(7));
        fs.create(&path).unwrap();
        let trash = Trash::new(Arc::new(fs.clone()), dir).inherited();
        trash.hold(7);
        trash.let_go(7, true);
        trash.empty();
        trash.remove([7].into_iter());
        drop(trash);
        assert!(fs.exists(&path).unwrap());
    }

    #[test]
    fn a_forked_child_does_not_wait_for_the_tables_that_a_thread_of_its_parent_counts() {
        let trash = Trash::new(Arc::new(MemFs::new()), Path::new("db")).inherited();
        trash.hold(7);
        trash.hold(8);
        trash.let_go(8, true);
        let trash = Arc::new(trash);
        let _held = trash.tables.lock();
        let child = trash.clone();
        in_time(move || {
            child.let_go(7, true);
            child.empty();
        });
    }

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
