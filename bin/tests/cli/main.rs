//! Tests of the command as a user types it: the built binary, its streams and its exit codes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use minikv::{Comparator, Db, IndexedDbComparator, Options, Readable};
use tempfile::TempDir;

use crate::system::{
    Interrupt, Terminal, has_record_lock, interrupt, make_pipe, symlink, unread_bytes,
};

mod browser;
mod closed_pipe;
mod commands;
mod continued_log;
mod entries;
mod indexed_db;
mod minecraft;
mod picture;
mod readamp;
mod refusals;
mod shell;
#[path = "../system/mod.rs"]
mod system;
mod terminal;
mod tree;

/// The formats of keys and values, and with the last the formats of entries.
const FORMATS: [&str; 3] = ["escaped", "hex", "json"];
const ENTRY_FORMATS: [&str; 4] = ["escaped", "hex", "json", "csv"];

/// A directory for one test, in which a database can be created.
struct Place {
    dir: TempDir,
}

/// The result of running a command.
struct Ran {
    code: Option<i32>,
    stdout: Vec<u8>,
    stderr: String,
}

/// Runs a command whose stdin, stdout and stderr are a terminal. Returns its exit code, and the
/// text that it shows.
fn run_on_terminal(command: &mut Command, typed: &str) -> (Option<i32>, String) {
    let terminal = Terminal::open(None).unwrap();
    terminal.screen().write_all(typed.as_bytes()).unwrap();
    let (mut child, mut screen) = terminal.run(command, true);
    let (mut shown, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = screen.read(&mut buffer) {
        shown.extend_from_slice(&buffer[..read]);
    }
    (child.wait().unwrap().code(), String::from_utf8_lossy(&shown).into_owned())
}

fn minikv() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_minikv"));
    command.env_remove("MINIKV_DB").env("NO_COLOR", "1");
    command
}

fn run(command: &mut Command, stdin: &[u8]) -> Ran {
    run_to(command, stdin, Stdio::piped())
}

