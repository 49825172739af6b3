//! The filter block of a table: one filter for each 2 KiB range of data-block offsets. On-disk
//! format: do not change.
//!
//! ```text
//! filter 0 | filter 1 | ... | offset of filter 0: fixed32 | offset of filter 1 | ...
//!     | offset of the array of offsets: fixed32 | base_lg: 1 byte, 11
//!
//! a data block of 4 KiB at 0, another of 7 KiB at 4 KiB, 10 bits a key, one key each:
//!   0  (9 bytes)     filter of the first block's keys, for 0..2 KiB
//!   9  (9 bytes)     filter of the second block's keys, for 4..6 KiB
//!   18 (5 * 4 bytes) 0  9  9  18  18     ranges in which no block starts have an empty filter
//!   38 (4 bytes)     18                  where the array starts; also where the last filter ends
//!   42               0b                  2^11 = 2048
//! ```
//!
//! The filter of the data block at `offset` has the index `offset >> base_lg`. Blocks that start in
//! the same 2 KiB range share a filter, and a block longer than a range is followed by empty
//! filters. Defined by LevelDB's `table/filter_block.h` and `doc/table_format.md`.

use std::sync::Arc;

use bytes::Bytes;

use crate::filter::policy::{FilterGenerator, FilterPolicy};
use crate::format::coding::get_fixed32;

/// Base-2 logarithm of the size, in bytes, of the range of block offsets that share a filter.
/// LevelDB reads any value, and always writes this one.
const BASE_LG: u8 = 11;
/// Total length, in bytes, of the two fields after the array: the array's offset and base_lg.
const TAIL_BYTES: usize = 5;

/// Builds a filter block. Calls must match `(start_block add_key*)* finish`.
#[doc(alias = "filterWriter")]
#[derive(Debug)]
pub struct FilterBlockBuilder {
    generator: Box<dyn FilterGenerator>,
    filters: Vec<u8>,
    /// Offset of each finished filter in the filter block.
    offsets: Vec<u32>,
    /// Whether an offset did not fit in 32 bits.
    overflowed: bool,
}

impl FilterBlockBuilder {
    /// Creates a builder of a filter block. `policy` builds the filters.
    pub fn new(policy: &dyn FilterPolicy) -> FilterBlockBuilder {
        FilterBlockBuilder {
            generator: policy.generator(),
            filters: Vec::new(),
            offsets: Vec::new(),
            overflowed: false,
        }
    }

    /// Starts the data block at `offset` in the file. The keys added next belong to this block.
    /// Offsets must not decrease.
    pub fn start_block(&mut self, offset: u64) {
        let index = offset >> BASE_LG;
        debug_assert!(index >= self.offsets.len() as u64);
        while index > self.offsets.len() as u64 && !self.overflowed {
            self.end_filter();
        }
    }

    /// Adds a key of the current data block.
    #[inline]
    pub fn add_key(&mut self, key: &[u8]) {
        self.generator.add_key(key);
    }

    /// Returns the finished block, without compression or trailer.
    pub fn finish(mut self) -> Vec<u8> {
        if !self.generator.is_empty() {
            self.end_filter();
        }
        let Ok(array_offset) = u32::try_from(self.filters.len()) else {
            return Vec::new();
        };
        if self.overflowed {
            // Readers treat an empty filter block as malformed, so every key may match.
            return Vec::new();
        }
        let mut block = self.filters;
        for offset in self.offsets {
            block.extend_from_slice(&offset.to_le_bytes());
        }
        block.extend_from_slice(&array_offset.to_le_bytes());
        block.push(BASE_LG);
        block
    }

    #[doc(alias = "GenerateFilter")]
    fn end_filter(&mut self) {
        match u32::try_from(self.filters.len()) {
            Ok(offset) => self.offsets.push(offset),
            Err(_) => self.overflowed = true,
        }
        if !self.generator.is_empty() {
            self.generator.finish(&mut self.filters);
        }
    }
}

