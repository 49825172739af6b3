//! Divides the memory of filters among levels.
//!
//! A lookup searches a level *in vain*, or is *unsuccessful* there, if the level does not have the
//! key. Filters keep most unsuccessful lookups from reading a data block.
//!
//! One more bit per key lowers the false-positive rate of a level by a constant factor, at a cost
//! in proportion to the level's keys. The number of blocks read in vain is therefore smallest if
//! each level's false-positive rate is proportional to the level's number of keys divided by its
//! number of unsuccessful lookups. In other words, bits per key grow with the logarithm of the
//! number of unsuccessful lookups per key, and a level that is hardly searched in vain gets no
//! filter. (Dayan et al., "Monkey: optimal navigable key-value store", SIGMOD 2017, for lookups
//! that search each level equally often.)
//!
//! Real filters have whole numbers of bits, lengths that are rounded up, and rates that differ from
//! the rates in textbooks. The memory is therefore not divided by the formula. Instead, dynamic
//! programming finds the best of all combinations.

use std::collections::BTreeMap;

use crate::advice::judge::Z;
use crate::advice::plan::{FilterKind, FilterPlan, TreePlan};
use minikv::files::NUM_LEVELS;
use minikv::filter::TableFilter;
use minikv::filter::math::false_positive_probability;
use minikv::{BloomFilterPolicy, Filters};

/// Largest number of bits per key that is considered. LevelDB's filters hardly improve with more
/// bits.
pub const MOST_BITS: u32 = 24;

/// Number of parts into which memory is divided. With more parts, less of the memory stays unused,
/// and the search for the best division takes longer.
const PARTS: usize = 4096;

/// Factor by which the number of blocks read in vain may exceed the minimum. A higher factor takes
/// less memory, because the last bits per key hardly save any reads.
const ENOUGH: f64 = 1.001;

/// Length of a filter, in bits, above which the textbook formula is exact enough. With a lower
/// limit, the calculation takes less time and is less exact.
const LONG_FILTER_BITS: u64 = 1 << 16;

/// The unsuccessful lookups that filters answer, or would answer if there were filters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Number of lookups.
    pub times: u64,
    /// Sum, over all pairs of a key and a table, of the squared number of lookups. (If a filter
    /// gives a false positive for a key, it does so for every lookup of the key.)
    pub squares: u64,
}

impl Asked {
    fn add(&mut self, times: u64) {
        self.times += times;
        self.squares += times * times;
    }
}

/// The contents of a level, and the lookups that search it in vain.
#[derive(Clone, Debug, Default)]
pub struct LevelUse {
    /// Number of keys, each counted once per table.
    pub keys: u64,
    /// Number of tables, by the number of keys in the table.
    pub tables: BTreeMap<u64, u64>,
    /// Number of filters of data blocks, by the number of keys in the filter.
    pub filters: BTreeMap<u64, u64>,
    /// Number of entries in the offset arrays of filter blocks.
    pub spans: u64,
    /// The unsuccessful lookups that reach a data block, by the number of keys in the block's
    /// filter.
    pub of_filters: BTreeMap<u64, Asked>,
    /// The unsuccessful lookups that reach a data block, by the number of keys in the table.
    pub of_tables: BTreeMap<u64, Asked>,
    /// Number of lookups that found their key in the level.
    pub found: u64,
}

impl LevelUse {
    /// Adds a table. `filters` maps each span of offsets to the number of keys in the span.
    pub fn add_table(&mut self, filters: &BTreeMap<u64, u64>) {
        let keys: u64 = filters.values().sum();
        if keys == 0 {
            return;
        }
        self.keys += keys;
        *self.tables.entry(keys).or_insert(0) += 1;
        for &keys in filters.values().filter(|keys| **keys > 0) {
            *self.filters.entry(keys).or_insert(0) += 1;
        }
        self.spans += filters.last_key_value().map_or(0, |(last, _)| last + 1);
    }

    /// Adds `times` unsuccessful lookups of one key in one table. `in_filter` and `in_table` are
    /// the numbers of keys in the block's filter and in the table.
    pub fn add_asked(&mut self, in_filter: u64, in_table: u64, times: u64) {
        self.of_filters.entry(in_filter).or_default().add(times);
        self.of_tables.entry(in_table).or_default().add(times);
    }

    /// Returns a copy with the same tables and no lookups.
    pub fn unasked(&self) -> LevelUse {
        let (of_filters, of_tables) = (BTreeMap::new(), BTreeMap::new());
        LevelUse { of_filters, of_tables, found: 0, ..self.clone() }
    }

