//! A filesystem in memory.

use std::path::Path;
use std::sync::Arc;
use std::{fmt, io};

use super::namespace::{NameOp, Namespace, Node};
use super::system::Errno;
use super::{EntryKind, FileLock, Fs, LockHolder, ReadFile, WriteFile};
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::base::sync::{Mutex, RwLock};

/// A filesystem in memory, for tests and for databases that need not outlive the process.
///
/// It starts with an empty root directory; relative paths start there, too. Files behave as on
/// Unix: an open file lives on after its name is removed, and a file may have several names. Clones
/// are handles to the same filesystem.
///
/// ```
/// use minikv::fs::{Fs, MemFs};
/// use std::path::Path;
///
/// let fs = MemFs::new();
/// fs.create(Path::new("/greeting"))?.write(b"hello")?;
/// assert_eq!(fs.len(Path::new("/greeting"))?, 5);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct MemFs {
    names: Arc<Mutex<Namespace<FileRef>>>,
}

impl MemFs {
    /// Creates an empty filesystem.
    pub fn new() -> MemFs {
        MemFs::default()
    }
}

impl fmt::Debug for MemFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemFs").field("files", &self.names.lock().files().len()).finish()
    }
}

#[derive(Default)]
struct MemFile {
    bytes: RwLock<Vec<u8>>,
    locked: AtomicBool,
}

/// A reference to a file. It does not depend on the file's names.
#[derive(Clone, Default)]
struct FileRef(Arc<MemFile>);

impl PartialEq for FileRef {
    fn eq(&self, other: &FileRef) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for FileRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file of {} bytes", self.0.bytes.read().len())
    }
}

impl MemFs {
    fn open_or_create(&self, path: &Path) -> io::Result<FileRef> {
        let mut names = self.names.lock();
        match names.file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found,
        }
        let file = FileRef::default();
        let at = names.location(path)?;
        names.apply(&NameOp::Set { at, node: Node::File(file.clone()) });
        Ok(file)
    }

    fn change(
        &self,
        check: impl FnOnce(&Namespace<FileRef>) -> io::Result<NameOp<FileRef>>,
    ) -> io::Result<()> {
        let mut names = self.names.lock();
        let op = check(&names)?;
        names.apply(&op);
        Ok(())
    }
}

impl Fs for MemFs {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        Ok(Arc::new(MemReadFile(self.names.lock().file(path)?)))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let file = self.open_or_create(path)?;
        file.0.bytes.write().clear();
        Ok(Box::new(MemWriteFile { file, position: 0 }))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let file = self.names.lock().file(path)?;
        let position = file.0.bytes.read().len();
        Ok(Box::new(MemWriteFile { file, position }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut names = self.names.lock();
        if let Some(op) = names.rename(from, to)? {
            names.apply(&op);
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change(|names| names.remove(path))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(|names| names.link(from, to))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let mut names = self.names.lock();
        while let Some(at) = names.missing_dir(path)? {
            let node = Node::Dir(names.unused_dir());
            names.apply(&NameOp::Set { at, node });
        }
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.change(|names| names.remove_dir(path))
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.names.lock().list(path)
    }

    fn entries(&self, path: &Path) -> io::Result<Vec<(String, EntryKind)>> {
        self.names.lock().entries(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.names.lock().dir(path).map(drop)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.names.lock().exists(path)
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        let file = self.names.lock().file(path)?;
        let len = file.0.bytes.read().len();
        Ok(len as u64)
    }

    fn lock(&self, path: &Path) -> io::Result<Result<Box<dyn FileLock>, LockHolder>> {
        let file = self.open_or_create(path)?;
        if file.0.locked.swap(true, Ordering::Acquire) {
            return Ok(Err(LockHolder::ThisProcess));
        }
        Ok(Ok(Box::new(MemLock(file))))
    }
}

#[derive(Debug)]
struct MemReadFile(FileRef);

impl ReadFile for MemReadFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.0.0.bytes.read();
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let count = buf.len().min(bytes.len() - start);
        buf[..count].copy_from_slice(&bytes[start..start + count]);
        Ok(count)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.0.bytes.read().len() as u64)
    }

    fn identity(&self) -> io::Result<Option<(u64, u64)>> {
        Ok(Some((0, Arc::as_ptr(&self.0.0).addr() as u64)))
    }
}

#[derive(Debug)]
struct MemWriteFile {
    file: FileRef,
    position: usize,
}

/// Extends `bytes` with zeros. Lack of memory counts as a full disk.
fn extend_to(bytes: &mut Vec<u8>, len: usize) -> io::Result<()> {
    let more = len.saturating_sub(bytes.len());
    bytes.try_reserve(more).map_err(|_| Errno::NOSPC)?;
    bytes.resize(bytes.len() + more, 0);
    Ok(())
}

impl WriteFile for MemWriteFile {
    fn write(&mut self, new: &[u8]) -> io::Result<()> {
        if new.is_empty() {
            return Ok(());
        }
        let mut bytes = self.file.0.bytes.write();
        let end = self.position.checked_add(new.len()).ok_or(Errno::FBIG)?;
        // Another handle may have truncated the file below this handle's position.
        let gap_end = self.position.max(bytes.len());
        extend_to(&mut bytes, gap_end)?;
        let over = end.min(bytes.len()) - self.position;
        bytes[self.position..self.position + over].copy_from_slice(&new[..over]);
        bytes.try_reserve(new.len() - over).map_err(|_| Errno::NOSPC)?;
        bytes.extend_from_slice(&new[over..]);
        self.position = end;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(|_| Errno::FBIG)?;
        let mut bytes = self.file.0.bytes.write();
        bytes.truncate(len);
        extend_to(&mut bytes, len)?;
        self.position = self.position.min(len);
        Ok(())
    }
}

struct MemLock(FileRef);

impl FileLock for MemLock {}

impl fmt::Debug for MemLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemLock")
    }
}

impl Drop for MemLock {
    fn drop(&mut self) {
        self.0.0.locked.store(false, Ordering::Release);
    }
}
