//! Error texts as LevelDB writes them (`Status::ToString`). Each text begins with a prefix that
//! tells clients the kind of error.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use minikv::{Error, Feature};

/// Error number for a missing file.
const ENOENT: i32 = 2;

/// Returns `error` as a tool (repair, verify, ...) reports it. For a tool, a missing database is an
/// I/O error, as in LevelDB, because no option would create it. `op` says what the tool does.
pub fn of_tool(error: Error, op: &'static str) -> Error {
    match error {
        Error::DatabaseMissing { path } => {
            let source = match path.exists() {
                true => io::Error::other("there is no database in it"),
                false => io::Error::from_raw_os_error(ENOENT),
            };
            Error::Io { op, path, source: Arc::new(source) }
        }
        error => error,
    }
}

/// Returns the text of an error. The text begins with LevelDB's prefix for that kind of error.
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
        Error::Unsupported { what: Feature::Comparator, name, .. } => {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_leveldbs_prefixes() {
        let io = |kind: io::ErrorKind| Error::Io {
            op: "open",
            path: "/db/000005.ldb".into(),
            source: Arc::new(io::Error::new(kind, "why")),
        };
        let missing = io(io::ErrorKind::NotFound);
        assert_eq!(text(&missing), "NotFound: /db/000005.ldb: cannot open: why");
        let failed = io(io::ErrorKind::Other);
        assert_eq!(text(&failed), "IO error: /db/000005.ldb: cannot open: why");
        let read_only = Error::ReadOnly { reason: Arc::new(failed) };
        let expected = "IO error: /db/000005.ldb: cannot open: why (no writes since then)";
        assert_eq!(text(&read_only), expected);
        let missing = Error::DatabaseMissing { path: "/db".into() };
        assert!(text(&missing).starts_with("Invalid argument: /db: does not exist"));
    }
    #[test]
    fn for_a_tool_a_missing_database_is_an_io_error() {
        let text_for =
            |path: &str| text(&of_tool(Error::DatabaseMissing { path: path.into() }, "repair"));
        let missing = text_for("/none/none");
        assert!(missing.starts_with("NotFound: /none/none: cannot repair: No such file"));
        let expected = "IO error: /: cannot repair: there is no database in it";
        assert_eq!(text_for("/"), expected);
        assert!(matches!(of_tool(Error::Closed, "repair"), Error::Closed));
    }
}
