//! `minikv readamp`: measures the savings of filters.
//!
//! Runs the same lookups on the same tables with different filters, counts and times the reads, and
//! compares the false-positive rates with theory.

mod advise;
pub mod chart;
mod control;
mod curve;
mod export;
mod filters;
mod lookups;
mod measure;
mod memory;
mod overlay;
mod page;
pub mod provenance;
mod rates;
mod report;
mod rewritten;
mod scans;
mod source;
mod space;
mod sweep;
mod text;
mod theory;

use std::path::{Path, PathBuf};

use minikv::internals::filter::whole_table::MAX_BITS_PER_KEY;
use minikv::{Db, Options, ReadOnlyDb};
use minikv_workloads::Profile;

use self::advise::Advised;
use self::filters::Filters;
use self::lookups::{Choice, Keys, Lookup, Pool, Wanted};
use self::measure::Work;
use self::memory::Memory;
use self::provenance::Provenance;
pub use self::report::Report;
use self::rewritten::Rewritten;
use self::scans::{Prefix, ScanChoice, ScanWork};
use self::source::Source;
use self::space::Space;
use self::theory::Theory;
use super::{count, size, thousands};
use crate::args::{Global, Shape, parse_size};
use crate::error::{CliError, Result};
use crate::output::Stdout;
use crate::scratch::Scratch;
use crate::workload::Data;

const LOOKUPS: u64 = 40_000;

/// Measure what filters save: the same lookups, on the same tables, with different filters
///
/// The data is a database (--db, which is only read), a file of entries, or generated; by default,
/// 104,334 English words. Every configuration of --filters has the same levels, tables and data
/// blocks, byte for byte, and does the same lookups: first cold, with an empty block cache, and
/// then again, warm.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// File of entries to load, one per line: KEY or KEY<TAB>VALUE as plain bytes, or entries in
    /// --format if that is given; or the directory of a database, as with --db
    #[arg(value_name = "DATAFILE|DIR")]
    data: Option<PathBuf>,
    /// Generate this many entries instead of reading a file
    #[arg(long, value_name = "N", conflicts_with = "data")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=u64::from(u32::MAX)))]
    entries: Option<u64>,
    /// Size in bytes of the values for keys that have none in the data [default: 100]
    #[arg(long, value_name = "N")]
    value_bytes: Option<usize>,
    /// Configurations to compare: none; block, table or both with bits per key, as in table:10, or
    /// with a range, as in block:4..16, or a range with a step, as in block:0..20:2 (0 bits are the
    /// same as none); with --db also as-is (the files' own filters) and ignored
    /// (the files as they are, without using their filters) [default: none,block:10,table:10; with
    /// --db as-is,ignored,block:10,table:10]
    #[arg(long, value_name = "LIST", value_parser = filter_list)]
    filters: Option<FilterList>,
    /// Number of lookups, or a file of keys to look up in order, one per line [default: 40000]
    #[arg(long, value_name = "N|FILE")]
    lookups: Option<Wanted>,
    /// Fraction of lookups that are for absent keys: near misses of present ones
    #[arg(long, value_name = "RATIO", default_value_t = 0.5, value_parser = parse_ratio)]
    absent_ratio: f64,
    /// Choose keys by Zipf's law with this exponent, so that few keys are popular [default:
    /// uniform]
    #[arg(long, value_name = "EXPONENT", num_args = 0..=1, default_missing_value = "0.99")]
    #[arg(value_parser = parse_exponent)]
    zipf: Option<f64>,
    /// Look up keys as a profile of requests does: mixgraph (the model in RocksDB's db_bench) or
    /// cache, with parameters as in mixgraph:miss=0.3 (share of absent keys) or
    /// cache:miss=0.5,zipf=1,key=40,value=200. With --entries, the profile also determines the
    /// generated keys and values
    #[arg(long, value_name = "PROFILE", conflicts_with_all = ["absent_ratio", "zipf"])]
    like: Option<Profile>,
    /// Also do this many scans with two bounds. The scans begin at the keys of the lookups or, with
    /// --like, as in the profile; a scan from an absent key ends before the next key [default: 0;
    /// with --like, the profile's share]
    #[arg(long, value_name = "N", conflicts_with_all = ["csv", "budget", "theory"])]
    scans: Option<u64>,
    /// Mean number of entries in a scan from a present key; the number varies from 1 to twice the
    /// mean [default: 100, or the profile's]
    #[arg(long, value_name = "N", conflicts_with_all = ["csv", "budget", "theory"])]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=u64::from(u32::MAX)))]
    scan_entries: Option<u64>,
    /// Also count what a prefix filter would save in scans, with prefixes of this many bytes, or
    /// prefixes that end with this byte
    #[arg(long, value_name = "N|BYTE", value_parser = Prefix::parse)]
    #[arg(conflicts_with_all = ["csv", "budget", "theory"])]
    scan_prefix: Option<Prefix>,
    /// Seed of the order of loading and of the choice of lookups: the same seed gives the same
    /// counts
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV: a line for each configuration, pass, kind of lookup and level
    #[arg(long)]
    csv: bool,
    /// Recommend filters for these lookups: what each would save and cost, and how certain that is
    #[arg(long, conflicts_with_all = ["csv", "theory"])]
    advise: bool,
    /// With --advise, also load the data again with the advised filter size for each level, and
    /// count what the same lookups then read
    #[arg(long, requires = "advise")]
    rewrite: bool,
    /// Divide this much memory among block cache, filters and indexes for these lookups
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    #[arg(conflicts_with_all = ["csv", "theory", "advise", "html", "filters"])]
    budget: Option<usize>,
    /// Print the table of false-positive rates by bits per key and probes, predicted and measured
    #[arg(long, conflicts_with_all = ["data", "entries", "filters", "lookups", "zipf", "like"])]
    #[arg(conflicts_with_all = ["csv", "html"])]
    theory: bool,
    /// Also write a self-contained page with charts to this file; with --advise, the page includes
    /// the advice
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// The value of `--filters`.
#[derive(Clone, Debug)]
struct FilterList(Vec<Filters>);

