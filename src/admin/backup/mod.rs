//! A folder of backups: several backups of one database, which share unchanged tables.
//!
//! ```text
//! FOLDER/BACKUPS          marks this as a folder of backups
//! FOLDER/000001/          the first backup: a database of its own, which LevelDB can open
//! FOLDER/000001.backup    its listing
//! FOLDER/000002/ ...
//! ```
//!
//! Tables never change. A backup therefore reads each table of the database, and copies the table
//! only if the latest backup has no table with the same name, length and checksum. Otherwise, it
//! creates a hard link to that table. Both backups then share the file, which exists as long as
//! either backup exists. Logs and the MANIFEST are always copied.
//!
//! # Crashes
//! The listing is written last, after all files of the backup are durable. A directory without a
//! listing belongs to an interrupted backup, and the next backup removes it. A backup is removed in
//! the opposite order: first its listing, then its directory. No step changes a file of another
//! backup.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::admin::backup::listing::{FileSum, Listing};
use crate::admin::findings::Progress;
use crate::base::clock::seconds_of;
use crate::base::error::Corruption;
use crate::base::{Error, Result};
use crate::engine::checkpoint::{Piece, check_empty, copy_file, fill_directory, read_pieces};
use crate::engine::open::directory;
use crate::engine::options::Options;
use crate::format::name::{CURRENT, FileName};
use crate::fs::{EntryKind, Fs, absolute, sync_dir};

mod listing;
pub(crate) mod take;

/// Name of the file that marks a folder of backups.
const MARKER: &str = "BACKUPS";

const MARKER_CONTENTS: &[u8] = b"minikv backups 1\n";

/// Maximum size of a listing, in bytes: enough for five million files. With a higher limit, a
/// damaged folder could take more memory.
const MAX_LISTING_BYTES: u64 = 256 << 20;

/// A folder of backups of one database. Each backup adds only the files that changed since the
/// previous backup. [`Db::backup`](crate::Db::backup) and [`backup`](crate::backup()) add backups
/// to the folder.
///
/// Each backup is a directory with a complete database. Do not open the database there:
/// [`Backups::restore`] makes a copy that can be opened. Backups share tables by hard links, so the
/// folder must stay on one filesystem, and a tool that copies it must preserve hard links.
#[derive(Debug)]
pub struct Backups {
    options: Options,
    dir: PathBuf,
}

/// A backup in a folder of backups.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Backup {
    /// Number of the backup. Later backups have higher numbers.
    pub number: u64,
    /// Time at which the backup was completed, in whole seconds.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::base::serialize::seconds"))]
    pub made: SystemTime,
    /// Number of files in the backup.
    pub files: usize,
    /// Total length of the files, in bytes. A restore takes this much space.
    pub file_bytes: u64,
    /// Total length, in bytes, of the files that were copied rather than linked to the previous
    /// backup.
    pub copied_bytes: u64,
}

impl Backup {
    fn new(number: u64, listing: &Listing) -> Backup {
        Backup {
            number,
            made: listing.made,
            files: listing.files.len(),
            file_bytes: listing.file_bytes(),
            copied_bytes: listing.copied_bytes,
        }
    }
}

impl Backups {
    /// Opens the folder of backups `dir`, on the filesystem in `options`. Changes nothing.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if `dir` is not a folder of backups; I/O errors.
    pub fn open(dir: impl AsRef<Path>, options: &Options) -> Result<Backups> {
        let dir = absolute(&*options.fs, dir.as_ref())?;
        let backups = Backups { options: options.clone(), dir };
        match backups.is_marked()? {
            true => Ok(backups),
            false => {
                let dir = backups.dir.display();
                Err(Error::invalid(format!("{dir} is not a folder of backups: no file {MARKER}")))
            }
        }
    }

    /// Returns the complete backups, oldest first.
    ///
    /// # Errors
    /// Corruption, if a listing is damaged; I/O errors.
    pub fn list(&self) -> Result<Vec<Backup>> {
        let numbers = self.numbers()?.into_iter();
        numbers.map(|number| Ok(Backup::new(number, &self.listing(number)?))).collect()
    }

