//! Bloom filters, filter blocks and whole-table filters.

use std::sync::Arc;

use minikv::filter::{FilterBlockReader, TableFilter};
use minikv::{BloomFilterPolicy, Bytes, FilterPolicy};

use crate::{Input, covered, is_long, twin, up_to, words, words_of};

/// Keys of all lengths around a word, with bytes that are negative in C.
const KEYS: [&[u8]; 12] = [
    b"",
    b"a",
    b"\x80",
    b"ab",
    b"a\xff",
    b"abc",
    b"ab\x80",
    b"abcd",
    b"abc\xe9",
    b"abcde",
    b"abcd\x90",
    b"abcdefg\xf0\xf1\xf2",
];

const OFFSETS: [u64; 10] = [0, 1, 2, 3, 2047, 2048, 4096, 1 << 32, (1 << 63) + 1, u64::MAX];

fn compare_bloom(policy: &BloomFilterPolicy, filter: &[u8]) {
    let _input = Input(filter);
    for key in KEYS {
        let answers = (policy.may_match(key, filter), policy.may_match_alias(key, filter));
        let expected = (
            twin::filter::bloom_may_match(key, filter),
            twin::filter::older_bloom_may_match(key, filter),
        );
        assert_eq!(answers, expected, "{key:02x?} in {filter:02x?}");
    }
}

#[test]
fn bloom_filters_answer_like_the_twin() {
    let mut inputs = 0;
    let policy = BloomFilterPolicy::new(10);
    let all: Vec<u8> = (0..=255).collect();
    words(&all, if is_long() { 2 } else { 1 }, |filter| {
        compare_bloom(&policy, filter);
        inputs += 1;
    });
    let probes = [0, 1, 2, 6, 29, 30, 31, 32, 0x7f, 0x80, 0xff];
    words(&[0, 1, 0x55, 0x80, 0xaa, 0xef, 0xff], up_to(4, 5), |array| {
        for probes in probes {
            compare_bloom(&policy, &[array, &[probes]].concat());
            inputs += 1;
        }
    });
    covered(inputs, "bloom filters");
}

fn compare_block(policy: &Arc<dyn FilterPolicy>, src: &[u8]) {
    let _input = Input(src);
    let reader = FilterBlockReader::new(policy.clone(), Bytes::copy_from_slice(src));
    let expected = twin::filter::filter_block(src);
    assert_eq!(reader.is_malformed(), expected.is_none(), "{src:02x?}");
    let filters = expected.as_ref().map_or(&[][..], |block| &block.filters);
    assert_eq!(reader.filter_count(), filters.len(), "{src:02x?}");
    let empty = filters.iter().filter(|filter| filter.is_empty()).count();
    assert_eq!(reader.empty_filter_count(), empty, "{src:02x?}");
    for offset in OFFSETS {
        for key in &KEYS[..5] {
            let answer = reader.key_may_match(offset, key);
            let may_match = expected.as_ref().is_none_or(|block| block.may_match(offset, key));
            assert_eq!(answer, may_match, "{key:02x?} at {offset} in {src:02x?}");
        }
    }
}

#[test]
fn filter_blocks_answer_like_the_twin() {
    let mut inputs = 0;
    let policy: Arc<dyn FilterPolicy> = Arc::new(BloomFilterPolicy::new(10));
    words(&[0, 1, 2, 4, 5, 11, 0xff], up_to(5, 7), |src| {
        compare_block(&policy, src);
        inputs += 1;
    });
    let offsets = if is_long() { &[0, 1, 2, 3, 4, u32::MAX][..] } else { &[0, 2, 3, u32::MAX] };
    let logs =
        if is_long() { &[0, 1, 11, 31, 32, 63, 64, 65, 255][..] } else { &[0, 11, 63, 64, 255] };
    for filters in [&[][..], &[0xff], &[0xff, 1], &[0, 6, 0xff, 6]] {
        words(offsets, 3, |offsets| {
            let array: Vec<u8> = offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect();
            let body = [filters, &array].concat();
            let start = filters.len() as u32;
            for at in [start, start + 1, start + 4, start.wrapping_sub(1), 0, u32::MAX] {
                for base_lg in logs {
                    compare_block(&policy, &[&body[..], &at.to_le_bytes(), &[*base_lg]].concat());
                    inputs += 1;
                }
            }
        });
    }
    covered(inputs, "filter blocks");
}

