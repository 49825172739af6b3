//! `readamp --budget`: divides a memory budget among the block cache, filters and indexes.
//!
//! The lookups are replayed with several filter sizes. For each size, the memory of the filters is
//! divided among the levels. The block reads then go through a simulated cache, whose size is the
//! part of the budget that filters and indexes do not use. The first half of the lookups only warms
//! up the cache; only the second half is counted.

use crate::advice::curve::{FileReads, file_reads};
use crate::advice::levels::Choices;
use crate::advice::plan::FilterKind;
use crate::advice::shadow::{BlockRead, Outcome, TablesRead};
use minikv::Readable;
use minikv::files::NUM_LEVELS;
use serde::Serialize;

use super::filters::FilterCase;
use super::lookups::Lookup;
use super::source::Source;
use super::text::wrap;
use crate::error::{Error, Result};
use crate::text::Table;
use crate::text::{size, thousands};

/// Filter sizes to try, in bits per key. For each size, the total memory of the filters is divided
/// among the levels.
const SIZES: [u32; 6] = [2, 4, 6, 8, 10, 14];

/// Memory added to the budget, in bytes, to estimate the savings of a larger budget.
const MORE: u64 = 1 << 20;

/// Number of cache sizes on the curve, and the binary logarithm of the largest cache size divided
/// by the budget.
const CURVE: (i32, i32) = (10, 3);

/// Block sizes to try, as the binary logarithm of the block size divided by the block size of the
/// tables.
const BLOCK_SIZES: [i32; 4] = [-2, -1, 1, 2];

/// The division of a memory budget, and the remaining reads from files.
#[derive(Serialize)]
pub struct Memory {
    budget_bytes: u64,
    index_bytes: u64,
    /// Number of lookups. Only the second half is counted.
    lookups: u64,
    divisions: Vec<MemoryDivision>,
    /// Index of the best division in `divisions`.
    best: usize,
    /// Number of reads from files per get, measured with the best division and the real cache.
    measured: f64,
    next: Next,
    block_sizes: Vec<BlockSize>,
    curve: Vec<MissRatioPoint>,
}

/// Filters, and a cache that uses the part of the budget that filters and indexes do not use.
#[derive(Serialize)]
struct MemoryDivision {
    filters: String,
    filter_bytes: u64,
    cache_bytes: u64,
    blocks_per_get: f64,
    #[serde(flatten)]
    left: Left,
    #[serde(skip)]
    reads: Vec<BlockRead>,
    #[serde(skip)]
    choice: FilterCase,
}

/// An estimate of the block reads that miss the cache and go to files.
#[derive(Clone, Copy, Serialize)]
struct Left {
    file_reads_per_get: f64,
    standard_error: f64,
}

/// Savings from one additional MiB of memory.
#[derive(Serialize)]
struct Next {
    /// Number of reads from files saved per get if the cache gets the additional MiB.
    to_cache: f64,
    /// The best filters for the larger budget. `to_best` is the number of reads from files saved
    /// per get with these filters.
    best_filters: String,
    to_best: f64,
}

/// The effect of a block size.
#[derive(Serialize)]
struct BlockSize {
    /// Block size divided by the current block size.
    factor: f64,
    index_bytes: u64,
    cache_bytes: u64,
    #[serde(flatten)]
    left: Left,
    bytes_read_per_get: f64,
}

/// A point of the miss-ratio curve.
#[derive(Serialize)]
struct MissRatioPoint {
    cache_bytes: u64,
    #[serde(flatten)]
    left: Left,
    miss_ratio: f64,
    /// Fraction of the blocks that the simulation sampled.
    sampled: f64,
}

/// The part of the lookups that is counted.
#[derive(Clone, Copy)]
struct Counted {
    /// Number of lookups, counted or not.
    lookups: u64,
    /// Index of the first lookup that is counted.
    first: usize,
    /// Number of lookups before `first` that are not answered by a memtable.
    from: u32,
}

impl Counted {
    fn of(source: &Source, lookups: &[Lookup]) -> Result<Counted> {
        let first = lookups.len() / 2;
        let from = source.reaching_tables(&lookups[..first])?.len() as u32;
        Ok(Counted { lookups: lookups.len() as u64, first, from })
    }

    /// Returns the number of lookups that are counted.
    fn number(self) -> f64 {
        (self.lookups - self.first as u64).max(1) as f64
    }

    fn left(self, reads: &[BlockRead], cache_bytes: u64) -> (Left, FileReads) {
        let estimate = file_reads(reads, cache_bytes, self.from);
        let each = 1.0 / self.number();
        let left = Left {
            file_reads_per_get: estimate.reads * each,
            standard_error: estimate.error * each,
        };
        (left, estimate)
    }

