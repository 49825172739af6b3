//! Measures the scan work that filters could save: reads of tables that have no key in the scan's
//! range.

use std::ops::Bound;
use std::sync::Arc;

use crate::advice::grafite::{grafite_bound, mean_range};
use minikv::Result;
use minikv::files::{KeyKind, LiveTables, MAX_SEQ_NO, ParsedKey, TableReader, user_key};
use minikv::filter::prefix_of_range;
use minikv::stats::ScannedRange;
use minikv::{PrefixExtractor, ReadSample};

use crate::order::KeyOrder;
use minikv::files::NUM_LEVELS;

/// The work that filters could save in a sample of the database's own scans with two bounds.
///
/// A pair consists of a scan and a table whose range of keys overlaps the scan's range. If the
/// table has no key in the scan's range, the scan searches the table's index and reads a block in
/// vain.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct ScanAdvice {
    /// Number of scans with two bounds since the database was opened.
    pub scans: u64,
    /// Number of scans in the sample that was replayed.
    pub sampled: u64,
    /// Number of pairs that consist of a scan in the sample and a table.
    pub pairs: u64,
    /// Number of pairs whose table has no key in the scan's range. An exact range filter would save
    /// all of these pairs, and no filter can save more.
    pub empty: u64,
    /// Number of empty pairs that a prefix filter without false positives would save; `None` if the
    /// options have no prefix extractor.
    pub saved_by_prefix: Option<u64>,
    /// Mean number of keys in a scan's range; `None` unless all bounds are whole numbers of the
    /// same form.
    pub mean_range: Option<f64>,
}

impl ScanAdvice {
    /// Returns an upper bound for the false-positive rate of a Grafite filter: `L / 2^(B - 2)`,
    /// where `L` is the mean number of keys in a range and `B` is `bits_per_key`. Returns `None` if
    /// keys are not numbers. (Costa, Ferragina and Vinciguerra, "Grafite: taming adversarial
    /// queries with optimal range filters", SIGMOD 2024.)
    pub fn grafite_bound(&self, bits_per_key: f64) -> Option<f64> {
        Some(grafite_bound(self.mean_range?, bits_per_key))
    }
}

/// Counts of (scan, table) pairs whose key ranges overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanCounts {
    /// Number of pairs.
    pub pairs: u64,
    /// Number of pairs whose table has no key in the scan's range.
    pub empty: u64,
    /// Number of empty pairs that would not be read with a prefix filter without false positives.
    pub saved_by_prefix: u64,
    /// Number of data blocks that the scans read in the tables of the pairs; 0 unless blocks are
    /// counted.
    pub blocks: u64,
    /// Number of data blocks that the scans read in empty pairs.
    pub empty_blocks: u64,
    /// Number of data blocks in empty pairs that a prefix filter without false positives would
    /// save.
    pub blocks_saved_by_prefix: u64,
}

impl ScanCounts {
    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &ScanCounts) {
        self.pairs += other.pairs;
        self.empty += other.empty;
        self.saved_by_prefix += other.saved_by_prefix;
        self.blocks += other.blocks;
        self.empty_blocks += other.empty_blocks;
        self.blocks_saved_by_prefix += other.blocks_saved_by_prefix;
    }
}

/// A replay of scans, table by table, in any order.
#[derive(Debug)]
pub struct ScanReplay<'a> {
    order: KeyOrder,
    extractor: Option<Arc<dyn PrefixExtractor>>,
    ranges: &'a [ScannedRange],
    counts_blocks: bool,
    /// Counts for each scan and each level.
    pub scans: Vec<[ScanCounts; NUM_LEVELS]>,
}

