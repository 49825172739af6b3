//! Shadow filters: lookups replayed against filters that the tables do not have.
//!
//! A table is walked once. Its keys make one filter for each [`Plan`], and at the same time tell
//! of each lookup which data block it would come to and whether its key is there. With that, what
//! a get would do under each plan is counted without writing anything and without reading a block
//! twice.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::base::Result;
use crate::base::stats::{LevelTrace, NUM_LEVELS, ReadTrace};
use crate::filter::{FilterBlockBuilder, FilterBlockReader, FilterPolicy};
use crate::format::key::{ParsedKey, UserComparator, user_key};
use crate::table::reader::Table;

/// The block filters that a plan gives tables.
#[derive(Clone, Debug)]
pub enum BlockFilters {
    /// None.
    None,
    /// Those that each table has.
    Own,
    /// New ones, of this policy.
    New(Arc<dyn FilterPolicy>),
}

/// The filters that tables should have.
#[derive(Clone, Debug)]
pub struct Plan {
    /// One filter for each 2 KiB of data blocks.
    pub blocks: BlockFilters,
}

/// A lookup to replay.
#[derive(Clone, Copy, Debug)]
pub struct Lookup<'a> {
    /// The user key.
    pub key: &'a [u8],
    /// Whether a get finds a value.
    pub present: bool,
}

/// What makes a bloom filter as good as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilterShape {
    /// Bits of the array: `m`.
    pub bits: u64,
    /// Different keys it was made of: `n`.
    pub keys: u64,
    /// Bits probed a key: `k`.
    pub probes: u32,
}

/// What the lookups come to under one plan.
///
/// Block caches are not replayed: every data block counts as read from its file, and bytes do not
/// count.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Of the lookups that find a value.
    pub present: ReadTrace,
    /// Of the others.
    pub absent: ReadTrace,
    /// By level: block filters asked about a key that they were not made of, by shape. Of a key
    /// looked up again and again only the first time counts: a filter that errs errs each time.
    pub block_filters_tried: [BTreeMap<FilterShape, u64>; NUM_LEVELS],
    /// The same, those of them that said "maybe".
    pub block_filters_wrong: [u64; NUM_LEVELS],
    /// How the errors lie among the filters that were asked.
    pub among_filters: Clusters,
    /// How the errors lie among the keys.
    pub among_keys: Clusters,
    /// Bytes of the block filters of all tables.
    pub block_filter_bytes: u64,
    /// Filter blocks, one for each table, in the order the tables were given, if they are kept.
    pub filter_blocks: Vec<Option<Bytes>>,
}

/// Sums over clusters of tries that are not independent: those of one filter, which may be fuller
/// than another, and those of one key, whose hash may be worse than another's.
///
/// With them the variance of a rate can be told: a cluster with `t` tries, of which `w` were
/// wrong, adds `(w - rate * t)^2` to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clusters {
    /// The sum of `w * w`.
    pub wrong_squared: u64,
    /// The sum of `w * t`.
    pub wrong_by_tried: u64,
    /// The sum of `t * t`.
    pub tried_squared: u64,
}

impl Clusters {
    fn add(&mut self, tried: u64, wrong: u64) {
        self.wrong_squared += wrong * wrong;
        self.wrong_by_tried += wrong * tried;
        self.tried_squared += tried * tried;
    }

    /// The sum over clusters of `(w - rate * t)^2`.
    pub fn deviation(&self, rate: f64) -> f64 {
        let [ww, wt, tt] = [self.wrong_squared, self.wrong_by_tried, self.tried_squared];
        ww as f64 - 2.0 * rate * wt as f64 + rate * rate * tt as f64
    }
}

/// What the tables hold.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// Tables.
    pub tables: u64,
    /// Data blocks.
    pub data_blocks: u64,
    /// Bytes of data blocks as stored.
    pub data_bytes: u64,
    /// Entries: versions and tombstones too.
    pub entries: u64,
}

/// A replay under way: tables are given in the order in which a get asks them.
#[derive(Debug)]
pub struct Shadow<'a> {
    order: UserComparator,
    plans: Vec<Plan>,
    /// In key order.
    lookups: Vec<Lookup<'a>>,
    /// Which found their key in a table already.
    answered: Vec<bool>,
    keep_filters: bool,
    held: Held,
    outcomes: Vec<Outcome>,
    /// For each plan and lookup: filters that were asked in vain, and those that were wrong.
    tries: Vec<Vec<(u16, u16)>>,
}

/// A lookup that came to a table.
struct Visit {
    lookup: usize,
    /// Where the data block starts that the index names, if it names one.
    block: Option<u64>,
    found: bool,
}

