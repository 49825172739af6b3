//! Kinds of operations, counts of operations, and a journal of them.

use std::fmt;
use std::path::{Path, PathBuf};

/// A kind of filesystem operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum OpKind {
    /// Opening a file for reading.
    Open,
    /// Reading from a file.
    Read,
    /// Getting the length of a file.
    Len,
    /// Checking whether a name exists.
    Exists,
    /// Listing a directory.
    List,
    /// Opening a file for appending.
    Append,
    /// Creating or truncating a file.
    Create,
    /// Writing to a file.
    Write,
    /// Setting the length of a file.
    SetLen,
    /// Syncing a file.
    Sync,
    /// Renaming a file or directory.
    Rename,
    /// Removing a file.
    Remove,
    /// Creating a hard link.
    HardLink,
    /// Creating a directory.
    CreateDir,
    /// Removing a directory.
    RemoveDir,
    /// Syncing a directory.
    SyncDir,
    /// Taking the lock on a lock file, which may create the file.
    Lock,
}

impl OpKind {
    /// All kinds.
    pub(super) const ALL: [OpKind; 17] = [
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

    /// Returns whether operations of this kind are mutating: whether they change files or names,
    /// make them durable, or take a lock. Only mutating operations are numbered.
    pub(super) fn is_mutating(self) -> bool {
        self >= OpKind::Create
    }
}

/// An operation, as passed to a hook before the operation is executed.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Operation<'a> {
    /// The kind of operation.
    pub kind: OpKind,
    /// The file or directory. For an open file, the name under which it was opened.
    pub path: &'a Path,
    /// The target of a rename or a hard link.
    pub to: Option<&'a Path>,
    /// Number of bytes to read or write; for an [`OpKind::SetLen`], the new length.
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

/// A mutating operation that was done or attempted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalEntry {
    /// Number of the operation, counting from 1.
    pub number: u64,
    /// The kind of operation.
    pub kind: OpKind,
    /// The file or directory.
    pub path: PathBuf,
    /// The target of a rename or a hard link.
    pub to: Option<PathBuf>,
    /// Number of bytes to write; for an [`OpKind::SetLen`], the new length.
    pub bytes: u64,
    /// The error that the operation returned, if any.
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

/// Counts of operations done or attempted, by kind, and of the bytes read and written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpCounts {
    by_kind: [u64; OpKind::ALL.len()],
    /// Number of bytes read.
    pub bytes_read: u64,
    /// Number of bytes written.
    pub bytes_written: u64,
}

impl OpCounts {
    /// Returns the number of operations of this kind. A read counts once, however many attempts it
    /// takes; a write that continues after a fault counts once per attempt.
    pub fn of(&self, kind: OpKind) -> u64 {
        self.by_kind[kind as usize]
    }

    pub(super) fn add(&mut self, kind: OpKind) {
        self.by_kind[kind as usize] += 1;
    }
}
