//! Whole databases written by C++ LevelDB, goleveldb and Chromium, compared entry by entry.
//!
//! `tests/fixtures/README.md` says what each database is for, and describes the format of
//! `expected.tsv`. Every test works on a copy, because opening a database changes it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use minikv::{Db, Error, Feature, Options, ReadOptions, Readable};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::{bytes, fixture, hex, number, read_fixture, read_json, sha256, text, unhex};

/// The expected contents of a database.
pub struct Expected {
    /// The value of each key, in the format of `expected.tsv`.
    pub entries: BTreeMap<Vec<u8>, String>,
    pub absent_keys: Vec<Vec<u8>>,
    dump_sha256: String,
}

impl Expected {
    pub fn read(case: &str) -> Expected {
        let tsv = String::from_utf8(read_fixture(&format!("{case}/expected.tsv"))).expect("text");
        let entries: BTreeMap<Vec<u8>, String> = tsv
            .lines()
            .map(|line| line.split_once('\t').expect("a tab"))
            .map(|(key, value)| (unhex(key), value.to_string()))
            .collect();
        let json = read_json(&format!("{case}/expected.json"));
        assert_eq!(number(&json["entries"]), entries.len() as u64, "{case}");
        Expected {
            entries,
            absent_keys: json["absent_keys"].as_array().into_iter().flatten().map(bytes).collect(),
            dump_sha256: text(&json["dump_sha256"]).to_string(),
        }
    }
}

/// Returns a value in the format of `expected.tsv`.
pub fn in_tsv(value: &[u8]) -> String {
    match value.len() {
        0..=1024 => hex(value),
        len => format!("#{len}:{}", sha256(value)),
    }
}

/// A copy of the database of a case.
pub struct Copy {
    _home: TempDir,
    pub db: PathBuf,
}

impl Copy {
    pub fn of(case: &str) -> Copy {
        let home = tempfile::tempdir().expect("a temporary directory");
        let db = home.path().join("db");
        fs::create_dir(&db).expect("a directory");
        for (name, bytes) in files(&fixture(&format!("{case}/db"))) {
            fs::write(db.join(name), bytes).expect("a copied file");
        }
        Copy { _home: home, db }
    }
}

/// Returns every file of a directory with its bytes.
pub fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry"));
    let name = |entry: &fs::DirEntry| entry.file_name().into_string().expect("a UTF-8 name");
    entries.map(|entry| (name(&entry), fs::read(entry.path()).expect("a file"))).collect()
}

/// Checks every entry forward, backward and by get. Checks that there are no other entries, and
/// that the absent keys are not found.
fn check(db: &impl Readable, expected: &Expected) {
    let mut forward = Vec::new();
    let mut dump = Sha256::new();
    for entry in db.iter() {
        let (key, value) = entry.unwrap();
        dump.update(format!("{}\t{}\n", hex(&key), hex(&value)));
        forward.push((key.to_vec(), in_tsv(&value)));
    }
    assert!(forward.iter().map(|(k, v)| (k, v)).eq(&expected.entries), "forward");
    assert_eq!(hex(&dump.finalize()), expected.dump_sha256);

    let backward = db.iter().rev().map(|entry| entry.unwrap());
    let backward = backward.map(|(key, value)| (key.to_vec(), in_tsv(&value)));
    assert!(backward.eq(forward.into_iter().rev()), "backward");

    for options in [ReadOptions::default(), ReadOptions::default().use_filter(false)] {
        for (key, value) in &expected.entries {
            let found = db.reading(options).get(key).unwrap();
            assert_eq!(found.as_deref().map(in_tsv).as_ref(), Some(value), "{}", hex(key));
        }
        for key in &expected.absent_keys {
            assert_eq!(db.reading(options).get(key).unwrap(), None, "{}", hex(key));
        }
    }
}

fn read_only(case: &str) {
    let expected = Expected::read(case);
    let copy = Copy::of(case);
    let before = files(&copy.db);
    for paranoid in [false, true] {
        let options = Options::default().paranoid_checks(paranoid);
        check(&Db::open_read_only(&copy.db, options).unwrap(), &expected);
    }
    let after = files(&copy.db);
    assert!(before.keys().eq(after.keys()), "{:?}, then {:?}", before.keys(), after.keys());
    for (name, bytes) in &before {
        assert!(after[name] == *bytes, "{name} was changed");
    }
}

/// Opens a database for writing, and again after each kind of change.
fn read_write(case: &str, options: impl Fn() -> Options) {
    let mut expected = Expected::read(case);
    let copy = Copy::of(case);
    let db = Db::open(&copy.db, options()).unwrap();
    check(&db, &expected);
    drop(db);

    let db = Db::open(&copy.db, options()).unwrap();
    check(&db, &expected);
    db.put("\u{7f}put by minikv", "and kept").unwrap();
    db.compact_range(..).unwrap();
    db.delete("\u{7f}put by minikv").unwrap();
    check(&db, &expected);
    db.put("\u{7f}put by minikv", "and kept").unwrap();
    db.close().unwrap();

    let db = Db::open(&copy.db, options()).unwrap();
    assert_eq!(db.get("\u{7f}put by minikv").unwrap().as_deref(), Some(&b"and kept"[..]));
    db.delete("\u{7f}put by minikv").unwrap();
    check(&db, &expected);
    expected.absent_keys.push(b"\x7fput by minikv".to_vec());
    db.compact_range(..).unwrap();
    db.close().unwrap();
    check(&Db::open_read_only(&copy.db, options()).unwrap(), &expected);
}

