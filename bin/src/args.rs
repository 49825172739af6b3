//! Command-line options shared by all commands. The options of a single command are in the file of
//! that command.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, ValueEnum, ValueHint};
use minikv::filter::MAX_BITS_PER_KEY;
use minikv::{BytewiseComparator, Comparator, Compression, Filters, Options};

use crate::codec::Format;
use crate::commands::Command;
use crate::comparator;
use crate::error::{CliError, Result};
use crate::recorder::observed;
use crate::shared_db::SharedDb;
use crate::system::argument_bytes;
use crate::writer::is_same_dir;

const AFTER_HELP: &str = "\
Sizes take KiB, MiB or GiB, e.g. 64MiB. A key and a value must each be shorter than 3 GiB.
Data goes to stdout, everything else to stderr.

Commands that take neither keys nor files take the directory of the database as an argument, too:
`minikv stats DIR` is `minikv --db DIR stats`.

Exit codes: 0 done, 1 key not found, condition of a write not met, damage found (verify, backups
--verify), or a difference found (diff), 2 usage, 3 locked by another process, 4 corruption, 5 I/O,
6 a format or feature this build cannot read, 130 interrupted.

`minikv help COMMAND` shows the options of a command; `minikv man` prints the manual page.";

const MAX_BLOCK_BYTES: usize = 64 << 20;
/// Minimum size of the write buffer, in bytes. With a smaller buffer, the database would write a
/// table after every few entries.
const MIN_WRITE_BUFFER_BYTES: usize = 4 << 10;
const MAX_WRITE_BUFFER_BYTES: usize = 1 << 30;

/// Read, write, check and measure databases in LevelDB's format
#[derive(Debug, Parser)]
#[command(name = "minikv", version, after_help = AFTER_HELP, max_term_width = 100)]
#[command(arg_required_else_help = true, disable_help_subcommand = false)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Common options")]
pub struct Global {
    /// Directory of the database [env: MINIKV_DB]
    #[arg(long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub db: Option<PathBuf>,

    /// Format of entries, and of keys given as arguments [default: escaped]
    #[arg(long, global = true, value_enum, value_name = "FORMAT")]
    pub format: Option<Format>,

    /// Format of keys given as arguments [default: same as --format]
    #[arg(long, global = true, value_enum, value_name = "FORMAT", hide_possible_values = true)]
    pub key_format: Option<Format>,

    #[command(flatten)]
    pub shape: Shape,

    /// The open database of `minikv shell`, if the command concerns it.
    #[arg(skip)]
    pub shared: Option<SharedDb>,
}

/// The directory of the database as an argument, for commands that take no key and no file.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Dir {
    /// Directory of the database [default: --db, or MINIKV_DB]
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
}

/// Options that shape new files and limit memory.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
#[command(next_help_heading = "Options that shape new files")]
pub struct Shape {
    /// Filter bits per key, up to 64; 0 neither writes nor uses filters [default: 10]
    #[arg(long, global = true, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(..=i64::from(MAX_BITS_PER_KEY)))]
    pub bloom_bits: Option<u32>,

    /// Kind of filters in new tables [default: block]
    #[arg(long, global = true, value_enum, value_name = "LAYOUT")]
    pub filter_layout: Option<FilterLayout>,

    /// Compression of blocks [default: that of the tables, or snappy]
    #[arg(long, global = true, value_enum, value_name = "KIND")]
    pub compression: Option<CompressionKind>,

    /// Size of a data block before compression, up to 64 MiB [default: 4KiB]
    #[arg(long, global = true, value_name = "SIZE", value_parser = parse_block_size)]
    pub block_size: Option<usize>,

    /// Size of a memtable before it becomes a table, 4 KiB to 1 GiB [default: 4MiB]
    #[arg(long, global = true, value_name = "SIZE", value_parser = parse_write_buffer)]
    pub write_buffer: Option<usize>,

    /// Size of the cache of data blocks [default: 8MiB]
    #[arg(long, global = true, value_name = "SIZE", value_parser = parse_size)]
    #[arg(help_heading = "Common options")]
    pub cache_size: Option<usize>,

    /// Never preallocate logs, for readers that mistake zeros at the end for damage
    #[arg(long, global = true)]
    pub plain_logs: bool,

