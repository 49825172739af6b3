//! Writes that change the set of tables directly: an ingest adds whole tables, and a range delete
//! drops whole tables. Each such write has a place among the other writes and a sequence number,
//! but no record in the log.
//!
//! With the commit lock held, so that nothing else is written:
//!
//! 1. All memtables are flushed. If they were flushed after the change, older entries would be in a
//!    newer table of level 0. In addition, goleveldb drops records of logs whose sequence numbers
//!    are below the last sequence number in the MANIFEST.
//! 2. Running compactions go on, but no new one begins ([`Pause`]).
//! 3. Each new table gets the deepest level that fits ([`deepest_free_level`]).
//! 4. One edit makes the change, with the new last sequence number. Readers see the change and that
//!    number at the same time
//!    ([`ReadState::show_next`](crate::engine::read::view::ReadState::show_next)).
//! 5. An empty batch in the log states the sequence number at which the log continues. It tells a
//!    reader of the log that a change comes before the next record, so that the reader does not
//!    take the gap for lost writes.
//!
//! A crash before step 4 leaves tables that no MANIFEST names, which the next open removes.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::{Error, Result};
use crate::engine::publish::Publication;
use crate::engine::read::view::VisibleSeq;
use crate::engine::report::event::{EventKind, TableInfo};
use crate::engine::version::tombstones::EntryCounts;
use crate::engine::version::{KeyRange, TableFile, Version};
use crate::engine::write::commit::CommitState;
use crate::engine::write::log_file::empty_batch;
use crate::engine::{Engine, State};
use crate::format::edit::{NUM_LEVELS, NewFile, VersionEdit};
use crate::format::key::{SeqNo, UserComparator, user_key};
use crate::format::name;
use crate::fs::sync_dir;

/// A table in the database's directory that is not in any version yet.
pub(super) struct AddedTable {
    /// The table's entry in the edit. The level is chosen when the change is made.
    pub file: NewFile,
    pub counts: EntryCounts,
}

/// A change of the set of tables, made by one edit.
pub(super) struct TableChange {
    /// Tables to add. Their entries are newer than everything written so far, and their key ranges
    /// are disjoint. After a failure, this list contains only tables that the next open will not
    /// need.
    pub add: Vec<AddedTable>,
    /// Tables to drop, each with its level. No compaction uses these tables.
    pub drop: Vec<(usize, Arc<TableFile>)>,
}

/// Prevents new compactions from beginning until it is dropped; running compactions go on. The
/// commit lock must be held, so that no writer waits for a compaction during the pause.
pub(super) struct Pause<'a>(&'a Engine);

impl<'a> Pause<'a> {
    pub(super) fn new(engine: &'a Engine, _commit: &CommitState) -> Pause<'a> {
        let before = std::mem::replace(&mut engine.state.lock().compactions.paused, true);
        debug_assert!(!before, "two changes of the tables at a time");
        Pause(engine)
    }
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.0.state.lock().compactions.paused = false;
        self.0.wake();
    }
}

impl Engine {
    /// Flushes everything that is not in tables yet.
    ///
    /// # Errors
    /// As [`Engine::flush`].
    pub(super) fn flush_before_change(&self, commit: &mut CommitState) -> Result<()> {
        if self.has_failed.load(Relaxed) {
            return Err(self.read_only_error());
        }
        if self.has_memtable_entries() {
            self.make_room(commit, true)?;
            self.wait_until_flushed()?;
        }
        Ok(())
    }

    /// Returns whether any entry is only in a memtable, and not in a table.
    pub(super) fn has_memtable_entries(&self) -> bool {
        self.reads.view_owned().memtables().any(|mem| !mem.is_empty())
    }

