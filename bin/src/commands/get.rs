//! `minikv get KEY…`

use std::ffi::OsString;

use crate::args::Global;
use crate::error::{CliError, Result};
use crate::output::{self, Stdout};

/// Print the value of a key
///
/// When stdout is not a terminal the value's exact bytes are written and nothing else, also
/// between the values of several keys. On a terminal each value is a line in --format. A key that
/// is not there is named on stderr; the others are printed, and the exit code is 1.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The keys
    #[arg(required = true, value_name = "KEY", allow_negative_numbers = true)]
    keys: Vec<OsString>,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let keys = args.keys.iter().map(|key| global.key(key)).collect::<Result<Vec<_>>>()?;
    let db = super::open_read_only(global)?;
    let mut stdout = Stdout::open()?;
    let as_text = output::stdout_is_terminal();
    let mut missing = false;
    for key in &keys {
        match db.get(key)? {
            Some(value) if as_text => stdout.line(global.format().show(&value))?,
            Some(value) => stdout.write(&value)?,
            None => {
                missing = true;
                stdout.flush()?;
                output::say(format!("minikv: key not found: {}", global.key_format().show(key)));
            }
        }
    }
    stdout.finish()?;
    if missing { Err(CliError::NotFound) } else { Ok(()) }
}
