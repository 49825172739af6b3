//! `minikv delete KEY…`

use std::ffi::{OsStr, OsString};

use minikv::{WriteBatch, WriteOptions};

use super::condition::Condition;
use super::put::{ValueFormat, read_value};
use super::range::PrefixBounds;
use super::{count, size};
use crate::args::Global;
use crate::error::{CliError, Result};
use crate::keyspace::InKeyspace;
use crate::output;

/// Delete keys
///
/// KEYs are deleted in one atomic batch. Deleting an absent key is not an error. With --prefix,
/// --from or --to, deletes every key that meets all of these conditions, in one durable step.
/// Tables without other keys are dropped whole. `scan` with the same options shows the keys.
///
/// With --if-value, takes a single KEY and deletes it only if it has the value OLD; otherwise the
/// exit code is 1. No other write comes between the comparison and the deletion.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Keys to delete
    #[arg(value_name = "KEY", allow_negative_numbers = true)]
    #[arg(required_unless_present_any = ["prefix", "from", "to"])]
    #[arg(conflicts_with_all = ["prefix", "from", "to"])]
    keys: Vec<OsString>,
    #[command(flatten)]
    range: PrefixBounds,
    /// Delete the key only if it has the value OLD; `-` reads OLD from stdin, `@FILE` from a file
    #[arg(long, value_name = "OLD", allow_negative_numbers = true)]
    #[arg(conflicts_with_all = ["prefix", "from", "to"])]
    if_value: Option<OsString>,
    /// Format of OLD
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "raw", requires = "if_value")]
    value_format: ValueFormat,
    /// Return only once the deletions would survive a loss of power
    #[arg(long)]
    sync: bool,
    #[command(flatten)]
    keyspace: InKeyspace,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    if args.keys.is_empty() {
        return delete_range(global, &args);
    }
    if let Some(old) = &args.if_value {
        return delete_if(global, &args, old);
    }
    let name = args.keyspace.name(global)?;
    let keys = args.keys.iter().map(|key| global.key(key)).collect::<Result<Vec<_>>>()?;
    let db = super::open(global, false)?;
    let target = name.of_writer(&db)?;
    let mut batch = WriteBatch::new();
    keys.iter().for_each(|key| target.delete(&mut batch, key));
    db.writing(WriteOptions::default().sync(args.sync)).write(batch)?;
    db.close()
}

fn delete_if(global: &Global, args: &Args, old: &OsStr) -> Result<()> {
    let [key] = &args.keys[..] else {
        let what = "--if-value compares the value of one key; give one KEY".to_string();
        return Err(CliError::Usage(what));
    };
    let key = global.key(key)?;
    let name = args.keyspace.name(global)?;
    let condition = Condition::Value(args.value_format.decode(read_value(old)?)?);
    let db = super::open(global, false)?;
    let options = WriteOptions::default().sync(args.sync);
    condition.write((&*db, &name.of_writer(&db)?, global), &options, &key, None)?;
    db.close()
}

fn delete_range(global: &Global, args: &Args) -> Result<()> {
    if args.range.prefix.is_some() {
        global.needs_byte_order("--prefix")?;
    }
    let range = args.range.range(global)?;
    let name = args.keyspace.name(global)?;
    let db = super::open(global, false)?;
    let sync = WriteOptions::default().sync(true);
    let done = name.of_writer(&db)?.delete_range(&sync, range.bounds())?;
    db.close()?;
    let keys = count(done.keys, "entry", "entries");
    output::say(match done.tables {
        0 => format!("deleted {keys}"),
        tables => {
            let tables = count(tables, "table", "tables");
            format!("deleted {tables} ({}) and {keys} outside them", size(done.file_bytes))
        }
    });
    Ok(())
}
