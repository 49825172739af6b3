//! A checkpoint: a copy of a database as it is at one moment, in a directory of its own.
//!
//! 1. With the commit and manifest locks held, so that nothing changes, the version is taken, and
//!    the live logs are opened and their lengths noted ([`LiveFiles`]). Then the locks are
//!    released.
//! 2. Each table is linked into the new directory; tables never change, so a second name is as good
//!    as a copy. Where the filesystem cannot link, the bytes are copied.
//! 3. The logs may have grown since step 1; each one is copied only up to its noted length.
//! 4. A new MANIFEST records the version. `CURRENT`, which names the MANIFEST, is written last,
//!    after all other files are durable: a crash before `CURRENT` is written leaves an incomplete
//!    copy, which cannot be opened.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::{Error, Result};
use crate::engine::Engine;
use crate::engine::open::directory::{self, create_dir};
use crate::engine::version::manifest::{set_current, write_manifest};
use crate::format::edit::{NewFile, VersionEdit};
use crate::format::{crc, name};
use crate::fs::{Fs, ReadFile, absolute, sync_dir};

/// Size of the copy buffer, in bytes. A larger buffer takes more memory and saves system calls.
const COPY_BYTES: u64 = 1 << 20;

/// Number of zeros, in bytes, that may be the beginning of a hole, and the size of the first read
/// after a hole.
const PAGE_BYTES: usize = 4096;

/// A database to copy from.
pub(crate) struct CopySource<'a> {
    /// The filesystem of both the database and the copy.
    pub fs: &'a dyn Fs,
    /// The directory of the database, as an absolute path.
    pub dir: &'a Path,
    /// Whether the copy may be made on a filesystem that has no locks.
    pub allow_no_lock: bool,
    /// The files to copy.
    pub files: LiveFiles,
    /// Fails if `dir` now holds another database. The closure may own the objects that keep the
    /// tables from being removed.
    pub check_dir: Box<dyn Fn() -> Result<()> + 'a>,
}

/// The files of a database at one moment. The logs stay readable until this value is dropped.
#[derive(Debug)]
pub(crate) struct LiveFiles {
    /// An edit that contains the whole version and its numbers, except the next file number.
    pub edit: VersionEdit,
    /// The live logs, in ascending order of their numbers.
    pub logs: Vec<OpenLog>,
    /// File number greater than the number of every file of the database.
    pub next_file_number: u64,
}

/// A log, and the length that it had when the [`LiveFiles`] were listed.
#[derive(Debug)]
pub(crate) struct OpenLog {
    /// File number of the log.
    pub number: u64,
    /// The open file, whose name may have been removed since the [`LiveFiles`] were listed.
    pub file: Arc<dyn ReadFile>,
    /// Number of bytes to copy: the length that the log had when the [`LiveFiles`] were listed.
    /// Records added later are left out.
    pub bytes: u64,
}

impl OpenLog {
    /// Opens a log of which the first `bytes` bytes will be copied; `None` means the present length
    /// of the log.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn open(
        fs: &dyn Fs,
        dir: &Path,
        number: u64,
        bytes: Option<u64>,
    ) -> Result<OpenLog> {
        let path = dir.join(name::log_name(number));
        let file = fs.open(&path).map_err(|error| Error::io("open", &path, error))?;
        let bytes = match bytes {
            Some(bytes) => bytes,
            None => bytes_before_hole(&*file).map_err(|error| Error::io("read", &path, error))?,
        };
        Ok(OpenLog { number, file, bytes })
    }
}

/// Returns the length of a file without the hole at its end, if it has one. Such a hole can be of
/// any size, and a copy would write it out.
fn bytes_before_hole(file: &dyn ReadFile) -> std::io::Result<u64> {
    let bytes = file.len()?;
    let (mut start, mut end) = (0, bytes);
    while start < end {
        let middle = start + (end - start) / 2;
        match file.skip_hole(middle)? {
            Some(data) if data < bytes => start = middle + 1,
            _ => end = middle,
        }
    }
    Ok(start)
}

