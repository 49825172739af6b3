//! Tests of how the database is named, and of how entries are searched, summed up, compared, and
//! written in several formats.

use serde_json::{Value, json};

use super::*;

fn json_of(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

/// Runs a command with the directory of the database as its argument, and not as `--db`.
fn with_dir(place: &Place, args: &[&str]) -> Ran {
    run(minikv().args(args).arg(place.db()), b"")
}

/// Returns a place with a database of these entries.
fn holding(entries: &[(&str, &str)]) -> Place {
    let place = Place::new();
    let lines: String = entries.iter().map(|(key, value)| format!("{key}\t{value}\n")).collect();
    place.feed(&["load"], lines.as_bytes()).ok();
    place
}

#[test]
fn commands_without_keys_take_the_directory_as_an_argument() {
    let place = holding(&[("a", "1"), ("b", "2")]);
    let readers: [&[&str]; 8] = [
        &["scan"],
        &["stats"],
        &["stats", "--by-prefix"],
        &["stats", "--prometheus"],
        &["tree"],
        &["verify"],
        &["keyspaces"],
        &["top", "--count", "1", "--plain"],
    ];
    for args in readers {
        let by_option = place.run(args);
        let by_argument = with_dir(&place, args);
        assert_eq!(by_argument.code, Some(0), "{args:?}: {}", by_argument.stderr);
        if args[0] != "top" && args.last() != Some(&"--prometheus") {
            assert_eq!(by_argument.stdout, by_option.stdout, "{args:?}");
        }
    }
    with_dir(&place, &["watch", "--once"]).ok();
    with_dir(&place, &["compact"]).ok();
    with_dir(&place, &["readamp", "--lookups", "100"]).ok();
    with_dir(&place, &["repair", "--dry-run"]).ok();
    with_dir(&place, &["destroy", "--yes"]).ok();
    assert!(!place.db().exists());
}

#[test]
fn an_argument_wins_over_the_environment_but_must_agree_with_the_option() {
    let (place, other) = (holding(&[("a", "1")]), holding(&[("b", "2")]));
    let scan = |command: &mut Command| run(command.arg("scan").arg(place.db()), b"");
    assert_eq!(scan(minikv().env("MINIKV_DB", other.db())).ok(), b"a\t1\n");
    assert_eq!(scan(&mut place.command::<&str>(&[])).ok(), b"a\t1\n");
    let detour = place.db().join("..").join("db");
    assert_eq!(scan(minikv().arg("--db").arg(detour)).ok(), b"a\t1\n");
    let refused = scan(&mut other.command::<&str>(&[]));
    let [given, named] = [&place, &other].map(|place| place.db().display().to_string());
    refused.fails(2, &[&format!("DIR is {given}, but --db is {named}"), "give one of them"]);
    // A name of a directory is not the name of a file to write.
    let dir = place.db().display().to_string();
    place.run(&["dump", &dir]).fails(2, &["is a directory", &format!("--db {dir}")]);
}

#[test]
fn readamp_refuses_options_that_a_database_would_ignore() {
    let place = holding(&[("a", "1")]);
    let options: [&[&str]; 6] = [
        &["--write-buffer", "64KiB"],
        &["--block-size", "1KiB"],
        &["--compression", "none"],
        &["--value-bytes", "10"],
        &["--filter-layout", "table"],
        &["--plain-logs"],
    ];
    for option in options {
        let args = [&["readamp", "--lookups", "10"], option].concat();
        let refused = place.run(&args);
        refused.fails(2, &[option[0], "as it is"]);
        let mut by_environment = minikv();
        by_environment.env("MINIKV_DB", place.db()).args(&args);
        run(&mut by_environment, b"").fails(2, &[option[0], "`MINIKV_DB= minikv readamp`"]);
        // New data takes its shape from them, whatever the environment names.
        run(by_environment.args(["--entries", "50"]), b"").ok();
    }
}

#[test]
fn scan_finds_entries_by_a_pattern() {
    let entries =
        [("ann", "Ann Lee"), ("bob", "Bob"), ("cat", "of ann"), ("dan\\xff", "\\xfe\\x0a")];
    let place = holding(&entries);
    let keys = |args: &[&str]| {
        let text = place.text(&[&["scan", "--keys-only"], args].concat());
        text.lines().map(str::to_string).collect::<Vec<_>>()
    };
    assert_eq!(keys(&["--grep", "ann"]), ["ann", "cat"]);
    assert_eq!(keys(&["--grep", "ann", "--grep-in", "keys"]), ["ann"]);
    assert_eq!(keys(&["--grep", "ann", "--grep-in", "values"]), ["cat"]);
    assert_eq!(keys(&["--grep", "(?i)ANN", "-r"]), ["cat", "ann"]);
    assert_eq!(keys(&["--grep", "(?i)ann", "-n", "1", "--reverse"]), ["cat"]);
    assert_eq!(keys(&["--grep", r"(?-u)\xff$"]), ["dan\\xff"]);
    assert_eq!(keys(&["--grep", "^b", "--threads", "4", "--prefix", "b"]), ["bob"]);
    assert_eq!(place.text(&["scan", "--grep", "[ab]{2}|o", "--count"]), "2\n");
    assert_eq!(keys(&["--grep", "nothing"]), [""; 0]);
    place.run(&["scan", "--grep", "("]).fails(2, &["--grep", "unclosed group"]);
    place.run(&["scan", "--grep-in", "keys"]).fails(2, &["--grep"]);
    assert_eq!(place.text(&["scan", "-n", "1", "-r", "--format=hex"]), "64616eff\tfe0a\n");
}

#[test]
fn stats_sums_up_entries_by_prefix() {
    let place = Place::new();
    let mut lines = String::from("none\tx\n");
    for i in 0..30 {
        lines.push_str(&format!("user:{i:02}\t{}\n", "v".repeat(i)));
    }
    lines.push_str("log:a:b\t1\nlog:c\t22\nlog:\\xff\t\n");
    place.feed(&["load"], lines.as_bytes()).ok();
    let json = json_of(&place.ok(&["stats", "--by-prefix", "--json"]));
    let sums = |entries: u64, keys: u64, values: u64, key: u64, value: u64| {
        json!({"entries": entries, "key_bytes": keys, "value_bytes": values,
               "largest_key_bytes": key, "largest_value_bytes": value})
    };
    let mut user = sums(30, 210, 435, 7, 29);
    user["prefix"] = json!("user:");
    let mut log = sums(3, 7 + 5 + 5, 3, 7, 2);
    log["prefix"] = json!("log:");
    assert_eq!(json["prefixes"], json!([user, log]));
    assert_eq!(json["no_prefix"], sums(1, 4, 1, 4, 1));
    assert_eq!(json["all"], sums(34, 231, 439, 7, 29));
    assert_eq!(json["largest_values"][0], json!({"bytes": 29, "key": "user:29"}));
    assert_eq!(json["largest_keys"].as_array().unwrap().len(), 5);

    let text = place.text(&["stats", "--by-prefix", "-n", "1"]);
    let rows: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(rows[1][..2], ["user:", "30"], "{text}");
    assert_eq!(rows[2][..3], ["(1", "other)", "3"], "{text}");
    assert_eq!(rows[3][..3], ["(no", "prefix)", "1"], "{text}");
    assert_eq!(rows[4][..2], ["all", "34"], "{text}");
    let largest = text.split("largest values").nth(1).unwrap();
    assert!(largest.lines().nth(1).unwrap().ends_with("user:29"), "{text}");

    let count = |args: &[&str]| {
        let json = json_of(&place.ok(&[&["stats", "--by-prefix", "--json"], args].concat()));
        json["prefixes"].as_array().unwrap().len()
    };
    assert_eq!(count(&["--prefix-bytes", "6"]), 4, "log:c and log:\\xff are shorter");
    assert_eq!(count(&["--delimiter", "\\x3a"]), 2);
    assert_eq!(count(&["--delimiter", "r:"]), 1);
    place.run(&["stats", "--delimiter", "/"]).fails(2, &["--by-prefix"]);
    place.run(&["stats", "--by-prefix", "--delimiter", ""]).fails(2, &["not empty"]);
    let none = ["--comparator", "ignore", "stats", "--by-prefix"];
    place.run(&none).fails(2, &["byte order"]);
}

#[test]
fn diff_prints_added_removed_and_changed_entries() {
    let a = holding(&[("a", "1"), ("b", "2"), ("c", "3"), ("e\\x00", "5")]);
    let b = holding(&[("a", "1"), ("c", "x"), ("d", "4"), ("e\\x00", "5")]);
    let [a_dir, b_dir] = [&a, &b].map(|place| place.db().display().to_string());
    let diff = |args: &[&str]| run(minikv().arg("diff").args(args), b"");
    let printed = |args: &[&str]| {
        let ran = diff(&[&[&a_dir[..], &b_dir[..]], args].concat());
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(1), ""), "{args:?}");
        String::from_utf8(ran.stdout).unwrap()
    };
    let before = contents(&a.db());
    assert_eq!(printed(&[]), "-\tb\t2\n~\tc\t3\tx\n+\td\t4\n");
    assert_eq!(printed(&["--format", "hex"]), "-\t62\t32\n~\t63\t33\t78\n+\t64\t34\n");
    let lines = [
        json!({"change": "removed", "key": "b", "a": "2"}),
        json!({"change": "changed", "key": "c", "a": "3", "b": "x"}),
        json!({"change": "added", "key": "d", "b": "4"}),
    ];
    for args in [&["--json"][..], &["--format", "json"]] {
        let text = printed(args);
        let read: Vec<_> = text.lines().map(|line| json_of(line.as_bytes())).collect();
        assert_eq!(read, lines);
    }
    let csv = "change,key,a,b\nremoved,b,2,\nchanged,c,3,x\nadded,d,,4\n";
    assert_eq!(printed(&["--format", "csv"]), csv);
    assert_eq!(printed(&["--summary"]), "1 added, 1 removed, 1 changed, 2 equal\n");
    let counts = json!({"added": 1, "removed": 1, "changed": 1, "equal": 2});
    assert_eq!(json_of(printed(&["--summary", "--json"]).as_bytes()), counts);

    let same = diff(&[&a_dir, &a_dir]);
    assert_eq!((same.code, &same.stdout[..]), (Some(0), &b""[..]));
    assert_eq!(contents(&a.db()), before);
    let nowhere = a.path("nowhere").display().to_string();
    diff(&[&a_dir, &nowhere]).fails(5, &[&format!("no database in {nowhere}")]);
    diff(&[&a_dir]).fails(2, &["<B>"]);
}

