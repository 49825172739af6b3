//! Filesystem calls whose errors name the operation and the path.

use std::path::{Path, PathBuf};

use super::Fs;
use crate::base::{Error, Result};

/// Makes the names in `dir` durable.
pub(crate) fn sync_dir(fs: &dyn Fs, dir: &Path) -> Result<()> {
    fs.sync_dir(dir).map_err(|error| Error::io("sync", dir, error))
}

/// Returns `dir` as an absolute path, so that it stays the same directory when the process changes
/// its current directory.
pub(crate) fn absolute(fs: &dyn Fs, dir: &Path) -> Result<PathBuf> {
    fs.absolute(dir).map_err(|error| Error::io("find", dir, error))
}

/// Returns whether a file has another name. Such a file must not be appended to: after a copy by
/// hard links (`cp -l`) it belongs to another database, too.
pub(crate) fn has_other_names(fs: &dyn Fs, path: &Path) -> Result<bool> {
    fs.has_other_names(path).map_err(|error| Error::io("open", path, error))
}
