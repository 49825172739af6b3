//! Errors of the store, and their conversion to openraft's errors.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use openraft::{AnyError, ErrorSubject, ErrorVerb, StorageError, StorageIOError};

/// An error of the store. The text of an error describes what failed, and where.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The underlying database failed.
    Database(minikv::Error),
    /// An operation on a file or directory outside the databases failed.
    File {
        /// The operation, such as `read` or `rename`.
        op: &'static str,
        /// The path.
        path: PathBuf,
        /// The underlying error.
        source: io::Error,
    },
    /// Stored bytes do not have the expected format.
    Format {
        /// The file or the key that contains the bytes.
        place: String,
        /// A description of the error.
        what: String,
    },
    /// The node's files have lost something that the node has promised to keep. The node must not
    /// run with them.
    Damaged {
        /// Description of the damage, with the file and the offset in it if they are known.
        what: String,
    },
    /// A backup is damaged or incomplete.
    Backup {
        /// Description of the damage, with the file if it is known.
        what: String,
    },
    /// An earlier write to the log failed, so the log accepts no more writes.
    Log(String),
    /// The store cannot use the directory, or cannot serve the request.
    Refused(String),
}

/// The advice to a user whose node is damaged.
const AFTER_DAMAGE: &str = "this node may have lost what it promised to keep, and does not start: \
     let it leave the cluster, and join it again with an empty directory";

/// The result of an operation on the store.
pub type Result<T> = std::result::Result<T, Error>;

/// The result of an operation that openraft requests.
pub(crate) type Stored<T> = std::result::Result<T, StorageError<u64>>;

impl Error {
    pub(crate) fn format(place: impl Into<String>, what: impl Into<String>) -> Error {
        Error::Format { place: place.into(), what: what.into() }
    }

    /// Returns `error` as damage to the files of the node if it is corruption.
    pub(crate) fn damage(error: minikv::Error) -> Error {
        match error.is_corruption() {
            true => Error::Damaged { what: error.to_string() },
            false => Error::Database(error),
        }
    }

    pub(crate) fn file(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::File { op, path, source }
    }

    /// Converts the error to an error of openraft about `subject`.
    pub(crate) fn into_storage(
        self,
        subject: ErrorSubject<u64>,
        verb: ErrorVerb,
    ) -> StorageError<u64> {
        StorageIOError::new(subject, verb, AnyError::new(&self)).into()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Database(error) => error.fmt(f),
            Error::File { op, path, source } => write!(f, "{op} {}: {source}", path.display()),
            Error::Format { place, what } => write!(f, "{place}: {what}"),
            Error::Damaged { what } => write!(f, "{what}; {AFTER_DAMAGE}"),
            Error::Backup { what } => {
                write!(f, "{what}; the backup is damaged: use another backup")
            }
            Error::Log(what) => write!(f, "the log cannot be written: {what}"),
            Error::Refused(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Database(error) => Some(error),
            Error::File { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<minikv::Error> for Error {
    fn from(error: minikv::Error) -> Error {
        Error::Database(error)
    }
}
