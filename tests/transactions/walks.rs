//! Compares the cursors and iterators of a transaction with a sorted list: the entries that they
//! show, and the ranges that they record as read.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;

use minikv::fs::MemFs;
use minikv::{Cursor, Db, Filters, Options, ReadOptions, Readable, Savepoint, Transaction};

use crate::comparators::Order;
use crate::rng::{Rng, seed};
use crate::small;

const ORDERS: [Order; 3] = [Order::Bytewise, Order::Reverse, Order::CaseBlind];

/// The entries that a transaction should show, in order.
type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn open(order: Order) -> Db {
    let options = small().write_buffer_bytes(4 << 10).fs(MemFs::new());
    let options = options.inline_background(Some(7)).comparator(order.comparator());
    let options = if order == Order::CaseBlind { options.filters(Filters::None) } else { options };
    Db::open("/db", options).unwrap()
}

fn key(rng: &mut Rng) -> Vec<u8> {
    let letters: &[u8] = if rng.one_in(8) { b"ABCDEFG" } else { b"abcdefg" };
    (0..1 + rng.below(2)).map(|_| *rng.pick(letters)).collect()
}

/// A list of entries, sorted by `order`, that keeps only the last write of each key.
#[derive(Clone)]
struct Twin {
    order: Order,
    entries: Entries,
}

impl Twin {
    fn place(&self, key: &[u8]) -> Result<usize, usize> {
        self.entries.binary_search_by(|entry| self.order.compare(&entry.0, key))
    }

    fn write(&mut self, key: &[u8], value: Option<&[u8]>) {
        let place = self.place(key);
        if let Ok(at) = place {
            self.entries.remove(at);
        }
        if let Some(value) = value {
            let (Ok(at) | Err(at)) = place;
            self.entries.insert(at, (key.to_vec(), value.to_vec()));
        }
    }

    fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.place(key).ok().map(|at| &self.entries[at].1[..])
    }

    /// Returns the index of the first entry whose key is greater than `key` or, with `or_equal`, is
    /// at least `key`.
    fn lower(&self, key: &[u8], or_equal: bool) -> usize {
        let before = |entry: &(Vec<u8>, Vec<u8>)| match self.order.compare(&entry.0, key) {
            Ordering::Less => true,
            Ordering::Equal => !or_equal,
            Ordering::Greater => false,
        };
        self.entries.partition_point(before)
    }

    fn range(&self, from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> Entries {
        let start = match from {
            Bound::Unbounded => 0,
            Bound::Included(key) => self.lower(key, true),
            Bound::Excluded(key) => self.lower(key, false),
        };
        let end = match to {
            Bound::Unbounded => self.entries.len(),
            Bound::Included(key) => self.lower(key, false),
            Bound::Excluded(key) => self.lower(key, true),
        };
        self.entries.get(start..end).unwrap_or_default().to_vec()
    }
}

/// Puts and deletes random keys in `twin`, and calls `each` for every write.
fn write(rng: &mut Rng, twin: &mut Twin, mut each: impl FnMut(&[u8], Option<&[u8]>)) {
    for _ in 0..rng.below(40) {
        let key = key(rng);
        let value = (!rng.one_in(3)).then(|| rng.next().to_le_bytes());
        let value = value.as_ref().map(|value| &value[..]);
        each(&key, value);
        twin.write(&key, value);
    }
}

/// Fills the database with layers: tables of two levels, and a memtable.
fn fill(rng: &mut Rng, db: &Db, twin: &mut Twin) {
    for layer in 0..3 {
        write(rng, twin, |key, value| match value {
            Some(value) => db.put(key, value).unwrap(),
            None => db.delete(key).unwrap(),
        });
        match layer {
            0 => db.compact_range(..).unwrap(),
            1 => db.flush().unwrap(),
            _ => {}
        }
    }
}

type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The ranges that were read, recorded in the simplest way.
#[derive(Default)]
struct Seen(Vec<Bounds>);

impl Seen {
    fn has(&self, order: Order, key: &[u8]) -> bool {
        self.0.iter().any(|(from, to)| {
            let after = match from {
                Bound::Unbounded => true,
                Bound::Included(from) => order.compare(from, key).is_le(),
                Bound::Excluded(from) => order.compare(from, key).is_lt(),
            };
            let before = match to {
                Bound::Unbounded => true,
                Bound::Included(to) => order.compare(key, to).is_le(),
                Bound::Excluded(to) => order.compare(key, to).is_lt(),
            };
            after && before
        })
    }
}

fn included(entry: Option<&(Vec<u8>, Vec<u8>)>) -> Bound<Vec<u8>> {
    entry.map_or(Bound::Unbounded, |entry| Bound::Included(entry.0.clone()))
}

