//! The MANIFEST: which version is current, and how that is made durable.
//!
//! A MANIFEST is a log of version edits. `CURRENT` names the one that counts. Order of a change:
//! the tables it names are durable, then the edit is appended and synced, then the new version is
//! shown to readers, then what it dropped may be removed. A new MANIFEST starts with the whole
//! version, and is durable under its name before `CURRENT` is replaced by a rename.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::stats::NUM_LEVELS;
use crate::base::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::base::{Error, Result};
use crate::engine::directory::has_other_names;
use crate::engine::obsolete::Trash;
use crate::engine::version::Version;
use crate::format::edit::{NewFile, VersionEdit};
use crate::format::key::{InternalComparator, SeqNo};
use crate::format::name::{self, FileName};
use crate::fs::{Fs, ReadFile};
use crate::log::{LogReader, LogWriter, Tail};

/// Hands out file numbers. None is ever handed out twice, across reopens too.
#[derive(Debug)]
pub struct FileNumbers(AtomicU64);

impl FileNumbers {
    /// The first number to hand out is `next`.
    pub fn new(next: u64) -> FileNumbers {
        FileNumbers(AtomicU64::new(next))
    }

    /// A number that nobody has.
    pub fn take(&self) -> u64 {
        self.0.fetch_add(1, Relaxed)
    }

