//! Tests of `verify`, `repair`, `checkpoint` and the commands for backups.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::system::{make_pipe, symlink};

#[path = "system/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the tests in `cli` use all of it")]
mod system;

struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn run(db: &Path, args: &[&str]) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_minikv"))
        .env_remove("MINIKV_DB")
        .env("NO_COLOR", "1")
        .arg("--db")
        .arg(db)
        .args(args)
        .output()
        .expect("the binary starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

impl Ran {
    #[track_caller]
    fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "stderr: {}", self.stderr);
        self.stdout
    }

    /// Checks that the command failed with `code`, and that stderr is one line that contains
    /// `words`. Returns that line.
    #[track_caller]
    fn fails(self, code: i32, words: &[&str]) -> String {
        assert_eq!(self.code, Some(code), "stderr: {}", self.stderr);
        assert_eq!(self.stderr.lines().count(), 1, "{}", self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "{word:?} is not in {}", self.stderr);
        }
        self.stdout
    }
}

/// Creates a database with a table and a log.
fn made() -> (TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let db = home.path().join("db");
    let file = home.path().join("entries");
    let lines: String = (0..2000).map(|i| format!("key{i:05}\tvalue {i}\n")).collect();
    fs::write(&file, lines).unwrap();
    run(&db, &["--compression", "none", "load", file.to_str().unwrap()]).ok();
    run(&db, &["--compression", "none", "compact"]).ok();
    run(&db, &["put", "last", "1"]).ok();
    (home, db)
}

fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(Result::unwrap);
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    let name = |entry: &fs::DirEntry| entry.file_name().into_string().unwrap();
    files.map(|entry| (name(&entry), fs::read(entry.path()).unwrap())).collect()
}

fn named(dir: &Path, part: &str) -> PathBuf {
    let names = files(dir).into_keys().filter(|name| name.contains(part)).collect::<Vec<_>>();
    assert_eq!(names.len(), 1, "{names:?}");
    dir.join(&names[0])
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x04;
    fs::write(path, bytes).unwrap();
}

#[test]
fn verify_is_content_with_a_sound_database() {
    let (_home, db) = made();
    let before = files(&db);
    let said = run(&db, &["verify"]).ok();
    let expected = "1 table with 2,000 entries, 1 log with 1 batch, ";
    assert!(said.starts_with(expected) && said.ends_with(": no fault\n"), "{said}");
    let json: Value = serde_json::from_str(&run(&db, &["verify", "--json"]).ok()).unwrap();
    assert_eq!((json["sound"].as_bool(), json["entries"].as_u64()), (Some(true), Some(2000)));
    assert!(files(&db) == before);
    let missing = db.with_file_name("none");
    run(&missing, &["verify"]).fails(5, &["no database"]);
    assert!(!missing.exists());
}

#[test]
fn verify_tells_each_fault_with_file_and_offset() {
    let (_home, db) = made();
    let table = named(&db, ".ldb");
    flip(&table, 100);
    flip(&table, 30_000);
    let table_name = table.to_str().unwrap();
    let said = run(&db, &["verify"]).fails(1, &["2 faults", "minikv repair --dry-run"]);
    assert_eq!(said.matches(&format!("fault: {table_name} at offset ")).count(), 2, "{said}");
    assert!(said.contains("at offset 0: block checksum mismatch (expected 0x"), "{said}");
    let said = run(&db, &["verify", "--json"]).fails(1, &[]);
    let json: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(json["fault_count"], 2);
    assert_eq!(
        (&json["faults"][0]["file"], &json["faults"][0]["offset"]),
        (&Value::from(table_name), &Value::from(0))
    );
}

#[test]
fn a_missing_current_is_refused_with_the_way_to_repair() {
    let (_home, db) = made();
    fs::remove_file(db.join("CURRENT")).unwrap();
    run(&db, &["get", "last"]).fails(4, &["there is no CURRENT", "minikv repair"]);
    run(&db, &["put", "a", "b"]).fails(4, &["there is no CURRENT", "minikv repair"]);
    run(&db, &["verify"]).fails(1, &["1 fault"]);
    let before = files(&db);
    let dry = run(&db, &["repair", "--dry-run"]).ok();
    assert!(dry.contains("nothing was changed"), "{dry}");
    assert!(files(&db) == before && !db.join("lost").exists());
    let said = run(&db, &["repair"]).ok();
    assert!(said.contains("fault: ") && said.contains("there is no CURRENT"), "{said}");
    assert_eq!(run(&db, &["get", "last"]).ok(), "1");
    assert_eq!(run(&db, &["scan", "--count"]).ok(), "2001\n");
    run(&db, &["verify"]).ok();
}

