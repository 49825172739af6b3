//! Surveys all files of a database, which may be damaged, without changing them. `verify` and
//! `repair` are based on this survey.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use crate::admin::findings::Findings;
use crate::admin::logs::{self, LogFacts};
use crate::admin::manifest::{self, Manifest};
use crate::admin::tables::{self, TableFacts};
use crate::base::{Error, Result};
use crate::engine::open::check;
use crate::engine::open::directory;
use crate::engine::open::entries::{self, DirListing};
use crate::engine::options::Options;
use crate::engine::version::manifest::read_current;
use crate::filter::{BloomFilterPolicy, FilterPolicy};
use crate::format::edit::{NUM_LEVELS, NewFile};
use crate::format::key::{InternalComparator, KeyOrder};
use crate::format::name::{self, FileName};
use crate::fs::Fs;
use crate::table::reader::TableContext;

/// The results of a survey.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// The names of the database's files in its directory.
    pub files: Vec<(String, FileName)>,
    /// The file numbers that new files must not get.
    pub taken: Vec<(String, FileName)>,
    /// Whether `CURRENT` names the MANIFEST in `manifest`.
    pub has_current: bool,
    /// The MANIFEST to use, if there is one.
    pub manifest: Option<Manifest>,
    /// Reason why the MANIFEST may lack its last edits; `None` if the MANIFEST is trusted. If it is
    /// not trusted, tables that are missing from it are also used.
    pub distrust: Option<String>,
    /// The tables that were read: the tables that the MANIFEST names and, if the MANIFEST is not
    /// trusted, the tables that it neither names nor removes.
    pub tables: BTreeMap<u64, TableFacts>,
    /// The logs that are live according to the MANIFEST; all logs if there is no MANIFEST.
    pub logs: Vec<LogFacts>,
    /// Whether sequence numbers are missing before the first number in a log, which means that the
    /// writes with these numbers are lost.
    pub has_gap: bool,
}

/// Returns the context for reading tables, with all known filters and without a block cache.
pub(crate) fn table_context(options: &Options) -> TableContext {
    let default = || {
        let bytes_matter = options.comparator.equal_means_same_bytes();
        bytes_matter.then(|| Arc::new(BloomFilterPolicy::new(10)) as Arc<dyn FilterPolicy>)
    };
    TableContext {
        order: KeyOrder::Internal(InternalComparator::new(options.comparator.clone())),
        filter_policy: options.usable_filter_policy().or_else(default),
        prefix_extractor: options.prefix_extractor.clone(),
        block_cache: None,
        paranoid: false,
    }
}

/// Returns a survey of the database in `dir`. Adds the faults of the database to `findings`.
///
/// # Errors
/// [`Error::DatabaseMissing`]; [`Error::Unsupported`] if the database has another comparator or an
/// edit is of an unknown kind; an I/O error of the directory.
pub(crate) fn survey(dir: &Path, options: &Options, findings: &mut Findings<'_>) -> Result<Survey> {
    let fs = &*options.fs;
    match directory::has_database(fs, dir) {
        Ok(true) => {}
        Ok(false) => return Err(Error::DatabaseMissing { path: dir.to_path_buf() }),
        Err(error) if error.is_corruption() => {}
        Err(error) => return Err(error),
    }
    let DirListing { mut files, directories } = entries::entries(fs, dir)?;
    files.sort_by(|a, b| a.0.cmp(&b.0));
    let taken = [&files[..], &directories].concat();
    let mut survey = Survey { files, taken, ..Survey::default() };
    survey.choose_manifest(fs, dir, options.comparator.name(), findings)?;
    let next_number = survey.manifest.as_ref().map_or(0, Manifest::next_number);
    if let Err(error) = directory::check_numbers(dir, &survey.taken, next_number) {
        findings.fault(error, dir);
    }
    let live_from =
        |manifest: &Manifest| (manifest.log_number.unwrap_or(0), manifest.prev_log_number);
    let (log_number, prev) = survey.manifest.as_ref().map_or((0, 0), live_from);
    directory::check_no_live_directory(dir, &directories, log_number, prev)?;
    let order = InternalComparator::new(options.comparator.clone());
    survey.weigh_manifest(fs, dir, &order, findings);
    survey.read_tables(fs, dir, &table_context(options), findings);
    survey.read_logs(fs, dir, findings)?;
    Ok(survey)
}

