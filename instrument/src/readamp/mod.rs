//! The same lookups on the same tables with different filters: their reads, counted and timed, and
//! the false-positive rates beside those of theory.

mod advise;
mod chart;
mod control;
mod curve;
mod export;
mod filters;
mod lookups;
mod measure;
mod memory;
mod overlay;
mod page;
mod provenance;
mod rates;
mod report;
mod rewritten;
mod scans;
mod source;
mod space;
mod sweep;
mod text;
mod theory;

use std::path::Path;

use minikv::{Options, ReadOnlyDb};
use minikv_workloads::Profile;

pub use self::advise::Advised;
pub(crate) use self::chart::escape;
pub use self::filters::FilterCase;
use self::lookups::{Choice, Keys, Lookup, Pool};
use self::measure::Work;
pub use self::memory::Memory;
pub use self::provenance::Provenance;
pub use self::report::Report;
use self::rewritten::Rewritten;
pub use self::scans::{MAX_REQUESTS, Prefix};
use self::scans::{ScanChoice, ScanWork};
pub use self::source::Source;
use self::space::Space;
pub use self::theory::Theory;
use crate::data::Data;
use crate::error::Result;

/// The lookups of an experiment.
#[derive(Clone, Debug)]
pub enum Lookups {
    /// This number of lookups, chosen at random.
    Number(u64),
    /// Lookups of these keys, in order.
    Keys {
        /// The keys.
        keys: Vec<Vec<u8>>,
        /// Name of the place that they are from, for reports.
        from: String,
    },
}

/// The scans of an experiment, done beside its lookups.
#[derive(Clone, Debug, Default)]
pub struct ScanSettings {
    /// Number of scans with two bounds. `None` for the profile's share; without a profile, none.
    pub number: Option<u64>,
    /// Mean number of entries in a scan from a present key. `None` for the profile's, or 100.
    pub entries: Option<u64>,
    /// Prefixes for which a prefix filter is counted.
    pub prefix: Option<Prefix>,
}

/// The filters to compare and the lookups to compare them with.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Configurations to compare; `None` for the usual ones.
    pub filters: Option<Vec<FilterCase>>,
    /// Bits per key of the usual block filters, and of the usual table filters; each at least 1.
    pub default_bits: [u32; 2],
    /// The lookups.
    pub lookups: Lookups,
    /// Fraction of chosen lookups that are for absent keys, 0 to 1.
    pub absent_ratio: f64,
    /// Exponent of Zipf's law, by which keys are chosen; `None` to choose uniformly.
    pub zipf: Option<f64>,
    /// Profile of requests whose gets are the lookups, instead of the two fields above.
    pub like: Option<Profile>,
    /// Scans to do beside the lookups, if any.
    pub scans: Option<ScanSettings>,
    /// Seed of the choices. The same seed gives the same counts.
    pub seed: u64,
    /// Whether the report must have what advice needs.
    pub advise: bool,
}

/// Another load of the data, with the advised filters.
pub struct Rewrite<'a> {
    /// Options of the new database.
    pub options: Options,
    /// Size of the block cache of the lookups, in bytes.
    pub cache_bytes: u64,
    /// A directory that does not exist yet.
    pub dir: &'a Path,
}

impl Experiment {
    /// Measures the database that `source` is a snapshot of. `name` is its name in the report.
    ///
    /// # Errors
    /// Errors of the library; [`Error::Usage`](crate::Error::Usage) if the database is empty.
    pub fn measure_db(&self, source: &Source, name: String) -> Result<Report> {
        let db = source.open()?;
        let pool = Pool::of(&db, self.seed)?;
        let lookups = self.lookups(&db, |choice| choice.of_pool(&pool))?;
        let live = (pool.all_entries, pool.all_bytes);
        let scans = self.scans(&db, &lookups, &pool)?;
        drop(pool);
        drop(db);
        let [block, table] = self.default_sizes();
        let filters = self.filters(vec![FilterCase::AsIs, FilterCase::Ignored, block, table]);
        let mut report = Report::of(name, live, source, &filters, &lookups, self.lookups_named())?;
        report.scans = scans.map(|scans| scans.measure(source)).transpose()?;
        if self.advise {
            report.by_level = advise::by_level(&report, source, &lookups)?;
        }
        Ok(report)
    }

