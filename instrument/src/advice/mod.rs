//! Advice on which filters are worthwhile for the lookups that a database receives.
//!
//! | file | contents |
//! | --- | --- |
//! | `shadow` | replay of lookups against filters that the tables do not have |
//! | `judge` | which filters to choose, and how certain the choice is |
//! | [`curve`] | how many block reads would miss a block cache of a given size |
//! | `levels` | how to divide the memory of filters among levels |
//! | `plan` | the filters that a replay assumes |
//! | `scans` | the scan work that filters could save |
//! | `show` | the advice as text |

use minikv::files::{LiveTables, NUM_LEVELS};
use minikv::{Db, Error, Filters, ReadOnlyDb, ReadSample, Readable, Result};

use crate::advice::judge::Evidence;
use crate::advice::levels::{Divisions, LevelUse};
use crate::advice::plan::{BlockFilters, FilterKind, FilterPlan, TableFilters, TreePlan};
use crate::advice::shadow::{Outcome, ReplayLookup, Shadow, TablesRead};
use crate::order::KeyOrder;

#[cfg(feature = "measure")]
pub mod curve;
pub(crate) mod grafite;
pub(crate) mod judge;
pub(crate) mod levels;
pub(crate) mod plan;
pub(crate) mod scans;
pub(crate) mod shadow;
mod show;

pub use judge::{Saving, Sureness};
pub use levels::{Division, LevelAdvice, LevelShare};
pub use scans::ScanAdvice;
pub use shadow::BlockRead;

/// An open database that has served reads: a [`Db`] or a [`ReadOnlyDb`].
pub trait Sampled: Readable {
    /// Returns the number of gets since the database was opened.
    fn gets(&self) -> u64;
}

impl Sampled for Db {
    fn gets(&self) -> u64 {
        self.stats().gets
    }
}

impl Sampled for ReadOnlyDb {
    fn gets(&self) -> u64 {
        self.stats().gets
    }
}

/// Advice on which filters are worth their memory, for a sample of the database's own lookups.
///
/// All numbers of blocks are numbers of data blocks searched by gets, whether the blocks are in the
/// cache or in files. `Display` writes the advice as tables, a verdict and the options to set.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct FilterAdvice {
    /// Recommended value of [`Options::filters`](minikv::Options::filters); [`Filters::None`] if
    /// filters are not worthwhile.
    #[serde(flatten)]
    pub filters: Filters,
    /// Certainty of the advice.
    pub sureness: Sureness,
    /// Number of gets since the database was opened.
    pub gets: u64,
    /// Number of gets in the sample that was replayed.
    pub sampled: u64,
    /// Number of gets in the sample whose keys have no value now.
    pub absent: u64,
    /// Number of gets in the sample that a memtable would answer now, regardless of the tables'
    /// filters.
    pub in_memory: u64,
    /// Average number of data blocks searched per get without filters.
    pub blocks_per_get: f64,
    /// Savings of the filters that the tables have now.
    pub now: Saving,
    /// Savings of the other filters that were tried.
    pub tried: Vec<Tried>,
    /// Average time to read, verify and decompress a data block on this machine, in nanoseconds.
    pub nanos_per_block: f64,
    /// Average size of a data block in its file, in bytes.
    pub bytes_per_block: f64,
    /// Number of tables read for the replay, and number of all tables.
    pub tables_read: (u64, u64),
    /// Division of the advised filters' memory among levels. If filters are not worthwhile, the
    /// memory of filters with 10 bits per key is divided instead. `None` if no table was read.
    pub by_level: Option<LevelAdvice>,
    /// The work of scans that filters could save; `None` if no scan had two bounds.
    pub scans: Option<ScanAdvice>,
}

/// The savings and costs of filters of one kind and size.
#[derive(Clone, Copy, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct Tried {
    /// The filters.
    #[serde(flatten)]
    pub filters: Filters,
    /// Data blocks saved, and memory taken.
    pub saving: Saving,
    /// Time to query the filters, in nanoseconds per get.
    pub probe_nanos: f64,
    /// Net time saved if all saved blocks would have been read from files, in nanoseconds per get:
    /// the time to read them minus the time to query the filters.
    pub nanos_saved: f64,
}

/// Sizes of the filters tried for each layout, in bits per key.
const SIZES: [u32; 6] = [4, 6, 8, 10, 12, 16];