    /// Keep logs after a flush, up to this size, for `minikv watch --since` [default: 0]
    ///
    /// A command that writes applies its limits to the logs of all earlier commands, too: without
    /// limits, it removes all kept logs. With both limits, a log stays as long as either limit
    /// keeps it.
    #[arg(long, global = true, value_name = "SIZE", value_parser = parse_size)]
    pub keep_logs: Option<usize>,

    /// Keep logs after a flush for this long: seconds, or a number with s, m, h or d [default: 0]
    #[arg(long, global = true, value_name = "DURATION", value_parser = parse_duration)]
    pub keep_logs_for: Option<Duration>,

    /// Open a database also where the filesystem has no locks: nothing then keeps another process
    /// from damaging it
    #[arg(long, global = true, help_heading = "Common options")]
    pub allow_no_lock: bool,

    /// Name of the database's comparator [default: the one in its files, or byte order]
    ///
    /// Known comparators are leveldb.BytewiseComparator and idb_cmp1, which Chromium's IndexedDB
    /// uses. `ignore` reads a database with a comparator that this build does not know, and ignores
    /// the key order; it works with verify, stats, tree, dump, and scan without a range.
    #[arg(long, global = true, value_name = "NAME", help_heading = "Common options")]
    pub comparator: Option<String>,
}

/// Kind of filters in a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FilterLayout {
    /// One filter per 2 KiB of data blocks, as LevelDB writes them
    #[default]
    Block,
    /// One filter for the whole table
    Table,
    /// Both kinds
    Both,
}

/// Compression of the blocks of new tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompressionKind {
    /// No compression
    None,
    /// Snappy, where it saves at least an eighth
    Snappy,
    /// Raw deflate, as in Minecraft's worlds; LevelDB cannot read it
    Deflate,
    /// zlib, as in Minecraft's old worlds; LevelDB cannot read it
    Zlib,
    /// zstd; LevelDB 1.23 and older cannot read it
    // Accepted even without the Cargo feature `zstd`, so that the error message can say how to
    // enable the feature.
    #[cfg_attr(not(feature = "zstd"), value(hide = true))]
    Zstd,
}

impl Global {
    /// Returns the directory of the database.
    pub fn db(&self) -> Result<PathBuf> {
        let from_environment = || std::env::var_os("MINIKV_DB").filter(|dir| !dir.is_empty());
        self.db.clone().or_else(|| from_environment().map(PathBuf::from)).ok_or_else(|| {
            CliError::Usage("no database is given; give --db DIR, or set MINIKV_DB".to_string())
        })
    }

    /// Returns the options for a command with the argument DIR, which names the database. Returns
    /// an error if `--db` names another database.
    pub fn with_dir(mut self, dir: Option<&Path>) -> Result<Global> {
        let Some(dir) = dir else { return Ok(self) };
        if let Some(db) = self.db.as_deref().filter(|db| !is_same_dir(db, dir)) {
            return Err(CliError::Usage(format!(
                "DIR is {}, but --db is {}; give one of them",
                dir.display(),
                db.display()
            )));
        }
        self.db = Some(dir.to_path_buf());
        Ok(self)
    }

    /// Returns the format of entries.
    pub fn format(&self) -> Format {
        self.format.unwrap_or_default()
    }

    /// Returns the format of keys given as arguments.
    pub fn key_format(&self) -> Format {
        match self.key_format.unwrap_or(self.format()) {
            Format::Csv => Format::Escaped,
            format => format,
        }
    }

    /// Returns the bytes of a key given as an argument.
    pub fn key(&self, argument: &OsStr) -> Result<Vec<u8>> {
        self.key_in(self.key_format(), argument)
    }

    /// Returns the bytes of a key given as an argument in `format`.
    pub fn key_in(&self, format: Format, argument: &OsStr) -> Result<Vec<u8>> {
        argument_bytes(argument).and_then(|bytes| format.decode(&bytes)).map_err(|what| {
            CliError::Usage(format!(
                "key {:?}: {what}; --key-format sets the format of keys",
                argument.to_string_lossy()
            ))
        })
    }

    /// Returns the library's options for `db`.
    pub fn options(&self, db: &Path) -> Result<Options> {
        Ok(observed(self.shape.plain_options()?, self.comparator(db)?))
    }

