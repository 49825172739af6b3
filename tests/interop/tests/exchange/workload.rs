//! Random operations on keys and values at the limits of the formats, and their model.

use std::collections::BTreeMap;

use minikv_interop::ffi::Op;

use crate::rng::Rng;

pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Applies a batch to the model.
pub fn apply(model: &mut Model, batch: &[Op]) {
    for op in batch {
        match op {
            Op::Put(key, value) => model.insert(key.clone(), value.clone()),
            Op::Delete(key) => model.remove(key),
        };
    }
}

/// Returns a batch that has every edge case once: empty keys and values, NULs, runs of 0xff, every
/// byte, long keys, values with lengths near the limits of varints and log blocks, and one
/// value of 1 MiB.
pub fn edges(rng: &mut Rng) -> Vec<Op> {
    let mut keys: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    for len in [2, 3, 8, 300] {
        keys.push(vec![0xff; len]);
        keys.push(vec![0; len]);
    }
    keys.extend([vec![], b"a\0".to_vec(), b"a\0\0b".to_vec(), rng.bytes(5000), vec![b'k'; 70_000]]);
    let mut batch: Vec<Op> = keys.into_iter().map(|key| Op::Put(key, rng.bytes(3))).collect();
    for len in [0, 1, 127, 128, 16_383, 16_384, 32_755, 32_761, 32_768, 100_000, 1 << 20] {
        batch.push(Op::Put(format!("value/{len}").into_bytes(), value_of(rng, len)));
    }
    batch
}

fn value_of(rng: &mut Rng, len: usize) -> Vec<u8> {
    match rng.one_in(2) {
        true => rng.bytes(len),
        false => b"minikv and LevelDB ".iter().copied().cycle().take(len).collect(),
    }
}

/// Returns one of a few thousand keys. Some share prefixes, some have equal lengths, and some
/// consist of the smallest and largest byte values.
fn key(rng: &mut Rng) -> Vec<u8> {
    match rng.below(10) {
        0..4 => format!("user:{:06}", rng.below(3000)).into_bytes(),
        4..7 => {
            let family = *rng.pick(&["a", "a/b", "a/b/c", "aa", "b"]);
            format!("{family}/{}", rng.below(400)).into_bytes()
        }
        7..9 => (0..rng.below(6)).map(|_| *rng.pick(&[0, 1, b'a', 0xfe, 0xff])).collect(),
        _ => [&b"long/".repeat(1 + rng.below(60))[..], &[rng.below(256) as u8]].concat(),
    }
}

/// Returns a batch, usually of one operation.
pub fn batch(rng: &mut Rng) -> Vec<Op> {
    let len = match rng.below(30) {
        0 => 0,
        1..25 => 1,
        25..29 => rng.below(20),
        _ => 200,
    };
    let op = |rng: &mut Rng| {
        if rng.one_in(4) {
            return Op::Delete(key(rng));
        }
        let most = *rng.pick(&[1, 50, 50, 200, 200, 3000]);
        let len = rng.below(most);
        Op::Put(key(rng), value_of(rng, len))
    };
    (0..len).map(|_| op(rng)).collect()
}

/// Returns keys that are not in `model`, but are neighbours of keys in `model`.
pub fn absent(rng: &mut Rng, model: &Model) -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = Vec::new();
    for present in model.keys().filter(|_| rng.one_in(5)) {
        keys.push([&present[..], &[0]].concat());
        keys.push(present[..present.len().saturating_sub(1)].to_vec());
        keys.push([&present[..], b"\xff\xff"].concat());
    }
    keys.retain(|key| !model.contains_key(key));
    keys
}
