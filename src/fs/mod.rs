//! The engine's interface to the filesystem: a trait that is the library's only access to the disk,
//! and that tests can implement with a simulation. [`DiskFs`] uses the disk, [`MemFs`] keeps files
//! in memory, and `SimFs` crashes and fails on demand.
//!
//! Errors are plain [`io::Error`]s; callers add the operation and the path.
//!
//! Every implementation must guarantee:
//! - bytes written are durable after [`WriteFile::sync`];
//! - the creation, renaming or removal of a name is durable after [`Fs::sync_dir`] of its
//!   directory; a new directory is a name in its parent;
//! - [`Fs::rename`] replaces the target atomically;
//! - dropping a file never syncs it.

pub(crate) mod bytes_file;
mod disk;
pub(crate) mod forward;
mod lock;
mod mapped;
mod mapped_table;
mod mem;
mod named;
mod namespace;
mod open;
pub(crate) mod ordered;
mod random_access_file;
mod retry;
mod shared;
#[cfg(any(test, feature = "sim"))]
#[cfg_attr(not(feature = "internals"), allow(dead_code, reason = "our own tests see more of it"))]
pub mod sim;
#[cfg(test)]
mod suite;
mod system;

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::SystemTime;

pub use disk::DiskFs;
pub(crate) use mapped::MAX_STORED_BYTES;
pub use mem::MemFs;
pub(crate) use named::{
    absolute, has_other_names, is_in_use, replace_file, sync_dir, try_append, try_sync_dir,
};
#[cfg(any(test, feature = "sim"))]
pub use sim::SimFs;
pub(crate) use system::lower_priority;

pub use crate::base::lock_holder::LockHolder;

/// A filesystem. Thread-safe.
pub trait Fs: Send + Sync + Debug + 'static {
    /// Opens an existing file for reading at any offset.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>>;

    /// Opens a table for reading, like [`Fs::open`]. There may be more tables than the process can
    /// hold open, so an implementation may close and reopen the file. The file must therefore keep
    /// its name while it is read.
    fn open_table(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        self.open(path)
    }

    /// Returns `path` as an absolute path, if the filesystem has a current directory. (A relative
    /// path would change its meaning when the process changes its directory.)
    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(path.to_path_buf())
    }

    /// Creates a file for writing, or truncates an existing one. The file has mode 0600 and is
    /// close-on-exec; symbolic links are not followed. On a disk, an existing file with other names
    /// (hard links) keeps its content under those names.
    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>>;

    /// Creates a file as [`Fs::create`] does, for a log to which whole physical records are
    /// appended. Until the returned file is dropped or trimmed, zeros may follow its last record,
    /// up to the end of a block.
    fn create_log(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        self.create(path)
    }

    /// Opens an existing file for writing at its end.
    ///
    /// # Errors
    /// `Unsupported` if the filesystem cannot append to files. The engine then begins new files.
    fn append(&self, path: &Path) -> io::Result<Box<dyn WriteFile>>;

    /// Renames a file or directory, replacing the target if it exists.
    ///
    /// # Errors
    /// `PermissionDenied` or `ResourceBusy`, among others, if the filesystem keeps the names of
    /// open files and one of them is open.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// As [`Fs::rename`]. The engine tries again later, or when the database is opened next.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Creates a hard link: a second name for a file.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Creates a directory (mode 0700) and its parents. Succeeds if it already exists.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Returns the names in a directory, in no particular order. In names that are not UTF-8, which
    /// the engine never writes, U+FFFD takes the place of what is not: they are there, too.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;

    /// Returns the names in a directory, as [`Fs::list`] does, each with what it names.
    ///
    /// By default, every name is that of a file. An implementation whose directories can hold
    /// directories, links or special files should say which they are, because the engine takes
    /// only files for a database's.
    fn entries(&self, path: &Path) -> io::Result<Vec<(String, EntryKind)>> {
        Ok(self.list(path)?.into_iter().map(|name| (name, EntryKind::File)).collect())
    }

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// `Unsupported` or `InvalidInput` if the filesystem cannot sync directories. The engine then
    /// relies on the filesystem to keep names in the order in which they were made.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Returns whether a file or directory of this name exists.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Returns whether an existing name is a directory itself, and not a link to one.
    fn is_real_dir(&self, path: &Path) -> io::Result<bool> {
        match self.list(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the length of a file, in bytes.
    fn len(&self, path: &Path) -> io::Result<u64>;

    /// Returns the time of the last write to a file, or `None` if the filesystem does not know it.
    /// [`Options::keep_logs_for`](crate::Options::keep_logs_for) derives the age of a log from this
    /// time.
    fn modified(&self, _path: &Path) -> io::Result<Option<SystemTime>> {
        Ok(None)
    }

    /// Returns whether the file has another name (a hard link), which may be in the directory of
    /// another database. The engine does not append to such a file.
    fn has_other_names(&self, _path: &Path) -> io::Result<bool> {
        Ok(false)
    }

    /// Takes the lock on a lock file, which is created if it does not exist, until the returned
    /// guard is dropped. The outer error is an I/O error; the inner error is the holder of the
    /// lock.
    ///
    /// Until the guard is dropped, nothing else in the process may open the file, not even for
    /// reading: on a disk, closing a second handle of the file would release the lock that LevelDB
    /// sees.
    fn lock(&self, path: &Path) -> io::Result<Result<Box<dyn FileLock>, LockHolder>>;
}

/// The kind of an entry of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, wherever it leads.
    Link,
    /// A named pipe, a socket or a device.
    Special,
}

