//! The steps of the protocol: which are allowed in a state, and to which state they lead.
//!
//! An exploration and a replay of a trace both go through [`step`].

use std::collections::BTreeSet;

use crate::check::{
    check_promise, check_removal, check_resume, check_shown, check_version, is_needed,
};
use crate::disk::{Name, Number, Record, Refusal, Status, refuse};
use crate::recover::{Logged, Version, read_manifest, read_tables, recover, version_of};
use crate::rules::{Mutant, Rules};
use crate::state::{Action, Applied, Ending, Phase, Process, State};

/// Returns the state after a step.
///
/// # Errors
/// The rule that does not allow the step.
pub fn step(rules: &Rules, before: &State, action: &Action) -> Result<State, Refusal> {
    let mut state = before.clone();
    match action {
        Action::Open => open(rules, &mut state)?,
        Action::Stop => {
            state.process()?;
            state.process = Err(Ending::Kill);
        }
        Action::PowerLoss(image) => {
            state.disk = (**image).clone();
            state.process = Err(Ending::PowerLoss);
        }
        Action::Acknowledge { sync } => acknowledge(rules, &mut state, *sync)?,
        Action::AcknowledgeSync => {
            check_promise(rules, &state)?;
            state.promised = state.applied.len();
        }
        Action::Refuse => {
            if state.pending.is_none() {
                return refuse("no write is in the log");
            }
            state.refused = state.pending.take();
            state.process_mut()?.phase = Phase::ReadOnly;
        }
        Action::Read(ids) => {
            check_shown(&state)?;
            if *ids != state.applied_ids() {
                return refuse(format!("a reader sees {ids:?}, not {:?}", state.applied_ids()));
            }
        }
        Action::Opened | Action::Show | Action::Pin | Action::Unpin | Action::Resumed => {
            change_process(rules, &mut state, action)?;
        }
        _ => change_disk(rules, &mut state, action)?,
    }
    Ok(state)
}

/// Returns the MANIFEST that `CURRENT` durably names, if the process has begun it.
fn own_manifest(state: &State) -> Result<Number, Refusal> {
    match state.disk.settled_target() {
        Some(target) if state.process()?.used.contains(&target) => Ok(target),
        _ => refuse("CURRENT does not durably name a MANIFEST of this process"),
    }
}

fn open(rules: &Rules, state: &mut State) -> Result<(), Refusal> {
    if state.process.is_ok() {
        return refuse("the database is open");
    }
    let found = recover(&state.disk, rules)?;
    let is_new = found.is_none();
    let (version, ids, memory, left_out) = match found {
        None => (Version::default(), Vec::new(), Vec::new(), false),
        Some(found) => {
            let ids = found.ids();
            (found.version, ids, found.replayed, found.left_out)
        }
    };
    // A database is created with the number 1, whatever an earlier attempt has left.
    let numbers = state.disk.list().filter_map(Name::number);
    let listed = match is_new || rules.lack(Mutant::NumberReused) {
        true => 0,
        false => numbers.max().unwrap_or(0),
    };
    let floor = version.next.max(version.log + 1).max(listed + 1);
    let mut history = state.history();
    history.retain(|write| ids.contains(&write.id));
    state.applied = history;
    // An edit that a kill has left unsynced may free its log. Until the open has made that durable,
    // a loss of power brings the write back.
    let last = state.pending.take().or(state.refused);
    state.refused = last.filter(|write| !ids.contains(&write.id));
    state.process = Ok(Process {
        phase: Phase::Opening,
        floor,
        used: BTreeSet::new(),
        log: None,
        left_out,
        memory,
        shown: version,
        pinned: None,
    });
    Ok(())
}

fn acknowledge(rules: &Rules, state: &mut State, sync: bool) -> Result<(), Refusal> {
    let Some(write) = state.pending else { return refuse("no write is in the log") };
    if state.process()?.phase != Phase::Running && !rules.lack(Mutant::WriteAfterFailedSync) {
        return refuse("a write is acknowledged after a failure");
    }
    if sync {
        check_promise(rules, state)?;
    }
    let memory = state.process()?.memory.iter().chain([&write]);
    let logs: BTreeSet<Number> =
        memory.filter(|write| !write.replayed).map(|write| write.log).collect();
    let has_failed = logs.iter().any(|log| state.disk.has(Name::Log(*log), Status::Lost));
    state.misdeeds.acknowledged_after_failure |= has_failed;
    state.process_mut()?.memory.push(write);
    state.applied.push(Applied { id: write.id, last: write.last });
    state.pending = None;
    if sync {
        state.promised = state.applied.len();
    }
    Ok(())
}

