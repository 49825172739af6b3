//! `minikv bench`: runs workloads modelled on LevelDB's db_bench with this build of minikv.

use std::path::Path;

use clap::builder::PossibleValuesParser;
use minikv_workloads::{
    Better, CacheTrace, Failure, KEY_BYTES, Latency, MIN_VALUE_BYTES, Minikv, Mixgraph, Outcome,
    Plan, Profile, Runner, Settings, Store, WORKLOADS, find,
};
use serde_json::json;

use super::{size, thousands};
use crate::args::{Global, Shape};
use crate::error::{CliError, Result};
use crate::output::{Progress, Stdout, Table};
use crate::scratch::Scratch;

const WRITE_BUFFER_BYTES: usize = 64 << 20;
const CACHE_BYTES: usize = 512 << 20;

/// Maximum size of a value, in bytes. A higher maximum would take more memory than most machines
/// have.
pub(super) const MAX_VALUE_BYTES: usize = 1 << 30;

/// Measure this build with workloads modelled on LevelDB's db_bench
///
/// The workloads run on a temporary database, or on --db, which must be new. When a workload needs
/// an empty database, a new database replaces the current one. With --db, the last database is
/// kept. Keys are numbers of 16 digits, values compress to half, and every value read is checked.
/// Preparations, such as a compaction, are not timed.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Workloads to run, in this order, separated by commas [default: all]
    #[arg(value_name = "WORKLOAD", value_delimiter = ',')]
    #[arg(value_parser = PossibleValuesParser::new(WORKLOADS.iter().map(|w| w.name)))]
    workloads: Vec<String>,
    /// Number of entries in a full database
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=10_000_000_000))]
    entries: u64,
    /// Size of a value in bytes, at least 12
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = parse_value_bytes)]
    value_bytes: usize,
    /// Number of threads of the workload readthreads
    #[arg(long, value_name = "N", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1024))]
    threads: u64,
    /// Parameters of the requests of mixgraph or cachetrace: shares of get, put and scan, share of
    /// gets that miss, exponent of Zipf's law, lengths of key and value; as in
    /// cache:get=0.9,miss=0.5,zipf=1,key=40,value=200 or
    /// mixgraph:get=0.83,put=0.14,scan=0.03,miss=0,key=48
    #[arg(long, value_name = "PROFILE")]
    like: Option<Profile>,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// List the workloads with descriptions
    #[arg(long)]
    list: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn parse_value_bytes(text: &str) -> std::result::Result<usize, String> {
    match text.parse() {
        Ok(bytes @ MIN_VALUE_BYTES..=MAX_VALUE_BYTES) => Ok(bytes),
        _ => Err(format!("a value has from {MIN_VALUE_BYTES} bytes to 1 GiB")),
    }
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let mut stdout = Stdout::open()?;
    if args.list {
        let rows = WORKLOADS.iter().map(|w| format!("{:<21}{}", w.name, w.about));
        stdout.line(rows.collect::<Vec<_>>().join("\n"))?;
        return stdout.finish();
    }
    let scratch = Scratch::new()?;
    let dir = global.db.clone().unwrap_or(scratch.path().join("db"));
    if dir.try_exists().map_err(|source| CliError::io("look for", &dir, source))? {
        return Err(CliError::Usage(format!(
            "{} already exists, and bench creates and replaces its database; name a directory that \
             does not exist",
            dir.display()
        )));
    }
    // Invalid options must be reported before the command creates anything.
    super::check_parent(&dir)?;
    global.options(&dir)?;
    let plan = args.plan(&global.shape);
    let outcomes = args.measure(&global.shape, plan, &dir)?;
    if args.json {
        stdout.json(&to_json(&plan, &outcomes))?;
    } else {
        stdout.line(to_text(&plan, &outcomes))?;
    }
    stdout.finish()
}

