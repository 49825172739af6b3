//! Manual compactions, which the program requests with `Db::compact_range`.
//!
//! 1. The memtable is flushed. Then the request is determined: a range of keys, and the level that
//!    will finally hold the range. Later writes are not part of the request.
//! 2. Level by level, from level 0 on, the tables of the range are merged down to that level.
//! 3. Finally, the tables of that level that took part in no merge are rewritten in place.
//!
//! Each level below level 0 is compacted in pieces of limited size, so that nothing has to wait for
//! a whole level: flushes and automatic compactions of other tables continue during the work, level
//! 0 is compacted between two pieces if it has grown, and each piece frees space.
//!
//! A piece that needs a table of an automatic compaction waits until that compaction ends. No other
//! automatic compaction starts during the wait, so that the wait is short. Before the manual
//! compaction ends, no automatic compaction moves tables out of the level that will hold the range.

use std::sync::Arc;

use crate::base::sync::thread;
use crate::base::{Error, Result};
use crate::engine::compact::pick::{LEVEL0_COMPACT_FILES, level_for};
use crate::engine::compact::plan::{Compaction, Inputs, clean_cut_of, hull, is_free};
use crate::engine::inside::Duty;
use crate::engine::options::Options;
use crate::engine::resources::pool::{COMPACTION_NICE, lower_priority};
use crate::engine::state::Manual;
use crate::engine::version::{KeyRange, TableFile, Version, bytes_of};
use crate::engine::worker::claim;
use crate::engine::{Engine, State};
use crate::format::key::UserComparator;

/// Maximum size of a piece, in tables of the target size; the piece of level 0, and a single table
/// with all tables that it overlaps, may exceed the maximum. With larger pieces, fewer entries are
/// written twice, but more tables are withheld from automatic compactions.
/// `docs/history/performance.md` has measurements.
const MAX_PIECE_TABLES: u64 = 128;

/// The right to run a manual compaction. Only one manual compaction runs at a time. Dropping the
/// permit gives up the right.
struct Permit<'a>(&'a Engine);

impl<'a> Permit<'a> {
    /// Waits until no other manual compaction is under way. Returns the permit.
    ///
    /// # Errors
    /// [`Error::Closed`].
    fn acquire(engine: &'a Engine) -> Result<Permit<'a>> {
        let mut state = engine.state.lock();
        while state.compactions.manual.is_some() && !state.lifecycle.closing {
            engine.wait_for_change(&mut state);
        }
        if state.lifecycle.closing {
            return Err(Error::Closed);
        }
        state.compactions.manual = Some(Manual { output_level: None, waits: false });
        // Forget earlier failures, so that tables that were found damaged are tried again.
        let version = state.version.clone();
        state.compactions.forgive(&version);
        Ok(Permit(engine))
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let ended = self.0.state.lock().compactions.manual.take();
        debug_assert!(ended.is_some(), "another thread ended this manual compaction");
        self.0.wake();
        // Some tables may have been named only by versions that this thread held. Remove these
        // tables.
        self.0.trash.empty();
    }
}

/// A requested compaction: a range of keys, and the level that will hold the range.
pub(super) struct ManualCompaction {
    from: Option<Vec<u8>>,
    /// Inclusive upper bound. If the program gives no upper bound, this is the last key at the time
    /// of the request: if the range contained later keys, a writer that appends could keep the
    /// compaction from ever ending.
    to: Vec<u8>,
    pub(super) output_level: usize,
    /// Lowest file number of a table written after the request.
    first_new: u64,
}

impl ManualCompaction {
    /// Returns the request for the tables of `version` in `range`; `None` if no table is in
    /// `range`. Tables written after the request have the number `first_new` or a higher one.
    pub(super) fn new(
        version: &Version,
        order: &UserComparator,
        options: &Options,
        range: KeyRange<'_>,
        first_new: u64,
    ) -> Option<ManualCompaction> {
        let deepest = version.deepest_level(order, range)?;
        let is_all = range.from.is_none() && range.to.is_none();
        // In a level with a smaller target, the result would exceed the target and would have to
        // move to the next level at once.
        let fitting = if is_all { level_for(version.total_bytes(), options) } else { 1 };
        let last_key = || {
            let last_keys = version.files().map(|(_, file)| file.last_key());
            last_keys.max_by(|a, b| order.compare(a, b))
        };
        Some(ManualCompaction {
            from: range.from.map(<[u8]>::to_vec),
            to: range.to.or_else(last_key)?.to_vec(),
            output_level: deepest.max(fitting),
            first_new,
        })
    }

    fn range(&self) -> KeyRange<'_> {
        KeyRange { from: self.from.as_deref(), to: Some(&self.to) }
    }

