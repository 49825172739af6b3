//! Inspection of CURRENT, which contains the name of the MANIFEST in use.

use std::path::Path;

use minikv::files::{FileName, parse_current};
use serde_json::json;

use super::Report;
use crate::damage::Damage;
use crate::error::{CliError, Result};

/// Maximum length of CURRENT, in bytes. A longer file cannot be a CURRENT.
const MAX_BYTES: u64 = 4096;

pub fn inspect(path: &Path, report: &mut Report) -> Result<()> {
    let bytes = std::fs::metadata(path).map_err(|error| CliError::io("read", path, error))?.len();
    report.set("type", json!("current"));
    report.set("bytes", json!(bytes));
    report.line(format!("{}: CURRENT, {bytes} bytes", path.display()))?;
    if bytes > MAX_BYTES {
        return report.damage(minikv::Error::mismatch("CURRENT is too long", MAX_BYTES, bytes));
    }
    let contents = std::fs::read(path).map_err(|error| CliError::io("read", path, error))?;
    let name = match parse_current(&contents) {
        Ok(name) => name,
        Err(error) => return report.damage(error),
    };
    report.set("manifest", json!(name));
    report.line(format!("names {name}"))?;
    if path.with_file_name(name).is_file() {
        return Ok(());
    }
    if path.file_name().is_none_or(|own| own != FileName::Current.to_string().as_str()) {
        // The file may be a copy of CURRENT outside of a database.
        return report.line(format!("{name} is not in the same directory"));
    }
    report.damage(minikv::Error::corruption(format!("it names {name}, which does not exist")))
}
