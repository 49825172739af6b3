//! Keys with very many versions. The number of comparisons shows that cursors do not step through
//! all versions.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use minikv::fs::MemFs;
use minikv::{Comparator, Cursor, Db, Options, Readable, Snapshot};

use crate::rng::Rng;

/// Bytewise order that counts its calls.
#[derive(Debug, Default)]
struct Counting(AtomicU64);

impl Comparator for Counting {
    fn name(&self) -> &str {
        "test.Counting"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.0.fetch_add(1, SeqCst);
        a.cmp(b)
    }
    fn find_shortest_separator(&self, _: &mut Vec<u8>, _: &[u8]) {}
    fn find_short_successor(&self, _: &mut Vec<u8>) {}
}

fn options() -> Options {
    let options = Options::default().create_if_missing(true).fs(MemFs::new());
    options.write_buffer_bytes(64 << 20)
}

#[test]
fn a_cursor_passes_a_hundred_thousand_versions_of_a_key_in_few_steps() {
    const VERSIONS: u64 = 100_000;
    let order = Arc::new(Counting::default());
    let db = Db::open("/db", options().comparator(order.clone())).unwrap();
    db.put("a", "first").unwrap();
    let mut snapshots = vec![(db.snapshot(), None)];
    for number in 0..VERSIONS {
        db.put("hot", number.to_string()).unwrap();
        if number == VERSIONS / 2 {
            snapshots.push((db.snapshot(), Some(number.to_string())));
        }
    }
    db.put("z", "last").unwrap();
    snapshots.push((db.snapshot(), Some((VERSIONS - 1).to_string())));
    for (snapshot, hot) in snapshots {
        let mut cursor = snapshot.cursor().unwrap();
        let before = order.0.load(SeqCst);
        let mut expected = vec![("a", "first")];
        expected.extend(hot.as_deref().map(|hot| ("hot", hot)));
        if snapshot.sequence() > VERSIONS {
            expected.push(("z", "last"));
        }
        for _ in 0..2 {
            assert!(cursor.seek_to_first().unwrap());
            check(&mut cursor, &expected, Cursor::next);
            assert!(cursor.seek_to_last().unwrap());
            let backward: Vec<_> = expected.iter().rev().copied().collect();
            check(&mut cursor, &backward, Cursor::prev);
        }
        // The cursor changes direction at every entry.
        for (key, value) in &expected {
            assert!(cursor.seek(key).unwrap() && cursor.value() == value.as_bytes());
            let is_first = !cursor.prev().unwrap();
            assert_eq!(is_first, *key == "a");
            assert!(cursor.seek_for_prev(key).unwrap() && cursor.value() == value.as_bytes());
            let is_last = !cursor.next().unwrap();
            assert_eq!(is_last, *key == expected.last().unwrap().0);
        }
        let comparisons = order.0.load(SeqCst) - before;
        assert!(comparisons < 10_000, "{comparisons} comparisons");
    }
}

fn check(
    cursor: &mut Cursor,
    expected: &[(&str, &str)],
    step: fn(&mut Cursor) -> minikv::Result<bool>,
) {
    for (at, (key, value)) in expected.iter().enumerate() {
        assert_eq!((cursor.key(), cursor.value()), (key.as_bytes(), value.as_bytes()));
        assert_eq!(step(cursor).unwrap(), at + 1 < expected.len());
    }
}

/// Expected entries of a snapshot.
type State = BTreeMap<Vec<u8>, u64>;

/// Checks that cursors at old and new snapshots move both ways, change direction and seek like
/// cursors of a map. The database has a few keys with hundreds of versions each, some of them
/// tombstones, in the memtable and in tables.
#[test]
fn cursors_among_many_versions_move_as_in_a_map() {
    let db = Db::open("/db", options().write_buffer_bytes(100 << 10)).unwrap();
    let mut state = State::new();
    let mut snapshots: Vec<(Snapshot, State)> = Vec::new();
    let mut rng = Rng::new(7);
    let mut below = |limit| rng.below(limit);
    let mut key = vec![b'c'];
    for number in 0..12_000u64 {
        // Most writes go to the same key as the write before.
        if number.is_multiple_of(150) || below(30) == 0 {
            key = vec![b'a' + below(6) as u8];
        }
        match below(4) {
            0 => {
                db.delete(&key).unwrap();
                state.remove(&key);
            }
            _ => {
                db.put(&key, number.to_le_bytes()).unwrap();
                state.insert(key.clone(), number);
            }
        }
        if below(200) == 0 {
            snapshots.push((db.snapshot(), state.clone()));
        }
    }
    for (snapshot, state) in &snapshots {
        let mut cursor = snapshot.cursor().unwrap();
        // Key of the cursor's entry, or `None` if the cursor is at no entry.
        let mut at: Option<Vec<u8>> = None;
        for _ in 0..60 {
            let target = vec![b'a' + below(6) as u8];
            let from = |from: Bound<Vec<u8>>| {
                state.range((from, Bound::Unbounded)).next().map(|(key, _)| key.clone())
            };
            let to = |to: Bound<Vec<u8>>| {
                state.range((Bound::Unbounded, to)).next_back().map(|(key, _)| key.clone())
            };
            let (valid, expected) = match below(8) {
                0 => (cursor.seek(&target), from(Bound::Included(target))),
                1 => (cursor.seek_for_prev(&target), to(Bound::Included(target))),
                2 => (cursor.seek_to_last(), to(Bound::Unbounded)),
                3..6 => (cursor.prev(), at.and_then(|at| to(Bound::Excluded(at)))),
                _ => (cursor.next(), at.and_then(|at| from(Bound::Excluded(at)))),
            };
            at = expected;
            assert_eq!(valid.unwrap(), at.is_some());
            if let Some(key) = &at {
                assert_eq!(
                    (cursor.key(), cursor.value()),
                    (&key[..], &state[key].to_le_bytes()[..])
                );
            }
        }
    }
}
