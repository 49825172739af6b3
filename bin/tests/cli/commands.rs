//! Tests of single commands, except tests of round trips.

use std::process::ChildStdout;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::*;

fn json_of(bytes: &[u8]) -> serde_json::Value {
    serde_json::from_slice(bytes).unwrap()
}

fn file_of(place: &Place, part: &str) -> PathBuf {
    let names = contents(&place.db());
    place.db().join(names.keys().find(|name| name.contains(part)).unwrap())
}

/// Returns the output of a command that prints a page and must succeed.
fn help(args: &[&str]) -> String {
    String::from_utf8(run(minikv().args(args), b"").ok()).unwrap()
}

#[test]
fn inspect_knows_a_file_by_its_content_under_any_name() {
    let place = Place::new();
    place.feed(&["load"], b"a\t1\n").ok();
    place.ok(&["compact"]);
    place.ok(&["put", "b", "2"]);
    let kinds =
        [(".ldb", "table"), (".log", "log"), ("MANIFEST", "manifest"), ("CURRENT", "current")];
    for (part, kind) in kinds {
        let source = file_of(&place, part);
        for name in ["copy", "000009.ldb", "000009.log", "MANIFEST-000009", "CURRENT.bak"] {
            let copy = place.path(name);
            fs::copy(&source, &copy).unwrap();
            let json = json_of(&place.ok(&["inspect", "--json", copy.to_str().unwrap()]));
            assert_eq!(json["type"], kind, "{part} as {name}");
            fs::remove_file(&copy).unwrap();
        }
    }
}

