//! `minikv restore`

use std::path::{Path, PathBuf};

use clap::ValueHint;
use minikv::Options;
use minikv::backup::{Backup, Backups};

use super::{count, size};
use crate::args::Global;
use crate::error::Result;
use crate::output::{self, Progress};

/// Restore a database from a backup
///
/// Copies the latest backup of FOLDER, or backup N, to the directory --db, which must be empty or
/// missing, and checks every file.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder of backups
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    folder: PathBuf,
    /// Number of the backup [default: the latest]
    #[arg(long, value_name = "N")]
    backup: Option<u64>,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let dir = global.db()?;
    super::check_parent(&dir)?;
    let restored = restore_to(global, &dir, &args)?;
    output::say(format!(
        "restored backup {}: {}, {}",
        restored.number,
        count(restored.files as u64, "file", "files"),
        size(restored.file_bytes),
    ));
    Ok(())
}

fn restore_to(global: &Global, dir: &Path, args: &Args) -> Result<Backup> {
    let options = Options::default().allow_no_lock(global.shape.allow_no_lock);
    let backups = Backups::open(&args.folder, &options)?;
    let bar = Progress::bytes("restoring", Some(0));
    let restored = backups.restore(args.backup, dir, |progress| {
        bar.total(progress.total_bytes);
        bar.set(progress.done_bytes);
    });
    Ok(restored?)
}
