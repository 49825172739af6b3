//! `minikv checkpoint`

use std::path::PathBuf;

use clap::ValueHint;

use crate::args::Global;
use crate::error::Result;

/// Make a copy of the database, without copying its tables
///
/// DEST becomes an independent database. Tables are shared by hard links where the filesystem
/// supports them, and copied otherwise. The database is locked, but not changed.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory to create, or an empty directory
    #[arg(value_name = "DEST", value_hint = ValueHint::DirPath)]
    dest: PathBuf,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let dir = global.db()?;
    let options = global.options(&dir)?;
    super::check_parent(&args.dest)?;
    Ok(minikv::checkpoint(dir, args.dest, &options)?)
}