    /// The number that comes next.
    pub fn next(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Makes sure that `taken`, which is below [`MAX_FILE_NUMBER`], is not handed out.
    pub fn skip(&self, taken: u64) {
        self.0.fetch_max(taken + 1, Relaxed);
    }
}

/// Numbers of files are below this one, so that those handed out never wrap round to numbers that
/// are taken.
pub const MAX_FILE_NUMBER: u64 = 1 << 62;

/// What a MANIFEST says.
#[derive(Debug)]
pub struct Recovered {
    /// The tables, from an empty version.
    pub edit: VersionEdit,
    /// Logs before this one are in tables.
    pub log_number: u64,
    /// A second live log, of LevelDB versions long gone; 0 for none.
    pub prev_log_number: u64,
    /// No file number at or past this one was handed out, as far as the MANIFEST knows.
    pub next_file_number: u64,
    /// The highest sequence number in the tables.
    pub last_seq: SeqNo,
    /// The MANIFEST's own number.
    pub manifest_number: u64,
    /// Where its last whole record ends.
    pub valid_end: u64,
    /// Whether it ends cleanly there.
    pub clean: bool,
    /// Whether it says that its sync failed, so that it must not be written on.
    pub sync_failed: bool,
    /// What is wrong with what follows, if it is damaged and no record comes after it. An edit
    /// that was being written in a crash looks so: nobody relied on it then, and everything that
    /// the MANIFEST names without it is still there.
    pub damage: Option<Error>,
}

/// How often `CURRENT` is read again because a writer replaced it, and removed the MANIFEST that
/// it named.
const MAX_CURRENT_TRIES: usize = 100;

/// Opens the MANIFEST that `CURRENT` names: its name, and the file.
///
/// # Errors
/// Corruption of `CURRENT`, also if it names a MANIFEST that is not there; I/O errors.
pub fn open_manifest(fs: &dyn Fs, dir: &Path) -> Result<(String, Arc<dyn ReadFile>)> {
    let mut manifest_name = read_current(fs, dir)?;
    for _ in 0..MAX_CURRENT_TRIES {
        let path = dir.join(&manifest_name);
        match fs.open(&path) {
            Ok(file) => return Ok((manifest_name, file)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io("open", &path, error)),
        }
        let named_now = read_current(fs, dir)?;
        if named_now == manifest_name {
            break;
        }
        manifest_name = named_now;
    }
    Err(Error::corruption(format!("CURRENT names {manifest_name}, which is not there"))
        .in_file(&dir.join(name::CURRENT)))
}

/// Reads `CURRENT` and the MANIFEST it names.
///
/// # Errors
/// Corruption of either, with the offset; an unknown comparator, by name.
pub fn recover(fs: &dyn Fs, dir: &Path, comparator: &str) -> Result<Recovered> {
    let (manifest, file) = open_manifest(fs, dir)?;
    read_manifest(&manifest, file, dir, comparator, false)
}

/// [`recover`], while another process may be writing.
///
/// # Errors
/// As [`recover`].
pub fn recover_beside_writer(fs: &dyn Fs, dir: &Path, comparator: &str) -> Result<Recovered> {
    let (manifest, file) = open_manifest(fs, dir)?;
    read_manifest(&manifest, file, dir, comparator, true)
}

/// Reads `file`, the MANIFEST of this name in `dir`.
///
/// # Errors
/// As [`recover`].
pub fn read_manifest(
    manifest_name: &str,
    file: Arc<dyn ReadFile>,
    dir: &Path,
    comparator: &str,
    beside_writer: bool,
) -> Result<Recovered> {
    let path = dir.join(manifest_name);
    let manifest_number = FileName::parse(manifest_name).and_then(|name| name.number());
    let mut reader = LogReader::new(file, &path)?.beside_writer(beside_writer);
    let mut levels: [BTreeMap<u64, NewFile>; NUM_LEVELS] = Default::default();
    let mut merged = VersionEdit::default();
    let mut damage = None;
    let mut sync_failed = false;
    loop {
        let record = match reader.next() {
            Ok(Some(record)) => record,
            Ok(None) => break,
            Err(error) => {
                check_nothing_follows(&mut reader, &error)?;
                damage = Some(error);
                break;
            }
        };
        sync_failed |= record == FAILED_MARK;
        let edit = VersionEdit::decode(record)
            .map_err(|error| error.in_file(&path).at(reader.record_offset()))?;
        if let Some(found) = &edit.comparator
            && found != comparator
        {
            return Err(Error::unsupported("comparator", found).in_file(&path));
        }
        for (level, number) in edit.deleted_files {
            levels[level].remove(&number);
        }
        for file in edit.new_files {
            levels[file.level].insert(file.number, file);
        }
        merged.log_number = edit.log_number.or(merged.log_number);
        merged.prev_log_number = edit.prev_log_number.or(merged.prev_log_number);
        merged.next_file_number = edit.next_file_number.or(merged.next_file_number);
        merged.last_seq = edit.last_seq.or(merged.last_seq);
    }
    let missing = |what: &str| Error::corruption(format!("no {what} in any edit")).in_file(&path);
    Ok(Recovered {
        edit: VersionEdit {
            new_files: levels.into_iter().flat_map(BTreeMap::into_values).collect(),
            ..VersionEdit::default()
        },
        log_number: merged.log_number.ok_or_else(|| missing("log number"))?,
        prev_log_number: merged.prev_log_number.unwrap_or(0),
        next_file_number: merged.next_file_number.ok_or_else(|| missing("next file number"))?,
        last_seq: merged.last_seq.ok_or_else(|| missing("last sequence number"))?,
        manifest_number: manifest_number.unwrap_or(0),
        valid_end: reader.valid_end(),
        clean: damage.is_none() && reader.tail() == Tail::Clean,
        sync_failed,
        damage,
    })
}

/// Fails with `error` unless it is damage after which there is no record.
fn check_nothing_follows(reader: &mut LogReader, error: &Error) -> Result<()> {
    loop {
        reader.skip_damage();
        match reader.next() {
            Ok(None) => return Ok(()),
            Err(next) if next.is_corruption() => {}
            _ => return Err(error.clone()),
        }
    }
}

/// The last record of a MANIFEST whose sync failed: an edit of nothing. Such a MANIFEST is not
/// written on.
const FAILED_MARK: &[u8] = &[];

/// The name of the MANIFEST that `CURRENT` names.
///
/// # Errors
/// Corruption, and I/O errors.
pub fn read_current(fs: &dyn Fs, dir: &Path) -> Result<String> {
    let path = dir.join(name::CURRENT);
    let file = fs.open(&path).map_err(|error| Error::io("open", &path, error))?;
    // A name and a newline: anything longer is not a CURRENT, and need not be read whole.
    let mut contents = [0; 256];
    let len = file.read_at(&mut contents, 0).map_err(|error| Error::io("read", &path, error))?;
    let named = name::parse_current(&contents[..len]).map_err(|error| error.in_file(&path))?;
    Ok(named.to_owned())
}

/// Writes the MANIFEST. Guarded by the manifest lock: one edit at a time.
#[derive(Debug)]
pub struct VersionSet {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    order: InternalComparator,
    trash: Arc<Trash>,
    numbers: Arc<FileNumbers>,
    current: Arc<Version>,
    manifest: Option<Manifest>,
    /// MANIFESTs before this one, mostly such as failed: `CURRENT` may name one of them until the
    /// next one is in place.
    old_manifests: Vec<PathBuf>,
    /// Logs before this one are in tables.
    log_number: u64,
    /// The highest sequence number in the tables.
    last_seq: SeqNo,
    /// Why the MANIFEST is never written again.
    failed: Option<Error>,
    /// Whether the edit that failed may be found by the next open all the same.
    in_doubt: bool,
    /// A MANIFEST longer than this, and than twice what its version takes, is started anew.
    rotate_bytes: u64,
}

#[derive(Debug)]
struct Manifest {
    number: u64,
    path: PathBuf,
    log: LogWriter,
    /// Its length when it held one version and nothing else.
    version_bytes: u64,
}

impl VersionSet {
    /// Starts from a recovered version; the first edit makes a new MANIFEST.
    pub fn new(
        fs: Arc<dyn Fs>,
        dir: &Path,
        order: InternalComparator,
        trash: Arc<Trash>,
        numbers: Arc<FileNumbers>,
        recovered: &Recovered,
        rotate_bytes: u64,
    ) -> Result<VersionSet> {
        let version = Version::default().apply(&recovered.edit, &order, &trash);
        let path = dir.join(name::manifest_name(recovered.manifest_number));
        Ok(VersionSet {
            fs,
            dir: dir.to_path_buf(),
            order,
            trash,
            numbers,
            current: Arc::new(version.map_err(|error| error.in_file(&path))?),
            manifest: None,
            old_manifests: Vec::new(),
            log_number: recovered.log_number,
            last_seq: recovered.last_seq,
            failed: None,
            in_doubt: false,
            rotate_bytes,
        })
    }

