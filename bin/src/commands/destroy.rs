//! `minikv destroy`

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;

use crate::args::Global;
use crate::error::{CliError, Result};

/// Remove the database and all that is in it
///
/// Only the database's own files are removed, and the directory if nothing else is in it. Asks
/// first on a terminal; elsewhere --yes is needed.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let dir = global.db()?;
    let options = global.options(&dir)?;
    if !args.yes {
        confirm(&dir)?;
    }
    Ok(minikv::destroy(dir, &options)?)
}

fn confirm(dir: &Path) -> Result<()> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(CliError::Usage(format!(
            "destroy removes all of {}; say --yes if that is meant",
            dir.display()
        )));
    }
    let _ =
        write!(io::stderr(), "remove the database {} and all that is in it? [y/N] ", dir.display());
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    match (read, answer.trim()) {
        (Ok(_), "y" | "Y" | "yes") => Ok(()),
        _ => Err(CliError::Usage("nothing was removed".to_string())),
    }
}
