//! The state of the model: a disk, at most one process that uses it, and what was promised.

use std::collections::BTreeSet;

use crate::disk::{Disk, Edit, Id, Name, Number, Record, Refusal, Seq};
use crate::recover::{Logged, Version};

/// A write that was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Applied {
    pub id: Id,
    /// Its last sequence number.
    pub last: Seq,
}

/// The ability of a process to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The database is being opened. Nothing can be read or written yet.
    Opening,
    /// Writes are accepted.
    Running,
    /// A log failed. Reads go on, and writes are refused until a `resume`.
    ReadOnly,
}

/// A process that has the database open.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    pub phase: Phase,
    /// The first file number that was free when the process began.
    pub floor: Number,
    /// The numbers, `floor` or higher, of files that the process has created.
    pub used: BTreeSet<Number>,
    /// The log that takes writes.
    pub log: Option<Number>,
    /// Whether the open left out logs, or parts of them.
    pub left_out: bool,
    /// The applied writes that are in no table of `shown`, in order.
    pub memory: Vec<Logged>,
    /// The version that readers see.
    pub shown: Version,
    /// The tables that a reader holds.
    pub pinned: Option<BTreeSet<Number>>,
}

/// Events that the rules prevent; the mutants lack rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Misdeeds {
    /// A write was acknowledged although a log that has it, or an earlier one, had failed.
    pub acknowledged_after_failure: bool,
    /// A file was created with the number of a file that a version may name.
    pub reused_number: bool,
    /// A file that readers or a possible open need was removed.
    pub removed_needed: bool,
}

/// Counts of what an exploration bounds, most of them of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Spent {
    pub writes: u8,
    pub logs: u8,
    pub tables: u8,
    pub manifests: u8,
    pub pins: u8,
    /// Number of failed syncs in the whole history.
    pub faults: u8,
    /// Number of kills in the whole history.
    pub kills: u8,
    /// Number of losses of power in the whole history.
    pub losses: u8,
    /// The identifier of the last write.
    pub next_id: Id,
}

/// The end of the last process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// The process was killed, or closed the database. All that was written is there.
    Kill,
    /// Power was lost.
    PowerLoss,
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub disk: Disk,
    /// The writes that were applied, in order.
    pub applied: Vec<Applied>,
    /// The write that is in the log but not yet applied.
    pub pending: Option<Logged>,
    /// The write that returned an error. It may be there after a crash, until a `resume` or the
    /// next open returns.
    pub refused: Option<Logged>,
    /// The number of writes, from the first on, that survive a loss of power.
    pub promised: usize,
    pub process: Result<Process, Ending>,
    pub misdeeds: Misdeeds,
    pub spent: Spent,
}

impl State {
    /// Creates the state in which nothing exists.
    pub fn new() -> State {
        State {
            disk: Disk::default(),
            applied: Vec::new(),
            pending: None,
            refused: None,
            promised: 0,
            process: Err(Ending::Kill),
            misdeeds: Misdeeds::default(),
            spent: Spent::default(),
        }
    }

    /// Returns the process.
    ///
    /// # Errors
    /// A refusal, if there is none.
    pub fn process(&self) -> Result<&Process, Refusal> {
        self.process.as_ref().map_err(|_| Refusal("there is no process".to_owned()))
    }

    /// Returns the process, for a change.
    ///
    /// # Errors
    /// A refusal, if there is none.
    pub fn process_mut(&mut self) -> Result<&mut Process, Refusal> {
        self.process.as_mut().map_err(|_| Refusal("there is no process".to_owned()))
    }

    /// Returns the sequence number that follows the applied writes.
    pub fn next_seq(&self) -> Seq {
        self.applied.last().map_or(0, |write| write.last) + 1
    }

    /// Returns the identifiers of the applied writes, in order.
    pub fn applied_ids(&self) -> Vec<Id> {
        self.applied.iter().map(|write| write.id).collect()
    }

    /// Returns all writes that an open may find, in order.
    pub fn history(&self) -> Vec<Applied> {
        let last = self.pending.iter().chain(&self.refused);
        let last = last.map(|write| Applied { id: write.id, last: write.last });
        self.applied.iter().copied().chain(last).collect()
    }
}

impl Default for State {
    fn default() -> State {
        State::new()
    }
}

/// A step of the protocol, or something that happens to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A process reads the disk and begins to open the database.
    Open,
    /// The open returns.
    Opened,
    /// A file is created.
    Create(Name),
    /// A record is appended to a file.
    Append(Name, Record),
    /// A sync of a file succeeds.
    Sync(Name),
    /// A sync of a file fails.
    SyncFails(Name),
    /// A sync of the directory succeeds.
    SyncDir,
    /// The temporary file of this number is renamed to `CURRENT`.
    Rename(Number),
    /// A name is removed.
    Remove(Name),
    /// The write in the log is applied and acknowledged.
    Acknowledge {
        /// Whether it was promised to survive a loss of power.
        sync: bool,
    },
    /// A sync of the whole database returns.
    AcknowledgeSync,
    /// The write in the log returns an error.
    Refuse,
    /// Readers see the version that the MANIFEST has.
    Show,
    /// A reader begins, and holds the version that is shown.
    Pin,
    /// The reader ends.
    Unpin,
    /// A reader has found these writes.
    Read(Vec<Id>),
    /// A `resume` returns.
    Resumed,
    /// The process is killed, or closes the database.
    Stop,
    /// Power is lost, and this disk is left.
    PowerLoss(Box<Disk>),
}

/// Returns the edit that makes `version` of nothing.
pub fn whole_edit(version: &Version) -> Edit {
    Edit {
        log: Some(version.log),
        next: Some(version.next),
        last: Some(version.last),
        drops: Vec::new(),
        adds: version.tables.iter().copied().collect(),
    }
}
