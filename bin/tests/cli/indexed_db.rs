//! Tests of databases of Chromium's IndexedDB, whose comparator the command knows.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use super::*;

/// Returns the lines of a command's output.
fn lines(place: &Place, args: &[&str]) -> Vec<String> {
    place.text(args).lines().map(str::to_string).collect()
}

#[test]
fn an_indexed_db_is_read_in_its_own_order() {
    let place = fixture("chromium/indexeddb");
    let before = contents(&place.db());
    let expected = fs::read_to_string(place.path("expected.tsv")).unwrap();
    let mut keys: Vec<_> = expected.lines().map(|line| line.split('\t').next().unwrap()).collect();
    let scanned = lines(&place, &["scan", "--keys-only", "--format", "hex"]);
    let shown = lines(&place, &["scan", "--keys-only", "--keys", "indexeddb"]);
    let place_of = |text: &str| shown.iter().position(|line| line == text).expect(text);
    // Keys are numbers: key 3 follows key 2, and key 10 comes later.
    assert_eq!(place_of("db 1 store 1 data: 2") + 1, place_of("db 1 store 1 data: 3"));
    assert!(place_of("db 1 store 1 data: 2") < place_of("db 1 store 1 data: 10"));
    let mut sorted = scanned.clone();
    sorted.sort();
    keys.sort();
    assert!(scanned != sorted && sorted == keys, "{} keys", scanned.len());
    let mut back = lines(&place, &["scan", "--keys-only", "--format", "hex", "--reverse"]);
    back.reverse();
    assert_eq!(back, scanned);
    // `get` finds each of these keys, and `scan` can start at each of them.
    for at in [0, 5, 300, 700, 987] {
        let key = &scanned[at][..];
        place.ok(&["get", key, "--key-format", "hex"]);
        let rest = ["scan", "--count", "--key-format", "hex", "--from", key];
        assert_eq!(place.text(&rest), format!("{}\n", 988 - at));
    }
    // In the order of IndexedDB, keys whose bytes have the same prefix are not always adjacent.
    let by_prefix = ["scan", "--count", "--key-format", "hex", "--prefix", "000101"];
    let with_prefix = keys.iter().filter(|key| key.starts_with("000101")).count();
    assert_eq!(place.text(&by_prefix), format!("{with_prefix}\n"));
    let limited = [&by_prefix[..], &["--limit", "7"]].concat();
    assert_eq!(place.text(&limited), "7\n");
    assert_eq!(lines(&place, &["dump"]).len(), 988);
    assert!(place.text(&["verify"]).ends_with(": no fault\n"));
    assert!(place.text(&["stats"]).contains("1 log"));
    place.ok(&["explain", "--key-format", "hex", &scanned[7]]);
    place.run(&["verify", "--comparator", "leveldb.BytewiseComparator"]).fails(6, &["leave"]);
    assert_eq!(contents(&place.db()), before);
}

