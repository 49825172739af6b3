//! Keeps the files of a view open, so that the view can read them after a writer has removed them.
//!
//! The number of open files of a process is limited. Tables beyond the limit are reopened for each
//! read; if a writer has removed such a table by then, the read fails with an error that says so.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::{Error, Result};
use crate::engine::open::directory;
use crate::engine::open::entries::{self, DirListing};
use crate::engine::options::Options;
use crate::engine::version::{Version, manifest};
use crate::format::edit::NewFile;
use crate::format::name::{self, FileName};
use crate::fs::bytes_file::BytesFile;
use crate::fs::forward::forward_to;
use crate::fs::{EntryKind, FileLock, Fs, LockHolder, ReadFile, WriteFile};

/// Open files by their paths.
pub(crate) type Files = BTreeMap<PathBuf, Arc<dyn ReadFile>>;

/// Opens the files in `listed`: adds the tables that `held` lacks to it, and returns the logs. A
/// file that cannot be opened is left out.
///
/// Called before the MANIFEST is read: of the files that the MANIFEST names, a writer can then have
/// removed only those that it made after the listing.
pub(crate) fn hold_listed(
    fs: &dyn Fs,
    dir: &Path,
    listed: &[(String, FileName)],
    held: &mut Files,
) -> Files {
    let mut logs = Files::new();
    for (name, parsed) in listed {
        let path = dir.join(name);
        match parsed {
            FileName::Log(_) => {
                if let Ok(file) = fs.open(&path) {
                    logs.insert(path, file);
                }
            }
            FileName::Table { .. } if !held.contains_key(&path) => {
                if let Ok(file) = fs.open_table(&path) {
                    held.insert(path, file);
                }
            }
            _ => {}
        }
    }
    logs
}

/// Makes `held` contain exactly the tables `tables` of a version: opens the tables that are missing
/// from `held`, and drops all other files. A table that cannot be held open is added to `held` too,
/// but is reopened for each read.
pub(crate) fn hold_tables(
    fs: &dyn Fs,
    dir: &Path,
    tables: &[NewFile],
    held: &mut Files,
) -> Result<()> {
    let mut before = std::mem::take(held);
    for table in tables {
        let path = dir.join(name::table_name(table.number));
        let older = dir.join(name::legacy_table_name(table.number));
        let is_known = [&path, &older].into_iter().find_map(|path| before.remove_entry(path));
        let (path, file) = match is_known {
            Some(known) => known,
            None => match fs.open_table(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let file = fs.open_table(&older);
                    (older, file.map_err(|_| Error::io("open", path, error))?)
                }
                file => {
                    let file = file.map_err(|error| Error::io("open", &path, error))?;
                    (path, file)
                }
            },
        };
        held.insert(path, file);
    }
    Ok(())
}

/// Opens the logs to replay that `held` lacks: all logs in `live` up to the newest log that is not
/// empty. Returns their numbers, ascending. When the last of these logs was started, all logs
/// before it were complete. Later logs, which are empty, are left out: if records are written to an
/// empty log before the replay, they must not be in the view, because the view may lack the end of
/// the previous log.
pub(crate) fn hold_logs(
    fs: &dyn Fs,
    dir: &Path,
    live: &[u64],
    held: &mut Files,
) -> Result<Vec<u64>> {
    let mut logs = Vec::new();
    for &number in live.iter().rev() {
        let path = dir.join(name::log_name(number));
        let file = match held.get(&path) {
            Some(file) => file.clone(),
            None => fs.open(&path).map_err(|error| Error::io("open", &path, error))?,
        };
        let is_empty = file.is_empty().map_err(|error| Error::io("read", &path, error))?;
        if !is_empty || !logs.is_empty() {
            logs.insert(0, number);
            held.insert(path, file);
        }
    }
    debug_assert!(logs.is_sorted_by(|a, b| a < b), "the logs of a view are out of order");
    Ok(logs)
}

