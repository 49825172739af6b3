//! The holder of a lock, which an error names.

use std::fmt;

/// The holder of a lock, as far as the system reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockHolder {
    /// This process, which already has the database open.
    ThisProcess,
    /// Another process, with its process id if known.
    Process(Option<u32>),
    /// A process that inherited the lock by a fork, after which the process that took the lock
    /// ended. The lock is released when the last process that has the file open ends.
    ForkOf {
        /// The process that took the lock.
        ended: u32,
        /// A process that still has the file open, if one was found.
        heir: Option<u32>,
    },
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockHolder::ThisProcess => f.write_str("this process"),
            LockHolder::Process(Some(pid)) => write!(f, "process {pid}"),
            LockHolder::Process(None) => f.write_str("another process"),
            LockHolder::ForkOf { ended, heir: Some(heir) } => write!(
                f,
                "process {heir}, which was forked by process {ended} and keeps the lock of it \
                 until it ends, too"
            ),
            LockHolder::ForkOf { ended, heir: None } => write!(
                f,
                "a process that was forked by process {ended}, which has ended: it keeps the \
                 lock until it ends, too"
            ),
        }
    }
}