fn compare_whole(src: &[u8]) {
    let _input = Input(src);
    let found = TableFilter::decode(Bytes::copy_from_slice(src));
    let expected = twin::filter::whole(src);
    let layout = found.as_ref().map(|filter| (filter.keys(), filter.fingerprint_bits()));
    let expected_layout = expected.as_ref().map(|whole| (whole.keys, u32::from(whole.width)));
    assert_eq!(layout, expected_layout, "{src:02x?}");
    let (Some(found), Some(expected)) = (found, expected) else { return };
    for hash in [0, 1, 0xa921_e370_4fda_881d, 1 << 63, u64::MAX, 0x0123_4567_89ab_cdef] {
        let answers = (found.may_match_hash(hash), expected.may_match(hash));
        assert_eq!(answers.0, answers.1, "{hash:x} in {src:02x?}");
    }
}

/// Fields of whole-table filters at the borders of what they may be.
struct Fields {
    seeds: &'static [u64],
    keys: &'static [u64],
    starts: &'static [u32],
    lgs: &'static [u8],
    widths: &'static [u8],
}

const SHORT: Fields = Fields {
    seeds: &[0, u64::MAX],
    keys: &[0, 1, u64::MAX],
    starts: &[0, 1, 2, u32::MAX],
    lgs: &[0, 1, 2, 18, 19, 255],
    widths: &[0, 1, 8, 57, 58, 255],
};

const LONG: Fields = Fields {
    seeds: &[0, 1, 0x1234_5678_9abc_def0, u64::MAX],
    keys: &[0, 1, 2, 1 << 63, u64::MAX],
    starts: &[0, 1, 2, 3, 5, 1 << 31, u32::MAX],
    lgs: &[0, 1, 2, 3, 4, 17, 18, 19, 31, 63, 64, 255],
    widths: &[0, 1, 2, 3, 7, 8, 9, 31, 32, 33, 56, 57, 58, 63, 64, 255],
};

impl Fields {
    fn each(&self, mut each: impl FnMut(u32, u8, u8, &[u8])) {
        for (starts, lg) in self.starts.iter().flat_map(|a| self.lgs.iter().map(move |b| (a, b))) {
            for width in self.widths {
                for (seed, keys) in
                    self.seeds.iter().flat_map(|a| self.keys.iter().map(move |b| (a, b)))
                {
                    let fields = [seed.to_le_bytes(), keys.to_le_bytes()].concat();
                    let end = [&fields[..], &starts.to_le_bytes(), &[*lg, *width]].concat();
                    each(*starts, *lg, *width, &end);
                }
            }
        }
    }
}

#[test]
fn whole_table_filters_answer_like_the_twin() {
    let mut inputs = 0;
    let mut compare = |src: &[u8]| {
        compare_whole(src);
        inputs += 1;
    };
    let fields = if is_long() { &LONG } else { &SHORT };
    fields.each(|starts, lg, width, end| {
        let slots = (u128::from(starts) + 2) << lg.min(64);
        let bytes = (slots * u128::from(width)).div_ceil(8);
        // Right lengths, as far as they are short, and those beside them.
        let right = if bytes < 1000 { bytes as usize } else { 40 };
        for len in [0, 1, right.saturating_sub(1), right, right + 1, right + 8] {
            for byte in [0, 0xff, 0xa5] {
                let array = vec![byte; len];
                compare(&[&array, end].concat());
            }
            let array: Vec<u8> = (0..len).map(|i| (i * 37) as u8).collect();
            compare(&[&array, end].concat());
        }
    });
    for len in 0..60 {
        compare(&vec![0; len]);
        compare(&vec![1; len]);
    }
    words_of(&[0, 1, 0xe5], 12, &mut |array| {
        // The example at the head of `filter/whole_table.rs`, with any array.
        if is_long() || array[5..].iter().all(|byte| *byte == 0) {
            let end = b"\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\x02\x08";
            compare(&[array, end].concat());
        }
    });
    covered(inputs, "whole-table filters");
}
