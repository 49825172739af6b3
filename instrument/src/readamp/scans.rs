//! Runs scans with two bounds, and counts the tables and the data blocks that they read in vain.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::advice::grafite::{grafite_bound, mean_range};
use crate::advice::judge::{LEAST_PART, Z};
use crate::advice::scans::ScanCounts;
use minikv::files::NUM_LEVELS;
use minikv::stats::LevelTrace;
use minikv::stats::ScannedRange;
use minikv::{DelimitedPrefix, FixedPrefix, PrefixExtractor, ReadOnlyDb, Readable};
use minikv_workloads::{Profile, Requests};
use serde::Serialize;

use super::lookups::{Keys, Lookup};
use super::rates::wilson;
use super::source::Source;
use super::text::{interval, listed, percent};
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::random::Rng;
use crate::text::Table;
use crate::text::{count, thousands};

/// Maximum number of lookups, and of scans, which are chosen before the first of them is measured.
/// With more of them, most machines would run out of memory.
pub const MAX_REQUESTS: u64 = 100_000_000;

/// Mean number of entries in the range of a scan, unless another mean is given.
const ENTRIES: u64 = 100;

/// Sizes of the Grafite filters whose false-positive bounds are shown, in bits per key.
const GRAFITE_BITS: [u32; 3] = [10, 16, 22];

/// The value of `--scan-prefix`.
#[derive(Clone, Debug)]
pub struct Prefix(Arc<dyn PrefixExtractor>);

impl Prefix {
    /// Parses the length of a prefix in bytes, or the byte that ends a prefix.
    pub fn parse(text: &str) -> std::result::Result<Prefix, String> {
        match (text.parse::<usize>(), text.as_bytes()) {
            (Ok(bytes @ 1..), _) => Ok(Prefix(Arc::new(FixedPrefix::new(bytes)))),
            (Err(_), &[byte]) => Ok(Prefix(Arc::new(DelimitedPrefix::new(byte)))),
            _ => Err("a prefix is a number of bytes, or the byte that ends it".to_string()),
        }
    }
}

/// The way in which scans are chosen.
pub struct ScanChoice {
    /// Number of scans. If this is `None`, the profile determines the number of scans per get.
    pub number: Option<u64>,
    /// Mean number of entries in the range of a scan.
    pub entries: Option<u64>,
    /// Profile from which the scans are drawn if `entries` is `None`.
    pub like: Option<Profile>,
    pub prefix: Option<Prefix>,
    pub seed: u64,
}

/// The scans to run.
pub struct ScanWork {
    ranges: Vec<ScannedRange>,
    named: String,
    prefix: Option<Prefix>,
}

impl ScanChoice {
    /// Returns the scans to run in addition to `lookups`, or `None` if there are none.
    pub fn of(
        self,
        db: &ReadOnlyDb,
        lookups: &[Lookup],
        keys: &impl Keys,
    ) -> Result<Option<ScanWork>> {
        let share = self.like.map_or(0.0, |profile| profile.scans_per_get());
        let number = self.number.unwrap_or((lookups.len() as f64 * share).round() as u64);
        if number == 0 {
            return Ok(None);
        }
        if number > MAX_REQUESTS {
            let what = format!("{number} scans are more than {MAX_REQUESTS}");
            return Err(Error::Usage(format!("{what}; --scans sets their number")));
        }
        let (starts, named) = match self.of_profile(number, keys) {
            Some(starts) => (starts, "chosen by the profile".to_string()),
            None => self.of_lookups(number, lookups),
        };
        let progress = Progress::steps("choosing scans", number);
        let mut ranges = Vec::with_capacity(starts.len());
        for (key, entries) in starts {
            ranges.push(bounded(db, key, entries)?);
            progress.set(ranges.len() as u64);
        }
        Ok(Some(ScanWork { ranges, named, prefix: self.prefix }))
    }

