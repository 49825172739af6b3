//! Picks the tables to compact next.
//!
//! 1. Each level has a target: for level 0 a number of tables, because every table of level 0 makes
//!    every read more expensive; for every other level a size in bytes, at most ten times the
//!    target of the level above, or 13 1/3 times for level 2 ([`target_in`]).
//! 2. Levels at or over their target are tried in the order of their scores, highest first. The
//!    score is the level's size divided by its target.
//! 3. From level 0, all tables are taken, unless a running compaction uses one of them. From any
//!    other level, one table is taken: of the tables that no compaction uses, the one that overlaps
//!    the fewest bytes of the next level in proportion to its own size.
//! 4. If no level yields a compaction, a table with many tombstones is taken, because scans would
//!    have to step over them ([`tombstones`](crate::engine::version::tombstones)).
//! 5. A table whose entries have all expired comes before all others if neither deeper levels nor
//!    older tables of level 0 have keys in its range: it is dropped without being read. Otherwise
//!    the expired table is compacted like a table with many tombstones.
//!
//! A compaction is picked only if no running compaction uses its tables or writes to the same
//! range. The choice depends only on the arguments, the marks of taken tables (which cannot change,
//! because the caller holds the state lock), and the tombstone counts (which readers may update at
//! any time).

use std::ops::Range;
use std::sync::Arc;

use crate::engine::compact::plan::{Compaction, Inputs, clean_cut, clean_cut_of, hull, is_free};
use crate::engine::options::Options;
use crate::engine::version::{TableFile, Version, bytes_of};
use crate::format::edit::NUM_LEVELS;
use crate::format::key::{SeqNo, UserComparator};

/// Number of tables in level 0 at which level 0 is compacted; LevelDB's `kL0_CompactionTrigger`.
/// With a higher number, reads search more tables and compactions rewrite less.
pub(crate) const LEVEL0_COMPACT_FILES: usize = 4;
/// Highest ratio of a level's target to the target of the level above, from level 3 on. With a
/// higher ratio, there are fewer levels and more expensive merges.
const LEVEL_FACTOR: u64 = 10;

/// Returns the highest target of a sorted level, in bytes.
pub(crate) fn target_bytes(level: usize, options: &Options) -> u64 {
    // Five tables of the default size make 10 MiB, LevelDB's target for level 1. The target of
    // level 1 is at least the size of three memtables: if it were smaller, every compaction of
    // level 0 would rewrite all of level 1 for little new data. The levels below count from four.
    let memtables = |count: u64| count.saturating_mul(options.write_buffer_bytes as u64);
    let first = options.max_file_bytes.saturating_mul(5);
    match level {
        ..2 => first.max(memtables(3)),
        _ => {
            (1..level).fold(first.max(memtables(4)), |bytes, _| bytes.saturating_mul(LEVEL_FACTOR))
        }
    }
}

/// Returns the first sorted level whose target is at least `bytes`, or the last level if there is
/// none.
pub(crate) fn level_for(bytes: u64, options: &Options) -> usize {
    let fits = |level: &usize| bytes <= target_bytes(*level, options);
    (1..NUM_LEVELS).find(fits).unwrap_or(NUM_LEVELS - 1)
}

/// Returns the target of a sorted level of `version`, in bytes.
///
/// From the first level to the level in which the whole database would fit, each level is larger
/// than the one above by the same factor. With [`target_bytes`] alone, the last level could be
/// smaller than the level above it, which may hold as much outdated data.
pub(super) fn target_in(version: &Version, level: usize, options: &Options) -> u64 {
    let all = version.total_bytes();
    let (first, highest) = (target_bytes(1, options), target_bytes(level, options));
    match level_for(all, options) {
        last if level < last => {
            let factor = (all as f64 / first as f64).powf(1.0 / (last - 1) as f64);
            ((first as f64 * factor.powi(level as i32 - 1)) as u64).min(highest)
        }
        _ => highest,
    }
}

/// Returns the size of a level divided by its target: 1 means that the level is full.
fn score(version: &Version, level: usize, options: &Options) -> f64 {
    if level == 0 {
        version.level(0).len() as f64 / LEVEL0_COMPACT_FILES as f64
    } else {
        version.level_bytes(level) as f64 / target_in(version, level, options) as f64
    }
}

