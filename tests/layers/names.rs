//! Names of types and of tests.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{Source, words};

/// Folders of packages in which each name of a type has one owner.
pub const PACKAGES: &[&str] = &[
    "src",
    "bin/src",
    "adapters/c/src",
    "adapters/cpp/src",
    "adapters/node/src",
    "adapters/python/src",
    "adapters/raft/src",
    "adapters/status/src",
    "benches/peers/src",
    "benches/workloads/src",
    "fuzz/src",
    "instrument/src",
    "tests/flips/src",
    "tests/interop/src",
    "tests/kernel/src",
    "tests/mutation/src",
    "tests/protocol/src",
    "tests/soak/src",
    "tests/support/src",
];

/// Names of types that do not count: the start of the files' paths, the name (`*` for all), and the
/// reason.
pub const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("bin/src/commands/", "Args", "each command has arguments, and no other file names them"),
    ("src/base/sync/scheduled.rs", "*", "takes the place of another file in builds for shuttle"),
];

/// First words of names that ask instead of saying what holds.
const QUESTIONS: [&str; 8] = ["how", "nothing", "what", "where", "which", "who", "whose", "why"];

/// Returns the types that a file defines outside of tests, but not those associated with a trait.
fn types(file: &Source) -> BTreeSet<&str> {
    let code = file.shipped.as_str();
    let mut types = BTreeSet::new();
    let mut words = words(code).peekable();
    while let Some((at, word)) = words.next() {
        let Some((_, name)) = words.peek() else { break };
        let line = &code[code[..at].rfind('\n').map_or(0, |end| end + 1)..];
        match word {
            "struct" | "enum" | "trait" => types.insert(*name),
            "type" if !line.starts_with(' ') => types.insert(*name),
            _ => false,
        };
    }
    types
}

/// Returns the types of the folder `package` that have the same name as a type of another file
/// there, each with the files.
pub fn shared_types(
    files: &[Source],
    package: &str,
    exceptions: &[(&str, &str, &str)],
) -> Vec<String> {
    let mut owners: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.path.starts_with(&format!("{package}/"))) {
        for name in types(file) {
            let is_excepted = |(start, shared, _): &(&str, &str, &str)| {
                file.path.starts_with(start) && ["*", name].contains(shared)
            };
            if !exceptions.iter().any(is_excepted) {
                owners.entry(name).or_default().push(&file.path);
            }
        }
    }
    let shared = owners.into_iter().filter(|(_, files)| files.len() > 1);
    shared.map(|(name, files)| format!("{name}: {}", files.join(", "))).collect()
}

/// Returns the tests whose names begin with one of [`QUESTIONS`].
pub fn tests_that_ask(file: &Source) -> Vec<String> {
    let mut violations = Vec::new();
    let mut is_test = false;
    let mut words = words(&file.code).peekable();
    while let Some((at, word)) = words.next() {
        let before = &file.code[..at];
        is_test |= word == "test" && (before.ends_with("#[") || before.ends_with("#[tokio::"));
        let Some((_, name)) = words.peek().filter(|_| word == "fn") else { continue };
        let first = name.split('_').next().unwrap_or(name);
        if is_test && QUESTIONS.contains(&first) {
            violations.push(format!("{}:{}: {name}: say what holds", file.path, file.line(at)));
        }
        is_test = false;
    }
    violations
}
