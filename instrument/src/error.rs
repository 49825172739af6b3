//! Errors of measurements.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use minikv::Corruption;

/// The result of a measurement.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a measurement failed.
#[derive(Debug)]
pub enum Error {
    /// The library returned an error.
    Db(minikv::Error),
    /// An I/O error of a file.
    Io {
        /// The operation: `read`, `write`, `open`.
        op: &'static str,
        /// The file.
        path: PathBuf,
        /// The underlying error.
        source: io::Error,
    },
    /// A measurement that cannot be made, with the reason.
    Usage(String),
}

impl Error {
    pub(crate) fn io(op: &'static str, path: &Path, source: io::Error) -> Error {
        Error::Io { op, path: path.to_path_buf(), source }
    }

    pub(crate) fn corruption(what: String) -> Error {
        Error::Db(minikv::Error::Corruption(Box::new(Corruption { what, ..Corruption::default() })))
    }
}

impl From<minikv::Error> for Error {
    fn from(error: minikv::Error) -> Error {
        Error::Db(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Db(error) => error.fmt(f),
            Error::Io { op, path, source } => write!(f, "cannot {op} {}: {source}", path.display()),
            Error::Usage(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Db(error) => Some(error),
            Error::Io { source, .. } => Some(source),
            Error::Usage(_) => None,
        }
    }
}