impl Engine {
    /// Copies the database as it is now to the directory `dest`.
    ///
    /// # Errors
    /// [`Error::DatabaseExists`] or [`Error::InvalidArgument`] if `dest` is not empty;
    /// [`Error::Locked`] while another checkpoint is being made in `dest`; I/O errors, after which
    /// the incomplete copy is removed.
    pub(crate) fn checkpoint(&self, dest: &Path) -> Result<()> {
        let fs = &*self.fs;
        let dest = &absolute(fs, dest)?;
        check_empty(fs, dest)?;
        self.source()?.write_copy(dest, &mut |from, to, _| link_or_copy(fs, from, to))
    }

    /// Returns a source for a copy of the database as it is now.
    ///
    /// # Errors
    /// I/O errors while the logs are opened.
    pub(crate) fn source(&self) -> Result<CopySource<'_>> {
        self.check_caller()?;
        // While both locks are held, nothing is written and no new version is installed.
        let commit = self.commit.lock();
        let manifest = self.manifest.lock();
        // Holding the version keeps its tables from being removed.
        let version = manifest.current().clone();
        let mut edit = version.to_edit();
        edit.comparator = Some(self.reads.order.user().get().name().to_owned());
        edit.log_number = Some(manifest.log_number());
        edit.last_seq = Some(manifest.last_seq());
        let mut on_disk = {
            let state = self.state.lock();
            self.assert_in_step(&manifest, &state);
            state.logs.on_disk.clone()
        };
        // The file of the current log may be longer than its records: it may end in zeros that were
        // allocated ahead of time, or in part of a write that failed.
        on_disk.insert(commit.log_number, Some(commit.log.len()));
        let mut logs = Vec::new();
        for (&number, &bytes) in on_disk.range(manifest.log_number()..) {
            // The spare log is empty, and its file may not exist yet.
            if bytes != Some(0) {
                logs.push(OpenLog::open(&*self.fs, &self.dir, number, bytes)?);
            }
        }
        drop(manifest);
        drop(commit);
        let next_file_number = self.numbers.next();
        debug_assert!(
            logs.iter().all(|log| log.number < next_file_number),
            "a log has an unused number"
        );
        debug_assert!(logs.is_sorted_by_key(|log| log.number), "logs are replayed in order");
        let check_dir = move || {
            let _tables = &version;
            self.trash.check_directory()
        };
        Ok(CopySource {
            fs: &*self.fs,
            dir: &self.dir,
            allow_no_lock: self.options.allow_no_lock,
            files: LiveFiles { edit, logs, next_file_number },
            check_dir: Box::new(check_dir),
        })
    }
}

/// Checks that `dest` is an empty directory or does not exist.
///
/// # Errors
/// [`Error::DatabaseExists`], [`Error::InvalidArgument`], and I/O errors.
pub(crate) fn check_empty(fs: &dyn Fs, dest: &Path) -> Result<()> {
    match fs.exists(dest).map_err(|error| Error::io("look for", dest, error))? {
        true => check_contents(fs, dest, &[]),
        false => Ok(()),
    }
}

/// Checks that the directory `dest` has no files except `ours`.
fn check_contents(fs: &dyn Fs, dest: &Path, ours: &[&str]) -> Result<()> {
    let names = fs.list(dest).map_err(|error| Error::io("list", dest, error))?;
    if names.iter().any(|name| name == name::CURRENT) {
        return Err(Error::DatabaseExists { path: dest.to_path_buf() });
    }
    match names.iter().all(|name| ours.contains(&name.as_str())) {
        true => Ok(()),
        false => Err(Error::invalid(format!("{} is not empty", dest.display()))),
    }
}

impl CopySource<'_> {
    /// Makes a copy of the database in the directory `dest`, which must be empty or not exist.
    /// `dest` is locked during the copy, so that no other database can be made there. `place` links
    /// or copies a table into `dest`.
    ///
    /// # Errors
    /// Errors of [`Engine::checkpoint`] and of `place`.
    pub(crate) fn write_copy(self, dest: &Path, place: PlaceTable<'_>) -> Result<()> {
        let CopySource { fs, dir, allow_no_lock, files, check_dir } = self;
        fill_directory(fs, dest, allow_no_lock, |made| {
            Copy { fs, dir, dest, place, made }.write(files, &*check_dir)
        })
    }
}