/// Runs a command with this stdout. Returns its output if that is a new pipe.
fn run_to(command: &mut Command, stdin: &[u8], stdout: Stdio) -> Ran {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut pipe = child.stdin.take().unwrap();
    let stdin = stdin.to_vec();
    // A command may end without reading all of stdin, so a closed pipe is fine here.
    let writer = std::thread::spawn(move || drop(pipe.write_all(&stdin)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    Ran { code: output.status.code(), stdout: output.stdout, stderr }
}

impl Place {
    fn new() -> Place {
        Place { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn db(&self) -> PathBuf {
        self.path("db")
    }

    fn command<S: AsRef<std::ffi::OsStr>>(&self, args: &[S]) -> Command {
        let mut command = minikv();
        command.arg("--db").arg(self.db()).args(args);
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.feed(args, b"")
    }

    fn feed(&self, args: &[&str], stdin: &[u8]) -> Ran {
        run(&mut self.command(args), stdin)
    }

    /// Runs a command that must end with exit code 0. Returns its stdout.
    fn ok(&self, args: &[&str]) -> Vec<u8> {
        self.feed(args, b"").ok()
    }

    fn text(&self, args: &[&str]) -> String {
        String::from_utf8(self.ok(args)).unwrap()
    }

    /// Starts a `batch` that waits for input and so holds the database's lock. When this function
    /// returns, the command has opened the database.
    fn hold(&self) -> Child {
        let mut command = self.command(&["batch"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        child.stdin.as_mut().unwrap().write_all(b"put\theld\tyes\ncommit\n").unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "committed 1\n");
        child
    }
}

impl Ran {
    #[track_caller]
    fn ok(self) -> Vec<u8> {
        assert_eq!(self.code, Some(0), "stderr: {}", self.stderr);
        self.stdout
    }

    /// Checks that the command failed with `code`, and that stderr is one line that contains
    /// `words`.
    #[track_caller]
    fn fails(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "stderr: {}", self.stderr);
        assert_eq!(self.stderr.matches('\n').count(), 1, "one line: {:?}", self.stderr);
        assert!(self.stderr.starts_with("minikv: "), "{:?}", self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "{word:?} is not in {:?}", self.stderr);
        }
    }
}

/// Returns every file of a directory with its bytes and the time at which it was changed.
fn contents(dir: &Path) -> BTreeMap<String, (Vec<u8>, std::time::SystemTime)> {
    fs::read_dir(dir)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let modified = entry.metadata().unwrap().modified().unwrap();
            let name = entry.file_name().into_string().unwrap();
            (name, (fs::read(entry.path()).unwrap(), modified))
        })
        .collect()
}

/// Returns keys and values that no text format can represent without escapes.
fn nasty_entries() -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut entries = BTreeMap::new();
    for byte in 0..=255u8 {
        entries.insert(vec![byte], vec![byte, byte ^ 0x5a]);
        entries.insert(vec![b'k', byte, b'\\'], b"\\x00\t\n".to_vec());
    }
    entries.insert(Vec::new(), b"the empty key".to_vec());
    entries.insert(b"the empty value".to_vec(), Vec::new());
    entries.insert((0..=255).collect(), (0..=255).rev().collect());
    entries.insert("caf\u{e9} \u{1f980}".into(), "{\"base64\":\"AA==\"}".into());
    entries.insert(vec![0xff; 300], vec![0; 100_000]);
    entries
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hex_lines(entries: &BTreeMap<Vec<u8>, Vec<u8>>) -> String {
    entries.iter().map(|(key, value)| format!("{}\t{}\n", hex(key), hex(value))).collect()
}

#[test]
fn put_then_get_gives_the_exact_bytes() {
    let place = Place::new();
    let every_byte: Vec<u8> = (0..=255).collect();
    place.feed(&["put", "piped", "-"], &every_byte).ok();
    assert_eq!(place.ok(&["get", "piped"]), every_byte);

    fs::write(place.path("file"), b"\n\0\xff\n").unwrap();
    let file = format!("@{}", place.path("file").display());
    place.ok(&["put", "from file", &file, "--sync"]);
    assert_eq!(place.ok(&["get", "from file"]), b"\n\0\xff\n");

    place.ok(&["put", "typed", "a\\x00b"]);
    assert_eq!(place.ok(&["get", "typed"]), b"a\\x00b", "a value is taken as it is typed");
    place.ok(&["put", "typed", ""]);
    assert_eq!(place.ok(&["get", "typed"]), b"", "the last put holds");
    place.ok(&["put", "", "the empty key"]);
    assert_eq!(place.ok(&["get", ""]), b"the empty key");
    place.ok(&["put", "-5", "-7"]);
    assert_eq!(place.ok(&["get", "-5"]), b"-7");
    place.ok(&["put", "--", "-k", "--v"]);
    assert_eq!(place.ok(&["get", "--", "-k"]), b"--v");
}

#[test]
fn put_does_not_create_when_told_so_and_names_input_it_cannot_read() {
    let place = Place::new();
    place.run(&["put", "--no-create", "k", "v"]).fails(5, &["no database in", "--db"]);
    assert!(!place.db().exists());
    place.run(&["put", "k", "@/no/such/file"]).fails(5, &["/no/such/file", "check the path"]);
    assert!(!place.db().exists(), "nothing is opened before the value is there");
}

#[test]
fn get_names_each_missing_key_and_prints_the_others() {
    let place = Place::new();
    place.feed(&["load"], b"a\t1\nb\t2\n").ok();
    let ran = place.run(&["get", "b", "nope", "a", "\\xff"]);
    assert_eq!(ran.code, Some(1));
    assert_eq!(ran.stdout, b"21", "values in the order asked, with nothing between");
    let next = "`minikv explain` shows where it was looked for";
    let line = |key: &str| format!("minikv: key not found: {key}; {next}\n");
    assert_eq!(ran.stderr, line("nope") + &line("\\xff"));
}

#[test]
fn keys_are_typed_in_the_format_of_keys() {
    let place = Place::new();
    place.ok(&["put", "--key-format", "hex", "00ff", "v"]);
    assert_eq!(place.ok(&["get", "\\x00\\xff"]), b"v");
    assert_eq!(place.ok(&["--key-format", "json", "get", "{\"base64\":\"AP8=\"}"]), b"v");
    assert_eq!(place.text(&["get", "00ff", "--format=json", "--key-format=hex"]), "\"v\"\n");
    place.ok(&["--format", "json", "delete", "{\"base64\":\"AP8=\"}"]);
    assert_eq!(place.run(&["explain", "--format", "hex", "00ff"]).code, Some(1));
    place.run(&["get", "a\\q"]).fails(2, &["unknown escape \\q", "--key-format"]);
    place.run(&["delete", "abc", "--format", "json"]).fails(2, &["--key-format"]);
    place.run(&["get", "0", "--key-format", "hex"]).fails(2, &["odd number"]);
}

#[test]
fn delete_is_fine_with_absent_keys_and_never_creates() {
    let place = Place::new();
    place.run(&["delete", "a"]).fails(5, &["no database"]);
    assert!(!place.db().exists());
    place.feed(&["load"], b"a\t1\nb\t2\nc\t3\n").ok();
    place.ok(&["delete", "a", "nope", "c", "--sync"]);
    assert_eq!(place.text(&["scan"]), "b\t2\n");
    assert_eq!(place.run(&["get", "a"]).code, Some(1));
}

#[test]
fn scan_takes_ranges_both_ways() {
    let place = Place::new();
    place.feed(&["load"], b"a\t1\nab\t2\nabc\t3\nb\t4\nb\\xff\t5\n\\xff\\xff\t6\n").ok();
    let scan = |args: &str| {
        let mut all = vec!["scan", "--keys-only"];
        all.extend(args.split_whitespace());
        place.text(&all).lines().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(scan(""), "a ab abc b b\\xff \\xff\\xff");
    assert_eq!(scan("--reverse"), "\\xff\\xff b\\xff b abc ab a");
    assert_eq!(scan("--limit 2"), "a ab");
    assert_eq!(scan("--limit 2 --reverse"), "\\xff\\xff b\\xff");
    assert_eq!(scan("--limit 0"), "");
    assert_eq!(scan("--from ab --to b"), "ab abc");
    assert_eq!(scan("--from ab --to b --reverse"), "abc ab");
    assert_eq!(scan("--prefix ab"), "ab abc");
    assert_eq!(scan("--prefix \\xff"), "\\xff\\xff");
    assert_eq!(scan("--prefix a --from ab --to abc"), "ab");
    assert_eq!(scan("--prefix a --from 0 --to z --reverse --limit 1"), "abc");
    assert_eq!(scan("--from b --to a"), "", "an empty range is no error");
    assert_eq!(scan("--prefix zz"), "");
    assert_eq!(place.text(&["scan", "--count"]), "6\n");
    assert_eq!(place.text(&["scan", "--count", "--prefix", "b", "--limit", "1"]), "1\n");
    assert_eq!(place.text(&["scan", "--prefix", "b"]), "b\t4\nb\\xff\t5\n");
    let json = "{\"key\":\"b\"}\n{\"key\":{\"base64\":\"Yv8=\"}}\n";
    assert_eq!(place.text(&["scan", "--prefix", "\"b\"", "--keys-only", "--format=json"]), json);
}

#[test]
fn dump_and_load_restore_every_entry_in_every_format() {
    let entries = nasty_entries();
    let source = Place::new();
    source.feed(&["load", "--format", "hex"], hex_lines(&entries).as_bytes()).ok();
    for (key, value) in &entries {
        let key = hex(key);
        assert_eq!(source.ok(&["get", "--key-format", "hex", "--", &key]), *value, "key {key}");
    }
    assert_eq!(source.text(&["dump", "--format", "hex"]), hex_lines(&entries));
    for format in FORMATS {
        let copy = Place::new();
        let dump = source.ok(&["dump", "--format", format]);
        assert_eq!(dump, source.ok(&["scan", "--format", format]), "{format}");
        copy.feed(&["load", "--format", format], &dump).ok();
        assert_eq!(copy.text(&["dump", "--format", "hex"]), hex_lines(&entries), "{format}");

        let file = source.path(format).display().to_string();
        source.ok(&["dump", &file, "--format", format]);
        assert_eq!(fs::read(&file).unwrap(), dump, "{format}");
        let copy = Place::new();
        let ran = copy.run(&["load", &file, "--format", format]);
        assert_eq!(ran.stderr, format!("loaded {} entries\n", entries.len()));
        assert_eq!(copy.ok(&["dump", "--format", format]), dump, "{format}");
    }
}

#[test]
fn dump_leaves_no_half_file() {
    let place = Place::new();
    place.feed(&["load"], b"a\t1\n").ok();
    let target = place.path("out");
    fs::write(&target, b"precious").unwrap();
    let nowhere = place.path("nowhere").display().to_string();
    let missing = run(minikv().args(["--db", &nowhere, "dump"]).arg(&target), b"");
    missing.fails(5, &[&format!("no database in {nowhere}")]);
    assert_eq!(fs::read(&target).unwrap(), b"precious");
    place.run(&["dump", "/no/such/dir/out"]).fails(5, &["/no/such/dir/out"]);
    place.ok(&["dump", target.to_str().unwrap()]);
    assert_eq!(fs::read(&target).unwrap(), b"a\t1\n");
    assert_eq!(place.ok(&["dump", "-"]), b"a\t1\n");
    assert_eq!(place.ok(&["dump", "/dev/stdout"]), b"a\t1\n");

    let link = place.path("link");
    symlink(&target, &link).unwrap();
    place.ok(&["put", "b", "2"]);
    place.ok(&["dump", link.to_str().unwrap()]);
    assert_eq!(fs::read(&target).unwrap(), b"a\t1\nb\t2\n");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink(), "a link stays a link");
    fs::remove_file(&target).unwrap();
    place.run(&["dump", link.to_str().unwrap()]).fails(5, &["link"]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink(), "also one that leads nowhere");
    let names: Vec<_> =
        fs::read_dir(place.dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "only the database and the dump: {names:?}");
}

#[test]
fn load_stops_at_a_bad_line_and_keeps_the_lines_before() {
    let place = Place::new();
    let mut input: Vec<u8> = (0..2500).flat_map(|i| format!("k{i:04}\tv\n").into_bytes()).collect();
    input.extend(b"no tab here\nlater\tv\n");
    let ran = place.feed(&["load"], &input);
    ran.fails(2, &["stdin line 2501", "no TAB", "2,500 entries"]);
    assert_eq!(place.text(&["scan", "--count"]), "2500\n");

    for (format, line) in
        [("hex", "0g\t00\n"), ("json", "{\"key\":\"a\"}\n"), ("escaped", "a\\n\tb\n")]
    {
        let place = Place::new();
        let ran = place.feed(&["load", "--format", format], line.as_bytes());
        ran.fails(2, &["stdin line 1", "0 entries"]);
        assert_eq!(place.text(&["scan", "--count"]), "0\n");
    }
    place.run(&["load", "/no/such/file"]).fails(5, &["/no/such/file"]);
}

#[test]
fn load_by_tables_loads_all_or_nothing() {
    let place = Place::new();
    place.run(&["put", "k0001", "old"]).ok();
    let sorted: Vec<u8> = (0..2500).flat_map(|i| format!("k{i:04}\tv\n").into_bytes()).collect();
    let ran = place.feed(&["load", "--sorted"], &sorted);
    assert!(ran.stderr.contains("loaded 2,500 entries in 1 table"), "{}", ran.stderr);
    assert_eq!(place.text(&["scan", "--count"]), "2500\n");
    assert_eq!(place.text(&["get", "k0001"]), "v");
    let entries = place.text(&["scan"]);

    for (bad, what) in [
        (&b"a\t1\nc\t2\nb\t3\nd\t4\n"[..], "stdin line 3: the key b is not after"),
        (b"a\t1\na\t2\n", "stdin line 2: the key a is not after the key before it, a"),
        (b"a\t1\nno tab\n", "stdin line 2"),
    ] {
        place.feed(&["load", "--sorted"], bad).fails(2, &[what, "nothing was loaded"]);
        assert_eq!(place.text(&["scan", "--count"]), "2500\n");
    }
    place.feed(&["load", "--sort"], b"x\t1\nno tab\n").fails(2, &["nothing was loaded"]);
    assert_eq!(place.text(&["scan"]), entries, "a load that failed changes nothing");
    let files: Vec<_> = std::fs::read_dir(place.db()).unwrap().map(Result::unwrap).collect();
    assert!(files.iter().all(|file| file.file_name() != "minikv-load"), "{files:?}");
    place.feed(&["load", "--sort", "--sorted"], b"").fails(2, &["cannot be used with"]);
    place.feed(&["load", "--sorted"], b"").ok();

    place.feed(&["load", "--sort"], b"z\t1\nk0003\tnew\nz\t2\ny\t\\x00\n").ok();
    assert_eq!(place.text(&["scan", "--count"]), "2502\n");
    assert_eq!(place.text(&["get", "z"]), "2");
    assert_eq!(place.text(&["get", "k0003"]), "new");
    place.run(&["verify"]).ok();
}

#[test]
fn batch_applies_whole_batches_and_acknowledges_each() {
    let place = Place::new();
    let input = b"put\ta\t1\nput\tb\t2\ndelete\ta\ncommit\ncommit\nput\tc\t\\x00\n";
    let out = place.feed(&["batch", "--sync"], input).ok();
    assert_eq!(String::from_utf8(out).unwrap(), "committed 3\ncommitted 0\ncommitted 1\n");
    assert_eq!(place.text(&["scan"]), "b\t2\nc\t\\x00\n");

    let ran = place.feed(&["batch"], b"put\td\t4\ncommit\nput\te\t5\noops\nput\tf\t6\n");
    ran.fails(2, &["stdin line 4", "1 batch"]);
    assert_eq!(ran.stdout, b"committed 1\n");
    assert_eq!(place.text(&["scan", "--from", "d"]), "d\t4\n", "no part of the batch it is in");

    fs::write(place.path("ops"), "delete\t\"b\"\nput\t{\"base64\":\"/w==\"}\t\"\\u0000\"").unwrap();
    place.ok(&["batch", place.path("ops").to_str().unwrap(), "--format", "json"]);
    assert_eq!(place.text(&["scan"]), "c\t\\x00\nd\t4\n\\xff\t\\x00\n");
    assert_eq!(place.feed(&["batch", "-"], b"").ok(), b"", "nothing to commit");
}

#[test]
fn batch_goes_on_when_nobody_reads_its_answers() {
    let place = Place::new();
    let mut child = place.command(&["batch"]);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"put\ta\t1\ncommit\nput\tb\t2\ncommit\n").unwrap();
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(place.text(&["scan"]), "a\t1\nb\t2\n");
}