fn filter_list(text: &str) -> std::result::Result<FilterList, String> {
    Filters::list(text).map(FilterList)
}

fn parse_ratio(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(ratio),
        _ => Err("a ratio is a number from 0 to 1".to_string()),
    }
}

fn parse_exponent(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(exponent) if (0.0..=10.0).contains(&exponent) => Ok(exponent),
        _ => Err("an exponent is a number from 0 to 10".to_string()),
    }
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    if args.theory {
        let theory = Theory::measure(args.seed);
        let mut stdout = Stdout::open()?;
        match args.json {
            true => stdout.json(&theory.document())?,
            false => stdout.line(theory.text())?,
        }
        return stdout.finish();
    }
    let scratch;
    let input = Input::of(global, &args)?;
    let report = match &input {
        Input::Db(_) if args.rewrite => {
            return Err(CliError::Usage(
                "--rewrite loads data a second time; with --db there is none to load".to_string(),
            ));
        }
        Input::Db(dir) => {
            args.check_shape(global, dir)?;
            global.needs_byte_order("readamp")?;
            let source =
                Source::of(dir, readable(global.options(dir)?), global.shape.cache_bytes())?;
            super::report_lost_logs(&source.recovery()?);
            if let Some(budget) = args.budget {
                let db = source.open()?;
                let pool = Pool::of(&db, args.seed)?;
                let lookups = args.lookups(global, &db, |choice| choice.of_pool(&pool))?;
                drop(pool);
                return args.print_memory(&source, &lookups, budget as u64);
            }
            args.measure_db(global, dir, &source)?
        }
        Input::Data(data) => {
            scratch = Scratch::new()?;
            let dir = scratch.path().join("db");
            let source = load(&global.shape, data, args.seed, &dir)?;
            if let Some(budget) = args.budget {
                let db = source.open()?;
                let lookups = args.lookups(global, &db, |choice| choice.of_data(data))?;
                return args.print_memory(&source, &lookups, budget as u64);
            }
            args.measure_data(global, data, &source)?
        }
    };
    let own_lookups = matches!(args.lookups, Some(Wanted::File(_)));
    let advised = match args.advise {
        true => Some(Advised::of(&report, own_lookups).ok_or_else(|| {
            CliError::Usage(
                "--advise needs a comparison without filters: add none to --filters".to_string(),
            )
        })?),
        false => None,
    };
    if let Some(path) = &args.html {
        let page = report.page(advised.as_ref(), &Provenance::of_this_run());
        std::fs::write(path, page).map_err(|error| CliError::io("write", path, error))?;
    }
    let mut stdout = Stdout::open()?;
    if let Some(advised) = &advised {
        match args.json {
            true => stdout.json(&advised.document())?,
            false => stdout.line(advised.text())?,
        }
    } else if args.json {
        stdout.json(&report)?;
    } else if args.csv {
        stdout.write(report.csv().as_bytes())?;
    } else {
        stdout.line(report.text())?;
    }
    stdout.finish()
}

