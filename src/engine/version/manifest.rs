//! Reads and writes the files MANIFEST and `CURRENT`.
//!
//! A MANIFEST is a log of version edits. `CURRENT` names the MANIFEST in use.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::{Error, Feature, Result};
use crate::format::edit::{NUM_LEVELS, NewFile, VersionEdit};
use crate::format::key::SeqNo;
use crate::format::name::{self, FileName};
use crate::fs::{Fs, ReadFile, replace_file, sync_dir};
use crate::log::{LogReader, LogWriter, Tail};

/// The contents of a MANIFEST.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Edit that turns an empty version into the version that the MANIFEST describes.
    pub edit: VersionEdit,
    /// Number of the first log whose records are not all in tables.
    pub log_number: u64,
    /// Number of a second live log, which early versions of LevelDB had; 0 if there is none.
    pub prev_log_number: u64,
    /// The first file number that was not handed out yet, according to the MANIFEST.
    pub next_file_number: u64,
    /// The highest sequence number in the tables.
    pub last_seq: SeqNo,
    /// File number of the MANIFEST.
    pub manifest_number: u64,
    /// Offset in the MANIFEST of the end of the last complete record.
    pub valid_end: u64,
    /// Whether the file ends at `valid_end`.
    pub(crate) clean: bool,
    /// Whether a record says that a sync of the MANIFEST failed, so that no edit may be appended.
    pub(crate) sync_failed: bool,
    /// Damage after the last complete record, if no record follows the damage. A crash while an
    /// edit is written leaves such damage: nothing relied on that edit yet, and all files that the
    /// earlier edits name still exist.
    pub damage: Option<Error>,
}

impl Recovered {
    /// Returns the first file number that may be handed out. As in LevelDB, the log numbers in the
    /// MANIFEST count as used, even if the MANIFEST's next file number is not above them.
    pub(crate) fn next_number(&self) -> u64 {
        let logs = self.log_number.max(self.prev_log_number);
        self.next_file_number.max(logs.saturating_add(1))
    }
}

/// Maximum number of times that `CURRENT` is read again because a writer has replaced it and
/// removed the MANIFEST that it named. With a higher number, an open beside a busy writer tries for
/// longer.
const MAX_CURRENT_TRIES: usize = 100;

/// Opens the MANIFEST that `CURRENT` names. Returns its name and the file.
///
/// # Errors
/// Corruption of `CURRENT`, which includes naming a MANIFEST that does not exist; I/O errors.
pub(crate) fn open_manifest(fs: &dyn Fs, dir: &Path) -> Result<(String, Arc<dyn ReadFile>)> {
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
    Err(Error::corruption(format!("CURRENT names {manifest_name}, which does not exist"))
        .in_file(&dir.join(name::CURRENT)))
}

/// Returns the contents of the MANIFEST that `CURRENT` names.
///
/// # Errors
/// Corruption of `CURRENT` or the MANIFEST, with the offset; an error that names the database's
/// comparator if it is not `comparator`; I/O errors.
pub fn recover_manifest(fs: &dyn Fs, dir: &Path, comparator: &str) -> Result<Recovered> {
    let (manifest, file) = open_manifest(fs, dir)?;
    read_manifest(&manifest, file, dir, comparator, false)
}

/// Returns the contents of the MANIFEST, like [`recover_manifest`], while another process may be
/// writing.
///
/// # Errors
/// As [`recover_manifest`].
pub(crate) fn recover_beside_writer(
    fs: &dyn Fs,
    dir: &Path,
    comparator: &str,
) -> Result<Recovered> {
    let (manifest, file) = open_manifest(fs, dir)?;
    read_manifest(&manifest, file, dir, comparator, true)
}

