//! Reads the MANIFEST of a followed database, and continues as edits are appended to it.

use std::path::{Path, PathBuf};

use crate::base::{Error, Feature, Result};
use crate::engine::open::read_only::ReadOnlyFiles;
use crate::engine::version::manifest;
use crate::engine::version::manifest::Recovered;
use crate::format::edit::VersionEdit;
use crate::fs::Fs;
use crate::log::LogReader;

/// A MANIFEST, and the position up to which it was read.
#[derive(Debug)]
pub(super) struct Edits {
    name: String,
    path: PathBuf,
    reader: LogReader,
    /// The numbers in the edits read so far. (The tables are in the version.)
    pub numbers: Recovered,
}

impl Edits {
    /// Returns the MANIFEST of `survey`, positioned where the survey stopped reading.
    pub(super) fn after(dir: &Path, survey: ReadOnlyFiles) -> Result<Edits> {
        let path = dir.join(&survey.manifest_name);
        let reader = LogReader::new(survey.manifest, &path)?.beside_writer(true);
        let reader = reader.starting_at(survey.recovered.valid_end, None);
        let numbers = Recovered { edit: VersionEdit::default(), ..survey.recovered };
        Ok(Edits { name: survey.manifest_name, path, reader, numbers })
    }

    /// Reads the edits appended since the last read, and merges them into `net`. Returns whether
    /// there were any edits; `None` if `CURRENT` now names another MANIFEST, or if another file has
    /// replaced the MANIFEST under the same name.
    ///
    /// # Errors
    /// Corruption of `CURRENT` or the MANIFEST; a different comparator; I/O errors.
    pub(super) fn read_on(
        &mut self,
        fs: &dyn Fs,
        dir: &Path,
        comparator: &str,
        net: &mut VersionEdit,
    ) -> Result<Option<bool>> {
        let (name, file) = manifest::open_manifest(fs, dir)?;
        let failed = |error| Error::io("read", &self.path, error);
        let was = self.reader.file().identity().map_err(failed)?;
        if name != self.name || file.identity().map_err(failed)? != was {
            return Ok(None);
        }
        let mut changed = false;
        self.reader.resume()?;
        while let Some(record) = self.reader.next()? {
            let edit = VersionEdit::decode(record)
                .map_err(|error| error.in_file(&self.path).at(self.reader.record_offset()))?;
            if let Some(found) = edit.comparator.as_deref().filter(|found| *found != comparator) {
                return Err(Error::unsupported(Feature::Comparator, found).in_file(&self.path));
            }
            let numbers = &mut self.numbers;
            numbers.log_number = edit.log_number.unwrap_or(numbers.log_number);
            numbers.prev_log_number = edit.prev_log_number.unwrap_or(numbers.prev_log_number);
            numbers.last_seq = edit.last_seq.unwrap_or(numbers.last_seq);
            merge(net, edit);
            changed = true;
        }
        Ok(Some(changed))
    }
}

/// Adds the changes of `edit` to `net`, so that applying `net` has the effect of both edits.
fn merge(net: &mut VersionEdit, edit: VersionEdit) {
    let added = |net: &VersionEdit, level, number| {
        net.new_files.iter().position(|new| (new.level, new.number) == (level, number))
    };
    for (level, number) in edit.deleted_files {
        if let Some(at) = added(net, level, number) {
            net.new_files.remove(at);
        }
        net.deleted_files.push((level, number));
    }
    for new in edit.new_files {
        if let Some(at) = added(net, new.level, new.number) {
            net.new_files.remove(at);
        }
        net.new_files.push(new);
    }
}
