//! Transcript tests of versions and of the tombstones of tables.

use std::sync::Arc;

use crate::base::transcript::{self, Command, number};
use crate::engine::version::testing::{
    key, level, numbers, order, range, table, table_text, text, trash, version,
};
use crate::engine::version::tombstones::{EntryCounts, Tombstones};
use crate::engine::version::{KeyRange, Version};
use crate::format::edit::VersionEdit;

/// Parses the lines of an edit, such as `+L1 3:[a-c]` and `-L1 3`.
fn edit(lines: &[&str]) -> VersionEdit {
    let mut edit = VersionEdit::default();
    for line in lines {
        let (at, rest) = line[1..].split_once(' ').expect("a level and tables");
        let tables = rest.split_whitespace();
        match &line[..1] {
            "+" => edit.new_files.extend(tables.map(|text| table(level(at), text))),
            _ => edit.deleted_files.extend(tables.map(|text| (level(at), number(text)))),
        }
    }
    edit
}

fn key_range<'a>(text: &'a str) -> KeyRange<'a> {
    let end = |text: &'a str| (!text.is_empty()).then_some(text.as_bytes());
    let (from, to) = range(text);
    KeyRange { from: end(from), to: end(to) }
}

#[test]
fn edits_make_versions() {
    let (order, trash) = (order(), trash());
    let mut current = Arc::new(Version::default());
    transcript::run("version", |command: &Command<'_>| match command.name {
        "version" => {
            current = version(command.input.iter().copied());
            text(&current)
        }
        "apply" => match current.apply(&edit(&command.input), &order, &trash) {
            Ok(next) => {
                let is_same = |file| current.files().any(|(_, old)| Arc::ptr_eq(old, file));
                let kept = next.files().filter(|(_, file)| is_same(file)).count();
                current = Arc::new(next);
                format!("{}\nkept: {kept}", text(&current))
            }
            Err(error) => format!("refused: {error}"),
        },
        "overlapping" => {
            let range = key_range(command.args[1]);
            numbers(&current.overlapping(level(command.args[0]), order.user(), range))
        }
        "find" => {
            let found = |key: &&str| {
                let at = level(command.args[0]);
                let file = current.find_table(at, order.user(), key.as_bytes());
                format!("{key}: {}", file.map_or("none".to_owned(), |file| table_text(file)))
            };
            command.args[1..].iter().map(found).collect::<Vec<_>>().join("\n")
        }
        "deepest" => match current.deepest_level(order.user(), key_range(command.args[0])) {
            Some(level) => format!("L{level}"),
            None => "none".to_owned(),
        },
        _ => command.unknown(),
    });
}

#[test]
fn many_tombstones_are_worth_a_compaction() {
    let mut table = Tombstones::default();
    transcript::run("tombstones", |command: &Command<'_>| {
        match command.name {
            "table" => table = Tombstones::default(),
            "written" => table.set_counts(EntryCounts {
                entries: command.number("entries", 0),
                tombstones: command.number("tombstones", 0),
                newest_tombstone: key(command.arg("newest").expect("newest=#n")).1,
                ..EntryCounts::default()
            }),
            "crawled" => table.crawled(number(command.args[0])),
            "many" => {
                let oldest_read = number(command.arg("read_at").expect("read_at=n"));
                return if table.are_many(oldest_read) { "yes" } else { "no" }.to_owned();
            }
            _ => command.unknown(),
        }
        String::new()
    });
}
