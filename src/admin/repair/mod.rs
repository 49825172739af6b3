//! Repairs a database: builds, from the undamaged parts, a database that can be opened.
//!
//! The rules, in order of precedence:
//!
//! 1. The MANIFEST named in `CURRENT` is used, up to its first bad record. If `CURRENT` names no
//!    MANIFEST, or a damaged one, the newest other MANIFEST that is undamaged and whose tables all
//!    exist is used instead.
//! 2. A damaged table is replaced, at the same level, by a table of its undamaged blocks. If the
//!    index of the damaged table cannot be read, the blocks are found by their checksums
//!    (`admin/scan.rs`).
//! 3. If the MANIFEST has lost edits, tables that are missing from the MANIFEST are also used:
//!    `plan.rs` and `merge.rs` decide their levels. If the MANIFEST has lost no edits, such tables
//!    are leftovers and are ignored.
//! 4. Logs are replayed as an open would replay them. If the MANIFEST does not say which logs are
//!    live, replay starts at the first log that has a sequence number above the numbers in all
//!    tables. All later logs are also replayed, because flushes are done in order.
//! 5. If no log stays live, new writes get sequence numbers far above all numbers that were found.
//!    If new writes reused the numbers of lost writes, a reader of changes would mistake the new
//!    writes for the lost ones.
//! 6. Nothing is deleted: files taken out of the database are moved to `lost/`.
//!
//! Files are changed in this order: new tables are written, and their directory is synced; the new
//! MANIFEST is written, and its directory is synced; hard links are created in `lost/`, and both
//! directories are synced; `CURRENT` is replaced; the original names are removed. A crash before
//! `CURRENT` is replaced leaves the damaged database with some additional files; a later crash
//! leaves a repaired database.

mod dry;
mod merge;
mod plan;
mod report;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plan::{KeptTable, RepairPlan};
pub use report::{
    LostRange, NewTable, Quarantined, RepairOptions, RepairReport, TableOutcome, TableRepair,
};
use writer::RepairWriter;

use crate::admin::findings::{Findings, Progress};
use crate::admin::logs::LogFacts;
use crate::admin::survey::{Survey, survey, table_context};
use crate::admin::tables::{SoundEntries, TableFacts};
use crate::base::{Error, Result};
use crate::engine::compression::TableCompression;
use crate::engine::flush::write_table;
use crate::engine::open::directory;
use crate::engine::open::entries;
use crate::engine::open::replay::LogReplay;
use crate::engine::options::Options;
use crate::engine::version::manifest::{set_current, write_manifest};
use crate::engine::version::numbers::{FileNumbers, MAX_AHEAD, MAX_FILE_NUMBER};
use crate::format::batch::MAX_OPERATIONS;
use crate::format::edit::{NewFile, VersionEdit};
use crate::format::key::{InternalComparator, MAX_SEQ_NO, SeqNo, user_key};
use crate::format::name::{self, FileName};
use crate::fs::{absolute, sync_dir};
use crate::table::reader::TableContext;

/// Number of sequence numbers that are skipped after a repair because lost writes may have used
/// them. A higher number leaves fewer sequence numbers for later writes.
const LOST_SEQS: u64 = 1 << 32;

