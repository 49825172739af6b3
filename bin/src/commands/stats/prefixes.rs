//! `minikv stats --by-prefix`: sums up entries by the prefixes of their keys.

use std::cmp::Reverse;

use serde_json::{Value, json};

use crate::args::Global;
use crate::codec::{Format, JsonBytes};
use crate::commands::entries::Entries;
use crate::commands::{count, size, thousands};
use crate::error::{CliError, Result};
use crate::keyspace::InKeyspace;
use crate::output::{Progress, Stdout, Table};
use crate::style::shortened;

/// Number of the largest keys and of the largest values that are listed.
const LARGEST: usize = 5;

const ENTRIES_PER_PROGRESS: u64 = 4096;

const SHOWN_KEY_CHARS: usize = 48;

/// Options of the summary.
#[derive(Clone, Debug, clap::Args)]
pub struct Prefixes {
    /// With --by-prefix, the text at which a prefix ends, escaped
    #[arg(long, value_name = "TEXT", default_value = ":", requires = "by_prefix")]
    #[arg(value_parser = parse_delimiter, allow_hyphen_values = true)]
    delimiter: Delimiter,
    /// With --by-prefix, take the first N bytes of a key as its prefix
    #[arg(long, value_name = "N", requires = "by_prefix", conflicts_with = "delimiter")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    prefix_bytes: Option<u32>,
    /// With --by-prefix, print at most this many prefixes, the largest first
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50, requires = "by_prefix")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

#[derive(Clone, Debug)]
struct Delimiter(Vec<u8>);

fn parse_delimiter(text: &str) -> std::result::Result<Delimiter, String> {
    match Format::Escaped.decode(text.as_bytes())? {
        bytes if bytes.is_empty() => Err("a delimiter is not empty".to_string()),
        bytes => Ok(Delimiter(bytes)),
    }
}

impl Prefixes {
    /// Reads all entries and prints the summary.
    pub fn run(&self, global: &Global, json: bool) -> Result<()> {
        if global.ignores_comparator() {
            let what = "--by-prefix needs byte order; leave --comparator ignore out";
            return Err(CliError::Usage(what.to_string()));
        }
        // Otherwise, the keys with one prefix need not be adjacent.
        global.needs_byte_order("--by-prefix")?;
        let mut summary = Summary::new(self.limit as usize);
        let progress = Progress::counter("reading");
        Entries::open(global, &InKeyspace::default())?.each(|key, value| {
            summary.add(self.prefix(key), key, value);
            if summary.all.entries.is_multiple_of(ENTRIES_PER_PROGRESS) {
                progress.set(summary.all.entries);
            }
            Ok(true)
        })?;
        drop(progress);
        summary.end();
        let mut stdout = Stdout::open()?;
        match json {
            true => stdout.json(&summary.document(&global.db()?.display().to_string()))?,
            false => stdout.line(summary.text())?,
        }
        stdout.finish()
    }

    /// Returns the prefix of a key, or `None` if it has none.
    fn prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        if let Some(bytes) = self.prefix_bytes {
            return key.get(..bytes as usize);
        }
        let Delimiter(delimiter) = &self.delimiter;
        let at = key.windows(delimiter.len()).position(|part| part == delimiter)?;
        Some(&key[..at + delimiter.len()])
    }
}

/// Number and sizes of entries.
#[derive(Clone, Debug, Default, PartialEq)]
struct Sums {
    entries: u64,
    key_bytes: u64,
    value_bytes: u64,
    largest_key_bytes: u64,
    largest_value_bytes: u64,
}

impl Sums {
    fn add(&mut self, other: &Sums) {
        self.entries += other.entries;
        self.key_bytes += other.key_bytes;
        self.value_bytes += other.value_bytes;
        self.largest_key_bytes = self.largest_key_bytes.max(other.largest_key_bytes);
        self.largest_value_bytes = self.largest_value_bytes.max(other.largest_value_bytes);
    }

    fn bytes(&self) -> u64 {
        self.key_bytes + self.value_bytes
    }

    fn row(&self, name: &str, table: &mut Table) {
        let Sums { entries, key_bytes, value_bytes, largest_key_bytes, largest_value_bytes } = self;
        let sizes = [key_bytes, value_bytes, largest_key_bytes, largest_value_bytes];
        let [keys, values, key, value] = sizes.map(|bytes| size(*bytes));
        table.row([name, &thousands(*entries), &keys, &values, &key, &value]);
    }

    fn document(&self) -> Value {
        json!({
            "entries": self.entries,
            "key_bytes": self.key_bytes,
            "value_bytes": self.value_bytes,
            "largest_key_bytes": self.largest_key_bytes,
            "largest_value_bytes": self.largest_value_bytes,
        })
    }
}

/// The largest keys or values, the largest first.
#[derive(Default)]
struct Largest(Vec<(u64, Vec<u8>)>);

impl Largest {
    fn add(&mut self, bytes: u64, key: &[u8]) {
        let at = self.0.partition_point(|(other, _)| *other >= bytes);
        if at < LARGEST {
            self.0.insert(at, (bytes, key.to_vec()));
            self.0.truncate(LARGEST);
        }
    }

    fn document(&self) -> Vec<Value> {
        let one = |(bytes, key): &(u64, Vec<u8>)| json!({"bytes": bytes, "key": JsonBytes(key)});
        self.0.iter().map(one).collect()
    }

