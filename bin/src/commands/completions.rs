//! `minikv completions SHELL`

use clap_complete::Shell;

use crate::args;
use crate::error::Result;
use crate::output::Stdout;

/// Print a shell's completion script
///
/// For bash: `minikv completions bash > ~/.local/share/bash-completion/completions/minikv`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub fn run(args: Args) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::definition(), "minikv", &mut script);
    let mut stdout = Stdout::open()?;
    stdout.write(&script)?;
    stdout.finish()
}
