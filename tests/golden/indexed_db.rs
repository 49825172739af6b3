//! A database of Chromium's IndexedDB, in IndexedDB's order of keys.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use minikv::internals::base::random::Rng;
use minikv::internals::dialect::indexed_db::describe;
use minikv::{
    Comparator, Db, IndexedDbComparator, Iter, Options, Readable, RepairOptions, repair, verify,
};
use serde_json::Value;

use crate::databases::{Copy, Expected, files, in_tsv};
use crate::{hex, items, number, read_fixture, text};

const CASE: &str = "chromium/indexeddb";

fn options() -> Options {
    Options::default().comparator(IndexedDbComparator)
}

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn entries(iter: Iter) -> Entries {
    let entry = |(key, value): (bytes::Bytes, bytes::Bytes)| (key.to_vec(), value.to_vec());
    iter.map(|found| entry(found.unwrap())).collect()
}

/// Checks that `found` are the expected entries, in the order of their keys.
fn check(found: &Entries, expected: &Expected) {
    let ascends = |a: &Vec<u8>, b: &Vec<u8>| IndexedDbComparator.compare(a, b) == Ordering::Less;
    assert!(found.iter().map(|(key, _)| key).is_sorted_by(|a, b| ascends(a, b)));
    let by_bytes: BTreeMap<_, _> =
        found.iter().map(|(key, value)| (key.clone(), in_tsv(value))).collect();
    assert_eq!(by_bytes.len(), found.len());
    assert!(by_bytes == expected.entries);
}

#[test]
fn every_entry_is_read_in_order_and_again_from_tables() {
    let expected = Expected::read(CASE);
    let copy = Copy::of(CASE);
    let before = files(&copy.db);
    let db = Db::open_read_only(&copy.db, options()).unwrap();
    let found = entries(db.iter());
    check(&found, &expected);
    let mut back = entries(db.range(..));
    assert_eq!(back, found);
    back.reverse();
    let mut iter = db.iter();
    for entry in &back {
        let (key, value) = iter.next_back().unwrap().unwrap();
        assert_eq!((&key[..], &value[..]), (&entry.0[..], &entry.1[..]));
    }
    drop((iter, db));
    assert!(verify(&copy.db, &options()).unwrap().is_sound());
    assert!(files(&copy.db) == before, "a reader changed a file");

    // Compacts the database into tables of several blocks for the reads below. No filters are
    // written, because this order of keys does not allow them.
    let db = Db::open(&copy.db, options().block_bytes(512)).unwrap();
    db.compact_range(..).unwrap();
    for (at, (key, value)) in found.iter().enumerate() {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]), "{}", hex(key));
        let rest = db.range(key.clone()..).next().unwrap().unwrap();
        assert_eq!(rest.0, *key);
        assert_eq!(db.get_traced(key).unwrap().1.total().filter_checks, 0, "entry {at}");
    }
    assert_eq!(entries(db.iter()), found);
    db.close().unwrap();
    let report = verify(&copy.db, &options()).unwrap();
    assert!(report.is_sound() && report.tables > 0, "{:#?}", report.faults);
    std::fs::remove_file(copy.db.join("CURRENT")).unwrap();
    let repaired = repair(&copy.db, &options(), RepairOptions::default()).unwrap();
    assert!(!repaired.healthy);
    let db = Db::open_read_only(&copy.db, options()).unwrap();
    assert_eq!(entries(db.iter()), found);
}

