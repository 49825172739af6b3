//! The memtable alone: gets and cursors while another thread inserts entries.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use minikv::files::{ParsedKey, SeqNo};
use minikv::internals::base::hash::key_hash;
use minikv::internals::engine::memtable::{Arena, Memtable};
use minikv::internals::format::key::{KIND_FOR_SEEK, UserComparator, internal_key};
use minikv::{BytewiseComparator, WriteBatch};
use shuttle::thread;

use crate::check;

fn memtable() -> Arc<Memtable> {
    Arc::new(Memtable::new(&UserComparator::new(Arc::new(BytewiseComparator)), 0))
}

/// Inserts `versions` entries one by one, and makes each visible. Meanwhile, two threads call
/// `read` with the newest visible version.
fn beside_readers(read: fn(&Arc<Memtable>, u64), key: fn(u64) -> String, versions: u64) {
    let (mem, visible) = (memtable(), Arc::new(AtomicU64::new(0)));
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (mem, visible) = (mem.clone(), visible.clone());
            thread::spawn(move || {
                for _ in 0..3 {
                    read(&mem, visible.load(SeqCst));
                }
            })
        })
        .collect();
    let mut arena = Arena::default();
    for seq in 1..=versions {
        let mut batch = WriteBatch::new();
        batch.put(key(seq), "");
        mem.insert_batch(batch.contents(), seq, &mut arena).unwrap();
        visible.store(seq, SeqCst);
        if seq % 2 == 0 {
            drop(mem.cursor());
        }
    }
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    read(&mem, versions);
}

/// Returns the key of version `seq`. The keys neither ascend nor descend, so that leaves grow at
/// both ends and in the middle.
fn scattered(seq: u64) -> String {
    format!("{:02}", seq * 5 % 13)
}

/// Returns the version of `key`, or `None` if a reader at sequence number `at` must not see it.
fn seen(key: &[u8], at: u64) -> Option<SeqNo> {
    let key = ParsedKey::parse(key).unwrap();
    assert_eq!(scattered(key.seq).as_bytes(), key.user_key);
    (key.seq <= at).then_some(key.seq)
}

fn look_both_ways(mem: &Arc<Memtable>, at: u64) {
    let mut expected: Vec<_> = (1..=at).collect();
    expected.sort_by_key(|seq| scattered(*seq));
    let mut cursor = mem.cursor();
    let (mut forward, mut backward) = (Vec::new(), Vec::new());
    let mut valid = cursor.seek_to_last();
    while valid {
        backward.extend(seen(cursor.key(), at));
        valid = cursor.prev();
    }
    backward.reverse();
    assert_eq!(backward, expected, "backward at {at}");
    let mut valid = cursor.seek_to_first();
    while valid {
        forward.extend(seen(cursor.key(), at));
        valid = cursor.next();
    }
    assert_eq!(forward, expected, "forward at {at}");
}

#[test]
fn cursors_both_ways_miss_nothing_while_leaves_are_split() {
    check(|| beside_readers(look_both_ways, scattered, 12));
}

fn step_from_every_entry(mem: &Arc<Memtable>, at: u64) {
    let mut sorted: Vec<_> = (1..=at).collect();
    sorted.sort_by_key(|seq| scattered(*seq));
    let mut cursor = mem.cursor();
    for (place, seq) in sorted.iter().enumerate() {
        let target = internal_key(scattered(*seq).as_bytes(), *seq, KIND_FOR_SEEK);
        assert!(cursor.seek(&target));
        assert_eq!(seen(cursor.key(), at), Some(*seq));
        let mut before = None;
        while before.is_none() && cursor.prev() {
            before = seen(cursor.key(), at);
        }
        assert_eq!(before, place.checked_sub(1).map(|place| sorted[place]), "before {seq}");
    }
}

#[test]
fn a_step_back_from_any_entry_misses_nothing_while_leaves_are_split() {
    check(|| beside_readers(step_from_every_entry, scattered, 12));
}

/// Returns the key of version `seq`: one of four keys in the same bucket of the hash index. Two of
/// these keys are written in most versions.
fn crowded(seq: u64) -> String {
    let mut crowd = (0..).map(|n| n.to_string()).filter(|key| key_hash(key.as_bytes()) % 64 == 5);
    let number = if seq % 7 == 3 { seq / 7 % 2 } else { 2 + seq % 2 };
    crowd.nth(number as usize).unwrap()
}

fn get_all(mem: &Arc<Memtable>, at: u64) {
    for (version, at) in (1..=at).flat_map(|version| [(version, at), (version, at / 2)]) {
        let key = crowded(version);
        let expected = (1..=at).rev().find(|seq| crowded(*seq) == key);
        assert_eq!(mem.get(key.as_bytes(), at).map(|found| found.seq), expected, "{key} at {at}");
    }
}

#[test]
fn gets_miss_nothing_while_a_bucket_is_made_tidy() {
    check(|| beside_readers(get_all, crowded, 30));
}