#[test]
fn a_second_writer_is_told_who_has_the_lock_and_readers_are_not_stopped() {
    let place = Place::new();
    let mut holder = place.hold();
    for args in [&["put", "a", "b"][..], &["delete", "held"], &["compact"], &["destroy", "--yes"]] {
        place.run(args).fails(3, &["LOCK", &format!("process {}", holder.id())]);
    }
    place.feed(&["load"], b"a\tb\n").fails(3, &["LOCK"]);
    assert_eq!(place.ok(&["get", "held"]), b"yes");
    assert_eq!(place.text(&["scan"]), "held\tyes\n");
    assert_eq!(place.text(&["dump"]), "held\tyes\n");
    place.ok(&["stats"]);
    drop(holder.stdin.take());
    assert_eq!(holder.wait().unwrap().code(), Some(0));
    place.ok(&["put", "a", "b"]);
}

#[test]
fn reading_changes_no_file() {
    let place = Place::new();
    place.feed(&["load", "--write-buffer", "64KiB"], &many_lines(5000)).ok();
    place.ok(&["put", "in the log", "v"]);
    let before = contents(&place.db());
    assert!(before.keys().any(|name| name.ends_with(".ldb")), "{:?}", before.keys());
    place.ok(&["get", "key 0001"]);
    assert_eq!(place.run(&["get", "nope"]).code, Some(1));
    place.ok(&["explain", "key 0001"]);
    assert_eq!(place.run(&["explain", "nope"]).code, Some(1));
    place.ok(&["scan", "--reverse"]);
    place.ok(&["dump"]);
    place.ok(&["stats"]);
    place.ok(&["stats", "--json"]);
    for name in before.keys().filter(|name| !name.starts_with("LO")) {
        let ran = place.run(&["inspect", place.db().join(name).to_str().unwrap()]);
        assert_eq!(ran.code, Some(0), "{name}: {}", ran.stderr);
    }
    assert_eq!(contents(&place.db()), before);

    let nothing = Place::new();
    for args in
        [&["get", "a"][..], &["explain", "a"], &["scan"], &["dump"], &["stats"], &["compact"]]
    {
        nothing.run(args).fails(5, &["no database in"]);
    }
    assert!(!nothing.db().exists());
}

fn many_lines(n: u32) -> Vec<u8> {
    (0..n).flat_map(|i| format!("key {i:04}\tthe value of number {i}\n").into_bytes()).collect()
}

#[test]
fn a_closed_pipe_ends_quietly() {
    check_a_closed_pipe(&[&["scan"], &["dump"]]);
}

#[test]
fn a_closed_pipe_that_has_a_name_ends_quietly() {
    check_a_closed_pipe(&[&["dump", "/dev/stdout"]]);
}

fn check_a_closed_pipe(commands: &[&[&str]]) {
    let place = Place::new();
    place.feed(&["load"], &many_lines(20_000)).ok();
    for args in commands {
        let mut command = place.command(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = [0; 9];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(&first, b"key 0000\t");
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{args:?}");
    }
}

#[test]
fn a_full_disk_behind_stdout_is_an_error() {
    let place = Place::new();
    place.ok(&["put", "a", "b"]);
    for args in [&["get", "a"][..], &["scan"], &["man"], &["stats"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = place.command(args).stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(5), "{args:?}");
        assert!(
            String::from_utf8_lossy(&output.stderr).contains("cannot write stdout"),
            "{args:?}"
        );
    }
}

#[test]
fn bad_usage_is_one_line_and_exit_code_2() {
    let place = Place::new();
    let bad: [(&[&str], &str); 14] = [
        (&["frobnicate"], "frobnicate"),
        (&["get"], "KEY"),
        (&["put", "a"], "VALUE"),
        (&["get", "a", "--bogus"], "--bogus"),
        (&["scan", "--limit", "many"], "many"),
        (&["scan", "--count", "--keys-only"], "--keys-only"),
        (&["get", "a", "--format", "xml"], "xml"),
        (&["put", "a", "b", "--block-size", "4KB"], "KiB"),
        (&["put", "a", "b", "--bloom-bits", "1001"], "1001"),
        (&["put", "a", "b", "--bloom-bits", "65", "--filter-layout", "both"], "0..=64"),
        (&["put", "a", "b", "--filter-layout", "sieve"], "sieve"),
        (&["completions", "tcl"], "tcl"),
        (&["man", "nope"], "nope"),
        (&["delete"], "KEY"),
    ];
    for (args, word) in bad {
        place.run(args).fails(2, &[word]);
    }
    run(minikv().args(["get", "a"]), b"").fails(2, &["--db", "MINIKV_DB"]);
    assert_eq!(run(&mut minikv(), b"").code, Some(2));
    assert!(!place.db().exists());
}

#[test]
fn comparators_and_compressions_that_this_build_lacks_are_refused_by_name() {
    let place = Place::new();
    place.run(&["put", "a", "b", "--comparator", "acme_cmp"]).fails(6, &["acme_cmp"]);
    if cfg!(not(feature = "zstd")) {
        place.run(&["put", "a", "b", "--compression", "zstd"]).fails(6, &["zstd", "--features"]);
    }
    assert!(!place.db().exists());
    place.ok(&["put", "a", "b", "--comparator", "leveldb.BytewiseComparator"]);
    let ran = place.run(&["get", "a", "--comparator", "reverse"]);
    ran.fails(6, &["reverse", "the database needs leveldb.BytewiseComparator"]);
}

#[test]
fn filter_layouts_are_those_of_new_tables() {
    for (layout, bits, of_block, of_table) in
        [("block", "10", true, false), ("table", "16", false, true), ("both", "12", true, true)]
    {
        let place = Place::new();
        place.feed(&["load"], b"a\t1\nb\t2\n").ok();
        place.ok(&["compact", "--filter-layout", layout, "--bloom-bits", bits]);
        let names = contents(&place.db());
        let table = place.db().join(names.keys().find(|name| name.ends_with(".ldb")).unwrap());
        let json = place.ok(&["inspect", "--json", table.to_str().unwrap()]);
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(json["filter"]["name"] == "leveldb.BuiltinBloomFilter2", of_block, "{json}");
        assert_eq!(json["filter"].is_null(), !of_block, "{json}");
        assert_eq!(json["table_filter"]["keys"] == 2, of_table, "{json}");
        assert_eq!(json["table_filter"].is_null(), !of_table, "{json}");
        let text = place.text(&["inspect", table.to_str().unwrap()]);
        assert_eq!(text.contains("table filter: minikv.table-filter.v1.binary-fuse"), of_table);

        // Gets query the filter that the table has, whatever layout the command line sets.
        assert_eq!(place.text(&["get", "b"]), "2");
        let told = place.run(&["explain", "ab", "--filter-layout", "block"]);
        assert_eq!(told.code, Some(1));
        let told = String::from_utf8(told.stdout).unwrap();
        assert_eq!(told.contains("table filter"), of_table, "{told}");
        assert_eq!(told.contains("block filter"), !of_table, "{told}");
    }
}

#[test]
fn a_compression_this_build_does_not_know_is_exit_code_6() {
    let place = Place::new();
    place.feed(&["load"], b"a\t1\n").ok();
    place.ok(&["compact", "--compression=none"]);
    let names = contents(&place.db());
    let table = place.db().join(names.keys().find(|name| name.ends_with(".ldb")).unwrap());
    let json = place.ok(&["inspect", "--json", table.to_str().unwrap()]);
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let size = json["blocks"][0]["size"].as_u64().unwrap() as usize;
    let mut bytes = fs::read(&table).unwrap();
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..size]), &[9]);
    let masked = crc.rotate_right(15).wrapping_add(0xa282_ead8);
    let trailer = [&[9][..], &masked.to_le_bytes()].concat();
    bytes[size..size + trailer.len()].copy_from_slice(&trailer);
    fs::write(&table, bytes).unwrap();
    place.run(&["get", "a"]).fails(6, &["unsupported compression 9", ".ldb"]);
    place.run(&["inspect", table.to_str().unwrap()]).fails(6, &["unsupported compression 9"]);
}

