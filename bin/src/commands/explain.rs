//! `minikv explain KEY`

use std::ffi::OsString;

use crate::args::Global;
use crate::error::{CliError, Result};
use crate::keyspace::InKeyspace;
use crate::output::Stdout;

/// Show the read path of one get, step by step
///
/// Prints the memtables and tables searched, in order. For each table, shows the filters' answers
/// and whether they were right, the index entry, the block and its source, and the entry found.
/// Then prints the cost of the get, and its cost without filters. The exit code is 1 if the key is
/// not found.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Key to look up
    #[arg(value_name = "KEY", allow_negative_numbers = true)]
    key: OsString,
    #[command(flatten)]
    keyspace: InKeyspace,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let key = global.key(&args.key)?;
    let name = args.keyspace.name(global)?;
    let explanation = name.of_reader(super::open_for_reads(global)?)?.explain(&key)?;
    let mut stdout = Stdout::open_to_go_on()?;
    if args.json {
        stdout.json(&explanation)?;
    } else {
        stdout.line(explanation.to_string())?;
    }
    stdout.finish()?;
    if explanation.value.is_some() { Ok(()) } else { Err(CliError::NotFound) }
}
