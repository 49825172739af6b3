//! Adds a backup to a folder of backups.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::admin::backup::listing::{FileSum, Listing};
use crate::admin::backup::{Backup, Backups, MARKER, MARKER_CONTENTS, now, number_of};
use crate::admin::checkpoint;
use crate::admin::findings::Progress;
use crate::base::{Error, Result};
use crate::engine::checkpoint::{CopySource, cannot_link, copy_file, read_pieces};
use crate::engine::open::directory::{self, create_dir};
use crate::engine::options::Options;
use crate::format::name::{FileName, LOCK};
use crate::fs::{Fs, absolute, replace_file};

/// Adds a backup of the database in the directory `dir` to the folder `folder`. The folder may be
/// empty, and is created if it is missing. For an open database, use
/// [`Db::backup`](crate::Db::backup).
///
/// Locks the database, but does not change it. Calls `tell` to report progress.
///
/// # Errors
/// The errors of [`Db::backup`](crate::Db::backup); [`Error::Locked`] if the database is open;
/// [`Error::DatabaseMissing`]; corruption that would also prevent the database from being opened.
pub fn backup(
    dir: impl AsRef<Path>,
    folder: impl AsRef<Path>,
    options: &Options,
    mut tell: impl FnMut(Progress),
) -> Result<Backup> {
    let dir = &absolute(&*options.fs, dir.as_ref())?;
    take(checkpoint::source(dir, options)?, folder.as_ref(), options, &mut tell)
}

/// Adds a backup of `source` to `folder`.
///
/// # Errors
/// The errors of [`Db::backup`](crate::Db::backup).
pub(crate) fn take(
    source: CopySource<'_>,
    folder: &Path,
    options: &Options,
    tell: &mut dyn FnMut(Progress),
) -> Result<Backup> {
    let fs = &*options.fs;
    let backups = Backups { options: options.clone(), dir: absolute(fs, folder)? };
    backups.check_folder()?;
    create_dir(fs, &backups.dir)?;
    let _lock = directory::lock(fs, &backups.dir, options.allow_no_lock)?;
    backups.mark()?;
    let number = backups.make_room()?;
    let bytes = source.files.edit.new_files.iter().map(|file| file.file_bytes);
    let mut taking = Taking {
        fs,
        before: backups.latest()?,
        dir: backups.backup_dir(number),
        sums: BTreeMap::new(),
        copied_bytes: 0,
        progress: Progress { done_bytes: 0, total_bytes: bytes.fold(0, u64::saturating_add) },
        tell,
    };
    source.write_copy(&backups.backup_dir(number), &mut |from, to, bytes| {
        taking.place(from, to, bytes)
    })?;
    let listing = taking.finish()?;
    backups.write(&format!("{number:06}.backup"), listing.encode().as_bytes())?;
    Ok(Backup::new(number, &listing))
}

impl Backups {
    /// Checks that the folder is a folder of backups or is empty, or that it does not exist.
    fn check_folder(&self) -> Result<()> {
        let fs = &self.options.fs;
        let is_there = fs.exists(&self.dir).map_err(|e| Error::io("look for", &self.dir, e))?;
        // A backup that was interrupted at its very beginning leaves at most LOCK and the marker's
        // temporary file.
        let temp = format!("{MARKER}.tmp");
        let is_ours = |name: &String| name == LOCK || *name == temp;
        if !is_there || self.is_marked()? || self.names()?.iter().all(is_ours) {
            return Ok(());
        }
        let dir = self.dir.display();
        Err(Error::invalid(format!("{dir} is neither empty nor a folder of backups")))
    }

    /// Marks the folder as a folder of backups, unless it is already marked.
    fn mark(&self) -> Result<()> {
        match self.is_marked()? {
            true => Ok(()),
            false => self.write(MARKER, MARKER_CONTENTS),
        }
    }

    /// Writes a file in the folder, atomically and durably.
    fn write(&self, name: &str, contents: &[u8]) -> Result<()> {
        replace_file(&*self.options.fs, &self.dir, &format!("{name}.tmp"), name, contents)
    }

