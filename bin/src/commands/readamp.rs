//! `minikv readamp`: measures the savings of filters.
//!
//! Runs the same lookups on the same tables with different filters, counts and times the reads, and
//! compares the false-positive rates with theory.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use minikv::filter::MAX_BITS_PER_KEY;
use minikv_instrument::data::Data;
use minikv_instrument::readamp::{
    Advised, Experiment, FilterCase, Lookups, MAX_REQUESTS, Memory, Prefix, Provenance, Report,
    Rewrite, ScanSettings, Source, Theory, load, readable,
};
use minikv_workloads::Profile;

use super::bench::MAX_VALUE_BYTES;
use crate::args::{Global, Shape, parse_size};
use crate::codec::Format;
use crate::entry_reader::CsvReader;
use crate::error::{CliError, Result};
use crate::input::Lines;
use crate::output::Stdout;
use crate::scratch::Scratch;
use crate::words;
use crate::writer::check_not_lock;

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
    #[arg(long, value_name = "N", value_parser = parse_value_bytes)]
    value_bytes: Option<usize>,
    /// Configurations to compare: none; block, table or both with bits per key, as in table:10, or
    /// with a range, as in block:4..16, or a range with a step, as in block:0..20:2 (0 bits are the
    /// same as none); with --db also as-is (the files' own filters) and ignored
    /// (the files as they are, without using their filters) [default: none,block:10,table:10; with
    /// --db as-is,ignored,block:10,table:10]
    #[arg(long, value_name = "LIST", value_parser = filter_list)]
    filters: Option<FilterList>,
    /// Number of lookups, up to 100000000, or a file of keys to look up in order, one per line, in
    /// CSV after the line `key` [default: 40000]
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
    #[arg(value_parser = clap::value_parser!(u64).range(..=MAX_REQUESTS))]
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

/// The value of `--lookups`.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// The given number of lookups, chosen at random.
    Number(u64),
    /// The keys in the given file, in order.
    File(PathBuf),
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Wanted, String> {
        // A number of more than 64 bits is not meant as the name of a file.
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(number @ 1..=MAX_REQUESTS) => Ok(Wanted::Number(number)),
            Err(_) if !is_number => Ok(Wanted::File(PathBuf::from(text))),
            _ => Err(format!("the number of lookups is from 1 to {MAX_REQUESTS}")),
        }
    }
}

/// The value of `--filters`.
#[derive(Clone, Debug)]
struct FilterList(Vec<FilterCase>);

fn filter_list(text: &str) -> std::result::Result<FilterList, String> {
    FilterCase::list(text).map(FilterList)
}