    /// Goes on writing the recovered MANIFEST, which must end cleanly.
    pub fn reuse_manifest(&mut self, recovered: &Recovered) -> Result<()> {
        let path = self.dir.join(name::manifest_name(recovered.manifest_number));
        if has_other_names(&*self.fs, &path)? {
            return Ok(());
        }
        // The next edit may say that a new log's number is the first that counts.
        sync_dir(&*self.fs, &self.dir)?;
        let file = self.fs.append(&path).map_err(|error| Error::io("open", &path, error))?;
        self.manifest = Some(Manifest {
            number: recovered.manifest_number,
            path,
            log: LogWriter::new(file, recovered.valid_end),
            version_bytes: recovered.valid_end,
        });
        Ok(())
    }

    /// The current version.
    pub fn current(&self) -> &Arc<Version> {
        &self.current
    }

    /// Logs before this one are in tables.
    pub fn log_number(&self) -> u64 {
        self.log_number
    }

    /// The highest sequence number in the tables.
    pub fn last_seq(&self) -> SeqNo {
        self.last_seq
    }

    /// The MANIFEST's number; 0 before the first edit.
    pub fn manifest_number(&self) -> u64 {
        self.manifest.as_ref().map_or(0, |manifest| manifest.number)
    }

    /// Makes `edit` durable, and the version it makes the current one.
    ///
    /// The edit's log number and last sequence, where given, are those of what it flushes; the
    /// rest is filled in here.
    ///
    /// # Errors
    /// I/O errors. After one the MANIFEST is suspect and never written again: whether the edit
    /// is durable is known only at the next open.
    pub fn commit(&mut self, mut edit: VersionEdit) -> Result<Arc<Version>> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.check_dropped(&edit)?;
        let log_number = edit.log_number.unwrap_or(self.log_number);
        let last_seq = self.last_seq.max(edit.last_seq.unwrap_or(0));
        edit.log_number = Some(log_number);
        edit.prev_log_number = Some(0);
        edit.next_file_number = Some(self.numbers.next());
        edit.last_seq = Some(last_seq);
        let version = Arc::new(self.current.apply(&edit, &self.order, &self.trash)?);
        let write = || match &self.manifest {
            Some(manifest) if !manifest.is_overgrown(self.rotate_bytes) => self.append(&edit),
            _ => self.rotate(&mut edit.clone()),
        };
        // A panic is one more way not to know whether the edit is durable.
        let written = catch_unwind(AssertUnwindSafe(write))
            .unwrap_or_else(|payload| Err(Error::panicked("an edit of the MANIFEST", &*payload)));
        self.failed = written.as_ref().err().cloned();
        written?;
        self.log_number = log_number;
        self.last_seq = last_seq;
        for &(level, number) in &edit.deleted_files {
            let moved = edit.new_files.iter().any(|new| new.number == number);
            let old = self.current.level(level).iter().find(|file| file.number == number);
            if let (false, Some(file)) = (moved, old) {
                file.set_obsolete();
            }
        }
        self.current = version.clone();
        Ok(version)
    }

