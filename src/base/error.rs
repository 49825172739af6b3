//! The error type of the whole library.
//!
//! A missing key is not an error: a lookup that finds nothing returns `Ok(None)`. Damage is always
//! reported as an error that states the file, the offset, the expected value and the value found,
//! as far as they are known.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use bytes::Bytes;

use super::lock_holder::LockHolder;

/// The result of every fallible call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error. `Error` implements `Clone`, so that every writer of a commit group can return the
/// error of the group's leader.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// An operation of the filesystem failed.
    Io {
        /// The operation: `open`, `read`, `append`, `sync`, `rename`, ...
        op: &'static str,
        /// The path of the file or directory.
        path: PathBuf,
        /// The underlying error.
        source: Arc<io::Error>,
    },
    /// Data in a file contradicts the file format, a checksum or another file.
    Corruption(Box<Corruption>),
    /// The database is already open, in this process or in another.
    Locked {
        /// The lock file.
        path: PathBuf,
        /// The holder of the lock, as far as it is known.
        holder: LockHolder,
    },
    /// There is no database in the directory, and `create_if_missing` is off.
    DatabaseMissing {
        /// The directory.
        path: PathBuf,
    },
    /// The directory already holds a database, and `error_if_exists` is on.
    DatabaseExists {
        /// The directory.
        path: PathBuf,
    },
    /// A format or feature that this build does not know: a comparator, a compression, an edit tag.
    Unsupported {
        /// The kind of feature.
        what: Feature,
        /// The name or number of the feature, as found.
        name: String,
        /// The file with the feature, if it was found in a file.
        path: Option<PathBuf>,
    },
    /// An argument is invalid.
    InvalidArgument {
        /// Description of the problem.
        what: String,
    },
    /// The database accepts no writes until [`Db::resume`](crate::Db::resume) is called or it is
    /// opened again. If the reason is a failed compaction, writes are also accepted again once a
    /// compaction succeeds. Reads still work.
    ReadOnly {
        /// The first error, which stopped writes.
        reason: Arc<Error>,
    },
    /// A panic interrupted work that several threads share. The panic came from one of the
    /// program's own comparators, filter policies, prefix extractors or filesystems, or from a bug
    /// in this library. Every thread that waits for that work gets this error. The database accepts
    /// no writes until [`Db::resume`](crate::Db::resume) is called or it is opened again.
    Panicked {
        /// The interrupted work: `a write`, `a flush`, `a compaction`, ...
        during: &'static str,
        /// The panic's message.
        message: String,
    },
    /// The transaction was not committed, and none of its writes took effect: another write changed
    /// something that the transaction had read. Run the transaction again, from its first read;
    /// [`Db::transact`] does that.
    ///
    /// [`Db::transact`]: crate::Db::transact
    Conflict {
        /// A key that was written after the transaction had read this key or a range that contains
        /// it.
        key: Bytes,
        /// The name of the keyspace that contains `key`; `None` if `key` is in no keyspace.
        keyspace: Option<Bytes>,
    },
    /// The requested changes are not in any log: they were flushed to tables, they were never
    /// written to a log, the database was replaced, or the database has not yet reached the
    /// requested sequence number.
    ChangesLost {
        /// The sequence number after which changes are missing.
        after: u64,
        /// The sequence number of the next change that is available. If there is none, the sequence
        /// number of the database's last change.
        next: u64,
    },
    /// The database has been closed.
    Closed,
}

/// The kinds of features that an [`Error::Unsupported`] reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Feature {
    /// The format of a folder of backups.
    BackupFormat,
    /// The tag of an operation in a batch.
    BatchTag,
    /// The order of keys. It is known, but differs from [`Options::comparator`].
    ///
    /// [`Options::comparator`]: crate::Options::comparator
    Comparator,
    /// The compression of a block.
    Compression,
    /// The database as a whole, which belongs to another engine, such as RocksDB.
    Database,
    /// The tag of an edit of the MANIFEST.
    EditTag,
    /// A level past the last one that LevelDB has.
    Level,
    /// The type of a record of a log.
    RecordType,
    /// The format of a table of another engine.
    TableFormat,
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Feature::BackupFormat => "backup format",
            Feature::BatchTag => "batch tag",
            Feature::Comparator => "comparator",
            Feature::Compression => "compression",
            Feature::Database => "database",
            Feature::EditTag => "version edit tag",
            Feature::Level => "level",
            Feature::RecordType => "log record type",
            Feature::TableFormat => "table format",
        })
    }
}

