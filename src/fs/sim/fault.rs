//! Faults: which operations fail, in what way, and how many times.

use std::path::is_separator;

use super::super::system::Errno;
use super::journal::{OpKind, Operation};

/// A fault that strikes an operation and makes it fail or misbehave.
///
/// By default, a fault strikes the first operation that matches it. Several faults may be waiting
/// at once. Each fault counts the operations that match it. If several faults are due at one
/// operation, the fault that was injected first strikes.
///
/// ```
/// use minikv::fs::sim::{Fault, OpKind};
///
/// // The third creation of a table fails for lack of space, and so does every later creation.
/// let full = Fault::no_space().on(&[OpKind::Create]).path("*.ldb").nth(3).sticky();
/// // Operation 17, whatever it is, fails once.
/// let once = Fault::io_error().at_op(17);
/// ```
#[derive(Clone, Debug)]
#[must_use = "a fault strikes only after SimFs::inject"]
pub struct Fault {
    action: Action,
    kinds: Vec<OpKind>,
    pattern: Option<String>,
    at_op: Option<u64>,
    nth: u64,
    is_sticky: bool,
    matches: u64,
    strikes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Does nothing and returns this error.
    Fail(i32),
    /// Does the operation, but returns this error.
    FailAfter(i32),
    /// Writes at most `bytes` bytes. Then returns the error `then` or, without an error, lets the
    /// writer continue with the rest.
    ShortWrite {
        bytes: u64,
        then: Option<i32>,
    },
    ShortRead {
        bytes: u64,
    },
    LoseSync,
    FlipBit {
        persistent: bool,
    },
}

impl Fault {
    fn new(action: Action, kinds: &[OpKind]) -> Fault {
        Fault {
            action,
            kinds: kinds.to_vec(),
            pattern: None,
            at_op: None,
            nth: 1,
            is_sticky: false,
            matches: 0,
            strikes: 0,
        }
    }

    /// Creates a fault: the operation does nothing and fails with the system's error number `code`.
    pub fn os_error(code: i32) -> Fault {
        Fault::new(Action::Fail(code), &[])
    }

    /// Creates a fault: the operation fails with an I/O error.
    pub fn io_error() -> Fault {
        Fault::os_error(Errno::IO.raw_os_error())
    }

    /// Creates a fault: the operation fails because no space is left.
    pub fn no_space() -> Fault {
        Fault::os_error(Errno::NOSPC.raw_os_error())
    }

    /// Creates a fault: a write takes at most `bytes` bytes and then fails because no space is
    /// left.
    pub fn torn_write(bytes: u64) -> Fault {
        let then = Some(Errno::NOSPC.raw_os_error());
        Fault::new(Action::ShortWrite { bytes, then }, &[OpKind::Write])
    }

    /// Creates a fault: a sync of a file fails and drops the unsynced pages, as on Linux: reads
    /// still return the bytes, but no later successful sync writes them.
    pub fn lost_sync() -> Fault {
        Fault::new(Action::LoseSync, &[OpKind::Sync])
    }

    /// Restricts the fault to operations of these kinds. Default: every kind that the fault can
    /// strike.
    pub fn on(mut self, kinds: &[OpKind]) -> Fault {
        self.kinds = kinds.to_vec();
        self
    }

    /// Restricts the fault to paths that match `pattern`, in which `*` matches any characters,
    /// including slashes, and `/` is any separator of the system's paths. For a rename, either path
    /// may match; for an open file, the path under which it was opened counts.
    pub fn path(mut self, pattern: &str) -> Fault {
        self.pattern = Some(pattern.to_string());
        self
    }

    /// Restricts the fault to the mutating operation with this number, as counted by
    /// [`SimFs::op_count`](super::SimFs::op_count). A sticky fault also strikes all later
    /// operations.
    pub fn at_op(mut self, number: u64) -> Fault {
        self.at_op = Some(number);
        self
    }

    /// Makes the fault strike the `n`th matching operation. Default: 1.
    pub fn nth(mut self, n: u64) -> Fault {
        self.nth = n;
        self
    }

    /// Makes the fault strike all further matching operations after the first one that it strikes.
    /// By default, a fault strikes only once.
    pub fn sticky(mut self) -> Fault {
        self.is_sticky = true;
        self
    }
}

/// Faults that the library itself handles or reports, for this repository's own tests.
#[cfg(any(test, feature = "internals"))]
#[doc(hidden)]
impl Fault {
    /// Creates a fault: the operation is done completely, but fails with the system's error number
    /// `code`.
    pub fn os_error_after(code: i32) -> Fault {
        Fault::new(Action::FailAfter(code), &[])
    }

    /// Creates a fault: the operation fails because too many files are open.
    pub fn too_many_open_files() -> Fault {
        Fault::os_error(Errno::MFILE.raw_os_error())
    }

    /// Creates a fault: the operation is interrupted before it has any effect. Reads and writes are
    /// retried internally, as on a disk; other operations fail.
    pub fn interrupted() -> Fault {
        Fault::os_error(Errno::INTR.raw_os_error())
    }

