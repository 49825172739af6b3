//! Transactions on several keyspaces: the entries that they see, and the writes that conflict with
//! their reads.

use std::collections::BTreeMap;
use std::ops::Bound;

use minikv::{Bytes, Error, Keyspace, ReadOptions, Readable, Result, Transaction};

use crate::rng::{Rng, seed};
use crate::{Home, small};

/// Names of keyspaces that are adjacent in the database's order of keys.
const NAMES: [&str; 3] = ["usera", "userb", "userc"];

fn spaces(home: &Home) -> [Keyspace; 3] {
    NAMES.map(|name| home.keyspace(name).unwrap())
}

#[track_caller]
fn assert_conflict_in(result: Result<()>, name: &str, key: &str) {
    let error = result.unwrap_err();
    let message = format!("\"{key}\" in keyspace \"{name}\"");
    assert!(error.to_string().contains(&message), "{error}");
    match error {
        Error::Conflict { key: found, keyspace: Some(keyspace) } => {
            assert_eq!((&found[..], &keyspace[..]), (key.as_bytes(), name.as_bytes()));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_conflict_names_the_keyspace_and_the_key_within_it() {
    let home = Home::new(small());
    let [a, b, _] = spaces(&home);
    for flush in [false, true] {
        a.put("read", "1").unwrap();
        let mut tx = home.transaction();
        assert!(tx.keyspace(&a).contains_key("read").unwrap());
        assert_eq!(tx.keyspace(&a).multi_get(&["read", "absent"]).unwrap()[1], None);
        tx.put_in(&b, "written", "1");
        a.put("read", "2").unwrap();
        if flush {
            home.flush().unwrap();
        }
        assert_conflict_in(tx.commit(), "usera", "read");
        assert!(b.is_empty().unwrap());
    }
    let mut tx = home.transaction();
    tx.get("plain").unwrap();
    tx.put_in(&b, "written", "1");
    home.put("plain", "").unwrap();
    let Err(Error::Conflict { keyspace: None, .. }) = tx.commit() else { panic!() };
}

#[test]
fn a_transaction_over_keyspaces_is_applied_whole() {
    let home = Home::new(small());
    let [a, b, _] = spaces(&home);
    a.put("moved", "1").unwrap();
    let moved = home.transact(|tx| {
        let value = tx.keyspace(&a).get("moved")?.unwrap();
        tx.delete_in(&a, "moved");
        tx.put_in(&b, "moved", &value);
        tx.put("count", "1");
        assert!(tx.keyspace(&a).is_empty()? && !tx.keyspace(&b).is_empty()?);
        Ok(value)
    });
    assert_eq!(moved.unwrap(), "1");
    assert_eq!(home.keyspaces().unwrap(), std::slice::from_ref(&b));
    assert!(home.contains_key("count").unwrap());
    let mut dropped = home.transaction();
    dropped.delete_in(&b, "moved");
    drop(dropped);
    assert!(b.contains_key("moved").unwrap());
}

/// Checks that two transactions conflict if each reads one keyspace and writes to the other.
#[test]
fn write_skew_between_keyspaces_is_refused() {
    let home = Home::new(small());
    let [a, b, _] = spaces(&home);
    let (mut first, mut second) = (home.transaction(), home.transaction());
    assert!(first.keyspace(&a).iter().next().is_none());
    assert!(second.keyspace(&b).iter().next().is_none());
    first.put_in(&b, "on call", "ann");
    second.put_in(&a, "on call", "bob");
    first.commit().unwrap();
    assert_conflict_in(second.commit(), "userb", "on call");
}

/// A function that reads a keyspace, forward or backward, until no entry is left.
type Walk = fn(&Transaction, &Keyspace);

const WALKS: [(&str, Walk); 7] = [
    ("iter", |tx, space| assert_eq!(tx.keyspace(space).iter().count(), 3)),
    ("rev", |tx, space| assert_eq!(tx.keyspace(space).iter().rev().count(), 3)),
    ("range", |tx, space| assert_eq!(tx.keyspace(space).range(""..).count(), 3)),
    ("prefix", |tx, space| assert_eq!(tx.keyspace(space).prefix("").unwrap().count(), 3)),
    ("cursor", |tx, space| {
        let mut cursor = tx.keyspace(space).cursor().unwrap();
        assert!(cursor.seek_to_first().unwrap());
        while cursor.next().unwrap() {}
        assert!(!cursor.valid() && !cursor.prev().unwrap());
    }),
    ("cursor, back", |tx, space| {
        let mut cursor = tx.keyspace(space).cursor().unwrap();
        assert!(cursor.seek_to_last().unwrap());
        assert_eq!((cursor.key(), cursor.value()), (&b"5"[..], &b""[..]));
        while cursor.prev().unwrap() {}
    }),
    ("seeks", |tx, space| {
        let mut cursor = tx.keyspace(space).cursor().unwrap();
        assert!(cursor.seek("4").unwrap() && !cursor.seek("6").unwrap());
        assert!(cursor.seek_for_prev("2").unwrap() && !cursor.seek_for_prev("0").unwrap());
        assert!(cursor.seek("").unwrap() && cursor.next().unwrap() && cursor.next().unwrap());
    }),
];

#[test]
fn a_walk_conflicts_about_its_keyspace_and_not_about_its_neighbours() {
    for (name, walk) in WALKS {
        for step in ["none", "before", "after", "first", "between", "last", "deleted"] {
            let home = Home::new(small());
            let [before, space, after] = spaces(&home);
            for key in ["1", "3", "5"] {
                space.put(key, "").unwrap();
            }
            before.put("z", "").unwrap();
            after.put("", "").unwrap();
            let mut tx = home.transaction();
            walk(&tx, &space);
            tx.put("written", "");
            match step {
                "before" => {
                    before.put("z", "").unwrap();
                    before.put([0xff; 20], "").unwrap();
                }
                "after" => after.put("", "").unwrap(),
                "first" => space.put("", "").unwrap(),
                "between" => space.put("4", "").unwrap(),
                "last" => space.put([0xff; 20], "").unwrap(),
                "deleted" => space.delete("5").unwrap(),
                _ => {}
            }
            // Every walk reaches the bounds of the keyspace, so a write to any key between them
            // conflicts, but a write to another keyspace does not.
            let expected = matches!(step, "first" | "between" | "last" | "deleted");
            let outcome = tx.commit();
            assert_eq!(outcome.is_err(), expected, "{name}, {step}: {outcome:?}");
            if let Err(error) = outcome {
                assert!(error.to_string().contains("keyspace \"userb\""), "{error}");
            }
        }
    }
}

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn owned(entry: Result<(Bytes, Bytes)>) -> (Vec<u8>, Vec<u8>) {
    let (key, value) = entry.unwrap();
    (key.to_vec(), value.to_vec())
}

fn key(rng: &mut Rng) -> Vec<u8> {
    (0..rng.below(3)).map(|_| *rng.pick(&[0, b'a', b'b', 0xff])).collect()
}

/// Compares all reads of a keyspace in a transaction with a map.
fn compare(rng: &mut Rng, tx: &Transaction, space: &Keyspace, map: &Map) {
    let reads = tx.keyspace(space);
    let sought = key(rng);
    let expected = map.get(&sought).map(Vec::as_slice);
    assert_eq!(reads.get(&sought).unwrap().as_deref(), expected);
    assert_eq!(
        reads.reading(ReadOptions::default().track(false)).get(&sought).unwrap().as_deref(),
        expected
    );
    assert_eq!(reads.multi_get(&[&sought]).unwrap()[0].as_deref(), expected);
    assert!(reads.iter().map(owned).eq(map.clone()));
    assert!(reads.iter().rev().map(owned).eq(map.clone().into_iter().rev()));
    assert_eq!(reads.is_empty().unwrap(), map.is_empty());
    assert_eq!(reads.first_key_value().unwrap().map(Ok).map(owned), map.clone().pop_first());
    assert_eq!(reads.last_key_value().unwrap().map(Ok).map(owned), map.clone().pop_last());
    let from = (Bound::Excluded(sought.clone()), Bound::Unbounded);
    let expected = map.range(from.clone()).map(|(key, value)| (key.clone(), value.clone()));
    assert!(reads.range(from).map(owned).eq(expected));
    let with_prefix = map.iter().filter(|(key, _)| key.starts_with(&sought));
    assert!(
        reads.prefix(&sought).unwrap().map(|e| owned(e).0).eq(with_prefix.map(|e| e.0.clone()))
    );
    let mut cursor = reads.cursor().unwrap();
    let keys: Vec<&Vec<u8>> = map.keys().collect();
    let mut at: Option<usize> = None;
    for _ in 0..10 {
        let sought = key(rng);
        let past = keys.partition_point(|key| **key <= sought);
        let first = keys.partition_point(|key| **key < sought);
        let valid;
        (valid, at) = match rng.below(8) {
            0 => (cursor.seek_to_first(), (!keys.is_empty()).then_some(0)),
            1 => (cursor.seek_to_last(), keys.len().checked_sub(1)),
            2 => (cursor.seek(&sought), (first < keys.len()).then_some(first)),
            3 => (cursor.seek_for_prev(&sought), past.checked_sub(1)),
            4 | 5 => (cursor.next(), at.map(|at| at + 1).filter(|at| *at < keys.len())),
            _ => (cursor.prev(), at.and_then(|at| at.checked_sub(1))),
        };
        assert_eq!((valid.unwrap(), cursor.valid()), (at.is_some(), at.is_some()));
        if let Some(at) = at {
            assert_eq!((cursor.key(), cursor.value()), (&keys[at][..], &map[keys[at]][..]));
        }
    }
}

#[test]
fn own_writes_and_others_are_merged_within_each_keyspace() {
    let seed = seed();
    println!("MINIKV_SEED={seed}");
    let rng = &mut Rng::new(seed);
    let home = Home::new(small());
    let spaces = spaces(&home);
    let mut maps: [Map; 3] = Default::default();
    for round in 0..150 {
        let mut tx = home.transaction();
        let mut own = maps.clone();
        for write in 0..rng.below(10) {
            let (at, key) = (rng.below(3), key(rng));
            if rng.one_in(3) {
                tx.delete_in(&spaces[at], &key);
                own[at].remove(&key);
            } else {
                tx.put_in(&spaces[at], &key, [round, write as u8]);
                own[at].insert(key, vec![round, write as u8]);
            }
        }
        for (space, map) in spaces.iter().zip(&own) {
            compare(rng, &tx, space, map);
        }
        if rng.one_in(2) {
            tx.commit().unwrap();
            maps = own;
        }
        if rng.one_in(20) {
            home.flush().unwrap();
        }
    }
    for (space, map) in spaces.iter().zip(maps) {
        assert!(space.iter().map(owned).eq(map));
    }
}
