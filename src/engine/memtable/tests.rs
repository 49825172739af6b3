use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::*;
use crate::base::BytewiseComparator;
use crate::base::comparator::testing::CaseBlind;
use crate::base::random::Rng;
use crate::format::batch::WriteBatch;
use crate::format::key::{MAX_SEQ_NO, ParsedKey, internal_key, user_key};

fn empty(order: impl Comparator) -> Memtable {
    Memtable::new(&UserComparator::new(Arc::new(order)), 0)
}

fn insert(mem: &Memtable, arena: &mut Arena, ops: &[(&[u8], Option<&[u8]>)], seq: SeqNo) {
    let mut batch = WriteBatch::new();
    for (key, value) in ops {
        match value {
            Some(value) => batch.put(key, value),
            None => batch.delete(key),
        }
    }
    mem.insert_batch(batch.contents(), seq, arena).unwrap();
}

fn memtable(ops: &[(&str, Option<&str>)]) -> Arc<Memtable> {
    let mem = empty(BytewiseComparator);
    let ops: Vec<_> = ops.iter().map(|(k, v)| (k.as_bytes(), v.map(str::as_bytes))).collect();
    insert(&mem, &mut Arena::default(), &ops, 1);
    Arc::new(mem)
}

fn value_at(mem: &Memtable, key: &[u8], seq: SeqNo) -> Option<Option<Bytes>> {
    let found = mem.get(key, seq)?;
    Some((found.kind == KeyKind::Value).then_some(found.value))
}

/// Returns all internal keys, read forward. Checks that reading backward returns the same keys.
fn all(mem: &Arc<Memtable>) -> Vec<Vec<u8>> {
    let mut cursor = mem.cursor();
    let mut forward = Vec::new();
    let mut valid = cursor.seek_to_first();
    while valid {
        forward.push(cursor.key().to_vec());
        valid = cursor.next();
    }
    let mut backward = Vec::new();
    valid = cursor.seek_to_last();
    while valid {
        backward.push(cursor.key().to_vec());
        valid = cursor.prev();
    }
    backward.reverse();
    assert_eq!(forward, backward);
    let mut flushed = Vec::new();
    let each = |key: &[u8], _: &[u8]| {
        flushed.push(key.to_vec());
        Ok(())
    };
    mem.for_each(each).unwrap();
    assert_eq!(forward, flushed);
    mem.check();
    forward
}

#[test]
fn readers_see_the_newest_version_at_their_sequence() {
    let mem = memtable(&[("a", Some("1")), ("a", Some("2")), ("a", None), ("b", Some("3"))]);
    assert_eq!(value_at(&mem, b"a", 1), Some(Some(Bytes::from("1"))));
    assert_eq!(value_at(&mem, b"a", 2), Some(Some(Bytes::from("2"))));
    assert_eq!(value_at(&mem, b"a", MAX_SEQ_NO), Some(None));
    assert_eq!(value_at(&mem, b"b", 3), None);
    assert_eq!(value_at(&mem, b"b", 4), Some(Some(Bytes::from("3"))));
    assert_eq!(value_at(&mem, b"", MAX_SEQ_NO), None);
    assert_eq!((mem.last_seq(), mem.len()), (4, 4));
}

#[test]
fn keys_that_share_a_padded_head_stay_apart() {
    let long = "k".repeat(500);
    let mem = memtable(&[("a", Some("1")), ("a\0", Some("2")), (&long, Some("3"))]);
    assert_eq!(value_at(&mem, b"a", MAX_SEQ_NO), Some(Some(Bytes::from("1"))));
    assert_eq!(value_at(&mem, b"a\0", MAX_SEQ_NO), Some(Some(Bytes::from("2"))));
    assert_eq!(value_at(&mem, b"a\0\0", MAX_SEQ_NO), None);
    assert_eq!(value_at(&mem, long.as_bytes(), MAX_SEQ_NO), Some(Some(Bytes::from("3"))));
    let keys: Vec<_> = all(&mem).iter().map(|key| user_key(key).to_vec()).collect();
    assert_eq!(keys, [b"a".to_vec(), b"a\0".to_vec(), long.into_bytes()]);
}

#[test]
fn a_key_of_many_versions_is_found_at_each_of_them() {
    let mem = empty(BytewiseComparator);
    let mut arena = Arena::default();
    for seq in 1..=5000u64 {
        insert(&mem, &mut arena, &[(b"hot", Some(&seq.to_le_bytes()))], seq);
    }
    for seq in [1, 2, 77, 4900, 4999, 5000, MAX_SEQ_NO] {
        let expected = seq.min(5000).to_le_bytes();
        assert_eq!(value_at(&mem, b"hot", seq), Some(Some(Bytes::copy_from_slice(&expected))));
    }
    assert_eq!(value_at(&mem, b"hot", 0), None);
}

