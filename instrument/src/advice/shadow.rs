//! Shadow filters: replaying lookups against filters that the tables do not have.
//!
//! Each table is read once, and its keys are added to new filters for each [`TreePlan`]. For each
//! lookup, the keys also show which data block the lookup would reach and whether the table has the
//! lookup's key. From these results, the work of a get under each plan is counted, without writing
//! anything or reading a block twice.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::iter::Peekable;
use std::ops::Range;

use crate::advice::levels::LevelUse;
use crate::advice::plan::{
    BlockFilters, Builders, FilterPlan, MadeFilters, TableFilters, TreePlan,
};
use minikv::ReadTrace;
use minikv::Result;
use minikv::files::{BlockInfo, ParsedKey, TableBlock, TableReader, user_key};
use minikv::filter::{FilterBlockReader, TableFilter};
use std::time::Instant;

use crate::order::KeyOrder;
use minikv::files::NUM_LEVELS;
use minikv::stats::LevelTrace;

/// A lookup to replay.
#[derive(Clone, Copy, Debug)]
pub struct ReplayLookup<'a> {
    /// The user key.
    pub key: &'a [u8],
    /// Whether a get finds a value.
    pub present: bool,
}

/// The parameters that determine a filter's false-positive rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FilterShape {
    /// A bloom filter.
    Bloom {
        /// Length of the bit array: `m`.
        bits: u64,
        /// Number of distinct keys in the filter: `n`.
        keys: u64,
        /// Number of bits probed per key: `k`.
        probes: u32,
    },
    /// A filter of fingerprints.
    Fingerprints {
        /// Length of a fingerprint, in bits.
        bits: u32,
    },
}

/// A read of a data block by a lookup, from the cache or from the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRead {
    /// Position of the lookup among all lookups.
    pub lookup: u32,
    /// Number of the table in the replay.
    pub table: u32,
    /// Number of the block in the table.
    pub block: u32,
    /// The quarter of the block, from 0, in which the key is or would be.
    pub quarter: u8,
    /// Length of the block when it is uncompressed, in bytes.
    pub bytes: u32,
}

/// The counts of all lookups under one plan.
///
/// Block caches are not simulated: every data block counts as read from its file. Bytes are not
/// counted.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Counts of the lookups that find a value.
    pub present: ReadTrace,
    /// Counts of the lookups that find no value.
    pub absent: ReadTrace,
    /// Number of filter queries for keys that the filter does not have, by level and shape. A key
    /// that is looked up repeatedly counts only once, because a filter that gives a false positive
    /// for a key does so every time.
    pub tried: [BTreeMap<FilterShape, u64>; NUM_LEVELS],
    /// Number of the queries in `tried` that were answered "maybe", by level.
    pub wrong: [u64; NUM_LEVELS],
    /// The distribution of false positives over filters.
    pub among_filters: Clusters,
    /// The distribution of false positives over keys.
    pub among_keys: Clusters,
    /// Size of the filters of all tables, in bytes.
    pub filter_bytes: u64,
    /// Number of data blocks that each lookup reads, in key order.
    pub blocks: Vec<u16>,
    /// Time taken by the queries of the filters, in nanoseconds.
    pub probe_nanos: u64,
    /// The new filters, in the order of tables; empty unless they are kept.
    pub made: Vec<MadeFilters>,
    /// The reads of data blocks in the order of the lookups; empty unless they are kept.
    pub reads: Vec<BlockRead>,
}

/// Sums over clusters of queries that are not independent: the queries of one filter, which may be
/// fuller than others, and the queries for one key, whose hash may collide more often than others.
///
/// The sums give the variance of a rate: a cluster of `t` queries, of which `w` were false
/// positives, contributes `(w - rate * t)^2`.
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

    /// Returns the sum over clusters of `(w - rate * t)^2`.
    pub fn deviation(&self, rate: f64) -> f64 {
        let [ww, wt, tt] = [self.wrong_squared, self.wrong_by_tried, self.tried_squared];
        ww as f64 - 2.0 * rate * wt as f64 + rate * rate * tt as f64
    }
}

