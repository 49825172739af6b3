//! A compaction: tables of one or more levels become tables of one level.
//!
//! 1. [`pick`] chooses the inputs: tables of a level that is over its target, and the tables of the
//!    next level that they overlap. [`manual`] chooses them for `Db::compact_range`.
//! 2. The inputs are marked, so that no other compaction takes them (`worker::claim`).
//! 3. Inputs that overlap nothing in the next level move there as they are: only the MANIFEST
//!    changes. All others are merged, in ranges of keys side by side where that pays ([`parts`]).
//! 4. The merge reads the entries of all inputs in internal key order and leaves out those that no
//!    reader needs:
//!    - a version of a key for which every reader sees a newer one ([`retention`]);
//!    - a tombstone †.
//! 5. The rest is written into new tables ([`output`]). A table ends between two user keys, when it
//!    is large enough or overlaps too much of the level after ([`plan::MAX_GRANDPARENT_FACTOR`]).
//! 6. The new tables and their names are synced, one edit of the MANIFEST takes the inputs out and
//!    the outputs in, and readers see the new version. The inputs are removed when the last version
//!    that names them is dropped.
//!
//! † A tombstone is left out if every reader sees it and no level below the output level has a
//! table whose range holds its key. Otherwise it stays: an older version of the key may lie there,
//! and would come back. Tables of the levels between inputs and output are inputs themselves. Newer
//! tables of level 0 may be left out of the inputs; their entries are newer than the tombstone and
//! do not need it.
//!
//! A compaction that fails removes its outputs, unless its edit may be in the MANIFEST, and frees
//! its inputs; `health` decides when it is tried again.

use std::sync::Arc;

use crate::base::sync::Instant;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::{Error, Result};
use crate::engine::Engine;
use crate::engine::compact::output::{Follower, OutputSplitter, Outputs};
use crate::engine::compact::plan::Compaction;
use crate::engine::compact::retention::Retention;
use crate::engine::read::level::{LevelCursor, Run};
use crate::engine::read::merge::{MergeCursor, Source};
use crate::engine::stats::metrics::micros_of;
use crate::engine::version::tombstones::EntryCounts;
use crate::format::edit::{NUM_LEVELS, VersionEdit};
use crate::format::key::{KeyKind, ParsedKey, SeqNo, UserComparator};
use crate::fs::sync_dir;
use crate::table::reader::BlockReadOptions;

pub(crate) mod manual;
pub(crate) mod output;
pub(crate) mod parts;
pub(crate) mod pick;
pub(crate) mod plan;
pub(crate) mod retention;

/// Number of entries between two checks whether a merge must stop. A higher number makes `close`
/// wait longer.
const STOP_CHECK_ENTRIES: u64 = 1024;

impl Engine {
    /// Runs a compaction whose inputs are marked, makes its result the current version, and
    /// removes the marks.
    ///
    /// # Errors
    /// I/O errors, corruption of an input, and [`Error::Closed`]. They are also kept in the state.
    pub(crate) fn run_compaction(&self, compaction: Arc<Compaction>) -> Result<()> {
        let began = Instant::now();
        let merge_or_move = || {
            self.trash.check_directory()?;
            match compaction.is_move {
                true => self.move_down(&compaction),
                false => self.merge_down(&compaction, began),
            }
        };
        let result = self.contain("a compaction", merge_or_move);
        let mut state = self.state.lock();
        compaction.mark(false);
        state.compactions.running.retain(|running| !Arc::ptr_eq(running, &compaction));
        match &result {
            Ok(()) => state.compactions.succeeded(),
            // Neither error is about the inputs.
            Err(Error::Closed | Error::Panicked { .. }) => {}
            Err(error) => state.compactions.failed(&compaction, error),
        }
        debug_assert_eq!(state.check(), Ok(()));
        drop(state);
        self.changed.notify_all();
        self.reads.work.notify_all();
        // Unless a reader still uses the inputs, they are dropped here and can be removed.
        drop(compaction);
        self.trash.empty();
        result
    }

    /// Moves the inputs to the output level by an edit alone.
    fn move_down(&self, compaction: &Compaction) -> Result<()> {
        let output_level = compaction.output_level;
        let moved = compaction.inputs.files().map(|(_, file)| file.to_edit(output_level));
        let moved: Vec<_> = moved.collect();
        self.metrics.levels[output_level].moves.fetch_add(moved.len() as u64, Relaxed);
        self.install(compaction.edit(moved), output_level, &[])
    }

    /// Merges the inputs into new tables, which replace them.
    fn merge_down(&self, compaction: &Compaction, began: Instant) -> Result<()> {
        let merged = self.merge(compaction)?;
        if let Err(error) = sync_dir(&*self.fs, &self.dir) {
            self.trash.remove(merged.files.iter().map(|file| file.number));
            return Err(error);
        }
        let dropped = merged.dropped;
        let written = merged.files.iter().map(|done| done.file_bytes).sum();
        // After a failed commit the MANIFEST may or may not name the outputs, so they stay.
        self.install(compaction.edit(merged.files), compaction.output_level, &merged.counts)?;
        let metrics = &self.metrics.levels[compaction.output_level];
        metrics.compactions.fetch_add(1, Relaxed);
        metrics.bytes_read.fetch_add(compaction.inputs.bytes(), Relaxed);
        metrics.bytes_written.fetch_add(written, Relaxed);
        metrics.entries_dropped.fetch_add(dropped, Relaxed);
        metrics.micros.fetch_add(micros_of(began.elapsed()), Relaxed);
        Ok(())
    }

