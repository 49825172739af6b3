//! Lines on stderr.

use std::fmt::Display;
use std::io::Write;

/// Prints one line to stderr. Errors are ignored, so a node goes on although nobody reads its
/// lines.
pub fn notice(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "minikv-raft: {line}");
}
