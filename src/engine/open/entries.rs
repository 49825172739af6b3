//! The decision which entries of a directory are files of a database. Everything that lists such a
//! directory does so here, so that all of it takes the same files for the database's.
//!
//! - A regular file whose name is the one that would be written for its number is a file of the
//!   database.
//! - A directory is none, whatever its name; but its number is not given to a new file, and one in
//!   place of a live log is refused, because it may stand for data.
//! - A link or a special file with the name of a numbered file is refused, because it may stand for
//!   data: LevelDB replays a log through a link.
//! - A file that only RocksDB or Pebble makes is refused: the directory is not LevelDB's.
//! - Anything else is left alone.

use std::io;
use std::path::Path;

use crate::base::{Error, Feature, Result};
use crate::format::name::{FileName, parse_number};
use crate::fs::{EntryKind, Fs};

/// Number of bytes to read of a file that may tell which engine made it.
const HEAD_BYTES: usize = 512;

/// The entries of a directory that have names of a database's files.
#[derive(Debug, Default)]
pub(crate) struct DirListing {
    /// The files of the database.
    pub files: Vec<(String, FileName)>,
    /// Directories whose names look like those of files.
    pub directories: Vec<(String, FileName)>,
}

/// Returns the names of the files in `dir` that belong to a database, with their parsed form.
/// Directories, and files with names that a database does not use, are left out.
///
/// # Errors
/// [`Error::Unsupported`] if a file shows that the directory belongs to RocksDB or Pebble. An I/O
/// error, which also reports a link or a special file in place of a database's file.
pub fn list_files(fs: &dyn Fs, dir: &Path) -> Result<Vec<(String, FileName)>> {
    Ok(entries(fs, dir)?.files)
}

/// Returns the entries of `dir` that have names of a database's files.
///
/// # Errors
/// As [`list_files`].
pub(crate) fn entries(fs: &dyn Fs, dir: &Path) -> Result<DirListing> {
    let mut found = DirListing::default();
    let entries = fs.entries(dir).map_err(|error| Error::io("list", dir, error))?;
    for (name, kind) in entries {
        let parsed = FileName::parse(&name);
        match (parsed, kind) {
            (Some(parsed), EntryKind::File) => found.files.push((name, parsed)),
            (Some(parsed), EntryKind::Directory) => found.directories.push((name, parsed)),
            // CURRENT and LOCK are checked when they are opened, and LOG never is.
            (Some(parsed), _) if parsed.number().is_some() => {
                return Err(refused(dir, &name, kind));
            }
            (None, EntryKind::File) => refuse_foreign(fs, dir, &name)?,
            _ => {}
        }
    }
    Ok(found)
}

/// Returns the error for an entry `name` of `dir` that stands in place of a file.
pub(crate) fn refused(dir: &Path, name: &str, kind: EntryKind) -> Error {
    let what = match kind {
        EntryKind::Directory => "is a directory, not a regular file: move it away",
        EntryKind::Link => "is a symbolic link, not a regular file: move it away",
        _ => "is not a regular file: move it away",
    };
    Error::io("use", dir.join(name), io::Error::new(io::ErrorKind::InvalidInput, what))
}

/// Returns an error if the file `name` shows that `dir` is the directory of another engine.
///
/// The names are chosen so that none is in a directory of LevelDB: it never numbers a file
/// `OPTIONS`, and an `IDENTITY` of another program is hardly a UUID.
fn refuse_foreign(fs: &dyn Fs, dir: &Path, name: &str) -> Result<()> {
    let is_options = || name.strip_prefix("OPTIONS-").and_then(parse_number).is_some();
    let engine = match name {
        _ if name.starts_with("marker.manifest.") => "Pebble",
        _ if name.starts_with("marker.format-version.") => "Pebble",
        _ if is_options() => writer_of(&head(fs, &dir.join(name))),
        "IDENTITY" if is_uuid(&head(fs, &dir.join(name))) => "RocksDB",
        _ => return Ok(()),
    };
    let name = format!("of {engine}, which wrote {name},");
    Err(Error::unsupported(Feature::Database, name).in_file(dir))
}

/// Returns the engine that wrote these contents of a file `OPTIONS`.
fn writer_of(options: &[u8]) -> &'static str {
    let has = |key: &[u8]| options.windows(key.len()).any(|bytes| bytes == key);
    match (has(b"pebble_version"), has(b"rocksdb_version")) {
        (true, _) => "Pebble",
        (false, true) => "RocksDB",
        (false, false) => "RocksDB or Pebble",
    }
}

fn is_uuid(contents: &[u8]) -> bool {
    let text = contents.trim_ascii_end();
    let is_at = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.iter().enumerate().all(is_at)
}

/// Returns the first bytes of a file, or no bytes if it cannot be read.
fn head(fs: &dyn Fs, path: &Path) -> Vec<u8> {
    let mut head = vec![0; HEAD_BYTES];
    let read = fs.open(path).and_then(|file| file.read_at(&mut head, 0));
    head.truncate(read.unwrap_or(0));
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::MemFs;

    fn listed(files: &[(&str, &str)]) -> Result<Vec<String>> {
        let (fs, dir) = (MemFs::new(), Path::new("/db"));
        fs.create_dir(&dir.join("000099.log")).unwrap();
        fs.create_dir(&dir.join("OPTIONS-000007")).unwrap();
        for (name, contents) in files {
            fs.create(&dir.join(name)).unwrap().write(contents.as_bytes()).unwrap();
        }
        let mut names: Vec<_> = list_files(&fs, dir)?.into_iter().map(|(name, _)| name).collect();
        names.sort();
        Ok(names)
    }

    #[test]
    fn only_files_with_the_names_that_are_written_are_listed() {
        let files = ["000005.ldb", "1000000.log", "CURRENT", "LOG", "MANIFEST-000002"];
        let others = ["99.log", "MANIFEST-2", "7.ldb", "CURRENT.bak", "notes", "0000008.log"];
        let all: Vec<_> = files.iter().chain(&others).map(|name| (*name, "")).collect();
        assert_eq!(listed(&all).unwrap(), files);
    }

    #[test]
    fn directories_of_rocksdb_and_pebble_are_told_by_their_files() {
        const UUID: &str = "0f8fad5b-d9cb-469f-a165-70867728950e\n";
        for (name, contents, engine) in [
            ("marker.manifest.000001.MANIFEST-000001", "", "Pebble"),
            ("marker.format-version.000001.013", "", "Pebble"),
            ("OPTIONS-000003", "[Version]\n  pebble_version=0.1\n", "Pebble"),
            ("OPTIONS-000003", "# comment\n[Version]\n  rocksdb_version=9.1.0\n", "RocksDB"),
            ("OPTIONS-000003", "", "RocksDB or Pebble"),
            ("IDENTITY", UUID, "RocksDB"),
        ] {
            let error = listed(&[("CURRENT", "MANIFEST-000001\n"), (name, contents)]).unwrap_err();
            assert!(matches!(error, Error::Unsupported { what: Feature::Database, .. }), "{error}");
            let text = error.to_string();
            assert!(text.contains(&format!("of {engine}, which wrote {name}")), "{text}");
        }
        let harmless = [("IDENTITY", "me"), ("OPTIONS", "x"), ("OPTIONS-1", ""), ("marker", "")];
        assert_eq!(listed(&harmless).unwrap(), [""; 0]);
    }
}
