//! `minikv demo`: shows the path of real data through the log, the memtable and tables, and the
//! path of a get through filters.

use std::path::PathBuf;
use std::sync::Arc;

use minikv::{BytewiseComparator, Db, Options, ReadTrace, Readable, WriteBatch};
use minikv_instrument::data::Data;
use minikv_instrument::random::Rng;
use minikv_instrument::readamp::{compare, show_levels};
use minikv_instrument::trace::Recorder;

use super::readamp::load_unfiltered;
use super::stats::Files;
use super::trace::check_file;
use super::{count, size, thousands};
use crate::args::{Global, Shape};
use crate::codec::Format;
use crate::error::Result;
use crate::output::Stdout;
use crate::scratch::Scratch;
use crate::words;

const FIRST_ENTRIES: u64 = 1000;
/// Size of the write buffer, in bytes. It is small, so that the words fill the buffer several
/// times.
const WRITE_BUFFER_BYTES: usize = 512 << 10;
/// Size of the write buffer with `--html`, in bytes. It is smaller, so that there is more to see on
/// the page.
const PAGE_WRITE_BUFFER_BYTES: usize = 256 << 10;
/// Size of a table with `--html`, in bytes. It is small, so that there is more to see on the page.
const PAGE_TABLE_BYTES: u64 = 64 << 10;
/// Number of entries loaded between two lookups with `--html`.
const PAGE_LOOKUP_ENTRIES: u64 = 250;
const LOOKUPS: u64 = 20_000;
const SEED: u64 = 1;
const PRESENT: &str = "filter";
const ABSENT: &str = "filtre";

/// Show minikv at work on 104,334 English words
///
/// Loads them into a temporary database, or into --db, which must be new and is kept. Shows where
/// they are, looks one up, and measures what filters save.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Also write an HTML page that shows the database at work to this file
    ///
    /// The database then gets smaller tables, so that there is more to see.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub fn run(global: &Global, args: Args) -> Result<()> {
    let shape = Shape {
        write_buffer: Some(global.shape.write_buffer.unwrap_or(WRITE_BUFFER_BYTES)),
        ..global.shape.clone()
    };
    let scratch = Scratch::new()?;
    let dir = global.db.clone().unwrap_or(scratch.path().join("db"));
    super::check_parent(&dir)?;
    let data = words::bundled()?;
    let recorder = args.html.as_ref().map(|_| Recorder::new(0));
    args.html.as_deref().map_or(Ok(()), check_file)?;
    let stdout = match args.html.is_some() || global.db.is_some() {
        true => Stdout::open_to_go_on()?,
        false => Stdout::open()?,
    };
    let mut tour = Tour { stdout, dir, recorder };
    let shown = match args.html.is_some() {
        true => Shape {
            write_buffer: Some(global.shape.write_buffer.unwrap_or(PAGE_WRITE_BUFFER_BYTES)),
            ..shape.clone()
        },
        false => shape.clone(),
    };
    tour.walk(shown.options()?, &data)?;
    tour.say(format!(
        "\n5. The same {} lookups of present and of absent words, with filters and without:\n",
        thousands(LOOKUPS)
    ))?;
    let compared = Scratch::new()?;
    let source = load_unfiltered(&shape, &data, SEED, &compared.path().join("db"))?;
    let report = compare(&source, &data, shape.bits_per_key().max(1), LOOKUPS, SEED)?;
    tour.say(report.summary())?;
    if let (Some(recorder), Some(html)) = (&tour.recorder, &args.html) {
        recorder.write_page(html)?;
        tour.say(format!("\nThe page is in {}.", html.display()))?;
    }
    if global.db.is_some() {
        let dir = tour.dir.display();
        let hint = format!("\nThe database is kept: try `minikv --db {dir} get zebra`.");
        tour.say(hint)?;
    }
    tour.stdout.finish()
}

struct Tour {
    stdout: Stdout,
    dir: PathBuf,
    /// Records the database's work for the HTML page.
    recorder: Option<Recorder>,
}

