//! The filesystem on disk, through the operating system.
//!
//! Files are opened close-on-exec and never through a symbolic link, and only regular files are
//! opened at all: a database copied from a stranger may contain a FIFO, and opening a FIFO may wait
//! for ever.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::mapped::MappedLog;
use super::open::require_regular_file;
use super::retry::{read_fully_at, write_fully_at};
use super::{
    EntryKind, FileLock, Fs, LockHolder, ReadFile, WriteFile, lock, random_access_file, system,
};

/// The filesystem on disk. Files have mode 0600, directories have mode 0700.
#[derive(Debug, Default, Clone, Copy)]
pub struct DiskFs;

impl Fs for DiskFs {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        require_regular_file(path)?;
        Ok(Arc::new(DiskReadFile { file: system::not_through_links().read(true).open(path)? }))
    }

    fn open_table(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        Ok(Arc::new(random_access_file::open(path)?))
    }

    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        // An empty path means the current directory.
        let is_empty = path.as_os_str().is_empty();
        std::path::absolute(if is_empty { Path::new(".") } else { path })
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let file = create(path, system::not_through_links().write(true))?;
        Ok(Box::new(DiskWriteFile { file, position: 0 }))
    }

    fn create_log(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        Ok(Box::new(MappedLog::new(create(
            path,
            system::not_through_links().read(true).write(true),
        )?)))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        require_regular_file(path)?;
        let file = system::not_through_links().write(true).open(path)?;
        let position = file.metadata()?.len();
        Ok(Box::new(DiskWriteFile { file, position }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        system::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        system::remove(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        // A hard link to a symbolic link could refer to a file outside of the directory. For a
        // directory, the system call fails.
        if !fs::symlink_metadata(from)?.is_dir() {
            require_regular_file(from)?;
        }
        fs::hard_link(from, to)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        system::create_dirs(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        fs::read_dir(path)?.map(|entry| Ok(name_of(&entry?))).collect()
    }

    fn entries(&self, path: &Path) -> io::Result<Vec<(String, EntryKind)>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            match entry.file_type() {
                Ok(kind) => entries.push((name_of(&entry), kind_of(kind))),
                // The file was removed after it was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(entries)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        system::sync_dir(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        match fs::symlink_metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn is_real_dir(&self, path: &Path) -> io::Result<bool> {
        Ok(fs::symlink_metadata(path)?.is_dir())
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        Ok(require_regular_file(path)?.len())
    }

    fn modified(&self, path: &Path) -> io::Result<Option<SystemTime>> {
        fs::symlink_metadata(path)?.modified().map(Some)
    }

    fn has_other_names(&self, path: &Path) -> io::Result<bool> {
        system::has_other_names(path, &require_regular_file(path)?)
    }

    fn lock(&self, path: &Path) -> io::Result<Result<Box<dyn FileLock>, LockHolder>> {
        Ok(lock::lock(path)?.map(|guard| Box::new(guard) as Box<dyn FileLock>))
    }
}

fn name_of(entry: &fs::DirEntry) -> String {
    entry.file_name().to_string_lossy().into_owned()
}

fn kind_of(kind: fs::FileType) -> EntryKind {
    match kind {
        kind if kind.is_file() => EntryKind::File,
        kind if kind.is_dir() => EntryKind::Directory,
        kind if kind.is_symlink() => EntryKind::Link,
        _ => EntryKind::Special,
    }
}

/// Creates a file, or truncates an existing one. If the existing file has another name, perhaps in
/// another database, it is not truncated: a new file takes over the name `path`.
fn create(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    match require_regular_file(path) {
        Ok(metadata) => match system::has_other_names(path, &metadata)? {
            false => return options.truncate(true).open(path),
            true => system::remove(path)?,
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    options.create_new(true).open(path)
}

#[derive(Debug)]
struct DiskReadFile {
    file: File,
}

impl ReadFile for DiskReadFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        read_fully_at(buf, offset, |buf, offset| system::read_at(&self.file, buf, offset))
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn skip_hole(&self, offset: u64) -> io::Result<Option<u64>> {
        system::skip_hole(&self.file, offset)
    }

    fn identity(&self) -> io::Result<Option<(u64, u64)>> {
        system::identity(&self.file).map(Some)
    }
}

/// A file for writing. Keeps its own position, so that a failed write does not change the position.
#[derive(Debug)]
struct DiskWriteFile {
    file: File,
    position: u64,
}

impl WriteFile for DiskWriteFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        write_fully_at(bytes, self.position, |bytes, offset| {
            system::write_at(&self.file, bytes, offset)
        })?;
        self.position += bytes.len() as u64;
        Ok(())
    }

    fn write_zeros(&mut self, count: u64) -> io::Result<()> {
        let end = self.position.checked_add(count).ok_or(io::ErrorKind::FileTooLarge)?;
        self.file.set_len(end)?;
        self.position = end;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        // fdatasync also makes the length durable, because the bytes cannot be read without it.
        self.file.sync_data()
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)?;
        self.position = self.position.min(len);
        Ok(())
    }
}
