//! `minikv checkpoint`

use std::path::PathBuf;

use crate::args::Global;
use crate::error::Result;

/// Make a copy of the database, without copying its tables
///
/// DEST becomes a database of its own, as it is now. Tables get a second name there (a hard link)
/// where the filesystem can, and are copied where it cannot. The database is locked meanwhile, and
/// not changed.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A directory that is empty or not there yet
    #[arg(value_name = "DEST")]
    dest: PathBuf,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let dir = global.db()?;
    let options = global.options(&dir)?;
    Ok(minikv::checkpoint(dir, args.dest, &options)?)
}
