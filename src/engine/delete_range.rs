//! Range deletes. Tables whose keys are all in the range are dropped whole. Only tables that extend
//! beyond an end of the range need a deletion for each of their keys in the range.
//!
//! The cost therefore depends on the tables at the two ends (at most one at each end in a sorted
//! level), not on the number of entries in between. A range with few entries is deleted by an
//! ordinary batch of deletions, which needs no flush.
//!
//! LevelDB's file format has no entry that deletes a range, and none is needed: dropping a table
//! removes all its entries, regardless of its level. The entries that stay are hidden by ordinary
//! deletions, which are newer than everything else and are written to separate tables.
//!
//! # Readers that still see the entries
//! Iterators and cursors keep the view that they were created with. Snapshots keep the view from
//! before the range delete and the files of that view
//! ([`ReadState::show_next`](crate::engine::read::view::ReadState::show_next)).
//!
//! # Transactions
//! A transaction that has read in the range must fail with a conflict, but a dropped table leaves
//! no entry that would show the conflict. The deleted ranges are therefore listed
//! ([`DeletedRanges`](crate::engine::version::deleted_ranges::DeletedRanges)) as long as there is a
//! snapshot from before the range delete.

use std::sync::Arc;

use crate::base::{Error, Result};
use crate::engine::Engine;
use crate::engine::options::{ReadOptions, WriteOptions};
use crate::engine::read::merge::{MergeCursor, Source};
use crate::engine::read::reader::Reader;
use crate::engine::read::view::ReadState;
use crate::engine::span::Span;
use crate::engine::table_change::{AddedTable, Pause, TableChange};
use crate::engine::table_writer::TableRun;
use crate::engine::version::{TableFile, Version, bytes_of};
use crate::engine::write::commit::CommitState;
use crate::format::batch::WriteBatch;
use crate::format::edit::NUM_LEVELS;
use crate::format::key::{KIND_FOR_SEEK, KeyKind, MAX_SEQ_NO, SeqNo, UserComparator, internal_key};

/// Divisor of the size of the write buffer. The quotient is the maximum size of a batch of
/// deletions. With a higher divisor, smaller ranges are deleted by dropping and writing tables,
/// after a flush; with a lower divisor, other writes wait longer while the range is searched.
const BATCH_DIVISOR: usize = 64;

/// Divisor of the size of the write buffer. A range is searched for a batch of deletions only if
/// its data in tables is at most as large as the quotient. A higher divisor shortens the search of
/// a range that holds few entries among many deletions, but smaller ranges are then deleted by
/// dropping and writing tables.
const SEARCH_DIVISOR: usize = 4;

/// The result of a range delete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct DeletedRange {
    /// Number of tables that were dropped whole.
    pub tables: u64,
    /// Total length of the tables that were dropped whole, in bytes.
    pub file_bytes: u64,
    /// Number of keys that were deleted one by one.
    pub keys: u64,
}

impl Engine {
    /// Deletes all entries with keys in `span`.
    ///
    /// # Errors
    /// The same as for [`Db::delete_range`](crate::Db::delete_range).
    pub(crate) fn delete_range(&self, options: &WriteOptions, span: &Span) -> Result<DeletedRange> {
        self.check_caller()?;
        self.contain("a range delete", || {
            // Detects ranges with too many entries for a batch before the lock is taken.
            if self.batch_of_deletions(span)?.is_some() {
                let mut commit = self.commit.lock();
                // A panic is recorded before the lock is released, so that no write follows it.
                let deleted = self.contain("a range delete", || {
                    self.make_room(&mut commit, false)?;
                    let batch = self.batch_of_deletions(span)?;
                    batch
                        .map(|batch| self.delete_by_batch(&mut commit, options.sync, batch))
                        .transpose()
                });
                if let Some(deleted) = deleted? {
                    return Ok(deleted);
                }
            }
            self.trash.check_directory()?;
            let deleted = self.delete_by_tables(span);
            self.remove_dropped();
            deleted
        })
    }

