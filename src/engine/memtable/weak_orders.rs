//! Models of one writer beside readers, explored by loom in every order of their steps, and with
//! every value that a load may return by its memory ordering.
//!
//! ```text
//! RUSTFLAGS="--cfg minikv_loom" cargo test -p minikv --lib --target-dir target/loom -- weak_orders
//! ```
//!
//! A thread is interrupted at most twice, or `LOOM_MAX_PREEMPTIONS` times.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use loom::thread;

use super::entries::Appended;
use super::{Arena, EXPECTED_ENTRY_BYTES, Memtable};
use crate::base::BytewiseComparator;
use crate::base::hash::key_hash;
use crate::engine::read::view::VisibleSeq;
use crate::format::batch::WriteBatch;
use crate::format::key::UserComparator;

/// Explores `model`, and prints in how many executions.
fn explore(name: &str, model: impl Fn() + Send + Sync + 'static) {
    let executions = Arc::new(AtomicU64::new(0));
    let count = executions.clone();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.check(move || {
        count.fetch_add(1, Ordering::Relaxed);
        model();
    });
    println!("{name}: {} executions", executions.load(Ordering::Relaxed));
}

/// Explores a writer that puts `keys` one by one and makes each put visible. A reader then gets all
/// keys at the newest sequence number that it sees.
fn beside_a_reader(name: &str, expected_entries: usize, keys: Vec<Vec<u8>>) {
    explore(name, move || {
        let order = UserComparator::new(Arc::new(BytewiseComparator));
        let mem = Arc::new(Memtable::new(&order, expected_entries * EXPECTED_ENTRY_BYTES));
        let visible = VisibleSeq::new(0);
        let reader = thread::spawn({
            let (mem, visible, keys) = (mem.clone(), visible.clone(), keys.clone());
            move || {
                let at = visible.get();
                for key in &keys {
                    let newest = (1..=at).rev().find(|seq| keys[*seq as usize - 1] == *key);
                    assert_eq!(mem.get(key, at).map(|found| found.seq), newest, "at {at}");
                }
            }
        });
        let mut arena = Arena::default();
        for (seq, key) in (1..).zip(&keys) {
            let mut batch = WriteBatch::new();
            batch.put(key, b"");
            mem.insert_batch(batch.contents(), seq, &mut arena).unwrap();
            visible.advance(seq);
        }
        reader.join().unwrap();
    });
}

/// Returns `count` keys whose hashes are equal in the lowest `bits` bits.
fn crowded(count: usize, bits: u32) -> Vec<Vec<u8>> {
    let keys = (b'a'..=b'z').flat_map(|a| (b'a'..=b'z').map(move |b| vec![a, b]));
    keys.filter(|key| key_hash(key).trailing_zeros() >= bits).take(count).collect()
}

#[test]
fn a_length_that_is_seen_shows_all_elements_below_it() {
    explore("array", || {
        let array = Arc::new(Appended::new());
        let reader = thread::spawn({
            let array = array.clone();
            move || {
                let len = array.len();
                (0..len).for_each(|number| assert_eq!(array.get(number), Some(&number)));
            }
        });
        (0..5u32).for_each(|number| array.push(number));
        reader.join().unwrap();
    });
}

#[test]
fn a_get_finds_what_is_visible_while_the_index_grows() {
    let keys = crowded(2, 2);
    let (a, b) = (&keys[0], &keys[1]);
    beside_a_reader("growth", 0, [a, b, a].map(Clone::clone).to_vec());
}

#[test]
fn a_get_finds_what_is_visible_while_a_bucket_is_made_tidy() {
    let keys = crowded(3, 3);
    let (a, b, c) = (&keys[0], &keys[1], &keys[2]);
    beside_a_reader("tidy chains", 8, [a, b, a, c].map(Clone::clone).to_vec());
}
