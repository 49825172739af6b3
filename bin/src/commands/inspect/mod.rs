//! `minikv inspect FILE…`: prints the contents of a database's files, as far as they are readable.

mod current;
mod kind;
mod log;
mod manifest;
mod report;
mod table;

use std::path::{Path, PathBuf};

use kind::Kind;
use report::Report;

use crate::args::Global;
use crate::error::{CliError, Result};
use crate::output::{self, Stdout};
use crate::writer::check_not_lock;

/// Print the contents of a database's files
///
/// FILE is a table, a log, a MANIFEST or CURRENT, under any name: its kind is detected from its
/// content, and from its name (.ldb, .sst, .log, MANIFEST, CURRENT) only if it is damaged or empty.
/// Prints everything that is readable, and the offset of any damage. If there is damage, the exit
/// code is 4. A torn record at the end of a log is not damage.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Files to inspect
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Also print every entry or operation, in --format
    #[arg(long)]
    entries: bool,
    /// Print JSON: one document, on one line, for each file
    #[arg(long)]
    json: bool,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let mut first_code = None;
    for (i, path) in args.files.iter().enumerate() {
        if i > 0 && !args.json {
            let mut stdout = Stdout::open_to_go_on()?;
            stdout.line("")?;
            stdout.finish()?;
        }
        match inspect(global, &args, path) {
            Err(error) if args.files.len() == 1 => return Err(error),
            Err(error) => {
                let message = error.message().unwrap_or_default();
                output::say(format!("minikv: {message}"));
                first_code.get_or_insert(error.exit_code());
            }
            Ok(()) => {}
        }
    }
    first_code.map_or(Ok(()), |code| Err(CliError::Said { code }))
}

fn inspect(global: &Global, args: &Args, path: &Path) -> Result<()> {
    check_not_lock(path)?;
    let Some(kind) = Kind::of(path)? else {
        return Err(CliError::Usage(format!(
            "{} is neither a table, a log, a MANIFEST nor CURRENT; name one of these files of a \
             database",
            path.display()
        )));
    };
    let mut report = Report::new(path, global.format(), args.entries, args.json)?;
    match kind {
        Kind::Table => table::inspect(path, &mut report)?,
        Kind::Log => log::inspect(path, &mut report)?,
        Kind::Manifest => manifest::inspect(path, &mut report)?,
        Kind::Current => current::inspect(path, &mut report)?,
    }
    report.finish()
}
