//! The command line: what all commands share. What one command takes alone is in its own file.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{CommandFactory, Parser, ValueEnum};
use minikv::filter::whole_table::MAX_BITS_PER_KEY;
use minikv::{BloomFilterPolicy, BytewiseComparator, Comparator, Compression, Options};

use crate::codec::Format;
use crate::commands::Command;
use crate::error::{CliError, Result, parser_message};

const AFTER_HELP: &str = "\
Sizes take KiB, MiB or GiB, e.g. 64MiB. Data goes to stdout, everything else to stderr.

Exit codes: 0 done, 1 key not found or, by verify, damage found, 2 usage, 3 locked by another
process, 4 corruption, 5 I/O, 6 a format or feature this build cannot read.";

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
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// The database's directory [env: MINIKV_DB]
    #[arg(long, global = true, value_name = "DIR")]
    pub db: Option<PathBuf>,

    /// How entries, and keys given as arguments, are written [default: escaped]
    #[arg(long, global = true, value_enum, value_name = "FORMAT")]
    pub format: Option<Format>,

    /// How keys given as arguments are written [default: that of --format]
    #[arg(long, global = true, value_enum, value_name = "FORMAT", hide_possible_values = true)]
    pub key_format: Option<Format>,

    #[command(flatten)]
    pub shape: Shape,
}

/// Options that shape new files, and how much memory is used.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Options that shape new files")]
pub struct Shape {
    /// Bits of filter per key; 0 writes and asks no filters [default: 10]
    #[arg(long, global = true, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(..=1000))]
    pub bloom_bits: Option<u32>,

    /// Where filters are: in blocks as LevelDB has them, one for the table, or both
    #[arg(long, global = true, value_enum, value_name = "LAYOUT", default_value = "block")]
    pub filter_layout: FilterLayout,

    /// How blocks are compressed [default: snappy]
    #[arg(long, global = true, value_enum, value_name = "KIND")]
    pub compression: Option<CompressionKind>,

    /// Bytes of a data block before compression [default: 4KiB]
    #[arg(long, global = true, value_name = "SIZE", value_parser = parse_size)]
    pub block_size: Option<usize>,

    /// Bytes of a memtable before it becomes a table [default: 4MiB]
    #[arg(long, global = true, value_name = "SIZE", value_parser = parse_size)]
    pub write_buffer: Option<usize>,

    /// Bytes of data blocks kept in memory [default: 8MiB]
    #[arg(long, global = true, value_name = "SIZE", value_parser = parse_size)]
    pub cache_size: Option<usize>,

    /// Keep logs no longer than their records, for readers to whom zeros are damage
    #[arg(long, global = true)]
    pub plain_logs: bool,

    /// The order of keys, if it is not the default
    #[arg(long, global = true, value_name = "NAME")]
    pub comparator: Option<String>,
}

/// Where the filters of a table are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FilterLayout {
    /// One filter per 2 KiB of data blocks, as LevelDB has them
    #[default]
    Block,
    /// One filter for the whole table
    Table,
    /// Both
    Both,
}

/// How the blocks of new tables are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompressionKind {
    /// Stored as they are
    None,
    /// Snappy, where it saves an eighth
    Snappy,
    /// zstd: LevelDB 1.23 and older cannot read it
    Zstd,
}

/// Reads the command line. Help and version are printed here, and end the process.
pub fn parse() -> Result<Cli> {
    Cli::try_parse().map_err(|error| {
        use clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand as Bare;
        if !error.use_stderr() || error.kind() == Bare {
            let _ = error.print();
            std::process::exit(error.exit_code());
        }
        CliError::Usage(parser_message(&error))
    })
}

/// The definition of the command line, for completions and manual pages.
pub fn definition() -> clap::Command {
    Cli::command()
}

impl Global {
    /// The directory of the database.
    pub fn db(&self) -> Result<PathBuf> {
        let from_environment = || std::env::var_os("MINIKV_DB").filter(|dir| !dir.is_empty());
        self.db.clone().or_else(|| from_environment().map(PathBuf::from)).ok_or_else(|| {
            CliError::Usage("which database? give --db DIR, or set MINIKV_DB".to_string())
        })
    }

    /// How entries are written.
    pub fn format(&self) -> Format {
        self.format.unwrap_or_default()
    }

