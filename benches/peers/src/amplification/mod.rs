//! Measures read, write and space amplification of the log-structured engines, by level, with and
//! without filters. All engines run the same puts and gets.
//!
//! - `measure`: the process that measures one engine
//! - `counted`: the interface to the counters of an engine, with one file for each engine
//! - `open`: opens the database of a case
//! - `told`: parses the texts in which LevelDB and RocksDB report their counts
//! - `replay`: traces gets that minikv makes in the files of a closed database
//! - `table`, `chart`: show the results

mod chart;
mod counted;
#[cfg(feature = "fjall")]
mod fjall;
mod leveldb;
mod measure;
mod minikv;
mod open;
mod replay;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod table;
mod told;

use std::path::Path;
use std::process::Stdio;

use minikv_workloads::Result;
use serde::{Deserialize, Serialize};

use crate::args::Args;
use crate::child;
use crate::engines::Engine;
use crate::parent::settle;
use crate::task::Task;

pub use measure::measure;

/// An engine, with or without filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    pub engine: Engine,
    pub filters: bool,
}

/// The counts of one case, as returned by `measure`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    /// The engine's description of itself.
    pub described: String,
    /// Total size of the keys and values that were put, in bytes.
    pub put_bytes: u64,
    /// Total size of the keys and values that remain in the database, in bytes.
    pub live_bytes: u64,
    /// Number of bytes that the process wrote, as counted by the operating system.
    pub written_bytes: u64,
    /// Number of bytes written to logs, as counted by the engine.
    pub log_bytes: Option<u64>,
    /// Total size of the table files, in bytes.
    pub table_bytes: u64,
    /// Size of the whole directory on disk, in bytes.
    pub directory_bytes: u64,
    /// Number of gets of absent keys. The number of gets of present keys is the same.
    pub lookups: u64,
    /// Number of data blocks that the gets searched.
    pub blocks: Option<Blocks>,
    pub levels: Vec<Level>,
}

/// Numbers of data blocks searched by gets of absent keys and by gets of present keys. The blocks
/// come from a cache or from files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocks {
    pub absent: u64,
    pub present: u64,
}

/// The tables of a level, and the bytes written to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    pub level: usize,
    pub tables: u64,
    /// Total size of the tables, in bytes.
    pub bytes: u64,
    /// Total size of the tables that were written to this level, in bytes.
    pub written_bytes: Option<u64>,
    pub blocks: Option<Blocks>,
}

impl Case {
    /// Returns the cases of the log-structured engines in `engines`: each engine with filters and,
    /// except `minikv-table`, without filters. Mapped tables are read as often as others.
    fn all(engines: &[Engine]) -> Vec<Case> {
        let both = |&engine: &Engine| {
            // Without filters, `minikv-table` is the same as `minikv`.
            let without = (engine != Engine::MinikvTable).then_some(false);
            [Some(true), without].into_iter().flatten().map(move |f| Case { engine, filters: f })
        };
        let differs = |engine: &&Engine| engine.is_lsm() && **engine != Engine::MinikvMapped;
        engines.iter().filter(differs).flat_map(both).collect()
    }

    /// Returns the layout of the filters and the number of bits per key, in the notation of `minikv
    /// readamp`.
    fn filters(self) -> &'static str {
        match self.engine {
            _ if !self.filters => "none",
            Engine::Minikv | Engine::LevelDb => "block:10",
            _ => "table:10",
        }
    }
}

impl Measured {
    /// Returns the number of bytes that the engine wrote to its levels and logs, as counted by the
    /// engine. Returns `None` if the engine does not count the bytes written to its levels.
    fn own_written_bytes(&self) -> Option<u64> {
        let levels: Option<u64> = self.levels.iter().map(|level| level.written_bytes).sum();
        levels.filter(|_| !self.levels.is_empty()).map(|bytes| bytes + self.log_bytes.unwrap_or(0))
    }

    fn per_put(&self, bytes: u64) -> f64 {
        bytes as f64 / self.put_bytes as f64
    }

    fn per_live(&self, bytes: u64) -> f64 {
        bytes as f64 / self.live_bytes as f64
    }

    fn per_get(&self, blocks: u64) -> f64 {
        blocks as f64 / self.lookups as f64
    }
}

/// Measures each case in its own process, prints the tables, and writes `amplification.md`,
/// `amplification.json` and `amplification.svg`.
pub fn run(args: &Args) -> Result<()> {
    let home = match &args.dir {
        Some(dir) => tempfile::tempdir_in(dir)?,
        None => tempfile::tempdir()?,
    };
    let mut results = Vec::new();
    for case in Case::all(&args.engines()) {
        eprintln!("{}, filters {}", case.engine.name(), case.filters());
        let dir = home.path().join("db");
        settle();
        let measured =
            one(args, case, &dir).map_err(|error| format!("{}: {error}", case.engine.name()))?;
        results.push((case, measured));
        std::fs::remove_dir_all(&dir)?;
    }
    if results.is_empty() {
        return Err("none of these engines has levels".into());
    }
    let text = table::markdown(&args.plan(), &results);
    println!("{text}");
    std::fs::create_dir_all(&args.out)?;
    let path = |extension| args.out.join("amplification").with_extension(extension);
    std::fs::write(path("md"), text)?;
    std::fs::write(path("json"), serde_json::to_string_pretty(&table::json(&results))?)?;
    chart::write(&results, &path("svg"))?;
    println!("Written to {0}/amplification.md, .json and .svg.", args.out.display());
    Ok(())
}

fn one(args: &Args, case: Case, dir: &Path) -> Result<Measured> {
    let mut child = child::command(args, Task::Amplification, case.engine, dir)?;
    child
        .arg("--amplification")
        .args((!case.filters).then_some("--child-without-filters"))
        .stderr(Stdio::inherit());
    let output = child.output()?;
    if !output.status.success() {
        return Err(format!("its process ended with {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_counts_its_log_and_its_levels() {
        let level = |written_bytes| Level { written_bytes, ..Level::default() };
        let written = |log_bytes, levels: &[Level]| {
            let levels = levels.to_vec();
            Measured { log_bytes, levels, ..Measured::default() }.own_written_bytes()
        };
        assert_eq!(written(Some(5), &[level(Some(20)), level(Some(300))]), Some(325));
        assert_eq!(written(None, &[level(Some(20))]), Some(20));
        assert_eq!(written(Some(5), &[level(Some(20)), level(None)]), None);
        assert_eq!(written(Some(5), &[]), None);
    }

    #[test]
    fn every_engine_with_levels_runs_with_and_without_filters() {
        let engines = [Engine::Minikv, Engine::MinikvTable, Engine::MinikvMapped, Engine::LevelDb];
        let names: Vec<_> = Case::all(&engines)
            .iter()
            .map(|case| format!("{} {}", case.engine.name(), case.filters()))
            .collect();
        let expected = [
            "minikv block:10",
            "minikv none",
            "minikv-table table:10",
            "leveldb block:10",
            "leveldb none",
        ];
        assert_eq!(names, expected);
        #[cfg(feature = "redb")]
        assert!(Case::all(&[Engine::Redb]).is_empty());
    }
}
