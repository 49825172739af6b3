//! `minikv tree`: draws the levels of a database.

use minikv::files::FileName;
use minikv_instrument::tree::{Log, Tree};

use crate::args::{Dir, Global};
use crate::error::Result;
use crate::files::{LogFile, Survey};
use crate::output::{self, Stdout};
use crate::style::shortened;
use crate::writer::Writer;

/// Draw the levels of a database
///
/// Each level is a line on which each table extends from its first to its last key. Tables of level
/// 0 overlap, so each has a line of its own, the newest first. The first and last keys of all
/// tables are spaced evenly over the line, whatever the keys are. Reads the MANIFEST and the logs,
/// and neither opens nor locks the database.
///
/// If stdout is a pipe, prints a line for each table: level, number, bytes, first and last key,
/// separated by tabs; and a line for each log: `log`, number, bytes and batches.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub(super) dir: Dir,
    /// Draw this many columns wide, even if stdout is a pipe
    #[arg(long, value_name = "N", conflicts_with = "plain")]
    #[arg(value_parser = clap::value_parser!(u64).range(40..=1000))]
    width: Option<u64>,
    /// Print a line for each table, even on a terminal
    #[arg(long)]
    plain: bool,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let dir = global.db()?;
    let any_order = global.ignores_comparator();
    let order = if any_order { None } else { Some(global.comparator(&dir)?) };
    let compare = |a: &[u8], b: &[u8]| match &order {
        Some(order) => order.compare(a, b),
        None => a.cmp(b),
    };
    let survey = Survey::of(&dir, any_order)?;
    survey.say_damage();
    let tree = Tree::new(survey.tables, survey.logs.iter().map(log).collect(), compare);
    let mut stdout = Stdout::open()?;
    let columns = args.width.map(|width| width as usize);
    match columns.or_else(output::stdout_columns) {
        Some(columns) if !args.plain => stdout.line(tree.drawn(columns, compare, shortened))?,
        _ => stdout.write(tree.plain().as_bytes())?,
    }
    stdout.finish()?;
    if let Some(writer) = Writer::of(&dir) {
        writer.say(&dir);
    }
    Ok(())
}

fn log(log: &LogFile) -> Log {
    let name = log.path.file_name().and_then(|name| name.to_str());
    let number = name.and_then(FileName::parse).and_then(|name| name.number()).unwrap_or(0);
    Log { number, bytes: log.bytes, batches: log.batches }
}