    /// Merges from the cursor's position up to the user key `to` (exclusive) into `outputs`.
    /// Returns the number of entries left out.
    ///
    /// # Errors
    /// [`Error::Closed`] once `stop` returns true; corruption of an input; I/O errors.
    pub(crate) fn merge_into(
        &self,
        compaction: &Compaction,
        merge: &mut MergeCursor,
        to: Option<&[u8]>,
        read_seqs: Vec<SeqNo>,
        stop: impl Fn() -> bool,
        outputs: &mut Outputs<'_>,
    ) -> Result<u64> {
        let order = self.reads.order.user();
        let mut rule = DropRule::new(compaction, Retention::new(read_seqs, order.clone()));
        let mut splitter = OutputSplitter::new(compaction, self.options.max_file_bytes);
        let mut dropped = 0;
        let mut entries = 0u64;
        let mut valid = merge.valid();
        while valid {
            if entries.is_multiple_of(STOP_CHECK_ENTRIES) && stop() {
                return Err(Error::Closed);
            }
            entries += 1;
            let entry = merge.parsed_key()?;
            if to.is_some_and(|to| order.compare(entry.user_key, to).is_ge()) {
                break;
            }
            if rule.is_useless(&entry, order).map_err(|error| merge.locate(error))? {
                dropped += 1;
            } else {
                if splitter.ends_table(outputs, order, entry.user_key) {
                    outputs.end_table()?;
                }
                outputs.add(merge.key(), &entry, merge.value())?;
            }
            valid = merge.next()?;
        }
        outputs.end_table()?;
        debug_assert!(dropped <= entries, "{dropped} of {entries} entries were left out");
        Ok(dropped)
    }

    /// Returns a cursor over the inputs, which is at none of their entries yet.
    ///
    /// # Errors
    /// I/O errors and corruption, of tables that must be opened.
    pub(crate) fn input_cursor(&self, compaction: &Compaction) -> Result<MergeCursor> {
        // The outputs get checksums of their own, so damage of the inputs must be found here.
        let options = BlockReadOptions {
            verify_checksums: true,
            fill_cache: false,
            ..BlockReadOptions::default()
        };
        let mut sources = Vec::new();
        for (level, files) in &compaction.inputs.0 {
            if *level == 0 {
                for file in files {
                    let table = self.reads.tables.table(&file.slot)?;
                    sources.push(Source::Table(Box::new(table.cursor(options)), file.clone()));
                }
            } else if !files.is_empty() {
                let run = Run::Tables(*level, files.clone());
                let cursor = LevelCursor::new(self.reads.clone(), run, options, None);
                sources.push(Source::Level(Box::new(cursor)));
            }
        }
        Ok(MergeCursor::new(self.reads.order.clone(), sources))
    }

    /// Makes `edit` durable and shows its version to readers. `written` are the counts of the
    /// tables that were written at `level`, by number.
    fn install(
        &self,
        edit: VersionEdit,
        level: usize,
        written: &[(u64, EntryCounts)],
    ) -> Result<()> {
        let mut manifest = self.manifest.lock();
        self.assert_in_step(&manifest, &self.state.lock());
        let version = match manifest.commit(edit) {
            Ok(version) => version,
            Err(error) => {
                drop(manifest);
                self.fail(error.clone());
                return Err(error);
            }
        };
        version.set_counts(level, written);
        let mut state = self.state.lock();
        state.version = version;
        self.show(&state);
        Ok(())
    }
}

/// The rule that decides which entries a merge leaves out.
struct DropRule<'a> {
    retention: Retention,
    /// The levels below the output level.
    deeper: Vec<Follower<'a>>,
}

impl<'a> DropRule<'a> {
    fn new(compaction: &'a Compaction, retention: Retention) -> DropRule<'a> {
        let levels = compaction.output_level + 1..NUM_LEVELS;
        let deeper = levels.map(|level| Follower::new(&compaction.version, level)).collect();
        DropRule { retention, deeper }
    }

    /// Returns whether no reader needs the entry: it is shadowed, or a tombstone that every reader
    /// sees and that hides nothing further down.
    ///
    /// # Errors
    /// Corruption if the entries do not ascend.
    fn is_useless(&mut self, entry: &ParsedKey<'_>, order: &UserComparator) -> Result<bool> {
        let DropRule { retention, deeper } = self;
        Ok(retention.is_shadowed(entry)?
            || (entry.kind == KeyKind::Deletion
                && retention.all_see(entry.seq)
                && !deeper.iter_mut().any(|level| level.may_hold(order, entry.user_key))))
    }
}

#[cfg(test)]
mod transcripts;
