//! Definitions of the command line for the parser, the help pages, the manual and the completions.
//!
//! Every command accepts all common options, before or after its name. The help page, manual page
//! and completions of a command show only the common options that have an effect on it.

use std::ffi::OsString;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, Command, CommandFactory, FromArgMatches, ValueEnum};

use crate::args::Cli;
use crate::codec::Format;
use crate::error::{CliError, Result, usage};
use crate::output;

/// Parses the command line. If the user asked for help or the version, prints it and ends the
/// process.
pub fn parse() -> Result<Cli> {
    let matches = parsed().try_get_matches();
    let cli = matches.and_then(|matches| Cli::from_arg_matches(&matches)).map_err(|error| {
        use clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand as Bare;
        if !error.use_stderr() || error.kind() == Bare {
            match output::page(&error) {
                Ok(()) => std::process::exit(error.exit_code()),
                Err(error) => return error,
            }
        }
        let typed: Vec<_> = std::env::args_os().skip(1).collect();
        CliError::Usage(usage::message(error, command_of(&typed)))
    })?;
    cli.global.shape.check_filters()?;
    Ok(cli)
}

/// Parses the words of a command line after `minikv`.
pub fn parse_words(words: &[OsString]) -> std::result::Result<Cli, clap::Error> {
    let name = OsString::from("minikv");
    let matches = parsed().try_get_matches_from([&name].into_iter().chain(words))?;
    Cli::from_arg_matches(&matches)
}

/// Returns the definition for the parser. Every command has all common options; the options that
/// have no effect on a command are hidden.
pub fn parsed() -> Command {
    let root = defined();
    each_command(root, |command, options| {
        options.iter().fold(command, |command, option| match adapted(&command, option) {
            Some(option) => command.arg(option),
            None => command.arg(option.clone().hide(true)),
        })
    })
}

/// Returns the definition for the manual and the completions.
pub fn shown() -> Command {
    let root = defined();
    let root = each_command(root, |command, options| {
        options.iter().fold(command, |command, option| match adapted(&command, option) {
            Some(option) => command.arg(option.global(false)),
            None => command,
        })
    });
    root.mut_args(|option| option.global(false))
}

/// Returns the names of the commands.
fn names() -> Vec<String> {
    Cli::command().get_subcommands().map(|command| command.get_name().to_string()).collect()
}

fn defined() -> Command {
    let names = PossibleValuesParser::new(names());
    Cli::command().mut_subcommand("man", |man| {
        man.mut_arg("command", |arg| arg.value_parser(names).hide_possible_values(true))
    })
}

fn each_command(mut root: Command, change: impl Fn(Command, &[Arg]) -> Command) -> Command {
    let options: Vec<Arg> = root.get_arguments().filter(|a| a.is_global_set()).cloned().collect();
    for name in names() {
        root = root.mut_subcommand(name, |command| change(command, &options));
    }
    root
}

/// The commands that lock a database or a folder of backups.
const TAKE_LOCKS: [&str; 11] = [
    "put",
    "delete",
    "load",
    "batch",
    "compact",
    "repair",
    "checkpoint",
    "destroy",
    "backup",
    "backups",
    "restore",
];

/// Returns a common option as the help page of `command` shows it, or `None` if the option has no
/// effect on `command`.
fn adapted(command: &Command, option: &Arg) -> Option<Arg> {
    let (name, id) = (command.get_name(), option.get_id().as_str());
    let option = option.clone();
    let writes = matches!(
        name,
        "put"
            | "delete"
            | "load"
            | "batch"
            | "shell"
            | "compact"
            | "repair"
            | "bench"
            | "demo"
            | "readamp"
    );
    match id {
        "db" => !matches!(name, "diff" | "inspect" | "completions" | "man"),
        "comparator" => !matches!(
            name,
            "destroy" | "bench" | "demo" | "readamp" | "trace" | "inspect" | "completions" | "man"
        ),
        "format" if name == "get" => {
            let help = "Print one value per line in this format, even if stdout is not a terminal";
            return Some(without_csv_value(option.help(help)));
        }
        "format" => {
            let without_csv = matches!(name, "inspect" | "repair");
            let with_csv =
                matches!(name, "scan" | "load" | "batch" | "dump" | "diff" | "shell" | "readamp");
            if without_csv {
                return Some(without_csv_value(option));
            }
            with_csv
        }
        "key_format" if matches!(name, "put" | "get" | "delete" | "explain" | "compact") => {
            let help = "Format of keys given as arguments [default: escaped]";
            return Some(option.help(help).hide_possible_values(name == "get"));
        }
        "key_format" => matches!(name, "scan" | "shell" | "readamp"),
        // The other commands that write either create a database of their own or repair one.
        "keep_logs" | "keep_logs_for" => {
            matches!(name, "put" | "delete" | "load" | "batch" | "shell" | "compact")
        }
        "allow_no_lock" => TAKE_LOCKS.contains(&name),
        "cache_size" => {
            matches!(
                name,
                "get"
                    | "scan"
                    | "dump"
                    | "diff"
                    | "shell"
                    | "explain"
                    | "readamp"
                    | "bench"
                    | "demo"
            )
        }
        "bloom_bits" if name == "explain" => {
            let help = "0 shows the get without filters";
            return Some(option.help(help).help_heading("Common options"));
        }
        _ => writes,
    }
    .then_some(option)
}

/// Returns the option `--format` of a command that has no entries to print as CSV.
fn without_csv_value(option: Arg) -> Arg {
    let formats = Format::value_variants().iter().filter(|format| **format != Format::Csv);
    let names = PossibleValuesParser::new(formats.filter_map(ValueEnum::to_possible_value));
    option.value_parser(names.map(|name| Format::from_str(&name, false).unwrap_or_default()))
}

/// Returns the command named in `typed`, if any.
pub fn command_of(typed: &[OsString]) -> Option<String> {
    let root = Cli::command();
    let mut words = typed.iter();
    while let Some(word) = words.next() {
        let word = word.to_str()?;
        if !word.starts_with('-') {
            return root.find_subcommand(word).map(|command| command.get_name().to_string());
        }
        let name = word.strip_prefix("--");
        let takes_value = |option: &Arg| option.get_action().takes_values();
        let mut named = root.get_arguments().filter(|option| option.get_long() == name);
        if name.is_some() && named.any(takes_value) {
            words.next();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_sound() {
        parsed().debug_assert();
        shown().debug_assert();
    }

    #[test]
    fn the_command_is_found_behind_options() {
        let command = |line: &str| {
            command_of(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
        };
        assert_eq!(command("get a --bogus").as_deref(), Some("get"));
        assert_eq!(command("--db scan --bloom-bits=3 get a").as_deref(), Some("get"));
        assert_eq!(command("nosuch get"), None);
        assert_eq!(command("--db"), None);
        assert_eq!(command("-"), None);
    }
}
