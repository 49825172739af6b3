//! The conditions that several steps share.

use std::collections::BTreeSet;

use crate::disk::{Id, Name, Record, Refusal, Status, refuse};
use crate::recover::{Version, possible_versions, read_manifest, read_tables};
use crate::rules::{Mutant, Rules};
use crate::state::{Process, State};

/// Checks that a version may become the database's: its tables are durable, and every applied write
/// is in them or in a log that the version needs.
///
/// # Errors
/// The rule that the version breaks.
pub fn check_version(rules: &Rules, state: &State, version: &Version) -> Result<(), Refusal> {
    let process = state.process()?;
    let unmet = |holds: bool, mutant: Mutant| !holds && !rules.lack(mutant);
    for table in version.tables.iter().map(|table| Name::Table(*table)) {
        if unmet(state.disk.is_durable(table), Mutant::TableUnsynced) {
            return refuse(format!("an edit names {table:?}, which is not synced"));
        }
        if unmet(state.disk.is_name_durable(table), Mutant::TableNameUnsynced) {
            return refuse(format!("an edit names {table:?}, whose name is not durable"));
        }
    }
    let in_tables = read_tables(&state.disk, &version.tables)?;
    let applied = state.applied_ids();
    if unmet(applied.starts_with(&in_tables), Mutant::FlushOutOfOrder) {
        return refuse("an edit puts writes into tables before earlier ones");
    }
    let in_logs = process.memory.iter().filter(|write| write.log >= version.log);
    let safe: BTreeSet<Id> = in_tables.iter().copied().chain(in_logs.map(|w| w.id)).collect();
    if unmet(applied.iter().all(|id| safe.contains(id)), Mutant::LogFreedEarly) {
        return refuse("an edit frees a log whose writes are in no table");
    }
    let last = state.applied.iter().rfind(|write| in_tables.contains(&write.id));
    if unmet(version.last == last.map_or(0, |write| write.last), Mutant::LastSeqTooHigh) {
        return refuse("an edit has another last sequence number than the writes in tables");
    }
    let is_next = version.tables.iter().chain([&version.log]).all(|used| *used < version.next);
    if !is_next || process.log.map_or(version.log > 0, |log| version.log > log) {
        return refuse("an edit has a number that is not given out yet");
    }
    Ok(())
}

/// Checks that every write in the log or in memory survives a loss of power.
///
/// # Errors
/// The rule that is not met.
pub fn check_promise(rules: &Rules, state: &State) -> Result<(), Refusal> {
    let process = state.process()?;
    let unmet = |holds: bool, mutant: Mutant| !holds && !rules.lack(mutant);
    for write in process.memory.iter().chain(&state.pending) {
        let log = Name::Log(write.log);
        if write.replayed {
            match rules.lack(Mutant::ReplayedNotRewritten) {
                true => continue,
                false => return refuse("a replayed write is promised before it is in a table"),
            }
        }
        if unmet(state.disk.is_name_durable(log), Mutant::LogNameUnsynced) {
            return refuse(format!("a write is promised, and the name of {log:?} is not durable"));
        }
        let mut records = state.disk.file(log).into_iter().flatten();
        let is_settled = |status: &Status| match status {
            Status::Dirty => false,
            Status::Lost => rules.lack(Mutant::FailedSyncRetried),
            Status::Durable => true,
        };
        let is_synced = records.any(|(record, status)| {
            matches!(record, Record::Write(id, ..) if *id == write.id) && is_settled(status)
        });
        let rule = match process.log == Some(write.log) {
            true => Mutant::LogUnsynced,
            false => Mutant::EarlierLogUnsynced,
        };
        if unmet(is_synced, rule) {
            return refuse(format!("a write is promised, and {log:?} is not synced"));
        }
    }
    Ok(())
}