macro_rules! databases {
    ($($name:ident: $case:literal,)*) => {
        pub const CASES: &[&str] = &[$($case),*];
        $(mod $name {
            use minikv::{Compression, Filters, Options};

            #[test]
            fn opened_read_only() {
                super::read_only($case);
            }

            #[test]
            fn opened_and_changed() {
                super::read_write($case, Options::default);
            }

            #[test]
            fn opened_and_changed_without_filters_reusing_logs() {
                super::read_write($case, || {
                    let options = Options::default().filters(Filters::None).reuse_logs(true);
                    options.compression(Compression::None).block_cache_bytes(0)
                });
            }
        })*
    };
}

databases! {
    cpp_01_wal_only: "leveldb-cpp/01-wal-only",
    cpp_02_flushed_bloom10_snappy: "leveldb-cpp/02-flushed-bloom10-snappy",
    cpp_03_nocompress_nofilter: "leveldb-cpp/03-nocompress-nofilter",
    cpp_04_levels: "leveldb-cpp/04-levels",
    cpp_05_unclean_copy: "leveldb-cpp/05-unclean-copy",
    cpp_05b_torn_wal: "leveldb-cpp/05b-torn-wal",
    cpp_06_edge_wal: "leveldb-cpp/06-edge-wal",
    cpp_06b_edge_flushed: "leveldb-cpp/06b-edge-flushed",
    cpp_07_small_blocks: "leveldb-cpp/07-small-blocks",
    cpp_08_reuse_logs: "leveldb-cpp/08-reuse-logs",
    cpp_09_empty: "leveldb-cpp/09-empty",
    go_01_wal_only: "goleveldb/01-wal-only",
    go_02_flushed_bloom10_snappy: "goleveldb/02-flushed-bloom10-snappy",
    go_03_nocompress_nofilter: "goleveldb/03-nocompress-nofilter",
    go_04_levels: "goleveldb/04-levels",
    go_05_edge: "goleveldb/05-edge",
    go_06_transaction: "goleveldb/06-transaction",
    chromium_local_storage: "chromium/local-storage",
    bedrock_01_world: "bedrock/01-world",
}

#[test]
fn every_fixture_has_its_tests() {
    let mut found = Vec::new();
    for writer in ["leveldb-cpp", "goleveldb", "chromium", "bedrock"] {
        for entry in fs::read_dir(fixture(writer)).expect("a directory") {
            let entry = entry.expect("an entry");
            if entry.path().join("db").is_dir() {
                found.push(format!("{writer}/{}", entry.file_name().display()));
            }
        }
    }
    found.sort();
    let mut tested = [CASES, &["chromium/indexeddb"]].concat();
    tested.sort();
    assert_eq!(found, tested);
}

#[test]
fn a_foreign_comparator_is_refused_by_name() {
    let copy = Copy::of("chromium/indexeddb");
    let before = files(&copy.db);
    let refusals = [
        Db::open(&copy.db, Options::default()).map(drop),
        Db::create(&copy.db).map(drop),
        Db::open_read_only(&copy.db, Options::default()).map(drop),
    ];
    for refusal in refusals {
        match refusal {
            Err(Error::Unsupported { what: Feature::Comparator, name, .. }) => {
                assert_eq!(name, "idb_cmp1");
            }
            other => panic!("opened with the wrong order: {other:?}"),
        }
    }
    assert!(files(&copy.db) == before, "a refused open changed the directory");
}

/// Checks that minikv uses both the filters of C++ LevelDB and those of goleveldb, although their
/// names differ.
#[test]
fn filters_of_both_names_save_data_blocks() {
    for case in ["leveldb-cpp/02-flushed-bloom10-snappy", "goleveldb/02-flushed-bloom10-snappy"] {
        let copy = Copy::of(case);
        let db = Db::open_read_only(&copy.db, Options::default()).unwrap();
        let (mut with, mut without) = (0, 0);
        for key in Expected::read(case).entries.keys() {
            let absent = [&key[..], b"!"].concat();
            let (found, trace) = db.get_traced(&absent).unwrap();
            assert_eq!(found, None);
            with += trace.data_blocks();
            let options = ReadOptions::default().use_filter(false);
            let (found, trace) = db.reading(options).get_traced(&absent).unwrap();
            assert_eq!((found, trace.total().filter_checks), (None, 0));
            without += trace.data_blocks();
        }
        assert!(without > 1000, "{case}: only {without} lookups reached a data block");
        assert!(with * 20 < without, "{case}: {with} data blocks with filters, {without} without");
    }
}
