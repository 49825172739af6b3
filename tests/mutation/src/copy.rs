//! The copy of the source that holds the mutants, and its test programs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::rewrite::{Mutant, rewrite};

/// Features of the library that the test programs need or that have tests, so that what compiles
/// alone compiles with the tests, too.
const FEATURES: &str = "internals,serde,sim,zlib,zstd";

/// Test programs, as arguments of `cargo test`.
const PROGRAMS: &[&str] = &[
    "--lib",
    "--test=golden",
    "--test=engine",
    "--test=damage",
    "--test=follow",
    "--test=transactions",
    "--test=model",
    "--test=crash",
];

/// Files and folders of `src/` that get no mutants: those that only have tests, and those that are
/// not compiled here. Names with "test" also belong to tests.
const NO_CODE: &[&str] =
    &["transcripts.rs", "weak_orders.rs", "suite.rs", "windows", "scheduled.rs"];

/// The packages of the workspace, which are copied.
const COPIED: &[&str] =
    &["Cargo.toml", "Cargo.lock", "src", "tests", "instrument", "bin", "benches", "examples"];

/// Settings that make the test programs build faster.
const PROFILE: &[(&str, &str)] = &[("CARGO_PROFILE_DEV_DEBUG", "0"), ("CARGO_INCREMENTAL", "0")];

/// Code appended to the library.
const SWITCH: &str = include_str!("switch.rs");

pub struct Copy {
    from: PathBuf,
    to: PathBuf,
}

impl Copy {
    pub fn new(from: &Path, to: &Path) -> Copy {
        Copy { from: from.to_path_buf(), to: to.to_path_buf() }
    }

    pub fn root(&self) -> &Path {
        &self.to
    }

    /// Returns all mutants of the code, in the order of their numbers.
    pub fn mutants(&self) -> Vec<Mutant> {
        self.rewritten(&BTreeSet::new()).into_iter().flat_map(|(_, found, _)| found).collect()
    }

    /// Returns, for each file, its path, its mutants, and its text with the `wanted` mutants
    /// inserted.
    fn rewritten(&self, wanted: &BTreeSet<u32>) -> Vec<(String, Vec<Mutant>, String)> {
        let mut files = Vec::new();
        add_files(&self.from, "src", &mut files);
        let is_code = |file: &String| {
            let no_code = |name: &str| name.contains("test") || NO_CODE.contains(&name);
            file.ends_with(".rs") && !file.split('/').any(no_code)
        };
        let mut next_id = 0;
        let mut all = Vec::new();
        for file in files.into_iter().filter(is_code) {
            let text = read(&self.from.join(&file));
            let (found, text) = rewrite(&file, &text, next_id, wanted);
            next_id += found.len() as u32;
            all.push((file, found, text));
        }
        all
    }

    /// Writes the copy with the `mutants` that compile, and returns these mutants.
    pub fn write_viable(&self, mut mutants: Vec<Mutant>) -> Vec<Mutant> {
        loop {
            self.write(&mutants);
            let checked = self.cargo(&["check", "--lib", "--message-format=short"]);
            if checked.status.success() {
                return mutants;
            }
            let messages = String::from_utf8_lossy(&checked.stderr);
            let refused = self.refused(&messages);
            let before = mutants.len();
            mutants.retain(|mutant| !refused.contains(&mutant.id));
            assert!(mutants.len() < before, "the copy does not compile:\n{messages}");
        }
    }

    fn write(&self, mutants: &[Mutant]) {
        let wanted: BTreeSet<u32> = mutants.iter().map(|mutant| mutant.id).collect();
        let with_mutants: Vec<_> = self.rewritten(&wanted);
        let mut files = Vec::new();
        for name in COPIED {
            add_files(&self.from, name, &mut files);
        }
        for file in files {
            let mut bytes = fs::read(self.from.join(&file)).expect("a file to copy");
            let is_wanted = |mutant: &Mutant| wanted.contains(&mutant.id);
            if let Some((_, _, text)) = with_mutants
                .iter()
                .find(|(name, found, _)| *name == file && found.iter().any(is_wanted))
            {
                bytes = text.clone().into_bytes();
            }
            if file == "src/lib.rs" {
                bytes.extend(SWITCH.as_bytes());
            }
            write_if_changed(&self.to.join(file), &bytes);
        }
    }