impl Tour {
    fn walk(&mut self, options: Options, data: &Data) -> Result<()> {
        let options = match &self.recorder {
            Some(recorder) => {
                let options = options.max_file_bytes(PAGE_TABLE_BYTES);
                recorder.observe(options, Arc::new(BytewiseComparator))
            }
            None => options,
        };
        let db = Data::create(&self.dir, options)?;
        self.say("1. A put goes to the write-ahead log, then to the memtable.\n")?;
        let mut batch = WriteBatch::new();
        for i in 0..FIRST_ENTRIES {
            batch.put(data.key(i), data.value(i));
        }
        db.write(batch)?;
        self.files(&db, &format!("put {}", count(FIRST_ENTRIES, "word", "words")))?;
        let first = String::from_utf8_lossy(&data.key(FIRST_ENTRIES / 2)).into_owned();
        self.get(&db, &first)?;

        self.say("\n2. A full memtable becomes a table; tables are merged into lower levels.\n")?;
        match &self.recorder {
            Some(recorder) => load_and_record(&db, data, recorder)?,
            None => data.load(&db, SEED)?,
        }
        db.flush()?;
        db.wait_idle()?;
        self.files(&db, &format!("put {}", count(data.len(), "word", "words")))?;

        self.say(
            "\n3. A get queries the filters first, and reads a block where one says \"maybe\".\n",
        )?;
        self.get(&db, PRESENT)?;
        self.say("\n4. An absent key costs no block, except for false positives.\n")?;
        self.get(&db, ABSENT)?;
        Ok(db.close()?)
    }

    fn say(&mut self, text: impl AsRef<str>) -> Result<()> {
        self.stdout.line(text)?;
        self.stdout.flush()
    }

    /// Prints the sizes of the log and the tables.
    fn files(&mut self, db: &Db, what: &str) -> Result<()> {
        let stats = db.stats();
        // A log file may be longer than the records in it.
        let logs = size(Files::logs(&self.dir)?.bytes.min(stats.wal_bytes));
        let levels = stats.levels;
        let bytes = levels.iter().map(|level| level.bytes).sum();
        let tables = match levels.iter().map(|level| level.files).sum() {
            0 => "no tables yet".to_string(),
            n => format!(
                "{} of {} ({})",
                count(n, "table", "tables"),
                size(bytes),
                show_levels(&levels.iter().map(|level| level.files).collect::<Vec<_>>())
            ),
        };
        self.say(format!("   {what:<22} log {logs}, {tables}"))
    }

    /// Looks up a key, and prints the value and a description of the lookup's work.
    fn get(&mut self, db: &Db, key: &str) -> Result<()> {
        let (value, trace) = match &self.recorder {
            Some(recorder) => {
                let told = db.explain(key)?;
                recorder.lookup(told.clone());
                (told.value, told.trace)
            }
            None => db.get_traced(key)?,
        };
        let value = value.map(|value| format!("\"{}\"", Format::Escaped.show(&value)));
        let value = value.unwrap_or("not found".to_string());
        self.say(format!("   {:<22} {value}", format!("get {key}")))?;
        self.say(format!("   {:<22} {}", "", summary(&trace)))
    }
}

/// Loads the data. After each batch, looks up one key, chosen at random: the word loaded last, a
/// word of the data (which may not have been loaded yet), or an absent word.
fn load_and_record(db: &Db, data: &Data, recorder: &Recorder) -> Result<()> {
    let mut rng = Rng::new(SEED);
    let loaded = data.load_and(db, SEED, PAGE_LOOKUP_ENTRIES, |last| {
        let key = match rng.below(8) {
            0 => data.key(last),
            1..=4 => data.key(rng.below(data.len())),
            _ => data.one_absent(last, &mut rng),
        };
        recorder.lookup(db.explain(key)?);
        Ok(())
    });
    Ok(loaded?)
}

/// Returns a description of the work done for a get.
fn summary(trace: &ReadTrace) -> String {
    if trace.memtable_hits > 0 {
        return "found in the memtable: no table was searched".to_string();
    }
    let trace = trace.total();
    let maybe = trace.filter_true_positives + trace.filter_false_positives;
    format!(
        "{} in range, {}: {} \"no\", {maybe} \"maybe\"; {} read",
        count(trace.tables_considered, "table", "tables"),
        count(trace.filter_checks, "filter", "filters"),
        trace.filter_negatives,
        count(trace.data_blocks(), "data block", "data blocks"),
    )
}
