//! Error texts as LevelDB writes them (`Status::ToString`). Each text begins with a prefix that
//! tells clients the kind of error.

use std::io::ErrorKind;

use minikv::Error;

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

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

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
}
