//! The directory of a database: finding a database in it, checking its files, and locking it.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::{Error, Result};
use crate::engine::open::entries::{DirListing, entries, refused};
use crate::engine::version::manifest;
use crate::engine::version::manifest::Recovered;
use crate::engine::version::numbers::{MAX_AHEAD, MAX_FILE_NUMBER, MAX_FOREIGN_NUMBER};
use crate::format::edit::VersionEdit;
use crate::format::name::{self, FileName};
use crate::fs::{EntryKind, FileLock, Fs, is_in_use, sync_dir};

/// Name of the directory, inside a database's directory, for files that an open or a repair takes
/// out of the database.
pub(crate) const LOST: &str = "lost";

/// Returns whether `dir` contains a database.
///
/// # Errors
/// Corruption, if there are files of a database but no `CURRENT`; I/O errors; unsupported, if the
/// directory is another engine's.
pub fn has_database(fs: &dyn Fs, dir: &Path) -> Result<bool> {
    Ok(find_database(fs, dir)?.is_some())
}

/// Returns the entries of `dir` if it contains a database.
///
/// # Errors
/// Corruption, if there is no `CURRENT` but there are tables, logs or MANIFESTs, because creating a
/// new database would lose their data. The errors of [`list`], so that a directory of another
/// engine is refused before anything in it is read or made.
pub(crate) fn find_database(fs: &dyn Fs, dir: &Path) -> Result<Option<DirListing>> {
    let exists = |path: &Path| fs.exists(path).map_err(|error| Error::io("look for", path, error));
    let current = dir.join(name::CURRENT);
    if exists(&current)? {
        return entries(fs, dir).map(Some);
    }
    if !exists(dir)? {
        return Ok(None);
    }
    let orphan = find_orphan(fs, dir);
    // If another process is creating the database, it created CURRENT before the file that was
    // found, so CURRENT exists by now.
    if !matches!(orphan, Ok(None)) && exists(&current)? {
        return entries(fs, dir).map(Some);
    }
    match orphan? {
        None => Ok(None),
        Some(name) => Err(Error::corruption(format!(
            "there is no CURRENT, but {name} is there: the database needs repair"
        ))
        .in_file(&current)),
    }
}

/// Returns the name of a file in `dir` that only a database can have, if there is one.
///
/// # Errors
/// As [`find_database`]: without a MANIFEST, every log is live.
fn find_orphan(fs: &dyn Fs, dir: &Path) -> Result<Option<String>> {
    let mut orphan = None;
    let DirListing { files, directories } = entries(fs, dir)?;
    check_no_live_directory(dir, &directories, 0, 0)?;
    for (file, name) in files {
        let counts = match name {
            FileName::Table { .. } | FileName::Log(_) => true,
            FileName::Manifest(number) => {
                // The creation of a database begins with this file, so a crash may leave only this
                // file.
                number != 1 || manifest::may_name_tables(fs, &dir.join(&file))?
            }
            _ => false,
        };
        if counts {
            orphan = Some(file);
        }
    }
    Ok(orphan)
}