/// Totals over the tables read.
#[derive(Clone, Debug, Default)]
pub struct TablesRead {
    /// Number of tables.
    pub tables: u64,
    /// Number of data blocks.
    pub data_blocks: u64,
    /// Size of the data blocks as stored, in bytes.
    pub data_bytes: u64,
    /// Number of entries, including old versions and tombstones.
    pub entries: u64,
    /// Time to read the data blocks from their files, verify and decompress them, in nanoseconds:
    /// for each table, the median time per block multiplied by the number of blocks.
    pub read_nanos: u64,
    /// The contents of each level, and the lookups that search it in vain.
    pub levels: [LevelUse; NUM_LEVELS],
}

/// A replay in progress. Tables must be given in the order in which a get searches them.
#[derive(Debug)]
pub struct Shadow<'a> {
    order: KeyOrder,
    plans: Vec<TreePlan>,
    /// The lookups, in key order.
    lookups: Vec<ReplayLookup<'a>>,
    /// For each lookup in `lookups`, its position in the order in which the lookups were given.
    positions: Vec<u32>,
    /// Whether each lookup has found its key in a table.
    answered: Vec<bool>,
    keep_filters: bool,
    keep_reads: bool,
    totals: TablesRead,
    outcomes: Vec<Outcome>,
    /// For each plan and lookup, the number of filters queried for an absent key, and the number of
    /// false positives.
    tries: Vec<Vec<(u16, u16)>>,
}

/// A lookup that reaches a table.
struct Visit {
    lookup: usize,
    /// Offset of the data block to which the index leads; `None` if the index leads to no block.
    block: Option<u64>,
    /// The quarter of the block, from 0, in which the key is or would be.
    quarter: u8,
    found: bool,
}

/// The result of reading all keys of a table.
struct Walk {
    visits: Vec<Visit>,
    /// New filters by plan; empty for plans without new filters.
    made: Vec<MadeFilters>,
    /// Number of distinct keys in each span of offsets that shares a filter.
    keys_per_span: BTreeMap<u64, u64>,
    /// Offset and uncompressed length of each data block.
    blocks: Vec<(u64, u32)>,
}

/// Binary logarithm of the span of offsets that shares a filter: LevelDB's `kFilterBaseLg`.
const FILTER_BASE_LG: u32 = 11;

impl<'a> Shadow<'a> {
    /// Creates a replay of `lookups` under each of `plans`. `lookups` must not include lookups that
    /// a memtable answers.
    pub fn new(
        order: KeyOrder,
        plans: Vec<impl Into<TreePlan>>,
        lookups: Vec<ReplayLookup<'a>>,
    ) -> Self {
        let plans: Vec<TreePlan> = plans.into_iter().map(Into::into).collect();
        let mut lookups: Vec<_> = lookups.into_iter().zip(0..).collect();
        lookups.sort_by(|(a, _), (b, _)| order.compare(a.key, b.key));
        let (lookups, positions): (Vec<_>, Vec<u32>) = lookups.into_iter().unzip();
        Shadow {
            positions,
            keep_reads: false,
            answered: vec![false; lookups.len()],
            outcomes: plans
                .iter()
                .map(|_| Outcome { blocks: vec![0; lookups.len()], ..Outcome::default() })
                .collect(),
            tries: plans.iter().map(|_| Vec::new()).collect(),
            order,
            plans,
            lookups,
            keep_filters: false,
            totals: TablesRead::default(),
        }
    }

    /// Makes the replay keep the new filters, in [`Outcome::made`].
    #[must_use]
    pub fn keep_filters(mut self) -> Self {
        self.keep_filters = true;
        self
    }

    /// Makes the replay keep the reads of data blocks, in [`Outcome::reads`].
    #[must_use]
    pub fn keep_reads(mut self) -> Self {
        self.keep_reads = true;
        self
    }