#[test]
fn the_operations_of_a_diff_turn_one_database_into_the_other() {
    let entries = nasty_entries();
    for format in ENTRY_FORMATS {
        let (a, b) = (Place::new(), Place::new());
        a.feed(&["load"], b"gone\t1\nkept\t1\nkey\told\n").ok();
        b.feed(&["load", "--format", "hex"], hex_lines(&entries).as_bytes()).ok();
        b.feed(&["load"], b"kept\t1\nkey\tnew\n").ok();
        let [a_dir, b_dir] = [&a, &b].map(|place| place.db().display().to_string());
        let args = ["diff", &a_dir, &b_dir, "--batch", "--format", format];
        let ran = run(minikv().args(args), b"");
        assert_eq!(ran.code, Some(1));
        a.feed(&["batch", "--format", format], &ran.stdout).ok();
        assert_eq!(a.ok(&["dump"]), b.ok(&["dump"]), "{format}");
    }
}

#[test]
fn diff_reads_dumps_in_key_order() {
    let place = Place::new();
    place.feed(&["load", "--format", "hex"], hex_lines(&nasty_entries()).as_bytes()).ok();
    let (file, dir) = (place.path("dump").display().to_string(), place.db().display().to_string());
    for format in ENTRY_FORMATS {
        place.ok(&["dump", &file, "--format", format]);
        for sides in [[&dir, &file], [&file, &dir], [&file, &file]] {
            let ran = run(minikv().args(["diff", "--format", format]).args(sides), b"");
            assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{format} {sides:?}");
        }
        let stdin = fs::read(&file).unwrap();
        run(minikv().args(["diff", "--format", format, &dir, "-"]), &stdin).ok();
    }
    let ran = run(minikv().args(["diff", &dir, "-"]), b"b\t1\na\t2\n");
    ran.fails(2, &["stdin line 2", "load such entries"]);
}

