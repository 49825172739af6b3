//! A survey of a database's files: lists the live tables and logs without opening the database.
//!
//! The survey reads the MANIFEST, and reads the logs to count their batches. It fills no memtable
//! and opens no table, so it is cheap even for a large database.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use minikv::files::{BatchRecord, FileName, KeyKind, LogReader, NewFile, ParsedKey, Recovered};
use minikv::fs::{DiskFs, Fs};
use minikv::{BatchOp, BytewiseComparator, Comparator, Error, Feature, VerifyReport, files};

use crate::comparator;
use crate::damage::Damage;
use crate::error::{CliError, Result};
use crate::output;
use crate::table_file::open_table;

/// Maximum number of attempts to list the files while a writer keeps changing them. A higher limit
/// helps only if the writer never pauses.
const MAX_TRIES: usize = 50;

/// The live files of a database.
pub struct Survey {
    dir: PathBuf,
    /// The tables, ordered by level and then by number.
    pub tables: Vec<NewFile>,
    /// The logs, oldest first.
    pub logs: Vec<LogFile>,
}

/// A log whose entries are not in tables yet.
pub struct LogFile {
    pub path: PathBuf,
    pub bytes: u64,
    /// Number of batches that are not empty.
    pub batches: u64,
    /// The damage at which reading stopped, if any.
    pub damage: Option<Error>,
}

impl Survey {
    /// Returns a survey of the database in `dir`. If `any_order` is true, the database may use a
    /// comparator that this build does not know.
    pub fn of(dir: &Path, any_order: bool) -> Result<Survey> {
        if !files::has_database(&DiskFs, dir)? {
            return Err(CliError::Db(Error::DatabaseMissing { path: dir.to_path_buf() }));
        }
        let mut comparator = BytewiseComparator.name().to_string();
        if let Err(Error::Unsupported { what: Feature::Comparator, name, .. }) =
            files::recover_manifest(&DiskFs, dir, &comparator)
            && (any_order || comparator::named(&name).is_some())
        {
            comparator = name;
        }
        let mut tries = 0;
        loop {
            tries += 1;
            let before = files::recover_manifest(&DiskFs, dir, &comparator)?;
            let survey = survey(dir, &before);
            let after = files::recover_manifest(&DiskFs, dir, &comparator)?;
            let state = |recovered: &Recovered| (recovered.manifest_number, recovered.valid_end);
            if state(&before) == state(&after) || tries == MAX_TRIES {
                return survey;
            }
        }
    }

    /// Reports damage of logs on stderr.
    pub fn say_damage(&self) {
        for log in &self.logs {
            if let Some(damage) = &log.damage {
                output::say(format!("minikv: {damage}; `minikv verify` shows what is lost"));
            }
        }
    }

    /// Visits the newest version of each key, table by table and log by log. Skips keys whose
    /// newest version is a deletion.
    ///
    /// This function does not need the comparator, but holds all keys in memory.
    pub fn each_entry(&self, mut visit: impl FnMut(&[u8], &[u8]) -> Result<bool>) -> Result<()> {
        let mut newest: HashMap<Vec<u8>, u64> = HashMap::new();
        self.each_version(|key, seq, _| {
            match newest.get_mut(key) {
                Some(known) => *known = seq.max(*known),
                None => drop(newest.insert(key.to_vec(), seq)),
            }
            Ok(true)
        })?;
        self.each_version(|key, seq, value| match value {
            Some(value) if newest.get(key) == Some(&seq) => visit(key, value),
            _ => Ok(true),
        })
    }

