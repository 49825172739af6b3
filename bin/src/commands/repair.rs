//! `minikv repair`

use std::path::Path;

use minikv::repair::LostRange;
use minikv::{RepairOptions, RepairReport, repair_with};

use super::verify::one_line;
use super::{count, size};
use crate::args::{Dir, Global};
use crate::codec::Format;
use crate::error::Result;
use crate::output::{Progress, Stdout};

/// Repair a damaged database so that it opens again
///
/// Keeps all undamaged data, and its levels where possible. Deleted keys do not come back, unless
/// the deletion itself was damaged: such ranges are listed. Files taken out of the database are
/// moved to its directory `lost`. A healthy database is not changed.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub(super) dir: Dir,
    /// Show what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let dir = global.db()?;
    let options = global.options(&dir)?;
    let bar = Progress::bytes("reading", Some(0));
    let how = RepairOptions::default().dry_run(args.dry_run);
    let report = repair_with(&dir, &options, how, |progress| {
        bar.total(progress.total_bytes);
        bar.set(progress.done_bytes);
    })?;
    drop(bar);
    let mut stdout = Stdout::open()?;
    match args.json {
        true => stdout.json(&report)?,
        false => print(&report, global.format(), &mut stdout)?,
    }
    stdout.finish()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

fn print(report: &RepairReport, format: Format, stdout: &mut Stdout) -> Result<()> {
    if report.healthy {
        return stdout.line("no fault: nothing to repair, nothing changed");
    }
    let would_be = if report.dry_run { "would be " } else { "" };
    for fault in &report.faults {
        stdout.line(format!("fault: {}", one_line(fault)))?;
    }
    if let Some(why) = &report.manifest_distrusted {
        stdout.line(format!("the MANIFEST may lack its last edits: {why}"))?;
    }
    print_tables(report, would_be, stdout)?;
    for lost in &report.lost {
        stdout.line(format!("{would_be}{}", lost_line(lost, format)))?;
    }
    for lost in &report.lost_logs {
        stdout.line(format!(
            "{would_be}lost: {} bytes of {} from offset {}: {}",
            lost.bytes,
            name(&lost.path),
            lost.offset,
            lost.why
        ))?;
    }
    for note in &report.notes {
        stdout.line(format!("note: {note}"))?;
    }
    for file in &report.quarantined {
        stdout.line(format!("{would_be}put aside: {} ({})", file.kept.display(), file.why))?;
    }
    let kept = count(report.tables_kept, "table", "tables");
    stdout.line(match report.dry_run {
        true => format!("{kept} would be left unchanged; nothing was changed (--dry-run)"),
        false => format!("repaired; {kept} left unchanged"),
    })
}

fn print_tables(report: &RepairReport, would_be: &str, stdout: &mut Stdout) -> Result<()> {
    for table in &report.tables {
        let level = table.level.map_or(String::new(), |level| format!(" of level {level}"));
        let entries = count(table.entries, "entry", "entries");
        stdout.line(format!(
            "table {}{level}: {would_be}{}, {entries}",
            name(&table.path),
            table.outcome.name()
        ))?;
    }
    for table in &report.new_tables {
        let bytes = size(table.file_bytes);
        stdout.line(format!(
            "{}table {} of level {}, {bytes}",
            if report.dry_run { "would be written: " } else { "new " },
            name(&table.path),
            table.level
        ))?;
    }
    Ok(())
}

fn lost_line(lost: &LostRange, format: Format) -> String {
    let key = |key: &Option<Vec<u8>>, open: &str| match key {
        Some(key) => format!("\"{}\"", format.show(key)),
        None => open.to_owned(),
    };
    format!(
        "lost: {} of {} at offset {}: keys from {} to {} may be missing, have older values, or be \
         back although deleted",
        size(lost.bytes),
        name(&lost.path),
        lost.offset,
        key(&lost.from, "the first"),
        key(&lost.to, "the last"),
    )
}
