//! Checkpoints of a database that is not open.

use std::path::Path;

use crate::admin::findings::Findings;
use crate::admin::logs;
use crate::base::{Error, Result};
use crate::engine::checkpoint::{CopySource, LiveFiles, OpenLog, check_empty, link_or_copy};
use crate::engine::open::check::check_entries;
use crate::engine::open::directory::{self, NewLock};
use crate::engine::open::entries;
use crate::engine::options::Options;
use crate::engine::version::manifest;
use crate::engine::version::obsolete::Trash;
use crate::format::edit::VersionEdit;

/// Copies the database in the directory `dir` to the directory `dest`, which must be empty or
/// missing. For an open database, use [`Db::checkpoint`](crate::Db::checkpoint).
///
/// Locks the database, but does not change it. Damaged logs are copied unchanged, so opening the
/// copy loses the same records as opening the original.
///
/// # Errors
/// [`Error::Locked`] if the database is open, or if another checkpoint is being made in `dest`;
/// [`Error::DatabaseMissing`]; [`Error::DatabaseExists`] or [`Error::InvalidArgument`] if `dest` is
/// not empty; corruption that would also prevent the database from being opened; I/O errors.
pub fn checkpoint(dir: impl AsRef<Path>, dest: impl AsRef<Path>, options: &Options) -> Result<()> {
    let fs = &*options.fs;
    let dir = &*crate::fs::absolute(fs, dir.as_ref())?;
    let dest = &*crate::fs::absolute(fs, dest.as_ref())?;
    check_empty(fs, dest)?;
    source(dir, options)?.write_copy(dest, &mut |from, to, _| link_or_copy(fs, from, to))
}

/// Locks the database in the directory `dir`, which must be an absolute path. Returns the
/// database's current state as a source for copies. The lock is held until the source is dropped.
///
/// # Errors
/// The errors of [`checkpoint`] that are not about `dest`.
pub(crate) fn source<'a>(dir: &'a Path, options: &'a Options) -> Result<CopySource<'a>> {
    let fs = &*options.fs;
    if !directory::has_database(fs, dir)? {
        return Err(Error::DatabaseMissing { path: dir.to_path_buf() });
    }
    let lock = NewLock::take(fs, dir, options.allow_no_lock)?;
    let trash = Trash::new(options.fs.clone(), dir).guarded_by(lock.guard());
    let recovered = manifest::recover_manifest(fs, dir, options.comparator.name())?;
    let entries = entries::entries(fs, dir)?;
    check_entries(fs, dir, options, &entries, &recovered)?;
    let files = entries.files;
    let mut logs = Vec::new();
    let mut no_progress = |_| {};
    let mut findings = Findings::new(&mut no_progress);
    for number in directory::live_logs(&files, &recovered) {
        // Damage is copied, but not what this build does not know.
        logs::examine(fs, dir, number, recovered.last_seq, &mut findings)?;
        logs.push(OpenLog::open(fs, dir, number, None)?);
    }
    directory::check_numbers(dir, &files, recovered.next_number())?;
    let taken = files.iter().filter_map(|(_, name)| name.number());
    let next_file_number = taken.map(|number| number + 1).fold(recovered.next_number(), u64::max);
    let edit = VersionEdit {
        comparator: Some(options.comparator.name().to_owned()),
        log_number: Some(recovered.log_number),
        prev_log_number: Some(recovered.prev_log_number),
        last_seq: Some(recovered.last_seq),
        ..recovered.edit
    };
    let lock = lock.keep();
    let check_dir = move || {
        let _held = &lock;
        trash.check_directory()
    };
    let live = LiveFiles { edit, logs, next_file_number };
    let allow_no_lock = options.allow_no_lock;
    Ok(CopySource { fs, dir, allow_no_lock, files: live, check_dir: Box::new(check_dir) })
}
