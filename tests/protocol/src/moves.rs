//! The moves that an exploration tries in a state. A move is a short sequence of steps; the rules
//! decide whether it is allowed.
//!
//! The creation of a file and its first record are one move: a loss of power may take either, and
//! after a kill between the two, an open finds the same as if the record had been lost.

use std::collections::BTreeSet;

use crate::disk::{Edit, Id, Name, Number, Record, Status};
use crate::recover::{Version, read_manifest, read_table, read_tables};
use crate::rules::{Mutant, Rules};
use crate::state::{Action, Phase, Process, Spent, State, whole_edit};

/// A list of moves for one state.
pub struct Moves<'a> {
    pub rules: &'a Rules,
    pub most: &'a Spent,
    pub state: &'a State,
    pub process: &'a Process,
    pub moves: Vec<Vec<Action>>,
}

impl Moves<'_> {
    /// Adds all moves of the process, of its clients, and of its disk, except for removals.
    pub fn add_all(&mut self) {
        self.add_of_clients();
        self.add_of_logs();
        self.add_of_tables();
        self.add_syncs();
        self.add_edits();
        self.add_switches();
    }

    /// Adds removals of all files.
    pub fn add_removals(&mut self) {
        let names = self.state.disk.list().filter(|name| !matches!(name, Name::Temp(_)));
        self.moves.extend(names.map(|name| vec![Action::Remove(name)]));
    }

    fn add(&mut self, steps: impl Into<Vec<Action>>) {
        self.moves.push(steps.into());
    }

    fn next_number(&self) -> Number {
        let last = self.process.used.last();
        last.map_or(self.process.floor, |last| (last + 1).max(self.process.floor))
    }

    fn add_of_clients(&mut self) {
        let (state, process) = (self.state, self.process);
        if let (Some(log), true) = (process.log, state.spent.writes < self.most.writes) {
            let (id, seq) = (state.spent.next_id + 1, state.next_seq());
            self.add([Action::Append(Name::Log(log), Record::Write(id, seq, seq))]);
        }
        if state.pending.is_some() {
            self.add([Action::Acknowledge { sync: false }]);
            self.add([Action::Acknowledge { sync: true }]);
            // A write may fail for other reasons as well, which are left out.
            if process.phase == Phase::ReadOnly {
                self.add([Action::Refuse]);
            }
        }
        if process.phase == Phase::ReadOnly {
            self.add([Action::Resumed]);
        }
        match process.pinned {
            Some(_) => self.add([Action::Unpin]),
            None if state.spent.pins < self.most.pins => self.add([Action::Pin]),
            None => {}
        }
    }

    fn add_of_logs(&mut self) {
        if self.state.spent.logs < self.most.logs {
            let log = Name::Log(self.next_number());
            let lacks_mark = self.rules.lack(Mutant::LogBeginsUnmarked);
            let next = if lacks_mark { 0 } else { self.state.next_seq() };
            self.add([Action::Create(log), Action::Append(log, Record::Begin(next))]);
        }
        for name in self.state.disk.list().filter(|name| has_unmarked_failure(self.state, *name)) {
            let mark = match name {
                Name::Log(_) => Record::Begin(self.state.next_seq()),
                _ => Record::FailedEdit,
            };
            self.moves.push(vec![Action::Append(name, mark)]);
        }
    }

    fn add_of_tables(&mut self) {
        let is_busy = !self.unnamed_tables().is_empty();
        if is_busy || self.state.spent.tables == self.most.tables {
            return;
        }
        let table = Name::Table(self.next_number());
        for ids in self.contents_of_tables() {
            self.add([Action::Create(table), Action::Append(table, Record::Entries(ids))]);
        }
    }

    fn add_syncs(&mut self) {
        let disk = &self.state.disk;
        let can_fail = self.state.spent.faults < self.most.faults;
        for name in disk.list() {
            let again = self.rules.lack(Mutant::FailedSyncRetried) && disk.has(name, Status::Lost);
            if again || disk.has(name, Status::Dirty) && !matches!(name, Name::Temp(_)) {
                self.moves.push(vec![Action::Sync(name)]);
                if can_fail {
                    self.moves.push(vec![Action::SyncFails(name)]);
                }
            }
        }
        if disk.has_pending_names() {
            self.add([Action::SyncDir]);
        }
    }

    /// Adds edits to the MANIFEST in use.
    fn add_edits(&mut self) {
        let targets = self.state.disk.targets();
        let Some(Some(target)) = targets.last() else { return };
        let Ok(base) = read_manifest(&self.state.disk, *target, self.rules) else { return };
        let manifest = Name::Manifest(*target);
        for edit in self.edits(&base) {
            self.add([Action::Append(manifest, Record::Edit(edit))]);
        }
    }

    /// Adds the steps to a new MANIFEST.
    fn add_switches(&mut self) {
        let targets = self.state.disk.targets();
        let base = match targets.last().copied().flatten() {
            None => Some(Version { next: 2, ..Version::default() }),
            Some(target) => read_manifest(&self.state.disk, target, self.rules).ok(),
        };
        let is_new = |name: &Name| match name {
            Name::Manifest(number) => {
                self.process.used.contains(number) && !targets.contains(&Some(*number))
            }
            _ => false,
        };
        let number = self.next_number();
        let manifest = Name::Manifest(number);
        match (self.state.disk.list().find(is_new), base) {
            (Some(Name::Manifest(new)), _) => {
                let temp = Name::Temp(new);
                let mut switch =
                    vec![Action::Create(temp), Action::Append(temp, Record::Target(new))];
                if !self.rules.lack(Mutant::CurrentUnsynced) {
                    switch.push(Action::Sync(temp));
                }
                switch.push(Action::Rename(new));
                self.add(switch);
            }
            (None, Some(base)) if self.state.spent.manifests < self.most.manifests => {
                let mut edits = self.edits(&base);
                edits.push(Edit::default());
                for edit in edits {
                    let version = Version { next: number + 1, ..applied(&base, &edit) };
                    let whole = Record::Edit(whole_edit(&version));
                    self.add([Action::Create(manifest), Action::Append(manifest, whole)]);
                }
            }
            _ => {}
        }
    }

    /// Returns the tables of the process that it does not show.
    fn unnamed_tables(&self) -> Vec<Number> {
        let tables = self.state.disk.list().filter_map(|name| match name {
            Name::Table(number) => Some(number),
            _ => None,
        });
        let (used, shown) = (&self.process.used, &self.process.shown.tables);
        tables.filter(|table| used.contains(table) && !shown.contains(table)).collect()
    }

    /// Returns the contents that a table may get: the writes of a log that takes no more writes,
    /// and the writes of all shown tables.
    fn contents_of_tables(&self) -> Vec<Vec<Id>> {
        let memory = &self.process.memory;
        let full = memory.iter().filter(|write| Some(write.log) < self.process.log);
        let mut logs: Vec<Number> = full.map(|write| write.log).collect();
        logs.dedup();
        if !self.rules.lack(Mutant::FlushOutOfOrder) {
            logs.truncate(1);
        }
        let of_log = |log: Number| {
            let writes = memory.iter().filter(move |write| write.log == log);
            writes.map(|write| write.id).collect::<Vec<Id>>()
        };
        let mut contents: Vec<Vec<Id>> = logs.into_iter().map(of_log).collect();
        if self.process.shown.tables.len() > 1 {
            contents.extend(read_tables(&self.state.disk, &self.process.shown.tables).ok());
        }
        contents
    }

    /// Returns edits of the version `base`: one for the new tables, if there are any, and one for
    /// the log number alone.
    fn edits(&self, base: &Version) -> Vec<Edit> {
        let disk = &self.state.disk;
        let read = |table: &Number| read_table(disk, *table).unwrap_or_default();
        let mut new = self.unnamed_tables();
        new.retain(|table| !base.tables.contains(table) && !read(table).is_empty());
        let added: BTreeSet<Id> = new.iter().flat_map(read).copied().collect();
        let is_merged = |table: &&Number| read(table).iter().all(|id| added.contains(id));
        let drops: Vec<Number> = base.tables.iter().filter(is_merged).copied().collect();
        let mut edits = Vec::new();
        if !new.is_empty() {
            edits.extend(self.edit(base, new, drops));
        }
        let freed = self.edit(base, Vec::new(), Vec::new());
        edits.extend(freed.filter(|freed| freed.log != Some(base.log)));
        edits
    }

    /// Returns the edit of `base` that adds and drops tables. Returns `None` if there is no log
    /// yet.
    fn edit(&self, base: &Version, adds: Vec<Number>, drops: Vec<Number>) -> Option<Edit> {
        let current = self.process.log?;
        let tables = base.tables.iter().filter(|table| !drops.contains(table)).chain(&adds);
        let read = |table: &Number| read_table(&self.state.disk, *table).unwrap_or_default();
        let in_tables: BTreeSet<Id> = tables.flat_map(read).copied().collect();
        let mut in_logs = self.process.memory.iter().filter(|write| !in_tables.contains(&write.id));
        let oldest = in_logs.next().map_or(current, |write| write.log);
        let log = if self.rules.lack(Mutant::LogFreedEarly) { current } else { oldest };
        let last = self.state.applied.iter().rfind(|write| in_tables.contains(&write.id));
        let last = match self.rules.lack(Mutant::LastSeqTooHigh) {
            true => self.state.next_seq() - 1,
            false => last.map_or(0, |write| write.last),
        };
        let next = self.next_number();
        Some(Edit { log: Some(log), next: Some(next), last: Some(last), drops, adds })
    }
}