#[test]
fn repair_saves_sound_data_and_reports_the_rest() {
    let (_home, db) = made();
    flip(&named(&db, ".ldb"), 100);
    run(&db, &["scan", "--count"]).fails(4, &[".ldb at offset 0", "minikv verify"]);
    let json: Value = serde_json::from_str(&run(&db, &["repair", "--json"]).ok()).unwrap();
    assert_eq!(json["healthy"], false);
    assert_eq!(json["tables"][0]["outcome"], "rewritten");
    let (from, to) = (&json["lost"][0]["from"], &json["lost"][0]["to"]);
    assert_eq!(from, "key00000");
    let to = to.as_str().unwrap();
    // `repair` keeps all entries outside of the damaged block.
    let scanned = run(&db, &["scan"]).ok();
    for i in 0..2000 {
        let key = format!("key{i:05}");
        let is_there = scanned.contains(&format!("{key}\tvalue {i}\n"));
        assert_eq!(is_there, *key > *to, "{key}");
    }
    let kept = json["put_aside"][0]["kept"].as_str().unwrap();
    let kept = Path::new(kept);
    assert!(kept.parent().unwrap().ends_with("lost") && kept.exists(), "{}", kept.display());
    let before = files(&db);
    assert_eq!(run(&db, &["repair"]).ok(), "no fault: nothing to repair, nothing changed\n");
    assert!(files(&db) == before);
}

#[test]
fn checkpoint_makes_a_database_of_its_own() {
    let (home, db) = made();
    let copy = home.path().join("copy");
    let before = files(&db);
    run(&db, &["checkpoint", copy.to_str().unwrap()]).ok();
    assert!(files(&db) == before);
    run(&copy, &["verify"]).ok();
    assert_eq!(run(&copy, &["dump"]).ok(), run(&db, &["dump"]).ok());
    run(&copy, &["put", "last", "2"]).ok();
    assert_eq!(run(&db, &["get", "last"]).ok(), "1");
    run(&db, &["checkpoint", copy.to_str().unwrap()]).fails(2, &["there is already a database in"]);
    run(&db, &["checkpoint", home.path().to_str().unwrap()]).fails(2, &["is not empty"]);
}

#[test]
fn backups_are_made_listed_verified_removed_and_restored() {
    let (home, db) = made();
    let path = home.path().join("backups");
    let folder = path.to_str().unwrap();
    let before = files(&db);
    let made = run(&db, &["backup", folder]);
    assert!(made.stderr.starts_with("backup 1: "), "{}", made.stderr);
    assert!(files(&db) == before);
    let dump = run(&db, &["dump"]).ok();
    run(&db, &["put", "last", "2"]).ok();
    let second: Value =
        serde_json::from_str(&run(&db, &["backup", folder, "--json"]).ok()).unwrap();
    assert_eq!(second["number"], 2);
    assert!(second["copied_bytes"].as_u64() < second["file_bytes"].as_u64(), "{second}");

    let listed = run(&db, &["backups", folder, "--verify"]).ok();
    let rows = listed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let rows = rows.collect::<Vec<_>>();
    assert_eq!(rows[0], ["backup", "made", "(UTC)", "files", "size", "new"]);
    assert_eq!((rows[1][0], rows[2][0], rows.len()), ("1", "2", 3), "{listed}");
    assert!(rows[1][1].starts_with("20") && rows[1][1].ends_with('Z'), "{listed}");

    let copy = home.path().join("copy");
    run(&copy, &["restore", folder, "--backup", "1"]).ok();
    assert_eq!(run(&copy, &["dump"]).ok(), dump);
    run(&copy, &["restore", folder]).fails(2, &["there is already a database in"]);
    run(&home.path().join("c2"), &["restore", folder, "--backup", "9"]).fails(2, &["no backup 9"]);
    run(&db, &["backup", home.path().to_str().unwrap()]).fails(2, &["neither empty nor a folder"]);
    run(&db, &["backups", db.to_str().unwrap()]).fails(2, &["is not a folder of backups"]);
    run(&db, &["backup", folder, "--keep", "0"]).fails(2, &["--keep"]);

    run(&db, &["backup", folder, "--keep", "2"]).ok();
    let json: Value = serde_json::from_str(&run(&db, &["backups", folder, "--json"]).ok()).unwrap();
    let numbers = json["backups"].as_array().unwrap().iter().map(|backup| &backup["number"]);
    assert_eq!(numbers.collect::<Vec<_>>(), [2, 3]);

    flip(&named(&path.join("000003"), ".ldb"), 100);
    // Backups 2 and 3 share the damaged table.
    let damaged = run(&db, &["backups", folder, "--verify"]);
    assert_eq!(damaged.code, Some(1), "{}", damaged.stderr);
    assert_eq!(damaged.stdout.matches("fault: ").count(), 2, "{}", damaged.stdout);
    run(&home.path().join("c3"), &["restore", folder])
        .fails(4, &["checksum of a file of a backup"]);
}

