//! `minikv load [FILE]`

use std::path::PathBuf;

use minikv::{Db, WriteBatch, WriteOptions};

use super::{bulk, count};
use crate::args::Global;
use crate::entry_reader::EntryReader;
use crate::error::Result;
use crate::key_check::KeyCheck;
use crate::keyspace::{InKeyspace, Target};
use crate::output::{self, Progress};
use crate::tally::Tally;

const BATCH_ENTRIES: usize = 1000;
const BATCH_BYTES: usize = 1 << 20;

/// Load entries into the database
///
/// Reads one entry per line, in --format, as written by `dump`. In JSON, a value may be any JSON: a
/// number, an array or an object is stored as its text. CSV begins with a line that names the
/// columns key and value. Entries are put in batches of up to 1000, of which the last is synced, so
/// that all loaded entries survive a loss of power. An invalid line stops the command (exit code
/// 2), and so does an interrupt (exit code 130); entries that are already loaded stay. Creates the
/// database if there is none.
///
/// With --sorted or --sort, loads all entries at once, or none: they are written into tables, which
/// then become tables of the database. Where a range of keys is new, no compaction follows.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// File to read [default: stdin, also `-`]
    file: Option<PathBuf>,
    /// Load all entries at once; keys must ascend
    #[arg(long)]
    sorted: bool,
    /// Load all entries at once; keys may be in any order, and the last entry of a key counts
    #[arg(long, conflicts_with = "sorted")]
    sort: bool,
    #[command(flatten)]
    keyspace: InKeyspace,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let name = args.keyspace.name(global)?;
    let mut entries = EntryReader::open(args.file.as_ref(), global.format())?;
    if args.sorted || args.sort {
        return bulk::run(global, &name, entries, args.sort);
    }
    let db = super::open(global, true)?;
    let target = name.of_writer(&db)?;
    let (batch, loaded) = (WriteBatch::new(), Tally::default());
    let check = KeyCheck::new(global.comparator(db.path())?);
    let mut loader = Loader { db: &db, target, check, batch, loaded };
    let counted = |n| count(n, "entry", "entries");
    let guard =
        loader.loaded.say_on_interrupt(move |n| format!("{} loaded; they stay", counted(n)));
    let outcome = loader.read(&mut entries);
    drop(guard);
    let loaded = counted(loader.loaded.count());
    match outcome {
        Ok(()) => {
            // Flushes the memtable. Otherwise, the timing of background work would determine which
            // entries are in tables.
            db.flush()?;
            db.close()?;
            output::say(format!("loaded {loaded}"));
            Ok(())
        }
        Err(error) => Err(error.after(format!("kept {loaded} before it"))),
    }
}

struct Loader<'a> {
    db: &'a Db,
    target: Target,
    check: KeyCheck,
    batch: WriteBatch,
    /// Number of entries loaded.
    loaded: Tally,
}

impl Loader<'_> {
    fn read(&mut self, entries: &mut EntryReader) -> Result<()> {
        let progress = Progress::bytes("loading", entries.total_bytes());
        let outcome = self.read_entries(entries, &progress);
        // The entries before an invalid line are written, too.
        self.write_batch(true)?;
        outcome
    }

    fn read_entries(&mut self, entries: &mut EntryReader, progress: &Progress) -> Result<()> {
        while let Some((key, value)) = entries.next()? {
            self.check.check(&key, || entries.place());
            self.target.put(&mut self.batch, &key, &value);
            let full = self.batch.len() >= BATCH_ENTRIES;
            if full || self.batch.approximate_bytes() >= BATCH_BYTES {
                self.write_batch(false)?;
                progress.set(entries.bytes_read());
                progress.message(count(self.loaded.count(), "entry", "entries"));
            }
        }
        Ok(())
    }

    fn write_batch(&mut self, sync: bool) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        let entries = batch.len() as u64;
        let options = WriteOptions::default().sync(sync);
        self.loaded.write(entries, || Ok(self.db.writing(options).write(batch)?))
    }
}
