//! Runs the `minikv` commands shown on the pages README.md, docs/command.md, docs/filters.md,
//! docs/backup.md, docs/bulk-load.md, docs/expiry.md, docs/keyspaces.md, docs/range-deletes.md and
//! docs/resources.md, and compares their output with the pages. With `MINIKV_PAGES=1`, also runs the
//! commands shown in docs/read-amplification.md.
//!
//! A line that begins with `$ ` is a command; the lines after it, up to the next command, are its
//! output. Times and file numbers are not compared. `MINIKV_PAGES=write` writes the output into the
//! pages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Commands that contain one of these strings are not run: they need a toolchain, take minutes, or
/// make ten million entries.
const NOT_RUN: &[&str] = &["cargo test", "cargo run --release --example", "10000000"];

/// A command, and its output according to a page.
#[derive(Debug)]
struct Step {
    command: String,
    printed: Vec<String>,
}

/// Returns the blocks of a page that are fenced as `kind` and begin with a command.
fn blocks(page: &str, kind: &str) -> Vec<Vec<Step>> {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let fence = format!("```{kind}\n");
    let mut blocks = Vec::new();
    for block in text.split(&fence).skip(1) {
        let (lines, _) = block.split_once("```").expect("an end of the block");
        let mut steps: Vec<Step> = Vec::new();
        for line in lines.lines() {
            match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => {
                    steps.push(Step { command: command.to_string(), printed: Vec::new() });
                }
                (None, Some(step)) => step.printed.push(line.to_string()),
                (None, None) => break,
            }
        }
        steps.retain(|step| NOT_RUN.iter().all(|not_run| !step.command.contains(not_run)));
        if !steps.is_empty() {
            blocks.push(steps);
        }
    }
    blocks
}

/// The place where commands are run: an empty directory with a link to the repository's `bin`.
struct Place {
    home: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let home = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(root().join("bin"), home.path().join("bin")).unwrap();
        for (name, fixture) in [
            ("packages.tsv", "real-input/packages.tsv"),
            ("local-storage", "chromium/local-storage/db"),
        ] {
            let fixture = root().join("tests/fixtures").join(fixture);
            assert!(fixture.exists(), "{}", fixture.display());
            std::os::unix::fs::symlink(fixture, home.path().join(name)).unwrap();
        }
        Place { home }
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
        let printed = String::from_utf8(out.stdout).unwrap();
        let printed = printed.split(MARK).skip(1);
        printed.map(|printed| printed.lines().map(str::to_string).collect()).collect()
    }
}

/// Returns a line without times and without file numbers. File numbers depend on when background
/// work creates the next log.
fn without_what_varies(line: &str) -> String {
    let mut words: Vec<String> = line.split(' ').map(str::to_string).collect();
    for word in &mut words {
        if word.len() == 6 && word.starts_with("000") && word.bytes().all(|b| b.is_ascii_digit()) {
            *word = "NNNNNN".to_string();
        }
        if word.len() == 20 && word.starts_with("20") && word.ends_with('Z') {
            *word = "YYYY-MM-DDTHH:MM:SSZ".to_string();
        }
    }
    words.join(" ")
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

#[test]
fn the_consoles_of_the_pages_show_what_the_commands_print() {
    let place = Place::new();
    let writes = std::env::var("MINIKV_PAGES").is_ok_and(|value| value == "write");
    let masked = |lines: &[String]| {
        let lines: Vec<_> = lines.iter().map(|line| without_what_varies(line)).collect();
        lines.join("\n")
    };
    let mut compared = 0;
    let pages = [
        "docs/filters.md",
        "docs/backup.md",
        "docs/bulk-load.md",
        "docs/keyspaces.md",
        "docs/range-deletes.md",
        "docs/expiry.md",
        "docs/resources.md",
        "docs/command.md",
    ];
    for page in ["README.md"].into_iter().chain(pages) {
        for mut steps in blocks(page, "console") {
            if page != "README.md" {
                let command = "export MINIKV_DB=words.db".to_string();
                steps.insert(0, Step { command, printed: Vec::new() });
            }
            let printed = place.run(&steps);
            assert_eq!(printed.len(), steps.len(), "{page}: {steps:?} {printed:?}");
            for (step, printed) in steps.iter().zip(&printed) {
                let (said, prints) = (masked(&step.printed), masked(printed));
                if writes && said != prints {
                    rewrite(page, step, printed);
                    continue;
                }
                let command = &step.command;
                assert_eq!(said, prints, "{page} shows what `{command}` does not print any more");
                compared += step.printed.len();
            }
        }
    }
    assert!(writes || compared > 60, "only {compared} lines were compared");
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
        advice = (advice && !line.is_empty()) || line.contains("ns per get");
        match (times, advice) {
            (true, _) => {}
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

/// Returns text such as `a get takes 6050 ns less` without the number and the direction.
fn without_nanoseconds(line: &str) -> String {
    let Some((before, rest)) = line.split_once("and a get takes ") else {
        return line.to_string();
    };
    let after = rest.split_once(" on this machine").map_or("", |(_, after)| after);
    format!("{before}{after}")
}

/// Checks that each line of the page is printed, in the order of the page. The page may leave out
/// lines.
fn shows_a_part_of(step: &Step, printed: &[String]) {
    let printed = without_times(printed);
    let mut rest = printed.iter();
    for line in without_times(&step.printed) {
        assert!(
            rest.any(|printed| *printed == line),
            "`{}` does not print {line:?} here:\n{}",
            step.command,
            printed.join("\n")
        );
    }
}

#[test]
fn read_amplification_shows_what_readamp_prints() {
    if std::env::var_os("MINIKV_PAGES").is_none() {
        eprintln!("skipped: takes a minute; MINIKV_PAGES=1 runs it");
        return;
    }
    let place = Place::new();
    let mut compared = 0;
    for steps in blocks("docs/read-amplification.md", "text") {
        for (step, printed) in steps.iter().zip(place.run(&steps)) {
            shows_a_part_of(step, &printed);
            compared += step.printed.len();
        }
    }
    assert!(compared > 150, "only {compared} lines were compared");
}
