//! `minikv trace`: runs another command, and writes a page that shows its databases at work.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Command;
use crate::args::{Cli, Global};
use crate::definition;
use crate::error::{CliError, Result, usage};
use crate::writer::check_not_lock;
use crate::{output, recorder};

/// Run a command, and write a page that shows its databases at work
///
/// Records the flushes, compactions, changes of tables and stalls of every database that the
/// command opens for writing. When a database is closed, some of the keys that the command has
/// looked up are looked up again, step by step. If the command has looked up no keys, keys of the
/// tables and keys next to them are looked up instead. The page is a single file that needs no
/// other files. It replays the run and shows the steps of lookups.
///
/// COMMAND is any command that writes, such as load, batch, bench, readamp or compact, with its
/// options.
#[derive(Debug, clap::Args)]
#[command(override_usage = "minikv [--db DIR] trace --html FILE -- COMMAND...")]
pub struct Args {
    /// File to write the page to
    #[arg(long, value_name = "FILE")]
    html: PathBuf,
    /// Maximum number of lookups recorded for each database
    #[arg(long, value_name = "N", default_value_t = 200)]
    #[arg(value_parser = clap::value_parser!(u64).range(..=10_000))]
    lookups: u64,
    /// Command to run, with its options
    #[arg(value_name = "COMMAND", required = true, last = true)]
    command: Vec<OsString>,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let cli = parsed(global, &args.command)?;
    check_file(&args.html)?;
    let recording = recorder::begin(args.lookups as usize);
    let outcome = super::run(cli);
    let recorder = &recording.recorder;
    if recorder.is_empty() {
        if std::fs::metadata(&args.html).is_ok_and(|page| page.len() == 0) {
            let _ = std::fs::remove_file(&args.html);
        }
        outcome?;
        return Err(CliError::Usage(
            "the command opened no database for writing, so there is nothing to show; trace one \
             that writes"
                .to_string(),
        ));
    }
    recorder.write_page(&args.html)?;
    output::say(format!("wrote {}", args.html.display()));
    outcome
}

/// Parses the command to trace. If the command does not name a database, the command uses the
/// database of `global`.
fn parsed(global: &Global, words: &[OsString]) -> Result<Cli> {
    let mut cli = definition::parse_words(words)
        .map_err(|error| CliError::Usage(usage::message(error, definition::command_of(words))))?;
    if matches!(cli.command, Command::Trace(_) | Command::Shell(_)) {
        return Err(CliError::Usage("trace cannot trace itself or the shell".to_string()));
    }
    cli.global.db = cli.global.db.or_else(|| global.db.clone());
    cli.global.shape.check_filters()?;
    Ok(cli)
}

/// Fails if the file `path` cannot be created or written. Call this function before the command
/// does its work.
pub fn check_file(path: &Path) -> Result<()> {
    check_not_lock(path)?;
    let created = std::fs::OpenOptions::new().create(true).append(true).open(path);
    created.map(drop).map_err(|error| CliError::io("write", path, error))
}
