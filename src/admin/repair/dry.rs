//! A filesystem for dry runs: it reads existing files, and reports success for every change without
//! making the change.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::fs::forward::forward_to;
use crate::fs::{EntryKind, FileLock, Fs, LockHolder, ReadFile, WriteFile};

/// Reads from another filesystem and discards all changes.
#[derive(Debug)]
pub(super) struct DryFs(pub Arc<dyn Fs>);

#[derive(Debug)]
struct Nothing;

impl WriteFile for Nothing {
    fn write(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }
}

impl FileLock for Nothing {}

impl Fs for DryFs {
    forward_to!(0: open, open_table, list, entries, len, exists, absolute, is_real_dir);
    forward_to!(changes: Ok(Box::new(Nothing)), Ok(()));

    /// Takes the lock if the lock file exists. Does not create a missing lock file: without that
    /// file, no process has the database open.
    fn lock(&self, path: &Path) -> io::Result<Result<Box<dyn FileLock>, LockHolder>> {
        match self.0.exists(path)? {
            true => self.0.lock(path),
            false => Ok(Ok(Box::new(Nothing))),
        }
    }
}
