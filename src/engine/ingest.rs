//! Ingest: adding finished tables to the database, by one edit of the MANIFEST.
//!
//! Every entry of an ingested table must be newer than everything in the database, so that existing
//! snapshots do not show the entry, and the entry hides older entries with the same key. The
//! table's sequence numbers must therefore all be above the last sequence number of the database.
//! Most tables already have such numbers ([`fresh_seq`]); the other tables are rewritten with new
//! numbers, and so are tables with another compression than the database's. The next write to the
//! database gets a sequence number above those of the tables.
//!
//! First, each file is linked, copied or rewritten into the database's directory; then the tables
//! are added with the commit lock held ([`table_change`](crate::engine::table_change)).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use crate::base::entry_sum::EntrySum;
use crate::base::{Error, Feature, Result};
use crate::engine::Engine;
use crate::engine::checkpoint::{link_or_copy, sync_and_link};
use crate::engine::conservation::{Ledger, Reason};
use crate::engine::table_change::{AddedTable, Pause, TableChange};
use crate::engine::table_writer::TableRun;
use crate::engine::version::tombstones::EntryCounts;
use crate::engine::write::commit::CommitState;
use crate::format::compress::Method;
use crate::format::edit::{NUM_LEVELS, NewFile};
use crate::format::key::{KeyKind, MAX_SEQ_NO, SeqNo, internal_key, user_key};
use crate::format::name;
use crate::table::Table;

/// Level whose settings apply to ingested tables when they are written. These settings determine
/// the filters of the tables.
pub(crate) const INGEST_LEVEL: usize = NUM_LEVELS - 1;

/// Number of sequence numbers by which [`fresh_seq`] advances each second. A database that writes
/// fewer entries per second never gets ahead of the clock.
const SEQS_PER_SECOND: u64 = 1 << 24;

/// Highest sequence number that [`fresh_seq`] returns, reached in the year 2105. There are 2^48
/// more sequence numbers above it.
const MAX_FRESH_SEQ: SeqNo = MAX_SEQ_NO - (1 << 48);

/// Maximum lead, in sequence numbers, of a linked table over both the database and the clock: one
/// day's worth. A table that is further ahead is rewritten, because linking it would use up too
/// many sequence numbers.
const MAX_LEAD: u64 = 24 * 60 * 60 * SEQS_PER_SECOND;

/// Minimum number of concurrent writes to allow for while tables are rewritten.
const MIN_MARGIN: u64 = 1 << 16;

/// Number of concurrent writes to allow for per entry that is rewritten. A higher number uses up
/// more sequence numbers; a lower number makes it more likely that tables must be rewritten again.
const MARGIN_PER_ENTRY: u64 = 4;

/// Binary logarithm of the factor by which the margin grows with each attempt.
const MARGIN_GROWTH_BITS: u32 = 8;

/// Number of attempts to rewrite tables before an ingest fails because concurrent writes overtook
/// every attempt. The margin of the last attempt is larger than the number of writes that can be
/// made during the attempt.
const MAX_TRIES: u32 = 4;

/// Returns a sequence number derived from the clock. The number is very likely higher than the
/// sequence number of any entry in any existing database.
pub(crate) fn fresh_seq() -> SeqNo {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let whole = since.as_secs().saturating_mul(SEQS_PER_SECOND);
    let part = u64::from(since.subsec_nanos()) * SEQS_PER_SECOND / 1_000_000_000;
    whole.saturating_add(part).clamp(1, MAX_FRESH_SEQ)
}

/// Returns the number of writes to allow for while `entries` entries are rewritten. The number
/// grows with `tries`, the number of failed attempts.
fn margin(entries: u64, tries: u32) -> u64 {
    let writes = entries.saturating_mul(MARGIN_PER_ENTRY).saturating_add(MIN_MARGIN);
    writes.saturating_mul(1 << (MARGIN_GROWTH_BITS * tries))
}

/// A finished table outside of the database. All entries are puts, and no key occurs twice.
#[derive(Clone, Debug)]
pub(crate) struct Incoming {
    /// Path of the file.
    pub path: PathBuf,
    /// Name of the comparator that gives the order of the keys.
    pub comparator: String,
    /// Length of the file, in bytes.
    pub file_bytes: u64,
    /// First internal key.
    pub smallest: Vec<u8>,
    /// Last internal key.
    pub largest: Vec<u8>,
    /// Lowest sequence number of all entries.
    pub oldest: SeqNo,
    /// Counts of the entries.
    pub counts: EntryCounts,
    /// Method of the compressed blocks; `None` if there are none, or if the caller chose the method
    /// for the programs that will read the database.
    pub method: Option<Method>,
    /// Whether the contents of the file are known to be durable.
    pub is_synced: bool,
}

