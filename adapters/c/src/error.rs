//! Errors as LevelDB writes them (`Status::ToString`): with a prefix by which clients tell kinds.

use std::io::ErrorKind;

use minikv::Error;

/// Returns the text of an error, which begins with LevelDB's prefix for its kind.
pub fn text(error: &Error) -> String {
    match error {
        Error::Io { op, path, source } => {
            let kind = if source.kind() == ErrorKind::NotFound { "NotFound" } else { "IO error" };
            format!("{kind}: {}: cannot {op}: {source}", path.display())
        }
        Error::Corruption(_) => format!("Corruption: {error}"),
        Error::Locked { path, holder } => {
            format!("IO error: lock {}: already held by {holder}", path.display())
        }
        Error::DatabaseMissing { path } => {
            let path = path.display();
            format!("Invalid argument: {path}: does not exist (create_if_missing is false)")
        }
        Error::DatabaseExists { path } => {
            format!("Invalid argument: {}: exists (error_if_exists is true)", path.display())
        }
        Error::Unsupported { what: "comparator", name, .. } => {
            format!("Invalid argument: {name} does not match the comparator of the options")
        }
        Error::Unsupported { .. } => format!("Not implemented: {error}"),
        Error::InvalidArgument { .. } => format!("Invalid argument: {error}"),
        Error::ReadOnly { reason } => format!("{} (no writes since then)", text(reason)),
        Error::Conflict { .. } => format!("Conflict: {error}"),
        Error::ChangesLost { .. } => format!("NotFound: {error}"),
        _ => format!("IO error: {error}"),
    }
}