/// Checks that nothing that failed is needed any more.
///
/// # Errors
/// The rule that is not met.
pub fn check_resume(rules: &Rules, state: &State) -> Result<(), Refusal> {
    let process = state.process()?;
    let failed = |log| state.disk.has(Name::Log(log), Status::Lost);
    let own = process.memory.iter().filter(|write| !write.replayed);
    let mut logs = own.map(|write| write.log).chain(process.log);
    if logs.any(failed) && !rules.lack(Mutant::ResumeOnFailedLog) {
        return refuse("writes are accepted again while a failed log is needed");
    }
    let target = state.disk.settled_target().map(Name::Manifest);
    if target.is_none_or(|manifest| state.disk.has(manifest, Status::Lost)) {
        return refuse("writes are accepted again while the failed MANIFEST is needed");
    }
    let may_return = |log| possible_versions(&state.disk).iter().any(|found| found.log <= log);
    let returns = state.refused.is_some_and(|write| may_return(write.log));
    if state.pending.is_some() || returns && !rules.lack(Mutant::ResumeWithFailedWrite) {
        return refuse("writes are accepted again while the failed write may come back");
    }
    Ok(())
}

/// Checks that readers see exactly the applied writes.
///
/// # Errors
/// A refusal, if a write is missing, or a table that a reader holds.
pub fn check_shown(state: &State) -> Result<(), Refusal> {
    let process = state.process()?;
    read_tables(&state.disk, &process.pinned.clone().unwrap_or_default())?;
    let in_tables = read_tables(&state.disk, &process.shown.tables)?;
    let memory = process.memory.iter().map(|write| write.id);
    let shown: BTreeSet<Id> = in_tables.into_iter().chain(memory).collect();
    match shown.into_iter().eq(state.applied_ids()) {
        true => Ok(()),
        false => refuse("readers do not see the applied writes"),
    }
}

/// Returns whether readers, or an open after some crash, need the file.
pub fn is_needed(state: &State, process: &Process, name: Name) -> bool {
    let versions = || possible_versions(&state.disk).into_iter();
    match name {
        Name::Log(number) => decides(state, name) && versions().any(|v| v.log <= number),
        Name::Table(number) => {
            let is_pinned = process.pinned.as_ref().is_some_and(|held| held.contains(&number));
            let is_shown = process.shown.tables.contains(&number);
            is_pinned || is_shown || versions().any(|found| found.tables.contains(&number))
        }
        Name::Manifest(number) => state.disk.targets().contains(&Some(number)),
        Name::Temp(_) => false,
        Name::Current => true,
    }
}

/// Returns whether an open finds something else without the log: it has writes, or a hole, after
/// which nothing of later logs is replayed.
fn decides(state: &State, log: Name) -> bool {
    let mut records = state.disk.file(log).into_iter().flatten();
    records.any(|(record, _)| matches!(record, Record::Write(..) | Record::Hole))
}

/// Checks that a file may be removed.
///
/// # Errors
/// The rule that keeps the file.
pub fn check_removal(rules: &Rules, state: &State, name: Name) -> Result<(), Refusal> {
    let process = state.process()?;
    let is_current = process.log.map(Name::Log) == Some(name);
    let shown = &process.shown;
    // The version that reads of the MANIFEST find, durable or not.
    let target = state.disk.targets().last().copied().flatten();
    let latest = target.and_then(|target| read_manifest(&state.disk, target, rules).ok());
    let is_excused = match name {
        Name::Log(number) => {
            let is_freed = latest.is_some_and(|version| version.log > number);
            rules.lack(Mutant::LogNumberIgnored)
                || rules.lack(Mutant::RemovedBeforeSync) && is_freed
        }
        Name::Table(number) => {
            let unpinned = Process { pinned: None, ..process.clone() };
            let is_only_pinned = !is_needed(state, &unpinned, name);
            let is_dropped = latest.is_some_and(|version| !version.tables.contains(&number));
            rules.lack(Mutant::PinnedTableRemoved) && is_only_pinned
                || rules.lack(Mutant::RemovedBeforeSync)
                    && is_dropped
                    && !shown.tables.contains(&number)
        }
        Name::Manifest(number) => {
            rules.lack(Mutant::ManifestRemovedEarly) && target != Some(number)
        }
        Name::Temp(_) | Name::Current => false,
    };
    if is_current || is_needed(state, process, name) && !is_excused {
        return refuse(format!("{name:?} is removed while it is needed"));
    }
    Ok(())
}