/// Queries the filters of a filter block. A malformed block answers "may match" for every key: a
/// filter may cost an unnecessary read, but must never hide a key.
#[doc(alias = "filterBlock")]
#[derive(Clone, Debug)]
pub struct FilterBlockReader {
    policy: Arc<dyn FilterPolicy>,
    contents: Bytes,
    /// Offset of the array of offsets, which is also the end of the last filter.
    array_offset: usize,
    filters: usize,
    base_lg: u8,
    malformed: bool,
}

impl FilterBlockReader {
    /// Creates a reader of `contents`, a whole filter block without its trailer. `policy` must have
    /// the name or alias under which the block was found.
    pub fn new(policy: Arc<dyn FilterPolicy>, contents: Bytes) -> FilterBlockReader {
        let layout = layout(&contents);
        let malformed = layout.is_none();
        let (array_offset, filters, base_lg) = layout.unwrap_or((0, 0, BASE_LG));
        FilterBlockReader { policy, contents, array_offset, filters, base_lg, malformed }
    }

    /// Returns whether `key` may be in the data block at `block_offset`. Returns true if there is
    /// no filter for that offset, or if the filter block is malformed.
    #[inline]
    pub fn key_may_match(&self, block_offset: u64, key: &[u8]) -> bool {
        match self.filter_range(block_offset) {
            // As in LevelDB, an empty filter is queried, too: there may be policies that need no
            // data.
            Some(range) => self.policy.may_match(key, &self.contents[range]),
            None => true,
        }
    }

    /// Returns whether the contents do not have the layout of a filter block.
    pub fn is_malformed(&self) -> bool {
        self.malformed
    }

    /// Returns the number of filters, including empty ones.
    pub fn filter_count(&self) -> usize {
        self.filters
    }

    /// Returns the number of empty filters, which belong to 2 KiB ranges in which no data block
    /// starts.
    pub fn empty_filter_count(&self) -> usize {
        let end = |i: usize| get_fixed32(&self.contents, self.array_offset + i * 4);
        (0..self.filters).filter(|&i| end(i) == end(i + 1)).count()
    }

    /// Returns the filter for the data block at `block_offset`, or `None` if there is no such
    /// filter.
    pub fn filter(&self, block_offset: u64) -> Option<&[u8]> {
        self.contents.get(self.filter_range(block_offset)?)
    }

    /// Returns the memory that the filter block takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.contents.len()
    }

    /// Returns the position in `contents` of the filter for the data block at `block_offset`.
    #[inline]
    fn filter_range(&self, block_offset: u64) -> Option<std::ops::Range<usize>> {
        let index = usize::try_from(block_offset >> self.base_lg).ok()?;
        if index >= self.filters {
            return None;
        }
        // The array is followed by the array's own offset, which is also the end of the last
        // filter.
        let at = self.array_offset + index * 4;
        let start = get_fixed32(&self.contents, at)? as usize;
        let end = get_fixed32(&self.contents, at + 4)? as usize;
        Some(start..end)
    }
}

