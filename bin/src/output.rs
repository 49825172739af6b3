//! Output: data goes to stdout, everything else to stderr, and progress only to a terminal.

use std::fmt;
use std::io::{
    BufWriter, IsTerminal, Write, {self},
};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::error::{CliError, Result};
use crate::interrupt::{
    Guard, {self},
};
use crate::system::{
    RawStdout, {self},
};

const BUFFER_BYTES: usize = 128 << 10;

/// Returns whether stdout is a terminal.
pub fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Returns whether stdout is a terminal on which the user wants colours.
pub fn stdout_has_colours() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    stdout_is_terminal() && !is_set("NO_COLOR") && !is_dumb
}

/// Returns the width of the terminal that shows stdout, or `None` if stdout is not a terminal.
pub fn stdout_columns() -> Option<usize> {
    let columns = system::columns(&io::stdout())?;
    // Some terminals do not report their width.
    Some(if columns == 0 { MIN_BAR_COLUMNS } else { columns }.into())
}

/// Prints one line to stderr. Errors are ignored.
pub fn say(line: impl AsRef<str>) {
    let _ = writeln!(io::stderr(), "{}", line.as_ref());
}

/// Prints a help page or the version. A bare command's page goes to stderr.
pub fn page(page: &clap::Error) -> Result<()> {
    let printed = page.print().and_then(|()| io::stdout().flush());
    if page.use_stderr() { Ok(()) } else { printed.map_err(stdout_error) }
}

/// Buffered stdout. [`Stdout::finish`] reports errors; dropping does not.
pub struct Stdout {
    writer: BufWriter<RawStdout>,
}

impl Stdout {
    pub fn open() -> Result<Stdout> {
        // Output bypasses `std::io::Stdout`, which searches all data for line ends.
        let stdout = system::stdout().map_err(stdout_error)?;
        Ok(Stdout { writer: BufWriter::with_capacity(BUFFER_BYTES, stdout) })
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.writer.write_all(bytes).map_err(stdout_error)
    }

    pub fn line(&mut self, text: impl AsRef<str>) -> Result<()> {
        self.write(text.as_ref().as_bytes())?;
        self.write(b"\n")
    }

    /// Prints one line of JSON, with the fields in alphabetical order.
    pub fn json(&mut self, document: &impl Serialize) -> Result<()> {
        let document = serde_json::to_value(document).expect("documents have names for keys");
        self.line(document.to_string())
    }

    pub fn flush(&mut self) -> Result<()> {
        self.writer.flush().map_err(stdout_error)
    }

    pub fn finish(mut self) -> Result<()> {
        self.flush()
    }
}

/// Returns the error of a failed write to stdout. A closed pipe ends the command quietly.
pub fn stdout_error(source: io::Error) -> CliError {
    if source.kind() == io::ErrorKind::BrokenPipe {
        return CliError::ClosedPipe;
    }
    CliError::Io { op: "write", name: "stdout".to_string(), source }
}

const COLUMN_GAP: usize = 3;

/// A table of text. The first column is left-aligned, the others right-aligned.
pub struct Table {
    /// Headings above the header row, each with the number of columns it spans.
    groups: Vec<(String, usize)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new<const N: usize>(head: [&str; N]) -> Table {
        let mut table = Table { groups: Vec::new(), rows: Vec::new() };
        table.row(head);
        table
    }

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

    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

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

/// A progress bar or counter on stderr, shown only on a terminal and never wider than it.
pub struct Progress {
    bar: ProgressBar,
    created: Instant,
    /// Clears the line if the process is interrupted.
    _guard: Option<Guard>,
}

/// Delay before showing a bar whose total was not known at first. During this delay the total grows
/// in leaps, which would make the bar jump back and forth. With a longer delay, the bar appears
/// later.
const TOTAL_IS_KNOWN_AFTER: Duration = Duration::from_millis(100);

/// Minimum width of a terminal for a bar, in columns. A narrower terminal shows a counter.
const MIN_BAR_COLUMNS: u16 = 80;

impl Progress {
    /// Creates a bar for `total_bytes`, or a counter if the total is not known. A total of 0 means
    /// that the total is still being determined: nothing is drawn at first.
    pub fn bytes(what: &'static str, total_bytes: Option<u64>) -> Progress {
        let template = match total_bytes {
            Some(_) if stderr_columns() >= MIN_BAR_COLUMNS => {
                "{prefix} {bar:20} {bytes}/{total_bytes} {eta} left {wide_msg}"
            }
            Some(_) => "{prefix} {percent}% {wide_msg}",
            None => "{prefix} {bytes} {wide_msg}",
        };
        Progress::new(what, total_bytes, template)
    }

    /// Creates a counter of entries.
    pub fn counter(what: &'static str) -> Progress {
        Progress::new(what, None, "{prefix} {human_pos} entries")
    }

    /// Creates a bar for `total` steps.
    pub fn steps(what: &'static str, total: u64) -> Progress {
        let template = match stderr_columns() >= MIN_BAR_COLUMNS {
            true => "{prefix} {bar:30} {pos}/{len}",
            false => "{prefix} {pos}/{len}",
        };
        Progress::new(what, Some(total), template)
    }

    /// Creates a message without a bar.
    pub fn note(what: &'static str) -> Progress {
        Progress::new(what, None, "{prefix} {wide_msg}")
    }

    fn new(what: &'static str, total: Option<u64>, template: &str) -> Progress {
        let target = match total {
            Some(0) => ProgressDrawTarget::hidden(),
            _ => ProgressDrawTarget::stderr(),
        };
        let bar = ProgressBar::with_draw_target(total, target);
        bar.set_style(ProgressStyle::with_template(template).expect("a template that parses"));
        bar.set_prefix(what);
        let _guard = io::stderr().is_terminal().then(|| {
            let bar = bar.clone();
            interrupt::on_interrupt(move || bar.finish_and_clear())
        });
        Progress { bar, created: Instant::now(), _guard }
    }

    pub fn set(&self, position: u64) {
        self.bar.set_position(position);
    }

    /// Sets the total, which was not known at first.
    pub fn total(&self, total: u64) {
        self.bar.set_length(total);
        if self.bar.is_hidden() && total > 0 && self.created.elapsed() >= TOTAL_IS_KNOWN_AFTER {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    pub fn message(&self, text: String) {
        self.bar.set_message(text);
    }
}

/// Returns the width of the terminal that shows stderr.
fn stderr_columns() -> u16 {
    system::columns(&io::stderr()).unwrap_or(MIN_BAR_COLUMNS)
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
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
