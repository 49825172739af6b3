//! The database that is measured: a snapshot of its files, and views of these files with other
//! filters.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use minikv::files::{
    FileName, LogReader, LogWriter, NUM_LEVELS, NewFile, Recovered, TableReader, VersionEdit,
    current_contents, user_key,
};
use minikv::fs::{DiskFs, Fs, MemFs};
use minikv::repair::LostLog;
use minikv::stats::ScannedRange;
use minikv::{
    BytewiseComparator, Comparator, Db, Options, PrefixExtractor, ReadOnlyDb, Readable, Recovery,
    Stats, files,
};

use super::filters::FilterCase;
use super::lookups::Lookup;
use super::overlay::{Content, Overlay};
use super::space::Stored;
use crate::advice::plan::{BlockFilters, FilterKind, FilterPlan, MadeFilters, TreePlan};
use crate::advice::scans::{ScanCounts, ScanReplay};
use crate::advice::shadow::{Outcome, ReplayLookup, Shadow, TablesRead};
use crate::error::{Error, Result};
use crate::order::KeyOrder;
use crate::progress::Progress;

/// Maximum number of attempts to list the files of a database while a writer changes them. More
/// attempts help only if the writer pauses at some time.
const MAX_TRIES: usize = 50;

/// A snapshot of the files of a database.
pub struct Source {
    dir: PathBuf,
    options: Options,
    cache_bytes: u64,
    recovered: Recovered,
    /// The tables in the order in which gets search them, and the names of their files.
    pub(super) tables: Vec<(NewFile, String)>,
    logs: Vec<(String, Arc<Vec<u8>>)>,
    /// The damage that ends the last of `logs`, if it is damaged, and all later logs.
    lost: Vec<LostLog>,
    /// The statistics of the database handle that wrote the files, if this process wrote them.
    pub stats: Option<Stats>,
}

/// A configuration to measure: a view of the database with the filters of the configuration, and
/// the results of a replay with these filters.
pub struct Candidate {
    pub filters: FilterCase,
    /// The results of the replay, which the measured lookups should match.
    pub shadow: Outcome,
    overlay: Arc<Overlay>,
}

/// Returns the bytes of a log up to the end of its last record, which an open would replay, and the
/// damage after it, if there is any. The zeros after it may be a hole of any size.
fn records_of(path: &Path) -> Result<(Vec<u8>, Option<LostLog>)> {
    let failed = |error| Error::io("read", path, error);
    let file = DiskFs.open(path).map_err(failed)?;
    let file_bytes = file.len().map_err(failed)?;
    let mut log = LogReader::of_batches(file.clone(), path)?.beside_writer(true);
    let mut damage = None;
    while let Some(end) = log.next().transpose() {
        match end {
            Ok(_) => {}
            Err(error) if error.is_corruption() => {
                damage = Some(error.to_string());
                break;
            }
            Err(error) => return Err(error.into()),
        }
    }
    let lost = damage.map(|why| {
        let offset = log.valid_end();
        let bytes = file_bytes.saturating_sub(offset);
        LostLog { path: path.to_path_buf(), offset, bytes, why }
    });
    let too_long = || failed(std::io::ErrorKind::FileTooLarge.into());
    let mut bytes = vec![0; usize::try_from(log.valid_end()).map_err(|_| too_long())?];
    let read = file.read_at(&mut bytes, 0).map_err(failed)?;
    bytes.truncate(read);
    Ok((bytes, lost))
}

impl Source {
    /// Takes a snapshot of the files of the database in `dir`.
    pub fn of(dir: &Path, options: Options, cache_bytes: u64) -> Result<Source> {
        let comparator = BytewiseComparator.name();
        let mut tries = 0;
        loop {
            tries += 1;
            // Opening the database reports a missing or unreadable database with the same error as
            // other commands.
            if !DiskFs.exists(&dir.join(FileName::Current.to_string())).unwrap_or(false) {
                Db::open_read_only(dir, options.clone())?;
            }
            let before = files::recover_manifest(&DiskFs, dir, comparator)?;
            let source = Source::once(dir, &options, cache_bytes, before);
            let after = files::recover_manifest(&DiskFs, dir, comparator)?;
            let unchanged = source.as_ref().is_ok_and(|source| {
                source.recovered.manifest_number == after.manifest_number
                    && source.recovered.valid_end == after.valid_end
            });
            if unchanged || tries == MAX_TRIES {
                return source;
            }
        }
    }

