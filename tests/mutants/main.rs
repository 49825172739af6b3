//! Shows that the tests can fail. A copy of the source contains every mistake of a table, switched
//! off. The copy is built once, and the tests that must catch a mistake run with this mistake
//! switched on. Every mistake must be caught.
//!
//! ```text
//! cargo test --test mutants -- --ignored --nocapture
//! ```
//!
//! The copy is made in the target directory. `MINIKV_MUTANT` holds parts of names, separated by
//! commas, and restricts the run to the mutants whose names contain one of them.

mod decoders;
mod found;
mod place;
mod table;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use decoders::DECODERS;
use found::FOUND;
use place::{with_all_mistakes, with_mistake};
use table::{Build, CaughtBy, MUTANTS, Mutant};

/// The stages of the crash tests, cheapest first. Each stage has a filter that selects tests, and
/// some have a setting that limits the number of attempts.
const CRASH_STAGES: &[Stage] = &[
    Stage::crash("sweep_of_crash_points", &[("MINIKV_CRASH_IMAGES", "40000")]),
    Stage::crash("known_bugs", &[]),
    Stage::crash("health", &[]),
    Stage::crash("sweep_of_faults", &[("MINIKV_CRASH_FAULTS", "6000")]),
];

/// Maximum time that a stage may take. A mutant may wait forever; the tests have then caught it.
const MAX_STAGE: Duration = Duration::from_secs(100);

/// One run of a test binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Stage {
    build: Build,
    filter: &'static str,
    settings: &'static [(&'static str, &'static str)],
}

impl Stage {
    const fn crash(
        filter: &'static str,
        settings: &'static [(&'static str, &'static str)],
    ) -> Stage {
        Stage { build: Build::Test("crash"), filter, settings }
    }
}

fn all_mutants() -> impl Iterator<Item = &'static Mutant> {
    MUTANTS.iter().chain(FOUND).chain(DECODERS)
}

/// Returns the test runs of which at least one must fail when the mutant is switched on.
fn stages(mutant: &Mutant) -> Vec<Stage> {
    match mutant.caught_by {
        CaughtBy::CrashTests => CRASH_STAGES.to_vec(),
        CaughtBy::Test { build, filter } => vec![Stage { build, filter, settings: &[] }],
    }
}

/// Copies a directory, but not what was built in it.
fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    let entries = fs::read_dir(from).unwrap().map(|entry| entry.unwrap());
    for entry in entries.filter(|entry| entry.file_name() != "target") {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Writes a copy of the source with all mistakes in it, each in a branch that is taken only if the
/// mistake is switched on.
fn make_copy(root: &Path, copy: &Path) {
    for dir in ["src", "instrument"] {
        let _ = fs::remove_dir_all(copy.join(dir));
    }
    for dir in ["src", "tests", "instrument", "benches/workloads"] {
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
    for (file, source) in with_all_mistakes(root).unwrap_or_else(|lost| panic!("{lost:#?}")) {
        fs::write(copy.join(file), source).unwrap();
    }
    for root in ["src", "instrument/src"] {
        let lib = copy.join(root).join("lib.rs");
        let source = fs::read_to_string(&lib).unwrap();
        fs::write(&lib, source + "#[allow(missing_docs)]\npub(crate) mod mutants;\n").unwrap();
        fs::write(copy.join(root).join("mutants.rs"), SWITCH).unwrap();
    }
}

const SWITCH: &str = r#"use std::sync::LazyLock;

static ON: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("MINIKV_MUTANT_ON").ok());

pub(crate) fn is_on(name: &str) -> bool {
    ON.as_deref() == Some(name)
}
"#;

/// Builds the test binary `build` from the copy of the source. Returns the path of the binary.
fn build_tests(copy: &Path, build: Build) -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["test", "--no-run", "--message-format=json"]);
    let (name, target_dir) = match build {
        Build::Lib => ("minikv", "target"),
        Build::Test(name) | Build::Instrument(name) => (name, "target"),
        Build::Shuttle => ("shuttle", "target/shuttle"),
        Build::Interop(name) => (name, "target/interop"),
    };
    match build {
        Build::Lib => cargo.arg("--lib"),
        Build::Instrument("minikv_instrument") => cargo.args(["-p", "minikv-instrument", "--lib"]),
        Build::Instrument(name) => cargo.args(["-p", "minikv-instrument", "--test", name]),
        _ => cargo.args(["--test", name]),
    };
    match build {
        Build::Shuttle => drop(cargo.env("RUSTFLAGS", "--cfg shuttle")),
        Build::Interop(_) => drop(cargo.args(["--manifest-path", "tests/interop/Cargo.toml"])),
        Build::Lib | Build::Test(_) | Build::Instrument(_) => {}
    }
    let output = cargo
        .current_dir(copy)
        .env("CARGO_TARGET_DIR", copy.join(target_dir))
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "the copy does not build {build:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let messages = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    messages
        .filter(|message: &serde_json::Value| {
            message["target"]["name"] == name && message["profile"]["test"] == true
        })
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .expect("cargo prints where the binary is")
}