    fn reads(self, reads: &[BlockRead]) -> usize {
        reads.len() - reads.partition_point(|read| read.lookup < self.from)
    }
}

impl Memory {
    /// Divides `budget` bytes among indexes, filters and the block cache for the given lookups.
    pub fn divide(source: &Source, lookups: &[Lookup], budget: u64) -> Result<Memory> {
        let index_bytes = source.index_bytes()?;
        if budget <= index_bytes {
            return Err(Error::Usage(format!(
                "the indexes alone take {}; give a larger --budget",
                size(index_bytes)
            )));
        }
        let held = source.survey(source.reaching_tables(lookups)?)?;
        let counted = Counted::of(source, lookups)?;
        let divisions = divisions(source, &held, lookups, budget - index_bytes, counted)?;
        let reads = |division: &MemoryDivision| division.left.file_reads_per_get;
        let best = (0..divisions.len())
            .min_by(|&a, &b| reads(&divisions[a]).total_cmp(&reads(&divisions[b])));
        let best = best.unwrap_or(0);
        let chosen = &divisions[best];
        let mut memory = Memory {
            budget_bytes: budget,
            index_bytes,
            lookups: counted.lookups,
            measured: measured(source, lookups, chosen, counted)?,
            next: next(&divisions, best, counted),
            block_sizes: Vec::new(),
            curve: curve(&chosen.reads, budget, counted),
            divisions,
            best,
        };
        memory.block_sizes =
            memory.block_sizes(held.data_bytes as f64 / held.data_blocks.max(1) as f64, counted);
        Ok(memory)
    }

    /// Returns the effects of the current block size and of other block sizes. `block_bytes` is the
    /// mean size of a stored block.
    fn block_sizes(&self, block_bytes: f64, counted: Counted) -> Vec<BlockSize> {
        let chosen = &self.divisions[self.best];
        let of = |log: i32| {
            let factor = f64::from(log).exp2();
            let index_bytes = (self.index_bytes as f64 / factor) as u64;
            let taken = index_bytes + chosen.filter_bytes;
            let cache_bytes = self.budget_bytes.checked_sub(taken)?;
            let reads: Vec<_> = chosen.reads.iter().map(|read| read.resized(log)).collect();
            let (left, _) = counted.left(&reads, cache_bytes);
            let bytes_read_per_get = left.file_reads_per_get * block_bytes * factor;
            Some(BlockSize { factor, index_bytes, cache_bytes, left, bytes_read_per_get })
        };
        let now = [0].into_iter().chain(BLOCK_SIZES);
        now.filter_map(of).collect()
    }

    /// Returns the division as text.
    pub fn text(&self) -> String {
        let head = format!(
            "Memory of {} for indexes, filters and block cache; indexes take {}. {} lookups, of \
             which the second half is counted.",
            size(self.budget_bytes),
            size(self.index_bytes),
            thousands(self.lookups)
        );
        let parts = [
            wrap(&head, 100),
            self.divisions_table().to_string(),
            self.verdict(),
            format!("Other block sizes, with the same filters:\n{}", self.block_table()),
            format!("The block cache alone, with the same filters:\n{}", self.curve_table()),
        ];
        parts.join("\n\n")
    }

    fn divisions_table(&self) -> Table {
        let mut table =
            Table::new(["filters", "memory", "cache", "blocks/get", "file reads/get", ""]);
        for (i, division) in self.divisions.iter().enumerate() {
            table.row([
                &division.filters,
                &size(division.filter_bytes),
                &size(division.cache_bytes),
                &format!("{:.3}", division.blocks_per_get),
                &division.left.to_string(),
                if i == self.best { "best" } else { "" },
            ]);
        }
        table
    }

    fn verdict(&self) -> String {
        let best = &self.divisions[self.best];
        let verdict = format!(
            "Advice: filters {} for {}, and a block cache of {}. Predicted: {:.4} file reads per \
             get; measured with these: {:.4}.",
            best.filters,
            size(best.filter_bytes),
            size(best.cache_bytes),
            best.left.file_reads_per_get,
            self.measured
        );
        let next = &self.next;
        let next = format!(
            "The next MiB saves {:.4} file reads per get in the cache; best divided, with filters \
             {}, it saves {:.4}.",
            next.to_cache, next.best_filters, next.to_best
        );
        [verdict, next].map(|line| wrap(&line, 100)).join("\n")
    }

    fn block_table(&self) -> Table {
        let head = ["block size", "indexes", "cache", "file reads/get", "bytes read/get"];
        let mut table = Table::new(head);
        for size_of in &self.block_sizes {
            table.row([
                &format!("x {}", size_of.factor),
                &size(size_of.index_bytes),
                &size(size_of.cache_bytes),
                &size_of.left.to_string(),
                &format!("{:.0}", size_of.bytes_read_per_get),
            ]);
        }
        table
    }

