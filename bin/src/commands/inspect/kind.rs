//! Detects the kind of a file from its content, or from its name if the content does not determine
//! the kind.

use std::fs::{File, FileType};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use minikv::Error;
use minikv::files::{BatchRecord, FileName, LogReader, TABLE_MAGIC, VersionEdit, parse_current};
use minikv::fs::{DiskFs, Fs};

use crate::error::{CliError, Result};

/// Maximum length of CURRENT, in bytes. A longer file cannot be a CURRENT.
const MAX_CURRENT_BYTES: u64 = 4096;

/// Maximum number of records or damaged places to read. After these, the file's name determines its
/// kind. A higher number takes longer for damaged files.
const MAX_RECORDS: usize = 16;

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Table,
    Log,
    Manifest,
    Current,
}

impl Kind {
    /// Returns the kind of the file at `path`, or `None` if neither the content nor the name of the
    /// file determines its kind.
    pub fn of(path: &Path) -> Result<Option<Kind>> {
        let failed = |error| CliError::io("read", path, error);
        let refuse_others = |kind: FileType| match (kind.is_file(), kind.is_dir()) {
            (true, _) => Ok(()),
            (_, true) => Err(CliError::io("inspect", path, ErrorKind::IsADirectory.into())),
            _ => {
                let error = std::io::Error::other("is not a regular file");
                Err(CliError::io("inspect", path, error))
            }
        };
        // The type of the file is checked before the file is opened, too, because opening a FIFO
        // would wait for a writer, and Windows opens no directory.
        let before = std::fs::metadata(path).map_err(|error| CliError::io("open", path, error))?;
        refuse_others(before.file_type())?;
        let mut file = File::open(path).map_err(|error| CliError::io("open", path, error))?;
        let metadata = file.metadata().map_err(failed)?;
        refuse_others(metadata.file_type())?;
        if metadata.len() >= 8 {
            let mut magic = [0; 8];
            file.seek(SeekFrom::End(-8)).map_err(failed)?;
            file.read_exact(&mut magic).map_err(failed)?;
            if u64::from_le_bytes(magic) == TABLE_MAGIC {
                return Ok(Some(Kind::Table));
            }
        }
        if metadata.len() <= MAX_CURRENT_BYTES {
            let text = std::fs::read(path).map_err(failed)?;
            if parse_current(&text).is_ok() {
                return Ok(Some(Kind::Current));
            }
        }
        Ok(by_records(path)?.or_else(|| by_name(path)))
    }
}

/// Returns the kind of a file that consists of records. The records of a MANIFEST are version
/// edits, and the records of a log are batches. Returns `None` if no record determines the kind.
fn by_records(path: &Path) -> Result<Option<Kind>> {
    let file = DiskFs.open(path).map_err(|error| CliError::io("open", path, error))?;
    let mut reader = LogReader::new(file, path)?.beside_writer(true);
    for _ in 0..MAX_RECORDS {
        match reader.next() {
            Ok(None) => break,
            Ok(Some(record)) if is_edit(record) => return Ok(Some(Kind::Manifest)),
            Ok(Some(record)) if is_batch(record) => return Ok(Some(Kind::Log)),
            Ok(Some(_)) => {}
            Err(Error::Corruption(_)) => reader.skip_damage(),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

/// Returns whether `record` is a version edit with fields that a batch cannot have.
fn is_edit(record: &[u8]) -> bool {
    VersionEdit::decode(record).is_ok_and(|edit| {
        edit.comparator.is_some_and(|name| !name.is_empty()) || edit.next_file_number.is_some()
    })
}

fn is_batch(record: &[u8]) -> bool {
    BatchRecord::parse(record).is_ok_and(|batch| batch.operations().all(|op| op.is_ok()))
}

fn by_name(path: &Path) -> Option<Kind> {
    let name = path.file_name()?.to_str()?;
    match FileName::parse(name) {
        Some(FileName::Table { .. }) => return Some(Kind::Table),
        Some(FileName::Log(_)) => return Some(Kind::Log),
        Some(FileName::Manifest(_)) => return Some(Kind::Manifest),
        Some(FileName::Current) => return Some(Kind::Current),
        _ => {}
    }
    // The file may be a copy with a name such as `broken.ldb` or `000005.log.bak`.
    match name {
        _ if name.contains(".ldb") || name.contains(".sst") => Some(Kind::Table),
        _ if name.contains(".log") => Some(Kind::Log),
        _ if name.contains("MANIFEST") => Some(Kind::Manifest),
        _ if name.contains("CURRENT") => Some(Kind::Current),
        _ => None,
    }
}
