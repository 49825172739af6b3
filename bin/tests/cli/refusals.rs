//! Rare refusals, hints and texts.

use super::*;

#[test]
fn readamp_prints_the_theory_as_a_table() {
    let out = run(minikv().args(["readamp", "--theory"]), b"").ok();
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with("False-positive rates of bloom filters in percent"), "{text}");
    // The rate at 10 bits a key and 7 probes: predicted here, measured below.
    let predicted = 100.0 * (1.0 - (-0.7f64).exp()).powi(7);
    assert!(text.contains(&format!("{predicted:.3}")), "{predicted:.3}: {text}");
    assert!(text.contains("LevelDB's filter, with its own hash and its own k:"), "{text}");
}

#[test]
fn a_shell_is_not_traced_and_an_unknown_order_not_watched() {
    let place = Place::new();
    place.ok(&["put", "a", "1"]);
    for command in ["top", "watch"] {
        let ran = place.run(&["--comparator", "ignore", command]);
        ran.fails(2, &[command, "--comparator ignore"]);
    }
    let ran = place.run(&["trace", "--html", "unwritten.html", "--", "shell"]);
    ran.fails(2, &["trace cannot trace itself or the shell"]);
}

#[test]
fn databases_in_two_orders_are_not_compared() {
    let place = Place::new();
    place.ok(&["put", "a", "1"]);
    let other = place.path("other");
    let options = Options::default().create_if_missing(true).comparator(IndexedDbComparator);
    Db::open(&other, options).unwrap().close().unwrap();
    let (a, b) = (place.db(), other);
    let ran = run(minikv().arg("diff").args([&a, &b]), b"");
    ran.fails(2, &["leveldb.BytewiseComparator", "idb_cmp1", "one order of keys"]);
}

#[test]
fn inspect_says_why_a_current_is_none() {
    let place = Place::new();
    place.ok(&["put", "a", "1"]);
    let current = place.db().join("CURRENT");
    let inspect = || run(minikv().arg("inspect").arg(&current), b"");
    fs::write(&current, "MANIFEST-000099\n").unwrap();
    inspect().fails(4, &["it names MANIFEST-000099, which does not exist"]);
    fs::write(&current, vec![b'M'; 5000]).unwrap();
    inspect().fails(4, &["CURRENT is too long", "4096", "5000"]);
}

#[test]
fn a_key_that_was_meant_as_json_is_told_how_to_be_read() {
    let place = Place::new();
    place.ok(&["put", "a", "1"]);
    place.run(&["--format", "json", "get", "\"a\""]).fails(1, &["--key-format json"]);
    place.run(&["--format", "hex", "get", "6162"]).fails(1, &["--key-format hex"]);
    let twice = b"{\"key\":{\"base64\":\"YQ==\",\"base64\":\"Yg==\"},\"value\":\"1\"}\n";
    place.feed(&["--format", "json", "load"], twice).fails(2, &["base64"]);
    let other = b"{\"key\":5,\"value\":\"1\"}\n";
    place.feed(&["--format", "json", "load"], other).fails(2, &["5"]);
}

/// `inspect` reads files that nothing vouches for.
#[test]
fn inspect_of_a_file_with_a_changed_byte_is_right_or_names_the_damage() {
    let place = Place::new();
    place.feed(&["--filter-layout", "both", "load"], b"a\t1\nb\t2\nc\t3\n").ok();
    place.ok(&["--filter-layout", "both", "compact"]);
    place.ok(&["put", "d", "4"]);
    place.ok(&["delete", "a"]);
    for (name, (bytes, _)) in contents(&place.db()) {
        if name == "LOCK" || bytes.is_empty() {
            continue;
        }
        let copy = place.path(&name);
        let stride = bytes.len().div_ceil(30);
        for at in (0..bytes.len()).step_by(stride) {
            let mut changed = bytes.clone();
            changed[at] ^= 0x41;
            fs::write(&copy, changed).unwrap();
            for option in ["--entries", "--json"] {
                let ran = run(minikv().arg("inspect").arg(&copy).arg(option), b"");
                let code = ran.code.unwrap_or(-1);
                // Another kind of file, or one of a format that nobody knows, is refused.
                assert!([0, 2, 4, 6].contains(&code), "{name} at {at}: {code} {}", ran.stderr);
                assert_eq!(code == 0, ran.stderr.is_empty(), "{name} at {at}: {}", ran.stderr);
            }
        }
        fs::remove_file(&copy).unwrap();
    }
}
