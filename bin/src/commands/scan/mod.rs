//! `minikv scan`

mod pieces;
mod threads;

use clap::ValueEnum;
use minikv::IndexedDbComparator;
use regex::bytes::Regex;

use pieces::Pieces;
use threads::{Chunk, Sender, each_chunk};

use super::entries::{Entries, JsonValues};
use super::range::{Bounds, PrefixBounds, Range};
use crate::args::{Dir, Global};
use crate::codec::Format;
use crate::error::{CliError, Result};
use crate::keyspace::{InKeyspace, ReadScope};
use crate::output::Stdout;
use crate::style::Style;

/// Print entries in key order
///
/// --prefix, --from and --to may be combined: prints the entries that meet all of them. With
/// --comparator ignore, entries are in the order of the database's files.
#[derive(Debug, Default, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub(super) dir: Dir,
    #[command(flatten)]
    range: PrefixBounds,
    #[command(flatten)]
    keyspace: InKeyspace,
    /// Print from the last key to the first
    #[arg(short, long)]
    reverse: bool,
    /// Print at most this many entries
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<u64>,
    /// Only entries that match this regular expression
    ///
    /// The syntax is that of Rust's crate regex: (?i) at the beginning ignores case, and (?-u)
    /// matches bytes that are not UTF-8, as in (?-u)\xff. The pattern is compared with the bytes in
    /// the database, whatever the --format is.
    #[arg(long, value_name = "PATTERN", value_parser = parse_pattern, allow_hyphen_values = true)]
    grep: Option<Regex>,
    /// Part of an entry that must match
    #[arg(long, value_enum, value_name = "PART", default_value = "both", requires = "grep")]
    grep_in: Part,
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
    keys: Option<KeyDialect>,
    /// Read with this many threads, up to 64: faster if blocks are expensive to decompress
    ///
    /// Each thread may hold 8 MiB of output, plus one entry. The output does not depend on the
    /// number of threads.
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=64), conflicts_with = "keyspace")]
    threads: u8,
    #[command(flatten)]
    json_values: JsonValues,
}

/// Part of an entry to which a pattern is applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The key or the value
    #[default]
    Both,
    /// The key
    Keys,
    /// The value
    Values,
}

fn parse_pattern(text: &str) -> std::result::Result<Regex, String> {
    // The first lines of an error only repeat the pattern.
    let last = |error: String| error.lines().last().unwrap_or_default().to_string();
    Regex::new(text).map_err(|error| last(error.to_string()))
}

/// Program whose keys can be printed decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum KeyDialect {
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
    let json_values = args.json_values.check(global)?;
    let style = Style::of_stdout(global).with_json_values(json_values);
    let scan = Scan { args, style, prefix: (!by_bytes).then_some(prefix) };
    let db = Entries::open(global, &scan.args.keyspace)?;
    let mut printer = Printer::open(scan.args.limit)?;
    if let Some(header) = style.format.header(scan.args.keys_only).filter(|_| !scan.args.count) {
        printer.stdout.line(header)?;
    }
    match &db {
        Entries::InOrder(db) if scan.has_threads() => {
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
    style: Style,
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
        if self.left > 0 && scan.wants(key, value) {
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
    fn wants(&self, key: &[u8], value: &[u8]) -> bool {
        let has_prefix = self.prefix.as_ref().is_none_or(|prefix| key.starts_with(prefix));
        has_prefix
            && self.args.grep.as_ref().is_none_or(|pattern| match self.args.grep_in {
                Part::Keys => pattern.is_match(key),
                Part::Values => pattern.is_match(value),
                Part::Both => pattern.is_match(key) || pattern.is_match(value),
            })
    }

    /// Returns whether to read with several threads. Lines of CSV that are counted for a limit are
    /// read by one, because an entry may be several lines.
    fn has_threads(&self) -> bool {
        let is_cut = self.args.limit.is_some() && self.style.format == Format::Csv;
        self.args.threads > 1 && !is_cut
    }

    /// Visits the entries in a range until `visit` returns false.
    fn each(
        &self,
        db: &ReadScope,
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
    fn read(&self, db: &ReadScope, piece: Range, sender: &Sender) -> Result<()> {
        let mut chunk = Chunk::new();
        let done = self.each(db, piece, |key, value| {
            if self.wants(key, value) {
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
        let (style, keys_only) = (self.style, self.args.keys_only);
        let format = style.format;
        let text = self.args.keys.map(|keys| keys.show(key, format));
        match &text {
            Some(text) if !matches!(format, Format::Json | Format::Csv) => {
                line.extend_from_slice(text.as_bytes());
                if !keys_only {
                    line.push(b'\t');
                    style.value(value, line);
                }
                line.push(b'\n');
            }
            _ => {
                let key = text.as_ref().map_or(key, |text| text.as_bytes());
                match keys_only {
                    true => style.key_line(key, line),
                    false => style.entry(key, value, line),
                }
            }
        }
    }
}

impl KeyDialect {
    /// Returns a key as one line of text.
    fn show(self, key: &[u8], format: Format) -> String {
        let KeyDialect::IndexedDb = self;
        // In JSON and CSV, the description is printed as text, so it must not contain either.
        let format = match format {
            Format::Json | Format::Csv => Format::Escaped,
            format => format,
        };
        IndexedDbComparator::describe(key)
            .unwrap_or_else(|| format!("damaged: {}", format.show(key)))
    }
}
