//! A compaction: tables of one or more levels become tables of one level.
//!
//! 1. [`pick`] chooses the inputs: tables of a level that is over its target, and the tables of the
//!    next level that they overlap. For `Db::compact_range`, [`manual`] chooses the inputs.
//! 2. The inputs are marked, so that no other compaction takes them (`worker::claim`).
//! 3. Inputs that overlap nothing in the next level are moved there unchanged: only the MANIFEST
//!    changes. All other inputs are merged; a large merge is divided into key ranges that are
//!    merged in parallel ([`parts`]).
//! 4. The merge reads the entries of all inputs in internal key order and leaves out those that no
//!    reader needs:
//!    - a version of a key that no reader sees, because there is a newer one ([`retention`]);
//!    - a tombstone that nothing needs (see below);
//!    - an entry that has expired, or that a program's own rule removes ([`filter`]).
//! 5. The remaining entries are written into new tables ([`output`]). A table ends between two user
//!    keys, when it is large enough or overlaps too much of the level below the output level
//!    ([`output::OutputSplitter`]).
//! 6. The entries of the new tables and those left out must be the entries of the inputs
//!    ([`conservation`](crate::engine::conservation)).
//! 7. The new tables and the directory are synced, one edit of the MANIFEST replaces the inputs
//!    with the outputs, and readers see the new version. The inputs are removed when the last
//!    version that names them is dropped.
//!
//! A tombstone is left out if every reader sees it and no level below the output level has a table
//! whose range contains its key. Otherwise it stays: such a table may hold an older version of the
//! key, which would become visible again. Tables of the levels between inputs and output are inputs
//! themselves. Newer tables of level 0 need not be inputs: their entries are newer than the
//! tombstone, so it does not hide them.
//!
//! A table whose entries have all expired is dropped by an edit of the MANIFEST, without a merge
//! ([`pick`]).
//!
//! A compaction that fails removes its outputs, unless the MANIFEST may contain its edit, and frees
//! its inputs; `health` decides when the compaction is tried again.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::{micros_of, whole_micros};
use crate::base::sync::Instant;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::{Error, Result};
use crate::engine::Engine;
use crate::engine::compact::plan::Compaction;
use crate::engine::conservation::{Reason, written_in};
use crate::engine::publish::Publication;
use crate::engine::report::event::{CompactionKind, EventKind, TableInfo};
use crate::engine::version::Version;
use crate::engine::version::tombstones::EntryCounts;
use crate::format::edit::NewFile;
use crate::format::key::SeqNo;
use crate::fs::sync_dir;

pub(crate) mod filter;
pub(crate) mod manual;
pub(crate) mod output;
pub(crate) mod parts;
pub(crate) mod pick;
pub(crate) mod plan;
pub(crate) mod retention;

/// Maximum number of inputs that an error names.
const MAX_NAMED: usize = 20;

/// A compaction that is running.
struct CompactionJob<'a> {
    compaction: &'a Compaction,
    /// The compaction's number in events.
    number: u64,
    began: Instant,
}

/// The replacement for the inputs of a compaction.
#[derive(Default)]
struct Replacement {
    files: Vec<NewFile>,
    /// Counts of the entries of the tables that were written, by table number.
    counts: Vec<(u64, EntryCounts)>,
    /// If set, the new version lacks entries that are visible to snapshots taken after this
    /// sequence number.
    filtered_after: Option<SeqNo>,
    /// Number of entries that were left out.
    dropped: u64,
}

impl CompactionJob<'_> {
    fn began_event(&self) -> EventKind {
        EventKind::CompactionBegan {
            job: self.number,
            kind: self.compaction.kind,
            inputs: self.inputs(),
            output_level: self.compaction.output_level,
        }
    }

    /// Returns the event for the end of the compaction, after which the database has `version`.
    /// `outputs` are the numbers of the tables that were written or moved.
    fn ended_event(
        &self,
        version: &Version,
        outputs: &[u64],
        entries_dropped: u64,
        took: Duration,
        error: Option<&Error>,
    ) -> EventKind {
        let outputs = outputs.iter().copied();
        EventKind::CompactionEnded {
            job: self.number,
            kind: self.compaction.kind,
            inputs: self.inputs(),
            output_level: self.compaction.output_level,
            outputs: TableInfo::named(version, self.compaction.output_level, outputs),
            entries_dropped,
            took: whole_micros(took),
            error: error.cloned(),
        }
    }

    fn inputs(&self) -> Vec<TableInfo> {
        self.compaction.inputs.files().map(|(level, file)| TableInfo::of(level, file)).collect()
    }
}

impl fmt::Display for CompactionJob<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inputs = &self.compaction.inputs;
        write!(f, "compaction {} of", self.number)?;
        for (level, file) in inputs.files().take(MAX_NAMED) {
            write!(f, " {:06} (level {level})", file.number)?;
        }
        match inputs.files().count().saturating_sub(MAX_NAMED) {
            0 => Ok(()),
            more => write!(f, " and {more} more tables"),
        }
    }
}

