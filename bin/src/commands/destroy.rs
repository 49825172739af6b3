//! `minikv destroy`

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;

use minikv::Options;

use crate::args::{Dir, Global};
use crate::error::{CliError, Result};
use crate::files;

/// Remove the database and everything in it
///
/// Removes only the database's own files, and the directory if nothing else is in it. Asks for
/// confirmation on a terminal; otherwise --yes is required. A directory without a database is an
/// error.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub(super) dir: Dir,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let dir = global.db()?;
    if !files::has_remains(&dir)? {
        return Err(CliError::Db(minikv::Error::DatabaseMissing { path: dir }));
    }
    if !args.yes {
        confirm(&dir)?;
    }
    let options = Options::default()
        .comparator(global.comparator(&dir)?)
        .allow_no_lock(global.shape.allow_no_lock);
    Ok(minikv::destroy(dir, &options)?)
}

fn confirm(dir: &Path) -> Result<()> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(CliError::Usage(format!(
            "destroy removes the database {}; give --yes to confirm",
            dir.display()
        )));
    }
    let _ =
        write!(io::stderr(), "remove the database {} and everything in it? [y/N] ", dir.display());
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    match (read, answer.trim()) {
        (Ok(_), "y" | "Y" | "yes") => Ok(()),
        _ => Err(CliError::Usage("nothing was removed; answer y to remove it".to_string())),
    }
}