    fn of_profile(&self, number: u64, keys: &impl Keys) -> Option<Vec<(Vec<u8>, u64)>> {
        let profile = self.like.filter(|_| self.entries.is_none())?;
        let mut requests = Requests::new(profile, keys.present_keys(), self.seed);
        let mut next = || requests.next_scan().map(|(i, entries)| (keys.present(i), entries));
        (0..number).map(|_| next()).collect()
    }

    /// Returns scans that begin at the keys of the lookups, in the order of the lookups. The range
    /// of a scan that begins at an absent key contains no entries.
    fn of_lookups(&self, number: u64, lookups: &[Lookup]) -> (Vec<(Vec<u8>, u64)>, String) {
        let mut rng = Rng::new(self.seed);
        let mean = self.entries.unwrap_or(ENTRIES).max(1);
        let start = |lookup: &Lookup| {
            let entries = 1 + rng.below(2 * mean - 1);
            (lookup.key.clone(), if lookup.present { entries } else { 0 })
        };
        let starts = lookups.iter().cycle().take(number as usize).map(start).collect();
        (starts, "from the keys of the lookups on".to_string())
    }
}

/// Returns a range that starts at `key`, contains `entries` entries, and ends before the next
/// entry. If the database has no next entry, the range ends before the last entry, or contains only
/// `key`.
fn bounded(db: &ReadOnlyDb, key: Vec<u8>, entries: u64) -> Result<ScannedRange> {
    let mut cursor = db.cursor()?;
    let mut valid = cursor.seek(&key)?;
    let mut last = None;
    for _ in 0..entries {
        if !valid {
            break;
        }
        last = Some(cursor.key().to_vec());
        valid = cursor.next()?;
    }
    let to = match last {
        _ if valid => Bound::Excluded(cursor.key().to_vec()),
        Some(last) if last != key => Bound::Excluded(last),
        _ => Bound::Included(key.clone()),
    };
    Ok(ScannedRange { from: key, to })
}

/// The reads of scans, and the reads that filters could save.
#[derive(Serialize)]
pub struct Scans {
    chosen: String,
    scans: u64,
    different_ranges: u64,
    entries_per_scan: f64,
    /// Name of the prefix extractor, if there is one.
    prefix: Option<String>,
    levels: Vec<LevelScans>,
    all: LevelScans,
    /// Mean number of possible keys in a range, if all bounds are whole numbers in the same form.
    mean_range: Option<f64>,
    /// False-positive bounds of Grafite filters, if `mean_range` is known.
    grafite: Vec<Grafite>,
}

/// The reads of scans at one level, or at all levels.
#[derive(Serialize)]
struct LevelScans {
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<usize>,
    /// Number of pairs of a scan and a table in which the table's range of keys overlaps the scan's
    /// range.
    pairs: u64,
    /// Number of empty pairs, in which the table has no key in the scan's range. The next two
    /// fields are the share of empty pairs among all pairs, and the confidence interval of the
    /// share.
    empty: u64,
    empty_share: f64,
    empty_share_interval_95_percent: (f64, f64),
    /// Number of empty pairs in which a prefix filter without false positives would save the reads.
    empty_saved_by_prefix: Option<u64>,
    /// Number of data blocks read by the scans, and the number of these that were read from files.
    data_blocks: u64,
    data_blocks_from_file: u64,
    /// Number of data blocks read from tables whose range of keys does not overlap the scan's
    /// range.
    data_blocks_outside: u64,
    /// Number of data blocks read for empty pairs. An exact range filter would save these reads.
    /// The next field is the number of these data blocks per scan.
    data_blocks_for_nothing: u64,
    saved_per_scan: f64,
    saved_per_scan_interval_95_percent: (f64, f64),
    data_blocks_saved_by_prefix: Option<u64>,
}

/// The false-positive bound of a Grafite filter.
#[derive(Serialize)]
struct Grafite {
    bits_per_key: u32,
    false_positive_bound: f64,
}

