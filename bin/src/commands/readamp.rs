//! `minikv readamp`: what a filter saves, measured.
//!
//! The same entries go into two databases, one with filters and one without, in the same order.
//! The same lookups are done on both, and what the reads touched is summed.

use std::path::PathBuf;

use minikv::base::stats::{LevelTrace, ReadTrace};
use minikv::{BloomFilterPolicy, Db};
use serde_json::{Value, json};

use super::{count, size, thousands};
use crate::args::{Global, Shape};
use crate::error::{CliError, Result};
use crate::output::{Progress, Stdout, Table};
use crate::scratch::Scratch;
use crate::survey::{Prediction, Survey};
use crate::workload::{Data, Rng};

/// Measure what filters save: the same lookups with and without them
///
/// Puts the same entries into two temporary databases, one with filters and one without, does the
/// same lookups of present and absent keys on both, and prints what the reads touched. Absent keys
/// are near misses of present ones. The options that shape new files apply to both databases.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Entries to load, one a line: KEY or KEY<TAB>VALUE, bytes as they are, or entries in
    /// --format if that is given; without a file, the bundled English words
    #[arg(value_name = "DATAFILE")]
    data: Option<PathBuf>,
    /// Generate this many entries instead of reading a file
    #[arg(long, value_name = "N", conflicts_with = "data")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    entries: Option<u64>,
    /// Bytes of each value that the data does not give
    #[arg(long, value_name = "N", default_value_t = 100)]
    value_bytes: usize,
    /// Lookups of present keys, and as many of absent ones
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    lookups: u64,
    /// What the order of loading and the choice of lookups are drawn from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    if global.db.is_some() {
        return Err(CliError::Usage(
            "readamp makes its own databases; name a DATAFILE instead of --db".to_string(),
        ));
    }
    let data = match (&args.data, args.entries) {
        (Some(path), _) => Data::file(path, global.format, args.value_bytes)?,
        (None, Some(entries)) => {
            Data::Generated { entries, value_bytes: args.value_bytes, seed: args.seed }
        }
        (None, None) => Data::words()?,
    };
    let report = compare(&global.shape, &data, args.lookups, args.seed)?;
    let mut stdout = Stdout::open()?;
    if args.json {
        stdout.line(report.json().to_string())?;
    } else {
        stdout.line(format!(
            "{}: {}\n{} of present and as many of absent keys, \
             the same on both databases; seed {}\n",
            report.data,
            count(report.entries, "entry", "entries"),
            count(args.lookups, "lookup", "lookups"),
            args.seed,
        ))?;
        stdout.line(report.table())?;
    }
    stdout.finish()
}

/// What was measured.
pub struct Report {
    data: String,
    entries: u64,
    seed: u64,
    with: Side,
    without: Side,
}

/// One of the two databases.
struct Side {
    bits_per_key: u32,
    tables_per_level: Vec<u64>,
    survey: Survey,
    predicted: Option<Prediction>,
    present: Tally,
    absent: Tally,
}

/// What a number of lookups touched.
struct Tally {
    lookups: u64,
    memtable_hits: u64,
    trace: LevelTrace,
}

/// Loads `data` with and without filters, and does the same lookups on both.
pub fn compare(shape: &Shape, data: &Data, lookups: u64, seed: u64) -> Result<Report> {
    if shape.bits_per_key() == 0 {
        return Err(CliError::Usage(
            "readamp compares filters with none; give --bloom-bits 1 or more".to_string(),
        ));
    }
    let mut rng = Rng::new(seed);
    let present = data.present(lookups, &mut rng);
    let absent = data.absent(lookups, &mut rng);
    let side = |bits| Side::measure(shape, bits, data, seed, &present, &absent);
    Ok(Report {
        data: data.name(),
        entries: data.len(),
        seed,
        with: side(shape.bits_per_key())?,
        without: side(0)?,
    })
}

impl Side {
    fn measure(
        shape: &Shape,
        bits_per_key: u32,
        data: &Data,
        seed: u64,
        present: &[Vec<u8>],
        absent: &[Vec<u8>],
    ) -> Result<Side> {
        let scratch = Scratch::new()?;
        let shape = Shape { bloom_bits: Some(bits_per_key), ..shape.clone() };
        let options = shape.options()?.create_if_missing(true).error_if_exists(true);
        let db = Db::open(scratch.path().join("db"), options)?;
        data.load(&db, seed)?;
        db.flush()?;
        db.wait_idle()?;
        let tables_per_level = tables_per_level(&db);
        let present = Tally::of(&db, present, true)?;
        let absent = Tally::of(&db, absent, false)?;
        db.close()?;
        let survey = Survey::of(&scratch.path().join("db"))?;
        let predicted = survey.predict(&BloomFilterPolicy::new(bits_per_key));
        Ok(Side { bits_per_key, tables_per_level, survey, predicted, present, absent })
    }

    fn json(&self) -> Value {
        json!({
            "filter": if self.bits_per_key == 0 { "none" } else { "block" },
            "bits_per_key": self.bits_per_key,
            "tables_per_level": self.tables_per_level,
            "data_blocks": self.survey.data_blocks,
            "filter_bytes": self.survey.filter_bytes,
            "predicted_false_positive_rate": {
                "independent_probes": self.predicted.map(|p| p.independent),
                "double_hashing": self.predicted.map(|p| p.double_hashing),
            },
            "present": self.present.json(),
            "absent": self.absent.json(),
        })
    }
}

/// How many tables each level holds.
pub fn tables_per_level(db: &Db) -> Vec<u64> {
    db.stats().levels.iter().map(|level| level.files).collect()
}