    fn curve_table(&self) -> Table {
        let mut table = Table::new(["cache", "file reads/get", "missed", "blocks simulated"]);
        for point in &self.curve {
            table.row([
                &size(point.cache_bytes),
                &point.left.to_string(),
                &format!("{:.1} %", point.miss_ratio * 100.0),
                &format!("{:.1} %", point.sampled * 100.0),
            ]);
        }
        table
    }
}

impl std::fmt::Display for Left {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.standard_error {
            0.0 => write!(f, "{:.4}", self.file_reads_per_get),
            error => write!(f, "{:.4} ± {error:.4}", self.file_reads_per_get),
        }
    }
}

/// Replays the lookups without filters, and with each filter size that leaves memory for a cache.
/// The filters and the cache share `bytes` bytes.
fn divisions(
    source: &Source,
    held: &TablesRead,
    lookups: &[Lookup],
    bytes: u64,
    counted: Counted,
) -> Result<Vec<MemoryDivision>> {
    let levels = &held.levels;
    let mut choices = vec![FilterCase::None];
    for layout in [FilterKind::Block, FilterKind::Table] {
        let of = Choices::of(levels, layout);
        for bits in SIZES {
            let mut divided = of.within(of.bytes(&[bits; NUM_LEVELS]));
            // All levels below the deepest level that has tables get the same number of bits as
            // that level.
            if let Some(last) = levels.iter().rposition(|level| level.keys > 0) {
                let bits = divided[last];
                divided[last..].fill(bits);
            }
            let filters = FilterCase::ByLevel(layout, divided);
            if of.bytes(&divided) < bytes && !choices.contains(&filters) {
                choices.push(filters);
            }
        }
    }
    let plans = choices.iter().map(FilterCase::plan).collect();
    let outcomes = source.reads(plans, source.reaching_tables(lookups)?)?;
    let each = choices.into_iter().zip(outcomes).filter(|(_, o)| o.filter_bytes <= bytes);
    let division = |(choice, outcome): (FilterCase, Outcome)| {
        let cache_bytes = bytes - outcome.filter_bytes;
        MemoryDivision {
            filters: choice.to_string(),
            filter_bytes: outcome.filter_bytes,
            cache_bytes,
            blocks_per_get: outcome.reads.len() as f64 / counted.lookups.max(1) as f64,
            left: counted.left(&outcome.reads, cache_bytes).0,
            reads: outcome.reads,
            choice,
        }
    };
    Ok(each.map(division).collect())
}

/// Runs the lookups with the filters and the cache size of a division. Returns the number of reads
/// from files per get.
fn measured(
    source: &Source,
    lookups: &[Lookup],
    division: &MemoryDivision,
    counted: Counted,
) -> Result<f64> {
    let (candidates, _) = source.candidates(&[division.choice], Vec::new())?;
    let db = source.open_candidate_with(&candidates[0], division.cache_bytes)?;
    let mut reads = 0;
    for (i, lookup) in lookups.iter().enumerate() {
        let (_, trace) = db.get_traced(&lookup.key)?;
        if i >= counted.first {
            reads += trace.total().data_blocks_from_file;
        }
    }
    Ok(reads as f64 / counted.number())
}

fn next(divisions: &[MemoryDivision], best: usize, counted: Counted) -> Next {
    let with_more = |division: &MemoryDivision| {
        let cache_bytes = division.cache_bytes.saturating_add(MORE);
        counted.left(&division.reads, cache_bytes).0.file_reads_per_get
    };
    let now = divisions[best].left.file_reads_per_get;
    let each = divisions.iter().map(|division| (with_more(division), &division.filters));
    let (left, filters) =
        each.min_by(|(a, _), (b, _)| a.total_cmp(b)).unwrap_or((now, &divisions[best].filters));
    Next {
        to_cache: now - with_more(&divisions[best]),
        best_filters: filters.clone(),
        to_best: now - left,
    }
}

fn curve(reads: &[BlockRead], budget: u64, counted: Counted) -> Vec<MissRatioPoint> {
    let (points, largest) = CURVE;
    let point = |i: i32| {
        let cache_bytes = (budget as f64 * f64::from(largest - i).exp2()) as u64;
        let (left, estimate) = counted.left(reads, cache_bytes);
        let miss_ratio = estimate.reads / counted.reads(reads).max(1) as f64;
        MissRatioPoint { cache_bytes, left, miss_ratio, sampled: estimate.sampled }
    };
    (0..points).rev().map(point).collect()
}