    fn once(
        dir: &Path,
        options: &Options,
        cache_bytes: u64,
        recovered: Recovered,
    ) -> Result<Source> {
        let files = files::list_files(&DiskFs, dir)?;
        let names: HashSet<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        let table = |number, legacy_sst| FileName::Table { number, legacy_sst }.to_string();
        let named = |file: &NewFile| match table(file.number, false) {
            name if names.contains(&name[..]) => name,
            _ => table(file.number, true),
        };
        let new_files = &recovered.edit.new_files;
        let mut tables: Vec<_> = new_files.iter().map(|file| (file.clone(), named(file))).collect();
        // The tables of level 0 overlap, and gets search the newest table first.
        tables.sort_by(|(a, _), (b, _)| {
            let newest_first = b.number.cmp(&a.number);
            let in_order = a.smallest.cmp(&b.smallest);
            a.level.cmp(&b.level).then(if a.level == 0 { newest_first } else { in_order })
        });
        let (mut logs, mut lost) = (Vec::new(), Vec::new());
        for number in files::live_logs(&files, &recovered) {
            let name = FileName::Log(number).to_string();
            let path = dir.join(&name);
            if lost.is_empty() {
                let (bytes, damage) = records_of(&path)?;
                logs.push((name, Arc::new(bytes)));
                lost.extend(damage);
                continue;
            }
            let bytes = DiskFs.len(&path).map_err(|error| Error::io("read", &path, error))?;
            if bytes > 0 {
                let why = "comes after a damaged log".to_string();
                lost.push(LostLog { path, offset: 0, bytes, why });
            }
        }
        let (dir, options) = (dir.to_path_buf(), options.clone());
        Ok(Source { dir, options, cache_bytes, recovered, tables, logs, lost, stats: None })
    }

    /// Returns the number of tables at each level.
    pub fn tables_per_level(&self) -> [u64; NUM_LEVELS] {
        let mut levels = [0; NUM_LEVELS];
        self.tables.iter().for_each(|(file, _)| levels[file.level] += 1);
        levels
    }

    /// Returns the number and size of the tables and the number of keys at each level. `held` has
    /// the number of keys.
    pub fn stored(&self, held: &TablesRead) -> [Stored; NUM_LEVELS] {
        let mut levels = [Stored::default(); NUM_LEVELS];
        for (file, _) in &self.tables {
            levels[file.level].tables += 1;
            let bytes = &mut levels[file.level].bytes;
            *bytes = bytes.saturating_add(file.file_bytes);
        }
        for (stored, level) in levels.iter_mut().zip(&held.levels) {
            stored.keys = level.keys;
        }
        levels
    }

    /// Opens the database with its own filters.
    pub fn open(&self) -> Result<ReadOnlyDb> {
        self.open_overlay(&Arc::new(self.as_it_is()?))
    }

    /// Returns a description of the replay of the logs.
    pub fn recovery(&self) -> Result<Recovery> {
        let mut recovery = self.open()?.recovery().clone();
        for log in &self.lost {
            // The replay itself may have left out the log, because of a malformed batch before.
            if recovery.lost.iter().all(|known| known.path != log.path) {
                recovery.lost.push(log.clone());
            }
        }
        Ok(recovery)
    }

    /// Reads all tables once, and replays `lookups`. Returns a view of the database for each
    /// element of `filters`, and totals over the tables.
    pub fn candidates(
        &self,
        filters: &[FilterCase],
        lookups: Vec<ReplayLookup<'_>>,
    ) -> Result<(Vec<Candidate>, TablesRead)> {
        let plans: Vec<_> = filters.iter().map(FilterCase::plan).collect();
        let mut shadow = Shadow::new(KeyOrder::bytewise(), plans.clone(), lookups).keep_filters();
        self.walk(&mut shadow)?;
        let (outcomes, held) = shadow.finish();
        let mut candidates = Vec::new();
        for ((&filters, plan), mut shadow) in filters.iter().zip(plans).zip(outcomes) {
            let overlay = match filters.own() {
                true => {
                    // The filters are in the files even if lookups do not query them.
                    shadow.filter_bytes = self.own_filter_bytes()?;
                    self.as_it_is()?
                }
                false => self.with_filters(&plan, &shadow.made)?,
            };
            shadow.made = Vec::new();
            candidates.push(Candidate { filters, shadow, overlay: Arc::new(overlay) });
        }
        Ok((candidates, held))
    }

