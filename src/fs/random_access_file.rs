//! Table files. There may be more table files than a process may keep open.
//!
//! The tables of all databases together use at most half of the file descriptors that the process
//! may have (`RLIMIT_NOFILE`). Each further table is opened again for every read, as in LevelDB's
//! `util/env_posix.cc`.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::ReadFile;
use super::mapped_table::{RESIDENCY, TableMap};
use super::open::require_regular_file;
use super::retry::read_fully_at;
use super::system::{FileIdentity, identity, max_open_files, not_through_links, read_at};

/// Maximum number of mapped tables in the process: a quarter of the mappings that Linux allows by
/// default. A higher number leaves fewer mappings to the rest of the program.
const MAX_MAPPED_TABLES: u64 = 16 << 10;

/// Number of files that are kept open, or of those that are mapped.
#[derive(Debug)]
struct OpenFiles(AtomicU64);

static KEPT_OPEN: OpenFiles = OpenFiles(AtomicU64::new(0));
static MAPPED: OpenFiles = OpenFiles(AtomicU64::new(0));

/// A table's file: kept open, or opened for each read.
#[derive(Debug)]
pub(super) struct RandomAccessFile {
    path: PathBuf,
    id: FileIdentity,
    kept: Option<Counted<File>>,
    /// The mapping of a file that is kept open, once one was asked for.
    map: OnceLock<Option<Counted<TableMap>>>,
}

/// An open file or a mapping, counted until it is dropped.
#[derive(Debug)]
struct Counted<T> {
    inner: T,
    count: &'static OpenFiles,
}

impl OpenFiles {
    /// Counts `inner` and returns it. Returns `None` if `most` are already counted.
    fn keep<T>(&'static self, inner: T, most: u64) -> Option<Counted<T>> {
        let one_more = |open| (open < most).then_some(open + 1);
        self.0.fetch_update(Relaxed, Relaxed, one_more).ok()?;
        Some(Counted { inner, count: self })
    }
}

impl<T> Drop for Counted<T> {
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

fn open_within(path: &Path, count: &'static OpenFiles, most: u64) -> io::Result<RandomAccessFile> {
    require_regular_file(path)?;
    let file = open_file(path)?;
    let id = identity(&file)?;
    let (path, kept) = (path.to_path_buf(), count.keep(file, most));
    Ok(RandomAccessFile { path, id, kept, map: OnceLock::new() })
}

fn open_file(path: &Path) -> io::Result<File> {
    not_through_links().read(true).open(path)
}

impl RandomAccessFile {
    fn with<R>(&self, f: impl FnOnce(&File) -> io::Result<R>) -> io::Result<R> {
        match &self.kept {
            Some(kept) => f(&kept.inner),
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

    fn read_with_call(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.with(|file| read_fully_at(buf, offset, |buf, offset| read_at(file, buf, offset)))
    }
}

impl ReadFile for RandomAccessFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let Some(Some(map)) = self.map.get() else { return self.read_with_call(buf, offset) };
        RESIDENCY.watch(buf.len(), || match RESIDENCY.is_high() && map.inner.copy(buf, offset) {
            true => Ok(buf.len()),
            false => self.read_with_call(buf, offset),
        })
    }

    fn map(&self) {
        self.map.get_or_init(|| {
            let map = TableMap::new(&self.kept.as_ref()?.inner).ok()?;
            MAPPED.keep(map, MAX_MAPPED_TABLES)
        });
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
        static NONE: OpenFiles = OpenFiles(AtomicU64::new(0));
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
        static OURS: OpenFiles = OpenFiles(AtomicU64::new(0));
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
