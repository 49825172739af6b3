//! Files and directories by Windows' calls.
//!
//! The standard library opens files so that others may read, write and remove them meanwhile. Other
//! programs (LevelDB, virus scanners, backups) may have a file open and share less, for a moment or
//! for long; then it cannot be renamed or removed. So such calls are repeated for a while.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::windows::fs::{FileExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf, Prefix};
use std::time::Duration;

use crate::fs::system::{FileIdentity, readable_part};

/// Flag of an open that opens a symbolic link itself, and not its target.
const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x0020_0000;
/// Flag of an open without which no directory is opened.
const FILE_FLAG_BACKUP_SEMANTICS: u32 = 0x0200_0000;

const ERROR_ACCESS_DENIED: i32 = 5;
pub(super) const ERROR_SHARING_VIOLATION: i32 = 32;
pub(super) const ERROR_LOCK_VIOLATION: i32 = 33;
const ERROR_DELETE_PENDING: i32 = 303;
const ERROR_USER_MAPPED_FILE: i32 = 1224;

/// Number of attempts at a rename, which replaces `CURRENT`: with waits that double from a
/// millisecond on, for one second. More attempts let a scanner take longer, and the error wait.
const RENAME_ATTEMPTS: u32 = 11;
/// Number of attempts at a removal: for 15 ms, because a file that stays is removed later.
const REMOVE_ATTEMPTS: u32 = 5;

/// Number of files that a process has open at most. The system allows millions, but each takes
/// memory of the system.
const MAX_OPEN_FILES: u64 = 16 << 10;

/// Length of a path in bytes from which on it is given in the form without a limit. Plain paths end
/// at 260 characters.
const LONG_PATH_BYTES: usize = 240;

/// Returns the identity of an open file.
pub(in crate::fs) fn identity(file: &File) -> io::Result<FileIdentity> {
    let of = winapi_util::file::information(file)?;
    Ok((of.volume_serial_number(), of.file_index()))
}

/// Returns the identity of the file at `path`.
pub(in crate::fs) fn identity_of(path: &Path, _: &fs::Metadata) -> io::Result<FileIdentity> {
    identity(&open_to_ask(path)?)
}

/// Returns whether the file at `path` has another name.
pub(in crate::fs) fn has_other_names(path: &Path, _: &fs::Metadata) -> io::Result<bool> {
    Ok(winapi_util::file::information(&open_to_ask(path)?)?.number_of_links() > 1)
}

/// Opens a file without access to its contents, which succeeds whoever else has it open.
fn open_to_ask(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .access_mode(0)
        .custom_flags(FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT)
        .open(path)
}

/// Returns options that do not follow symbolic links.
pub(in crate::fs) fn not_through_links() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags(FILE_FLAG_OPEN_REPARSE_POINT);
    options
}

/// Reads at `offset`, once. Moves the position of the file, which no other call depends on.
pub(in crate::fs) fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    match readable_part(buf, offset) {
        [] => Ok(0),
        buf => file.seek_read(buf, offset),
    }
}

/// Writes at `offset`, once. Moves the position of the file, as [`read_at`] does.
pub(in crate::fs) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    file.seek_write(bytes, offset)
}

/// Renames a file or directory, replacing the target if it exists. The new name of a file is
/// durable when this function returns.
pub(in crate::fs) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    if fs::symlink_metadata(from)?.is_dir() {
        return retried(RENAME_ATTEMPTS, || fs::rename(from, to));
    }
    retried(RENAME_ATTEMPTS, || {
        match atomicwrites::replace_atomic(&unlimited(from)?, &unlimited(to)?) {
            // The standard library's rename replaces open files, too, where the system can, but
            // does not write the name through.
            Err(error) if is_in_use(&error) => {
                fs::rename(from, to)?;
                not_through_links().write(true).open(to)?.sync_all()
            }
            renamed => renamed,
        }
    })
}

/// Removes a file.
pub(in crate::fs) fn remove(path: &Path) -> io::Result<()> {
    retried(REMOVE_ATTEMPTS, || fs::remove_file(path))
}