    /// Creates a fault: a write takes at most `bytes` bytes, and the writer continues with the
    /// rest.
    pub fn short_write(bytes: u64) -> Fault {
        Fault::new(Action::ShortWrite { bytes, then: None }, &[OpKind::Write])
    }

    /// Creates a fault: a read returns at most `bytes` bytes, and the reader continues with the
    /// rest. With 0 bytes the file seems to end early.
    pub fn short_read(bytes: u64) -> Fault {
        Fault::new(Action::ShortRead { bytes }, &[OpKind::Read])
    }

    /// Creates a fault: a read returns one wrong bit, and the disk is intact.
    pub fn bit_flip() -> Fault {
        Fault::new(Action::FlipBit { persistent: false }, &[OpKind::Read])
    }

    /// Creates a fault: a read returns one wrong bit. From then on, every read and every crash
    /// image has the wrong bit.
    pub fn bit_rot() -> Fault {
        Fault::new(Action::FlipBit { persistent: true }, &[OpKind::Read])
    }
}

impl Fault {
    fn matches(&self, op: &Operation<'_>, number: u64) -> bool {
        let at_op = self.at_op.is_none_or(|at| match self.is_sticky {
            true => number >= at,
            false => number == at && op.kind.is_mutating(),
        });
        let kind = self.kinds.is_empty() || self.kinds.contains(&op.kind);
        let path = self.pattern.as_ref().is_none_or(|pattern| {
            [Some(op.path), op.to].into_iter().flatten().any(|path| {
                path.to_str().is_some_and(|path| glob(pattern.as_bytes(), path.as_bytes()))
            })
        });
        at_op && kind && path && self.can_strike(op.kind)
    }

    fn can_strike(&self, kind: OpKind) -> bool {
        match self.action {
            Action::Fail(_) | Action::FailAfter(_) => true,
            Action::ShortWrite { .. } => kind == OpKind::Write,
            Action::ShortRead { .. } | Action::FlipBit { .. } => kind == OpKind::Read,
            Action::LoseSync => kind == OpKind::Sync,
        }
    }

    fn is_over(&self) -> bool {
        !self.is_sticky && self.strikes > 0
    }
}

/// The faults that are waiting to strike.
#[derive(Debug, Default)]
pub(super) struct Faults {
    waiting: Vec<Fault>,
    pub strikes: u64,
}

impl Faults {
    pub(super) fn push(&mut self, fault: Fault) {
        self.waiting.push(fault);
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the action of the fault that strikes this operation, if any. Every fault that
    /// matches counts the operation.
    pub(super) fn strike(&mut self, op: &Operation<'_>, number: u64) -> Option<Action> {
        let mut struck = None;
        for fault in &mut self.waiting {
            if fault.matches(op, number) {
                fault.matches += 1;
                if struck.is_none() && fault.matches >= fault.nth {
                    fault.strikes += 1;
                    struck = Some(fault.action);
                }
            }
        }
        if struck.is_some() {
            self.strikes += 1;
            self.waiting.retain(|fault| !fault.is_over());
        }
        struck
    }
}

/// Returns whether `text` matches `pattern`, in which `*` matches any characters, and `/` any
/// separator of the system's paths.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&byte) if byte == text[t] || byte == b'/' && is_separator(text[t].into()) => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((star_p, star_t)) = star else { return false };
                star = Some((star_p, star_t + 1));
                p = star_p + 1;
                t = star_t + 1;
            }
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

/// Something that a filesystem may not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
#[doc(hidden)]
pub enum Lack {
    /// Directories cannot be synced: [`Fs::sync_dir`](crate::fs::Fs::sync_dir) fails with
    /// `EINVAL`, as on CIFS. Names are durable as soon as they are made, because a server makes
    /// them.
    DirectorySync,
    /// There are no locks: a lock keeps out nobody outside of the filesystem's own process.
    Locks,
    /// Directories cannot be synced, but a journal keeps names in order, as NTFS's does: with the
    /// next sync of any file, and with a rename, which is written through, all names become
    /// durable. A crash leaves the first of the names that are not, and none of those after them.
    NamesOutOfOrder,
    /// The name of an open file cannot be removed, renamed or replaced, and no directory above it
    /// can be renamed: `EACCES`, as on Windows if another program has the file open.
    NamesOfOpenFiles,
}

#[cfg(test)]
mod tests {
    use super::glob;

    #[test]
    fn patterns_match() {
        let cases = [
            ("*.log", "/db/000003.log", true),
            ("*.log", "/db/000003.ldb", false),
            ("*.log", "/db/000003.log.old", false),
            ("*MANIFEST*", "/db/MANIFEST-000002", true),
            ("/db/CURRENT", "/db/CURRENT", true),
            ("/db/CURRENT", "/db/CURRENT2", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("*ab", "aab", true),
            ("", "", true),
            ("*", "", true),
            ("", "x", false),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(glob(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }
}
