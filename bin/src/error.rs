//! Errors of commands: an exit code and, for most, one line on stderr.
//!
//! ```text
//! 0 done                 3 the database is locked by another process
//! 1 key not found,       4 corruption
//!   condition not met,
//!   damage found, or a
//!   difference (diff)    5 I/O
//! 2 usage                6 a format or feature this build cannot read
//! ```
//!
//! The line says what the problem is, where it is, and what to do next.

pub mod usage;

use std::io::{self, Write};
use std::path::Path;

use minikv::{Error as DbError, Feature};

use crate::comparator;

pub type Result<T, E = CliError> = std::result::Result<T, E>;

/// The reason why a command did not succeed.
#[derive(Debug)]
pub enum CliError {
    /// A key was not found. The command has already reported this.
    NotFound,
    /// The command has already reported the error.
    Said {
        /// The exit code to end with.
        code: u8,
    },
    /// The condition of a write did not hold.
    Unmet(String),
    /// `verify` or `backups --verify` found damage.
    Damaged(String),
    /// The command line or a line of input is invalid.
    Usage(String),
    /// The library returned an error.
    Db(DbError),
    /// An I/O error of a file outside a database, or of a stream.
    Io {
        /// The operation: `read`, `write`, `create`, ...
        op: &'static str,
        /// The name of the file or stream.
        name: String,
        /// The underlying error.
        source: io::Error,
    },
    /// This build lacks a feature.
    Unsupported(String),
    /// A read returned something other than the value written.
    Wrong(String),
    /// Another error, with a description of the work done before the error.
    After {
        /// The error.
        error: Box<CliError>,
        /// Description of the work done before the error, such as `kept 6 entries before it`.
        done: String,
    },
    /// An error of a line of a script that `minikv shell` runs.
    InLine {
        /// The number of the line.
        line: u64,
        /// The error.
        error: Box<CliError>,
    },
    /// Stdout is a pipe that was closed, and only output is left. The command ends without a
    /// message.
    ClosedPipe,
}

impl CliError {
    /// Creates an I/O error for the operation `op` on the file `path`.
    pub fn io(op: &'static str, path: &Path, source: io::Error) -> CliError {
        CliError::Io { op, name: path.display().to_string(), source: plain(source) }
    }

    /// Adds a description of the work done before the error.
    pub fn after(self, done: String) -> CliError {
        CliError::After { error: Box::new(self), done }
    }

    /// Returns the exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            CliError::ClosedPipe => 0,
            CliError::NotFound | CliError::Unmet(_) | CliError::Damaged(_) => 1,
            CliError::Said { code } => *code,
            CliError::Usage(_) => 2,
            CliError::Wrong(_) => 4,
            CliError::Io { .. } => 5,
            CliError::Unsupported(_) => 6,
            CliError::Db(error) => db_exit_code(error),
            CliError::After { error, .. } | CliError::InLine { error, .. } => error.exit_code(),
        }
    }

    /// Returns the line to print to stderr, or `None` if there is nothing left to report.
    pub fn message(&self) -> Option<String> {
        let message = match self {
            CliError::NotFound | CliError::Said { .. } | CliError::ClosedPipe => return None,
            CliError::Unmet(what)
            | CliError::Damaged(what)
            | CliError::Usage(what)
            | CliError::Unsupported(what)
            | CliError::Wrong(what) => what.clone(),
            CliError::Io { op, name, source } => {
                format!("cannot {op} {name}: {source}{}", io_hint(source))
            }
            CliError::Db(error) => db_message(error),
            CliError::After { error, done } => format!("{}; {done}", error.message()?),
            CliError::InLine { line, error } => match error.message() {
                Some(message) => format!("stdin line {line}: {message}"),
                None => format!("stdin line {line} ended with exit code {}", error.exit_code()),
            },
        };
        Some(one_line(&message))
    }

    /// Prints the error to stderr, if there is something left to report.
    pub fn say(&self) {
        if let Some(message) = self.message() {
            let _ = writeln!(io::stderr(), "minikv: {message}");
        }
    }
}

impl From<DbError> for CliError {
    fn from(error: DbError) -> CliError {
        CliError::Db(error)
    }
}

impl From<minikv_instrument::Error> for CliError {
    fn from(error: minikv_instrument::Error) -> CliError {
        match error {
            minikv_instrument::Error::Db(error) => CliError::Db(error),
            minikv_instrument::Error::Io { op, path, source } => CliError::io(op, &path, source),
            minikv_instrument::Error::Usage(what) => CliError::Usage(what),
        }
    }
}