impl ScanWork {
    /// Runs the scans on the unchanged database, and replays them on each table.
    pub fn measure(&self, source: &Source) -> Result<Scans> {
        let db = source.open()?;
        let entries = self.scan(&db)?;
        let reads = db.stats().reads.levels;
        let prefix = self.prefix.as_ref().map(|prefix| prefix.0.clone());
        let counts = source.replay_scans(prefix.clone(), &self.ranges)?;
        let clusters = ScanClusters::of(&self.ranges);
        let level = |levels: std::ops::Range<usize>| {
            let mut read = LevelTrace::default();
            reads[levels.clone()].iter().for_each(|trace| read.add(trace));
            let sum = |by_level: &[ScanCounts; NUM_LEVELS]| {
                let mut sum = ScanCounts::default();
                by_level[levels.clone()].iter().for_each(|counts| sum.add(counts));
                sum
            };
            let counts: Vec<_> = counts.iter().map(sum).collect();
            LevelScans::of(&read, &clusters.sums(&counts), prefix.is_some())
        };
        let mean_range = mean_range(&self.ranges);
        let grafite = |keys| {
            GRAFITE_BITS.map(|bits_per_key| Grafite {
                bits_per_key,
                false_positive_bound: grafite_bound(keys, f64::from(bits_per_key)),
            })
        };
        let tables = source.tables_per_level();
        let levels = (0..NUM_LEVELS).filter(|&l| tables[l] > 0);
        Ok(Scans {
            chosen: self.named.clone(),
            scans: self.ranges.len() as u64,
            different_ranges: clusters.number as u64,
            entries_per_scan: entries as f64 / self.ranges.len() as f64,
            prefix: prefix.as_ref().map(|prefix| prefix.name().to_string()),
            levels: levels.map(|l| LevelScans { level: Some(l), ..level(l..l + 1) }).collect(),
            all: level(0..NUM_LEVELS),
            mean_range,
            grafite: mean_range.map(grafite).into_iter().flatten().collect(),
        })
    }

    /// Runs the scans, and returns the number of entries that they found.
    fn scan(&self, db: &ReadOnlyDb) -> Result<u64> {
        let progress = Progress::steps("scanning", self.ranges.len() as u64);
        let mut entries = 0;
        for (i, range) in self.ranges.iter().enumerate() {
            let from = Bound::Included(&range.from[..]);
            let to = range.to.as_ref().map(Vec::as_slice);
            for entry in db.range((from, to)) {
                entry.map_err(Error::Db)?;
                entries += 1;
            }
            progress.set(i as u64);
        }
        Ok(entries)
    }
}

/// Scans grouped by range. All scans with the same range read the same blocks, so they are not
/// independent samples.
struct ScanClusters {
    /// The number of the cluster to which each scan belongs.
    of_scan: Vec<usize>,
    number: usize,
}

impl ScanClusters {
    fn of(ranges: &[ScannedRange]) -> ScanClusters {
        let mut numbers = HashMap::new();
        let number = |range| {
            let next = numbers.len();
            *numbers.entry(range).or_insert(next)
        };
        let of_scan = ranges.iter().map(number).collect();
        ScanClusters { of_scan, number: numbers.len() }
    }

    /// Returns the number of scans and the sum of the counts for each cluster.
    fn sums(&self, counts: &[ScanCounts]) -> Vec<(u64, ScanCounts)> {
        let mut sums = vec![(0, ScanCounts::default()); self.number];
        for (&cluster, counts) in self.of_scan.iter().zip(counts) {
            sums[cluster].0 += 1;
            sums[cluster].1.add(counts);
        }
        sums
    }
}

/// Formats `n` followed by the word "numbers", in scientific notation if `n` is large.
fn numbers(n: f64) -> String {
    if n < 1e9 {
        format!("{} numbers", thousands(n.round() as u64))
    } else {
        format!("{n:.1e} numbers")
    }
}