impl Survey {
    /// Returns the tables that the MANIFEST names, by file number.
    pub(crate) fn named(&self) -> BTreeMap<u64, &NewFile> {
        let files = self.manifest.iter().flat_map(|manifest| manifest.files());
        files.map(|file| (file.number, file)).collect()
    }

    /// Returns the file name of a table, if the file exists.
    fn table_file(&self, number: u64) -> Option<&str> {
        let found = self.files.iter().find(|(_, name)| match name {
            FileName::Table { number: other, .. } => *other == number,
            _ => false,
        });
        found.map(|(file, _)| file.as_str())
    }

    /// Chooses the MANIFEST to use. The candidates, in order of preference, are the MANIFEST that
    /// `CURRENT` names, if it is undamaged; the newest other MANIFEST that is undamaged and whose
    /// tables all exist; the damaged MANIFEST that `CURRENT` names; the best of the other
    /// MANIFESTs.
    fn choose_manifest(
        &mut self,
        fs: &dyn Fs,
        dir: &Path,
        comparator: &str,
        findings: &mut Findings<'_>,
    ) -> Result<()> {
        let current = self.read_current_manifest(fs, dir, comparator, findings)?;
        if current.as_ref().is_some_and(|manifest| manifest.damage.is_none()) {
            self.has_current = true;
            self.manifest = current;
            return Ok(());
        }
        let best = self.best_other(fs, dir, comparator, current.as_ref(), findings)?;
        (self.has_current, self.manifest) = match (current, best) {
            (_, Some((Soundness::Whole, other))) => (false, Some(other)),
            (Some(current), _) => (true, Some(current)),
            (None, best) => (false, best.map(|(_, other)| other)),
        };
        debug_assert!(self.manifest.is_some() || !self.has_current, "CURRENT names no MANIFEST");
        Ok(())
    }

    /// Reads the MANIFEST that `CURRENT` names. Returns `None` if `CURRENT` names no MANIFEST.
    fn read_current_manifest(
        &self,
        fs: &dyn Fs,
        dir: &Path,
        comparator: &str,
        findings: &mut Findings<'_>,
    ) -> Result<Option<Manifest>> {
        match read_current(fs, dir) {
            Ok(named) => {
                findings.expect(fs.len(&dir.join(&named)).unwrap_or(0));
                manifest::read(fs, dir, &named, comparator, findings).map(Some)
            }
            Err(error) => {
                let missing = error.io_kind() == Some(std::io::ErrorKind::NotFound);
                let error = match missing {
                    true => {
                        Error::corruption("there is no CURRENT, but there are files of a database")
                    }
                    false => error,
                };
                findings.fault(error, &dir.join(name::CURRENT));
                Ok(None)
            }
        }
    }