    /// How keys given as arguments are written.
    pub fn key_format(&self) -> Format {
        self.key_format.unwrap_or(self.format())
    }

    /// The bytes of a key given as an argument.
    pub fn key(&self, argument: &OsStr) -> Result<Vec<u8>> {
        self.key_format().decode(argument.as_bytes()).map_err(|what| {
            CliError::Usage(format!(
                "key {:?}: {what}; --key-format says how keys are written",
                argument.to_string_lossy()
            ))
        })
    }

    /// The library's options for `db`.
    pub fn options(&self, db: &Path) -> Result<Options> {
        self.shape.check_comparator(db)?;
        self.shape.options()
    }
}

impl Shape {
    /// The library's options.
    pub fn options(&self) -> Result<Options> {
        let mut options = self.filters(Options::default())?.preallocate_logs(!self.plain_logs);
        if let Some(kind) = self.compression {
            options = options.compression(kind.to_library()?);
        }
        if let Some(bytes) = self.block_size {
            options = options.block_bytes(bytes);
        }
        if let Some(bytes) = self.write_buffer {
            options = options.write_buffer_bytes(bytes);
        }
        if let Some(bytes) = self.cache_size {
            options = options.block_cache_bytes(bytes);
        }
        Ok(options)
    }

    /// Bits of filter per key; 0 for none.
    pub fn bits_per_key(&self) -> u32 {
        self.bloom_bits.unwrap_or(10)
    }

    /// Bytes of data blocks kept in memory.
    pub fn cache_bytes(&self) -> u64 {
        self.cache_size.map_or(8 << 20, |bytes| bytes as u64)
    }

    fn filters(&self, options: Options) -> Result<Options> {
        let layout = match (self.bits_per_key(), self.filter_layout) {
            (0, _) => return Ok(options.filter_policy(None)),
            // LevelDB takes any number, though more than 43 bits only take space.
            (bits, FilterLayout::Block) => {
                return Ok(options.filter_policy(Some(Arc::new(BloomFilterPolicy::new(bits)))));
            }
            (_, FilterLayout::Table) => minikv::FilterLayout::Table,
            (_, FilterLayout::Both) => minikv::FilterLayout::Both,
        };
        match self.bits_per_key() {
            bits @ 1..=MAX_BITS_PER_KEY => Ok(options.filter(layout, bits)),
            bits => Err(CliError::Usage(format!(
                "--bloom-bits {bits} is too much for the filter of a whole table, which has at \
                 most {MAX_BITS_PER_KEY} bits a key"
            ))),
        }
    }

    /// Refuses a comparator that is not known, with the name that the database wants.
    fn check_comparator(&self, db: &Path) -> Result<()> {
        let known = BytewiseComparator.name();
        let Some(name) = self.comparator.as_deref().filter(|name| *name != known) else {
            return Ok(());
        };
        let wanted = match minikv::Db::open_read_only(db, Options::default()) {
            Ok(_) => format!("; the database wants {known}"),
            Err(minikv::Error::Unsupported { what: "comparator", name, .. }) => {
                format!("; the database wants {name}, which this build does not know either")
            }
            Err(_) => String::new(),
        };
        Err(CliError::Unsupported(format!(
            "comparator {name:?} is not known, only {known} is{wanted}"
        )))
    }
}

impl CompressionKind {
    fn to_library(self) -> Result<Compression> {
        match self {
            CompressionKind::None => Ok(Compression::None),
            CompressionKind::Snappy => Ok(Compression::Snappy),
            #[cfg(feature = "zstd")]
            CompressionKind::Zstd => Ok(Compression::Zstd(3)),
            #[cfg(not(feature = "zstd"))]
            CompressionKind::Zstd => Err(CliError::Unsupported(
                "this build has no zstd; build it with `--features zstd`".to_string(),
            )),
        }
    }
}

/// A number of bytes: `4096`, `4KiB`, `64 MiB`, `1GiB`.
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
    number.checked_mul(1 << shift).ok_or_else(|| "that is too large".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        definition().debug_assert();
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
    fn what_this_build_lacks_is_refused_by_name() {
        #[cfg(not(feature = "zstd"))]
        {
            let shape = Shape { compression: Some(CompressionKind::Zstd), ..Shape::default() };
            let error = shape.options().unwrap_err();
            assert_eq!(error.exit_code(), 6);
            assert!(error.message().unwrap().contains("--features zstd"));
        }
    }
}