    /// Returns the next piece of a level and the last user key of the piece; `None` after the last
    /// piece. The next piece begins after the user key `done`. A piece consists of tables of the
    /// level and the tables that they overlap in the levels below, about `most` bytes in total. The
    /// piece of level 0 may be larger.
    pub(super) fn next_piece(
        &self,
        version: &Arc<Version>,
        order: &UserComparator,
        most: u64,
        level: usize,
        done: Option<&[u8]>,
    ) -> Option<(Compaction, Vec<u8>)> {
        let in_place = level == self.output_level;
        let files = match level {
            0 => closed_level0(version, order, self.range()),
            _ => {
                let mut left = version.overlapping(level, order, self.range());
                left.retain(|file| {
                    done.is_none_or(|done| order.compare(file.last_key(), done).is_gt())
                });
                // Tables written after the request need not be rewritten in place.
                let is_old = |file: &Arc<TableFile>| !in_place || file.number < self.first_new;
                let start = left.iter().position(is_old)?;
                let run = left[start..].iter().take_while(|file| is_old(file));
                let run: Vec<_> = run.cloned().collect();
                let below = if in_place { None } else { Some(level + 1) };
                first_files(version, order, level, &run, below, most)
            }
        };
        let last_key = files.last()?.last_key().to_vec();
        let (inputs, output_level) = with_levels_below(version, order, level, files, self, most);
        debug_assert!(output_level <= self.output_level, "a piece goes too deep");
        let version = version.clone();
        let piece = Compaction::from_inputs(version, order, inputs, output_level);
        Some((piece, last_key))
    }
}

impl Engine {
    /// Compacts everything in `range` into one level, and drops deleted and overwritten entries,
    /// except those that snapshots need.
    ///
    /// # Errors
    /// Errors of the flush of the memtable and of the merges.
    pub(crate) fn compact_range(&self, range: KeyRange<'_>) -> Result<()> {
        self.check_caller()?;
        self.flush()?;
        self.contain("a compaction", || self.compact_in_turn(range))
    }

