//! Versions written as text, for transcript tests.
//!
//! ```text
//! L0: 8:[a-f]@64K
//! L1: 3:[a-c]@2M 4:[d-f#7]@2M
//! ```
//!
//! A table is written as its number, its first and last key, and its size in bytes (1 if omitted).
//! A key may be followed by `#` and its sequence number (1 if omitted).

use std::path::Path;
use std::sync::Arc;

use crate::base::BytewiseComparator;
use crate::base::transcript::number;
use crate::engine::version::obsolete::Trash;
use crate::engine::version::{TableFile, Version};
use crate::format::edit::{NUM_LEVELS, NewFile, VersionEdit};
use crate::format::key::{InternalComparator, KeyKind, ParsedKey, internal_key};
use crate::fs::MemFs;

/// Returns an internal-key comparator that compares user keys bytewise.
pub(crate) fn order() -> InternalComparator {
    InternalComparator::new(Arc::new(BytewiseComparator))
}

/// Returns a trash that never removes a file.
pub(crate) fn trash() -> Arc<Trash> {
    Arc::new(Trash::new(Arc::new(MemFs::new()), Path::new("")))
}

/// Parses a key, such as `c#9`. Returns the user key and the sequence number.
pub(crate) fn key(text: &str) -> (&str, u64) {
    text.split_once('#').map_or((text, 1), |(key, seq)| (key, number(seq)))
}

fn internal(text: &str) -> Vec<u8> {
    let (key, seq) = key(text);
    internal_key(key.as_bytes(), seq, KeyKind::Value)
}

/// Parses a level, such as `L1`.
pub(crate) fn level(text: &str) -> usize {
    let level = text.strip_prefix('L').and_then(|level| level.parse().ok());
    level.unwrap_or_else(|| panic!("{text:?} is not a level"))
}

/// Parses a range, such as `[a-c]` or `a-c`. Returns its two ends.
pub(crate) fn range(text: &str) -> (&str, &str) {
    let inner = text.trim_matches(['[', ']']);
    inner.split_once('-').unwrap_or_else(|| panic!("{text:?} is not a range"))
}

/// Parses a table of `level`, such as `3:[a-c]@2M`.
pub(crate) fn table(level: usize, text: &str) -> NewFile {
    let (number_text, rest) = text.split_once(':').expect("number:[first-last]");
    let (keys, bytes) = rest.split_once('@').unwrap_or((rest, "1"));
    let (from, to) = range(keys);
    NewFile {
        level,
        number: number(number_text),
        file_bytes: number(bytes),
        smallest: internal(from),
        largest: internal(to),
    }
}

/// Parses the lines of a version. Returns the edit that turns an empty version into that version.
pub(crate) fn edit<'a>(lines: impl IntoIterator<Item = &'a str>) -> VersionEdit {
    let mut edit = VersionEdit::default();
    for line in lines {
        let mut words = line.split_whitespace();
        let level = level(words.next().expect("a level").trim_end_matches(':'));
        edit.new_files.extend(words.map(|word| table(level, word)));
    }
    edit
}

/// Parses the lines of a version.
pub(crate) fn version<'a>(lines: impl IntoIterator<Item = &'a str>) -> Arc<Version> {
    let made = Version::default().apply(&edit(lines), &order(), &trash());
    Arc::new(made.expect("a version"))
}

fn key_text(key: &[u8]) -> String {
    let key = ParsedKey::parse(key).expect("an internal key");
    let text = String::from_utf8_lossy(key.user_key);
    match key.seq {
        1 => text.into_owned(),
        seq => format!("{text}#{seq}"),
    }
}

/// Returns a table as text: its number, first key and last key.
pub(crate) fn table_text(file: &TableFile) -> String {
    format!("{}:[{}-{}]", file.number, key_text(&file.smallest), key_text(&file.largest))
}

/// Returns the numbers of tables, separated by spaces.
pub(crate) fn numbers<'a>(files: impl IntoIterator<Item = &'a Arc<TableFile>>) -> String {
    files.into_iter().map(|file| file.number.to_string()).collect::<Vec<_>>().join(" ")
}

/// Returns a version as text: a line for each level that has tables.
pub(crate) fn text(version: &Version) -> String {
    let levels = (0..NUM_LEVELS).filter(|&level| !version.level(level).is_empty());
    let line = |level| {
        let tables = version.level(level).iter().map(|file| table_text(file));
        format!("L{level}: {}", tables.collect::<Vec<_>>().join(" "))
    };
    levels.map(line).collect::<Vec<_>>().join("\n")
}