#[test]
fn keys_of_an_indexed_db_are_shown_decoded() {
    let place = fixture("chromium/indexeddb");
    let shown = lines(&place, &["scan", "--keys", "indexeddb", "--format", "hex"]);
    let line = |text: &str| shown.iter().find(|line| line.starts_with(text)).expect(text).as_str();
    assert_eq!(shown.len(), 988);
    assert!(shown.iter().all(|line| !line.starts_with("damaged")));
    assert_eq!(shown[0], "global: schema version\t05");
    assert!(shown.contains(&"db 1: store 1: name\t0062006f006f006b0073".to_string()));
    assert!(shown.contains(&"db 1: id of store \"log\"\t02".to_string()));
    let of_book_196 = line("db 1 store 1 index 31: 99 of 196\t");
    assert!(of_book_196.ends_with("030000000000806840"), "{of_book_196}");
    let title = line("db 1 store 1 index 32: \"letter rain garden\" of 2\t");
    assert!(title.ends_with("030000000000000040"), "{title}");
    // In JSON, the decoded key is a string.
    let json = lines(&place, &["scan", "--keys", "indexeddb", "--format", "json", "--keys-only"]);
    assert!(json.contains(&r#"{"key":"db 1: id of store \"log\""}"#.to_string()));
    place.run(&["scan", "--keys", "chromium"]).fails(2, &["indexeddb"]);

    // Damaged keys and keys of other programs are shown as bytes after `damaged: `.
    let place = Place::new();
    place.ok(&["put", "apple", "red"]);
    place.ok(&["put", r"\x00\x00\x00\x00\x04", "blue"]);
    let shown = lines(&place, &["scan", "--keys", "indexeddb"]);
    assert_eq!(shown, ["global: journal of blobs in use\tblue", "damaged: apple\tred"]);
    let shown = lines(&place, &["scan", "--keys", "indexeddb", "--format", "hex", "--keys-only"]);
    assert_eq!(shown[1], "damaged: 6170706c65");
}

#[test]
fn put_refuses_keys_that_indexed_db_does_not_have() {
    let place = fixture("chromium/indexeddb");
    let before = contents(&place.db());
    place.run(&["put", "a", "b"]).fails(2, &["\"a\" is no key of IndexedDB", "--key-format hex"]);
    assert_eq!(contents(&place.db()), before);
    // A copy must have all keys, so `load` and `batch` only warn, once.
    for (args, input) in [(["load"], "a\tb\nc\td\n"), (["batch"], "put\ta\tb\nput\tc\td\n")] {
        let ran = place.feed(&args, input.as_bytes());
        let warning = "minikv: stdin line 1: \"a\" is no key of IndexedDB";
        assert_eq!(ran.stderr.matches("no key of IndexedDB").count(), 1, "{}", ran.stderr);
        assert!(ran.stderr.contains(warning), "{}", ran.stderr);
        ran.ok();
    }
    let dumped = place.text(&["dump"]);
    assert!(dumped.contains("a\tb\n") && dumped.contains("c\td\n"));
    // Other databases take any key.
    let place = Place::new();
    assert_eq!(place.run(&["put", "a", "b"]).stderr, "");
}

#[test]
fn an_indexed_db_is_written_compacted_copied_and_repaired_in_its_order() {
    let place = fixture("chromium/indexeddb");
    let all = place.text(&["dump", "--format", "hex"]);
    // Key 1000 of store 2 is the last key of the store's data. After it come the entries that state
    // which keys exist.
    let key = "00010201030000000000408f40";
    place.ok(&["put", key, "new", "--key-format", "hex"]);
    let shown = lines(&place, &["scan", "--keys", "indexeddb", "--keys-only"]);
    let at = shown.iter().position(|line| line == "db 1 store 2 data: 1000").unwrap();
    assert_eq!(shown[at - 1], "db 1 store 2 data: 52");
    assert_eq!(shown[at + 1], "db 1 store 2 exists: 1");
    // If the id of the store is encoded in two bytes, the key is still the same.
    let same = "0401020001030000000000408f40";
    assert_eq!(place.ok(&["get", same, "--key-format", "hex"]), b"new");
    place.ok(&["compact"]);
    assert_eq!(place.ok(&["get", same, "--key-format", "hex"]), b"new");
    place.ok(&["delete", same, "--key-format", "hex"]);
    place.ok(&["compact"]);
    assert_eq!(place.text(&["dump", "--format", "hex"]), all);
    place.run(&["delete", "--prefix", "a"]).fails(2, &["--prefix needs byte order", "idb_cmp1"]);
    place.feed(&["load", "--sort"], b"a\tb\n").fails(2, &["--sort needs byte order", "idb_cmp1"]);
    place.run(&["get", "a", "--keyspace", "k"]).fails(2, &["idb_cmp1"]);
    place.run(&["readamp"]).fails(2, &["readamp needs byte order", "idb_cmp1"]);

    let copied = place.path("copy").to_str().unwrap().to_string();
    place.ok(&["checkpoint", &copied]);
    let copy = run(minikv().args(["dump", "--format", "hex", "--db", &copied]), b"");
    assert_eq!(String::from_utf8(copy.ok()).unwrap(), all);

    // Load the dump into a new database that has the comparator of IndexedDB.
    let new = place.path("new").to_str().unwrap().to_string();
    let load = ["load", "--format", "hex", "--db", &new, "--comparator", "idb_cmp1"];
    run(minikv().args(load), all.as_bytes()).ok();
    let copy = run(minikv().args(["dump", "--format", "hex", "--db", &new]), b"");
    assert_eq!(String::from_utf8(copy.ok()).unwrap(), all);

    // Without CURRENT, the comparator's name comes from the newest MANIFEST.
    fs::remove_file(place.db().join("CURRENT")).unwrap();
    place.run(&["scan"]).fails(4, &["CURRENT"]);
    place.ok(&["repair"]);
    assert_eq!(place.text(&["dump", "--format", "hex"]), all);
    assert!(place.text(&["verify"]).ends_with(": no fault\n"));
}

/// Lets Chromium open the page `data/indexed_db.html`. Returns the report of the page; `None` if
/// there is no Chromium.
fn in_chromium(profile: &Path, what: &str) -> Option<String> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/indexed_db.html");
    let address = listener.local_addr().unwrap();
    let mut chromium = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"])
        .args(["--no-first-run", &format!("--user-data-dir={}", profile.display())])
        .arg(format!("file://{page}#{what}@http://{address}/"))
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    listener.set_nonblocking(true).unwrap();
    let began = Instant::now();
    let mut asked = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(_) if began.elapsed() < Duration::from_secs(60) => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) => {
                chromium.kill().unwrap();
                panic!("the page says nothing: {error}");
            }
        }
    };
    asked.set_nonblocking(false).unwrap();
    let mut line = String::new();
    BufReader::new(&asked).read_line(&mut line).unwrap();
    asked.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").unwrap();
    // On SIGTERM, the browser closes its database and ends.
    let ended = Command::new("kill").arg(chromium.id().to_string()).status().unwrap();
    assert!(ended.success() && chromium.wait().unwrap().success());
    let said = line.split_whitespace().nth(1).expect("a request").trim_start_matches("/?");
    Some(said.replace("%2C", ","))
}

#[test]
fn chromium_reads_and_continues_databases_of_the_command() {
    let place = Place::new();
    let profile = place.path("profile");
    let Some(said) = in_chromium(&profile, "write") else {
        eprintln!("skipped: no chromium here to open a database in");
        return;
    };
    assert_eq!(said, "written");
    let dir = profile.join("Default/IndexedDB/file__0.indexeddb.leveldb");
    let run = |args: &[&str]| {
        let ran = run(minikv().arg("--db").arg(&dir).args(args), b"");
        String::from_utf8(ran.ok()).unwrap()
    };
    // Of 500 entries, every third is deleted. Of the remaining entries, one in seven has the size
    // 3.
    let expected = "333,333,47,83167,true";
    for round in 0..2 {
        run(&["compact"]);
        let stats = run(&["stats", "--json"]);
        let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
        assert_eq!(stats["logs"]["batches"], 0, "all of it is in tables of the command");
        assert!(!stats["tables"].as_array().unwrap().is_empty());
        assert_eq!(in_chromium(&profile, "read").unwrap(), expected, "round {round}");
        assert_eq!(in_chromium(&profile, "write").unwrap(), "written", "round {round}");
        assert!(run(&["verify"]).ends_with(": no fault\n"), "round {round}");
    }
}
