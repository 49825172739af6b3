//! A compaction: tables of one or more levels become tables of one, without what nobody can see.

use std::sync::Arc;

use crate::base::sync::Instant;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::{Error, Result};
use crate::engine::Engine;
use crate::engine::compact::output::{Follower, Outputs};
use crate::engine::compact::plan::{Compaction, MAX_GRANDPARENT_FACTOR};
use crate::engine::compact::retention::Retention;
use crate::engine::read::level::{LevelCursor, Run};
use crate::engine::read::merge::{MergeCursor, Source};
use crate::engine::stats::metrics::micros_of;
use crate::engine::version::tombstones::Contents;
use crate::format::edit::{NUM_LEVELS, VersionEdit};
use crate::format::key::{KeyKind, SeqNo, user_key};
use crate::fs::sync_dir;
use crate::table::reader::BlockReadOptions;

pub mod manual;
pub mod output;
pub mod parts;
pub mod pick;
pub mod plan;
pub mod retention;

/// A merge looks this often, in entries, whether it is to be given up.
const STOP_CHECK_ENTRIES: u64 = 1024;

impl Engine {
    /// Runs a compaction whose inputs are marked, makes its result the current version, and
    /// frees the marks.
    pub fn run_compaction(&self, compaction: Arc<Compaction>) -> Result<()> {
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
        state.running.retain(|running| !Arc::ptr_eq(running, &compaction));
        match &result {
            Ok(()) => state.compaction_succeeded(),
            // A panic says nothing of the inputs.
            Err(Error::Closed | Error::Panicked { .. }) => {}
            Err(error) => state.compaction_failed(&compaction, error),
        }
        drop(state);
        self.changed.notify_all();
        self.reads.work.notify_all();
        // The last to name the inputs, unless a reader does.
        drop(compaction);
        self.trash.empty();
        result
    }

    fn move_down(&self, compaction: &Compaction) -> Result<()> {
        let output_level = compaction.output_level;
        let moved = compaction.inputs.files().map(|(_, file)| file.to_edit(output_level));
        let moved: Vec<_> = moved.collect();
        self.metrics.levels[output_level].moves.fetch_add(moved.len() as u64, Relaxed);
        self.install(compaction.edit(moved), output_level, &[])
    }

    fn merge_down(&self, compaction: &Compaction, began: Instant) -> Result<()> {
        let merged = self.merge(compaction)?;
        if let Err(error) = sync_dir(&*self.fs, &self.dir) {
            self.trash.remove(merged.files.iter().map(|file| file.number));
            return Err(error);
        }
        let dropped = merged.dropped;
        let written = merged.files.iter().map(|done| done.file_bytes).sum();
        // After a failed commit the MANIFEST may or may not name the outputs: they stay.
        self.install(compaction.edit(merged.files), compaction.output_level, &merged.contents)?;
        let metrics = &self.metrics.levels[compaction.output_level];
        metrics.compactions.fetch_add(1, Relaxed);
        metrics.bytes_read.fetch_add(compaction.inputs.bytes(), Relaxed);
        metrics.bytes_written.fetch_add(written, Relaxed);
        metrics.entries_dropped.fetch_add(dropped, Relaxed);
        metrics.micros.fetch_add(micros_of(began.elapsed()), Relaxed);
        Ok(())
    }

    /// Merges what `merge` stands at, up to the user key `to`, into `outputs`: the entries left
    /// out. Gives up where `stop` says so.
    pub fn merge_into(
        &self,
        compaction: &Compaction,
        merge: &mut MergeCursor,
        to: Option<&[u8]>,
        held: Vec<SeqNo>,
        stop: impl Fn() -> bool,
        outputs: &mut Outputs<'_>,
    ) -> Result<u64> {
        let order = self.reads.order.user();
        let mut retention = Retention::new(held, order.clone());
        let version = &compaction.version;
        let output_level = compaction.output_level;
        let mut deeper: Vec<_> =
            (output_level + 1..NUM_LEVELS).map(|level| Follower::new(version, level)).collect();
        let mut grandparents = Follower::new(version, output_level + 1);
        let max_grandparent_bytes = MAX_GRANDPARENT_FACTOR * self.options.max_file_bytes;
        let mut grandparent_bytes = 0;
        let mut last_key: Vec<u8> = Vec::new();
        let mut dropped = 0;
        let mut entries = 0u64;
        let mut valid = merge.valid();
        while valid {
            if entries.is_multiple_of(STOP_CHECK_ENTRIES) && stop() {
                return Err(Error::Closed);
            }
            entries += 1;
            let key = merge.key();
            let entry = merge.parsed_key()?;
            if to.is_some_and(|to| order.compare(entry.user_key, to).is_ge()) {
                break;
            }
            let useless = retention.is_shadowed(&entry).map_err(|error| merge.place(error))?
                || (entry.kind == KeyKind::Deletion
                    && retention.all_see(entry.seq)
                    && !deeper.iter_mut().any(|level| level.may_hold(order, entry.user_key)));
            if useless {
                dropped += 1;
            } else {
                // Tables end between user keys, so that all versions of one stay together.
                if outputs.open.is_some() && order.compare(entry.user_key, &last_key).is_ne() {
                    grandparent_bytes += grandparents.advance(order, entry.user_key);
                    if outputs.open_bytes() >= self.options.max_file_bytes
                        || grandparent_bytes > max_grandparent_bytes
                    {
                        outputs.end_table()?;
                    }
                }
                if outputs.open.is_none() {
                    grandparents.advance(order, entry.user_key);
                    grandparent_bytes = 0;
                }
                outputs.add(key, &entry, merge.value())?;
                last_key.clear();
                last_key.extend_from_slice(user_key(key));
            }
            valid = merge.next()?;
        }
        outputs.end_table()?;
        Ok(dropped)
    }

    /// A cursor over the inputs, at none of their entries yet.
    pub fn input_cursor(&self, compaction: &Compaction) -> Result<MergeCursor> {
        // What is merged is written again: damage must be found here, or it gets a new checksum.
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

    /// Makes `edit` durable and shows its version, with what was `written` at a level.
    fn install(&self, edit: VersionEdit, level: usize, written: &[(u64, Contents)]) -> Result<()> {
        let mut manifest = self.manifest.lock();
        let version = match manifest.commit(edit) {
            Ok(version) => version,
            Err(error) => {
                drop(manifest);
                self.fail(error.clone());
                return Err(error);
            }
        };
        version.set_contents(level, written);
        let mut state = self.state.lock();
        state.version = version;
        self.show(&state);
        Ok(())
    }
}

#[cfg(test)]
mod transcripts;
