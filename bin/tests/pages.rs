//! Runs the commands shown on the project's pages, and compares their output with the pages.
//!
//! A block of commands is fenced as `console`. A line of it that begins with `$ ` is a command; the
//! lines after it, up to the next command, are its output. The word after `console` says how the
//! block is checked:
//!
//! - Without a word, the block is run in each run of the tests, in the directory that the commands
//!   of README.md leave. Times and file numbers are not compared. `MINIKV_PAGES=write` writes the
//!   output into the page. A line `...` stands for lines of the output that are left out.
//! - `nightly`: the block is run only with `MINIKV_PAGES=1`, because it takes long. The page may
//!   leave out lines of the output.
//! - `not run: REASON`: the block is not run.
//!
//! The examples in the READMEs of the Python and Node.js packages are run by these packages' tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::system::symlink;

#[path = "system/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the tests in `cli` use all of it")]
mod system;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Returns the pages of the project: those in the top folder, in `docs/` and in the packages.
fn pages() -> Vec<String> {
    let mut pages = Vec::new();
    for folder in [".", "docs", "docs/history", "adapters", "benches", "tests", "tests/fixtures"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            pages.extend(path.extension().is_some_and(|of| of == "md").then(|| path.clone()));
            pages.extend(Some(path.join("README.md")).filter(|readme| readme.exists()));
        }
    }
    let name = |path: &PathBuf| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
    let mut pages: Vec<String> = pages.iter().map(name).collect();
    pages.sort();
    pages.dedup();
    pages
}

/// Returns the fenced blocks of a page: the words after the fence, and the lines.
fn fenced(page: &str) -> Vec<(String, Vec<String>)> {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let mut blocks = Vec::new();
    let mut open: Option<(String, Vec<String>)> = None;
    for line in text.lines() {
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (None, Some(words)) => open = Some((words.to_string(), Vec::new())),
            (Some(_), Some("")) => blocks.extend(open.take()),
            (Some((_, lines)), _) => lines.push(line.to_string()),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{page}: a block has no end");
    blocks
}

/// A command, and its output according to a page.
#[derive(Debug)]
struct Step {
    command: String,
    printed: Vec<String>,
}

/// Returns the blocks of a page that are fenced as `kind`.
fn blocks(page: &str, kind: &str) -> Vec<Vec<Step>> {
    let of_kind = fenced(page).into_iter().filter(|(words, _)| words == kind);
    let steps = |(_, lines): (String, Vec<String>)| {
        let mut steps: Vec<Step> = Vec::new();
        for line in lines {
            match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => {
                    steps.push(Step { command: command.to_string(), printed: Vec::new() });
                }
                (None, Some(step)) => step.printed.push(line),
                (None, None) => panic!("{page}: a block of commands begins with {line:?}"),
            }
        }
        steps
    };
    of_kind.map(steps).collect()
}

/// The place where commands are run: a directory with a link to the repository's `bin` and to the
/// data that the pages name.
struct Place {
    home: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let home = tempfile::tempdir().unwrap();
        symlink(root().join("bin"), home.path().join("bin")).unwrap();
        for (name, fixture) in [
            ("packages.tsv", "real-input/packages.tsv"),
            ("local-storage", "chromium/local-storage/db"),
        ] {
            let fixture = root().join("tests/fixtures").join(fixture);
            assert!(fixture.exists(), "{}", fixture.display());
            symlink(fixture, home.path().join(name)).unwrap();
        }
        Place { home }
    }

    /// Copies the database that README.md's commands have made.
    fn after_readme(readme: &Place) -> Place {
        let place = Place::new();
        let [from, to] = [readme, &place].map(|place| place.home.path().join("words.db"));
        fs::create_dir(&to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
        place
    }

    /// Runs the commands of a block in one shell. Returns the output of each command.
    fn run(&self, steps: &[Step]) -> Vec<Vec<String>> {
        const MARK: &str = "\u{1e}";
        let mut script = "exec 2>&1\n".to_string();
        for step in steps {
            let command = step.command.replace("cargo run --release -- ", "minikv ");
            script.push_str(&format!("printf '{MARK}'\n{command}\n"));
        }
        let minikv = Path::new(env!("CARGO_BIN_EXE_minikv")).parent().unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        let out = Command::new("sh")
            .args(["-c", &script])
            .current_dir(self.home.path())
            .env("PATH", format!("{}:{path}", minikv.display()))
            .env_remove("MINIKV_DB")
            .output()
            .unwrap();
        let home = self.home.path().canonicalize().unwrap();
        let printed = String::from_utf8(out.stdout).unwrap();
        // The pages show the directory of a user.
        let printed = printed.replace(home.to_str().unwrap(), "/home/you");
        let printed = printed.split(MARK).skip(1);
        printed.map(|printed| printed.lines().map(str::to_string).collect()).collect()
    }
}

