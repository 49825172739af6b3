//! The plan of a compaction: its input tables, and the level of its outputs.

use std::sync::Arc;

use crate::base::entry_sum::EntrySum;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::engine::conservation::written_to;
use crate::engine::options::Options;
use crate::engine::report::event::CompactionKind;
use crate::engine::version::{KeyRange, TableFile, Version, bytes_of};
use crate::format::edit::{NUM_LEVELS, NewFile, VersionEdit};
use crate::format::key::UserComparator;

/// Input tables by level, beginning with the level that has the newest entries.
#[derive(Debug)]
pub(crate) struct Inputs(pub Vec<(usize, Vec<Arc<TableFile>>)>);

impl Inputs {
    pub(super) fn files(&self) -> impl Iterator<Item = (usize, &Arc<TableFile>)> {
        self.0.iter().flat_map(|(level, files)| files.iter().map(move |file| (*level, file)))
    }

    /// Returns the sorted runs of the inputs, each with its level: single tables of level 0, and
    /// all tables of another level.
    pub(super) fn runs(&self) -> impl Iterator<Item = (usize, &[Arc<TableFile>])> {
        self.0.iter().flat_map(|(level, files)| {
            let tables = if *level == 0 { 1 } else { files.len().max(1) };
            files.chunks(tables).map(move |run| (*level, run))
        })
    }

    /// Returns the sum of the entries of all runs that this process wrote.
    pub(super) fn known(&self) -> EntrySum {
        let known = self.runs().filter_map(|(_, files)| written_to(files));
        known.fold(EntrySum::default(), EntrySum::and)
    }

    pub(super) fn bytes(&self) -> u64 {
        bytes_of(self.files().map(|(_, file)| file))
    }
}

/// The plan of a compaction, which exists from the choice of the inputs to the end of the
/// compaction.
#[derive(Debug)]
pub(crate) struct Compaction {
    /// The version to which the inputs belong.
    pub(super) version: Arc<Version>,
    pub(super) inputs: Inputs,
    pub(super) output_level: usize,
    pub(super) kind: CompactionKind,
    /// Lowest user key of all inputs.
    first_key: Vec<u8>,
    /// Highest user key of all inputs.
    last_key: Vec<u8>,
}

impl Compaction {
    /// Returns the compaction of `files` of `level` into the next level, together with the tables
    /// that they overlap there; `None` if another compaction uses any of these tables.
    pub(crate) fn new(
        version: &Arc<Version>,
        order: &UserComparator,
        options: &Options,
        level: usize,
        files: Vec<Arc<TableFile>>,
    ) -> Option<Compaction> {
        if files.is_empty() {
            return None;
        }
        let output_level = level + 1;
        let met = version.overlapping(output_level, order, hull(&files, order));
        let met = clean_cut_of(version.level(output_level), &met, order);
        if !met.iter().all(is_free) {
            return None;
        }
        let is_move = met.is_empty() && {
            let disjoint = level > 0 || are_disjoint(&files, order);
            let grandparents = match output_level + 1 {
                NUM_LEVELS.. => 0,
                below => bytes_of(&version.overlapping(below, order, hull(&files, order))),
            };
            let own = bytes_of(&files);
            let limit = options.max_file_bytes.max(own).saturating_mul(MAX_GRANDPARENT_FACTOR);
            disjoint && grandparents <= limit
        };
        let inputs = Inputs(vec![(level, files), (output_level, met)]);
        let merge = Compaction::from_inputs(version.clone(), order, inputs, output_level);
        let kind = if is_move { CompactionKind::Move } else { CompactionKind::Merge };
        Some(Compaction { kind, ..merge })
    }

    /// Returns the merge of `inputs`. In the levels from the first input level to `output_level`,
    /// `inputs` must contain all tables between the first and the last key; only newer tables of
    /// level 0 may be left out.
    pub(crate) fn from_inputs(
        version: Arc<Version>,
        order: &UserComparator,
        inputs: Inputs,
        output_level: usize,
    ) -> Compaction {
        let levels = inputs.0.iter().map(|(level, _)| *level);
        debug_assert!(levels.clone().is_sorted_by(|a, b| a < b), "levels of inputs descend");
        debug_assert!(levels.clone().all(|level| level <= output_level), "outputs above inputs");
        debug_assert!(inputs.files().next().is_some(), "a compaction without inputs");
        let all: Vec<_> = inputs.files().map(|(_, file)| file.clone()).collect();
        let range = hull(&all, order);
        Compaction {
            first_key: range.from.unwrap_or_default().to_vec(),
            last_key: range.to.unwrap_or_default().to_vec(),
            version,
            inputs,
            output_level,
            kind: CompactionKind::Merge,
        }
    }

    /// Turns the compaction into a merge, even if its inputs could be moved: a move would free no
    /// space.
    pub(crate) fn merging(self) -> Compaction {
        Compaction { kind: CompactionKind::Merge, ..self }
    }

