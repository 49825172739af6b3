//! `minikv man [COMMAND]`

use clap_mangen::Man;

use crate::args;
use crate::error::{CliError, Result};
use crate::output::Stdout;

/// Print the manual page
///
/// To read it: `minikv man | man -l -`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The page of one command
    command: Option<String>,
}

pub fn run(args: Args) -> Result<()> {
    let mut definition = args::definition();
    definition.build();
    let page = match &args.command {
        None => definition,
        Some(name) => {
            let found = definition.find_subcommand(name).cloned();
            found
                .ok_or_else(|| CliError::Usage(format!("no command {name:?}; see `minikv help`")))?
        }
    };
    let mut text = Vec::new();
    Man::new(page).render(&mut text).expect("a Vec takes every write");
    let mut stdout = Stdout::open()?;
    stdout.write(&text)?;
    stdout.finish()
}
