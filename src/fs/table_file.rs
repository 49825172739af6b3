//! Table files: more of them than a process may hold open.
//!
//! Tables hold at most half of the file descriptors the process may have (`RLIMIT_NOFILE`), those
//! of all databases together. A table beyond that is opened for each of its reads, as LevelDB's
//! `util/env_posix.cc` does it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::process::{Resource, getrlimit};

use super::ReadFile;
use super::disk::{not_through_links, require_regular_file};
use super::retry::read_fully_at;

/// How many tables are held open.
#[derive(Debug)]
struct Held(AtomicU64);

static HELD: Held = Held(AtomicU64::new(0));

/// A table.
#[derive(Debug)]
pub(super) struct TableFile {
    path: PathBuf,
    held: Option<HeldFile>,
}

/// Counted while it is open.
#[derive(Debug)]
struct HeldFile {
    file: File,
    count: &'static Held,
}

impl Held {
    /// Counts the file, if fewer than `most` are held.
    fn hold(&'static self, file: File, most: u64) -> Option<HeldFile> {
        let one_more = |held| (held < most).then_some(held + 1);
        self.0.fetch_update(Relaxed, Relaxed, one_more).ok()?;
        Some(HeldFile { file, count: self })
    }
}

impl Drop for HeldFile {
    fn drop(&mut self) {
        self.count.0.fetch_sub(1, Relaxed);
    }
}

/// Opens a table.
pub(super) fn open(path: &Path) -> io::Result<TableFile> {
    let most = getrlimit(Resource::Nofile).current.map_or(u64::MAX, |limit| limit / 2);
    open_within(path, &HELD, most)
}

fn open_within(path: &Path, held: &'static Held, most: u64) -> io::Result<TableFile> {
    require_regular_file(path)?;
    Ok(TableFile { path: path.to_path_buf(), held: held.hold(open_file(path)?, most) })
}

fn open_file(path: &Path) -> io::Result<File> {
    not_through_links().read(true).open(path)
}

impl TableFile {
    fn with<R>(&self, f: impl FnOnce(&File) -> io::Result<R>) -> io::Result<R> {
        match &self.held {
            Some(held) => f(&held.file),
            None => f(&open_file(&self.path)?),
        }
    }
}

impl ReadFile for TableFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.with(|file| read_fully_at(buf, offset, |buf, offset| file.read_at(buf, offset)))
    }

    fn len(&self) -> io::Result<u64> {
        self.with(|file| Ok(file.metadata()?.len()))
    }

    fn is_held(&self) -> bool {
        self.held.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_beyond_the_bound_are_opened_for_each_read() {
        static OURS: Held = Held(AtomicU64::new(0));
        let dir = tempfile::tempdir().unwrap();
        let path = |i: usize| dir.path().join(i.to_string());
        let open = |i: usize| {
            std::fs::write(path(i), [i as u8; 10]).unwrap();
            open_within(&path(i), &OURS, 2).unwrap()
        };
        let mut tables: Vec<_> = (0..4).map(open).collect();
        let is_held = |table: &TableFile| table.held.is_some();
        assert_eq!(tables.iter().filter(|table| is_held(table)).count(), 2);
        for (i, table) in tables.iter().enumerate() {
            let mut buf = [0; 20];
            assert_eq!(table.len().unwrap(), 10);
            assert_eq!(table.read_at(&mut buf, 3).unwrap(), 7);
            assert_eq!(buf[..7], [i as u8; 7]);
        }
        drop(tables.remove(0));
        assert!(is_held(&open(4)), "there is room again");
        // One that is held needs its name no longer; the other says what is wrong.
        (0..4).for_each(|i| std::fs::remove_file(path(i)).unwrap());
        assert_eq!(tables[0].read_at(&mut [0], 0).unwrap(), 1);
        assert_eq!(tables[1].read_at(&mut [0], 0).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