/// The details of an [`Error::Corruption`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Corruption {
    /// The damaged file, if known.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "file", serialize_with = "crate::base::serialize::optional_path")
    )]
    pub path: Option<PathBuf>,
    /// The offset in the file, in bytes, if known.
    pub offset: Option<u64>,
    /// Description of the damage, such as `block checksum mismatch`.
    pub what: String,
    /// The expected value, if only one value was possible.
    pub expected: Option<String>,
    /// The value found instead.
    pub found: Option<String>,
}

impl Error {
    /// Creates an I/O error of the operation `op` on `path`.
    pub(crate) fn io(op: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Error {
        Error::Io { op, path: path.into(), source: Arc::new(source) }
    }

    /// Creates a corruption error without a location, which callers add with [`Error::in_file`] and
    /// [`Error::at`].
    pub(crate) fn corruption(what: impl Into<String>) -> Error {
        Error::Corruption(Box::new(Corruption { what: what.into(), ..Corruption::default() }))
    }

    /// Creates a corruption error that says what was expected and what was found.
    pub(crate) fn mismatch(
        what: impl Into<String>,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Error {
        Error::Corruption(Box::new(Corruption {
            what: what.into(),
            expected: Some(expected.to_string()),
            found: Some(found.to_string()),
            ..Corruption::default()
        }))
    }

    /// Creates an [`Error::InvalidArgument`]. `what` describes the problem.
    pub(crate) fn invalid(what: impl Into<String>) -> Error {
        Error::InvalidArgument { what: what.into() }
    }

    /// Creates an [`Error::Unsupported`] without a path.
    pub(crate) fn unsupported(what: Feature, name: impl Into<String>) -> Error {
        Error::Unsupported { what, name: name.into(), path: None }
    }

    /// Creates the error for a panic with this `payload`. `during` names the interrupted work.
    pub(crate) fn panicked(during: &'static str, payload: &(dyn Any + Send)) -> Error {
        let message = match payload.downcast_ref::<&str>() {
            Some(message) => *message,
            None => payload.downcast_ref::<String>().map_or("no message", String::as_str),
        };
        Error::Panicked { during, message: message.to_owned() }
    }

    /// Adds the file to the error, unless the error already names a file.
    #[must_use]
    pub(crate) fn in_file(mut self, file: &Path) -> Error {
        match &mut self {
            Error::Corruption(c) => {
                c.path.get_or_insert_with(|| file.to_path_buf());
            }
            Error::Unsupported { path, .. } => {
                path.get_or_insert_with(|| file.to_path_buf());
            }
            _ => {}
        }
        self
    }

    /// Adds the offset in the file: `base`, plus the error's own offset if it has one. The error's
    /// own offset is relative to `base`.
    #[must_use]
    pub(crate) fn at(mut self, base: u64) -> Error {
        if let Error::Corruption(c) = &mut self {
            c.offset = Some(base.saturating_add(c.offset.unwrap_or(0)));
        }
        self
    }

    /// Returns whether this is an [`Error::Corruption`].
    pub fn is_corruption(&self) -> bool {
        matches!(self, Error::Corruption(_))
    }

    /// Returns whether this is an [`Error::Conflict`], after which a transaction may be run again.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Error::Conflict { .. })
    }

    /// Returns the kind of the underlying I/O error, if there is one.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        match self {
            Error::Io { source, .. } => Some(source.kind()),
            Error::ReadOnly { reason } => reason.io_kind(),
            _ => None,
        }
    }
}

/// Returns the Cargo feature that includes an unsupported compression, if there is one.
fn cargo_feature_for(what: Feature, name: &str) -> Option<&'static str> {
    match (what, name) {
        (Feature::Compression, "zlib" | "deflate") => Some("zlib"),
        (Feature::Compression, "zstd") => Some("zstd"),
        _ => None,
    }
}