/// Returns the ratio of two sums over all clusters, and the standard error of the ratio.
fn ratio(clusters: impl Iterator<Item = (u64, u64)> + Clone) -> (f64, f64) {
    let sums = clusters.clone().fold((0, 0), |sum, (a, b)| (sum.0 + a, sum.1 + b));
    let all = sums.1.max(1) as f64;
    let ratio = sums.0 as f64 / all;
    let squares: f64 = clusters.clone().map(|(a, b)| (a as f64 - ratio * b as f64).powi(2)).sum();
    let n = clusters.count() as f64;
    (ratio, (squares * n / (n - 1.0).max(1.0)).sqrt() / all)
}

/// Returns the fraction of all pairs that are empty, and its 95 % confidence interval. Each item
/// has the number of empty pairs and the number of all pairs in a cluster.
fn share(clusters: impl Iterator<Item = (u64, u64)> + Clone) -> (f64, (f64, f64)) {
    let reaching = clusters.filter(|(_, pairs)| *pairs > 0);
    let (share, error) = ratio(reaching.clone());
    let tries = share * (1.0 - share) / (error * error);
    let clusters = reaching.count() as f64;
    (share, wilson(share, if tries.is_finite() && tries > 0.0 { tries } else { clusters }))
}

impl LevelScans {
    /// Returns the reads at one level or at all levels. `read` is the trace of the scans, and
    /// `clusters` has the number of scans and the counts of each cluster.
    fn of(read: &LevelTrace, clusters: &[(u64, ScanCounts)], has_prefix: bool) -> LevelScans {
        let mut sum = ScanCounts::default();
        clusters.iter().for_each(|(_, counts)| sum.add(counts));
        let (empty_share, interval) =
            share(clusters.iter().map(|(_, counts)| (counts.empty, counts.pairs)));
        let (saved, error) =
            ratio(clusters.iter().map(|(scans, counts)| (counts.empty_blocks, *scans)));
        // Even if all scans in the sample save the same number of blocks, another scan might save a
        // different number.
        let spread = Z * error.max(1.0 / clusters.len().max(1) as f64);
        LevelScans {
            level: None,
            pairs: sum.pairs,
            empty: sum.empty,
            empty_share,
            empty_share_interval_95_percent: interval,
            empty_saved_by_prefix: has_prefix.then_some(sum.saved_by_prefix),
            data_blocks: read.data_blocks(),
            data_blocks_from_file: read.data_blocks_from_file,
            data_blocks_outside: read.data_blocks().saturating_sub(sum.blocks),
            data_blocks_for_nothing: sum.empty_blocks,
            saved_per_scan: saved,
            saved_per_scan_interval_95_percent: ((saved - spread).max(0.0), saved + spread),
            data_blocks_saved_by_prefix: has_prefix.then_some(sum.blocks_saved_by_prefix),
        }
    }

    fn name(&self) -> String {
        self.level.map_or("all".to_string(), |level| format!("L{level}"))
    }
}

impl Scans {
    /// Returns the table of pairs and the table of data blocks, with their titles.
    pub fn tables(&self) -> [(String, Table); 2] {
        let pairs = "Tables in the ranges of scans, and those that gave nothing";
        let blocks = "Data blocks per scan, and those of tables that gave nothing";
        [(pairs.to_string(), self.pairs_table()), (blocks.to_string(), self.blocks_table())]
    }

    /// Returns a one-line description of the scans.
    pub fn head(&self) -> String {
        format!(
            "{} ({}), {}, of {:.1} entries on average",
            count(self.scans, "scan", "scans"),
            count(self.different_ranges, "range", "different ranges"),
            self.chosen,
            self.entries_per_scan
        )
    }

    fn rows(&self) -> impl Iterator<Item = &LevelScans> {
        self.levels.iter().chain([&self.all])
    }

