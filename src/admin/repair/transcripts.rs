//! Tests that replay transcripts of repair plans: the level to which a repair assigns each table.

use crate::admin::manifest::Manifest;
use crate::admin::repair::plan::{RepairPlan, plan};
use crate::admin::survey::Survey;
use crate::admin::tables::TableFacts;
use crate::base::transcript::{self, Command};
use crate::engine::options::Options;
use crate::engine::version::testing::{edit, order, table};
use crate::fs::MemFs;

/// Parses the facts about a table, such as `3:[a-c]@2M seqs=5..9 faults=1`.
fn facts(text: &str) -> TableFacts {
    let mut words = text.split_whitespace();
    let file = table(0, words.next().expect("a table"));
    let command = Command { name: "table", args: words.collect(), input: Vec::new() };
    let (min_seq, max_seq) = command.arg("seqs").unwrap_or("1..1").split_once("..").expect("a..b");
    TableFacts {
        number: file.number,
        path: String::new().into(),
        file_bytes: file.file_bytes,
        entries: command.number("entries", 1),
        smallest: file.smallest,
        largest: file.largest,
        min_seq: transcript::number(min_seq),
        max_seq: transcript::number(max_seq),
        faults: command.number("faults", 0),
        blocks: Vec::new(),
        lost: Vec::new(),
    }
}

fn manifest(lines: &[&str]) -> Manifest {
    let mut manifest = Manifest::default();
    for file in edit(lines.iter().copied()).new_files {
        manifest.levels[file.level].insert(file.number, file);
    }
    manifest
}

/// Returns a plan as text, with one line for each table.
fn show(plan: &RepairPlan) -> String {
    let RepairPlan::Keep { tables } = plan else {
        let RepairPlan::Merge { level } = plan else { unreachable!("a plan keeps or merges") };
        return format!("merge all into L{level}");
    };
    let line = |kept: &crate::admin::repair::plan::KeptTable| {
        let was = if kept.is_named { "named" } else { "not named" };
        let how = if kept.is_damaged { "rewrite" } else { "keep" };
        format!("{how} {} at L{} ({was})", kept.file.number, kept.file.level)
    };
    let lines: Vec<String> = tables.iter().map(line).collect();
    if lines.is_empty() { "nothing to keep".to_owned() } else { lines.join("\n") }
}

#[test]
fn tables_are_placed() {
    let options = Options::default().fs(MemFs::new());
    let mut survey = Survey::default();
    transcript::run("repair", |command: &Command<'_>| {
        match command.name {
            "manifest" => {
                survey = Survey { manifest: Some(manifest(&command.input)), ..Survey::default() };
                survey.distrust = command.arg("distrusted").map(str::to_owned);
            }
            "no-manifest" => {
                survey = Survey::default();
                survey.distrust = Some("there is no MANIFEST".to_owned());
            }
            "plan" => {
                let tables = command.input.iter().map(|line| facts(line));
                survey.tables = tables.map(|facts| (facts.number, facts)).collect();
                return show(&plan(&survey, &options, &order()));
            }
            _ => command.unknown(),
        }
        String::new()
    });
}