impl<'a> ScanReplay<'a> {
    /// Creates a replay of scans of `ranges`.
    pub fn new(
        order: KeyOrder,
        extractor: Option<Arc<dyn PrefixExtractor>>,
        ranges: &'a [ScannedRange],
    ) -> ScanReplay<'a> {
        let scans = vec![[ScanCounts::default(); NUM_LEVELS]; ranges.len()];
        ScanReplay { order, extractor, ranges, counts_blocks: false, scans }
    }

    /// Makes the replay count data blocks. The replay then reads each range to its end.
    #[must_use]
    pub fn count_blocks(mut self) -> Self {
        self.counts_blocks = true;
        self
    }

    /// Returns the positions of the scans whose ranges overlap the key range of a table, `first` to
    /// `last`.
    pub fn reaching(&self, first: &[u8], last: &[u8]) -> Vec<usize> {
        let overlaps = |range: &ScannedRange| {
            let (Bound::Included(end) | Bound::Excluded(end)) = &range.to else { return false };
            self.order.compare(last, &range.from).is_ge() && self.order.compare(first, end).is_le()
        };
        (0..self.ranges.len()).filter(|&i| overlaps(&self.ranges[i])).collect()
    }

    /// Replays the scans at the positions `reaching` against `table`.
    ///
    /// # Errors
    /// Corruption of the table; an I/O error.
    pub fn table(&mut self, level: usize, table: &TableReader, reaching: &[usize]) -> Result<()> {
        for &i in reaching {
            let counts = self.pair(table, &self.ranges[i])?;
            self.scans[i][level].add(&counts);
        }
        Ok(())
    }

    fn pair(&self, table: &TableReader, range: &ScannedRange) -> Result<ScanCounts> {
        let to = range.to.as_ref().map(Vec::as_slice);
        let within = |key: &[u8]| match to {
            Bound::Included(end) => self.order.compare(key, end).is_le(),
            Bound::Excluded(end) => self.order.compare(key, end).is_lt(),
            Bound::Unbounded => true,
        };
        let mut cursor = table.cursor();
        let found = cursor.seek(&first_of(&range.from))?;
        let empty = !(found && within(user_key(cursor.key())));
        if self.counts_blocks && !empty {
            while cursor.next()? && within(user_key(cursor.key())) {}
        }
        let blocks = if self.counts_blocks { cursor.trace().data_blocks() } else { 0 };
        let extractor = self.extractor.as_deref().filter(|_| empty);
        let prefix = extractor.and_then(|of| prefix_of_range(of, Bound::Included(&range.from), to));
        let saved = match prefix {
            Some(prefix) => !first_from(table, prefix)?.is_some_and(|key| key.starts_with(prefix)),
            None => false,
        };
        Ok(ScanCounts {
            pairs: 1,
            empty: u64::from(empty),
            saved_by_prefix: u64::from(saved),
            blocks,
            empty_blocks: if empty { blocks } else { 0 },
            blocks_saved_by_prefix: if saved { blocks } else { 0 },
        })
    }

    /// Returns the counts of all scans together.
    pub fn total(&self) -> ScanCounts {
        let mut total = ScanCounts::default();
        self.scans.iter().flatten().for_each(|level| total.add(level));
        total
    }
}

/// Replays the sampled scans on `tables`. Returns the advice, or `None` if there are no scans.
pub fn scan_advice(tables: &LiveTables, sample: &ReadSample) -> Result<Option<ScanAdvice>> {
    let (scans, ranges) = (sample.scans(), sample.ranges());
    if ranges.is_empty() {
        return Ok(None);
    }
    let extractor = tables.prefix_extractor();
    let has_extractor = extractor.is_some();
    let order = KeyOrder::new(tables.comparator());
    let mut replay = ScanReplay::new(order, extractor, &ranges);
    for table in tables.iter() {
        let info = table.info();
        let reaching = replay.reaching(&info.first_key, &info.last_key);
        if !reaching.is_empty() {
            replay.table(info.level, &table.open()?, &reaching)?;
        }
    }
    let total = replay.total();
    Ok(Some(ScanAdvice {
        scans,
        sampled: ranges.len() as u64,
        pairs: total.pairs,
        empty: total.empty,
        saved_by_prefix: has_extractor.then_some(total.saved_by_prefix),
        mean_range: mean_range(&ranges),
    }))
}

/// Returns the internal key that comes before all entries of `key`.
fn first_of(key: &[u8]) -> Vec<u8> {
    ParsedKey { user_key: key, seq: MAX_SEQ_NO, kind: KeyKind::Value }.encode()
}

/// Returns the first user key of `table` that is not before `key`.
fn first_from(table: &TableReader, key: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut cursor = table.cursor();
    let found = cursor.seek(&first_of(key))?;
    Ok(found.then(|| user_key(cursor.key()).to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grafites_bound_halves_with_each_bit() {
        let advice = ScanAdvice {
            scans: 1,
            sampled: 1,
            pairs: 1,
            empty: 1,
            saved_by_prefix: None,
            mean_range: Some(64.0),
        };
        assert_eq!(advice.grafite_bound(10.0), Some(0.25));
        assert_eq!(advice.grafite_bound(11.0), Some(0.125));
        assert_eq!(advice.grafite_bound(4.0), Some(1.0));
        assert_eq!(ScanAdvice { mean_range: None, ..advice }.grafite_bound(10.0), None);
    }
}