    /// Checks that what an edit drops is there. If two compactions had one input, the second would
    /// bring back what the first dropped.
    fn check_dropped(&self, edit: &VersionEdit) -> Result<()> {
        let is_there = |&(level, number): &(usize, u64)| {
            self.current.level(level).iter().any(|file| file.number == number)
        };
        match edit.deleted_files.iter().find(|dropped| !is_there(dropped)) {
            None => Ok(()),
            Some((level, number)) => Err(Error::corruption(format!(
                "an edit drops the table {number:06} of level {level}, which is not there"
            ))),
        }
    }

    /// After a failure: the next edit starts a new MANIFEST, without the edit that failed.
    pub fn restart(&mut self) {
        if self.failed.take().is_some() {
            self.old_manifests.extend(self.manifest.take().map(|manifest| manifest.path));
        }
    }

    /// After a failed commit: whether the next open may find its edit, and need what that names.
    pub fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    fn append(&mut self, edit: &VersionEdit) -> Result<()> {
        self.in_doubt = true;
        let manifest = self.manifest.as_mut().expect("append follows a check for a MANIFEST");
        manifest.add(edit)?;
        manifest.sync()
    }

    /// Writes the current version and `edit` into a new MANIFEST and names it in `CURRENT`.
    fn rotate(&mut self, edit: &mut VersionEdit) -> Result<()> {
        let number = self.numbers.take();
        edit.next_file_number = Some(self.numbers.next());
        let path = self.dir.join(name::manifest_name(number));
        let begun = self.begin_manifest(number, &path, edit);
        begun.inspect_err(|_| self.discard(number, path))
    }

    /// Writes the current version and `edit` into the new MANIFEST at `path`, and puts it in place
    /// of those before.
    fn begin_manifest(&mut self, number: u64, path: &Path, edit: &VersionEdit) -> Result<()> {
        let path = path.to_path_buf();
        let file = self.fs.create(&path).map_err(|error| Error::io("create", &path, error))?;
        let mut manifest =
            Manifest { number, path, log: LogWriter::new(file, 0), version_bytes: 0 };
        let mut whole = self.current.to_edit();
        whole.comparator = Some(self.order.user().get().name().to_owned());
        manifest.add(&whole)?;
        manifest.add(edit)?;
        manifest.sync()?;
        manifest.version_bytes = manifest.log.len();
        sync_dir(&*self.fs, &self.dir)?;
        set_current(&*self.fs, &self.dir, number)?;
        if let Some(old) = self.manifest.replace(manifest) {
            self.old_manifests.push(old.path);
        }
        for old in std::mem::take(&mut self.old_manifests) {
            // Left behind, it is removed by the next open.
            let _ = self.fs.remove(&old);
        }
        Ok(())
    }

