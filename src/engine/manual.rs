//! Compactions that the user asks for.

use std::sync::Arc;

use crate::base::Result;
use crate::base::stats::NUM_LEVELS;
use crate::engine::Engine;
use crate::engine::compact::{Compaction, Inputs};
use crate::engine::pick::{clean_cut_of, hull, target_bytes};
use crate::engine::version::{KeyRange, TableFile, Version};
use crate::engine::worker::take;

/// Keeps the background from starting compactions while it lives.
struct Quiet<'a>(&'a Engine);

impl<'a> Quiet<'a> {
    /// Waits until none runs.
    fn new(engine: &'a Engine) -> Quiet<'a> {
        let mut state = engine.state.lock();
        // One manual compaction at a time: two would take each other's inputs.
        while state.manual > 0 {
            engine.wait_for_change(&mut state);
        }
        state.manual += 1;
        let quiet = Quiet(engine);
        while !state.running.is_empty() {
            engine.wait_for_change(&mut state);
        }
        // Who asks wants to know whether it goes now.
        state.forgive_compactions();
        quiet
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        self.0.state.lock().manual -= 1;
        self.0.changed.notify_all();
        self.0.reads.work.notify_all();
    }
}

impl Engine {
    /// Compacts everything in `range`: afterwards it lies in one level, without deleted and
    /// overwritten entries but for those that snapshots hold.
    ///
    /// # Errors
    /// What kept the memtable from being flushed or the tables from being merged.
    pub fn compact_range(&self, range: KeyRange<'_>) -> Result<()> {
        self.flush()?;
        self.contain("a compaction", || self.compact_in_quiet(range))
    }

    fn compact_in_quiet(&self, range: KeyRange<'_>) -> Result<()> {
        let _quiet = Quiet::new(self);
        if range.from.is_none() && range.to.is_none() {
            return self.compact_all();
        }
        let order = self.reads.order.user();
        let version = self.state.lock().version.clone();
        let Some(deepest) = version.deepest_level(order, range) else { return Ok(()) };
        let has_above =
            (0..deepest).any(|level| !version.overlapping(level, order, range).is_empty());
        for level in 0..deepest.max(1) {
            self.compact_level(level, range)?;
        }
        if deepest > 0 && !has_above {
            self.rewrite_level(deepest, range)?;
        }
        Ok(())
    }

    /// One merge of all tables into one level: each entry is written once.
    fn compact_all(&self) -> Result<()> {
        let compaction = {
            let mut state = self.state.lock();
            let version = &state.version;
            let levels: Vec<_> = (0..NUM_LEVELS)
                .map(|level| (level, version.level(level).to_vec()))
                .filter(|(_, files)| !files.is_empty())
                .collect();
            let Some(&(deepest, _)) = levels.last() else { return Ok(()) };
            // Deep enough that it is not due to move on at once.
            let bytes = (0..NUM_LEVELS).map(|level| version.level_bytes(level)).sum::<u64>();
            let fitting = (1..NUM_LEVELS)
                .find(|&level| bytes <= target_bytes(level, &self.options))
                .unwrap_or(NUM_LEVELS - 1);
            let order = self.reads.order.user();
            let output_level = deepest.max(fitting);
            let inputs = Inputs(levels);
            let version = state.version.clone();
            let compaction = Compaction::from_inputs(version, order, inputs, output_level, false);
            take(&mut state, compaction)
        };
        self.run_compaction(compaction)
    }

    /// Compacts what a level has in `range` into the next.
    fn compact_level(&self, level: usize, range: KeyRange<'_>) -> Result<()> {
        let compaction = {
            let mut state = self.state.lock();
            let order = self.reads.order.user();
            let files = closed(&state.version, level, order, range);
            match Compaction::new(&state.version.clone(), order, &self.options, level, files) {
                Some(compaction) => take(&mut state, compaction.merging()),
                None => return Ok(()),
            }
        };
        self.run_compaction(compaction)
    }

    /// Writes what a level has in `range` anew, in place, without its tombstones.
    fn rewrite_level(&self, level: usize, range: KeyRange<'_>) -> Result<()> {
        let compaction = {
            let mut state = self.state.lock();
            let order = self.reads.order.user();
            let files = closed(&state.version, level, order, range);
            if files.is_empty() {
                return Ok(());
            }
            let version = state.version.clone();
            let inputs = Inputs(vec![(level, files)]);
            let compaction = Compaction::from_inputs(version, order, inputs, level, false);
            take(&mut state, compaction)
        };
        self.run_compaction(compaction)
    }
}

/// The tables of a level that have keys in `range`, and those which must go with them: in level 0
/// all that overlap them, elsewhere those that share a user key with them.
fn closed(
    version: &Version,
    level: usize,
    order: &crate::format::key::UserComparator,
    range: KeyRange<'_>,
) -> Vec<Arc<TableFile>> {
    let mut files = version.overlapping(level, order, range);
    if level > 0 {
        return pick_clean(version, level, files, order);
    }
    loop {
        if files.is_empty() {
            return files;
        }
        let more = version.overlapping(0, order, hull(&files, order));
        if more.len() == files.len() {
            return more;
        }
        files = more;
    }
}

fn pick_clean(
    version: &Version,
    level: usize,
    files: Vec<Arc<TableFile>>,
    order: &crate::format::key::UserComparator,
) -> Vec<Arc<TableFile>> {
    clean_cut_of(version.level(level), &files, order)
}
