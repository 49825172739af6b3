//! The disk of the model: files of records, names of files, and what a loss of power leaves of
//! both.
//!
//! A record is on the disk as a whole or not at all. Records that are not synced, and names whose
//! directory is not synced, survive a loss of power independently of each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A file number.
pub type Number = u64;

/// A sequence number.
pub type Seq = u64;

/// An identifier of a write, unique in the whole life of the database. Later writes have higher
/// identifiers.
pub type Id = u32;

/// A name in the directory of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Name {
    /// A write-ahead log.
    Log(Number),
    /// A table.
    Table(Number),
    /// A MANIFEST.
    Manifest(Number),
    /// The file that becomes `CURRENT` when it is renamed. Its number is that of its MANIFEST.
    Temp(Number),
    /// `CURRENT`, which names the MANIFEST in use.
    Current,
}

impl Name {
    /// Returns the file number in the name.
    pub fn number(self) -> Option<Number> {
        match self {
            Name::Log(number) | Name::Table(number) => Some(number),
            Name::Manifest(number) | Name::Temp(number) => Some(number),
            Name::Current => None,
        }
    }
}

/// A change of the version, as a MANIFEST records it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Edit {
    /// The first log that is still needed.
    pub log: Option<Number>,
    /// The first file number that is free.
    pub next: Option<Number>,
    /// The last sequence number in the tables.
    pub last: Option<Seq>,
    /// The tables removed from the version.
    pub drops: Vec<Number>,
    /// The tables added to the version.
    pub adds: Vec<Number>,
}

/// A record of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Record {
    /// An empty batch: the next write has this sequence number. A log begins with it; later in a
    /// log, it marks a failed sync.
    Begin(Seq),
    /// A batch of writes: its identifier, and its first and last sequence numbers.
    Write(Id, Seq, Seq),
    /// An edit of a MANIFEST.
    Edit(Edit),
    /// The mark of a failed sync in a MANIFEST.
    FailedEdit,
    /// The whole content of a table: the writes in it, in order.
    Entries(Vec<Id>),
    /// The content of `CURRENT`: the number of a MANIFEST.
    Target(Number),
    /// A record that was lost although a later one survived.
    Hole,
}

/// The durability of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// A later sync makes the record durable.
    Dirty,
    /// A sync failed. Reads return the record, it may or may not be on the disk, and no later sync
    /// will change that.
    Lost,
    /// The record survives a loss of power.
    Durable,
}

/// The records of a file, in order, each with its durability.
pub type File = Vec<(Record, Status)>;

/// A disk. The map of names has the contents that each name may have after a loss of power; the
/// last one is what reads see now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Disk {
    names: BTreeMap<Name, Vec<Option<Name>>>,
    /// Files by the names under which they were created.
    files: BTreeMap<Name, File>,
}

/// The reason why something is not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns a refusal with this reason.
pub fn refuse<T>(reason: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal(reason.into()))
}

impl Disk {
    /// Creates an empty file, in the place of the file that had the name.
    pub fn create(&mut self, name: Name) {
        self.files.insert(name, File::new());
        self.set(name, Some(name));
    }

    fn set(&mut self, name: Name, value: Option<Name>) {
        let before = self.names.remove(&name);
        // Nothing reads temporary files after a crash, so the durability of their names is left
        // out.
        let mut values = match name {
            Name::Temp(_) => Vec::new(),
            _ => before.unwrap_or_else(|| vec![None]),
        };
        values.push(value);
        if values != [None] {
            self.names.insert(name, values);
        }
        self.forget_unnamed();
    }

    fn forget_unnamed(&mut self) {
        let named: BTreeSet<Name> = self.names.values().flatten().flatten().copied().collect();
        self.files.retain(|name, _| named.contains(name));
    }

    /// Removes a name.
    pub fn remove(&mut self, name: Name) {
        self.set(name, None);
    }

    /// Renames the temporary file `number` to `CURRENT`.
    pub fn rename(&mut self, number: Number) {
        let values = self.names.entry(Name::Current).or_insert_with(|| vec![None]);
        values.push(Some(Name::Temp(number)));
        self.set(Name::Temp(number), None);
    }

    /// Appends a record to the file that has the name now.
    pub fn append(&mut self, name: Name, record: Record) {
        if let Some(file) = self.files.get_mut(&name) {
            file.push((record, Status::Dirty));
        }
    }

    /// Makes the records of a file durable that can still become so.
    pub fn sync(&mut self, name: Name) {
        self.settle(name, Status::Durable);
    }

    /// Takes note of a failed sync: the records that were not durable will never be.
    pub fn fail_sync(&mut self, name: Name) {
        self.settle(name, Status::Lost);
    }

    fn settle(&mut self, name: Name, status: Status) {
        let records = self.files.get_mut(&name).into_iter().flatten();
        records.filter(|(_, now)| *now == Status::Dirty).for_each(|(_, now)| *now = status);
    }

    /// Makes all names durable.
    pub fn sync_dir(&mut self) {
        for values in self.names.values_mut() {
            values.drain(..values.len() - 1);
        }
        self.names.retain(|_, values| *values != [None]);
        self.forget_unnamed();
    }

    /// Returns the file that has the name now.
    pub fn file(&self, name: Name) -> Option<&File> {
        let named = self.names.get(&name)?.last().copied().flatten()?;
        self.files.get(&named)
    }

    /// Returns the names that exist now.
    pub fn list(&self) -> impl Iterator<Item = Name> {
        self.names
            .iter()
            .filter(|(_, values)| matches!(values.last(), Some(Some(_))))
            .map(|(n, _)| *n)
    }