/// A file opened for reading. Thread-safe.
pub trait ReadFile: Send + Sync + Debug {
    /// Reads at `offset` until `buf` is full or the file ends. Returns the number of bytes read.
    /// Interrupted and short reads are continued internally.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Returns the length of the file, in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Returns an offset, `offset` or later, before which all bytes from `offset` on are zeros
    /// that take no space on the disk (a hole in a sparse file); `None` if that is true up to the
    /// end of the file. By default, returns `offset`: no hole is known.
    fn skip_hole(&self, offset: u64) -> io::Result<Option<u64>> {
        Ok(Some(offset))
    }

    /// Asks for reads without a system call, through a mapping of the file, which must not change
    /// from now on. By default, does nothing.
    fn map(&self) {}

    /// Returns whether the file stays readable after its name is removed.
    fn is_held(&self) -> bool {
        true
    }

    /// Returns two numbers that no other file has while this file is open, such as its device and
    /// inode, or `None` if the filesystem has no such numbers. By comparing these numbers, a reader
    /// notices that a writer has replaced the file by another file of the same name.
    fn identity(&self) -> io::Result<Option<(u64, u64)>> {
        Ok(None)
    }

    /// Returns whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// A file opened for writing. The file has a position, which each write advances.
pub trait WriteFile: Send + Debug {
    /// Writes all of `bytes` at the position and advances the position. After an error, the
    /// contents of the file past the old position are unknown.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Writes `count` zeros at the position, which must be the end of the file, and advances the
    /// position. The zeros need not take space on the disk (a hole in a sparse file). By default,
    /// the zeros are written.
    fn write_zeros(&mut self, count: u64) -> io::Result<()> {
        let zeros = [0; 16 << 10];
        let mut left = count;
        while left > 0 {
            let piece = left.min(zeros.len() as u64);
            self.write(&zeros[..piece as usize])?;
            left -= piece;
        }
        Ok(())
    }

    /// Makes durable all bytes written and the length of the file.
    fn sync(&mut self) -> io::Result<()>;

    /// Sets the length of the file. Keeps the position, or moves it to the new end if it is past
    /// the new end.
    fn set_len(&mut self, len: u64) -> io::Result<()>;

    /// Truncates the file to the bytes written. Returns whether the file was longer. The new length
    /// is durable after the next [`WriteFile::sync`].
    fn trim(&mut self) -> io::Result<bool> {
        Ok(false)
    }

    /// Closes a synced file, which is not written to again. The engine calls this before another
    /// file names a file that is complete. An error means that the file cannot be relied on. By
    /// default, there is none.
    fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A guard that holds the lock on a lock file until it is dropped.
pub trait FileLock: Send + Sync + Debug {
    /// Returns whether another file has taken the place of the lock file. Another process may hold
    /// a lock on that file, and the whole directory may have been replaced.
    fn is_replaced(&self) -> io::Result<bool> {
        Ok(false)
    }

    /// Returns whether the lock keeps other processes out. Returns false on a filesystem without
    /// locks, where the guard keeps out only this process.
    fn excludes_processes(&self) -> bool {
        true
    }
}

/// Checks the lock file to make sure that a directory is still the one that was locked with `lock`,
/// and not another directory that was put in its place. Does nothing if there is no lock or the
/// lock has been released.
///
/// # Errors
/// An I/O error, if the lock file was replaced or cannot be queried.
pub(crate) fn check_not_replaced(lock: Option<&Weak<dyn FileLock>>) -> io::Result<()> {
    let Some(lock) = lock.and_then(Weak::upgrade) else { return Ok(()) };
    match lock.is_replaced()? {
        false => Ok(()),
        true => Err(io::Error::other(
            "its LOCK is not the one that was locked: the directory was removed and made again",
        )),
    }
}