/// Returns the array's offset, the number of filters and base_lg. Returns `None` if `contents` is
/// not a filter block; in a filter block, the offsets neither decrease nor point past the filters.
fn layout(contents: &[u8]) -> Option<(usize, usize, u8)> {
    let tail = contents.len().checked_sub(TAIL_BYTES)?;
    let base_lg = contents[contents.len() - 1];
    let array_offset = get_fixed32(contents, tail)? as usize;
    let array = contents.get(array_offset..tail)?;
    if array.len() % 4 != 0 || u32::from(base_lg) >= u64::BITS {
        return None;
    }
    let mut last = 0;
    for offset in array.chunks_exact(4) {
        let offset = get_fixed32(offset, 0)? as usize;
        if offset < last || offset > array_offset {
            return None;
        }
        last = offset;
    }
    Some((array_offset, array.len() / 4, base_lg))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::BloomFilterPolicy;

    const KIB: u64 = 1024;

    fn bloom() -> Arc<dyn FilterPolicy> {
        Arc::new(BloomFilterPolicy::new(10))
    }

    fn reader(contents: &[u8]) -> FilterBlockReader {
        FilterBlockReader::new(bloom(), Bytes::copy_from_slice(contents))
    }

    /// Returns a filter block for data blocks, each given by its offset and keys.
    fn build(blocks: &[(u64, &[&str])]) -> Vec<u8> {
        let mut builder = FilterBlockBuilder::new(&*bloom());
        for (offset, keys) in blocks {
            builder.start_block(*offset);
            keys.iter().for_each(|key| builder.add_key(key.as_bytes()));
        }
        builder.finish()
    }

    /// Returns the array of offsets, followed by the array's own offset.
    fn offsets(block: &[u8]) -> Vec<u32> {
        let end = block.len() - 1;
        let start = get_fixed32(block, end - 4).unwrap() as usize;
        block[start..end].chunks(4).map(|c| get_fixed32(c, 0).unwrap()).collect()
    }

    #[test]
    fn spans_without_a_block_have_empty_filters() {
        let mut builder = FilterBlockBuilder::new(&*bloom());
        for offset in [0, 3 << 11, 4 << 11] {
            builder.start_block(offset);
            builder.add_key(b"key");
        }
        builder.start_block(6 << 11);
        let reader = reader(&builder.finish());
        assert_eq!((reader.filter_count(), reader.empty_filter_count()), (6, 3));
        let filters = (0..7).map(|span| reader.filter(span << 11).map(<[u8]>::len));
        let expected = [Some(9), Some(0), Some(0), Some(9), Some(9), Some(0), None];
        assert_eq!(filters.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn an_empty_block() {
        let block = FilterBlockBuilder::new(&*bloom()).finish();
        assert_eq!(block, [0, 0, 0, 0, 11]);
        let reader = reader(&block);
        assert!(!reader.is_malformed());
        assert!(reader.key_may_match(0, b"foo"));
        assert!(reader.key_may_match(100_000, b"foo"));
    }

    #[test]
    fn a_first_block_of_4_kib_gives_two_offsets() {
        let mut builder = FilterBlockBuilder::new(&*bloom());
        builder.start_block(0);
        builder.add_key(b"first");
        builder.start_block(4 * KIB);
        assert_eq!(builder.offsets, [0, 9]);
    }

    #[test]
    fn a_second_block_of_7_kib_brings_the_array_to_five() {
        let mut builder = FilterBlockBuilder::new(&*bloom());
        builder.start_block(0);
        builder.add_key(b"first");
        builder.start_block(4 * KIB);
        builder.add_key(b"second");
        builder.start_block(11 * KIB);
        assert_eq!(builder.offsets, [0, 9, 9, 18, 18]);

        // This is the worked example at the head of the module, byte for byte.
        let block = builder.finish();
        let mut expected = Vec::new();
        bloom().create(&[b"first"], &mut expected);
        bloom().create(&[b"second"], &mut expected);
        for offset in [0u32, 9, 9, 18, 18, 18] {
            expected.extend_from_slice(&offset.to_le_bytes());
        }
        expected.push(11);
        assert_eq!(block, expected);
    }

    #[test]
    fn a_lookup_uses_the_offsets_of_its_own_block() {
        let block = build(&[(0, &["first"]), (4 * KIB, &["second"]), (11 * KIB, &[])]);
        let reader = reader(&block);
        assert_eq!(reader.filter_count(), 5);
        assert_eq!(reader.filter_range(0), Some(0..9), "entries 0 and 1");
        assert_eq!(reader.filter_range(4 * KIB), Some(9..18), "entries 2 and 3");
        assert!(reader.key_may_match(0, b"first") && !reader.key_may_match(0, b"second"));
        assert!(reader.key_may_match(4 * KIB, b"second"));
        assert!(!reader.key_may_match(4 * KIB, b"first"));
    }

    #[test]
    fn a_block_of_7_kib_yields_one_filter_and_empty_ones() {
        let block = build(&[(0, &["a", "b", "c"]), (7 * KIB, &["d"])]);
        assert_eq!(offsets(&block), [0, 9, 9, 9, 18]);
        let reader = reader(&block);
        let with_bytes = |offset| !reader.filter_range(offset).unwrap().is_empty();
        assert_eq!([0, 2 * KIB, 4 * KIB].map(with_bytes), [true, false, false]);
        assert!(!reader.key_may_match(2 * KIB, b"a"), "no block starts there");
    }

    /// A policy in which every key matches an empty filter, and no key matches any other filter.
    #[derive(Debug)]
    struct MatchesEmpty;

    impl FilterPolicy for MatchesEmpty {
        fn name(&self) -> &str {
            "test.MatchesEmpty"
        }

        fn create(&self, _keys: &[&[u8]], _dst: &mut Vec<u8>) {}

        fn may_match(&self, _key: &[u8], filter: &[u8]) -> bool {
            filter.is_empty()
        }

        fn generator(&self) -> Box<dyn FilterGenerator> {
            bloom().generator()
        }
    }

    #[test]
    fn the_policy_is_asked_about_an_empty_filter() {
        let block = Bytes::from(build(&[(0, &["a", "b", "c"]), (7 * KIB, &["d"])]));
        let reader = FilterBlockReader::new(Arc::new(MatchesEmpty), block);
        assert!(reader.key_may_match(2 * KIB, b"a") && !reader.key_may_match(0, b"a"));
    }

    #[test]
    fn blocks_that_start_in_one_span_share_a_filter() {
        // This case is "MultiChunk" from LevelDB's table/filter_block_test.cc.
        let block =
            build(&[(0, &["foo"]), (2000, &["bar"]), (3100, &["box"]), (9000, &["box", "hello"])]);
        let reader = reader(&block);
        for (offset, present, absent) in [
            (0, &["foo", "bar"][..], &["box", "hello"][..]),
            (2000, &["foo", "bar"], &["box", "hello"]),
            (3100, &["box"], &["foo", "bar", "hello"]),
            (4100, &[], &["foo", "bar", "box", "hello"]),
            (9000, &["box", "hello"], &["foo", "bar"]),
        ] {
            assert!(present.iter().all(|key| reader.key_may_match(offset, key.as_bytes())));
            assert!(!absent.iter().any(|key| reader.key_may_match(offset, key.as_bytes())));
        }
        assert!(reader.key_may_match(20_000, b"foo"), "past the last filter nothing is known");
    }

    #[test]
    fn every_damaged_layout_may_match() {
        let good = build(&[(0, &["first"]), (4 * KIB, &["second"]), (11 * KIB, &[])]);
        assert!(!reader(&good).key_may_match(4 * KIB, b"first"));
        let tail = good.len() - TAIL_BYTES;
        let patched = |at: usize, bytes: &[u8]| {
            let mut block = good.clone();
            block[at..at + bytes.len()].copy_from_slice(bytes);
            block
        };
        let damaged = [
            good[..4].to_vec(),
            Vec::new(),
            patched(tail, &u32::MAX.to_le_bytes()),
            patched(tail, &(tail as u32 - 1).to_le_bytes()),
            patched(good.len() - 1, &[64]),
            patched(18 + 2 * 4, &u32::MAX.to_le_bytes()),
            patched(18 + 3 * 4, &1u32.to_le_bytes()),
            patched(18 + 4 * 4, &19u32.to_le_bytes()),
        ];
        for block in damaged {
            let reader = reader(&block);
            assert!(reader.is_malformed(), "{block:02x?}");
            assert!(reader.key_may_match(4 * KIB, b"first"), "{block:02x?}");
        }
    }

    #[test]
    fn no_change_of_a_byte_panics() {
        let good = build(&[(0, &["first"]), (4 * KIB, &["second"]), (11 * KIB, &[])]);
        for at in 0..good.len() {
            for byte in 0..=255 {
                let mut block = good.clone();
                block[at] = byte;
                let reader = reader(&block);
                for offset in [0, 4 * KIB, 11 * KIB, u64::MAX] {
                    reader.key_may_match(offset, b"first");
                }
            }
        }
    }
}
