//! Reports as JSON, with the feature `serde`. The names of their fields are stable.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use minikv::explain::{Step, Verdict};
use minikv::{Db, Options, Readable, RepairOptions};
use serde::Serialize;
use serde_json::{Value, json};

fn value(report: impl Serialize) -> Value {
    serde_json::to_value(report).unwrap()
}

fn names(object: &Value) -> Vec<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

/// Creates a database with one table, in level 0, whose keys are `apple`, `banana` and a key that
/// is not UTF-8.
fn filled(dir: &Path) -> Db {
    let db = Db::create(dir).unwrap();
    db.put("apple", "red").unwrap();
    db.put("banana", "yellow").unwrap();
    db.put(b"b\xff", "").unwrap();
    db.flush().unwrap();
    db
}

fn table(dir: &Path) -> PathBuf {
    let mut files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    files.find(|path| path.extension().is_some_and(|extension| extension == "ldb")).unwrap()
}

/// Flips a bit in the first byte of the only data block. Returns the path of the table.
fn damage(dir: &Path) -> PathBuf {
    let path = table(dir);
    let mut bytes = fs::read(&path).unwrap();
    bytes[0] ^= 1;
    fs::write(&path, bytes).unwrap();
    path
}

/// The JSON of durations has whole microseconds, under the names that tools read.
#[test]
fn durations() {
    let dir = tempfile::tempdir().unwrap();
    let mut stats = filled(dir.path()).stats();
    stats.flush_time = Duration::from_nanos(1_234_567);
    stats.stalls.level0.count = 2;
    stats.stalls.level0.time = Duration::from_millis(1500);
    stats.levels[1].merge_time = Duration::from_micros(7);
    let stats = value(stats);
    assert_eq!(stats["flush_micros"], json!(1234));
    assert_eq!(stats["stalls"]["level0"], json!([2, 1_500_000]));
    assert_eq!(stats["levels"][1]["micros"], json!(7));
    assert!(stats.get("flush_time").is_none() && stats["levels"][1].get("merge_time").is_none());
}

#[test]
fn stats() {
    let dir = tempfile::tempdir().unwrap();
    let db = filled(dir.path());
    db.get("apple").unwrap();
    db.get("avocado").unwrap();
    let stats = value(db.stats());
    assert_eq!((&stats["gets"], &stats["gets_found"]), (&json!(2), &json!(1)));
    assert_eq!(stats["stalls"], json!({"flush": [0, 0], "level0": [0, 0], "slowdown": [0, 0]}));
    assert_eq!(
        (&stats["levels"][0]["files"], &stats["levels"][1]["files"]),
        (&1.into(), &0.into())
    );
    let reads = &stats["reads"];
    assert_eq!((&reads["memtable_hits"], &reads["tables_considered"]), (&json!(0), &json!(2)));
    let levels = reads["levels"].as_array().unwrap();
    assert_eq!(levels.len(), 1, "levels that no read has touched are left out");
    assert_eq!((&levels[0]["level"], &levels[0]["filter_checks"]), (&json!(0), &json!(2)));
    assert_eq!(levels[0]["prefix_filter_checks"], 0, "every counter is there");
}

#[test]
fn explanations() {
    let dir = tempfile::tempdir().unwrap();
    let db = filled(dir.path());
    let found = value(db.explain(b"b\xff").unwrap());
    assert_eq!(
        names(&found),
        [
            "filters",
            "found",
            "key",
            "sequence",
            "steps",
            "this_get",
            "value_bytes",
            "without_filters",
            "without_filters_error"
        ]
    );
    assert_eq!(found["key"], json!({"base64": "Yv8="}));
    assert_eq!((&found["found"], &found["value_bytes"]), (&json!(true), &json!(0)));
    assert_eq!(
        (&found["filters"], &found["without_filters_error"]),
        (&json!("asked"), &json!(null))
    );
    let steps = found["steps"].as_array().unwrap();
    let kinds: Vec<_> = steps.iter().map(|step| step["step"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["memtable", "table", "index", "block_filter", "block", "entry"]);
    assert_eq!(steps[0], json!({"step": "memtable", "frozen": false, "entry": null}));
    assert_eq!(steps[1]["first_key"], "apple");
    assert_eq!(steps[1]["last_key"], json!({"base64": "Yv8="}));
    assert_eq!(steps[1]["filter"], "readable");
    assert_eq!(names(&steps[2]["block"]), ["bytes", "offset", "separator"]);
    assert_eq!(steps[3], json!({"step": "block_filter", "may_match": true, "truth": true}));
    assert_eq!(
        (&steps[4]["source"], &steps[4]["checksum_verified"]),
        (&json!("file"), &json!(true))
    );
    let entry = json!({"sequence": 3, "kind": "put", "value_bytes": 0});
    assert_eq!(steps[5], json!({"step": "entry", "entry": entry}));

    let absent = value(db.explain("zebra").unwrap());
    assert_eq!((&absent["found"], &absent["value_bytes"]), (&json!(false), &json!(null)));
    assert_eq!(absent["steps"][1], json!({"step": "skipped", "level": 0, "tables": 1}));
    let not_here = json!({"step": "entry", "entry": null});
    assert_eq!(value(Step::NotHere), not_here);
    let unknown = json!({"step": "table_filter", "may_match": false, "truth": null});
    assert_eq!(value(Step::TableFilter(Verdict::UnknownNegative)), unknown);
}

#[test]
fn verifications() {
    let dir = tempfile::tempdir().unwrap();
    drop(filled(dir.path()));
    let damaged = damage(dir.path());
    let report = value(minikv::verify(dir.path(), &Options::default()).unwrap());
    assert_eq!(
        names(&report),
        [
            "batches",
            "bytes",
            "changed_meanwhile",
            "entries",
            "fault_count",
            "faults",
            "logs",
            "manifest",
            "notes",
            "tables"
        ]
    );
    let fault = &report["faults"][0];
    assert_eq!(names(fault), ["expected", "file", "found", "offset", "what"]);
    assert_eq!(fault["file"], damaged.to_str().unwrap());
    assert_eq!(fault["offset"], 0);
}

#[test]
fn repairs() {
    let dir = tempfile::tempdir().unwrap();
    drop(filled(dir.path()));
    let damaged = damage(dir.path());
    let (options, how) = (Options::default(), RepairOptions::default().dry_run(true));
    let report = value(minikv::repair(dir.path(), &options, how).unwrap());
    assert_eq!(
        names(&report),
        [
            "dry_run",
            "fault_count",
            "faults",
            "healthy",
            "lost",
            "lost_logs",
            "manifest",
            "manifest_distrusted",
            "new_tables",
            "notes",
            "put_aside",
            "tables",
            "tables_kept"
        ]
    );
    let file = damaged.to_str().unwrap();
    let tables = json!([{"file": file, "level": 0, "outcome": "lost", "entries": 0}]);
    assert_eq!(report["tables"], tables);
    let lost = &report["lost"][0];
    assert_eq!((&lost["file"], &lost["offset"]), (&json!(file), &json!(0)));
    assert_eq!((&lost["from"], &lost["to"]), (&json!("apple"), &json!({"base64": "Yv8="})));
    let aside = &report["put_aside"][0];
    assert_eq!((names(aside), &aside["file"]), (vec!["file", "kept", "why"], &json!(file)));
}