/// Creates a directory and its parents, durably.
///
/// Existing directories may have been created by a process that ended before it synced their
/// directory entries, so those entries are synced too, where permissions allow it.
///
/// # Errors
/// I/O errors.
pub(crate) fn create_dir(fs: &dyn Fs, dir: &Path) -> Result<()> {
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

/// Returns whether an error means that this process can never sync a directory, as opposed to a
/// temporary failure.
fn is_refusal(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
}

/// Returns whether the log `number` is live, if the MANIFEST states these numbers.
pub(crate) fn is_live(number: u64, log_number: u64, prev_log_number: u64) -> bool {
    number >= log_number || (prev_log_number != 0 && number == prev_log_number)
}

/// Checks that none of `directories` in `dir` has the name of a live log: the log's data would be
/// missing.
///
/// # Errors
/// An I/O error that names the directory.
pub(crate) fn check_no_live_directory(
    dir: &Path,
    directories: &[(String, FileName)],
    log_number: u64,
    prev_log_number: u64,
) -> Result<()> {
    let found = directories.iter().find(|(_, name)| match name {
        FileName::Log(number) => is_live(*number, log_number, prev_log_number),
        _ => false,
    });
    found.map_or(Ok(()), |(name, _)| Err(refused(dir, name, EntryKind::Directory)))
}

/// Returns the numbers of the logs to replay, ascending.
pub fn live_logs(files: &[(String, FileName)], recovered: &Recovered) -> Vec<u64> {
    let live = |number| is_live(number, recovered.log_number, recovered.prev_log_number);
    let logs: BTreeSet<u64> = files
        .iter()
        .filter_map(|(_, name)| match name {
            FileName::Log(number) if live(*number) => Some(*number),
            _ => None,
        })
        .collect();
    logs.into_iter().collect()
}

/// Checks that the files that the MANIFEST names exist.
///
/// # Errors
/// Corruption that names a missing table. If the end of the MANIFEST is damaged and a file is
/// missing, an edit was lost, so the error reports the damage instead. If `paranoid` is set, the
/// damage is an error even if no file is missing.
pub fn check_files(
    dir: &Path,
    files: &[(String, FileName)],
    recovered: &Recovered,
    paranoid: bool,
) -> Result<()> {
    let tables = check_tables(dir, files, &recovered.edit);
    let Some(damage) = &recovered.damage else {
        let named: BTreeSet<u64> =
            recovered.edit.new_files.iter().map(|file| file.number).collect();
        return tables.and(check_end(dir, files, recovered, &named));
    };
    if paranoid || tables.is_err() || !has_log(files, recovered.log_number) {
        return Err(damage.clone());
    }
    Ok(())
}

/// Returns whether the log `number` exists. Also returns true for the number 0, which means that
/// nothing was flushed yet, so that no log was removed.
fn has_log(files: &[(String, FileName)], number: u64) -> bool {
    number == 0 || files.iter().any(|(_, name)| *name == FileName::Log(number))
}

/// Checks that the MANIFEST has not lost its last edits. A loss that begins between two records
/// leaves no trace in the MANIFEST itself.
fn check_end(
    dir: &Path,
    files: &[(String, FileName)],
    recovered: &Recovered,
    named: &BTreeSet<u64>,
) -> Result<()> {
    match missing_log(files, recovered.log_number, named) {
        None => Ok(()),
        Some(what) => Err(ended(dir, recovered, what)),
    }
}

/// Returns the error for a MANIFEST that has lost its last edits, according to the evidence `what`.
pub(crate) fn ended(dir: &Path, recovered: &Recovered, what: String) -> Error {
    Error::corruption(what + ": the database needs repair")
        .at(recovered.valid_end)
        .in_file(&dir.join(name::manifest_name(recovered.manifest_number)))
}

/// Returns a description of the evidence that a MANIFEST lacks its last edits, or `None` if there
/// is no evidence. `log_number` is the first log that the MANIFEST needs, and `named` holds the
/// numbers of the tables that it names. The evidence is that this log is missing, and that a table
/// exists that has a higher number than the log but is not named. (A log is removed only once its
/// contents are in a table.) If the log still exists, replaying it and all later logs makes up for
/// lost flushes.
pub(crate) fn missing_log(
    files: &[(String, FileName)],
    log_number: u64,
    named: &BTreeSet<u64>,
) -> Option<String> {
    if has_log(files, log_number) {
        return None;
    }
    files.iter().find_map(|(file, name)| match name {
        FileName::Table { number, .. } if *number > log_number && !named.contains(number) => {
            Some(format!(
                "the MANIFEST ends too early: {} is gone, and no edit names {file}",
                name::log_name(log_number)
            ))
        }
        _ => None,
    })
}

/// Checks that there are enough file numbers left for new files. A new file's number must be higher
/// than the numbers of `files`, and at least `next`, which is the next file number in the MANIFEST.
///
/// # Errors
/// Corruption that names the file whose number is too large.
pub(crate) fn check_numbers(dir: &Path, files: &[(String, FileName)], next: u64) -> Result<()> {
    let most = MAX_FOREIGN_NUMBER.max(next.saturating_add(MAX_AHEAD)).min(MAX_FILE_NUMBER);
    let of_file = |(file, name): &(String, FileName)| Some((name.number()?, dir.join(file), most));
    let next = (next.saturating_sub(1), dir.to_path_buf(), MAX_FILE_NUMBER);
    for (number, path, limit) in files.iter().filter_map(of_file).chain([next]) {
        if number >= limit {
            let limit = format!("a number below {limit}");
            let what = "no file can be numbered after this one: move it out of the directory";
            return Err(Error::mismatch(what, limit, number).in_file(&path));
        }
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
    let mut named = BTreeSet::new();
    if let Some(twice) = edit.new_files.iter().find(|file| !named.insert(file.number)) {
        return Err(Error::corruption("the MANIFEST names the table at two levels")
            .in_file(&dir.join(name::table_name(twice.number))));
    }
    match edit.new_files.iter().find(|file| !there.contains(&file.number)) {
        None => Ok(()),
        Some(file) => Err(Error::corruption(format!(
            "a table of level {} is missing: the database needs repair",
            file.level
        ))
        .in_file(&dir.join(name::table_name(file.number)))),
    }
}

/// Returns the path of the directory `lost` in `dir`, if it exists.
///
/// # Errors
/// Invalid argument if `lost` is not a real directory: through a symbolic link, files would be
/// written and removed outside of the database. I/O errors.
pub(crate) fn find_lost(fs: &dyn Fs, dir: &Path) -> Result<Option<PathBuf>> {
    let lost = dir.join(LOST);
    let failed = |error| Error::io("look for", &lost, error);
    if !fs.exists(&lost).map_err(failed)? {
        return Ok(None);
    }
    match fs.is_real_dir(&lost).map_err(failed)? {
        true => Ok(Some(lost)),
        false => Err(Error::invalid(format!(
            "{} is not a directory but a link or a file: move it away",
            lost.display()
        ))),
    }
}

/// Like [`find_lost`], but creates the directory if it does not exist.
///
/// # Errors
/// As [`find_lost`].
pub(crate) fn make_lost(fs: &dyn Fs, dir: &Path) -> Result<PathBuf> {
    if let Some(lost) = find_lost(fs, dir)? {
        return Ok(lost);
    }
    let lost = dir.join(LOST);
    fs.create_dir(&lost).map_err(|error| Error::io("create", &lost, error))?;
    Ok(lost)
}

/// Takes and returns the lock of the database in `dir`. If `allow_no_lock` is set and the
/// filesystem has no locks, the lock keeps out only this process.
///
/// # Errors
/// [`Error::Locked`], with the holder if it is known; I/O errors.
pub(crate) fn lock(fs: &dyn Fs, dir: &Path, allow_no_lock: bool) -> Result<Box<dyn FileLock>> {
    let path = dir.join(name::LOCK);
    match fs.lock(&path) {
        Ok(Ok(lock)) if lock.excludes_processes() || allow_no_lock => Ok(lock),
        Ok(Ok(_)) => {
            let what = "the filesystem has no locks, so another process could write to the \
                        database at the same time, unless Options::allow_no_lock accepts that";
            Err(Error::io("lock", path, std::io::Error::new(ErrorKind::Unsupported, what)))
        }
        Ok(Err(holder)) => Err(Error::Locked { path, holder }),
        Err(error) => Err(Error::io("lock", path, error)),
    }
}

/// Removes the lock file at `path`, and releases its lock, which is `guard`.
pub(crate) fn remove_lock<L>(fs: &dyn Fs, path: &Path, guard: L) -> std::io::Result<()> {
    let removed = fs.remove(path);
    drop(guard);
    match removed {
        // The filesystem removes no file that is open. If another process has taken the lock by
        // now, the file is open again, and stays.
        Err(error) if is_in_use(error.kind()) => fs.remove(path),
        removed => removed,
    }
}

/// The lock of a database that may yet be refused. If it is dropped before [`NewLock::keep`], a
/// lock file that it made is removed again, so that a refused directory stays as it was.
pub(crate) struct NewLock<'a> {
    /// `None` only while being dropped.
    guard: Option<Arc<dyn FileLock>>,
    fs: &'a dyn Fs,
    /// The lock file to remove.
    made: Option<PathBuf>,
}

impl<'a> NewLock<'a> {
    /// Takes the lock of the database in `dir`, as [`lock`] does.
    ///
    /// # Errors
    /// As [`lock`].
    pub(crate) fn take(fs: &'a dyn Fs, dir: &Path, allow_no_lock: bool) -> Result<NewLock<'a>> {
        let path = dir.join(name::LOCK);
        let had_lock = fs.exists(&path).map_err(|error| Error::io("look for", &path, error))?;
        let guard = Some(lock(fs, dir, allow_no_lock)?.into());
        Ok(NewLock { guard, fs, made: (!had_lock).then_some(path) })
    }

    /// Returns the lock.
    pub(crate) fn guard(&self) -> &Arc<dyn FileLock> {
        self.guard.as_ref().expect("only a drop takes the lock")
    }

    /// Lets the lock file stay. Returns the lock.
    pub(crate) fn keep(mut self) -> Arc<dyn FileLock> {
        self.made = None;
        self.guard().clone()
    }
}

impl Drop for NewLock<'_> {
    fn drop(&mut self) {
        // The lock is still held, so no other process relies on the file.
        if let Some(path) = &self.made {
            let _ = remove_lock(self.fs, path, self.guard.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::MemFs;

    fn files(names: &[&str]) -> Vec<(String, FileName)> {
        let parsed = |name: &&str| ((*name).to_owned(), FileName::parse(name).expect("a name"));
        names.iter().map(parsed).collect()
    }

    #[test]
    fn edits_are_lost_if_the_first_log_is_gone_and_a_later_table_is_not_named() {
        let lost = |names: &[&str], log, named: &[u64]| {
            missing_log(&files(names), log, &named.iter().copied().collect())
        };
        let evidence =
            "the MANIFEST ends too early: 000007.log is gone, and no edit names 000008.ldb";
        assert_eq!(lost(&["000005.ldb", "000008.ldb"], 7, &[5]).as_deref(), Some(evidence));
        assert_eq!(lost(&["000007.log", "000008.ldb"], 7, &[5]), None, "the log is there");
        assert_eq!(lost(&["000009.log", "000005.ldb", "000008.ldb"], 7, &[5, 8]), None);
        assert_eq!(lost(&["000006.ldb"], 7, &[]), None, "the table is older than the log");
        assert_eq!(lost(&["000007.ldb"], 7, &[]), None);
        assert_eq!(lost(&["000008.ldb"], 0, &[]), None, "there is no log");
    }

    #[test]
    fn a_file_with_the_last_number_leaves_none_for_new_ones() {
        let dir = Path::new("/db");
        let check = |names: &[&str], next| {
            let checked = check_numbers(dir, &files(names), next);
            checked.map_err(|error| error.to_string())
        };
        let most = MAX_FILE_NUMBER;
        assert_eq!(check(&["000005.ldb", "CURRENT"], most), Ok(()));
        let last = format!("{most:06}.log");
        assert!(check(&["000005.ldb", &last], 6).unwrap_err().contains(&last));
        assert!(check(&[], most + 1).unwrap_err().contains("/db"));
        // A file of which the MANIFEST does not know leaves half of the numbers, so that those of
        // later files are accepted, too.
        let last = format!("{:06}.log", most - 1);
        assert_eq!(check(&[&last], most), Ok(()));
        assert!(check(&[&last], 0).unwrap_err().contains(&last));
        let (half, middle) = (format!("{}.log", most / 2 - 1), format!("{}.log", most / 2));
        assert_eq!(check(&[&half], 0), Ok(()));
        assert_eq!(check(&[&half, &middle], most / 2), Ok(()));
        assert!(check(&[&middle], 0).unwrap_err().contains(&middle));
    }

    #[test]
    fn only_errors_that_never_pass_let_a_directory_go_unsynced() {
        for kind in [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem] {
            assert!(is_refusal(kind), "{kind}");
        }
        for kind in [ErrorKind::Other, ErrorKind::Interrupted, ErrorKind::NotFound] {
            assert!(!is_refusal(kind), "{kind}");
        }
    }

    #[test]
    fn a_directory_is_created_with_its_parents_and_their_names_are_synced() {
        use crate::fs::sim::{Fault, OpKind, SimFs};
        let fs = SimFs::new(1);
        create_dir(&fs, Path::new("/a/b/c")).unwrap();
        assert!(fs.exists(Path::new("/a/b/c")).unwrap());
        assert_eq!(fs.counts().of(OpKind::SyncDir), 3);
        let create = |code| {
            fs.inject(Fault::os_error(code).on(&[OpKind::SyncDir]));
            create_dir(&fs, Path::new("/a/b/c")).map_err(|error| error.io_kind())
        };
        const EIO: i32 = 5;
        const EACCES: i32 = 13;
        const EINVAL: i32 = 22;
        const EOPNOTSUPP: i32 = 95;
        assert!(create(EIO).is_err());
        assert_eq!(create(EACCES), Ok(()), "the directory was there already");
        for lacking in [EINVAL, EOPNOTSUPP] {
            assert_eq!(create(lacking), Ok(()), "the filesystem cannot sync directories");
        }
        // The parent of a relative path with one component is the current directory, here the
        // directory of the package.
        create_dir(&crate::fs::DiskFs, Path::new("src")).unwrap();
    }

    #[test]
    fn the_logs_from_the_first_one_on_are_live_and_the_one_named_before() {
        let recovered = |log_number, prev_log_number| Recovered {
            log_number,
            prev_log_number,
            ..Recovered::default()
        };
        let names = files(&["000009.log", "000003.log", "000005.log", "000004.ldb", "CURRENT"]);
        assert_eq!(live_logs(&names, &recovered(5, 0)), [5, 9]);
        assert_eq!(live_logs(&names, &recovered(5, 3)), [3, 5, 9]);
        assert_eq!(live_logs(&names, &recovered(6, 0)), [9]);
        assert_eq!(live_logs(&files(&["000000.log"]), &recovered(1, 0)), [0; 0]);
    }

    #[test]
    fn a_damaged_end_of_the_manifest_counts_if_a_file_is_missing() {
        let dir = Path::new("/db");
        let damaged = Recovered {
            log_number: 5,
            damage: Some(Error::corruption("damaged")),
            ..Recovered::default()
        };
        let check = |names: &[&str], recovered: &Recovered, paranoid| {
            check_files(dir, &files(names), recovered, paranoid).is_ok()
        };
        assert!(check(&["000005.log"], &damaged, false));
        assert!(!check(&["000005.log"], &damaged, true));
        assert!(!check(&["000006.log"], &damaged, false));
        let sound = Recovered { log_number: 5, ..Recovered::default() };
        assert!(check(&["000006.log"], &sound, true));
        assert!(!check(&["000006.log", "000007.ldb"], &sound, false));
    }

    #[test]
    fn a_directory_with_parts_of_a_database_is_not_taken_for_a_new_one() {
        let fs = MemFs::new();
        let dir = Path::new("/db");
        assert!(!has_database(&fs, dir).unwrap());
        fs.create_dir(dir).unwrap();
        // The creation of a database begins with the first MANIFEST.
        for name in ["LOCK", "LOG", "notes", "MANIFEST-000001", "000001.dbtmp"] {
            fs.create(&dir.join(name)).unwrap();
            assert!(!has_database(&fs, dir).unwrap(), "{name}");
        }
        for part in ["000005.ldb", "000005.sst", "000004.log", "MANIFEST-000002"] {
            fs.create(&dir.join(part)).unwrap();
            let error = has_database(&fs, dir).unwrap_err().to_string();
            let reason = format!("there is no CURRENT, but {part} is there");
            assert!(error.contains(&reason), "{error}");
            fs.remove(&dir.join(part)).unwrap();
        }
        fs.create(&dir.join("000005.ldb")).unwrap();
        fs.create(&dir.join("CURRENT")).unwrap();
        assert!(has_database(&fs, dir).unwrap());
    }
}
