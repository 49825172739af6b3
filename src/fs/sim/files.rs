//! The filesystem's operations, and the handles of open files.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::super::namespace::{NameOp, Node};
use super::super::retry::{read_fully_at, write_fully_at};
use super::super::system::{Errno, os_error};
use super::super::{EntryKind, FileLock, Fs, LockHolder, ReadFile, WriteFile};
use super::fault::Action;
use super::state::Effect;
use super::{FileId, Inner, Lack, OpKind, Operation, SimFs};

/// Largest length of a file, in bytes. This limits the size of the page table; a higher limit lets
/// a faulty test take more memory.
const MAX_FILE_BYTES: u64 = 1 << 36;

impl Inner {
    fn open_file(&mut self, file: FileId) -> FileId {
        *self.open.entry(file).or_default() += 1;
        file
    }

    fn new_file(&mut self, path: &Path) -> io::Result<FileId> {
        let at = self.state.names.location(path)?;
        let file = self.next_file;
        self.next_file += 1;
        self.commit(Effect::Name(NameOp::Set { at, node: Node::File(file) }));
        Ok(file)
    }

    /// Returns the file of this name, and whether it existed. Creates the file if it is missing.
    fn file_or_new(&mut self, path: &Path) -> io::Result<(FileId, bool)> {
        match self.state.names.file(path) {
            Ok(file) => Ok((file, true)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok((self.new_file(path)?, false))
            }
            Err(error) => Err(error),
        }
    }

    /// Checks that the name `path` may be taken from what it names.
    fn check_free(&self, path: &Path) -> io::Result<()> {
        if !self.lacks.contains(&Lack::NamesOfOpenFiles) {
            return Ok(());
        }
        let is_open = match self.state.names.lookup(path) {
            Ok(Node::File(file)) => self.open.contains_key(&file),
            Ok(Node::Dir(_)) => {
                let below = |file: &Path| file.starts_with(path);
                let files = self.state.names.files().into_iter();
                files.filter(|(file, _)| below(file)).any(|(_, id)| self.open.contains_key(&id))
            }
            Err(_) => false,
        };
        if is_open { Err(Errno::ACCESS.into()) } else { Ok(()) }
    }

    fn file_len(&self, file: FileId) -> u64 {
        self.state.files.get(&file).map_or(0, |file| file.live.len())
    }

    /// Makes one attempt at a write. Returns the number of bytes written.
    fn write(
        &mut self,
        file: FileId,
        bytes: &[u8],
        offset: u64,
        fault: Option<Action>,
    ) -> io::Result<usize> {
        if offset.saturating_add(bytes.len() as u64) > MAX_FILE_BYTES {
            return Err(Errno::FBIG.into());
        }
        let (mut count, mut then) = (bytes.len(), None);
        if let Some(Action::ShortWrite { bytes: most, then: error }) = fault {
            count = count.min(usize::try_from(most).unwrap_or(usize::MAX));
            then = error;
        }
        if let Some(capacity) = self.capacity_bytes {
            let free = capacity.saturating_sub(self.used_bytes());
            let fitting = self.state.files.get(&file).map(|f| f.live.fitting(offset, count, free));
            count = fitting.unwrap_or(count);
            if count == 0 {
                return Err(Errno::NOSPC.into());
            }
        }
        if count > 0 {
            let data = Bytes::copy_from_slice(&bytes[..count]);
            self.commit(Effect::Write { file, offset, data });
            self.counts.bytes_written += count as u64;
        }
        match then {
            Some(code) => Err(os_error(code)),
            None => Ok(count),
        }
    }