    /// Leaves the removal of the dropped tables' files to background work, because each removal
    /// takes up to a millisecond.
    fn remove_dropped(&self) {
        match self.inline {
            Some(_) => self.trash.empty(),
            None => {
                self.state.lock().compactions.has_dropped = true;
                self.reads.work.give();
            }
        }
    }

    /// Returns a batch that deletes all entries in `span`; `None` if the batch would be too long,
    /// if the search would take too long, or if a table in the range cannot be read. (The table is
    /// dropped if it is within the range; if not, writing its deletions reports the error.)
    fn batch_of_deletions(&self, span: &Span) -> Result<Option<WriteBatch>> {
        let buffer = self.options.write_buffer_bytes;
        let (searched, most) = ((buffer / SEARCH_DIVISOR) as u64, buffer / BATCH_DIVISOR);
        let search = || -> Result<Option<WriteBatch>> {
            if Reader::now(&self.reads).approximate_size_in_tables(span)? > searched {
                return Ok(None);
            }
            let options = ReadOptions::default().fill_cache(false);
            let mut batch = WriteBatch::new();
            let reader = Reader::now(&self.reads).with(options);
            for entry in reader.point().unsampled(span.clone(), b"") {
                batch.delete(entry?.0);
                if batch.approximate_bytes() > most {
                    return Ok(None);
                }
            }
            Ok(Some(batch))
        };
        match search() {
            Err(Error::Corruption(_) | Error::Io { .. } | Error::Unsupported { .. }) => Ok(None),
            found => found,
        }
    }

    fn delete_by_batch(
        &self,
        commit: &mut CommitState,
        sync: bool,
        mut batch: WriteBatch,
    ) -> Result<DeletedRange> {
        let keys = batch.len() as u64;
        self.commit_batch(commit, sync, &mut batch)?;
        Ok(DeletedRange { keys, ..DeletedRange::default() })
    }

    /// Deletes the entries in `span` by a change of the tables.
    fn delete_by_tables(&self, span: &Span) -> Result<DeletedRange> {
        // Flushes most of the data before the lock is taken, so that no writer has to wait for this
        // flush.
        if self.has_memtable_entries() {
            self.flush()?;
        }
        self.wait_for_merges_in(span.closed())?;
        let mut commit = self.commit.lock();
        self.contain("a range delete", || self.delete_from_tables(&mut commit, span))
    }

    /// Drops the tables within `span`, and writes deletions for its keys in other tables, as one
    /// change.
    fn delete_from_tables(&self, commit: &mut CommitState, span: &Span) -> Result<DeletedRange> {
        self.flush_before_change(commit)?;
        let pause = Pause::new(self, commit);
        // No merge begins during the pause, so no merge in the range runs once this call returns.
        self.wait_for_merges_in(span.closed())?;
        let version = self.state.lock().version.clone();
        let Cut { inside, across } = Cut::new(&version, self.reads.order.user(), span);
        let seq = commit.last_seq + 1;
        if seq >= MAX_SEQ_NO {
            return Err(Error::invalid("the database has used up its sequence numbers"));
        }
        let add = self.write_deletions(across, span, seq)?;
        let deleted = DeletedRange {
            tables: inside.len() as u64,
            file_bytes: bytes_of(inside.iter().map(|(_, file)| file)),
            keys: add.iter().map(|table| table.counts.entries).sum(),
        };
        if deleted == DeletedRange::default() {
            return Ok(deleted);
        }
        let _listed = Listed::begin(&self.reads, seq, span);
        let mut change = TableChange { add, drop: inside };
        let changed = self.change_tables(commit, &pause, &mut change, seq);
        if changed.is_err() {
            self.trash.remove(change.add.iter().map(|table| table.file.number));
        }
        changed.map(|()| deleted)
    }