/// Moves a cursor at random, and moves an index into the list of `twin` in the same way.
fn walk(rng: &mut Rng, cursor: &mut Cursor, twin: &Twin, seen: &mut Seen) {
    let entries = &twin.entries;
    let mut at: Option<usize> = None;
    for _ in 0..rng.below(30) {
        let (valid, next) = match rng.below(if at.is_some() { 12 } else { 4 }) {
            0 => {
                let key = key(rng);
                let next = Some(twin.lower(&key, true)).filter(|next| *next < entries.len());
                let to = included(next.map(|next| &entries[next]));
                seen.0.push((Bound::Included(key.clone()), to));
                (cursor.seek(&key), next)
            }
            1 => {
                let key = key(rng);
                let next = twin.lower(&key, false).checked_sub(1);
                let from = included(next.map(|next| &entries[next]));
                seen.0.push((from, Bound::Included(key.clone())));
                (cursor.seek_for_prev(&key), next)
            }
            2 => {
                seen.0.push((Bound::Unbounded, included(entries.first())));
                (cursor.seek_to_first(), (!entries.is_empty()).then_some(0))
            }
            3 => {
                seen.0.push((included(entries.last()), Bound::Unbounded));
                (cursor.seek_to_last(), entries.len().checked_sub(1))
            }
            4..8 => {
                let now = at.unwrap();
                seen.0.push((included(entries.get(now)), included(entries.get(now + 1))));
                (cursor.next(), Some(now + 1).filter(|next| *next < entries.len()))
            }
            _ => {
                let now = at.unwrap();
                let next = now.checked_sub(1);
                seen.0.push((included(next.map(|n| &entries[n])), included(entries.get(now))));
                (cursor.prev(), next)
            }
        };
        at = next;
        assert_eq!(valid.unwrap(), at.is_some());
        assert_eq!(cursor.valid(), at.is_some());
        if let Some(at) = at {
            let (key, value) = &entries[at];
            assert_eq!((cursor.key(), cursor.value()), (&key[..], &value[..]));
            assert_eq!(cursor.value_bytes(), value);
        }
    }
    if at.is_none() {
        assert!(!cursor.next().unwrap() && !cursor.prev().unwrap());
    }
}

fn bound(rng: &mut Rng) -> Bound<Vec<u8>> {
    match rng.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(key(rng)),
        _ => Bound::Excluded(key(rng)),
    }
}

/// Reads a range from both ends, and often stops before all entries are read.
fn iterate(rng: &mut Rng, tx: &Transaction, twin: &Twin, seen: &mut Seen) {
    let (mut from, mut to) = (bound(rng), bound(rng));
    let mut iter = match (twin.order, rng.below(4)) {
        (Order::Bytewise, 0) => {
            let prefix = key(rng);
            let mut end = prefix.clone();
            *end.last_mut().unwrap() += 1;
            (from, to) = (Bound::Included(prefix.clone()), Bound::Excluded(end));
            tx.prefix(prefix).unwrap()
        }
        (_, 1) => {
            (from, to) = (Bound::Unbounded, Bound::Unbounded);
            tx.iter()
        }
        _ => tx.range((from.clone(), to.clone())),
    };
    let mut left = twin.range(&from, &to);
    for _ in 0..rng.below(12) {
        let (is_front, item) = match rng.one_in(2) {
            true => (true, iter.next()),
            false => (false, iter.next_back()),
        };
        let expected = match is_front {
            _ if left.is_empty() => None,
            true => Some(left.remove(0)),
            false => left.pop(),
        };
        let item =
            item.map(|item| item.unwrap()).map(|(key, value)| (key.to_vec(), value.to_vec()));
        assert_eq!(item, expected);
        match (item, is_front) {
            (None, _) => {
                seen.0.push((from.clone(), to.clone()));
                assert!(iter.next().is_none() && iter.next_back().is_none());
                break;
            }
            (Some(item), true) => {
                seen.0.push((from.clone(), Bound::Included(item.0)));
            }
            (Some(item), false) => {
                seen.0.push((Bound::Included(item.0), to.clone()));
            }
        }
    }
}