/// A read-only filesystem that holds files open.
#[derive(Debug)]
pub(crate) struct HeldFs {
    inner: Arc<dyn Fs>,
    files: Files,
    unheld: usize,
    /// A directory and the file names to list for it; `None` if no list of names is held.
    names: Option<(PathBuf, Vec<String>)>,
}

impl HeldFs {
    /// Returns a filesystem with all files of `inner`. Files in `files` that are held open can be
    /// read even after they have been renamed or removed in `inner`.
    pub(crate) fn new(inner: Arc<dyn Fs>, files: Files) -> HeldFs {
        let unheld = files.values().filter(|file| !file.is_held()).count();
        HeldFs { inner, files, unheld, names: None }
    }

    /// Returns a filesystem that holds all files of the database in `dir` as they are at one point
    /// in time. The tables in `held` are already open. Returns `None` if the MANIFEST does not end
    /// cleanly, for example while an edit is being written.
    ///
    /// # Errors
    /// As [`read_only::open`](crate::engine::open::read_only::open).
    pub(crate) fn of_database(
        dir: &Path,
        options: &Options,
        held: &mut Files,
    ) -> Result<Option<HeldFs>> {
        let fs = &options.fs;
        let DirListing { files, directories } = entries::entries(&**fs, dir)?;
        let logs = hold_listed(&**fs, dir, &files, held);
        let mut names: BTreeSet<String> = files.into_iter().map(|(name, _)| name).collect();
        let (manifest, file) = manifest::open_manifest(&**fs, dir)?;
        let comparator = options.comparator.name();
        let recovered = manifest::read_manifest(&manifest, file.clone(), dir, comparator, true)?;
        if !recovered.clean {
            return Ok(None);
        }
        let (log_number, prev_log_number) = (recovered.log_number, recovered.prev_log_number);
        directory::check_no_live_directory(dir, &directories, log_number, prev_log_number)?;
        hold_tables(&**fs, dir, &recovered.edit.new_files, held)?;
        let mut open = held.clone();
        open.extend(logs);
        names.extend(open.keys().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())));
        let files: Vec<_> =
            names.iter().filter_map(|name| Some((name.clone(), FileName::parse(name)?))).collect();
        let live = directory::live_logs(&files, &recovered);
        let begun = hold_logs(&**fs, dir, &live, &mut open)?;
        for log in live.iter().filter(|log| !begun.contains(log)) {
            // The log was empty when it was opened.
            open.insert(dir.join(name::log_name(*log)), Arc::new(BytesFile(Vec::new())));
        }
        names.insert(manifest.clone());
        let current = Arc::new(BytesFile(format!("{manifest}\n").into_bytes()));
        open.insert(dir.join(name::CURRENT), current);
        let beginning = Beginning { file, bytes: recovered.valid_end };
        open.insert(dir.join(manifest), Arc::new(beginning));
        let names = Some((dir.to_path_buf(), names.into_iter().collect()));
        Ok(Some(HeldFs { names, ..HeldFs::new(fs.clone(), open) }))
    }

    /// Returns the number of files that could not be held open. Each of these files is reopened for
    /// every read.
    pub(crate) fn unheld(&self) -> usize {
        self.unheld
    }

    /// Gives the held files of `dir` to the tables of `version` that have no open file yet.
    pub(crate) fn give_to(&self, version: &Version, dir: &Path) {
        for (_, table) in version.files().filter(|(_, table)| !table.slot.has_file()) {
            let names = [name::table_name, name::legacy_table_name].map(|name| name(table.number));
            for path in names.map(|name| dir.join(name)) {
                if let Some(file) = self.held(&path) {
                    table.slot.hold(file, path);
                }
            }
        }
    }

    fn held(&self, path: &Path) -> Option<Arc<dyn ReadFile>> {
        let file = self.files.get(path)?.clone();
        if file.is_held() {
            return Some(file);
        }
        let (unheld, files) = (self.unheld, self.files.len());
        Some(Arc::new(UnheldFile { file, unheld, files }))
    }
}

