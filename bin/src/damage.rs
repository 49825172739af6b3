//! Errors about damage that the command finds while it decodes files.

use std::fmt::Display;
use std::path::Path;

use minikv::{Corruption, Error};

/// Creates corruption errors, and adds the file and the offset of the damage to an error.
pub trait Damage {
    fn corruption(what: impl Into<String>) -> Self;
    fn mismatch(what: impl Into<String>, expected: impl Display, found: impl Display) -> Self;
    /// Adds the file, unless the error already names one.
    fn in_file(self, file: &Path) -> Self;
    /// Adds the offset in the file: `base`, plus the error's own offset if it has one.
    fn at(self, base: u64) -> Self;
}

impl Damage for Error {
    fn corruption(what: impl Into<String>) -> Error {
        Error::Corruption(Box::new(Corruption { what: what.into(), ..Corruption::default() }))
    }

    fn mismatch(what: impl Into<String>, expected: impl Display, found: impl Display) -> Error {
        Error::Corruption(Box::new(Corruption {
            what: what.into(),
            expected: Some(expected.to_string()),
            found: Some(found.to_string()),
            ..Corruption::default()
        }))
    }

    fn in_file(mut self, file: &Path) -> Error {
        match &mut self {
            Error::Corruption(damage) => {
                damage.path.get_or_insert_with(|| file.to_path_buf());
            }
            Error::Unsupported { path, .. } => {
                path.get_or_insert_with(|| file.to_path_buf());
            }
            _ => {}
        }
        self
    }

    fn at(mut self, base: u64) -> Error {
        if let Error::Corruption(damage) = &mut self {
            damage.offset = Some(base.saturating_add(damage.offset.unwrap_or(0)));
        }
        self
    }
}