    /// Makes one attempt at a read. Returns the number of bytes read.
    fn read(
        &mut self,
        file: FileId,
        buf: &mut [u8],
        offset: u64,
        fault: Option<Action>,
    ) -> io::Result<usize> {
        let live = self.state.files.get(&file).map(|file| file.live.clone()).unwrap_or_default();
        let most = match fault {
            Some(Action::ShortRead { bytes }) => usize::try_from(bytes).unwrap_or(usize::MAX),
            _ => usize::MAX,
        };
        let room = buf.len().min(most);
        let count = live.read_at(&mut buf[..room], offset);
        if let Some(Action::FlipBit { persistent }) = fault
            && count > 0
        {
            let at = self.rng.below(count as u64);
            let mask = 1 << self.rng.below(8);
            buf[at as usize] ^= mask;
            if persistent {
                self.commit(Effect::Damage { file, offset: offset + at, mask });
            }
        }
        self.counts.bytes_read += count as u64;
        Ok(count)
    }
}

impl SimFs {
    fn handle(&self, file: FileId, path: &Path) -> Handle {
        Handle { fs: self.clone(), file, path: path.to_path_buf() }
    }
}

impl Fs for SimFs {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        self.run(Operation::new(OpKind::Open, path), |inner, _| {
            let file = inner.state.names.file(path)?;
            Ok(self.handle(inner.open_file(file), path))
        })
        .map(|handle| Arc::new(SimReadFile(handle)) as Arc<dyn ReadFile>)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let handle = self.run(Operation::new(OpKind::Create, path), |inner, _| {
            let (file, was_there) = inner.file_or_new(path)?;
            if was_there && inner.file_len(file) > 0 {
                inner.commit(Effect::SetLen { file, len: 0 });
            }
            Ok(self.handle(inner.open_file(file), path))
        })?;
        Ok(Box::new(SimWriteFile { handle, position: 0 }))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let (handle, position) = self.run(Operation::new(OpKind::Append, path), |inner, _| {
            let file = inner.state.names.file(path)?;
            Ok((self.handle(inner.open_file(file), path), inner.file_len(file)))
        })?;
        Ok(Box::new(SimWriteFile { handle, position }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.run(Operation::new(OpKind::Rename, from).to(to), |inner, _| {
            if let Some(op) = inner.state.names.rename(from, to)? {
                inner.check_free(from)?;
                inner.check_free(to)?;
                inner.commit(Effect::Name(op));
            }
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.run(Operation::new(OpKind::Remove, path), |inner, _| {
            let op = inner.state.names.remove(path)?;
            inner.check_free(path)?;
            inner.commit(Effect::Name(op));
            Ok(())
        })
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.run(Operation::new(OpKind::HardLink, from).to(to), |inner, _| {
            let op = inner.state.names.link(from, to)?;
            inner.commit(Effect::Name(op));
            Ok(())
        })
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let mut is_whole = false;
        while !is_whole {
            is_whole = self.run(Operation::new(OpKind::CreateDir, path), |inner, _| {
                if let Some(at) = inner.state.names.missing_dir(path)? {
                    let node = Node::Dir(inner.state.names.unused_dir());
                    inner.commit(Effect::Name(NameOp::Set { at, node }));
                }
                Ok(inner.state.names.missing_dir(path)?.is_none())
            })?;
        }
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.run(Operation::new(OpKind::RemoveDir, path), |inner, _| {
            let op = inner.state.names.remove_dir(path)?;
            inner.commit(Effect::Name(op));
            Ok(())
        })
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.run(Operation::new(OpKind::List, path), |inner, _| inner.state.names.list(path))
    }

    fn entries(&self, path: &Path) -> io::Result<Vec<(String, EntryKind)>> {
        self.run(Operation::new(OpKind::List, path), |inner, _| inner.state.names.entries(path))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.run(Operation::new(OpKind::SyncDir, path), |inner, _| {
            let dir = inner.state.names.dir(path)?;
            if [Lack::DirectorySync, Lack::NamesOutOfOrder].iter().any(|l| inner.lacks.contains(l))
            {
                return Err(Errno::INVAL.into());
            }
            inner.commit(Effect::SyncDir { dir });
            Ok(())
        })
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.run(Operation::new(OpKind::Exists, path), |inner, _| inner.state.names.exists(path))
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        self.run(Operation::new(OpKind::Len, path), |inner, _| {
            let file = inner.state.names.file(path)?;
            Ok(inner.file_len(file))
        })
    }

    fn lock(&self, path: &Path) -> io::Result<Result<Box<dyn FileLock>, LockHolder>> {
        let lock = self.run(Operation::new(OpKind::Lock, path), |inner, _| {
            let (file, _) = inner.file_or_new(path)?;
            let is_free = inner.locked.insert(file);
            let excludes = !inner.lacks.contains(&Lack::Locks);
            Ok(is_free
                .then(|| SimLock { handle: self.handle(inner.open_file(file), path), excludes }))
        })?;
        let Some(lock) = lock else { return Ok(Err(LockHolder::ThisProcess)) };
        Ok(Ok(Box::new(lock)))
    }
}

/// An open file. Closing a file does not count as an operation and syncs nothing.
#[derive(Debug)]
struct Handle {
    fs: SimFs,
    file: FileId,
    path: PathBuf,
}

impl Handle {
    fn operation(&self, kind: OpKind) -> Operation<'_> {
        Operation::new(kind, &self.path)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut inner = self.fs.shared.inner.lock();
        if let Some(count) = inner.open.get_mut(&self.file) {
            *count -= 1;
            if *count == 0 {
                inner.open.remove(&self.file);
            }
        }
    }
}

#[derive(Debug)]
struct SimReadFile(Handle);

impl ReadFile for SimReadFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let Handle { fs, file, .. } = &self.0;
        fs.shared.inner.lock().counts.add(OpKind::Read);
        let mut is_at_end = false;
        read_fully_at(buf, offset, |buf, offset| {
            if is_at_end {
                return Ok(0);
            }
            let op = self.0.operation(OpKind::Read).bytes(buf.len() as u64);
            fs.run(op, |inner, fault| {
                let count = inner.read(*file, buf, offset, fault)?;
                is_at_end = offset.saturating_add(count as u64) >= inner.file_len(*file);
                Ok(count)
            })
        })
    }