/// Returns a line without times and without file numbers. File numbers depend on when background
/// work creates the next log.
fn without_what_varies(line: &str) -> String {
    let mut shown = String::new();
    for word in line.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let end = word.len()
            - word.chars().last().filter(|c| !c.is_ascii_alphanumeric()).map_or(0, char::len_utf8);
        let (name, rest) = word.split_at(end);
        let is_number = name.len() == 6 && name.bytes().all(|b| b.is_ascii_digit());
        shown.push_str(if is_number && name.starts_with("000") { "NNNNNN" } else { name });
        shown.push_str(rest);
    }
    let is_time = |word: &&str| word.len() == 20 && word.starts_with("20") && word.ends_with('Z');
    let times: Vec<_> = shown.split(' ').filter(is_time).map(str::to_string).collect();
    times.iter().fold(shown, |line, time| line.replace(time, "YYYY-MM-DDTHH:MM:SSZ"))
}

/// Replaces the output of `step` in the file of the page by `printed`.
fn rewrite(page: &str, step: &Step, printed: &[String]) {
    let path = root().join(page);
    let block = |lines: &[String]| {
        let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
        format!("$ {}\n{lines}", step.command)
    };
    let text = fs::read_to_string(&path).unwrap();
    fs::write(path, text.replacen(&block(&step.printed), &block(printed), 1)).unwrap();
}

/// Runs the blocks of a page, and compares what they print. Returns the number of compared lines.
fn compare(page: &str, place: &Place) -> usize {
    let writes = std::env::var("MINIKV_PAGES").is_ok_and(|value| value == "write");
    let masked = |lines: &[String]| -> Vec<String> {
        lines.iter().map(|line| without_what_varies(line)).collect()
    };
    let mut compared = 0;
    for mut steps in blocks(page, "console") {
        if page != "README.md" {
            let command = "export MINIKV_DB=words.db".to_string();
            steps.insert(0, Step { command, printed: Vec::new() });
        }
        let printed = place.run(&steps);
        assert_eq!(printed.len(), steps.len(), "{page}: {steps:?} {printed:?}");
        for (step, printed) in steps.iter().zip(&printed) {
            let (said, prints) = (masked(&step.printed), masked(printed));
            if shows(&said, &prints) {
                compared += step.printed.len();
                continue;
            }
            let command = &step.command;
            let is_whole = said.iter().all(|line| line != LEFT_OUT);
            assert!(
                writes && is_whole,
                "{page} shows what `{command}` does not print any more:\n{}\n\nIt prints\n{}",
                said.join("\n"),
                prints.join("\n")
            );
            rewrite(page, step, printed);
        }
    }
    compared
}

/// The line of a page that stands for one or more lines of output.
const LEFT_OUT: &str = "...";