/// The database or the data that is measured.
enum Input {
    Db(PathBuf),
    Data(Data),
}

impl Input {
    fn of(global: &Global, args: &Args) -> Result<Input> {
        let is_dir = args.dir().is_some();
        if args.has_data() && global.db.is_some() {
            return Err(CliError::Usage(
                "give either --db or other data; readamp does not change databases".to_string(),
            ));
        }
        Ok(match (&args.data, args.entries) {
            (Some(path), _) if is_dir => Input::Db(path.clone()),
            (Some(path), _) => Input::Data(Data::file(path, global.format, args.value_bytes())?),
            (None, Some(entries)) => Input::Data(match args.like {
                Some(profile) => Data::Like { entries, profile },
                None => {
                    let (value_bytes, seed) = (args.value_bytes(), args.seed);
                    Data::Generated { entries, value_bytes, seed }
                }
            }),
            (None, None) => match global.db() {
                Ok(dir) => Input::Db(dir),
                Err(_) => Input::Data(Data::words()?),
            },
        })
    }
}

impl Args {
    /// Returns the argument DATAFILE if it is a directory.
    pub(super) fn dir(&self) -> Option<&Path> {
        self.data.as_deref().filter(|path| path.is_dir())
    }

    /// Returns whether the data is named, and is not a database.
    pub(super) fn has_data(&self) -> bool {
        self.theory || self.entries.is_some() || self.data.is_some() && self.dir().is_none()
    }

    fn value_bytes(&self) -> usize {
        self.value_bytes.unwrap_or(100)
    }

    /// Returns an error if there are options that shape new data: the database in `dir` has its
    /// shape already.
    fn check_shape(&self, global: &Global, dir: &Path) -> Result<()> {
        let Shape { compression, block_size, write_buffer, filter_layout, plain_logs, .. } =
            &global.shape;
        let given = [
            (self.value_bytes.is_some(), "--value-bytes"),
            (compression.is_some(), "--compression"),
            (block_size.is_some(), "--block-size"),
            (write_buffer.is_some(), "--write-buffer"),
            (filter_layout.is_some(), "--filter-layout"),
            (*plain_logs, "--plain-logs"),
        ];
        let Some((_, option)) = given.into_iter().find(|(is_given, _)| *is_given) else {
            return Ok(());
        };
        let (dir, hint) = (
            dir.display(),
            match (self.dir(), &global.db) {
                (None, None) => "`MINIKV_DB= minikv readamp` measures new data",
                _ => "without a database, readamp measures new data",
            },
        );
        Err(CliError::Usage(format!(
            "{option} shapes new data, but readamp reads the database {dir} as it is; {hint}"
        )))
    }

    fn print_memory(&self, source: &Source, lookups: &[Lookup], budget: u64) -> Result<()> {
        let memory = Memory::divide(source, lookups, budget)?;
        let mut stdout = Stdout::open()?;
        match self.json {
            true => stdout.json(&memory)?,
            false => stdout.line(memory.text())?,
        }
        stdout.finish()
    }

    fn measure_db(&self, global: &Global, dir: &Path, source: &Source) -> Result<Report> {
        let db = source.open()?;
        let pool = Pool::of(&db, self.seed)?;
        let lookups = self.lookups(global, &db, |choice| choice.of_pool(&pool))?;
        let live = (pool.all_entries, pool.all_bytes);
        let scans = self.scans(&db, &lookups, &pool)?;
        drop(pool);
        drop(db);
        let [block, table] = self.default_sizes(global)?;
        let own = vec![Filters::AsIs, Filters::Ignored, block, table];
        let filters = self.filters(own);
        let name = dir.display().to_string();
        let mut report = Report::of(name, live, source, &filters, &lookups, self.lookups_named())?;
        report.scans = scans.map(|scans| scans.measure(source)).transpose()?;
        if self.advise {
            report.by_level = advise::by_level(&report, source, &lookups)?;
        }
        Ok(report)
    }

    fn measure_data(&self, global: &Global, data: &Data, source: &Source) -> Result<Report> {
        let db = source.open()?;
        let lookups = self.lookups(global, &db, |choice| choice.of_data(data))?;
        let scans = self.scans(&db, &lookups, data)?;
        drop(db);
        let [block, table] = self.default_sizes(global)?;
        let filters = self.filters(vec![Filters::None, block, table]);
        if filters.iter().any(Filters::own) {
            return Err(CliError::Usage(
                "as-is and ignored need --db: this data has no files of its own".to_string(),
            ));
        }
        let (named, live) = (self.lookups_named(), (data.len(), data.bytes()));
        let mut report = Report::of(data.name(), live, source, &filters, &lookups, named)?;
        report.scans = scans.map(|scans| scans.measure(source)).transpose()?;
        if self.advise {
            report.by_level = advise::by_level(&report, source, &lookups)?;
        }
        if self.rewrite
            && let Some(by_level) = &report.by_level
        {
            let scratch = Scratch::new()?;
            let dir = scratch.path().join("db");
            let options = by_level.advised_options(global.shape.options()?);
            let source = load_with(&global.shape, options, data, self.seed, &dir)?;
            report.rewritten = Some(Rewritten::of(&source, &lookups, by_level)?);
        }
        Ok(report)
    }

