//! Removing a database.

use std::path::{Path, PathBuf};

use crate::base::{Error, Feature, Result};
use crate::engine::open::directory::{self, NewLock};
use crate::engine::open::entries;
use crate::engine::options::Options;
use crate::engine::version::manifest;
use crate::format::name::FileName;
use crate::fs::Fs;

/// Removes the database in the directory `dir`: every file that belongs to a database, and also
/// `dir` if it contains no other files. Succeeds if there is no database.
///
/// # Errors
/// [`Error::Locked`] if the database is open; [`Error::InvalidArgument`] if `lost` in `dir` is not
/// a directory but, for example, a symbolic link; [`Error::Unsupported`] if the directory belongs
/// to another engine, or has a MANIFEST that this build does not know. After these errors, nothing
/// has been removed. I/O errors. The comparator does not matter, as in LevelDB.
pub fn destroy(dir: impl AsRef<Path>, options: &Options) -> Result<()> {
    let fs = &*options.fs;
    let dir = &*crate::fs::absolute(fs, dir.as_ref())?;
    let exists = fs.exists(dir).map_err(|error| Error::io("look for", dir, error))?;
    if !exists || entries::list_files(fs, dir)?.is_empty() {
        return Ok(());
    }
    refuse_unsupported(fs, dir, options)?;
    let lock = NewLock::take(fs, dir, options.allow_no_lock)?;
    let remove = |path: &Path| fs.remove(path).map_err(|error| Error::io("remove", path, error));
    if let Some(lost) = directory::find_lost(fs, dir)? {
        for (file, _) in entries::list_files(fs, &lost)? {
            remove(&lost.join(file))?;
        }
        remove_if_empty(fs, &lost)?;
    }
    // CURRENT is removed first: after a crash, an open then fails instead of finding a smaller
    // database. LOCK is removed last, because its lock is still held.
    let mut files = entries::list_files(fs, dir)?;
    files.sort_by_key(|(_, name)| match name {
        FileName::Current => 0,
        FileName::Lock => 2,
        _ => 1,
    });
    let lock_file = files.pop_if(|(_, name)| *name == FileName::Lock);
    for (file, _) in files {
        remove(&dir.join(file))?;
    }
    remove_lock(fs, lock_file.map(|(file, _)| dir.join(file)), lock)?;
    remove_if_empty(fs, dir)
}

/// Removes the lock file, if there is one, and releases the lock.
fn remove_lock(fs: &dyn Fs, path: Option<PathBuf>, lock: NewLock<'_>) -> Result<()> {
    let guard = lock.keep();
    let Some(path) = path else { return Ok(()) };
    directory::remove_lock(fs, &path, guard).map_err(|error| Error::io("remove", path, error))
}

/// Returns an error if the MANIFEST is one that this build does not know. A damaged or missing
/// MANIFEST shows nothing.
fn refuse_unsupported(fs: &dyn Fs, dir: &Path, options: &Options) -> Result<()> {
    match manifest::recover_beside_writer(fs, dir, options.comparator.name()) {
        Err(Error::Unsupported { what: Feature::Comparator, .. }) => Ok(()),
        Err(error @ Error::Unsupported { .. }) => Err(error),
        _ => Ok(()),
    }
}

/// Removes `dir`, unless it contains files that do not belong to a database.
fn remove_if_empty(fs: &dyn Fs, dir: &Path) -> Result<()> {
    if fs.list(dir).map_err(|error| Error::io("list", dir, error))?.is_empty() {
        fs.remove_dir(dir).map_err(|error| Error::io("remove", dir, error))?;
    }
    Ok(())
}
