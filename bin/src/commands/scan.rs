//! `minikv scan`

use super::entries::Entries;
use super::range::{Bounds, PrefixBounds, Range};
use crate::args::Global;
use crate::error::{CliError, Result};
use crate::keyspace::{InKeyspace, Source};
use crate::output::Stdout;

/// Print entries in key order
///
/// --prefix, --from and --to may be combined: prints the entries that meet all of them. With
/// --comparator ignore, entries are in the order of the database's files.
#[derive(Debug, Default, clap::Args)]
pub struct Args {
    #[command(flatten)]
    keys: PrefixBounds,
    #[command(flatten)]
    keyspace: InKeyspace,
    /// Print from the last key to the first
    #[arg(long)]
    reverse: bool,
    /// Print at most this many entries
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Print keys without values
    #[arg(long)]
    keys_only: bool,
    /// Print only the number of entries
    #[arg(long, conflicts_with = "keys_only")]
    count: bool,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let range = args.keys.range(global)?;
    let prefix = args.keys.prefix(global)?;
    let Bounds { from, to } = &args.keys.bounds;
    if global.ignores_comparator() && (args.reverse || from.is_some() || to.is_some()) {
        return Err(CliError::Usage(
            "--from, --to and --reverse need an order of keys; leave them out, or --comparator \
             ignore"
                .to_string(),
        ));
    }
    let db = Entries::open(global, &args.keyspace)?;
    let mut stdout = Stdout::open()?;
    let mut printed = 0u64;
    let format = global.format();
    let mut line = Vec::new();
    let visit = |key: &[u8], value: &[u8]| {
        printed += 1;
        if args.count {
            return Ok(());
        }
        line.clear();
        if args.keys_only {
            format.encode_key_line(key, &mut line);
        } else {
            format.encode_entry(key, value, &mut line);
        }
        stdout.write(&line)
    };
    match &db {
        Entries::InOrder(db) => each_in_order(db, range, &args, visit)?,
        files => each_in_files(files, prefix.unwrap_or_default(), &args, visit)?,
    }
    if args.count {
        stdout.line(printed.to_string())?;
    }
    stdout.finish()
}

fn each_in_files(
    files: &Entries,
    prefix: Vec<u8>,
    args: &Args,
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    let mut left = args.limit.unwrap_or(u64::MAX);
    files.each(|key, value| {
        if left > 0 && key.starts_with(&prefix) {
            visit(key, value)?;
            left -= 1;
        }
        Ok(left > 0)
    })
}

fn each_in_order(
    db: &Source,
    range: Range,
    args: &Args,
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    let mut entries = db.range(range.bounds())?;
    for _ in 0..args.limit.unwrap_or(u64::MAX) {
        let next = if args.reverse { entries.next_back() } else { entries.next() };
        let Some(entry) = next else { break };
        let (key, value) = entry?;
        visit(&key, &value)?;
    }
    Ok(())
}