/// Returns advice on which filters are worthwhile for the gets since the database was opened. The
/// keys of these gets in the sample ([`Options::sample_reads`](minikv::Options::sample_reads)) are
/// replayed against filters of other kinds and sizes. Writes nothing and leaves the block cache and
/// the statistics as they are.
///
/// Each table whose range contains a key of the sample is read once, which takes about as long as
/// the reads of a full compaction.
///
/// # Errors
/// Corruption and I/O errors of those tables; [`Error::InvalidArgument`] if the database was opened
/// without a sample, or if filters cannot be used with its comparator.
pub fn advise(db: &impl Sampled) -> Result<FilterAdvice> {
    let (tables, sample) = (LiveTables::of(db), sample_of(db)?);
    let keys = sample.keys();
    let (mut lookups, mut in_memory, mut absent) = (Vec::new(), 0, 0);
    for key in &keys {
        let (value, trace) = tables.get_traced(key)?;
        let present = value.is_some();
        absent += u64::from(!present);
        match trace.memtable_hits {
            0 => lookups.push(ReplayLookup { key, present }),
            _ => in_memory += 1,
        }
    }
    let LookupReplay { mut outcomes, read, tables: counts, whole } =
        replay(&tables, lookups.clone(), plans())?;
    for outcome in &mut outcomes {
        outcome.blocks.resize(keys.len(), 0);
        // Tables that were not read will have filters, too, so they are added to the size.
        outcome.filter_bytes = (outcome.filter_bytes as f64 * whole) as u64;
    }
    let [without, with @ ..] = &outcomes[..] else {
        unreachable!("a plan without filters is first")
    };
    let seen = Seen { gets: db.gets(), in_memory, absent, tables: counts, keys: keys.len() };
    let mut advice = judged(without, with, &read, seen);
    if counts.0 > 0 {
        let (layout, bits) = match advice.filters {
            Filters::None => (FilterKind::Block, 10),
            filters => FilterKind::of(filters),
        };
        let divisions = Divisions::of(&read.levels, layout, bits);
        let replay = replay(&tables, lookups, divisions.plans())?;
        let measured = [0, 1, 2].map(|i| replay.outcomes[i].false_blocks(&read.levels));
        advice.by_level = Some(divisions.measured(&read.levels, advice.sampled, measured));
    }
    advice.scans = scans::scan_advice(&tables, &sample)?;
    Ok(advice)
}

/// Returns the sample of the reads of `db`.
fn sample_of(db: &impl Sampled) -> Result<ReadSample> {
    let comparator = LiveTables::of(db).comparator();
    if !comparator.equal_means_same_bytes() {
        let what = format!(
            "the comparator {:?} may treat different bytes as one key, so filters are not used",
            comparator.name()
        );
        return Err(Error::InvalidArgument { what });
    }
    ReadSample::of(db).ok_or_else(|| {
        let what =
            "the database was opened without Options::sample_reads: there is no get to replay";
        Error::InvalidArgument { what: what.to_string() }
    })
}

fn evidence(outcome: &Outcome) -> Evidence<'_> {
    Evidence { blocks: &outcome.blocks, filter_bytes: outcome.filter_bytes }
}

/// Facts about the sample and the replay that become part of the advice.
struct Seen {
    keys: usize,
    /// Number of gets since the database was opened.
    gets: u64,
    in_memory: u64,
    absent: u64,
    tables: (u64, u64),
}

/// The results of a replay.
struct LookupReplay {
    /// One outcome for each plan.
    outcomes: Vec<Outcome>,
    read: TablesRead,
    /// Number of tables read, and number of all tables.
    tables: (u64, u64),
    /// Ratio of the size of all tables to the size of the tables read.
    whole: f64,
}

fn replay(
    live: &LiveTables,
    lookups: Vec<ReplayLookup<'_>>,
    plans: Vec<TreePlan>,
) -> Result<LookupReplay> {
    let order = KeyOrder::new(live.comparator());
    let mut keys: Vec<&[u8]> = lookups.iter().map(|lookup| lookup.key).collect();
    keys.sort_by(|a, b| order.compare(a, b));
    let mut shadow = Shadow::new(order.clone(), plans, lookups);
    let (mut tables, mut bytes, mut all_bytes) = ((0, 0), [0; NUM_LEVELS], [0; NUM_LEVELS]);
    for table in live.iter() {
        let info = table.info();
        tables.1 += 1;
        all_bytes[info.level] = info.file_bytes.saturating_add(all_bytes[info.level]);
        let (first, last) = (&info.first_key[..], &info.last_key[..]);
        let from = keys.partition_point(|key| order.compare(key, first).is_lt());
        if keys.get(from).is_none_or(|key| order.compare(key, last).is_gt()) {
            continue;
        }
        tables.0 += 1;
        bytes[info.level] = info.file_bytes.saturating_add(bytes[info.level]);
        shadow.table(info.level, &table.open()?, first, last)?;
    }
    let (outcomes, mut read) = shadow.finish();
    with_unread(&mut read.levels, &bytes, &all_bytes);
    let sum = |levels: [u64; NUM_LEVELS]| levels.into_iter().fold(0, u64::saturating_add);
    let whole = sum(all_bytes) as f64 / sum(bytes).max(1) as f64;
    Ok(LookupReplay { outcomes, read, tables, whole })
}