    /// Returns the best MANIFEST other than `current`, as ordered by [`Soundness`]. If several
    /// MANIFESTs are equally good, returns the newest. If `current` is `None`, also adds a
    /// fault for each damaged MANIFEST that was read.
    fn best_other(
        &self,
        fs: &dyn Fs,
        dir: &Path,
        comparator: &str,
        current: Option<&Manifest>,
        findings: &mut Findings<'_>,
    ) -> Result<Option<(Soundness, Manifest)>> {
        let mut numbers: Vec<(u64, &str)> = self
            .files
            .iter()
            .filter_map(|(file, name)| match name {
                FileName::Manifest(number) => Some((*number, file.as_str())),
                _ => None,
            })
            .filter(|(_, file)| current.is_none_or(|current| current.path != dir.join(file)))
            .collect();
        numbers.sort();
        let mut best: Option<(Soundness, Manifest)> = None;
        for (_, file) in numbers.into_iter().rev() {
            let mut no_progress = |_| {};
            let mut apart = Findings::new(&mut no_progress);
            let other = manifest::read(fs, dir, file, comparator, &mut apart)?;
            let soundness = self.soundness(&other);
            if let Some(damage) = other.damage.clone().filter(|_| current.is_none()) {
                findings.fault(damage, &other.path);
            }
            if best.as_ref().is_none_or(|(best, _)| soundness < *best) {
                best = Some((soundness, other));
            }
            if soundness == Soundness::Whole {
                break;
            }
        }
        Ok(best)
    }

    fn soundness(&self, manifest: &Manifest) -> Soundness {
        if manifest.damage.is_some() {
            Soundness::Damaged
        } else if manifest.files().all(|table| self.table_file(table.number).is_some()) {
            Soundness::Whole
        } else {
            Soundness::TablesMissing
        }
    }

    /// Decides whether the MANIFEST can be trusted to contain all edits.
    fn weigh_manifest(
        &mut self,
        fs: &dyn Fs,
        dir: &Path,
        order: &InternalComparator,
        findings: &mut Findings<'_>,
    ) {
        let Some(manifest) = &self.manifest else {
            self.distrust = Some("there is no MANIFEST".to_owned());
            let has_current = self.files.iter().any(|(_, name)| *name == FileName::Current);
            if has_current {
                findings.fault(Error::corruption("there is no MANIFEST"), dir);
            }
            return;
        };
        check_levels(manifest, order, findings);
        self.distrust = match &manifest.damage {
            Some(damage) => Some(damage.to_string()),
            None => self.signs_of_lost_edits(fs, dir, order, manifest, findings),
        };
    }

    /// If there is evidence that an undamaged MANIFEST lacks its last edits, returns a description
    /// of the evidence. Adds a fault if the evidence is conclusive.
    fn signs_of_lost_edits(
        &self,
        fs: &dyn Fs,
        dir: &Path,
        order: &InternalComparator,
        manifest: &Manifest,
        findings: &mut Findings<'_>,
    ) -> Option<String> {
        let named: BTreeSet<u64> = manifest.files().map(|file| file.number).collect();
        let log_number = manifest.log_number.unwrap_or(0);
        let lost = check::lost_edits(fs, dir, order, &self.files, &manifest.recovered());
        let lost = lost.unwrap_or_else(|error| {
            // A table that the MANIFEST does not name may not be read again. Other errors are those
            // of logs, and are found when the logs are read.
            if matches!(error, Error::Unsupported { .. }) {
                findings.fault(error, dir);
            }
            None
        });
        if let Some(what) = lost {
            let error = Error::corruption(what.clone()).at(manifest.valid_end);
            findings.fault(error, &manifest.path);
            return Some(what);
        }
        let missing = named.iter().any(|&number| self.table_file(number).is_none());
        let newer = self.files.iter().any(|(_, name)| match name {
            FileName::Table { number, .. } => *number > log_number && !named.contains(number),
            _ => false,
        });
        let what = "tables that the MANIFEST names are missing, and there are newer ones that it \
                    does not name";
        (missing && newer).then(|| what.to_owned())
    }