/// `L0: 1, L2: 7`, leaving out levels without tables.
pub fn show_levels(tables: &[u64]) -> String {
    let levels = tables.iter().enumerate().filter(|(_, tables)| **tables > 0);
    let levels: Vec<_> = levels.map(|(level, tables)| format!("L{level}: {tables}")).collect();
    levels.join(", ")
}

impl Tally {
    /// Does the lookups; checks that each finds what it must.
    fn of(db: &Db, keys: &[Vec<u8>], expected: bool) -> Result<Tally> {
        let progress = Progress::steps("looking up", keys.len() as u64);
        let mut sum = ReadTrace::default();
        for (i, key) in keys.iter().enumerate() {
            let (value, trace) = db.get_traced(key)?;
            if value.is_some() != expected {
                let found = if expected { "is not found" } else { "is found" };
                let key = crate::codec::Format::Escaped.show(key);
                let what = format!("a lookup is wrong: {key} {found}");
                return Err(CliError::Db(minikv::Error::corruption(what)));
            }
            sum.add(&trace);
            if i % 1000 == 0 {
                progress.set(i as u64);
            }
        }
        Ok(Tally {
            lookups: keys.len() as u64,
            memtable_hits: sum.memtable_hits,
            trace: sum.total(),
        })
    }

    fn per_get(&self, n: u64) -> String {
        format!("{:.3}", n as f64 / self.lookups as f64)
    }

    /// Of the filters asked about a key that is not in their block, how many said "maybe".
    fn false_positive_rate(&self) -> Option<f64> {
        let wrong = self.trace.filter_false_positives;
        let asked = wrong + self.trace.filter_negatives;
        (asked > 0).then(|| wrong as f64 / asked as f64)
    }

    fn json(&self) -> Value {
        json!({
            "lookups": self.lookups,
            "memtable_hits": self.memtable_hits,
            "tables_considered": self.trace.tables_considered,
            "index_seeks": self.trace.index_seeks,
            "filter_checks": self.trace.filter_checks,
            "filter_negatives": self.trace.filter_negatives,
            "filter_true_positives": self.trace.filter_true_positives,
            "filter_false_positives": self.trace.filter_false_positives,
            "false_positive_rate": self.false_positive_rate(),
            "data_blocks": self.trace.data_blocks(),
            "data_blocks_from_cache": self.trace.data_blocks_from_cache,
            "data_blocks_from_file": self.trace.data_blocks_from_file,
            "bytes_read": self.trace.bytes_read,
        })
    }
}

impl Report {
    pub fn json(&self) -> Value {
        json!({
            "data": self.data,
            "entries": self.entries,
            "seed": self.seed,
            "databases": [self.with.json(), self.without.json()],
        })
    }

    /// The table for people.
    pub fn table(&self) -> String {
        let mut table = Table::new(["", "present keys", "", "absent keys", ""]);
        let bits = format!("{} bits/key", self.with.bits_per_key);
        table.row(["", &bits, "no filter", &bits, "no filter"]);
        let columns = [
            (&self.with, &self.with.present),
            (&self.without, &self.without.present),
            (&self.with, &self.with.absent),
            (&self.without, &self.without.absent),
        ];
        let mut row = |name: &str, cell: &dyn Fn(&Side, &Tally) -> String| {
            let cells = columns.map(|(side, tally)| cell(side, tally));
            table.row([name, &cells[0], &cells[1], &cells[2], &cells[3]]);
        };
        row("data blocks per get", &|_, t| t.per_get(t.trace.data_blocks()));
        row("tables in range per get", &|_, t| t.per_get(t.trace.tables_considered));
        row("filters asked per get", &|_, t| t.per_get(t.trace.filter_checks));
        row("filters asked", &|_, t| thousands(t.trace.filter_checks));
        row("  said \"not here\"", &|_, t| thousands(t.trace.filter_negatives));
        row("  said \"maybe\", rightly", &|_, t| thousands(t.trace.filter_true_positives));
        row("  said \"maybe\", wrongly", &|_, t| thousands(t.trace.filter_false_positives));
        row("false positives, measured", &|_, t| percent(t.false_positive_rate()));
        row("  predicted, double hashing", &|s, _| percent(s.predicted.map(|p| p.double_hashing)));
        row("  predicted, independent", &|s, _| percent(s.predicted.map(|p| p.independent)));
        format!("{table}\n\n{}\n{}", self.shapes(), self.verdict())
    }

    fn shapes(&self) -> String {
        let side = |side: &Side| {
            let levels = show_levels(&side.tables_per_level);
            let tables = count(side.survey.tables, "table", "tables");
            format!("{tables} ({levels}), {} data blocks", thousands(side.survey.data_blocks))
        };
        format!(
            "With filters: {}, {} of filters.\nWithout: {}.",
            side(&self.with),
            size(self.with.survey.filter_bytes),
            side(&self.without),
        )
    }

    /// What the figures come to, in a sentence.
    fn verdict(&self) -> String {
        let without = self.without.absent.trace.data_blocks();
        match self.with.absent.trace.data_blocks() {
            0 if without == 0 => "No data block was read for an absent key.".to_string(),
            0 => "With filters, no data block was read for an absent key.".to_string(),
            with => format!(
                "A get of an absent key reads {:.0} times fewer data blocks with filters.",
                without as f64 / with as f64
            ),
        }
    }
}

fn percent(rate: Option<f64>) -> String {
    rate.map_or("-".to_string(), |rate| format!("{:.2} %", rate * 100.0))
}
