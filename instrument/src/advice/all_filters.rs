//! Counts of block filters and table filters together.

use minikv::stats::LevelTrace;

/// Counts of block filters and table filters together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllFilters {
    /// Number of filters queried.
    pub checks: u64,
    /// Number of filters that answered "no".
    pub negatives: u64,
    /// Number of filters that correctly answered "maybe".
    pub true_positives: u64,
    /// Number of filters that wrongly answered "maybe".
    pub false_positives: u64,
}

impl AllFilters {
    /// Adds up the counts of block filters and table filters in `trace`.
    pub fn of(trace: &LevelTrace) -> AllFilters {
        AllFilters {
            checks: trace.filter_checks + trace.table_filter_checks,
            negatives: trace.filter_negatives + trace.table_filter_negatives,
            true_positives: trace.filter_true_positives + trace.table_filter_true_positives,
            false_positives: trace.filter_false_positives + trace.table_filter_false_positives,
        }
    }
}
