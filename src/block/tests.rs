//! Compares blocks with sorted lists, and tests malicious blocks.

use std::sync::Arc;

use bytes::Bytes;

use super::*;
use crate::base::Result;
use crate::base::random::Rng;
use crate::block::cursor::BlockCursor;
use crate::block::position::Position;
use crate::format::block_builder::BlockBuilder;
use crate::format::coding::put_varint32;
use crate::format::key::{
    InternalComparator, KeyKind, KeyOrder, ParsedKey, UserComparator, internal_key, trailer,
    user_key,
};

type Model = Vec<(Vec<u8>, Vec<u8>)>;

fn order() -> KeyOrder {
    KeyOrder::User(UserComparator::new(Arc::new(crate::base::BytewiseComparator)))
}

fn build(entries: &Model, interval: usize) -> Block {
    let mut builder = BlockBuilder::new(interval);
    for (key, value) in entries {
        builder.add(key, value);
    }
    Block::new(Bytes::copy_from_slice(builder.finish())).unwrap()
}

fn model(rng: &mut Rng, entries: usize) -> Model {
    let mut keys: Vec<_> = (0..rng.index(entries)).map(|_| rng.bytes(12, 3)).collect();
    if rng.index(4) == 0 {
        keys.iter_mut().step_by(3).for_each(|key| key.extend_from_slice(&[1; 300]));
    }
    keys.sort();
    keys.dedup();
    keys.into_iter().map(|key| (key, rng.bytes(200, 256))).collect()
}

/// Makes the same random move with `cursor` and with `at`, an index into the model. Returns the new
/// index. An index equal to the model's length means "not positioned".
fn step(rng: &mut Rng, model: &Model, cursor: &mut BlockCursor, at: usize) -> usize {
    let (found, at) = match rng.index(8) {
        0 => (cursor.seek_to_first().unwrap(), 0),
        1 => (cursor.seek_to_last().unwrap(), model.len().wrapping_sub(1)),
        2 => {
            let target = rng.bytes(13, 3);
            let at = model.partition_point(|(key, _)| *key < target);
            (cursor.seek(&order(), &target).unwrap(), at)
        }
        3..6 => (cursor.next().unwrap(), if at < model.len() { at + 1 } else { at }),
        _ if at < model.len() => (cursor.prev().unwrap(), at.wrapping_sub(1)),
        _ => (cursor.prev().unwrap(), at),
    };
    let at = at.min(model.len());
    assert_eq!((found, cursor.valid()), (at < model.len(), at < model.len()));
    at
}

#[test]
fn a_cursor_moves_as_a_sorted_list_does() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let model = model(&mut rng, 120);
        let block = build(&model, 1 + rng.index(20));
        let mut cursor = block.cursor();
        let mut at = model.len();
        for _ in 0..200 {
            at = step(&mut rng, &model, &mut cursor, at);
            let (key, value) = model.get(at).cloned().unwrap_or_default();
            assert_eq!((cursor.key(), cursor.value()), (&key[..], &value[..]), "seed {seed}");
            assert_eq!(cursor.value_bytes(), value, "seed {seed}");
        }
    }
}

#[test]
fn get_ge_finds_the_entries_that_a_sorted_list_finds() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let model = model(&mut rng, 120);
        let block = build(&model, 1 + rng.index(20));
        let mut scratch = Vec::new();
        for _ in 0..100 {
            let target = rng.bytes(13, 3);
            let found = block.view().get_ge(&order(), &target, &mut scratch).unwrap();
            let found = found.map(|entry| (entry.key.to_vec(), entry.value.to_vec()));
            let want = model.iter().find(|(key, _)| *key >= target).cloned();
            assert_eq!(found, want, "seed {seed}");
        }
    }
}

/// Returns a block with a well-formed restart array and one entry, whose header states the lengths
/// `lens`.
fn forged(lens: [u32; 3], rest: &[u8]) -> Block {
    let mut bytes = Vec::new();
    lens.into_iter().for_each(|len| put_varint32(&mut bytes, len));
    bytes.extend_from_slice(rest);
    bytes.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
    Block::new(bytes).unwrap()
}

