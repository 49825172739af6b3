//! Scans of the keys with one prefix, and the tables that such a scan can skip.

use std::ops::{Bound, Range};
use std::sync::Arc;

use crate::base::hash::key_hash;
use crate::engine::read::view::ReadState;
use crate::engine::version::{KeyRange, TableFile};
use crate::filter::prefix::prefix_of_range;
use crate::format::key::UserComparator;
use crate::table::Table;
use crate::table::counts::LevelTrace;
use crate::table::reader::BlockReadOptions;

/// A scan whose keys all have the same prefix, according to the database's extractor.
#[derive(Debug)]
pub(crate) struct PrefixScan {
    /// Hash of the prefix, with which filters are queried.
    hash: u64,
    /// Inclusive lower bound of the keys.
    from: Vec<u8>,
    /// Inclusive upper bound of the keys; `None` if they have no upper bound.
    to: Option<Vec<u8>>,
}

impl PrefixScan {
    /// Returns the scan of the keys that start with `start` and are between `from` and `to`.
    /// Returns `None` if these keys may have different prefixes, or if filters cannot be used.
    pub(crate) fn new(
        state: &ReadState,
        options: &BlockReadOptions,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        start: &[u8],
    ) -> Option<Arc<PrefixScan>> {
        let extractor = state.tables.context().prefix_extractor.as_deref()?;
        if !options.use_filter || state.order.user().custom().is_some() {
            return None;
        }
        let prefix = extractor.prefix(start).or_else(|| prefix_of_range(extractor, from, to))?;
        let key = |bound| match bound {
            Bound::Included(key) | Bound::Excluded(key) => Some(<[u8]>::to_vec(key)),
            Bound::Unbounded => None,
        };
        Some(Arc::new(PrefixScan { hash: key_hash(prefix), from: key(from)?, to: key(to) }))
    }

    pub(super) fn range(&self) -> KeyRange<'_> {
        KeyRange { from: Some(&self.from), to: self.to.as_deref() }
    }

    /// Returns the indices of the tables of a sorted level whose key ranges overlap the scan's
    /// range.
    pub(crate) fn tables_in_range(
        &self,
        order: &UserComparator,
        files: &[Arc<TableFile>],
    ) -> Range<usize> {
        let start =
            files.partition_point(|file| order.compare(file.last_key(), &self.from).is_lt());
        let in_range =
            files[start..].partition_point(|file| self.range().overlaps(order, file.range()));
        debug_assert!(
            files[start + in_range..]
                .iter()
                .all(|file| !self.range().overlaps(order, file.range())),
            "a table of the scan is after the range"
        );
        start..start + in_range
    }

    /// Returns whether the table may contain keys of the scan. Counts the filter's answer in
    /// `trace`.
    pub(crate) fn admits(&self, table: &Table, trace: &mut LevelTrace) -> bool {
        let Some(filter) = table.prefix_filter() else { return true };
        let may_match = filter.may_match_hash(self.hash);
        trace.prefix_filter_checks += 1;
        trace.prefix_filter_negatives += u64::from(!may_match);
        may_match
    }
}
