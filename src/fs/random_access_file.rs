//! Table files. There may be more table files than a process may keep open.
//!
//! The tables of all databases together use at most half of the file descriptors that the process
//! may have (`RLIMIT_NOFILE`). Each further table is opened again for every read, as in LevelDB's
//! `util/env_posix.cc`.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::ReadFile;
use super::open::require_regular_file;
use super::retry::read_fully_at;
use super::system::{FileIdentity, identity, max_open_files, not_through_links, read_at};

/// Number of tables kept open.
#[derive(Debug)]
struct OpenCount(AtomicU64);

static KEPT_OPEN: OpenCount = OpenCount(AtomicU64::new(0));

/// A table's file: kept open, or opened for each read.
#[derive(Debug)]
pub(super) struct RandomAccessFile {
    path: PathBuf,
    id: FileIdentity,
    kept: Option<KeptFile>,
}

/// An open file, counted until it is dropped.
#[derive(Debug)]
struct KeptFile {
    file: File,
    count: &'static OpenCount,
}

impl OpenCount {
    /// Counts `file` as kept open and returns it. Returns `None` if `most` files are already kept
    /// open.
    fn keep(&'static self, file: File, most: u64) -> Option<KeptFile> {
        let one_more = |open| (open < most).then_some(open + 1);
        self.0.fetch_update(Relaxed, Relaxed, one_more).ok()?;
        Some(KeptFile { file, count: self })
    }
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        let before = self.count.0.fetch_sub(1, Relaxed);
        debug_assert!(before > 0, "a table was closed that was not counted");
    }
}

/// Opens a table.
pub(super) fn open(path: &Path) -> io::Result<RandomAccessFile> {
    let most = max_open_files().map_or(u64::MAX, |limit| limit / 2);
    open_within(path, &KEPT_OPEN, most)
}

fn open_within(path: &Path, count: &'static OpenCount, most: u64) -> io::Result<RandomAccessFile> {
    require_regular_file(path)?;
    let file = open_file(path)?;
    let id = identity(&file)?;
    Ok(RandomAccessFile { path: path.to_path_buf(), id, kept: count.keep(file, most) })
}

fn open_file(path: &Path) -> io::Result<File> {
    not_through_links().read(true).open(path)
}

impl RandomAccessFile {
    fn with<R>(&self, f: impl FnOnce(&File) -> io::Result<R>) -> io::Result<R> {
        match &self.kept {
            Some(kept) => f(&kept.file),
            None => f(&self.open_again()?),
        }
    }

    /// Opens the file for one read. Fails if the path now leads to another file, because the whole
    /// directory may have been replaced by the directory of another database.
    fn open_again(&self) -> io::Result<File> {
        let file = open_file(&self.path)?;
        match identity(&file)? == self.id {
            true => Ok(file),
            false => Err(io::Error::other("is another file than the one that was opened before")),
        }
    }
}

impl ReadFile for RandomAccessFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.with(|file| read_fully_at(buf, offset, |buf, offset| read_at(file, buf, offset)))
    }

    fn len(&self) -> io::Result<u64> {
        self.with(|file| Ok(file.metadata()?.len()))
    }

    fn is_held(&self) -> bool {
        self.kept.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_is_opened_again_must_be_the_same_file() {
        static NONE: OpenCount = OpenCount(AtomicU64::new(0));
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("000005.ldb"), dir.path().join("other"));
        std::fs::write(&path, b"ours").unwrap();
        std::fs::write(&other, b"same").unwrap();
        let table = open_within(&path, &NONE, 0).unwrap();
        assert_eq!(table.read_at(&mut [0; 4], 0).unwrap(), 4);
        std::fs::rename(&other, &path).unwrap();
        let error = table.read_at(&mut [0; 4], 0).unwrap_err();
        assert!(error.to_string().contains("another file"), "{error}");
    }

    #[test]
    fn tables_beyond_the_bound_are_opened_for_each_read() {
        static OURS: OpenCount = OpenCount(AtomicU64::new(0));
        let dir = tempfile::tempdir().unwrap();
        let path = |i: usize| dir.path().join(i.to_string());
        let open = |i: usize| {
            std::fs::write(path(i), [i as u8; 10]).unwrap();
            open_within(&path(i), &OURS, 2).unwrap()
        };
        let mut tables: Vec<_> = (0..4).map(open).collect();
        let is_held = |table: &RandomAccessFile| table.kept.is_some();
        assert_eq!(tables.iter().filter(|table| is_held(table)).count(), 2);
        for (i, table) in tables.iter().enumerate() {
            let mut buf = [0; 20];
            assert_eq!(table.len().unwrap(), 10);
            assert_eq!(table.read_at(&mut buf, 3).unwrap(), 7);
            assert_eq!(buf[..7], [i as u8; 7]);
        }
        drop(tables.remove(0));
        assert!(is_held(&open(4)), "there is room again");
        // The table that is kept open can still be read after its file is removed. The other table
        // cannot.
        (0..4).for_each(|i| std::fs::remove_file(path(i)).unwrap());
        assert_eq!(tables[0].read_at(&mut [0], 0).unwrap(), 1);
        assert_eq!(tables[1].read_at(&mut [0], 0).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