    /// Reads all tables once, and replays `lookups` with each of `plans`. Returns the outcome for
    /// each plan.
    pub fn replay(
        &self,
        plans: Vec<impl Into<TreePlan>>,
        lookups: Vec<ReplayLookup<'_>>,
    ) -> Result<Vec<Outcome>> {
        let mut shadow = Shadow::new(KeyOrder::bytewise(), plans, lookups);
        self.walk(&mut shadow)?;
        Ok(shadow.finish().0)
    }

    /// Reads all tables once. Returns totals over the tables and, for each level, the lookups that
    /// search the level in vain.
    pub fn survey(&self, lookups: Vec<ReplayLookup<'_>>) -> Result<TablesRead> {
        let none = FilterPlan::new(FilterKind::None, 0);
        let mut shadow = Shadow::new(KeyOrder::bytewise(), vec![none], lookups);
        self.walk(&mut shadow)?;
        Ok(shadow.finish().1)
    }

    /// Replays `lookups` like [`replay`](Source::replay), but also records the reads of data
    /// blocks.
    pub fn reads(
        &self,
        plans: Vec<TreePlan>,
        lookups: Vec<ReplayLookup<'_>>,
    ) -> Result<Vec<Outcome>> {
        let mut shadow = Shadow::new(KeyOrder::bytewise(), plans, lookups).keep_reads();
        self.walk(&mut shadow)?;
        Ok(shadow.finish().0)
    }

    /// Replays scans on each table, with a prefix filter if `prefix` is given. Returns the counts
    /// of each scan, by level.
    pub fn replay_scans(
        &self,
        prefix: Option<Arc<dyn PrefixExtractor>>,
        ranges: &[ScannedRange],
    ) -> Result<Vec<[ScanCounts; NUM_LEVELS]>> {
        let mut replay = ScanReplay::new(KeyOrder::bytewise(), prefix, ranges).count_blocks();
        let progress = Progress::steps("replaying scans", self.tables.len() as u64);
        for (i, (file, _)) in self.tables.iter().enumerate() {
            let reaching = replay.reaching(user_key(&file.smallest), user_key(&file.largest));
            if !reaching.is_empty() {
                replay.table(file.level, &self.table(i)?, &reaching)?;
            }
            progress.set(i as u64 + 1);
        }
        Ok(replay.scans)
    }

    fn walk(&self, shadow: &mut Shadow<'_>) -> Result<()> {
        let progress = Progress::steps("making filters", self.tables.len() as u64);
        for (i, (file, _)) in self.tables.iter().enumerate() {
            let (first, last) = (user_key(&file.smallest), user_key(&file.largest));
            shadow.table(file.level, &self.table(i)?, first, last)?;
            progress.set(i as u64 + 1);
        }
        Ok(())
    }