    /// Replays the lookups whose key is in the range of `table`, from `first` to `last`, at
    /// `level`.
    ///
    /// # Errors
    /// Corruption of the table; an I/O error.
    pub fn table(
        &mut self,
        level: usize,
        table: &TableReader,
        first: &[u8],
        last: &[u8],
    ) -> Result<()> {
        let before =
            |key: &[u8]| self.lookups.partition_point(|l| self.order.compare(l.key, key).is_lt());
        let start = before(first);
        let end = start
            + self.lookups[start..].partition_point(|l| self.order.compare(l.key, last).is_le());
        let walk = self.walk(level, table, start..end)?;
        self.totals.levels[level].add_table(&walk.keys_per_span);
        self.count_uses(level, &walk);
        for (i, (plan, made)) in self.plans.iter().zip(&walk.made).enumerate() {
            let plan = &plan.0[level];
            let asked = AskedFilter::of(plan, table, made);
            let replay = TableReplay { level, walk: &walk, lookups: &self.lookups };
            if self.keep_reads {
                let number = self.totals.tables as u32;
                self.outcomes[i].keep_reads(&replay, &asked, number, &self.positions);
            }
            let tries = &mut self.tries[i];
            if !matches!(asked, AskedFilter::Nothing) {
                tries.resize(self.lookups.len(), (0, 0));
            }
            self.outcomes[i].filter_bytes += plan.bytes(table, made);
            self.outcomes[i].add(&replay, &asked, tries);
        }
        for visit in walk.visits.iter().filter(|visit| visit.found) {
            self.answered[visit.lookup] = true;
        }
        if self.keep_filters {
            for (outcome, made) in self.outcomes.iter_mut().zip(walk.made) {
                outcome.made.push(made);
            }
        }
        self.totals.tables += 1;
        Ok(())
    }

    /// Returns the outcome of each plan, and the totals over the tables.
    pub fn finish(mut self) -> (Vec<Outcome>, TablesRead) {
        debug_assert!(
            self.outcomes.iter().all(|outcome| outcome.is_balanced()),
            "a filter's answers do not add up"
        );
        for outcome in &mut self.outcomes {
            // The sort is stable, so the reads of a lookup stay in the order of the tables.
            outcome.reads.sort_by_key(|read| read.lookup);
        }
        for (outcome, tries) in self.outcomes.iter_mut().zip(&self.tries) {
            for &(tried, wrong) in tries {
                outcome.among_keys.add(u64::from(tried), u64::from(wrong));
            }
        }
        (self.outcomes, self.totals)
    }

    /// Counts the lookups that find their key in a table and, for each key, the lookups that search
    /// the table in vain.
    fn count_uses(&mut self, level: usize, walk: &Walk) {
        let used = &mut self.totals.levels[level];
        let in_table = walk.keys_per_span.values().sum();
        let key = |visit: &Visit| self.lookups[visit.lookup].key;
        for visits in walk.visits.chunk_by(|a, b| key(a) == key(b)) {
            let times = visits.len() as u64;
            match (visits[0].block, visits[0].found) {
                (_, true) => used.found += times,
                (Some(block), false) => {
                    let span = block >> FILTER_BASE_LG;
                    let in_filter = walk.keys_per_span.get(&span).copied().unwrap_or(0);
                    used.add_asked(in_filter, in_table, times);
                }
                (None, false) => {}
            }
        }
    }

    /// Reads every entry of `table`. Returns the new filters, and the data blocks that are reached
    /// by the lookups whose indices are in `range`.
    fn walk(&mut self, level: usize, table: &TableReader, range: Range<usize>) -> Result<Walk> {
        let pending: Vec<usize> = range.filter(|&i| !self.answered[i]).collect();
        let expected = pending.len();
        let mut pass = TablePass {
            order: &self.order,
            lookups: &self.lookups,
            pending: pending.into_iter().peekable(),
            builders: self.plans.iter().map(|plan| Builders::of(&plan.0[level])).collect(),
            visits: Vec::new(),
            keys_per_span: BTreeMap::new(),
            blocks: Vec::new(),
            last_key: None,
        };
        let mut nanos = Vec::new();
        let mut end_of_data = 0;
        for info in table.blocks()? {
            let start = Instant::now();
            let block = table.read_block(info.handle)?;
            nanos.push(nanos_since(start));
            self.totals.entries += pass.block(&info, &block)?;
            self.totals.data_blocks += 1;
            self.totals.data_bytes += info.handle.size;
            end_of_data = info.handle.end().unwrap_or(u64::MAX);
        }
        // Use the median, so that outliers caused by other activity on the machine do not count.
        nanos.sort_unstable();
        let median = nanos.get(nanos.len() / 2).copied().unwrap_or(0);
        self.totals.read_nanos += median.saturating_mul(nanos.len() as u64);
        let walk = pass.finish(end_of_data);
        debug_assert_eq!(walk.visits.len(), expected, "each lookup visits the table once");
        debug_assert!(
            walk.visits.is_sorted_by_key(|visit| visit.lookup),
            "the lookups do not come in key order"
        );
        Ok(walk)
    }
}