#[test]
fn diff_refuses_to_read_one_stream_twice() {
    let place = Place::new();
    for sides in [["-", "-"], ["-", "/dev/stdin"], ["/dev/stdin", "-"]] {
        let ran = run(minikv().arg("diff").args(sides), b"a\t1\n");
        ran.fails(2, &["A and B are the same stream"]);
    }
    run(minikv().args(["diff", "/dev/null", "/dev/null"]), b"").ok();
    place.feed(&["load"], b"a\t1\n").ok();
    let dir = place.db().display().to_string();
    assert_eq!(run(minikv().args(["diff", "-", &dir]), b"a\t1\n").ok(), b"");
}

#[test]
fn endless_input_that_is_no_text_is_refused() {
    let place = Place::new();
    place.ok(&["put", "a", "1"]);
    for format in ENTRY_FORMATS {
        for args in [&["diff", "/dev/zero"][..], &["load", "/dev/zero"], &["batch", "/dev/zero"]] {
            let mut command = place.command(args);
            if args[0] == "diff" {
                command.arg(place.db());
            }
            let ran = run(command.args(["--format", format]), b"");
            ran.fails(2, &["/dev/zero"]);
        }
    }
    let zeros = File::open("/dev/zero").unwrap();
    let output = place.command(&["shell"]).stdin(zeros).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(place.text(&["dump"]), "a\t1\n");
}

