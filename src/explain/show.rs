//! An explanation as text.

use std::fmt;

use crate::base::size::Size;
use crate::engine::report::event::TableInfo;
use crate::engine::stats::trace::ReadTrace;
use crate::explain::{BlockSource, Entry, Explanation, FilterState, FilterUse, Step, Verdict};
use crate::format::key::KeyKind;
use crate::table::counts::{AllFilters, LevelTrace};

/// Maximum number of characters shown of a key. Longer keys are shortened in the middle, because
/// the start and the end of a key are more informative.
const MAX_SHOWN_KEY_CHARS: usize = 20;

/// A key in quotes. Printable ASCII is shown as it is, a backslash as `\\`, other bytes as `\xHH`.
struct Key<'a>(&'a [u8]);

/// Returns the escaped bytes, up to `chars` characters in total.
fn escaped<'a>(bytes: impl Iterator<Item = &'a u8>, chars: usize) -> Vec<String> {
    let mut left = chars;
    let pieces = bytes.map(|&byte| match byte {
        b'\\' => "\\\\".to_string(),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    });
    pieces
        .take_while(|piece| {
            let fits = piece.len() <= left;
            left = left.saturating_sub(piece.len());
            fits
        })
        .collect()
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = escaped(self.0.iter(), MAX_SHOWN_KEY_CHARS);
        if whole.len() == self.0.len() {
            return write!(f, "\"{}\"", whole.concat());
        }
        let head = escaped(self.0.iter(), MAX_SHOWN_KEY_CHARS / 2);
        let mut tail = escaped(self.0.iter().rev(), MAX_SHOWN_KEY_CHARS / 2);
        tail.reverse();
        write!(f, "\"{}…{}\"", head.concat(), tail.concat())
    }
}

/// A count with its noun: `1 table`, `2 tables`.
struct Count(u64, &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{}", self.0, self.1, if self.0 == 1 { "" } else { "s" })
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            KeyKind::Value => write!(f, "put at sequence {}, {}", self.seq, Size(self.value_bytes)),
            KeyKind::Deletion => write!(f, "deleted at sequence {}", self.seq),
        }
    }
}

/// A table that was searched, as text.
struct Searched<'a>(&'a TableInfo, FilterState);

impl fmt::Display for Searched<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Searched(table, filter) = self;
        let filter = match filter {
            FilterState::Readable => "",
            FilterState::Damaged => ", filter damaged",
            FilterState::Missing => ", no filter",
        };
        let (first, last) = (Key(&table.first_key), Key(&table.last_key));
        write!(f, "{first} .. {last}, {}{filter}", Size(table.file_bytes))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::TruePositive => "said \"maybe\" (correct): the key is there",
            Verdict::FalsePositive => "said \"maybe\" (false positive): the key is not there",
            Verdict::TrueNegative => "said \"not here\" (correct)",
            Verdict::FalseNegative => "said \"not here\" (WRONG: the filter is broken)",
            Verdict::UnknownNegative => "said \"not here\"; its block is unreadable",
        })
    }
}

impl fmt::Display for FilterUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FilterUse::Asked => "queried",
            FilterUse::TurnedOff => "turned off for this read",
            FilterUse::NoPolicy => "none queried: the database was opened without a filter policy",
            FilterUse::NoneInTables => "none queried: no table that was searched has one",
            FilterUse::NoTables => "none queried: no table was searched",
        })
    }
}

