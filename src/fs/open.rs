//! Rules for opening files on the disk, and the identity of files.

use std::fs::{
    File, OpenOptions, {self},
};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// The identity of a file: device and inode. Two paths to the same file have the same identity.
pub(super) type DeviceInode = (u64, u64);

/// Returns the identity of a file.
pub(super) fn file_id(metadata: &fs::Metadata) -> DeviceInode {
    (metadata.dev(), metadata.ino())
}

/// Returns options that create files with mode 0600 and do not follow symbolic links. Close-on-exec
/// is the standard library's default.
pub(super) fn not_through_links() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options
}

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

/// Returns the offset of the first byte from `offset` on that is not in a hole of a sparse file, or
/// `None` if a hole reaches from `offset` to the end of the file. Returns `offset` if the system or
/// the filesystem knows no holes.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
pub(super) fn skip_hole(file: &File, offset: u64) -> io::Result<Option<u64>> {
    use rustix::fs::SeekFrom;
    use rustix::io::Errno;
    // This moves the position of the file, which no read depends on.
    match rustix::fs::seek(file, SeekFrom::Data(offset)) {
        Ok(data) => Ok(Some(data.max(offset))),
        Err(Errno::NXIO) => Ok(None),
        Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(Some(offset)),
        Err(error) => Err(error.into()),
    }
}

/// Returns `offset`: holes are unknown on this system.
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
pub(super) fn skip_hole(_: &File, offset: u64) -> io::Result<Option<u64>> {
    Ok(Some(offset))
}