/// Returns the contents of `file`, the MANIFEST `manifest_name` in `dir`.
///
/// # Errors
/// As [`recover_manifest`].
pub(crate) fn read_manifest(
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
            return Err(Error::unsupported(Feature::Comparator, found).in_file(&path));
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

/// Returns `error` as the error if a record follows the damage that `error` reports, or if the
/// bytes after the damage cannot be read. A mark of a failed sync does not count as a record: the
/// edit before it may be what that sync has lost. A crash leaves no record after damage, because
/// each edit is durable before the next one is appended.
fn check_nothing_follows(reader: &mut LogReader, error: &Error) -> Result<()> {
    while !reader.would_skip_record() {
        reader.skip_damage();
        loop {
            match reader.next() {
                Ok(None) => return Ok(()),
                Ok(Some(FAILED_MARK)) => {}
                Err(next) if next.is_corruption() => break,
                _ => return Err(error.clone()),
            }
        }
    }
    Err(error.clone())
}

/// An empty edit, which is appended as the last record to a MANIFEST whose sync failed. No further
/// edit is appended to that MANIFEST.
pub(super) const FAILED_MARK: &[u8] = &[];

/// Returns the name of the MANIFEST that `CURRENT` names.
///
/// # Errors
/// Corruption, and I/O errors.
pub fn read_current(fs: &dyn Fs, dir: &Path) -> Result<String> {
    let path = dir.join(name::CURRENT);
    let file = fs.open(&path).map_err(|error| Error::io("open", &path, error))?;
    // A valid CURRENT is a name and a newline, so the rest of a longer file need not be read.
    let mut contents = [0; 256];
    let len = file.read_at(&mut contents, 0).map_err(|error| Error::io("read", &path, error))?;
    let named = name::parse_current(&contents[..len]).map_err(|error| error.in_file(&path))?;
    Ok(named.to_owned())
}

/// Returns whether a MANIFEST names tables, or may name tables because it is damaged. Returns false
/// for the MANIFEST that [`create`] writes, even if that MANIFEST was truncated at any byte.
///
/// # Errors
/// I/O errors.
pub(crate) fn may_name_tables(fs: &dyn Fs, path: &Path) -> Result<bool> {
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

/// Creates an empty database in `dir`: MANIFEST number 1, and a `CURRENT` that names it.
///
/// # Errors
/// I/O errors.
pub(crate) fn create(fs: &dyn Fs, dir: &Path, comparator: &str) -> Result<()> {
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

/// Writes the MANIFEST `number` with one edit, and syncs and closes it. The caller syncs the
/// directory.
///
/// # Errors
/// I/O errors.
pub(crate) fn write_manifest(
    fs: &dyn Fs,
    dir: &Path,
    number: u64,
    edit: &VersionEdit,
) -> Result<()> {
    let path = dir.join(name::manifest_name(number));
    let file = fs.create(&path).map_err(|error| Error::io("create", &path, error))?;
    let mut manifest =
        ManifestWriter { number, path, log: LogWriter::new(file, 0), version_bytes: 0 };
    manifest.add(edit)?;
    manifest.sync()?;
    manifest.close()
}

/// Makes `CURRENT` name a MANIFEST. The rename that does so is durable when this function returns.
/// The caller must have made the MANIFEST and its directory entry durable.
///
/// # Errors
/// I/O errors; `CURRENT` then names the old MANIFEST or the new one.
pub(crate) fn set_current(fs: &dyn Fs, dir: &Path, manifest_number: u64) -> Result<()> {
    let temp = name::temp_name(manifest_number);
    let contents = name::current_contents(manifest_number);
    replace_file(fs, dir, &temp, name::CURRENT, contents.as_bytes())
}

/// A MANIFEST that is being written.
#[derive(Debug)]
pub(super) struct ManifestWriter {
    pub(super) number: u64,
    pub(super) path: PathBuf,
    pub(super) log: LogWriter,
    /// Length of the file, in bytes, when it held only the initial version.
    pub(super) version_bytes: u64,
}

impl ManifestWriter {
    pub(super) fn is_overgrown(&self, rotate_bytes: u64) -> bool {
        self.log.len() > rotate_bytes.max(2 * self.version_bytes)
    }

    pub(super) fn add(&mut self, edit: &VersionEdit) -> Result<()> {
        let mut record = Vec::new();
        edit.encode(&mut record);
        self.log.add_record(&record).map_err(|error| Error::io("append to", &self.path, error))
    }

    pub(super) fn sync(&mut self) -> Result<()> {
        self.log.sync().map_err(|error| {
            self.log.mark_failed(FAILED_MARK);
            Error::io("sync", &self.path, error)
        })
    }

    /// Closes a MANIFEST that is complete and synced.
    fn close(self) -> Result<()> {
        self.log.close().map_err(|error| Error::io("close", &self.path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::version::testing;
    use crate::fs::sim::{Fault, OpKind, SimFs};

    const DIR: &str = "/db";

    fn manifest(fs: &SimFs, number: u64, edits: &[VersionEdit]) -> ManifestWriter {
        let path = Path::new(DIR).join(name::manifest_name(number));
        let log = LogWriter::new(fs.create(&path).unwrap(), 0);
        let mut manifest = ManifestWriter { number, path, log, version_bytes: 0 };
        edits.iter().for_each(|edit| manifest.add(edit).unwrap());
        manifest
    }

    #[test]
    fn damage_in_several_blocks_at_the_end_is_the_end_unless_a_record_follows() {
        use crate::format::record::{BLOCK_BYTES, HEADER_BYTES};
        let fs = SimFs::new(1);
        let path = Path::new("/log");
        // Each record fills a block.
        let mut log = LogWriter::new(fs.create(path).unwrap(), 0);
        (0..4).for_each(|_| log.add_record(&[7; BLOCK_BYTES - HEADER_BYTES]).unwrap());
        let file = fs.open(path).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(&mut bytes, 0).unwrap();
        for (damaged, is_end) in [(1..4, true), (1..3, false), (3..4, true)] {
            let mut bytes = bytes.clone();
            damaged.clone().for_each(|block| bytes[block * BLOCK_BYTES + 100] ^= 1);
            let file = Arc::new(crate::fs::bytes_file::BytesFile(bytes));
            let mut reader = LogReader::new(file, path).unwrap();
            (0..damaged.start).for_each(|_| assert!(reader.next().unwrap().is_some()));
            let error = reader.next().unwrap_err();
            let end = check_nothing_follows(&mut reader, &error);
            assert_eq!(end.is_ok(), is_end, "{damaged:?}");
        }
    }

    #[test]
    fn damage_before_a_record_in_the_same_block_is_not_the_end() {
        let cases: [(&[&[u8]], bool); 4] = [
            (&[], true),
            (&[FAILED_MARK], true),
            (&[b"edit"], false),
            (&[FAILED_MARK, b"edit"], false),
        ];
        let path = Path::new("/log");
        for (after, is_end) in cases {
            // The checksum, the length, the type, and the payload.
            for at in [0, 4, 6, 20] {
                let fs = SimFs::new(1);
                let mut log = LogWriter::new(fs.create(path).unwrap(), 0);
                log.add_record(&[7; 100]).unwrap();
                after.iter().for_each(|record| log.add_record(record).unwrap());
                fs.damage(path, at, 1).unwrap();
                let mut reader = LogReader::new(fs.open(path).unwrap(), path).unwrap();
                let error = reader.next().unwrap_err();
                let end = check_nothing_follows(&mut reader, &error);
                assert_eq!(end.is_ok(), is_end, "byte {at}, {after:?}");
            }
        }
    }

    #[test]
    fn a_mark_of_a_failed_sync_does_not_make_a_lost_edit_one_in_the_middle() {
        use crate::format::record::{BLOCK_BYTES, HEADER_BYTES};
        let fs = SimFs::new(1);
        let path = Path::new("/log");
        for (after, is_end) in [(FAILED_MARK, true), (b"edit", false)] {
            // The lost edit fills a block, so the mark begins the next one.
            let mut log = LogWriter::new(fs.create(path).unwrap(), 0);
            log.add_record(&[7; BLOCK_BYTES - HEADER_BYTES]).unwrap();
            log.add_record(after).unwrap();
            fs.damage(path, 100, 1).unwrap();
            let mut reader = LogReader::new(fs.open(path).unwrap(), path).unwrap();
            let error = reader.next().unwrap_err();
            assert_eq!(check_nothing_follows(&mut reader, &error).is_ok(), is_end, "{after:?}");
        }
    }

    #[test]
    fn a_failed_read_after_damage_is_an_error_and_not_the_end() {
        use crate::format::record::{BLOCK_BYTES, HEADER_BYTES};
        let fs = SimFs::new(1);
        let path = Path::new("/log");
        let mut file = fs.create(path).unwrap();
        file.write(&[1; HEADER_BYTES]).unwrap();
        file.write(&[7; BLOCK_BYTES]).unwrap();
        let mut reader = LogReader::new(fs.open(path).unwrap(), path).unwrap();
        let error = reader.next().unwrap_err();
        assert!(error.is_corruption(), "{error}");
        fs.inject(Fault::io_error().on(&[OpKind::Read]).sticky());
        assert!(check_nothing_follows(&mut reader, &error).is_err());
    }

    #[test]
    fn a_manifest_may_name_tables_if_an_edit_does_or_cannot_be_read() {
        let fs = SimFs::new(1);
        fs.create_dir(Path::new(DIR)).unwrap();
        let empty = VersionEdit { log_number: Some(3), ..VersionEdit::default() };
        let table = testing::edit(["L1: 3:[a-c]"]);
        let may = |edits: &[VersionEdit]| {
            let path = manifest(&fs, 1, edits).path;
            may_name_tables(&fs, &path).map_err(|error| error.io_kind())
        };
        assert_eq!(may(&[]), Ok(false));
        assert_eq!(may(&[empty.clone(), empty.clone()]), Ok(false));
        assert_eq!(may(&[empty.clone(), table]), Ok(true));
        let path = manifest(&fs, 1, std::slice::from_ref(&empty)).path;
        let len = fs.len(&path).unwrap();
        fs.append(&path).unwrap().set_len(len - 1).unwrap();
        assert!(!may_name_tables(&fs, &path).unwrap(), "cut short");
        fs.inject(Fault::io_error().on(&[OpKind::Read]));
        may_name_tables(&fs, &path).unwrap_err();
    }

    #[test]
    fn a_manifest_is_overgrown_above_twice_its_version() {
        let fs = SimFs::new(1);
        fs.create_dir(Path::new(DIR)).unwrap();
        let edit = VersionEdit { log_number: Some(3), ..VersionEdit::default() };
        let mut manifest = manifest(&fs, 1, &[edit]);
        let len = manifest.log.len();
        let mut overgrown = |version_bytes, rotate_bytes| {
            manifest.version_bytes = version_bytes;
            manifest.is_overgrown(rotate_bytes)
        };
        assert!(overgrown(0, len - 1) && !overgrown(0, len));
        assert!(overgrown(len / 2 - 1, 0) && !overgrown(len.div_ceil(2), 0));
        assert!(!overgrown(len, 0) && !overgrown(len / 2 + 1, len - 1));
    }

    #[test]
    fn current_may_name_a_manifest_that_is_not_there_or_cannot_be_opened() {
        let fs = SimFs::new(1);
        fs.create_dir(Path::new(DIR)).unwrap();
        set_current(&fs, Path::new(DIR), 4).unwrap();
        let open = || open_manifest(&fs, Path::new(DIR)).map(|_| ()).unwrap_err();
        let missing = "CURRENT names MANIFEST-000004, which does not exist";
        let before = fs.counts().of(OpKind::Open);
        assert!(open().to_string().contains(missing));
        // CURRENT is read once more, because a writer may have replaced it, but not a third time.
        assert_eq!(fs.counts().of(OpKind::Open) - before, 3);
        manifest(&fs, 4, &[]);
        fs.inject(Fault::io_error().on(&[OpKind::Open]).path("*MANIFEST*"));
        assert!(!open().is_corruption());
        assert_eq!(open_manifest(&fs, Path::new(DIR)).unwrap().0, "MANIFEST-000004");
    }
}
