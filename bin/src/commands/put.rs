//! `minikv put KEY VALUE`

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use minikv::{WriteBatch, WriteOptions};

use super::condition::Condition;
use crate::args::{Global, parse_duration};
use crate::codec::Format;
use crate::error::{CliError, Result};
use crate::key_check::check_key;
use crate::keyspace::InKeyspace;
use crate::system::{argument_bytes, os_string};
use crate::writer::check_not_lock;

/// Set the value of a key
///
/// The value is stored byte for byte as given, unless --value-format is given: `escaped` takes a
/// value as `get` shows it on a terminal. Use stdin for a value that is `-` or begins with `@`.
/// Replaces an existing value. Creates the database if there is none; its parent directory must
/// exist.
///
/// With --if-absent, sets the value only if the key has none; with --if-value, only if the key has
/// the value OLD. Otherwise the exit code is 1. No other write comes between the comparison and the
/// put.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Key to set
    #[arg(allow_negative_numbers = true)]
    key: OsString,
    /// Value to set; `-` reads it from stdin, `@FILE` from a file
    #[arg(allow_negative_numbers = true)]
    value: OsString,
    /// Format of the value, including one from a file or stdin
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "raw")]
    value_format: ValueFormat,
    /// Set the value only if the key has none
    #[arg(long, conflicts_with = "if_value")]
    if_absent: bool,
    /// Set the value only if the key has the value OLD, which is given in the same way as VALUE
    #[arg(long, value_name = "OLD", allow_negative_numbers = true)]
    if_value: Option<OsString>,
    /// Let the value expire after this time: seconds, or a number with s, m, h or d
    ///
    /// The keyspace is then an expiring one. A keyspace with entries that do not expire cannot
    /// become one.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "keyspace")]
    ttl: Option<Duration>,
    /// Return only once the write would survive a loss of power
    #[arg(long)]
    sync: bool,
    /// Fail if there is no database
    #[arg(long)]
    no_create: bool,
    #[command(flatten)]
    keyspace: InKeyspace,
}

/// Format of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ValueFormat {
    /// Byte for byte
    Raw,
    /// Like --format escaped
    Escaped,
    /// Like --format hex
    Hex,
    /// Like --format json
    Json,
}

impl ValueFormat {
    pub(super) fn decode(self, text: Vec<u8>) -> Result<Vec<u8>> {
        let format = match self {
            ValueFormat::Raw => return Ok(text),
            ValueFormat::Escaped => Format::Escaped,
            ValueFormat::Hex => Format::Hex,
            ValueFormat::Json => Format::Json,
        };
        // Files and pipes usually end with a newline that is not part of the value.
        let text = text.strip_suffix(b"\n").unwrap_or(&text);
        format.decode_value(text).map_err(|what| {
            CliError::Usage(format!("value: {what}; --value-format sets its format"))
        })
    }
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let key = global.key(&args.key)?;
    let keyspace = if args.ttl.is_some() { args.keyspace.expiring() } else { args.keyspace };
    let name = keyspace.name(global)?;
    let from_stdin = |value: &OsString| value == "-";
    if from_stdin(&args.value) && args.if_value.as_ref().is_some_and(from_stdin) {
        let what = "VALUE and --if-value cannot both come from stdin; give one of them as @FILE";
        return Err(CliError::Usage(what.to_string()));
    }
    let value = args.value_format.decode(read_value(&args.value)?)?;
    let condition = match &args.if_value {
        Some(old) => Some(Condition::Value(args.value_format.decode(read_value(old)?)?)),
        None => args.if_absent.then_some(Condition::Absent),
    };
    if let Err(what) = check_key(&*global.comparator(&global.db()?)?, &key) {
        let how = "give a key of it, in --key-format hex; `load` and `batch` write any bytes";
        return Err(CliError::Usage(format!("{what}; {how}")));
    }
    // `--if-value` needs an existing value, so it never creates a database.
    let db = super::open(global, !args.no_create && args.if_value.is_none())?;
    let options = WriteOptions::default().sync(args.sync);
    let target = name.of_writer(&db)?;
    match condition {
        None => {
            let mut batch = WriteBatch::new();
            target.put_for(&mut batch, &key, &value, args.ttl)?;
            db.writing(options).write(batch)?;
        }
        Some(condition) => {
            condition.write((&*db, &target, global), &options, &key, Some((&value, args.ttl)))?;
        }
    }
    db.close()
}

/// Returns the value that an argument denotes: the bytes of the argument itself, of stdin, or of a
/// file.
pub(super) fn read_value(argument: &OsStr) -> Result<Vec<u8>> {
    let bytes = argument_bytes(argument).map_err(CliError::Usage)?;
    if *bytes == *b"-" {
        let mut value = Vec::new();
        io::stdin().lock().read_to_end(&mut value).map_err(|source| CliError::Io {
            op: "read",
            name: "stdin".to_string(),
            source,
        })?;
        return Ok(value);
    }
    if bytes.first() == Some(&b'@') {
        let path = os_string(bytes[1..].to_vec());
        let path = Path::new(&path);
        if path.as_os_str().is_empty() {
            return Err(CliError::Usage(
                "`@` names no file; give @FILE, or - to read the value from stdin".to_string(),
            ));
        }
        check_not_lock(path)?;
        return std::fs::read(path).map_err(|source| CliError::io("read", path, source));
    }
    Ok(bytes.into_owned())
}
