//! The reading of a database's files: what an open finds on a disk.

use std::collections::BTreeSet;

use crate::disk::{Disk, Edit, File, Id, Name, Number, Record, Refusal, Seq, Status, refuse};
use crate::rules::{Mutant, Rules};

/// The content of a MANIFEST.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Version {
    /// The tables.
    pub tables: BTreeSet<Number>,
    /// The first log that is still needed.
    pub log: Number,
    /// The first file number that is free.
    pub next: Number,
    /// The last sequence number in the tables.
    pub last: Seq,
}

/// A write that is in memory: its identifier and last sequence number, and the log that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Logged {
    pub id: Id,
    pub last: Seq,
    pub log: Number,
    /// Whether an open found the write in the log. Then nobody knows whether a sync of the log
    /// failed before.
    pub replayed: bool,
}

/// The result of an open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    pub version: Version,
    /// The writes in tables.
    pub in_tables: Vec<Id>,
    /// The writes in logs, in order.
    pub replayed: Vec<Logged>,
    /// Whether logs, or parts of them, were left out.
    pub left_out: bool,
    /// The last sequence number of all these writes.
    pub last: Seq,
}

impl Recovered {
    /// Returns the identifiers of all writes, in order.
    pub fn ids(&self) -> Vec<Id> {
        let replayed = self.replayed.iter().map(|write| write.id);
        let ids: BTreeSet<Id> = self.in_tables.iter().copied().chain(replayed).collect();
        ids.into_iter().collect()
    }
}

/// Applies edits to an empty version, in order.
///
/// # Errors
/// A refusal, if the edits do not say everything.
pub fn version_of<'a>(edits: impl Iterator<Item = &'a Edit>) -> Result<Version, Refusal> {
    let (mut tables, mut merged) = (BTreeSet::new(), Edit::default());
    for edit in edits {
        tables.retain(|table| !edit.drops.contains(table));
        tables.extend(edit.adds.iter().copied());
        merged.log = edit.log.or(merged.log);
        merged.next = edit.next.or(merged.next);
        merged.last = edit.last.or(merged.last);
    }
    match merged {
        Edit { log: Some(log), next: Some(next), last: Some(last), .. } => {
            Ok(Version { tables, log, next, last })
        }
        _ => refuse("the MANIFEST has no log number, next file number or last sequence number"),
    }
}

/// Returns the edits of a MANIFEST, up to its end or to damage at its end.
///
/// # Errors
/// A refusal, if a record follows the damage. The mark of a failed sync does not count: the edit
/// before it may be what that sync has lost.
fn edits<'a>(file: &'a File, rules: &Rules) -> Result<Vec<&'a Edit>, Refusal> {
    let (mut edits, mut is_damaged) = (Vec::new(), false);
    for (record, _) in file {
        match record {
            Record::Edit(edit) if !is_damaged => edits.push(edit),
            Record::Hole => is_damaged = true,
            Record::FailedEdit if !is_damaged || !rules.lack(Mutant::MarkCountsAsEdit) => {}
            _ => return refuse("a record follows damage in the MANIFEST"),
        }
    }
    Ok(edits)
}

/// Returns the version that reads of the MANIFEST `number` find now.
///
/// # Errors
/// A refusal, if the MANIFEST is missing or damaged.
pub fn read_manifest(disk: &Disk, number: Number, rules: &Rules) -> Result<Version, Refusal> {
    let Some(file) = disk.file(Name::Manifest(number)) else {
        return refuse("CURRENT names a MANIFEST that does not exist");
    };
    version_of(edits(file, rules)?.into_iter())
}

/// Returns all versions that an open may find after a loss of power or a kill.
pub fn possible_versions(disk: &Disk) -> Vec<Version> {
    let mut versions = Vec::new();
    for target in disk.targets().into_iter().flatten() {
        let Some(file) = disk.file(Name::Manifest(target)) else { continue };
        let sure = file.iter().take_while(|(_, status)| *status == Status::Durable).count();
        for end in sure..=file.len() {
            let edits = file[..end].iter().filter_map(|(record, _)| match record {
                Record::Edit(edit) => Some(edit),
                _ => None,
            });
            versions.extend(version_of(edits).ok());
        }
    }
    versions
}

/// Returns the writes in a table; `None` if the table is missing or damaged.
pub fn read_table(disk: &Disk, number: Number) -> Option<&[Id]> {
    match disk.file(Name::Table(number))?.as_slice() {
        [(Record::Entries(ids), _)] => Some(ids),
        _ => None,
    }
}

/// Returns the writes in the tables of a version, in order.
///
/// # Errors
/// A refusal that names a table which is missing or damaged.
pub fn read_tables(disk: &Disk, tables: &BTreeSet<Number>) -> Result<Vec<Id>, Refusal> {
    let mut ids = BTreeSet::new();
    for table in tables {
        match read_table(disk, *table) {
            Some(entries) => ids.extend(entries),
            None => return refuse(format!("table {table} is missing or damaged")),
        }
    }
    Ok(ids.into_iter().collect())
}

/// Returns what an open finds. Returns `None` if there is no database, and nothing that could be a
/// part of one.
///
/// # Errors
/// The reason why the database does not open.
pub fn recover(disk: &Disk, rules: &Rules) -> Result<Option<Recovered>, Refusal> {
    let Some(target) = disk.targets().last().copied().flatten() else {
        let is_part = |name: &Name| match name {
            Name::Log(_) | Name::Table(_) | Name::Current => true,
            Name::Manifest(number) => *number > 1,
            Name::Temp(_) => false,
        };
        return match disk.list().find(is_part) {
            None => Ok(None),
            Some(part) => refuse(format!("there is no CURRENT, but {part:?}")),
        };
    };
    let version = read_manifest(disk, target, rules)?;
    let in_tables = read_tables(disk, &version.tables)?;
    let mut recovered =
        Recovered { last: version.last, version, in_tables, replayed: Vec::new(), left_out: false };
    for name in disk.list() {
        let Name::Log(number) = name else { continue };
        if number < recovered.version.log {
            continue;
        }
        let file = disk.file(name).map_or(&[][..], Vec::as_slice);
        if !recovered.left_out {
            replay(file, number, &mut recovered, rules);
        }
    }
    Ok(Some(recovered))
}

/// Replays a log, up to its end, or to the first sign that records are missing.
fn replay(file: &[(Record, Status)], number: Number, recovered: &mut Recovered, rules: &Rules) {
    for (index, (record, _)) in file.iter().enumerate() {
        match record {
            Record::Begin(next) if *next > recovered.last + 1 => {
                if rules.lack(Mutant::RecoveryIgnoresGaps) {
                    continue;
                }
                // If no record follows, nothing is left out.
                recovered.left_out = index + 1 < file.len();
                return;
            }
            Record::Write(id, _, last) => {
                recovered.last = recovered.last.max(*last);
                let (id, last) = (*id, *last);
                if recovered.in_tables.contains(&id) {
                    continue;
                }
                recovered.replayed.push(Logged { id, last, log: number, replayed: true });
            }
            Record::Hole if !rules.lack(Mutant::RecoveryGoesOnAfterHoles) => {
                recovered.left_out = true;
                return;
            }
            _ => {}
        }
    }
}
