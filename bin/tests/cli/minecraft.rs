//! Tests of worlds of Minecraft with Mojang's own fork of LevelDB, which skips tables of
//! compressions that it does not know, without an error. The fork is PyPI's package
//! `amulet-leveldb`; `.ci/run` installs it into `target/minecraft`.

use super::*;

/// Prints every entry of the database in a directory, in hexadecimal.
const READER: &str = "\
import sys, leveldb
db = leveldb.LevelDB(sys.argv[1])
for key, value in db.iterate():
    print(key.hex() + '\\t' + value.hex())
db.close()
";

/// Returns Python with Mojang's fork, if it is installed.
fn python() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let python = target.join("minecraft/bin/python");
    if python.exists() {
        return Some(python);
    }
    println!("skipped: no {} (.ci/run installs it)", python.display());
    None
}

/// Returns the entries that Mojang's fork reads from a copy of `db`, in the format of `dump`.
fn seen_by_minecraft(python: &Path, db: &Path) -> String {
    let copy = tempfile::tempdir().unwrap();
    for (name, (bytes, _)) in files(db) {
        fs::write(copy.path().join(name), bytes).unwrap();
    }
    let seen = run(Command::new(python).args(["-c", READER]).arg(copy.path()), b"");
    String::from_utf8(seen.ok()).unwrap()
}

/// Returns the files of a database, without its directories.
fn files(db: &Path) -> BTreeMap<String, (Vec<u8>, std::time::SystemTime)> {
    let _ = fs::remove_dir_all(db.join("lost"));
    contents(db)
}

#[test]
fn minecraft_reads_every_entry_after_every_command_that_writes() {
    let Some(python) = python() else { return };
    let dump = |place: &Place| place.text(&["dump", "--format", "hex"]);
    let world = || fixture("bedrock/01-world");
    assert_eq!(seen_by_minecraft(&python, &world().db()), dump(&world()), "the world itself");

    // Enough entries for several flushes at the smallest write buffer.
    let line = |i: u32| format!("{i:08x}\t{}\n", "6d".repeat(200));
    let lines: String = (0..500).map(line).collect();
    let puts: String = lines.lines().map(|line| format!("put\t{line}\n")).collect();
    let small = "--write-buffer=16KiB";
    let writers: [(&str, &[&str], &str); 8] = [
        ("put", &["put", "a", "b"], ""),
        ("load", &["load", small, "--format", "hex"], &lines),
        ("load --sorted", &["load", "--sorted", "--format", "hex"], &lines),
        ("load --sort", &["load", "--sort", "--format", "hex"], &lines),
        ("batch", &["batch", small, "--format", "hex"], &puts),
        ("delete", &["delete", "--from", "a"], ""),
        ("compact", &["compact"], ""),
        ("compact to none", &["compact", "--compression", "none"], ""),
    ];
    for (what, args, stdin) in writers {
        let place = world();
        let ran = place.feed(args, stdin.as_bytes());
        assert!(!ran.stderr.contains("cannot read"), "{what}: {}", ran.stderr);
        ran.ok();
        assert_eq!(seen_by_minecraft(&python, &place.db()), dump(&place), "{what}");
        place.ok(&["compact"]);
        assert_eq!(seen_by_minecraft(&python, &place.db()), dump(&place), "{what}, compact");
    }

    // A repair of a world with a damaged log and without a MANIFEST.
    let place = world();
    fs::remove_file(place.db().join("MANIFEST-000004")).unwrap();
    let log = place.db().join("000008.log");
    let mut bytes = fs::read(&log).unwrap();
    bytes.extend_from_slice(&[1; 100]);
    fs::write(&log, bytes).unwrap();
    place.ok(&["repair"]);
    assert_eq!(seen_by_minecraft(&python, &place.db()), dump(&place), "repair");
    assert_eq!(dump(&place).lines().count(), 579);

    let place = world();
    let (backups, copy) = (place.path("backups"), Place::new());
    place.ok(&["backup", backups.to_str().unwrap()]);
    copy.ok(&["restore", backups.to_str().unwrap()]);
    copy.ok(&["compact"]);
    assert_eq!(seen_by_minecraft(&python, &copy.db()), dump(&place), "restore");
}

#[test]
fn a_compression_that_minecraft_cannot_read_is_said_to_be_one() {
    let place = fixture("bedrock/01-world");
    let ran = place.run(&["compact", "--compression", "snappy"]);
    assert!(ran.stderr.contains("snappy, which Minecraft cannot read"), "{}", ran.stderr);
    let Some(python) = python() else { return };
    assert_eq!(seen_by_minecraft(&python, &place.db()), "", "the check can fail");
}

#[test]
fn a_world_whose_tables_show_no_compression_is_told_from_the_files_beside_it() {
    let place = Place::new();
    assert_eq!(place.feed(&["put", "a", "1"], b"").stderr, "");
    for name in ["level.dat", "levelname.txt"] {
        fs::write(place.db().with_file_name(name), "").unwrap();
    }
    let said = "a world of Minecraft, which cannot read the new tables, compressed with snappy; \
                give --compression deflate";
    let ran = place.feed(&["put", "a", "2"], b"");
    assert!(ran.stderr.contains(said), "{}", ran.stderr);
    ran.ok();
    for args in [&["put", "b", &"x".repeat(10_000)][..], &["compact"]] {
        let ran = place.feed(&[args, &["--compression", "deflate"]].concat(), b"");
        assert!(!ran.stderr.contains("Minecraft"), "{}", ran.stderr);
        ran.ok();
    }
    assert_eq!(place.feed(&["put", "c", "3"], b"").stderr, "", "deflate is kept");
}