    /// Returns the lookups that are not answered by a memtable.
    pub fn reaching_tables<'a>(&self, lookups: &'a [Lookup]) -> Result<Vec<ReplayLookup<'a>>> {
        let db = self.open()?;
        let in_memory = db.stats().memtable_bytes > 0 && !self.logs.is_empty();
        let mut reaching = Vec::with_capacity(lookups.len());
        for Lookup { key, present } in lookups {
            if !in_memory || db.get_traced(key)?.1.memtable_hits == 0 {
                reaching.push(ReplayLookup { key, present: *present });
            }
        }
        Ok(reaching)
    }

    /// Returns the size of the block cache, in bytes.
    pub fn cache_bytes(&self) -> u64 {
        self.cache_bytes
    }

    /// Opens the database with the filters of `candidate`.
    pub fn open_candidate(&self, candidate: &Candidate) -> Result<ReadOnlyDb> {
        self.open_overlay(&candidate.overlay)
    }

    /// Opens the database with the filters of `candidate` and a block cache of `cache_bytes` bytes.
    pub fn open_candidate_with(
        &self,
        candidate: &Candidate,
        cache_bytes: u64,
    ) -> Result<ReadOnlyDb> {
        let cache_bytes = usize::try_from(cache_bytes).unwrap_or(usize::MAX);
        let options = self.options.clone().block_cache_bytes(cache_bytes);
        Ok(Db::open_read_only(&self.dir, options.fs(candidate.overlay.clone()))?)
    }

    fn open_overlay(&self, overlay: &Arc<Overlay>) -> Result<ReadOnlyDb> {
        Ok(Db::open_read_only(&self.dir, self.options.clone().fs(overlay.clone()))?)
    }

    /// Returns the total size of the filters in the files, in bytes.
    pub fn own_filter_bytes(&self) -> Result<u64> {
        Ok(self.own_filters()?.iter().sum())
    }

    /// Returns the size of the filters in the files at each level, in bytes.
    pub fn own_filters(&self) -> Result<[u64; NUM_LEVELS]> {
        let mut bytes = [0; NUM_LEVELS];
        for (i, (file, _)) in self.tables.iter().enumerate() {
            bytes[file.level] += self.table(i)?.filter_bytes() as u64;
        }
        Ok(bytes)
    }

    /// Returns the memory that the indexes of all tables take while they are open, in bytes.
    pub fn index_bytes(&self) -> Result<u64> {
        let mut bytes = 0;
        for i in 0..self.tables.len() {
            let table = self.table(i)?;
            bytes += (table.memory_bytes() - table.filter_bytes()) as u64;
        }
        Ok(bytes)
    }

    pub(super) fn table(&self, i: usize) -> Result<TableReader> {
        Ok(TableReader::open(self.dir.join(&self.tables[i].1), &Options::default())?)
    }

    fn as_it_is(&self) -> Result<Overlay> {
        let mut overlay = Overlay::new(&self.dir);
        for (_, name) in &self.tables {
            // Leaves out a missing file, so that the engine reports it.
            if DiskFs.exists(&self.dir.join(name)).unwrap_or(true) {
                overlay.file(name, Content::Disk);
            }
        }
        let files = self.tables.iter().map(|(file, _)| file.clone()).collect();
        self.add_manifest(&mut overlay, files)?;
        Ok(overlay)
    }

    fn with_filters(&self, plan: &TreePlan, made: &[MadeFilters]) -> Result<Overlay> {
        let policies = plan.0.iter().map(|level| match &level.blocks {
            BlockFilters::New(policy) => policy.name(),
            BlockFilters::None | BlockFilters::Own => "",
        });
        // The policies of the levels have the same name and differ only in the size of their
        // filters.
        let policy = policies.max().unwrap_or_default();
        let mut overlay = Overlay::new(&self.dir);
        let mut files = Vec::new();
        for (i, ((file, name), made)) in self.tables.iter().zip(made).enumerate() {
            let table = self.table(i)?;
            let block = made.block.as_deref().map(|filter| (policy, filter));
            let tail = table.with_filters(block, made.table.as_deref())?;
            let (disk_bytes, tail) = (tail.offset, tail.bytes);
            files.push(NewFile { file_bytes: disk_bytes + tail.len() as u64, ..file.clone() });
            overlay.file(name, Content::Spliced { disk_bytes, tail: Arc::new(tail) });
        }
        self.add_manifest(&mut overlay, files)?;
        Ok(overlay)
    }

    /// Adds `CURRENT`, a MANIFEST with a single version edit, and the logs.
    fn add_manifest(&self, overlay: &mut Overlay, files: Vec<NewFile>) -> Result<()> {
        let recovered = &self.recovered;
        let edit = VersionEdit {
            comparator: Some(BytewiseComparator.name().to_string()),
            log_number: Some(recovered.log_number),
            prev_log_number: Some(recovered.prev_log_number),
            next_file_number: Some(recovered.next_file_number),
            last_seq: Some(recovered.last_seq),
            new_files: files,
            ..VersionEdit::default()
        };
        let mut record = Vec::new();
        edit.encode(&mut record);
        let memory = MemFs::new();
        let path = Path::new("/m");
        let in_memory = |error| Error::io("write", path, error);
        let file = memory.create(path).map_err(in_memory)?;
        let mut writer = LogWriter::new(file, 0);
        writer.add_record(&record).and_then(|()| writer.sync()).map_err(in_memory)?;
        drop(writer);
        let file = memory.open(path).map_err(in_memory)?;
        let mut manifest = vec![0; file.len().map_err(in_memory)? as usize];
        file.read_at(&mut manifest, 0).map_err(in_memory)?;

        let number = recovered.manifest_number;
        overlay.file(&FileName::Manifest(number).to_string(), Content::Memory(Arc::new(manifest)));
        let current = Content::Memory(Arc::new(current_contents(number).into_bytes()));
        overlay.file(&FileName::Current.to_string(), current);
        for (name, bytes) in &self.logs {
            overlay.file(name, Content::Memory(bytes.clone()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use minikv::stats::LevelTrace;
    use minikv::{Db, ReadTrace};

    use super::super::lookups::{Choice, first_times};
    use super::super::measure::Work;
    use super::*;
    use crate::data::Data;

    const FILTERS: [FilterCase; 7] = [
        FilterCase::AsIs,
        FilterCase::Ignored,
        FilterCase::None,
        FilterCase::Block(10),
        FilterCase::Block(2),
        FilterCase::Table(3),
        FilterCase::Both(3),
    ];

    /// Creates a database with several levels, old versions, deleted keys, and entries that are
    /// only in the log.
    fn database(dir: &Path, bits: u32) -> Source {
        let options = Options::default()
            .create_if_missing(true)
            .write_buffer_bytes(64 << 10)
            .max_file_bytes(32 << 10)
            .filters(minikv::Filters::Block(bits));
        let db = Db::open(dir, options.clone()).unwrap();
        let data = Data::Generated { entries: 20_000, value_bytes: 20, seed: 4 };
        data.load(&db, 4).unwrap();
        for i in (0..20_000).step_by(7) {
            db.delete(data.key(i)).unwrap();
        }
        db.flush().unwrap();
        for i in (0..20_000).step_by(14) {
            db.put(data.key(i), "again").unwrap();
        }
        db.wait_idle().unwrap();
        db.close().unwrap();
        Source::of(dir, options, 8 << 20).unwrap()
    }

    fn some_lookups(source: &Source) -> Vec<Lookup> {
        let db = source.open().unwrap();
        let pool = super::super::lookups::Pool::of(&db, 1).unwrap();
        let choice =
            Choice { number: 4000, absent_ratio: 0.5, zipf: Some(0.9), like: None, seed: 1 };
        let mut lookups = choice.of_pool(&pool).unwrap();
        let data = Data::Generated { entries: 20_000, value_bytes: 20, seed: 4 };
        for i in (0..20_000).step_by(35) {
            let key = data.key(i);
            lookups.push(Lookup { present: db.contains_key(&key).unwrap(), key });
        }
        lookups
    }

    /// Returns a trace that has only the counts that a replay makes. A replay uses no cache, and
    /// does not count bytes and skipped tables.
    fn shadowed(trace: &ReadTrace) -> Vec<LevelTrace> {
        let level = |level: &LevelTrace| {
            let mut shadowed = LevelTrace::default();
            shadowed.tables_considered = level.tables_considered;
            shadowed.index_seeks = level.index_seeks;
            shadowed.filter_checks = level.filter_checks;
            shadowed.filter_negatives = level.filter_negatives;
            shadowed.filter_true_positives = level.filter_true_positives;
            shadowed.filter_false_positives = level.filter_false_positives;
            shadowed.table_filter_checks = level.table_filter_checks;
            shadowed.table_filter_negatives = level.table_filter_negatives;
            shadowed.table_filter_true_positives = level.table_filter_true_positives;
            shadowed.table_filter_false_positives = level.table_filter_false_positives;
            shadowed.data_blocks_from_file = level.data_blocks();
            shadowed
        };
        trace.levels.iter().map(level).collect()
    }

    /// Checks that the sums of the traces of single gets equal the database's own counters, the
    /// measured totals, and the counts of the replay, which runs no gets.
    #[test]
    fn every_count_is_the_sum_of_the_traces_of_its_gets() {
        let dir = tempfile::tempdir().unwrap();
        let source = database(dir.path(), 10);
        assert!(source.tables_per_level().iter().filter(|tables| **tables > 0).count() >= 2);
        let lookups = some_lookups(&source);
        let reaching = source.reaching_tables(&lookups).unwrap();
        assert!(reaching.len() < lookups.len(), "some are answered by the log");
        let (candidates, held) = source.candidates(&FILTERS, reaching).unwrap();
        assert!(held.entries > 20_000 && held.tables > 3);
        let expected: Vec<_> = candidates.iter().map(|c| c.shadow.clone()).collect();
        let mut traces = Vec::new();
        for candidate in &candidates {
            let db = source.open_candidate(candidate).unwrap();
            let read = minikv::ReadOptions::default().use_filter(candidate.filters.asked());
            let mut sum = ReadTrace::default();
            for lookup in &lookups {
                sum.add(&db.reading(read).get_traced(&lookup.key).unwrap().1);
            }
            assert_eq!(sum, db.stats().reads, "{}", candidate.filters);
            traces.push(sum);
        }
        let first_times = first_times(&lookups);
        let work = Work { lookups: &lookups, first_times: &first_times };
        let measured = work.measure(&source, candidates).unwrap();
        for ((measured, expected), trace) in measured.iter().zip(&expected).zip(&traces) {
            let name = measured.filters;
            assert_eq!(measured.cold.all().trace, *trace, "{name}");
            let (cold, warm) = (&measured.cold, &measured.warm);
            assert_eq!(shadowed(&cold.present.trace), expected.present.levels, "{name}");
            assert_eq!(shadowed(&cold.absent.trace), expected.absent.levels, "{name}");
            assert_eq!(shadowed(&warm.all().trace), expected.all().levels, "{name}");
            let blocks: u64 = measured.blocks.iter().map(|&blocks| u64::from(blocks)).sum();
            assert_eq!(blocks, trace.data_blocks(), "{name}");
            if let Some(rate) = measured.rate {
                let shapes = expected.tried.iter().flat_map(|shapes| shapes.values());
                assert_eq!(rate.tried, shapes.sum::<u64>(), "{name}");
                assert_eq!(rate.wrong, expected.wrong.iter().sum::<u64>(), "{name}");
                let levels = measured.level_rates.iter().map(|(_, rate)| rate.tried).sum::<u64>();
                assert_eq!(rate.tried, levels, "{name}");
            }
        }
        let all: Vec<_> = measured.iter().map(|m| m.cold.all().trace).collect();
        assert_eq!(all[0], all[3], "as it is, the database has filters of ten bits");
        assert_eq!(all[1].total().data_blocks(), all[2].total().data_blocks());
        let saved = all[2].data_blocks() - all[3].data_blocks();
        assert_eq!(saved, all[3].total().filter_negatives, "each \"no\" saves a block");
    }

    /// Checks that replacing the filter of a table with an equal filter gives an identical file.
    #[test]
    fn splicing_the_same_filter_changes_no_byte() {
        let dir = tempfile::tempdir().unwrap();
        let source = database(dir.path(), 10);
        let before = contents(dir.path());
        let (candidates, _) = source.candidates(&[FilterCase::Block(10)], Vec::new()).unwrap();
        for (_, name) in &source.tables {
            let path = dir.path().join(name);
            let file = candidates[0].overlay.open(&path).unwrap();
            let mut spliced = vec![0; file.len().unwrap() as usize];
            file.read_at(&mut spliced, 0).unwrap();
            assert!(spliced == before[name], "{name}");
        }
        assert!(contents(dir.path()) == before, "nothing on the disk is changed");
    }

    #[test]
    fn sizes_of_a_level_may_add_up_to_more_than_64_bits() {
        let dir = tempfile::tempdir().unwrap();
        let mut source = database(dir.path(), 10);
        let held = source.survey(Vec::new()).unwrap();
        source.tables.iter_mut().for_each(|(file, _)| file.file_bytes = 1 << 63);
        let stored = source.stored(&held);
        assert!(stored.iter().any(|level| level.bytes == u64::MAX), "{stored:?}");
    }

    fn contents(dir: &Path) -> std::collections::BTreeMap<String, Vec<u8>> {
        let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
        files
            .map(|f| (f.file_name().into_string().unwrap(), std::fs::read(f.path()).unwrap()))
            .collect()
    }
}