/// The oldest sequence number of a reader and the current time, which decide whether tombstones and
/// expired entries may be dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DropHorizon {
    /// The lowest sequence number of any reader.
    pub oldest_read: SeqNo,
    /// The current time in milliseconds since the Unix epoch, which decides which tables have
    /// expired. `None` while there are snapshots, because merges keep expired entries for
    /// snapshots.
    pub now: Option<u64>,
}

impl DropHorizon {
    /// Returns whether all entries of the table have expired.
    fn has_expired(&self, file: &TableFile) -> bool {
        self.now.is_some_and(|now| file.has_expired(now))
    }
}

/// Returns the most urgent compaction of tables of `levels` that conflicts with no compaction in
/// `running`.
pub(crate) fn pick(
    version: &Arc<Version>,
    order: &UserComparator,
    options: &Options,
    running: &[Arc<Compaction>],
    levels: Range<usize>,
    horizon: DropHorizon,
) -> Option<Compaction> {
    let is_in_the_way = |compaction: &Compaction| {
        !compaction.input_files().all(is_free)
            || running.iter().any(|other| other.outputs_overlap(compaction, order))
    };
    let in_levels = || version.files().filter(|(level, _)| levels.contains(level));
    let expired = in_levels().filter(|(_, file)| horizon.has_expired(file));
    for (level, file) in expired {
        if is_free(file) && hides_nothing(version, level, file, order) {
            return Some(Compaction::drop_of(version, order, level, file));
        }
    }
    let mut due: Vec<(usize, f64)> = (0..NUM_LEVELS - 1)
        .filter(|level| levels.contains(level))
        .map(|level| (level, score(version, level, options)))
        .filter(|&(_, score)| score >= 1.0)
        .collect();
    due.sort_by(|a, b| b.1.total_cmp(&a.1));
    let by_size = due.into_iter().find_map(|(level, _)| {
        let compaction = match level {
            0 => pick_level0(version, order, options),
            level => pick_sorted(version, level, order, options),
        }?;
        (!is_in_the_way(&compaction)).then_some(compaction)
    });
    by_size.or_else(|| {
        let mut many = in_levels().filter(|(_, file)| {
            file.tombstones.are_many(horizon.oldest_read) || horizon.has_expired(file)
        });
        many.find_map(|(level, file)| {
            let is_dense = file.tombstones.is_crawled() || horizon.has_expired(file);
            let compaction = pick_tombstones(version, level, file, is_dense, order, options)?;
            (!is_in_the_way(&compaction)).then_some(compaction)
        })
    })
}

/// Returns whether no other table has an older version of a key of the table `file`.
fn hides_nothing(
    version: &Version,
    level: usize,
    file: &Arc<TableFile>,
    order: &UserComparator,
) -> bool {
    let range = file.range();
    let is_older = |other: &Arc<TableFile>| level > 0 || other.number < file.number;
    // A neighbour in a sorted level may hold another version of the first or the last key.
    let beside = version.overlapping(level, order, range);
    let mut beside = beside.iter().filter(|other| other.number != file.number);
    !beside.any(is_older)
        && (level + 1..NUM_LEVELS).all(|level| version.overlapping(level, order, range).is_empty())
}

/// Returns the compaction that moves a table's many tombstones one level down, or drops them if no
/// deeper table has entries that they could hide. Unless `is_dense`, there must be enough
/// tombstones to justify rewriting the entries of the tables that they overlap in the next level.
fn pick_tombstones(
    version: &Arc<Version>,
    level: usize,
    file: &Arc<TableFile>,
    is_dense: bool,
    order: &UserComparator,
    options: &Options,
) -> Option<Compaction> {
    if !is_free(file) {
        return None;
    }
    let files = match level {
        0 if version.level(0).iter().all(is_free) => version.level(0).to_vec(),
        0 => return None,
        _ => clean_cut_of(version.level(level), std::slice::from_ref(file), order),
    };
    let range = hull(&files, order);
    let below = |from: usize| (from..NUM_LEVELS).map(|at| version.overlapping(at, order, range));
    // A table of level 0 is never rewritten in place: its new number would make it look newer.
    let has_below = below(level + 1).any(|met| !met.is_empty());
    if level > 0 && !has_below {
        if !files.iter().all(is_free) {
            return None;
        }
        let inputs = Inputs(vec![(level, files)]);
        return Some(Compaction::from_inputs(version.clone(), order, inputs, level));
    }
    // Unless `is_dense`, the number of tombstones must be at least half the number of entries that
    // the merge rewrites. Tombstones that are spread over all keys are not worth a merge, because
    // each of their tables overlaps many entries.
    let entries = |file: &Arc<TableFile>| file.tombstones.entries(file.file_bytes);
    let met = below(level + 1).next()?.iter().map(entries).fold(0, u64::saturating_add);
    let tombstones: u64 = files.iter().map(|file| file.tombstones.count()).sum();
    if !is_dense && tombstones < met / 2 {
        return None;
    }
    let compaction = Compaction::new(version, order, options, level, files)?;
    Some(if has_below { compaction } else { compaction.merging() })
}