    /// Measures `data`, which was loaded into the database of `source`. If `rewrite` is given,
    /// loads the data again with the advised filters, and repeats the lookups.
    ///
    /// # Errors
    /// Errors of the library.
    pub fn measure_data(
        &self,
        data: &Data,
        source: &Source,
        rewrite: Option<Rewrite<'_>>,
    ) -> Result<Report> {
        let db = source.open()?;
        let lookups = self.lookups(&db, |choice| choice.of_data(data))?;
        let scans = self.scans(&db, &lookups, data)?;
        drop(db);
        let [block, table] = self.default_sizes();
        let filters = self.filters(vec![FilterCase::None, block, table]);
        let (named, live) = (self.lookups_named(), (data.len(), data.bytes()));
        let mut report = Report::of(data.name(), live, source, &filters, &lookups, named)?;
        report.scans = scans.map(|scans| scans.measure(source)).transpose()?;
        if self.advise {
            report.by_level = advise::by_level(&report, source, &lookups)?;
        }
        if let (Some(rewrite), Some(by_level)) = (rewrite, &report.by_level) {
            let options = by_level.advised_options(rewrite.options);
            let source = load(options, rewrite.cache_bytes, data, self.seed, rewrite.dir)?;
            report.rewritten = Some(Rewritten::of(&source, &lookups, by_level)?);
        }
        Ok(report)
    }

    /// Divides `budget` bytes of memory for the lookups in the database of `source`.
    ///
    /// # Errors
    /// Errors of the library; [`Error::Usage`](crate::Error::Usage) if the budget is too small or
    /// the database is empty.
    pub fn divide_db(&self, source: &Source, budget: u64) -> Result<Memory> {
        let db = source.open()?;
        let pool = Pool::of(&db, self.seed)?;
        let lookups = self.lookups(&db, |choice| choice.of_pool(&pool))?;
        drop(pool);
        Memory::divide(source, &lookups, budget)
    }

    /// Divides `budget` bytes of memory for the lookups in `data`, which was loaded into the
    /// database of `source`.
    ///
    /// # Errors
    /// Errors of the library; [`Error::Usage`](crate::Error::Usage) if the budget is too small.
    pub fn divide_data(&self, data: &Data, source: &Source, budget: u64) -> Result<Memory> {
        let db = source.open()?;
        let lookups = self.lookups(&db, |choice| choice.of_data(data))?;
        Memory::divide(source, &lookups, budget)
    }

    fn default_sizes(&self) -> [FilterCase; 2] {
        let [block, table] = self.default_bits;
        [FilterCase::Block(block), FilterCase::Table(table)]
    }

    fn filters(&self, default: Vec<FilterCase>) -> Vec<FilterCase> {
        let default = if self.advise { advise::default_filters() } else { default };
        self.filters.clone().unwrap_or(default)
    }

    fn lookups(
        &self,
        db: &ReadOnlyDb,
        choose: impl Fn(&Choice) -> Result<Vec<Lookup>>,
    ) -> Result<Vec<Lookup>> {
        let number = match &self.lookups {
            Lookups::Keys { keys, .. } => return lookups::of_keys(keys, db),
            Lookups::Number(number) => *number,
        };
        let (absent_ratio, zipf, seed) = (self.absent_ratio, self.zipf, self.seed);
        choose(&Choice { number, absent_ratio, zipf, like: self.like, seed })
    }

    fn scans(
        &self,
        db: &ReadOnlyDb,
        lookups: &[Lookup],
        keys: &impl Keys,
    ) -> Result<Option<ScanWork>> {
        let Some(ScanSettings { number, entries, prefix }) = self.scans.clone() else {
            return Ok(None);
        };
        let choice = ScanChoice { number, entries, like: self.like, prefix, seed: self.seed };
        choice.of(db, lookups, keys)
    }

