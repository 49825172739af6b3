//! `minikv delete KEY…`

use std::ffi::{OsStr, OsString};

use minikv::{Db, WriteBatch, WriteOptions};

use super::condition::Condition;
use super::count;
use super::put::{ValueFormat, read_value};
use super::range::{PrefixBounds, Range};
use crate::args::Global;
use crate::error::{CliError, Result};
use crate::interrupt::Tally;
use crate::keyspace::{InKeyspace, Target};
use crate::output::{
    Progress, {self},
};

const BATCH_ENTRIES: usize = 1000;
const BATCH_BYTES: usize = 1 << 20;

/// Delete keys
///
/// KEYs are deleted in one atomic batch. Deleting an absent key is not an error. With --prefix,
/// --from or --to, deletes every key that meets all of these conditions, in batches of up to 1000,
/// of which the last is synced. `scan` with the same options shows these keys.
///
/// With --if-value, deletes the one KEY only if it has that value; otherwise the exit code is 1. No
/// other write comes between the comparison and the deletion.
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
    db.write_with(&WriteOptions::default().sync(args.sync), batch)?;
    Ok(db.close()?)
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
    condition.write((&db, &name.of_writer(&db)?, global), &options, &key, None)?;
    Ok(db.close()?)
}

fn delete_range(global: &Global, args: &Args) -> Result<()> {
    let range = args.range.range(global)?;
    let name = args.keyspace.name(global)?;
    let db = super::open(global, false)?;
    let target = name.of_writer(&db)?;
    let tally = Tally::default();
    let deleted = |n| format!("deleted {}", count(n, "entry", "entries"));
    let guard = tally.say_on_interrupt(move |n| deleted(n) + "; the others stay");
    let outcome = delete_all(&db, &target, range, &tally);
    drop(guard);
    let deleted = deleted(tally.count());
    outcome.map_err(|error| error.after(format!("{deleted} before it")))?;
    db.close()?;
    output::say(deleted);
    Ok(())
}

fn delete_all(db: &Db, target: &Target, range: Range, tally: &Tally) -> Result<()> {
    let progress = Progress::counter("deleting");
    let write = |batch: &mut WriteBatch, sync: bool| {
        let batch = std::mem::take(batch);
        let options = WriteOptions::default().sync(sync);
        tally.write(batch.len() as u64, || Ok(db.write_with(&options, batch)?))
    };
    let mut batch = WriteBatch::new();
    // The iterator does not see these deletions, because it reads the state at its creation.
    for entry in target.range(range.bounds())? {
        target.delete(&mut batch, &entry?.0);
        if batch.len() >= BATCH_ENTRIES || batch.approximate_bytes() >= BATCH_BYTES {
            write(&mut batch, false)?;
            progress.set(tally.count());
        }
    }
    write(&mut batch, true)
}