    fn pairs_table(&self) -> Table {
        let mut table = Table::grouped(
            &[("", 3), ("gave nothing", 3), ("", 1)],
            [
                "level",
                "tables",
                "per scan",
                "number",
                "share",
                "95 % interval",
                "prefix filter saves",
            ],
        );
        for level in self.rows() {
            let (low, high) = level.empty_share_interval_95_percent;
            table.row([
                &level.name(),
                &thousands(level.pairs),
                &format!("{:.3}", level.pairs as f64 / self.scans as f64),
                &thousands(level.empty),
                &percent(level.empty_share),
                &interval(low, high),
                &level.empty_saved_by_prefix.map_or("-".to_string(), thousands),
            ]);
        }
        table
    }

    fn blocks_table(&self) -> Table {
        let mut table = Table::grouped(
            &[("", 4), ("for nothing", 2), ("", 1)],
            [
                "level",
                "read",
                "from files",
                "outside",
                "number",
                "95 % interval",
                "prefix filter saves",
            ],
        );
        let per_scan = |n: u64| format!("{:.3}", n as f64 / self.scans as f64);
        for level in self.rows() {
            let (low, high) = level.saved_per_scan_interval_95_percent;
            table.row([
                &level.name(),
                &per_scan(level.data_blocks),
                &per_scan(level.data_blocks_from_file),
                &per_scan(level.data_blocks_outside),
                &format!("{:.3}", level.saved_per_scan),
                &format!("{low:.3} to {high:.3}"),
                &level.data_blocks_saved_by_prefix.map_or("-".to_string(), per_scan),
            ]);
        }
        table
    }