/// A table's keys, walked.
struct Walk {
    visits: Vec<Visit>,
    /// New filter blocks, for the plans that have any.
    filters: Vec<Option<Vec<u8>>>,
    /// Different keys of each span of offsets that shares a filter.
    keys_per_span: BTreeMap<u64, u64>,
}

/// LevelDB's `kFilterBaseLg`.
const FILTER_BASE_LG: u32 = 11;

impl<'a> Shadow<'a> {
    /// Replays `lookups` under each of `plans`. Lookups that a memtable answers do not belong
    /// here.
    pub fn new(order: UserComparator, plans: Vec<Plan>, mut lookups: Vec<Lookup<'a>>) -> Self {
        lookups.sort_by(|a, b| order.compare(a.key, b.key));
        Shadow {
            answered: vec![false; lookups.len()],
            outcomes: plans.iter().map(|_| Outcome::default()).collect(),
            tries: plans.iter().map(|_| Vec::new()).collect(),
            order,
            plans,
            lookups,
            keep_filters: false,
            held: Held::default(),
        }
    }

    /// Keeps the filters that are made, in [`Outcome::filter_blocks`].
    #[must_use]
    pub fn keep_filters(mut self) -> Self {
        self.keep_filters = true;
        self
    }

    /// Replays the lookups whose key is in the range of `table`, `first` to `last`, on `level`.
    ///
    /// # Errors
    /// Corruption of the table; an error of its file.
    pub fn table(&mut self, level: usize, table: &Table, first: &[u8], last: &[u8]) -> Result<()> {
        let before =
            |key: &[u8]| self.lookups.partition_point(|l| self.order.compare(l.key, key).is_lt());
        let start = before(first);
        let end = start
            + self.lookups[start..].partition_point(|l| self.order.compare(l.key, last).is_le());
        let walk = self.walk(table, start..end)?;
        for (plan, made) in walk.filters.iter().enumerate() {
            let reader = match &self.plans[plan].blocks {
                BlockFilters::None => None,
                BlockFilters::Own => table.filter_block().cloned(),
                BlockFilters::New(policy) => made
                    .clone()
                    .map(|bytes| FilterBlockReader::new(policy.clone(), Bytes::from(bytes))),
            };
            let replay = Replay { level, walk: &walk, lookups: &self.lookups };
            let tries = &mut self.tries[plan];
            if reader.is_some() {
                tries.resize(self.lookups.len(), (0, 0));
            }
            self.outcomes[plan].add(&replay, reader.as_ref(), tries);
        }
        for visit in walk.visits.iter().filter(|visit| visit.found) {
            self.answered[visit.lookup] = true;
        }
        for (outcome, made) in self.outcomes.iter_mut().zip(walk.filters) {
            if self.keep_filters {
                outcome.filter_blocks.push(made.map(Bytes::from));
            }
        }
        self.held.tables += 1;
        Ok(())
    }

    /// What was counted, a plan after the other, and what the tables hold.
    pub fn finish(mut self) -> (Vec<Outcome>, Held) {
        for (outcome, tries) in self.outcomes.iter_mut().zip(&self.tries) {
            for &(tried, wrong) in tries {
                outcome.among_keys.add(u64::from(tried), u64::from(wrong));
            }
        }
        (self.outcomes, self.held)
    }

