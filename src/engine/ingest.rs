//! Ingest: finished tables become tables of the database, by one edit of the MANIFEST.
//!
//! Every entry of such a table must be newer than everything in the database: then snapshots do not
//! show it, and it hides what is there. So all its sequence numbers are above the last one of the
//! database. Most tables have such numbers when they come ([`fresh_seq`]); the others are written
//! anew. The database then goes on after the highest number of the tables.
//!
//! 1. The files get names in the directory, by a link, a copy, or a new table.
//! 2. With the commit lock held, so that nothing is written, all memtables are flushed. A flush
//!    after the ingest would put older entries into a newer table of level 0. And goleveldb drops
//!    records of logs whose sequence numbers are below the one in the MANIFEST.
//! 3. Compactions end or go on, but none begins.
//! 4. Each table gets the lowest level that fits ([`lowest_level`]).
//! 5. One edit adds all tables, with the new last sequence number. Readers see the new version, and
//!    then the new number. A view without the number, or the number without the view, shows nothing
//!    of the tables.
//! 6. An empty batch in the log says with which number it goes on. So a reader of the log knows
//!    that something comes before its next record, and takes the gap for nothing else.
//!
//! A crash before 5 leaves tables that no MANIFEST names, which the next open removes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::{Error, Result};
use crate::engine::checkpoint::link_or_copy;
use crate::engine::table_writer::TableRun;
use crate::engine::version::tombstones::EntryCounts;
use crate::engine::version::{KeyRange, TableFile};
use crate::engine::write::CommitState;
use crate::engine::write::wal::empty_batch;
use crate::engine::{Engine, State};
use crate::format::edit::{NUM_LEVELS, NewFile, VersionEdit};
use crate::format::key::{KeyKind, MAX_SEQ_NO, SeqNo, UserComparator, internal_key, user_key};
use crate::format::name;
use crate::fs::sync_dir;
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

/// A table in the database's directory that no version has yet.
struct Staged<'a> {
    from: &'a Incoming,
    /// Its line in the edit; the level is chosen last.
    file: NewFile,
    counts: EntryCounts,
    oldest: SeqNo,
}

impl Staged<'_> {
    fn range(&self) -> KeyRange<'_> {
        KeyRange {
            from: Some(user_key(&self.file.smallest)),
            to: Some(user_key(&self.file.largest)),
        }
    }
}

/// What an ingest did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    /// Number of tables that were written anew.
    pub rewritten: u64,
}

/// Keeps compactions from beginning; those that run go on. Ends when dropped.
struct Pause<'a>(&'a Engine);

impl<'a> Pause<'a> {
    fn new(engine: &'a Engine) -> Pause<'a> {
        let before = std::mem::replace(&mut engine.state.lock().compactions.paused, true);
        debug_assert!(!before, "two ingests at a time");
        Pause(engine)
    }
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.0.state.lock().compactions.paused = false;
        self.0.changed.notify_all();
        self.0.reads.work.notify_all();
    }
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
                self.trash.remove(staged.iter().map(|table| table.file.number));
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
                        self.trash.remove([table.file.number].into_iter());
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
        staged.push(Staged { from, file, counts, oldest: from.oldest });
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
        staged.push(Staged { from, file, counts, oldest: seq });
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
        if self.has_failed.load(Relaxed) {
            return Err(self.read_only_error());
        }
        if self.has_memtable_entries() {
            self.make_room(commit, true)?;
            self.wait_until_flushed()?;
        }
        let pause = Pause::new(self);
        self.choose_levels(staged)?;
        sync_dir(&*self.fs, &self.dir)?;
        let newest = staged.iter().map(|table| table.counts.newest).max().unwrap_or(0);
        self.install_staged(commit, staged, newest)?;
        drop(pause);
        // The tables are there, whatever becomes of the log.
        if let Err(error) = self.skip_to_last_seq(commit) {
            self.fail(error);
        }
        Ok(())
    }

    /// Says in the log that its next record comes after the tables.
    fn skip_to_last_seq(&self, commit: &mut CommitState) -> Result<()> {
        debug_assert!(commit.mem.is_empty(), "the log holds writes before the tables");
        let marker = empty_batch(commit.last_seq + 1);
        let added = commit.log.add_record(marker.contents());
        added.map_err(|error| Error::io("append to", &commit.log_path, error))
    }

    /// Returns whether something that was written is not in a table.
    fn has_memtable_entries(&self) -> bool {
        self.reads.view_owned().memtables().any(|mem| !mem.is_empty())
    }

    /// Chooses the level of each table. A table of level 0 gets the highest number there.
    fn choose_levels(&self, staged: &mut [Staged<'_>]) -> Result<()> {
        let order = self.reads.order.user();
        let levels: Vec<_> = {
            let state = self.state.lock();
            staged.iter().map(|table| lowest_level(&state, order, table.range())).collect()
        };
        for (table, level) in staged.iter_mut().zip(levels) {
            table.file.level = level;
            if level == 0 {
                let number = self.numbers.take();
                let path = |number| self.dir.join(name::table_name(number));
                let (from, to) = (path(table.file.number), path(number));
                self.fs.rename(&from, &to).map_err(|error| Error::io("rename", from, error))?;
                table.file.number = number;
            }
        }
        Ok(())
    }

    /// Makes the tables durable and visible, with the sequence numbers up to `newest`. After a
    /// failure, `staged` has the tables that the next open will not need.
    fn install_staged(
        &self,
        commit: &mut CommitState,
        staged: &mut Vec<Staged<'_>>,
        newest: SeqNo,
    ) -> Result<()> {
        let edit = VersionEdit {
            last_seq: Some(newest),
            new_files: staged.iter().map(|table| table.file.clone()).collect(),
            ..VersionEdit::default()
        };
        let mut manifest = self.manifest.lock();
        self.assert_in_step(&manifest, &self.state.lock());
        let version = match manifest.commit(edit) {
            Ok(version) => version,
            Err(error) => {
                if manifest.is_in_doubt() {
                    staged.clear();
                }
                drop(manifest);
                self.fail(error.clone());
                return Err(error);
            }
        };
        for table in &*staged {
            version.set_counts(table.file.level, &[(table.file.number, table.counts)]);
        }
        let mut state = self.state.lock();
        state.version = version;
        self.show(&state);
        commit.last_seq = newest;
        self.reads.set_visible_seq(newest);
        Ok(())
    }
}

/// Returns the lowest level for a table with the keys of `range`: no table of that level or of the
/// levels above has a key range that meets it, nor will an output of a compaction under way. It is
/// level 0 if there is no such level.
fn lowest_level(state: &State, order: &UserComparator, range: KeyRange<'_>) -> usize {
    let meets = |file: &Arc<TableFile>| range.overlaps(order, file);
    let is_taken = |level: usize| {
        state.version.level(level).iter().any(meets)
            || state.compactions.running.iter().any(|compaction| {
                compaction.output_level() == level && compaction.meets(order, range)
            })
    };
    (0..NUM_LEVELS).take_while(|&level| !is_taken(level)).last().unwrap_or(0)
}