    fn len(&self) -> io::Result<u64> {
        let file = self.0.file;
        self.0.fs.run(self.0.operation(OpKind::Len), |inner, _| Ok(inner.file_len(file)))
    }

    fn identity(&self) -> io::Result<Option<(u64, u64)>> {
        Ok(Some((0, self.0.file)))
    }
}

#[derive(Debug)]
struct SimWriteFile {
    handle: Handle,
    position: u64,
}

impl WriteFile for SimWriteFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Handle { fs, file, .. } = &self.handle;
        write_fully_at(bytes, self.position, |bytes, offset| {
            let op = self.handle.operation(OpKind::Write).bytes(bytes.len() as u64);
            fs.run(op, |inner, fault| inner.write(*file, bytes, offset, fault))
        })?;
        self.position += bytes.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let file = self.handle.file;
        self.handle.fs.run(self.handle.operation(OpKind::Sync), |inner, fault| {
            if fault == Some(Action::LoseSync) {
                inner.commit(Effect::LosePending { file });
                return Err(Errno::IO.into());
            }
            inner.commit(Effect::Sync { file });
            Ok(())
        })
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        let file = self.handle.file;
        self.handle.fs.run(self.handle.operation(OpKind::SetLen).bytes(len), |inner, _| {
            if len > MAX_FILE_BYTES {
                return Err(Errno::FBIG.into());
            }
            if len != inner.file_len(file) {
                inner.commit(Effect::SetLen { file, len });
            }
            Ok(())
        })?;
        self.position = self.position.min(len);
        Ok(())
    }
}

#[derive(Debug)]
struct SimLock {
    handle: Handle,
    excludes: bool,
}

impl FileLock for SimLock {
    fn excludes_processes(&self) -> bool {
        self.excludes
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        let Handle { fs, file, .. } = &self.handle;
        fs.shared.inner.lock().locked.remove(file);
    }
}
