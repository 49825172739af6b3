//! Transcript tests of the merging cursor.

use std::sync::Arc;

use crate::base::Result;
use crate::base::transcript::{self, Command};
use crate::engine::memtable::{Arena, Memtable};
use crate::engine::read::merge::{MergeCursor, Source};
use crate::engine::version::testing::{key, order};
use crate::format::batch::WriteBatch;
use crate::format::key::{KIND_FOR_SEEK, ParsedKey, internal_key};

/// Returns a source of the entries in `line`, such as `a#3 c#1`. All entries have the value `name`.
fn source(line: &str, name: usize) -> Source {
    let mem = Memtable::new(order().user(), 0);
    let mut arena = Arena::default();
    for entry in line.split_whitespace() {
        let (user_key, seq) = key(entry);
        let mut batch = WriteBatch::new();
        batch.put(user_key, name.to_string());
        mem.insert_batch(batch.contents(), seq, &mut arena).expect("a batch");
    }
    Source::Mem(Arc::new(mem).cursor())
}

fn key_text(key: &[u8]) -> String {
    let key = ParsedKey::parse(key).expect("an internal key");
    format!("{}#{}", String::from_utf8_lossy(key.user_key), key.seq)
}

/// Makes one move of the cursor.
fn step(cursor: &mut MergeCursor, line: &str) -> Result<bool> {
    match line.split_once(' ').unwrap_or((line, "")) {
        ("first", _) => cursor.seek_to_first(),
        ("last", _) => cursor.seek_to_last(),
        ("next", _) => cursor.next(),
        ("prev", _) => cursor.prev(),
        ("seek", target) => {
            let (user_key, seq) = key(target);
            cursor.seek(&internal_key(user_key.as_bytes(), seq, KIND_FOR_SEEK))
        }
        _ => panic!("{line:?} is not a move"),
    }
}

/// Returns the cursor's entry, the source of that entry, and the position of each source, as text.
fn place(cursor: &MergeCursor) -> String {
    if !cursor.valid() {
        return "the end".to_owned();
    }
    let at = |position: Option<Vec<u8>>| position.map_or("-".to_owned(), |key| key_text(&key));
    let sources: Vec<String> = cursor.positions().into_iter().map(at).collect();
    let from = String::from_utf8_lossy(cursor.value());
    format!("{} of source {from}   ({})", key_text(cursor.key()), sources.join(", "))
}

#[test]
fn sorted_sources_are_walked_as_one() {
    let mut cursor = MergeCursor::new(order(), Vec::new());
    transcript::run("merge", |command: &Command<'_>| match command.name {
        "sources" => {
            let lines = command.input.iter().enumerate();
            let sources = lines.map(|(at, line)| source(line, at + 1)).collect();
            cursor = MergeCursor::new(order(), sources);
            String::new()
        }
        "walk" => {
            let mut lines = Vec::new();
            for line in &command.input {
                let is_valid = step(&mut cursor, line).expect("a memtable cannot fail");
                assert_eq!(is_valid, cursor.valid());
                lines.push(format!("{line}: {}", place(&cursor)));
            }
            lines.join("\n")
        }
        _ => command.unknown(),
    });
}