    /// Reads all files of all backups and compares them with the listings. Returns the files that
    /// are damaged or missing. Calls `tell` to report progress.
    ///
    /// # Errors
    /// I/O errors, except for missing files.
    pub fn verify(&self, mut tell: impl FnMut(Progress)) -> Result<Vec<Corruption>> {
        let mut faults = Vec::new();
        let mut listings = Vec::new();
        for number in self.numbers()? {
            match self.listing(number) {
                Ok(listing) => listings.push((number, listing)),
                Err(error) => note(&mut faults, error)?,
            }
        }
        let bytes = listings.iter().map(|(_, listing)| listing.file_bytes());
        let total_bytes = bytes.fold(0, u64::saturating_add);
        let mut done_bytes = 0;
        for (number, listing) in &listings {
            for (name, sum) in &listing.files {
                let path = self.backup_dir(*number).join(name);
                match self.check_file(&path, *sum, None) {
                    Ok(()) => {}
                    Err(error) => note(&mut faults, error.in_file(&path))?,
                }
                // The length that a listing states for a missing file can be any number, so the sum
                // may overflow.
                done_bytes = sum.bytes.saturating_add(done_bytes);
                tell(Progress { done_bytes, total_bytes });
            }
        }
        Ok(faults)
    }

    /// Copies backup `number` to the directory `dest`, which must be empty or missing, and checks
    /// every file. If `number` is `None`, copies the latest backup. Calls `tell` to report
    /// progress.
    ///
    /// # Errors
    /// [`Error::DatabaseExists`] or [`Error::InvalidArgument`] if `dest` is not empty;
    /// [`Error::InvalidArgument`] if there is no such backup; [`Error::Corruption`] if a file is
    /// damaged or missing; I/O errors. After an error, no copy is left.
    pub fn restore(
        &self,
        number: Option<u64>,
        dest: impl AsRef<Path>,
        mut tell: impl FnMut(Progress),
    ) -> Result<Backup> {
        let fs = &*self.options.fs;
        let numbers = self.numbers()?;
        let found =
            numbers.iter().rev().find(|found| number.is_none_or(|number| number == **found));
        let Some(&number) = found else {
            let which =
                number.map_or("no backup".to_owned(), |number| format!("no backup {number}"));
            return Err(Error::invalid(format!("there is {which} in {}", self.dir.display())));
        };
        let listing = self.listing(number)?;
        let dest = &absolute(fs, dest.as_ref())?;
        check_empty(fs, dest)?;
        fill_directory(fs, dest, self.options.allow_no_lock, |made| {
            self.copy_files(number, &listing, dest, made, &mut tell)
        })?;
        Ok(Backup::new(number, &listing))
    }

    /// Copies the files of a listing to `dest`, with `CURRENT` last. Adds the paths of the copies
    /// to `made`.
    fn copy_files(
        &self,
        number: u64,
        listing: &Listing,
        dest: &Path,
        made: &mut Vec<PathBuf>,
        tell: &mut dyn FnMut(Progress),
    ) -> Result<()> {
        let fs = &*self.options.fs;
        let from = self.backup_dir(number);
        let mut progress = Progress { done_bytes: 0, total_bytes: listing.file_bytes() };
        let (current, others): (Vec<_>, Vec<_>) =
            listing.files.iter().partition(|(name, _)| *name == CURRENT);
        if current.is_empty() {
            let error = Error::corruption("the listing of a backup has no CURRENT");
            return Err(error.in_file(&self.listing_path(number)));
        }
        let mut copy = |name: &str, sum| {
            made.push(dest.join(name));
            self.check_file(&from.join(name), sum, Some(&dest.join(name)))
        };
        for (name, sum) in others {
            copy(name, *sum)?;
            progress.done_bytes += sum.bytes;
            tell(progress);
        }
        sync_dir(fs, dest)?;
        for (name, sum) in current {
            copy(name, *sum)?;
        }
        sync_dir(fs, dest)
    }