fn parse_value_bytes(text: &str) -> std::result::Result<usize, String> {
    match text.parse() {
        Ok(bytes @ ..=MAX_VALUE_BYTES) => Ok(bytes),
        _ => Err("a value has from 0 bytes to 1 GiB".to_string()),
    }
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
    args.html.as_deref().map_or(Ok(()), check_not_lock)?;
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
            let experiment = args.experiment(global)?;
            if let Some(budget) = args.budget {
                return args.print_memory(&experiment.divide_db(&source, budget as u64)?);
            }
            experiment.measure_db(&source, dir.display().to_string())?
        }
        Input::Data(data) => {
            scratch = Scratch::new()?;
            let dir = scratch.path().join("db");
            let source = load_unfiltered(&global.shape, data, args.seed, &dir)?;
            let experiment = args.experiment(global)?;
            if let Some(budget) = args.budget {
                return args.print_memory(&experiment.divide_data(data, &source, budget as u64)?);
            }
            args.measure_data(global, &experiment, data, &source)?
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
            (Some(path), _) => {
                Input::Data(words::of_file(path, global.format, args.value_bytes())?)
            }
            (None, Some(entries)) => Input::Data(match args.like {
                Some(profile) => Data::Like { entries, profile },
                None => {
                    let (value_bytes, seed) = (args.value_bytes(), args.seed);
                    Data::Generated { entries, value_bytes, seed }
                }
            }),
            (None, None) => match global.db() {
                Ok(dir) => Input::Db(dir),
                Err(_) => Input::Data(words::bundled()?),
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

    fn print_memory(&self, memory: &Memory) -> Result<()> {
        let mut stdout = Stdout::open()?;
        match self.json {
            true => stdout.json(memory)?,
            false => stdout.line(memory.text())?,
        }
        stdout.finish()
    }

    fn measure_data(
        &self,
        global: &Global,
        experiment: &Experiment,
        data: &Data,
        source: &Source,
    ) -> Result<Report> {
        if experiment.filters.iter().flatten().any(FilterCase::own) {
            return Err(CliError::Usage(
                "as-is and ignored need --db: this data has no files of its own".to_string(),
            ));
        }
        if !self.rewrite {
            return Ok(experiment.measure_data(data, source, None)?);
        }
        let scratch = Scratch::new()?;
        let dir = &scratch.path().join("db");
        let (options, cache_bytes) = (global.shape.options()?, global.shape.cache_bytes());
        let rewrite = Rewrite { options, cache_bytes, dir };
        Ok(experiment.measure_data(data, source, Some(rewrite))?)
    }

    fn experiment(&self, global: &Global) -> Result<Experiment> {
        let scans = ScanSettings {
            number: self.scans,
            entries: self.scan_entries,
            prefix: self.scan_prefix.clone(),
        };
        Ok(Experiment {
            filters: self.filters.as_ref().map(|list| list.0.clone()),
            default_bits: self.default_bits(global)?,
            lookups: match &self.lookups {
                Some(Wanted::File(path)) => keys_of(path, global)?,
                Some(Wanted::Number(number)) => Lookups::Number(*number),
                None => Lookups::Number(LOOKUPS),
            },
            absent_ratio: self.absent_ratio,
            zipf: self.zipf,
            like: self.like,
            scans: (!self.csv).then_some(scans),
            seed: self.seed,
            advise: self.advise,
        })
    }

    fn default_bits(&self, global: &Global) -> Result<[u32; 2]> {
        match global.shape.bits_per_key() {
            0 if self.filters.is_none() && self.budget.is_none() => Err(CliError::Usage(
                "readamp compares filters with none; give --bloom-bits 1 or more".to_string(),
            )),
            bits => Ok([bits.max(1), bits.clamp(1, MAX_BITS_PER_KEY)]),
        }
    }
}

/// Returns the keys in a file, which has one key per line. The keys are in the format given by
/// `--key-format` or `--format`. Without these options, they are plain bytes.
fn keys_of(path: &PathBuf, global: &Global) -> Result<Lookups> {
    let lines = Lines::open(Some(path))?;
    let keys = match global.key_format.or(global.format) {
        Some(Format::Csv) => keys_of_csv(lines)?,
        format => keys_of_lines(lines, format)?,
    };
    match keys.is_empty() {
        true => Err(CliError::Usage(format!("{} has no keys", path.display()))),
        false => Ok(Lookups::Keys { keys, from: path.display().to_string() }),
    }
}

fn keys_of_csv(lines: Lines) -> Result<Vec<Vec<u8>>> {
    let (mut records, mut keys) = (CsvReader::new(lines, &["key"])?, Vec::new());
    while let Some(fields) = records.next()? {
        keys.extend(fields.into_iter().flatten());
    }
    Ok(keys)
}

fn keys_of_lines(lines: Lines, format: Option<Format>) -> Result<Vec<Vec<u8>>> {
    let mut lines = if format.is_some() { lines } else { lines.of_any_bytes() };
    let mut keys = Vec::new();
    while let Some(line) = lines.next_line()? {
        keys.push(match format {
            None => line.to_vec(),
            Some(format) => match format.decode(line) {
                Ok(key) => key,
                Err(what) => return Err(CliError::Usage(format!("{}: {what}", lines.place()))),
            },
        });
    }
    Ok(keys)
}

/// Creates a database of `data` without filters. Each configuration adds its filters later.
pub fn load_unfiltered(shape: &Shape, data: &Data, seed: u64, dir: &Path) -> Result<Source> {
    let options = Shape { bloom_bits: Some(0), ..shape.clone() }.options()?;
    Ok(load(options, shape.cache_bytes(), data, seed, dir)?)
}
