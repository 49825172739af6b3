//! `minikv inspect FILE`: what is in one file, as far as it can be read.

mod current;
mod log;
mod manifest;
mod report;
mod table;

use std::path::PathBuf;

use minikv::format::name::FileName;

use crate::args::Global;
use crate::error::{CliError, Result};

use report::Report;
pub use report::json_bytes;

/// Print what is in one file of a database
///
/// FILE is a table (.ldb, .sst), a log (.log), a MANIFEST-… or CURRENT. What can be read is
/// printed; damage is named with its offset, and the exit code is 4. The end of a log may be torn:
/// that is no damage.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file
    file: PathBuf,
    /// Print every entry or operation too, in --format
    #[arg(long)]
    entries: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let path = &args.file;
    let name = path.file_name().and_then(|name| name.to_str()).and_then(FileName::parse);
    let mut report = Report::new(path, global.format(), args.entries, args.json)?;
    match name {
        Some(FileName::Table { .. }) => table::inspect(path, &mut report)?,
        Some(FileName::Log(_)) => log::inspect(path, &mut report)?,
        Some(FileName::Manifest(_)) => manifest::inspect(path, &mut report)?,
        Some(FileName::Current) => current::inspect(path, &mut report)?,
        _ => {
            return Err(CliError::Usage(format!(
                "{} is none of: a table (.ldb, .sst), a log (.log), MANIFEST-…, CURRENT",
                path.display()
            )));
        }
    }
    report.finish()
}