#[test]
fn csv_restores_every_entry_and_works_with_other_programs() {
    let place = Place::new();
    let entries = nasty_entries();
    place.feed(&["load", "--format", "hex"], hex_lines(&entries).as_bytes()).ok();
    let csv = place.ok(&["dump", "--format", "csv"]);
    for option in [&[][..], &["--sorted"], &["--sort"]] {
        let copy = Place::new();
        copy.feed(&[&["load", "--format", "csv"], option].concat(), &csv).ok();
        assert_eq!(copy.text(&["dump", "--format", "hex"]), hex_lines(&entries), "{option:?}");
    }

    let place = Place::new();
    let text = "value,key\r\n\"a, \"\"b\"\"\nc\",café\r\nC:\\new,x\r\n";
    place.feed(&["load", "--format", "csv"], text.as_bytes()).ok();
    place.feed(&["put", "z", "-"], b"\xff\0").ok();
    assert_eq!(place.ok(&["get", "x"]), b"C:\\new");
    let scanned = "key,value\ncafé,\"a, \"\"b\"\"\nc\"\nx,C:\\new\nz,base64:/wA=\n";
    assert_eq!(place.text(&["scan", "--format", "csv"]), scanned);
    assert_eq!(place.text(&["scan", "--format=csv", "--keys-only"]), "key\ncafé\nx\nz\n");
    let two = "key,value\ncafé,\"a, \"\"b\"\"\nc\"\nx,C:\\new\n";
    let threads = ["scan", "--format", "csv", "--threads", "4", "-n", "2"];
    assert_eq!(place.text(&threads), two, "an entry of two lines is one");
    assert_eq!(place.text(&["scan", "--format=csv", "--count"]), "3\n");

    let load = |text: &[u8]| place.feed(&["load", "--format", "csv"], text);
    load(b"id,name\n1,a\n").fails(2, &["stdin line 1: the header is not key,value"]);
    load(b"key,value\na,\"1\n2\"\nb\n").fails(2, &["stdin line 4", "kept 1 entry before it"]);
    place.run(&["get", "x", "--format", "csv"]).fails(2, &["'csv'"]);
    place.run(&["--format", "csv", "get", "x"]).fails(2, &["--format csv works with"]);
    place.run(&["scan", "--key-format", "csv"]).fails(2, &["--key-format"]);
}

