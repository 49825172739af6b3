//! `minikv checkpoint`

use std::path::PathBuf;

use clap::ValueHint;

use crate::args::Global;
use crate::error::Result;

/// Make a copy of the database, without copying its tables
///
/// DEST becomes a database of its own. Tables are shared by hard links where the filesystem can,
/// and copied where it cannot. The database is locked meanwhile, and not changed.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory to make, or an empty one
    #[arg(value_name = "DEST", value_hint = ValueHint::DirPath)]
    dest: PathBuf,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let dir = global.db()?;
    let options = global.options(&dir)?;
    Ok(minikv::checkpoint(dir, args.dest, &options)?)
}