/// The first bytes of a file that may grow.
#[derive(Debug)]
struct Beginning {
    file: Arc<dyn ReadFile>,
    bytes: u64,
}

impl ReadFile for Beginning {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = buf.len().min(left);
        self.file.read_at(&mut buf[..wanted], offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.len()?.min(self.bytes))
    }

    fn skip_hole(&self, offset: u64) -> io::Result<Option<u64>> {
        self.file.skip_hole(offset)
    }
}

/// A table that is reopened for each read, and that may have been removed by the time of a read.
#[derive(Debug)]
struct UnheldFile {
    file: Arc<dyn ReadFile>,
    unheld: usize,
    files: usize,
}

impl UnheldFile {
    fn explain(&self, error: io::Error) -> io::Error {
        if error.kind() != io::ErrorKind::NotFound {
            return error;
        }
        let what = format!(
            "a writer has removed it since the database was opened for reading; of {} files this \
             process could hold all but {} open (RLIMIT_NOFILE): raise the limit, or open again",
            self.files, self.unheld
        );
        io::Error::new(io::ErrorKind::NotFound, what)
    }
}

impl ReadFile for UnheldFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buf, offset).map_err(|error| self.explain(error))
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len().map_err(|error| self.explain(error))
    }

    fn is_held(&self) -> bool {
        false
    }
}

fn read_only<T>() -> io::Result<T> {
    Err(io::Error::new(
        io::ErrorKind::ReadOnlyFilesystem,
        "the database is opened for reading only",
    ))
}

