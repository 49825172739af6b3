//! `minikv verify`

use std::path::Path;

use minikv::{Corruption, VerifyReport, verify_with};
use serde::Serialize;

use super::{count, size};
use crate::args::{Dir, Global};
use crate::error::{CliError, Result};
use crate::files::Survey;
use crate::output::{Progress, Stdout};
use crate::style::{Colour, coloured};
use crate::writer::Writer;

/// Check every file and report all damage; read-only
///
/// Checks the MANIFEST, every table with its index, filters and blocks, and every live log. Does
/// not lock the database. The exit code is 1 if there is damage. With --comparator ignore, checks
/// blocks and records, but not the order of keys.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub(super) dir: Dir,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let dir = global.db()?;
    let writer = Writer::of(&dir);
    let report = check(global, &dir)?;
    let mut stdout = Stdout::open_to_go_on()?;
    match args.json {
        true => stdout.json(&VerifyDocument { sound: report.is_sound(), report: &report })?,
        false => print(&report, &mut stdout)?,
    }
    stdout.finish()?;
    if let Some(writer) = writer.or_else(|| Writer::of(&dir)) {
        writer.say(&dir);
    }
    match report.is_sound() {
        true => Ok(()),
        false => Err(CliError::Damaged(format!(
            "{} in {}; `minikv repair --dry-run` shows what can be saved",
            count(report.fault_count, "fault", "faults"),
            dir.display()
        ))),
    }
}

fn check(global: &Global, dir: &Path) -> Result<VerifyReport> {
    let bar = Progress::bytes("verifying", Some(0));
    let show = |done_bytes, total_bytes| {
        bar.total(total_bytes);
        bar.set(done_bytes);
    };
    if global.ignores_comparator() {
        return Survey::of(dir, true)?.verify(show);
    }
    let options = global.options(dir)?;
    let report = verify_with(dir, &options, |progress| {
        show(progress.done_bytes, progress.total_bytes);
    })?;
    Ok(report)
}

fn print(report: &VerifyReport, stdout: &mut Stdout) -> Result<()> {
    for fault in &report.faults {
        stdout.line(format!("{}: {}", coloured(Colour::Red, "fault"), one_line(fault)))?;
    }
    for note in &report.notes {
        stdout.line(format!("note: {}", one_line(note)))?;
    }
    if report.changed_meanwhile {
        stdout.line("note: another process changed the database meanwhile; verify it again")?;
    }
    stdout.line(format!(
        "{} with {}, {} with {}, {}: {}",
        count(report.tables, "table", "tables"),
        count(report.entries, "entry", "entries"),
        count(report.logs, "log", "logs"),
        count(report.batches, "batch", "batches"),
        size(report.bytes),
        match report.fault_count {
            0 => coloured(Colour::Green, "no fault"),
            faults => count(faults, "fault", "faults"),
        },
    ))
}

/// Returns a fault and its location as one line. Keys in the fault are already escaped.
pub fn one_line(fault: &Corruption) -> String {
    fault.to_string().replace(['\n', '\r'], " ")
}

/// The report as JSON.
#[derive(Serialize)]
struct VerifyDocument<'a> {
    sound: bool,
    #[serde(flatten)]
    report: &'a VerifyReport,
}
