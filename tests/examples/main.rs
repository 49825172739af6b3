//! Runs the programs in `examples/`, which check their own results. `cargo test` builds them;
//! `cargo test --test examples` alone does not.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::thread;

#[test]
fn every_example_runs_to_its_end() {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().and_then(Path::parent).unwrap().join("examples");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let names: BTreeSet<_> = sources.read_dir().unwrap().map(|file| file.unwrap().path()).collect();
    assert!(names.len() > 20, "{names:?}");
    let dir = tempfile::tempdir().unwrap();
    let run = |source: &Path| {
        let name = source.file_stem().unwrap();
        let mut run = Command::new(built.join(name));
        if name == "metrics" {
            run.args([dir.path().join("db"), dir.path().join("counters"), "1".into()]);
        }
        let run = run.output();
        let run = run.unwrap_or_else(|error| panic!("{name:?}: {error}; cargo build --examples"));
        let told = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success() && !run.stdout.is_empty(), "{name:?}: {told}");
    };
    // Most of them wait for the disk.
    thread::scope(|scope| names.iter().for_each(|name| drop(scope.spawn(|| run(name)))));
}