/// The log of another program may contain sequence numbers in any order, and several entries with
/// the same sequence number, of which a get returns the last.
#[test]
fn versions_may_come_in_any_order() {
    let mem = empty(BytewiseComparator);
    let mut arena = Arena::default();
    for (seq, value) in [(9, "9"), (3, "3"), (5, "old 5"), (5, "5"), (1, "1")] {
        insert(&mem, &mut arena, &[(b"k", Some(value.as_bytes()))], seq);
    }
    for (seq, value) in [(1, "1"), (2, "1"), (3, "3"), (5, "5"), (8, "5"), (9, "9"), (20, "9")] {
        assert_eq!(value_at(&mem, b"k", seq), Some(Some(Bytes::from(value))), "at {seq}");
    }
    let mem = Arc::new(mem);
    let seqs: Vec<_> = all(&mem).iter().map(|k| ParsedKey::parse(k).unwrap().seq).collect();
    assert_eq!(seqs, [9, 5, 3, 1], "each internal key once");
}

#[test]
fn other_bytes_may_be_the_same_key() {
    let mem = empty(CaseBlind);
    let ops: [(&[u8], Option<&[u8]>); 3] =
        [(b"Key", Some(b"1")), (b"kEY", Some(b"2")), (b"other", Some(b"3"))];
    insert(&mem, &mut Arena::default(), &ops, 1);
    assert_eq!(value_at(&mem, b"key", 1), Some(Some(Bytes::from("1"))));
    assert_eq!(value_at(&mem, b"KEY", 9), Some(Some(Bytes::from("2"))));
    assert_eq!(value_at(&mem, b"OTHER", 9), Some(Some(Bytes::from("3"))));
}

/// A user key and a reversed sequence number, which sort in the same order as internal keys.
type Version = (Vec<u8>, Reverse<SeqNo>);

/// Compares random operations with the same operations on a map. Cursors are created at any time,
/// so leaves are created, extended and split.
#[test]
fn random_operations_match_a_sorted_map() {
    for (round, keys) in [(1, 300), (2, 5000), (3, 100_000)] {
        let mut rng = Rng::new(round);
        let mem = Arc::new(empty(BytewiseComparator));
        let mut arena = Arena::default();
        let mut model: BTreeMap<Version, Option<Vec<u8>>> = BTreeMap::new();
        let key = |n: u64| format!("a shared beginning {:>width$}", n, width = n as usize % 9);
        let mut seq = 0;
        for _ in 0..150 {
            let most = [1, 3, 1000][rng.below(3) as usize];
            for _ in 0..=rng.below(most) {
                seq += 1;
                let key = key(rng.below(keys)).into_bytes();
                let value = (rng.below(5) > 0).then(|| seq.to_string().into_bytes());
                insert(&mem, &mut arena, &[(&key, value.as_deref())], seq);
                model.insert((key, Reverse(seq)), value);
            }
            for _ in 0..20 {
                let (key, at) = (key(rng.below(keys)).into_bytes(), rng.below(seq + 2));
                let expected = model.range((key.clone(), Reverse(at))..).next();
                let expected = expected.filter(|((found, _), _)| *found == key);
                let found = value_at(&mem, &key, at);
                assert_eq!(found, expected.map(|(_, v)| v.clone().map(Bytes::from)), "at {at}");
            }
            let target = (key(rng.below(keys)).into_bytes(), Reverse(rng.below(seq + 2)));
            let mut cursor = mem.cursor();
            let mut valid = cursor.seek(&internal_key(&target.0, target.1.0, KIND_FOR_SEEK));
            let mut expected = model.range(target.clone()..);
            for _ in 0..200 {
                let next = expected.next();
                assert_eq!(valid, next.is_some());
                let Some(((key, at), value)) = next else { break };
                let found = ParsedKey::parse(cursor.key()).unwrap();
                assert_eq!((found.user_key, found.seq), (&key[..], at.0));
                assert_eq!(cursor.value(), value.as_deref().unwrap_or_default());
                assert_eq!(cursor.value_bytes(), cursor.value());
                valid = cursor.next();
            }
            if cursor.seek(&internal_key(&target.0, target.1.0, KIND_FOR_SEEK)) {
                for ((key, at), _) in model.range(..target).rev().take(100) {
                    assert!(cursor.prev());
                    let found = ParsedKey::parse(cursor.key()).unwrap();
                    assert_eq!((found.user_key, found.seq), (&key[..], at.0));
                }
            }
        }
        let expected: Vec<_> = model
            .iter()
            .map(|((key, seq), value)| {
                let kind = if value.is_some() { KeyKind::Value } else { KeyKind::Deletion };
                internal_key(key, seq.0, kind)
            })
            .collect();
        assert_eq!(all(&mem), expected);
    }
}