    /// Scales the level by `factor`, to include the tables that were not read.
    pub fn scale(&mut self, factor: f64) {
        let scaled = |n: u64| (n as f64 * factor).round() as u64;
        self.keys = scaled(self.keys);
        self.spans = scaled(self.spans);
        self.tables.values_mut().chain(self.filters.values_mut()).for_each(|n| *n = scaled(*n));
    }

    /// Returns the number of unsuccessful lookups that reach a data block.
    pub fn in_vain(&self) -> u64 {
        self.of_filters.values().map(|asked| asked.times).sum()
    }

    /// Returns the memory taken by filters with `bits` bits per key, in bytes.
    pub fn filter_bytes(&self, layout: FilterKind, bits: u32) -> u64 {
        if bits == 0 {
            return 0;
        }
        let policy = BloomFilterPolicy::new(bits);
        let block = |(&keys, n): (&u64, &u64)| n * (policy.filter_bits(keys as usize) / 8 + 1);
        let table = |(&keys, n): (&u64, &u64)| n * TableFilter::predicted_bytes(keys, bits);
        // A filter block ends with the offset array, the offset of that array, and one byte.
        let ends = 4 * self.spans + 5 * self.tables.values().sum::<u64>();
        let blocks = || self.filters.iter().map(block).sum::<u64>() + ends;
        let whole = || self.tables.iter().map(table).sum::<u64>();
        match layout {
            FilterKind::None => 0,
            FilterKind::Block => blocks(),
            FilterKind::Table => whole(),
            FilterKind::Both => blocks() + whole(),
        }
    }