impl Incoming {
    /// Returns whether the table can be linked into a database whose new tables have the method
    /// `method`, and whose last sequence number is `last_seq`: programs that read the database must
    /// be able to read the table, and the entries must be newer than the database, but not so far
    /// ahead that sequence numbers would run out.
    fn is_linkable(&self, method: Method, last_seq: SeqNo) -> bool {
        if self.method.is_some_and(|own| own != method) {
            return false;
        }
        let highest = fresh_seq().max(last_seq).saturating_add(MAX_LEAD);
        self.oldest > last_seq && self.counts.newest <= highest
    }
}

/// A table that is being added to the database.
struct Staged<'a> {
    from: &'a Incoming,
    table: AddedTable,
    oldest: SeqNo,
}

/// The result of an ingest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    /// Number of tables that were rewritten.
    pub rewritten: u64,
}

impl Engine {
    /// Adds `tables`, whose key ranges must be disjoint, to the database: either all tables or
    /// none.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if a table has another comparator; [`Error::InvalidArgument`] if two
    /// tables overlap; [`Error::ReadOnly`], [`Error::Closed`]; I/O errors, and corruption of a
    /// table that is rewritten.
    pub(crate) fn ingest(&self, tables: &[Incoming]) -> Result<Done> {
        self.check_caller()?;
        self.check_comparators(tables)?;
        let order = self.reads.order.user();
        let mut sorted: Vec<&Incoming> = tables.iter().collect();
        sorted.sort_by(|a, b| self.reads.order.compare(&a.smallest, &b.smallest));
        for pair in sorted.windows(2) {
            if order.compare(user_key(&pair[0].largest), user_key(&pair[1].smallest)).is_ge() {
                return Err(Error::invalid(format!(
                    "the tables {} and {} overlap",
                    pair[0].path.display(),
                    pair[1].path.display()
                )));
            }
        }
        if sorted.is_empty() {
            return Ok(Done::default());
        }
        self.contain("an ingest", || {
            self.trash.check_directory()?;
            let mut staged = Vec::new();
            let ingested = self.ingest_sorted(&sorted, &mut staged);
            if ingested.is_err() {
                // Files that cannot be removed are removed by the next open: no MANIFEST names
                // them.
                self.trash.remove(staged.iter().map(|staged| staged.table.file.number));
            }
            ingested
        })
    }

    /// Checks that the keys of all tables are in the order of the database.
    ///
    /// # Errors
    /// [`Error::Unsupported`], which names the comparator and the file of a table in another order.
    fn check_comparators(&self, tables: &[Incoming]) -> Result<()> {
        let own = self.options.comparator.name();
        match tables.iter().find(|table| table.comparator != own) {
            None => Ok(()),
            Some(other) => {
                Err(Error::unsupported(Feature::Comparator, &other.comparator).in_file(&other.path))
            }
        }
    }

    fn ingest_sorted<'a>(
        &self,
        tables: &[&'a Incoming],
        staged: &mut Vec<Staged<'a>>,
    ) -> Result<Done> {
        let mut done = Done::default();
        let last_seq = self.reads.visible_seq();
        let method = self.compression.new.method();
        let (new, mut old): (Vec<_>, _) =
            tables.iter().copied().partition(|table| table.is_linkable(method, last_seq));
        for table in new {
            self.stage_link(table, staged)?;
        }
        // Flush now, so that little is left for the flush that is done with the commit lock held.
        if self.has_memtable_entries() {
            self.flush()?;
        }
        // Let ingests take turns: otherwise, two ingests could repeatedly make each other's tables
        // too old.
        let _alone = self.ingests.lock();
        for tries in 0..MAX_TRIES {
            self.stage_anew(&old, tries, staged)?;
            done.rewritten += old.len() as u64;
            let mut commit = self.commit.lock();
            let last_seq = commit.last_seq;
            if staged.iter().all(|table| table.oldest > last_seq) {
                // A panic is recorded before the lock is released, so that no write follows it.
                self.contain("an ingest", || self.add_staged(&mut commit, staged))?;
                return Ok(done);
            }
            drop(commit);
            let too_old = staged.extract_if(.., |table| table.oldest <= last_seq);
            let too_old: Vec<_> = too_old.collect();
            self.trash.remove(too_old.iter().map(|staged| staged.table.file.number));
            old = too_old.into_iter().map(|staged| staged.from).collect();
        }
        Err(Error::invalid("the tables are older than the writes beside their ingest"))
    }

