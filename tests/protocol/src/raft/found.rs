//! An open after a crash, and what it finds.

use std::collections::BTreeMap;

use crate::disk::{Refusal, refuse};
use crate::raft::files::{Content, Copy, Entry, Files, Index, Part, Place, Term};
use crate::raft::laws::{Breach, Laws};

/// A node as an open finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub vote: Term,
    /// All entries in the database, even purged ones.
    pub log: BTreeMap<Index, Term>,
    pub purged: Entry,
    pub committed: Index,
    pub machine: Vec<Entry>,
    pub applied: Entry,
    /// The last entry of the newest snapshot.
    pub snapshot: Entry,
    /// The newest snapshot.
    pub kept: Option<u8>,
    /// Whether the open replaces the state with the newest snapshot.
    pub installs: bool,
}

impl Found {
    /// Returns the index of the last entry in the log, or of the last purged one.
    pub fn last(&self) -> Entry {
        let last =
            self.log.last_key_value().map(|(index, term)| Entry { term: *term, index: *index });
        last.unwrap_or_default().max(self.purged)
    }
}

/// Returns what an open finds.
///
/// # Errors
/// The reason why the store does not open.
pub fn find(laws: &Laws, files: &Files) -> Result<Found, Refusal> {
    let Some(Some(live)) = files.live.last().copied() else { return refuse("LIVE is damaged") };
    if !files.has(Place::State(live)) {
        return refuse("the state that LIVE names is missing");
    }
    let Some(state) = files.states.get(&live).and_then(|database| database.now()) else {
        return refuse("the state is no database");
    };
    let Some(log) = files.log_of(live).and_then(|database| database.now()) else {
        return refuse("the log is no database");
    };
    let newest = newest(files)?;
    let mut found = assemble(log, state, newest);
    if found.installs && !laws.lack(Breach::OpenInstallsNothing) {
        let (_, copy) = newest.unzip();
        found.machine = copy.map_or_else(Vec::new, |copy| copy.machine.clone());
        found.applied = found.snapshot;
    }
    check_ends(&found)?;
    if !laws.lack(Breach::OpenKeepsPurged) {
        found.log.retain(|index, _| *index > found.purged.index);
    }
    Ok(found)
}

fn assemble(log: &Content, state: &Content, newest: Option<(u8, &Copy)>) -> Found {
    let snapshot = newest.map_or(Entry::default(), |(_, copy)| copy.last);
    Found {
        vote: log.vote,
        log: log.log.clone(),
        purged: log.purged,
        committed: log.committed,
        machine: state.machine.clone(),
        applied: state.applied,
        snapshot,
        kept: newest.map(|(id, _)| id),
        installs: snapshot > state.applied,
    }
}

/// Returns the newest complete snapshot.
fn newest(files: &Files) -> Result<Option<(u8, &Copy)>, Refusal> {
    let mut newest: Option<(u8, &Copy)> = None;
    for (id, copy) in &files.copies {
        if !files.has(Place::Kept(*id)) || !copy.parts.iter().all(|part| part.is_there()) {
            continue;
        }
        if copy.parts.contains(&Part::Torn) {
            return refuse("a file of a snapshot is damaged");
        }
        if newest.is_none_or(|(_, newer)| newer.last < copy.last) {
            newest = Some((*id, copy));
        }
    }
    Ok(newest)
}

/// Checks that the log and the state fit together.
fn check_ends(found: &Found) -> Result<(), Refusal> {
    let Found { purged, applied, snapshot, .. } = found;
    if purged.index > applied.index {
        return refuse("the log begins after the end of the state");
    }
    let first = found.log.keys().find(|index| **index > purged.index);
    if first.is_some_and(|first| *first != purged.index + 1) {
        return refuse("the log begins with a gap");
    }
    if found.last() < *applied && applied != snapshot {
        return refuse("the log ends before the state");
    }
    Ok(())
}