#[test]
fn malformed_entries_are_errors_in_every_move() {
    const MAX: u32 = u32::MAX;
    let lens = [[0, 5, 0], [0, 0, 5], [1, 1, 1], [MAX; 3], [0, MAX, MAX], [0, MAX, 0]];
    for block in lens.map(|lens| forged(lens, b"abcd")) {
        let mut cursor = block.cursor();
        for error in [
            cursor.seek_to_first().unwrap_err(),
            cursor.seek_to_last().unwrap_err(),
            cursor.seek(&order(), b"a").unwrap_err(),
            block.view().get_ge(&order(), b"a", &mut Vec::new()).unwrap_err(),
        ] {
            assert!(error.is_corruption() && error.to_string().contains("byte 0"), "{error}");
        }
        assert!(!cursor.valid() && !cursor.next().unwrap() && !cursor.prev().unwrap());
    }
    let cut = Block::new(Bytes::from_static(b"\x00\x80\0\0\0\0\x01\0\0\0")).unwrap();
    assert!(cut.cursor().seek_to_first().unwrap_err().is_corruption());
}

#[test]
fn a_malformed_second_entry_is_an_error_after_the_first() {
    let block = forged([0, 1, 1], b"kv\x02\x00\x00");
    let mut cursor = block.cursor();
    assert!(cursor.seek_to_first().unwrap());
    let error = cursor.next().unwrap_err();
    assert!(error.to_string().contains("byte 5"), "{error}");
    assert!(!cursor.valid());
}

#[test]
fn bad_restart_arrays_are_refused() {
    let cases: [&[u8]; 8] = [
        b"",
        b"\x01\0\0",
        b"\x01\0\0\0",
        b"\xff\xff\xff\xff",
        b"\0\x01\x01kv\0\0\0\0", // entries without a restart point
        b"\0\x01\x01kv\x01\0\0\0\x01\0\0\0", // the first restart point is not 0
        b"\0\x01\x01kv\0\0\0\0\x05\0\0\0\x02\0\0\0", // a restart point past the entries
        b"\0\x01\0a\0\x01\0b\0\x01\0c\0\0\0\0\x08\0\0\0\x04\0\0\0\x03\0\0\0", // descending restarts
    ];
    for case in cases {
        let error = Block::new(Bytes::from_static(case)).unwrap_err();
        assert!(error.is_corruption(), "{case:?}");
    }
    assert!(Block::new(Bytes::from_static(&[0; 4])).unwrap().is_empty());
    assert!(Block::new(Bytes::from_static(&[0, 0, 0, 0, 1, 0, 0, 0])).unwrap().is_empty());
}

#[test]
fn no_change_of_a_byte_panics() {
    let mut rng = Rng::new(1);
    let model = model(&mut rng, 60);
    let bytes = build(&model, 3).view().contents().to_vec();
    for i in 0..bytes.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[i] ^= flip;
            let Ok(block) = Block::new(changed) else { continue };
            let mut cursor = block.cursor();
            let mut valid = cursor.seek_to_first();
            while valid.as_ref().is_ok_and(|&valid| valid) {
                valid = cursor.next();
            }
            let mut valid = cursor.seek_to_last();
            while valid.as_ref().is_ok_and(|&valid| valid) {
                valid = cursor.prev();
            }
            let _ = cursor.seek(&order(), b"\x01\x01");
        }
    }
}

#[test]
fn going_back_over_keys_too_long_to_keep() {
    let entries: Model =
        (0..40u8).map(|i| ([vec![b'k'; 100_000], vec![i]].concat(), vec![i])).collect();
    let mut cursor = build(&entries, 64).cursor();
    let mut found = cursor.seek_to_last().unwrap();
    for (key, value) in entries.iter().rev() {
        assert!(found && cursor.key() == key && cursor.value() == value);
        found = cursor.prev().unwrap();
    }
    assert!(!found);
    assert!(cursor.kept_bytes() < 4 << 20);
}

