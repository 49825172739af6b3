//! `minikv top`: shows the state of a database while another process writes to it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use clap::ValueHint;
use minikv::files::NUM_LEVELS;
use minikv::{Db, ReadOnlyDb, Stats};
use minikv_instrument::readamp::show_levels;
use minikv_instrument::text::Table;
use minikv_instrument::top::{Metrics, Since, per_second};

use self::source::MetricsSource;
use super::stats::Files;
use super::{count, size, thousands};
use crate::args::{Dir, Global};
use crate::error::{CliError, Result};
use crate::interrupt;
use crate::output::{self, Stdout};
use crate::writer::Writer;

mod source;

/// Escape sequences that move the cursor to the first line of a terminal and clear the screen.
const HOME: &str = "\x1b[H\x1b[J";

/// Width of the bar of a level, in columns.
const BAR_COLUMNS: u64 = 30;

/// Watch the levels and the log of a database while another process writes to it
///
/// Shows the levels, the logs, the data that is not in a table yet, and the rate of writes. Takes
/// no lock and changes nothing. Counters of the writer's process, such as its gets and stalls, are
/// not in the files: --metrics shows the counters that the writer exports in Prometheus's text
/// format (`Stats::prometheus`).
///
/// If stdout is a pipe, prints a line with the names of the columns, and then one line each time
/// that it polls the files. The columns are seconds, sequence number, writes per second, bytes of
/// the logs, bytes not in a table yet, tables and bytes of each level, and then every metric found
/// by the first poll.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub(super) dir: Dir,
    /// Milliseconds between two polls of the files
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400_000))]
    interval: u64,
    /// Stop after this many polls
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Show the metrics that the writer exports: a file that it replaces, or an http:// address
    #[arg(long, value_name = "FILE|URL", value_hint = ValueHint::AnyPath)]
    metrics: Option<String>,
    /// Show only the metrics with this label, if the metrics of several databases are exported
    #[arg(long, value_name = "NAME=VALUE", requires = "metrics")]
    label: Option<String>,
    /// Print one line for each poll, even on a terminal
    #[arg(long)]
    plain: bool,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    if global.ignores_comparator() {
        return Err(CliError::Usage("top cannot be used with --comparator ignore".to_string()));
    }
    let dir = global.db()?;
    let place = args.metrics.as_deref();
    let source = place.map(|place| MetricsSource::new(place, args.label.as_deref())).transpose()?;
    // Only this first read must succeed. Later, a writer that is not running is not an error.
    let first = source.as_ref().map(MetricsSource::read).transpose()?;
    let columns = first.as_ref().map(Metrics::names).unwrap_or_default();
    let db = Db::open_read_only(&dir, global.options(&dir)?)?;
    let mut stdout = Stdout::open()?;
    let is_plain = args.plain || !output::stdout_is_terminal();
    let polls = Arc::new(AtomicU64::new(0));
    let done = polls.clone();
    let _guard = interrupt::on_interrupt(move || {
        let polls = count(done.load(Relaxed), "poll", "polls");
        output::say(format!("minikv: interrupted after {polls}"));
    });
    if is_plain {
        stdout.line(names(&columns))?;
    }
    let began = Instant::now();
    let mut before: Option<Look> = None;
    loop {
        let metrics = source.as_ref().map(MetricsSource::read);
        let look = Look::at(&db, &dir, began.elapsed(), metrics)?;
        let before_it = before.as_ref().unwrap_or(&look);
        match is_plain {
            true => stdout.line(look.line(before_it, &columns))?,
            false => stdout.line(format!("{HOME}{}", look.screen(before_it, &dir)))?,
        }
        stdout.flush()?;
        let polls = polls.fetch_add(1, Relaxed) + 1;
        if args.count == Some(polls) {
            return stdout.finish();
        }
        before = Some(look);
        std::thread::sleep(Duration::from_millis(args.interval));
        db.refresh()?;
    }
}

/// State of a database at one poll.
struct Look {
    time: Duration,
    sequence: u64,
    logs: Files,
    stats: Stats,
    /// Metrics of the writer, or the error from reading them; `None` if metrics are not shown.
    metrics: Option<Result<Metrics>>,
}