#[test]
fn a_walk_shows_and_records_the_entries_that_a_sorted_list_does() {
    let seed = seed();
    eprintln!("MINIKV_SEED={seed}");
    let mut rng = Rng::new(seed);
    let mut outcomes = BTreeMap::new();
    for round in 0..1200 {
        let order = ORDERS[round % ORDERS.len()];
        let db = open(order);
        let mut twin = Twin { order, entries: Vec::new() };
        fill(&mut rng, &db, &mut twin);
        let mut tx = db.transaction();
        let mut seen = Seen::default();
        for _ in 0..1 + rng.below(3) {
            write(&mut rng, &mut twin, |key, value| match value {
                Some(value) => tx.put(key, value),
                None => tx.delete(key),
            });
            match rng.below(3) {
                0 => walk(&mut rng, &mut tx.cursor().unwrap(), &twin, &mut seen),
                1 => iterate(&mut rng, &tx, &twin, &mut seen),
                _ => {
                    let key = key(&mut rng);
                    assert_eq!(
                        tx.reading(ReadOptions::default().track(false))
                            .get(&key)
                            .unwrap()
                            .as_deref(),
                        twin.get(&key)
                    );
                    assert_eq!(tx.multi_get(&[b"z"]).unwrap(), [None]);
                    seen.0.push((Bound::Included(b"z".into()), Bound::Included(b"z".into())));
                }
            }
        }
        // A concurrent write conflicts with the transaction if and only if its key is in a range
        // that the transaction has read.
        tx.put("~", "");
        let key = if rng.one_in(10) { b"z".to_vec() } else { key(&mut rng) };
        let put = match rng.one_in(2) {
            true => db.put(&key, "beside"),
            false => db.delete(&key),
        };
        put.unwrap();
        match rng.below(4) {
            0 => db.flush().unwrap(),
            1 => db.compact_range(..).unwrap(),
            _ => {}
        }
        let conflicts = seen.has(order, &key);
        *outcomes.entry(conflicts).or_insert(0) += 1;
        match tx.commit() {
            Ok(()) => assert!(!conflicts, "round {round}: {key:?} was read"),
            Err(error) => assert!(error.is_conflict() && conflicts, "round {round}: {error}"),
        }
    }
    assert!(outcomes.values().all(|count| *count > 200), "{outcomes:?}");
}

#[test]
fn savepoints_restore_the_writes() {
    let seed = seed();
    eprintln!("MINIKV_SEED={seed}");
    let mut rng = Rng::new(seed);
    for round in 0..300 {
        let order = ORDERS[round % ORDERS.len()];
        let db = open(order);
        let mut twin = Twin { order, entries: Vec::new() };
        fill(&mut rng, &db, &mut twin);
        let mut tx = db.transaction();
        let mut savepoints: Vec<(Savepoint, Twin)> = Vec::new();
        for _ in 0..20 {
            match rng.below(4) {
                0 => savepoints.push((tx.savepoint(), twin.clone())),
                1 if !savepoints.is_empty() => {
                    let at = rng.below(savepoints.len());
                    let dropped = savepoints.split_off(at + 1);
                    tx.rollback_to(&savepoints[at].0).unwrap();
                    twin = savepoints[at].1.clone();
                    for (later, _) in dropped {
                        assert!(tx.rollback_to(&later).is_err());
                    }
                }
                _ => write(&mut rng, &mut twin, |key, value| match value {
                    Some(value) => tx.put(key, value),
                    None => tx.delete(key),
                }),
            }
            let shown = tx.iter().map(|entry| entry.unwrap());
            let shown: Entries = shown.map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
            assert_eq!(shown, twin.entries, "round {round}");
            let ends = (tx.first_key_value().unwrap(), tx.last_key_value().unwrap());
            let bytes = |entry: Option<&(Vec<u8>, Vec<u8>)>| {
                entry.map(|(k, v)| (k.clone().into(), v.clone().into()))
            };
            assert_eq!(ends, (bytes(twin.entries.first()), bytes(twin.entries.last())));
            assert_eq!(tx.is_empty().unwrap(), twin.entries.is_empty());
        }
        tx.commit().unwrap();
        let left = db.iter().map(|entry| entry.unwrap());
        let left: Entries = left.map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
        assert_eq!(left, twin.entries);
    }
}

/// Checks that an iterator that is never dropped counts as having read its whole range.
#[test]
fn a_walk_that_is_forgotten_counts_as_a_whole() {
    let db = Db::open("/db", Options::default().create_if_missing(true).fs(MemFs::new()));
    let db = db.unwrap();
    (0..10).for_each(|i| db.put(format!("{i}"), "").unwrap());
    for (key, conflicts) in [("1", false), ("4", true), ("8", true), ("9", false)] {
        let mut tx = db.transaction();
        let mut iter = tx.range("2".."9");
        assert!(iter.next().is_some());
        std::mem::forget(iter);
        // Another iterator records its own reads, independently of the first.
        assert!(tx.range("2".."3").next().is_some());
        tx.put("~", "");
        db.put(key, "").unwrap();
        assert_eq!(tx.commit().is_err(), conflicts, "{key}");
    }
    let mut tx = db.transaction();
    let mut cursor = tx.cursor().unwrap();
    assert!(cursor.seek("5").unwrap());
    std::mem::forget(cursor);
    tx.put("~", "");
    db.put("1", "").unwrap();
    assert!(tx.commit().unwrap_err().is_conflict());
}