/// One pass over the entries of a table, in key order.
struct TablePass<'s, 'a> {
    order: &'s KeyOrder,
    lookups: &'s [ReplayLookup<'a>],
    /// Indices of the lookups that have not reached their block, ascending.
    pending: Peekable<std::vec::IntoIter<usize>>,
    builders: Vec<Builders>,
    visits: Vec<Visit>,
    keys_per_span: BTreeMap<u64, u64>,
    blocks: Vec<(u64, u32)>,
    last_key: Option<Vec<u8>>,
}

impl TablePass<'_, '_> {
    /// Reads a data block. Returns the number of its entries.
    fn block(&mut self, info: &BlockInfo, block: &TableBlock) -> Result<u64> {
        let offset = info.handle.offset;
        self.builders.iter_mut().for_each(|builder| builder.start_block(offset));
        self.keys_per_span.entry(offset >> FILTER_BASE_LG).or_insert(0);
        self.blocks.push((offset, block.raw_bytes() as u32));
        let mut entries = 0;
        // For each visit, the number of entries in the block before the key that is looked up.
        let (first_visit, mut reached) = (self.visits.len(), Vec::new());
        let mut rows = block.entries();
        while let Some((key, _)) = rows.next()? {
            self.entry(ParsedKey::parse(key)?.user_key, offset);
            reached.resize(self.visits.len() - first_visit, entries);
            entries += 1;
        }
        for (visit, reached) in self.visits[first_visit..].iter_mut().zip(reached) {
            visit.quarter = (reached * 4 / entries.max(1)) as u8;
        }
        // Lookups of keys between the last key of the block and the block's separator reach this
        // block, too.
        let separator = user_key(&info.separator);
        self.visit_while(offset, false, |order, key| order.compare(key, separator).is_le());
        Ok(entries)
    }

    /// Processes the next entry, which has the user key `key`.
    fn entry(&mut self, key: &[u8], offset: u64) {
        self.builders.iter_mut().for_each(|builder| builder.add_key(key));
        if self.last_key.as_deref() == Some(key) {
            return;
        }
        *self.keys_per_span.entry(offset >> FILTER_BASE_LG).or_insert(0) += 1;
        self.last_key = Some(key.to_vec());
        self.visit_while(offset, false, |order, lookup| order.compare(lookup, key).is_lt());
        self.visit_while(offset, true, |order, lookup| order.compare(lookup, key).is_eq());
    }

    /// Records that pending lookups reach the block at `offset`, up to the first lookup for whose
    /// key `within` returns false.
    fn visit_while(&mut self, offset: u64, found: bool, within: impl Fn(&KeyOrder, &[u8]) -> bool) {
        let (order, lookups) = (self.order, self.lookups);
        while let Some(lookup) = self.pending.next_if(|&i| within(order, lookups[i].key)) {
            self.visits.push(Visit { lookup, block: Some(offset), quarter: 3, found });
        }
    }

    /// Returns the result. `end_of_data` is the offset at which the data blocks end. Lookups that
    /// are still pending reach no block.
    fn finish(mut self, end_of_data: u64) -> Walk {
        let past_the_end =
            self.pending.map(|lookup| Visit { lookup, block: None, quarter: 0, found: false });
        self.visits.extend(past_the_end);
        let builders = self.builders.into_iter();
        let made = builders.map(|builders| builders.finish(end_of_data)).collect();
        let (keys_per_span, blocks) = (self.keys_per_span, self.blocks);
        Walk { visits: self.visits, made, keys_per_span, blocks }
    }
}

