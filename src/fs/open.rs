//! The kinds of files that are opened on the disk.

use std::path::Path;
use std::{fs, io};

/// Returns the metadata of a regular file.
///
/// # Errors
/// `IsADirectory` or `InvalidInput` for anything else, such as a symbolic link or a FIFO.
pub(super) fn require_regular_file(path: &Path) -> io::Result<fs::Metadata> {
    let metadata = fs::symlink_metadata(path)?;
    if metadata.is_file() {
        return Ok(metadata);
    }
    let what = if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    } else if metadata.is_symlink() {
        "is a symbolic link, not a regular file"
    } else {
        "is not a regular file"
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}