    /// Returns the number of data blocks that the lookups are expected to read in vain with filters
    /// of `bits` bits per key, and the variance of this number over the choice of the filters' hash
    /// functions.
    pub fn false_blocks(&self, layout: FilterKind, bits: u32) -> (f64, f64) {
        let of_blocks = layout == FilterKind::Block;
        let asked = if of_blocks { &self.of_filters } else { &self.of_tables };
        let each = asked.iter().map(|(&keys, asked)| {
            let rate = rate(layout, keys, bits);
            (rate * asked.times as f64, rate * (1.0 - rate) * asked.squares as f64)
        });
        each.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
}

/// Returns the expected false-positive rate of a filter of `keys` keys.
fn rate(layout: FilterKind, keys: u64, bits: u32) -> f64 {
    match layout {
        _ if bits == 0 => 1.0,
        FilterKind::None => 1.0,
        FilterKind::Block => {
            let policy = BloomFilterPolicy::new(bits);
            let length = policy.filter_bits(keys as usize);
            double_hashing_probability(length, keys, policy.probes())
        }
        FilterKind::Table | FilterKind::Both => {
            (-f64::from(TableFilter::predicted_fingerprint_bits(keys, bits))).exp2()
        }
    }
}

/// Returns the false-positive probability if the probes of a key are at `h + i * delta` modulo
/// `bits`, as in LevelDB.
///
/// If `delta` and `bits` have a common factor, some probes of a key coincide: such a key sets fewer
/// bits, and an absent key needs fewer set bits to be a false positive. In a filter of one data
/// block, with a few hundred bits, this happens often enough to matter.
pub fn double_hashing_probability(bits: u64, keys: u64, probes: u32) -> f64 {
    if bits == 0 || bits > LONG_FILTER_BITS {
        return if bits == 0 { 0.0 } else { false_positive_probability(bits, keys, probes) };
    }
    // If the greatest common divisor of delta and bits is bits / d, a key has d distinct positions.
    let few = (1..u64::from(probes)).filter(|d| bits.is_multiple_of(*d));
    let few: Vec<(u64, f64)> = few.map(|d| (d, coprime(d) as f64 / bits as f64)).collect();
    let rest = 1.0 - few.iter().map(|(_, share)| share).sum::<f64>();
    let all = few.iter().copied().chain([(u64::from(probes), rest)]);
    let mean: f64 = all.clone().map(|(distinct, share)| distinct as f64 * share).sum();
    let clear = (mean * keys as f64 * (-1.0 / bits as f64).ln_1p()).exp();
    all.map(|(distinct, share)| (1.0 - clear).powi(distinct as i32) * share).sum()
}

/// Returns how many of the numbers from 1 to `n` have no factor in common with `n`.
fn coprime(n: u64) -> u64 {
    (1..=n).filter(|&d| greatest_common_divisor(n, d) == 1).count() as u64
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The number of bits per key at each level.
pub type Bits = [u32; NUM_LEVELS];

/// Returns a name such as `block:14/10/4`, with the bits of each level from 0 on. The last number
/// also applies to all deeper levels.
pub fn name_by_level(layout: FilterKind, bits: &[u32]) -> String {
    let kind = match layout {
        FilterKind::None => "none",
        FilterKind::Block => "block",
        FilterKind::Table => "table",
        FilterKind::Both => "both",
    };
    let last = bits.last().copied().unwrap_or(0);
    let same = bits.iter().rev().take_while(|&&bits| bits == last).count();
    let bits = bits[..bits.len() - same].iter().chain([&last]).map(u32::to_string);
    format!("{kind}:{}", bits.collect::<Vec<_>>().join("/"))
}

/// Memory taken by filters of one size on one level, and the blocks that lookups still read in
/// vain.
#[derive(Clone, Copy, Debug, PartialEq)]
struct SizeChoice {
    bytes: u64,
    /// Number of blocks read in vain, and the variance of this number.
    false_blocks: (f64, f64),
}

/// Choices for each level: one choice for each number of bits per key, starting at 0.
#[derive(Clone, Debug)]
pub struct Choices {
    levels: Vec<Vec<SizeChoice>>,
}

impl Choices {
    /// Returns, for each of `levels`, the filters of this layout that it can have.
    pub fn of(levels: &[LevelUse], layout: FilterKind) -> Choices {
        let choices = |level: &LevelUse| {
            let choice = |bits| SizeChoice {
                bytes: level.filter_bytes(layout, bits),
                false_blocks: level.false_blocks(layout, bits),
            };
            (0..=MOST_BITS).map(choice).collect()
        };
        Choices { levels: levels.iter().map(choices).collect() }
    }

    /// Returns a division of at most `bytes` bytes of memory with which the number of blocks read
    /// in vain is close to the minimum.
    pub fn within(&self, bytes: u64) -> Bits {
        self.divide(bytes, |least| least * ENOUGH)
    }

    /// Returns the division that takes the least memory, at most `bytes` bytes, while at most
    /// `false_blocks` blocks are read in vain. If there is no such division, returns one with which
    /// the number of blocks read in vain is smallest.
    pub fn as_good_as(&self, false_blocks: f64, bytes: u64) -> Bits {
        self.divide(bytes, |least| least.max(false_blocks))
    }

    /// Returns the division that takes the least memory while at most `goal(least)` blocks are read
    /// in vain; `least` is the minimum for filters of `bytes` bytes. The memory of each filter is
    /// rounded up to a multiple of `bytes / PARTS`.
    fn divide(&self, bytes: u64, goal: impl FnOnce(f64) -> f64) -> Bits {
        let parts = |bytes_of: u64| {
            let parts = u128::from(bytes_of) * PARTS as u128;
            usize::try_from(parts.div_ceil(u128::from(bytes.max(1)))).unwrap_or(usize::MAX)
        };
        // For each number of parts: the smallest number of blocks read in vain on the levels so
        // far, and the bits per key of the last of these levels.
        let mut least = vec![0.0; PARTS + 1];
        let mut chosen = Vec::with_capacity(self.levels.len());
        for level in &self.levels {
            let mut best = vec![(f64::INFINITY, 0); PARTS + 1];
            for (choice, bits) in level.iter().zip(0..) {
                let cost = parts(choice.bytes);
                for spent in cost..=PARTS {
                    let left = least[spent - cost] + choice.false_blocks.0;
                    if left < best[spent].0 {
                        best[spent] = (left, bits);
                    }
                }
            }
            least = best.iter().map(|(left, _)| *left).collect();
            chosen.push(best);
        }
        let goal = goal(least[PARTS]);
        let mut spent = least.iter().position(|left| *left <= goal).unwrap_or(PARTS);
        let mut bits: Bits = [0; NUM_LEVELS];
        for (level, best) in chosen.iter().enumerate().rev() {
            bits[level] = best[spent].1;
            spent -= parts(self.levels[level][bits[level] as usize].bytes);
        }
        bits
    }

    /// Returns the memory that a division takes, in bytes.
    pub fn bytes(&self, bits: &Bits) -> u64 {
        self.chosen(bits).map(|choice| choice.bytes).sum()
    }

    /// Returns the number of data blocks that are read in vain with a division, and the variance of
    /// this number.
    pub fn left(&self, bits: &Bits) -> (f64, f64) {
        let each = self.chosen(bits).map(|choice| choice.false_blocks);
        each.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    fn chosen<'a>(&'a self, bits: &'a Bits) -> impl Iterator<Item = &'a SizeChoice> {
        self.levels.iter().zip(bits).map(|(level, &bits)| &level[bits as usize])
    }
}

/// Advice on the number of bits per key to use at each level, so that filters save the most reads
/// for the memory that they take.
///
/// `Display` writes two tables and the options to set.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct LevelAdvice {
    /// The filters whose memory is divided: those that every level has in `uniform`.
    #[serde(flatten)]
    pub filters: Filters,
    /// The levels that have tables.
    pub levels: Vec<LevelShare>,
    /// The division that has the same number of bits per key at each level.
    pub uniform: Division,
    /// A division of at most the memory of `uniform` with which the number of blocks read in vain
    /// is close to the minimum.
    pub advised: Division,
    /// A division that takes as little memory as possible, at most that of `uniform`, without
    /// increasing the number of blocks read in vain.
    pub smaller: Division,
}

/// The lookups that search a level in vain, and the bits per key of the level's filters.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct LevelShare {
    /// The level.
    pub level: usize,
    /// Number of keys, each counted once per table.
    pub keys: u64,
    /// Average number of the level's data blocks that a get searches in vain without filters.
    pub in_vain_per_get: f64,
    /// Bits per key in [`LevelAdvice::uniform`].
    pub uniform_bits: u32,
    /// Bits per key in [`LevelAdvice::advised`]; 0 means no filters.
    pub advised_bits: u32,
    /// Bits per key in [`LevelAdvice::smaller`]; 0 means no filters.
    pub smaller_bits: u32,
}

/// Division of memory among levels: the memory that it takes, and the blocks still read in vain.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct Division {
    /// Size of the filters, in bytes.
    pub filter_bytes: u64,
    /// Average number of data blocks that a get is expected to search in vain.
    pub predicted: f64,
    /// Average number of data blocks that a get searches in vain, measured with filters of these
    /// sizes that were built from the keys of the same tables.
    pub measured: f64,
    /// The 95 % confidence interval of `measured` over the choice of the filters' hash functions.
    #[serde(rename = "interval_95_percent")]
    pub interval: (f64, f64),
}

