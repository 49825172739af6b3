//! A filesystem for dry runs: reads existing files, and accepts every change without making it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::fs::{FileLock, Fs, LockHolder, ReadFile, WriteFile};

/// Reads from another filesystem and discards what is written.
#[derive(Debug)]
pub struct DryFs(pub Arc<dyn Fs>);

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
    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        self.0.open(path)
    }

    fn open_table(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        self.0.open_table(path)
    }

    fn create(&self, _: &Path) -> io::Result<Box<dyn WriteFile>> {
        Ok(Box::new(Nothing))
    }

    fn append(&self, _: &Path) -> io::Result<Box<dyn WriteFile>> {
        Ok(Box::new(Nothing))
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn hard_link(&self, _: &Path, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn create_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn remove_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.0.list(path)
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.0.exists(path)
    }

    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        self.0.absolute(path)
    }

    fn is_real_dir(&self, path: &Path) -> io::Result<bool> {
        self.0.is_real_dir(path)
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        self.0.len(path)
    }

    /// Does not create a missing lock file: without one, nobody has the database open.
    fn lock(&self, path: &Path) -> io::Result<Result<Box<dyn FileLock>, LockHolder>> {
        match self.0.exists(path)? {
            true => self.0.lock(path),
            false => Ok(Ok(Box::new(Nothing))),
        }
    }
}