/// Fills the directory `dest`, which must be empty or not exist, with a database. `dest` is locked
/// until the database is complete, so that no other database can be made there. `fill` adds the
/// path of each file to the list before it makes the file. If `fill` fails, the files on the list
/// are removed, the last one first. Files that cannot be removed stay.
///
/// # Errors
/// [`Error::DatabaseExists`] or [`Error::InvalidArgument`] if `dest` is not empty;
/// [`Error::Locked`] while another database is being made in `dest`; I/O errors, and errors of
/// `fill`.
pub(crate) fn fill_directory(
    fs: &dyn Fs,
    dest: &Path,
    allow_no_lock: bool,
    fill: impl FnOnce(&mut Vec<PathBuf>) -> Result<()>,
) -> Result<()> {
    let was_there = fs.exists(dest).map_err(|error| Error::io("look for", dest, error))?;
    let mut made = Vec::new();
    let mut lock = None;
    let result = create_dir(fs, dest).and_then(|()| {
        lock = Some(directory::lock(fs, dest, allow_no_lock)?);
        check_contents(fs, dest, &[name::LOCK])?;
        made.push(dest.join(name::LOCK));
        fill(&mut made)
    });
    if result.is_err() {
        // If the directory could not be locked, another checkpoint is writing to `dest`. Then
        // `made` is empty, and the files stay.
        for path in made.iter().skip(1).rev() {
            let _ = fs.remove(path);
        }
        // Where names of open files stay, the directory is empty only after the lock is released.
        if let Some(lock_file) = made.first() {
            let _ = directory::remove_lock(fs, lock_file, lock.take());
        }
        if !was_there {
            let _ = fs.remove_dir(dest);
        }
    }
    result
}

/// Links or copies the table at the first path to the second path. The number is the length of the
/// table according to the MANIFEST, in bytes; the file may be longer. Fails with
/// [`ErrorKind::AlreadyExists`] or [`ErrorKind::NotFound`] only if it has not created a file.
pub(crate) type PlaceTable<'a> = &'a mut dyn FnMut(&Path, &Path, u64) -> Result<()>;

/// A copy being made.
struct Copy<'a> {
    fs: &'a dyn Fs,
    dir: &'a Path,
    dest: &'a Path,
    place: PlaceTable<'a>,
    /// The paths of the files made so far.
    made: &'a mut Vec<PathBuf>,
}

impl Copy<'_> {
    fn write(&mut self, files: LiveFiles, check_dir: &dyn Fn() -> Result<()>) -> Result<()> {
        for table in &files.edit.new_files {
            self.table(table)?;
        }
        for log in &files.logs {
            let to = self.dest.join(name::log_name(log.number));
            self.made.push(to.clone());
            copy_file(self.fs, &*log.file, log.bytes, &to)?;
        }
        // If `dir` still holds the right database now, all files above were linked or copied from
        // it.
        check_dir()?;
        let number = files.next_file_number;
        let edit = VersionEdit { next_file_number: Some(number + 1), ..files.edit };
        self.made.push(self.dest.join(name::manifest_name(number)));
        write_manifest(self.fs, self.dest, number, &edit)?;
        sync_dir(self.fs, self.dest)?;
        self.made.push(self.dest.join(name::temp_name(number)));
        self.made.push(self.dest.join(name::CURRENT));
        set_current(self.fs, self.dest, number)
    }

    /// Links or copies a table. The table's file has one of two possible names.
    fn table(&mut self, table: &NewFile) -> Result<()> {
        let mut missing = None;
        for name in [name::table_name(table.number), name::legacy_table_name(table.number)] {
            let (from, to) = (self.dir.join(&name), self.dest.join(&name));
            self.made.push(to.clone());
            match (self.place)(&from, &to, table.file_bytes) {
                Err(error) if error.io_kind() == Some(ErrorKind::AlreadyExists) => {
                    self.made.pop();
                    return Err(error);
                }
                Err(error) if error.io_kind() == Some(ErrorKind::NotFound) => {
                    self.made.pop();
                    missing.get_or_insert(error);
                }
                done => return done,
            }
        }
        missing.map_or(Ok(()), Err)
    }
}

