//! A survey of all files of a database in any state, on which `verify` and `repair` are based.
//! Changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use crate::admin::findings::Findings;
use crate::admin::logs::{self, LogFacts};
use crate::admin::manifest::{self, Manifest};
use crate::admin::tables::{self, TableFacts};
use crate::base::{Error, Result};
use crate::engine::open::directory;
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
pub struct Survey {
    /// The names of the database's files in its directory.
    pub files: Vec<(String, FileName)>,
    /// Whether `CURRENT` names the MANIFEST in `manifest`.
    pub has_current: bool,
    /// The MANIFEST that is used, if there is any.
    pub manifest: Option<Manifest>,
    /// Why the MANIFEST may lack its last edits, if it may. Then tables that it does not name
    /// count, too.
    pub distrust: Option<String>,
    /// The tables that were read: those that the MANIFEST names and, if it is distrusted, those
    /// that it neither names nor removes.
    pub tables: BTreeMap<u64, TableFacts>,
    /// The live logs according to the MANIFEST; all logs if there is none.
    pub logs: Vec<LogFacts>,
    /// Whether a log begins after the end of the previous one.
    pub has_gap: bool,
}

/// Returns the context for reading tables: all known filters, no cache.
pub fn table_context(options: &Options) -> TableContext {
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

/// Surveys the database in `dir`. Faults go to `findings`.
///
/// # Errors
/// [`Error::DatabaseMissing`]; [`Error::Unsupported`] for another comparator or an unknown edit; an
/// I/O error of the directory.
pub fn survey(dir: &Path, options: &Options, findings: &mut Findings<'_>) -> Result<Survey> {
    let fs = &*options.fs;
    match directory::has_database(fs, dir) {
        Ok(true) => {}
        Ok(false) => return Err(Error::DatabaseMissing { path: dir.to_path_buf() }),
        Err(error) if error.is_corruption() => {}
        Err(error) => return Err(error),
    }
    let mut survey = Survey { files: directory::list(fs, dir)?, ..Survey::default() };
    survey.files.sort_by(|a, b| a.0.cmp(&b.0));
    if let Err(error) = directory::check_numbers(dir, &survey.files, 0) {
        findings.fault(error, dir);
    }
    survey.choose_manifest(fs, dir, options.comparator.name(), findings)?;
    survey.weigh_manifest(dir, &InternalComparator::new(options.comparator.clone()), findings);
    survey.read_tables(fs, dir, &table_context(options), findings);
    survey.read_logs(fs, dir, findings);
    Ok(survey)
}

impl Survey {
    /// Returns the tables that the MANIFEST names, by number.
    pub fn named(&self) -> BTreeMap<u64, &NewFile> {
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

    /// Reads the MANIFEST that `CURRENT` names. If it is damaged, uses instead the newest other
    /// MANIFEST that is undamaged and whose tables all exist.
    fn choose_manifest(
        &mut self,
        fs: &dyn Fs,
        dir: &Path,
        comparator: &str,
        findings: &mut Findings<'_>,
    ) -> Result<()> {
        let mut others: Vec<(u64, String)> = self
            .files
            .iter()
            .filter_map(|(file, name)| match name {
                FileName::Manifest(number) => Some((*number, file.clone())),
                _ => None,
            })
            .collect();
        others.sort();
        let mut best: Option<Manifest> = None;
        match read_current(fs, dir) {
            Ok(named) => {
                findings.expect(fs.len(&dir.join(&named)).unwrap_or(0));
                let manifest = manifest::read(fs, dir, &named, comparator, findings)?;
                if manifest.damage.is_none() {
                    self.has_current = true;
                    self.manifest = Some(manifest);
                    return Ok(());
                }
                others.retain(|(_, file)| *file != named);
                best = Some(manifest);
            }
            Err(error) => {
                let missing = error.io_kind() == Some(std::io::ErrorKind::NotFound);
                let error = match missing {
                    true => Error::corruption("there is no CURRENT, but files of a database are"),
                    false => error,
                };
                findings.fault(error, &dir.join(name::CURRENT));
            }
        }
        let is_from_current = best.is_some();
        for (_, file) in others.into_iter().rev() {
            let mut unheard = |_| {};
            let mut apart = Findings::new(&mut unheard);
            let other = manifest::read(fs, dir, &file, comparator, &mut apart)?;
            let is_whole = other.damage.is_none()
                && other.files().all(|table| self.table_file(table.number).is_some());
            if is_whole {
                self.manifest = Some(other);
                return Ok(());
            }
            if let Some(damage) = other.damage.clone().filter(|_| !is_from_current) {
                findings.fault(damage, &other.path);
            }
            let is_better = best.as_ref().is_none_or(|best| {
                !is_from_current && best.damage.is_some() && other.damage.is_none()
            });
            if is_better {
                best = Some(other);
            }
        }
        self.has_current = is_from_current;
        self.manifest = best;
        Ok(())
    }

    /// Decides whether the MANIFEST can be trusted.
    fn weigh_manifest(
        &mut self,
        dir: &Path,
        order: &InternalComparator,
        findings: &mut Findings<'_>,
    ) {
        let Some(manifest) = &self.manifest else {
            self.distrust = Some("there is no MANIFEST".to_owned());
            let anything = self.files.iter().any(|(_, name)| *name == FileName::Current);
            if anything {
                findings.fault(Error::corruption("there is no MANIFEST"), dir);
            }
            return;
        };
        let path = manifest.path.clone();
        if let Some(damage) = &manifest.damage {
            self.distrust = Some(damage.to_string());
        }
        let mut levels = BTreeMap::new();
        for file in manifest.files() {
            if let Some(other) = levels.insert(file.number, file.level) {
                let what = format!(
                    "table {:06} is listed at level {other} and at level {}",
                    file.number, file.level
                );
                findings.fault(Error::corruption(what), &path);
            }
        }
        for (level, files) in manifest.levels.iter().enumerate().skip(1) {
            let mut files: Vec<&NewFile> = files.values().collect();
            files.sort_by(|a, b| order.compare(&a.smallest, &b.smallest));
            for pair in files.windows(2) {
                if order.compare(&pair[0].largest, &pair[1].smallest).is_ge() {
                    let what = format!(
                        "tables {:06} and {:06} of level {level} overlap",
                        pair[0].number, pair[1].number
                    );
                    findings.fault(Error::corruption(what), &path);
                }
            }
        }
        let named: BTreeSet<u64> = levels.keys().copied().collect();
        let log_number = manifest.log_number.unwrap_or(0);
        if self.distrust.is_none() {
            let missing = named.iter().any(|&number| self.table_file(number).is_none());
            let newer = self.files.iter().any(|(_, name)| match name {
                FileName::Table { number, .. } => *number > log_number && !named.contains(number),
                _ => false,
            });
            if let Some(what) = directory::lost_edits(&self.files, log_number, &named) {
                let error = Error::corruption(what.clone()).at(manifest.valid_end);
                findings.fault(error, &path);
                self.distrust = Some(what);
            } else if missing && newer {
                let what = "tables that the MANIFEST names are gone, and newer ones are there that \
                            it does not name";
                self.distrust = Some(what.to_owned());
            }
        }
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

    fn read_logs(&mut self, fs: &dyn Fs, dir: &Path, findings: &mut Findings<'_>) {
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
        let is_live = |number: &u64| *number >= first || (prev != 0 && *number == prev);
        let live: Vec<u64> = all.into_iter().filter(is_live).collect();
        for &number in &live {
            findings.expect(fs.len(&dir.join(name::log_name(number))).unwrap_or(0));
        }
        let mut end = last_seq;
        for number in live {
            let facts = logs::examine(fs, dir, number, findings);
            if let Some(next_seq) = facts.begins_at
                && next_seq > end + 1
                && self.distrust.is_none()
                && facts.batches > 0
            {
                self.has_gap = true;
                findings.fault(
                    Error::corruption(format!(
                        "begins at sequence number {next_seq}, but the log before ends at {end}"
                    ))
                    .at(0),
                    &facts.path,
                );
            }
            end = end.max(facts.max_seq);
            self.logs.push(facts);
        }
    }
}

#[cfg(test)]
mod transcripts;
