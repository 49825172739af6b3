//! A drawing of the levels of a database.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use minikv::files::{NUM_LEVELS, NewFile, user_key};

use crate::text::{count, escaped, size};

/// Minimum width of the drawing of a level, in columns.
const MIN_WIDTH: usize = 20;

/// Maximum number of tables of level 0 that are drawn on a line of their own.
const MAX_LEVEL0_LINES: usize = 16;

const SHOWN_KEY_CHARS: usize = 24;

/// The tables and logs of a database.
pub struct Tree {
    /// The tables in the order in which they are drawn.
    tables: Vec<NewFile>,
    logs: Vec<Log>,
}

/// A log whose entries are not in tables yet.
pub struct Log {
    /// File number.
    pub number: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Number of batches that are not empty.
    pub batches: u64,
}

impl Tree {
    /// Creates a tree of tables, in any order, and of logs, the oldest first. `compare` is the
    /// order of the keys.
    pub fn new(
        mut tables: Vec<NewFile>,
        logs: Vec<Log>,
        compare: impl Fn(&[u8], &[u8]) -> Ordering,
    ) -> Tree {
        tables.sort_by(|a, b| {
            let within = || match a.level {
                0 => b.number.cmp(&a.number),
                _ => compare(user_key(&a.smallest), user_key(&b.smallest)),
            };
            a.level.cmp(&b.level).then_with(within)
        });
        Tree { tables, logs }
    }

    /// Returns a line for each table and log.
    pub fn plain(&self) -> String {
        let mut text = String::new();
        for table in &self.tables {
            let key = |key: &[u8]| escaped(user_key(key));
            let (first, last) = (key(&table.smallest), key(&table.largest));
            let NewFile { level, number, file_bytes, .. } = table;
            text.push_str(&format!("{level}\t{number}\t{file_bytes}\t{first}\t{last}\n"));
        }
        for Log { number, bytes, batches } in &self.logs {
            text.push_str(&format!("log\t{number}\t{bytes}\t{batches}\n"));
        }
        text
    }

    /// Returns a drawing of `columns` columns: each level is a line on which each table extends
    /// from its first to its last key. `show` shortens a key to at most so many characters.
    pub fn drawn(
        &self,
        columns: usize,
        compare: impl Fn(&[u8], &[u8]) -> Ordering,
        show: impl Fn(&[u8], usize) -> String,
    ) -> String {
        let label = "L0    123456 tables   1023.9 KiB   ".len();
        let width = columns.saturating_sub(label).max(MIN_WIDTH);
        let axis = Axis::new(&self.tables, width, &compare);
        let mut lines = Vec::new();
        for log in &self.logs {
            let batches = count(log.batches, "batch", "batches");
            let number = log.number;
            lines.push(format!("log   {number:>6}          {:>10}   {batches}", size(log.bytes)));
        }
        for level in 0..NUM_LEVELS {
            self.draw_level(level, &axis, &mut lines);
        }
        if self.tables.is_empty() {
            lines.push("no tables".to_string());
        } else {
            lines.push(self.ends(label, width, compare, show));
        }
        lines.join("\n")
    }

    fn draw_level(&self, level: usize, axis: &Axis, lines: &mut Vec<String>) {
        let tables: Vec<_> = self.tables.iter().filter(|table| table.level == level).collect();
        let bytes = tables.iter().map(|table| table.file_bytes);
        let bytes = size(bytes.fold(0, u64::saturating_add));
        if tables.is_empty() {
            return;
        }
        if level > 0 {
            let number = count(tables.len() as u64, "table", "tables");
            let line = axis.line(tables.into_iter());
            lines.push(format!("L{level}    {number:<14}{bytes:>12}   {line}"));
            return;
        }
        for table in tables.iter().take(MAX_LEVEL0_LINES) {
            let (number, bytes) = (table.number, size(table.file_bytes));
            let line = axis.line([*table].into_iter());
            lines.push(format!("L0    {number:>6}{:8}{bytes:>12}   {line}", ""));
        }
        if let Some(more @ 1..) = tables.len().checked_sub(MAX_LEVEL0_LINES) {
            lines.push(format!("L0    and {}", count(more as u64, "older table", "older tables")));
        }
    }

