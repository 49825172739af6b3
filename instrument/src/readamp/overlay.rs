//! A view of a database with other filters, without a copy of it.
//!
//! ```text
//! table on the disk   data blocks | filter block   | metaindex | index | footer
//! table as read       data blocks | another filter | metaindex | index | footer
//!                     on the disk   in memory
//! ```
//!
//! Data blocks and indexes stay as they are, so that all configurations have the same levels,
//! tables and blocks, byte for byte, and share the operating system's cache of these blocks.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use minikv::fs::{DiskFs, FileLock, Fs, LockHolder, ReadFile, WriteFile};

/// A read-only view of a directory. It contains only the files that were added to it.
#[derive(Debug, Default)]
pub struct Overlay {
    dir: PathBuf,
    files: BTreeMap<String, Content>,
}

/// The location of a file's bytes.
#[derive(Clone, Debug)]
pub enum Content {
    /// All on the disk.
    Disk,
    /// All in memory.
    Memory(Arc<Vec<u8>>),
    /// The first `disk_bytes` bytes are on the disk, and the rest is in memory.
    Spliced { disk_bytes: u64, tail: Arc<Vec<u8>> },
}

impl Overlay {
    /// Creates a view of the directory `dir` without any files.
    pub fn new(dir: &Path) -> Overlay {
        Overlay { dir: dir.to_path_buf(), files: BTreeMap::new() }
    }

    /// Adds a file.
    pub fn file(&mut self, name: &str, content: Content) {
        self.files.insert(name.to_string(), content);
    }

    fn content(&self, path: &Path) -> io::Result<&Content> {
        let name = path.file_name().and_then(|name| name.to_str());
        let here = path.parent() == Some(&self.dir);
        let content = name.filter(|_| here).and_then(|name| self.files.get(name));
        content.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

#[derive(Debug)]
struct InMemory(Arc<Vec<u8>>);

#[derive(Debug)]
struct Spliced {
    disk: Arc<dyn ReadFile>,
    disk_bytes: u64,
    tail: InMemory,
}

impl ReadFile for InMemory {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.0.len());
        let n = buf.len().min(self.0.len() - start);
        buf[..n].copy_from_slice(&self.0[start..start + n]);
        Ok(n)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}

impl ReadFile for Spliced {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let of_disk = self.disk_bytes.saturating_sub(offset).min(buf.len() as u64) as usize;
        let (head, rest) = buf.split_at_mut(of_disk);
        let read = if head.is_empty() { 0 } else { self.disk.read_at(head, offset)? };
        if read < of_disk || rest.is_empty() {
            return Ok(read);
        }
        let in_tail = offset + of_disk as u64 - self.disk_bytes;
        Ok(of_disk + self.tail.read_at(rest, in_tail)?)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk_bytes + self.tail.len()?)
    }
}

fn unchangeable<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "this view of a database is read-only"))
}

impl Fs for Overlay {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        Ok(match self.content(path)? {
            Content::Disk => DiskFs.open(path)?,
            Content::Memory(bytes) => Arc::new(InMemory(bytes.clone())),
            Content::Spliced { disk_bytes, tail } => Arc::new(Spliced {
                disk: DiskFs.open(path)?,
                disk_bytes: *disk_bytes,
                tail: InMemory(tail.clone()),
            }),
        })
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        match path == self.dir {
            true => Ok(self.files.keys().cloned().collect()),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(path == self.dir || self.content(path).is_ok())
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        self.open(path)?.len()
    }

    fn create(&self, _: &Path) -> io::Result<Box<dyn WriteFile>> {
        unchangeable()
    }

    fn append(&self, _: &Path) -> io::Result<Box<dyn WriteFile>> {
        unchangeable()
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        unchangeable()
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        unchangeable()
    }

    fn hard_link(&self, _: &Path, _: &Path) -> io::Result<()> {
        unchangeable()
    }

    fn create_dir(&self, _: &Path) -> io::Result<()> {
        unchangeable()
    }

    fn remove_dir(&self, _: &Path) -> io::Result<()> {
        unchangeable()
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        unchangeable()
    }

    fn lock(&self, _: &Path) -> io::Result<Result<Box<dyn FileLock>, LockHolder>> {
        unchangeable()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spliced_file_reads_across_the_seam() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, b"0123456789").unwrap();
        let mut overlay = Overlay::new(dir.path());
        let tail = Arc::new(b"abc".to_vec());
        overlay.file("f", Content::Spliced { disk_bytes: 6, tail });
        let file = overlay.open(&path).unwrap();
        assert_eq!(file.len().unwrap(), 9);
        let read = |offset, len| {
            let mut buf = vec![b'-'; len];
            let n = file.read_at(&mut buf, offset).unwrap();
            String::from_utf8(buf[..n].to_vec()).unwrap()
        };
        assert_eq!(read(0, 20), "012345abc");
        assert_eq!(read(4, 3), "45a");
        assert_eq!(read(0, 6), "012345");
        assert_eq!(read(6, 2), "ab");
        assert_eq!(read(8, 5), "c");
        assert_eq!(read(9, 5), "");
        assert_eq!(read(100, 5), "");
        assert!(overlay.create(&path).is_err());
        assert!(!overlay.exists(&dir.path().join("g")).unwrap());
    }
}
