//! Command-line arguments.

use std::path::PathBuf;

use clap::Parser;
use minikv_workloads::{Plan, Settings, WORKLOADS, Workload, find};

use crate::engines::{ENGINES, Engine};

const SHORT_ENTRIES: u64 = 500_000;
const FULL_ENTRIES: u64 = 2_000_000;
const SHORT_REPEATS: usize = 1;
const FULL_REPEATS: usize = 3;

/// Write buffer of the workloads, in MiB.
const BUFFER_MIB: usize = 64;
/// Write buffer of `--amplification`, in MiB. This is LevelDB's default; with a larger buffer, the
/// same data has fewer levels.
const COUNTED_BUFFER_MIB: usize = 4;

/// Measures minikv and its peers on the same work in the same run
///
/// Prints a table and writes it to target/peers as Markdown, JSON and an SVG chart.
#[derive(Clone, Debug, Parser)]
pub struct Args {
    /// Finishes in minutes instead of hours: 500,000 entries, one repetition
    #[arg(long)]
    pub short: bool,

    /// Engines, separated by commas [default: all that are built in]
    #[arg(long, value_delimiter = ',', value_parser = Engine::parse)]
    pub engines: Vec<Engine>,

    /// Workloads, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_parser = parse_workload)]
    pub workloads: Vec<&'static Workload>,

    /// Number of entries in a full database [default: 2000000]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub entries: Option<u64>,

    /// Maximum number of gets, seeks, synced puts or mixed operations in a workload [default:
    /// determined by the number of entries]
    #[arg(long, default_value_t = u64::MAX, hide_default_value = true)]
    pub most_operations: u64,

    /// Number of repetitions [default: 3]
    #[arg(long)]
    pub repeats: Option<usize>,

    /// Length of a value in bytes, unless a workload sets its own
    #[arg(long, default_value_t = 100)]
    pub value_bytes: usize,

    /// Size of the write buffer in MiB, unless a workload sets its own [default: 64; 4 with
    /// --amplification]
    #[arg(long)]
    pub write_buffer_mib: Option<usize>,

    /// Size of the block cache in MiB, unless a workload sets its own
    #[arg(long, default_value_t = 512)]
    pub cache_mib: usize,

    /// Directory for the databases [default: a temporary directory]
    #[arg(long)]
    pub dir: Option<PathBuf>,

    /// Directory in which the table and the chart are written
    #[arg(long, default_value = "target/peers")]
    pub out: PathBuf,

    /// Runs no workloads, but draws the cost of an operation against the size of the database, from
    /// the `peers.json` files of runs with different `--entries`
    #[arg(long, value_name = "FILE,FILE...", value_delimiter = ',')]
    pub by_size: Vec<PathBuf>,

    /// Counts reads, writes and space by level instead of running workloads
    #[arg(long)]
    pub amplification: bool,

    /// Puts and gets at random for so many seconds with each engine, and shows the longest put and
    /// get, memory, open files and space of each second
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub steady: Option<u64>,

    /// The task of a child process
    #[arg(long, hide = true)]
    pub child: Option<crate::task::Task>,

    /// The directory of a child process
    #[arg(long, hide = true)]
    pub child_dir: Option<PathBuf>,

    /// Whether the engine of a child process of --amplification has no filters
    #[arg(long, hide = true)]
    pub child_without_filters: bool,
}

fn parse_workload(name: &str) -> Result<&'static Workload, String> {
    find(name).ok_or_else(|| {
        let names: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
        format!("there are {}", names.join(", "))
    })
}

impl Args {
    pub fn plan(&self) -> Plan {
        let entries = if self.short { SHORT_ENTRIES } else { FULL_ENTRIES };
        let settings = Settings::new(self.write_buffer_mib() << 20, self.cache_mib << 20);
        Plan {
            entries: self.entries.unwrap_or(entries),
            most_operations: self.most_operations,
            value_bytes: self.value_bytes,
            settings,
            ..Plan::default()
        }
    }

    pub fn write_buffer_mib(&self) -> usize {
        let default = if self.amplification { COUNTED_BUFFER_MIB } else { BUFFER_MIB };
        self.write_buffer_mib.unwrap_or(default)
    }

    pub fn repeats(&self) -> usize {
        let repeats = if self.short { SHORT_REPEATS } else { FULL_REPEATS };
        self.repeats.unwrap_or(repeats).max(1)
    }

    pub fn engines(&self) -> Vec<Engine> {
        match self.engines.is_empty() {
            true => ENGINES.to_vec(),
            false => self.engines.clone(),
        }
    }

    /// Returns the selected workloads in the order of [`WORKLOADS`]. In this order, many workloads
    /// can start from the state that the previous workload left.
    pub fn workloads(&self) -> Vec<&'static Workload> {
        let is_wanted = |workload: &&Workload| {
            self.workloads.is_empty() || self.workloads.iter().any(|w| w.name == workload.name)
        };
        WORKLOADS.iter().filter(is_wanted).collect()
    }
}
