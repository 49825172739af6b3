//! The directory of a node: its databases, its snapshots, and what a loss of power leaves of them.

use std::collections::{BTreeMap, BTreeSet};

/// A term of Raft. Zero is before the first.
pub type Term = u8;

/// An index of an entry. Zero is before the first.
pub type Index = u8;

/// A log entry. Its term and its index determine its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Entry {
    pub term: Term,
    pub index: Index,
}

/// The content of a database that has the log, the state, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Content {
    pub vote: Term,
    /// The terms of the entries, by index.
    pub log: BTreeMap<Index, Term>,
    pub purged: Entry,
    pub committed: Index,
    /// The entries that were applied, each as often as it was applied.
    pub machine: Vec<Entry>,
    /// The last applied entry, as the database names it.
    pub applied: Entry,
}

/// A database: its content after each commit that a loss of power may take, and after the last one.
/// The first content is durable. `None` is a directory that no open accepts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Database {
    pub versions: Vec<Option<Content>>,
}

impl Database {
    /// Returns the content that reads find.
    pub fn now(&self) -> Option<&Content> {
        self.versions.last()?.as_ref()
    }

    /// Commits a change, without a sync.
    pub fn write(&mut self, change: impl FnOnce(&mut Content)) {
        let mut content = self.now().cloned().unwrap_or_default();
        change(&mut content);
        if self.now() != Some(&content) {
            self.versions.push(Some(content));
        }
    }

    /// Makes all commits durable.
    pub fn sync(&mut self) {
        self.versions.drain(..self.versions.len() - 1);
    }
}

/// A file of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    Missing,
    /// Neither the content nor the name is synced.
    Written,
    /// The content is synced, the name is not.
    Synced,
    /// The name is synced, the content is not.
    Named,
    Durable,
    /// A loss of power has left a name without the content.
    Torn,
    /// Removed, until a loss of power brings it back.
    Removed,
}

impl Part {
    fn after_loss(self) -> &'static [Part] {
        match self {
            Part::Missing => &[Part::Missing],
            Part::Written => &[Part::Missing, Part::Torn, Part::Durable],
            Part::Synced | Part::Removed => &[Part::Missing, Part::Durable],
            Part::Named => &[Part::Torn, Part::Durable],
            Part::Durable => &[Part::Durable],
            Part::Torn => &[Part::Torn],
        }
    }

    /// Returns the part after a sync of its directory.
    pub fn named(self) -> Part {
        match self {
            Part::Written => Part::Named,
            Part::Synced => Part::Durable,
            Part::Removed => Part::Missing,
            other => other,
        }
    }

    /// Returns whether the name is there.
    pub fn is_there(self) -> bool {
        !matches!(self, Part::Missing | Part::Removed)
    }
}

/// The number of files in a snapshot: two of a database, and the file `SNAPSHOT`.
pub const PARTS: usize = 3;

/// A snapshot: a copy of the state.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Copy {
    /// The last entry in it.
    pub last: Entry,
    pub machine: Vec<Entry>,
    pub parts: [Part; PARTS],
}

/// A name in the directory of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// `state-NUMBER`.
    State(u8),
    /// `snapshots/building.new`, which has this snapshot.
    Building(u8),
    /// `snapshots/ID`.
    Kept(u8),
    /// `incoming/ID`.
    Received(u8),
}

/// The files of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Files {
    /// The states that `LIVE` may name after a loss of power; `None` if it may be damaged. The last
    /// one is what it names now.
    pub live: Vec<Option<u8>>,
    /// The database of the log, if the state has another one.
    pub log: Option<Database>,
    pub states: BTreeMap<u8, Database>,
    pub copies: BTreeMap<u8, Copy>,
    /// Whether each name may exist after a loss of power. The last one is whether it exists now.
    names: BTreeMap<Place, Vec<bool>>,
}

impl Files {
    /// Returns the files of a new node.
    pub fn new(has_two: bool) -> Files {
        let empty = Database { versions: vec![Some(Content::default())] };
        Files {
            live: vec![Some(1)],
            log: has_two.then(|| empty.clone()),
            states: BTreeMap::from([(1, empty)]),
            copies: BTreeMap::new(),
            names: BTreeMap::from([(Place::State(1), vec![true])]),
        }
    }

    /// Returns whether the name exists now.
    pub fn has(&self, place: Place) -> bool {
        self.names.get(&place).is_some_and(|values| values.last() == Some(&true))
    }

    /// Returns whether the name exists, and survives a loss of power.
    pub fn is_durable(&self, place: Place) -> bool {
        self.names.get(&place).is_some_and(|values| values[..] == [true])
    }

    /// Returns the names that exist now.
    pub fn places(&self) -> impl Iterator<Item = Place> {
        self.names.keys().copied().filter(|place| self.has(*place))
    }

    /// Creates or removes a name. Only a sync of its directory makes that durable.
    pub fn set(&mut self, place: Place, exists: bool) {
        let values = self.names.entry(place).or_insert_with(|| vec![false]);
        if values.last() != Some(&exists) {
            values.push(exists);
        }
    }

