//! Serialization of the paths and keys in reports.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use base64::prelude::{BASE64_STANDARD, Engine};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::clock::{micros_of, seconds_of};

/// Serializes a path as text. Bytes that are not UTF-8 are replaced by a replacement character.
/// Returns the serializer's result.
pub(crate) fn path<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&path.display())
}

/// Does the same as [`path`], for a path that may be absent.
pub(crate) fn optional_path<S: Serializer>(
    path: &Option<PathBuf>,
    to: S,
) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.display().to_string()).serialize(to)
}

/// Serializes a key like [`Bytes`].
pub(crate) fn bytes<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
    Bytes(bytes).serialize(to)
}

/// Does the same as [`bytes`], for a key that may be absent.
pub(crate) fn optional_bytes<S: Serializer>(
    bytes: &Option<Vec<u8>>,
    to: S,
) -> Result<S::Ok, S::Error> {
    bytes.as_deref().map(Bytes).serialize(to)
}

/// Serializes a duration as a number of whole microseconds.
pub(crate) fn micros<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    micros_of(*duration).serialize(to)
}

/// Serializes a time as a number of whole seconds since 1970.
pub(crate) fn seconds<S: Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    seconds_of(*time).serialize(to)
}

/// Bytes that serialize as a string if they are UTF-8, and as `{"base64": "…"}` otherwise.
pub(crate) struct Bytes<'a>(pub &'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(self.0) {
            Ok(text) => to.serialize_str(text),
            Err(_) => {
                let mut encoded = to.serialize_struct("Bytes", 1)?;
                encoded.serialize_field("base64", &BASE64_STANDARD.encode(self.0))?;
                encoded.end()
            }
        }
    }
}
