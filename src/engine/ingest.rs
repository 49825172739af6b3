//! Ingest: finished tables become tables of the database, by one edit of the MANIFEST.
//!
//! Every entry of such a table must be newer than everything in the database: then snapshots do not
//! show it, and it hides what is there. So all its sequence numbers are above the last one of the
//! database. Most tables have such numbers when they come ([`fresh_seq`]); the others are written
//! anew. The database then goes on after the highest number of the tables.
//!
//! The files get names in the directory, by a link, a copy, or a new table; then they are added
//! with the commit lock held ([`table_change`](crate::engine::table_change)).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use crate::base::{Error, Result};
use crate::engine::Engine;
use crate::engine::checkpoint::link_or_copy;
use crate::engine::table_change::{NewTable, Pause, TableChange};
use crate::engine::table_writer::TableRun;
use crate::engine::version::tombstones::EntryCounts;
use crate::engine::write::CommitState;
use crate::format::edit::{NUM_LEVELS, NewFile};
use crate::format::key::{KeyKind, MAX_SEQ_NO, SeqNo, internal_key, user_key};
use crate::format::name;
use crate::table::Table;

/// Level of the tables that come from outside. It decides which filters they are written with.
pub(crate) const INGEST_LEVEL: usize = NUM_LEVELS - 1;

/// Sequence numbers per second since 1970 in [`fresh_seq`]. A database that writes less than this
/// many entries a second never gets ahead of it.
const SEQS_PER_SECOND: u64 = 1 << 24;

/// Highest number that [`fresh_seq`] returns, in the year 2105. It leaves a database 2^48 more.
const MAX_FRESH_SEQ: SeqNo = MAX_SEQ_NO - (1 << 48);

/// Distance of the sequence number of a table that is written anew from the last one of the
/// database. More entries must not be written while the table is.
const REWRITE_AHEAD: u64 = 1 << 32;

/// Number of times that tables are written anew, because they became older than the database
/// meanwhile.
const MAX_TRIES: usize = 3;

/// Returns a sequence number that is very likely higher than that of every entry of any database at
/// this time: it is made of the time of day.
pub(crate) fn fresh_seq() -> SeqNo {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seconds = since.map_or(0, |since| since.as_secs());
    seconds.saturating_mul(SEQS_PER_SECOND).clamp(1, MAX_FRESH_SEQ)
}

/// A finished table outside of the database. All its entries are puts, of a key each.
#[derive(Clone, Debug)]
pub(crate) struct Incoming {
    /// Path of the file.
    pub path: PathBuf,
    /// Length of the file, in bytes.
    pub file_bytes: u64,
    /// First internal key.
    pub smallest: Vec<u8>,
    /// Last internal key.
    pub largest: Vec<u8>,
    /// Number of entries.
    pub entries: u64,
    /// Lowest sequence number of an entry.
    pub oldest: SeqNo,
    /// Highest sequence number of an entry.
    pub newest: SeqNo,
}

/// A table on its way into the database.
struct Staged<'a> {
    from: &'a Incoming,
    table: NewTable,
    oldest: SeqNo,
}

/// What an ingest did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    /// Number of tables that were written anew.
    pub rewritten: u64,
}

impl Engine {
    /// Adds `tables`, whose key ranges are disjoint, to the database, all or none.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if two of them overlap; [`Error::ReadOnly`], [`Error::Closed`];
    /// I/O errors, and corruption of a table that is written anew.
    pub(crate) fn ingest(&self, tables: &[Incoming]) -> Result<Done> {
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
                // What cannot be removed is removed by the next open: no MANIFEST names it.
                self.trash.remove(staged.iter().map(|staged| staged.table.file.number));
            }
            ingested
        })
    }

    fn ingest_sorted<'a>(
        &self,
        tables: &[&'a Incoming],
        staged: &mut Vec<Staged<'a>>,
    ) -> Result<Done> {
        let mut done = Done::default();
        for table in tables {
            self.stage(table, self.reads.visible_seq(), staged, &mut done)?;
        }
        // The rest of the flush, under the lock below, is short then.
        if self.has_memtable_entries() {
            self.flush()?;
        }
        for _ in 0..MAX_TRIES {
            let mut commit = self.commit.lock();
            let last_seq = commit.last_seq;
            if staged.iter().all(|table| table.oldest > last_seq) {
                self.add_staged(&mut commit, staged)?;
                return Ok(done);
            }
            drop(commit);
            for table in std::mem::take(staged) {
                match table.oldest > last_seq {
                    true => staged.push(table),
                    false => {
                        self.trash.remove([table.table.file.number].into_iter());
                        self.stage(table.from, last_seq, staged, &mut done)?;
                    }
                }
            }
        }
        Err(Error::invalid("the tables are older than the writes beside their ingest"))
    }

    /// Puts a table into the directory, under a number of its own. Its entries are newer than
    /// `last_seq`.
    fn stage<'a>(
        &self,
        from: &'a Incoming,
        last_seq: SeqNo,
        staged: &mut Vec<Staged<'a>>,
        done: &mut Done,
    ) -> Result<()> {
        let number = self.numbers.take();
        let file = NewFile {
            level: INGEST_LEVEL,
            number,
            file_bytes: from.file_bytes,
            smallest: from.smallest.clone(),
            largest: from.largest.clone(),
        };
        let counts = EntryCounts { entries: from.entries, newest: from.newest, ..<_>::default() };
        // Listed before its file is there, so that it is removed after a failure.
        staged.push(Staged { from, table: NewTable { file, counts }, oldest: from.oldest });
        if from.oldest > last_seq {
            let to = self.dir.join(name::table_name(number));
            return link_or_copy(&*self.fs, &from.path, &to);
        }
        let Some(seq) = last_seq.checked_add(REWRITE_AHEAD).filter(|&seq| seq < MAX_SEQ_NO) else {
            return Err(Error::invalid("the database has used up its sequence numbers"));
        };
        let (file, counts) = self.write_anew(from, number, seq)?;
        done.rewritten += 1;
        staged.pop();
        staged.push(Staged { from, table: NewTable { file, counts }, oldest: seq });
        Ok(())
    }

    /// Writes the entries of a table into the table `number`, with the sequence number `seq`.
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
        let mut valid = cursor.seek_to_first()?;
        while valid {
            let key = internal_key(user_key(cursor.key()), seq, KeyKind::Value);
            run.add(&self.table_target(), || number, &key, cursor.value())?;
            valid = cursor.next()?;
        }
        run.end()?;
        run.done.pop().ok_or_else(|| Error::corruption("a table has no entries").in_file(path))
    }

    /// Adds the tables, all of which are newer than everything written, and makes them visible.
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