    /// Checks a file's length and checksum. Also copies the file to `dest`, if `dest` is given.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the file is missing or differs from `sum`; I/O errors.
    fn check_file(&self, path: &Path, sum: FileSum, dest: Option<&Path>) -> Result<()> {
        let fs = &*self.options.fs;
        let file = match fs.open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::corruption("a file of a backup is missing").in_file(path));
            }
            Err(error) => return Err(Error::io("open", path, error)),
        };
        let bytes = file.len().map_err(|error| Error::io("read", path, error))?;
        if bytes != sum.bytes {
            let error = Error::mismatch("length of a file of a backup", sum.bytes, bytes);
            return Err(error.in_file(path));
        }
        let checksum = match dest {
            Some(dest) => copy_file(fs, &*file, bytes, dest)?,
            None => read_pieces(&*file, bytes, path, &mut |_| Ok(()))?,
        };
        match checksum == sum.checksum {
            true => Ok(()),
            false => {
                let [expected, found] = [sum.checksum, checksum].map(|sum| format!("{sum:08x}"));
                let error = Error::mismatch("checksum of a file of a backup", expected, found);
                Err(error.in_file(path))
            }
        }
    }

    /// Removes all backups except the latest `n`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if `n` is 0; [`Error::Locked`] while a backup is being made;
    /// I/O errors.
    pub fn keep(&self, n: usize) -> Result<()> {
        if n == 0 {
            return Err(Error::invalid("at least one backup must be kept"));
        }
        let _lock = directory::lock(&*self.options.fs, &self.dir, self.options.allow_no_lock)?;
        let numbers = self.numbers()?;
        let removed = numbers.len().saturating_sub(n);
        for &number in &numbers[..removed] {
            let listing = self.listing_path(number);
            let fs = &self.options.fs;
            fs.remove(&listing).map_err(|error| Error::io("remove", &listing, error))?;
            sync_dir(&**fs, &self.dir)?;
            self.remove_dir(number)?;
        }
        Ok(())
    }

    /// Removes the directory of a backup whose listing does not exist. If something in it was not
    /// made by a backup, the directory stays with that.
    fn remove_dir(&self, number: u64) -> Result<()> {
        let fs = &self.options.fs;
        let dir = self.backup_dir(number);
        let look_for = |error| Error::io("look for", &dir, error);
        // A link or a file with the name of the directory was not created by a backup, so it stays.
        if !fs.exists(&dir).map_err(look_for)? || !fs.is_real_dir(&dir).map_err(look_for)? {
            return Ok(());
        }
        let mut has_others = false;
        for (name, kind) in fs.entries(&dir).map_err(|error| Error::io("list", &dir, error))? {
            if FileName::parse(&name).is_none() || kind == EntryKind::Directory {
                has_others = true;
                continue;
            }
            let path = dir.join(name);
            fs.remove(&path).map_err(|error| Error::io("remove", &path, error))?;
        }
        match has_others {
            true => Ok(()),
            false => fs.remove_dir(&dir).map_err(|error| Error::io("remove", &dir, error)),
        }
    }

    /// Returns the numbers of the backups that have a listing, in ascending order.
    fn numbers(&self) -> Result<Vec<u64>> {
        let names = self.names()?;
        let listings = names.iter().filter_map(|name| number_of(name.strip_suffix(".backup")?));
        let mut numbers = listings.collect::<Vec<_>>();
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn names(&self) -> Result<Vec<String>> {
        self.options.fs.list(&self.dir).map_err(|error| Error::io("list", &self.dir, error))
    }

    fn is_marked(&self) -> Result<bool> {
        let fs = &self.options.fs;
        if !fs.exists(&self.dir).map_err(|error| Error::io("look for", &self.dir, error))? {
            return Ok(false);
        }
        Ok(self.names()?.iter().any(|name| name == MARKER))
    }

    fn listing(&self, number: u64) -> Result<Listing> {
        let path = self.listing_path(number);
        let contents = read_file(&*self.options.fs, &path)?;
        Listing::decode(&contents).map_err(|error| error.in_file(&path))
    }

    fn listing_path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{number:06}.backup"))
    }

    fn backup_dir(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{number:06}"))
    }
}

/// Returns the number of a backup from the name of its directory.
fn number_of(name: &str) -> Option<u64> {
    let number = name.parse().ok()?;
    // Another spelling of the same number, such as `1`, is not the name of a backup.
    (format!("{number:06}") == name).then_some(number)
}

/// Adds `error` to `faults` if it is a corruption.
///
/// # Errors
/// Any other error.
fn note(faults: &mut Vec<Corruption>, error: Error) -> Result<()> {
    match error {
        Error::Corruption(fault) => {
            faults.push(*fault);
            Ok(())
        }
        error => Err(error),
    }
}

fn read_file(fs: &dyn Fs, path: &Path) -> Result<Vec<u8>> {
    let file = fs.open(path).map_err(|error| Error::io("open", path, error))?;
    let bytes = file.len().map_err(|error| Error::io("read", path, error))?;
    if bytes > MAX_LISTING_BYTES {
        return Err(Error::corruption("the listing of a backup is too long").in_file(path));
    }
    let mut contents = Vec::new();
    read_pieces(&*file, bytes, path, &mut |piece| {
        match piece {
            Piece::Bytes(bytes) => contents.extend_from_slice(bytes),
            Piece::Hole(bytes) => contents.resize(contents.len() + bytes as usize, 0),
        }
        Ok(())
    })?;
    Ok(contents)
}

/// Returns the current time, in whole seconds.
fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds_of(SystemTime::now()))
}
