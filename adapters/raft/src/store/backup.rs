//! Backups: the database of a snapshot, and the file `BACKUP`, which lists the other files with
//! their lengths and checksums. `BACKUP` is written last, after everything else was checked.
//!
//! ```text
//! {"format":1,"index":30,"files":[{"name":"000005.ldb","bytes":123,"crc32c":2919185152},...]}
//! crc32c 9a71bb4c
//! ```

use std::path::Path;

use minikv::fs::Fs;
use openraft::LogId;
use serde::{Deserialize, Serialize};

use crate::store::error::{Error, Result};
use crate::store::home::StoreOptions;
use crate::store::snapshot::SnapshotFile;
use crate::store::{damage, files};

const LISTING: &str = "BACKUP";
const FORMAT: u32 = 1;
const LISTING_LIMIT_BYTES: u64 = 256 << 20;

/// The source of a new cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin<'a> {
    /// A backup. All of its files must have the lengths and checksums of its listing.
    Backup(&'a Path),
    /// A database without a listing: `snapshots/ID/db` or `state-N` of a stopped node. Only what
    /// the database itself says of its files is checked, so a log that was cut off may go
    /// unnoticed.
    Database(&'a Path),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BackupListing {
    format: u32,
    /// The index of the last log entry in the backup.
    index: u64,
    files: Vec<ListedFile>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListedFile {
    name: String,
    bytes: u64,
    crc32c: u32,
}

impl Origin<'_> {
    pub(crate) fn dir(&self) -> &Path {
        match self {
            Origin::Backup(dir) | Origin::Database(dir) => dir,
        }
    }

    /// Checks every byte, and returns the id of the last log entry in the database.
    pub(crate) fn check(&self, options: &StoreOptions) -> Result<LogId<u64>> {
        let fs = &*options.fs;
        let index = match self {
            Origin::Backup(dir) => Some(check_listed(fs, dir)?),
            Origin::Database(_) => None,
        };
        let last = check_database(self.dir(), options)?;
        match index.is_none_or(|index| index == last.index) {
            true => Ok(last),
            false => Err(damaged(self.dir(), format!("the data ends at entry {}", last.index))),
        }
    }
}

fn damaged(path: &Path, what: impl std::fmt::Display) -> Error {
    Error::Backup { what: format!("{}: {what}", path.display()) }
}

/// Checks a copy of a database that should end at the log entry `index`, and writes its listing.
/// The directory itself is not synced.
pub(crate) fn seal(dir: &Path, index: u64, options: &StoreOptions) -> Result<()> {
    let fs = &*options.fs;
    let last = check_database(dir, options)?;
    if last.index != index {
        let what = format!("the data ends at entry {} instead of {index}", last.index);
        return Err(damaged(dir, what));
    }
    let mut listed = Vec::new();
    for name in database_files(fs, dir)? {
        let (bytes, crc32c) = sum(fs, &dir.join(&name))?;
        listed.push(ListedFile { name, bytes, crc32c });
    }
    let listing = BackupListing { format: FORMAT, index, files: listed };
    let content = serde_json::to_vec(&listing).map_err(|e| damaged(dir, e))?;
    files::write(fs, &dir.join(LISTING), &files::with_sum(content))
}

/// Compares the files in `dir` with the listing. Returns the index of the last entry of the backup.
fn check_listed(fs: &dyn Fs, dir: &Path) -> Result<u64> {
    let path = dir.join(LISTING);
    if !fs.exists(&path).map_err(Error::file("query", &path))? {
        return Err(damaged(&path, "missing: not a backup, or an incomplete one"));
    }
    let (content, is_summed) = files::read_summed(fs, &path, LISTING_LIMIT_BYTES)?;
    let listing: BackupListing = serde_json::from_slice(&content).map_err(|e| damaged(&path, e))?;
    if !is_summed || listing.format != FORMAT {
        let what = format!("the format is {}, or the end is missing", listing.format);
        return Err(damaged(&path, what));
    }
    for ListedFile { name, bytes, crc32c } in &listing.files {
        let path = dir.join(name);
        if !(SnapshotFile { name: name.clone(), bytes: *bytes }).has_good_name() {
            return Err(damaged(dir, format!("`{LISTING}` lists the file `{name}`")));
        }
        if !fs.exists(&path).map_err(Error::file("query", &path))? {
            return Err(damaged(&path, "missing"));
        }
        let (found, found_crc32c) = sum(fs, &path)?;
        if found != *bytes {
            return Err(damaged(&path, format!("{found} bytes instead of {bytes}")));
        }
        if found_crc32c != *crc32c {
            let what = format!("the checksum is {found_crc32c:08x} instead of {crc32c:08x}");
            return Err(damaged(&path, what));
        }
    }
    let is_listed = |name: &String| listing.files.iter().any(|file| file.name == *name);
    match database_files(fs, dir)?.iter().find(|name| !is_listed(name)) {
        None => Ok(listing.index),
        Some(name) => Err(damaged(&dir.join(name), "not in the listing: the backup was changed")),
    }
}

/// Reads the whole database, and returns the id of the last log entry in its state.
fn check_database(dir: &Path, options: &StoreOptions) -> Result<LogId<u64>> {
    let database = options.database.clone().fs(options.fs.clone());
    let report = minikv::verify(dir, &database)?;
    if let Some(fault) = report.faults.first() {
        return Err(Error::Backup { what: fault.to_string() });
    }
    let last = match damage::last_applied(dir, &database) {
        Err(Error::Damaged { what }) => return Err(Error::Backup { what }),
        last => last?,
    };
    let never = || damaged(dir, "no entry of a log was applied to this database");
    last.ok_or_else(never)
}

/// Returns the names of the files in `dir` that are part of a database, in order.
fn database_files(fs: &dyn Fs, dir: &Path) -> Result<Vec<String>> {
    let mut names = files::list(fs, dir)?;
    names.retain(|name| SnapshotFile { name: name.clone(), bytes: 0 }.has_good_name());
    names.sort_unstable();
    Ok(names)
}

/// Returns the length and the checksum of a file.
fn sum(fs: &dyn Fs, path: &Path) -> Result<(u64, u32)> {
    let sum = || {
        let file = fs.open(path)?;
        let (mut buffer, mut at, mut crc) = (vec![0; 1 << 16], 0, 0);
        loop {
            let read = file.read_at(&mut buffer, at)?;
            if read == 0 {
                return Ok((at, crc));
            }
            crc = crc32c::crc32c_append(crc, &buffer[..read]);
            at += read as u64;
        }
    };
    sum().map_err(Error::file("read", path))
}