fn internal_order() -> KeyOrder {
    KeyOrder::Internal(InternalComparator::new(Arc::new(crate::base::BytewiseComparator)))
}

/// Returns versions of keys with a common prefix. The heads of some of the keys are equal.
fn internal_model(rng: &mut Rng) -> Model {
    let order = internal_order();
    let start = rng.bytes(20, 2);
    let (len, alphabet) = (1 + rng.index(20), 2 + rng.below(3));
    // If `base` is 0, user keys consist of bytes that also occur in trailers. Neighbouring keys of
    // different lengths may then share bytes that belong to the trailer of one key but to the user
    // key of the other, which heads do not support.
    let base = if rng.index(5) == 0 { 0 } else { b'a' };
    let mut keys: Vec<_> = (0..rng.index(80))
        .map(|_| {
            let mut key = start.clone();
            if rng.index(5) == 0 {
                key.extend_from_slice(b"\0\0\0\0\0\0\0\0\0\0");
            }
            key.extend(rng.bytes(len, alphabet).iter().map(|byte| base + byte));
            let kind = [KeyKind::Deletion, KeyKind::Value][rng.index(2)];
            internal_key(&key, rng.below(5) * [1, 256, 70_000][rng.index(3)], kind)
        })
        .collect();
    keys.sort_by(|a, b| order.compare(a, b));
    keys.dedup();
    keys.into_iter().map(|key| (key, rng.bytes(200, 256))).collect()
}

fn internal_target(rng: &mut Rng, model: &Model) -> Vec<u8> {
    let mut key = match rng.index(4) {
        0 => rng.bytes(30, 3),
        _ if model.is_empty() => Vec::new(),
        _ => user_key(&model[rng.index(model.len())].0).to_vec(),
    };
    match rng.index(6) {
        0 => key.push([0, b'a', b'z'][rng.index(3)]),
        1 => drop(key.pop()),
        2 => key.truncate(rng.index(key.len() + 1)),
        _ => {}
    }
    internal_key(&key, rng.below(400_000), KeyKind::Value)
}

/// Looks up `target` without heads. Returns the trailer and the value of the entry found.
fn find_plain(block: &Block, target: &[u8]) -> Result<Option<(u64, Vec<u8>)>> {
    let (mut position, mut buffer) = (Position::default(), Vec::new());
    let view = block.view();
    if view.is_empty() || !position.seek_plain(view, &internal_order(), target, &mut buffer)? {
        return Ok(None);
    }
    let key = position.key(view, &buffer);
    let value = view.contents()[position.value_start..position.end].to_vec();
    Ok((user_key(key) == user_key(target)).then(|| (trailer(key), value)))
}

/// Returns whether a lookup by heads gives an answer. Checks that the answer is correct.
fn heads_tell(block: &Block, target: &[u8], what: impl std::fmt::Debug) -> bool {
    let found = match block.view().find_by_heads(user_key(target), trailer(target)) {
        ByHeads::Found(trailer, value) => Some((trailer, value.to_vec())),
        ByHeads::Absent => None,
        ByHeads::Unknown => return false,
    };
    assert_eq!(found, find_plain(block, target).unwrap(), "{what:?}, target {target:?}");
    true
}

#[test]
fn spare_memory_is_used_if_it_is_long_enough_and_nobody_has_it() {
    let mut rng = Rng::new(7);
    let of_value = |bytes| {
        let mut builder = BlockBuilder::new(1);
        builder.add(b"key", &vec![7; bytes]);
        Block::new(builder.finish()).unwrap()
    };
    let (small, large) = (build(&internal_model(&mut rng), 4), of_value(20_000));
    let put = |spare: Block| {
        let block = Block::with_heads(&small, &internal_order(), &mut Vec::new(), |len| {
            assert!(len >= small.view().contents().len());
            Some(spare.into_shared())
        });
        assert_eq!(block.as_ref().unwrap().view().contents(), small.view().contents());
        block.unwrap()
    };
    let (kept, len) = (large.clone(), large.len());
    assert_ne!(put(large).len(), len, "another has it");
    assert_eq!(kept.as_ref(), of_value(20_000).as_ref());
    assert_eq!(put(kept).len(), len, "all of its memory counts");
    assert_ne!(put(of_value(1)).len(), of_value(1).len());
}

