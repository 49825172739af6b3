//! Adds a kind of filter of your own: `cargo run --release --example filter_policy`.
//!
//! This one is a blocked bloom filter: all bits of a key are in one line of 64 bytes, so a query
//! costs one cache miss. It is wrong a little more often than a bloom filter of the same size,
//! because some lines get more keys than others.

use minikv::{BloomFilterPolicy, Db, FilterGenerator, FilterPolicy, Options, Readable, Result};

const LINE_BYTES: usize = 64;
/// Number of bits that are set for a key.
const PROBES: u32 = 6;

#[derive(Clone, Copy, Debug)]
struct BlockedBloom {
    bits_per_key: usize,
}

impl FilterPolicy for BlockedBloom {
    fn name(&self) -> &str {
        "example.BlockedBloom"
    }

    fn create(&self, keys: &[&[u8]], dst: &mut Vec<u8>) {
        let mut generator = self.generator();
        keys.iter().for_each(|key| generator.add_key(key));
        generator.finish(dst);
    }

    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        let lines = filter.len() / LINE_BYTES;
        // A filter of any other length is not one of ours, so it may not rule out any key.
        if lines == 0 || !filter.len().is_multiple_of(LINE_BYTES) {
            return true;
        }
        bits_of(hash(key), lines).all(|(byte, bit)| filter[byte] & bit != 0)
    }

    fn generator(&self) -> Box<dyn FilterGenerator> {
        Box::new(Hashes { bits_per_key: self.bits_per_key, hashes: Vec::new() })
    }
}

/// Keeps eight bytes of each key until the number of keys is known.
#[derive(Debug)]
struct Hashes {
    bits_per_key: usize,
    hashes: Vec<u64>,
}

impl FilterGenerator for Hashes {
    fn add_key(&mut self, key: &[u8]) {
        self.hashes.push(hash(key));
    }

    fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    fn finish(&mut self, dst: &mut Vec<u8>) {
        // Versions of a key are neighbours.
        self.hashes.dedup();
        let bits = self.hashes.len() * self.bits_per_key;
        let lines = bits.div_ceil(8 * LINE_BYTES).max(1);
        let start = dst.len();
        dst.resize(start + lines * LINE_BYTES, 0);
        for hash in self.hashes.drain(..) {
            bits_of(hash, lines).for_each(|(byte, bit)| dst[start + byte] |= bit);
        }
    }
}

/// Returns the bytes and the bits in them that belong to a key, all in one of the lines.
fn bits_of(hash: u64, lines: usize) -> impl Iterator<Item = (usize, u8)> {
    let line = (((hash >> 32) * lines as u64) >> 32) as usize;
    let (first, step) = (hash as u32, (hash >> 16) as u32 | 1);
    (0..PROBES).map(move |probe| {
        let bit = first.wrapping_add(probe.wrapping_mul(step)) as usize % (8 * LINE_BYTES);
        (line * LINE_BYTES + bit / 8, 1 << (bit % 8))
    })
}

/// FNV-1a, mixed so that every bit depends on all bytes. Filters are on disk, so their hash must
/// never change; that of `std` may.
fn hash(key: &[u8]) -> u64 {
    let step = |hash: u64, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = key.iter().fold(0xcbf2_9ce4_8422_2325, step);
    let hash = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    hash ^ (hash >> 32)
}

/// Returns the number of data blocks that gets of `lookups` absent keys read.
fn blocks_of_absent_keys(policy: impl FilterPolicy, lookups: u32) -> Result<u64> {
    let home = tempfile::tempdir().expect("a temporary directory");
    // Large blocks, because LevelDB's format has a filter for each.
    let options = Options::default().create_if_missing(true).block_bytes(32 << 10);
    let db = Db::open(home.path().join("db"), options.filter_policy(policy))?;
    for i in 0..50_000 {
        db.put(format!("key{:07}", 2 * i), format!("the value of {i}"))?;
    }
    db.compact_range(..)?;
    let mut blocks = 0;
    for i in 0..lookups {
        let key = |number| format!("key{:07}", number * 104_729 % 100_000);
        assert!(db.get(key(2 * u64::from(i)))?.is_some(), "a filter denied a key");
        let (value, trace) = db.get_traced(key(2 * u64::from(i) + 1))?;
        assert_eq!(value, None);
        blocks += trace.total().data_blocks();
    }
    Ok(blocks)
}

fn main() -> Result<()> {
    let lookups = 20_000;
    let blocked = blocks_of_absent_keys(BlockedBloom { bits_per_key: 10 }, lookups)?;
    let bloom = blocks_of_absent_keys(BloomFilterPolicy::new(10), lookups)?;
    println!("data blocks read by {lookups} gets of absent keys:");
    println!("{blocked:>6} with a blocked bloom filter\n{bloom:>6} with LevelDB's bloom filter");
    assert!((1..=lookups / 40).contains(&(blocked as u32)), "the rate is not what it should be");
    Ok(())
}
