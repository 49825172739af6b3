//! Windows.

use std::io;
use std::os::windows::fs::{symlink_dir, symlink_file};
use std::path::Path;

/// The error number of a link or rename to another volume (`ERROR_NOT_SAME_DEVICE`).
pub const CROSSES_DEVICES: i32 = 17;
/// The error number of an operation that is not permitted (`ERROR_ACCESS_DENIED`).
pub const REFUSED: i32 = 5;

/// Makes a symbolic link. A process needs a privilege for it.
pub fn symlink(target: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    let from = link.as_ref().parent().unwrap_or(Path::new(""));
    match from.join(target.as_ref()).is_dir() {
        true => symlink_dir(target, link),
        false => symlink_file(target, link),
    }
}

/// Always fails: a directory holds no sockets.
pub fn make_socket(_: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns the length of a file in bytes: its holes are unknown.
pub fn space_of(file: &Path) -> io::Result<u64> {
    Ok(file.metadata()?.len())
}
