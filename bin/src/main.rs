//! The `minikv` command.

#![allow(rustdoc::invalid_html_tags, reason = "doc comments are the help texts: KEY<TAB>VALUE")]

mod args;
mod codec;
mod commands;
mod comparator;
mod damage;
mod definition;
mod entry_reader;
mod error;
mod files;
mod input;
mod interrupt;
mod key_check;
mod keyspace;
mod output;
mod recorder;
mod runs;
mod scratch;
mod shared_db;
mod style;
mod system;
mod table_file;
mod tally;
mod words;
mod writer;

use std::process::ExitCode;

fn main() -> ExitCode {
    output::show_measurements();
    match definition::parse().and_then(commands::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error.say();
            ExitCode::from(error.exit_code())
        }
    }
}