    /// Reads every entry of `table`: makes the filters, and says where the lookups in `range` come.
    fn walk(&mut self, table: &Table, range: Range<usize>) -> Result<Walk> {
        let new_filter = |plan: &Plan| match &plan.blocks {
            BlockFilters::New(policy) => Some(FilterBlockBuilder::new(&**policy)),
            _ => None,
        };
        let mut builders: Vec<_> = self.plans.iter().map(new_filter).collect();
        let mut keys_per_span = BTreeMap::new();
        let mut visits = Vec::new();
        let mut pending = range.filter(|&i| !self.answered[i]).peekable();
        let mut end_of_data = 0;
        let mut last_key: Option<Vec<u8>> = None;
        for info in table.blocks()? {
            let offset = info.handle.offset;
            builders.iter_mut().flatten().for_each(|builder| builder.start_block(offset));
            let span_keys = keys_per_span.entry(offset >> FILTER_BASE_LG).or_insert(0);
            let (_, block) = table.read_block(info.handle, true)?;
            let mut visit = |lookup, found| {
                visits.push(Visit { lookup, block: Some(offset), found });
            };
            let mut cursor = block.cursor();
            let mut valid = cursor.seek_to_first()?;
            while valid {
                let key = ParsedKey::parse(cursor.key())?.user_key;
                builders.iter_mut().flatten().for_each(|builder| builder.add_key(key));
                if last_key.as_deref() != Some(key) {
                    *span_keys += 1;
                    last_key = Some(key.to_vec());
                    let order = |i: &usize| self.order.compare(self.lookups[*i].key, key);
                    while let Some(i) = pending.next_if(|i| order(i).is_lt()) {
                        visit(i, false);
                    }
                    while let Some(i) = pending.next_if(|i| order(i).is_eq()) {
                        visit(i, true);
                    }
                }
                self.held.entries += 1;
                valid = cursor.next()?;
            }
            // What lies between the block's last key and its separator is sent to this block too.
            let separator = user_key(&info.separator);
            let within = |i: &usize| self.order.compare(self.lookups[*i].key, separator).is_le();
            while let Some(i) = pending.next_if(within) {
                visit(i, false);
            }
            end_of_data = info.handle.end().unwrap_or(u64::MAX);
            self.held.data_blocks += 1;
            self.held.data_bytes += info.handle.size;
        }
        visits.extend(pending.map(|lookup| Visit { lookup, block: None, found: false }));
        let finish = |builder: Option<FilterBlockBuilder>| {
            builder.map(|mut builder| {
                builder.start_block(end_of_data);
                builder.finish()
            })
        };
        Ok(Walk { visits, filters: builders.into_iter().map(finish).collect(), keys_per_span })
    }
}

impl Outcome {
    /// Both classes of lookups.
    pub fn all(&self) -> ReadTrace {
        let mut all = self.present.clone();
        all.add(&self.absent);
        all
    }

    fn add(
        &mut self,
        replay: &Replay<'_>,
        filter: Option<&FilterBlockReader>,
        tries: &mut [(u16, u16)],
    ) {
        let &Replay { level, walk, lookups } = replay;
        self.block_filter_bytes += filter.map_or(0, |filter| filter.memory_bytes() as u64);
        let mut previous: Option<&[u8]> = None;
        // The filter asked last, as the span it is of, and how often it was tried and wrong.
        let mut cluster = (0, 0, 0);
        for visit in &walk.visits {
            let lookup = &lookups[visit.lookup];
            let first_time = previous != Some(lookup.key);
            previous = Some(lookup.key);
            let trace = if lookup.present { &mut self.present } else { &mut self.absent };
            let level_trace = &mut trace.levels[level];
            level_trace.tables_considered += 1;
            level_trace.index_seeks += 1;
            let Some(block) = visit.block else { continue };
            let maybe = filter.is_none_or(|filter| filter.key_may_match(block, lookup.key));
            count_block(level_trace, filter.is_some(), maybe, visit.found);
            let Some(filter) = filter.filter(|_| first_time && !visit.found) else { continue };
            let span = block >> FILTER_BASE_LG;
            let keys = walk.keys_per_span.get(&span).copied();
            let shape = shape_of(filter.filter(block), keys.unwrap_or(0));
            *self.block_filters_tried[level].entry(shape).or_insert(0) += 1;
            self.block_filters_wrong[level] += u64::from(maybe);
            let (tried, wrong) = &mut tries[visit.lookup];
            (*tried, *wrong) = (tried.saturating_add(1), wrong.saturating_add(u16::from(maybe)));
            if cluster.0 != span {
                self.among_filters.add(cluster.1, cluster.2);
                cluster = (span, 0, 0);
            }
            cluster = (span, cluster.1 + 1, cluster.2 + u64::from(maybe));
        }
        self.among_filters.add(cluster.1, cluster.2);
    }
}

/// What is replayed on one table.
struct Replay<'a> {
    level: usize,
    walk: &'a Walk,
    lookups: &'a [Lookup<'a>],
}

/// Counts a visit of a data block as a get would.
fn count_block(trace: &mut LevelTrace, filtered: bool, maybe: bool, found: bool) {
    if filtered {
        trace.filter_checks += 1;
        trace.filter_negatives += u64::from(!maybe);
        trace.filter_true_positives += u64::from(maybe && found);
        trace.filter_false_positives += u64::from(maybe && !found);
    }
    trace.data_blocks_from_file += u64::from(maybe);
}

/// The shape of a filter in LevelDB's format; one without bits matches nothing.
fn shape_of(filter: Option<&[u8]>, keys: u64) -> FilterShape {
    let (probes, array) = filter.and_then(|filter| filter.split_last()).unwrap_or((&0, &[]));
    FilterShape { bits: array.len() as u64 * 8, keys, probes: u32::from(*probes) }
}
