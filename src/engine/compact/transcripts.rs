//! Transcripts that show the tables that a compaction takes and the entries that a merge keeps.

use std::sync::Arc;

use crate::base::transcript::{self, Command, number};
use crate::engine::compact::manual::ManualCompaction;
use crate::engine::compact::parts::split;
use crate::engine::compact::pick::{DropHorizon, pick, target_in};
use crate::engine::compact::plan::{Compaction, Inputs, clean_cut_of};
use crate::engine::compact::retention::Retention;
use crate::engine::options::Options;
use crate::engine::report::event::CompactionKind;
use crate::engine::span::Span;
use crate::engine::version::testing::{key, level, numbers, order, version};
use crate::engine::version::tombstones::EntryCounts;
use crate::engine::version::{KeyRange, TableFile, Version};
use crate::format::edit::NUM_LEVELS;
use crate::format::expiry::TableExpiry;
use crate::format::key::{KeyKind, MAX_SEQ_NO, ParsedKey, UserComparator};

/// A version whose tables are compacted.
struct Machine {
    order: UserComparator,
    options: Options,
    version: Arc<Version>,
    running: Vec<Arc<Compaction>>,
}

impl Machine {
    fn new() -> Machine {
        Machine {
            order: order().user().clone(),
            options: Options::default().write_buffer_bytes(64 << 10).max_file_bytes(2 << 20),
            version: Arc::default(),
            running: Vec::new(),
        }
    }

    fn file(&self, text: &str) -> &Arc<TableFile> {
        let wanted = number(text);
        let found = self.version.files().find(|(_, file)| file.number == wanted);
        found.unwrap_or_else(|| panic!("no table {text}")).1
    }

    fn files(&self, args: &[&str]) -> Vec<Arc<TableFile>> {
        args.iter().map(|text| self.file(text).clone()).collect()
    }

    fn answer(&mut self, command: &Command<'_>) -> String {
        match command.name {
            "version" => {
                self.version = version(command.input.iter().copied());
                self.running.clear();
                self.fullness()
            }
            "tombstones" => {
                self.count_tombstones(command);
                String::new()
            }
            "expiry" => {
                self.set_expiries(command);
                String::new()
            }
            "pick" => self.pick(command).as_ref().map_or("none".to_owned(), show),
            "run" => {
                let Some(compaction) = self.pick(command) else { return "none".to_owned() };
                compaction.mark(true);
                self.running.push(Arc::new(compaction));
                show(&self.running[self.running.len() - 1])
            }
            "running" => {
                let from = level(command.args[0]);
                let into = level(command.arg("into").expect("into=level"));
                let inputs = Inputs(vec![(from, self.files(&command.args[1..2]))]);
                let version = self.version.clone();
                let made = Compaction::from_inputs(version, &self.order, inputs, into);
                made.mark(true);
                self.running.push(Arc::new(made));
                show(&self.running[self.running.len() - 1])
            }
            "end" => {
                self.running.iter().for_each(|compaction| compaction.mark(false));
                self.running.clear();
                String::new()
            }
            "cut" => {
                let files = self.files(&command.args[1..]);
                let level = self.version.level(level(command.args[0]));
                numbers(&clean_cut_of(level, &files, &self.order))
            }
            "compact" => {
                let files = self.files(&command.args[1..]);
                let level = level(command.args[0]);
                let made = Compaction::new(&self.version, &self.order, &self.options, level, files);
                made.as_ref().map_or("none".to_owned(), show)
            }
            "pieces" => self.pieces(command),
            "split" => {
                let cut = |line: &&str| {
                    let (key, bytes) = line.split_once('@').expect("key@bytes");
                    (key.as_bytes().to_vec(), number(bytes))
                };
                let cuts = command.input.iter().map(cut).collect();
                let parts = split(cuts, number(command.args[0]), &self.order);
                let end = |end: Option<&[u8]>| match end {
                    Some(key) => String::from_utf8_lossy(key).into_owned(),
                    None => "..".to_owned(),
                };
                let part = |part: &Span| {
                    let KeyRange { from, to } = part.closed();
                    format!("{} to {}", end(from), end(to))
                };
                parts.iter().map(part).collect::<Vec<_>>().join(", ")
            }
            _ => command.unknown(),
        }
    }

    /// Returns the pieces of a manual compaction, each with its last key. The version does not
    /// change between the pieces.
    fn pieces(&self, command: &Command<'_>) -> String {
        let range = KeyRange {
            from: command.arg("from").map(str::as_bytes),
            to: command.arg("to").map(str::as_bytes),
        };
        let (version, order) = (&self.version, &self.order);
        let first_new = command.number("first_new", u64::MAX);
        let Some(request) = ManualCompaction::new(version, order, &self.options, range, first_new)
        else {
            return "nothing to compact".to_owned();
        };
        let most = command.number("most", u64::MAX);
        let mut lines = vec![format!("into L{}", request.output_level)];
        for level in 0..=request.output_level {
            let mut done: Option<Vec<u8>> = None;
            while let Some((piece, last_key)) =
                request.next_piece(version, order, most, level, done.as_deref())
            {
                lines.push(format!("{}, up to {}", show(&piece), last_key.escape_ascii()));
                if level == 0 {
                    break;
                }
                done = Some(last_key);
            }
        }
        lines.join("\n")
    }

