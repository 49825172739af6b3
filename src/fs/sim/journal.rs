//! What was done: kinds of operations, counts of them, and a record of each.

use std::fmt;
use std::path::{Path, PathBuf};

/// The kinds of operations of a filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum OpKind {
    /// Opening a file for reading.
    Open,
    /// Reading from a file.
    Read,
    /// Asking for the length of a file.
    Len,
    /// Asking whether a name is there.
    Exists,
    /// Listing a directory.
    List,
    /// Opening a file for appending.
    Append,
    /// Creating or emptying a file.
    Create,
    /// Writing to a file.
    Write,
    /// Setting the length of a file.
    SetLen,
    /// Making a file durable.
    Sync,
    /// Renaming.
    Rename,
    /// Removing a file.
    Remove,
    /// Giving a file a second name.
    HardLink,
    /// Making a directory.
    CreateDir,
    /// Removing a directory.
    RemoveDir,
    /// Making the names in a directory durable.
    SyncDir,
    /// Taking a lock file, which may create it.
    Lock,
}

impl OpKind {
    /// Every kind.
    pub const ALL: [OpKind; 17] = [
        OpKind::Open,
        OpKind::Read,
        OpKind::Len,
        OpKind::Exists,
        OpKind::List,
        OpKind::Append,
        OpKind::Create,
        OpKind::Write,
        OpKind::SetLen,
        OpKind::Sync,
        OpKind::Rename,
        OpKind::Remove,
        OpKind::HardLink,
        OpKind::CreateDir,
        OpKind::RemoveDir,
        OpKind::SyncDir,
        OpKind::Lock,
    ];

    /// Whether it changes files or names, or makes them durable. Only these are numbered.
    pub fn is_mutating(self) -> bool {
        self >= OpKind::Create
    }
}

/// One operation, as a hook sees it before it is done.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Operation<'a> {
    /// What is to be done.
    pub kind: OpKind,
    /// To which file or directory. Of an open file, the name it was opened by.
    pub path: &'a Path,
    /// The second name, of a rename or a hard link.
    pub to: Option<&'a Path>,
    /// How many bytes are to be read or written; of a [`OpKind::SetLen`], the length.
    pub bytes: u64,
}

impl<'a> Operation<'a> {
    pub(super) fn new(kind: OpKind, path: &'a Path) -> Operation<'a> {
        Operation { kind, path, to: None, bytes: 0 }
    }

    pub(super) fn to(self, to: &'a Path) -> Operation<'a> {
        Operation { to: Some(to), ..self }
    }

    pub(super) fn bytes(self, bytes: u64) -> Operation<'a> {
        Operation { bytes, ..self }
    }
}

/// One mutating operation that was done or tried.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalEntry {
    /// Its number; the first operation is 1.
    pub number: u64,
    /// What was done.
    pub kind: OpKind,
    /// To which file or directory.
    pub path: PathBuf,
    /// The second name, of a rename or a hard link.
    pub to: Option<PathBuf>,
    /// How many bytes were to be written; of a [`OpKind::SetLen`], the length.
    pub bytes: u64,
    /// The error that came back, if one did.
    pub error: Option<String>,
}

impl JournalEntry {
    pub(super) fn new(number: u64, op: &Operation<'_>, error: Option<String>) -> JournalEntry {
        JournalEntry {
            number,
            kind: op.kind,
            path: op.path.to_path_buf(),
            to: op.to.map(Path::to_path_buf),
            bytes: op.bytes,
            error,
        }
    }
}

impl fmt::Display for JournalEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} {}", self.number, self.kind, self.path.display())?;
        if let Some(to) = &self.to {
            write!(f, " to {}", to.display())?;
        }
        if matches!(self.kind, OpKind::Write | OpKind::SetLen) {
            write!(f, " {} bytes", self.bytes)?;
        }
        match &self.error {
            Some(error) => write!(f, ": {error}"),
            None => Ok(()),
        }
    }
}

/// How often each kind of operation was done or tried, and how many bytes went through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpCounts {
    by_kind: [u64; OpKind::ALL.len()],
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

impl OpCounts {
    /// How many operations of this kind there were. A read counts once, however many tries it
    /// takes; of a write that goes on after a fault, every try counts.
    pub fn of(&self, kind: OpKind) -> u64 {
        self.by_kind[kind as usize]
    }

    pub(super) fn add(&mut self, kind: OpKind) {
        self.by_kind[kind as usize] += 1;
    }
}
