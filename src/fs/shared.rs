//! Shared pointers to filesystems, which are filesystems too.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use crate::fs::{EntryKind, FileLock, Fs, LockHolder, ReadFile, WriteFile};

#[deny(clippy::missing_trait_methods)]
impl<T: Fs + ?Sized> Fs for Arc<T> {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        (**self).open(path)
    }

    fn open_table(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        (**self).open_table(path)
    }

    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        (**self).absolute(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        (**self).create(path)
    }

    fn create_log(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        (**self).create_log(path)
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        (**self).append(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        (**self).rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        (**self).remove(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        (**self).hard_link(from, to)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        (**self).create_dir(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        (**self).remove_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        (**self).list(path)
    }

    fn entries(&self, path: &Path) -> io::Result<Vec<(String, EntryKind)>> {
        (**self).entries(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        (**self).sync_dir(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        (**self).exists(path)
    }

    fn is_real_dir(&self, path: &Path) -> io::Result<bool> {
        (**self).is_real_dir(path)
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        (**self).len(path)
    }

    fn modified(&self, path: &Path) -> io::Result<Option<SystemTime>> {
        (**self).modified(path)
    }

    fn has_other_names(&self, path: &Path) -> io::Result<bool> {
        (**self).has_other_names(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Result<Box<dyn FileLock>, LockHolder>> {
        (**self).lock(path)
    }
}