    fn text(&self, what: &str) -> String {
        let mut columns = Table::new([what]);
        self.0.iter().for_each(|(bytes, _)| columns.row([&size(*bytes)]));
        let keys = ["key".to_string()].into_iter();
        let keys = keys.chain(self.0.iter().map(|(_, key)| shortened(key, SHOWN_KEY_CHARS)));
        let columns = columns.to_string();
        let width = columns.lines().map(str::len).max().unwrap_or(0);
        let lines = columns.lines().zip(keys).map(|(line, key)| format!("{line:<width$}   {key}"));
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// Sums of entries by prefix. The entries must be added in byte order. The memory depends on the
/// number of prefixes to list, and not on the number of prefixes in the database.
struct Summary {
    limit: usize,
    all: Sums,
    no_prefix: Sums,
    /// The prefix of the last entry that has one.
    current: Option<(Vec<u8>, Sums)>,
    /// The largest prefixes so far, and a few more.
    listed: Vec<(Vec<u8>, Sums)>,
    /// Number and sums of the prefixes that are not listed.
    others: (u64, Sums),
    keys: Largest,
    values: Largest,
}

impl Summary {
    fn new(limit: usize) -> Summary {
        Summary {
            limit,
            all: Sums::default(),
            no_prefix: Sums::default(),
            current: None,
            listed: Vec::new(),
            others: (0, Sums::default()),
            keys: Largest::default(),
            values: Largest::default(),
        }
    }

    fn add(&mut self, prefix: Option<&[u8]>, key: &[u8], value: &[u8]) {
        let (key_bytes, value_bytes) = (key.len() as u64, value.len() as u64);
        let entry = Sums {
            entries: 1,
            key_bytes,
            value_bytes,
            largest_key_bytes: key_bytes,
            largest_value_bytes: value_bytes,
        };
        self.all.add(&entry);
        self.keys.add(key_bytes, key);
        self.values.add(value_bytes, key);
        match (prefix, &mut self.current) {
            (None, _) => self.no_prefix.add(&entry),
            (Some(prefix), Some((current, sums))) if current == prefix => sums.add(&entry),
            (Some(prefix), current) => {
                let ended = current.replace((prefix.to_vec(), entry));
                self.list(ended);
            }
        }
    }

    fn list(&mut self, ended: Option<(Vec<u8>, Sums)>) {
        self.listed.extend(ended);
        if self.listed.len() >= self.limit.saturating_mul(2) {
            self.cut();
        }
    }

    /// Ends the last prefix. No entries may be added afterwards.
    fn end(&mut self) {
        let ended = self.current.take();
        self.list(ended);
        self.cut();
    }

    fn cut(&mut self) {
        self.listed.sort_by(|(a, x), (b, y)| (Reverse(x.bytes()), a).cmp(&(Reverse(y.bytes()), b)));
        for (_, sums) in self.listed.drain(self.limit.min(self.listed.len())..) {
            self.others.0 += 1;
            self.others.1.add(&sums);
        }
    }

    fn text(&self) -> String {
        let head = ["prefix", "entries", "keys", "values", "largest key", "largest value"];
        let mut table = Table::new(head);
        for (prefix, sums) in &self.listed {
            sums.row(&shortened(prefix, SHOWN_KEY_CHARS), &mut table);
        }
        if self.others.0 > 0 {
            let name = format!("({})", count(self.others.0, "other", "others"));
            self.others.1.row(&name, &mut table);
        }
        if self.no_prefix.entries > 0 {
            self.no_prefix.row("(no prefix)", &mut table);
        }
        self.all.row("all", &mut table);
        if self.all.entries == 0 {
            return table.to_string();
        }
        let (values, keys) = (self.values.text("largest values"), self.keys.text("largest keys"));
        format!("{table}\n\n{values}\n\n{keys}")
    }

    fn document(&self, db: &str) -> Value {
        let one = |(prefix, sums): &(Vec<u8>, Sums)| {
            let mut document = sums.document();
            document["prefix"] = json!(JsonBytes(prefix));
            document
        };
        let mut others = self.others.1.document();
        others["prefixes"] = json!(self.others.0);
        json!({
            "db": db,
            "all": self.all.document(),
            "prefixes": self.listed.iter().map(one).collect::<Vec<_>>(),
            "others": others,
            "no_prefix": self.no_prefix.document(),
            "largest_values": self.values.document(),
            "largest_keys": self.keys.document(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_that_are_not_listed_are_summed_up() {
        let mut summary = Summary::new(3);
        for prefix in 0..100u64 {
            for i in 0..=(prefix * 37 % 100) {
                let key = format!("{prefix:03}:{i:03}");
                summary.add(Some(&key.as_bytes()[..4]), key.as_bytes(), &[0; 10]);
            }
        }
        summary.add(None, b"z", b"");
        summary.end();
        let listed: Vec<_> = summary.listed.iter().map(|(_, sums)| sums.entries).collect();
        assert_eq!(listed, [100, 99, 98]);
        assert_eq!(summary.others.0, 97);
        assert_eq!(summary.others.1.entries, 5050 - 297);
        assert_eq!(summary.no_prefix.entries, 1);
        let mut sum = summary.others.1.clone();
        summary.listed.iter().for_each(|(_, sums)| sum.add(sums));
        sum.add(&summary.no_prefix);
        assert_eq!(sum, summary.all);
    }
}