    /// Removes what is left of a new MANIFEST that failed, so that tries on a full disk do not add
    /// up. If `CURRENT` names it or cannot be read, it stays until another one is in place.
    fn discard(&mut self, number: u64, path: PathBuf) {
        let is_named = !matches!(read_current(&*self.fs, &self.dir), Ok(named)
            if named != name::manifest_name(number));
        let _ = self.fs.remove(&self.dir.join(name::temp_name(number)));
        self.in_doubt = is_named;
        if is_named || self.fs.remove(&path).is_err() {
            self.old_manifests.push(path);
        }
    }
}

/// Whether a MANIFEST names tables or cannot be told not to: what [`create`] leaves of its first
/// one, when it is cut short, does not.
///
/// # Errors
/// I/O errors.
pub fn may_name_tables(fs: &dyn Fs, path: &Path) -> Result<bool> {
    let file = fs.open(path).map_err(|error| Error::io("open", path, error))?;
    let mut reader = LogReader::new(file, path)?;
    loop {
        match reader.next() {
            Ok(None) => return Ok(false),
            Ok(Some(record)) => match VersionEdit::decode(record) {
                Ok(edit) if edit.new_files.is_empty() => {}
                _ => return Ok(true),
            },
            Err(error) if error.is_corruption() => return Ok(reader.valid_end() > 0),
            Err(error) => return Err(error),
        }
    }
}

/// Makes a database of nothing in `dir`: MANIFEST number 1, and the `CURRENT` that names it.
pub fn create(fs: &dyn Fs, dir: &Path, comparator: &str) -> Result<()> {
    let edit = VersionEdit {
        comparator: Some(comparator.to_owned()),
        log_number: Some(0),
        next_file_number: Some(2),
        last_seq: Some(0),
        ..VersionEdit::default()
    };
    write_manifest(fs, dir, 1, &edit)?;
    sync_dir(fs, dir)?;
    set_current(fs, dir, 1)
}

/// Writes the MANIFEST `number` of one edit, and syncs it. Its name is the caller's to sync.
pub fn write_manifest(fs: &dyn Fs, dir: &Path, number: u64, edit: &VersionEdit) -> Result<()> {
    let path = dir.join(name::manifest_name(number));
    let file = fs.create(&path).map_err(|error| Error::io("create", &path, error))?;
    let mut manifest = Manifest { number, path, log: LogWriter::new(file, 0), version_bytes: 0 };
    manifest.add(edit)?;
    manifest.sync()
}

/// Names a MANIFEST, durable under its own name, in `CURRENT`.
pub fn set_current(fs: &dyn Fs, dir: &Path, manifest_number: u64) -> Result<()> {
    let temp = dir.join(name::temp_name(manifest_number));
    let current = dir.join(name::CURRENT);
    let contents = name::current_contents(manifest_number);
    let mut file = fs.create(&temp).map_err(|error| Error::io("create", &temp, error))?;
    file.write(contents.as_bytes()).map_err(|error| Error::io("write", &temp, error))?;
    file.sync().map_err(|error| Error::io("sync", &temp, error))?;
    drop(file);
    fs.rename(&temp, &current).map_err(|error| Error::io("rename", &temp, error))?;
    sync_dir(fs, dir)
}

impl Manifest {
    fn is_overgrown(&self, rotate_bytes: u64) -> bool {
        self.log.len() > rotate_bytes.max(2 * self.version_bytes)
    }

    fn add(&mut self, edit: &VersionEdit) -> Result<()> {
        let mut record = Vec::new();
        edit.encode(&mut record);
        self.log.add_record(&record).map_err(|error| Error::io("append to", &self.path, error))
    }

    fn sync(&mut self) -> Result<()> {
        self.log.sync().map_err(|error| {
            self.log.mark_failed(FAILED_MARK);
            Error::io("sync", &self.path, error)
        })
    }
}

/// Makes the names in `dir` durable.
pub fn sync_dir(fs: &dyn Fs, dir: &Path) -> Result<()> {
    fs.sync_dir(dir).map_err(|error| Error::io("sync", dir, error))
}