/// Repairs the database in the directory `dir`, which must not be open. Does not change a healthy
/// database. Returns a report of the faults and of what the repair did.
///
/// After a repair, the database contains every key whose newest version is undamaged. It contains
/// no deleted key, unless the deletion was in damaged bytes; then [`RepairReport::lost`] includes a
/// range that contains the key. Files that are taken out of the database are moved to its directory
/// `lost`.
///
/// ```
/// # use minikv::{Db, Options, Readable};
/// use minikv::RepairOptions;
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path();
/// let options = Options::default().create_if_missing(true);
/// Db::open(path, options.clone())?.put("key", "value")?;
/// std::fs::remove_file(path.join("CURRENT"))?;
/// assert!(Db::open(path, options.clone()).is_err());
///
/// let report = minikv::repair(path, &options, RepairOptions::default())?;
/// assert!(!report.healthy && report.lost.is_empty());
/// assert!(Db::open(path, options)?.contains_key("key")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Locked`] if the database is open; [`Error::DatabaseMissing`]; [`Error::Unsupported`]
/// for a format that this build does not know, because that is not damage; I/O errors, including
/// read errors, because the disk may be able to read the file later. After an error, the directory
/// is either already repaired or unchanged, except for new files that are not part of the database.
pub fn repair(
    dir: impl AsRef<Path>,
    options: &Options,
    repair_options: RepairOptions,
) -> Result<RepairReport> {
    repair_with(dir, options, repair_options, |_| {})
}

/// Does the same as [`repair`], and calls `progress` during the survey of all files.
///
/// # Errors
/// The same as for [`repair`].
pub fn repair_with(
    dir: impl AsRef<Path>,
    options: &Options,
    repair_options: RepairOptions,
    mut progress: impl FnMut(Progress),
) -> Result<RepairReport> {
    let mut options = options.clone().checked()?;
    if repair_options.dry_run {
        options.fs = Arc::new(dry::DryFs(options.fs));
    }
    let fs = options.fs.clone();
    let dir = &*absolute(&*fs, dir.as_ref())?;
    let exists = |path: &Path| fs.exists(path).map_err(|error| Error::io("look for", path, error));
    if !exists(dir)? {
        return Err(Error::DatabaseMissing { path: dir.to_path_buf() });
    }
    // The directory of another engine is refused before a lock file is made in it.
    entries::list_files(&*fs, dir)?;
    let lock_path = dir.join(name::LOCK);
    let had_lock = exists(&lock_path)?;
    let lock = directory::lock(&*fs, dir, options.allow_no_lock)?;
    let mut findings = Findings::new(&mut progress);
    let result = survey_or_fail(dir, &options, &mut findings);
    let mut report = RepairReport {
        dry_run: repair_options.dry_run,
        faults: std::mem::take(&mut findings.faults),
        fault_count: findings.fault_count,
        ..RepairReport::default()
    };
    let survey = match result {
        Ok(survey) if report.fault_count > 0 || survey.distrust.is_some() => survey,
        result => {
            // Taking the lock created the lock file. Nothing else has changed.
            if !had_lock {
                let _ = directory::remove_lock(&*fs, &lock_path, lock);
            }
            report.healthy = true;
            let survey = result?;
            report.manifest = survey.manifest.map(|manifest| manifest.path);
            report.tables_kept = survey.tables.len() as u64;
            return Ok(report);
        }
    };
    directory::check_numbers(dir, &survey.taken, next_number(&survey))?;
    report.notes.extend(choose_compression(dir, &mut options, &survey)?);
    let report = Repair::new(dir, &options, &survey, report).run()?;
    drop(lock);
    Ok(report)
}

/// Decides on the compression of the tables that the repair writes. Returns a warning, if there is
/// one.
fn choose_compression(
    dir: &Path,
    options: &mut Options,
    survey: &Survey,
) -> Result<Option<String>> {
    let tables = survey.tables.iter().map(|(number, facts)| (*number, &facts.blocks[..]));
    let compression = TableCompression::decide(&*options.fs, dir, options, tables)?;
    options.compression = Some(compression.new);
    Ok(compression.warning())
}

fn survey_or_fail(dir: &Path, options: &Options, findings: &mut Findings<'_>) -> Result<Survey> {
    let survey = survey(dir, options, findings)?;
    match findings.unsupported.take().or(findings.io.take()) {
        Some(error) => Err(error),
        None => Ok(survey),
    }
}