    fn read_tables(
        &mut self,
        fs: &dyn Fs,
        dir: &Path,
        context: &TableContext,
        findings: &mut Findings<'_>,
    ) {
        let named: BTreeMap<u64, NewFile> =
            self.named().into_iter().map(|(number, file)| (number, file.clone())).collect();
        let gone = self.manifest.as_ref().map(|manifest| manifest.gone.clone());
        let gone = gone.unwrap_or_default();
        let mut wanted: BTreeSet<u64> = named.keys().copied().collect();
        for (file, name) in &self.files {
            let FileName::Table { number, .. } = name else { continue };
            if named.contains_key(number) {
                continue;
            }
            if self.distrust.is_some() && !gone.contains(number) {
                wanted.insert(*number);
            } else {
                let what = "no MANIFEST names it: the next open removes it";
                findings.note(&dir.join(file), None, what.to_owned());
            }
        }
        let paths: Vec<(u64, std::path::PathBuf)> = wanted
            .into_iter()
            .map(|number| {
                let file = self.table_file(number).map(str::to_owned);
                (number, dir.join(file.unwrap_or_else(|| name::table_name(number))))
            })
            .collect();
        for (_, path) in &paths {
            findings.expect(fs.len(path).unwrap_or(0));
        }
        for (number, path) in paths {
            let recorded = named.get(&number);
            if self.table_file(number).is_none() {
                let level = recorded.map_or(NUM_LEVELS, |file| file.level);
                let what = format!("a table of level {level} is missing");
                findings.fault(Error::corruption(what), &path);
                continue;
            }
            let facts = tables::examine(fs, &path, number, recorded, context, findings);
            self.tables.extend(facts.map(|facts| (number, facts)));
        }
    }

    fn read_logs(&mut self, fs: &dyn Fs, dir: &Path, findings: &mut Findings<'_>) -> Result<()> {
        let (first, prev, last_seq) = match &self.manifest {
            Some(manifest) => (
                manifest.log_number.unwrap_or(0),
                manifest.prev_log_number,
                manifest.last_seq.unwrap_or(0),
            ),
            None => (0, 0, 0),
        };
        let all: BTreeSet<u64> = self
            .files
            .iter()
            .filter_map(|(_, name)| match name {
                FileName::Log(number) => Some(*number),
                _ => None,
            })
            .collect();
        let is_live = |number: &u64| directory::is_live(*number, first, prev);
        let live: Vec<u64> = all.into_iter().filter(is_live).collect();
        for &number in &live {
            findings.expect(fs.len(&dir.join(name::log_name(number))).unwrap_or(0));
        }
        let mut end = last_seq;
        for number in live {
            let facts = logs::examine(fs, dir, number, end, findings)?;
            if let Some((offset, what)) = &facts.gap
                && self.distrust.is_none()
            {
                self.has_gap = true;
                findings.fault(Error::corruption(what.clone()).at(*offset), &facts.path);
            }
            end = end.max(facts.max_seq);
            self.logs.push(facts);
        }
        Ok(())
    }
}

/// The reliability of a MANIFEST other than the current one. The first variant is the most
/// reliable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Soundness {
    /// The MANIFEST is undamaged, and all its tables exist.
    Whole,
    /// The MANIFEST is undamaged, but some of its tables are missing.
    TablesMissing,
    /// The MANIFEST has a bad record.
    Damaged,
}

/// Checks that no table is listed twice, and that the tables of a sorted level are disjoint.
fn check_levels(manifest: &Manifest, order: &InternalComparator, findings: &mut Findings<'_>) {
    let mut fault = |what| findings.fault(Error::corruption(what), &manifest.path);
    let mut levels = BTreeMap::new();
    for NewFile { number, level, .. } in manifest.files() {
        if let Some(other) = levels.insert(number, level) {
            fault(format!("table {number:06} is listed at level {other} and at level {level}"));
        }
    }
    for (level, files) in manifest.levels.iter().enumerate().skip(1) {
        let mut files: Vec<&NewFile> = files.values().collect();
        files.sort_by(|a, b| order.compare(&a.smallest, &b.smallest));
        for pair in files.windows(2) {
            if order.compare(&pair[0].largest, &pair[1].smallest).is_ge() {
                let (a, b) = (pair[0].number, pair[1].number);
                fault(format!("tables {a:06} and {b:06} of level {level} overlap"));
            }
        }
    }
}

#[cfg(test)]
mod transcripts;
