//! A scan of the keys with one prefix: which tables it need not read.

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

/// A scan whose keys all have one prefix, as the database's extractor has it.
#[derive(Debug)]
pub struct PrefixScan {
    hash: u64,
    from: Vec<u8>,
    /// The scan ends with this key or before it.
    to: Option<Vec<u8>>,
}

impl PrefixScan {
    /// The scan from `from` to `to`; `None` if its keys may have several prefixes, or filters
    /// are not to be asked. All its keys start with `start`.
    pub fn new(
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

    /// Those of a sorted level's tables whose range the scan overlaps.
    pub fn window(&self, order: &UserComparator, files: &[Arc<TableFile>]) -> Range<usize> {
        let start =
            files.partition_point(|file| order.compare(file.last_key(), &self.from).is_lt());
        let in_range = files[start..].partition_point(|file| self.range().overlaps(order, file));
        start..start + in_range
    }

    /// Whether the table may have keys of the scan.
    pub fn admits(&self, table: &Table, trace: &mut LevelTrace) -> bool {
        let Some(filter) = table.prefix_filter() else { return true };
        let may_match = filter.may_match_hash(self.hash);
        trace.prefix_filter_checks += 1;
        trace.prefix_filter_negatives += u64::from(!may_match);
        may_match
    }
}