/// Writes one line, without a newline.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Memtable { frozen, entry } => {
                let name = if *frozen { "frozen memtable" } else { "memtable" };
                match entry {
                    Some(entry) => write!(f, "{name:<18}{entry}"),
                    None => write!(f, "{name:<18}not here"),
                }
            }
            Step::Skipped { level, tables } => {
                let name = format!("level {level}");
                write!(f, "{name:<18}{} skipped: the key is not in range", Count(*tables, "table"))
            }
            Step::Table { table, filter } => {
                let name = format!("level {}: {:06}", table.level, table.number);
                write!(f, "{name:<18}{}", Searched(table, *filter))
            }
            Step::TableFilter(Verdict::TrueNegative) => {
                f.write_str("  table filter    said \"not here\" (correct): index not searched")
            }
            Step::TableFilter(verdict) => write!(f, "  table filter    {verdict}"),
            Step::Index { block: None } => f.write_str("  index           every key is less"),
            Step::Index { block: Some(block) } => write!(
                f,
                "  index           up to {}: block at {}, {} B",
                Key(&block.separator),
                block.offset,
                block.bytes
            ),
            Step::BlockFilter(Verdict::TrueNegative) => {
                f.write_str("  block filter    said \"not here\" (correct): block skipped")
            }
            Step::BlockFilter(verdict) => write!(f, "  block filter    {verdict}"),
            Step::Block { offset, stored_bytes, source, checksum_verified, decompressed_bytes } => {
                let source = match source {
                    BlockSource::Cache => "from the cache",
                    BlockSource::File => "from the file",
                };
                write!(f, "  block           at {offset}, {stored_bytes} B {source}")?;
                if let Some(bytes) = decompressed_bytes {
                    write!(f, ", {bytes} B decompressed")?;
                }
                f.write_str(if *checksum_verified { ", checksum correct" } else { "" })
            }
            Step::Entry(entry) => write!(f, "  entry           {entry}"),
            Step::NotHere => f.write_str("  entry           not here"),
        }
    }
}

/// Formats the counts of the work done by a get, in one line.
struct Took<'a>(&'a ReadTrace);

impl fmt::Display for Took<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LevelTrace { tables_considered, data_blocks_from_cache, bytes_read, .. } =
            self.0.total();
        let blocks = self.0.data_blocks();
        write!(f, "{}, {}", Count(tables_considered, "table"), Count(blocks, "data block"))?;
        if blocks > 0 {
            write!(f, " ({data_blocks_from_cache} from the cache), {} read", Size(bytes_read))?;
        }
        Ok(())
    }
}

/// The answers of filters, as one line.
struct Told<'a>(&'a LevelTrace);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AllFilters { checks, negatives, true_positives: right, false_positives: wrong } =
            AllFilters::of(self.0);
        write!(
            f,
            "{} queried: {negatives} \"not here\", {right} \"maybe\" correctly, {wrong} wrongly",
            Count(checks, "filter"),
        )
    }
}

impl Explanation {
    fn write_answer(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = self.steps.last().and_then(|step| match step {
            Step::Memtable { entry, .. } => *entry,
            Step::Entry(entry) => Some(*entry),
            _ => None,
        });
        match (&self.value, found) {
            (Some(value), _) => writeln!(f, "answer            a value of {} B", value.len()),
            (None, Some(_)) => writeln!(f, "answer            no value: the key is deleted"),
            (None, None) => writeln!(f, "answer            no value: the key was not found"),
        }
    }

    /// Writes the work of the get without filters and, if any filter was queried, the number of
    /// blocks that filters saved.
    fn write_savings(&self, f: &mut fmt::Formatter<'_>, unfiltered: &ReadTrace) -> fmt::Result {
        write!(f, "without filters   {}", Took(unfiltered))?;
        if self.filters == FilterUse::Asked {
            let without = unfiltered.data_blocks();
            let saved = without.saturating_sub(self.trace.data_blocks());
            write!(f, "\nfilters saved     {saved} of {}", Count(without, "data block"))?;
        }
        Ok(())
    }
}

/// Writes a line for each step and the totals, without a final newline.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "get               {} as of sequence {}", Key(&self.key), self.seq)?;
        for step in &self.steps {
            writeln!(f, "{step}")?;
        }
        self.write_answer(f)?;
        writeln!(f, "this get          {}", Took(&self.trace))?;
        match self.filters {
            FilterUse::Asked => writeln!(f, "filters           {}", Told(&self.trace.total()))?,
            other => writeln!(f, "filters           {other}")?,
        }
        match &self.unfiltered {
            Ok(unfiltered) => self.write_savings(f, unfiltered),
            Err(_) => f.write_str("without filters   the get fails: a block is unreadable"),
        }
    }
}
