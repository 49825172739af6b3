//! Tests of logs that another program continued after a killed process, and of damaged batches.

use minikv::files::{BatchRecord, LogReader, LogWriter};
use minikv::fs::{DiskFs, Fs};

use super::*;

const BLOCK_BYTES: u64 = 32 << 10;

/// Returns a place with a database of two entries, which are in a log, and the path of the log.
fn with_log() -> (Place, PathBuf) {
    let place = Place::new();
    place.feed(&["batch"], b"put\ta\t1\ncommit\nput\tb\t2\ncommit\n").ok();
    let names = contents(&place.db());
    let log = place.db().join(names.keys().find(|name| name.ends_with(".log")).unwrap());
    (place, log)
}

/// Appends a batch with these operations to a log, at an offset that is a multiple of `align`. The
/// space before it is filled with zeros.
fn append_batch(log: &Path, align: u64, count: u32, operations: &[u8]) {
    let mut reader = LogReader::of_batches(DiskFs.open(log).unwrap(), log).unwrap();
    let mut sequence = 0;
    while let Some(record) = reader.next().unwrap() {
        let batch = BatchRecord::parse(record).unwrap();
        sequence = batch.sequence + u64::from(batch.count);
    }
    let offset = reader.valid_end().next_multiple_of(align);
    File::options().write(true).open(log).unwrap().set_len(offset).unwrap();
    let batch = [&sequence.to_le_bytes()[..], &count.to_le_bytes(), operations].concat();
    let mut writer = LogWriter::new(DiskFs.append(log).unwrap(), offset);
    writer.add_record(&batch).unwrap();
}

fn json_of(ran: Ran) -> serde_json::Value {
    assert_eq!(ran.stderr, "");
    serde_json::from_slice(&ran.ok()).unwrap()
}

#[test]
fn a_log_that_leveldb_continued_after_a_kill_is_sound_to_every_command() {
    let (place, log) = with_log();
    append_batch(&log, BLOCK_BYTES, 1, b"\x01\x01c\x013");
    let before = contents(&place.db());
    let all = "a\t1\nb\t2\nc\t3\n";
    assert_eq!(place.text(&["scan"]), all);
    assert_eq!(json_of(place.run(&["verify", "--json"]))["batches"], 3);

    assert_eq!(json_of(place.run(&["stats", "--json"]))["logs"]["batches"], 3);
    let tree = place.run(&["tree", "--plain"]);
    assert_eq!(tree.stderr, "");
    assert!(String::from_utf8(tree.ok()).unwrap().ends_with("\t3\n"));
    let inspected = json_of(place.run(&["inspect", "--json", log.to_str().unwrap()]));
    assert_eq!(inspected["puts"], 3);
    assert_eq!(inspected["tail"]["kind"], "clean");

    let ignoring = |args: &[&str]| {
        let ran = place.run(&[&["--comparator", "ignore"], args].concat());
        assert_eq!(ran.stderr, "", "{args:?}");
        String::from_utf8(ran.ok()).unwrap()
    };
    assert_eq!(ignoring(&["dump"]), all);
    assert_eq!(ignoring(&["scan"]), all);
    let said = ignoring(&["verify"]);
    assert!(said.contains("1 log with 3 batches") && said.ends_with(": no fault\n"), "{said}");
    assert!(contents(&place.db()) == before);
}

#[test]
fn a_batch_with_a_malformed_operation_is_damage_in_any_order_of_keys() {
    let (place, log) = with_log();
    // The key of the second operation is longer than the batch.
    append_batch(&log, 1, 2, b"\x01\x01c\x013\x01\x09d");
    let name = log.file_name().unwrap().to_str().unwrap();
    let ignoring = |args: &[&str]| place.run(&[&["--comparator", "ignore"], args].concat());
    for ran in [place.run(&["verify"]), ignoring(&["verify"])] {
        ran.fails(1, &["1 fault"]);
        let said = String::from_utf8(ran.stdout).unwrap();
        assert!(said.contains(&format!("{name} at offset ")), "{said}");
        assert!(said.contains("1 log with 2 batches"), "{said}");
    }
    // A batch is read whole or not at all, and its loss is reported.
    for ran in [place.run(&["dump"]), ignoring(&["dump"]), ignoring(&["scan"])] {
        assert_eq!(String::from_utf8(ran.stdout).unwrap(), "a\t1\nb\t2\n");
        assert_eq!(ran.code, Some(0));
        assert!(ran.stderr.contains(&format!("{name} at offset ")), "{}", ran.stderr);
    }
    let stats = place.run(&["stats", "--json"]);
    assert!(stats.stderr.contains(&format!("{name} at offset ")), "{}", stats.stderr);
}
