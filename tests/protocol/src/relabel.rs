//! Equivalent states made equal: after a loss of power, only the order of numbers matters, and only
//! the files that an open reads.

use std::collections::{BTreeMap, BTreeSet};

use crate::disk::{Disk, Id, Name, Number, Record};
use crate::recover::read_manifest;
use crate::rules::Rules;
use crate::state::State;

/// Removes the files that no open reads: it would only remove them. Then numbers the files, the
/// edits' numbers and the writes anew, in the same order, without gaps.
///
/// The state must be one right after a loss of power.
pub fn simplify(state: &mut State) {
    let target = state.disk.targets().last().copied().flatten();
    if let Some(version) =
        target.and_then(|target| read_manifest(&state.disk, target, &Rules::default()).ok())
    {
        let unread = |name: &Name| match name {
            Name::Log(number) => *number < version.log,
            Name::Table(number) => !version.tables.contains(number),
            Name::Manifest(number) => Some(*number) != target,
            Name::Temp(_) | Name::Current => false,
        };
        let unread: Vec<Name> = state.disk.list().filter(unread).collect();
        unread.into_iter().for_each(|name| state.disk.remove(name));
        state.disk.sync_dir();
    }
    state.disk = renumbered(&state.disk);
    let mut ids: BTreeSet<Id> = state.history().iter().map(|write| write.id).collect();
    state.disk.records_mut().for_each(|record| match record {
        Record::Write(id, ..) => drop(ids.replace(*id)),
        Record::Entries(entries) => ids.extend(entries.iter()),
        _ => {}
    });
    let ranks: BTreeMap<Id, Id> = ids.into_iter().zip(1..).collect();
    state.disk.records_mut().for_each(|record| match record {
        Record::Write(id, ..) => *id = ranks[id],
        Record::Entries(entries) => entries.iter_mut().for_each(|id| *id = ranks[id]),
        _ => {}
    });
    state.applied.iter_mut().for_each(|write| write.id = ranks[&write.id]);
    let last = state.pending.iter_mut().chain(&mut state.refused);
    last.for_each(|write| write.id = ranks[&write.id]);
    state.spent.next_id = ranks.len() as Id;
}

/// Returns the disk with other file numbers. Zero, the log number of a new database, stays.
fn renumbered(disk: &Disk) -> Disk {
    let mut numbers: BTreeSet<Number> = disk.list().filter_map(Name::number).collect();
    let mut disk = disk.clone();
    disk.records_mut().for_each(|record| match record {
        Record::Edit(edit) => {
            numbers.extend(edit.log.iter().chain(&edit.next).chain(&edit.adds).chain(&edit.drops));
        }
        Record::Target(target) => drop(numbers.replace(*target)),
        _ => {}
    });
    numbers.remove(&0);
    let mut ranks: BTreeMap<Number, Number> = numbers.into_iter().zip(1..).collect();
    ranks.insert(0, 0);
    disk.records_mut().for_each(|record| match record {
        Record::Edit(edit) => {
            let numbers = edit.log.iter_mut().chain(&mut edit.next);
            let numbers = numbers.chain(&mut edit.adds).chain(&mut edit.drops);
            numbers.for_each(|number| *number = ranks[number]);
        }
        Record::Target(target) => *target = ranks[target],
        _ => {}
    });
    disk.renamed(|name| match name {
        Name::Log(number) => Name::Log(ranks[&number]),
        Name::Table(number) => Name::Table(ranks[&number]),
        Name::Manifest(number) => Name::Manifest(ranks[&number]),
        // The file that CURRENT names.
        Name::Temp(_) => Name::Temp(0),
        Name::Current => Name::Current,
    })
}
