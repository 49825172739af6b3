//! What filters could save of scans: tables that a scan reads although they have no key in its
//! range.

use std::ops::Bound;
use std::sync::Arc;

use crate::base::Result;
use crate::engine::read::view::{ReadState, ReadView};
use crate::engine::stats::sample::ScannedRange;
use crate::engine::version::KeyRange;
use crate::filter::prefix::prefix_of_range;
use crate::format::key::{KIND_FOR_SEEK, MAX_SEQ_NO, internal_key, user_key};
use crate::table::Table;
use crate::table::reader::BlockReadOptions;

/// What filters could save of a sample of the database's own scans with two bounds.
///
/// A pair is a scan and a table whose range of keys overlaps the scan's. If the table has no key in
/// the range, the scan searches its index and reads a block for nothing.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ScanAdvice {
    /// Number of scans with two bounds since the database was opened.
    pub scans: u64,
    /// Number of these scans in the sample that was replayed.
    pub sampled: u64,
    /// Number of pairs of such a scan and a table.
    pub pairs: u64,
    /// Number of pairs that give nothing: what an exact range filter would save, and no filter
    /// more.
    pub empty: u64,
    /// Number of these that a filter of prefixes without errors would save; `None` if the options
    /// have no extractor of prefixes.
    pub saved_by_prefix: Option<u64>,
    /// If all bounds are whole numbers of the same form: the mean number of keys in a range.
    pub mean_range: Option<f64>,
}

impl ScanAdvice {
    /// Returns the upper bound of the false-positive rate of a Grafite filter with `bits_per_key`
    /// bits per key for ranges of the mean size, `L / 2^(B - 2)`; `None` if keys are not numbers.
    /// (Costa, Ferragina and Vinciguerra, "Grafite: taming adversarial queries with optimal range
    /// filters", SIGMOD 2024.)
    pub fn grafite_bound(&self, bits_per_key: f64) -> Option<f64> {
        Some((self.mean_range? / (bits_per_key - 2.0).exp2()).min(1.0))
    }
}

/// Replays the sampled scans of `state` on `view`.
pub(crate) fn scan_advice(state: &ReadState, view: &ReadView) -> Result<Option<ScanAdvice>> {
    let (scans, ranges) = state.scans.ranges();
    if ranges.is_empty() {
        return Ok(None);
    }
    let extractor = state.tables.context().prefix_extractor.clone();
    let mut advice = ScanAdvice {
        scans,
        sampled: ranges.len() as u64,
        pairs: 0,
        empty: 0,
        saved_by_prefix: extractor.as_ref().map(|_| 0),
        mean_range: mean_range(&ranges),
    };
    for range in &ranges {
        let to = range.to.as_ref().map(Vec::as_slice);
        let (Bound::Included(end) | Bound::Excluded(end)) = to else { continue };
        let key_range = KeyRange { from: Some(&range.from), to: Some(end) };
        let prefix = extractor
            .as_deref()
            .and_then(|of| prefix_of_range(of, Bound::Included(&range.from), to));
        for (_, file) in view.version.files() {
            if !key_range.overlaps(state.order.user(), file) {
                continue;
            }
            advice.pairs += 1;
            let (empty, saved) = state.tables.with(&file.slot, |table| {
                let first = first_from(table, &range.from)?;
                let order = |key: &Vec<u8>| match to {
                    Bound::Included(end) => state.order.user().compare(key, end).is_le(),
                    _ => state.order.user().compare(key, end).is_lt(),
                };
                let empty = !first.is_some_and(|key| order(&key));
                let saved = match prefix {
                    Some(prefix) if empty => {
                        !first_from(table, prefix)?.is_some_and(|key| key.starts_with(prefix))
                    }
                    _ => false,
                };
                Ok((empty, saved))
            })?;
            advice.empty += u64::from(empty);
            advice.saved_by_prefix = advice.saved_by_prefix.map(|n| n + u64::from(saved));
        }
    }
    Ok(Some(advice))
}

/// Returns the first user key of `table` that is not before `key`.
fn first_from(table: &Arc<Table>, key: &[u8]) -> Result<Option<Vec<u8>>> {
    let options = BlockReadOptions { fill_cache: false, ..BlockReadOptions::default() };
    let mut cursor = table.cursor(options);
    let found = cursor.seek(&internal_key(key, MAX_SEQ_NO, KIND_FOR_SEEK))?;
    Ok(found.then(|| user_key(cursor.key()).to_vec()))
}

/// Returns the mean difference of the bounds, if all are whole numbers of one form and length:
/// decimal digits, or eight bytes with the highest first.
fn mean_range(ranges: &[ScannedRange]) -> Option<f64> {
    let mut sum = 0.0;
    let len = ranges.first()?.from.len();
    let digits = |key: &[u8]| key.iter().all(u8::is_ascii_digit);
    let decimal = digits(&ranges.first()?.from) && len > 0 && len <= 19;
    for range in ranges {
        let (Bound::Included(to) | Bound::Excluded(to)) = &range.to else { return None };
        let number = |key: &[u8]| -> Option<u64> {
            match decimal {
                true if key.len() == len && digits(key) => {
                    std::str::from_utf8(key).ok()?.parse().ok()
                }
                true => None,
                false => Some(u64::from_be_bytes(key.try_into().ok()?)),
            }
        };
        let included = u64::from(matches!(range.to, Bound::Included(_)));
        sum += (number(to)?.saturating_sub(number(&range.from)?)).saturating_add(included) as f64;
    }
    Some(sum / ranges.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: &[u8], to: &[u8]) -> ScannedRange {
        ScannedRange { from: from.to_vec(), to: Bound::Excluded(to.to_vec()) }
    }

    #[test]
    fn only_bounds_that_are_numbers_have_a_distance() {
        assert_eq!(mean_range(&[range(b"0010", b"0030"), range(b"0000", b"0100")]), Some(60.0));
        assert_eq!(mean_range(&[range(b"0010", b"0030"), range(b"abc", b"abd")]), None);
        let (from, to) = (5u64.to_be_bytes(), 300u64.to_be_bytes());
        assert_eq!(mean_range(&[range(&from, &to)]), Some(295.0));
        assert_eq!(mean_range(&[range(b"user/1", b"user/2")]), None);
        assert_eq!(mean_range(&[]), None);
    }

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