#[test]
fn repair_prints_absolute_paths_of_a_relative_directory() {
    let (home, db) = made();
    let table = named(&db, ".ldb");
    flip(&table, 100);
    let out = Command::new(env!("CARGO_BIN_EXE_minikv"))
        .current_dir(home.path())
        .args(["--db", "db", "repair", "--dry-run", "--json"])
        .output()
        .unwrap();
    let json: Value = serde_json::from_slice(&out.stdout).unwrap();
    let file = Path::new(json["tables"][0]["file"].as_str().unwrap());
    assert_eq!(file.canonicalize().unwrap(), table.canonicalize().unwrap());
    assert!(file.is_absolute(), "{}", file.display());
    let kept = Path::new(json["put_aside"][0]["kept"].as_str().unwrap());
    assert!(kept.is_absolute(), "{}", kept.display());
}

/// Every command that opens or judges a database, with arguments.
fn commands<'a>(copy: &'a str, file: &'a str) -> Vec<Vec<&'a str>> {
    vec![
        vec!["get", "k"],
        vec!["scan"],
        vec!["scan", "--count"],
        vec!["dump"],
        vec!["explain", "k"],
        vec!["stats"],
        vec!["stats", "--by-prefix"],
        vec!["stats", "--prometheus"],
        vec!["tree"],
        vec!["watch", "--once"],
        vec!["watch", "--once", "--since", "0"],
        vec!["keyspaces"],
        vec!["verify"],
        vec!["repair", "--dry-run"],
        vec!["repair"],
        vec!["put", "k", "v"],
        vec!["delete", "k"],
        vec!["load", file],
        vec!["load", "--sort", file],
        vec!["load", "--sorted", file],
        vec!["batch", file],
        vec!["compact"],
        vec!["checkpoint", copy],
        vec!["backup", copy],
        vec!["readamp"],
        vec!["destroy", "--yes"],
    ]
}

/// Returns a record as Pebble and RocksDB write it to a recycled log: a log number of four bytes
/// follows the type, and the checksum covers it.
fn recycled_record(record_type: u8, payload: &[u8]) -> Vec<u8> {
    record(record_type, &[&[2, 0, 0, 0], payload].concat(), payload.len())
}

/// Returns a record with a header of LevelDB's form before `bytes`.
fn record(record_type: u8, bytes: &[u8], payload_bytes: usize) -> Vec<u8> {
    let crc = crc32c::crc32c_append(crc32c::crc32c(&[record_type]), bytes);
    let masked = crc.rotate_right(15).wrapping_add(0xa282_ead8);
    let mut record = masked.to_le_bytes().to_vec();
    record.extend_from_slice(&(payload_bytes as u16).to_le_bytes());
    record.push(record_type);
    record.extend_from_slice(bytes);
    record
}

#[test]
fn every_command_refuses_the_directory_of_another_engine_and_leaves_it_alone() {
    let (home, db) = made();
    let (copy, file) = (home.path().join("copy"), home.path().join("empty"));
    fs::write(&file, "").unwrap();
    let of_pebble = |dir: &Path, marks: &[(&str, &str)]| {
        fs::create_dir(dir).unwrap();
        fs::copy(named(&db, "MANIFEST"), dir.join("MANIFEST-000001")).unwrap();
        fs::write(dir.join("LOCK"), "").unwrap();
        for (name, contents) in marks {
            fs::write(dir.join(name), contents).unwrap();
        }
    };
    let kinds: [&[(&str, &str)]; 3] = [
        &[
            ("marker.manifest.000001.MANIFEST-000001", ""),
            ("marker.format-version.000001.013", ""),
            ("OPTIONS-000003", "[Version]\n  pebble_version=0.1\n"),
        ],
        &[
            ("CURRENT", "MANIFEST-000001\n"),
            ("OPTIONS-000003", "[Version]\n  pebble_version=0.1\n"),
        ],
        &[("CURRENT", "MANIFEST-000001\n"), ("IDENTITY", "0f8fad5b-d9cb-469f-a165-70867728950e\n")],
    ];
    for (n, marks) in kinds.into_iter().enumerate() {
        let dir = home.path().join(format!("other-{n}"));
        of_pebble(&dir, marks);
        let before = files(&dir);
        for args in commands(copy.to_str().unwrap(), file.to_str().unwrap()) {
            let ran = run(&dir, &args);
            let words = ["unsupported database of", "only that program reads it"];
            assert_eq!(ran.code, Some(6), "{args:?}: {}", ran.stderr);
            ran.fails(6, &words);
            assert!(files(&dir) == before, "{args:?} changed {dir:?}");
        }
    }
}

