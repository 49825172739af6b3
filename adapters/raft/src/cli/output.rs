//! The output of commands.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// Prints one line about what was done. If stdout is a pipe that was closed, the command goes on.
pub fn say(line: impl Display) -> Result<(), String> {
    let mut out = io::stdout().lock();
    finish(writeln!(out, "{line}").and_then(|()| out.flush())).map(drop)
}

/// Returns the result of a command that has printed its data, or as much as was read from a pipe
/// that was then closed.
pub fn finish(printed: io::Result<()>) -> Result<ExitCode, String> {
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.to_string()),
        _ => Ok(ExitCode::SUCCESS),
    }
}