    /// Calls `visit` with the key, the sequence number and the value of every version of every key,
    /// until `visit` returns false. The value of a deletion is `None`.
    fn each_version(
        &self,
        mut visit: impl FnMut(&[u8], u64, Option<&[u8]>) -> Result<bool>,
    ) -> Result<()> {
        for table in &self.tables {
            if !each_in_table(&self.table_path(table.number), &mut visit)? {
                return Ok(());
            }
        }
        for log in &self.logs {
            if !each_in_log(&log.path, &mut visit)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Checks every block and record, and returns the report. The order of keys, the ranges of
    /// tables and the answers of filters cannot be checked without a comparator.
    pub fn verify(&self, mut progress: impl FnMut(u64, u64)) -> Result<VerifyReport> {
        let mut report = VerifyReport::default();
        let table_bytes = self.tables.iter().map(|table| table.file_bytes);
        let table_bytes = table_bytes.fold(0, u64::saturating_add);
        for table in &self.tables {
            verify_table(&self.table_path(table.number), &mut report)?;
            report.bytes = report.bytes.saturating_add(table.file_bytes);
            progress(report.bytes, table_bytes);
        }
        for log in &self.logs {
            report.logs += 1;
            report.batches += log.batches;
            report.bytes = report.bytes.saturating_add(log.bytes);
            if let Some(damage) = &log.damage {
                add_fault(&mut report, damage.clone())?;
            }
        }
        Ok(report)
    }

    fn table_path(&self, number: u64) -> PathBuf {
        let path = |legacy_sst| self.dir.join(FileName::Table { number, legacy_sst }.to_string());
        match DiskFs.exists(&path(false)) {
            Ok(true) => path(false),
            _ => path(true),
        }
    }
}

fn verify_table(path: &Path, report: &mut VerifyReport) -> Result<()> {
    report.tables += 1;
    let table = match open_table(path) {
        Ok(table) => table,
        Err(CliError::Db(error)) => return add_fault(report, error.in_file(path)),
        Err(error) => return Err(error),
    };
    if let Some(error) = table.filter_error() {
        add_fault(report, error.clone().in_file(path))?;
    }
    let blocks = match table.blocks() {
        Ok(blocks) => blocks,
        Err(error) => return add_fault(report, error.in_file(path)),
    };
    for info in blocks {
        let offset = info.handle.offset;
        let counted = table.read_block(info.handle).and_then(|block| {
            let mut entries = block.entries();
            while let Some((key, _)) = entries.next()? {
                ParsedKey::parse(key).map_err(|error| error.at(offset).in_file(path))?;
                report.entries += 1;
            }
            Ok(())
        });
        if let Err(error) = counted {
            add_fault(report, error)?;
        }
    }
    Ok(())
}

/// Adds `error` to the report if it is damage; returns any other error.
fn add_fault(report: &mut VerifyReport, error: Error) -> Result<()> {
    let Error::Corruption(fault) = error else { return Err(error.into()) };
    report.fault_count += 1;
    report.faults.push((*fault).clone());
    Ok(())
}

fn survey(dir: &Path, recovered: &Recovered) -> Result<Survey> {
    let files = files::list_files(&DiskFs, dir)?;
    files::check_files(dir, &files, recovered, false)?;
    let mut logs = Vec::new();
    for number in files::live_logs(&files, recovered) {
        let log = LogFile::read(dir.join(FileName::Log(number).to_string()))?;
        let ends = log.damage.is_some();
        logs.push(log);
        // Logs after a damaged log are not live.
        if ends {
            break;
        }
    }
    Ok(Survey { dir: dir.to_path_buf(), tables: recovered.edit.new_files.clone(), logs })
}

impl LogFile {
    fn read(path: PathBuf) -> Result<LogFile> {
        let (reader, bytes) = open_log(&path)?;
        let mut batches = 0;
        let damage = each_batch(reader, &path, |batch| {
            batches += u64::from(batch.count > 0);
            Ok(true)
        })?;
        Ok(LogFile { path, bytes, batches, damage })
    }
}

fn open_log(path: &Path) -> Result<(LogReader, u64)> {
    let file = DiskFs.open(path).map_err(|error| CliError::io("open", path, error))?;
    let bytes = file.len().map_err(|error| CliError::io("read", path, error))?;
    Ok((LogReader::of_batches(file, path)?.beside_writer(true), bytes))
}

/// Visits the batches of the log `path` until `visit` returns false. Ends at damage, which it
/// returns. As when a database is opened, a batch with a malformed operation is damaged as a whole.
fn each_batch(
    mut reader: LogReader,
    path: &Path,
    mut visit: impl FnMut(&BatchRecord<'_>) -> Result<bool>,
) -> Result<Option<Error>> {
    loop {
        let checked = match reader.next() {
            Ok(None) => return Ok(None),
            Ok(Some(record)) => checked_batch(record),
            Err(error) if error.is_corruption() => return Ok(Some(error)),
            Err(error) => return Err(error.into()),
        };
        match checked {
            Ok(batch) if visit(&batch)? => {}
            Ok(_) => return Ok(None),
            Err(error) => {
                let error = error.at(reader.record_offset()).in_file(path);
                return if error.is_corruption() { Ok(Some(error)) } else { Err(error.into()) };
            }
        }
    }
}

fn checked_batch(record: &[u8]) -> Result<BatchRecord<'_>, Error> {
    let batch = BatchRecord::parse(record)?;
    batch.operations().try_for_each(|operation| operation.map(drop))?;
    Ok(batch)
}

fn each_in_table(
    path: &Path,
    visit: &mut impl FnMut(&[u8], u64, Option<&[u8]>) -> Result<bool>,
) -> Result<bool> {
    let table = open_table(path)?;
    for info in table.blocks()? {
        let at = |error: Error| error.at(info.handle.offset).in_file(path);
        let mut entries = table.read_block(info.handle)?.entries();
        while let Some((key, value)) = entries.next()? {
            let key = ParsedKey::parse(key).map_err(at)?;
            if !visit(key.user_key, key.seq, (key.kind == KeyKind::Value).then_some(value))? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn each_in_log(
    path: &Path,
    visit: &mut impl FnMut(&[u8], u64, Option<&[u8]>) -> Result<bool>,
) -> Result<bool> {
    let mut goes_on = true;
    // The survey has found the damage, too.
    each_batch(open_log(path)?.0, path, |batch| {
        for (seq, operation) in (batch.sequence..).zip(batch.operations()) {
            goes_on = match operation? {
                BatchOp::Put { key, value } => visit(key, seq, Some(value))?,
                BatchOp::Delete { key } => visit(key, seq, None)?,
            };
            if !goes_on {
                break;
            }
        }
        Ok(goes_on)
    })?;
    Ok(goes_on)
}

/// Returns whether `dir` has files for `destroy` to remove: a database, or the remains of a
/// database whose removal was interrupted.
pub fn has_remains(dir: &Path) -> Result<bool> {
    let files = match files::list_files(&DiskFs, dir) {
        Ok(files) => files,
        Err(error) if error.io_kind() == Some(std::io::ErrorKind::NotFound) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    // A log or a table alone may be another program's, so only CURRENT, LOCK and MANIFESTs count.
    Ok(files.iter().any(|(_, name)| {
        matches!(name, FileName::Current | FileName::Manifest(_) | FileName::Lock)
    }))
}
