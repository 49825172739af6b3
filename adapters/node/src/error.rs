//! Errors as JavaScript sees them, with abstract-level's codes and LevelDB's texts.

use minikv::Error;
use napi::bindgen_prelude::{JsObjectValue, JsValue, Object};
use napi::{Env, Status};

/// The reason why a call failed.
#[derive(Clone)]
pub enum Fault {
    /// The library has returned an error.
    Store(Error),
    /// The database is not open.
    NotOpen,
    /// The database is open for reading only.
    ReadOnly,
    /// The snapshot is closed.
    SnapshotNotOpen,
    /// The transaction was committed or closed.
    TransactionNotOpen,
    /// The call was aborted.
    Aborted,
    /// An error without a code: misuse by the JavaScript code of this package, or a panic. In both
    /// cases, there is a bug in this package.
    Other(String),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        match error {
            Error::Closed => Fault::NotOpen,
            error => Fault::Store(error),
        }
    }
}

impl Fault {
    /// Returns the fault of a tool that does `op` to the files of a database.
    pub fn of_tool(error: Error, op: &'static str) -> Fault {
        Fault::from(minikv_status::of_tool(error, op))
    }

    /// Converts the fault to an error that is thrown, or that rejects a promise.
    pub fn into_error(self, env: Env) -> napi::Error {
        match self.as_object(&env) {
            Ok(object) => napi::Error::from(object.to_unknown()),
            Err(error) => error,
        }
    }

    fn as_object<'env>(&self, env: &'env Env) -> napi::Result<Object<'env>> {
        let mut object = env.create_error(napi::Error::new(Status::GenericFailure, self.text()))?;
        match self.code() {
            Some(code) => object.set_named_property("code", code)?,
            None => object.delete_named_property("code").map(drop)?,
        }
        if matches!(self, Fault::Aborted) {
            object.set_named_property("name", "AbortError")?;
        }
        Ok(object)
    }

    fn code(&self) -> Option<&'static str> {
        match self {
            Fault::Store(error) => code_of(error),
            Fault::NotOpen => Some("LEVEL_DATABASE_NOT_OPEN"),
            Fault::ReadOnly => Some("LEVEL_READONLY"),
            Fault::SnapshotNotOpen => Some("LEVEL_SNAPSHOT_NOT_OPEN"),
            Fault::TransactionNotOpen => Some("LEVEL_TRANSACTION_NOT_OPEN"),
            Fault::Aborted => Some("LEVEL_ABORTED"),
            Fault::Other(_) => None,
        }
    }

    fn text(&self) -> String {
        match self {
            Fault::Store(error) => text_of(error),
            Fault::NotOpen => "Database is not open".to_owned(),
            Fault::ReadOnly => "Database is open for reading only".to_owned(),
            Fault::SnapshotNotOpen => "Snapshot is not open".to_owned(),
            Fault::TransactionNotOpen => "Transaction is not open".to_owned(),
            Fault::Aborted => "Operation has been aborted".to_owned(),
            Fault::Other(text) => text.clone(),
        }
    }
}

/// Returns the code of an error: the same code as in classic-level, where classic-level has one.
fn code_of(error: &Error) -> Option<&'static str> {
    match error {
        Error::Io { .. } => Some("LEVEL_IO_ERROR"),
        Error::Locked { .. } => Some("LEVEL_LOCKED"),
        Error::Corruption(_) => Some("LEVEL_CORRUPTION"),
        Error::Unsupported { .. } => Some("LEVEL_NOT_SUPPORTED"),
        Error::ReadOnly { reason } => code_of(reason),
        Error::InvalidArgument { .. } => Some("LEVEL_INVALID_ARGUMENT"),
        Error::Conflict { .. } => Some("LEVEL_CONFLICT"),
        Error::ChangesLost { .. } => Some("LEVEL_CHANGES_LOST"),
        _ => None,
    }
}

/// Returns the text of an error. The text begins with LevelDB's prefix for that kind of error, and
/// uses JavaScript's names of options.
fn text_of(error: &Error) -> String {
    match error {
        Error::DatabaseMissing { path } => {
            let path = path.display();
            format!("Invalid argument: {path}: does not exist (createIfMissing is false)")
        }
        Error::DatabaseExists { path } => {
            format!("Invalid argument: {}: exists (errorIfExists is true)", path.display())
        }
        error => {
            let text = minikv_status::text(error);
            // classic-level contains an older LevelDB, which calls a missing file an I/O error.
            match (code_of(error), text.strip_prefix("NotFound: ")) {
                (Some("LEVEL_IO_ERROR"), Some(rest)) => format!("IO error: {rest}"),
                _ => text,
            }
        }
    }
}
