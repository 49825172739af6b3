//! Tests of commands whose stdout is a pipe that nobody reads.

use super::*;

/// Runs a command whose stdout is a pipe without a reader.
fn run_unread(command: &mut Command, stdin: &[u8]) -> Ran {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    run_to(command, stdin, Stdio::from(writer))
}

impl Place {
    fn unread(&self, args: &[&str]) -> Ran {
        run_unread(&mut self.command(args), b"")
    }
}

/// Changes a byte of the only table in `dir`.
fn damage_table(dir: &Path) -> PathBuf {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let tables = files.filter(|path| path.extension().is_some_and(|end| end == "ldb"));
    let tables: Vec<_> = tables.collect();
    assert_eq!(tables.len(), 1, "{tables:?}");
    let mut bytes = fs::read(&tables[0]).unwrap();
    bytes[100] ^= 1;
    fs::write(&tables[0], bytes).unwrap();
    tables[0].clone()
}

#[test]
fn a_script_goes_on_behind_lines_that_nobody_reads() {
    let place = Place::new();
    place.feed(&["load"], &many_lines(20_000)).ok();
    let script = |lines: &str| run_unread(&mut place.command(&["shell"]), lines.as_bytes());
    let ran = script("scan\nput zz 1\nhelp\nget zz\nput zy 2\n");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert_eq!(place.text(&["scan", "--from", "z"]), "zy\t2\nzz\t1\n");
    let ran = script("dump\nget none\nput zx 3\n");
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.ends_with("stdin line 2 ended with exit code 1\n"), "{}", ran.stderr);
    assert_eq!(place.text(&["scan", "--from", "z", "--count"]), "2\n");
}

#[test]
fn verdicts_on_files_hold_without_a_reader() {
    let place = Place::new();
    place.feed(&["load", "--compression", "none"], &many_lines(20_000)).ok();
    place.ok(&["compact", "--compression", "none"]);
    let backups = place.path("backups").display().to_string();
    place.ok(&["backup", &backups]);
    place.unread(&["verify"]).ok();
    place.unread(&["backups", &backups, "--verify"]).ok();
    damage_table(&place.path("backups").join("000001"));
    place.unread(&["backups", &backups, "--verify"]).fails(1, &["1 fault in "]);
    place.unread(&["backups", &backups, "--verify", "--json"]).fails(1, &["1 fault in "]);
    let table = damage_table(&place.db()).display().to_string();
    place.unread(&["verify"]).fails(1, &["1 fault in "]);
    place.unread(&["verify", "--json"]).fails(1, &["1 fault in "]);
    place.unread(&["--comparator", "ignore", "verify"]).fails(1, &["1 fault in "]);
    place.unread(&["inspect", &table]).fails(4, &[&table, "checksum"]);
    place.unread(&["inspect", &table, "--json"]).fails(4, &[&table, "checksum"]);
    let current = place.db().join("CURRENT").display().to_string();
    place.unread(&["inspect", "--entries", &current, &table]).fails(4, &[&table, "checksum"]);
}

#[test]
fn verdicts_on_keys_hold_without_a_reader() {
    let (place, other) = (Place::new(), Place::new());
    place.feed(&["load"], &many_lines(20_000)).ok();
    other.ok(&["put", "a", "1"]);
    let [a, b] = [&place, &other].map(|place| place.db().display().to_string());
    for option in ["--summary", "--json", "--batch", "--format=escaped", "--format=csv"] {
        for (from, to) in [(&a, &b), (&b, &a)] {
            let ran = run_unread(minikv().args(["diff", from, to, option]), b"");
            assert_eq!((ran.code, ran.stderr.as_str()), (Some(1), ""), "{option}");
        }
        run_unread(minikv().args(["diff", &a, &a, option]), b"").ok();
    }
    other.unread(&["get", "a"]).ok();
    other.unread(&["get", "a", "none"]).fails(1, &["key not found: none"]);
    let many: Vec<_> = (0..20_000).map(|i| format!("key {i:04}")).collect();
    let mut args = vec!["get"];
    args.extend(many.iter().map(String::as_str).chain(["none"]));
    place.unread(&args).fails(1, &["key not found: none"]);
    other.unread(&["explain", "a"]).ok();
    assert_eq!(other.unread(&["explain", "none"]).code, Some(1));
}

#[test]
fn work_behind_the_output_is_done_without_a_reader() {
    let place = Place::new();
    place.ok(&["put", "a", "1"]);
    let backups = place.path("backups").display().to_string();
    place.ok(&["backup", &backups]);
    place.unread(&["backup", &backups, "--json", "--keep", "1"]).ok();
    let listed = place.text(&["backups", &backups, "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let numbers = listed["backups"].as_array().unwrap().iter().map(|backup| &backup["number"]);
    assert_eq!(numbers.collect::<Vec<_>>(), [2]);

    let (db, page) = (place.path("words"), place.path("page.html"));
    let mut demo = minikv();
    demo.arg("--db").arg(&db).args(["demo", "--html"]).arg(&page);
    run_unread(&mut demo, b"").ok();
    assert_eq!(run(minikv().args(["scan", "--count"]).arg(&db), b"").ok(), b"104334\n");
    assert!(fs::metadata(&page).unwrap().len() > 10_000, "the page is written");
}