    fn filters(&self, default: Vec<Filters>) -> Vec<Filters> {
        let default = if self.advise { advise::default_filters() } else { default };
        self.filters.as_ref().map_or(default, |list| list.0.clone())
    }

    fn default_sizes(&self, global: &Global) -> Result<[Filters; 2]> {
        match global.shape.bits_per_key() {
            0 if self.filters.is_none() => Err(CliError::Usage(
                "readamp compares filters with none; give --bloom-bits 1 or more".to_string(),
            )),
            bits => {
                Ok([Filters::Block(bits.max(1)), Filters::Table(bits.clamp(1, MAX_BITS_PER_KEY))])
            }
        }
    }

    fn lookups(
        &self,
        global: &Global,
        db: &ReadOnlyDb,
        choose: impl Fn(&Choice) -> Result<Vec<Lookup>>,
    ) -> Result<Vec<Lookup>> {
        let number = match &self.lookups {
            Some(Wanted::File(path)) => return lookups::of_file(path, global, db),
            Some(Wanted::Number(number)) => *number,
            None => LOOKUPS,
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
        if self.csv {
            return Ok(None);
        }
        let choice = ScanChoice {
            number: self.scans,
            entries: self.scan_entries,
            like: self.like,
            prefix: self.scan_prefix.clone(),
            seed: self.seed,
        };
        choice.of(db, lookups, keys)
    }

    /// Returns a text that says how the lookups were chosen.
    fn lookups_named(&self) -> String {
        match &self.lookups {
            Some(Wanted::File(path)) => format!("from {}", path.display()),
            _ => match (&self.like, self.zipf) {
                (Some(profile), _) => format!("gets of {profile}; seed {}", self.seed),
                (None, Some(exponent)) => {
                    format!("chosen by Zipf's law, exponent {exponent}; seed {}", self.seed)
                }
                (None, None) => format!("chosen uniformly; seed {}", self.seed),
            },
        }
    }
}

/// Returns `options` with filters, so that the filters of existing tables are read.
fn readable(options: Options) -> Options {
    options.filters(minikv::Filters::default())
}

/// Creates a database of `data` without filters. Each configuration adds its filters later.
fn load(shape: &Shape, data: &Data, seed: u64, dir: &Path) -> Result<Source> {
    let options = Shape { bloom_bits: Some(0), ..shape.clone() }.options()?;
    load_with(shape, options, data, seed, dir)
}

/// Creates a database of `data` with the given options. Lookups use the cache size of `shape`.
fn load_with(
    shape: &Shape,
    options: Options,
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
    let mut source = Source::of(dir, readable(options), shape.cache_bytes())?;
    source.stats = Some(stats);
    Ok(source)
}

/// Loads `data`, and runs lookups, half of them for present keys and half for absent keys. Runs
/// them without filters and with the filters of `shape`. Returns the report.
pub fn compare(shape: &Shape, data: &Data, lookups: u64, seed: u64) -> Result<Report> {
    let scratch = Scratch::new()?;
    let source = load(shape, data, seed, &scratch.path().join("db"))?;
    let choice = Choice { number: 2 * lookups, absent_ratio: 0.5, zipf: None, like: None, seed };
    let filters = [Filters::None, Filters::Block(shape.bits_per_key().max(1))];
    let lookups = choice.of_data(data)?;
    let named = format!("chosen uniformly; seed {seed}");
    Report::of(data.name(), (data.len(), data.bytes()), &source, &filters, &lookups, named)
}

impl Report {
    /// Runs `lookups` on `source` with each element of `filters`, and returns the report. `live` is
    /// the number of live entries and their total size in bytes.
    fn of(
        data: String,
        live: (u64, u64),
        source: &Source,
        filters: &[Filters],
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

/// Returns the number of tables at each level.
pub fn tables_per_level(db: &Db) -> Vec<u64> {
    db.stats().levels.iter().map(|level| level.files).collect()
}