/// The filter that a get queries in one table.
enum AskedFilter {
    Nothing,
    Block(FilterBlockReader),
    Table(TableFilter),
}

impl AskedFilter {
    fn of(plan: &FilterPlan, table: &TableReader, made: &MadeFilters) -> AskedFilter {
        let whole = match plan.table {
            TableFilters::Own => table.table_filter().cloned(),
            _ => made.table.clone().and_then(TableFilter::decode),
        };
        let blocks = match &plan.blocks {
            BlockFilters::Own => table.filter_block().cloned(),
            BlockFilters::New(policy) => {
                made.block.clone().map(|block| FilterBlockReader::new(policy.clone(), block))
            }
            BlockFilters::None => None,
        };
        match (whole, blocks) {
            (Some(whole), _) => AskedFilter::Table(whole),
            (None, Some(blocks)) => AskedFilter::Block(blocks),
            (None, None) => AskedFilter::Nothing,
        }
    }
}

impl AskedFilter {
    /// Returns whether a lookup of `key` reads the block at `offset`.
    fn lets_through(&self, offset: u64, key: &[u8]) -> bool {
        match self {
            AskedFilter::Nothing => true,
            AskedFilter::Block(filter) => filter.key_may_match(offset, key),
            AskedFilter::Table(filter) => filter.may_match(key),
        }
    }

    /// Returns the time that the filters take to answer, in nanoseconds: the shortest of three
    /// runs.
    fn time(&self, replay: &TableReplay<'_>) -> u64 {
        if matches!(self, AskedFilter::Nothing) {
            return 0;
        }
        let times = [(); 3].map(|()| {
            let start = Instant::now();
            for visit in &replay.walk.visits {
                let key = replay.lookups[visit.lookup].key;
                black_box(match (self, visit.block) {
                    (AskedFilter::Table(filter), _) => filter.may_match(key),
                    (AskedFilter::Block(filter), Some(block)) => filter.key_may_match(block, key),
                    (AskedFilter::Block(_), None) | (AskedFilter::Nothing, _) => true,
                });
            }
            nanos_since(start)
        });
        times.into_iter().min().unwrap_or(0)
    }
}

impl Outcome {
    /// Returns the number of data blocks read in vain: all blocks read, minus the lookups that
    /// found their key in `levels`.
    pub fn false_blocks(&self, levels: &[LevelUse]) -> u64 {
        let found = levels.iter().map(|level| level.found).sum();
        self.all().data_blocks().saturating_sub(found)
    }

    /// Returns the counts of all lookups.
    pub fn all(&self) -> ReadTrace {
        let mut all = self.present.clone();
        all.add(&self.absent);
        all
    }

    /// Returns whether the counts of filter answers add up to the number of filter queries.
    fn is_balanced(&self) -> bool {
        let all = self.all().total();
        all.filter_checks
            == all.filter_negatives + all.filter_true_positives + all.filter_false_positives
            && all.table_filter_checks
                == all.table_filter_negatives
                    + all.table_filter_true_positives
                    + all.table_filter_false_positives
    }

    /// Keeps the reads of data blocks of table number `table`.
    fn keep_reads(
        &mut self,
        replay: &TableReplay<'_>,
        asked: &AskedFilter,
        table: u32,
        positions: &[u32],
    ) {
        for visit in &replay.walk.visits {
            let key = replay.lookups[visit.lookup].key;
            let Some(offset) = visit.block.filter(|block| asked.lets_through(*block, key)) else {
                continue;
            };
            let block = replay.walk.blocks.partition_point(|(start, _)| *start < offset);
            self.reads.push(BlockRead {
                lookup: positions[visit.lookup],
                table,
                block: block as u32,
                quarter: visit.quarter,
                bytes: replay.walk.blocks[block].1,
            });
        }
    }

