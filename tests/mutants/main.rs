//! Shows that the crash tests can fail: each mistake of a table is put into a copy of the source,
//! switched off, the copy is built once, and the crash tests run with one mistake after another
//! switched on. Each must be caught.
//!
//! ```text
//! cargo test --test mutants -- --ignored --nocapture
//! ```
//!
//! The copy is made in the target directory. `MINIKV_MUTANT` tries only those whose names have that
//! in them, or one of several parts between commas.

mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use table::MUTANTS;

/// The stages, cheapest first: a filter of tests, and how much they try.
const STAGES: &[(&str, &[(&str, &str)])] = &[
    ("sweep_of_crash_points", &[("MINIKV_CRASH_IMAGES", "40000")]),
    ("known_bugs", &[]),
    ("health", &[]),
    ("sweep_of_faults", &[("MINIKV_CRASH_FAULTS", "6000")]),
];

/// A mistake may also make something wait for ever.
const MAX_STAGE: Duration = Duration::from_secs(100);

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The source with all mistakes in it, each asking whether it is on.
fn make_copy(root: &Path, copy: &Path) {
    let _ = fs::remove_dir_all(copy.join("src"));
    for dir in ["src", "tests/crash", "tests/support"] {
        copy_dir(&root.join(dir), &copy.join(dir));
    }
    fs::copy(root.join("Cargo.lock"), copy.join("Cargo.lock")).unwrap();
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let is_members =
        |line: &str| line.starts_with("members =") || line.starts_with("default-members =");
    assert_eq!(manifest.lines().filter(|line| is_members(line)).count(), 2);
    let line = |line| {
        if is_members(line) {
            line.split_once(" = ").unwrap().0.to_owned() + " = [\".\"]"
        } else {
            line.to_owned()
        }
    };
    let manifest: String = manifest.lines().map(line).map(|line| line + "\n").collect();
    fs::write(copy.join("Cargo.toml"), manifest).unwrap();
    for mutant in MUTANTS {
        let path = copy.join(mutant.file);
        let source = fs::read_to_string(&path).unwrap();
        let is_on = format!("crate::mutants::is_on({:?})", mutant.name);
        let replace = mutant.replace.replace("ON", &is_on);
        let found = source.matches(mutant.find).count();
        assert_eq!(found, 1, "\"{}\": the source has changed in {}", mutant.name, mutant.file);
        fs::write(&path, source.replace(mutant.find, &replace)).unwrap();
    }
    let lib = copy.join("src/lib.rs");
    let source = fs::read_to_string(&lib).unwrap();
    fs::write(&lib, source + "#[allow(missing_docs)]\npub mod mutants;\n").unwrap();
    fs::write(copy.join("src/mutants.rs"), SWITCH).unwrap();
}

const SWITCH: &str = r#"use std::sync::LazyLock;

static ON: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("MINIKV_MUTANT_ON").ok());

pub fn is_on(name: &str) -> bool {
    ON.as_deref() == Some(name)
}
"#;

fn build(copy: &Path) -> PathBuf {
    let output = Command::new(env!("CARGO"))
        .args(["test", "--test", "crash", "--no-run", "--message-format=json"])
        .current_dir(copy)
        .env("CARGO_TARGET_DIR", copy.join("target"))
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "the copy does not build");
    let text = String::from_utf8(output.stdout).unwrap();
    let messages = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    messages
        .filter(|message: &serde_json::Value| message["target"]["name"] == "crash")
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .expect("cargo tells where the tests are")
}

/// Whether a stage fails, or does not end.
fn fails(binary: &Path, mutant: &str, filter: &str, settings: &[(&str, &str)]) -> bool {
    let mut child = Command::new(binary)
        .args([filter, "--skip", "interleaved_deletes"])
        .env("MINIKV_MUTANT_ON", mutant)
        .envs(settings.iter().copied())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return !status.success();
        }
        if began.elapsed() > MAX_STAGE {
            child.kill().unwrap();
            child.wait().unwrap();
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What is to be changed must be there, once: else the source has moved on.
#[test]
fn every_mistake_has_its_place() {
    for mutant in MUTANTS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(mutant.file);
        let found = fs::read_to_string(&path).unwrap().matches(mutant.find).count();
        assert_eq!(found, 1, "\"{}\": the source has changed in {}", mutant.name, mutant.file);
    }
}

#[test]
#[ignore = "builds a copy of the library and takes minutes"]
fn every_mutant_is_caught() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mutants");
    make_copy(root, &copy);
    let binary = build(&copy);
    let only = std::env::var("MINIKV_MUTANT").unwrap_or_default();
    if only.is_empty() {
        for (filter, settings) in STAGES {
            assert!(!fails(&binary, "none", filter, settings), "{filter} fails without a mutant");
        }
    }
    let mut escaped = Vec::new();
    let mut count = 0;
    let is_meant = |name: &str| only.split(',').any(|part| name.contains(part));
    for mutant in MUTANTS.iter().filter(|mutant| is_meant(mutant.name)) {
        count += 1;
        let caught =
            STAGES.iter().find(|(filter, settings)| fails(&binary, mutant.name, filter, settings));
        match caught {
            Some((filter, _)) => println!("caught by {filter}: {}", mutant.name),
            None => {
                println!("ESCAPED: {}", mutant.name);
                escaped.push(mutant.name);
            }
        }
    }
    println!("{} of {count} mutants caught", count - escaped.len());
    assert!(escaped.is_empty(), "{escaped:?}");
}