    /// Returns a text that says how the lookups were chosen.
    fn lookups_named(&self) -> String {
        match (&self.lookups, &self.like, self.zipf) {
            (Lookups::Keys { from, .. }, ..) => format!("from {from}"),
            (_, Some(profile), _) => format!("gets of {profile}; seed {}", self.seed),
            (_, None, Some(exponent)) => {
                format!("chosen by Zipf's law, exponent {exponent}; seed {}", self.seed)
            }
            (_, None, None) => format!("chosen uniformly; seed {}", self.seed),
        }
    }
}

/// Returns `options` with filters, so that the filters of existing tables are read.
pub fn readable(options: Options) -> Options {
    options.filters(minikv::Filters::default())
}

/// Creates a database of `data` in the directory `dir`, and returns a snapshot of it. The order of
/// loading depends only on `seed`. Lookups have a block cache of `cache_bytes` bytes.
///
/// # Errors
/// Errors of the library.
pub fn load(
    options: Options,
    cache_bytes: u64,
    data: &Data,
    seed: u64,
    dir: &Path,
) -> Result<Source> {
    let db = Data::create(dir, options.clone())?;
    data.load(&db, seed)?;
    db.flush()?;
    db.wait_idle()?;
    let stats = db.stats();
    db.close()?;
    let mut source = Source::of(dir, readable(options), cache_bytes)?;
    source.stats = Some(stats);
    Ok(source)
}

/// Runs `2 * lookups` lookups in the database of `source`, which holds `data`: half of them for
/// present keys and half for absent keys, without filters and with block filters of `bits` bits per
/// key. Returns the report.
///
/// # Errors
/// Errors of the library.
pub fn compare(source: &Source, data: &Data, bits: u32, lookups: u64, seed: u64) -> Result<Report> {
    let choice = Choice { number: 2 * lookups, absent_ratio: 0.5, zipf: None, like: None, seed };
    let filters = [FilterCase::None, FilterCase::Block(bits)];
    let lookups = choice.of_data(data)?;
    let named = format!("chosen uniformly; seed {seed}");
    Report::of(data.name(), (data.len(), data.bytes()), source, &filters, &lookups, named)
}

impl Report {
    /// Runs `lookups` on `source` with each element of `filters`, and returns the report. `live` is
    /// the number of live entries and their total size in bytes.
    fn of(
        data: String,
        live: (u64, u64),
        source: &Source,
        filters: &[FilterCase],
        lookups: &[Lookup],
        lookups_named: String,
    ) -> Result<Report> {
        let first_times = lookups::first_times(lookups);
        let (candidates, held) = source.candidates(filters, source.reaching_tables(lookups)?)?;
        let work = Work { lookups, first_times: &first_times };
        let measured = work.measure(source, candidates)?;
        let mut report = Report {
            data,
            entries: live.0,
            space: Space::of(live.0, live.1, &source.stored(&held), source.stats.as_ref()),
            lookups_named,
            lookups: lookups.len() as u64,
            different_keys: first_times.iter().filter(|first| **first).count() as u64,
            cache_bytes: source.cache_bytes(),
            tables_per_level: source.tables_per_level(),
            held,
            measured,
            controls: Vec::new(),
            scans: None,
            by_level: None,
            rewritten: None,
        };
        report.controls = control::rates(source, lookups, &report.measured)?;
        Ok(report)
    }
}

/// Returns a text with the number of tables at each level that has tables, such as `L0: 1, L2: 7`.
pub fn show_levels(tables: &[u64]) -> String {
    let levels = tables.iter().enumerate().filter(|(_, tables)| **tables > 0);
    let levels: Vec<_> = levels.map(|(level, tables)| format!("L{level}: {tables}")).collect();
    levels.join(", ")
}