    /// Returns the numbers of the mutants to which the compiler's errors point.
    fn refused(&self, messages: &str) -> BTreeSet<u32> {
        let mut refused = BTreeSet::new();
        for message in messages.lines().filter(|line| line.contains(": error")) {
            let mut parts = message.split(':');
            let (Some(file), Some(line), Some(column)) = (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            let (Ok(line), Ok(column)) = (line.parse::<usize>(), column.parse::<usize>()) else {
                continue;
            };
            let text = read(&self.to.join(file));
            let lines = text.split_inclusive('\n').take(line - 1).map(str::len);
            let at = lines.sum::<usize>() + column - 1;
            refused.extend(mutant_at(&text, at));
        }
        refused
    }

    /// Builds the test programs and returns their paths.
    pub fn build(&self) -> Vec<PathBuf> {
        let built = self.cargo(&[&["test", "--no-run"], PROGRAMS].concat());
        let messages = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "the copy does not compile:\n{messages}");
        let programs: Vec<PathBuf> = messages
            .lines()
            .filter(|line| line.trim_start().starts_with("Executable"))
            .filter_map(|line| line.rsplit_once('(')?.1.strip_suffix(')'))
            .map(|path| self.to.join(path))
            .collect();
        assert_eq!(programs.len(), PROGRAMS.len(), "{messages}");
        programs
    }

    fn cargo(&self, arguments: &[&str]) -> Output {
        Command::new("cargo")
            .args(&arguments[..1])
            .args(["--package", "minikv", "--features", FEATURES])
            .args(&arguments[1..])
            .current_dir(&self.to)
            .envs(PROFILE.iter().copied())
            .env_remove("CARGO_TARGET_DIR")
            .output()
            .expect("cargo runs")
    }
}

/// Returns the number of the mutant whose branch contains the offset `at` of the text. This is the
/// last mutant whose branch begins before the offset or, if there is none, the first mutant after
/// the offset.
fn mutant_at(text: &str, at: usize) -> Option<u32> {
    const CALL: &str = "mutated(";
    let start = text[..at].rfind(CALL).or_else(|| Some(at + text[at..].find(CALL)?))?;
    let number = &text[start + CALL.len()..];
    number[..number.find(')')?].trim_end_matches("u32").parse().ok()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Adds the file `name` to `files` or, if `name` is a folder, all files below it except build
/// output.
fn add_files(root: &Path, name: &str, files: &mut Vec<String>) {
    let path = root.join(name);
    if !path.is_dir() {
        files.push(name.to_string());
        return;
    }
    let entries = fs::read_dir(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().unwrap()).collect();
    names.sort();
    for entry in names.iter().filter(|entry| *entry != "target") {
        add_files(root, &format!("{name}/{entry}"), files);
    }
}

/// Writes a file unless it already has these bytes, so that cargo need not build it again.
fn write_if_changed(path: &Path, bytes: &[u8]) {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return;
    }
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder for the copy");
    fs::write(path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_has_all_packages_of_the_workspace() {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = package.ancestors().nth(2).expect("tests/mutation is in the repository");
        let copy = Copy::new(root, &package.join("target/copied"));
        copy.write(&[]);
        let loaded = Command::new("cargo")
            .args(["metadata", "--no-deps", "--offline", "--format-version=1"])
            .current_dir(copy.root())
            .output()
            .expect("cargo runs");
        assert!(loaded.status.success(), "{}", String::from_utf8_lossy(&loaded.stderr));
    }
}
