//! Compaction filters: rules of the program, applied to the entries that compactions read anyway.
//!
//! A filter may remove an entry or change its value. Such a change is not a write: it has no
//! sequence number and is in no log. A reader that could see the original entry must therefore
//! continue to see it:
//!
//! - Snapshots that exist when a merge begins: the filter is not called for entries that these
//!   snapshots show ([`FilterRule::decide`]).
//! - Snapshots that are taken while the merge runs: if the filter changes any entry, these
//!   snapshots keep the view from before the merge
//!   ([`ReadState::show`](crate::engine::read::view::ReadState::show)).
//!
//! An entry that is removed becomes a tombstone with the same sequence number. The tombstone itself
//! is left out if it hides nothing in deeper levels.
//!
//! Entries that have expired when the merge begins are removed by the same rule, before the
//! program's filter is called. Expired entries that a snapshot shows are kept: reads of the
//! keyspace leave expired entries out, but reads of the database itself do not.

use std::fmt;
use std::sync::Arc;

use crate::format::expiry::has_expired;
use crate::format::key::{KeyKind, ParsedKey, SeqNo};
use crate::format::keyspace::expiry_of;

/// Decision about an entry: see [`Options::compaction_filter`](crate::Options::compaction_filter).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompactionDecision {
    /// Keep the entry.
    Keep,
    /// Remove the entry.
    Remove,
    /// Keep the entry, but replace its value.
    Change(Vec<u8>),
}

/// A rule for a key and its value.
type Decide = dyn Fn(&[u8], &[u8]) -> CompactionDecision + Send + Sync;

/// A filter supplied by the program.
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

/// The filter for one merge, with the current time and the newest snapshot, which also affect the
/// decisions.
#[derive(Clone, Copy, Debug)]
pub(super) struct FilterRule<'a> {
    pub(super) filter: Option<&'a CompactionFilter>,
    /// The current time in milliseconds since the Unix epoch, which decides which entries have
    /// expired. `None` if keys are not in byte order, because only databases in byte order have
    /// keyspaces.
    pub(super) now: Option<u64>,
    /// Sequence number of the newest snapshot; 0 if there is none.
    pub(super) newest_snapshot: SeqNo,
}

impl FilterRule<'_> {
    /// Returns the decision about an entry that the merge would keep without a filter.
    pub(super) fn decide(&self, entry: &ParsedKey<'_>, value: &[u8]) -> CompactionDecision {
        let is_open = entry.kind == KeyKind::Value && entry.seq > self.newest_snapshot;
        if !is_open {
            return CompactionDecision::Keep;
        }
        if self.has_expired(entry, value) {
            return CompactionDecision::Remove;
        }
        match self.filter {
            Some(CompactionFilter(filter)) => filter(entry.user_key, value),
            None => CompactionDecision::Keep,
        }
    }

    /// Returns whether a value has expired.
    pub(super) fn has_expired(&self, entry: &ParsedKey<'_>, value: &[u8]) -> bool {
        self.now.is_some_and(|now| has_expired(expiry_of(entry.user_key, value), now))
    }
}