#[test]
fn inspect_does_not_wait_for_a_pipe() {
    let place = Place::new();
    let path = place.path("000009.log");
    make_pipe(&path).unwrap();
    let mut child = minikv();
    let child = child.arg("inspect").arg(&path).stderr(std::process::Stdio::null());
    let mut child = child.spawn().unwrap();
    for _ in 0..1000 {
        if let Some(status) = child.try_wait().unwrap() {
            return assert_eq!(status.code(), Some(5));
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    child.kill().unwrap();
    panic!("it waits");
}

#[test]
fn inspect_goes_by_the_name_only_if_the_content_does_not_decide() {
    let place = Place::new();
    let empty = |name: &str| {
        fs::write(place.path(name), b"").unwrap();
        place.run(&["inspect", "--json", place.path(name).to_str().unwrap()])
    };
    empty("broken.ldb").fails(4, &["broken.ldb", "too short"]);
    assert_eq!(json_of(&empty("000003.log").ok())["type"], "log");
    assert_eq!(json_of(&empty("MANIFEST-000001.bak").ok())["type"], "manifest");
    empty("nothing").fails(2, &["nothing", "neither a table, a log, a MANIFEST nor CURRENT"]);
    place.run(&["inspect", "/no/such/file"]).fails(5, &["cannot open /no/such/file"]);
    place.run(&["inspect", "/tmp"]).fails(5, &["cannot inspect /tmp", "name a file"]);
}

#[test]
fn inspect_takes_several_files_and_goes_on_past_a_bad_one() {
    let place = Place::new();
    place.feed(&["load"], b"a\t1\n").ok();
    place.ok(&["compact"]);
    let [table, current] = [".ldb", "CURRENT"].map(|part| file_of(&place, part));
    let [table, current] = [&table, &current].map(|path| path.to_str().unwrap());
    let text = place.text(&["inspect", current, table]);
    assert!(text.contains(": CURRENT, ") && text.contains("\n\n"), "{text}");
    assert!(text.contains("1 data block, 1 entry (0 deletions)"), "{text}");
    let ran = place.run(&["inspect", "--json", current, "/no/such/file", table]);
    ran.fails(5, &["/no/such/file"]);
    let lines = String::from_utf8(ran.stdout).unwrap();
    let types: Vec<_> = lines.lines().map(|l| json_of(l.as_bytes())["type"].clone()).collect();
    assert_eq!(types, ["current", "table"]);
}

#[test]
fn a_format_given_to_get_is_that_of_values_in_a_pipe_too() {
    let place = Place::new();
    place.feed(&["put", "t", "-"], b"\xff\n").ok();
    place.ok(&["put", "u", "x"]);
    assert_eq!(place.ok(&["get", "t", "u"]), b"\xff\nx", "exact bytes without a format");
    assert_eq!(place.text(&["get", "t", "--format", "escaped"]), "\\xff\\x0a\n");
    assert_eq!(place.text(&["get", "t", "--format", "hex"]), "ff0a\n");
    let json = place.text(&["get", "t", "u", "--format", "json"]);
    let lines =
        "{\"key\":\"t\",\"value\":{\"base64\":\"/wo=\"}}\n{\"key\":\"u\",\"value\":\"x\"}\n";
    assert_eq!(json, lines);
    assert_eq!(place.text(&["get", "u", "t", "--format=hex"]), "75\t78\n74\tff0a\n");
    let ran = place.run(&["get", "75", "--format", "hex"]);
    ran.fails(1, &["key not found: 75", "--key-format hex"]);
}

#[test]
fn a_value_as_a_terminal_shows_it_can_be_put_back() {
    let place = Place::new();
    let value: Vec<u8> = (0..=255).collect();
    place.feed(&["put", "k", "-"], &value).ok();
    for format in FORMATS {
        let shown = place.text(&["get", "k", "--format", format]);
        place.ok(&["put", "copy", shown.trim_end_matches('\n'), "--value-format", format]);
        assert_eq!(place.ok(&["get", "copy"]), value, "{format}");
        place.feed(&["put", "piped", "-", "--value-format", format], shown.as_bytes()).ok();
        assert_eq!(place.ok(&["get", "piped"]), value, "{format}");
    }
    place.ok(&["put", "k", "\\x41"]);
    assert_eq!(place.ok(&["get", "k"]), b"\\x41", "raw is the default");
    let ran = place.run(&["put", "k", "\\q", "--value-format", "escaped"]);
    ran.fails(2, &["unknown escape", "--value-format"]);
    place.run(&["put", "k", "@"]).fails(2, &["@FILE", "stdin"]);
}

#[test]
fn delete_takes_ranges() {
    let place = Place::new();
    let entries: String = (0..5000).map(|i| format!("k{i:04}\tv\n")).collect();
    place.feed(&["load"], entries.as_bytes()).ok();
    let ran = place.run(&["delete", "--prefix", "k1"]);
    assert_eq!((ran.code, &*ran.stderr), (Some(0), "deleted 1,000 entries\n"));
    assert_eq!(place.text(&["scan", "--count"]), "4000\n");
    place.ok(&["delete", "--from", "k3", "--to", "k4999"]);
    assert_eq!(place.text(&["scan", "--count", "--from", "k3"]), "1\n");
    assert_eq!(place.text(&["scan", "--count"]), "2001\n");
    place.run(&["delete", "a", "--prefix", "b"]).fails(2, &["--prefix", "minikv help delete"]);
    place.run(&["delete"]).fails(2, &["KEY"]);
}

#[test]
fn put_and_delete_compare_the_value_first_if_told_so() {
    let place = Place::new();
    let absent = place.run(&["put", "k", "1", "--if-value", "0"]);
    absent.fails(5, &["no database in"]);
    assert!(!place.db().exists());
    place.ok(&["put", "k", "1", "--if-absent"]);
    place.run(&["put", "k", "2", "--if-absent"]).fails(1, &["k already has a value"]);
    place.run(&["put", "k", "2", "--if-value", "0"]).fails(1, &["k has another value"]);
    place.run(&["put", "x", "2", "--if-value", "0"]).fails(1, &["x has no value"]);
    assert_eq!(place.text(&["scan"]), "k\t1\n");
    place.ok(&["put", "k", "2", "--if-value", "1", "--sync"]);
    fs::write(place.path("old"), b"32").unwrap();
    let old = format!("@{}", place.path("old").display());
    place.ok(&["put", "k", "33", "--if-value", &old, "--value-format", "hex"]);
    assert_eq!(place.text(&["scan"]), "k\t3\n");

    place.run(&["delete", "k", "--if-value", "2"]).fails(1, &["k has another value"]);
    place.run(&["delete", "x", "--if-value", ""]).fails(1, &["x has no value"]);
    place.feed(&["delete", "k", "--if-value", "-"], b"3").ok();
    assert_eq!(place.text(&["scan", "--count"]), "0\n");
    place.run(&["delete", "a", "b", "--if-value", "1"]).fails(2, &["one KEY"]);
    place.run(&["delete", "--prefix", "a", "--if-value", "1"]).fails(2, &["--if-value"]);
    place.run(&["put", "a", "-", "--if-value", "-"]).fails(2, &["stdin"]);
    place.run(&["put", "a", "1", "--if-value", "-", "--if-absent"]).fails(2, &["--if-absent"]);
}

#[test]
fn destroy_of_no_database_is_an_error_and_removes_nothing() {
    let place = Place::new();
    place.run(&["destroy", "--yes"]).fails(5, &["no database in", "--db"]);
    fs::create_dir(place.db()).unwrap();
    fs::write(place.db().join("000007.log"), b"mine").unwrap();
    place.run(&["destroy", "--yes"]).fails(5, &["no database in"]);
    assert_eq!(fs::read(place.db().join("000007.log")).unwrap(), b"mine");
    // The remains of an interrupted destroy can be destroyed.
    fs::write(place.db().join("LOCK"), b"").unwrap();
    place.ok(&["destroy", "--yes"]);
    assert!(!place.db().exists());
}

#[test]
fn options_out_of_bounds_are_refused_by_the_name_that_was_typed() {
    let place = Place::new();
    let bad: [(&[&str], &[&str]); 6] = [
        (&["--bloom-bits", "1000"], &["--bloom-bits", "0..=64"]),
        (&["--bloom-bits", "0", "--filter-layout", "table"], &["--bloom-bits", "--filter-layout"]),
        (&["--block-size", "0"], &["--block-size", "1 byte"]),
        (&["--block-size", "1GiB"], &["--block-size", "64 MiB"]),
        (&["--write-buffer", "1"], &["--write-buffer", "4 KiB"]),
        (&["--write-buffer", "2GiB"], &["--write-buffer", "1 GiB"]),
    ];
    for (args, words) in bad {
        place.run(&[&["put", "a", "b"], args].concat()).fails(2, words);
    }
    assert!(!place.db().exists());
    let nested = place.path("a/b/c.db");
    let ran = run(minikv().arg("--db").arg(&nested).args(["put", "a", "b"]), b"");
    ran.fails(5, &["c.db", "a/b", "check the path"]);
    assert!(!place.path("a").exists(), "only the last directory is made");
}

#[test]
fn numbers_out_of_bounds_are_refused_before_anything_is_measured() {
    let bad: [(&[&str], &[&str]); 6] = [
        (&["--value-bytes", "18446744073709551615"], &["--value-bytes", "0 bytes to 1 GiB"]),
        (&["--value-bytes", "1073741825"], &["--value-bytes", "0 bytes to 1 GiB"]),
        (&["--lookups", "1000000000000000000"], &["--lookups", "1 to 100000000"]),
        (&["--lookups", "99999999999999999999"], &["--lookups", "1 to 100000000"]),
        (&["--lookups", "0"], &["--lookups", "1 to 100000000"]),
        (&["--scans", "1000000000000000000"], &["--scans", "0..=100000000"]),
    ];
    for (args, words) in bad {
        let args = [&["readamp", "--entries", "10"], args].concat();
        run(minikv().args(args), b"").fails(2, words);
    }
}

#[test]
fn errors_name_no_file_that_the_user_did_not_give() {
    let place = Place::new();
    place.ok(&["put", "a", "b"]);
    let ran = place.run(&["dump", "/no/such/dir/out"]);
    ran.fails(5, &["cannot create /no/such/dir/out: No such file", "check the path"]);
    assert!(!ran.stderr.contains(".minikv-dump"), "{}", ran.stderr);
}

#[test]
fn usage_errors_name_the_page_to_read_and_give_no_far_fetched_tip() {
    let place = Place::new();
    place.run(&["get", "x", "--bogus"]).fails(2, &["--bogus", "try `minikv help get`"]);
    place.run(&["scan", "--limit", "x"]).fails(2, &["try `minikv help scan`"]);
    place.run(&["getz", "x"]).fails(2, &["a similar subcommand exists: 'get'"]);
    for args in [&["nosuch"][..], &["get", "x", "--limit"]] {
        let ran = place.run(args);
        ran.fails(2, &["minikv help"]);
        assert!(!ran.stderr.contains("similar"), "{}", ran.stderr);
    }
}

#[test]
fn a_help_page_shows_the_options_that_concern_the_command() {
    for (command, shows, hides) in [
        ("get", &["--key-format", "--cache-size"][..], &["--block-size", "--bloom-bits"][..]),
        (
            "load",
            &["--block-size", "--write-buffer", "--keep-logs <SIZE>", "--keep-logs-for"],
            &["--cache-size", "--key-format"],
        ),
        ("verify", &["--comparator"], &["--compression", "--cache-size", "--keep-logs"]),
        ("bench", &["--block-size"], &["--keep-logs", "--keep-logs-for"]),
        ("completions", &["zsh"], &["--db", "--bloom-bits"]),
        ("explain", &["--bloom-bits"], &["--block-size"]),
    ] {
        let page = help(&[command, "--help"]);
        for option in shows {
            assert!(page.contains(option), "{command} lacks {option}:\n{page}");
        }
        for option in hides {
            let line = format!("{option} <");
            assert!(!page.contains(&line), "{command} shows {option}:\n{page}");
        }
        assert_eq!(page, help(&["help", command]), "{command}");
    }
    let zstd = help(&["load", "--help"]).contains("zstd");
    assert_eq!(zstd, cfg!(feature = "zstd"), "only builds with zstd offer it");
    // An option that has no effect on a command is still accepted, before or after the command's
    // name.
    let place = Place::new();
    place.ok(&["--compression", "none", "put", "a", "b"]);
    assert_eq!(place.ok(&["get", "a", "--compression", "none"]), b"b");
}

#[test]
fn manual_pages_have_their_sections_and_can_be_installed() {
    let place = Place::new();
    let page = help(&["man"]);
    for section in ["SYNOPSIS", "\"EXIT STATUS\"", "ENVIRONMENT", "FILES", "EXAMPLES"] {
        assert!(page.contains(&format!(".SH {section}\n")), "{section}: {page}");
    }
    let out = place.path("man1");
    run(minikv().args(["man", "--out"]).arg(&out), b"").ok();
    let installed = contents(&out);
    for name in page.split("minikv\\-").skip(1).filter_map(|rest| rest.split_once("(1)")) {
        assert!(installed.contains_key(&format!("minikv-{}.1", name.0)), "{name:?}");
    }
    assert_eq!(installed.len(), 31, "{:?}", installed.keys());
    let put = String::from_utf8(installed["minikv-put.1"].0.clone()).unwrap();
    assert!(put.contains(".TH minikv-put 1") && put.contains("<KEY> <VALUE>"), "{put}");
    assert_eq!(help(&["man", "put"]), put);
    place.run(&["man", "help"]).fails(2, &["help"]);
}

#[test]
fn completions_keep_their_texts_and_offer_fitting_values() {
    let of = |shell| help(&["completions", shell]);
    let zsh = of("zsh");
    assert!(zsh.contains("'--db=[") && zsh.contains(":DIR:_files -/"), "directories for --db");
    assert!(!zsh.contains("xHH"), "no escapes that zsh loses");
    let fish = of("fish");
    let shells = "using_subcommand completions\" -f -a \"bash elvish fish powershell zsh\"";
    assert!(fish.contains(shells), "{fish}");
    assert!(fish.contains("using_subcommand bench\" -f -a \"fillseq"), "{fish}");
    let page = help(&["completions", "--help"]);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(page.contains(&format!("minikv completions {shell} >")), "{shell}: {page}");
    }
}

#[test]
fn readers_say_that_they_saw_a_moment_only_beside_a_writer() {
    let place = Place::new();
    place.ok(&["put", "a", "b"]);
    let commands: [&[&str]; 6] =
        [&["stats"], &["verify"], &["scan"], &["dump"], &["get", "a"], &["explain", "a"]];
    for args in commands {
        assert_eq!(place.run(args).stderr, "", "{args:?}");
    }
    let mut holder = place.hold();
    let before = contents(&place.db());
    for args in commands {
        let ran = place.run(args);
        ran.fails(0, &[&format!("process {} has ", holder.id()), "open for writing"]);
    }
    let json = json_of(&place.ok(&["stats", "--json"]));
    assert_eq!(json["writer"]["process"], holder.id());
    assert_eq!(contents(&place.db()), before);
    // The commands did not take the lock from its holder when they queried it.
    place.run(&["put", "a", "c"]).fails(3, &["LOCK"]);
    drop(holder.stdin.take());
    holder.wait().unwrap();
    assert_eq!(place.run(&["stats"]).stderr, "");
    // `verify` creates no LOCK file in a database without a LOCK file.
    fs::remove_file(place.db().join("LOCK")).unwrap();
    place.ok(&["verify"]);
    assert!(!place.db().join("LOCK").exists());
}

#[test]
fn stats_prints_metrics_for_prometheus() {
    let place = Place::new();
    place.feed(&["load", "--write-buffer", "64KiB"], &many_lines(5000)).ok();
    place.ok(&["compact"]);
    let json = json_of(&place.ok(&["stats", "--json"]));
    let text = place.text(&["stats", "--prometheus"]);
    let db = place.db().display().to_string().replace('\\', r"\\");
    for (level, tables) in [(0, 0), (1, json["tables"].as_array().unwrap().len())] {
        let line = format!("\nminikv_level_tables{{db=\"{db}\",level=\"{level}\"}} {tables}\n");
        assert!(text.contains(&line), "{line} {text}");
    }
    assert!(text.contains(&format!("\nminikv_expired_tables{{db=\"{db}\"}} 0\n")), "{text}");
    assert!(text.starts_with("# HELP minikv_") && text.ends_with('\n'), "{text}");
    place.run(&["stats", "--prometheus", "--json"]).fails(2, &["cannot be used with"]);
}

#[test]
fn stats_lists_tables_with_their_keys_and_counts_nothing_of_its_own() {
    let place = Place::new();
    place.feed(&["load", "--write-buffer", "64KiB"], &many_lines(5000)).ok();
    place.ok(&["compact"]);
    place.feed(&["batch"], b"put\tx\t1\ncommit\nput\ty\t2\ncommit\n").ok();
    let json = json_of(&place.ok(&["stats", "--json"]));
    assert_eq!(json["logs"]["batches"], 2);
    let tables = json["tables"].as_array().unwrap();
    assert_eq!(tables[0]["from"], "key 0000");
    assert_eq!(tables.last().unwrap()["to"], "key 4999");
    assert!(json.get("reads").is_none() && json.get("block_cache").is_none(), "{json}");
    let text = place.text(&["stats", "--tables"]);
    assert!(text.contains("\"key 0000\" .. "), "{text}");
    assert!(text.ends_with(": 2 batches not in a table yet\n"), "{text}");
    assert!(!text.contains("memtables") && !text.contains("open tables"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn compact_reports_its_work() {
    let place = Place::new();
    place.ok(&["put", "key", "value"]);
    let ran = place.run(&["compact"]);
    assert_eq!(ran.code, Some(0));
    assert!(ran.stderr.starts_with("compacted: no tables before, 1 table of "), "{}", ran.stderr);
    assert_eq!(ran.stdout, b"");
    let json = json_of(&place.ok(&["compact", "--json"]));
    assert_eq!((&json["before"]["tables"], &json["after"]["tables"]), (&1.into(), &1.into()));
}

#[test]
fn an_unknown_order_of_keys_can_be_ignored_by_reading_the_files() {
    let place = of_unknown_order();
    let before = contents(&place.db());
    let sorted = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(str::to_string).collect();
        // `expected.tsv` contains hashes of long values, so lines with long values are not
        // compared.
        lines.retain(|line| line.len() < 4000);
        lines.sort();
        lines
    };
    let expected = fs::read_to_string(place.path("expected.tsv")).unwrap();
    let ignoring = |args: &[&str]| place.run(&[&["--comparator", "ignore"], args].concat());
    let dump = String::from_utf8(ignoring(&["dump", "--format", "hex"]).ok()).unwrap();
    let known: Vec<_> = sorted(&expected).into_iter().filter(|l| !l.contains('#')).collect();
    let dumped = sorted(&dump);
    assert!(known.iter().all(|line| dumped.contains(line)) && known.len() > 900);
    assert_eq!(dump.lines().count(), expected.lines().count());
    assert_eq!(ignoring(&["scan", "--count"]).ok(), b"988\n");
    assert_eq!(ignoring(&["scan", "--limit", "2"]).ok().split(|b| *b == b'\n').count(), 3);
    let said = String::from_utf8(ignoring(&["verify"]).ok()).unwrap();
    assert!(said.ends_with(": no fault\n"), "{said}");
    ignoring(&["stats"]).ok();
    for args in [&["get", "a"][..], &["put", "a", "b"], &["compact"], &["explain", "a"]] {
        ignoring(args).fails(2, &["--comparator ignore"]);
    }
    ignoring(&["scan", "--reverse"]).fails(2, &["order"]);
    place.run(&["verify"]).fails(6, &["acme_cmp", "--comparator ignore"]);
    assert_eq!(contents(&place.db()), before);

    // `dump` shows the newest entry of a key, wherever older entries are stored.
    let place = Place::new();
    place.feed(&["load"], b"a\told\nb\tgone\nc\tkept\n").ok();
    place.ok(&["compact"]);
    place.ok(&["put", "a", "new"]);
    place.ok(&["delete", "b"]);
    let dump = place.text(&["--comparator", "ignore", "dump"]);
    assert_eq!(sorted(&dump), ["a\tnew", "c\tkept"]);
    place.ok(&["--comparator", "ignore", "verify"]);
    let table = file_of(&place, ".ldb");
    let mut bytes = fs::read(&table).unwrap();
    bytes[3] ^= 1;
    fs::write(&table, bytes).unwrap();
    let ran = place.run(&["--comparator", "ignore", "verify"]);
    ran.fails(1, &["1 fault"]);
    assert!(String::from_utf8(ran.stdout).unwrap().contains(".ldb at offset 0: block checksum"));
}

#[test]
fn batch_takes_json_lines() {
    let place = Place::new();
    let lines = b"{\"put\":\"a\",\"value\":{\"base64\":\"/w==\"}}\n{\"commit\":true}\n\
                  {\"delete\":\"a\"}\n{\"put\":\"b\",\"value\":\"2\"}\n";
    let out = place.feed(&["batch", "--format", "json"], lines).ok();
    assert_eq!(String::from_utf8(out).unwrap(), "committed 1\ncommitted 2\n");
    assert_eq!(place.text(&["scan"]), "b\t2\n");
    let ran = place.feed(&["batch", "--format", "json"], b"{\"set\":1}\n");
    ran.fails(2, &["stdin line 1", "{\"delete\":KEY}"]);
}

#[test]
fn an_empty_log_has_no_sequences_and_a_tale_of_one_is_singular() {
    let place = Place::new();
    place.feed(&["batch"], b"").ok();
    let log = file_of(&place, ".log");
    let text = place.text(&["inspect", log.to_str().unwrap()]);
    assert!(!text.contains("sequences ") && text.contains("next sequence 1"), "{text}");
}

#[test]
fn a_missing_parent_directory_is_reported_before_work_begins() {
    let place = Place::new();
    place.ok(&["put", "a", "1"]);
    let missing = place.path("missing");
    let dest = missing.join("dest").to_str().unwrap().to_string();
    let words = ["there is no directory", missing.to_str().unwrap()];
    place.run(&["checkpoint", &dest]).fails(5, &words);
    for command in ["bench", "demo"] {
        let ran = run(minikv().args(["--db", &dest, command]), b"");
        assert!(ran.stdout.is_empty(), "{command} has begun");
        ran.fails(5, &words);
    }
    assert!(!missing.exists());
}

#[test]
fn a_keyspace_has_keys_of_its_own() {
    let place = Place::new();
    let in_users = |args: &[&str]| {
        let (command, rest) = args.split_first().unwrap();
        place.run(&[&[*command, "--keyspace", "users"], rest].concat())
    };
    place.ok(&["put", "ann", "plain"]);
    in_users(&["put", "ann", "Ann Lee"]).ok();
    assert_eq!(place.ok(&["get", "ann"]), b"plain");
    assert_eq!(in_users(&["get", "ann"]).ok(), b"Ann Lee");
    in_users(&["get", "bob"]).fails(1, &["key not found: bob"]);
    let operations = b"put\tbob\tBob\nput\tcid\tCid\ndelete\tann\n";
    assert_eq!(place.feed(&["batch", "--keyspace=users"], operations).ok(), b"committed 3\n");
    assert_eq!(in_users(&["scan"]).ok(), b"bob\tBob\ncid\tCid\n");
    assert_eq!(in_users(&["scan", "--reverse", "--limit=1"]).ok(), b"cid\tCid\n");
    assert_eq!(in_users(&["scan", "--from", "c", "--keys-only"]).ok(), b"cid\n");
    assert_eq!(in_users(&["scan", "--prefix", "b", "--count"]).ok(), b"1\n");
    assert_eq!(place.ok(&["get", "\\xff\\xfeks\\x05usersbob"]), b"Bob");
    in_users(&["put", "bob", "x", "--if-absent"]).fails(1, &["bob already has a value"]);
    in_users(&["put", "dan", "Dan", "--if-absent"]).ok();
    in_users(&["delete", "dan", "--if-value", "Bob"]).fails(1, &["dan has another value"]);
    in_users(&["delete", "dan", "--if-value", "Dan"]).ok();
    let explained = String::from_utf8(in_users(&["explain", "bob"]).ok()).unwrap();
    assert!(explained.contains("usersbob\""), "{explained}");
    assert_eq!(in_users(&["explain", "ann"]).code, Some(1));
    // A dump of one keyspace can be loaded into another. A dump of everything contains all
    // keyspaces.
    let dump = in_users(&["dump"]).ok();
    assert_eq!(dump, b"bob\tBob\ncid\tCid\n");
    place.feed(&["load", "--keyspace", "copy \\\\ of"], &dump).ok();
    assert_eq!(place.ok(&["dump", "--keyspace", "copy \\\\ of"]), dump);
    assert_eq!(place.text(&["dump"]).lines().count(), 5);
    for option in ["--sorted", "--sort"] {
        place.feed(&["load", option, "--keyspace", "tables"], &dump).ok();
        assert_eq!(place.ok(&["dump", "--keyspace", "tables"]), dump);
        place.ok(&["delete", "--keyspace", "tables", "--prefix", ""]);
    }
    place.ok(&["compact"]);
    let listed = place.text(&["keyspaces"]);
    let words: Vec<&str> = listed.split_whitespace().collect();
    assert_eq!(words[..2], ["keyspace", "size"]);
    assert!(words.contains(&"users") && listed.contains("copy \\\\ of"), "{listed}");
    let json = json_of(&place.ok(&["keyspaces", "--json"]));
    let names: Vec<_> = json["keyspaces"].as_array().unwrap().iter().collect();
    assert_eq!((&names[0]["name"], &names[1]["name"]), (&"copy \\ of".into(), &"users".into()));
    assert!(names[1]["bytes"].as_u64().is_some());
    in_users(&["delete", "bob"]).ok();
    in_users(&["delete", "--prefix", ""]).ok();
    assert_eq!(place.text(&["scan", "--to", "\\xff"]), "ann\tplain\n");
    assert!(!place.text(&["keyspaces"]).contains("users"));
}

#[test]
fn values_of_an_expiring_keyspace_expire() {
    let place = Place::new();
    let within = |args: &[&str]| place.run(&[args, &["--keyspace", "s", "--expiring"]].concat());
    place.ok(&["put", "--keyspace", "s", "--ttl", "1h", "ann", "A"]);
    place.ok(&["put", "--keyspace", "s", "--ttl", "0", "bob", "B"]);
    place.ok(&["put", "--keyspace", "s", "--ttl", "1h", "--if-absent", "bob", "B2"]);
    within(&["put", "cid", "C"]).ok();
    assert_eq!(within(&["scan"]).ok(), b"ann\tA\nbob\tB2\ncid\tC\n");
    place.ok(&["put", "--keyspace", "s", "--ttl", "0s", "bob", "B3"]);
    assert_eq!(within(&["get", "ann"]).ok(), b"A");
    within(&["get", "bob"]).fails(1, &["bob"]);
    assert_eq!(within(&["dump"]).ok(), b"ann\tA\ncid\tC\n");
    // Without --expiring, the keyspace is found, too.
    assert_eq!(place.text(&["scan", "--keyspace", "s"]), "ann\tA\ncid\tC\n");
    place.ok(&["put", "--keyspace", "s", "ann", "A"]);
    assert_eq!(within(&["dump"]).ok(), b"ann\tA\ncid\tC\n");
    place.ok(&["put", "--keyspace", "ordinary", "a", "b"]);
    let refused = "has entries that do not expire";
    place.run(&["scan", "--keyspace", "ordinary", "--expiring"]).fails(2, &[refused]);
    place.run(&["put", "--keyspace", "ordinary", "--ttl", "1h", "a", "b"]).fails(2, &[refused]);
    place.ok(&["delete", "--keyspace", "ordinary", "a"]);
    // Earlier builds made another keyspace with the same name.
    place.ok(&["put", "\\xff\\xfeks\\x01sann", "ordinary"]);
    assert_eq!(place.text(&["scan", "--keyspace", "s"]), "ann\tordinary\n");
    let listed = place.text(&["keyspaces"]);
    let words: Vec<&str> = listed.split_whitespace().collect();
    assert_eq!(words[..3], ["keyspace", "kind", "size"], "{listed}");
    assert!(words.contains(&"ordinary") && words.contains(&"expiring"), "{listed}");
    let json = json_of(&place.ok(&["keyspaces", "--json"]));
    assert_eq!(
        (&json["keyspaces"][0]["expiring"], &json["keyspaces"][1]["expiring"]),
        (&false.into(), &true.into(),)
    );
    // Loading a dump of everything restores the expiry times.
    let dump = place.ok(&["dump"]);
    let copy = Place::new();
    copy.feed(&["load"], &dump).ok();
    assert_eq!(copy.ok(&["scan", "--keyspace", "s", "--expiring"]), within(&["scan"]).ok());
    within(&["delete", "ann"]).ok();
    assert_eq!(within(&["scan", "--count"]).ok(), b"1\n");
    place.run(&["put", "--ttl", "1h", "a", "b"]).fails(2, &["--keyspace"]);
    place.run(&["put", "--keyspace", "s", "--ttl", "soon", "a", "b"]).fails(2, &["soon"]);
    place.run(&["scan", "--expiring"]).fails(2, &["--keyspace"]);
}

#[test]
fn wrong_keyspace_names_and_commands_without_keyspaces_are_refused() {
    let place = Place::new();
    for (name, what) in [("", "not 0"), (&"n".repeat(256), "not 256"), ("\\q", "\\q")] {
        let ran = place.run(&["put", "--keyspace", name, "a", "b"]);
        ran.fails(2, &["--keyspace", what]);
    }
    assert!(!place.db().exists(), "nothing was created");
    place.ok(&["put", "--keyspace", &"n".repeat(255), "a", "b"]);
    let ran = place.run(&["scan", "--comparator", "ignore", "--keyspace", "n"]);
    ran.fails(2, &["--keyspace", "--comparator"]);
    for command in ["destroy", "compact", "verify", "stats"] {
        place.run(&[command, "--keyspace", "n"]).fails(2, &["--keyspace"]);
    }
    assert_eq!(place.text(&["scan", "--count"]), "1\n");
}

#[test]
fn watch_prints_commits_in_the_form_that_batch_reads() {
    let place = Place::new();
    place.ok(&["put", "before", "1"]);
    let mut watch = place.command(&["watch", "--interval", "5"]);
    let mut watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut line = || lines.next().unwrap().unwrap();
    // The first put may be committed before `watch` begins. The last put is committed later.
    let mut batch = place.command(&["batch"]);
    let mut batch = batch.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut acked = BufReader::new(batch.stdout.take().unwrap()).lines();
    let mut write = |text: &str| {
        batch.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
        acked.next().unwrap().unwrap();
    };
    let mut number = 0;
    let seen = loop {
        number += 1;
        write(&format!("put\tkey\t{number}\ncommit\n"));
        std::thread::sleep(std::time::Duration::from_millis(300));
        // `watch` prints every put after the first put that it sees, without a gap.
        if number == 3 {
            break line();
        }
    };
    let first: u32 = seen.strip_prefix("put\tkey\t").unwrap().parse().unwrap();
    assert_eq!(line(), "commit");
    for number in first + 1..=3 {
        assert_eq!((line(), line()), (format!("put\tkey\t{number}"), "commit".to_owned()));
    }
    write("put\ta\\x00b\tcaf\\xc3\\xa9\ndelete\tkey\ncommit\n");
    assert_eq!(line(), "put\ta\\x00b\tcaf\\xc3\\xa9");
    assert_eq!((line(), line()), ("delete\tkey".to_owned(), "commit".to_owned()));
    watch.kill().unwrap();
    watch.wait().unwrap();
    drop(batch.stdin.take());
    batch.wait().unwrap();

    for format in FORMATS {
        let args = ["--format", format, "watch", "--since", "0", "--once"];
        let changes = place.ok(&args);
        let copy = place.path(&format!("copy of {format}"));
        let mut command = minikv();
        command.arg("--db").arg(&copy).args(["--format", format, "batch"]);
        assert_eq!(
            run(&mut command, &changes).ok(),
            b"committed 1\n".repeat(4).into_iter().chain(*b"committed 2\n").collect::<Vec<_>>()
        );
        let mut command = minikv();
        let copied = run(command.arg("--db").arg(&copy).arg("dump"), b"").ok();
        assert_eq!(copied, place.ok(&["dump"]));
    }
    let all = place.ok(&["watch", "--since", "0", "--once"]);
    for keep in [["--keep-logs", "1MiB"], ["--keep-logs-for", "1h"]] {
        place.ok(&["compact", keep[0], keep[1]]);
        assert_eq!(place.ok(&["watch", "--since", "0", "--once"]), all, "{keep:?}");
    }
    place.ok(&["compact"]);
    let lost = place.run(&["watch", "--since", "1", "--once"]);
    lost.fails(5, &["after sequence number 1", "no log"]);
}

/// Waits until the writer of a pipe that nobody reads has filled it.
fn wait_until_full(pipe: &ChildStdout) {
    let mut before = 0;
    for _ in 0..300 {
        std::thread::sleep(Duration::from_millis(100));
        match unread_bytes(pipe).unwrap() {
            bytes if bytes > 0 && bytes == before => return,
            bytes => before = bytes,
        }
    }
    panic!("{before} bytes, and more");
}

#[test]
fn an_interrupted_watch_prints_no_part_of_a_batch() {
    const OPERATIONS: usize = 50_000;
    let place = Place::new();
    let puts = (0..OPERATIONS).map(|i| format!("put\tkey {i:05}\tvalue {i:05}\n"));
    let puts: String = puts.collect();
    place.feed(&["batch", "--write-buffer", "64MiB"], puts.as_bytes()).ok();
    let mut command = place.command(&["watch", "--since", "0"]);
    let mut watch = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = watch.stdout.take().unwrap();
    wait_until_full(&stdout);
    interrupt(&watch, Interrupt::ByProgram).unwrap();
    let mut text = String::new();
    stdout.read_to_string(&mut text).unwrap();
    let output = watch.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(text == puts + "commit\n", "{} bytes: ...{:?}", text.len(), text.lines().last());
    let said = String::from_utf8(output.stderr).unwrap();
    let next = format!("minikv: interrupted; continue with `minikv watch --since {OPERATIONS}`\n");
    assert_eq!(said, next);
}

/// Returns the newest log in a directory that has a record. A writer creates logs ahead of their
/// use.
fn newest_begun_log(dir: &Path) -> PathBuf {
    let is_begun = |path: &PathBuf| {
        let mut header = [0; 7];
        let read = File::open(path).and_then(|mut log| log.read_exact(&mut header));
        read.is_ok() && header != [0; 7]
    };
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let logs = files.filter(|path| path.extension().is_some_and(|end| end == "log"));
    logs.filter(is_begun).max().unwrap()
}

#[test]
fn a_log_to_which_a_writer_appends_is_not_called_damaged() {
    let place = Place::new();
    let mut command = place.command(&["batch"]);
    let mut writer = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let (mut pipe, fed) = (writer.stdin.take().unwrap(), Arc::new(AtomicUsize::new(0)));
    let counter = fed.clone();
    let feeder = std::thread::spawn(move || {
        for i in 0u64.. {
            let lines: String = (0..100).map(|j| format!("put\tk{i} {j}\tv\ncommit\n")).collect();
            if pipe.write_all(lines.as_bytes()).is_err() {
                break;
            }
            counter.fetch_add(lines.len(), Ordering::Relaxed);
        }
    });
    // A pipe holds 64 KiB.
    while fed.load(Ordering::Relaxed) < 200 << 10 && !feeder.is_finished() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let (began, mut rounds, mut wrong) = (Instant::now(), 0, Vec::new());
    while rounds < 30 && (rounds < 3 || began.elapsed() < Duration::from_secs(20)) {
        rounds += 1;
        let log = newest_begun_log(&place.db());
        let inspected = place.run(&["inspect", log.to_str().unwrap()]);
        let is_gone = inspected.code == Some(5) && !log.exists();
        if inspected.code != Some(0) && !is_gone {
            wrong.push(inspected.stderr);
        }
        for args in [&["stats"][..], &["tree"], &["--comparator", "ignore", "verify"]] {
            let ran = place.run(args);
            let said = ran.stderr + &String::from_utf8(ran.stdout).unwrap();
            wrong.extend(said.contains(".log at offset ").then_some(said));
        }
    }
    writer.kill().unwrap();
    writer.wait().unwrap();
    feeder.join().unwrap();
    assert!(wrong.is_empty(), "{} of {rounds} rounds: {wrong:#?}", wrong.len());
}

#[test]
fn a_scan_on_several_threads_prints_the_same() {
    let place = Place::new();
    let options = Options::default().create_if_missing(true).compression(minikv::Compression::None);
    let db = Db::open(place.db(), options).unwrap();
    let value = |number: u64| format!("{number} ").repeat(120);
    for number in 0..12_000u64 {
        db.put(format!("{:05}", number * 7919 % 12_000), value(number)).unwrap();
    }
    db.compact_range(..).unwrap();
    // These writes are in level 0 and in the log.
    for number in (0..12_000).step_by(5) {
        db.delete(format!("{number:05}")).unwrap();
        db.put(format!("{number:05}+"), "new").unwrap();
    }
    db.close().unwrap();
    let scans: [&[&str]; 10] = [
        &[],
        &["--reverse"],
        &["--format", "json", "--key-format", "hex", "--from", "3032", "--to", "3131"],
        &["--prefix", "03", "--keys-only"],
        &["--prefix", "03", "--reverse", "--limit", "500"],
        &["--limit", "9000", "--format", "hex"],
        &["--limit", "0"],
        &["--count"],
        &["--count", "--limit", "9000"],
        &["--from", "99999"],
    ];
    for args in scans {
        let wanted = place.ok(&[&["scan"], args].concat());
        for threads in ["1", "2", "5"] {
            let ran = place.ok(&[&["scan", "--threads", threads], args].concat());
            assert!(ran == wanted, "{args:?} on {threads}: {} bytes", ran.len());
        }
    }
    place.run(&["scan", "--threads", "0"]).fails(2, &["--threads"]);
    place.run(&["scan", "--threads", "2", "--keyspace", "a"]).fails(2, &["--keyspace"]);
    place.run(&["scan", "--threads", "2", "--comparator", "ignore"]).fails(2, &["--threads"]);

    // If stdout is a pipe that is closed, the scan ends without a message.
    let mut command = place.command(&["scan", "--threads", "2"]);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("00000+\tnew"), "{line}");
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), &ended.stderr[..]), (Some(0), &b""[..]));

    // A scan on several threads reports damage at the same entry as a scan on one thread.
    let table = largest_table(&place);
    let mut bytes = fs::read(&table).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&table, bytes).unwrap();
    for args in [&["scan"][..], &["scan", "--reverse"]] {
        let wanted = place.run(args);
        wanted.fails(4, &["checksum"]);
        let ran = place.run(&[args, &["--threads", "3"]].concat());
        assert_eq!((ran.code, &ran.stderr), (wanted.code, &wanted.stderr));
        assert!(ran.stdout == wanted.stdout && !ran.stdout.is_empty(), "{}", ran.stdout.len());
    }
}

fn largest_table(place: &Place) -> PathBuf {
    let files = fs::read_dir(place.db()).unwrap().map(|entry| entry.unwrap().path());
    let tables = files.filter(|path| path.extension().is_some_and(|ext| ext == "ldb"));
    tables.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap()
}