    /// Returns the comparator named by `--comparator` or, without this option, the comparator of
    /// `db`. If this build does not know the comparator of `db`, returns byte order; opening `db`
    /// then reports the unknown comparator.
    pub fn comparator(&self, db: &Path) -> Result<Arc<dyn Comparator>> {
        if self.ignores_comparator() {
            return Err(CliError::Usage(
                "--comparator ignore only works with verify, stats, tree, dump and scan"
                    .to_string(),
            ));
        }
        let Some(name) = &self.shape.comparator else {
            let known = comparator::name_in(db).and_then(|name| comparator::named(&name));
            return Ok(known.unwrap_or_else(|| Arc::new(BytewiseComparator)));
        };
        comparator::named(name).ok_or_else(|| {
            let needed = match comparator::name_in(db) {
                Some(name) if comparator::named(&name).is_some() => {
                    format!("the database needs {name}, so leave --comparator out")
                }
                Some(name) => format!(
                    "the database needs {name}, unknown to this build too; --comparator ignore \
                     reads it without its order (verify, stats, tree, dump, scan)"
                ),
                None => "leave --comparator out".to_string(),
            };
            CliError::Unsupported(format!(
                "unknown comparator {name:?}, only {} are known; {needed}",
                comparator::KNOWN
            ))
        })
    }

    /// Returns whether the database's keys are in byte order.
    pub fn has_byte_order(&self) -> Result<bool> {
        Ok(self.comparator(&self.db()?)?.name() == BytewiseComparator.name())
    }

    /// Returns an error if the database's keys are not in byte order. `what` is the option that
    /// requires byte order.
    pub fn needs_byte_order(&self, what: &str) -> Result<()> {
        if self.has_byte_order()? {
            return Ok(());
        }
        let name = self.comparator(&self.db()?)?.name().to_string();
        Err(CliError::Usage(format!("{what} needs byte order; this database is sorted by {name}")))
    }

    /// Returns whether `--comparator ignore` was given.
    pub fn ignores_comparator(&self) -> bool {
        self.shape.comparator.as_deref() == Some("ignore")
    }
}

impl Shape {
    /// Returns whether no option was given.
    pub fn is_default(&self) -> bool {
        *self == Shape::default()
    }

    /// Returns the options with those of `base` where none is given.
    pub fn or(self, base: &Shape) -> Shape {
        Shape {
            bloom_bits: self.bloom_bits.or(base.bloom_bits),
            filter_layout: self.filter_layout.or(base.filter_layout),
            compression: self.compression.or(base.compression),
            block_size: self.block_size.or(base.block_size),
            write_buffer: self.write_buffer.or(base.write_buffer),
            cache_size: self.cache_size.or(base.cache_size),
            plain_logs: self.plain_logs || base.plain_logs,
            allow_no_lock: self.allow_no_lock || base.allow_no_lock,
            keep_logs: self.keep_logs.or(base.keep_logs),
            keep_logs_for: self.keep_logs_for.or(base.keep_logs_for),
            comparator: self.comparator.or_else(|| base.comparator.clone()),
        }
    }

    /// Returns the library's options for a new database.
    pub fn options(&self) -> Result<Options> {
        Ok(observed(self.plain_options()?, Arc::new(BytewiseComparator)))
    }

    fn plain_options(&self) -> Result<Options> {
        let mut options = self
            .filters(Options::default())
            .preallocate_logs(!self.plain_logs)
            .allow_no_lock(self.allow_no_lock);
        if let Some(kind) = self.compression {
            options = options.compression(kind.to_library()?);
        }
        if let Some(bytes) = self.block_size {
            options = options.block_bytes(bytes);
        }
        if let Some(bytes) = self.write_buffer {
            options = options.write_buffer_bytes(bytes);
        }
        if let Some(bytes) = self.keep_logs {
            options = options.keep_logs_bytes(bytes as u64);
        }
        if let Some(age) = self.keep_logs_for {
            options = options.keep_logs_for(age);
        }
        if let Some(bytes) = self.cache_size {
            options = options.block_cache_bytes(bytes);
        }
        Ok(options)
    }

    /// Returns the number of filter bits per key, or 0 if there are no filters.
    pub fn bits_per_key(&self) -> u32 {
        self.bloom_bits.unwrap_or(10)
    }

    /// Returns the size of the block cache, in bytes.
    pub fn cache_bytes(&self) -> u64 {
        self.cache_size.map_or(8 << 20, |bytes| bytes as u64)
    }

    fn filters(&self, options: Options) -> Options {
        let bits = self.bits_per_key();
        let filters = match self.filter_layout.unwrap_or_default() {
            _ if bits == 0 => Filters::None,
            FilterLayout::Block => Filters::Block(bits),
            FilterLayout::Table => Filters::Table(bits),
            FilterLayout::Both => Filters::Both(bits),
        };
        options.filters(filters)
    }

