//! Runs the transcripts in `tests/transcripts`. They test and document those parts of the library
//! that are pure functions of their input.
//!
//! A transcript is a sequence of blocks, separated by blank lines. Lines that begin with `#` are
//! comments. A block is a command line, any number of input lines, a line `----`, and the output:
//!
//! ```text
//! # An overlap is refused.
//! apply
//! +L1 4:[b-d]
//! ----
//! refused: tables 000003 and 000004 of level 1 overlap
//! ```
//!
//! The output is compared with the output of the code. With `MINIKV_TRANSCRIPTS=write`, the code's
//! output is written into the files instead, so that it can be reviewed as a diff.

use std::fmt::Write;
use std::path::Path;

/// A command in a transcript, with its input.
pub(crate) struct Command<'a> {
    /// The first word of the command line.
    pub name: &'a str,
    /// The other words.
    pub args: Vec<&'a str>,
    /// The lines between the command line and `----`.
    pub input: Vec<&'a str>,
}

impl<'a> Command<'a> {
    /// Returns the value of the argument `name=value`.
    pub(crate) fn arg(&self, name: &str) -> Option<&'a str> {
        let value = |arg: &&'a str| arg.strip_prefix(name)?.strip_prefix('=');
        self.args.iter().find_map(value)
    }

    /// Returns the value of the argument `name=value` as a number, or `default` if the argument is
    /// absent.
    pub(crate) fn number(&self, name: &str, default: u64) -> u64 {
        self.arg(name).map_or(default, number)
    }

    /// Panics, because the code under test has no command of this name.
    pub(crate) fn unknown(&self) -> ! {
        panic!("no command is called {:?}", self.name)
    }
}

/// Parses a number that may end in `K` or `M`, for a factor of 2^10 or 2^20.
pub(crate) fn number(text: &str) -> u64 {
    let (digits, unit) = match text.split_at(text.len() - 1) {
        (digits, "K") => (digits, 1 << 10),
        (digits, "M") => (digits, 1 << 20),
        _ => (text, 1),
    };
    digits.parse::<u64>().unwrap_or_else(|_| panic!("{text:?} is not a number")) * unit
}

/// Runs the transcript `tests/transcripts/{name}.txt`. `answer` returns the output of a command.
pub(crate) fn run(name: &str, answer: impl FnMut(&Command<'_>) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/transcripts/{name}.txt"));
    let text = std::fs::read_to_string(&path).expect("a transcript");
    let answered = replay(&text, answer);
    if std::env::var("MINIKV_TRANSCRIPTS").is_ok_and(|how| how == "write") {
        return std::fs::write(&path, answered).expect("a transcript that can be written");
    }
    if let Some(difference) = difference(&text, &answered) {
        panic!("{name}.txt:{difference}");
    }
}

/// Returns `text` with the output of each block replaced by the result of `answer`.
fn replay(text: &str, mut answer: impl FnMut(&Command<'_>) -> String) -> String {
    let mut answered = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let _ = writeln!(answered, "{line}");
        let mut words = line.split_whitespace();
        let Some(name) = words.next().filter(|name| !name.starts_with('#')) else { continue };
        let mut input = Vec::new();
        loop {
            let line = lines.next().unwrap_or_else(|| panic!("the block {name:?} has no ----"));
            let _ = writeln!(answered, "{line}");
            match line {
                "----" => break,
                line => input.push(line),
            }
        }
        while lines.next_if(|line| !line.is_empty()).is_some() {}
        let output = answer(&Command { name, args: words.collect(), input });
        assert!(!output.contains("\n\n"), "a blank line would end the block: {output:?}");
        let output = output.trim_end();
        if !output.is_empty() {
            let _ = writeln!(answered, "{output}");
        }
    }
    answered
}

/// Returns the first line at which the two texts differ, with its number; `None` if the texts are
/// equal.
fn difference(written: &str, answered: &str) -> Option<String> {
    let end = "(the end)";
    let (mut a, mut b) = (written.lines(), answered.lines());
    for line in 1.. {
        match (a.next(), b.next()) {
            (None, None) => break,
            (a, b) if a == b => {}
            (a, b) => {
                let (a, b) = (a.unwrap_or(end), b.unwrap_or(end));
                return Some(format!("{line}:\nwritten:  {a}\nanswered: {b}"));
            }
        }
    }
    None
}

#[test]
fn a_transcript_is_replayed_block_by_block() {
    let text = "# Sums.\nadd 1 2\n3\n----\n7\n8\n\nadd twice=2K\n----\n";
    let sum = |command: &Command<'_>| {
        let words = command.args.iter().chain(&command.input);
        let sum: u64 = words.filter(|word| !word.contains('=')).map(|word| number(word)).sum();
        (sum + 2 * command.number("twice", 0)).to_string()
    };
    let answered = replay(text, sum);
    assert_eq!(answered, "# Sums.\nadd 1 2\n3\n----\n6\n\nadd twice=2K\n----\n4096\n");
    assert_eq!(replay(&answered, sum), answered);
    assert_eq!(difference(&answered, &answered), None);
    assert_eq!(difference(text, &answered).unwrap(), "5:\nwritten:  7\nanswered: 6");
}

#[test]
fn every_transcript_is_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = String::new();
    let mut folders = vec![root.join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of src") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                sources += &std::fs::read_to_string(path).expect("a source file");
            }
        }
    }
    let files = std::fs::read_dir(root.join("tests/transcripts")).expect("the transcripts");
    for file in files {
        let name = file.expect("an entry").file_name().into_string().expect("a name in UTF-8");
        let stem = name.strip_suffix(".txt").expect("a transcript ends in .txt");
        assert!(sources.contains(&format!("transcript::run(\"{stem}\"")), "nobody runs {name}");
    }
}