/// Checks that the decoded keys, and their order, are those that a web page read through
/// IndexedDB's own cursors.
#[test]
fn keys_are_decoded_and_ordered_as_the_browser_showed_them() {
    let copy = Copy::of(CASE);
    let db = Db::open_read_only(&copy.db, options()).unwrap();
    let keys: Vec<Vec<u8>> = entries(db.iter()).into_iter().map(|(key, _)| key).collect();
    let shown: Vec<String> =
        keys.iter().map(|key| describe(key).unwrap_or_else(|| panic!("{}", hex(key)))).collect();
    assert_eq!(shown.iter().collect::<BTreeSet<_>>().len(), shown.len(), "keys shown alike");
    let after = |prefix: &str| -> Vec<&str> {
        shown.iter().filter_map(|line| line.strip_prefix(prefix)).collect()
    };
    let json = String::from_utf8(read_fixture("chromium/written-session2.json")).unwrap();
    // serde_json refuses the lone surrogate in an item of Local Storage.
    let json: Value = serde_json::from_str(&json.replace("\\ud800\"", "\"")).unwrap();
    let page = &json["indexedDB"];
    let ids: Vec<String> =
        items(page, "books").iter().map(|book| number(&book["id"]).to_string()).collect();
    assert_eq!(after("db 1 store 1 data: "), ids);
    assert_eq!(after("db 1 store 1 exists: "), ids);
    let log: Vec<String> =
        items(page, "log_keys").iter().map(|key| number(key).to_string()).collect();
    assert_eq!(after("db 1 store 2 data: "), log);
    assert_eq!(after("db 1 store 2 exists: "), log);
    // Indexes hold entries of the final versions of the books, and of earlier versions.
    for (index, field) in [("31", "shelf"), ("32", "title")] {
        let found = after(&format!("db 1 store 1 index {index}: "));
        let mut wanted: Vec<(&Value, u64)> =
            items(page, "books").iter().map(|book| (&book[field], number(&book["id"]))).collect();
        wanted.sort_by(|(a, x), (b, y)| match a.as_u64().zip(b.as_u64()) {
            Some((a, b)) => a.cmp(&b).then(x.cmp(y)),
            None => text(a).cmp(text(b)).then(x.cmp(y)),
        });
        let wanted = wanted.iter().map(|(value, id)| format!("{value} of {id}"));
        let mut rest = found.iter();
        for line in wanted {
            assert!(rest.any(|found| *found == line), "{line} is missing, or not in its place");
        }
    }
    for line in ["global: data version", "db 1: version", "db 1: store 1 index 31: key path"] {
        assert!(shown.contains(&line.to_string()), "{line}");
    }
}

/// Key ordered by IndexedDB's comparator.
#[derive(Debug)]
struct Key(Vec<u8>);

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        IndexedDbComparator.compare(&self.0, &other.0)
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}

/// Returns one of the encodings of a random key. There are only a few keys, and each has several
/// encodings that compare equal.
fn random_key(rng: &mut Rng) -> Vec<u8> {
    let mut key = match rng.below(2) {
        0 => vec![0, 1, 1, 1],
        // This key has the id of the store in two bytes.
        _ => vec![4, 1, 1, 0, 1],
    };
    let number = [-1.0, -0.0, 0.0, 1.0, 2.0, 300.0, f64::NAN][rng.below(7) as usize];
    match rng.below(4) {
        0 => key.extend([&[1, 1, 0][..], &[rng.below(40) as u8]].concat()),
        1 => key.extend([&[3][..], &number.to_le_bytes()[..6]].concat()),
        _ => key.extend([&[3][..], &number.to_le_bytes()].concat()),
    }
    // The comparator ignores bytes after a complete key.
    key.extend(&[7; 3][..rng.below(3) as usize]);
    key
}

/// Checks that keys that compare equal but have different bytes are treated as one key in
/// memtables, tables and merges.
#[test]
fn equal_keys_of_different_bytes_are_one_key() {
    let mut rng = Rng::new(5);
    for round in 0..2 {
        let dir = tempfile::tempdir().unwrap();
        let options = || {
            let small = options().write_buffer_bytes(2 << 10).max_file_bytes(1 << 10);
            small.block_bytes(128).create_if_missing(true)
        };
        let mut db = Db::open(dir.path(), options()).unwrap();
        let mut model: BTreeMap<Key, (Vec<u8>, u64)> = BTreeMap::new();
        let mut differing = 0;
        for step in 0..4000u64 {
            let key = random_key(&mut rng);
            match rng.below(20) {
                0..12 => {
                    db.put(&key, step.to_le_bytes()).unwrap();
                    model.remove(&Key(key.clone()));
                    model.insert(Key(key.clone()), (key, step));
                }
                12..15 => {
                    db.delete(&key).unwrap();
                    model.remove(&Key(key));
                }
                _ => {
                    let found = db.get(&key).unwrap();
                    let wanted = model.get(&Key(key.clone()));
                    differing += u64::from(wanted.is_some_and(|(bytes, _)| *bytes != key));
                    let value = wanted.map(|(_, step)| step.to_le_bytes());
                    assert_eq!(found.as_deref(), value.as_ref().map(|v| &v[..]), "{}", hex(&key));
                }
            }
            if step % 1000 == 999 {
                db.compact_range(..).unwrap();
                db.close().unwrap();
                db = Db::open(dir.path(), options()).unwrap();
            }
            if step % 500 == 250 {
                let wanted: Entries = model
                    .values()
                    .map(|(key, step)| (key.clone(), step.to_le_bytes().to_vec()))
                    .collect();
                assert_eq!(entries(db.iter()), wanted, "round {round}, step {step}");
            }
        }
        assert!(differing > 100 && model.len() > 20, "{differing} gets, {} keys", model.len());
        db.close().unwrap();
        assert!(verify(dir.path(), &options()).unwrap().is_sound());
    }
}