    /// Links or copies a table into the directory unchanged, under a new file number.
    fn stage_link<'a>(&self, from: &'a Incoming, staged: &mut Vec<Staged<'a>>) -> Result<()> {
        let number = self.numbers.take();
        self.stage(from, number, staged);
        let to = self.dir.join(name::table_name(number));
        match from.is_synced {
            true => link_or_copy(&*self.fs, &from.path, &to),
            false => sync_and_link(&*self.fs, &from.path, &to),
        }
    }

    /// Rewrites tables into the directory, under new file numbers. All their entries get the same
    /// sequence number, which is so far above the last write that writes may continue until the
    /// tables are added. The caller must check that the writes have not overtaken it.
    fn stage_anew<'a>(
        &self,
        tables: &[&'a Incoming],
        tries: u32,
        staged: &mut Vec<Staged<'a>>,
    ) -> Result<()> {
        let entries = tables.iter().map(|table| table.counts.entries).fold(0, u64::saturating_add);
        let seq = self.reads.visible_seq().saturating_add(margin(entries, tries));
        for from in tables {
            if seq >= MAX_SEQ_NO {
                return Err(Error::invalid("the database has used up its sequence numbers"));
            }
            let number = self.numbers.take();
            self.stage(from, number, staged);
            let (file, counts) = self.write_anew(from, number, seq)?;
            staged.pop();
            staged.push(Staged { from, table: AddedTable { file, counts }, oldest: seq });
        }
        Ok(())
    }

    /// Adds the table `number` to `staged`. Must be called before the table's file is made, so that
    /// the file is removed after a failure.
    fn stage<'a>(&self, from: &'a Incoming, number: u64, staged: &mut Vec<Staged<'a>>) {
        let file = NewFile {
            level: INGEST_LEVEL,
            number,
            file_bytes: from.file_bytes,
            smallest: from.smallest.clone(),
            largest: from.largest.clone(),
        };
        let table = AddedTable { file, counts: from.counts };
        staged.push(Staged { from, table, oldest: from.oldest });
    }

    /// Copies the entries of a table into a new table `number`, with the sequence number `seq`.
    fn write_anew(
        &self,
        from: &Incoming,
        number: u64,
        seq: SeqNo,
    ) -> Result<(NewFile, EntryCounts)> {
        let path = &from.path;
        let file = self.fs.open(path).map_err(|error| Error::io("open", path, error))?;
        let context = &self.options.table_context(&self.reads.order, None);
        let table = Arc::new(Table::open(file, from.file_bytes, path.clone(), context)?);
        let mut run = TableRun::new(INGEST_LEVEL, u64::MAX);
        let mut cursor = table.cursor(Default::default());
        let (mut read, mut ledger) = (EntrySum::default(), Ledger::default());
        let mut valid = cursor.seek_to_first()?;
        while valid {
            read.add(cursor.key(), cursor.value());
            let key = internal_key(user_key(cursor.key()), seq, KeyKind::Value);
            ledger.drop(Reason::Renumbered, cursor.key(), cursor.value());
            ledger.make(&key, cursor.value());
            run.add(&self.table_target(), || number, &key, cursor.value())?;
            valid = cursor.next()?;
        }
        run.end()?;
        let done = run.done.pop();
        let done = done.ok_or_else(|| Error::corruption("a table has no entries").in_file(path))?;
        // The sum of a table that another process wrote is not known, but the number of its
        // entries is.
        ledger.read(from.counts.sum.unwrap_or(read.with_entries(from.counts.entries)));
        let job = "an ingest that gives the entries new numbers";
        ledger.check(done.1.sum.unwrap_or_default(), job).map_err(|error| error.in_file(path))?;
        Ok(done)
    }

    /// Adds the staged tables, which must be newer than everything written, and makes them visible.
    fn add_staged(&self, commit: &mut CommitState, staged: &mut Vec<Staged<'_>>) -> Result<()> {
        self.flush_before_change(commit)?;
        let pause = Pause::new(self, commit);
        let newest = staged.iter().map(|staged| staged.table.counts.newest).max().unwrap_or(0);
        let add = staged.drain(..).map(|staged| staged.table).collect();
        let mut change = TableChange { add, drop: Vec::new() };
        let added = self.change_tables(commit, &pause, &mut change, newest);
        if added.is_err() {
            self.trash.remove(change.add.iter().map(|table| table.file.number));
        }
        added
    }
}
