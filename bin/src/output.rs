//! Output: data goes to stdout, everything else to stderr, and progress only to a terminal.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use minikv_instrument::progress::{Meter, show_with};
pub use minikv_instrument::text::Table;
use serde::Serialize;

use crate::error::{CliError, Result};
use crate::interrupt::{self, Guard};
use crate::system::{self, RawStdout};

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
    /// `None` once a pipe was closed and the command goes on.
    writer: Option<BufWriter<RawStdout>>,
    goes_on: bool,
}

impl Stdout {
    /// Opens stdout for a command that only prints. A closed pipe ends the command with
    /// [`CliError::ClosedPipe`].
    pub fn open() -> Result<Stdout> {
        // Output bypasses `std::io::Stdout`, which searches all data for line ends.
        let stdout = system::stdout().map_err(stdout_error)?;
        let writer = Some(BufWriter::with_capacity(BUFFER_BYTES, stdout));
        Ok(Stdout { writer, goes_on: false })
    }

    /// Opens stdout for a command that does more than to print: its exit code has a meaning of its
    /// own, or work follows. Once a pipe was closed, further output is dropped.
    pub fn open_to_go_on() -> Result<Stdout> {
        Ok(Stdout { goes_on: true, ..Stdout::open()? })
    }

    /// Returns whether the command goes on although a pipe was closed.
    pub fn is_closed(&self) -> bool {
        self.writer.is_none()
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.attempt(|writer| writer.write_all(bytes))
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
        self.attempt(BufWriter::flush)
    }

    pub fn finish(mut self) -> Result<()> {
        self.flush()
    }

    fn attempt(
        &mut self,
        write: impl FnOnce(&mut BufWriter<RawStdout>) -> io::Result<()>,
    ) -> Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        match write(writer).map_err(stdout_error) {
            Err(CliError::ClosedPipe) if self.goes_on => {
                self.writer = None;
                Ok(())
            }
            outcome => outcome,
        }
    }
}

/// Returns the error of a failed write to stdout.
pub fn stdout_error(source: io::Error) -> CliError {
    if source.kind() == io::ErrorKind::BrokenPipe {
        return CliError::ClosedPipe;
    }
    CliError::Io { op: "write", name: "stdout".to_string(), source }
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

impl Meter for Progress {
    fn set(&self, position: u64) {
        Progress::set(self, position);
    }
}

/// Shows the progress of measurements.
pub fn show_measurements() {
    show_with(|what, total| match total {
        Some(total) => Box::new(Progress::steps(what, total)),
        None => Box::new(Progress::counter(what)),
    });
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