#[test]
fn batch_takes_csv() {
    let place = Place::new();
    let text = b"operation,key,value\nput,a,\"1,\n\"\nput,b,2\ncommit,,\ndelete,b,\ndelete,c\n";
    let ran = place.feed(&["batch", "--format", "csv"], text);
    assert_eq!(ran.ok(), b"committed 2\ncommitted 2\n");
    assert_eq!(place.text(&["scan"]), "a\t1,\\x0a\n");
    let bad = b"operation,key,value\nput,a,0\ncommit\nput,x,y\nput,z\n";
    let ran = place.feed(&["batch", "--format", "csv"], bad);
    ran.fails(2, &["stdin line 5", "its batch is not applied; kept 1 batch before it"]);
    assert_eq!(place.text(&["scan"]), "a\t0\n");
}

#[test]
fn a_csv_file_with_a_quote_that_is_not_closed_is_not_swallowed() {
    let place = Place::new();
    let unclosed = "stdin line 3: a quote is not closed";
    let text = b"key,value\nx,0\na,\"1\nb,2\nc,3\n";
    for (option, kept) in [
        (&["--sorted"][..], "nothing was loaded"),
        (&["--sort"], "nothing was loaded"),
        (&[], "kept 1 entry before it"),
    ] {
        let args = [&["load", "--format", "csv"], option].concat();
        place.feed(&args, text).fails(2, &[unclosed, kept]);
    }
    assert_eq!(place.text(&["scan"]), "x\t0\n");
    let text = b"operation,key,value\nput,d,4\nput,e,\"5\ncommit\nput,f,6\n";
    place.feed(&["batch", "--format", "csv"], text).fails(2, &[unclosed, "kept 0 batches"]);
    let db = place.db().display().to_string();
    let ran = place.feed(&["diff", "--format", "csv", &db, "-"], b"key,value\nx,0\na,\"1\n");
    ran.fails(2, &[unclosed]);
    assert_eq!(place.text(&["scan"]), "x\t0\n");
}

#[test]
fn any_json_is_a_value() {
    let place = Place::new();
    let lines = "{\"key\":\"a\",\"value\":5}\n{\"key\":\"b\",\"value\":{\"x\": [1, null]}}\n\
                 {\"key\":\"c\",\"value\":\"text\"}\n";
    place.feed(&["load", "--format", "json"], lines.as_bytes()).ok();
    place.feed(&["batch", "--format", "json"], b"{\"put\":\"d\",\"value\":1e999}\n").ok();
    place.ok(&["put", "e", "[true]", "--value-format", "json"]);
    let all = "a\t5\nb\t{\"x\": [1, null]}\nc\ttext\nd\t1e999\ne\t[true]\n";
    assert_eq!(place.text(&["scan"]), all);
    let first = place.text(&["scan", "--format", "json", "-n", "1"]);
    assert_eq!(first, "{\"key\":\"a\",\"value\":\"5\"}\n");
    let values = "{\"key\":\"a\",\"value\":5}\n{\"key\":\"b\",\"value\":{\"x\": [1, null]}}\n\
                  {\"key\":\"c\",\"value\":\"text\"}\n{\"key\":\"d\",\"value\":1e999}\n\
                  {\"key\":\"e\",\"value\":[true]}\n";
    assert_eq!(place.text(&["scan", "--format", "json", "--json-values"]), values);
    assert_eq!(place.text(&["dump", "--format", "json", "--json-values"]), values);
    let copy = Place::new();
    copy.feed(&["load", "--format", "json"], values.as_bytes()).ok();
    assert_eq!(copy.text(&["scan"]), all);
    place.run(&["dump", "--json-values"]).fails(2, &["--format json"]);
}