fn change_process(rules: &Rules, state: &mut State, action: &Action) -> Result<(), Refusal> {
    let phase = state.process()?.phase;
    match action {
        Action::Opened => {
            check_opened(rules, state)?;
            state.process_mut()?.phase = Phase::Running;
            state.refused = None;
        }
        Action::Show => show(rules, state)?,
        _ if phase == Phase::Opening => return refuse("the database is not open yet"),
        Action::Pin => {
            let process = state.process_mut()?;
            process.pinned = Some(process.shown.tables.clone());
        }
        Action::Unpin => {
            let pinned = state.process_mut()?.pinned.take();
            read_tables(&state.disk, &pinned.unwrap_or_default())?;
        }
        _ => {
            check_resume(rules, state)?;
            state.process_mut()?.phase = Phase::Running;
            state.refused = None;
        }
    }
    Ok(())
}

fn check_opened(rules: &Rules, state: &State) -> Result<(), Refusal> {
    let process = state.process()?;
    let Some(log) = process.log else { return refuse("an open returns without a log") };
    if process.phase != Phase::Opening {
        return refuse("the database is open already");
    }
    let version = read_manifest(&state.disk, own_manifest(state)?, rules)?;
    if version != process.shown {
        return refuse("an open returns before its edit is durable");
    }
    check_version(rules, state, &version)?;
    let is_freed = version.log == log && process.memory.is_empty();
    if process.left_out && !is_freed && !rules.lack(Mutant::LeftOutLogKept) {
        return refuse("a log that was left out stays live");
    }
    Ok(())
}

/// Shows the version of the MANIFEST.
fn show(rules: &Rules, state: &mut State) -> Result<(), Refusal> {
    let target = match state.disk.targets().last() {
        Some(Some(target)) if rules.lack(Mutant::EditBeforeCurrentIsDurable) => *target,
        _ => own_manifest(state)?,
    };
    let manifest = Name::Manifest(target);
    let is_unsynced = !state.disk.is_durable(manifest);
    if is_unsynced && !rules.lack(Mutant::ShownBeforeSync) {
        return refuse("a version is shown before its edit is durable");
    }
    let version = read_manifest(&state.disk, target, rules)?;
    let in_tables = read_tables(&state.disk, &version.tables)?;
    let process = state.process_mut()?;
    if process.shown == version {
        return refuse("the version is shown already");
    }
    process.memory.retain(|write| !in_tables.contains(&write.id));
    process.shown = version;
    Ok(())
}

fn change_disk(rules: &Rules, state: &mut State, action: &Action) -> Result<(), Refusal> {
    let before = state.process()?.clone();
    match action {
        Action::Create(name) => create(state, *name)?,
        Action::Append(name, record) => append(rules, state, *name, record)?,
        Action::Sync(name) | Action::SyncFails(name) => {
            check_sync(rules, state, *name)?;
            if matches!(action, Action::Sync(_)) {
                state.disk.sync(*name);
                // A later sync hides that an earlier one failed.
                if rules.lack(Mutant::FailedSyncRetried) && before.phase == Phase::ReadOnly {
                    state.process_mut()?.phase = Phase::Running;
                }
                return Ok(());
            }
            state.disk.fail_sync(*name);
            // While the MANIFEST has failed, it takes no edits, and logs keep the writes.
            if matches!(name, Name::Log(_)) && before.phase == Phase::Running {
                state.process_mut()?.phase = Phase::ReadOnly;
            }
        }
        Action::SyncDir => state.disk.sync_dir(),
        Action::Rename(number) => {
            check_rename(rules, state, *number)?;
            state.disk.rename(*number);
        }
        // Temporary files are left out of what a crash leaves.
        Action::Remove(Name::Temp(number)) => state.disk.remove(Name::Temp(*number)),
        Action::Remove(name) => {
            if state.disk.file(*name).is_none() {
                return refuse(format!("{name:?} does not exist"));
            }
            check_removal(rules, state, *name)?;
            state.misdeeds.removed_needed |= is_needed(state, &before, *name);
            state.disk.remove(*name);
        }
        other => return refuse(format!("{other:?} does not change the disk")),
    }
    Ok(())
}

fn create(state: &mut State, name: Name) -> Result<(), Refusal> {
    let before = state.process()?;
    let Some(number) = name.number() else { return refuse("CURRENT is created by a rename") };
    if matches!(name, Name::Temp(_)) {
        state.disk.create(name);
        return Ok(());
    }
    if number < before.floor || before.used.contains(&number) {
        return refuse(format!("the number of {name:?} was used before"));
    }
    if name != Name::Manifest(1) && is_new(state) {
        return refuse(format!("{name:?} is created before CURRENT is durable"));
    }
    state.misdeeds.reused_number |= is_needed(state, before, name);
    state.disk.create(name);
    state.process_mut()?.used.insert(number);
    Ok(())
}

/// Returns whether the database is being created: `CURRENT` may not exist yet.
fn is_new(state: &State) -> bool {
    state.disk.targets().contains(&None)
}

fn check_sync(rules: &Rules, state: &State, name: Name) -> Result<(), Refusal> {
    let is_own = name
        .number()
        .is_some_and(|number| state.process().is_ok_and(|process| process.used.contains(&number)));
    if state.disk.file(name).is_none() || !is_own {
        return refuse(format!("{name:?} is not a file of this process"));
    }
    match state.disk.has(name, Status::Lost) && !rules.lack(Mutant::FailedSyncRetried) {
        true => refuse(format!("a failed sync of {name:?} is tried again")),
        false => Ok(()),
    }
}