    fn compact_in_turn(&self, range: KeyRange<'_>) -> Result<()> {
        let _permit = Permit::acquire(self)?;
        if self.inline.is_some() {
            return self.compact_in_pieces(range);
        }
        let duty = Duty::current();
        // The compaction runs in a new thread with the low priority of compaction threads.
        thread::scope(|scope| {
            let builder = thread::Builder::new().name("minikv-manual".to_owned());
            let spawned = builder.spawn_scoped(scope, || {
                duty.share();
                lower_priority(COMPACTION_NICE);
                self.compact_in_pieces(range)
            });
            let thread =
                spawned.map_err(|error| Error::io("start a thread for", &self.dir, error))?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn compact_in_pieces(&self, range: KeyRange<'_>) -> Result<()> {
        // A compaction that is already running may keep entries because a reader could still see
        // them or because they had not expired yet. The outputs of such a compaction would count as
        // written after the request, and would not be rewritten.
        self.wait_for_merges_in(range)?;
        let request = {
            let mut state = self.state.lock();
            let (order, first_new) = (self.reads.order.user(), self.numbers.next());
            let request =
                ManualCompaction::new(&state.version, order, &self.options, range, first_new);
            let Some(request) = request else { return Ok(()) };
            let output_level = Some(request.output_level);
            state.compactions.manual = Some(Manual { output_level, waits: false });
            request
        };
        for level in 0..=request.output_level {
            let mut done = None;
            while let Some((piece, last_key)) =
                self.claim_piece(&request, level, done.as_deref())?
            {
                self.run_compaction(piece)?;
                self.relieve_level0();
                done = Some(last_key);
                if level == 0 {
                    // One piece holds all tables of level 0 that have keys in the range; tables
                    // added later are not part of the request.
                    break;
                }
            }
        }
        Ok(())
    }

    /// Runs the most urgent automatic compaction if level 0 has grown, so that writes do not have
    /// to wait.
    fn relieve_level0(&self) {
        let mut state = self.state.lock();
        if state.lifecycle.closing || state.version.level(0).len() < LEVEL0_COMPACT_FILES {
            return;
        }
        let Some(compaction) = self.pick(&state) else { return };
        let compaction = claim(&mut state, compaction);
        drop(state);
        // Ignore the error: `run_compaction` has recorded it in the state.
        let _ = self.run_compaction(compaction);
    }

    /// Claims the next piece of a level, after the user key `done`. Returns the piece and the last
    /// user key of the piece. Waits for tables that other compactions use; no automatic compaction
    /// starts during the wait.
    fn claim_piece(
        &self,
        request: &ManualCompaction,
        level: usize,
        done: Option<&[u8]>,
    ) -> Result<Option<(Arc<Compaction>, Vec<u8>)>> {
        let order = self.reads.order.user();
        let most = MAX_PIECE_TABLES.saturating_mul(self.options.max_file_bytes);
        let mut state = self.state.lock();
        let taken = loop {
            let Some((piece, last_key)) =
                request.next_piece(&state.version, order, most, level, done)
            else {
                break Ok(None);
            };
            if state.lifecycle.closing {
                break Err(Error::Closed);
            }
            if self.is_free_to_run(&state, &piece) {
                break Ok(Some((claim(&mut state, piece), last_key)));
            }
            let damaged =
                |file: &Arc<TableFile>| state.compactions.damaged.get(&file.number).cloned();
            if let Some(error) = piece.input_files().find_map(damaged) {
                break Err(error);
            }
            set_waits(&mut state, true);
            self.wait_for_change(&mut state);
        };
        if set_waits(&mut state, false) {
            self.reads.work.give();
        }
        taken
    }

    /// Returns whether `piece` may run: no running compaction conflicts with it, and compactions
    /// are not paused.
    fn is_free_to_run(&self, state: &State, piece: &Compaction) -> bool {
        let order = self.reads.order.user();
        !state.compactions.paused
            && piece.input_files().all(is_free)
            && !state.compactions.running.iter().any(|other| other.outputs_overlap(piece, order))
    }
}

/// Records whether the manual compaction waits. Returns whether it waited before.
fn set_waits(state: &mut State, waits: bool) -> bool {
    let Some(manual) = &mut state.compactions.manual else { return false };
    std::mem::replace(&mut manual.waits, waits)
}

/// Returns as many tables from the start of `files` as fit into a piece, but at least one. `most`
/// is the maximum size of a piece in bytes, including the overlapping tables of the level `below`.
fn first_files(
    version: &Version,
    order: &UserComparator,
    level: usize,
    files: &[Arc<TableFile>],
    below: Option<usize>,
    most: u64,
) -> Vec<Arc<TableFile>> {
    let fits = |count: usize| {
        let met =
            below.map(|below| version.overlapping(below, order, hull(&files[..count], order)));
        bytes_of(files[..count].iter().chain(&met.unwrap_or_default())) <= most
    };
    let count = (1..=files.len()).take_while(|&count| count == 1 || fits(count)).count();
    clean_cut_of(version.level(level), &files[..count], order)
}

/// Returns the inputs and the output level of the piece whose uppermost tables are `files`. The
/// output level is the next level, or a deeper one if the overlapping tables in the levels down to
/// it do not make the inputs exceed `most` bytes. Tables that are already in the request's output
/// level are rewritten within this level.
fn with_levels_below(
    version: &Version,
    order: &UserComparator,
    level: usize,
    files: Vec<Arc<TableFile>>,
    request: &ManualCompaction,
    most: u64,
) -> (Inputs, usize) {
    let mut all = files.clone();
    let mut inputs = vec![(level, files)];
    let mut output_level = level;
    for below in level + 1..=request.output_level {
        let met = version.overlapping(below, order, hull(&all, order));
        let met = clean_cut_of(version.level(below), &met, order);
        let is_much = bytes_of(all.iter().chain(&met)) > most;
        if below > level + 1 && is_much && !met.is_empty() {
            break;
        }
        all.extend_from_slice(&met);
        inputs.push((below, met));
        output_level = below;
    }
    (Inputs(inputs), output_level)
}

/// Returns the tables of level 0 that have keys in `range`, and all tables of level 0 that overlap
/// these tables, directly or through other tables.
fn closed_level0(
    version: &Version,
    order: &UserComparator,
    range: KeyRange<'_>,
) -> Vec<Arc<TableFile>> {
    let mut files = version.overlapping(0, order, range);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::version::testing::{numbers, order, version};

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_piece_holds_as_many_tables_as_fit_with_those_they_overlap_and_at_least_one() {
        let version = version([
            "L1: 3:[a-c]@2M 4:[d-f]@2M 5:[g-i]@2M",
            "L2: 6:[a-b]@1M 7:[d-e]@3M 8:[h-z]@1M",
        ]);
        let order = order().user().clone();
        let first = |from: usize, below, most| {
            let files = &version.level(1)[from..];
            numbers(&first_files(&version, &order, 1, files, below, most * MIB))
        };
        assert_eq!(first(0, None, 1), "3");
        assert_eq!(first(0, None, 4), "3 4");
        assert_eq!(first(0, None, 9), "3 4 5");
        assert_eq!(first(0, Some(2), 7), "3");
        assert_eq!(first(0, Some(2), 8), "3 4");
        assert_eq!(first(1, Some(2), 8), "4 5");
    }

    #[test]
    fn a_piece_goes_below_the_next_level_while_it_stays_small() {
        let version = version([
            "L1: 3:[a-c]@2M",
            "L2: 4:[b-d]@2M",
            "L3: 5:[a-e]@2M",
            "L4: 6:[x-z]@9M",
            "L5: 7:[a-b]@2M",
        ]);
        let order = order().user().clone();
        let piece = |output_level, most| {
            let (to, first_new) = (b"z".to_vec(), 9);
            let request = ManualCompaction { from: None, to, output_level, first_new };
            let files = version.level(1).to_vec();
            let (inputs, level) =
                with_levels_below(&version, &order, 1, files, &request, most * MIB);
            let files: Vec<_> = inputs.files().map(|(_, file)| file.clone()).collect();
            (numbers(&files), level)
        };
        assert_eq!(piece(2, 1), ("3 4".to_owned(), 2), "the next level is not too far");
        assert_eq!(piece(5, 5), ("3 4".to_owned(), 2));
        assert_eq!(piece(5, 6), ("3 4 5".to_owned(), 4), "nothing is met in level 4");
        assert_eq!(piece(5, 8), ("3 4 5 7".to_owned(), 5));
    }
}