impl Engine {
    /// Runs a compaction whose inputs are marked, makes its result the current version, and
    /// removes the marks.
    ///
    /// # Errors
    /// I/O errors, corruption of an input, and [`Error::Closed`]. Each error is also recorded in
    /// the state.
    pub(crate) fn run_compaction(&self, compaction: Arc<Compaction>) -> Result<()> {
        let job = CompactionJob {
            compaction: &compaction,
            number: self.next_job(),
            began: Instant::now(),
        };
        self.observe(|| job.began_event());
        let merge_or_move = || {
            self.trash.check_directory()?;
            match compaction.kind {
                CompactionKind::Drop => self.drop_expired(&job),
                CompactionKind::Move => self.move_down(&job),
                CompactionKind::Merge => self.merge_down(&job),
            }
        };
        let result = self.contain("a compaction", merge_or_move);
        let mut state = self.state.lock();
        if let Err(error) = &result {
            let took = job.began.elapsed();
            self.observe(|| job.ended_event(&state.version, &[], 0, took, Some(error)));
        }
        compaction.mark(false);
        state.compactions.running.retain(|running| !Arc::ptr_eq(running, &compaction));
        match &result {
            Ok(()) => state.compactions.succeeded(),
            // These errors are not caused by the inputs.
            Err(Error::Closed | Error::Panicked { .. }) => {}
            Err(error) => state.compactions.failed(&compaction, error),
        }
        debug_assert_eq!(state.check(), Ok(()));
        drop(state);
        self.wake();
        // Unless a reader still uses the inputs, dropping `compaction` makes it possible to remove
        // them.
        drop(compaction);
        self.trash.empty();
        result
    }

    /// Moves the inputs to the output level, only by an edit of the MANIFEST.
    fn move_down(&self, job: &CompactionJob<'_>) -> Result<()> {
        let output_level = job.compaction.output_level;
        let moved = job.compaction.inputs.files().map(|(_, file)| file.to_edit(output_level));
        let moved: Vec<_> = moved.collect();
        let tables = moved.len() as u64;
        self.install(job, Replacement { files: moved, ..Replacement::default() })?;
        self.metrics.levels[output_level].moves.fetch_add(tables, Relaxed);
        Ok(())
    }

    /// Drops the inputs, only by an edit of the MANIFEST.
    fn drop_expired(&self, job: &CompactionJob<'_>) -> Result<()> {
        // Dropping the tables is not a write, so snapshots keep the view that contains the tables:
        // reads of the database itself, unlike reads of a keyspace, show expired entries.
        self.install(job, Replacement { filtered_after: Some(0), ..Replacement::default() })?;
        let tables = job.compaction.input_files().count() as u64;
        self.metrics.expired_tables.fetch_add(tables, Relaxed);
        Ok(())
    }

    /// Merges the inputs into new tables, which replace them.
    fn merge_down(&self, job: &CompactionJob<'_>) -> Result<()> {
        let compaction = job.compaction;
        let merged = self.merge(compaction)?;
        let is_filtered = [Reason::Expired, Reason::Removed, Reason::Changed]
            .iter()
            .any(|&reason| merged.ledger.dropped_for(reason) > 0);
        let filtered_after = is_filtered.then_some(merged.newest_snapshot);
        let checked = merged.ledger.check(written_in(&merged.counts), job);
        if let Err(error) = checked.and_then(|()| sync_dir(&*self.fs, &self.dir)) {
            self.trash.remove(merged.files.iter().map(|file| file.number));
            return Err(error);
        }
        let dropped = merged.ledger.left_out();
        let written = merged.files.iter().map(|done| done.file_bytes).sum();
        let replacement =
            Replacement { files: merged.files, counts: merged.counts, filtered_after, dropped };
        let took = self.install(job, replacement)?;
        let metrics = &self.metrics.levels[compaction.output_level];
        metrics.compactions.fetch_add(1, Relaxed);
        metrics.bytes_read.fetch_add(compaction.inputs.bytes(), Relaxed);
        metrics.bytes_written.fetch_add(written, Relaxed);
        metrics.entries_dropped.fetch_add(dropped, Relaxed);
        metrics.micros.fetch_add(micros_of(took), Relaxed);
        Ok(())
    }

    /// Makes the replacement of the inputs durable, and makes the new version visible to readers.
    /// Returns the duration of the compaction. After a failure, removes the tables that were
    /// written, unless a MANIFEST may name them.
    fn install(&self, job: &CompactionJob<'_>, replacement: Replacement) -> Result<Duration> {
        let Replacement { files, counts, filtered_after, dropped } = replacement;
        let outputs: Vec<u64> = files.iter().map(|file| file.number).collect();
        let edit = job.compaction.edit(files);
        let publication =
            Publication { edit, counts: &counts, visible: None, lost_after: filtered_after };
        let mut manifest = self.manifest.lock();
        let published = self.publish(
            &mut manifest,
            publication,
            |_| job.began.elapsed(),
            |version, &took| job.ended_event(version, &outputs, dropped, took, None),
        );
        if let Err(error) = &published {
            // With the manifest lock held, because a `resume` may be repairing the MANIFEST.
            self.fail(error.clone());
            if !manifest.is_in_doubt() {
                self.trash.remove(counts.iter().map(|(number, _)| *number));
            }
        }
        published
    }
}

#[cfg(test)]
mod transcripts;
