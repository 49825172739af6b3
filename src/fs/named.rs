//! Filesystem calls whose errors name the operation and the path.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{Fs, WriteFile};
use crate::base::{Error, Result};

/// Returns whether an error may mean that a file cannot lose its name while it is open, as on
/// Windows.
pub(crate) fn is_in_use(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::PermissionDenied | ErrorKind::ResourceBusy)
}

/// Makes the names in `dir` durable, if the filesystem can.
pub(crate) fn sync_dir(fs: &dyn Fs, dir: &Path) -> Result<()> {
    try_sync_dir(fs, dir).map(drop)
}

/// Makes the names in `dir` durable. Returns false if the filesystem says that it cannot sync
/// directories: network filesystems and shared folders of virtual machines leave names to the
/// server, and no other call would make them more durable.
pub(crate) fn try_sync_dir(fs: &dyn Fs, dir: &Path) -> Result<bool> {
    match fs.sync_dir(dir) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::InvalidInput) => {
            Ok(false)
        }
        Err(error) => Err(Error::io("sync", dir, error)),
    }
}

/// Replaces the contents of the file `name` in `dir` durably, by way of the file `temp`. After a
/// crash, `name` has either the old contents or the new contents.
pub(crate) fn replace_file(
    fs: &dyn Fs,
    dir: &Path,
    temp: &str,
    name: &str,
    contents: &[u8],
) -> Result<()> {
    let temp = dir.join(temp);
    let mut file = fs.create(&temp).map_err(|error| Error::io("create", &temp, error))?;
    file.write(contents).map_err(|error| Error::io("write", &temp, error))?;
    file.sync().map_err(|error| Error::io("sync", &temp, error))?;
    file.close().map_err(|error| Error::io("close", &temp, error))?;
    drop(file);
    fs.rename(&temp, &dir.join(name)).map_err(|error| Error::io("rename", &temp, error))?;
    sync_dir(fs, dir)
}

/// Opens an existing file for writing at its end. Returns `None` if the filesystem cannot append to
/// files.
pub(crate) fn try_append(fs: &dyn Fs, path: &Path) -> Result<Option<Box<dyn WriteFile>>> {
    match fs.append(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
        Err(error) => Err(Error::io("open", path, error)),
    }
}

/// Returns `dir` as an absolute path, so that it stays the same directory when the process changes
/// its current directory.
pub(crate) fn absolute(fs: &dyn Fs, dir: &Path) -> Result<PathBuf> {
    fs.absolute(dir).map_err(|error| Error::io("find", dir, error))
}

/// Returns whether a file has another name. Such a file must not be appended to: after a copy by
/// hard links (`cp -l`), the file also belongs to another database.
pub(crate) fn has_other_names(fs: &dyn Fs, path: &Path) -> Result<bool> {
    fs.has_other_names(path).map_err(|error| Error::io("open", path, error))
}
