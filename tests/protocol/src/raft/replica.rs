//! A node of the model: its files, at most one process that uses them, what the process has
//! promised, and what the cluster has chosen.

use std::collections::{BTreeMap, BTreeSet};

use crate::disk::{Refusal, refuse};
use crate::raft::files::{Database, Entry, Files, Index, Place, Term};
use crate::raft::laws::Laws;
use crate::state::Ending;

/// A job of the thread that writes the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Job {
    pub vote: Option<Term>,
    pub entries: Vec<Entry>,
    pub committed: Index,
}

/// The call of the log that openraft waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Call {
    #[default]
    None,
    /// A vote, or an append to a log that calls back late.
    Writing,
    /// A truncation of these entries.
    Truncating(Vec<Entry>),
    /// A purge up to this entry.
    Purging(Entry),
}

/// The progress of a snapshot that is being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Making {
    /// The state is copied.
    Copied,
    /// The file `SNAPSHOT` is there.
    Described,
    /// The live state is synced.
    Safe,
    /// It has its name.
    Renamed,
}

/// The progress of the installation of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Installing {
    /// openraft has asked for it.
    Asked,
    /// It has its name in `snapshots/`.
    Moved,
    /// That name is durable.
    Safe,
    /// A new state is made from it.
    Copied,
    /// The name of the new state is durable.
    Named,
    /// The new state has the log. Nobody else writes the log until the end.
    TakenOver,
    /// `LIVE` names the new state.
    Live,
}

/// A process that has the store open.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Life {
    /// Whether the open has returned.
    pub is_open: bool,
    /// The number of the state in use.
    pub state: u8,
    pub queue: Vec<Job>,
    /// The jobs that are written and not synced.
    pub batch: Vec<Job>,
    /// The log as openraft sees it.
    pub view: BTreeMap<Index, Term>,
    pub committed: Index,
    pub snapshot: Option<u8>,
    /// The transfer under way, and the number of its files that are there.
    pub transfer: Option<(u8, u8)>,
    /// A complete transfer.
    pub received: Option<u8>,
    pub building: Option<(u8, Making)>,
    pub installing: Option<(u8, Installing)>,
    pub call: Call,
    /// A purge that openraft asks for before any other call of the log.
    pub owes: Option<Entry>,
}

impl Life {
    /// Returns whether an installation keeps the log and the state from being written.
    pub fn is_locked(&self) -> bool {
        self.installing.is_some_and(|(_, step)| step >= Installing::TakenOver)
    }

    /// Returns whether the thread that writes the log has nothing to do.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.batch.is_empty()
    }
}

/// The answers that callers rely on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Promise {
    pub vote: Term,
    /// The entries that were reported as durable.
    pub log: BTreeMap<Index, Term>,
    /// The entries that were truncated.
    pub dead: BTreeSet<Entry>,
    pub purged: Entry,
    /// The last entry of the newest snapshot that was reported.
    pub snapshot: Entry,
    /// Whether an installation did not find its snapshot.
    pub has_lost_received: bool,
}

/// Counts of what an exploration bounds, in the whole history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    pub appends: u8,
    pub truncations: u8,
    pub purges: u8,
    pub applies: u8,
    pub builds: u8,
    pub offers: u8,
    pub kills: u8,
    pub losses: u8,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Replica {
    pub files: Files,
    pub life: Result<Life, Ending>,
    pub promised: Promise,
    /// The entries that the cluster has committed, as far as this node has had to do with them.
    pub chosen: Vec<Entry>,
    pub spent: Budget,
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Move {
    SaveVote(Term),
    Append(Vec<Entry>),
    /// The writer takes this number of jobs from the queue, and commits them as one batch.
    Write(usize),
    /// The writer syncs its batch, and reports the jobs.
    Report,
    /// The entries from this one on are deleted.
    Truncate(Index),
    Truncated,
    /// The mark of a purge is written.
    Purge(Index),
    /// The mark is synced, and the entries are deleted.
    Purged,
    /// The entries up to this one are committed and applied.
    Apply(Index),
    /// The second half of an application in two batches.
    ApplyRest,
    /// A snapshot is begun: the state is copied into `building.new`.
    Build,
    Describe,
    SyncState,
    Publish,
    Built,
    /// A leader offers a snapshot that ends with this entry.
    Offer(Index),
    /// A file of the snapshot is complete.
    Receive,
    /// The transfer is complete.
    Finish,
    /// openraft asks for the installation, and next for a purge.
    Install,
    MoveIn,
    MovedIn,
    CopyState,
    NameState,
    TakeOver,
    SetLive,
    Installed,
    /// A directory is removed that is no longer used.
    Remove(Place),
    Stop,
    PowerLoss(Box<Files>),
    Open,
    Opened,
}

impl Replica {
    /// Returns a new node, which is not open.
    pub fn new(laws: &Laws) -> Replica {
        Replica {
            files: Files::new(laws.has_two),
            life: Err(Ending::Kill),
            promised: Promise::default(),
            chosen: Vec::new(),
            spent: Budget::default(),
        }
    }

    /// Returns the process.
    ///
    /// # Errors
    /// A refusal, if there is none that is open.
    pub fn life(&self) -> Result<&Life, Refusal> {
        match &self.life {
            Ok(life) => Ok(life),
            Err(_) => refuse("the store is not open"),
        }
    }

    /// Returns the process, for changes.
    ///
    /// # Errors
    /// A refusal, if there is none.
    pub fn life_mut(&mut self) -> Result<&mut Life, Refusal> {
        match &mut self.life {
            Ok(life) => Ok(life),
            Err(_) => refuse("the store is not open"),
        }
    }

    /// Returns the database of the log.
    ///
    /// # Errors
    /// A refusal, if there is no process.
    pub fn log_mut(&mut self) -> Result<&mut Database, Refusal> {
        let state = self.life()?.state;
        self.files.log_mut(state).ok_or_else(|| Refusal("there is no log".into()))
    }

    /// Returns the database of the state.
    ///
    /// # Errors
    /// A refusal, if there is no process.
    pub fn state_mut(&mut self) -> Result<&mut Database, Refusal> {
        let state = self.life()?.state;
        self.files.states.get_mut(&state).ok_or_else(|| Refusal("there is no state".into()))
    }

    /// Returns the last applied entry.
    pub fn applied(&self) -> Entry {
        let state = self.life.as_ref().ok().and_then(|life| self.files.states.get(&life.state));
        state.and_then(|state| state.now()).map_or(Entry::default(), |now| now.applied)
    }

    /// Returns the last purged entry.
    pub fn purged(&self) -> Entry {
        let log = self.life.as_ref().ok().and_then(|life| self.files.log_of(life.state));
        log.and_then(|log| log.now()).map_or(Entry::default(), |now| now.purged)
    }

    /// Returns the chosen entries up to an index.
    pub fn history(&self, last: Index) -> &[Entry] {
        &self.chosen[..self.chosen.len().min(usize::from(last))]
    }
}