    /// Removes the remains of an interrupted backup. Returns an unused backup number.
    fn make_room(&self) -> Result<u64> {
        let complete = self.numbers()?;
        let names = self.names()?;
        let dirs = names.iter().filter_map(|name| number_of(name)).collect::<Vec<_>>();
        for &number in &dirs {
            if !complete.contains(&number) {
                self.remove_dir(number)?;
            }
        }
        let is_rest =
            |name: &&String| name.strip_suffix(".backup.tmp").and_then(number_of).is_some();
        for rest in names.iter().filter(is_rest).map(|name| self.dir.join(name)) {
            self.options.fs.remove(&rest).map_err(|error| Error::io("remove", &rest, error))?;
        }
        let last = complete.iter().chain(&dirs).max().copied().unwrap_or(0);
        last.checked_add(1).ok_or_else(|| Error::invalid("backup numbers are used up"))
    }

    /// Returns the directory and the listing of the latest backup. If there is no backup or the
    /// listing is damaged, returns an empty listing, so that every file is copied.
    fn latest(&self) -> Result<(PathBuf, Listing)> {
        let none = || (PathBuf::new(), Listing::empty());
        let Some(&number) = self.numbers()?.last() else { return Ok(none()) };
        match self.listing(number) {
            Ok(listing) => Ok((self.backup_dir(number), listing)),
            Err(error) if error.io_kind().is_none() => Ok(none()),
            Err(error) => Err(error),
        }
    }
}

/// A backup being made.
struct Taking<'a> {
    fs: &'a dyn Fs,
    /// The directory and the listing of the previous backup.
    before: (PathBuf, Listing),
    /// Directory of the new backup.
    dir: PathBuf,
    /// Length and checksum of each table that is already in the new backup, by name.
    sums: BTreeMap<String, FileSum>,
    copied_bytes: u64,
    progress: Progress,
    tell: &'a mut dyn FnMut(Progress),
}

impl Taking<'_> {
    /// Adds the table `from`, of `bytes` bytes, to the backup as `to`: as a link if the previous
    /// backup has the same table, otherwise as a copy. Like an open, leaves out what follows the
    /// table's end in its file.
    ///
    /// # Errors
    /// Corruption if the file is shorter than the table; I/O errors.
    fn place(&mut self, from: &Path, to: &Path, bytes: u64) -> Result<()> {
        let file = self.fs.open(from).map_err(|error| Error::io("open", from, error))?;
        let file_bytes = file.len().map_err(|error| Error::io("read", from, error))?;
        if file_bytes < bytes {
            let what = "the table is not as long as the MANIFEST says";
            return Err(Error::mismatch(what, bytes, file_bytes).in_file(from));
        }
        let name = to.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let (dir, listing) = &self.before;
        let same = listing.files.get(&name).filter(|sum| sum.bytes == bytes);
        let linked = match same {
            None => None,
            Some(sum) => {
                let checksum = read_pieces(&*file, bytes, from, &mut |_| Ok(()))?;
                let is_same = checksum == sum.checksum;
                (is_same && self.link(&dir.join(&name), to)?).then_some(checksum)
            }
        };
        let checksum = match linked {
            Some(checksum) => checksum,
            None => {
                self.copied_bytes += bytes;
                copy_file(self.fs, &*file, bytes, to)?
            }
        };
        self.sums.insert(name, FileSum { bytes, checksum });
        self.progress.done_bytes += bytes;
        (self.tell)(self.progress);
        Ok(())
    }

    /// Creates `to` as a link to `from`, a file of the previous backup. Returns `false` if the link
    /// cannot be made.
    fn link(&self, from: &Path, to: &Path) -> Result<bool> {
        match self.fs.hard_link(from, to) {
            Ok(()) => Ok(true),
            Err(error) if cannot_link(error.kind()) || error.kind() == ErrorKind::NotFound => {
                Ok(false)
            }
            Err(error) => Err(Error::io("link", from, error)),
        }
    }

    /// Returns the listing of the backup. All files of the backup must have been written.
    fn finish(mut self) -> Result<Listing> {
        let names = self.fs.list(&self.dir).map_err(|error| Error::io("list", &self.dir, error))?;
        for name in names {
            let is_listed = FileName::parse(&name).is_some() && name != LOCK;
            if is_listed && !self.sums.contains_key(&name) {
                let path = self.dir.join(&name);
                let file = self.fs.open(&path).map_err(|error| Error::io("open", &path, error))?;
                let bytes = file.len().map_err(|error| Error::io("read", &path, error))?;
                let checksum = read_pieces(&*file, bytes, &path, &mut |_| Ok(()))?;
                self.copied_bytes += bytes;
                self.sums.insert(name, FileSum { bytes, checksum });
            }
        }
        Ok(Listing { made: now(), copied_bytes: self.copied_bytes, files: self.sums })
    }
}