    fn add(&mut self, replay: &TableReplay<'_>, asked: &AskedFilter, tries: &mut [(u16, u16)]) {
        let &TableReplay { level, walk, lookups } = replay;
        self.probe_nanos += asked.time(replay);
        let mut previous: Option<&[u8]> = None;
        // The span of the last filter queried, the number of queries of this filter, and the number
        // of its false positives.
        let mut cluster = (0, 0, 0);
        for visit in &walk.visits {
            let lookup = &lookups[visit.lookup];
            let first_time = previous != Some(lookup.key);
            previous = Some(lookup.key);
            let trace = if lookup.present { &mut self.present } else { &mut self.absent };
            let said = count_visit(&mut trace.levels[level], asked, visit, lookup.key);
            if visit.block.is_some() && said != Some(false) {
                let blocks = &mut self.blocks[visit.lookup];
                *blocks = blocks.saturating_add(1);
            }
            let Some(maybe) = said else { continue };
            if visit.found || !first_time {
                continue;
            }
            let (span, shape) = replay.shape(asked, visit);
            *self.tried[level].entry(shape).or_insert(0) += 1;
            self.wrong[level] += u64::from(maybe);
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

/// A replay against one table.
struct TableReplay<'a> {
    level: usize,
    walk: &'a Walk,
    lookups: &'a [ReplayLookup<'a>],
}

impl TableReplay<'_> {
    /// Returns the index of the span of offsets that the queried filter covers, and the filter's
    /// shape.
    fn shape(&self, asked: &AskedFilter, visit: &Visit) -> (u64, FilterShape) {
        match (asked, visit.block) {
            (AskedFilter::Table(filter), _) => {
                (0, FilterShape::Fingerprints { bits: filter.fingerprint_bits() })
            }
            (AskedFilter::Block(filter), Some(block)) => {
                let span = block >> FILTER_BASE_LG;
                let keys = self.walk.keys_per_span.get(&span).copied().unwrap_or(0);
                (span, bloom_shape(filter.filter(block), keys))
            }
            (AskedFilter::Block(_) | AskedFilter::Nothing, _) => (0, bloom_shape(None, 0)),
        }
    }
}

/// Counts the visit of a table as a get would count it. Returns the answer of the filter, or `None`
/// if no filter was queried.
fn count_visit(
    trace: &mut LevelTrace,
    asked: &AskedFilter,
    visit: &Visit,
    key: &[u8],
) -> Option<bool> {
    trace.tables_considered += 1;
    let mut said = None;
    if let AskedFilter::Table(filter) = asked {
        let maybe = filter.may_match(key);
        trace.table_filter_checks += 1;
        trace.table_filter_negatives += u64::from(!maybe);
        trace.table_filter_true_positives += u64::from(maybe && visit.found);
        trace.table_filter_false_positives += u64::from(maybe && !visit.found);
        if !maybe {
            return Some(false);
        }
        said = Some(true);
    }
    trace.index_seeks += 1;
    let Some(block) = visit.block else { return said };
    if let AskedFilter::Block(filter) = asked {
        let maybe = filter.key_may_match(block, key);
        trace.filter_checks += 1;
        trace.filter_negatives += u64::from(!maybe);
        trace.filter_true_positives += u64::from(maybe && visit.found);
        trace.filter_false_positives += u64::from(maybe && !visit.found);
        if !maybe {
            return Some(false);
        }
        said = Some(true);
    }
    trace.data_blocks_from_file += 1;
    said
}

