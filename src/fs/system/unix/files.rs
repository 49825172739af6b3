//! Files and directories by Unix's calls.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::process::{Resource, getrlimit};

use crate::fs::system::{FileIdentity, readable_part};

/// Returns the identity of an open file.
pub(in crate::fs) fn identity(file: &File) -> io::Result<FileIdentity> {
    Ok(of_metadata(&file.metadata()?))
}

/// Returns the identity of the file at `path`, whose metadata is given.
pub(in crate::fs) fn identity_of(_: &Path, metadata: &fs::Metadata) -> io::Result<FileIdentity> {
    Ok(of_metadata(metadata))
}

pub(super) fn of_metadata(metadata: &fs::Metadata) -> FileIdentity {
    (metadata.dev(), metadata.ino())
}

/// Returns whether the file at `path`, whose metadata is given, has another name.
pub(in crate::fs) fn has_other_names(_: &Path, metadata: &fs::Metadata) -> io::Result<bool> {
    Ok(metadata.nlink() > 1)
}

/// Returns options that create files with mode 0600 and do not follow symbolic links. Close-on-exec
/// is the standard library's default.
pub(in crate::fs) fn not_through_links() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options
}

/// Reads at `offset`, once.
pub(in crate::fs) fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    match readable_part(buf, offset) {
        [] => Ok(0),
        buf => file.read_at(buf, offset),
    }
}

/// Writes at `offset`, once.
pub(in crate::fs) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    file.write_at(bytes, offset)
}

/// Renames a file or directory, replacing the target if it exists.
pub(in crate::fs) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

/// Removes a file.
pub(in crate::fs) fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
}

/// Creates a directory with mode 0700, and its parents.
pub(in crate::fs) fn create_dirs(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Makes the names in a directory durable.
pub(in crate::fs) fn sync_dir(path: &Path) -> io::Result<()> {
    let directory = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::DIRECTORY.bits().cast_signed())
        .open(path)?;
    directory.sync_all()
}

/// Returns how many files this process may have open (`RLIMIT_NOFILE`), if there is a limit.
pub(in crate::fs) fn max_open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Returns the offset of the first byte from `offset` on that is not in a hole of a sparse file, or
/// `None` if a hole reaches from `offset` to the end of the file. Returns `offset` if the system or
/// the filesystem knows no holes.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
pub(in crate::fs) fn skip_hole(file: &File, offset: u64) -> io::Result<Option<u64>> {
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
pub(in crate::fs) fn skip_hole(_: &File, offset: u64) -> io::Result<Option<u64>> {
    Ok(Some(offset))
}

#[cfg(test)]
mod tests;
