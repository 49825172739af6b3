//! Blocks of internal keys, which are searched by heads, too: an index that is not on the disk. All
//! sets of a few keys, lengths of shared prefixes and restart intervals, sound and with a byte
//! changed.

use std::cmp::Ordering;
use std::sync::Arc;

use minikv::BytewiseComparator;
use minikv::internals::block::Block;
use minikv::internals::format::key::{InternalComparator, KeyOrder};

use crate::blocks::{Order, compare, with_restarts};
use crate::twin::block::{Entry, Item};
use crate::{covered, hex, is_long, twin};

/// User keys that differ before, in and after the eight bytes of a head.
const USER_KEYS: [&[u8]; 7] =
    [b"", b"a", b"abcdefgh", b"abcdefgh\0", b"abcdefghijkl1", b"abcdefghijkl2", b"b"];

fn internal(user_key: &[u8], sequence: u64, kind: u8) -> Vec<u8> {
    [user_key, &(sequence << 8 | u64::from(kind)).to_le_bytes()].concat()
}

/// Compares internal keys of at least eight bytes: user keys, then the newest first. A shorter key
/// counts as an empty user key with the trailer 0: the documentation of `InternalComparator`.
fn order_of_twin(a: &[u8], b: &[u8]) -> Ordering {
    let [a, b] = [a, b].map(|key| {
        let at = key.len().checked_sub(8);
        at.map_or((&key[..0], 0), |at| (&key[..at], twin::coding::fixed64(key, at).unwrap()))
    });
    a.0.cmp(b.0).then(b.1.cmp(&a.1))
}

fn order() -> Order {
    let library = KeyOrder::Internal(InternalComparator::new(Arc::new(BytewiseComparator)));
    Order { library, twin: order_of_twin }
}

/// Returns a block of `keys`, with a restart point at every `interval`-th. Each entry shares up to
/// `shares` bytes with the one before it.
fn block_of(keys: &[Vec<u8>], interval: usize, shares: usize, value_bytes: usize) -> Vec<u8> {
    let (mut entries, mut restarts) = (Vec::new(), Vec::new());
    let mut before: &[u8] = &[];
    for (i, key) in keys.iter().enumerate() {
        let same = before.iter().zip(key).take_while(|(a, b)| a == b).count();
        let mut shared = same.min(shares);
        if i % interval == 0 {
            restarts.push(entries.len() as u32);
            shared = 0;
        }
        entries.extend([shared, key.len() - shared, value_bytes].map(|len| len as u8));
        entries.extend(&key[shared..]);
        entries.extend(vec![i as u8; value_bytes]);
        before = key;
    }
    if restarts.is_empty() {
        restarts.push(0);
    }
    with_restarts(&entries, &restarts)
}

fn with_heads(block: &[u8], order: &Order) -> minikv::Result<Block> {
    Block::with_heads(block, &order.library, &mut Vec::new(), |_| None)
}

/// Compares a search by heads alone, which may also be undecided, with the twin's search.
fn compare_heads(contents: &[u8], order: &Order, targets: &[Vec<u8>]) {
    let (Some(expected), Ok(block)) = (twin::block::block(contents), with_heads(contents, order))
    else {
        return;
    };
    if expected.is_damaged() || !expected.ascends(order.twin) {
        return;
    }
    for target in targets {
        let (user_key, trailer) = target.split_at(target.len() - 8);
        let trailer = twin::coding::fixed64(trailer, 0).unwrap();
        let found = format!("{:?}", block.view().find_by_heads(user_key, trailer));
        let at = expected.seek(order.twin, target).expect("no damage");
        let is_same =
            |entry: &Entry| entry.key.len() >= 8 && &entry.key[..entry.key.len() - 8] == user_key;
        let right = match expected.items.get(at) {
            Some(Item::Entry(entry)) if is_same(entry) => {
                let trailer = twin::coding::fixed64(&entry.key, entry.key.len() - 8).unwrap();
                format!("Found({trailer}, {:?})", entry.value)
            }
            _ => "Absent".to_owned(),
        };
        assert!(
            found == "Unknown" || found == right,
            "{target:02x?}: {found} in {}",
            hex(contents)
        );
    }
}

/// Calls `each` with all sets of keys, in order: of each user key no version, an old one, a new one
/// or both.
fn sets_of_keys(user_keys: &[&[u8]], mut each: impl FnMut(&[Vec<u8>])) {
    for set in 0..4_usize.pow(user_keys.len() as u32) {
        let mut keys = Vec::new();
        for (i, user_key) in user_keys.iter().enumerate() {
            let chosen = set >> (2 * i) & 3;
            if chosen & 2 == 2 {
                keys.push(internal(user_key, 9, 1));
            }
            if chosen & 1 == 1 {
                keys.push(internal(user_key, 4, 0));
            }
        }
        each(&keys);
    }
}

fn targets() -> Vec<Vec<u8>> {
    let mut others = USER_KEYS.to_vec();
    others.extend([&b"\0"[..], b"abcdefg", b"abcdefghh", b"abcdefghIJKL2", b"c"]);
    let versions = [(10, 1), (9, 1), (5, 0), (4, 0), (3, 1)];
    let all = others.iter().flat_map(|user_key| {
        versions.iter().map(move |(sequence, kind)| internal(user_key, *sequence, *kind))
    });
    all.collect()
}

#[test]
fn searches_by_heads_find_what_the_twin_finds() {
    let (order, targets) = (order(), targets());
    let user_keys = if is_long() { &USER_KEYS[..] } else { &USER_KEYS[3..] };
    let mut inputs = 0;
    sets_of_keys(user_keys, |keys| {
        for interval in [1, 2, 3, 16] {
            // With long values, blocks have heads.
            for (shares, value_bytes) in [(usize::MAX, 60), (0, 60), (3, 60), (usize::MAX, 1)] {
                let block = block_of(keys, interval, shares, value_bytes);
                compare(&block, Block::new(&block), &order, &targets);
                compare(&block, with_heads(&block, &order), &order, &targets);
                compare_heads(&block, &order, &targets);
                inputs += 1;
            }
        }
    });
    covered(inputs, "sound blocks of internal keys");
}

#[test]
fn searches_of_a_changed_block_find_nothing_that_the_twin_does_not_find() {
    let (order, targets) = (order(), targets());
    let mut inputs = 0;
    let keys: Vec<Vec<u8>> = USER_KEYS[1..5].iter().map(|key| internal(key, 9, 1)).collect();
    for interval in [1, 2, 16] {
        for shares in [0, usize::MAX] {
            let block = block_of(&keys, interval, shares, 41);
            let bytes: &[u8] = if is_long() {
                &[0, 1, 2, 7, 8, 40, 41, 42, b'a', b'b', 0x7f, 0x80, 0xff]
            } else {
                &[0, 9, 0xff]
            };
            for (at, byte) in (0..block.len()).flat_map(|at| bytes.iter().map(move |b| (at, b))) {
                let mut changed = block.clone();
                changed[at] = *byte;
                compare(&changed, Block::new(&changed), &order, &targets);
                compare(&changed, with_heads(&changed, &order), &order, &targets);
                compare_heads(&changed, &order, &targets);
                inputs += 1;
            }
        }
    }
    covered(inputs, "changed blocks of internal keys");
}