    /// Makes the change durable, and visible at `seq`, which is the sequence number of the newest
    /// entry in the change. All earlier writes must have been flushed.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn change_tables(
        &self,
        commit: &mut CommitState,
        _pause: &Pause<'_>,
        change: &mut TableChange,
        seq: SeqNo,
    ) -> Result<()> {
        debug_assert!(seq > commit.last_seq, "a change has no number of its own");
        self.choose_levels(change)?;
        sync_dir(&*self.fs, &self.dir)?;
        commit.visible = self.install_change(change, seq)?;
        commit.last_seq = seq;
        // The change has been made, even if the append to the log fails.
        if let Err(error) = self.skip_to_last_seq(commit) {
            self.fail(error);
        }
        Ok(())
    }

    /// Appends to the log an empty batch, which shows that the next record comes after the change.
    fn skip_to_last_seq(&self, commit: &mut CommitState) -> Result<()> {
        debug_assert!(commit.mem.is_empty(), "the log holds writes before the change");
        let marker = empty_batch(commit.last_seq + 1);
        let added = commit.log.add_record(marker.contents());
        added.map_err(|error| Error::io("append to", &commit.log_path, error))
    }

    /// Chooses the level of each new table. A table that goes to level 0 gets a new file number,
    /// higher than those of all other tables of level 0.
    fn choose_levels(&self, change: &mut TableChange) -> Result<()> {
        let order = self.reads.order.user();
        let levels: Vec<_> = {
            let state = self.state.lock();
            let dropped: BTreeSet<u64> = change.drop.iter().map(|(_, file)| file.number).collect();
            let stays = |file: &TableFile| !dropped.contains(&file.number);
            let ranges = change.add.iter().map(|table| range_of(&table.file));
            ranges.map(|range| deepest_free_level(&state, order, range, &stays)).collect()
        };
        for (table, level) in change.add.iter_mut().zip(levels) {
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

    /// Makes the change durable and shows it. Returns the number of the new view.
    fn install_change(&self, change: &mut TableChange, seq: SeqNo) -> Result<Arc<VisibleSeq>> {
        let edit = VersionEdit {
            last_seq: Some(seq),
            deleted_files: change.drop.iter().map(|(level, file)| (*level, file.number)).collect(),
            new_files: change.add.iter().map(|table| table.file.clone()).collect(),
            ..VersionEdit::default()
        };
        let counts = change.add.iter().map(|table| (table.file.number, table.counts));
        let counts: Vec<_> = counts.collect();
        let visible = VisibleSeq::new(seq);
        let publication = Publication {
            edit,
            counts: &counts,
            visible: Some(visible.clone()),
            lost_after: (!change.drop.is_empty()).then_some(0),
        };
        let mut manifest = self.manifest.lock();
        let published = self.publish(
            &mut manifest,
            publication,
            |state| state.compactions.forget_dropped(&state.version),
            |version, ()| changed(version, change),
        );
        if published.is_err() && manifest.is_in_doubt() {
            change.add.clear();
        }
        drop(manifest);
        published.inspect_err(|error| self.fail(error.clone()))?;
        Ok(visible)
    }
}

/// Returns the event for a change that led to `version`.
fn changed(version: &Version, change: &TableChange) -> EventKind {
    let added = change.add.iter().map(|table| (table.file.level, table.file.number));
    let added = added.flat_map(|(level, number)| TableInfo::named(version, level, [number]));
    let removed = change.drop.iter().map(|(level, file)| TableInfo::of(*level, file));
    EventKind::TablesChanged { added: added.collect(), removed: removed.collect() }
}

/// Returns the closed range of a table's user keys.
fn range_of(file: &NewFile) -> KeyRange<'_> {
    KeyRange { from: Some(user_key(&file.smallest)), to: Some(user_key(&file.largest)) }
}

/// Returns the deepest level that can take a table with the keys of `range`, or 0 if there is none.
/// Neither that level nor a level above it has a table that overlaps the range and for which
/// `stays` returns true, and no running compaction will write an overlapping table to any of these
/// levels.
fn deepest_free_level(
    state: &State,
    order: &UserComparator,
    range: KeyRange<'_>,
    stays: &impl Fn(&TableFile) -> bool,
) -> usize {
    let is_taken = |level: usize| {
        let mut files = state.version.level(level).iter();
        files.any(|file| range.overlaps(order, file.range()) && stays(file))
            || state.compactions.running.iter().any(|compaction| {
                compaction.output_level() == level && range.overlaps(order, compaction.range())
            })
    };
    (0..NUM_LEVELS).take_while(|&level| !is_taken(level)).last().unwrap_or(0)
}