/// Creates a directory and its parents.
pub(in crate::fs) fn create_dirs(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// Always fails, because no call makes the names in a directory durable.
pub(in crate::fs) fn sync_dir(path: &Path) -> io::Result<()> {
    match fs::metadata(path)?.is_dir() {
        true => Err(io::ErrorKind::Unsupported.into()),
        false => Err(io::ErrorKind::NotADirectory.into()),
    }
}

/// Returns how many files this process may have open.
pub(in crate::fs) fn max_open_files() -> Option<u64> {
    Some(MAX_OPEN_FILES)
}

/// Returns `offset`: holes are unknown.
pub(in crate::fs) fn skip_hole(_: &File, offset: u64) -> io::Result<Option<u64>> {
    Ok(Some(offset))
}

/// Returns a path that may have any length.
fn unlimited(path: &Path) -> io::Result<PathBuf> {
    if path.as_os_str().len() < LONG_PATH_BYTES {
        return Ok(path.to_path_buf());
    }
    let path = std::path::absolute(path)?;
    let mut parts = path.components();
    let Some(Component::Prefix(prefix)) = parts.next() else { return Ok(path) };
    let mut long = OsString::from(r"\\?\");
    match prefix.kind() {
        Prefix::Disk(_) => long.push(prefix.as_os_str()),
        Prefix::UNC(server, share) => {
            for part in [OsStr::new("UNC\\"), server, OsStr::new("\\"), share] {
                long.push(part);
            }
        }
        _ => return Ok(path),
    }
    long.push(parts.as_path());
    Ok(PathBuf::from(long))
}

/// Returns whether an error may mean that another handle has the file open.
fn is_in_use(error: &io::Error) -> bool {
    let codes = [
        ERROR_ACCESS_DENIED,
        ERROR_SHARING_VIOLATION,
        ERROR_LOCK_VIOLATION,
        ERROR_DELETE_PENDING,
        ERROR_USER_MAPPED_FILE,
    ];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

/// Repeats `call` while another handle has the file open, up to `attempts` times in all.
///
/// # Errors
/// The last error of `call`, as `ResourceBusy` if the file is in use for certain.
fn retried(attempts: u32, mut call: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    let mut wait = Duration::from_millis(1);
    for _ in 1..attempts {
        match call() {
            Err(error) if is_in_use(&error) => std::thread::sleep(wait),
            done => return done,
        }
        wait *= 2;
    }
    call().map_err(|error| match error.raw_os_error() {
        Some(ERROR_ACCESS_DENIED) | None => error,
        Some(_) if is_in_use(&error) => io::Error::new(io::ErrorKind::ResourceBusy, error),
        Some(_) => error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::{DiskFs, Fs};

    #[test]
    fn a_file_that_is_closed_soon_is_replaced_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (new, current) = (dir.path().join("new"), dir.path().join("CURRENT"));
        fs::write(&new, b"new").unwrap();
        fs::write(&current, b"old").unwrap();
        // LevelDB shares a file that it reads with readers only.
        let open = || OpenOptions::new().read(true).share_mode(1).open(&current).unwrap();
        let close_soon = |file: File| {
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(5));
                drop(file);
            })
        };
        let closing = close_soon(open());
        DiskFs.rename(&new, &current).unwrap();
        closing.join().unwrap();
        assert_eq!(fs::read(&current).unwrap(), b"new");
        let closing = close_soon(open());
        DiskFs.remove(&current).unwrap();
        closing.join().unwrap();
        assert!(!current.exists());
    }

    #[test]
    fn a_file_that_stays_open_is_told_to_be_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("000005.ldb");
        fs::write(&path, b"table").unwrap();
        let _open = OpenOptions::new().read(true).share_mode(1).open(&path).unwrap();
        assert_eq!(DiskFs.remove(&path).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        assert!(path.exists());
    }

    #[test]
    fn long_paths_have_the_form_without_a_limit() {
        let long = "d".repeat(300);
        for (given, expected) in [
            (format!("C:\\a/{long}\\..\\b\\{long}"), format!(r"\\?\C:\a\b\{long}")),
            (format!(r"\\server\share\{long}"), format!(r"\\?\UNC\server\share\{long}")),
            (format!(r"\\?\C:\{long}"), format!(r"\\?\C:\{long}")),
        ] {
            assert_eq!(unlimited(Path::new(&given)).unwrap(), Path::new(&expected));
        }
    }

    #[test]
    fn paths_of_any_length_are_renamed() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("d".repeat(200)).join("e".repeat(200));
        DiskFs.create_dir(&deep).unwrap();
        let (from, to) = (deep.join("from"), deep.join("to"));
        DiskFs.create(&from).unwrap().write(b"x").unwrap();
        drop(DiskFs.create(&to).unwrap());
        DiskFs.rename(&from, &to).unwrap();
        assert_eq!(DiskFs.len(&to).unwrap(), 1);
    }
}
