//! `minikv backup`, `minikv backups` and `minikv restore`

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::ValueHint;
use minikv::{Backup, Backups, Options};
use serde_json::json;

use super::verify::one_line;
use super::{count, size};
use crate::args::Global;
use crate::error::{CliError, Result};
use crate::output::{
    Progress, Stdout, Table, {self},
};

/// Add a backup to a folder of backups
///
/// Reads the whole database, and copies the tables that the backup before does not have. The
/// folder is created if it is missing or empty. The database is locked meanwhile, and not changed.
/// `backups` lists and verifies the backups of a folder, `restore` makes a database of one.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder of backups
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    folder: PathBuf,
    /// Remove the oldest backups afterwards, so that N stay
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    /// Print the new backup as JSON, on stdout
    #[arg(long)]
    json: bool,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let dir = global.db()?;
    let options = global.options(&dir)?;
    super::check_parent(&args.folder)?;
    let bar = Progress::bytes("backing up", Some(0));
    let made = minikv::backup(dir, &args.folder, &options, |progress| {
        bar.total(progress.total_bytes);
        bar.set(progress.done_bytes);
    });
    drop(bar);
    let made = made?;
    if let Some(keep) = args.keep {
        Backups::open(&args.folder, &options)?.keep(keep as usize)?;
    }
    if args.json {
        let mut stdout = Stdout::open()?;
        stdout.json(&made)?;
        return stdout.finish();
    }
    output::say(format!(
        "backup {}: {}, {}, of which {} are new",
        made.number,
        count(made.files as u64, "file", "files"),
        size(made.file_bytes),
        size(made.copied_bytes),
    ));
    Ok(())
}

/// List the backups of a folder, or check them
///
/// With --verify, reads every file of every backup; the exit code is 1 if one is damaged.
#[derive(Debug, clap::Args)]
pub struct ListArgs {
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

pub fn list(args: ListArgs) -> Result<()> {
    let backups = Backups::open(&args.folder, &Options::default())?;
    let faults = match args.verify {
        true => verify(&backups)?,
        false => Vec::new(),
    };
    // A damaged listing is one of the faults; without --verify it is an error.
    let list = match backups.list() {
        Err(_) if !faults.is_empty() => Vec::new(),
        list => list?,
    };
    let mut stdout = Stdout::open()?;
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
            "{} in {}; a backup made now copies what the latest one has lost",
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
        let made = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(backup.made));
        // Times after the year 9999 have no such form.
        let made = made.filter(|_| backup.made < 253_402_300_800);
        let made = made.map(|made| humantime::format_rfc3339_seconds(made).to_string());
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

/// Make a database of a backup
///
/// Copies the latest backup of FOLDER, or backup N, to the directory --db, which must be empty or
/// missing, and checks every file.
#[derive(Debug, clap::Args)]
pub struct RestoreArgs {
    /// Folder of backups
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    folder: PathBuf,
    /// Number of the backup [default: the latest]
    #[arg(long, value_name = "N")]
    backup: Option<u64>,
}

pub fn restore(global: &Global, args: RestoreArgs) -> Result<()> {
    let dir = global.db()?;
    super::check_parent(&dir)?;
    let restored = restore_to(&dir, &args)?;
    output::say(format!(
        "restored backup {}: {}, {}",
        restored.number,
        count(restored.files as u64, "file", "files"),
        size(restored.file_bytes),
    ));
    Ok(())
}

fn restore_to(dir: &Path, args: &RestoreArgs) -> Result<Backup> {
    let backups = Backups::open(&args.folder, &Options::default())?;
    let bar = Progress::bytes("restoring", Some(0));
    let restored = backups.restore(args.backup, dir, |progress| {
        bar.total(progress.total_bytes);
        bar.set(progress.done_bytes);
    });
    Ok(restored?)
}