#[test]
fn damage_is_exit_code_4_and_names_file_and_offset() {
    let place = Place::new();
    place.feed(&["load", "--compression", "none"], &many_lines(5000)).ok();
    place.ok(&["compact"]);
    let table = fs::read_dir(place.db()).unwrap().map(|entry| entry.unwrap().path());
    let table = table.filter(|path| path.extension().is_some_and(|e| e == "ldb")).max().unwrap();
    let mut bytes = fs::read(&table).unwrap();
    bytes[100] ^= 1;
    fs::write(&table, bytes).unwrap();
    let name = table.file_name().unwrap().to_str().unwrap();
    place.run(&["scan"]).fails(4, &[name, "offset"]);
    place.run(&["dump"]).fails(4, &[name, "offset"]);
    let ran = place.run(&["inspect", table.to_str().unwrap()]);
    assert_eq!(ran.code, Some(4), "{}", ran.stderr);
}

/// Creates a database with the entries of an IndexedDB and a comparator that the command does not
/// know.
fn of_unknown_order() -> Place {
    #[derive(Debug)]
    struct Unknown;

    impl Comparator for Unknown {
        fn name(&self) -> &str {
            "acme_cmp"
        }

        fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
            IndexedDbComparator.compare(a, b)
        }
    }

    let place = fixture("chromium/indexeddb");
    let from = Options::default().comparator(IndexedDbComparator);
    let from = Db::open_read_only(place.db(), from).unwrap();
    let new = Options::default().create_if_missing(true).comparator(Unknown);
    let db = Db::open(place.path("new"), new).unwrap();
    for entry in from.iter() {
        let (key, value) = entry.unwrap();
        db.put(key, value).unwrap();
    }
    db.close().unwrap();
    drop(from);
    fs::remove_dir_all(place.db()).unwrap();
    fs::rename(place.path("new"), place.db()).unwrap();
    place
}

/// Returns a copy of a fixture: a database that another program made.
fn fixture(name: &str) -> Place {
    let place = Place::new();
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures");
    fs::create_dir(place.db()).unwrap();
    for entry in fs::read_dir(Path::new(fixtures).join(name).join("db")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), place.db().join(entry.file_name())).unwrap();
    }
    let expected = Path::new(fixtures).join(name).join("expected.tsv");
    fs::copy(expected, place.path("expected.tsv")).unwrap();
    place
}