    /// Returns an error if the options disable filters but select a layout with table filters.
    pub fn check_filters(&self) -> Result<()> {
        match (self.bloom_bits, self.filter_layout) {
            (Some(0), Some(FilterLayout::Table | FilterLayout::Both)) => Err(CliError::Usage(
                "--bloom-bits 0 writes no filters, so --filter-layout cannot be given too; \
                     leave one of them out"
                    .to_string(),
            )),
            _ => Ok(()),
        }
    }
}

impl CompressionKind {
    fn to_library(self) -> Result<Compression> {
        let name = match self {
            CompressionKind::None => "none",
            CompressionKind::Snappy => "snappy",
            CompressionKind::Deflate => "deflate",
            CompressionKind::Zlib => "zlib",
            CompressionKind::Zstd => "zstd",
        };
        Ok(name.parse()?)
    }
}

/// Parses a number of bytes such as `4096`, `4KiB`, `64 MiB` or `1GiB`.
pub fn parse_size(text: &str) -> Result<usize, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" => 0,
        "kib" => 10,
        "mib" => 20,
        "gib" => 30,
        _ => return Err("a size is a whole number, alone or with KiB, MiB or GiB".to_string()),
    };
    let number: usize = number.parse().map_err(|_| "a size is a whole number".to_string())?;
    number.checked_mul(1 << shift).ok_or_else(|| "the size is too large".to_string())
}

/// Parses a duration such as `90`, `90s`, `15m`, `12h` or `7d`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let is_wrong = || "a duration is a whole number of seconds, or has s, m, h or d".to_string();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let seconds = match unit.trim_start() {
        "" | "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        _ => return Err(is_wrong()),
    };
    let number: u64 = number.parse().map_err(|_| is_wrong())?;
    let seconds = number.checked_mul(seconds).ok_or("the duration is too long")?;
    Ok(Duration::from_secs(seconds))
}

fn parse_block_size(text: &str) -> Result<usize, String> {
    match parse_size(text)? {
        bytes @ 1..=MAX_BLOCK_BYTES => Ok(bytes),
        _ => Err("a block has from 1 byte to 64 MiB".to_string()),
    }
}

fn parse_write_buffer(text: &str) -> Result<usize, String> {
    match parse_size(text)? {
        bytes @ MIN_WRITE_BUFFER_BYTES..=MAX_WRITE_BUFFER_BYTES => Ok(bytes),
        _ => Err("a write buffer has from 4 KiB to 1 GiB".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_take_units() {
        let parsed = |text| parse_duration(text).map(|duration| duration.as_secs());
        assert_eq!(parsed("90"), Ok(90));
        assert_eq!(parsed("90s"), Ok(90));
        assert_eq!(parsed("15 m"), Ok(900));
        assert_eq!(parsed("2h"), Ok(7200));
        assert_eq!(parsed("7d"), Ok(604_800));
        for bad in ["", "d", "-1", "1.5h", "1w", "1ms", "999999999999999999d"] {
            assert!(parsed(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn sizes_take_binary_units() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("4KiB"), Ok(4096));
        assert_eq!(parse_size("64 MiB"), Ok(64 << 20));
        assert_eq!(parse_size("1gib"), Ok(1 << 30));
        for bad in
            ["", "KiB", "-1", "1.5MiB", "4KB", "4 K", "99999999999GiB", "18446744073709551616"]
        {
            assert!(parse_size(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn keys_are_read_in_the_format_of_keys() {
        let json = Some(Format::Json);
        let global = Global { format: json, ..Global::default() };
        assert_eq!(global.key(OsStr::new("\"a\"")).unwrap(), b"a");
        let global = Global { format: json, key_format: Some(Format::Hex), ..Global::default() };
        assert_eq!(global.key(OsStr::new("61")).unwrap(), b"a");
        assert_eq!(global.key(OsStr::new("6")).unwrap_err().exit_code(), 2);
    }

    #[test]
    fn compressions_that_this_build_lacks_are_refused_by_name() {
        #[cfg(not(feature = "zstd"))]
        {
            let shape = Shape { compression: Some(CompressionKind::Zstd), ..Shape::default() };
            let error = shape.options().unwrap_err();
            assert_eq!(error.exit_code(), 6);
            assert!(error.message().unwrap().contains("--features zstd"));
        }
    }
}