/// Returns whether a page shows exactly `prints`, except for lines that it says to leave out.
fn shows(said: &[String], prints: &[String]) -> bool {
    let mut parts = said.split(|line| line == LEFT_OUT);
    let Some(mut rest) = parts.next().and_then(|first| prints.strip_prefix(first)) else {
        return false;
    };
    let mut parts: Vec<_> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let after = (1..=rest.len()).find_map(|at| rest[at..].strip_prefix(part));
        let Some(after) = after.filter(|_| !part.is_empty()) else { return false };
        rest = after;
    }
    rest.len() > last.len() && rest.ends_with(last)
}

#[test]
fn lines_are_left_out_only_if_the_page_says_so() {
    let lines = |text: &str| -> Vec<String> { text.split(' ').map(str::to_string).collect() };
    let is_shown = |said: &str| shows(&lines(said), &lines("a b c d e"));
    for said in ["a b c d e", "a ... e", "a ... c ... e", "... e", "a ... c d e", "a b ... c"] {
        assert_eq!(is_shown(said), !said.ends_with("... c"), "{said}");
    }
    for said in ["a b c d", "b c d e", "a b ... c d e", "a ... d c ... e", "a ... ... e", "a x ..."]
    {
        assert!(!is_shown(said), "{said}");
    }
    assert!(is_shown("a ..."));
}

#[test]
fn the_consoles_of_the_pages_show_the_output_of_the_commands() {
    let readme = Place::new();
    let mut compared = compare("README.md", &readme);
    let mut pages = pages();
    pages.retain(|page| page != "README.md" && !blocks(page, "console").is_empty());
    for page in &pages {
        // Each page begins with the database that README.md leaves.
        compared += compare(page, &Place::after_readme(&readme));
    }
    assert!(pages.len() >= 9, "{pages:?}");
    let writes = std::env::var("MINIKV_PAGES").is_ok_and(|value| value == "write");
    assert!(writes || compared > 65, "only {compared} lines were compared");
}

/// Compares the whole output of `demo`, of which README.md leaves out lines.
#[test]
fn the_output_of_demo_is_the_recorded_one() {
    let step = Step { command: "minikv demo".to_string(), printed: Vec::new() };
    let printed = Place::new().run(&[step]).remove(0).join("\n") + "\n";
    let file = root().join("bin/tests/data/demo.txt");
    if std::env::var("MINIKV_PAGES").is_ok_and(|value| value == "write") {
        fs::write(&file, &printed).unwrap();
    }
    assert_eq!(printed, fs::read_to_string(file).unwrap());
}

/// Blocks that are not run: the page, and the number of its blocks.
const NOT_RUN: &[(&str, usize)] = &[
    ("README.md", 1),
    ("adapters/node/README.md", 1),
    ("adapters/raft/README.md", 2),
    ("docs/filters-compared.md", 1),
    ("docs/observer.md", 2),
    ("docs/replication.md", 1),
];

#[test]
fn each_block_of_commands_says_whether_it_is_run() {
    let mut not_run: std::collections::BTreeMap<String, usize> = Default::default();
    for page in pages() {
        for (words, lines) in fenced(&page) {
            let shows_commands = lines.iter().any(|line| line.starts_with("$ "));
            let Some(how) = words.strip_prefix("console") else {
                assert!(!shows_commands, "{page}: {lines:#?} is not fenced as console");
                continue;
            };
            match how.trim_start().split_once(": ").unwrap_or((how.trim_start(), "")) {
                ("" | "nightly", "") => assert!(shows_commands, "{page}: {lines:#?}"),
                ("not run", why) if why.len() > 5 => *not_run.entry(page.clone()).or_default() += 1,
                _ => panic!("{page}: {words} is neither console, nor nightly, nor not run: REASON"),
            }
        }
    }
    let not_run: Vec<_> = not_run.iter().map(|(page, blocks)| (page.as_str(), *blocks)).collect();
    assert_eq!(not_run, NOT_RUN, "run new blocks, or count them here");
}