#[test]
fn databases_of_other_programs_are_read_and_left_as_they_are() {
    for name in ["leveldb-cpp/04-levels", "leveldb-cpp/05-unclean-copy", "goleveldb/04-levels"] {
        let place = fixture(name);
        let before = contents(&place.db());
        let expected = fs::read_to_string(place.path("expected.tsv")).unwrap();
        assert_eq!(place.text(&["dump", "--format", "hex"]), expected, "{name}");
        let lines: Vec<_> = expected.lines().collect();
        let (key, value) = lines[lines.len() / 2].split_once('\t').unwrap();
        assert_eq!(hex(&place.ok(&["get", "--key-format", "hex", key])), value, "{name}");
        place.ok(&["stats"]);
        assert_eq!(contents(&place.db()), before, "{name}");
    }
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_key() {
    let inputs =
        [("escaped", "a\tb\n"), ("hex", "61\t62\n"), ("json", "{\"key\":\"a\",\"value\":\"b\"}\n")];
    for (format, input) in inputs {
        for sorted in [None, Some("--sorted"), Some("--sort")] {
            let place = Place::new();
            let args: Vec<&str> = ["load", "--format", format].into_iter().chain(sorted).collect();
            place.feed(&args, ["\u{feff}", input].concat().as_bytes()).ok();
            assert_eq!(place.text(&["dump"]), "a\tb\n", "{format} {sorted:?}");
        }
    }
    let place = Place::new();
    place.feed(&["batch"], "\u{feff}put\ta\tb\n".as_bytes()).ok();
    assert_eq!(place.text(&["dump"]), "a\tb\n");
    // A key that begins with the mark is kept.
    place.ok(&["put", "\u{feff}", "c"]);
    let dumped = place.text(&["dump"]);
    let copy = Place::new();
    copy.feed(&["load"], dumped.as_bytes()).ok();
    assert_eq!(copy.text(&["dump"]), dumped);
}

#[test]
fn get_names_the_keyspace_of_the_other_kind() {
    let place = Place::new();
    place.ok(&["put", "--keyspace", "u", "--ttl", "1h", "bob", "2"]);
    // Earlier builds made an ordinary keyspace beside the expiring one.
    place.ok(&["put", "\\xff\\xfeks\\x01uann", "3"]);
    let get = |args: &[&str]| place.run(&[&["get", "--keyspace", "u"], args].concat());
    get(&["bob"]).fails(1, &["the expiring keyspace of that name has it: give --expiring"]);
    let ordinary = "the ordinary keyspace of that name has it: leave --expiring out";
    get(&["ann", "--expiring"]).fails(1, &[ordinary]);
    get(&["cid"]).fails(1, &["minikv explain"]);
}

#[test]
fn a_world_of_minecraft_is_read_checked_repaired_and_written() {
    let place = fixture("bedrock/01-world");
    let expected = fs::read_to_string(place.path("expected.tsv")).unwrap();
    let before = contents(&place.db());
    let dumped = place.text(&["dump", "--format", "hex"]);
    assert_eq!(dumped.lines().count(), expected.lines().count());
    place.ok(&["verify"]);
    let table = place.text(&["inspect", place.db().join("000006.ldb").to_str().unwrap()]);
    assert!(table.contains(" deflate ") && !table.contains(" zlib "), "{table}");
    let table = place.text(&["inspect", place.db().join("000005.ldb").to_str().unwrap()]);
    assert!(table.contains(" zlib "), "{table}");
    assert!(place.text(&["inspect", place.db().join("CURRENT").to_str().unwrap()]).len() > 10);
    assert_eq!(contents(&place.db()), before);

    for kind in ["deflate", "zlib"] {
        let copy = Place::new();
        let load = ["load", "--format", "hex", "--compression", kind];
        copy.feed(&load, dumped.as_bytes()).ok();
        copy.ok(&["compact", "--compression", kind]);
        assert_eq!(copy.text(&["dump", "--format", "hex"]), dumped, "{kind}");
        let names = contents(&copy.db()).into_keys().filter(|name| name.ends_with(".ldb"));
        for name in names {
            let table = copy.text(&["inspect", copy.db().join(name).to_str().unwrap()]);
            assert!(table.contains(&format!(" {kind} ")), "{table}");
        }
    }

    // Damage the index. `repair` then finds the blocks by their checksums.
    let path = place.db().join("000006.ldb");
    let mut bytes = fs::read(&path).unwrap();
    let footer = bytes.len() - 48;
    bytes[footer..footer + 40].fill(0xff);
    fs::write(&path, bytes).unwrap();
    place.run(&["verify"]).fails(1, &["1 fault"]);
    place.run(&["repair"]);
    assert_eq!(place.text(&["dump", "--format", "hex"]), dumped);
}

#[test]
fn an_unknown_order_of_keys_is_refused_by_name() {
    let place = of_unknown_order();
    let before = contents(&place.db());
    for args in [&["scan"][..], &["get", "a"], &["put", "a", "b"], &["stats"]] {
        place.run(args).fails(6, &["comparator acme_cmp", "--comparator ignore"]);
    }
    let ran = place.run(&["scan", "--comparator", "acme_cmp2"]);
    ran.fails(6, &["acme_cmp2", "the database needs acme_cmp, unknown to this build too"]);
    place.run(&["destroy"]).fails(2, &["--yes"]);
    assert_eq!(contents(&place.db()), before);
}

#[test]
fn a_directory_that_lost_a_file_is_refused_by_readers_and_writers() {
    for lost in ["CURRENT", "MANIFEST-000038", "000029.ldb"] {
        let place = fixture("leveldb-cpp/04-levels");
        fs::remove_file(place.db().join(lost)).unwrap();
        let before = contents(&place.db());
        for args in [&["get", "a"][..], &["scan"], &["stats"], &["put", "a", "b"]] {
            place.run(args).fails(4, &[lost]);
        }
        assert_eq!(contents(&place.db()), before, "without {lost}");
    }
}

#[test]
fn a_read_reports_the_loss_of_a_damaged_log() {
    let place = Place::new();
    place.feed(&["batch"], b"put\ta\t1\ncommit\nput\tb\t2\ncommit\n").ok();
    let names = contents(&place.db());
    let log = place.db().join(names.keys().find(|name| name.ends_with(".log")).unwrap());
    let mut bytes = fs::read(&log).unwrap();
    bytes[0] ^= 1;
    fs::write(&log, bytes).unwrap();
    let ran = place.run(&["scan"]);
    assert_eq!((ran.code, ran.stdout.len()), (Some(0), 0));
    assert!(ran.stderr.contains(".log at offset 0: "), "{}", ran.stderr);
    let left_out = format!("{} bytes are left out", fs::metadata(&log).unwrap().len());
    assert!(ran.stderr.contains(&left_out), "{}", ran.stderr);
}

#[test]
fn readamp_reports_and_leaves_out_the_logs_that_every_read_leaves_out() {
    let place = Place::new();
    place.feed(&["load"], &many_lines(1000)).ok();
    place.feed(&["batch"], b"put\ta\t1\ncommit\nput\tb\t2\ncommit\n").ok();
    let names = contents(&place.db());
    let logs = names.iter().filter(|(name, _)| name.ends_with(".log"));
    let (name, _) = logs.max_by_key(|(_, (bytes, _))| bytes.len()).unwrap();
    let (log, later) = (place.db().join(name), place.db().join("000100.log"));
    fs::copy(&log, &later).unwrap();
    let mut bytes = fs::read(&log).unwrap();
    bytes[0] ^= 1;
    fs::write(&log, bytes).unwrap();
    let scanned = place.run(&["scan", "--count"]);
    assert_eq!((scanned.code, &scanned.stdout[..]), (Some(0), &b"1000\n"[..]));
    assert!(scanned.stderr.contains("000100.log at offset 0: comes after"), "{}", scanned.stderr);
    let measured = place.run(&["readamp", "--lookups", "100", "--json"]);
    assert_eq!(measured.stderr, scanned.stderr);
    let json: serde_json::Value = serde_json::from_slice(&measured.ok()).unwrap();
    assert_eq!(json["entries"], 1000);
}

#[test]
fn the_environment_names_the_database_and_the_option_wins() {
    let place = Place::new();
    run(minikv().env("MINIKV_DB", place.db()).args(["put", "a", "b"]), b"").ok();
    assert_eq!(place.ok(&["get", "a"]), b"b");
    let other = Place::new();
    let ran = run(other.command(&["get", "a"]).env("MINIKV_DB", place.db()), b"");
    ran.fails(5, &["no database"]);
    run(minikv().env("MINIKV_DB", "").args(["get", "a"]), b"").fails(2, &["MINIKV_DB"]);
}

#[test]
fn a_process_that_may_open_few_files_reads_and_writes_more_tables() {
    let place = Place::new();
    let options = minikv::Options::default().create_if_missing(true).max_file_bytes(4 << 10);
    let options = options.compression(minikv::Compression::None);
    let db = minikv::Db::open(place.db(), options).unwrap();
    let entry = |i: u32| (format!("key{i:03}"), format!("{i:04096}"));
    let entries: Vec<_> = (0..200).map(entry).collect();
    entries.iter().for_each(|(key, value)| db.put(key.as_bytes(), value.as_bytes()).unwrap());
    db.compact_range(..).unwrap();
    db.close().unwrap();
    let tables = contents(&place.db()).into_keys().filter(|name| name.ends_with(".ldb")).count();
    assert!(tables >= 100, "{tables} tables");
    let limited = |args: &[&str], stdin: &[u8]| {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n 40 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_minikv")]);
        run(command.arg("--db").arg(place.db()).args(args), stdin).ok()
    };
    let lines: String = entries.iter().map(|(key, value)| format!("{key}\t{value}\n")).collect();
    assert_eq!(String::from_utf8(limited(&["dump"], b"")).unwrap(), lines);
    limited(&["load"], lines.to_uppercase().as_bytes());
    limited(&["compact"], b"");
    assert_eq!(
        String::from_utf8(limited(&["dump"], b"")).unwrap(),
        [lines.to_uppercase(), lines].concat()
    );
}

#[test]
fn compact_gives_back_the_space_of_deleted_entries() {
    let place = Place::new();
    place.feed(&["load", "--compression=none"], &many_lines(10_000)).ok();
    place.ok(&["compact", "--compression=none"]);
    let table_bytes = |place: &Place| -> usize {
        let files = contents(&place.db());
        files.iter().filter(|(name, _)| name.ends_with(".ldb")).map(|(_, (b, _))| b.len()).sum()
    };
    let full = table_bytes(&place);
    assert!(full > 200_000, "{full}");
    let deletes: Vec<u8> =
        (0..10_000).flat_map(|i| format!("delete\tkey {i:04}\n").into_bytes()).collect();
    place.feed(&["batch"], &deletes).ok();
    place.ok(&["compact", "--from", "key", "--to", "kez"]);
    assert!(table_bytes(&place) < 1000, "{} of {full} left", table_bytes(&place));
    assert_eq!(place.text(&["scan", "--count"]), "0\n");
    place.ok(&["compact", "--from", "b", "--to", "a"]);
}

#[test]
fn destroy_removes_the_database_and_nothing_else() {
    let place = Place::new();
    place.ok(&["put", "a", "b"]);
    fs::write(place.db().join("notes.txt"), b"mine").unwrap();
    place.ok(&["destroy", "--yes"]);
    assert_eq!(contents(&place.db()).keys().collect::<Vec<_>>(), ["notes.txt"]);
    fs::remove_file(place.db().join("notes.txt")).unwrap();
    place.ok(&["put", "a", "b"]);
    place.ok(&["destroy", "--yes"]);
    assert!(!place.db().exists());
}

#[test]
fn explain_tells_each_step_and_its_figures_add_up() {
    let place = fixture("leveldb-cpp/04-levels");
    let text = place.text(&["explain", "k00026"]);
    for words in ["get               \"k00026\"", "level 2: 000029", "block filter", "41 B"] {
        assert!(text.contains(words), "{words:?} is not in\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");

    let told: serde_json::Value =
        serde_json::from_slice(&place.ok(&["explain", "--json", "k00026"])).unwrap();
    let steps = told["steps"].as_array().unwrap();
    let names: Vec<_> = steps.iter().map(|step| step["step"].as_str().unwrap()).collect();
    let in_table = ["table", "index", "block_filter"];
    let skipped = ["skipped", "skipped"];
    let found = ["block", "entry"];
    assert_eq!(
        names,
        [&["memtable"][..], &in_table, &skipped, &in_table, &found].concat(),
        "{told}"
    );
    let this_get = &told["this_get"];
    assert_eq!(this_get["bytes_read"], steps[9]["stored_bytes"]);
    assert_eq!((&this_get["filter_checks"], &this_get["filter_negatives"]), (&2.into(), &1.into()));
    assert_eq!((&steps[3]["may_match"], &steps[3]["truth"]), (&false.into(), &true.into()));
    assert_eq!(told["without_filters"]["data_blocks_from_file"], 2);
    assert_eq!((&told["found"], &told["value_bytes"]), (&true.into(), &41.into()));
    assert_eq!(told["filters"], "asked");
    let levels = this_get["levels"].as_array().unwrap();
    let sum = levels.iter().map(|level| level["index_seeks"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(this_get["index_seeks"], sum);

    let ran = place.run(&["explain", "k00026!"]);
    assert_eq!((ran.code, &*ran.stderr), (Some(1), ""));
    assert!(String::from_utf8(ran.stdout).unwrap().contains("the key was not found"));
    let told = place.text(&["explain", "--bloom-bits", "0", "k00026"]);
    assert!(told.contains("none queried: the database was opened without"), "{told}");
}

#[test]
fn stats_has_a_table_and_json() {
    let place = Place::new();
    place.feed(&["load", "--write-buffer=64KiB"], &many_lines(5000)).ok();
    let table = place.text(&["stats"]);
    assert!(table.contains("level"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    let json: serde_json::Value = serde_json::from_slice(&place.ok(&["stats", "--json"])).unwrap();
    let levels = json["levels"].as_array().unwrap();
    let files: u64 = levels.iter().map(|level| level["files"].as_u64().unwrap()).sum();
    let on_disk = contents(&place.db()).keys().filter(|name| name.ends_with(".ldb")).count();
    assert_eq!(files, on_disk as u64);
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(minikv().args(["completions", shell]), b"").ok();
        assert!(String::from_utf8(script).unwrap().contains("readamp"), "{shell}");
    }
    let page = String::from_utf8(run(minikv().args(["man"]), b"").ok()).unwrap();
    assert!(page.contains(".TH minikv 1") && page.contains("inspect"));
    let page = String::from_utf8(run(minikv().args(["man", "put"]), b"").ok()).unwrap();
    assert!(page.contains("--sync") || page.contains("\\-\\-sync"));
    assert!(!run(minikv().arg("--help"), b"").ok().is_empty());
}

#[test]
fn a_terminal_gets_values_as_text_and_is_asked_before_a_destroy() {
    let place = Place::new();
    place.feed(&["put", "k", "-"], b"a\0\\\xff").ok();
    let (code, shown) = run_on_terminal(&mut place.command(&["get", "k"]), "");
    assert_eq!((code, shown.as_str()), (Some(0), "a\\x00\\\\\\xff\r\n"));
    let (code, shown) = run_on_terminal(&mut place.command(&["get", "k", "--format=hex"]), "");
    assert_eq!((code, shown.as_str()), (Some(0), "61005cff\r\n"));

    let (code, shown) = run_on_terminal(&mut place.command(&["destroy"]), "n\n");
    assert_eq!(code, Some(2));
    assert!(shown.contains("[y/N]") && shown.contains("nothing was removed"), "{shown}");
    assert_eq!(place.text(&["scan", "--count"]), "1\n");
    let (code, shown) = run_on_terminal(&mut place.command(&["destroy"]), "y\n");
    assert_eq!(code, Some(0), "{shown}");
    assert!(!place.db().exists());
}

#[test]
fn colours_and_progress_are_for_terminals_that_want_them() {
    let (_, plain) = run_on_terminal(minikv().arg("--help"), "");
    assert!(plain.contains("Usage") && !plain.contains('\x1b'), "NO_COLOR: {plain:?}");
    let (_, coloured) =
        run_on_terminal(minikv().arg("--help").env_remove("NO_COLOR").env("TERM", "xterm"), "");
    assert!(coloured.contains('\x1b'), "{coloured:?}");

    let place = Place::new();
    fs::write(place.path("entries"), many_lines(5000)).unwrap();
    let file = place.path("entries").display().to_string();
    let (code, shown) = run_on_terminal(&mut place.command(&["load", &file]), "");
    assert_eq!(code, Some(0));
    assert!(shown.contains("loading"), "{shown:?}");
    assert!(shown.ends_with("loaded 5,000 entries\r\n"), "{shown:?}");
}

#[test]
fn inspect_shows_the_contents_of_each_file() {
    let place = Place::new();
    let inspect = |name: &str| -> serde_json::Value {
        let file = place.db().join(name).display().to_string();
        let text = place.text(&["inspect", &file, "--entries"]);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        serde_json::from_slice(&place.ok(&["inspect", &file, "--json", "--entries"])).unwrap()
    };
    let named = |end: &str| {
        let names = contents(&place.db());
        names.keys().find(|name| name.contains(end)).unwrap().clone()
    };

    place.feed(&["batch"], b"put\ta\t1\ndelete\tb\ncommit\nput\t\\xff\t2\n").ok();
    let log = inspect(&named(".log"));
    assert_eq!((&log["puts"], &log["deletes"]), (&2.into(), &1.into()));
    // Every log begins with an empty batch, which states the next sequence number.
    assert_eq!(log["batches"][0]["operations"], serde_json::json!([]));
    assert_eq!(log["batches"][2]["sequence"], 3);
    assert_eq!(log["batches"][2]["operations"][0]["put"]["base64"], "/w==");
    assert_eq!(log["tail"]["kind"], "clean");

    place.ok(&["compact"]);
    let table = inspect(&named(".ldb"));
    assert_eq!(table["entries"], 2, "the tombstone is gone: {table}");
    assert_eq!(table["blocks"][0]["contents"][0]["key"], "a");
    assert_eq!(table["blocks"][0]["contents"][0]["value"], "1");
    assert_eq!(table["filter"]["name"], "leveldb.BuiltinBloomFilter2");

    let manifest = inspect(&named("MANIFEST"));
    assert_eq!(manifest["edits"][0]["comparator"], "leveldb.BytewiseComparator");
    assert_eq!(manifest["tables"].as_array().unwrap().len(), 1);
    assert_eq!(inspect("CURRENT")["manifest"], named("MANIFEST").as_str());

    place.run(&["inspect", place.db().join("LOCK").to_str().unwrap()]).fails(2, &["MANIFEST"]);
    place.run(&["inspect", "/no/such/000001.ldb"]).fails(5, &["/no/such/000001.ldb"]);
}

#[test]
fn inspect_goes_on_past_damage_and_gives_its_offset() {
    let place = Place::new();
    place.feed(&["load", "--compression=none"], &many_lines(1000)).ok();
    place.ok(&["compact", "--compression=none"]);
    let names: Vec<_> = contents(&place.db()).into_keys().collect();
    let damaged = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = fs::read(place.db().join(name)).unwrap();
        change(&mut bytes);
        fs::create_dir_all(place.path("damaged")).unwrap();
        let path = place.path("damaged").join(name);
        fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let table = names.iter().find(|name| name.ends_with(".ldb")).unwrap();
    let file = damaged(table, &|bytes| bytes[5000] ^= 1);
    let ran = place.run(&["inspect", &file, "--json"]);
    ran.fails(4, &[&file, "at offset", "checksum"]);
    let json: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    let blocks = json["data_blocks"].as_u64().unwrap();
    assert!(blocks > 5);
    assert_eq!(json["blocks"].as_array().unwrap().len() as u64, blocks - 1, "all but one");
    let offset = json["damage"][0]["offset"].as_u64().unwrap();
    assert!((1..5000).contains(&offset), "the start of the second block: {offset}");

    let file = damaged(table, &|bytes| bytes.truncate(10));
    place.run(&["inspect", &file]).fails(4, &[&file]);
    let file = damaged(table, &|bytes| bytes.clear());
    place.run(&["inspect", &file]).fails(4, &[&file]);
    let manifest = names.iter().find(|name| name.starts_with("MANIFEST")).unwrap();
    let file = damaged(manifest, &|bytes| bytes[10] ^= 1);
    place.run(&["inspect", &file]).fails(4, &[&file, "at offset 0", "checksum"]);
    let file = damaged("CURRENT", &|bytes| bytes.truncate(5));
    place.run(&["inspect", &file]).fails(4, &["CURRENT", "newline"]);
}

/// Returns the number in a field of `readamp --json`.
fn number(value: &serde_json::Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Removes the times, which differ from run to run.
fn without_times(value: &mut serde_json::Value) {
    if let Some(object) = value.as_object_mut() {
        object.remove("time_ns");
    }
    let inner: Vec<&mut serde_json::Value> = match value {
        serde_json::Value::Object(object) => object.values_mut().collect(),
        serde_json::Value::Array(array) => array.iter_mut().collect(),
        _ => return,
    };
    inner.into_iter().for_each(without_times);
}

/// Checks that counters of a class of lookups are the sums of their parts, and the sums over all
/// levels.
fn check_counters(class: &serde_json::Value) {
    let n = |name: &str| number(&class[name]);
    let positives = n("filter_true_positives") + n("filter_false_positives");
    assert_eq!(n("filter_checks"), n("filter_negatives") + positives);
    assert_eq!(n("data_blocks"), n("data_blocks_from_cache") + n("data_blocks_from_file"));
    for (name, total) in class.as_object().unwrap() {
        let levels = class["levels"].as_array().unwrap();
        if let Some(total) = total.as_u64()
            && levels[0].get(name).is_some()
        {
            let sum: u64 = levels.iter().map(|level| level[name].as_u64().unwrap()).sum();
            assert_eq!(sum, total, "{name}");
        }
    }
}

#[test]
fn readamp_shows_the_savings_of_filters_and_its_figures_add_up() {
    let args = ["readamp", "--lookups", "6000", "--write-buffer", "512KiB", "--json"];
    let run = || -> serde_json::Value {
        serde_json::from_slice(&run(minikv().args(args), b"").ok()).unwrap()
    };
    let (mut json, mut again) = (run(), run());
    let names = |value: &serde_json::Value| -> Vec<String> {
        value["configurations"][1]["cold"]["all"].as_object().unwrap().keys().cloned().collect()
    };
    let counters = serde_json::to_value(minikv::stats::LevelTrace::default()).unwrap();
    for counter in counters.as_object().unwrap().keys() {
        assert!(names(&json).iter().any(|name| name == counter), "{counter} is exported");
    }
    without_times(&mut json);
    without_times(&mut again);
    assert_eq!(json, again, "the same seed gives the same figures");
    assert_eq!(json["entries"], 104_334);
    assert_eq!(json["lookups"], 6000);
    let [without, with] = [&json["configurations"][0], &json["configurations"][1]];
    assert_eq!((&without["filters"], &with["filters"]), (&"none".into(), &"block:10".into()));
    for side in [with, without] {
        for pass in [&side["cold"], &side["warm"]] {
            for lookups in ["present", "absent", "all"] {
                check_counters(&pass[lookups]);
                assert_eq!(pass[lookups]["memtable_hits"], 0);
                for name in ["data_blocks", "filter_checks", "tables_considered"] {
                    assert_eq!(pass[lookups][name], side["cold"][lookups][name]);
                }
            }
        }
    }
    for kind in ["present", "absent"] {
        let blocks = |side: &serde_json::Value| number(&side["cold"][kind]["data_blocks"]);
        let negatives = number(&with["cold"][kind]["filter_negatives"]);
        assert_eq!(blocks(without) - blocks(with), negatives, "each \"no\" saves a block");
        assert_eq!(number(&without["cold"][kind]["filter_checks"]), 0.0);
    }
    assert_eq!(number(&with["cold"]["present"]["filter_true_positives"]), 3000.0);
    let absent = |side: &serde_json::Value| number(&side["cold"]["absent"]["data_blocks"]);
    assert!(absent(without) > 50.0 * absent(with), "{json}");
    let rate = |name: &str| number(&with["false_positives"][name]);
    assert!((0.7..1.4).contains(&(rate("measured") / rate("predicted"))), "{json}");
    let interval = &with["false_positives"]["interval_95_percent"];
    assert!(number(&interval[0]) < rate("measured") && rate("measured") < number(&interval[1]));
}

#[test]
fn readamp_measures_databases_and_leaves_them_alone() {
    let place = Place::new();
    place.feed(&["load", "--bloom-bits", "4", "--write-buffer", "64KiB"], &many_lines(20_000)).ok();
    let before = contents(&place.db());
    let keys = place.path("keys").display().to_string();
    fs::write(&keys, "key 0001\nkey 0001\nnone such\n").unwrap();
    let json = |args: &[&str]| -> serde_json::Value {
        let args = [&["readamp", "--json"], args].concat();
        serde_json::from_slice(&place.ok(&args)).unwrap()
    };
    let own = json(&["--lookups", "2000", "--absent-ratio", "0.75"]);
    let names: Vec<_> = (0..3).map(|i| own["configurations"][i]["filters"].clone()).collect();
    assert_eq!(names, ["as-is", "ignored", "block:10"]);
    let [as_is, ignored, ten] = [0, 1, 2].map(|i| &own["configurations"][i]["cold"]["absent"]);
    assert_eq!(as_is["lookups"], 1500);
    assert_eq!(ignored["filter_checks"], 0);
    assert!(number(&as_is["data_blocks"]) < number(&ignored["data_blocks"]));
    assert!(number(&ten["data_blocks"]) < number(&as_is["data_blocks"]));
    let chosen = json(&["--lookups", &keys, "--filters", "none,block:1..3"]);
    assert_eq!((&chosen["lookups"], &chosen["different_keys"]), (&3.into(), &2.into()));
    assert_eq!(chosen["configurations"].as_array().unwrap().len(), 4);
    assert_eq!(contents(&place.db()), before);

    let csv = place.text(&["readamp", "--csv", "--lookups", "500"]);
    let columns = csv.lines().next().unwrap().split(',').count();
    assert!(csv.lines().all(|line| line.split(',').count() == columns), "{csv}");
    assert!(csv.lines().any(|line| line.starts_with("block:10,10,") && line.contains(",warm,")));
    let fails = |args: &[&str], words: &[&str]| {
        place.run(&[&["readamp"], args].concat()).fails(2, words);
    };
    fails(&["--filters", "bloom:10"], &["bloom:10", "not a configuration"]);
    fails(&["--filters", "block:9..3"], &["must ascend"]);
    fails(&["--absent-ratio", "2"], &["0 to 1"]);
    fails(&["--entries", "5"], &["--db"]);
    fs::write(&keys, "").unwrap();
    fails(&["--lookups", &keys], &["has no keys"]);
}

#[test]
fn readamp_takes_files_and_generated_entries() {
    let place = Place::new();
    let readamp = |args: &[&str]| {
        let mut all = vec!["readamp", "--lookups", "400"];
        all.extend(args);
        run(minikv().args(all), b"")
    };
    let list = place.path("list").display().to_string();
    fs::write(&list, "one\ntwo\nthree\ntwo\n").unwrap();
    let table = String::from_utf8(readamp(&[&list]).ok()).unwrap();
    assert!(table.contains("3 entries") && table.contains("none"), "{table}");
    assert!(table.lines().skip(2).all(|line| line.chars().count() <= 100), "{table}");
    let packages =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/real-input/packages.tsv");
    assert!(String::from_utf8(readamp(&[packages]).ok()).unwrap().contains("20,071 entries"));
    readamp(&["--entries", "2000", "--value-bytes", "0", "--seed", "9", "--zipf"]).ok();
    readamp(&[&list, "--format", "hex"]).fails(2, &["line 1", "no TAB"]);
    readamp(&["--entries", "0"]).fails(2, &["--entries"]);
    readamp(&["--bloom-bits", "0"]).fails(2, &["--bloom-bits"]);
    readamp(&["--db", &list]).fails(5, &["list"]);
    readamp(&["/no/such/list"]).fails(5, &["/no/such/list"]);
    fs::write(&list, "").unwrap();
    readamp(&[&list]).fails(2, &["has no entries"]);
}

#[test]
fn readamp_advises_filters_or_none() {
    let advice = |args: &[&str]| -> serde_json::Value {
        let args = [&["readamp", "--advise", "--json", "--entries", "30000"], args].concat();
        serde_json::from_slice(&run(minikv().args(args), b"").ok()).unwrap()
    };
    let mixed = advice(&["--lookups", "4000", "--write-buffer", "256KiB"]);
    assert!(mixed["advice"].as_str().unwrap().contains(':'), "{mixed}");
    assert_eq!(mixed["sureness"], "sure");
    let one_table = ["--lookups", "4000", "--absent-ratio", "0", "--write-buffer", "64MiB"];
    let hits = advice(&one_table);
    assert_eq!((&hits["advice"], &hits["sureness"]), (&"none".into(), &"sure".into()), "{hits}");
    let few = advice(&["--lookups", "20"]);
    assert_eq!(few["sureness"], "too few lookups");
}

#[test]
fn readamp_shows_the_theory() {
    let out = run(minikv().args(["readamp", "--theory", "--json"]), b"").ok();
    let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 20);
    // Published false-positive rates, at 8, 10, 2 and 16 bits per key.
    for (row, probes, rate) in [(6, 5, 0.0217), (8, 7, 0.00819), (0, 1, 0.393), (14, 8, 0.000574)] {
        let cell = &rows[row]["independent_hash"][probes - 1];
        assert!((number(&cell["predicted"]) / rate - 1.0).abs() < 0.005, "{cell}");
        assert!((number(&cell["measured"]) / rate - 1.0).abs() < 0.3, "{cell}");
    }
    let within = rows.iter().flat_map(|row| row["independent_hash"].as_array().unwrap());
    let within = within.filter(|cell| cell["within"] == true).count();
    assert!(within >= 135, "{within} of 160");
    assert_eq!(rows[8]["best_probes"], 7);
}

/// Returns Chromium's console messages about a page, and the rendered page; `None` if there is no
/// Chromium.
fn rendered(page: &Path, profile: &Path) -> Option<(String, String)> {
    let out = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"])
        .args(["--no-first-run", "--virtual-time-budget=2000", "--enable-logging=stderr"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(["--dump-dom", &format!("file://{}", page.display())])
        .output()
        .ok()?;
    let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{stderr}");
    let said = stderr.lines().filter(|line| line.contains("CONSOLE")).collect::<Vec<_>>();
    Some((said.join("\n"), String::from_utf8_lossy(&out.stdout).into_owned()))
}

#[test]
fn the_page_of_readamp_renders_without_a_word_on_the_console() {
    let place = Place::new();
    let page = place.path("page.html");
    let file = page.display().to_string();
    let args = ["readamp", "--lookups", "1000", "--filters", "none,block:6..12", "--html", &file];
    run(minikv().args(args), b"").ok();
    let html = fs::read_to_string(&page).unwrap();
    assert!(!html.contains("<script") && !html.contains("http://") && !html.contains("https://"));
    assert!(!html.contains("NaN") && !html.contains("inf\""), "coordinates are numbers");
    let profile = place.path("profile");
    let Some((said, dom)) = rendered(&page, &profile) else {
        eprintln!("skipped: no chromium here to render the page in");
        return;
    };
    assert_eq!(said, "");
    assert_eq!(dom.matches("<svg").count(), 10, "five charts for each of two widths: {dom}");
    assert!(dom.contains("False-positive rate against bits per key"));
    // To show that the check can fail, this page violates the content security policy.
    fs::write(&page, html.replace("</body>", "<script>throw 1</script></body>")).unwrap();
    assert_ne!(rendered(&page, &profile).unwrap().0, "");
}

/// Returns the labels of the horizontal axis of each wide bar chart on a page.
fn scales(html: &str) -> Vec<Vec<&str>> {
    let charts = html.split("<div class=\"wide\">").skip(1);
    let charts = charts.map(|chart| chart.split("</div>").next().unwrap());
    let bars = charts.filter(|chart| chart.contains("data blocks per get</text>"));
    bars.map(|chart| {
        let ticks = chart.split("class=\"tick middle\">").skip(1);
        ticks.map(|tick| tick.split('<').next().unwrap()).collect()
    })
    .collect()
}

#[test]
fn the_page_of_readamp_has_the_advice_one_scale_and_its_provenance() {
    let place = Place::new();
    let file = place.path("page.html").display().to_string();
    let args = ["readamp", "--lookups", "1000", "--advise", "--html", &file];
    let out = run(minikv().args(args).env("SOURCE_DATE_EPOCH", "951782400"), b"").ok();
    let advice = String::from_utf8(out).unwrap();
    let html = fs::read_to_string(&file).unwrap();
    let advised = advice.lines().find_map(|line| line.strip_prefix("Advice: ")).unwrap();
    let advised = advised.split('.').next().unwrap();
    assert!(html.contains(&format!("<p class=\"advice\">{advised}.")), "{advised}: {html}");
    assert!(html.contains("What each would save") && html.contains("<td>table:8</td>"));
    let scales = scales(&html);
    assert_eq!(scales.len(), 2, "absent keys and present ones");
    assert_eq!(scales[0], scales[1], "both charts of blocks have one scale");
    for words in ["minikv readamp --lookups 1000 --advise --html", "2000-02-29", "core"] {
        let footer = html.split("<footer>").nth(1).unwrap();
        assert!(footer.contains(words), "{words} is not in {footer}");
    }
    assert!(html.contains(&format!("<p>minikv {}", env!("CARGO_PKG_VERSION"))));
    let title = html.find("<h3>Absent keys</h3>").unwrap();
    assert!(title < html.find("<svg").unwrap(), "titles stand above their charts");
}

#[test]
fn readamp_calls_no_number_none_and_bounds_rates_of_zero_by_zero() {
    let args = ["readamp", "--entries", "100", "--lookups", "100", "--zipf"];
    let text = String::from_utf8(run(minikv().args(args), b"").ok()).unwrap();
    // No block was counted, which does not mean that none would be read of more.
    let bound = "reads 1.00 data blocks without filters, at least 14 times fewer (95 % \
                 interval: no block was counted) with block:10";
    assert!(text.replace("\n  ", " ").contains(bound), "{text}");
    assert!(text.contains(" 0 to "), "{text}");
    assert!(!text.contains("e-") && !text.contains("-0.000"), "{text}");
    let prose = text.lines().filter(|line| line.ends_with('.') || line.starts_with("  "));
    assert!(prose.clone().count() >= 3, "{text}");
    assert!(prose.clone().all(|line| !line.contains("none")), "{text}");
}

#[test]
fn the_demo_tells_the_whole_story_and_leaves_nothing() {
    let place = Place::new();
    let temporary = place.path("tmp");
    fs::create_dir(&temporary).unwrap();
    let text = run(minikv().arg("demo").env("TMPDIR", &temporary), b"").ok();
    let text = String::from_utf8(text).unwrap();
    for words in ["found in the memtable", "104,334 words", "\"maybe\"; 1 data block", "none"] {
        assert!(text.contains(words), "{words:?} is not in {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "temporary databases are removed");

    place.ok(&["demo"]);
    assert_eq!(place.text(&["scan", "--count"]), "104334\n");
    place.run(&["demo"]).fails(2, &["there is already a database"]);
}

#[test]
fn an_interrupted_demo_removes_its_databases() {
    let place = Place::new();
    let mut command = minikv();
    command.arg("demo").env("TMPDIR", place.dir.path()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut first = [0; 1];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(fs::read_dir(place.dir.path()).unwrap().count(), 1);
    interrupt(&child, Interrupt::ByUser).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(fs::read_dir(place.dir.path()).unwrap().count(), 0);
}

#[test]
fn bench_measures_the_workloads_it_is_asked_for() {
    let place = Place::new();
    let small = ["bench", "--entries", "2000", "--value-bytes", "40", "--write-buffer", "32KiB"];
    let text =
        place.text(&[&small[..], &["fillrandom,compact,readseq", "readwhilewriting"]].concat());
    let head = "2,000 entries of 16+40 bytes; write buffer 32.0 KiB, cache 512.0 MiB; microseconds";
    assert_eq!(text.lines().next(), Some(head));
    let rows: Vec<Vec<&str>> =
        text.lines().skip(2).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["workload", "op/s", "median", "p99", "p99.9", "longest"]);
    assert_eq!((rows[1][0], rows[1].len()), ("fillrandom", 6));
    assert_eq!((rows[2][0], rows[2].len()), ("readseq", 2));
    assert_eq!((rows[3][..2].concat(), rows[3].len()), ("readwhilewriting,gets".to_string(), 7));
    assert_eq!(rows[4][..2].concat(), "readwhilewriting,puts");
    for line in ["compact: ", "fillrandom, peak memory: ", "written per byte put: "] {
        assert!(text.contains(&format!("\n{line}")), "{line}: {text}");
    }
    // `bench` keeps the last database at the given path. Another run does not touch this database.
    assert_eq!(place.text(&["scan", "--count"]), "2000\n");
    place.run(&small).fails(2, &["already exists"]);
    assert_eq!(place.text(&["scan", "--count"]), "2000\n");

    place.run(&["bench", "fillsideways"]).fails(2, &["fillrandom, "]);
    place.run(&["bench", "--value-bytes", "11"]).fails(2, &["12 bytes"]);
}

#[test]
fn bench_without_a_database_leaves_nothing_and_prints_json() {
    let place = Place::new();
    let mut command = minikv();
    command.args(["bench", "--json", "--entries", "1000", "--cache-size", "1MiB", "--seed", "7"]);
    command.args(["readhot,deleterandom,open"]).env("TMPDIR", place.dir.path());
    let out = run(&mut command, b"").ok();
    let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
    let plan = ["entries", "value_bytes", "cache_bytes", "write_buffer_bytes", "seed"];
    assert_eq!(plan.map(|name| json[name].as_u64().unwrap()), [1000, 100, 1 << 20, 64 << 20, 7]);
    let outcomes = json["outcomes"].as_array().unwrap();
    let of = |name: &str| outcomes.iter().map(|o| o[name].clone()).collect::<Vec<_>>();
    assert_eq!(of("workload"), ["readhot", "deleterandom", "open"]);
    assert_eq!(of("operations"), [500, 1000, 1]);
    let figure = &outcomes[2]["figures"][0];
    assert_eq!(
        (&figure["name"], &figure["unit"], &figure["better"]),
        (&"open".into(), &"ms".into(), &"lower".into())
    );
    assert!(figure["value"].as_f64().unwrap() > 0.0);
    assert!(outcomes[0]["latency"]["p99"].as_f64().unwrap() > 0.0);
    assert_eq!(fs::read_dir(place.dir.path()).unwrap().count(), 0);
    let list = run(minikv().args(["bench", "--list"]), b"").ok();
    assert!(String::from_utf8(list).unwrap().contains("\nreadmissing          get missing keys\n"));
}

/// Decodes a field of `packages.tsv`, in which a backslash, a newline and a TAB are written as
/// `\\`, `\n` and `\t`.
fn decode_package_field(field: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut chars = field.chars();
    while let Some(c) = chars.next() {
        let decoded = match c {
            '\\' => match chars.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('\\') => '\\',
                other => panic!("escape {other:?}"),
            },
            c => c,
        };
        bytes.extend(decoded.to_string().as_bytes());
    }
    bytes
}

#[test]
fn debian_packages_load_reopen_scan_and_dump_to_the_same_bytes() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/real-input/packages.tsv");
    let text = fs::read_to_string(file).unwrap();
    let packages: BTreeMap<Vec<u8>, Vec<u8>> = text
        .lines()
        .map(|line| line.split_once('\t').unwrap())
        .map(|(name, fields)| (decode_package_field(name), decode_package_field(fields)))
        .collect();
    assert_eq!(packages.len(), 20_071);

    let place = Place::new();
    let lines = hex_lines(&packages);
    let ran = place.feed(&["load", "--format", "hex"], lines.as_bytes());
    assert_eq!(ran.stderr, "loaded 20,071 entries\n");
    assert_eq!(place.text(&["scan", "--count"]), "20071\n");
    assert!(place.text(&["scan", "--format", "hex"]) == lines, "the scan differs");
    place.ok(&["compact"]);
    assert_eq!(place.ok(&["get", "coreutils"]), packages[&b"coreutils"[..]]);
    let backward = place.text(&["scan", "--format", "hex", "--reverse"]);
    assert!(backward.lines().rev().eq(lines.lines()), "the backward scan differs");
    for format in FORMATS {
        let copy = Place::new();
        let dump = place.ok(&["dump", "--format", format]);
        copy.feed(&["load", "--format", format, "--bloom-bits", "0"], &dump).ok();
        assert!(copy.text(&["dump", "--format", "hex"]) == lines, "{format}: the dump differs");
    }
}