    /// Returns a line with the first key and the last key of the database.
    fn ends(
        &self,
        label: usize,
        width: usize,
        compare: impl Fn(&[u8], &[u8]) -> Ordering,
        show: impl Fn(&[u8], usize) -> String,
    ) -> String {
        let by_key = |a: &&[u8], b: &&[u8]| compare(a, b);
        let first = self.tables.iter().map(|table| user_key(&table.smallest)).min_by(by_key);
        let last = self.tables.iter().map(|table| user_key(&table.largest)).max_by(by_key);
        // The ellipsis of a longer key takes one more column.
        let most = SHOWN_KEY_CHARS.min(width / 2 - 2);
        let show = |key: Option<&[u8]>| show(key.unwrap_or_default(), most);
        let (first, last) = (show(first), show(last));
        let room = width - first.chars().count();
        format!("{:label$}{first}{last:>room$}", "keys")
    }
}

/// Horizontal positions of tables in a drawing, in columns.
struct Axis {
    /// First and last column of each table, by the number of the table.
    places: BTreeMap<u64, (usize, usize)>,
    width: usize,
}

impl Axis {
    fn new(tables: &[NewFile], width: usize, compare: impl Fn(&[u8], &[u8]) -> Ordering) -> Axis {
        let ends = |table: &'_ NewFile| [table.smallest.clone(), table.largest.clone()];
        let mut keys: Vec<Vec<u8>> = tables.iter().flat_map(ends).collect();
        keys.iter_mut().for_each(|key| key.truncate(user_key(key).len()));
        keys.sort_by(|a, b| compare(a, b));
        keys.dedup_by(|a, b| compare(a, b).is_eq());
        let last = keys.len().saturating_sub(1).max(1);
        let column = |key: &[u8]| {
            let rank = keys.partition_point(|other| compare(other, user_key(key)).is_lt());
            rank * (width - 1) / last
        };
        let place = |table: &NewFile| (column(&table.smallest), column(&table.largest));
        let places = tables.iter().map(|table| (table.number, place(table))).collect();
        Axis { places, width }
    }

    /// Returns a line with tables in alternating shades, so that neighbours can be told apart.
    fn line<'a>(&self, tables: impl Iterator<Item = &'a NewFile>) -> String {
        let mut line = vec![' '; self.width];
        for (at, table) in tables.enumerate() {
            let Some(&(from, to)) = self.places.get(&table.number) else { continue };
            let shade = if at % 2 == 0 { '█' } else { '▒' };
            line[from..=to.max(from)].fill(shade);
        }
        line.into_iter().collect::<String>().trim_end().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use minikv::files::{KeyKind, ParsedKey};

    fn table(number: u64, level: usize, first: &str, last: &str) -> NewFile {
        let key = |key: &str| {
            ParsedKey { user_key: key.as_bytes(), seq: 1, kind: KeyKind::Value }.encode()
        };
        NewFile { level, number, file_bytes: 10, smallest: key(first), largest: key(last) }
    }

    #[test]
    fn tables_lie_from_their_first_to_their_last_key() {
        let tables = [
            table(3, 1, "a", "c"),
            table(4, 1, "e", "g"),
            table(5, 1, "h", "h"),
            table(6, 0, "a", "h"),
        ];
        let axis = Axis::new(&tables, 9, |a, b| a.cmp(b));
        assert_eq!(axis.line(tables[..3].iter()), "███ ▒▒▒ █");
        assert_eq!(axis.line(tables[3..].iter()), "█████████");
        let one = [table(3, 1, "a", "a")];
        assert_eq!(Axis::new(&one, 9, |a, b| a.cmp(b)).line(one.iter()), "█");
    }

    /// A MANIFEST may state any size.
    #[test]
    fn sizes_of_a_level_may_add_up_to_more_than_64_bits() {
        let mut tables = vec![table(3, 1, "a", "c"), table(4, 1, "e", "g")];
        tables.iter_mut().for_each(|table| table.file_bytes = 1 << 63);
        let tree = Tree::new(tables, Vec::new(), |a, b| a.cmp(b));
        let drawn = tree.drawn(100, |a, b| a.cmp(b), |key, _| escaped(key));
        assert!(drawn.contains("16777216.0 TiB"), "{drawn}");
    }
}
