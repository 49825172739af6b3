//! `minikv scan`

mod pieces;
mod threads;

use clap::ValueEnum;
use minikv::internals::dialect::indexed_db;

use pieces::Pieces;
use threads::{Chunk, Sender, each_chunk};

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
    /// Decode keys as those of this program, and print them as text
    ///
    /// A key of IndexedDB is printed like `db 1 store 2 data: "apple"` (docs/format.md), and a
    /// damaged key as `damaged: ` and its bytes. `load` does not read such lines.
    #[arg(long, value_enum, value_name = "PROGRAM")]
    keys: Option<Keys>,
    /// Read with this many threads, up to 64: faster if blocks are expensive to decompress
    ///
    /// Each thread may hold 8 MiB of output, plus one entry. The output does not depend on the
    /// number of threads.
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=64), conflicts_with = "keyspace")]
    threads: u8,
}

/// Program whose keys can be printed decoded.
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
    if ignores_order && (args.reverse || from.is_some() || to.is_some() || args.threads > 1) {
        return Err(CliError::Usage(
            "--from, --to, --reverse and --threads need an order of keys; leave them out, or \
             --comparator ignore"
                .to_string(),
        ));
    }
    // If keys are not in byte order, keys with the same prefix need not be adjacent.
    let by_bytes = !ignores_order && global.has_byte_order()?;
    let range = match by_bytes {
        true => args.range.range(global)?,
        false => args.range.bounds.range(global)?,
    };
    let scan = Scan { args, format: global.format(), prefix: (!by_bytes).then_some(prefix) };
    let db = Entries::open(global, &scan.args.keyspace)?;
    let mut printer = Printer::open(scan.args.limit)?;
    match &db {
        Entries::InOrder(db) if scan.args.threads > 1 => {
            let order = global.comparator(&global.db()?)?;
            let pieces = Pieces::of(global.db()?, order, range, scan.args.reverse);
            let threads = usize::from(scan.args.threads);
            let read = |piece, sender: &Sender| scan.read(db, piece, sender);
            each_chunk(threads, pieces, read, |chunk| printer.chunk(chunk))?;
        }
        Entries::InOrder(db) => {
            scan.each(db, range, |key, value| printer.entry(&scan, key, value))?;
        }
        files => files.each(|key, value| printer.entry(&scan, key, value))?,
    }
    if scan.args.count {
        printer.stdout.line(printer.printed.to_string())?;
    }
    printer.stdout.finish()
}

/// Options of a scan.
struct Scan {
    args: Args,
    format: Format,
    /// Prefix of the keys to print, if the keys of the database are not in byte order.
    prefix: Option<Vec<u8>>,
}

/// Prints entries, up to a limit, and counts them.
struct Printer {
    stdout: Stdout,
    /// Number of entries that may still be printed.
    left: u64,
    printed: u64,
    line: Vec<u8>,
}

impl Printer {
    fn open(limit: Option<u64>) -> Result<Printer> {
        let left = limit.unwrap_or(u64::MAX);
        Ok(Printer { stdout: Stdout::open()?, left, printed: 0, line: Vec::new() })
    }

    /// Prints an entry, if the scan includes it. Returns whether more entries may follow.
    fn entry(&mut self, scan: &Scan, key: &[u8], value: &[u8]) -> Result<bool> {
        if self.left > 0 && scan.wants(key) {
            self.left -= 1;
            self.printed += 1;
            self.line.clear();
            scan.encode(key, value, &mut self.line);
            self.stdout.write(&self.line)?;
        }
        Ok(self.left > 0)
    }

    /// Prints lines of entries. Returns whether more entries may follow.
    fn chunk(&mut self, mut chunk: Chunk) -> Result<bool> {
        if chunk.entries > self.left {
            chunk.entries = self.left;
            let ends = chunk.lines.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
            let end = ends.map(|(at, _)| at + 1).take(self.left as usize).last();
            chunk.lines.truncate(end.unwrap_or(0));
        }
        self.left -= chunk.entries;
        self.printed += chunk.entries;
        self.stdout.write(&chunk.lines)?;
        Ok(self.left > 0)
    }
}

impl Scan {
    /// Returns whether to print the entry of a key in the range.
    fn wants(&self, key: &[u8]) -> bool {
        self.prefix.as_ref().is_none_or(|prefix| key.starts_with(prefix))
    }

    /// Visits the entries in a range until `visit` returns false.
    fn each(
        &self,
        db: &Source,
        range: Range,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<bool>,
    ) -> Result<()> {
        let mut entries = db.range(range.bounds())?;
        loop {
            let next = if self.args.reverse { entries.next_back() } else { entries.next() };
            let Some(entry) = next else { return Ok(()) };
            let (key, value) = entry?;
            if !visit(&key, &value)? {
                return Ok(());
            }
        }
    }

    /// Sends the lines of a piece. If an error ends the piece early, sends the lines before the
    /// error.
    fn read(&self, db: &Source, piece: Range, sender: &Sender) -> Result<()> {
        let mut chunk = Chunk::new();
        let done = self.each(db, piece, |key, value| {
            if self.wants(key) {
                chunk.entries += 1;
                self.encode(key, value, &mut chunk.lines);
            }
            Ok(!chunk.is_full() || sender.send(std::mem::replace(&mut chunk, Chunk::new())))
        });
        sender.send(chunk);
        done
    }

    /// Appends the line of an entry, unless entries are only counted.
    fn encode(&self, key: &[u8], value: &[u8], line: &mut Vec<u8>) {
        if self.args.count {
            return;
        }
        let (format, keys_only) = (self.format, self.args.keys_only);
        let text = self.args.keys.map(|keys| keys.show(key, format));
        match &text {
            Some(text) if format != Format::Json => {
                line.extend_from_slice(text.as_bytes());
                if !keys_only {
                    line.push(b'\t');
                    format.encode(value, line);
                }
                line.push(b'\n');
            }
            _ => {
                let key = text.as_ref().map_or(key, |text| text.as_bytes());
                match keys_only {
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
        // In JSON, the description is printed as a string, so it must not contain JSON.
        let format = if format == Format::Json { Format::Escaped } else { format };
        indexed_db::describe(key).unwrap_or_else(|| format!("damaged: {}", format.show(key)))
    }
}
