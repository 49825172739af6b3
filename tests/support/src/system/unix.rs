//! Unix: Linux, macOS and the BSDs.

use std::io;
use std::os::unix::fs::MetadataExt;
pub use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

/// The error number of a link or rename to another filesystem (`EXDEV`).
pub const CROSSES_DEVICES: i32 = 18;
/// The error number of an operation that is not permitted (`EPERM`).
pub const REFUSED: i32 = 1;

/// Makes a socket in a directory.
pub fn make_socket(path: &Path) -> io::Result<()> {
    UnixListener::bind(path).map(drop)
}

/// Returns the space that a file takes on the disk, in bytes.
pub fn space_of(file: &Path) -> io::Result<u64> {
    Ok(file.metadata()?.blocks() * 512)
}
