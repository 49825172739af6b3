//! Tables of text.

use std::fmt;

/// Number of spaces between columns.
const COLUMN_GAP: usize = 3;

/// A table of text. The first column is left-aligned, the others right-aligned.
pub struct Table {
    /// Headings above the header row, each with the number of columns it spans.
    groups: Vec<(String, usize)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table with a header row.
    pub fn new<const N: usize>(head: [&str; N]) -> Table {
        let mut table = Table { groups: Vec::new(), rows: Vec::new() };
        table.row(head);
        table
    }

    /// Creates a table of these rows, the first of which is the header.
    pub fn of(rows: Vec<Vec<String>>) -> Table {
        Table { groups: Vec::new(), rows }
    }

    /// Creates a table with two header rows, the first of which names groups of columns. A group
    /// without a name has no heading.
    pub fn grouped<const N: usize>(groups: &[(&str, usize)], head: [&str; N]) -> Table {
        debug_assert_eq!(groups.iter().map(|(_, columns)| columns).sum::<usize>(), N);
        let groups = groups.iter().map(|(name, columns)| (name.to_string(), *columns)).collect();
        Table { groups, ..Table::new(head) }
    }

    /// Returns the groups of columns, or an empty slice if there is only one header row.
    pub fn groups(&self) -> &[(String, usize)] {
        &self.groups
    }

    /// Returns the rows, the header first.
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [&str; N]) {
        self.rows.push(cells.map(str::to_string).to_vec());
    }
}

impl Table {
    /// Returns the first of two header rows: the name of each group, between dashes that span the
    /// columns of the group.
    fn groups_line(&self, width: impl Fn(usize) -> usize) -> String {
        let (mut line, mut first) = (String::new(), 0);
        for (name, columns) in &self.groups {
            let widths = (first..first + columns).map(&width).sum::<usize>();
            let span = widths + (columns - 1) * COLUMN_GAP;
            if first > 0 {
                line.extend([' '; COLUMN_GAP]);
            }
            line.push_str(&match name.chars().count() {
                0 => " ".repeat(span),
                long if long + 4 > span => format!("{name:^span$}"),
                _ => format!("{:-^span$}", format!(" {name} ")),
            });
            first += columns;
        }
        line
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        if !self.groups.is_empty() {
            writeln!(f, "{}", self.groups_line(width).trim_end())?;
        }
        for (i, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                match column {
                    0 => line.push_str(&format!("{cell:<width$}", width = width(0))),
                    _ => line.push_str(&format!("{cell:>w$}", w = width(column) + COLUMN_GAP)),
                }
            }
            let end = if i + 1 < self.rows.len() { "\n" } else { "" };
            write!(f, "{}{end}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(["level", "tables", "bytes"]);
        table.row(["L0", "1", "4.0 KiB"]);
        table.row(["all", "12", ""]);
        assert_eq!(
            table.to_string(),
            "level   tables     bytes\nL0           1   4.0 KiB\nall         12"
        );
    }

    #[test]
    fn names_of_groups_span_their_columns() {
        let groups = [("", 2), ("cold", 2), ("warm", 1)];
        let mut table = Table::grouped(&groups, ["f", "blocks", "file", "cache", "file"]);
        table.row(["none", "1.000", "0.032", "0.968", "0.00000000"]);
        assert_eq!(
            table.to_string(),
            "                --- cold ----   -- warm --\n\
             f      blocks    file   cache         file\n\
             none    1.000   0.032   0.968   0.00000000"
        );
    }
}
