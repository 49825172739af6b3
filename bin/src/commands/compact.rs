//! `minikv compact`

use std::sync::mpsc;
use std::time::Duration;

use minikv::Db;
use serde::Serialize;
use serde_json::json;

use super::range::{Bounds, Range};
use super::{count, size};
use crate::args::{Dir, Global};
use crate::error::Result;
use crate::interrupt;
use crate::output::{self, Progress, Stdout};

const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Merge tables and free the space of deleted and replaced entries
///
/// Compacts everything, or the keys from --from (inclusive) to --to (exclusive). An interrupt loses
/// nothing: run the command again to continue.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub(super) dir: Dir,
    #[command(flatten)]
    bounds: Bounds,
    /// Print the result as JSON, on stdout
    #[arg(long)]
    json: bool,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let range = args.bounds.range(global)?;
    let db = super::open(global, false)?;
    let before = Tables::of(&db);
    compact(&db, range)?;
    let after = Tables::of(&db);
    db.close()?;
    if args.json {
        let mut stdout = Stdout::open()?;
        stdout.json(&json!({"before": before, "after": after}))?;
        return stdout.finish();
    }
    output::say(format!("compacted: {} before, {} now", before.text(), after.text()));
    Ok(())
}

/// Compacts `range`, and shows the progress.
fn compact(db: &Db, range: Range) -> Result<()> {
    let _guard = interrupt::on_interrupt(|| {
        output::say("minikv: interrupted; nothing is lost, run the command again to continue");
    });
    let (done, is_done) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let progress = Progress::note("compacting");
            let start = work(db);
            while is_done.recv_timeout(PROGRESS_INTERVAL) == Err(mpsc::RecvTimeoutError::Timeout) {
                let (read, written) = work(db);
                let (read, written) = (read - start.0, written - start.1);
                progress.message(format!("{} read, {} written", size(read), size(written)));
            }
        });
        let outcome = db.compact_range(range.bounds());
        drop(done);
        Ok(outcome?)
    })
}

/// Returns the number of bytes read and the number of bytes written by compactions and flushes
/// since the database was opened.
fn work(db: &Db) -> (u64, u64) {
    let stats = db.stats();
    let read = stats.levels.iter().map(|level| level.bytes_read).sum();
    let written = stats.levels.iter().map(|level| level.bytes_written).sum::<u64>();
    (read, written + stats.flush_bytes)
}

/// Number and total size of a database's tables.
#[derive(Serialize)]
struct Tables {
    tables: u64,
    bytes: u64,
}

impl Tables {
    fn of(db: &Db) -> Tables {
        let levels = db.stats().levels;
        Tables {
            tables: levels.iter().map(|level| level.files).sum(),
            bytes: levels.iter().map(|level| level.bytes).fold(0, u64::saturating_add),
        }
    }

    fn text(&self) -> String {
        match self.tables {
            0 => "no tables".to_string(),
            n => format!("{} of {}", count(n, "table", "tables"), size(self.bytes)),
        }
    }
}