/// Adds the tables that were not read to `levels`, given the sizes of the tables read and of all
/// tables. The unread tables of a level are assumed to be like the level's other tables. If no
/// table of a level was read, its tables are assumed to be like the tables of the deepest level of
/// which some tables were read.
fn with_unread(levels: &mut [LevelUse; NUM_LEVELS], read: &[u64], all: &[u64]) {
    let Some(like) = (0..NUM_LEVELS).rev().find(|&level| read[level] > 0) else { return };
    let other = levels[like].clone();
    for (level, used) in levels.iter_mut().enumerate() {
        match (read[level], all[level]) {
            (_, 0) => {}
            (0, all) => {
                *used = other.unasked();
                used.scale(all as f64 / read[like] as f64);
            }
            (read, all) => used.scale(all as f64 / read as f64),
        }
    }
}

/// Returns the plans: no filters, the tables' own filters, and one plan for each of [`sizes`].
fn plans() -> Vec<TreePlan> {
    let own = FilterPlan { blocks: BlockFilters::Own, table: TableFilters::Own };
    let plans = [FilterPlan::new(FilterKind::None, 0), own].into_iter();
    plans
        .chain(sizes().map(|(layout, bits)| FilterPlan::new(layout, bits)))
        .map(TreePlan::from)
        .collect()
}

fn sizes() -> impl Iterator<Item = (FilterKind, u32)> {
    let layouts = [FilterKind::Block, FilterKind::Table];
    layouts.into_iter().flat_map(|layout| SIZES.map(|bits| (layout, bits)))
}

fn judged(without: &Outcome, with: &[Outcome], read: &TablesRead, seen: Seen) -> FilterAdvice {
    let [own, new @ ..] = with else { unreachable!("the tables' own filters are second") };
    let now = judge::advise(&without.blocks, &[evidence(own)]).savings[0];
    let new_evidence: Vec<_> = new.iter().map(evidence).collect();
    let advice = judge::advise(&without.blocks, &new_evidence);
    let each = |sum: u64, of: u64| sum as f64 / of.max(1) as f64;
    let nanos_per_block = each(read.read_nanos, read.data_blocks);
    let tried = sizes().zip(new).zip(&advice.savings);
    let tried: Vec<_> = tried
        .map(|(((layout, bits_per_key), outcome), &saving)| {
            let probe_nanos = each(outcome.probe_nanos, seen.keys as u64);
            let nanos_saved = saving.saved * nanos_per_block - probe_nanos;
            Tried { filters: layout.with(bits_per_key), saving, probe_nanos, nanos_saved }
        })
        .collect();
    FilterAdvice {
        filters: advice.plan.map_or(Filters::None, |plan| tried[plan].filters),
        sureness: advice.sureness,
        gets: seen.gets,
        sampled: seen.keys as u64,
        absent: seen.absent,
        in_memory: seen.in_memory,
        blocks_per_get: now.blocks_per_get + now.saved,
        now,
        tried,
        nanos_per_block,
        bytes_per_block: each(read.data_bytes, read.data_blocks),
        tables_read: seen.tables,
        by_level: None,
        scans: None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Checks a level that was half read, a level that was not read at all, and an empty level.
    #[test]
    fn tables_that_are_not_read_are_like_others_and_asked_nothing() {
        let mut levels: [LevelUse; NUM_LEVELS] = std::array::from_fn(|_| LevelUse::default());
        levels[1].add_table(&BTreeMap::from([(0, 40), (1, 60)]));
        levels[1].add_asked(40, 100, 7);
        let bytes = levels[1].filter_bytes(FilterKind::Block, 10);
        let sizes = |one: u64, two: u64| {
            let mut sizes = [0; NUM_LEVELS];
            (sizes[1], sizes[2]) = (one, two);
            sizes
        };
        with_unread(&mut levels, &sizes(1000, 0), &sizes(2000, 5000));
        let keys: Vec<_> = levels.iter().map(|level| level.keys).collect();
        assert_eq!(keys[..4], [0, 200, 500, 0]);
        let of = |level: usize| levels[level].filter_bytes(FilterKind::Block, 10);
        assert_eq!((of(1), of(2)), (2 * bytes, 5 * bytes));
        assert_eq!((levels[1].in_vain(), levels[2].in_vain()), (7, 0));
    }
}