#[test]
fn file_numbers_and_times_are_masked_everywhere() {
    let masked = without_what_varies("table 000012 in /db/000012.ldb, MANIFEST-000001: 123456");
    assert_eq!(masked, "table NNNNNN in /db/NNNNNN.ldb, MANIFEST-NNNNNN: 123456");
    let masked = without_what_varies("1        2026-11-23T00:32:49Z       4   1.2 MiB");
    assert_eq!(masked, "1        YYYY-MM-DDTHH:MM:SSZ       4   1.2 MiB");
    assert_eq!(without_what_varies("level 1: 000009   \"A\""), "level 1: NNNNNN   \"A\"");
}

/// Returns the paragraphs and table rows of an output without times, which differ between runs.
fn without_times(lines: &[String]) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    let (mut times, mut advice) = (false, false);
    for line in lines {
        // Lines of a paragraph are joined, because different figures may break the lines elsewhere.
        if let (Some(rest), Some(last)) = (line.strip_prefix("  "), kept.last_mut())
            && !rest.starts_with(' ')
        {
            last.push_str(&format!(" {rest}"));
            continue;
        }
        times = (times && !line.is_empty()) || line.starts_with("Time of a get");
        let names_columns = line.contains("ns per get");
        advice = (advice && !line.is_empty()) || names_columns;
        match (times, advice) {
            (true, _) => {}
            // The width of the times decides how many dashes stand beside a name: none or more.
            (_, true) if names_columns => kept.push(words(&line.replace('-', " ")).join(" ")),
            (_, true) => {
                let words = words(line);
                kept.push(words[..words.len() - 2].join(" "));
            }
            _ => kept.push(words(line).join(" ")),
        }
    }
    kept.into_iter().map(|line| without_nanoseconds(&line)).filter(|l| !l.is_empty()).collect()
}

/// Returns the words of a line. Leaves out the dashes beside names of columns: their number depends
/// on the width.
fn words(line: &str) -> Vec<&str> {
    let dashes = |word: &str| word.len() > 1 && word.bytes().all(|byte| byte == b'-');
    line.split_whitespace().filter(|word| !dashes(word)).collect()
}

#[test]
fn a_table_is_the_same_however_wide_its_times_are() {
    let table = |group: &str, row: &str| {
        without_times(&[
            format!("     - data blocks -   {group}"),
            format!("none   -   1.753   {row}"),
        ])
    };
    let narrow = table("ns per get", "979      -");
    for (group, row) in [("- ns per get -", "10553  -1055"), ("-- ns per get ---", "1 2")] {
        assert_eq!(table(group, row), narrow, "{group}");
    }
    assert_eq!(narrow, ["data blocks ns per get", "none - 1.753"]);
}

/// Returns text such as `a get takes 6050 ns less` without the number and the direction.
fn without_nanoseconds(line: &str) -> String {
    let Some((before, rest)) = line.split_once("and a get takes ") else {
        return line.to_string();
    };
    let after = rest.split_once(" on this machine").map_or("", |(_, after)| after);
    format!("{before}{after}")
}

/// Returns what a step does not print, if a line of the page is not printed in the order of the
/// page. The page may leave out lines.
fn missing(step: &Step, printed: &[String]) -> Option<String> {
    let printed = without_times(printed);
    let mut rest = printed.iter();
    let mut expected = without_times(&step.printed).into_iter().filter(|line| line != LEFT_OUT);
    let line = expected.find(|line| !rest.any(|other| other == line))?;
    Some(format!("`{}` does not print {line:?} here:\n{}", step.command, printed.join("\n")))
}

#[test]
fn read_amplification_shows_the_output_of_readamp() {
    if std::env::var_os("MINIKV_PAGES").is_none() {
        eprintln!("skipped: takes a minute; MINIKV_PAGES=1 runs it");
        return;
    }
    let place = Place::new();
    let (mut compared, mut faults) = (0, Vec::new());
    for steps in blocks("docs/read-amplification.md", "console nightly") {
        for (step, printed) in steps.iter().zip(place.run(&steps)) {
            faults.extend(missing(step, &printed));
            compared += step.printed.len();
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
    assert!(compared > 50, "only {compared} lines were compared");
}