impl Fs for HeldFs {
    forward_to!(inner: exists, absolute, is_real_dir);
    forward_to!(changes: read_only(), read_only());

    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        match self.held(path) {
            Some(file) => Ok(file),
            None => self.inner.open(path),
        }
    }

    fn open_table(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        match self.held(path) {
            Some(file) => Ok(file),
            None => self.inner.open_table(path),
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        match &self.names {
            Some((dir, names)) if dir == path => Ok(names.clone()),
            _ => self.inner.list(path),
        }
    }

    fn entries(&self, path: &Path) -> io::Result<Vec<(String, EntryKind)>> {
        match &self.names {
            // Only files of the database are held.
            Some((dir, names)) if dir == path => {
                Ok(names.iter().map(|name| (name.clone(), EntryKind::File)).collect())
            }
            _ => self.inner.entries(path),
        }
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        match self.files.get(path) {
            Some(file) => file.len(),
            None => self.inner.len(path),
        }
    }

    fn lock(&self, _: &Path) -> io::Result<Result<Box<dyn FileLock>, LockHolder>> {
        read_only()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::MemFs;

    /// A removed table that a process with too few descriptors could not hold open.
    #[derive(Debug)]
    struct Removed;

    impl ReadFile for Removed {
        fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
            Err(io::ErrorKind::NotFound.into())
        }

        fn len(&self) -> io::Result<u64> {
            Ok(10)
        }

        fn is_held(&self) -> bool {
            false
        }
    }

    /// A sparse file: data in the bytes 40 to 60 of 100.
    #[derive(Debug)]
    struct Sparse;

    impl ReadFile for Sparse {
        fn read_at(&self, buf: &mut [u8], _: u64) -> io::Result<usize> {
            buf.fill(0);
            Ok(buf.len())
        }

        fn len(&self) -> io::Result<u64> {
            Ok(100)
        }

        fn skip_hole(&self, offset: u64) -> io::Result<Option<u64>> {
            Ok((offset < 60).then_some(offset.max(40)))
        }
    }

    #[test]
    fn a_held_file_has_the_length_and_the_holes_that_it_had() {
        let (inner, held, other) = (MemFs::new(), Path::new("/held"), Path::new("/other"));
        inner.create(other).unwrap().write(b"seven b").unwrap();
        let file = Arc::new(Beginning { file: Arc::new(Sparse), bytes: 50 });
        let files = Files::from([(held.to_path_buf(), file as Arc<dyn ReadFile>)]);
        let fs = HeldFs::new(Arc::new(inner), files);
        assert_eq!([held, other].map(|path| fs.len(path).unwrap()), [50, 7]);
        let file = fs.open_table(held).unwrap();
        assert_eq!([10, 45].map(|at| file.skip_hole(at).unwrap()), [Some(40), Some(45)]);
        assert_eq!((file.len().unwrap(), file.read_at(&mut [1; 20], 45).unwrap()), (50, 5));
    }

    #[test]
    fn the_names_are_fixed_in_the_directory_of_the_database_only() {
        let inner = MemFs::new();
        for dir in ["/db", "/other"] {
            inner.create_dir(Path::new(dir)).unwrap();
            inner.create(&Path::new(dir).join("new")).unwrap();
        }
        let names = Some((PathBuf::from("/db"), vec!["old".to_owned()]));
        let fs = HeldFs { names, ..HeldFs::new(Arc::new(inner), Files::new()) };
        assert_eq!(fs.list(Path::new("/db")).unwrap(), ["old"]);
        assert_eq!(fs.list(Path::new("/other")).unwrap(), ["new"]);
    }

    /// Checks that a database is held as it was when its MANIFEST ended with a complete edit, and
    /// that it is not held while an edit is incomplete.
    #[test]
    fn a_database_is_held_whole_or_not_at_all() {
        let (fs, dir) = (Arc::new(MemFs::new()), Path::new("/db"));
        let options = Options::default().create_if_missing(true).inline_background(Some(4));
        let options = options.fs(fs.clone());
        let db = crate::Db::open(dir, options.clone()).unwrap();
        db.put("a", "1").unwrap();
        db.flush().unwrap();
        db.put("b", "2").unwrap();
        let hold = || HeldFs::of_database(dir, &options, &mut Files::new()).unwrap();
        let held = hold().expect("a whole MANIFEST");
        db.compact_range(..).unwrap();
        db.put("c", "3").unwrap();
        db.close().unwrap();
        let (manifest, _) = manifest::open_manifest(&*fs, dir).unwrap();
        let mut file = fs.append(&dir.join(manifest)).unwrap();
        file.write(b"the first bytes of an edit").unwrap();
        assert!(hold().is_none());
        for name in fs.list(dir).unwrap() {
            fs.remove(&dir.join(name)).unwrap();
        }
        let options = options.fs(held);
        let report = crate::verify(dir, &options).unwrap();
        assert!(report.is_sound(), "{report:?}");
        assert_eq!((report.tables, report.entries, report.batches), (1, 1, 1));
    }

    #[test]
    fn a_removed_table_that_could_not_be_held_says_so() {
        let path = Path::new("/db/000005.ldb");
        let files = Files::from([
            (path.to_path_buf(), Arc::new(Removed) as Arc<dyn ReadFile>),
            (PathBuf::from("/db/000006.ldb"), Arc::new(BytesFile(vec![7]))),
        ]);
        let fs = HeldFs::new(Arc::new(MemFs::new()), files);
        assert_eq!(fs.unheld(), 1);
        let [unheld, held] = ["/db/000005.ldb", "/db/000006.ldb"]
            .map(|path| fs.open_table(Path::new(path)).unwrap());
        assert_eq!((unheld.len().unwrap(), unheld.is_held()), (10, false));
        assert_eq!((held.len().unwrap(), held.is_held()), (1, true));
        let error = fs.open_table(path).unwrap().read_at(&mut [0], 0).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let text = error.to_string();
        assert!(text.contains("of 2 files") && text.contains("all but 1"), "{text}");
    }
}
