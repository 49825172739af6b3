//! The rules of the protocol by their violations: each mutant lacks one rule.

/// A protocol that lacks one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutant {
    /// A synced write is acknowledged although its log is not synced.
    LogUnsynced,
    /// A synced write is acknowledged although an earlier log is not synced.
    EarlierLogUnsynced,
    /// A synced write is acknowledged although the name of its log is not durable.
    LogNameUnsynced,
    /// A synced write is acknowledged although records that were replayed are in no table.
    ReplayedNotRewritten,
    /// A write is accepted and acknowledged after a sync of the log has failed.
    WriteAfterFailedSync,
    /// A failed sync is tried again on the same file.
    FailedSyncRetried,
    /// Writes are accepted again while a log that failed is still needed.
    ResumeOnFailedLog,
    /// Writes are accepted again while an open may still replay the write that failed.
    ResumeWithFailedWrite,
    /// An edit names a table that is not synced.
    TableUnsynced,
    /// An edit names a table whose name is not durable.
    TableNameUnsynced,
    /// An edit puts writes into tables before earlier writes are.
    FlushOutOfOrder,
    /// An edit frees a log whose writes are in no table.
    LogFreedEarly,
    /// An edit has a last sequence number that is later than the writes in tables.
    LastSeqTooHigh,
    /// An edit is appended after another one that is not synced.
    EditAfterUnsyncedEdit,
    /// An open takes the mark of a failed sync, after the edit that the sync has lost, for an edit.
    MarkCountsAsEdit,
    /// `CURRENT` is renamed before its MANIFEST is synced.
    ManifestUnsynced,
    /// `CURRENT` is renamed before the name of its MANIFEST is durable.
    ManifestNameUnsynced,
    /// `CURRENT` is renamed before its content is synced.
    CurrentUnsynced,
    /// An edit is appended to a new MANIFEST, and shown, before the rename of `CURRENT` is durable.
    EditBeforeCurrentIsDurable,
    /// A version is shown before its edit is synced.
    ShownBeforeSync,
    /// A log or table is removed before the edit that frees it is synced.
    RemovedBeforeSync,
    /// A log is removed whatever the log number of the MANIFEST is.
    LogNumberIgnored,
    /// The old MANIFEST is removed before the rename of `CURRENT` is durable.
    ManifestRemovedEarly,
    /// A table is removed although a reader holds it.
    PinnedTableRemoved,
    /// An open gives out numbers of files that the MANIFEST does not know.
    NumberReused,
    /// An open keeps logs live that it has left out.
    LeftOutLogKept,
    /// An open replays records that follow lost ones.
    RecoveryGoesOnAfterHoles,
    /// An open replays logs that begin after lost writes.
    RecoveryIgnoresGaps,
    /// A log does not begin with the sequence number of its first write.
    LogBeginsUnmarked,
}

/// The rules that hold: all, or all but one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rules {
    mutant: Option<Mutant>,
}

impl Rules {
    /// Returns all rules but one.
    pub fn without(mutant: Mutant) -> Rules {
        Rules { mutant: Some(mutant) }
    }

    /// Returns whether the rules lack this one.
    pub fn lack(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}
