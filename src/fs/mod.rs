//! The filesystem as the engine sees it: a trait, so that tests can put a simulated one in its
//! place, and the only door to the disk. [`DiskFs`] is the disk, [`MemFs`] keeps files in memory,
//! and [`SimFs`] crashes and fails on demand.
//!
//! Errors are plain [`io::Error`]s; the caller knows the operation and the path and says so.
//!
//! Durability, as every implementation must give it:
//! - bytes written are durable after [`WriteFile::sync`];
//! - a name (created, renamed to, removed) is durable after [`Fs::sync_dir`] of its directory,
//!   and so is a directory that was made: as a name in its parent;
//! - [`Fs::rename`] replaces the target atomically;
//! - dropping a file never syncs it.

mod disk;
mod lock;
mod mapped;
mod mem;
mod namespace;
pub(crate) mod ordered;
mod retry;
pub mod sim;
#[cfg(test)]
mod suite;
mod table_file;

pub use disk::DiskFs;
pub use mem::MemFs;
pub use sim::SimFs;

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A place where files live. Thread-safe; shared as `Arc<dyn Fs>`.
pub trait Fs: Send + Sync + Debug + 'static {
    /// Opens an existing file for reading at any offset.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>>;

    /// [`Fs::open`] for a table, of which there may be more than can be held open. It must keep
    /// its name while it is read.
    fn open_table(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        self.open(path)
    }

    /// `path` from the root, if the filesystem has a current directory: then a relative path means
    /// another place once the process goes to another directory.
    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(path.to_path_buf())
    }

    /// Creates a file for writing, replacing or emptying one that is there. Mode 0600,
    /// close-on-exec, not through a symbolic link; on a disk, another name of the file that was
    /// there keeps it as it was.
    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>>;

    /// [`Fs::create`] for a log, to which whole physical records are appended. Until it is dropped
    /// or trimmed the file may be longer than what was written, by zeros up to the end of a block.
    fn create_log(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        self.create(path)
    }

    /// Opens an existing file for writing after its last byte.
    fn append(&self, path: &Path) -> io::Result<Box<dyn WriteFile>>;

    /// Renames, replacing the target if there is one.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes a second name for a file.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Makes a directory (mode 0700) and its parents; one that is there is fine.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, in no particular order. Names that are not UTF-8 are left out:
    /// none of ours is.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;

    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Whether there is a file or directory of this name.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Whether a name that is there stands for a directory itself, and not for a link to one.
    fn is_real_dir(&self, path: &Path) -> io::Result<bool> {
        match self.list(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The length of a file, in bytes.
    fn len(&self, path: &Path) -> io::Result<u64>;

    /// Takes the lock file (created if it is not there) for this process, until the returned
    /// guard is dropped. The outer error is the disk's; the inner one is who holds the lock.
    ///
    /// Nothing else in the process may open the file meanwhile, not even to read it: on a disk,
    /// closing it again would give up the lock that LevelDB sees.
    fn lock(&self, path: &Path) -> io::Result<Result<Box<dyn FileLock>, LockHolder>>;
}

/// A file opened for reading. Thread-safe.
pub trait ReadFile: Send + Sync + Debug {
    /// Reads at `offset` until `buf` is full or the file ends: the bytes read. Interrupted and
    /// short reads are carried on inside.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// The length of the file, in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file can be read whatever becomes of its name.
    fn is_held(&self) -> bool {
        true
    }

    /// Whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// A file opened for writing, at a position that only writing moves.
pub trait WriteFile: Send + Debug {
    /// Writes all of `bytes` at the position and moves it. After an error the file's content past
    /// the old position is unknown.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes every byte written, and the length, durable.
    fn sync(&mut self) -> io::Result<()>;

    /// Sets the length. The position stays, unless the file now ends before it.
    fn set_len(&mut self, len: u64) -> io::Result<()>;

    /// Cuts off what the file has past what was written, if anything: whether it did. What was
    /// cut is durable after the next [`WriteFile::sync`].
    fn trim(&mut self) -> io::Result<bool> {
        Ok(false)
    }
}

/// Holds a lock file while it lives.
pub trait FileLock: Send + Sync + Debug {
    /// Whether the lock file was replaced by another one, which another process may hold: then the
    /// directory, too, may be another one by now.
    fn is_replaced(&self) -> io::Result<bool> {
        Ok(false)
    }
}

/// Who holds a lock, as far as the system tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockHolder {
    /// This very process opened the database before.
    ThisProcess,
    /// Another process, with its number where the system gives it.
    Process(Option<u32>),
    /// A process that was forked by the one that took the lock, which has ended: the lock ends
    /// with the last process that has the file open.
    ForkOf {
        /// The process that took the lock.
        ended: u32,
        /// One that still has the file open, if it can be found.
        heir: Option<u32>,
    },
}

impl std::fmt::Display for LockHolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LockHolder::ThisProcess => f.write_str("this process"),
            LockHolder::Process(Some(pid)) => write!(f, "process {pid}"),
            LockHolder::Process(None) => f.write_str("another process"),
            LockHolder::ForkOf { ended, heir: Some(heir) } => write!(
                f,
                "process {heir}, which was forked by process {ended} and keeps the lock of it \
                 until it ends, too"
            ),
            LockHolder::ForkOf { ended, heir: None } => write!(
                f,
                "a process that was forked by process {ended}, which has ended: it keeps the \
                 lock until it ends, too"
            ),
        }
    }
}
