//! The directory of a database: whether there is one, what is in it, and its lock.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::base::{Error, Result};
use crate::engine::version_set::{self, Recovered, sync_dir};
use crate::format::edit::VersionEdit;
use crate::format::name::{self, FileName};
use crate::fs::{FileLock, Fs};

/// The directory, inside a database's, for what an open leaves out.
pub const LOST: &str = "lost";

/// The files of a directory that are a database's, with their names.
pub fn list(fs: &dyn Fs, dir: &Path) -> Result<Vec<(String, FileName)>> {
    let names = fs.list(dir).map_err(|error| Error::io("list", dir, error))?;
    Ok(names
        .into_iter()
        .filter_map(|name| FileName::parse(&name).map(|parsed| (name, parsed)))
        .collect())
}

/// Whether `dir` holds a database.
///
/// # Errors
/// Corruption, if there is no `CURRENT` but tables or MANIFESTs are there: making a new database
/// would lose them.
pub fn has_database(fs: &dyn Fs, dir: &Path) -> Result<bool> {
    let exists = |path: &Path| fs.exists(path).map_err(|error| Error::io("look for", path, error));
    let current = dir.join(name::CURRENT);
    if exists(&current)? {
        return Ok(true);
    }
    if !exists(dir)? {
        return Ok(false);
    }
    let mut orphan = None;
    for (file, name) in list(fs, dir)? {
        let counts = match name {
            FileName::Table { .. } | FileName::Log(_) => true,
            FileName::Manifest(number) => {
                // The first step of making a database; a crash may leave it there alone.
                number != 1 || version_set::may_name_tables(fs, &dir.join(&file))?
            }
            _ => false,
        };
        if counts {
            orphan = Some(file);
        }
    }
    match orphan {
        None => Ok(false),
        Some(name) => Err(Error::corruption(format!(
            "there is no CURRENT, but {name} is there: the database wants repair"
        ))
        .in_file(&current)),
    }
}

/// Makes a directory and its parents, durably.
///
/// Those that are there may have been made by a process that ended before it could sync their
/// names: these are synced too, where that is allowed.
pub fn create_dir(fs: &dyn Fs, dir: &Path) -> Result<()> {
    let mut made = Vec::new();
    let mut found = Vec::new();
    for ancestor in dir.ancestors().filter(|ancestor| *ancestor != Path::new("")) {
        match fs.exists(ancestor) {
            Ok(true) => found.push(ancestor),
            Ok(false) => made.push(ancestor),
            Err(error) => return Err(Error::io("look for", ancestor, error)),
        }
    }
    fs.create_dir(dir).map_err(|error| Error::io("create", dir, error))?;
    let parent_of = |path: &Path| match path.parent() {
        Some(parent) if parent == Path::new("") => Some(PathBuf::from(".")),
        parent => parent.map(Path::to_path_buf),
    };
    for parent in made.into_iter().filter_map(parent_of) {
        sync_dir(fs, &parent)?;
    }
    for parent in found.into_iter().filter_map(parent_of) {
        match sync_dir(fs, &parent) {
            Err(error) if !error.io_kind().is_some_and(is_refusal) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Whether a directory cannot be synced at all, rather than not now.
fn is_refusal(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::PermissionDenied
            | ErrorKind::Unsupported
            | ErrorKind::InvalidInput
            | ErrorKind::ReadOnlyFilesystem
    )
}

/// The logs to replay, ascending.
pub fn live_logs(files: &[(String, FileName)], recovered: &Recovered) -> Vec<u64> {
    let live = |number: u64| {
        number >= recovered.log_number
            || (recovered.prev_log_number != 0 && number == recovered.prev_log_number)
    };
    let logs: BTreeSet<u64> = files
        .iter()
        .filter_map(|(_, name)| match name {
            FileName::Log(number) if live(*number) => Some(*number),
            _ => None,
        })
        .collect();
    logs.into_iter().collect()
}

/// Checks that what the MANIFEST names is there.
///
/// # Errors
/// Corruption that names a table that is missing. If the MANIFEST's end is damaged, whatever is
/// missing was removed because of an edit that is lost: then the damage, and with `paranoid` in
/// any case.
pub fn check_files(
    dir: &Path,
    files: &[(String, FileName)],
    recovered: &Recovered,
    paranoid: bool,
) -> Result<()> {
    let tables = check_tables(dir, files, &recovered.edit);
    let Some(damage) = &recovered.damage else { return tables };
    let first_log = FileName::Log(recovered.log_number);
    let has_log = recovered.log_number == 0 || files.iter().any(|(_, name)| *name == first_log);
    if paranoid || tables.is_err() || !has_log {
        return Err(damage.clone());
    }
    Ok(())
}

fn check_tables(dir: &Path, files: &[(String, FileName)], edit: &VersionEdit) -> Result<()> {
    let there: BTreeSet<u64> = files
        .iter()
        .filter_map(|(_, name)| match name {
            FileName::Table { number, .. } => Some(*number),
            _ => None,
        })
        .collect();
    match edit.new_files.iter().find(|file| !there.contains(&file.number)) {
        None => Ok(()),
        Some(file) => Err(Error::corruption(format!(
            "a table of level {} is missing: the database wants repair",
            file.level
        ))
        .in_file(&dir.join(name::table_name(file.number)))),
    }
}

/// Takes the database's lock.
pub fn lock(fs: &dyn Fs, dir: &Path) -> Result<Box<dyn FileLock>> {
    let path = dir.join(name::LOCK);
    match fs.lock(&path) {
        Ok(Ok(lock)) => Ok(lock),
        Ok(Err(holder)) => Err(Error::Locked { path, holder: holder.to_string() }),
        Err(error) => Err(Error::io("lock", path, error)),
    }
}
