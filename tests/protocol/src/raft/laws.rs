//! The rules of the store by their violations.

/// A store that lacks one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Breach {
    /// A vote is reported as saved before it is synced.
    VoteUnsynced,
    /// Entries are reported as durable before they are synced.
    AppendUnsynced,
    /// A vote is written before entries that were appended earlier.
    VoteOvertakes,
    /// Entries after a gap are accepted.
    GapAccepted,
    /// A truncation is reported before it is synced.
    TruncateUnsynced,
    /// A truncation does not wait for entries that are still to be written.
    TruncateOvertakes,
    /// Entries that the state contains are truncated.
    TruncateApplied,
    /// Entries are deleted before the mark that they are purged is written.
    PurgeDeletesFirst,
    /// A purge is reported before its mark is synced.
    PurgeUnsynced,
    /// A purge does not wait until the state, or a durable snapshot, has the entries.
    PurgeOvertakesInstall,
    /// Entries are applied before they are durable in the log.
    AppliedBeforeDurable,
    /// The changes of entries and the id of the last one are two commits.
    ApplyInTwoBatches,
    /// A snapshot gets its name before its file `SNAPSHOT` is synced.
    HeadUnsynced,
    /// A snapshot is reported before its name is durable.
    SnapshotNameUnsynced,
    /// The previous snapshot is removed before the name of the new one is durable.
    OlderRemovedEarly,
    /// Received files are not synced.
    ReceivedUnsynced,
    /// The names of received files are not synced.
    ReceivedNamesUnsynced,
    /// A new transfer removes a snapshot that waits to be installed.
    OfferRemovesReceived,
    /// A snapshot is installed before entries that contradict it are truncated.
    InstallBeforeTruncate,
    /// A state is made live before the snapshot that it comes from is durable.
    MoveUnsynced,
    /// `LIVE` names a state whose database is not durable.
    CopyUnsynced,
    /// `LIVE` names a state whose name is not durable.
    CopyNameUnsynced,
    /// `LIVE` names a state into which the log was not taken over.
    LogNotTakenOver,
    /// `LIVE` names a state into which the log was taken over without a sync.
    TakeOverUnsynced,
    /// The log is written while it is taken over.
    TakeOverUnlocked,
    /// `LIVE` is renamed before its content is synced.
    LiveUnsynced,
    /// The new state is used before the rename of `LIVE` is durable.
    LiveNameUnsynced,
    /// The old state is removed before the rename of `LIVE` is durable.
    StateRemovedEarly,
    /// An open installs no snapshot.
    OpenInstallsNothing,
    /// An open does not finish purges.
    OpenKeepsPurged,
    /// An open removes nothing.
    OpenKeepsLeftovers,
    /// An open does not sync the log that a killed process has written.
    OpenLogUnsynced,
    /// An open does not sync the names that a killed process has changed.
    OpenNamesUnsynced,
}

/// The kind of store, and the rules that hold: all, or all but one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Laws {
    /// Whether the log and the state have a database each.
    pub has_two: bool,
    /// Whether the log calls back before entries are durable.
    pub is_ahead: bool,
    /// The missing rule.
    pub breach: Option<Breach>,
}

impl Laws {
    /// Returns whether the rules lack this one.
    pub fn lack(&self, breach: Breach) -> bool {
        self.breach == Some(breach)
    }
}