fn db_exit_code(error: &DbError) -> u8 {
    match error {
        DbError::InvalidArgument { .. } | DbError::DatabaseExists { .. } => 2,
        DbError::Locked { .. } => 3,
        DbError::Corruption(_) => 4,
        DbError::Unsupported { .. } => 6,
        DbError::ReadOnly { reason } => db_exit_code(reason),
        _ => 5,
    }
}

fn db_message(error: &DbError) -> String {
    let hint = match error {
        DbError::DatabaseMissing { path } => {
            return format!(
                "no database in {}; check --db, or make one with `put` or `load`",
                path.display()
            );
        }
        DbError::Locked { .. } => {
            "; end that process first, or only read: get, scan, dump and stats need no lock"
        }
        DbError::DatabaseExists { .. } => "; name a directory without a database",
        DbError::Corruption(_) => {
            "; `minikv verify` lists all damage, `minikv repair --dry-run` shows what can be saved"
        }
        DbError::Unsupported { what: Feature::Comparator, name, .. }
            if comparator::named(name).is_some() =>
        {
            "; leave --comparator out"
        }
        DbError::Unsupported { what: Feature::Comparator, .. } => {
            "; `--comparator ignore` reads it without its order (verify, stats, tree, dump, scan)"
        }
        DbError::Unsupported { what: Feature::Compression, name, .. } if name == "zstd" => {
            "; build minikv with `--features zstd`"
        }
        DbError::Unsupported { what: Feature::Database, .. } => {
            "; only that program reads it; if the file is a stray, move it out of the directory"
        }
        DbError::Unsupported { what: Feature::Level, .. } => {
            "; compact it with goleveldb into fewer levels, or use a build that has more"
        }
        DbError::Unsupported { .. } => "; use a build that supports it",
        DbError::InvalidArgument { .. } => "; `minikv help COMMAND` explains the arguments",
        DbError::ReadOnly { .. } => "; remove the cause, then run the command again",
        DbError::Io { op: "lock", source, .. } if source.kind() == io::ErrorKind::Unsupported => {
            "; --allow-no-lock takes that risk"
        }
        DbError::Io { source, .. } => io_hint(source.as_ref()),
        _ => "; `minikv verify` shows whether the files are sound",
    };
    format!("{error}{hint}")
}

fn io_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => "; check the path",
        io::ErrorKind::PermissionDenied => "; check its owner and permissions",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space and try again"
        }
        io::ErrorKind::ReadOnlyFilesystem => "; reading works there, writing does not",
        io::ErrorKind::IsADirectory => "; name a file",
        io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty => "; name another path",
        _ => "; the system's log may say more",
    }
}

/// Returns `error` without the name of a temporary file, which would mean nothing to the user.
fn plain(error: io::Error) -> io::Error {
    let text = error.to_string();
    match text.split_once(" at path \"") {
        Some((what, _)) => io::Error::new(error.kind(), what.to_string()),
        None => error,
    }
}

/// Returns `message` with line breaks and other control characters escaped. Names of files may
/// contain such characters.
fn one_line(message: &str) -> String {
    let mut line = String::with_capacity(message.len());
    for c in message.chars() {
        if c.is_control() {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use minikv::fs::LockHolder;

    use super::*;
    use crate::damage::Damage;

    fn code(error: DbError) -> u8 {
        CliError::from(error).exit_code()
    }

    /// Returns the error of opening `path` without permission.
    fn denied(path: &str) -> DbError {
        let source = Arc::new(io::ErrorKind::PermissionDenied.into());
        DbError::Io { op: "open", path: path.into(), source }
    }

    #[test]
    fn every_error_has_its_exit_code() {
        let io = denied("/db/CURRENT");
        let lock = DbError::Locked { path: "/db/LOCK".into(), holder: LockHolder::ThisProcess };
        assert_eq!(code(DbError::InvalidArgument { what: "x".into() }), 2);
        assert_eq!(code(lock), 3);
        assert_eq!(code(DbError::corruption("x")), 4);
        assert_eq!(code(io), 5);
        assert_eq!(code(DbError::DatabaseMissing { path: "/db".into() }), 5);
        let (what, name) = (Feature::Comparator, "idb_cmp1".into());
        assert_eq!(code(DbError::Unsupported { what, name, path: None }), 6);
        let reason = Arc::new(DbError::corruption("x"));
        assert_eq!(code(DbError::ReadOnly { reason }), 4);
        assert_eq!(CliError::NotFound.exit_code(), 1);
        assert_eq!(CliError::ClosedPipe.exit_code(), 0);
    }

    #[test]
    fn a_message_is_one_line_with_fault_place_and_next_step() {
        let error = denied("/a\nb");
        let message = CliError::from(error).message().unwrap();
        assert_eq!(
            message,
            "cannot open /a\\nb: permission denied; check its owner and permissions"
        );
        assert_eq!(CliError::ClosedPipe.message(), None);
    }
}