impl Division {
    /// Returns whether the prediction is in the confidence interval.
    pub fn agrees(&self) -> bool {
        (self.interval.0..=self.interval.1).contains(&self.predicted)
    }
}

/// The three divisions to compare, before they are measured.
pub struct Divisions {
    layout: FilterKind,
    choices: Choices,
    bits: [Bits; 3],
}

impl Divisions {
    /// Divides the memory taken by filters of `bits` bits per key among `levels`.
    pub fn of(levels: &[LevelUse], layout: FilterKind, bits: u32) -> Divisions {
        let choices = Choices::of(levels, layout);
        let uniform = [bits.min(MOST_BITS); NUM_LEVELS];
        let advised = choices.within(choices.bytes(&uniform));
        let smaller = choices.as_good_as(choices.left(&uniform).0, choices.bytes(&uniform));
        Divisions { layout, choices, bits: [uniform, advised, smaller] }
    }

    /// Returns the plans of the divisions.
    pub fn plans(&self) -> Vec<TreePlan> {
        let plan = |bits: &Bits| TreePlan(bits.map(|bits| FilterPlan::new(self.layout, bits)));
        self.bits.iter().map(plan).collect()
    }

    /// Returns the advice, given the number of blocks that `gets` lookups on `levels` searched in
    /// vain with each division.
    pub fn measured(&self, levels: &[LevelUse], gets: u64, false_blocks: [u64; 3]) -> LevelAdvice {
        let per_get = 1.0 / gets.max(1) as f64;
        let division = |i: usize| {
            let (predicted, variance) = self.choices.left(&self.bits[i]);
            let measured = false_blocks[i] as f64;
            let spread = Z * variance.sqrt();
            Division {
                filter_bytes: self.choices.bytes(&self.bits[i]),
                predicted: predicted * per_get,
                measured: measured * per_get,
                interval: ((measured - spread).max(0.0) * per_get, (measured + spread) * per_get),
            }
        };
        let with_tables = levels.iter().enumerate().filter(|(_, level)| level.keys > 0);
        let share = |(level, used): (usize, &LevelUse)| LevelShare {
            level,
            keys: used.keys,
            in_vain_per_get: used.in_vain() as f64 * per_get,
            uniform_bits: self.bits[0][level],
            advised_bits: self.bits[1][level],
            smaller_bits: self.bits[2][level],
        };
        LevelAdvice {
            filters: self.layout.with(self.bits[0][0]),
            levels: with_tables.map(share).collect(),
            uniform: division(0),
            advised: division(1),
            smaller: division(2),
        }
    }
}

#[cfg(test)]
mod tests;