#[test]
fn heads_find_the_entries_that_a_search_of_the_block_finds() {
    let (mut with_heads, mut told, mut asked) = (0, 0, 0);
    // Each block reuses the allocation of the previous one, if it is large enough.
    let mut before: Option<Block> = None;
    for seed in 0..600 {
        let mut rng = Rng::new(seed);
        let model = internal_model(&mut rng);
        let plain = build(&model, 1 + rng.index(20));
        let spare = |_| before.take().map(Block::into_shared);
        let block = Block::with_heads(&plain, &internal_order(), &mut Vec::new(), spare).unwrap();
        assert_eq!(block.view().contents(), plain.view().contents());
        with_heads += usize::from(block.view().heads().is_some());
        for _ in 0..100 {
            let target = internal_target(&mut rng, &model);
            if block.view().heads().is_some() {
                told += usize::from(heads_tell(&block, &target, seed));
                asked += 1;
            }
        }
        before = Some(block);
    }
    assert!(with_heads > 200, "{with_heads}");
    assert!(told * 10 > asked * 8 && told < asked, "{told} of {asked}");
}

#[test]
fn a_cursor_moves_by_heads_as_a_sorted_list_does() {
    let order = internal_order();
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let model = internal_model(&mut rng);
        let block = build(&model, 1 + rng.index(20));
        let block = Block::with_heads(&block, &order, &mut Vec::new(), |_| None).unwrap();
        let mut cursor = block.cursor();
        let mut at = model.len();
        for _ in 0..200 {
            let (found, to) = match rng.index(8) {
                0 => (cursor.seek_to_first(), 0),
                1 => (cursor.seek_to_last(), model.len().wrapping_sub(1)),
                2 | 3 => {
                    let target = internal_target(&mut rng, &model);
                    let less = |(key, _): &(Vec<u8>, _)| order.compare(key, &target).is_lt();
                    (cursor.seek(&order, &target), model.partition_point(less))
                }
                4 | 5 => (cursor.next(), at + 1),
                _ if at < model.len() => (cursor.prev(), at.wrapping_sub(1)),
                _ => (cursor.prev(), at),
            };
            at = to.min(model.len());
            assert_eq!(found.unwrap(), at < model.len(), "seed {seed}");
            let (key, value) = model.get(at).cloned().unwrap_or_default();
            assert_eq!((cursor.key(), cursor.value()), (&key[..], &value[..]), "seed {seed}");
            assert_eq!(cursor.value_bytes(), value, "seed {seed}");
        }
    }
}

/// Returns the keys of a block, if it is well-formed.
fn keys_of(block: &Block) -> Result<Vec<Vec<u8>>> {
    let (mut cursor, mut keys) = (block.cursor(), Vec::new());
    let mut valid = cursor.seek_to_first()?;
    while valid {
        keys.push(cursor.key().to_vec());
        valid = cursor.next()?;
    }
    Ok(keys)
}

#[test]
fn heads_of_hostile_blocks_are_none_or_tell_the_truth() {
    let order = internal_order();
    let (mut heads, mut none) = (0, 0);
    for seed in 0..6 {
        let mut rng = Rng::new(seed * 7 + 1);
        let model = internal_model(&mut rng);
        let bytes = build(&model, 4).view().contents().to_vec();
        let targets: Vec<_> = (0..20).map(|_| internal_target(&mut rng, &model)).collect();
        for (at, flip) in (0..bytes.len()).flat_map(|at| [0x01, 0x80, 0xff].map(|f| (at, f))) {
            let mut changed = bytes.clone();
            changed[at] ^= flip;
            let Ok(block) = Block::with_heads(&changed, &order, &mut Vec::new(), |_| None) else {
                continue;
            };
            if block.view().heads().is_none() {
                none += 1;
                continue;
            }
            heads += 1;
            let keys = keys_of(&block).expect("a block with heads is sound");
            assert!(keys.iter().all(|key| ParsedKey::parse(key).is_ok()));
            let sorted = keys.is_sorted_by(|a, b| order.compare(a, b).is_lt());
            for target in &targets {
                let found = block.view().find_by_heads(user_key(target), trailer(target));
                let mut cursor = block.cursor();
                cursor.seek(&order, target).unwrap();
                while cursor.valid() {
                    cursor.prev().unwrap();
                }
                if sorted {
                    heads_tell(&block, target, (seed, at, flip));
                } else if let ByHeads::Found(trailer, _) = found {
                    let key = [user_key(target), &trailer.to_le_bytes()].concat();
                    assert!(keys.contains(&key), "seed {seed}, byte {at}");
                }
            }
        }
    }
    assert!(heads > 1000 && none > 1000, "{heads} {none}");
}