#[test]
fn every_command_refuses_a_log_of_another_engine_and_more_than_seven_levels() {
    let (home, db) = made();
    let (copy, file) = (home.path().join("copy"), home.path().join("empty"));
    fs::write(&file, "").unwrap();
    let log = named(&db, ".log");
    let manifest = named(&db, "MANIFEST");
    let sound = (fs::read(&log).unwrap(), fs::read(&manifest).unwrap());
    // This edit removes table 1 of level 9.
    let levels = [&sound.1[..], &record(1, &[6, 9, 1], 3)].concat();
    let batch = [&2u64.to_le_bytes()[..], &1u32.to_le_bytes(), b"\x01\x01k\x01v"].concat();
    let cases = [
        ("log record type 5", &log, recycled_record(5, &batch), &sound.0),
        ("unsupported level 9", &manifest, levels, &sound.1),
    ];
    for (what, path, bytes, sound) in cases {
        fs::write(path, bytes).unwrap();
        let before = files(&db);
        for args in commands(copy.to_str().unwrap(), file.to_str().unwrap()) {
            // A destroy reads nothing.
            if args[0] == "destroy" {
                continue;
            }
            let ran = run(&db, &args);
            assert_eq!(ran.code, Some(6), "{args:?}: {}", ran.stderr);
            ran.fails(6, &[what]);
            assert!(files(&db) == before, "{args:?} changed files");
        }
        fs::write(path, sound).unwrap();
    }
    assert_eq!(run(&db, &["scan", "--count"]).ok(), "2001\n");
}

#[test]
fn no_command_waits_for_a_pipe_or_reads_a_device_in_place_of_a_file() {
    let (home, db) = made();
    let (copy, file) = (home.path().join("copy"), home.path().join("empty"));
    fs::write(&file, "").unwrap();
    let log = named(&db, ".log").file_name().unwrap().to_str().unwrap().to_owned();
    for name in ["CURRENT", "MANIFEST-000099", &log] {
        let path = db.join(name);
        let kept = fs::read(&path).ok();
        for kind in ["device", "pipe"] {
            let _ = fs::remove_file(&path);
            match kind {
                "device" => symlink("/dev/zero", &path).unwrap(),
                _ => make_pipe(&path).unwrap(),
            }
            for args in commands(copy.to_str().unwrap(), file.to_str().unwrap()) {
                if args[0] == "destroy" {
                    continue;
                }
                let ran = run_within(&db, &args, Duration::from_secs(60));
                assert_ne!(ran.code, Some(0), "{name} is a {kind}: {args:?}");
                let said = ran.stdout + &ran.stderr;
                assert!(said.contains(name), "{name} is a {kind}: {args:?}: {said}");
            }
        }
        fs::remove_file(&path).unwrap();
        kept.into_iter().for_each(|bytes| fs::write(&path, bytes).unwrap());
    }
    assert_eq!(run(&db, &["scan", "--count"]).ok(), "2001\n");
}

/// Runs a command that must end in this time, with at most 4 GiB of memory.
fn run_within(db: &Path, args: &[&str], limit: Duration) -> Ran {
    let began = Instant::now();
    let script = format!("ulimit -v 4194304; exec timeout {} \"$0\" \"$@\"", limit.as_secs());
    let output = Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_minikv"), "--db"])
        .arg(db)
        .args(args)
        .env_remove("MINIKV_DB")
        .output()
        .unwrap();
    assert!(began.elapsed() < limit, "{args:?} took {:?}", began.elapsed());
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[test]
fn a_log_or_manifest_with_a_hole_of_a_tebibyte_is_read_at_once() {
    const TIB: u64 = 1 << 40;
    let (home, db) = made();
    let (copy, file) = (home.path().join("copy"), home.path().join("empty"));
    fs::write(&file, "").unwrap();
    let manifest = named(&db, "MANIFEST");
    for (part, path) in [(".log", named(&db, ".log")), ("MANIFEST", manifest)] {
        let grown = fs::OpenOptions::new().write(true).open(&path).unwrap();
        if grown.set_len(TIB).is_err() {
            return; // the filesystem has no files of that length
        }
        let said = run_within(&db, &["verify"], Duration::from_secs(60)).ok();
        assert!(part == "MANIFEST" || said.contains(&format!(" to {TIB}")), "{said}");
        for args in [
            &["get", "last"][..],
            &["scan", "--count"],
            &["stats"],
            &["inspect", path.to_str().unwrap()],
            &["repair", "--dry-run"],
            &["readamp"],
            &["checkpoint", copy.to_str().unwrap()],
            &["put", "last", "1"],
        ] {
            run_within(&db, args, Duration::from_secs(60)).ok();
        }
        fs::remove_dir_all(&copy).unwrap();
    }
    assert_eq!(run(&db, &["scan", "--count"]).ok(), "2001\n");
}