impl Args {
    fn plan(&self, shape: &Shape) -> Plan {
        let (mut mixgraph, mut cache) = (Mixgraph::default(), CacheTrace::default());
        match self.like {
            Some(Profile::Mixgraph(given)) => mixgraph = given,
            Some(Profile::Cache(given)) => cache = given,
            None => {}
        }
        Plan {
            mixgraph,
            cache,
            entries: self.entries,
            value_bytes: self.value_bytes,
            threads: self.threads,
            settings: Settings::new(
                shape.write_buffer.unwrap_or(WRITE_BUFFER_BYTES),
                shape.cache_size.unwrap_or(CACHE_BYTES),
            ),
            seed: self.seed,
            ..Plan::default()
        }
    }

    fn measure(&self, shape: &Shape, plan: Plan, dir: &Path) -> Result<Vec<Outcome>> {
        let open = |dir: &Path, settings: &Settings| -> Result<Box<dyn Store>, Failure> {
            let shape = Shape {
                write_buffer: Some(settings.write_buffer_bytes),
                cache_size: Some(settings.cache_bytes),
                ..shape.clone()
            };
            let options = shape.options().map_err(|error| error.message().unwrap_or_default())?;
            Ok(Box::new(Minikv::open(dir, options, settings, "minikv".to_string())?))
        };
        let names = match self.workloads.is_empty() {
            true => WORKLOADS.iter().map(|w| w.name).collect(),
            false => self.workloads.iter().map(String::as_str).collect::<Vec<_>>(),
        };
        let progress = Progress::steps("measuring", names.len() as u64);
        let mut runner = Runner::new(plan, dir, &open);
        let mut outcomes = Vec::new();
        for name in names {
            let workload = find(name).expect("the parser knows the names");
            outcomes.push(runner.run(workload).map_err(error_of)?);
            progress.set(outcomes.len() as u64);
        }
        Ok(outcomes)
    }
}

fn error_of(failure: Failure) -> CliError {
    match failure.downcast::<minikv::Error>() {
        Ok(error) => CliError::Db(*error),
        Err(other) => match other.downcast::<std::io::Error>() {
            Ok(source) => {
                CliError::Io { op: "use", name: "the database".to_string(), source: *source }
            }
            Err(other) => CliError::Wrong(other.to_string()),
        },
    }
}

fn to_json(plan: &Plan, outcomes: &[Outcome]) -> serde_json::Value {
    json!({
        "entries": plan.entries,
        "key_bytes": KEY_BYTES,
        "value_bytes": plan.value_bytes,
        "threads": plan.threads,
        "write_buffer_bytes": plan.settings.write_buffer_bytes,
        "cache_bytes": plan.settings.cache_bytes,
        "seed": plan.seed,
        "outcomes": outcomes,
    })
}

fn to_text(plan: &Plan, outcomes: &[Outcome]) -> String {
    let head = format!(
        "{} entries of {KEY_BYTES}+{} bytes; write buffer {}, cache {}; microseconds",
        thousands(plan.entries),
        plan.value_bytes,
        size(plan.settings.write_buffer_bytes as u64),
        size(plan.settings.cache_bytes as u64),
    );
    let mut speeds = Table::new(["workload", "op/s", "median", "p99", "p99.9", "longest"]);
    let mut others = Vec::new();
    for outcome in outcomes {
        let columns = |latency: Latency| {
            [latency.median, latency.p99, latency.p999, latency.max].map(|us| format!("{us:.1}"))
        };
        let [median, p99, p999, max] =
            outcome.latency.map_or([const { String::new() }; 4], columns);
        for (i, figure) in outcome.figures.iter().enumerate() {
            if figure.better == Better::Higher {
                let speed = thousands(figure.value.round() as u64);
                let row = [&figure.name, &speed, &median, &p99, &p999, &max];
                // The latencies are shown only in the row of the first figure.
                match i {
                    0 => speeds.row(row.map(String::as_str)),
                    _ => speeds.row([&figure.name, &speed, "", "", "", ""]),
                }
            } else if !figure.name.ends_with(", p99.9") && !figure.name.ends_with(", longest") {
                others.push(format!("{}: {:.2} {}", figure.name, figure.value, figure.unit));
            }
        }
    }
    let mut parts = vec![head];
    if speeds.rows().len() > 1 {
        parts.push(speeds.to_string());
    }
    if !others.is_empty() {
        parts.push(others.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n"));
    }
    parts.join("\n\n")
}