/// Makes a second name for a file that never changes, or copies the file if the filesystem cannot
/// link it. The caller must sync the directory of the new name.
///
/// # Errors
/// I/O errors.
pub(crate) fn link_or_copy(fs: &dyn Fs, from: &Path, to: &Path) -> Result<()> {
    let linked = fs.hard_link(from, to);
    match linked {
        Err(error) if cannot_link(error.kind()) => copy(fs, from, to),
        linked => linked.map_err(|error| Error::io("link", from, error)),
    }
}

/// Does the same as [`link_or_copy`] for a file whose contents may not be durable yet: they are
/// when this function returns.
///
/// # Errors
/// I/O errors.
pub(crate) fn sync_and_link(fs: &dyn Fs, from: &Path, to: &Path) -> Result<()> {
    let synced = fs.append(from).and_then(|mut file| file.sync());
    match synced {
        Ok(()) => link_or_copy(fs, from, to),
        // Only a file that is open for writing can be synced; a copy is.
        Err(error) if cannot_write(error.kind()) => copy(fs, from, to),
        Err(error) => Err(Error::io("sync", from, error)),
    }
}

/// Makes the contents of a file of `dir` durable. If it cannot be opened for writing, a copy takes
/// its place, which has the name `temp` until it is complete.
///
/// # Errors
/// I/O errors.
pub(crate) fn sync_or_replace(fs: &dyn Fs, dir: &Path, path: &Path, temp: &Path) -> Result<()> {
    let synced = fs.append(path).and_then(|mut file| file.sync());
    match synced {
        Err(error) if cannot_write(error.kind()) => {
            let copied = copy(fs, path, temp).and_then(|()| {
                fs.rename(temp, path).map_err(|error| Error::io("rename", temp, error))
            });
            copied.inspect_err(|_| drop(fs.remove(temp)))?;
            sync_dir(fs, dir)
        }
        synced => synced.map_err(|error| Error::io("sync", path, error)),
    }
}

fn cannot_write(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::Unsupported
    )
}

fn copy(fs: &dyn Fs, from: &Path, to: &Path) -> Result<()> {
    let file = fs.open(from).map_err(|error| Error::io("open", from, error))?;
    let bytes = file.len().map_err(|error| Error::io("read", from, error))?;
    copy_file(fs, &*file, bytes, to).map(|_| ())
}

/// Copies a file to `to`, unless there is a file of this name. Until the copy is complete and
/// durable, it has the name `temp`. The caller must sync the directory of the new name.
///
/// # Errors
/// I/O errors.
pub(crate) fn copy_whole(fs: &dyn Fs, from: &Path, temp: &Path, to: &Path) -> Result<()> {
    if fs.exists(to).map_err(|error| Error::io("look for", to, error))? {
        return Ok(());
    }
    copy(fs, from, temp)?;
    fs.rename(temp, to).map_err(|error| Error::io("rename", temp, error))
}

/// Returns whether a link was refused because of the filesystem or the file, so that a copy may
/// succeed.
pub(crate) fn cannot_link(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::CrossesDevices
            | ErrorKind::Unsupported
            | ErrorKind::PermissionDenied
            | ErrorKind::TooManyLinks
    )
}

