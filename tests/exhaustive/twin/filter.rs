//! Filters: LevelDB's `table/filter_block.cc`, `util/bloom.cc` and `util/hash.cc`, and the layout
//! of whole-table filters at the head of `filter/whole_table.rs`, which LevelDB does not have.

use super::coding::{fixed32, fixed64};

/// LevelDB's hash of a key in a bloom filter. `tail` turns one of the last bytes, after the last
/// whole word, into a number.
fn hash(key: &[u8], tail: impl Fn(u8) -> u32) -> u32 {
    const M: u32 = 0xc6a4_a793;
    let mut hash = 0xbc9f_1d34 ^ (key.len() as u32).wrapping_mul(M);
    let whole = key.len() / 4 * 4;
    for at in (0..whole).step_by(4) {
        hash = hash.wrapping_add(fixed32(key, at).unwrap()).wrapping_mul(M);
        hash ^= hash >> 16;
    }
    let rest = &key[whole..];
    if !rest.is_empty() {
        for (i, byte) in rest.iter().enumerate() {
            hash = hash.wrapping_add(tail(*byte) << (8 * i));
        }
        hash = hash.wrapping_mul(M);
        hash ^= hash >> 24;
    }
    hash
}

fn may_match_hash(hash: u32, filter: &[u8]) -> bool {
    if filter.len() < 2 {
        return false;
    }
    let (probes, array) = filter.split_last().unwrap();
    if *probes > 30 {
        return true;
    }
    let bits = array.len() as u64 * 8;
    let mut h = hash;
    for _ in 0..*probes {
        let bit = u64::from(h) % bits;
        if array[(bit / 8) as usize] >> (bit % 8) & 1 == 0 {
            return false;
        }
        h = h.wrapping_add(hash.rotate_right(17));
    }
    true
}

pub fn bloom_may_match(key: &[u8], filter: &[u8]) -> bool {
    may_match_hash(hash(key, u32::from), filter)
}

/// Returns the answer of a filter with the older name, which was written with either of two hashes:
/// docs/filters.md, under "Names".
pub fn older_bloom_may_match(key: &[u8], filter: &[u8]) -> bool {
    let signed = |byte: u8| i32::from(byte as i8) as u32;
    bloom_may_match(key, filter) || may_match_hash(hash(key, signed), filter)
}

/// A filter block: its filters, and the binary logarithm of the range of each.
#[derive(Debug)]
pub struct FilterBlock<'a> {
    pub filters: Vec<&'a [u8]>,
    pub base_lg: u8,
}

impl FilterBlock<'_> {
    pub fn may_match(&self, block_offset: u64, key: &[u8]) -> bool {
        let index = u128::from(block_offset) >> self.base_lg;
        let filter = usize::try_from(index).ok().and_then(|index| self.filters.get(index));
        filter.is_none_or(|filter| bloom_may_match(key, filter))
    }
}

/// Decodes a filter block. All of the array must be right, or the block is malformed and matches
/// every key: docs/filters.md, under "What a damaged filter does". LevelDB looks only at the two
/// offsets of one filter, and says "no" if both are the same, even past the end.
pub fn filter_block(src: &[u8]) -> Option<FilterBlock<'_>> {
    let array_end = src.len().checked_sub(5)?;
    let base_lg = src[src.len() - 1];
    let array = fixed32(src, array_end)? as usize;
    // Ranges of 2^64 bytes: for C++, the shift is undefined.
    if array > array_end || !(array_end - array).is_multiple_of(4) || base_lg >= 64 {
        return None;
    }
    // The offset of the array is also the end of the last filter.
    let offsets: Vec<usize> =
        (array..array_end + 1).step_by(4).map(|at| fixed32(src, at).unwrap() as usize).collect();
    let filters = offsets.windows(2).map(|pair| src[..array].get(pair[0]..pair[1]));
    Some(FilterBlock { filters: filters.collect::<Option<_>>()?, base_lg })
}

/// A whole-table filter.
#[derive(Debug)]
pub struct Whole<'a> {
    array: &'a [u8],
    seed: u64,
    pub keys: u64,
    starts: u32,
    segment_lg: u8,
    pub width: u8,
}

/// Decodes a whole-table filter; `None` for bytes of any other layout.
pub fn whole(src: &[u8]) -> Option<Whole<'_>> {
    let (array, fields) = src.split_at(src.len().checked_sub(22)?);
    let whole = Whole {
        array,
        seed: fixed64(fields, 0)?,
        keys: fixed64(fields, 8)?,
        starts: fixed32(fields, 16)?,
        segment_lg: fields[20],
        width: fields[21],
    };
    if src.iter().all(|byte| *byte == 0) && array.is_empty() {
        return Some(whole);
    }
    let slots = (u128::from(whole.starts) + 2) << whole.segment_lg.min(18);
    let bytes = (slots * u128::from(whole.width)).div_ceil(8);
    // Each key was alone in a slot once, when the array was built.
    let is_sound = (1..=slots).contains(&u128::from(whole.keys))
        && whole.starts > 0
        && whole.segment_lg <= 18
        && (1..=57).contains(&whole.width)
        && bytes == array.len() as u128;
    is_sound.then_some(whole)
}

impl Whole<'_> {
    pub fn may_match(&self, hash: u64) -> bool {
        if self.keys == 0 {
            return false;
        }
        let p = (hash ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let s = p ^ p >> 32;
        let segment = 1_u128 << self.segment_lg;
        let a = (u128::from(s) * (u128::from(self.starts) * segment)) >> 64;
        let low = segment - 1;
        let slots = [
            a,
            (a + segment) ^ (u128::from(s >> 18) & low),
            (a + 2 * segment) ^ (u128::from(s) & low),
        ];
        let print = s.wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(32);
        let print = print & ((1 << self.width) - 1);
        slots.iter().fold(print, |print, slot| print ^ self.slot(*slot)) == 0
    }

    /// Returns the bits of a slot, one by one.
    fn slot(&self, slot: u128) -> u64 {
        (0..u128::from(self.width)).fold(0, |value, i| {
            let bit = (slot * u128::from(self.width) + i) as usize;
            value | u64::from(self.array[bit / 8] >> (bit % 8) & 1) << i
        })
    }
}
