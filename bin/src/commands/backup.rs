//! `minikv backup`

use std::path::PathBuf;

use clap::ValueHint;
use minikv::backup::Backups;

use super::{count, size};
use crate::args::Global;
use crate::error::Result;
use crate::output::{self, Progress, Stdout};

/// Add a backup to a folder of backups
///
/// Reads the whole database, and copies the tables that the previous backup does not have. FOLDER
/// must be a folder of backups, an empty folder, or missing. The database is locked, but not
/// changed. `backups` lists and verifies the backups of a folder; `restore` creates a database from
/// a backup.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder of backups
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    folder: PathBuf,
    /// Afterwards, remove all but the latest N backups
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
    if args.json {
        let mut stdout = Stdout::open_to_go_on()?;
        stdout.json(&made)?;
        stdout.finish()?;
    } else {
        output::say(format!(
            "backup {}: {}, {}, of which {} are new",
            made.number,
            count(made.files as u64, "file", "files"),
            size(made.file_bytes),
            size(made.copied_bytes),
        ));
    }
    match args.keep {
        Some(keep) => Ok(Backups::open(&args.folder, &options)?.keep(keep as usize)?),
        None => Ok(()),
    }
}