impl Look {
    fn at(
        db: &ReadOnlyDb,
        dir: &Path,
        time: Duration,
        metrics: Option<Result<Metrics>>,
    ) -> Result<Look> {
        let (sequence, stats) = (db.sequence(), db.stats());
        Ok(Look { time, sequence, logs: Files::logs(dir)?, stats, metrics })
    }

    /// Returns the number of writes per second since an earlier look.
    fn writes_per_second(&self, before: &Look) -> u64 {
        let writes = self.sequence.saturating_sub(before.sequence);
        per_second(writes as f64, self.time.saturating_sub(before.time))
    }

    fn line(&self, before: &Look, columns: &[String]) -> String {
        let mut line = format!(
            "{:.1}\t{}\t{}\t{}\t{}",
            self.time.as_secs_f64(),
            self.sequence,
            self.writes_per_second(before),
            self.logs.bytes,
            self.stats.memtable_bytes,
        );
        for level in &self.stats.levels {
            line.push_str(&format!("\t{}\t{}", level.files, level.bytes));
        }
        let value = |name: &String| self.metrics.as_ref()?.as_ref().ok()?.value(name);
        for name in columns {
            let value = value(name).map_or("-".to_string(), |value| value.to_string());
            line.push_str(&format!("\t{value}"));
        }
        line
    }

    fn screen(&self, before: &Look, dir: &Path) -> String {
        let writer = match Writer::of(dir) {
            Some(Writer { process: Some(process) }) => format!("written by process {process}"),
            Some(_) => "written by another process".to_string(),
            None => "no writer".to_string(),
        };
        let tables: Vec<u64> = self.stats.levels.iter().map(|level| level.files).collect();
        let head = format!(
            "{}   {}   {writer}\n\n{} written, {} per second\n{}, {}; {} not in a table yet\n",
            dir.display(),
            show_levels(&tables),
            count(self.sequence, "entry", "entries"),
            thousands(self.writes_per_second(before)),
            count(self.logs.files, "log", "logs"),
            size(self.logs.bytes),
            size(self.stats.memtable_bytes),
        );
        let most = self.stats.levels.iter().map(|level| level.bytes).max().unwrap_or(0).max(1);
        let mut table = Table::new(["level", "tables", "bytes", "change", ""]);
        let levels = self.stats.levels.iter().zip(&before.stats.levels).enumerate();
        for (at, (level, old)) in levels.filter(|(_, (new, old))| new.files + old.files > 0) {
            let change = match level.bytes.cmp(&old.bytes) {
                std::cmp::Ordering::Equal => String::new(),
                std::cmp::Ordering::Greater => format!("+{}", size(level.bytes - old.bytes)),
                std::cmp::Ordering::Less => format!("-{}", size(old.bytes - level.bytes)),
            };
            let columns = level.bytes as f64 / most as f64 * BAR_COLUMNS as f64;
            let bar = format!(
                "{:<width$}",
                "█".repeat(columns.ceil() as usize),
                width = BAR_COLUMNS as usize
            );
            let name = format!("L{at}");
            table.row([&name, &thousands(level.files), &size(level.bytes), &change, &bar]);
        }
        format!("{head}\n{table}\n{}", self.metrics_screen(before))
    }

    /// Returns the part of the screen that shows the writer's metrics.
    fn metrics_screen(&self, before: &Look) -> String {
        let none = Metrics::default();
        let before_them = before.metrics.as_ref().and_then(|metrics| metrics.as_ref().ok());
        match &self.metrics {
            None => String::new(),
            Some(Err(error)) => format!("\nno metrics: {}\n", error.message().unwrap_or_default()),
            Some(Ok(now)) => {
                let time = self.time.saturating_sub(before.time);
                let before = before_them.unwrap_or(&none);
                format!("\n{}", Since { now, before, time }.screen())
            }
        }
    }
}

/// Returns the line that names the columns.
fn names(metrics: &[String]) -> String {
    let mut names = "seconds\tsequence\twrites_per_second\tlog_bytes\tmemtable_bytes".to_string();
    for level in 0..NUM_LEVELS {
        names.push_str(&format!("\tl{level}_tables\tl{level}_bytes"));
    }
    metrics.iter().for_each(|name| names.push_str(&format!("\t{name}")));
    names
}