fn append(rules: &Rules, state: &mut State, name: Name, record: &Record) -> Result<(), Refusal> {
    let Some(file) = state.disk.file(name) else {
        return refuse(format!("{name:?} does not exist"));
    };
    let is_empty = file.is_empty();
    let has_failed = state.disk.has(name, Status::Lost);
    match (name, record) {
        (Name::Log(_), Record::Begin(_)) | (Name::Manifest(_), Record::FailedEdit)
            if has_failed => {}
        (Name::Log(number), Record::Begin(next)) if is_empty => {
            begin_log(rules, state, number, *next)?;
        }
        (Name::Log(number), Record::Write(id, first, last)) => {
            let process = state.process()?;
            if process.phase != Phase::Running && !rules.lack(Mutant::WriteAfterFailedSync) {
                return refuse("a write is accepted after a failure");
            }
            if process.log != Some(number) || state.pending.is_some() {
                return refuse("a write goes to another log, or before an earlier write has ended");
            }
            if *first != state.next_seq() || last < first {
                return refuse("a write has a wrong sequence number");
            }
            let write = Logged { id: *id, last: *last, log: number, replayed: false };
            state.pending = Some(write);
        }
        (Name::Table(_), Record::Entries(ids)) if is_empty => {
            let applied = state.applied_ids();
            if ids.is_empty() || !ids.iter().all(|id| applied.contains(id)) {
                return refuse("a table has writes that were not applied");
            }
        }
        (Name::Manifest(number), Record::Edit(_)) => check_edit(rules, state, number, record)?,
        (Name::Temp(_), Record::Target(_)) if is_empty => {}
        _ => return refuse(format!("{record:?} is not for {name:?}")),
    }
    state.disk.append(name, record.clone());
    Ok(())
}

/// Makes the empty log `number` the one that takes writes.
fn begin_log(rules: &Rules, state: &mut State, number: Number, next: u64) -> Result<(), Refusal> {
    let seq = state.next_seq();
    let is_settled = state.pending.is_none();
    let process = state.process_mut()?;
    if !process.used.contains(&number) || process.log.is_some_and(|log| log >= number) {
        return refuse("a log follows a later one");
    }
    if !is_settled {
        return refuse("a log begins while a write is under way");
    }
    if next != seq && !(rules.lack(Mutant::LogBeginsUnmarked) && next == 0) {
        return refuse(format!("a log begins with {next}, not {seq}"));
    }
    process.log = Some(number);
    Ok(())
}

fn check_edit(rules: &Rules, state: &State, number: Number, added: &Record) -> Result<(), Refusal> {
    let manifest = Name::Manifest(number);
    if !state.process()?.used.contains(&number) || state.disk.has(manifest, Status::Lost) {
        return refuse("an edit goes to a MANIFEST of an earlier process, or to one that failed");
    }
    let targets = state.disk.targets();
    if !targets.contains(&Some(number)) {
        return Ok(());
    }
    if targets.len() > 1 && !rules.lack(Mutant::EditBeforeCurrentIsDurable) {
        return refuse("an edit goes to a MANIFEST that CURRENT does not durably name");
    }
    let is_dirty = state.disk.has(manifest, Status::Dirty);
    if is_dirty && !rules.lack(Mutant::EditAfterUnsyncedEdit) {
        return refuse("an edit follows another one that is not durable");
    }
    let records = state.disk.file(manifest).into_iter().flatten().map(|(record, _)| record);
    let edits = records.chain([added]).filter_map(|record| match record {
        Record::Edit(edit) => Some(edit),
        _ => None,
    });
    check_version(rules, state, &version_of(edits)?)
}

fn check_rename(rules: &Rules, state: &State, number: Number) -> Result<(), Refusal> {
    let (temp, manifest) = (Name::Temp(number), Name::Manifest(number));
    match state.disk.file(temp).map(Vec::as_slice) {
        Some([(Record::Target(target), _)]) if *target == number => {}
        _ => return refuse("CURRENT gets something else than the name of its MANIFEST"),
    }
    let unmet = |holds: bool, mutant: Mutant| !holds && !rules.lack(mutant);
    if unmet(state.disk.is_durable(temp), Mutant::CurrentUnsynced) {
        return refuse("CURRENT is renamed before it is synced");
    }
    if unmet(state.disk.is_durable(manifest), Mutant::ManifestUnsynced) {
        return refuse("CURRENT is renamed before its MANIFEST is synced");
    }
    if unmet(state.disk.is_name_durable(manifest), Mutant::ManifestNameUnsynced) {
        return refuse("CURRENT is renamed before the name of its MANIFEST is durable");
    }
    if state.disk.targets().iter().flatten().any(|target| *target >= number) {
        return refuse("CURRENT goes back to an earlier MANIFEST");
    }
    check_version(rules, state, &read_manifest(&state.disk, number, rules)?)
}
