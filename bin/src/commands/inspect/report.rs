//! Output of an inspection: lines of text, which are printed at once, or a JSON document, which is
//! printed at the end.

use std::path::{Path, PathBuf};

use minikv::files::ParsedKey;
use serde_json::{Map, Value, json};

use crate::codec::{Format, JsonBytes, cut};
use crate::damage::Damage;
use crate::error::{CliError, Result};
use crate::output::Stdout;

const MAX_SHOWN_KEY_CHARS: usize = 40;

/// Collects information about an inspected file.
pub struct Report {
    path: PathBuf,
    stdout: Stdout,
    /// The JSON document, or `None` if the output is text.
    document: Option<Map<String, Value>>,
    format: Format,
    entries: bool,
    damage: Vec<minikv::Error>,
}

impl Report {
    pub fn new(path: &Path, format: Format, entries: bool, as_json: bool) -> Result<Report> {
        Ok(Report {
            path: path.to_path_buf(),
            stdout: Stdout::open_to_go_on()?,
            document: as_json.then(Map::new),
            format,
            entries,
            damage: Vec::new(),
        })
    }

    /// Returns whether to report individual entries.
    pub fn entries(&self) -> bool {
        self.entries
    }

    pub fn is_json(&self) -> bool {
        self.document.is_some()
    }

    /// Prints a line, unless the output is JSON.
    pub fn line(&mut self, text: impl AsRef<str>) -> Result<()> {
        if self.is_json() { Ok(()) } else { self.stdout.line(text) }
    }

    /// Sets a field of the JSON document, if the output is JSON.
    pub fn set(&mut self, name: &str, value: Value) {
        if let Some(document) = &mut self.document {
            document.insert(name.to_string(), value);
        }
    }

    /// Appends a value to a list in the JSON document, if the output is JSON.
    pub fn push(&mut self, list: &str, value: Value) {
        let Some(document) = &mut self.document else { return };
        let list = document.entry(list).or_insert_with(|| json!([]));
        list.as_array_mut().expect("names of lists and fields differ").push(value);
    }

    /// Reports damage or an unsupported feature. Returns any other error, which ends the
    /// inspection.
    pub fn damage(&mut self, error: minikv::Error) -> Result<()> {
        let (offset, what) = match &error {
            minikv::Error::Corruption(c) => {
                let mut what = (**c).clone();
                (what.path, what.offset) = (None, None);
                (c.offset, what.to_string())
            }
            minikv::Error::Unsupported { what, name, .. } => {
                (None, format!("unsupported {what} {name}"))
            }
            _ => return Err(error.into()),
        };
        let place = offset.map_or(String::new(), |offset| format!(" at {offset}"));
        self.line(format!("DAMAGE{place}: {what}"))?;
        self.push("damage", json!({"offset": offset, "what": what}));
        self.damage.push(error);
        Ok(())
    }

    /// Formats a key for a line of text, and shortens it if it is long.
    pub fn show_key(&self, key: &[u8]) -> String {
        cut(&self.format.show(key), MAX_SHOWN_KEY_CHARS)
    }

    /// Formats an internal key for a line of text: key, sequence number, kind.
    pub fn show_internal_key(&self, key: &[u8]) -> String {
        match ParsedKey::parse(key) {
            Ok(key) => format!("{} @{} {}", self.show_key(key.user_key), key.seq, kind(&key)),
            Err(_) => format!("{} (not an internal key)", self.show_key(key)),
        }
    }

    /// Formats an entry for a line of text: sequence number, kind, key, value.
    pub fn show_entry(&self, key: &[u8], value: &[u8]) -> String {
        match ParsedKey::parse(key) {
            Ok(key) => {
                let value = self.format.show(value);
                format!("{} {}\t{}\t{value}", key.seq, kind(&key), self.format.show(key.user_key))
            }
            Err(_) => format!("?\t{}\t{}", self.format.show(key), self.format.show(value)),
        }
    }

    /// Formats a key or a value for a line of text, without shortening it.
    pub fn show_whole(&self, bytes: &[u8]) -> String {
        self.format.show(bytes)
    }

    /// Finishes the output. If there was damage, returns the first damage as an error.
    pub fn finish(mut self) -> Result<()> {
        if let Some(document) = &mut self.document {
            document.insert("file".to_string(), json!(self.path.display().to_string()));
            document.entry("damage").or_insert_with(|| json!([]));
            let text = Value::Object(std::mem::take(document)).to_string();
            self.stdout.line(text)?;
        }
        self.stdout.finish()?;
        let places = self.damage.len();
        // Damage takes precedence over features that this build does not support.
        let at = self.damage.iter().position(minikv::Error::is_corruption).unwrap_or(0);
        if places == 0 {
            return Ok(());
        }
        let mut first = self.damage.swap_remove(at);
        if let (minikv::Error::Corruption(c), 2..) = (&mut first, places) {
            c.what.push_str(&format!(" (the first of {places} damaged places)"));
        }
        Err(CliError::Db(first.in_file(&self.path)))
    }
}

/// Returns the kind of a key: `put` or `delete`.
pub fn kind(key: &ParsedKey<'_>) -> &'static str {
    match key.kind {
        minikv::files::KeyKind::Value => "put",
        minikv::files::KeyKind::Deletion => "delete",
    }
}

/// Returns bytes as JSON: a string, or `{"base64":"…"}`.
pub fn json_bytes(bytes: &[u8]) -> Value {
    json!(JsonBytes(bytes))
}

/// Returns an internal key as JSON.
pub fn json_internal_key(key: &[u8]) -> Value {
    match ParsedKey::parse(key) {
        Ok(key) => {
            json!({"key": json_bytes(key.user_key), "sequence": key.seq, "kind": kind(&key)})
        }
        Err(_) => json!({"raw": json_bytes(key)}),
    }
}