/// A cursor continues in key order while other cursors, created later, bring the leaves up to date
/// and split them.
#[test]
fn a_cursor_is_not_put_off_by_entries_added_meanwhile() {
    let mem = Arc::new(empty(BytewiseComparator));
    let mut arena = Arena::default();
    let key = |i: u32| format!("{i:06}").into_bytes();
    let mut seq = 0;
    for i in (0..3000).step_by(10) {
        seq += 1;
        insert(&mem, &mut arena, &[(&key(i), Some(b"v"))], seq);
    }
    let (mut forward, mut backward) = (mem.cursor(), mem.cursor());
    assert!(forward.seek_to_first() && backward.seek_to_last());
    let last = seq;
    let mut rng = Rng::new(5);
    for i in 0..300u32 {
        for (cursor, at) in [(&forward, i), (&backward, 299 - i)] {
            let found = ParsedKey::parse(cursor.key()).unwrap();
            assert_eq!((found.user_key, found.seq <= last), (&key(at * 10)[..], true));
        }
        for _ in 0..20 {
            seq += 1;
            insert(&mem, &mut arena, &[(&key(rng.below(3000) as u32), Some(b"w"))], seq);
        }
        mem.cursor();
        let old = |c: &MemCursor| ParsedKey::parse(c.key()).unwrap().seq <= last;
        while forward.next() && !old(&forward) {}
        while backward.prev() && !old(&backward) {}
    }
    assert!(!forward.valid() && !backward.valid());
}

#[test]
fn readers_and_cursors_beside_a_writer_see_whole_prefixes() {
    let mem = Arc::new(empty(BytewiseComparator));
    let visible = AtomicU64::new(0);
    const N: u64 = if cfg!(miri) { 200 } else { 30_000 };
    let key = |i: u64| (i * 7919 % N).to_be_bytes();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut rounds = 0;
                loop {
                    let seen = visible.load(std::sync::atomic::Ordering::Acquire);
                    for i in (1..=seen).rev().take(50) {
                        assert!(mem.get(&key(i), seen).is_some(), "{i} of {seen}");
                    }
                    if rounds % 8 == 0 {
                        let keys = all_seen(&mem, seen);
                        assert_eq!(keys.len() as u64, seen);
                        assert!(keys.is_sorted());
                    }
                    rounds += 1;
                    if seen == N {
                        break;
                    }
                }
            });
        }
        let mut arena = Arena::default();
        for i in 1..=N {
            insert(&mem, &mut arena, &[(&key(i), Some(b"v"))], i);
            visible.store(i, std::sync::atomic::Ordering::Release);
        }
    });
}

fn all_seen(mem: &Arc<Memtable>, seq: SeqNo) -> Vec<Vec<u8>> {
    let mut cursor = mem.cursor();
    let mut keys = Vec::new();
    let mut valid = cursor.seek_to_first();
    while valid {
        if ParsedKey::parse(cursor.key()).unwrap().seq <= seq {
            keys.push(cursor.key().to_vec());
        }
        valid = cursor.next();
    }
    keys
}

/// Byte order that counts down `left` and panics at the comparison for which `left` is 1.
#[derive(Clone, Debug, Default)]
struct PanicsOnce {
    left: Arc<AtomicUsize>,
}

impl Comparator for PanicsOnce {
    fn name(&self) -> &str {
        "panics-once"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        let left = self.left.load(Relaxed);
        self.left.store(left.saturating_sub(1), Relaxed);
        if left == 1 {
            std::panic::resume_unwind(Box::new("once"));
        }
        a.cmp(b)
    }
}

/// A leaf is split in several steps. A panic between any two steps must not hide later entries.
#[test]
fn a_split_cut_short_by_a_panic_of_the_comparator_hides_nothing_later() {
    let key = |i: u64| (i * 7919 % 1009).to_be_bytes();
    let fill = |mem: &Memtable, seqs: std::ops::Range<u64>| {
        let mut arena = Arena::default();
        seqs.for_each(|seq| insert(mem, &mut arena, &[(&key(seq), Some(b"v"))], seq));
    };
    let split = |at: usize| {
        let order = PanicsOnce::default();
        let mem = Arc::new(empty(order.clone()));
        fill(&mem, 1..100);
        mem.cursor();
        fill(&mem, 100..300);
        order.left.store(at, Relaxed);
        let cursor = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| mem.cursor()));
        let used = at - order.left.swap(0, Relaxed);
        (mem, cursor.is_ok(), used)
    };
    let (_, whole, comparisons) = split(usize::MAX);
    assert!(whole);
    // The last of these comparisons are made while leaves are split.
    for at in (1..=comparisons).rev().take(60) {
        let (mem, whole, _) = split(at);
        assert!(!whole);
        fill(&mem, 300..400);
        assert_eq!(all(&mem).len(), 399, "after a panic at comparison {at} of {comparisons}");
        fill(&mem, 400..1000);
        assert_eq!(all(&mem).len(), 999, "after a panic at comparison {at} of {comparisons}");
    }
}
