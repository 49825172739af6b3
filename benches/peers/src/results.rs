//! Writes the output files of a run.

use std::path::Path;

use minikv_workloads::Result;

use crate::chart;
use crate::report::Report;

/// Writes the report as `peers.md`, `peers.json` and `peers.svg` into `dir`.
pub fn write(report: &Report, dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    std::fs::write(dir.join("peers.md"), report.markdown())?;
    std::fs::write(dir.join("peers.json"), serde_json::to_string_pretty(&report.json())?)?;
    chart::write(report, &dir.join("peers.svg"))
}