    /// Returns conclusions from the counts.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = vec![self.remark_on_ceiling()];
        let per_scan = |n: u64| n as f64 / self.scans as f64;
        match (&self.prefix, self.all.data_blocks_saved_by_prefix) {
            (Some(name), Some(saved)) => remarks.push(format!(
                "A prefix filter ({name}) without false positives saves {:.3} of them.",
                per_scan(saved)
            )),
            _ => remarks.push(
                "There are no prefixes (--scan-prefix), so a prefix filter saves nothing."
                    .to_string(),
            ),
        }
        if self.all.data_blocks_outside > 0 {
            remarks.push(format!(
                "{:.3} data blocks per scan are of tables that are outside of its range; their \
                 first and last keys tell that, without a filter.",
                per_scan(self.all.data_blocks_outside)
            ));
        }
        if let Some(range) = self.mean_range {
            let bounds = self.grafite.iter().map(|grafite| {
                let bound = percent(grafite.false_positive_bound);
                format!("{bound} with {} bits per key", grafite.bits_per_key)
            });
            remarks.push(format!(
                "The ranges span {} on average. Of the tables that give nothing, a Grafite filter \
                 errs on at most {}.",
                numbers(range),
                listed(&bounds.collect::<Vec<_>>())
            ));
        }
        remarks
    }

    fn remark_on_ceiling(&self) -> String {
        let read = self.all.data_blocks as f64 / self.scans as f64;
        let (low, high) = self.all.saved_per_scan_interval_95_percent;
        let worth = LEAST_PART * read;
        let verdict = match (low > worth, high > worth) {
            (true, _) => "a range filter could pay",
            (false, true) => "whether a range filter could pay is not certain",
            (false, false) => "no range filter pays",
        };
        format!(
            "Scans: {verdict}. An exact one would save {:.3} of {read:.3} data blocks per scan \
             ({}), and no filter saves more.",
            self.all.saved_per_scan,
            percent(self.all.saved_per_scan / read.max(f64::MIN_POSITIVE)),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use minikv::Options;
    use minikv::files::user_key;

    use super::super::lookups::Choice;
    use super::*;
    use crate::data::Data;

    const DATA: Data = Data::Generated { entries: 12_000, value_bytes: 40, seed: 4 };

    /// Creates a database of several levels. Some keys are put several times, so they are in
    /// several levels.
    fn database(dir: &Path) -> Source {
        let options = Options::default().write_buffer_bytes(64 << 10).max_file_bytes(32 << 10);
        let db = Data::create(dir, options.clone()).unwrap();
        DATA.load(&db, 4).unwrap();
        for i in (0..12_000).step_by(17) {
            db.put(DATA.key(i), "again").unwrap();
        }
        db.flush().unwrap();
        for i in (0..12_000).step_by(1000) {
            db.put(DATA.key(i), "once more").unwrap();
        }
        db.flush().unwrap();
        db.wait_idle().unwrap();
        db.close().unwrap();
        Source::of(dir, options.filters(minikv::Filters::None), 8 << 20).unwrap()
    }

    fn work(source: &Source, prefix: &str) -> ScanWork {
        let db = source.open().unwrap();
        let choice =
            Choice { number: 300, absent_ratio: 0.5, zipf: Some(0.9), like: None, seed: 1 };
        let lookups = choice.of_data(&DATA).unwrap();
        let prefix = Some(Prefix::parse(prefix).unwrap());
        let choice =
            ScanChoice { number: Some(400), entries: Some(20), like: None, prefix, seed: 1 };
        choice.of(&db, &lookups, &DATA).unwrap().unwrap()
    }

    #[test]
    fn more_scans_than_fit_in_memory_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let source = database(dir.path());
        let lookups = [Lookup { key: DATA.key(0), present: true }];
        let number = Some(u64::MAX);
        let choice = ScanChoice { number, entries: None, like: None, prefix: None, seed: 1 };
        let refused = choice.of(&source.open().unwrap(), &lookups, &DATA);
        assert!(matches!(refused, Err(crate::Error::Usage(_))));
    }

    /// The user keys in each data block of a table, and the separators of the data blocks.
    struct Blocks(Vec<Vec<Vec<u8>>>, Vec<Vec<u8>>);

    impl Blocks {
        fn of(source: &Source, i: usize) -> Blocks {
            let table = Arc::new(source.table(i).unwrap());
            let separators: Vec<_> =
                table.blocks().unwrap().iter().map(|b| user_key(&b.separator).to_vec()).collect();
            let mut blocks = vec![Vec::new(); separators.len()];
            let mut cursor = table.cursor();
            let mut valid = cursor.seek_to_first().unwrap();
            while valid {
                let key = user_key(cursor.key()).to_vec();
                blocks[separators.partition_point(|separator| *separator < key)].push(key);
                valid = cursor.next().unwrap();
            }
            Blocks(blocks, separators)
        }

        fn keys(&self) -> impl DoubleEndedIterator<Item = &Vec<u8>> {
            self.0.iter().flatten()
        }
    }

    fn within(range: &ScannedRange, key: &[u8]) -> bool {
        let before = match &range.to {
            Bound::Included(to) => key <= &to[..],
            Bound::Excluded(to) => key < &to[..],
            Bound::Unbounded => true,
        };
        key >= &range.from[..] && before
    }

    /// Returns the number of data blocks that a scan reads in each table of a run. The scan begins
    /// with the block that the index selects, and ends with the block that contains the first entry
    /// after the range.
    fn blocks_read(run: &[Blocks], range: &ScannedRange, from_table: usize) -> Vec<u64> {
        let mut read = vec![0; run.len()];
        let mut started = false;
        for (i, Blocks(blocks, separators)) in run.iter().enumerate().skip(from_table) {
            let skip = separators.partition_point(|separator| *separator < range.from);
            for keys in blocks.iter().skip(if started { 0 } else { skip }) {
                (started, read[i]) = (true, read[i] + 1);
                if keys.iter().any(|key| *key >= range.from && !within(range, key)) {
                    return read;
                }
            }
        }
        read
    }

    /// Compares the counts with counts that are derived from all keys of all tables, without any
    /// seeks.
    #[test]
    fn counts_are_those_of_all_keys_of_all_tables() {
        let dir = tempfile::tempdir().unwrap();
        let source = database(&dir.path().join("db"));
        assert!(source.tables_per_level().iter().filter(|n| **n > 0).count() >= 2);
        let work = work(&source, "3");
        let scans = work.measure(&source).unwrap();
        let blocks: Vec<_> = (0..source.tables.len()).map(|i| Blocks::of(&source, i)).collect();
        // Each table of level 0 is a separate run.
        let levels: Vec<_> = source.tables.iter().map(|(file, _)| file.level).collect();
        let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
        for (i, &level) in levels.iter().enumerate() {
            match runs.last_mut() {
                Some(run) if level > 0 && levels[run.start] == level => run.end = i + 1,
                _ => runs.push(i..i + 1),
            }
        }
        let mut expected = [(ScanCounts::default(), 0); NUM_LEVELS];
        for (run, range) in runs.iter().flat_map(|run| work.ranges.iter().map(move |r| (run, r))) {
            let level = levels[run.start];
            let (counts, all) = &mut expected[level];
            let run = &blocks[run.clone()];
            let last = |table: &Blocks| table.keys().next_back().unwrap().clone();
            let from = run.iter().position(|table| level == 0 || last(table) >= range.from);
            let read = from.map_or(vec![0; run.len()], |from| blocks_read(run, range, from));
            for (table, read) in run.iter().zip(read) {
                *all += read;
                let (Bound::Included(end) | Bound::Excluded(end)) = &range.to else { panic!() };
                if last(table) < range.from || table.keys().next().unwrap() > end {
                    continue;
                }
                let empty = !table.keys().any(|key| within(range, key));
                let prefix = &range.from[..3];
                let saved = empty
                    && end.starts_with(prefix)
                    && !table.keys().any(|key| key.starts_with(prefix));
                counts.add(&ScanCounts {
                    pairs: 1,
                    empty: u64::from(empty),
                    saved_by_prefix: u64::from(saved),
                    blocks: read,
                    empty_blocks: if empty { read } else { 0 },
                    blocks_saved_by_prefix: if saved { read } else { 0 },
                });
            }
        }
        let mut empty = 0;
        for level in &scans.levels {
            let (counts, all) = &expected[level.level.unwrap()];
            assert_eq!((level.pairs, level.empty), (counts.pairs, counts.empty));
            assert_eq!(level.empty_saved_by_prefix, Some(counts.saved_by_prefix));
            assert_eq!(level.data_blocks, *all, "the engine read as many");
            assert_eq!(level.data_blocks_outside, all - counts.blocks);
            assert_eq!(level.data_blocks_for_nothing, counts.empty_blocks);
            let saved = counts.blocks_saved_by_prefix;
            assert_eq!(level.data_blocks_saved_by_prefix, Some(saved));
            empty += level.empty;
        }
        let all = &scans.all;
        assert!(all.data_blocks_outside > 0 && all.empty_saved_by_prefix.unwrap() > 10);
        assert!(all.empty > 2 * all.empty_saved_by_prefix.unwrap() && all.empty < all.pairs);
        assert_eq!(all.empty, empty, "the levels add up");
        // The cache can hold all blocks, so each block is read from its file at most once.
        let stored = blocks.iter().map(|Blocks(blocks, _)| blocks.len() as u64).sum::<u64>();
        assert!((1..=stored).contains(&all.data_blocks_from_file));
        assert!(all.data_blocks > all.data_blocks_from_file);
    }

    #[test]
    fn scans_have_the_entries_asked_for_and_those_at_absent_keys_none() {
        let dir = tempfile::tempdir().unwrap();
        let source = database(&dir.path().join("db"));
        let work = work(&source, ":");
        let db = source.open().unwrap();
        let (mut entries, mut present) = (Vec::new(), 0);
        for range in &work.ranges {
            let bounds: (Bound<&Vec<u8>>, _) = (Bound::Included(&range.from), range.to.as_ref());
            entries.push(db.range(bounds).count() as u64);
            present += u64::from(db.contains_key(&range.from).unwrap());
        }
        assert_eq!(entries.iter().filter(|entries| **entries > 0).count() as u64, present);
        assert!((180..220).contains(&present), "{present}");
        let mean = entries.iter().sum::<u64>() as f64 / present as f64;
        assert!((18.5..21.5).contains(&mean), "{mean}");
        assert_eq!(entries.iter().max(), Some(&39));
    }

    #[test]
    fn scans_of_a_profile_begin_and_end_at_its_entries() {
        let profile: Profile = "mixgraph:get=0.5,scan=0.5".parse().unwrap();
        let data = Data::Like { entries: 5000, profile };
        let dir = tempfile::tempdir().unwrap();
        let db = Data::create(&dir.path().join("db"), Options::default()).unwrap();
        data.load(&db, 1).unwrap();
        db.close().unwrap();
        let options = Options::default();
        let source = Source::of(&dir.path().join("db"), options, 1 << 20).unwrap();
        let choice = |like| ScanChoice { number: None, entries: None, like, prefix: None, seed: 3 };
        let db = source.open().unwrap();
        let lookups = vec![Lookup { key: data.key(7), present: true }; 50];
        let work = choice(Some(profile)).of(&db, &lookups, &data).unwrap().unwrap();
        assert_eq!(work.ranges.len(), 50, "one per get");
        let mut requests = Requests::new(profile, 5000, 3);
        for range in &work.ranges {
            let (number, entries) = requests.next_scan().unwrap();
            let end = number + entries;
            let to = match end < 5000 {
                true => Bound::Excluded(data.key(end)),
                false => Bound::Excluded(data.key(4999)),
            };
            assert_eq!(*range, ScannedRange { from: data.key(number), to });
        }
        assert!(choice(None).of(&db, &lookups, &data).unwrap().is_none(), "no profile, no scans");
        let cache = "cache".parse().ok();
        assert!(choice(cache).of(&db, &lookups, &data).unwrap().is_none());
    }

    #[test]
    fn scans_of_one_range_are_one_cluster() {
        let range =
            |from: &str| ScannedRange { from: from.into(), to: Bound::Excluded(b"z".to_vec()) };
        let clusters = ScanClusters::of(&["a", "b", "a", "c", "a"].map(range));
        assert_eq!((&clusters.of_scan[..], clusters.number), (&[0, 1, 0, 2, 0][..], 3));
        let counts = [1, 2, 4, 8, 16].map(|pairs| ScanCounts { pairs, ..ScanCounts::default() });
        let sums: Vec<_> = clusters.sums(&counts).iter().map(|(n, sum)| (*n, sum.pairs)).collect();
        assert_eq!(sums, [(3, 21), (1, 2), (1, 8)]);
    }

    #[test]
    fn a_range_that_is_scanned_again_is_no_more_evidence() {
        let once = || (0..400).map(|i| (u64::from(i % 4 == 0), 1));
        let (of_once, interval) = share(once());
        let (low, high) = wilson(0.25, 399.0);
        assert_eq!(of_once, 0.25);
        assert!((interval.0 - low).abs() < 1e-6 && (interval.1 - high).abs() < 1e-6);
        let (of_four, four_times) = share(once().map(|(empty, pairs)| (4 * empty, 4 * pairs)));
        assert_eq!(of_four, 0.25);
        assert!((four_times.0 - low).abs() < 1e-6 && (four_times.1 - high).abs() < 1e-6);
        assert_eq!(share((0..20).map(|_| (0, 3))), (0.0, wilson(0.0, 20.0)));
        assert_eq!(share([(0, 0); 3].into_iter()).1, (0.0, 1.0), "nothing is known");
        // The variance of the mean of 0 and 2 is 1.
        assert_eq!(ratio([(0, 1), (2, 1)].into_iter()), (1.0, 1.0));
    }

    #[test]
    fn a_prefix_is_a_length_or_a_byte() {
        let name = |text| Prefix::parse(text).map(|prefix| prefix.0.name().to_string());
        assert_eq!(name("4").unwrap(), "minikv.fixed.4");
        assert_eq!(name(":").unwrap(), "minikv.delimited.3a");
        for bad in ["", "0", "-1", "ab", "\u{e9}"] {
            assert!(name(bad).is_err(), "{bad:?}");
        }
    }
}
