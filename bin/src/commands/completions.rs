//! `minikv completions SHELL`

use std::fmt::Write;

use clap_complete::Shell;

use crate::definition;
use crate::error::Result;
use crate::output::Stdout;

/// Print a shell's completion script
///
/// To install it:
///   bash:       minikv completions bash > ~/.local/share/bash-completion/completions/minikv
///   zsh:        minikv completions zsh > DIR/_minikv, with DIR in $fpath
///   fish:       minikv completions fish > ~/.config/fish/completions/minikv.fish
///   elvish:     minikv completions elvish > ~/.config/elvish/lib/minikv.elv; use minikv in rc.elv
///   powershell: minikv completions powershell >> $PROFILE
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Name of the shell
    #[arg(value_enum)]
    shell: Shell,
}

pub fn run(args: Args) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut definition::shown(), "minikv", &mut script);
    if args.shell == Shell::Fish {
        script.extend(fish_positionals().into_bytes());
    }
    let mut stdout = Stdout::open()?;
    stdout.write(&script)?;
    stdout.finish()
}

/// Returns fish completions for positional arguments. The generator for fish supports only options.
fn fish_positionals() -> String {
    let mut lines = String::new();
    for command in definition::shown().get_subcommands() {
        let name = command.get_name();
        for argument in command.get_positionals() {
            let values = argument.get_possible_values();
            let values: Vec<_> = values.iter().map(|value| value.get_name()).collect();
            if !values.is_empty() {
                writeln!(
                    lines,
                    "complete -c minikv -n \"__fish_minikv_using_subcommand {name}\" -f -a \"{}\"",
                    values.join(" ")
                )
                .expect("a String takes every write");
            }
        }
    }
    lines
}