/// Returns the version after an edit.
fn applied(base: &Version, edit: &Edit) -> Version {
    let kept = base.tables.iter().filter(|table| !edit.drops.contains(table));
    Version {
        tables: kept.chain(&edit.adds).copied().collect(),
        log: edit.log.unwrap_or(base.log),
        next: edit.next.unwrap_or(base.next),
        last: edit.last.unwrap_or(base.last),
    }
}

/// Returns whether a sync of the log or MANIFEST has failed, and no mark says so.
fn has_unmarked_failure(state: &State, name: Name) -> bool {
    matches!(name, Name::Log(_) | Name::Manifest(_))
        && state.disk.file(name).is_some_and(|file| {
            matches!(file.last(), Some((record, Status::Lost)) if *record != Record::FailedEdit)
        })
}

/// Returns the moves that create a database and open it.
pub fn creation() -> Vec<Action> {
    let edit = |log, next| {
        let version = Version { log, next, ..Version::default() };
        Record::Edit(whole_edit(&version))
    };
    let log = Name::Log(2);
    let mut steps = vec![Action::Open];
    let switch = |number, edit| {
        let (manifest, temp) = (Name::Manifest(number), Name::Temp(number));
        [
            Action::Create(manifest),
            Action::Append(manifest, edit),
            Action::Sync(manifest),
            Action::SyncDir,
            Action::Create(temp),
            Action::Append(temp, Record::Target(number)),
            Action::Sync(temp),
            Action::Rename(number),
            Action::SyncDir,
        ]
    };
    steps.extend(switch(1, edit(0, 2)));
    steps.extend([Action::Show, Action::Create(log), Action::Append(log, Record::Begin(1))]);
    steps.extend(switch(3, edit(2, 4)));
    steps.extend([
        Action::Show,
        Action::Opened,
        Action::Remove(Name::Manifest(1)),
        Action::SyncDir,
    ]);
    steps
}