    /// Writes tables with deletions: one deletion, with the sequence number `seq`, for each key in
    /// `span` that has a value in the tables `files`.
    ///
    /// # Errors
    /// I/O errors, and corruption of the tables.
    fn write_deletions(
        &self,
        files: Vec<Arc<TableFile>>,
        span: &Span,
        seq: SeqNo,
    ) -> Result<Vec<AddedTable>> {
        let mut numbers = Vec::new();
        let mut run = TableRun::new(0, self.options.max_file_bytes);
        let write = || {
            self.each_key_with_value(files, span, |key| {
                let number = || {
                    let number = self.numbers.take();
                    numbers.push(number);
                    number
                };
                let key = internal_key(key, seq, KeyKind::Deletion);
                run.add(&self.table_target(), number, &key, b"")
            })?;
            run.end()
        };
        if let Err(error) = write() {
            drop(run);
            self.trash.remove(numbers.into_iter());
            return Err(error);
        }
        Ok(run.done.into_iter().map(|(file, counts)| AddedTable { file, counts }).collect())
    }

    /// Calls `each`, in key order, for every key in `span` whose newest version in `files` is a
    /// value.
    fn each_key_with_value(
        &self,
        files: Vec<Arc<TableFile>>,
        span: &Span,
        mut each: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let order = self.reads.order.user();
        let options = ReadOptions::default().fill_cache(false).blocks;
        let mut sources = Vec::new();
        for file in files {
            let cursor = self.reads.tables.table(&file.slot)?.cursor(options);
            sources.push(Source::Table(Box::new(cursor), file));
        }
        let mut merge = MergeCursor::new(self.reads.order.clone(), sources);
        let mut valid = match span.closed().from {
            Some(from) => merge.seek(&internal_key(from, MAX_SEQ_NO, KIND_FOR_SEEK))?,
            None => merge.seek_to_first()?,
        };
        let mut last_key: Option<Vec<u8>> = None;
        while valid {
            let entry = merge.parsed_key()?;
            if span.ends_before(order, entry.user_key) {
                break;
            }
            let is_older =
                last_key.as_deref().is_some_and(|last| order.compare(last, entry.user_key).is_eq());
            if !is_older && span.contains(order, entry.user_key) {
                if entry.kind == KeyKind::Value {
                    each(entry.user_key)?;
                }
                let last = last_key.get_or_insert_default();
                last.clear();
                last.extend_from_slice(entry.user_key);
            }
            valid = merge.next()?;
        }
        Ok(())
    }
}

/// A range in the list of deleted ranges, listed before any reader sees the deletion. If the
/// deletion fails, the range is taken back, because no transaction conflicts with it. (An edit of
/// the MANIFEST that is in doubt is never shown: writes resume with a MANIFEST that lacks it.)
struct Listed<'a> {
    reads: &'a ReadState,
    seq: SeqNo,
}

impl<'a> Listed<'a> {
    fn begin(reads: &'a ReadState, seq: SeqNo, span: &Span) -> Listed<'a> {
        reads.deleted_ranges.add(seq, span, reads.oldest_read_seq());
        Listed { reads, seq }
    }
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        if self.reads.visible_seq() < self.seq {
            self.reads.deleted_ranges.take_back(self.seq);
        }
    }
}

/// The tables of a version that have keys in a range.
struct Cut {
    /// Tables with no key outside of the range, each with its level.
    inside: Vec<(usize, Arc<TableFile>)>,
    /// Tables that also have keys outside of the range.
    across: Vec<Arc<TableFile>>,
}

impl Cut {
    fn new(version: &Version, order: &UserComparator, span: &Span) -> Cut {
        let mut cut = Cut { inside: Vec::new(), across: Vec::new() };
        for level in 0..NUM_LEVELS {
            for file in version.overlapping(level, order, span.closed()) {
                let ends = [file.first_key(), file.last_key()];
                match ends.iter().all(|key| span.contains(order, key)) {
                    true => cut.inside.push((level, file)),
                    false => cut.across.push(file),
                }
            }
        }
        cut
    }
}