    /// Returns the compaction that drops a table of `level`. The table must not hide entries of
    /// other tables.
    pub(super) fn drop_of(
        version: &Arc<Version>,
        order: &UserComparator,
        level: usize,
        file: &Arc<TableFile>,
    ) -> Compaction {
        let inputs = Inputs(vec![(level, vec![file.clone()])]);
        let merge = Compaction::from_inputs(version.clone(), order, inputs, level);
        Compaction { kind: CompactionKind::Drop, ..merge }
    }

    /// Returns whether the outputs of the two compactions could overlap. (Shared inputs are
    /// prevented by the marks on the tables.)
    pub(crate) fn outputs_overlap(&self, other: &Compaction, order: &UserComparator) -> bool {
        self.output_level == other.output_level && self.range().overlaps(order, other.range())
    }

    /// Returns the range of the compaction's user keys.
    pub(crate) fn range(&self) -> KeyRange<'_> {
        KeyRange { from: Some(&self.first_key), to: Some(&self.last_key) }
    }

    /// Marks the inputs as taken, or as free again. The caller must hold the state lock.
    pub(crate) fn mark(&self, taken: bool) {
        for (_, file) in self.inputs.files() {
            let was_taken = file.compacting.swap(taken, Relaxed);
            debug_assert_ne!(was_taken, taken, "two compactions have table {:06}", file.number);
        }
    }

    /// Returns the input tables.
    pub(crate) fn input_files(&self) -> impl Iterator<Item = &Arc<TableFile>> {
        self.inputs.files().map(|(_, file)| file)
    }

    /// Returns the level of the outputs.
    pub(crate) fn output_level(&self) -> usize {
        self.output_level
    }

    /// Returns the size of the input tables in bytes.
    pub(crate) fn input_bytes(&self) -> u64 {
        self.inputs.bytes()
    }

    /// Returns the edit that replaces the inputs with `new_files`.
    pub(super) fn edit(&self, new_files: Vec<NewFile>) -> VersionEdit {
        let deleted = self.inputs.files().map(|(level, file)| (level, file.number));
        VersionEdit { deleted_files: deleted.collect(), new_files, ..VersionEdit::default() }
    }
}

/// Maximum ratio of the bytes that a table overlaps in the next level to the target size of a
/// table. A table above this ratio is not moved down, and an output table ends when it exceeds the
/// ratio. A higher ratio makes fewer, larger tables, but their later merges are more expensive.
pub(crate) const MAX_GRANDPARENT_FACTOR: u64 = 10;

/// Returns whether no compaction has taken the table.
pub(crate) fn is_free(file: &Arc<TableFile>) -> bool {
    !file.compacting.load(Relaxed)
}

/// Returns the table at position `at` and all neighbours that are connected to it by shared user
/// keys. Two tables of a level may hold versions of the same key, because old releases of LevelDB
/// could end a table between two versions. If only the newer version moved down, the older version
/// would hide it.
pub(super) fn clean_cut(
    files: &[Arc<TableFile>],
    at: usize,
    order: &UserComparator,
) -> Vec<Arc<TableFile>> {
    let shares_key =
        |left: usize| order.compare(files[left].last_key(), files[left + 1].first_key()).is_eq();
    let mut first = at;
    while first > 0 && shares_key(first - 1) {
        first -= 1;
    }
    let mut last = at;
    while last + 1 < files.len() && shares_key(last) {
        last += 1;
    }
    files[first..=last].to_vec()
}

/// Returns `files` of a sorted level and all neighbours that are connected to them by shared user
/// keys.
pub(crate) fn clean_cut_of(
    level_files: &[Arc<TableFile>],
    files: &[Arc<TableFile>],
    order: &UserComparator,
) -> Vec<Arc<TableFile>> {
    let position = |file: &Arc<TableFile>| level_files.iter().position(|f| Arc::ptr_eq(f, file));
    let (Some(first), Some(last)) =
        (files.first().and_then(position), files.last().and_then(position))
    else {
        return files.to_vec();
    };
    let mut cut = clean_cut(level_files, first, order);
    cut.extend(level_files[first..=last].iter().cloned());
    cut.extend(clean_cut(level_files, last, order));
    let mut seen = std::collections::BTreeSet::new();
    cut.retain(|file| seen.insert(file.number));
    cut
}

/// Returns the smallest range of user keys that contains the ranges of all `files`.
pub(crate) fn hull<'a>(files: &'a [Arc<TableFile>], order: &UserComparator) -> KeyRange<'a> {
    let from = files.iter().map(|file| file.first_key()).min_by(|a, b| order.compare(a, b));
    let to = files.iter().map(|file| file.last_key()).max_by(|a, b| order.compare(a, b));
    KeyRange { from, to }
}

/// Returns whether the key ranges of `files`, which may be in any order, are disjoint.
fn are_disjoint(files: &[Arc<TableFile>], order: &UserComparator) -> bool {
    let mut sorted: Vec<_> = files.iter().collect();
    sorted.sort_by(|a, b| order.compare(a.first_key(), b.first_key()));
    sorted.windows(2).all(|pair| order.compare(pair[0].last_key(), pair[1].first_key()).is_lt())
}