/// Returns the compaction of all tables of level 0; `None` if a running compaction uses one of
/// them. All tables are taken because most of them overlap, and reads have to search each of them.
fn pick_level0(
    version: &Arc<Version>,
    order: &UserComparator,
    options: &Options,
) -> Option<Compaction> {
    let files = version.level(0);
    // Only one compaction of level 0 runs at a time: the tables of a second compaction could be
    // newer than those of the first, and could reach level 1 earlier.
    if !files.iter().all(is_free) {
        return None;
    }
    Compaction::new(version, order, options, 0, files.to_vec())
}

/// Returns the compaction of the free table that overlaps the fewest bytes of the next level in
/// proportion to its own size: this moves bytes down at the lowest cost.
fn pick_sorted(
    version: &Arc<Version>,
    level: usize,
    order: &UserComparator,
    options: &Options,
) -> Option<Compaction> {
    let below = version.level(level + 1);
    let mut best: Option<(u64, Vec<Arc<TableFile>>)> = None;
    let mut from = 0;
    for (at, file) in version.level(level).iter().enumerate() {
        // Both levels are sorted, so `from`, the position of the first table below that may
        // overlap, never moves back.
        while from < below.len() && order.compare(below[from].last_key(), file.first_key()).is_lt()
        {
            from += 1;
        }
        if !is_free(file) {
            continue;
        }
        let overlapping = below[from..]
            .iter()
            .take_while(|next| order.compare(next.first_key(), file.last_key()).is_le());
        let free = overlapping.clone().all(is_free);
        let cost = bytes_of(overlapping).saturating_mul(1024) / file.file_bytes.max(1);
        if free && best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, clean_cut(version.level(level), at, order)));
        }
    }
    let (_, files) = best?;
    if !files.iter().all(is_free) {
        return None;
    }
    Compaction::new(version, order, options, level, files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::version::testing::version;

    #[test]
    fn the_first_target_is_five_tables_or_three_memtables() {
        let target = |level, buffer, table| {
            let options = Options::default().write_buffer_bytes(buffer).max_file_bytes(table);
            target_bytes(level, &options)
        };
        assert_eq!(target(1, 1 << 20, 2 << 20), 10 << 20);
        assert_eq!(target(1, 8 << 20, 2 << 20), 24 << 20);
        assert_eq!(target(2, 8 << 20, 2 << 20), 320 << 20);
        assert_eq!(target(6, 1, 1), 500_000);
    }

    #[test]
    fn the_levels_up_to_the_size_of_the_database_grow_by_one_factor() {
        let options = Options::default().write_buffer_bytes(64 << 10).max_file_bytes(2 << 20);
        let targets = |levels: [&str; 2]| {
            let version = version(levels);
            [1, 2, 3, 4].map(|level| target_in(&version, level, &options) >> 20)
        };
        let fixed = [10, 100, 1000, 10_000];
        assert_eq!(targets(["L1: 3:[a-b]@9M", "L2: 4:[a-b]@91M"]), fixed);
        assert_eq!(targets(["L2: 3:[a-b]@90M", "L3: 4:[a-b]@300M"]), [10, 62, 1000, 10_000]);
        assert_eq!(targets(["L2: 3:[a-b]@60M", "L3: 4:[a-b]@41M"]), [10, 31, 1000, 10_000]);
        assert_eq!(targets(["L3: 3:[a-b]@1024M", "L4: 4:[a-b]@2048M"]), [10, 67, 455, 10_000]);
        // A database that fits in level 2, but was ingested into the last level.
        assert_eq!(targets(["L2: 3:[a-b]@9M", "L6: 4:[a-b]@90M"]), fixed);
    }
}
