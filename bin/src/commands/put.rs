//! `minikv put KEY VALUE`

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use minikv::WriteOptions;

use crate::args::Global;
use crate::error::{CliError, Result};

/// Put a value under a key
///
/// The value is taken as it is typed, byte for byte; the key is read in --key-format. A value that
/// is `-` itself, or begins with `@`, goes in by stdin. Replaces the value that is there. Makes the
/// database if there is none.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The key
    #[arg(allow_negative_numbers = true)]
    key: OsString,
    /// The value; `-` reads it from stdin, `@FILE` from a file
    #[arg(allow_negative_numbers = true)]
    value: OsString,
    /// Return only when the write would survive a loss of power
    #[arg(long)]
    sync: bool,
    /// Fail if there is no database
    #[arg(long)]
    no_create: bool,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let key = global.key(&args.key)?;
    let value = read_value(&args.value)?;
    let db = super::open(global, !args.no_create)?;
    db.put_with(&WriteOptions::default().sync(args.sync), key, value)?;
    Ok(db.close()?)
}

fn read_value(argument: &OsStr) -> Result<Vec<u8>> {
    let bytes = argument.as_bytes();
    if bytes == b"-" {
        let mut value = Vec::new();
        io::stdin().lock().read_to_end(&mut value).map_err(|source| CliError::Io {
            op: "read",
            name: "stdin".to_string(),
            source,
        })?;
        return Ok(value);
    }
    if bytes.first() == Some(&b'@') {
        let path = Path::new(OsStr::from_bytes(&bytes[1..]));
        return std::fs::read(path).map_err(|source| CliError::io("read", path, source));
    }
    Ok(bytes.to_vec())
}