fn nanos_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the shape of a filter in LevelDB's format. A filter without bits matches nothing.
fn bloom_shape(filter: Option<&[u8]>, keys: u64) -> FilterShape {
    let (probes, array) = filter.and_then(|filter| filter.split_last()).unwrap_or((&0, &[]));
    FilterShape::Bloom { bits: array.len() as u64 * 8, keys, probes: u32::from(*probes) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use minikv::files::LiveTables;
    use minikv::fs::MemFs;
    use minikv::{BloomFilterPolicy, Compression, Db, FilterPolicy, Options};

    use super::*;
    use crate::advice::levels;
    use crate::advice::plan::FilterKind;

    fn bloom(bits: u32) -> Arc<dyn FilterPolicy> {
        Arc::new(BloomFilterPolicy::new(bits))
    }

    /// Returns a table whose keys are every `step`th number below 3000, with filters of 10 bits per
    /// key.
    fn table(step: usize) -> TableReader {
        let options = Options::default()
            .create_if_missing(true)
            .fs(MemFs::new())
            .block_bytes(1024)
            .compression(Compression::None);
        let db = Db::open("/db", options).unwrap();
        for i in (0..3000).step_by(step) {
            db.put(key(i), b"some value").unwrap();
        }
        db.flush().unwrap();
        LiveTables::of(&db).iter().next().unwrap().open().unwrap()
    }

    fn key(i: usize) -> Vec<u8> {
        format!("key{i:05}").into_bytes()
    }

    fn replay(keys: &[Vec<u8>], present: impl Fn(usize) -> bool) -> (Vec<Outcome>, TablesRead) {
        let plan = |blocks, table| FilterPlan { blocks, table };
        let plans = vec![
            plan(BlockFilters::None, TableFilters::None),
            plan(BlockFilters::Own, TableFilters::Own),
            plan(BlockFilters::New(bloom(10)), TableFilters::None),
            plan(BlockFilters::New(bloom(10)), TableFilters::New(10)),
        ];
        let lookups = keys.iter().enumerate();
        let lookups = lookups.map(|(i, key)| ReplayLookup { key, present: present(i) }).collect();
        let order = KeyOrder::bytewise();
        let mut shadow = Shadow::new(order, plans, lookups).keep_filters();
        for (level, step) in [(0, 6), (1, 2)] {
            let table = table(step);
            shadow.table(level, &table, &key(0), &key(2999)).unwrap();
        }
        shadow.finish()
    }

    #[test]
    fn a_lookup_ends_at_the_first_table_that_has_the_key() {
        let keys: Vec<_> = (0..3000).rev().map(key).collect();
        let (outcomes, held) = replay(&keys, |i| (2999 - i).is_multiple_of(2));
        assert_eq!((held.tables, held.entries), (2, 500 + 1500));
        let [none, own, new, both] = &outcomes[..] else { panic!("four plans") };
        // Of 1500 present keys, 500 are in the first table. The first table is searched in vain for
        // the other 1000.
        let levels = &none.present.levels;
        assert_eq!((levels[0].tables_considered, levels[1].tables_considered), (1500, 1000));
        assert_eq!(none.absent.total().tables_considered, 3000);
        assert_eq!((none.filter_bytes, none.probe_nanos), (0, 0));
        // A lookup of a key that is only in the second table reads one block of the first table in
        // vain. A lookup of an absent key reads one block of each table in vain.
        assert_eq!((held.levels[0].found, held.levels[1].found), (500, 1000));
        assert_eq!(none.false_blocks(&held.levels), 1000 + 3000);
        assert!(own.probe_nanos > 0 && held.read_nanos > 0);
        for outcome in &outcomes {
            let blocks: u64 = outcome.blocks.iter().map(|&blocks| u64::from(blocks)).sum();
            assert_eq!(blocks, outcome.all().data_blocks());
        }
        // The counts are in key order. Of the first six keys, only the first is in the first table.
        assert_eq!(none.blocks[..6], [1, 2, 2, 2, 2, 2]);
        for trace in [&own.present, &own.absent] {
            let total = trace.total();
            let said =
                total.filter_negatives + total.filter_true_positives + total.filter_false_positives;
            assert_eq!(total.filter_checks, said);
            assert_eq!(total.data_blocks(), total.filter_checks - total.filter_negatives);
        }
        assert_eq!(own.present.total().filter_true_positives, 1500);
        assert_eq!((&own.present, &own.absent), (&new.present, &new.absent), "the same filters");
        assert_eq!((own.filter_bytes, own.tried.clone()), (new.filter_bytes, new.tried.clone()));
        let of_both = both.all().total();
        assert_eq!((of_both.filter_checks, of_both.table_filter_checks), (0, 2500 + 3000));
        assert_eq!(of_both.table_filter_true_positives, 1500);
        let fewer = of_both.data_blocks();
        assert!(fewer < 1600 && fewer < none.all().data_blocks() / 3, "{fewer}");
        assert!(both.made.iter().all(|made| made.block.is_some() && made.table.is_some()));
        assert!(none.made.iter().all(|made| made.block.is_none() && made.table.is_none()));
    }

    /// Checks that filters have the predicted sizes, on which the division of memory is based.
    #[test]
    fn filters_have_the_sizes_that_are_predicted() {
        let layouts = [FilterKind::Block, FilterKind::Table, FilterKind::Both];
        let each: Vec<_> =
            layouts.iter().flat_map(|&l| [1, 4, 10, 23].map(|bits| (l, bits))).collect();
        let plans = each.iter().map(|&(layout, bits)| FilterPlan::new(layout, bits)).collect();
        let order = KeyOrder::bytewise();
        let mut shadow = Shadow::new(order, plans, Vec::new());
        for (level, step) in [(0, 6), (1, 2), (1, 1000)] {
            let table = table(step);
            shadow.table(level, &table, &key(0), &key(2999)).unwrap();
        }
        let (outcomes, held) = shadow.finish();
        for (outcome, (layout, bits)) in outcomes.iter().zip(each) {
            let predicted = held.levels.iter().map(|level| level.filter_bytes(layout, bits));
            assert_eq!(outcome.filter_bytes, predicted.sum::<u64>(), "{layout:?} {bits}");
            assert!(outcome.filter_bytes > u64::from(bits) * 2000 / 8);
        }
    }

    #[test]
    fn a_key_looked_up_again_is_one_try() {
        let keys = vec![key(1); 50];
        let (outcomes, held) = replay(&keys, |_| false);
        for level in &held.levels[..2] {
            let asked: Vec<_> = level.of_filters.values().collect();
            assert_eq!(asked, [&levels::Asked { times: 50, squares: 50 * 50 }]);
        }
        let tried: u64 = outcomes[2].tried.iter().flat_map(|shapes| shapes.values()).sum();
        assert_eq!((tried, outcomes[2].absent.total().filter_checks), (2, 100));
        assert_eq!(outcomes[2].among_keys.tried_squared, 4, "one key, tried twice");
        assert_eq!(outcomes[2].among_filters.tried_squared, 2, "two filters, tried once each");
    }

    /// Looks up present keys in descending order, and checks that each lookup reads the block that
    /// holds its key.
    #[test]
    fn reads_are_those_of_the_blocks_in_the_order_of_the_lookups() {
        let table = table(2);
        let mut expected = Vec::new();
        for (i, info) in table.blocks().unwrap().iter().enumerate() {
            let block = table.read_block(info.handle).unwrap();
            let (first, mut rows) = (expected.len(), block.entries());
            while let Some((key, _)) = rows.next().unwrap() {
                let bytes = block.raw_bytes() as u32;
                let read = BlockRead { lookup: 0, table: 0, block: i as u32, quarter: 0, bytes };
                expected.push((user_key(key).to_vec(), read));
            }
            let entries = expected.len() - first;
            for (at, (_, read)) in expected[first..].iter_mut().enumerate() {
                read.quarter = (at * 4 / entries) as u8;
            }
        }
        expected.reverse();
        let lookup = |key| ReplayLookup { key, present: true };
        let lookups = expected.iter().map(|(key, _)| lookup(&key[..])).collect();
        let order = KeyOrder::bytewise();
        let none = FilterPlan::new(FilterKind::None, 0);
        let mut shadow = Shadow::new(order, vec![none], lookups).keep_reads();
        shadow.table(1, &table, &key(0), &key(2999)).unwrap();
        let (outcomes, _) = shadow.finish();
        let expected: Vec<_> = expected
            .iter()
            .zip(0..)
            .map(|((_, read), lookup)| BlockRead { lookup, ..*read })
            .collect();
        assert!(outcomes[0].reads == expected, "{:?}", &outcomes[0].reads[..5]);
        let different: std::collections::HashSet<_> =
            expected.iter().map(|read| read.bytes).collect();
        assert!(different.len() > 1 && expected.len() == 1500, "{different:?}");
    }

    #[test]
    fn a_key_between_the_last_one_and_its_separator_searches_the_last_block() {
        let (outcomes, _) = replay(&[key(2999)], |_| false);
        let total = outcomes[0].absent.total();
        // The separator after the last key is "l", so the last block is searched.
        assert_eq!((total.tables_considered, total.index_seeks, total.data_blocks()), (2, 2, 2));
    }
}
