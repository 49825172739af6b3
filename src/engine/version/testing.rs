//! Versions written as text, for transcripts.
//!
//! ```text
//! L0: 8:[a-f]@64K
//! L1: 3:[a-c]@2M 4:[d-f#7]@2M
//! ```
//!
//! A table is its number, its first and last key, and its size in bytes (by default 1). A key has
//! the sequence number after its `#` (by default 1).

use std::path::Path;
use std::sync::Arc;

use crate::base::BytewiseComparator;
use crate::base::transcript::number;
use crate::engine::version::obsolete::Trash;
use crate::engine::version::{TableFile, Version};
use crate::format::edit::{NUM_LEVELS, NewFile, VersionEdit};
use crate::format::key::{InternalComparator, KeyKind, ParsedKey, internal_key};
use crate::fs::MemFs;

/// Returns the order of byte strings.
pub(crate) fn order() -> InternalComparator {
    InternalComparator::new(Arc::new(BytewiseComparator))
}

/// Returns a trash that never removes a file.
pub(crate) fn trash() -> Arc<Trash> {
    Arc::new(Trash::new(Arc::new(MemFs::new()), Path::new("")))
}

/// Returns the user key and the sequence number of `c#9`.
pub(crate) fn key(text: &str) -> (&str, u64) {
    text.split_once('#').map_or((text, 1), |(key, seq)| (key, number(seq)))
}

fn internal(text: &str) -> Vec<u8> {
    let (key, seq) = key(text);
    internal_key(key.as_bytes(), seq, KeyKind::Value)
}

/// Returns the level of `L1`.
pub(crate) fn level(text: &str) -> usize {
    let level = text.strip_prefix('L').and_then(|level| level.parse().ok());
    level.unwrap_or_else(|| panic!("{text:?} is not a level"))
}

/// Returns the two ends of `[a-c]`, or of `a-c`.
pub(crate) fn range(text: &str) -> (&str, &str) {
    let inner = text.trim_matches(['[', ']']);
    inner.split_once('-').unwrap_or_else(|| panic!("{text:?} is not a range"))
}

/// Returns the table `3:[a-c]@2M` of a level.
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

/// Returns the edit that makes the version of these lines.
pub(crate) fn edit<'a>(lines: impl IntoIterator<Item = &'a str>) -> VersionEdit {
    let mut edit = VersionEdit::default();
    for line in lines {
        let mut words = line.split_whitespace();
        let level = level(words.next().expect("a level").trim_end_matches(':'));
        edit.new_files.extend(words.map(|word| table(level, word)));
    }
    edit
}

/// Returns the version of these lines.
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

/// Returns a table as text: its number and keys.
pub(crate) fn table_text(file: &TableFile) -> String {
    format!("{}:[{}-{}]", file.number, key_text(&file.smallest), key_text(&file.largest))
}

/// Returns the numbers of tables, separated by spaces.
pub(crate) fn numbers<'a>(files: impl IntoIterator<Item = &'a Arc<TableFile>>) -> String {
    files.into_iter().map(|file| file.number.to_string()).collect::<Vec<_>>().join(" ")
}

/// Returns a version as text: a line for each level with tables.
pub(crate) fn text(version: &Version) -> String {
    let levels = (0..NUM_LEVELS).filter(|&level| !version.level(level).is_empty());
    let line = |level| {
        let tables = version.level(level).iter().map(|file| table_text(file));
        format!("L{level}: {}", tables.collect::<Vec<_>>().join(" "))
    };
    levels.map(line).collect::<Vec<_>>().join("\n")
}