#[test]
fn a_terminal_shows_unicode_as_text_and_a_pipe_gets_ascii() {
    let place = Place::new();
    let value = "日本語 हिन्दी \u{202e}x".as_bytes();
    place.feed(&["put", "café", "-"], &[value, b"\xff\t"].concat()).ok();
    let escaped: String = place.text(&["scan"]);
    assert!(escaped.is_ascii() && escaped.starts_with("caf\\xc3\\xa9\t\\xe6"), "{escaped}");
    let on_terminal = |args: &[&str]| run_on_terminal(&mut place.command(args), "").1;
    let shown = "日本語 हिन्दी \\xe2\\x80\\xaex\\xff\\x09";
    assert_eq!(on_terminal(&["get", "café"]), format!("{shown}\r\n"));
    // The terminal expands the tab.
    let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let entry = format!("café {shown}");
    assert_eq!(line(&on_terminal(&["scan"])), entry);
    assert!(line(&on_terminal(&["dump"])).ends_with(&entry), "after its progress");
    let given = on_terminal(&["scan", "--format", "escaped"]);
    assert_eq!(line(&given), line(&escaped), "a format that is given is exact");
    place.ok(&["compact"]);
    assert!(on_terminal(&["stats", "--tables"]).contains("\"café\""));
    assert!(on_terminal(&["tree"]).contains("café"));
    assert!(!place.text(&["stats", "--tables"]).contains("café"));
    assert!(on_terminal(&["stats", "--by-prefix", "--delimiter", "é"]).contains("\ncafé "));
}

#[test]
fn keys_and_differences_have_colours_on_a_terminal_that_wants_them() {
    let (a, b) = (holding(&[("k", "1"), ("l", "1")]), holding(&[("k", "2"), ("m", "1")]));
    let coloured = |command: &mut Command| {
        run_on_terminal(command.env_remove("NO_COLOR").env("TERM", "xterm"), "").1
    };
    let scanned = coloured(&mut a.command(&["scan"]));
    assert!(scanned.starts_with("\x1b[36mk\x1b[0m"), "{scanned:?}");
    let diff = || {
        let mut command = minikv();
        command.arg("diff").arg(a.db()).arg(b.db());
        command
    };
    let shown = coloured(&mut diff());
    for mark in ["\x1b[33m~\x1b[0m", "\x1b[31m-\x1b[0m", "\x1b[32m+\x1b[0m"] {
        assert!(shown.contains(mark), "{shown:?}");
    }
    let (_, plain) = run_on_terminal(&mut diff(), "");
    assert!(plain.contains('~') && !plain.contains('\x1b'), "NO_COLOR: {plain:?}");
    let (_, dumb) = run_on_terminal(diff().env_remove("NO_COLOR").env("TERM", "dumb"), "");
    assert!(!dumb.contains('\x1b'), "{dumb:?}");
    let piped = run(diff().env_remove("NO_COLOR").env("TERM", "xterm"), b"");
    assert!(!piped.stdout.contains(&0x1b));
}

#[test]
fn names_and_arguments_are_of_any_script() {
    let place = Place::new();
    let (db, file) = (place.path("ключи 鍵 🔑"), place.path("список é.tsv"));
    let on_db = |args: &[&str]| run(minikv().arg("--db").arg(&db).args(args), b"").ok();
    on_db(&["put", "ключ", "日本語 🔑"]);
    on_db(&["put", "--format=hex", "c3a9ff", "00"]);
    assert_eq!(on_db(&["get", "ключ"]), "日本語 🔑".as_bytes());
    assert_eq!(on_db(&["get", "é\\xff"]), b"00");
    on_db(&["dump", file.to_str().unwrap()]);
    let other = place.path("другой");
    run(minikv().arg("--db").arg(&other).arg("load").arg(&file), b"").ok();
    assert_eq!(run(minikv().arg("diff").args([&db, &other]), b"").ok(), b"");
    let missing = run(minikv().arg("--db").arg(place.path("нет")).args(["get", "a"]), b"");
    missing.fails(5, &["нет"]);
}
