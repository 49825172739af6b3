//! The translation of recorded events into steps of the model.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use minikv::fs::Fs;
use minikv::fs::sim::SimFs;

use crate::disk::{Name, Number, Record};
use crate::state::Action;
use crate::trace::decode::{marks, parse_batch, parse_current, parse_edit, parse_name, payloads};
use crate::trace::record::{Event, FileOp};

/// A step of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A step of the model.
    Do(Action),
    /// A write has returned an error. It may be in the log.
    WriteFailed,
    /// Power was lost, and these names and records survived. A record is named by its file and its
    /// index there.
    PowerLoss { names: BTreeSet<Name>, target: Option<Number>, records: BTreeSet<(Name, usize)> },
}

/// The files of a database, as far as they were written while events were recorded.
#[derive(Clone, Debug, Default)]
pub struct Translator {
    /// The bytes of each record of each file, in order, and whether the record is not lost.
    records: BTreeMap<Name, Vec<(Vec<u8>, bool)>>,
    /// The bytes of tables that are not synced yet.
    tables: BTreeMap<Name, Vec<u8>>,
}

impl Translator {
    /// Returns the steps of an event in the database `dir`.
    ///
    /// # Errors
    /// A description of an event that the model does not know.
    pub fn steps(&mut self, event: &Event, dir: &Path) -> Result<Vec<Step>, String> {
        let step = match event {
            Event::Op(op, path, is_ok) => return self.of_op(op, path, *is_ok, dir),
            Event::Open => Action::Open,
            Event::Opened(true) => Action::Opened,
            Event::Opened(false) | Event::Stop => Action::Stop,
            Event::Written(sync, true) => Action::Acknowledge { sync: *sync },
            Event::Written(_, false) => return Ok(vec![Step::WriteFailed]),
            Event::Synced => Action::AcknowledgeSync,
            Event::Resumed => Action::Resumed,
            Event::Holds(true) => Action::Pin,
            Event::Holds(false) => Action::Unpin,
            Event::Read(ids) => Action::Read(ids.clone()),
            Event::Note(_) => return Ok(Vec::new()),
        };
        Ok(vec![Step::Do(step)])
    }

    fn of_op(
        &mut self,
        op: &FileOp,
        path: &Path,
        is_ok: bool,
        dir: &Path,
    ) -> Result<Vec<Step>, String> {
        if *op == FileOp::SyncDir {
            let is_ours = path == dir && is_ok;
            return Ok(if is_ours { vec![Step::Do(Action::SyncDir)] } else { Vec::new() });
        }
        if path.parent() != Some(dir) {
            return Ok(Vec::new());
        }
        let name = path.file_name().and_then(|name| parse_name(name.to_str()?));
        let Some(name) = name else { return Ok(Vec::new()) };
        let mut actions = Vec::new();
        match op {
            FileOp::Sync if matches!(name, Name::Table(_)) => {
                actions.extend(self.finish_table(name));
                actions.push(if is_ok { Action::Sync(name) } else { Action::SyncFails(name) });
            }
            FileOp::Sync if is_ok => actions.push(Action::Sync(name)),
            FileOp::Sync => actions.push(Action::SyncFails(name)),
            // What fails without an effect is no step.
            _ if !is_ok => {}
            FileOp::Create => {
                self.records.insert(name, Vec::new());
                self.tables.remove(&name);
                actions.push(Action::Create(name));
            }
            FileOp::Write(bytes) => actions.extend(self.write(name, bytes)?),
            FileOp::Rename(to) if to.file_name().is_some_and(|to| to == "CURRENT") => {
                let number = name.number().ok_or("CURRENT is renamed to itself")?;
                actions.push(Action::Rename(number));
            }
            FileOp::Remove => actions.push(Action::Remove(name)),
            other => return Err(format!("{other:?} of {name:?}")),
        }
        Ok(actions.into_iter().map(Step::Do).collect())
    }

    /// Returns the step that gives a table its content, which is known when it is synced first.
    fn finish_table(&mut self, table: Name) -> Option<Action> {
        let bytes = self.tables.remove(&table)?;
        let entries = Record::Entries(marks(&bytes));
        self.records.entry(table).or_default().push((bytes, true));
        Some(Action::Append(table, entries))
    }

    fn write(&mut self, name: Name, bytes: &[u8]) -> Result<Vec<Action>, String> {
        if matches!(name, Name::Table(_)) {
            if self.records.get(&name).is_some_and(|records| !records.is_empty()) {
                return Err(format!("{name:?} is written after its sync"));
            }
            self.tables.entry(name).or_default().extend_from_slice(bytes);
            return Ok(Vec::new());
        }
        let records = self.records.entry(name).or_default();
        let offset = records.iter().map(|(bytes, _)| bytes.len()).sum();
        let parse = match name {
            Name::Temp(_) => {
                records.push((bytes.to_vec(), true));
                let target = parse_current(bytes).ok_or("CURRENT names no MANIFEST")?;
                return Ok(vec![Action::Append(name, Record::Target(target))]);
            }
            Name::Log(_) => parse_batch,
            _ => parse_edit,
        };
        let payloads = payloads(bytes, offset).ok_or_else(|| format!("{name:?} has no record"))?;
        let [payload] = &payloads[..] else { return Err(format!("{name:?}: not one record")) };
        let record = parse(payload).ok_or_else(|| format!("{name:?} has an unknown record"))?;
        records.push((bytes.to_vec(), true));
        Ok(vec![Action::Append(name, record)])
    }

    /// Returns the step of the loss of power that has left `image`, and forgets what was lost.
    ///
    /// # Errors
    /// An I/O error, or a `CURRENT` that names no MANIFEST.
    pub fn power_loss(&mut self, image: &SimFs, dir: &Path) -> Result<Step, String> {
        let listed = image.list(dir).unwrap_or_default();
        let names: BTreeSet<Name> = listed.iter().filter_map(|name| parse_name(name)).collect();
        let read = |file: &str| -> Result<Vec<u8>, String> {
            let path = dir.join(file);
            let len = Fs::len(image, &path).map_err(|error| error.to_string())?;
            let mut bytes = vec![0; usize::try_from(len).map_err(|error| error.to_string())?];
            let file = image.open(&path).map_err(|error| error.to_string())?;
            file.read_at(&mut bytes, 0).map_err(|error| error.to_string())?;
            Ok(bytes)
        };
        let mut target = None;
        if names.contains(&Name::Current) {
            let number = parse_current(&read("CURRENT")?).ok_or("CURRENT names no MANIFEST")?;
            target = Some(number);
        }
        let mut survivors = BTreeSet::new();
        for file in &listed {
            let Some(name) = parse_name(file) else { continue };
            let Some(records) = self.records.get_mut(&name) else { continue };
            let (bytes, mut offset) = (read(file)?, 0);
            for (index, (written, is_there)) in records.iter_mut().enumerate() {
                let range = offset..offset + written.len();
                offset = range.end;
                // What an earlier loss of power has taken is a durable hole.
                let is_hole = !*is_there;
                *is_there &= bytes.get(range) == Some(&written[..]);
                if *is_there || is_hole {
                    survivors.insert((name, index));
                }
            }
        }
        self.records.retain(|name, _| names.contains(name));
        Ok(Step::PowerLoss { names, target, records: survivors })
    }
}
