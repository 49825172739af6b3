//! Checks that `verify` finds no fault in any database of the fixtures, and changes no file.

use minikv::{Error, Options};

use crate::databases::{Copy, files};
use crate::fixture;

/// Returns the fixtures that are databases: folders that contain a folder `db`.
fn cases() -> Vec<String> {
    let mut cases = Vec::new();
    for maker in ["leveldb-cpp", "goleveldb", "chromium", "bedrock"] {
        for entry in std::fs::read_dir(fixture(maker)).unwrap() {
            let entry = entry.unwrap();
            if entry.path().join("db").is_dir() {
                cases.push(format!("{maker}/{}", entry.file_name().into_string().unwrap()));
            }
        }
    }
    cases.sort();
    assert!(cases.len() >= 19, "{cases:?}");
    cases
}

#[test]
fn no_fault_in_databases_of_other_programs() {
    let mut torn = Vec::new();
    for case in cases() {
        let copy = Copy::of(&case);
        let before = files(&copy.db);
        let report = minikv::verify(&copy.db, &Options::default());
        assert!(files(&copy.db) == before, "{case}: verifying changed a file");
        let report = match report {
            Ok(report) => report,
            Err(error @ Error::Unsupported { .. }) if case == "chromium/indexeddb" => {
                assert!(error.to_string().contains("idb_cmp1"), "{error}");
                continue;
            }
            Err(error) => panic!("{case}: {error}"),
        };
        assert!(report.is_sound(), "{case}: {:#?}", report.faults);
        assert!(report.entries + report.batches > 0 || case.contains("empty"), "{case}");
        if report.notes.iter().any(|note| note.what.contains("of an incomplete record")) {
            torn.push(case);
        }
    }
    assert_eq!(torn, ["leveldb-cpp/05b-torn-wal"]);
}
