//! Removing a database.

use std::path::Path;

use crate::base::{Error, Result};
use crate::engine::directory;
use crate::engine::options::Options;
use crate::format::name::FileName;

/// Removes the database in the directory `dir`: every file that is one of a database's, and `dir`
/// if nothing else is in it. No database there is fine.
///
/// # Errors
/// [`Error::Locked`] if it is open; I/O errors.
pub fn destroy(dir: impl AsRef<Path>, options: &Options) -> Result<()> {
    let (dir, fs) = (dir.as_ref(), &*options.fs);
    let exists = fs.exists(dir).map_err(|error| Error::io("look for", dir, error))?;
    if !exists || directory::list(fs, dir)?.is_empty() {
        return Ok(());
    }
    let lock = directory::lock(fs, dir)?;
    let files = directory::list(fs, dir)?;
    // CURRENT first: without it, what a crash leaves is not taken for a database that lost files.
    let current_first = |(_, name): &&(String, FileName)| !matches!(name, FileName::Current);
    let (rest, first): (Vec<_>, Vec<_>) = files.iter().partition(current_first);
    for (file, name) in first.into_iter().chain(rest) {
        if !matches!(name, FileName::Lock) {
            let path = dir.join(file);
            fs.remove(&path).map_err(|error| Error::io("remove", &path, error))?;
        }
    }
    for (file, name) in &files {
        if matches!(name, FileName::Lock) {
            let path = dir.join(file);
            fs.remove(&path).map_err(|error| Error::io("remove", &path, error))?;
        }
    }
    drop(lock);
    // What is not a database's keeps the directory.
    let left = fs.list(dir).map_err(|error| Error::io("list", dir, error))?;
    if left.is_empty() {
        fs.remove_dir(dir).map_err(|error| Error::io("remove", dir, error))?;
    }
    Ok(())
}