    /// Returns the size of each level that has tables, relative to the level's target, as text.
    fn fullness(&self) -> String {
        let levels = (0..NUM_LEVELS).filter(|&level| !self.version.level(level).is_empty());
        let line = |level| match level {
            0 => format!("L0: {} tables of 4", self.version.level(0).len()),
            _ => {
                let target = target_in(&self.version, level, &self.options);
                let percent = self.version.level_bytes(level) as f64 / target as f64 * 100.0;
                format!("L{level}: {percent:.0} % of {} MiB", target >> 20)
            }
        };
        levels.map(line).collect::<Vec<_>>().join("\n")
    }

    /// Records the tombstones of tables, from input lines such as `3: 300 of 400, newest 9` (table
    /// 3 has 300 tombstones among 400 entries, and the newest tombstone has sequence number 9) and
    /// `4: crawled at 9` (a cursor crawled over tombstones of table 4, the newest at sequence
    /// number 9).
    fn count_tombstones(&self, command: &Command<'_>) {
        for line in &command.input {
            let (table, rest) = line.split_once(": ").expect("a table and its tombstones");
            let known = &self.file(table).tombstones;
            let words: Vec<&str> = rest.split([' ', ',']).filter(|word| !word.is_empty()).collect();
            match words[..] {
                [tombstones, "of", entries, "newest", newest] => known.set_counts(EntryCounts {
                    entries: number(entries),
                    tombstones: number(tombstones),
                    newest_tombstone: number(newest),
                    ..EntryCounts::default()
                }),
                ["crawled", "at", seq] => known.crawled(number(seq)),
                _ => panic!("{line:?} is not about tombstones"),
            }
        }
    }

    /// Sets the expiry times of tables, from input lines such as `3: last 500` (the last entry of
    /// table 3 expires at time 500).
    fn set_expiries(&self, command: &Command<'_>) {
        for line in &command.input {
            let (table, last) = line.split_once(": last ").expect("a table and its last expiry");
            let expiry = TableExpiry { last: number(last), entries: 1 };
            self.file(table).expiry.set(Some(expiry)).expect("a table without an expiry");
        }
    }

    fn pick(&self, command: &Command<'_>) -> Option<Compaction> {
        let levels = match command.arg("levels") {
            None => 0..NUM_LEVELS,
            Some(text) => {
                let (from, to) = text.split_once("..").expect("levels=from..to");
                level(from)..level(to)
            }
        };
        let oldest_read = command.number("read_at", MAX_SEQ_NO);
        let horizon = DropHorizon { oldest_read, now: command.arg("now").map(number) };
        pick(&self.version, &self.order, &self.options, &self.running, levels, horizon)
    }
}

/// Returns a compaction as text: its inputs, its output level, and its kind.
fn show(compaction: &Compaction) -> String {
    let inputs = compaction.inputs.0.iter().filter(|(_, files)| !files.is_empty());
    let inputs = inputs.map(|(level, files)| format!("L{level} {}", numbers(files)));
    let inputs: Vec<_> = inputs.collect();
    let (inputs, level) = (inputs.join(" and "), compaction.output_level);
    match compaction.kind {
        CompactionKind::Merge => format!("merge {inputs} into L{level}"),
        CompactionKind::Move => format!("move {inputs} into L{level}"),
        CompactionKind::Drop => format!("drop {inputs}"),
    }
}

#[test]
fn a_compaction_takes_the_tables_of_the_transcript() {
    let mut machine = Machine::new();
    transcript::run("pick", |command| machine.answer(command));
}

#[test]
fn a_manual_compaction_has_the_pieces_of_the_transcript() {
    let mut machine = Machine::new();
    transcript::run("pieces", |command| machine.answer(command));
}

#[test]
fn a_clean_cut_takes_the_tables_of_the_transcript() {
    let mut machine = Machine::new();
    transcript::run("cut", |command| machine.answer(command));
}

#[test]
fn a_merge_keeps_the_versions_of_the_transcript() {
    transcript::run("retention", |command: &Command<'_>| {
        let read_seqs = command.arg("read_at").map_or(Vec::new(), |seqs| seqs.split(',').collect());
        let read_seqs = read_seqs.into_iter().map(number).collect();
        let mut retention = Retention::new(read_seqs, order().user().clone());
        let mut lines = Vec::new();
        for line in &command.input {
            let (entry, is_delete) = match line.strip_suffix(" delete") {
                Some(entry) => (entry, true),
                None => (*line, false),
            };
            let (user_key, seq) = key(entry);
            let kind = if is_delete { KeyKind::Deletion } else { KeyKind::Value };
            let entry = ParsedKey { user_key: user_key.as_bytes(), seq, kind };
            let fate = match retention.is_shadowed(&entry) {
                Err(error) => error.to_string(),
                Ok(true) => "drop".to_owned(),
                Ok(false) if is_delete && retention.all_see(seq) => {
                    "drop if no deeper level has the key".to_owned()
                }
                Ok(false) => "keep".to_owned(),
            };
            lines.push(format!("{line}: {fate}"));
        }
        lines.join("\n")
    });
}
