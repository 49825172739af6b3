//! `minikv scan`

use clap::ValueEnum;
use minikv::internals::dialect::indexed_db;

use super::entries::Entries;
use super::range::{Bounds, PrefixBounds, Range};
use crate::args::Global;
use crate::codec::Format;
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
    range: PrefixBounds,
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
    /// Print keys decoded, as those of this program
    ///
    /// A key of IndexedDB is printed like `db 1 store 2 data: "apple"` (docs/format.md), a damaged
    /// one as `damaged: ` and its bytes. `load` does not read such lines.
    #[arg(long, value_enum, value_name = "PROGRAM")]
    keys: Option<Keys>,
}

/// A program whose keys can be shown decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Keys {
    /// IndexedDB of Chromium
    #[value(name = "indexeddb")]
    IndexedDb,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let prefix = args.range.prefix(global)?.unwrap_or_default();
    let Bounds { from, to } = &args.range.bounds;
    let ignores_order = global.ignores_comparator();
    if ignores_order && (args.reverse || from.is_some() || to.is_some()) {
        return Err(CliError::Usage(
            "--from, --to and --reverse need an order of keys; leave them out, or --comparator \
             ignore"
                .to_string(),
        ));
    }
    // In another order, the keys with a prefix are not neighbours.
    let by_bytes = !ignores_order && global.has_byte_order()?;
    let range = match by_bytes {
        true => args.range.range(global)?,
        false => args.range.bounds.range(global)?,
    };
    let db = Entries::open(global, &args.keyspace)?;
    let mut stdout = Stdout::open()?;
    let mut left = args.limit.unwrap_or(u64::MAX);
    let mut printed = 0u64;
    let format = global.format();
    let mut line = Vec::new();
    let visit = |key: &[u8], value: &[u8]| {
        if left == 0 || !by_bytes && !key.starts_with(&prefix) {
            return Ok(left > 0);
        }
        left -= 1;
        printed += 1;
        if !args.count {
            line.clear();
            args.encode(format, key, value, &mut line);
            stdout.write(&line)?;
        }
        Ok(left > 0)
    };
    match &db {
        Entries::InOrder(db) => each_in_order(db, range, &args, visit)?,
        files => files.each(visit)?,
    }
    if args.count {
        stdout.line(printed.to_string())?;
    }
    stdout.finish()
}

impl Args {
    /// Appends the line of an entry.
    fn encode(&self, format: Format, key: &[u8], value: &[u8], line: &mut Vec<u8>) {
        let text = self.keys.map(|keys| keys.show(key, format));
        match &text {
            Some(text) if format != Format::Json => {
                line.extend_from_slice(text.as_bytes());
                if !self.keys_only {
                    line.push(b'\t');
                    format.encode(value, line);
                }
                line.push(b'\n');
            }
            _ => {
                let key = text.as_ref().map_or(key, |text| text.as_bytes());
                match self.keys_only {
                    true => format.encode_key_line(key, line),
                    false => format.encode_entry(key, value, line),
                }
            }
        }
    }
}

impl Keys {
    /// Returns a key as one line of text.
    fn show(self, key: &[u8], format: Format) -> String {
        let Keys::IndexedDb = self;
        // In JSON the text is a string already, and cannot hold another JSON document.
        let format = if format == Format::Json { Format::Escaped } else { format };
        indexed_db::describe(key).unwrap_or_else(|| format!("damaged: {}", format.show(key)))
    }
}

/// Visits the entries in a range until `visit` returns false.
fn each_in_order(
    db: &Source,
    range: Range,
    args: &Args,
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<bool>,
) -> Result<()> {
    let mut entries = db.range(range.bounds())?;
    loop {
        let next = if args.reverse { entries.next_back() } else { entries.next() };
        let Some(entry) = next else { return Ok(()) };
        let (key, value) = entry?;
        if !visit(&key, &value)? {
            return Ok(());
        }
    }
}
