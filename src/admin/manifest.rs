//! Reading a MANIFEST that may be damaged: its contents up to the first bad record, and the
//! information in the later records that are readable.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::admin::findings::Findings;
use crate::base::{Error, Feature, Result};
use crate::engine::version::manifest::Recovered;
use crate::format::edit::{NUM_LEVELS, NewFile, VersionEdit};
use crate::format::key::SeqNo;
use crate::fs::Fs;
use crate::log::{LogReader, Tail};

/// The contents of a MANIFEST.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    /// The path of the file.
    pub path: PathBuf,
    /// The tables of each level, according to the records before the first bad record.
    pub levels: [BTreeMap<u64, NewFile>; NUM_LEVELS],
    /// The log number in the last record before the first bad one, or the highest in any readable
    /// record after it.
    pub log_number: Option<u64>,
    /// The previous log number, according to the records before the first bad record.
    pub prev_log_number: u64,
    /// The next file number, chosen as `log_number` is.
    pub next_file_number: Option<u64>,
    /// The last sequence number, chosen as `log_number` is.
    pub last_seq: Option<SeqNo>,
    /// Number of records before the first bad record.
    pub records: u64,
    /// Offset, in bytes, of the end of the last record before the first bad record.
    pub valid_end: u64,
    /// The first fault.
    pub damage: Option<Error>,
    /// Tables that a readable record removes and that no later readable record adds again.
    pub gone: BTreeSet<u64>,
}

impl Manifest {
    /// Returns all tables, starting at level 0.
    pub(crate) fn files(&self) -> impl Iterator<Item = &NewFile> {
        self.levels.iter().flat_map(|level| level.values())
    }

    /// Returns the first file number that may be handed out, as
    /// [`Recovered::next_number`](crate::engine::version::manifest::Recovered::next_number) does.
    pub(crate) fn next_number(&self) -> u64 {
        self.next_file_number.unwrap_or(0).max(self.above_logs())
    }

    /// Returns the first number above those of the logs that the MANIFEST names.
    pub(crate) fn above_logs(&self) -> u64 {
        self.log_number.unwrap_or(0).max(self.prev_log_number).saturating_add(1)
    }

    /// Returns the numbers and tables of an undamaged MANIFEST as an open recovers them.
    pub(crate) fn recovered(&self) -> Recovered {
        let new_files = self.files().cloned().collect();
        Recovered {
            edit: VersionEdit { new_files, ..VersionEdit::default() },
            log_number: self.log_number.unwrap_or(0),
            prev_log_number: self.prev_log_number,
            last_seq: self.last_seq.unwrap_or(0),
            ..Recovered::default()
        }
    }

    fn apply(&mut self, edit: VersionEdit) {
        for (level, number) in edit.deleted_files {
            self.gone.insert(number);
            if self.damage.is_none() {
                self.levels[level].remove(&number);
            }
        }
        for file in edit.new_files {
            self.gone.remove(&file.number);
            if self.damage.is_none() {
                self.levels[file.level].insert(file.number, file);
            }
        }
        if self.damage.is_none() {
            self.prev_log_number = edit.prev_log_number.unwrap_or(self.prev_log_number);
            self.records += 1;
            // The last edit counts, as in an open.
            self.log_number = edit.log_number.or(self.log_number);
            self.next_file_number = edit.next_file_number.or(self.next_file_number);
            self.last_seq = edit.last_seq.or(self.last_seq);
            return;
        }
        self.log_number = self.log_number.max(edit.log_number);
        self.next_file_number = self.next_file_number.max(edit.next_file_number);
        self.last_seq = self.last_seq.max(edit.last_seq);
    }

    fn fault(&mut self, error: Error, findings: &mut Findings<'_>) {
        findings.fault(error.clone(), &self.path);
        self.damage.get_or_insert(error);
    }
}

/// Reads the MANIFEST `file`. Returns its contents, and adds its faults to `findings`.
///
/// # Errors
/// [`Error::Unsupported`] if the database has another comparator or an edit has an unknown tag.
pub(crate) fn read(
    fs: &dyn Fs,
    dir: &Path,
    file: &str,
    comparator: &str,
    findings: &mut Findings<'_>,
) -> Result<Manifest> {
    let path = dir.join(file);
    let mut manifest = Manifest { path: path.clone(), ..Manifest::default() };
    let opened = fs.open(&path).map_err(|error| Error::io("open", &path, error));
    let mut reader = match opened.and_then(|file| LogReader::new(file, &path)) {
        Ok(reader) => reader.beside_writer(findings.beside_writer),
        Err(error) => {
            manifest.fault(error, findings);
            return Ok(manifest);
        }
    };
    if !manifest.read_edits(&mut reader, comparator, findings)? {
        return Ok(manifest);
    }
    findings.advance(reader.valid_end());
    if manifest.damage.is_none() {
        manifest.check_complete(findings);
        if let Tail::Torn { offset, bytes } = reader.tail() {
            let what = format!("ends in {bytes} bytes of an incomplete record");
            findings.note(&path, Some(offset), what);
        }
    }
    Ok(manifest)
}

impl Manifest {
    /// Applies all readable edits. Returns `false` if an I/O error prevented reading to the end.
    ///
    /// # Errors
    /// The same as for [`read`].
    fn read_edits(
        &mut self,
        reader: &mut LogReader,
        comparator: &str,
        findings: &mut Findings<'_>,
    ) -> Result<bool> {
        loop {
            match reader.next() {
                Ok(None) => return Ok(true),
                Ok(Some(record)) => match VersionEdit::decode(record) {
                    Ok(edit) => {
                        if let Some(found) = &edit.comparator
                            && found != comparator
                        {
                            return Err(
                                Error::unsupported(Feature::Comparator, found).in_file(&self.path)
                            );
                        }
                        self.apply(edit);
                    }
                    // Return the error only if there was no damage before: after damage, a record
                    // may be joined from fragments of different records.
                    Err(error @ Error::Unsupported { .. }) if self.damage.is_none() => {
                        return Err(error.in_file(&self.path));
                    }
                    Err(error) => self.fault(error.at(reader.record_offset()), findings),
                },
                Err(error) => {
                    let is_corruption = error.is_corruption();
                    self.fault(error, findings);
                    if !is_corruption {
                        return Ok(false);
                    }
                    reader.skip_damage();
                }
            }
            if self.damage.is_none() {
                self.valid_end = reader.valid_end();
            }
        }
    }

    /// Checks that the edits have every field that an open needs.
    fn check_complete(&mut self, findings: &mut Findings<'_>) {
        let missing = [
            ("log number", self.log_number.is_none()),
            ("next file number", self.next_file_number.is_none()),
            ("last sequence number", self.last_seq.is_none()),
        ];
        for (what, _) in missing.into_iter().filter(|(_, is_missing)| *is_missing) {
            self.fault(Error::corruption(format!("no {what} in any edit")), findings);
        }
    }
}
