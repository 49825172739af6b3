//! `minikv delete KEY…`

use std::ffi::OsString;

use minikv::{Db, WriteBatch, WriteOptions};

use super::count;
use super::range::{PrefixBounds, Range};
use crate::args::Global;
use crate::error::Result;
use crate::interrupt::Tally;
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
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Keys to delete
    #[arg(value_name = "KEY", allow_negative_numbers = true)]
    #[arg(required_unless_present_any = ["prefix", "from", "to"])]
    #[arg(conflicts_with_all = ["prefix", "from", "to"])]
    keys: Vec<OsString>,
    #[command(flatten)]
    range: PrefixBounds,
    /// Return only once the deletions would survive a loss of power
    #[arg(long)]
    sync: bool,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    if args.keys.is_empty() {
        return delete_range(global, &args);
    }
    let mut batch = WriteBatch::new();
    for key in &args.keys {
        batch.delete(global.key(key)?);
    }
    let db = super::open(global, false)?;
    db.write_with(&WriteOptions::default().sync(args.sync), batch)?;
    Ok(db.close()?)
}

fn delete_range(global: &Global, args: &Args) -> Result<()> {
    let range = args.range.range(global)?;
    let db = super::open(global, false)?;
    let tally = Tally::default();
    let deleted = |n| format!("deleted {}", count(n, "entry", "entries"));
    let guard = tally.say_on_interrupt(move |n| deleted(n) + "; the others stay");
    let outcome = delete_all(&db, range, &tally);
    drop(guard);
    let deleted = deleted(tally.count());
    outcome.map_err(|error| error.after(format!("{deleted} before it")))?;
    db.close()?;
    output::say(deleted);
    Ok(())
}

fn delete_all(db: &Db, range: Range, tally: &Tally) -> Result<()> {
    let progress = Progress::counter("deleting");
    let write = |batch: &mut WriteBatch, sync: bool| {
        let batch = std::mem::take(batch);
        let options = WriteOptions::default().sync(sync);
        tally.write(batch.len() as u64, || Ok(db.write_with(&options, batch)?))
    };
    let mut batch = WriteBatch::new();
    // The iterator does not see these deletions, because it reads the state at its creation.
    for entry in db.range(range.bounds())? {
        batch.delete(entry?.0);
        if batch.len() >= BATCH_ENTRIES || batch.approximate_bytes() >= BATCH_BYTES {
            write(&mut batch, false)?;
            progress.set(tally.count());
        }
    }
    write(&mut batch, true)
}