/// Copies the first `bytes` bytes of a file, and syncs and closes the copy. Holes stay holes.
/// Returns the CRC-32C of these bytes.
///
/// # Errors
/// I/O errors.
pub(crate) fn copy_file(fs: &dyn Fs, from: &dyn ReadFile, bytes: u64, to: &Path) -> Result<u32> {
    let mut file = fs.create(to).map_err(|error| Error::io("create", to, error))?;
    let checksum = read_pieces(from, bytes, to, &mut |piece| {
        let written = match piece {
            Piece::Bytes(bytes) => file.write(bytes),
            Piece::Hole(bytes) => file.write_zeros(bytes),
        };
        written.map_err(|error| Error::io("write", to, error))
    })?;
    file.sync().map_err(|error| Error::io("sync", to, error))?;
    file.close().map_err(|error| Error::io("close", to, error))?;
    Ok(checksum)
}

/// A piece of a file.
pub(crate) enum Piece<'a> {
    Bytes(&'a [u8]),
    /// This many zeros that take no space on the disk.
    Hole(u64),
}

/// Reads the first `bytes` bytes of a file and passes them to `take`, piece by piece. Holes are not
/// read, because they may be as long as the filesystem allows. Errors name the file `path`. Returns
/// the CRC-32C of these bytes.
///
/// # Errors
/// I/O errors, including one for a file that is shorter than `bytes` bytes; errors of `take`.
pub(crate) fn read_pieces(
    file: &dyn ReadFile,
    bytes: u64,
    path: &Path,
    take: &mut dyn FnMut(Piece<'_>) -> Result<()>,
) -> Result<u32> {
    let failed = |error| Error::io("read for", path, error);
    let mut buffer = Vec::new();
    let (mut at, mut checksum, mut wanted) = (0, 0, COPY_BYTES);
    while at < bytes {
        buffer.resize((bytes - at).min(wanted) as usize, 0);
        match file.read_at(&mut buffer, at).map_err(failed)? {
            read if read == buffer.len() => {}
            _ => return Err(failed(ErrorKind::UnexpectedEof.into())),
        }
        checksum = crc::extend(checksum, &buffer);
        take(Piece::Bytes(&buffer))?;
        at += buffer.len() as u64;
        wanted = (2 * wanted).min(COPY_BYTES);
        if at < bytes && buffer.iter().rev().take(PAGE_BYTES).all(|&byte| byte == 0) {
            let data = file.skip_hole(at).map_err(failed)?.unwrap_or(bytes).min(bytes);
            if data > at {
                checksum = crc::extend_zeros(checksum, data - at);
                take(Piece::Hole(data - at))?;
                // What follows a hole may be small, and the next hole near.
                (at, wanted) = (data, PAGE_BYTES as u64);
            }
        }
    }
    // The end of the file may be a hole, which was not read.
    match file.len().map_err(failed)? < bytes {
        true => Err(failed(ErrorKind::UnexpectedEof.into())),
        false => Ok(checksum),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::engine::options::{Options, WriteOptions};
    use crate::engine::write::queue::Write;
    use crate::fs::bytes_file::BytesFile;
    use crate::fs::sim::{Fault, OpKind, SimFs};

    const EIO: i32 = 5;
    const EEXIST: i32 = 17;
    const EXDEV: i32 = 18;

    /// Returns a database with one table, and its filesystem, which records all operations.
    fn database() -> (SimFs, Arc<Engine>) {
        let fs = SimFs::new(1);
        let options = Options::default().create_if_missing(true).inline_background(Some(4));
        let engine = Engine::open(Path::new("/db"), options.fs(fs.clone())).unwrap();
        engine.write(&WriteOptions::default(), Write::Put(b"key", b"value")).unwrap();
        engine.flush().unwrap();
        fs.record_history();
        (fs, engine)
    }

    fn count(fs: &SimFs, kind: OpKind, path: &str) -> usize {
        let is_it = |path_of: &Path| path_of.ends_with(path);
        let journal = fs.journal();
        let entries = journal.iter().filter(|entry| entry.kind == kind);
        entries.filter(|entry| is_it(entry.to.as_deref().unwrap_or(&entry.path))).count()
    }

    /// A file whose pages of zeros are holes.
    #[derive(Debug)]
    struct Sparse(BytesFile);

    impl ReadFile for Sparse {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            self.0.read_at(buf, offset)
        }

        fn len(&self) -> io::Result<u64> {
            self.0.len()
        }

        fn skip_hole(&self, offset: u64) -> io::Result<Option<u64>> {
            let data = self.0.0.iter().skip(offset as usize).position(|&byte| byte != 0);
            Ok(data.map(|at| offset + at as u64))
        }
    }

    #[test]
    fn holes_are_not_read_and_yet_in_the_checksum() {
        let mut bytes = vec![0; 5 * COPY_BYTES as usize];
        (bytes[0], bytes[3 * COPY_BYTES as usize]) = (1, 2);
        let (mut copy, mut holes) = (Vec::new(), 0);
        let mut take = |piece: Piece<'_>| {
            match piece {
                Piece::Bytes(bytes) => copy.extend_from_slice(bytes),
                Piece::Hole(count) => {
                    holes += count;
                    copy.resize(copy.len() + count as usize, 0);
                }
            }
            Ok(())
        };
        let (file, len) = (Sparse(BytesFile(bytes.clone())), bytes.len() as u64);
        let checksum = read_pieces(&file, len, Path::new("sparse"), &mut take).unwrap();
        assert!(copy == bytes, "the copy differs");
        assert_eq!(checksum, crc::value(&bytes));
        assert!(holes > 3 * COPY_BYTES, "{holes} bytes were not read");
    }

    #[test]
    fn a_link_that_fails_is_an_error_unless_a_copy_helps() {
        for (code, tried) in [(EIO, 1), (EEXIST, 1)] {
            let (fs, engine) = database();
            fs.inject(Fault::os_error(code).on(&[OpKind::HardLink]));
            engine.checkpoint(Path::new("/copy")).unwrap_err();
            let links = fs.journal().iter().filter(|entry| entry.kind == OpKind::HardLink).count();
            assert_eq!(links, tried, "a link was tried again after error {code}");
            let table = engine.state.lock().version.files().next().unwrap().1.number;
            // After EEXIST, the file at the destination must stay, because it may belong to another
            // process.
            let removed = count(&fs, OpKind::Remove, &name::table_name(table));
            assert_eq!(removed, usize::from(code != EEXIST), "error {code}");
            assert!(!fs.exists(Path::new("/copy/CURRENT")).unwrap());
        }
        let (fs, engine) = database();
        fs.inject(Fault::os_error(EXDEV).on(&[OpKind::HardLink]).sticky());
        engine.checkpoint(Path::new("/copy")).unwrap();
        let table = engine.state.lock().version.files().next().unwrap().1.number;
        assert_eq!(count(&fs, OpKind::Create, &name::table_name(table)), 1);
    }

    #[test]
    fn a_directory_that_another_fills_meanwhile_is_left_as_it_is() {
        let (fs, _) = database();
        let dest = Path::new("/copy");
        fill_directory(&fs, dest, false, |made| {
            let second = fill_directory(&fs, dest, false, |_| panic!("filled twice"));
            assert!(matches!(second, Err(Error::Locked { .. })), "{second:?}");
            made.push(dest.join(name::CURRENT));
            fs.create(&dest.join(name::CURRENT))
                .map(|_| ())
                .map_err(|e| Error::io("create", dest, e))
        })
        .unwrap();
        // Calls `fill_directory` as if the caller had just found the directory empty.
        let third = fill_directory(&fs, dest, false, |_| panic!("filled again"));
        assert!(matches!(third, Err(Error::DatabaseExists { .. })), "{third:?}");
        assert_eq!(fs.list(dest).unwrap(), [name::CURRENT, name::LOCK]);
    }

    #[test]
    fn a_directory_with_something_in_it_is_left_as_it_is() {
        let (fs, engine) = database();
        fs.create_dir(Path::new("/copy")).unwrap();
        fs.create(Path::new("/copy/note")).unwrap();
        engine.checkpoint(Path::new("/copy")).unwrap_err();
        assert_eq!(fs.list(Path::new("/copy")).unwrap(), ["note"]);
    }
}