/// Keeps the kind of an I/O error, so that `?` works in functions that return [`io::Error`]. Other
/// errors get the kind that fits best, or [`io::ErrorKind::Other`].
///
/// ```
/// fn count(path: &std::path::Path) -> std::io::Result<usize> {
///     let db = minikv::Db::open(path, minikv::Options::default())?;
///     Ok(db.iter().count())
/// }
/// # let home = tempfile::tempdir()?;
/// let missing = count(&home.path().join("missing")).unwrap_err();
/// assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
/// # Ok::<(), std::io::Error>(())
/// ```
impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        let kind = match &error {
            Error::Io { source, .. } => source.kind(),
            Error::Corruption(_) => io::ErrorKind::InvalidData,
            Error::Locked { .. } => io::ErrorKind::WouldBlock,
            Error::DatabaseMissing { .. } => io::ErrorKind::NotFound,
            Error::DatabaseExists { .. } => io::ErrorKind::AlreadyExists,
            Error::Unsupported { .. } => io::ErrorKind::Unsupported,
            Error::InvalidArgument { .. } => io::ErrorKind::InvalidInput,
            Error::ReadOnly { reason } => reason.io_kind().unwrap_or(io::ErrorKind::Other),
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { op, path, source } => {
                write!(f, "cannot {op} {}: {source}", path.display())
            }
            Error::Corruption(c) => c.fmt(f),
            Error::Locked { path, holder } => {
                write!(f, "{} is locked by {holder}", path.display())
            }
            Error::DatabaseMissing { path } => {
                write!(f, "no database in {} (create_if_missing is off)", path.display())
            }
            Error::DatabaseExists { path } => {
                write!(f, "there is already a database in {}", path.display())
            }
            Error::Unsupported { what, name, path } => {
                write!(f, "unsupported {what} {name}")?;
                if let Some(path) = path {
                    write!(f, " in {}", path.display())?;
                }
                match cargo_feature_for(*what, name) {
                    Some(feature) => write!(f, " (it needs minikv's Cargo feature `{feature}`)"),
                    None => Ok(()),
                }
            }
            Error::InvalidArgument { what } => f.write_str(what),
            Error::ReadOnly { reason } => {
                write!(f, "the database has accepted no writes since this error: {reason}")
            }
            Error::Panicked { during, message } => write!(f, "{during} panicked: {message}"),
            Error::Conflict { key, keyspace } => {
                write!(f, "another write changed \"{}\"", key.escape_ascii())?;
                if let Some(name) = keyspace {
                    write!(f, " in keyspace \"{}\"", name.escape_ascii())?;
                }
                f.write_str(" after this transaction had read it")
            }
            Error::ChangesLost { after, next } => write!(
                f,
                "the changes after sequence number {after} are in no log any more, because logs \
                 were removed, or the database was repaired; it is at {next}"
            ),
            Error::Closed => f.write_str("the database is closed"),
        }
    }
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}", path.display())?;
            if let Some(offset) = self.offset {
                write!(f, " at offset {offset}")?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.what)?;
        match (&self.expected, &self.found) {
            (Some(expected), Some(found)) => write!(f, " (expected {expected}, found {found})"),
            (Some(expected), None) => write!(f, " (expected {expected})"),
            (None, Some(found)) => write!(f, " (found {found})"),
            (None, None) => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(&**source),
            Error::ReadOnly { reason } => Some(&**reason),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn the_error_of_the_system_is_the_source() {
        let error = Error::io("read", Path::new("5.ldb"), io::ErrorKind::UnexpectedEof.into());
        let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        assert_eq!(source.map(io::Error::kind), Some(io::ErrorKind::UnexpectedEof));
        let error = Error::ReadOnly { reason: Arc::new(error) };
        assert!(error.source().and_then(|source| source.source()).is_some());
        assert!(Error::corruption("damaged").source().is_none());
    }

    #[test]
    fn an_error_becomes_an_error_of_the_system_of_the_kind_that_fits() {
        use io::ErrorKind::*;
        let path = PathBuf::from("db");
        let denied = Error::io("read", &path, PermissionDenied.into());
        let unsupported = Error::unsupported(Feature::EditTag, "99");
        let read_only = |reason| Error::ReadOnly { reason: Arc::new(reason) };
        let holder = LockHolder::ThisProcess;
        let cases = [
            (denied.clone(), PermissionDenied),
            (Error::corruption("damaged"), InvalidData),
            (Error::Locked { path: path.clone(), holder }, WouldBlock),
            (Error::DatabaseMissing { path: path.clone() }, NotFound),
            (Error::DatabaseExists { path }, AlreadyExists),
            (unsupported, Unsupported),
            (Error::invalid("empty"), InvalidInput),
            (read_only(denied), PermissionDenied),
            (read_only(Error::corruption("damaged")), Other),
            (Error::Closed, Other),
        ];
        for (error, kind) in cases {
            let message = error.to_string();
            let error = io::Error::from(error);
            assert_eq!((error.kind(), error.to_string()), (kind, message));
        }
    }

    #[test]
    fn damage_tells_what_is_known_of_it() {
        let known = |expected: Option<&str>, found: Option<&str>| Corruption {
            what: "a length".to_owned(),
            expected: expected.map(str::to_owned),
            found: found.map(str::to_owned),
            ..Corruption::default()
        };
        assert_eq!(known(None, None).to_string(), "a length");
        assert_eq!(known(Some("1"), None).to_string(), "a length (expected 1)");
        assert_eq!(known(None, Some("2")).to_string(), "a length (found 2)");
        assert_eq!(known(Some("1"), Some("2")).to_string(), "a length (expected 1, found 2)");
    }
}