#[test]
fn only_small_blocks_of_internal_keys_in_byte_order_have_heads() {
    let have_heads = |entries: &Model, order: &KeyOrder| {
        let plain = build(entries, 16);
        let block = Block::with_heads(&plain, order, &mut Vec::new(), |_| None).unwrap();
        (plain.len(), block.view().heads().is_some())
    };
    let entries = |value_bytes: usize| -> Model {
        let key = |i: u8| internal_key(&[b'k', i], 1, KeyKind::Value).to_vec();
        (0..2).map(|i| (key(i), vec![7; value_bytes])).collect()
    };
    assert!(have_heads(&entries(100), &internal_order()).1);
    let plain = build(&entries(100), 16);
    let block = Block::with_heads(&plain, &internal_order(), &mut Vec::new(), |_| None).unwrap();
    let mut position = Position::default();
    assert!(position.prev_by_heads(block.view(), &mut Vec::new()).is_some());
    assert!(position.prev_by_heads(plain.view(), &mut Vec::new()).is_none());
    assert!(!have_heads(&entries(100), &order()).1, "keys without trailers");
    assert!(!have_heads(&Model::new(), &internal_order()).1, "no entries");
    // Entry offsets have two bytes, so only a block of at most 65,535 bytes can have heads.
    let (len, _) = have_heads(&entries(32_000), &internal_order());
    let mut most = entries(32_000);
    most[1].1.resize(32_000 + 65_535 - len, 7);
    assert_eq!(have_heads(&most, &internal_order()), (65_535, true));
    most[1].1.push(7);
    assert_eq!(have_heads(&most, &internal_order()), (65_536, false));
}

#[test]
fn a_cursor_without_heads_turns_round_anywhere() {
    let entries: Model = (0..40u8).map(|i| (vec![b'k', i], vec![i])).collect();
    let mut cursor = BlockCursor::new(build(&entries, 16));
    for (start, moves) in [(20, "<><<>>><<<"), (3, "<<><>><"), (39, "<<<<<><<<<<><")] {
        assert!(cursor.seek(&order(), &[b'k', start]).unwrap());
        let mut at = start;
        for step in moves.bytes() {
            let (moved, to) = match step {
                b'<' => (cursor.prev().unwrap(), at - 1),
                _ => (cursor.next().unwrap(), at + 1),
            };
            at = to;
            assert_eq!((moved, cursor.value()), (true, &[at][..]), "{start} {moves}");
        }
    }
    cursor.invalidate();
    assert!(!cursor.valid() && cursor.key().is_empty() && cursor.value().is_empty());
}

#[test]
fn an_empty_block_has_one_restart_at_most() {
    let restarts = |offsets: &[u32]| {
        let mut bytes: Vec<u8> = offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect();
        bytes.extend_from_slice(&(offsets.len() as u32).to_le_bytes());
        Block::new(bytes).map(|block| block.is_empty()).map_err(|error| error.to_string())
    };
    assert_eq!((restarts(&[]), restarts(&[0])), (Ok(true), Ok(true)));
    assert!(restarts(&[1]).unwrap_err().contains("restart 0 of the block"));
    assert!(restarts(&[0, 0]).unwrap_err().contains("restart 1 of the block"));
}