/// Returns the first number for new files, apart from the numbers of existing files. A next file
/// number in the MANIFEST that leaves too few numbers for new files is a fault, and is left out.
fn next_number(survey: &Survey) -> u64 {
    let Some(manifest) = &survey.manifest else { return 1 };
    let next = manifest.next_file_number.filter(|next| *next <= MAX_FILE_NUMBER - MAX_AHEAD);
    let named = manifest.files().map(|file| file.number.saturating_add(1)).max();
    manifest.above_logs().max(next.or(named).unwrap_or(1))
}

struct Repair<'a> {
    survey: &'a Survey,
    context: TableContext,
    writer: RepairWriter<'a>,
    report: RepairReport,
    /// The tables of the repaired database.
    files: Vec<NewFile>,
    /// Files to move to `lost/`, each with the reason.
    aside: Vec<(PathBuf, String)>,
    /// Original names of the tables that got a new number.
    renumbered: Vec<PathBuf>,
}

impl<'a> Repair<'a> {
    fn new(
        dir: &'a Path,
        options: &'a Options,
        survey: &'a Survey,
        mut report: RepairReport,
    ) -> Repair<'a> {
        let numbers = FileNumbers::new(next_number(survey));
        for number in survey.taken.iter().filter_map(|(_, name)| name.number()) {
            numbers.skip(number);
        }
        report.manifest = survey.manifest.as_ref().map(|manifest| manifest.path.clone());
        report.manifest_distrusted.clone_from(&survey.distrust);
        Repair {
            survey,
            context: table_context(options),
            writer: RepairWriter {
                fs: options.fs.clone(),
                dir,
                options,
                order: InternalComparator::new(options.comparator.clone()),
                numbers,
            },
            report,
            files: Vec::new(),
            aside: Vec::new(),
            renumbered: Vec::new(),
        }
    }

    fn run(mut self) -> Result<RepairReport> {
        let (fs, dir) = (self.writer.fs.clone(), self.writer.dir);
        self.tell_lost();
        match plan::plan(self.survey, self.writer.options, &self.writer.order) {
            RepairPlan::Keep { tables } => self.keep(tables)?,
            RepairPlan::Merge { level } => self.merge(level)?,
        }
        let mut edit = self.logs()?;
        sync_dir(&*fs, dir)?;

        let number = self.writer.numbers.take();
        edit.log_number.get_or_insert(number);
        edit.comparator = Some(self.writer.options.comparator.name().to_owned());
        edit.next_file_number = Some(self.writer.numbers.next());
        edit.new_files = std::mem::take(&mut self.files);
        debug_assert!(
            edit.new_files.iter().all(|file| file.number < number),
            "a table has a number that will be handed out again"
        );
        debug_assert!(
            plan::is_version(&edit.new_files, self.writer.options, &self.writer.order),
            "the repaired tables do not form a version"
        );
        write_manifest(&*fs, dir, number, &edit)?;
        sync_dir(&*fs, dir)?;

        self.set_aside_names();
        self.report.quarantined = self.writer.keep_aside(&self.aside)?;
        set_current(&*fs, dir, number)?;
        let current = dir.join(name::CURRENT);
        let kept = self.aside.into_iter().map(|(path, _)| path).filter(|path| *path != current);
        self.writer.remove(kept.chain(self.renumbered))?;
        Ok(self.report)
    }

    /// Marks the old MANIFESTs to be moved to `lost/`, and also `CURRENT` if it named no sound
    /// MANIFEST.
    fn set_aside_names(&mut self) {
        let dir = self.writer.dir;
        for (file, name) in &self.survey.files {
            match name {
                FileName::Manifest(_) => {
                    self.aside.push((dir.join(file), "replaced by a new MANIFEST".to_owned()));
                }
                FileName::Current if !self.survey.has_current => {
                    self.aside.push((dir.join(file), "named no sound MANIFEST".to_owned()));
                }
                _ => {}
            }
        }
    }

    fn fact(&self, number: u64) -> Option<&'a TableFacts> {
        self.survey.tables.get(&number)
    }

    /// Adds to the report the parts of tables that cannot be recovered.
    fn tell_lost(&mut self) {
        for facts in self.survey.tables.values() {
            for gap in &facts.lost {
                self.report.lost.push(LostRange {
                    path: facts.path.clone(),
                    offset: gap.offset,
                    bytes: gap.bytes,
                    from: gap.from.clone(),
                    to: gap.to.clone(),
                });
            }
        }
        for (number, file) in self.survey.named() {
            if self.survey.tables.contains_key(&number) {
                continue;
            }
            let path = self.writer.dir.join(name::table_name(number));
            self.tell(path.clone(), Some(file.level), TableOutcome::Lost, 0);
            // If the last edits of the MANIFEST are missing, the MANIFEST may list tables that were
            // removed after a compaction merged them.
            if self.survey.distrust.is_none() {
                self.report.lost.push(LostRange {
                    path,
                    offset: 0,
                    bytes: file.file_bytes,
                    from: Some(user_key(&file.smallest).to_vec()),
                    to: Some(user_key(&file.largest).to_vec()),
                });
            }
        }
    }

    fn tell(&mut self, path: PathBuf, level: Option<usize>, outcome: TableOutcome, entries: u64) {
        self.report.tables.push(TableRepair { path, level, outcome, entries });
    }

    fn add(&mut self, file: NewFile) {
        self.report.new_tables.push(NewTable {
            path: self.writer.dir.join(name::table_name(file.number)),
            level: file.level,
            file_bytes: file.file_bytes,
        });
        self.files.push(file);
    }

    /// Keeps every table at the level in the plan. In level 0, tables are ordered by age, and a
    /// higher number means a newer table, so all tables from the first damaged one on get new
    /// numbers.
    fn keep(&mut self, tables: Vec<KeptTable>) -> Result<()> {
        let mut kept: BTreeSet<u64> = BTreeSet::new();
        let mut is_renumbering = false;
        for KeptTable { file, is_named, is_damaged } in tables {
            let Some(facts) = self.fact(file.number) else { continue };
            kept.insert(file.number);
            is_renumbering |= file.level == 0 && is_damaged;
            let level = is_named.then_some(file.level);
            if is_damaged {
                let new = self.rewrite(facts, file.level)?;
                self.tell(facts.path.clone(), level, TableOutcome::Rewritten, facts.entries);
                self.aside
                    .push((facts.path.clone(), "damaged: replaced by its undamaged blocks".into()));
                new.into_iter().for_each(|new| self.add(new));
            } else if is_renumbering && file.level == 0 {
                let new = self.writer.renumber(&facts.path, &file)?;
                self.tell(facts.path.clone(), level, TableOutcome::Renumbered, facts.entries);
                self.renumbered.push(facts.path.clone());
                self.add(new);
            } else {
                if !is_named {
                    self.tell(facts.path.clone(), None, TableOutcome::Placed, facts.entries);
                }
                self.report.tables_kept += 1;
                self.files.push(file);
            }
        }
        for facts in self.survey.tables.values().filter(|facts| facts.entries == 0) {
            let level = self.survey.named().get(&facts.number).map(|file| file.level);
            self.tell(facts.path.clone(), level, TableOutcome::Lost, 0);
            self.aside.push((facts.path.clone(), "it has no undamaged block".to_owned()));
        }
        Ok(())
    }

    fn rewrite(&self, facts: &TableFacts, level: usize) -> Result<Option<NewFile>> {
        let mut entries = SoundEntries::open(&*self.writer.fs, facts, &self.context)?;
        self.writer.table(level, |table| {
            while entries.next()? {
                table.add(entries.key(), entries.value())?;
            }
            Ok(())
        })
    }

    /// Merges all tables into one sorted run.
    fn merge(&mut self, level: usize) -> Result<()> {
        let fs = &*self.writer.fs;
        let tables: Vec<&TableFacts> = self.survey.tables.values().collect();
        let descent = merge::Descent::find(fs, &self.context, &tables)?;
        let max_bytes = self.writer.options.max_file_bytes;
        let new = self.writer.tables(level, max_bytes, |out| {
            merge::newest(fs, &self.context, &tables, &descent, |key, value| out.add(key, value))
        })?;
        new.into_iter().for_each(|new| self.add(new));
        let levels: BTreeMap<u64, usize> =
            self.survey.named().into_iter().map(|(number, file)| (number, file.level)).collect();
        for facts in self.survey.tables.values() {
            let outcome = if facts.entries > 0 { TableOutcome::Merged } else { TableOutcome::Lost };
            let level = levels.get(&facts.number).copied();
            self.tell(facts.path.clone(), level, outcome, facts.entries);
            self.aside.push((facts.path.clone(), "merged with the other tables".to_owned()));
        }
        for ancestor in descent.ancestors() {
            self.report.notes.push(format!(
                "table {} shares entries with a newer one, so it was an input of a compaction: \
                 the entries that the compaction dropped are left out",
                name::table_name(ancestor)
            ));
        }
        Ok(())
    }

    /// Decides which logs stay live. Returns an edit that contains the log numbers for the new
    /// MANIFEST.
    fn logs(&mut self) -> Result<VersionEdit> {
        let manifest = self.survey.manifest.as_ref();
        let recorded_seq = manifest.and_then(|manifest| manifest.last_seq).unwrap_or(0);
        let in_tables = self.survey.tables.values().map(|facts| facts.max_seq).max().unwrap_or(0);
        let mut edit = VersionEdit {
            log_number: manifest.and_then(|manifest| manifest.log_number),
            prev_log_number: Some(manifest.map_or(0, |manifest| manifest.prev_log_number)),
            last_seq: Some(recorded_seq.max(in_tables)),
            ..VersionEdit::default()
        };
        let mut live: Vec<&LogFacts> = self.survey.logs.iter().collect();
        let mut has_gap = self.survey.has_gap;
        if self.survey.distrust.is_some() {
            live = self.live_by_seq(self.written_to_tables());
            edit.log_number = live.first().map(|log| log.number);
            edit.prev_log_number = Some(0);
            let first_is = live.first().and_then(|log| log.writes_from).unwrap_or(0);
            if first_is > in_tables + 1 && in_tables > 0 {
                self.report.notes.push(format!(
                    "the first live log begins at sequence number {first_is}, and the \
                     tables end at {in_tables}: writes in between may be lost"
                ));
            }
            edit.last_seq = edit.last_seq.max(Some(first_is.saturating_sub(1)));
            has_gap = begins_late(&live, edit.last_seq.unwrap_or(0));
        }
        let mut has_logs = !live.is_empty();
        if live.iter().any(|log| log.is_damaged) || has_gap {
            let numbers: Vec<u64> = live.iter().map(|log| log.number).collect();
            let last_seq = self.flush(&numbers, edit.last_seq.unwrap_or(0))?;
            edit.last_seq = edit.last_seq.max(Some(last_seq));
            // The log number will be the number of the new MANIFEST, which is higher than the
            // number of every log.
            edit.log_number = None;
            edit.prev_log_number = Some(0);
            has_logs = false;
        }
        if !has_logs {
            edit.last_seq = edit.last_seq.map(seq_after_repair);
        }
        Ok(edit)
    }

    /// Returns the sequence number up to which the tables have all writes.
    ///
    /// A table that is not whole shows no number: a flush that was interrupted has written the
    /// smallest keys, whatever their numbers. Nor does a table whose entries all have the same
    /// number, ahead of every log: an ingest links it before it is committed.
    fn written_to_tables(&self) -> SeqNo {
        let reached =
            |log: &LogFacts| log.max_seq.max(log.writes_from.unwrap_or(0).saturating_sub(1));
        let logged = self.survey.logs.iter().map(reached).max().unwrap_or(0);
        let has_number = |table: &&TableFacts| {
            let is_ingested = table.min_seq == table.max_seq && table.max_seq > logged;
            table.lost.is_empty() && !is_ingested
        };
        self.survey.tables.values().filter(has_number).map(|table| table.max_seq).max().unwrap_or(0)
    }

    /// Returns the logs that contain, or may have contained, writes that are not in tables. Marks
    /// the other logs to be moved to `lost/`.
    fn live_by_seq(&mut self, in_tables: SeqNo) -> Vec<&'a LogFacts> {
        let logs = &self.survey.logs;
        let first = logs.iter().position(|log| log.max_seq > in_tables).unwrap_or(logs.len());
        // A damaged log before the first log with new writes may also have contained new writes,
        // unless all writes before the next log are in tables.
        let is_gap = |log: &LogFacts| log.begins_at.is_none_or(|next| next > in_tables + 1);
        let mut pairs = logs.windows(2).take(first);
        let damaged = pairs.position(|pair| pair[0].is_damaged && is_gap(&pair[1]));
        let first = match (damaged, logs.get(first)) {
            (Some(damaged), Some(log)) if is_gap(log) => damaged,
            _ => first,
        };
        for log in &logs[..first] {
            self.aside.push((log.path.clone(), "all its records are in tables".to_owned()));
        }
        logs[first..].iter().collect()
    }

    /// Replays logs into tables of level 0. Stops where an open would also stop. Returns the last
    /// sequence number.
    fn flush(&mut self, numbers: &[u64], last_seq: SeqNo) -> Result<SeqNo> {
        let target = self.writer.target();
        let replay = LogReplay {
            fs: target.fs,
            dir: target.dir,
            order: target.order,
            write_buffer_bytes: target.options.write_buffer_bytes,
            max_entries: MAX_OPERATIONS as usize,
            paranoid: false,
            beside_writer: false,
        };
        let mut tables = Vec::new();
        let mut flush = |memtables: &mut std::collections::VecDeque<crate::engine::Frozen>| {
            let Some(oldest) = memtables.pop_front() else { return Ok(()) };
            let read_seqs = vec![MAX_SEQ_NO];
            let number = self.writer.numbers.take();
            tables.push(write_table(&target, &oldest.mem, read_seqs, number, |_, _| {})?.0);
            Ok(())
        };
        let mut replayed = replay.run(numbers, last_seq, &mut flush)?;
        while !replayed.memtables.is_empty() {
            flush(&mut replayed.memtables)?;
        }
        tables.into_iter().for_each(|table| self.add(table));
        let dir = self.writer.dir;
        for &number in numbers {
            let path = dir.join(name::log_name(number));
            let lost = replayed.recovery.lost.iter().find(|lost| lost.path == path);
            let why = lost.map_or("replayed into a table", |lost| lost.why.as_str());
            self.aside.push((path, why.to_owned()));
        }
        self.report.lost_logs = replayed.recovery.lost;
        Ok(replayed.last_seq)
    }
}

/// Returns whether one of `logs`, which follow `last_seq`, begins after a gap. An open would stop
/// there, or take the gap for a loss of edits.
fn begins_late(logs: &[&LogFacts], last_seq: SeqNo) -> bool {
    let mut end = last_seq;
    logs.iter().any(|log| {
        let is_late = log.writes_from.is_some_and(|next| next > end.saturating_add(1));
        end = end.max(log.max_seq);
        is_late
    })
}

/// Returns the last sequence number to record for a repaired database without logs. `last_seq` is
/// the highest sequence number that was found.
fn seq_after_repair(last_seq: SeqNo) -> SeqNo {
    match last_seq <= MAX_SEQ_NO / 2 {
        true => last_seq + LOST_SEQS,
        false => last_seq,
    }
}

#[cfg(test)]
mod transcripts;
