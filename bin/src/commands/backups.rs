//! `minikv backups`

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::ValueHint;
use minikv::Options;
use minikv::backup::{Backup, Backups};
use serde_json::json;

use super::verify::one_line;
use super::{count, size};
use crate::args::Global;
use crate::error::{CliError, Result};
use crate::output::{Progress, Stdout, Table};

/// List the backups of a folder, or check them
///
/// With --verify, reads every file of every backup; the exit code is 1 if one is damaged.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder of backups
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    folder: PathBuf,
    /// Compare all files with their checksums
    #[arg(long)]
    verify: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let options = Options::default().allow_no_lock(global.shape.allow_no_lock);
    let backups = Backups::open(&args.folder, &options)?;
    let faults = match args.verify {
        true => verify(&backups)?,
        false => Vec::new(),
    };
    // With --verify, a damaged listing has already been added to the faults. Without --verify, it
    // is an error.
    let list = match backups.list() {
        Err(_) if !faults.is_empty() => Vec::new(),
        list => list?,
    };
    let mut stdout = Stdout::open_to_go_on()?;
    match args.json {
        true if args.verify => stdout.json(&json!({"backups": list, "faults": faults}))?,
        true => stdout.json(&json!({"backups": list}))?,
        false => {
            for fault in &faults {
                stdout.line(format!("fault: {}", one_line(fault)))?;
            }
            print(&list, &mut stdout)?;
        }
    }
    stdout.finish()?;
    match faults.len() {
        0 => Ok(()),
        n => Err(CliError::Damaged(format!(
            "{} in {}; make a new backup, which copies what the latest one has lost",
            count(n as u64, "fault", "faults"),
            args.folder.display()
        ))),
    }
}

fn verify(backups: &Backups) -> Result<Vec<minikv::Corruption>> {
    let bar = Progress::bytes("verifying", Some(0));
    let faults = backups.verify(|progress| {
        bar.total(progress.total_bytes);
        bar.set(progress.done_bytes);
    });
    Ok(faults?)
}

fn print(list: &[Backup], stdout: &mut Stdout) -> Result<()> {
    let mut table = Table::new(["backup", "made (UTC)", "files", "size", "new"]);
    for backup in list {
        // RFC 3339 cannot express times after the year 9999.
        let end = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(253_402_300_800));
        let made = end.is_some_and(|end| backup.made < end);
        let made = made.then(|| humantime::format_rfc3339_seconds(backup.made).to_string());
        table.row([
            &backup.number.to_string(),
            &made.unwrap_or_else(|| "?".to_owned()),
            &backup.files.to_string(),
            &size(backup.file_bytes),
            &size(backup.copied_bytes),
        ]);
    }
    stdout.line(table.to_string())
}