    /// Syncs the directories of the names for which `is_inside` returns true.
    pub fn settle(&mut self, is_inside: impl Fn(&Place) -> bool) {
        for (_, values) in self.names.iter_mut().filter(|(place, _)| is_inside(place)) {
            values.drain(..values.len() - 1);
        }
        self.forget();
    }

    /// Syncs the directory of the node: `LIVE` and the names of states.
    pub fn sync_root(&mut self) {
        self.live.drain(..self.live.len() - 1);
        self.settle(|place| matches!(place, Place::State(_)));
    }

    /// Forgets names and contents that nothing can bring back.
    fn forget(&mut self) {
        self.names.retain(|_, values| values[..] != [false]);
        let names = &self.names;
        self.states.retain(|number, _| names.contains_key(&Place::State(*number)));
        self.copies.retain(|id, _| {
            [Place::Building(*id), Place::Kept(*id), Place::Received(*id)]
                .iter()
                .any(|place| names.contains_key(place))
        });
    }

    /// Removes a directory and all that is in it, without a sync.
    pub fn remove(&mut self, place: Place) {
        self.set(place, false);
        match place {
            Place::State(number) => {
                if let Some(database) = self.states.get_mut(&number) {
                    database.versions.push(None);
                }
            }
            Place::Building(id) | Place::Kept(id) | Place::Received(id) => {
                let parts = self.copies.get_mut(&id).map(|copy| &mut copy.parts);
                let there = parts.into_iter().flatten().filter(|part| part.is_there());
                there.for_each(|part| *part = Part::Removed);
            }
        }
    }

    /// Returns the database of the log of a node whose live state has this number.
    pub fn log_of(&self, state: u8) -> Option<&Database> {
        self.log.as_ref().or_else(|| self.states.get(&state))
    }

    /// Returns the database of the log for changes.
    pub fn log_mut(&mut self, state: u8) -> Option<&mut Database> {
        match &mut self.log {
            Some(log) => Some(log),
            None => self.states.get_mut(&state),
        }
    }

    /// Returns all that a loss of power may leave. What every open removes unread is left out:
    /// incoming snapshots, unfinished ones, and states that are not live.
    pub fn images(&self) -> BTreeSet<Files> {
        let logs = self.log.iter().flat_map(|log| log.versions.iter().cloned().map(Some));
        let logs: Vec<_> = if self.log.is_some() { logs.collect() } else { vec![None] };
        let mut images = BTreeSet::new();
        for live in &self.live {
            for (state, is_there) in self.states_after_loss(*live) {
                for log in &logs {
                    let alone =
                        |version: &Option<Content>| Database { versions: vec![version.clone()] };
                    let mut image = Files {
                        live: vec![live.map(|_| 1)],
                        log: log.as_ref().map(alone),
                        states: BTreeMap::from([(1, alone(&state))]),
                        copies: BTreeMap::new(),
                        names: BTreeMap::new(),
                    };
                    if is_there {
                        image.names.insert(Place::State(1), vec![true]);
                    }
                    images.extend(self.with_copies(&image));
                }
            }
        }
        images
    }

    fn states_after_loss(&self, live: Option<u8>) -> Vec<(Option<Content>, bool)> {
        let Some(number) = live else { return vec![(None, true)] };
        let names = self.names.get(&Place::State(number)).cloned().unwrap_or(vec![false]);
        let versions = self.states.get(&number).map_or(vec![None], |d| d.versions.clone());
        let with = |name: bool| versions.iter().map(move |version| (version.clone(), name));
        names.into_iter().flat_map(with).collect()
    }

    /// Returns `image` with each choice of the kept snapshots, numbered anew.
    fn with_copies(&self, image: &Files) -> Vec<Files> {
        let mut images = vec![image.clone()];
        for (id, copy) in &self.copies {
            let Some(names) = self.names.get(&Place::Kept(*id)) else { continue };
            let mut next = Vec::new();
            for image in images {
                if names.contains(&false) {
                    next.push(image.clone());
                }
                if names.contains(&true) {
                    next.extend(all_parts(&copy.parts).into_iter().map(|parts| {
                        let (mut image, id) = (image.clone(), image.copies.len() as u8 + 1);
                        image.copies.insert(id, Copy { parts, ..copy.clone() });
                        image.names.insert(Place::Kept(id), vec![true]);
                        image
                    }));
                }
            }
            images = next;
        }
        images
    }
}

/// Returns all that a loss of power may leave of the parts.
fn all_parts(parts: &[Part; PARTS]) -> Vec<[Part; PARTS]> {
    let mut all = vec![*parts];
    for at in 0..PARTS {
        let with = |now: [Part; PARTS]| {
            parts[at].after_loss().iter().map(move |part| {
                let mut changed = now;
                changed[at] = *part;
                changed
            })
        };
        all = all.into_iter().flat_map(with).collect();
    }
    all
}