    /// Returns whether the name exists, and survives a loss of power.
    pub fn is_name_durable(&self, name: Name) -> bool {
        self.names.get(&name).is_some_and(|values| matches!(values[..], [Some(_)]))
    }

    /// Returns whether some names are not durable.
    pub fn has_pending_names(&self) -> bool {
        self.names.iter().any(|(name, values)| values.len() > 1 && !matches!(name, Name::Temp(_)))
    }

    /// Returns whether a file exists, has records, and all of them are durable.
    pub fn is_durable(&self, name: Name) -> bool {
        self.file(name).is_some_and(|file| {
            !file.is_empty() && file.iter().all(|(_, status)| *status == Status::Durable)
        })
    }

    /// Returns whether a record of a file has this status.
    pub fn has(&self, name: Name, wanted: Status) -> bool {
        self.file(name).is_some_and(|file| file.iter().any(|(_, status)| *status == wanted))
    }

    /// Returns the MANIFESTs that `CURRENT` may name after a loss of power; `None` if `CURRENT` may
    /// be missing or empty. The last one is what it names now.
    pub fn targets(&self) -> Vec<Option<Number>> {
        let Some(values) = self.names.get(&Name::Current) else { return vec![None] };
        let target = |value: &Option<Name>| match self.files.get(value.as_ref()?)?.as_slice() {
            [(Record::Target(number), _)] => Some(*number),
            _ => None,
        };
        values.iter().map(target).collect()
    }

    /// Returns the MANIFEST that `CURRENT` names, if that survives a loss of power.
    pub fn settled_target(&self) -> Option<Number> {
        match self.targets()[..] {
            [target] => target,
            _ => None,
        }
    }

    /// Returns what a loss of power leaves, if each name has the content that `pick` chooses among
    /// the given ones, and the records that are not durable survive for which `keeps` returns true.
    ///
    /// # Errors
    /// A choice that no loss of power makes.
    pub fn image(
        &self,
        pick: impl Fn(Name, &[Option<Name>]) -> Option<Name>,
        keeps: impl Fn(Name, usize) -> bool,
    ) -> Result<Disk, Refusal> {
        let mut image = Disk::default();
        for (name, values) in self.names.iter().filter(|(name, _)| !matches!(name, Name::Temp(_))) {
            let value = pick(*name, values);
            if !values.contains(&value) {
                return refuse(format!("no loss of power makes {name:?} {value:?}"));
            }
            let Some(file) = value else { continue };
            image.names.insert(*name, vec![value]);
            let records = self.files.get(&file).into_iter().flatten().enumerate();
            let mut survived = File::new();
            for (index, (record, status)) in records {
                let keep = keeps(file, index);
                if !keep && *status == Status::Durable {
                    return refuse(format!("a durable record of {file:?} is gone: {record:?}"));
                }
                let record = if keep { record.clone() } else { Record::Hole };
                survived.push((record, Status::Durable));
            }
            while survived.pop_if(|(record, _)| *record == Record::Hole).is_some() {}
            image.files.insert(file, survived);
        }
        Ok(image)
    }

    /// Returns the records of all files, for changes.
    pub fn records_mut(&mut self) -> impl Iterator<Item = &mut Record> {
        self.files.values_mut().flatten().map(|(record, _)| record)
    }

    /// Returns the disk with other names.
    pub fn renamed(&self, rename: impl Fn(Name) -> Name) -> Disk {
        let values = |values: &Vec<Option<Name>>| {
            values.iter().map(|value| value.map(&rename)).collect::<Vec<_>>()
        };
        Disk {
            names: self.names.iter().map(|(name, v)| (rename(*name), values(v))).collect(),
            files: self.files.iter().map(|(name, f)| (rename(*name), f.clone())).collect(),
        }
    }

    /// Returns all disks that a loss of power may leave.
    pub fn images(&self) -> BTreeSet<Disk> {
        let mut images = BTreeSet::new();
        for names in self.choices_of_names() {
            let chosen: BTreeSet<Name> = names.values().flatten().copied().collect();
            let mut doubtful = Vec::new();
            for (name, file) in self.files.iter().filter(|(name, _)| chosen.contains(name)) {
                let doubts = file.iter().enumerate();
                let doubts = doubts.filter(|(_, (_, status))| *status != Status::Durable);
                doubtful.extend(doubts.map(|(index, _)| (*name, index)));
            }
            for survivors in 0..1u32 << doubtful.len() {
                let keeps = |name, index| {
                    let doubt = doubtful.iter().position(|doubt| *doubt == (name, index));
                    doubt.is_none_or(|doubt| survivors & (1 << doubt) != 0)
                };
                let image = self.image(|name, _| names.get(&name).copied().flatten(), keeps);
                images.extend(image.ok());
            }
        }
        images
    }

    fn choices_of_names(&self) -> Vec<BTreeMap<Name, Option<Name>>> {
        let mut choices = vec![BTreeMap::new()];
        for (name, values) in self.names.iter().filter(|(name, _)| !matches!(name, Name::Temp(_))) {
            let distinct: BTreeSet<Option<Name>> = values.iter().copied().collect();
            let with = |value: &Option<Name>| {
                let value = *value;
                move |mut choice: BTreeMap<Name, Option<Name>>| {
                    choice.insert(*name, value);
                    choice
                }
            };
            choices = distinct.iter().flat_map(|v| choices.iter().cloned().map(with(v))).collect();
        }
        choices
    }
}