#[test]
fn a_walk_shows_the_writes_before_it_and_none_after_it() {
    let home = tempfile::tempdir().unwrap();
    let db = Db::create(home.path()).unwrap();
    db.put("2", "stored").unwrap();
    let mut tx = db.transaction();
    tx.put("1", "before");
    let (mut iter, mut cursor) = (tx.iter(), tx.cursor().unwrap());
    assert_eq!(iter.next().unwrap().unwrap().1, "before");
    tx.put("1", "after");
    tx.delete("2");
    tx.put("3", "after");
    assert_eq!(iter.next().unwrap().unwrap().1, "stored");
    assert!(iter.next().is_none());
    assert!(cursor.seek_to_last().unwrap());
    assert_eq!((cursor.key(), cursor.value()), (&b"2"[..], &b"stored"[..]));
    drop((iter, cursor));
    let keys: Vec<_> = tx.iter().keys().map(Result::unwrap).collect();
    assert_eq!(keys, ["1", "3"]);
    tx.commit().unwrap();
    assert_eq!(db.get("1").unwrap().unwrap(), "after");
}

#[test]
fn a_walk_that_exists_at_the_commit_counts_as_having_read_all_that_it_could_reach() {
    let home = tempfile::tempdir().unwrap();
    let db = Db::create(home.path()).unwrap();
    db.put("2", "").unwrap();
    for (range_is_read, is_dropped) in [(true, false), (false, true)] {
        let mut tx = db.transaction();
        let mut iter = tx.range("1".."7");
        iter.next().unwrap().unwrap();
        tx.put("own", "");
        db.put("5", "").unwrap();
        let alive = (!is_dropped).then_some(iter);
        assert_eq!(tx.commit().is_err_and(|error| error.is_conflict()), range_is_read);
        // What it shows is still that of the transaction.
        assert!(alive.into_iter().flatten().all(|entry| entry.unwrap().0 != "5"));
        db.delete("5").unwrap();
    }
}

#[test]
fn traces_and_explanations_in_a_transaction_are_those_of_the_database() {
    let home = tempfile::tempdir().unwrap();
    let db = Db::create(home.path()).unwrap();
    let space = db.keyspace("space").unwrap();
    space.put("a", "stored").unwrap();
    db.flush().unwrap();
    let mut tx = db.transaction();
    tx.put_in(&space, "a", "own");
    let (value, trace) = tx.keyspace(&space).get_traced("a").unwrap();
    assert_eq!((value.unwrap(), trace.total().tables_considered), ("own".into(), 0));
    let told = tx.keyspace(&space).explain("a").unwrap();
    assert_eq!(told.value.unwrap(), "stored");
    // The explanation is not checked.
    space.put("a", "other").unwrap();
    tx.commit().unwrap();
    assert_eq!(space.get("a").unwrap().unwrap(), "own");
}

#[test]
fn a_walk_backward_past_many_later_versions_shows_the_own_write() {
    let home = tempfile::tempdir().unwrap();
    let db = Db::create(home.path()).unwrap();
    db.put("a", "").unwrap();
    for (is_stored, is_deleted) in [(true, false), (false, false), (true, true)] {
        if is_stored {
            db.put("hot", "stored").unwrap();
        }
        let mut tx = db.transaction();
        match is_deleted {
            true => tx.delete("hot"),
            false => tx.put("hot", "own"),
        }
        (0..200).for_each(|_| db.put("hot", "later").unwrap());
        let last = tx.iter().next_back().unwrap().unwrap();
        let expected = if is_deleted { ("a", "") } else { ("hot", "own") };
        assert_eq!(last, (expected.0.into(), expected.1.into()));
        let mut cursor = tx.cursor().unwrap();
        assert!(cursor.seek_for_prev("i").unwrap());
        assert_eq!(cursor.value(), expected.1.as_bytes());
        // A step back from a later key reaches it, too.
        let mut tx = db.transaction();
        tx.put("hot", "own");
        tx.put("z", "");
        (0..200).for_each(|_| db.put("hot", "later").unwrap());
        let keys: Vec<_> = tx.iter().keys().rev().map(Result::unwrap).collect();
        assert_eq!(keys, ["z", "hot", "a"]);
        drop(cursor);
        db.delete("hot").unwrap();
    }
}
