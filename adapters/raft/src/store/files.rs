//! Operations on small files and whole directories, through minikv's filesystem interface.

use std::io;
use std::path::Path;

use minikv::fs::Fs;

use crate::store::error::{Error, Result};

/// The word before a checksum.
const SUM: &str = "crc32c ";

/// Reads a whole file of at most `limit` bytes.
pub(crate) fn read(fs: &dyn Fs, path: &Path, limit: u64) -> Result<Vec<u8>> {
    let read = || {
        let file = fs.open(path)?;
        let bytes = file.len()?;
        if bytes > limit {
            return Err(io::Error::other(format!("{bytes} bytes; at most {limit} are expected")));
        }
        let mut content = vec![0; bytes as usize];
        let read = file.read_at(&mut content, 0)?;
        content.truncate(read);
        Ok(content)
    };
    read().map_err(Error::file("read", path))
}

/// Returns `content`, which must not contain a line feed, followed by its checksum: a line feed,
/// `crc32c`, a space, and eight hexadecimal digits.
pub(crate) fn with_sum(mut content: Vec<u8>) -> Vec<u8> {
    let sum = crc32c::crc32c(&content);
    content.extend_from_slice(format!("\n{SUM}{sum:08x}").as_bytes());
    content
}

/// Reads a file that [`with_sum`] made. Returns its content without the checksum, and whether there
/// was a checksum: the first version of the store wrote files of one line without one.
pub(crate) fn read_summed(fs: &dyn Fs, path: &Path, limit: u64) -> Result<(Vec<u8>, bool)> {
    let mut content = read(fs, path, limit)?;
    let Some(end) = content.iter().position(|byte| *byte == b'\n') else {
        return Ok((content, false));
    };
    let sum = content.split_off(end);
    if sum != format!("\n{SUM}{:08x}", crc32c::crc32c(&content)).as_bytes() {
        let what = format!("{}: damaged: the content does not have its checksum", path.display());
        return Err(Error::Damaged { what });
    }
    Ok((content, true))
}

/// Writes a file and makes its content durable. The directory entry of the file may not be durable
/// yet.
pub(crate) fn write(fs: &dyn Fs, path: &Path, content: &[u8]) -> Result<()> {
    let write = || {
        let mut file = fs.create(path)?;
        file.write(content)?;
        file.sync()
    };
    write().map_err(Error::file("write", path))
}

/// Atomically and durably replaces the content of the file `name` in the directory `dir`.
pub(crate) fn replace(fs: &dyn Fs, dir: &Path, name: &str, content: &[u8]) -> Result<()> {
    let (new, path) = (dir.join(format!("{name}.new")), dir.join(name));
    write(fs, &new, content)?;
    rename(fs, &new, &path)
}

/// Durably renames a file or directory within its parent directory.
pub(crate) fn rename(fs: &dyn Fs, from: &Path, to: &Path) -> Result<()> {
    fs.rename(from, to).map_err(Error::file("rename", from))?;
    match to.parent() {
        Some(dir) => sync_dir(fs, dir),
        None => Ok(()),
    }
}

/// Durably moves a file or directory to another parent directory on the same filesystem.
pub(crate) fn move_to(fs: &dyn Fs, from: &Path, to: &Path) -> Result<()> {
    rename(fs, from, to)?;
    match from.parent() {
        Some(dir) => sync_dir(fs, dir),
        None => Ok(()),
    }
}

pub(crate) fn sync_dir(fs: &dyn Fs, dir: &Path) -> Result<()> {
    fs.sync_dir(dir).map_err(Error::file("sync", dir))
}

pub(crate) fn create_dir(fs: &dyn Fs, dir: &Path) -> Result<()> {
    fs.create_dir(dir).map_err(Error::file("create", dir))?;
    match dir.parent() {
        Some(parent) => sync_dir(fs, parent),
        None => Ok(()),
    }
}

/// Lists a directory. Returns an empty list if the directory is missing.
pub(crate) fn list(fs: &dyn Fs, dir: &Path) -> Result<Vec<String>> {
    match fs.list(dir) {
        Ok(names) => Ok(names),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Error::file("list", dir)(error)),
    }
}

/// Removes a directory and all of its contents. Succeeds if the directory is missing. The removal
/// need not be durable: if a crash undoes it, the next open removes the directory again.
pub(crate) fn remove_tree(fs: &dyn Fs, dir: &Path) -> Result<()> {
    for name in list(fs, dir)? {
        let path = dir.join(&name);
        if fs.is_real_dir(&path).map_err(Error::file("query", &path))? {
            remove_tree(fs, &path)?;
        } else {
            fs.remove(&path).map_err(Error::file("remove", &path))?;
        }
    }
    match fs.remove_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::file("remove", dir)(error))
        }
        _ => Ok(()),
    }
}

/// Creates a hard link to a file if `may_link` is true and the filesystem supports hard links;
/// otherwise copies the file. The content of a copy is durable, but the directory entry may not be
/// durable yet.
pub(crate) fn link_or_copy(fs: &dyn Fs, from: &Path, to: &Path, may_link: bool) -> Result<()> {
    if may_link && fs.hard_link(from, to).is_ok() {
        return Ok(());
    }
    let copy = || {
        let (source, mut target) = (fs.open(from)?, fs.create(to)?);
        let (mut buffer, mut at) = (vec![0; 1 << 16], 0);
        loop {
            let read = source.read_at(&mut buffer, at)?;
            if read == 0 {
                return target.sync();
            }
            target.write(&buffer[..read])?;
            at += read as u64;
        }
    };
    copy().map_err(Error::file("copy", from))
}