/// Returns whether a stage fails or exceeds its time limit.
fn fails(binary: &Path, copy: &Path, mutant: &str, stage: &Stage) -> bool {
    let mut child = Command::new(binary)
        .args([stage.filter, "--skip", "interleaved_deletes"])
        .current_dir(copy)
        .env("MINIKV_MUTANT_ON", mutant)
        .envs(stage.settings.iter().copied())
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

/// Checks that each mistake can be put into the source, beside the mistakes before it, and can be
/// switched on.
#[test]
fn every_mistake_has_its_place() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = with_all_mistakes(root).unwrap_or_else(|lost| panic!("{lost:#?}"));
    for mutant in all_mutants() {
        let has = |name: &str| files[&mutant.file()].contains(&format!("is_on({name:?})"));
        assert!(has(mutant.name), "\"{}\" has no ON", mutant.name);
    }
}

#[test]
fn a_mistake_that_lost_its_place_comes_with_advice() {
    let source = "\
impl Door {
    fn open(&self) {
        self.hinge
            .turn(1);
    }

    fn close(&self) {
        self.turn(0);
        self.turn(0);
    }
}

impl Window {
    fn lock(&self) {
        self.bolt();
    }

    fn open(&self) {
        self.hinge.turn(1);
    }
}
";
    let insert = |place, find| with_mistake(&table::mutant("m", place, find, "ON"), source);
    let advice = |place, find| insert(place, find).unwrap_err();
    let inserted = insert("a.rs Door::open", "self.hinge.turn(1)").unwrap();
    let expected =
        source.replacen("self.hinge\n            .turn(1)", "crate::mutants::is_on(\"m\")", 1);
    assert_eq!(inserted, expected);
    let turn = "self.hinge.turn(1)";
    assert_eq!(advice("a.rs open", turn), "src/a.rs has 2 open: write Type::open");
    let renamed = insert("a.rs bolt", "self.bolt()").unwrap();
    assert!(
        renamed.contains("fn lock(&self) {\n        crate::mutants::is_on(\"m\");"),
        "{renamed}"
    );
    let moved = "src/a.rs has no unlock: write Door::open or Window::open";
    assert_eq!(advice("a.rs unlock", turn), moved);
    assert!(advice("a.rs unlock", "unlock").ends_with("name the function that does this now"));
    assert!(
        advice("a.rs Door::open", "turn(2)").ends_with("does not contain \"turn(2)\": adapt it")
    );
    assert!(advice("a.rs close", "turn(0)").contains("several times"));
}

/// Checks that the filters of all mistakes select a test. A filter that selects no test would pass,
/// and its mutant would look as if no test caught it.
#[test]
fn every_mistake_names_a_test_that_exists() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    for mutant in all_mutants() {
        let CaughtBy::Test { build, filter } = mutant.caught_by else { continue };
        let dir = match build {
            Build::Lib => tests.join("src"),
            Build::Test(name) => tests.join("tests").join(name),
            Build::Instrument(_) => tests.join("instrument"),
            Build::Shuttle => tests.join("tests/shuttle"),
            Build::Interop(_) => tests.join("tests/interop/tests"),
        };
        let name = format!("fn {}", filter.rsplit("::").next().unwrap());
        assert!(contains(&dir, &name), "\"{}\": no test {filter} in {dir:?}", mutant.name);
    }
}

/// Returns whether a file below `dir` contains `text`.
fn contains(dir: &Path, text: &str) -> bool {
    fs::read_dir(dir).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return contains(&path, text);
        }
        fs::read_to_string(&path).is_ok_and(|source| source.contains(text))
    })
}

#[test]
#[ignore = "builds a copy of the library and takes minutes"]
fn every_mutant_is_caught() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mutants");
    let only = std::env::var("MINIKV_MUTANT").unwrap_or_default();
    let is_meant = |mutant: &&Mutant| only.split(',').any(|part| mutant.name.contains(part.trim()));
    let mutants: Vec<&Mutant> = all_mutants().filter(is_meant).collect();
    make_copy(root, &copy);
    let mut binaries = BTreeMap::new();
    let mut sound = BTreeMap::new();
    for stage in mutants.iter().flat_map(|mutant| stages(mutant)) {
        let binary = binaries.entry(stage.build).or_insert_with(|| build_tests(&copy, stage.build));
        sound.entry(stage).or_insert_with(|| {
            assert!(!fails(binary, &copy, "none", &stage), "{stage:?} fails without a mutant");
        });
    }
    let mut escaped = Vec::new();
    for mutant in &mutants {
        let caught = stages(mutant)
            .into_iter()
            .find(|stage| fails(&binaries[&stage.build], &copy, mutant.name, stage));
        match caught {
            Some(stage) => println!("caught by {}: {}", stage.filter, mutant.name),
            None => {
                println!("ESCAPED: {}", mutant.name);
                escaped.push(mutant.name);
            }
        }
    }
    println!("{} of {} mutants caught", mutants.len() - escaped.len(), mutants.len());
    assert!(escaped.is_empty(), "{escaped:?}");
}
