//! Compaction filters: a program's own rule about the entries that compactions read anyway.
//!
//! A filter may remove an entry or change its value, which is no write: it has no sequence number
//! and is in no log. So it must not be seen where something else was seen before:
//!
//! - Snapshots that exist when a merge begins: the filter is not asked about what they show
//!   ([`FilterRule::decide`]).
//! - Snapshots that are taken while it runs: they keep the view from before, if the filter has done
//!   anything ([`ReadState::show_view`](crate::engine::read::view::ReadState::show_view)).
//! - Iterators and cursors have views of their own.
//!
//! An entry that is removed becomes a tombstone at its own sequence number, and is left out with it
//! if nothing lies further down.

use std::fmt;
use std::sync::Arc;

use crate::format::key::{KeyKind, ParsedKey, SeqNo};

/// What to do with an entry: see [`Options::compaction_filter`](crate::Options::compaction_filter).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompactionDecision {
    /// Keep the entry.
    Keep,
    /// Remove it.
    Remove,
    /// Keep it, with another value.
    Change(Vec<u8>),
}

/// A rule about a key and its value.
type Decide = dyn Fn(&[u8], &[u8]) -> CompactionDecision + Send + Sync;

/// A filter as a program gave it.
#[derive(Clone)]
pub(crate) struct CompactionFilter(Arc<Decide>);

impl CompactionFilter {
    pub(crate) fn new(
        filter: impl Fn(&[u8], &[u8]) -> CompactionDecision + Send + Sync + 'static,
    ) -> CompactionFilter {
        CompactionFilter(Arc::new(filter))
    }
}

impl fmt::Debug for CompactionFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CompactionFilter")
    }
}

/// The filter of one merge, and the entries that it is not asked about.
#[derive(Clone, Copy, Debug)]
pub(super) struct FilterRule<'a> {
    pub(super) filter: Option<&'a CompactionFilter>,
    /// Sequence number of the newest snapshot; 0 if there is none.
    pub(super) newest_snapshot: SeqNo,
}

impl FilterRule<'_> {
    /// Decides about an entry that the merge would keep.
    pub(super) fn decide(&self, entry: &ParsedKey<'_>, value: &[u8]) -> CompactionDecision {
        match self.filter {
            Some(CompactionFilter(filter))
                if entry.kind == KeyKind::Value && entry.seq > self.newest_snapshot =>
            {
                filter(entry.user_key, value)
            }
            _ => CompactionDecision::Keep,
        }
    }
}
